package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
)

// SendLoad says how messages of BodyBytes are sent.
type SendLoad struct {
	Connections int
	InFlight    int // how many sends of a connection wait for their answers; 1: one after the other
	Messages    int // of all connections together; their numbers begin at 0
	PerSecond   int // of all connections together; 0: as fast as they are answered
}

// Sent is what became of them.
type Sent struct {
	Took    time.Duration
	Latency *calibrate.Latency // of each, where one was in flight
	Refused int                // answers of a broker that was too busy (SYSTEM_BUSY): these messages were sent again
}

// sendFrame is a send to one queue.
type sendFrame struct {
	frame
	key, unique, body int
}

const firstUnique = 100_000_000_000

func newSendFrame(topic string, queueID int) (f sendFrame, err error) {
	// As StorePut of tests/interop/java has them.
	props := fmt.Sprintf("KEYS\x01key-%s\x02UNIQ_KEY\x017F000001000018B4AAC2%d\x02WAIT\x01true\x02TAGS\x01TagA\x02", firstKeyText, firstUnique)
	if f.frame, err = newFrame(SendCommand(topic, int32(queueID), props, bodyOf(BodyBytes))); err != nil {
		return f, err
	}
	if f.key, err = f.place("key-", firstKeyText); err != nil {
		return f, err
	}
	if f.unique, err = f.place("7F000001000018B4AAC2", strconv.Itoa(firstUnique)); err != nil {
		return f, err
	}
	f.body = len(f.b) - BodyBytes
	return f, nil
}

// set makes it message n.
func (f *sendFrame) set(n int) {
	f.setOpaque(n)
	putDigits(f.b[f.key:][:len(firstKeyText)], firstKey+n)
	putDigits(f.b[f.unique:][:12], firstUnique+n)
	putDigits(f.b[f.body:][:len(firstKeyText)], firstKey+n)
}

// sender is one connection.
type sender struct {
	l      SendLoad
	w      *wire
	frames []sendFrame // by queue
	from   int
	to     int
	lat    *calibrate.Latency
	again  []int // messages that were refused
	busy   int   // how many there were
}

// Send sends messages, of which number n goes to queue n modulo their number. An answer other than 0 is an error, but for that of a broker that is too busy.
func (r *Remote) Send(ctx context.Context, l SendLoad) (Sent, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	senders := make([]*sender, l.Connections)
	for i := range senders {
		w, err := dial(ctx, r.Addr)
		if err != nil {
			return Sent{}, err
		}
		defer w.close()
		s := &sender{l: l, w: w, from: l.Messages * i / l.Connections, to: l.Messages * (i + 1) / l.Connections, lat: calibrate.NewLatency()}
		for q := range r.Queues {
			f, err := newSendFrame(r.Topic, q)
			if err != nil {
				return Sent{}, err
			}
			s.frames = append(s.frames, f)
		}
		senders[i] = s
	}
	var group sync.WaitGroup
	faults := make([]error, len(senders))
	start := time.Now()
	for i, s := range senders {
		group.Go(func() {
			if faults[i] = s.run(start); faults[i] != nil {
				cancel() // the others need not go on
			}
		})
	}
	group.Wait()
	sent := Sent{Took: time.Since(start), Latency: calibrate.NewLatency()}
	for _, s := range senders {
		sent.Latency.Merge(s.lat)
		sent.Refused += s.busy
	}
	return sent, errors.Join(faults...)
}

// writeBytes is how much a connection writes at once.
const writeBytes = 64 << 10

func (s *sender) run(start time.Time) error {
	var out []byte
	next, answered, inFlight := s.from, 0, 0
	for answered < s.to-s.from {
		out = out[:0]
		for ; (next < s.to || len(s.again) > 0) && inFlight < s.l.InFlight && len(out) < writeBytes; inFlight++ {
			n := next
			if k := len(s.again); k > 0 {
				n, s.again = s.again[k-1], s.again[:k-1]
			} else {
				next++
				if s.l.PerSecond > 0 {
					due := time.Duration(float64(n-s.from) * float64(s.l.Connections) / float64(s.l.PerSecond) * float64(time.Second))
					time.Sleep(time.Until(start.Add(due)))
				}
			}
			f := &s.frames[n%len(s.frames)]
			f.set(n)
			out = append(out, f.b...)
		}
		began := time.Now()
		if len(out) > 0 {
			if _, err := s.w.c.Write(out); err != nil {
				return err
			}
		}
		if err := s.w.read(func(a answer) error {
			inFlight--
			if a.busy() {
				n, err := a.number(`"opaque":`)
				s.again, s.busy = append(s.again, n-firstOpaque), s.busy+1
				return err
			}
			if !a.good() {
				return fmt.Errorf("send: %w", a.err())
			}
			answered++
			if s.l.InFlight == 1 {
				s.lat.Record(time.Since(began))
			}
			return nil
		}); err != nil {
			return fmt.Errorf("%d of %d messages were stored: %w", answered, s.to-s.from, err)
		}
	}
	return nil
}
