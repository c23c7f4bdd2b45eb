//go:build interop

package interop

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// A store made by `store generate`. The first log file of the defaults has 1 GiB; these tests copy directories, so they ask
// for smaller ones.
type generated struct {
	name    string
	options []string
	records int // in queues: messages, less those that a transaction keeps out, plus those of light queues
	how     how
}

var generatedStores = []generated{
	{
		"plain",
		[]string{"--messages", "300", "--topics", "1", "--queues", "2", "--tags", "0", "--keys", "0", "--commitlog-size", "1048576"},
		300,
		how{mode: "file", sizes: sizes{commitLog: 1 << 20}},
	},
	{
		"everything",
		[]string{
			"--messages", "1200", "--topics", "3", "--queues", "4", "--tags", "4", "--keys", "2", "--lmq", "5", "--delayed",
			"--transactions", "--commitlog-size", "65536", "--cq-file-size", "1000",
		},
		0, // follows from the seed; the log's own check is RocketMQ's reading it
		how{mode: "file", lmq: true, sizes: sizes{commitLog: 65536, queue: 1000}},
	},
}

// Stores of our own making are stores to RocketMQ: it reads the messages our dump shows and continues the queues, on files
// and, moved, on RocksDB.
func TestGeneratedStores(t *testing.T) {
	t.Parallel()
	whole := t // owns the copies that several steps work on
	dumps := map[string]golden.Dump{}
	var jobs []job
	for _, g := range generatedStores {
		t.Run("generate/"+g.name, func(t *testing.T) {
			dir := filepath.Join(whole.TempDir(), "store")
			tandemmq.MustRun(t, append([]string{"store", "generate", "--store", dir}, g.options...)...)
			file := tandemmq.Dump(t, dir, golden.File)
			require.NotEmpty(t, file.Messages)
			if g.records > 0 {
				require.Len(t, file.Messages, g.records)
			}
			dumps[g.name+"/file"] = file
			jobs = append(jobs, job{g.name + "/file", golden.CopyTree(whole, dir), g.how, appendCount})

			conf := migrateRun(t, dir, "--to", "rocks", "--layout", "separate")
			dumps[g.name+"/rocks"] = tandemmq.Dump(t, dir, golden.Rocks)
			require.Equal(t, file, dumps[g.name+"/rocks"], "the dump shows one store, whichever kind is asked")
			h := configured(t, conf.BrokerConf, &golden.Listing{Meta: &golden.Meta{}})
			require.Equal(t, "rocks", h.mode)
			require.Equal(t, g.how.lmq, h.lmq)
			h.sizes = g.how.sizes
			jobs = append(jobs, job{g.name + "/rocks", dir, h, appendCount})
		})
	}
	reports := runJobs(t, jobs)
	for _, j := range jobs {
		t.Run("read/"+j.name, func(t *testing.T) {
			r, want := done(t, reports, j), dumps[j.name]
			require.Len(t, r.opened.Queues, len(want.Queues))
			for i, q := range flatQueues(t, want) {
				got := r.opened.Queues[i]
				require.Equal(t, q.name, got.Name())
				require.Equal(t, q.readable, got.Readable, q.name)
				side := got.File
				if j.how.mode == "rocks" {
					side = got.Rocks
				}
				require.Equal(t, &q.Side, side, q.name)
			}
			golden.RequireMessages(t, want.Messages, r.opened.Messages, "as opened")
			requireContinued(t, r, j.how.lmq)
		})
	}
}

// flatQueue is a queue line of a dump, taken apart.
type flatQueue struct {
	name     string
	readable int64
	golden.Side
}

func flatQueues(t *testing.T, d golden.Dump) []flatQueue {
	t.Helper()
	all := make([]flatQueue, len(d.Queues))
	for i, line := range d.Queues {
		var q golden.Queue
		require.NoError(t, json.Unmarshal([]byte(line), &q))
		require.NoError(t, json.Unmarshal([]byte(line), &all[i].Side))
		all[i].name, all[i].readable = q.Name(), q.Readable
	}
	return all
}
