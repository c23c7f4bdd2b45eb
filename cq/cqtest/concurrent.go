package cqtest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// unitAt is the unit of a slot by formula, so that a reader can judge what it got without asking the writer.
func unitAt(queue, slot int64) cq.Unit {
	return cq.Unit{PhyOffset: slot*1000 + queue*150, Size: int32(101 + slot%49), TagsCode: slot*7 - queue, StoreTimestampMs: slot + 1}
}

var concurrentCases = []testCase{
	{"readers beside one appender", func(t *testing.T, e *env) {
		const slots, readers = 600, 4
		s := e.open(t, OpenOptions{})
		stop := make(chan struct{})
		errs := make(chan error, readers)
		var wg sync.WaitGroup
		for r := range readers {
			wg.Go(func() { errs <- e.readUntil(s, stop, r) })
		}
		var err error
		for slot := int64(0); slot < slots && err == nil; slot += 3 {
			var batch []cq.Entry
			for i := range int64(3) {
				for q, k := range allKeys {
					batch = append(batch, cq.Entry{Key: k, QueueOffset: slot + i, Unit: unitAt(int64(q), slot+i)})
				}
			}
			err = s.Append(t.Context(), batch)
			if err == nil && slot%60 == 0 {
				err = s.Flush(context.Background())
			}
		}
		close(stop)
		wg.Wait()
		close(errs)
		require.NoError(t, err)
		for err := range errs {
			require.NoError(t, err)
		}
		await(t, s)
		for q, k := range allKeys {
			units := readAll(t, mustQueue(t, s, k), 0, slots, 100)
			require.Len(t, units, slots)
			for i, u := range units {
				require.Equal(t, e.stored(unitAt(int64(q), int64(i))), u)
			}
		}
	}},
	{"readers beside a close", func(t *testing.T, e *env) {
		const readers = 4
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(300, keyA))
		q := mustQueue(t, s, keyA)
		var started, wg sync.WaitGroup
		started.Add(readers)
		errs := make(chan error, readers)
		for range readers {
			wg.Go(func() {
				buf := make([]cq.Unit, 300)
				first := true
				for {
					_, err := q.Read(0, buf)
					if first {
						started.Done()
						first = false
					}
					if err != nil {
						errs <- err
						return
					}
				}
			})
		}
		started.Wait()
		require.NoError(t, s.Close())
		wg.Wait()
		close(errs)
		for err := range errs {
			require.ErrorIs(t, err, cq.ErrClosed)
		}
	}},
}

// readUntil reads all queues again and again until stop is closed, and once more after that. It checks that the max
// never falls and that every slot below it reads as unitAt says.
func (e *env) readUntil(s cq.Store, stop <-chan struct{}, salt int) error {
	last := map[cq.Key]int64{}
	buf := make([]cq.Unit, 40+salt)
	for done := false; !done; {
		select {
		case <-stop:
			done = true
		default:
		}
		for i, k := range allKeys {
			q, ok := s.Queue(k)
			if !ok {
				if last[k] > 0 {
					return fmt.Errorf("queue %s vanished", k)
				}
				continue
			}
			b, err := q.Bounds()
			if err != nil {
				return err
			}
			if b.Max < last[k] {
				return fmt.Errorf("max of %s fell from %d to %d", k, last[k], b.Max)
			}
			last[k] = b.Max
			for from := max(0, b.Max-100); from < b.Max; {
				n, err := q.Read(from, buf)
				if err != nil {
					return err
				}
				if n == 0 {
					return fmt.Errorf("slot %d of %s below max %d holds no unit", from, k, b.Max)
				}
				for j, u := range buf[:n] {
					want := unitAt(int64(i), from+int64(j))
					if !e.TimeMayVary {
						want = e.stored(want)
					} else if u.StoreTimestampMs == cq.NoTimestamp {
						want.StoreTimestampMs = cq.NoTimestamp
					}
					if u != want {
						return fmt.Errorf("slot %d of %s is %+v, want %+v", from+int64(j), k, u, want)
					}
				}
				from += int64(n)
			}
		}
	}
	return nil
}
