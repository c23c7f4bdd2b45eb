package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tandemq/tandemmq/internal/testenv"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// childEnv carries the orders of a process that puts messages until it is killed; with it the test binary is that process.
const childEnv = "TANDEMMQ_CRASH_CHILD"

func TestMain(m *testing.M) {
	if orders := os.Getenv(childEnv); orders != "" {
		os.Exit(runChild(orders))
	}
	if orders := os.Getenv(workEnv); orders != "" {
		os.Exit(runWorker(orders))
	}
	os.Exit(testenv.Main(m))
}

// putMode is a way to put messages.
type putMode struct {
	name string
	set  func(o *store.Options)
	// pooled: what was acknowledged survives the process when it was committed. Otherwise it is in the files by then, waited for or not.
	pooled bool
}

var putModes = []putMode{
	{"async mmap", func(*store.Options) {}, false},
	{"async pool", func(o *store.Options) { o.TransientStorePoolEnable = true }, true},
	{"async pwrite", func(o *store.Options) { o.WriteWithoutMmap = true }, false},
	{"sync mmap", func(o *store.Options) {
		o.FlushDiskType, o.SyncFlushWriteMode = store.SyncFlush, store.SyncWriteMapped
	}, false},
	{"sync staged", func(o *store.Options) {
		o.FlushDiskType, o.SyncFlushWriteMode = store.SyncFlush, store.SyncWriteStaged
	}, false},
	{"sync pwrite", func(o *store.Options) { o.FlushDiskType, o.WriteWithoutMmap = store.SyncFlush, true }, false},
}

func putModeOf(name string) putMode {
	for _, m := range putModes {
		if m.name == name {
			return m
		}
	}
	panic("no such mode: " + name)
}

// options are those of a store of small files, so that kills meet the change of files.
func (m putMode) options() store.Options {
	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog = 512 << 10
	o.PreallocateAheadBytes = 64 << 10
	m.set(&o)
	return o
}

// Queues that all producers put to.
const (
	putTopics = 2
	putQueues = 3
)

// key names a message: element i of put n of a producer in one run of the process.
type key struct{ Run, Producer, N, I int }

// acked is one acknowledgement, a line of JSON. It is written when Put has returned, with one call: the pipe has it or does not.
type acked struct {
	First              key // of Count
	Count              int
	Topic              string
	QueueID            int32
	Unitless           bool // in no queue: its offset says nothing
	Offset, Phy, Bytes int64
	Committed          int64 // position of the log, asked for afterwards
}

// orders of the process.
type orders struct {
	Root, Mode     string
	Run, Producers int
	Seed           uint64
}

func runChild(text string) int {
	var do orders
	if err := json.Unmarshal([]byte(text), &do); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	o := putModeOf(do.Mode).options()
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	s, err := store.Open(do.Root, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(openedLine)
	deadline := time.Now().Add(10 * time.Second) // nobody is left behind when the test is
	var wg sync.WaitGroup
	for p := range do.Producers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(do.Seed, uint64(p)))
			for n := 0; time.Now().Before(deadline); n++ {
				if err := putOnce(s, rng, key{do.Run, p, n, 0}); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		})
	}
	wg.Wait()
	return 0
}

// openedLine is what the process says when the store is open.
const openedLine = "opened"

// putOnce puts a message, now and then a batch or one that does not want to wait, and says so when it was acknowledged.
func putOnce(s *store.Store, rng *rand.Rand, first key) error {
	m := putMessage(fmt.Sprint("topic", rng.IntN(putTopics)), int32(rng.IntN(putQueues)))
	a := acked{First: first, Count: 1, Topic: m.Topic, QueueID: m.QueueID}
	put := s.Put
	if rng.IntN(8) == 0 {
		put, a.Count = s.PutBatch, 2+rng.IntN(10)
		for i := range a.Count {
			e := message.BatchElement{Body: bodyOf(key{first.Run, first.Producer, first.N, i})}
			m.Body, _ = e.AppendTo(m.Body) // bodies of these sizes always fit
		}
	} else {
		m.Body = bodyOf(first)
	}
	if rng.IntN(4) == 0 {
		m.Properties = []byte("WAIT\x01false\x02")
	}
	r, err := put(context.Background(), m)
	var pe *store.PutError
	if errors.As(err, &pe) && (pe.Status == store.PutOSPageCacheBusy || pe.Status == store.PutFlushDiskTimeout) {
		return nil // of a slow machine: not acknowledged
	}
	if err != nil {
		return err
	}
	a.Offset, a.Phy, a.Bytes, a.Committed = r.Append.QueueOffset, r.Append.PhyOffset, int64(r.Append.Bytes), s.Positions().Committed
	line, err := json.Marshal(a)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	return err
}

func putMessage(topic string, queueID int32) *message.Message {
	h := message.Host{Addr: netip.MustParseAddr("127.0.0.1"), Port: 10911}
	return &message.Message{Topic: topic, QueueID: queueID, BornHost: h, StoreHost: h, BornTimestampMs: time.Now().UnixMilli()}
}

// bodyOf returns the body of a message, which begins with its key. Most are short, some have several pages.
func bodyOf(k key) []byte {
	head, _ := json.Marshal(k) // of numbers
	rng := rand.New(rand.NewPCG(uint64(k.Run)<<32|uint64(k.Producer), uint64(k.N)<<16|uint64(k.I)))
	n := rng.IntN(200)
	if k.I == 0 && rng.IntN(10) == 0 {
		n = rng.IntN(10_000)
	}
	return append(head, bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, n)...)
}

// keyOf returns the key in a body, and whether the body is that of the key.
func keyOf(body []byte) (k key, ok bool) {
	end := bytes.IndexByte(body, '}')
	if end < 0 || json.Unmarshal(body[:end+1], &k) != nil {
		return k, false
	}
	return k, bytes.Equal(body, bodyOf(k))
}
