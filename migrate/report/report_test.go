package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/htmlreport/htmltest"
	"github.com/tandemq/tandemmq/internal/latency"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/state"
)

const hostile = "a</td><script>alert('x')</script>\"&\u202e"

// shown is what a page has of it.
const shown = "a</td><script>alert('x')</script>\"&\\u202e"

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// sample is a migration of a running broker that has gone through everything.
func sample() *migrate.Overview {
	st := state.State{Version: 1, BackfilledTo: -1}
	now := at
	events := []state.Event{
		state.Plan, state.BackfillStart, state.HistoryEnd, state.CaughtUp, state.VerifyDiffers, state.RepairStart, state.RepairEnd, state.VerifyOK, state.CutOver, state.FinalizeStart, state.FinalizeEnd,
	}
	o := &migrate.Overview{Root: "/data/" + hostile, Tool: "v1", Time: at.Add(time.Hour)}
	for i, e := range events {
		if err := st.Apply(e, "someone "+hostile, fmt.Sprintf("note %d", i), now); err != nil {
			panic(err)
		}
		for k := range 30 {
			x := state.Sample{Time: now, Phase: st.Phase, Puts: latency.Counts{60 + k%5: 50, 90: 1}}
			switch st.Phase {
			case state.Backfilling, state.CatchingUp:
				x.Done, x.Of, x.Unit = int64(k)<<20, 30<<20, "bytes"
			case state.Verifying:
				x.Done, x.Of, x.Unit = int64(k), 30, "queues"
			case state.Planned:
				x.Disk = map[cq.Kind]int64{cq.KindFile: 40 << 20}
			}
			o.Samples = append(o.Samples, x)
			now = now.Add(time.Second)
		}
	}
	st.From, st.To, st.Kept, st.RocksLayout, st.BackfilledTo = cq.KindFile, cq.KindRocks, cq.KindRocks, state.LayoutShared, 9000
	st.Online = &state.Online{Differences: []string{"queue " + hostile + "/0: slot 7"}, Verified: &state.Coverage{Units: 4321}}
	st.Online.Findings = &state.Findings{Found: 6, Healed: 3, Kept: 1}
	st.Online.Kept = []state.KeptQueue{{QueueName: state.QueueName{Topic: hostile, QueueID: 9}, Side: cq.KindRocks, By: "chooser", Time: at}}
	st.Retired = []state.Retired{{Kind: cq.KindFile, Path: "tandemmq/retired/x", Until: at}}
	o.State = st
	o.Disk = map[cq.Kind]int64{cq.KindRocks: 25 << 20}
	o.Certificate = &migrate.CertificateSummary{
		Certificate: migrate.Certificate{From: cq.KindFile, To: cq.KindRocks, Level: migrate.LevelUnits, Samples: 320, Actor: "me", Fingerprint: migrate.Fingerprint{Queues: 12, Units: 56, LogEnd: 9000, Digest: "abc", Time: at}},
		Held:        3456, Topics: 3, Sizes: []migrate.SizeBin{{Queues: 2}, {From: 200, To: 499, Queues: 9, Units: 3000}, {From: 500, To: 999, Queues: 1, Units: 456}},
		Top: []migrate.TopItem{{Topic: hostile, QueueID: 3, Max: 456}},
	}
	o.Mended = &migrate.Mended{Time: at, Actor: "mender", Slots: 4}
	o.Mended.Findings.Add(migrate.Finding{Code: migrate.CodeWrongTags, Topic: hostile, QueueID: 1, Side: cq.KindRocks, QueueOffset: 5, Slots: 3, PhyOffset: 1234, Text: "what is wrong", Where: "file x", Remedy: "is rewritten"})
	return o
}

func page(t *testing.T, o *migrate.Overview) (html, text string) {
	t.Helper()
	var a, b bytes.Buffer
	require.NoError(t, HTML(&a, o))
	// What a broker answers with is the same.
	j, err := json.Marshal(o)
	require.NoError(t, err)
	var sent migrate.Overview
	require.NoError(t, json.Unmarshal(j, &sent))
	require.NoError(t, HTML(&b, &sent))
	require.True(t, bytes.Equal(a.Bytes(), b.Bytes()), "the same migration is the same page")
	return a.String(), htmltest.Check(t, a.String())
}

func has(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the page lacks %q", w)
		}
	}
}

func TestHTML(t *testing.T) {
	html, text := page(t, sample())
	has(t, text, "Migration of /data/"+shown, "From files to RocksDB, in a running broker: finalized. Reads belong to RocksDB.",
		"someone "+shown, "queue "+shown+"/0: slot 7", shown+"/3", "tandemmq/retired/x", "among the topics",
		"wrong-tags", shown+"/1", "5 and 2 more", "1234", "what is wrong [file x]; is rewritten", "The repair of 2026-11-30 12:00:00 UTC by mender, which was cut off",
		"200 – 499", "3,456 units in 12 queues", "40 MiB", "25 MiB", "After is 62 % of before", // 62.5 is rounded to even
		"planned (before: files alone)", "finalized (after: RocksDB alone)", "cutover (both are written)", "backfilling (a side is filled)", "1,530",
		"6 queues were found to differ since the migration was begun; 3 healed, of 1 a side was chosen, 2 remaining.", "Queue "+shown+"/9: the rocks side stays, chosen by chooser at 2026-11-30 12:00:00 UTC.",
		"320", "abc", "4,321 units", "How fast", "Over time", "catching-up")
	for i, h := range sample().State.History {
		has(t, text, fmt.Sprintf("note %d", i), string(h.Event), string(h.Phase))
	}
	require.NotContains(t, text, "Nothing to draw")
	require.Equal(t, 2*6, strings.Count(html, "<svg "), "how far, how fast, units, disk, latencies by phase and over time, each for two widths")
	require.Less(t, len(html), 300<<10)
}

