package main

import (
	"context"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/store"
)

// pacedPerSecond is the rate of the row readable.
const pacedPerSecond = 100_000

// readable measures the time from before a put until the max of its queue is past the message, as a reader sees it who asks all queues in turn with a pause of 50 us.
func readable(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	x := figures{}
	return x, load.WithStore(r.engine, dir, func(st *store.Store) error {
		p := load.NewProducer(st, r.queues, load.BodyBytes)
		rate, lat, err := p.Readable(ctx, int(s.Paced.Seconds()*pacedPerSecond), pacedPerSecond)
		if err != nil {
			return err
		}
		sum := lat.Summary()
		x["putPerSecond"] = rate
		x["readableP50Millis"], x["readableP99Millis"], x["readableP999Millis"], x["readableMaxMillis"] = millis(sum.P50), millis(sum.P99), millis(sum.P999), millis(sum.Max)
		return p.Check()
	})
}

// sustained puts as fast as it can for a while, and looks ten times a second at how far queues and index are behind.
func sustained(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	x := figures{}
	return x, load.WithStore(r.engine, dir, func(st *store.Store) error {
		p := load.NewProducer(st, r.queues, load.BodyBytes)
		start, step := time.Now(), s.Sustained/50
		var lag []float64
		for next := step; time.Since(start) < s.Sustained; {
			for range 64 {
				if err := p.Put(ctx); err != nil {
					return err
				}
			}
			if time.Since(start) < next {
				continue
			}
			n, err := load.Behind(st)
			if err != nil {
				return err
			}
			lag = append(lag, float64(n))
			next += step
		}
		took := time.Since(start).Seconds()
		x["putPerSecond"] = float64(p.Next) / took
		// What the lag grows by, of what is put.
		x["lagGrowth"] = report.Slope(lag) / step.Seconds() / (float64(st.Positions().Wrote) / took)
		last, err := load.Behind(st)
		if err != nil {
			return err
		}
		x["lagMiB"] = float64(last) / (1 << 20)
		if err := load.AwaitBuilt(ctx, st); err != nil {
			return err
		}
		x["builtPerSecond"] = float64(p.Next) / time.Since(start).Seconds()
		return p.Check()
	})
}
