package meta

import (
	"sync"

	"github.com/tandemq/tandemmq/internal/conffile"
)

// saver writes a table to its file, one write at a time, so that a call returns when its change is durable, and changes made during one
// write share the next.
type saver struct {
	path   string
	encode func() ([]byte, error) // a consistent state of the table; takes the table's lock

	mu struct {
		sync.Mutex
		wanted, done int64 // states asked for, and written
		writing      bool
		err          error // of the last write; the next one may succeed
	}
	ready *sync.Cond
}

func newSaver(path string, encode func() ([]byte, error)) *saver {
	s := &saver{path: path, encode: encode}
	s.ready = sync.NewCond(&s.mu.Mutex)
	return s
}

// save returns when a state at least as new as that at the call is durable, or could not be made so.
func (s *saver) save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.wanted++
	mine := s.mu.wanted
	for s.mu.done < mine {
		if s.mu.writing {
			s.ready.Wait()
			continue
		}
		s.mu.writing = true
		upTo := s.mu.wanted
		s.mu.Unlock()
		b, err := s.encode()
		if err == nil {
			err = conffile.Replace(s.path, b)
		}
		s.mu.Lock()
		s.mu.writing, s.mu.done, s.mu.err = false, upTo, err
		s.ready.Broadcast()
	}
	return s.mu.err
}
