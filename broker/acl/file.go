package acl

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// File are the rules of a file, as it is now.
type File struct {
	path    string
	log     *slog.Logger
	current atomic.Pointer[Rules]

	mu   sync.Mutex
	seen os.FileInfo // when it was last read; nil: it was not there
}

// Open reads a file, and refuses a bad one. Errors: as Load. log nil: nothing is logged.
func Open(path string, log *slog.Logger) (*File, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &File{path: path, log: log}
	f.seen, _ = os.Stat(path) // Load tells why not
	r, err := Load(path)
	if err != nil {
		return nil, err
	}
	f.current.Store(r)
	log.Info("access rules are in force", slog.String("file", path), slog.Int("accounts", r.Accounts()))
	return f, nil
}

// Rules are those in force.
func (f *File) Rules() *Rules { return f.current.Load() }

// watchInterval is the time between two looks at the file.
const watchInterval = time.Second

// Watch takes changes of the file over until ctx ends.
func (f *File) Watch(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.Reload()
		}
	}
}

// Reload looks whether the file has changed, by its time, size and identity, and takes it over. A bad or missing file leaves the rules as they are; that is logged, once for
// each change.
func (f *File) Reload() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := os.Stat(f.path) // before it is read: a change meanwhile is seen the next time
	if err != nil {
		if f.seen != nil {
			f.log.Error("the file of access rules cannot be read, the old rules stay", slog.Any("err", err))
		}
		f.seen = nil
		return
	}
	if f.seen != nil && os.SameFile(now, f.seen) && now.ModTime().Equal(f.seen.ModTime()) && now.Size() == f.seen.Size() {
		return
	}
	f.seen = now
	r, err := Load(f.path)
	if err != nil {
		f.log.Error("the changed access rules are bad, the old ones stay", slog.Any("err", err))
		return
	}
	f.current.Store(r)
	f.log.Info("access rules have changed", slog.String("file", f.path), slog.Int("accounts", r.Accounts()))
}
