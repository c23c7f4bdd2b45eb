//go:build interop

package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/golden"
)

const (
	keptTopic = "Kept"
	hurtTopic = "Hurt"
)

// damagedStore is a store of several log files in which every record of hurtTopic was destroyed: some between others, and a run that fills a file and reaches into
// those beside it. kept are the records of the other topic.
func damagedStore(t *testing.T, crc bool) (dir string, o store.Options, kept []acknowledged) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	o = store.DefaultOptions()
	o.MappedFileSizeCommitLog = smallFiles
	o.EnabledAppendPropCRC, o.ForceVerifyPropCRC = crc, crc
	s, err := store.Open(dir, o)
	require.NoError(t, err)
	var hurt []acknowledged
	put := func(topic string, no int64, bodyBytes int) {
		m := message.Message{
			Topic: topic, QueueID: int32(no % 2), BornTimestampMs: bornAtMs, BornHost: bornV4.Host, StoreHost: storeV4.Host,
			Body: []byte(strings.Repeat("x", bodyBytes)), Properties: message.AppendProperty(nil, "KEYS", fmt.Sprint(no)),
		}
		r, err := s.Put(context.Background(), &m)
		require.NoError(t, err)
		a := acknowledged{m.Topic, m.QueueID, r.Append.QueueOffset, r.Append.PhyOffset, int64(r.Append.Bytes), no}
		if topic == keptTopic {
			kept = append(kept, a)
		} else {
			hurt = append(hurt, a)
		}
	}
	for no := range int64(300) {
		put(keptTopic, no, int(no*13%900))
		if no%7 == 3 {
			put(hurtTopic, no, int(no%5)) // also some that are as small as records get
		}
		for i := 0; no == 150 && i < 45; i++ {
			put(hurtTopic, no, 3000)
		}
	}
	require.NoError(t, s.Close())
	first, last := int64(-1), int64(-1)
	for _, a := range hurt {
		if a.No == 150 {
			if first < 0 {
				first = a.PhyOffset
			}
			last = a.PhyOffset + a.Size
		}
	}
	require.Greater(t, last-first, 2*int64(smallFiles))
	edit(t, dir, func(b []byte) {
		for _, a := range hurt {
			b[a.PhyOffset+5] ^= 0x55
		}
		clear(b[first:last]) // fillers too
	})
	// All queues come from the mended log.
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
	require.NoError(t, os.Remove(filepath.Join(dir, "tandemmq", "queue-offsets")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), nil, 0o644))
	return dir, o, kept
}

// edit changes bytes of the log in dir.
func edit(t *testing.T, dir string, fn func(b []byte)) {
	t.Helper()
	editFiles(t, dir, smallFiles, fn)
}

// editFiles is edit of a log whose files have that size.
func editFiles(t *testing.T, dir string, size int64, fn func(b []byte)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
	require.NoError(t, err)
	var all []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		all = append(all, b...)
	}
	fn(all)
	for i, f := range files {
		require.NoError(t, os.WriteFile(f, all[int64(i)*size:int64(i+1)*size], 0o644))
	}
}

// loseFile removes the files of the log in which no record of kept lies, and returns how many.
func loseFile(t *testing.T, dir string, kept []acknowledged) (lost int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
	require.NoError(t, err)
	for i, path := range files {
		from := int64(i) * smallFiles
		if !slices.ContainsFunc(kept, func(a acknowledged) bool { return a.PhyOffset < from+smallFiles && a.PhyOffset+a.Size > from }) {
			require.NoError(t, os.Remove(path))
			lost++
		}
	}
	require.Positive(t, lost)
	return lost
}

// RocketMQ opens a mended log, reads over the placeholders in it, and over fillers in the place of whole files that were missing, gives them no unit, and keeps everything behind them; it goes on
// there, and so do we.
func TestRocketMQReadsOverPlaceholders(t *testing.T) {
	t.Parallel()
	type mended struct {
		job
		kept []acknowledged
		end  int64
		o    store.Options
	}
	var all []mended
	var jobs []job
	for what, crc := range map[string]bool{"crc=false": false, "crc=true": true, "files missing": false} {
		dir, o, kept := damagedStore(t, crc)
		lost := 0
		if what == "files missing" {
			lost = loseFile(t, dir, kept)
		}
		_, err := store.Recover(t.Context(), dir, store.RecoverOptions{Options: &o, Full: true})
		require.ErrorIs(t, err, commitlog.ErrCorrupt)
		rep, err := store.Recover(t.Context(), dir, store.RecoverOptions{Options: &o, Damage: store.DamageMend, Full: true})
		require.NoError(t, err)
		require.Len(t, rep.Missing, lost)
		require.Greater(t, len(rep.Log.Damage), 30)
		require.Empty(t, rep.Repaired.Given)
		for name, loss := range map[string]func(dir string){
			"clean":     func(string) {},
			"abort":     func(dir string) { require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), nil, 0o644)) },
			"no queues": func(dir string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue"))) },
			"no queues, abort": func(dir string) {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
				require.NoError(t, os.Remove(filepath.Join(dir, "checkpoint"))) // or RocketMQ reads the last file alone
				require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), nil, 0o644))
			},
		} {
			copied := golden.CopyTree(t, dir)
			loss(copied)
			j := job{fmt.Sprintf("%s/%s", name, what), copied, how{mode: "file", all: true, log: true, propCRC: crc, sizes: sizes{commitLog: smallFiles}}, appendCount}
			all, jobs = append(all, mended{j, kept, rep.LogEnd, o}), append(jobs, j)
		}
	}
	reports := runJobs(t, jobs)
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			r := done(t, reports, m.job)
			require.Equal(t, m.end, r.log.max)
			var there []acknowledged
			placeholders := 0
			for _, rec := range r.log.records {
				if rec.Topic != keptTopic {
					placeholders++
					require.Equal(t, message.TransactionRollback, rec.SysFlag)
					continue
				}
				there = append(there, acknowledged{rec.Topic, rec.QueueID, rec.QueueOffset, rec.PhyOffset, int64(rec.Size), int64(len(there))})
			}
			require.Equal(t, m.kept, there)
			require.Greater(t, placeholders, 30)
			require.Len(t, r.opened.Queues, 2)
			require.Len(t, r.opened.Messages, len(m.kept))
			requireContinued(t, r, false)

			s, err := store.Open(m.dir, m.o)
			require.NoError(t, err)
			require.Equal(t, r.logAfter.max, s.Positions().Wrote)
			require.NoError(t, s.Close())
			log, err := commitlog.Open(filepath.Join(m.dir, "commitlog"), commitlog.Options{})
			require.NoError(t, err)
			end, err := log.End(commitlog.ScanOptions{CheckCRC: true})
			require.NoError(t, err)
			require.Equal(t, commitlog.EndClean, end.Kind)
			require.NoError(t, log.Close())
		})
	}
}
