//go:build interop

package interop

import (
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/tests/golden"
)

// A trip takes a golden store's queues to the other kind and back, with RocketMQ reading and sending at every station.
type trip struct {
	name    string
	store   string
	options []string // of migrate run
	// unchanged checks what the move left of the directory: path to digest, before and after.
	unchanged func(t *testing.T, before, after map[string]string)
}

// roundTrip moves each store to the kind `to` and lets RocketMQ read and continue it, once for each set of broker.conf lines
// that the move printed; rolls that back and lets RocketMQ read and continue the old kind; moves it a second time and lets
// RocketMQ read that. At every station the messages are those of the manifest and all that were sent since.
func roundTrip(t *testing.T, to string, trips []trip) {
	from := map[string]string{golden.File: golden.Rocks, golden.Rocks: golden.File}[to]
	store := map[string]trip{} // by job name
	var jobs []job
	add := func(jobs []job, name string, of trip, dir string, h how, messages int) []job {
		store[name] = of
		return append(jobs, job{name, dir, h, messages})
	}

	for _, tr := range trips {
		t.Run("move/"+tr.name, func(sub *testing.T) {
			dir := golden.Unpack(sub, tr.store)
			before := golden.TreeSums(sub, dir)
			conf := migrateRun(sub, dir, append([]string{"--to", to}, tr.options...)...)
			tr.unchanged(sub, before, golden.TreeSums(sub, dir))
			h := configured(sub, conf.BrokerConf, golden.Manifest(sub, tr.store))
			require.Equal(sub, to, h.mode)
			jobs = add(jobs, tr.name+"/"+to, tr, golden.CopyTree(t, dir), h, appendCount)
			if to == golden.Rocks {
				h = configured(sub, conf.DualConf, golden.Manifest(sub, tr.store))
				require.Equal(sub, "combine", h.mode)
				require.Equal(sub, golden.Rocks, h.prefer)
				jobs = add(jobs, tr.name+"/combine", tr, golden.CopyTree(t, dir), h, appendCount)
			}
		})
	}
	reports := runJobs(t, jobs)
	left := map[string]*golden.Listing{} // by job name: what RocketMQ served before it closed
	for _, j := range jobs {
		t.Run("read/"+j.name, func(t *testing.T) {
			r, want := done(t, reports, j), golden.Manifest(t, store[j.name].store)
			requireQueues(t, want, r.opened, sidesOf(j.how.mode))
			golden.RequireMessages(t, want.Messages, r.opened.Messages, "as moved")
			requireContinued(t, r, j.how.lmq)
			left[j.name] = r.appended
		})
	}

	var back []job
	for _, j := range jobs {
		t.Run("rollback/"+j.name, func(sub *testing.T) {
			require.Contains(sub, left, j.name)
			back = add(back, j.name+"/reopened", store[j.name], j.dir, j.how, 0)
			dir := golden.CopyTree(t, j.dir)
			h := configured(sub, migrateRollback(sub, dir).BrokerConf, golden.Manifest(sub, store[j.name].store))
			require.Equal(sub, from, h.mode)
			back = add(back, j.name+"/back", store[j.name], dir, h, appendCount)
		})
	}
	reports = runJobs(t, back)
	for _, j := range back {
		t.Run("read/"+j.name, func(t *testing.T) { requireAsLeft(t, j, reports, left) })
	}

	var again []job
	for _, j := range back {
		if path.Base(j.name) != "back" || path.Base(path.Dir(j.name)) != to {
			continue
		}
		t.Run("move/"+j.name, func(sub *testing.T) {
			require.Contains(sub, left, j.name)
			of := store[j.name]
			conf := migrateRun(sub, j.dir, append([]string{"--to", to}, of.options...)...)
			h := configured(sub, conf.BrokerConf, golden.Manifest(sub, of.store))
			require.Equal(sub, to, h.mode)
			again = add(again, j.name+"/again", of, j.dir, h, appendCount)
		})
	}
	reports = runJobs(t, again)
	for _, j := range again {
		t.Run("read/"+j.name, func(t *testing.T) { requireAsLeft(t, j, reports, left) })
	}
}

// requireAsLeft checks a job on a directory that an earlier job, of the name without its last part, had left: nothing got
// lost or changed, and it can be continued. It records what this job left.
func requireAsLeft(t *testing.T, j job, reports map[string]report, left map[string]*golden.Listing) {
	t.Helper()
	r, was := done(t, reports, j), left[path.Dir(j.name)]
	golden.RequireMessages(t, was.Messages, r.opened.Messages, "as left")
	if j.append == 0 { // the same configuration as before: both kinds are as they were, the lagging one too
		requireQueues(t, was, r.opened, func(w golden.Queue) (file, rocks *golden.Side) { return w.File, w.Rocks })
		return
	}
	requireQueues(t, was, r.opened, sidesOf(j.how.mode))
	requireContinued(t, r, j.how.lmq)
	left[j.name] = r.appended
}
