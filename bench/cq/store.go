package main

import (
	"context"
	"errors"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/store"
)

// latencyEvery is one of how many puts is timed.
const latencyEvery = 17

// wholeStore puts messages into a new store until its queues and its index have them, opens it again, reads all of it, some of it at random, and searches by time.
func wholeStore(ctx context.Context, r row, s sizes, dir string) (figures, error) {
	x := figures{}
	err := load.WithStore(r.engine, dir, func(st *store.Store) error {
		p, lat := load.NewProducer(st, r.queues, load.BodyBytes), calibrate.NewLatency()
		start := time.Now()
		for i := range r.messages {
			if i%latencyEvery != 0 {
				if err := p.Put(ctx); err != nil {
					return err
				}
				continue
			}
			begin := time.Now()
			if err := p.Put(ctx); err != nil {
				return err
			}
			lat.Record(time.Since(begin))
		}
		x["putPerSecond"] = float64(r.messages) / time.Since(start).Seconds()
		if err := load.AwaitBuilt(ctx, st); err != nil {
			return err
		}
		x["builtPerSecond"] = float64(r.messages) / time.Since(start).Seconds()
		x["putP50Micros"], x["putP99Micros"] = micros(lat.Summary().P50), micros(lat.Summary().P99)
		return p.Check()
	})
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := load.WithStore(r.engine, dir, func(st *store.Store) error {
		x["openMillis"] = millis(time.Since(start))
		if err := load.AwaitBuilt(ctx, st); err != nil {
			return err
		}
		x["readyMillis"] = millis(time.Since(start))
		p := load.NewProducer(st, r.queues, 0)
		p.Next = r.messages
		return errors.Join(p.Check(), readStore(p, s, x))
	}); err != nil {
		return nil, err
	}
	return x, nil
}

// readStore measures as StoreRead does.
func readStore(p *load.Producer, s sizes, x figures) error {
	r := load.NewReader(p)
	defer r.Result.Release()
	if err := r.MeasurePull(x); err != nil {
		return err
	}
	return errors.Join(r.MeasureGets(s.Samples, 0, "get", x), r.MeasureTimes(s.Samples, x))
}
