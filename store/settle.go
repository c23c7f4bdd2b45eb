package store

import (
	"context"
	"errors"
	"sync"
)

// settling is what of a view that is late was delivered. Who delivers notes it there; a goroutine makes it what readers see, and publishes it.
type settling struct {
	kick chan struct{} // there is something to settle; closed when nothing more will come
	room chan struct{} // something was settled

	mu    sync.Mutex
	end   int64      // behind what was delivered
	last  recordMark // the last record of it, phy -1 for none
	ahead int        // deliveries of it that are not settled
}

// maxSettleAhead bounds the deliveries that are not settled. They may be of one record each, and are kept where somebody is to be told of them.
const maxSettleAhead = 4096

// delivered returns up to where, and in how many deliveries that are not settled.
func (s *settling) delivered() (end int64, last recordMark, ahead int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end, s.last, s.ahead
}

// add notes a delivery and returns how many there are.
func (s *settling) add(end int64, last recordMark) (ahead int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = end
	if last.phy >= 0 {
		s.last = last
	}
	s.ahead++
	return s.ahead
}

// take notes that so many deliveries were settled.
func (s *settling) take(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead -= n
	signal(s.room)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// settled does work, which delivers, and returns when what it delivered is what readers see. A settling that fails ends the context of work. progress is told how far
// it came, if the view is late; nil: nobody.
func (f *follower) settled(ctx context.Context, progress func(phy int64), work func(ctx context.Context) error) error {
	v, ok := f.view.(lateView)
	if !ok || !v.late() {
		return work(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &settling{kick: make(chan struct{}, 1), room: make(chan struct{}, 1), end: f.from.Load(), last: recordMark{phy: -1}}
	result := make(chan error, 1)
	go func() {
		err := f.settleAll(ctx, v, s, progress)
		if err != nil {
			cancel()
		}
		result <- err
	}()
	f.settling = s
	err := work(ctx)
	f.settling = nil
	close(s.kick)
	late := <-result
	if late != nil && errors.Is(err, context.Canceled) {
		err = nil // it was ended
	}
	return errors.Join(late, err)
}

// settleAll settles until nothing more comes.
func (f *follower) settleAll(ctx context.Context, v lateView, s *settling, progress func(phy int64)) error {
	for more := true; more; {
		_, more = <-s.kick
		end, last, ahead := s.delivered()
		if ahead == 0 {
			continue
		}
		if err := f.insist(ctx, "settling", func() error { return v.settle(ctx) }); err != nil {
			return err
		}
		f.show(end, last)
		if progress != nil {
			progress(end)
		}
		s.take(ahead)
	}
	return nil
}

// advance notes what was delivered, and waits where too much of it is not settled.
func (f *follower) advance(ctx context.Context, end int64, last recordMark) error {
	s := f.settling
	if s == nil {
		f.show(end, last)
		return nil
	}
	ahead := s.add(end, last)
	for signal(s.kick); ahead >= f.settleAhead; _, _, ahead = s.delivered() {
		select {
		case <-s.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// show publishes that everything below end is in the view.
func (f *follower) show(end int64, last recordMark) {
	if last.phy >= 0 {
		f.last.Lock()
		f.last.recordMark = last
		f.last.Unlock()
	}
	f.from.Store(end)
}

// next returns where the log is to be read on for who delivers.
func (f *follower) next() int64 {
	if s := f.settling; s != nil {
		end, _, _ := s.delivered()
		return end
	}
	return f.from.Load()
}