func TestHTMLOfAStep(t *testing.T) {
	o := &migrate.Overview{Root: "s", Step: "plan", Plan: &migrate.Plan{
		From: cq.KindRocks, To: cq.KindFile, Queues: 1234, Topics: 9, Units: 5, Warnings: []string{"a warning"}, Refusals: []string{"a reason"},
		States: []migrate.PlanState{{Text: "a state", Queues: 3, Examples: []string{hostile}}},
	}}
	_, text := page(t, o)
	has(t, text, "From RocksDB to files", "1,234 in 9 topics", "Warning: a warning", "a reason", "a state ("+shown+", …)")

	found := &migrate.Findings{}
	for i := range 50 {
		found.Add(migrate.Finding{Code: migrate.CodeHole, Topic: hostile, QueueOffset: int64(i), PhyOffset: -1, Text: fmt.Sprintf("hole number %d.", i)})
	}
	o = &migrate.Overview{Root: "s", Step: "verify", Error: "verify found 50 x hole\n - more", Findings: found, State: state.State{Phase: state.Diverged, From: cq.KindFile, To: cq.KindRocks}, Problems: []string{"a file cannot be read"}}
	_, text = page(t, o)
	has(t, text, "verify found 50 x hole", "and 30 more", "a file cannot be read", "There is none: nothing was verified", "Nothing was taken down of it")
	for _, f := range found.First {
		has(t, text, f.Text)
	}

	o = &migrate.Overview{
		Root: "s", Step: "run --yes", Verify: &migrate.VerifyResult{Level: migrate.LevelAll, Units: 77777}, Backfill: &migrate.BackfillResult{Units: 88888, Load: 2 * time.Second},
		Cutover: &migrate.CutoverResult{Active: cq.KindRocks, Metadata: []string{"topics moved"}}, State: state.State{Phase: state.Cutover, From: cq.KindFile, To: cq.KindRocks},
	}
	_, text = page(t, o)
	has(t, text, "77,777 units", "88,888 units", "44.4k units/s", "Reads are with RocksDB", "topics moved", "None.")
	require.NotContains(t, text, "Latency of puts", "nobody puts into a stopped store")

	_, text = page(t, &migrate.Overview{Root: "s"})
	has(t, text, "No migration was begun.")
}

// What lies in a state directory is all in the page.
func TestLoadOverview(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tandemmq")
	o, err := migrate.LoadOverview("root", dir)
	require.NoError(t, err)
	require.Equal(t, state.Absent, o.State.Phase)
	require.Empty(t, o.Problems)

	st := state.State{Version: 1, Phase: state.Absent}
	require.NoError(t, st.Apply(state.Plan, "me", "", at))
	st.From, st.To = cq.KindFile, cq.KindRocks
	require.NoError(t, st.Save(dir))
	s, err := state.OpenSamples(dir, time.Second)
	require.NoError(t, err)
	s.Add(state.Sample{Time: at.Add(-time.Hour), Work: "of another migration"}, true)
	s.Add(state.Sample{Time: at.Add(time.Second), Work: "backfill", Done: 1, Of: 2}, true)
	require.NoError(t, s.Close())
	covered := &state.Coverage{Queues: 60, Time: at}
	require.NoError(t, migrate.WriteCertificate(dir, cq.KindFile, cq.KindRocks, "me", covered, func(yield func(migrate.Certified) bool) {
		for i := range 60 {
			n := int64(i * i)
			if !yield(migrate.Certified{Key: cq.Key{Topic: fmt.Sprint("t", i%7), QueueID: int32(i)}, Min: 1, Max: 1 + n, Alone: i == 3}) {
				return
			}
		}
	}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, migrate.JournalFileName), []byte(`{"what":"start","actor":"first"}
{"what":"drop","topic":"x"}
{"what":"end","slots":3}
{"what":"start","actor":"second"}
{"what":"finding","finding":{"code":"hole","queueId":1,"queueOffset":4,"phyOffset":-1,"text":"it is empty"}}
{"what":"dr`), 0o644))

	o, err = migrate.LoadOverview("root", dir)
	require.NoError(t, err)
	require.Empty(t, o.Problems)
	require.Len(t, o.Samples, 1)
	c := o.Certificate
	require.Equal(t, 60, c.Queues)
	require.Equal(t, 7, c.Topics)
	require.Equal(t, 1, c.Empty)
	require.Equal(t, 1, c.Alone)
	require.Equal(t, migrate.TopItem{Topic: "t3", QueueID: 59, Min: 1, Max: 1 + 59*59}, c.Top[0])
	queues, last := 0, int64(-1)
	for _, b := range c.Sizes {
		queues += b.Queues
		require.Greater(t, b.From, last)
		require.GreaterOrEqual(t, b.To, b.From)
		last = b.To
	}
	require.Equal(t, 60, queues)
	require.EqualValues(t, 59*60*119/6, c.Held)
	require.Equal(t, "second", o.Mended.Actor)
	require.EqualValues(t, 1, o.Mended.Findings.Len())
	require.Zero(t, o.Mended.Dropped)
	require.False(t, o.Mended.Ended)
	_, text := page(t, o)
	has(t, text, "t3/59", "3,481", "it is empty")

	// What cannot be read is said.
	require.NoError(t, os.WriteFile(filepath.Join(dir, migrate.CertificateFileName), []byte("{"), 0o644))
	o, err = migrate.LoadOverview("root", dir)
	require.NoError(t, err)
	require.Len(t, o.Problems, 1)
	require.ErrorContains(t, fmt.Errorf("%s", o.Problems[0]), migrate.CertificateFileName)
}
