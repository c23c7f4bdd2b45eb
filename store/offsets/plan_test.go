package offsets

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

func reset(t *testing.T, l store.Layout, target Target, ms int64, sel Selection) *Plan {
	t.Helper()
	p, err := PlanReset(t.Context(), view(t, l), find(t, l), target, ms, PlanOptions{Selection: sel, Now: testNow})
	require.NoError(t, err)
	return p
}

// changes are a plan's changes, old and new; -100 stands for none.
func changes(p *Plan) map[Key][2]int64 {
	out := map[Key][2]int64{}
	for _, c := range p.Changes {
		from := int64(-100)
		if c.From != nil {
			from = *c.From
		}
		out[c.Key] = [2]int64{from, c.To}
	}
	return out
}

const sampleTable = `{"dataVersion":{"counter":3,"stateVersion":1,"timestamp":1},"offsetTable":{"sample_0@g":{0:900,1:5},"sample_0@h":{0:-7,1:-1},"gone@g":{0:4}},"x":1}`

func TestPlanReset(t *testing.T) {
	l := sampleStore(t)
	write(t, JSON.path(l), sampleTable)
	v := view(t, l)
	max0, max1 := maxOf(t, v, cq.Key{Topic: sampleTopic}), maxOf(t, v, cq.Key{Topic: sampleTopic, QueueID: 1})
	g0, g1, h0, h1 := Key{sampleTopic, "g", 0}, Key{sampleTopic, "g", 1}, Key{sampleTopic, "h", 0}, Key{sampleTopic, "h", 1}
	n0, n1 := Key{sampleTopic, "new", 0}, Key{sampleTopic, "new", 1}
	for _, tt := range []struct {
		name    string
		target  Target
		sel     Selection
		want    map[Key][2]int64
		skipped int
	}{
		{"clamp all", ToBounds, All(), map[Key][2]int64{g0: {900, max0}, h0: {-7, 0}}, 1},
		{"one group to min", ToMin, Selection{Group: "g", QueueID: -1}, map[Key][2]int64{g0: {900, 0}, g1: {5, 0}}, 1},
		{"one topic to max", ToMax, Selection{Topic: sampleTopic, QueueID: -1}, map[Key][2]int64{g0: {900, max0}, g1: {5, max1}, h0: {-7, max0}, h1: {-1, max1}}, 0},
		{"one queue", ToMax, Selection{QueueID: 1}, map[Key][2]int64{g1: {5, max1}, h1: {-1, max1}}, 0},
		{"a group that has none yet", ToMin, Selection{Group: "new", Topic: sampleTopic, QueueID: -1}, map[Key][2]int64{n0: {-100, 0}, n1: {-100, 0}}, 0},
		{"a group that is not there", ToMin, Selection{Group: "new", QueueID: -1}, map[Key][2]int64{}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := reset(t, l, tt.target, 0, tt.sel)
			require.Equal(t, tt.want, changes(p))
			require.Len(t, p.Skipped, tt.skipped)
			require.Empty(t, p.Refusals)
			require.Equal(t, &Version{4, 1, testNow.UnixMilli()}, p.Version)
			for k, v := range map[Key]int64{g0: 900, g1: 5, h0: -7, h1: -1, {"gone", "g", 0}: 4} {
				if c, ok := tt.want[k]; ok {
					v = c[1]
				}
				require.Equal(t, v, p.offsets[k], k)
			}
		})
	}
}

// By time: the first message at or after it, compared with a walk over all of them, for every time there is.
func TestPlanResetToTime(t *testing.T) {
	l := sampleStore(t)
	v := view(t, l)
	k := Key{sampleTopic, "g", 0}
	q, err := newQueues(v)
	require.NoError(t, err)
	b, _, err := q.bounds(k.Queue())
	require.NoError(t, err)
	for ms := int64(sampleStartMs - 2); ms < sampleStartMs+102; ms++ {
		want := b.Max
		for at := b.Max - 1; at >= b.Min; at-- {
			if stored, ok, err := q.storeTime(k.Queue(), at); err == nil && ok && stored >= ms {
				want = at
			}
		}
		p := reset(t, l, ToTime, ms, Selection{Group: "g", Topic: sampleTopic})
		require.Equal(t, map[Key][2]int64{k: {-100, want}}, changes(p), "%d ms", ms-sampleStartMs)
		require.Equal(t, want < b.Max, p.Changes[0].ToStoreMs != nil)
	}
}

