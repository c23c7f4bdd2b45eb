package meta

import (
	"sync"

	"github.com/tandemq/tandemmq/internal/conffile"
)

// saver writes a table, one write at a time, so that a call returns when its change is durable, and changes made during one
// write share the next.
type saver struct {
	write func() error // of a consistent state of the table, whose lock it takes
	// file writes it to its file, where it is kept elsewhere; nil: write does.
	file      func() error
	exporting sync.Mutex // one call of file at a time

	mu struct {
		sync.Mutex
		wanted, done int64 // states asked for, and written
		writing      bool
		err          error // of the last write; the next one may succeed
	}
	ready *sync.Cond
}

func newSaver(write func() error) *saver {
	s := &saver{write: write}
	s.ready = sync.NewCond(&s.mu.Mutex)
	return s
}

// replacing returns what writes a file anew.
func replacing(path string, encode func() ([]byte, error)) func() error {
	return func() error {
		b, err := encode()
		if err != nil {
			return err
		}
		return conffile.Replace(path, b)
	}
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
		err := s.write()
		s.mu.Lock()
		s.mu.writing, s.mu.done, s.mu.err = false, upTo, err
		s.ready.Broadcast()
	}
	return s.mu.err
}

// export writes the table to its file, wherever it is kept.
func (s *saver) export() error {
	if s.file == nil {
		return s.save()
	}
	s.exporting.Lock()
	defer s.exporting.Unlock()
	return s.file()
}
