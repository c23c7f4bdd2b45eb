package load

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/store"
)

// phases takes the time of each phase that store.Recover tells of, and how much of it there was.
type phases map[string]*phase

type phase struct {
	begin, end time.Time
	done       int64
}

func (p phases) progress(name string, _ int64, _ string) func(int64) {
	now := time.Now()
	ph := &phase{begin: now, end: now}
	p[name] = ph
	return func(done int64) {
		if done != ph.done {
			ph.done, ph.end = done, time.Now()
		}
	}
}

func (p phases) took(prefix string) (took time.Duration, done int64) {
	for name, ph := range p {
		if strings.HasPrefix(name, prefix) {
			took += ph.end.Sub(ph.begin)
			done += ph.done
		}
	}
	return took, done
}

// CatchUp has the queues built of a store that is not open and has a log alone, and the index if the options say so, and returns how long that took: of the log's own recovery, which is before it, nothing counts.
func CatchUp(ctx context.Context, root string, o *store.Options) (time.Duration, error) {
	p := phases{}
	if _, err := store.Recover(ctx, root, store.RecoverOptions{Options: o, Progress: p.progress}); err != nil {
		return 0, err
	}
	took, _ := p.took("dispatch to ")
	if o.MessageIndexEnable {
		index, _ := p.took("index")
		took += index
	}
	if took == 0 {
		return 0, errors.New("nothing was dispatched")
	}
	return took, nil
}

// Scan has the log read and verified from its beginning, as recovery does that knows nothing of it, and returns how long that took for how many bytes.
func Scan(ctx context.Context, root string, o *store.Options) (took time.Duration, bytes int64, err error) {
	p := phases{}
	if _, err := store.Recover(ctx, root, store.RecoverOptions{Options: o, DryRun: true, Full: true, Progress: p.progress}); err != nil {
		return 0, 0, err
	}
	if took, bytes = p.took("log"); took == 0 {
		return 0, 0, errors.New("no log was read")
	}
	return took, bytes, nil
}

// Open opens a store, waits until queues and index are at the end of the log (of a store with two sides the one that is read: the other one is filled at the pace of the store), hands it to use (unless that
// is nil) and closes it. It returns after how long it took puts, and after how long all of that was built.
func Open(ctx context.Context, root string, o store.Options, use func(*store.Store) error) (opened, ready time.Duration, err error) {
	start := time.Now()
	s, err := store.Open(root, o)
	if err != nil {
		return 0, 0, err
	}
	opened = time.Since(start)
	err = await(ctx, s, true)
	ready = time.Since(start)
	if err == nil && use != nil {
		err = use(s)
	}
	return opened, ready, errors.Join(err, s.Close())
}

// Lose makes of a store with queues what a crash of the machine leaves of it: the abort mark, no checkpoint.
func Lose(root string) error {
	l := store.NewLayout(root)
	return errors.Join(os.RemoveAll(l.CheckpointPath()), os.RemoveAll(l.StateDir()), MarkAbort(root))
}

// MarkAbort gives a store the mark of one that was not closed.
func MarkAbort(root string) error { return os.WriteFile(store.NewLayout(root).AbortPath(), nil, 0o644) }
