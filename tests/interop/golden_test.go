//go:build interop

package interop

import (
	"testing"

	"github.com/tandemq/tandemmq/tests/golden"
)

// The program reads every golden store and gets the manifest's queues and messages. This proves the program, so that what
// it says about stores of our making counts.
func TestStoreCheckReadsGoldenStores(t *testing.T) {
	t.Parallel()
	want := map[string]*golden.Listing{}
	var jobs []job
	for _, name := range golden.Names() {
		want[name] = golden.Manifest(t, name)
		if want[name].Meta.Mode == "combine" {
			want[name+".prefer-rocks"] = golden.Manifest(t, name+".prefer-rocks")
			h := openedAs(want[name], "combine")
			h.prefer = golden.Rocks
			jobs = append(jobs, job{name: name + ".prefer-rocks", dir: golden.Unpack(t, name), how: h})
		}
		jobs = append(jobs, job{name: name, dir: golden.Unpack(t, name), how: openedAs(want[name], want[name].Meta.Mode)})
	}
	reports := runJobs(t, jobs)
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			m, got := want[j.name], done(t, reports, j).opened
			requireQueues(t, m, got, func(w golden.Queue) (file, rocks *golden.Side) { return w.File, w.Rocks })
			golden.RequireMessages(t, m.Messages, got.Messages, j.name)
		})
	}
}
