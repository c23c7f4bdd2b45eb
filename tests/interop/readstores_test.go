//go:build interop

package interop

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/golden"
)

// readStores are the stores whose reads are compared: those that RocketMQ wrote, generated ones, and ones that we put to; in files, in RocksDB, and in both.
func readStores(t *testing.T) (all []*readStore) {
	t.Helper()
	add := func(name, dir string, h how, set func(r *readStore)) {
		r := &readStore{name: name, ours: golden.CopyTree(t, dir), theirs: golden.CopyTree(t, dir), how: h}
		if set != nil {
			set(r)
		}
		all = append(all, r)
	}
	for _, name := range golden.Names() {
		m := golden.Manifest(t, name)
		h := openedAs(m, m.Meta.Mode)
		dir := golden.Unpack(t, name)
		add(name, dir, h, nil)
		if h.mode != "combine" {
			continue
		}
		h.prefer = golden.Rocks
		if name == "combine-upgrade" { // its RocksDB lacks the beginning: RocketMQ hides that, we fill it (F14)
			require.NoError(t, (&readStore{name: "filled", ours: dir, how: h}).open(t).Close())
		}
		add(name+".prefer-rocks", dir, h, nil)
	}
	for _, g := range []struct {
		name    string
		options []string
		how     how
		change  func(t *testing.T, dir string)
		set     func(r *readStore)
		both    bool // combined, too
	}{
		{
			"generated",
			[]string{"--messages", "3000", "--topics", "3", "--queues", "4", "--tags", "7", "--lmq", "5", "--delayed", "--transactions"},
			how{mode: "file", lmq: true, sizes: sizes{65536, 1000, 500, 2000}},
			nil, nil, true,
		},
		{ // a queue of more units than a call looks at, in one file
			"long",
			[]string{"--messages", "4000", "--topics", "1", "--queues", "2", "--tags", "90", "--body", "40"},
			how{mode: "file", sizes: sizes{1 << 20, 600_000, 500, 20_000}},
			nil, nil, false,
		},
		{
			"expired",
			[]string{"--messages", "1500", "--topics", "3", "--queues", "4", "--lmq", "5", "--delayed", "--transactions"},
			how{mode: "file", lmq: true, sizes: sizes{65536, 1000, 500, 2000}},
			nil, nil, false,
		},
		{
			"equal times",
			[]string{"--messages", "2500", "--topics", "2", "--queues", "2"},
			how{mode: "file", sizes: sizes{65536, 1000, 500, 2000}},
			func(t *testing.T, dir string) {
				retime(t, dir, runsOfTimes)
			}, nil, false,
		},
		{
			"clock steps",
			[]string{"--messages", "2500", "--topics", "2", "--queues", "2"},
			how{mode: "file", sizes: sizes{65536, 1000, 500, 2000}},
			func(t *testing.T, dir string) {
				retime(t, dir, func(i int64) int64 { return runsOfTimes(i) - i/400%2*700 + i*i%13 })
			}, func(r *readStore) { r.steps = true }, false,
		},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		tandemmq.MustRun(t, append([]string{
			"store", "generate", "--store", dir,
			"--commitlog-size", strconv.FormatInt(g.how.sizes.commitLog, 10), "--cq-file-size", strconv.FormatInt(g.how.sizes.queue, 10),
		}, g.options...)...)
		if g.change != nil {
			g.change(t, dir)
		}
		indexed(t, dir, (&readStore{how: g.how}).options(t))
		for _, side := range sidesOfRead(t, dir, g.how, g.both) {
			if g.name == "expired" {
				tandemmq.MustRun(t, "store", "clean", "--store", side.dir, "--reserve-hours", "0", "--yes")
			}
			add(g.name+side.name, side.dir, side.how, g.set)
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	tandemmq.MustRun(t, "store", "generate", "--store", dir, "--messages", "2500", "--topics", "1", "--queues", "3", "--commitlog-size", "65536", "--cq-file-size", "1000")
	add("lost units", dir, how{mode: "file", sizes: sizes{commitLog: 65536, queue: 1000}}, func(r *readStore) { r.lost = true })

	dir = putForReads(t)
	for _, side := range sidesOfRead(t, dir, how{mode: "file", lmq: true, sizes: putSizes(smallFiles)}, true) {
		add("put"+side.name, side.dir, side.how, nil)
		if side.how.mode == "combine" {
			continue
		}
		for name, config := range readLimits {
			add("put"+side.name+", "+name, side.dir, side.how, func(r *readStore) { r.config = maps.Clone(config) })
		}
	}
	return all
}

// readLimits are settings of the limits of one call.
var readLimits = map[string]map[string]string{
	"on disk": {
		"accessMessageInMemoryMaxRatio": "0", "maxTransferCountOnMessageInDisk": "5", "maxTransferBytesOnMessageInDisk": "1500",
		"maxTransferBytesOnMessageInMemory": "9000",
	},
	"in memory": {
		"maxTransferCountOnMessageInMemory": "13", "maxTransferBytesOnMessageInMemory": "2500", "maxFilterMessageSize": "410",
		"travelCqFileNumWhenGetMessage": "3",
	},
	"as a slave": {"brokerRole": "SLAVE"},
}

// readSide is a store with its queues in one of the kinds.
type readSide struct {
	name, dir string
	how       how
}

// sidesOfRead are file queues, the same moved to RocksDB, and, if both, the two combined and read from either.
func sidesOfRead(t *testing.T, dir string, h how, both bool) (all []readSide) {
	t.Helper()
	as := func(conf []string, prefer string) how {
		c := configured(t, conf, &golden.Listing{Meta: &golden.Meta{}})
		c.sizes, c.lmq = h.sizes, h.lmq
		if prefer != "" {
			c.prefer = prefer
		}
		return c
	}
	moved := golden.CopyTree(t, dir)
	conf := migrateRun(t, moved, "--to", "rocks", "--layout", "separate")
	all = []readSide{{"", dir, h}, {", rocks", moved, as(conf.BrokerConf, "")}}
	if both {
		all = append(all, readSide{", combined", moved, as(conf.DualConf, golden.File)}, readSide{", combined, from rocks", moved, as(conf.DualConf, golden.Rocks)})
	}
	return all
}

// astray tells which units of a queue that ends at max, in files of 50 units, lead to where the log has nothing; its last files are whole, as recovery looks at them. Slots of zeros are
// not compared: the first get that meets one has the queue built again, and then nothing is lost (TestHoleInAQueueIsNotSteppedOver).
func astray(slot, max int64) bool {
	file, i := slot/50, slot%50
	return file < (max+49)/50-4 && i >= 7 && i < 43 && i%16 < 3
}

// loseUnits takes these units from every file queue.
func loseUnits(t *testing.T, dir string) {
	t.Helper()
	const unit, perFile = 20, 50
	queues, err := filepath.Glob(filepath.Join(dir, "consumequeue", "*", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, queues)
	for _, q := range queues {
		files, err := filepath.Glob(filepath.Join(q, "*"))
		require.NoError(t, err)
		for i, name := range files {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			require.NoError(t, err)
			for slot := range int64(perFile) {
				if !astray(int64(i)*perFile+slot, int64(len(files))*perFile) {
					continue
				}
				var b [unit]byte
				binary.BigEndian.PutUint64(b[:], uint64(1<<40+slot*30_000))
				b[11] = 200
				_, err := f.WriteAt(b[:], slot*unit)
				require.NoError(t, err)
			}
			require.NoError(t, f.Close())
		}
	}
}

// runsOfTimes has runs of up to 180 equal times, single ones between, and gaps.
func runsOfTimes(i int64) int64 {
	const base = 1_700_000_000_000
	block, in := i/200, i%200
	return base + block*1000 + max(0, in-block*37%181)
}

// retime gives the records of a log other store times, by their number.
func retime(t *testing.T, dir string, at func(i int64) int64) {
	t.Helper()
	const storeTimeAt = 56 // behind an IPv4 born host
	log, err := commitlog.Open(filepath.Join(dir, "commitlog"), commitlog.Options{})
	require.NoError(t, err)
	times := map[int64]int64{}
	scan := log.Scanner(-1, commitlog.ScanOptions{})
	for i := int64(0); scan.Next(); i++ {
		require.Zero(t, scan.Record().SysFlag&message.FlagBornHostV6)
		times[scan.Record().PhyOffset] = at(i)
	}
	require.NoError(t, scan.Err())
	scan.Close()
	size := log.FileSize()
	require.NoError(t, log.Close())
	editFiles(t, dir, size, func(b []byte) {
		for phy, ms := range times {
			binary.BigEndian.PutUint64(b[phy+storeTimeAt:], uint64(ms))
		}
	})
}

// putForReads makes a store through Put: several queues, among them those of retries, dead letters and light ones, with keys and tags that many share or that merely
// hash alike, over some log, queue and index files and some minutes.
func putForReads(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog = smallFiles
	sized(&o, putSizes(smallFiles))
	o.EnableLmq, o.EnableMultiDispatch = true, true
	s, err := store.Open(dir, o)
	require.NoError(t, err)
	topics := []string{"Orders", "Orders", "Orders", "%RETRY%group", "%DLQ%group", "AaAa", "BBBB", "Empty"}
	for i := range 2400 {
		m := message.Message{
			Topic: topics[i*7%len(topics)], QueueID: int32(i / 3 % 2), BornTimestampMs: bornAtMs, BornHost: bornV4.Host, StoreHost: storeV4.Host,
			Body: make([]byte, i*31%500),
		}
		set := func(name, value string) { m.Properties = message.AppendProperty(m.Properties, name, value) }
		set(message.PropertyUniqKey, fmt.Sprintf("unique%d", i))
		switch i % 5 {
		case 0:
			set(message.PropertyKeys, fmt.Sprintf("k%d same k%d", i%40, i%40)) // repeated in one message
		case 1:
			set(message.PropertyKeys, []string{"Aa", "BB"}[i/5%2])
		case 2:
			set(message.PropertyKeys, fmt.Sprintf("many%d  k%d", i%3, i%40))
		}
		if i%4 > 0 {
			set(message.PropertyTags, []string{"AaAa", "BBBB", "TagA", "TagB"}[i/4%4])
		}
		set("n", strconv.Itoa(i%80))
		if i%3 == 0 {
			set(message.PropertyMultiDispatch, []string{"%LMQ%one", "%LMQ%one,%LMQ%two", "%LMQ%three"}[i/3%3])
		}
		r, err := s.Put(t.Context(), &m)
		require.NoError(t, err)
		require.Equal(t, store.PutOK, r.Status)
	}
	require.NoError(t, s.Close())
	retime(t, dir, func(i int64) int64 { return bornAtMs + i/7*233 })
	indexed(t, dir, o)
	return dir
}

// indexed builds the index anew.
func indexed(t *testing.T, dir string, o store.Options) {
	t.Helper()
	_, err := store.Rebuild(t.Context(), dir, store.RebuildOptions{Index: true, Options: &o})
	require.NoError(t, err)
}
