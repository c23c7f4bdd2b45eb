package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/remoting"
)

// holdTime is how long a pull that is held may wait: longer than any row takes.
const holdTime = 10 * time.Minute

// Holding is pulls that wait for messages. Close ends it.
type Holding struct {
	Pulls    int
	wires    []*wire
	cancel   context.CancelFunc
	group    sync.WaitGroup
	answered atomic.Int64
	failed   atomic.Pointer[error]
}

// Connect opens connections for Hold, and asks something on each.
func (r *Remote) Connect(ctx context.Context, connections int) (*Holding, error) {
	ctx, cancel := context.WithCancel(ctx)
	h := &Holding{cancel: cancel}
	for range connections {
		w, err := dial(ctx, r.Addr)
		if err != nil {
			h.Close()
			return nil, err
		}
		h.wires = append(h.wires, w)
		f, err := newFrame(PullCommand("load_hold", r.Topic, 0, 0, 32, 0))
		if err == nil {
			_, err = w.c.Write(f.b)
		}
		for seen := false; err == nil && !seen; {
			err = w.read(func(answer) error {
				seen = true
				return nil
			})
		}
		if err != nil {
			h.Close()
			return nil, err
		}
	}
	return h, nil
}

// Hold sends pulls of the topic's queues, all of them empty, that wait for a message; each connection has as many, and each queue. The answers are counted as they come: each has to have a message.
func (r *Remote) Hold(h *Holding, pulls int) error {
	for i, w := range h.wires {
		n := pulls*(i+1)/len(h.wires) - pulls*i/len(h.wires)
		var out []byte
		for j := range n {
			f, err := newFrame(PullCommand("load_hold", r.Topic, int32(j%r.Queues), 0, 32, holdTime))
			if err != nil {
				return err
			}
			f.setOpaque(j)
			out = append(out, f.b...)
		}
		if _, err := w.c.Write(out); err != nil {
			return err
		}
		h.group.Go(func() {
			for answered := 0; answered < n; {
				if err := w.read(func(a answer) error {
					if !a.good() {
						return a.err()
					}
					if len(a.body) == 0 {
						return errors.New("an answer without a message")
					}
					answered++
					h.answered.Add(1)
					return w.c.SetDeadline(time.Time{})
				}); err != nil {
					err = fmt.Errorf("a pull that waits: %w", err)
					h.failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	h.Pulls += pulls
	return nil
}

// AwaitHeld returns when so many pulls wait at the broker, which is one of ours.
func (r *Remote) AwaitHeld(ctx context.Context, pulls int) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for {
		resp, err := r.Call(ctx, &remoting.Command{Code: remoting.GetBrokerRuntimeInfo})
		if err != nil {
			return err
		}
		var info struct{ Table map[string]string }
		if err := remoting.UnmarshalBody(resp.Body, &info); err != nil {
			return err
		}
		if info.Table["heldPulls"] == strconv.Itoa(pulls) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s pulls wait, want %d: %w", info.Table["heldPulls"], pulls, ctx.Err())
		case <-time.After(awaitStep):
		}
	}
}

// Answered is how many of the pulls were answered so far, or why one failed.
func (h *Holding) Answered() (int, error) {
	if err := h.failed.Load(); err != nil {
		return 0, *err
	}
	return int(h.answered.Load()), nil
}

// Close ends the connections.
func (h *Holding) Close() {
	h.cancel()
	h.group.Wait()
	for _, w := range h.wires {
		w.close()
	}
}

// Woken is how long pulls that waited took to be answered.
type Woken struct {
	SinceSend   *calibrate.Latency // since before their message was sent
	SinceStored *calibrate.Latency // since it was told to be stored; 0 where that came later
}

// wakePause is how long a pull waits before its message is sent.
const wakePause = 2 * time.Millisecond

// Wake has one consumer wait for the next message of the topic's first queue, which is empty, and sends it, again and again.
func (r *Remote) Wake(ctx context.Context, messages int) (Woken, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lat := Woken{calibrate.NewLatency(), calibrate.NewLatency()}
	consumer, err := dial(ctx, r.Addr)
	if err != nil {
		return lat, err
	}
	defer consumer.close()
	producer, err := dial(ctx, r.Addr)
	if err != nil {
		return lat, err
	}
	defer producer.close()
	send, err := newSendFrame(r.Topic, 0)
	if err != nil {
		return lat, err
	}
	one := func(w *wire) (a answer, at time.Time, err error) {
		for seen := false; err == nil && !seen; {
			err = w.read(func(got answer) error {
				a, seen = got, true
				if !a.good() {
					return a.err()
				}
				return nil
			})
		}
		return a, time.Now(), err
	}
	type came struct {
		at  time.Time
		err error
	}
	woken := make(chan came, 1)
	for n := range messages {
		f, err := newFrame(PullCommand("load_wake", r.Topic, 0, int64(n), 32, holdTime))
		if err != nil {
			return lat, err
		}
		if _, err := consumer.c.Write(f.b); err != nil {
			return lat, err
		}
		go func() {
			a, at, err := one(consumer)
			if err == nil {
				var next int
				if next, err = a.number(`"nextBeginOffset":"`); err == nil && next != n+1 {
					err = fmt.Errorf("message %d: the answer says to go on at %d", n, next)
				}
			}
			woken <- came{at, err}
		}()
		time.Sleep(wakePause)
		send.set(n)
		began := time.Now()
		_, err = producer.c.Write(send.b)
		var stored time.Time
		if err == nil {
			_, stored, err = one(producer)
		}
		if err != nil {
			cancel()
		}
		got := <-woken
		if err := errors.Join(err, got.err); err != nil {
			return lat, fmt.Errorf("wake: %w", err)
		}
		lat.SinceSend.Record(got.at.Sub(began))
		lat.SinceStored.Record(max(0, got.at.Sub(stored)))
	}
	return lat, nil
}
