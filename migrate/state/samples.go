package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/latency"
)

// SamplesFileName is that of the file beside the state that tells how a migration went, one JSON object a line. Nothing is decided by it: a line that is lost, or a file that is removed, costs a report
// what it would have shown.
const SamplesFileName = "progress.jsonl"

const (
	// maxStretch bounds the samples of a stretch, which is samples in a row of the same phase and work: a stretch that has so many loses every other one.
	maxStretch = 200
	// maxSamples bounds those of all stretches: the oldest go.
	maxSamples = 2000
)

// Sample is how far a migration was at some moment.
type Sample struct {
	Time  time.Time `json:"time"`
	Phase Phase     `json:"phase"`
	Work  string    `json:"work,omitempty"` // what was done just then, where the phase does not tell
	Done  int64     `json:"done,omitempty"` // of it
	Of    int64     `json:"of,omitempty"`   // 0: unknown
	Unit  string    `json:"unit,omitempty"` // "bytes" of the log, "queues" and so on
	// Puts is how long those took that were timed since the sample before.
	Puts latency.Counts `json:"puts,omitempty"`
	// Disk is what the queues of a kind occupy, where it was looked at.
	Disk map[cq.Kind]int64 `json:"disk,omitempty"`
}

// same tells whether two samples are of one stretch.
func (x *Sample) same(o *Sample) bool { return x.Phase == o.Phase && x.Work == o.Work }

// Samples takes them down. It may be used by several goroutines.
type Samples struct {
	dir  string
	base time.Duration

	mu   sync.Mutex
	all  []Sample
	f    *os.File // nil: nothing was written yet
	next time.Time
	err  error // the first one; nothing is written after it
}

// OpenSamples goes on with the file in the state directory dir. Samples of one stretch are at least base apart. The directory is not made: until it is there, nothing is written.
func OpenSamples(dir string, base time.Duration) (*Samples, error) {
	all, err := LoadSamples(dir)
	if err != nil {
		return nil, err
	}
	return &Samples{dir: dir, base: base, all: all}, nil
}

// LoadSamples returns what the file in dir holds, oldest first. Lines that were cut off are left out.
func LoadSamples(dir string) (all []Sample, err error) {
	b, err := os.ReadFile(filepath.Join(dir, SamplesFileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read samples of a migration: %w", err)
	}
	for line := range bytes.Lines(b) {
		var x Sample
		if json.Unmarshal(line, &x) == nil && !x.Time.IsZero() {
			all = append(all, x)
		}
	}
	return all, nil
}

// Wanted tells whether Add would take a sample of that phase and work now. It costs little.
func (s *Samples) Wanted(phase Phase, work string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted(&Sample{Time: now, Phase: phase, Work: work})
}

func (s *Samples) wanted(x *Sample) bool {
	n := len(s.all)
	return x.Disk != nil || n == 0 || !s.all[n-1].same(x) || !x.Time.Before(s.next)
}

// Add takes a sample in, unless the one before it in its stretch is too near. The end of a stretch is always kept: force says that this is one.
func (s *Samples) Add(x Sample, force bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !force && !s.wanted(&x) {
		return
	}
	x.Time = x.Time.UTC().Truncate(time.Millisecond)
	s.all = append(s.all, x)
	begin := s.stretch()
	thinned := len(s.all)-begin >= maxStretch
	if thinned {
		s.thin(begin)
	}
	if n := len(s.all) - maxSamples; n > 0 {
		s.all, thinned = slices.Delete(s.all, 0, n+maxSamples/10), true
	}
	s.next = x.Time.Add(max(s.base, x.Time.Sub(s.all[s.stretch()].Time)/maxStretch))
	s.write(&x, thinned)
}

// stretch is where the last one begins.
func (s *Samples) stretch() int {
	i := len(s.all) - 1
	for i > 0 && s.all[i-1].same(&s.all[i]) {
		i--
	}
	return i
}

// thin takes every other sample out of the stretch that begins at begin, but for its ends; what their puts took goes to the next one.
func (s *Samples) thin(begin int) {
	kept := s.all[:begin+1]
	var puts latency.Counts
	for i := begin + 1; i < len(s.all); i++ {
		x := s.all[i]
		if (i-begin)%2 == 1 && i < len(s.all)-1 && x.Disk == nil {
			if puts == nil {
				puts = latency.Counts{}
			}
			puts.Add(x.Puts)
			continue
		}
		if len(puts) > 0 {
			puts.Add(x.Puts)
			x.Puts = puts
		}
		puts = nil
		kept = append(kept, x)
	}
	s.all = kept
}

// write adds x to the file, or writes it anew.
func (s *Samples) write(x *Sample, anew bool) {
	if s.err != nil {
		return
	}
	if _, err := os.Stat(s.dir); err != nil {
		return // later: the samples are kept
	}
	if s.f == nil || anew {
		if s.f != nil {
			_ = s.f.Close() // it is replaced
		}
		path := filepath.Join(s.dir, SamplesFileName)
		s.err = ReplaceFile(path, func(w io.Writer) error {
			enc := json.NewEncoder(w)
			for i := range s.all {
				if err := enc.Encode(&s.all[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if s.err == nil {
			s.f, s.err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		}
		return
	}
	b, err := json.Marshal(x)
	if err == nil {
		_, err = s.f.Write(append(b, '\n')) // in one piece; not synced, as losing it costs a point of a curve
	}
	s.err = err
}

// Close ends the file and returns the first error there was.
func (s *Samples) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f != nil {
		if err := s.f.Close(); s.err == nil {
			s.err = err
		}
		s.f = nil
	}
	if s.err != nil {
		return fmt.Errorf("write samples of a migration: %w", s.err)
	}
	return nil
}