// Slots whose messages cannot be read have no time; the search goes by the others.
func TestByTimeStepsOverHoles(t *testing.T) {
	l := sampleStore(t)
	dir := l.ConsumeQueueDir() + "/" + sampleTopic + "/0/"
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	f, err := os.OpenFile(dir+entries[1].Name(), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, 100), 0) // slots 10 to 14
	require.NoError(t, err)
	require.NoError(t, f.Close())
	v := view(t, l)
	q, err := newQueues(v)
	require.NoError(t, err)
	k := cq.Key{Topic: sampleTopic}
	b, _, err := q.bounds(k)
	require.NoError(t, err)
	for at := b.Min; at < b.Max; at++ {
		ms, ok, err := q.storeTime(k, at)
		require.NoError(t, err)
		require.Equal(t, at < 10 || at > 14, ok, at)
		if !ok {
			continue
		}
		got, err := q.byTime(k, ms)
		require.NoError(t, err)
		require.Equal(t, at, got)
	}
}

func TestPlanRefusals(t *testing.T) {
	for _, tt := range []struct {
		name, file, want string
		sel              Selection
	}{
		{"a value that stays bad", `{"offsetTable":{"sample_0@g":{0:1},"sample_0@h":{0:x}}}`, "line 1, column 52: offset of sample_0@h/0 is x", Selection{Group: "g", QueueID: -1}},
		{"a queue id that is none", `{"offsetTable":{"sample_0@g":{0:1,y:2}}}`, `queue id "y" of "sample_0@g" is no 32-bit number; 5.5.0 would reject the whole file: repair it by hand`, All()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := sampleStore(t)
			write(t, JSON.path(l), tt.file)
			p := reset(t, l, ToMax, 0, tt.sel)
			require.Len(t, p.Refusals, 1)
			require.Contains(t, p.Refusals[0], tt.want)
			_, err := p.Apply(testNow)
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			b, err := os.ReadFile(JSON.path(l))
			require.NoError(t, err)
			require.Equal(t, tt.file, string(b))
		})
	}
	t.Run("a bad value that is reset", func(t *testing.T) {
		l := sampleStore(t)
		write(t, JSON.path(l), `{"offsetTable":{"sample_0@h":{0:x}}}`)
		p := reset(t, l, ToMin, 0, All())
		require.Empty(t, p.Refusals)
		require.Contains(t, p.Changes[0].FromText, "x, want a whole number")
		require.Nil(t, p.Version, "none was there")
	})
	t.Run("an unclean store", func(t *testing.T) {
		l := sampleStore(t)
		write(t, JSON.path(l), sampleTable)
		write(t, l.AbortPath(), "")
		p := reset(t, l, ToMin, 0, All())
		require.Len(t, p.Refusals, 1)
		require.Contains(t, p.Refusals[0], "not closed cleanly")
	})
	t.Run("several places", func(t *testing.T) {
		l := sampleStore(t)
		write(t, JSON.path(l), sampleTable)
		write(t, LightJSON.path(l), `{"offsetTable":{}}`)
		_, err := PlanReset(t.Context(), view(t, l), find(t, l), ToMin, 0, PlanOptions{Selection: All()})
		var several *AmbiguousError
		require.ErrorAs(t, err, &several)
		require.Equal(t, []Place{JSON, LightJSON}, several.Places)
	})
}

func restore(t *testing.T, l store.Layout, o RestoreOptions) *Plan {
	t.Helper()
	o.Now = testNow
	if o.Selection == (Selection{}) {
		o.Selection = All()
	}
	p, err := PlanRestore(t.Context(), view(t, l), find(t, l), o)
	require.NoError(t, err)
	return p
}

