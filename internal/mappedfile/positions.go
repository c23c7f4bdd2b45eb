package mappedfile

import (
	"fmt"
	"sync/atomic"
)

// Positions are three positions of a run of files, in bytes from its beginning at 0, each just past its last byte:
// wrote >= committed >= flushed. The zero value stands at 0.
//
//	wrote      bytes that the owner appended, in memory or further
//	committed  bytes that are in the files, as every mapping and read sees them
//	flushed    bytes that survive a loss of power
//
// Advance methods may be called by any goroutine: a position below the present one changes nothing, so that two flushes may
// end in either order. One that would overtake the position above it is a bug of the caller and panics, since what was never
// written would count as durable. Set is for opening and cutting, while nobody advances.
type Positions struct{ wrote, committed, flushed atomic.Int64 }

// Set puts all three at end. Nobody else uses the positions meanwhile.
func (p *Positions) Set(end int64) {
	if end < 0 {
		panic(fmt.Sprintf("mappedfile: positions set to %d", end))
	}
	p.flushed.Store(end)
	p.committed.Store(end)
	p.wrote.Store(end)
}

// Wrote returns the end of what was appended. Of several positions read the lower ones first: flushed, committed, wrote are
// then in order whatever happens between.
func (p *Positions) Wrote() int64 { return p.wrote.Load() }

// Committed returns the end of what is in the files.
func (p *Positions) Committed() int64 { return p.committed.Load() }

// Flushed returns the end of what is durable.
func (p *Positions) Flushed() int64 { return p.flushed.Load() }

// AdvanceWrote moves wrote forward to end. The caller is the one who appends.
func (p *Positions) AdvanceWrote(end int64) { advance(&p.wrote, end) }

// AdvanceCommitted moves committed forward to end, at most to wrote. The caller has copied the bytes into the files.
func (p *Positions) AdvanceCommitted(end int64) {
	below("committed", end, "wrote", p.Wrote())
	advance(&p.committed, end)
}

// AdvanceFlushed moves flushed forward to end, at most to committed. The caller has read end before it synced the files.
func (p *Positions) AdvanceFlushed(end int64) {
	below("flushed", end, "committed", p.Committed())
	advance(&p.flushed, end)
}

func below(name string, end int64, bound string, most int64) {
	if end > most {
		panic(fmt.Sprintf("mappedfile: %s position %d overtakes %s position %d", name, end, bound, most))
	}
}

func advance(p *atomic.Int64, end int64) {
	for {
		old := p.Load()
		if end <= old || p.CompareAndSwap(old, end) {
			return
		}
	}
}
