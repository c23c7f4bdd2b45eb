package calibrate

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency records durations, each within 1 % of itself, in about 50 KiB. It belongs to one goroutine; Merge brings those
// of several together.
type Latency struct {
	h *hdrhistogram.Histogram
	// The largest as it was: the histogram's own is rounded up to the end of a bucket.
	largest time.Duration
}

// maxLatency is the longest that is told apart; what takes longer counts as this in percentiles.
const maxLatency = time.Hour

// NewLatency returns an empty one.
func NewLatency() *Latency { return &Latency{h: hdrhistogram.New(1, int64(maxLatency), 2)} }

// Record adds one duration.
func (l *Latency) Record(d time.Duration) {
	l.largest = max(l.largest, d)
	_ = l.h.RecordValue(int64(min(max(d, 0), maxLatency))) // in range, so there is no error
}

// Merge adds everything that o holds.
func (l *Latency) Merge(o *Latency) {
	l.largest = max(l.largest, o.largest)
	l.h.Merge(o.h)
}

// Summary is the figures of a Latency that are printed; all zero when nothing was recorded.
type Summary struct {
	Samples int64         `json:"samples"`
	P50     time.Duration `json:"p50Nanos"`
	P99     time.Duration `json:"p99Nanos"`
	P999    time.Duration `json:"p999Nanos"`
	Max     time.Duration `json:"maxNanos"`
}

// Summary returns the figures of what was recorded so far.
func (l *Latency) Summary() Summary {
	at := func(percentile float64) time.Duration {
		return min(time.Duration(l.h.ValueAtPercentile(percentile)), l.largest)
	}
	return Summary{Samples: l.h.TotalCount(), P50: at(50), P99: at(99), P999: at(99.9), Max: l.largest}
}
