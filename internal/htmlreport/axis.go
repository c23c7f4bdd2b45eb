package htmlreport

import (
	"math"

	"gonum.org/v1/plot"
)

// logAxis is a logarithmic one.
type logAxis struct{ low, high float64 }

// newLogAxis makes one that goes a little beyond both values.
func newLogAxis(low, high float64) logAxis {
	if high/low < 1.5 { // nearly one value
		low, high = low/2, high*2
	}
	return logAxis{low, high}
}

// at is where v lies: 0 at the low end, 1 at the high one.
func (a logAxis) at(v float64) float64 { return math.Log(v/a.low) / math.Log(a.high/a.low) }

// ticks are round values on the axis, at least apart from one another where it is so long.
func (a logAxis) ticks(length, apart float64) []float64 {
	for _, steps := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		if ticks := a.stepped(steps, 1); fits(ticks, a.at, length, apart) {
			return ticks
		}
	}
	for every := 2; every < 12; every++ {
		if ticks := a.stepped([]float64{1}, every); fits(ticks, a.at, length, apart) {
			return ticks
		}
	}
	return []float64{a.low, a.high}
}

// stepped are the multiples of every so manieth power of ten.
func (a logAxis) stepped(steps []float64, every int) (ticks []float64) {
	const slack = 1e-9
	for e := int(math.Floor(math.Log10(a.low))) / every * every; ; e += every {
		p := math.Pow10(e)
		if p > a.high*(1+slack) {
			return ticks
		}
		for _, s := range steps {
			if v := p * s; v >= a.low*(1-slack) && v <= a.high*(1+slack) {
				ticks = append(ticks, v)
			}
		}
	}
}

func fits(ticks []float64, at func(float64) float64, length, apart float64) bool {
	for i := 1; i < len(ticks); i++ {
		if (at(ticks[i])-at(ticks[i-1]))*length < apart {
			return false
		}
	}
	return true
}

// ticker puts ticks at round values and has them said by format.
type ticker struct {
	log    bool
	times  bool // in seconds: round are minutes, hours and days
	bytes  bool // round are those of KiB, MiB and so on
	most   int  // ticks on a linear axis
	length float64
	apart  float64
	format func(float64) string
}

// Ticks implements plot.Ticker.
func (t ticker) Ticks(low, high float64) (ticks []plot.Tick) {
	var values []float64
	if t.log {
		values = logAxis{low, high}.ticks(t.length, t.apart)
	} else {
		step := niceStep((high-low)/float64(t.most), t.times, t.bytes)
		for i := math.Ceil(low/step - 1e-9); i*step <= high*(1+1e-9); i++ {
			values = append(values, i*step+0) // not -0
		}
	}
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: t.format(v)})
	}
	return ticks
}

// niceStep is the smallest round step that is no smaller than least.
func niceStep(least float64, times, bytes bool) float64 {
	if least <= 0 || math.IsNaN(least) || math.IsInf(least, 0) {
		return 1
	}
	if times && least > 1 {
		for _, s := range []float64{2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400} {
			if s >= least {
				return s
			}
		}
		return 86400 * niceStep(least/86400, false, false)
	}
	if bytes && least >= 512 {
		prefix := math.Pow(1024, math.Floor(math.Log2(least*2)/10))
		return prefix * niceStep(least/prefix, false, false)
	}
	p := math.Pow(10, math.Floor(math.Log10(least)))
	for _, s := range []float64{1, 2, 2.5, 5} {
		if p*s >= least*(1-1e-9) {
			return p * s
		}
	}
	return 10 * p
}