func TestPlanRestore(t *testing.T) {
	l := sampleStore(t)
	write(t, JSON.path(l), `{"offsetTable":{"sample_0@g":{0:900,1:5},"sample_0@h":{0:3,1:800},"sample_0@w":{0:x}}}`)
	write(t, JSON.path(l)+BackupSuffix, `{"offsetTable":{"sample_0@g":{0:10,1:4},"sample_0@h":{0:2,1:700},"sample_0@w":{0:6},"sample_0@lost":{0:8},"gone@lost":{0:9}}}`)
	max1 := maxOf(t, view(t, l), cq.Key{Topic: sampleTopic, QueueID: 1})
	want := map[Key][2]int64{
		{sampleTopic, "g", 0}: {900, 10}, {sampleTopic, "w", 0}: {-100, 6}, {sampleTopic, "lost", 0}: {-100, 8}, {"gone", "lost", 0}: {-100, 9},
	}
	p := restore(t, l, RestoreOptions{})
	require.Equal(t, want, changes(p), "those that are missing, outside or no number")
	require.Len(t, p.Skipped, 1, "700 is outside too")
	require.Equal(t, 2, p.Unchanged)
	require.Empty(t, p.Refusals)
	require.Equal(t, int64(5), p.offsets[Key{sampleTopic, "g", 1}])

	want[Key{sampleTopic, "h", 1}] = [2]int64{800, max1}
	p = restore(t, l, RestoreOptions{Clamp: true})
	require.Equal(t, want, changes(p))
	want[Key{sampleTopic, "g", 1}], want[Key{sampleTopic, "h", 0}] = [2]int64{5, 4}, [2]int64{3, 2}
	p = restore(t, l, RestoreOptions{Clamp: true, Overwrite: true})
	require.Equal(t, want, changes(p))
	for _, c := range p.Changes {
		require.Equal(t, c.Key == Key{sampleTopic, "h", 1}, c.Clamped != nil)
	}
}

// What cannot be read is replaced by all of the backup, with the members of the backup: part of it would hide the rest.
func TestPlanRestoreOfALostFile(t *testing.T) {
	const backup = `{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1},"offsetTable":{"sample_0@g":{0:10,1:900},"gone@g":{0:9},"sample_0@h":{0:-1}},"x":1}`
	for name, file := range map[string]*string{"missing": nil, "empty": new(string), "cut": strPtr(backup[:70])} {
		t.Run(name, func(t *testing.T) {
			l := sampleStore(t)
			if file != nil {
				write(t, JSON.path(l), *file)
			}
			write(t, JSON.path(l)+BackupSuffix, backup)
			p := restore(t, l, RestoreOptions{PlanOptions: PlanOptions{Selection: Selection{Group: "h", QueueID: -1}}})
			require.Len(t, p.Refusals, 1)
			require.Contains(t, p.Refusals[0], "restore all of the backup first")

			p = restore(t, l, RestoreOptions{})
			require.Empty(t, p.Refusals)
			require.Len(t, p.Changes, 4)
			for _, c := range p.Changes {
				require.Equal(t, c.To == 900, c.Outside)
			}
			a, err := p.Apply(testNow)
			require.NoError(t, err)
			require.Equal(t, file != nil, a.Copy != "")
			if file != nil {
				b, err := os.ReadFile(a.Copy)
				require.NoError(t, err)
				require.Equal(t, *file, string(b))
			}
			s, err := ReadFile(JSON, JSON.path(l))
			require.NoError(t, err)
			require.Equal(t, int64(8), s.Version.Counter)
			require.NotNil(t, s.doc.root.Member("x"))
			require.Equal(t, readBack(t, JSON, JSON.path(l)+BackupSuffix), stored(s))
		})
	}
}

func strPtr(s string) *string { return &s }

func TestPlanRestoreWithoutABackup(t *testing.T) {
	l := sampleStore(t)
	write(t, JSON.path(l), sampleTable)
	_, err := PlanRestore(t.Context(), view(t, l), find(t, l), RestoreOptions{PlanOptions: PlanOptions{Selection: All()}})
	require.ErrorContains(t, err, "consumerOffset.json.bak: there is none")
	_, err = PlanRestore(t.Context(), view(t, l), find(t, l), RestoreOptions{PlanOptions: PlanOptions{Selection: All()}, Backup: "/nowhere"})
	require.ErrorContains(t, err, "/nowhere")
	write(t, JSON.path(l)+BackupSuffix, "[")
	_, err = PlanRestore(t.Context(), view(t, l), find(t, l), RestoreOptions{PlanOptions: PlanOptions{Selection: All()}})
	require.ErrorContains(t, err, "consumerOffset.json.bak at line 1, column 2")
}
