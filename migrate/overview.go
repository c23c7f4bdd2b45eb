package migrate

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
)

// Overview is what there is to be told of a store's migration.
type Overview struct {
	Root  string    `json:"root"`
	Tool  string    `json:"tool"` // version of who has made it
	Time  time.Time `json:"time"` // when that was
	State State     `json:"state"`
	// Certificate is nil where there is none.
	Certificate *CertificateSummary `json:"certificate,omitempty"`
	Samples     []state.Sample      `json:"samples,omitempty"` // since the migration was planned
	Disk        map[cq.Kind]int64   `json:"disk,omitempty"`    // bytes that the queues take now
	Mended      *Mended             `json:"mended,omitempty"`  // by the last repair
	// Problems are why some of this is not known.
	Problems []string `json:"problems,omitempty"`

	// Step is what was done just now, and Error what it ended with; the others are what it gave.
	Step     string          `json:"step,omitempty"`
	Error    string          `json:"error,omitempty"`
	Reasons  []string        `json:"reasons,omitempty"` // of a refusal
	Plan     *Plan           `json:"plan,omitempty"`
	Backfill *BackfillResult `json:"backfill,omitempty"`
	Verify   *VerifyResult   `json:"verify,omitempty"`
	Repair   *RepairResult   `json:"repair,omitempty"`
	Cutover  *CutoverResult  `json:"cutover,omitempty"`
	Findings *Findings       `json:"findings,omitempty"` // of the error
}

// CertificateSummary is what a certificate says, in a size that does not depend on the number of queues.
type CertificateSummary struct {
	Certificate
	// Held is how many units its lines tell of: more than were compared last, where a verification went on from another one.
	Held   int64     `json:"held"`
	Topics int       `json:"topics"`
	Empty  int       `json:"empty"` // queues of which no unit is left
	Alone  int       `json:"alone"` // queues that one side has, as it should
	Sizes  []SizeBin `json:"sizes"`
	Top    []TopItem `json:"top"` // the largest queues
}

// SizeBin is how many queues have From to To units.
type SizeBin struct {
	From   int64 `json:"from"`
	To     int64 `json:"to"`
	Queues int   `json:"queues"`
	Units  int64 `json:"units"`
}

// TopItem is a queue and its units.
type TopItem struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
	Min     int64  `json:"min"`
	Max     int64  `json:"max"`
}

// Mended is what the journal says of the last repair.
type Mended struct {
	Time     time.Time `json:"time"`
	Actor    string    `json:"actor"`
	Findings Findings  `json:"findings"`
	Dropped  int       `json:"dropped"` // queues
	Slots    int64     `json:"slots"`   // written
	Ended    bool      `json:"ended"`
}

const maxTop = 10

// LoadOverview reads what lies in the state directory dir of a store that may be in use.
func LoadOverview(root, dir string) (*Overview, error) {
	st, err := state.Load(dir)
	if err != nil {
		return nil, err
	}
	o := &Overview{Root: root, State: *st, Time: time.Now().UTC().Truncate(time.Second)}
	problem := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			o.Problems = append(o.Problems, err.Error())
		}
	}
	o.Certificate, err = summarize(dir)
	problem(err)
	all, err := state.LoadSamples(dir)
	problem(err)
	planned := time.Time{}
	for _, h := range st.History {
		if h.Event == state.Plan {
			planned = h.Time
		}
	}
	for _, x := range all {
		if !x.Time.Before(planned) {
			o.Samples = append(o.Samples, x)
		}
	}
	o.Mended, err = lastRepair(filepath.Join(dir, JournalFileName))
	problem(err)
	return o, nil
}

// binOf is the first number of the bin that n is in: 0, or 1, 2 or 5 times a power of ten.
func binOf(n int64) (from, to int64) {
	if n <= 0 {
		return 0, 0
	}
	p := int64(1)
	for n/10 >= p {
		p *= 10
	}
	switch {
	case n >= 5*p:
		return 5 * p, 10*p - 1
	case n >= 2*p:
		return 2 * p, 5*p - 1
	}
	return p, 2*p - 1
}

func summarize(dir string) (*CertificateSummary, error) {
	s := &CertificateSummary{}
	bins := map[int64]*SizeBin{}
	topics := map[string]bool{}
	c, err := readCertificate(dir, func(k cq.Key, l certLine) error {
		n := max(l.Max-l.Min, 0)
		topics[k.Topic] = true
		from, to := binOf(n)
		if bins[from] == nil {
			bins[from] = &SizeBin{From: from, To: to}
		}
		bins[from].Queues++
		bins[from].Units += n
		s.Held += n
		if n == 0 {
			s.Empty++
		}
		if l.Side != "both" {
			s.Alone++
		}
		s.Top = append(s.Top, TopItem{k.Topic, k.QueueID, l.Min, l.Max})
		if len(s.Top) >= 50*maxTop {
			s.top()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.Certificate = c
	s.top()
	s.Topics = len(topics)
	for _, b := range bins {
		s.Sizes = append(s.Sizes, *b)
	}
	slices.SortFunc(s.Sizes, func(a, b SizeBin) int { return cmp.Compare(a.From, b.From) })
	return s, nil
}

// top leaves the largest queues.
func (s *CertificateSummary) top() {
	slices.SortFunc(s.Top, func(a, b TopItem) int {
		return cmp.Or(cmp.Compare(b.Max-b.Min, a.Max-a.Min), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID))
	})
	s.Top = s.Top[:min(len(s.Top), maxTop)]
}

// lastRepair reads what the last repair has named; nil: there was none.
func lastRepair(path string) (m *Mended, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for r := bufio.NewReaderSize(f, 1<<16); ; {
		b, err := r.ReadBytes('\n')
		var l journalLine
		if json.Unmarshal(b, &l) == nil {
			if l.What == "start" {
				m = &Mended{Time: l.Time, Actor: l.Actor}
			}
			switch {
			case m == nil:
			case l.What == "finding" && l.Finding != nil:
				m.Findings.Add(*l.Finding)
			case l.What == "drop":
				m.Dropped++
			case l.What == "end":
				m.Slots, m.Ended = l.Slots, true
			}
		}
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return m, fmt.Errorf("read repair journal: %w", err)
		}
	}
}
