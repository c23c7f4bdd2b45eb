package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// testLoad is a load of 1 KiB messages against a log that hands out places and keeps nothing.
func testLoad() *load {
	var end atomic.Int64
	return &load{
		producers: 1, messages: 1000, bodyBytes: 1024, topics: 1, queues: 4, properties: true, sampleEvery: 1, fileBytes: 1 << 30, rest: settleRest,
		shapes: chooseShapes(0, 0, false, false, false),
		put: func(_ context.Context, m *message.Message, _ bool) (int64, error) {
			size, err := m.EncodedSize()
			return end.Add(int64(size)) - int64(size), err
		},
		figures:  func() logFigures { return logFigures{} },
		progress: func(int64) {},
	}
}

func TestLoadMessages(t *testing.T) {
	l := testLoad()
	l.producers, l.messages, l.topics, l.queues = 3, 100, 2, 2
	var mu sync.Mutex
	keys, unique, queues, lengths := map[string]bool{}, map[string]bool{}, map[string]int{}, map[int]bool{}
	l.put = func(_ context.Context, m *message.Message, _ bool) (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		key, _ := message.FindProperty(m.Properties, message.PropertyKeys)
		id, _ := message.FindProperty(m.Properties, message.PropertyUniqKey)
		tags, _ := message.FindProperty(m.Properties, message.PropertyTags)
		keys[string(key)], unique[string(id)], lengths[len(m.Properties)] = true, true, true
		queues[fmt.Sprintf("%s/%d", m.Topic, m.QueueID)]++
		if string(tags) != "TagA" || len(m.Body) != 1024 || len(key) != len("key-1000000000000") || len(id) != 32 {
			return 0, fmt.Errorf("message of %d bytes with tags %s, key %s, unique key %s", len(m.Body), tags, key, id)
		}
		m.Properties = nil // a store may
		return 0, nil
	}
	var told int64
	l.progress = func(n int64) { told = n }
	r, err := l.run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 100, r.stored)
	require.EqualValues(t, 100, r.statuses[store.PutOK])
	require.EqualValues(t, 100, told)
	require.EqualValues(t, 100, r.latency.Summary().Samples)
	require.Len(t, keys, 100)
	require.Len(t, unique, 100)
	require.Len(t, lengths, 1)
	require.Equal(t, map[string]int{"bench_0/0": 27, "bench_0/1": 25, "bench_1/0": 24, "bench_1/1": 24}, queues)
}

func TestLoadWithoutProperties(t *testing.T) {
	l := testLoad()
	l.properties, l.messages, l.bodyBytes = false, 1, 0
	l.put = func(_ context.Context, m *message.Message, _ bool) (int64, error) {
		if len(m.Properties)+len(m.Body) > 0 {
			return 0, errors.New("the message is not empty")
		}
		return 0, nil
	}
	_, err := l.run(t.Context())
	require.NoError(t, err)
}

// The put that begins a file is timed however rarely the others are; the first file is no roll.
func TestLoadTimesRolls(t *testing.T) {
	l := testLoad()
	l.sampleEvery = 1 << 30
	l.fileBytes = 100 << 10
	end, rolls := int64(0), int64(0)
	l.put = func(_ context.Context, m *message.Message, _ bool) (int64, error) {
		size, err := m.EncodedSize()
		at := end
		if at/l.fileBytes != (at+int64(size))/l.fileBytes {
			at = (at + int64(size)) / l.fileBytes * l.fileBytes
			rolls++
		}
		end = at + int64(size)
		return at, err
	}
	r, err := l.run(t.Context())
	require.NoError(t, err)
	require.Greater(t, rolls, int64(5))
	require.Equal(t, rolls, r.rolls.Summary().Samples)
	require.Equal(t, rolls+1, r.latency.Summary().Samples, "and the very first put")
}

func TestLoadSamples(t *testing.T) {
	l := testLoad()
	l.sampleEvery = 10
	r, err := l.run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 100, r.latency.Summary().Samples)
}

func TestLoadDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLoad()
		l.producers, l.messages, l.duration = 2, 0, time.Second
		l.put = func(context.Context, *message.Message, bool) (int64, error) {
			time.Sleep(3 * time.Millisecond)
			return 0, nil
		}
		asked := int64(0)
		l.figures = func() logFigures {
			asked++
			return logFigures{syncs: 5 * asked, undurableBytes: 100 - (asked-50)*(asked-50), undurableFor: time.Duration(asked)}
		}
		var told []int64
		l.progress = func(n int64) { told = append(told, n) }
		r, err := l.run(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1002*time.Millisecond, r.elapsed)
		require.EqualValues(t, 2*334, r.stored)
		require.EqualValues(t, 100, r.undurableMost)
		require.Equal(t, 5*(asked-1), r.syncs)
		require.EqualValues(t, asked, r.undurableFor)
		require.Len(t, told, 12)
		require.Zero(t, told[0], "the rate begins with the load")
		require.IsIncreasing(t, told)
		require.InEpsilon(t, 3*time.Millisecond, r.latency.Summary().P99, 0.01)
	})
}

// The wait ends when nothing was prepared for a while, not at a pause between two files; and at the latest after its limit.
func TestLoadSettles(t *testing.T) {
	tests := []struct {
		name     string
		prepared func(since time.Duration) int64
		want     time.Duration
	}{
		{"at rest", func(time.Duration) int64 { return 7 }, settleRest},
		{"late", func(since time.Duration) int64 { return int64(min(since/(2*time.Second), 1)) }, 2*time.Second + settleRest},
		{"at work for a second", func(since time.Duration) int64 { return int64(min(since, time.Second)) }, time.Second + settleRest},
		{"with a pause", func(since time.Duration) int64 { return int64(min(since/(400*time.Millisecond), 4)) }, 1600*time.Millisecond + settleRest},
		{"never at rest", func(since time.Duration) int64 { return int64(since) }, settleLimit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, start := testLoad(), time.Now()
				l.figures = func() logFigures { return logFigures{prepared: tt.prepared(time.Since(start))} }
				require.NoError(t, l.settle(t.Context()))
				require.InDelta(t, tt.want, time.Since(start), float64(2*settleInterval))
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, testLoad().settle(ctx), context.Canceled)
}

func TestLoadStatuses(t *testing.T) {
	l := testLoad()
	n := 0
	l.put = func(context.Context, *message.Message, bool) (int64, error) {
		switch n++; n % 10 {
		case 1:
			return 0, &store.PutError{Status: store.PutFlushDiskTimeout}
		case 2, 3:
			return 0, &store.PutError{Status: store.PutOSPageCacheBusy}
		}
		return 0, nil
	}
	r, err := l.run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 800, r.stored)
	require.EqualValues(t, 100, r.statuses[store.PutFlushDiskTimeout])
	require.EqualValues(t, 200, r.statuses[store.PutOSPageCacheBusy])
	require.EqualValues(t, 700, r.statuses[store.PutOK])
	require.EqualValues(t, 800, r.shapes[shapePlain])
	require.EqualValues(t, 1000, r.puts)
}

// A message that was not stored ends the load, all producers of it.
func TestLoadFails(t *testing.T) {
	l := testLoad()
	l.producers, l.messages = 4, 1<<40
	failure := &store.PutError{Status: store.PutCreateMappedFileFailed, Err: errors.New("no space")}
	var n atomic.Int64
	l.put = func(context.Context, *message.Message, bool) (int64, error) {
		if n.Add(1) == 1000 {
			return 0, failure
		}
		return 0, nil
	}
	r, err := l.run(t.Context())
	require.ErrorIs(t, err, failure)
	require.EqualValues(t, 1, r.statuses[store.PutCreateMappedFileFailed])
	require.GreaterOrEqual(t, r.stored, int64(999))
}

func TestLoadInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := testLoad()
	l.messages = 1 << 40
	put := l.put
	l.put = func(ctx context.Context, m *message.Message, batch bool) (int64, error) {
		cancel()
		return put(ctx, m, batch)
	}
	_, err := l.run(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// What the load itself allocates must not hide behind the store's nothing.
func TestLoadAllocatesNothing(t *testing.T) {
	for _, mix := range []bool{false, true} {
		l := testLoad()
		l.messages, l.producers = 200_000, 2
		l.shapes = chooseShapes(0, 0, false, false, mix)
		r, err := l.run(t.Context())
		require.NoError(t, err)
		require.Less(t, r.allocs, 0.01)
	}
}

func TestIncrement(t *testing.T) {
	for before, after := range map[string]string{"000": "001", "009": "010", "899": "900", "999": "000", "": ""} {
		digits := []byte(before)
		increment(digits)
		require.Equal(t, after, string(digits))
	}
}
