package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// shape is which sample store a row works on.
type shape string

// The shapes. Their stores hold a log, and no queues unless it says so.
const (
	none    shape = ""
	eight   shape = "8"       // queues
	kilo    shape = "1000"    // queues
	lakh    shape = "100000"  // queues
	restart shape = "restart" // 100,000 queues in RocksDB, several GiB of log, left in order
)

const bodyBytes = 1024

// samples makes stores, once, below dir.
type samples struct {
	dir   string
	sizes sizes
	w     io.Writer
}

// store returns the root of a sample store. One that is complete is used again.
func (s *samples) store(ctx context.Context, kind shape) (string, error) {
	queues, messages := 8, s.sizes.messages
	switch kind {
	case none:
		return "", nil
	case kilo:
		queues, messages = 1000, s.sizes.manyMessages
	case lakh:
		queues, messages = 100_000, s.sizes.manyMessages
	case restart:
		queues, messages = 100_000, int(s.sizes.restartBytes/recordBytes)
	}
	root := filepath.Join(s.dir, fmt.Sprintf("%s-%d", kind, messages))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	fmt.Fprintf(s.w, "making %s: %d messages over %d queues\n", filepath.Base(root), messages, queues)
	part := root + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	o := load.Options(load.FileQueues)
	o.BuildConsumeQueues = kind == restart
	o.StoreType = store.StoreTypeRocksDB
	if err := fill(ctx, part, o, messages, queues); err != nil {
		return "", fmt.Errorf("make sample store %s: %w", part, err)
	}
	return root, os.Rename(part, root)
}

// recordBytes is about what one message takes in the log.
const recordBytes = 1240

// fill makes a store of messages of 1 KiB, each with a tag and two keys, round robin over the queues of 100 topics, or of one if there are few.
func fill(ctx context.Context, root string, o store.Options, messages, queues int) (err error) {
	s, err := store.Open(root, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := newMessage(bodyBytes)
	topics := 1
	if queues > 1000 {
		topics = 100
	}
	for i := range messages {
		q := i % queues
		m.Topic, m.QueueID = topicName(q%topics), int32(q/topics)
		m.Properties = appendKeys(m.Properties[:0], i)
		r, err := s.Put(ctx, m)
		if err != nil {
			return err
		}
		if r.Status != store.PutOK {
			return fmt.Errorf("message %d: %s", i, r.Status.String())
		}
	}
	return nil
}

func newMessage(body int) *message.Message {
	return &message.Message{
		Body: bytes.Repeat([]byte{'b'}, body), BornTimestampMs: time.Now().UnixMilli(),
		BornHost: host(50000), StoreHost: host(10911),
	}
}

func host(port int32) message.Host {
	return message.Host{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: port}
}

func topicName(n int) string { return fmt.Sprintf("bench_%03d", n) }

// appendKeys appends the properties of message number i, as StorePut makes them.
func appendKeys(dst []byte, i int) []byte {
	return fmt.Appendf(dst, "KEYS\x01key-%d\x02UNIQ_KEY\x017F000001000018B4AAC2%d\x02TAGS\x01TagA\x02", 1_000_000_000_000+i, 100_000_000_000+i)
}

// wiped is where wipe moves things to, beside the stores. ext4 passes the inodes of what was deleted in the last minutes over when it makes files, which takes several times as
// long as making them: so nothing is deleted before all is measured.
const wiped = "wiped"

// wipe leaves of a store its log alone. unclean: and the abort mark.
func wipe(root string, unclean bool) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	trash := filepath.Join(filepath.Dir(root), wiped)
	if err := os.MkdirAll(trash, 0o755); err != nil {
		return err
	}
	if len(entries) > 1 {
		if trash, err = os.MkdirTemp(trash, ""); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if e.Name() != "commitlog" {
			if err := os.Rename(filepath.Join(root, e.Name()), filepath.Join(trash, e.Name())); err != nil {
				return err
			}
		}
	}
	if unclean {
		return load.MarkAbort(root)
	}
	return nil
}

// logFiles lists the files of the log.
func logFiles(root string) ([]string, error) {
	return filepath.Glob(filepath.Join(store.NewLayout(root).CommitLogDir(), "[0-9]*"))
}
