package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
	"github.com/tandemq/tandemmq/store"
)

// sizes of the rows.
type sizes struct {
	Messages      int           `json:"messages"`      // of the stores of file and RocksDB queues
	IndexMessages int           `json:"indexMessages"` // of the store of the large index
	NewMessages   int           `json:"newMessages"`   // of the row that reads what it has just put
	ScanBytes     int64         `json:"scanBytes"`     // of old log
	Beside        time.Duration `json:"beside"`        // of puts without and with the scan, at least
	Samples       int           `json:"samples"`       // of a latency
}

var defaultSizes = sizes{Messages: 1_000_000, IndexMessages: 1_000_000, NewMessages: 200_000, ScanBytes: 1 << 30, Beside: 5 * time.Second, Samples: 20_000}

const (
	queues = 8
	// entriesPerMessage of the index: the key, the unique key, the tag.
	entriesPerMessage = 3
	smallBody         = 16
	// newest is how many of the newest messages of each queue the rows of new messages read.
	newest = 100
)

// row is one measurement of a repetition.
type row struct {
	name, store string // rows of one store stand side by side
	engine      load.Engine
	messages    int
	body        int
	java        bool
	fill        func(ctx context.Context, r row, s sizes, root string) error
	measure     func(ctx context.Context, r row, s sizes, root string, x report.Figures) error // nil for Java
}

// rows are all rows, in the order they are run.
func rows(s sizes) (all []row) {
	pair := func(name string, e load.Engine, messages, body int) {
		all = append(all,
			row{name: "read-" + name, store: name, engine: e, messages: messages, body: body, fill: fill, measure: readStore},
			row{name: "java-" + name, store: name, engine: e, messages: messages, body: body, fill: fill, java: true},
		)
	}
	pair("file", load.FileQueues, s.Messages, load.BodyBytes)
	pair("rocks", load.RocksQueues, s.Messages, load.BodyBytes)
	pair("index", load.FileQueues, s.IndexMessages, smallBody)
	all = append(all, row{name: "new-rocks", store: "new", engine: load.RocksQueues, messages: s.NewMessages, body: load.BodyBytes, fill: nothing, measure: readNew})
	return append(all, row{name: "backscan", store: "old", engine: load.FileQueues, messages: int(s.ScanBytes / load.BodyBytes), body: load.BodyBytes, fill: fill, measure: backScan})
}

func nothing(context.Context, row, sizes, string) error { return nil }

// put puts the messages of a row into a store, until queues and index have them.
func put(ctx context.Context, r row, st *store.Store) (*load.Producer, error) {
	p := load.NewProducer(st, queues, r.body)
	for range r.messages {
		if err := p.Put(ctx); err != nil {
			return nil, err
		}
	}
	return p, errors.Join(load.AwaitBuilt(ctx, st), p.Check())
}

// fill makes the store of a row.
func fill(ctx context.Context, r row, _ sizes, root string) error {
	return load.WithStore(r.engine, root, func(st *store.Store) error {
		_, err := put(ctx, r, st)
		return err
	})
}

// open opens a store that fill has made, and hands over one who knows what is in it.
func open(ctx context.Context, r row, root string, use func(p *load.Producer) error) error {
	return load.WithStore(r.engine, root, func(st *store.Store) error {
		if err := load.AwaitBuilt(ctx, st); err != nil {
			return err
		}
		p := load.NewProducer(st, queues, 0)
		p.Next = r.messages
		return errors.Join(p.Check(), use(p))
	})
}

// readStore measures as StoreRead does.
func readStore(ctx context.Context, r row, s sizes, root string, x report.Figures) error {
	return open(ctx, r, root, func(p *load.Producer) error {
		rd := load.NewReader(p)
		defer rd.Result.Release()
		if err := rd.MeasurePull(x); err != nil {
			return err
		}
		return errors.Join(rd.MeasureGets(s.Samples, 0, "get", x), rd.MeasureTimes(s.Samples, x), rd.MeasureQueries(s.Samples, x))
	})
}

// readNew measures gets of messages that were just put, whose units are in the memory of the RocksDB queues.
func readNew(ctx context.Context, r row, s sizes, root string, x report.Figures) error {
	defer func() { _ = os.RemoveAll(root) }() // each repetition makes its own
	return load.WithStore(r.engine, root, func(st *store.Store) error {
		p, err := put(ctx, r, st)
		if err != nil {
			return err
		}
		rd := load.NewReader(p)
		defer rd.Result.Release()
		return rd.MeasureGets(s.Samples, newest, "newest", x)
	})
}

// dropLog has the kernel forget the log of a store that is closed.
func dropLog(root string) error {
	files, err := filepath.Glob(filepath.Join(store.NewLayout(root).CommitLogDir(), "0*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no log", root)
	}
	return calibrate.DropCache(files)
}
