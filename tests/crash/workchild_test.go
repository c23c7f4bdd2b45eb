package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/migrate/online"
	"github.com/tandemq/tandemmq/store"
)

// workEnv carries the orders of a process that works on a whole store until it is killed.
const workEnv = "TANDEMMQ_CRASH_WORKER"

// workOrders of the process.
type workOrders struct {
	Root, View, Mode string
	Run, Producers   int
	Seed             uint64
	Next             []consumed // where its consumer goes on
	Closes           bool       // it closes and opens the store now and then
	Online           bool       // somebody migrates it meanwhile
}

// spoken is a line of the process: one of them.
type spoken struct {
	Opened   int       `json:",omitempty"` // the store is open, for the so manieth time
	Acked    *acked    `json:",omitempty"`
	Consumed *consumed `json:",omitempty"`
	Removed  int       `json:",omitempty"` // log files
	Kept     int64     `json:",omitempty"` // bytes of the log behind that
	Step     string    `json:",omitempty"` // of a migration, that was done
}

// say writes a line with one call: the pipe has it or does not.
func say(what spoken) error {
	line, err := json.Marshal(what)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	return err
}

func runWorker(text string) int {
	var do workOrders
	if err := json.Unmarshal([]byte(text), &do); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	w := worker{do: do, consumer: consumer{next: make(map[queue]int64)}, deadline: time.Now().Add(10 * time.Second)}
	for _, c := range do.Next {
		w.consumer.next[c.Queue] = c.Next
	}
	for p := range do.Producers {
		w.producers = append(w.producers, &producer{rng: rand.New(rand.NewPCG(do.Seed, uint64(p)))})
	}
	for n := 1; time.Now().Before(w.deadline); n++ {
		if err := w.live(n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

type producer struct {
	rng *rand.Rand
	n   int
}

// worker is the process.
type worker struct {
	do        workOrders
	producers []*producer
	consumer  consumer
	deadline  time.Time
	migration *online.Migration // nil: nobody migrates
}

// live opens the store, works on it, and closes it.
func (w *worker) live(n int) (err error) {
	o := viewModeOf(w.do.View).options(putModeOf(w.do.Mode))
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, closeAll, err := w.open(o)
	if err != nil {
		return err
	}
	// From what the next process finds: a pool keeps the rest to itself, more than a file of it under load.
	release := s.RetainFrom("the last files", func() int64 { return s.Positions().Committed - workKeep*workLogFile })
	defer release()
	if err := say(spoken{Opened: n}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var beside, putting sync.WaitGroup
	failed := make(chan error, len(w.producers)+3)
	beside.Go(func() { failed <- w.clean(ctx, s) })
	beside.Go(func() { failed <- w.consume(ctx, s) })
	if w.migration != nil {
		beside.Go(func() { failed <- w.operate(ctx, s) })
	}
	for i, p := range w.producers {
		putting.Go(func() { failed <- w.put(s, i, p) })
	}
	putting.Wait()
	cancel()
	beside.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return errors.Join(err, closeAll())
}

// open opens the store, and what migrates it.
func (w *worker) open(o store.Options) (s *store.Store, closeAll func() error, err error) {
	if !w.do.Online {
		s, err = store.Open(w.do.Root, o)
		return s, func() error { return s.Close() }, err
	}
	if s, w.migration, err = openOnline(w.do.Root, o); err != nil {
		return nil, nil, err
	}
	return s, func() error { return closeOnline(s, w.migration) }, nil
}

// put puts until the producer's turn is over.
func (w *worker) put(s *store.Store, id int, p *producer) error {
	turn := 1 << 30
	if w.do.Closes {
		turn = 20 + p.rng.IntN(150)
	}
	for ; turn > 0 && time.Now().Before(w.deadline); turn-- {
		a, ok, err := putWork(s, p.rng, key{w.do.Run, id, p.n, 0})
		p.n++
		if err != nil {
			return err
		}
		if ok {
			if err := say(spoken{Acked: &a}); err != nil {
				return err
			}
		}
	}
	return nil
}

// clean has retention run all the time.
func (w *worker) clean(ctx context.Context, s *store.Store) error {
	for ctx.Err() == nil {
		if n := len(s.CleanNow(ctx).Removed); n > 0 {
			begin := s.Log().MinOffset()
			if err := say(spoken{Removed: n, Kept: s.Positions().Wrote - begin}); err != nil {
				return err
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// consume reads the queues in turn.
func (w *worker) consume(ctx context.Context, s *store.Store) error {
	for ctx.Err() == nil {
		idle := true
		for _, q := range workQueues() {
			c, err := w.consumer.pull(s, q)
			if err != nil {
				return err
			}
			if c != nil {
				idle = false
				if err := say(spoken{Consumed: c}); err != nil {
					return err
				}
			}
		}
		if idle {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}
