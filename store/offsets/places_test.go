//go:build cgo

package offsets

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/configdb"
)

func TestJavaDatabases(t *testing.T) {
	want := map[Key]int64{{"T1", "g1", 0}: 12, {"T1", "g1", 3}: 7, {"%RETRY%g2", "g2", 0}: 3}
	for _, tt := range []struct {
		root    string
		place   Place
		counter int64
	}{{"v1", Rocks, 6}, {"single", RocksSingle, 6}, {"v2", RocksV2, 4}} {
		t.Run(tt.root, func(t *testing.T) {
			s := find(t, javaRoot(t, tt.root))
			require.Len(t, s, 1)
			require.NoError(t, s[0].Err)
			require.Equal(t, tt.place, s[0].Place)
			got := stored(s[0])
			if tt.root == "v2" {
				require.Equal(t, None, got[Key{"T2", "gg", 0}])
				delete(got, Key{"T2", "gg", 0})
			}
			require.Equal(t, want, got, "and no pull offsets")
			require.Empty(t, s[0].Faults)
			require.Equal(t, tt.counter, s[0].Version.Counter)
		})
	}
}

// A damaged database is a source that cannot be read, beside others that can.
func TestDamagedDatabase(t *testing.T) {
	l := javaRoot(t, "v1")
	write(t, JSON.path(l), `{"offsetTable":{"T@g":{0:15}}}`)
	tables, err := filepath.Glob(filepath.Join(Rocks.path(l), "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	require.NoError(t, os.WriteFile(tables[0], make([]byte, 100), 0o644))
	s := find(t, l)
	require.Len(t, s, 2)
	require.NoError(t, s[0].Err)
	require.ErrorContains(t, s[1].Err, Rocks.path(l))
}

// A change of a database goes into the file that 5.5.0 takes in: all rows of the database, none of the old file's, under a
// counter greater than both.
func TestPlanForADatabase(t *testing.T) {
	for root, place := range map[string]Place{"v1": Rocks, "single": RocksSingle} {
		for _, old := range []int64{2, 40} {
			l := sampleStore(t)
			require.NoError(t, os.CopyFS(filepath.Dir(place.path(l))+"/", os.DirFS(filepath.Dir(place.path(javaRoot(t, root))))))
			write(t, JSON.path(l), fmt.Sprintf(`{"dataVersion":{"counter":%d},"offsetTable":{"T1@g1":{0:1},"old@g":{0:1}},"x":1}`, old))
			p, err := PlanReset(t.Context(), view(t, l), find(t, l), ToMax, 0,
				PlanOptions{Place: place, Selection: Selection{Group: "g1", Topic: sampleTopic, QueueID: 0}, Now: testNow})
			require.NoError(t, err)
			require.Equal(t, max(6, old)+1, p.Version.Counter)
			require.Equal(t, JSON.path(l), p.File)
			_, err = p.Apply(testNow)
			require.NoError(t, err)
			require.Equal(t, map[Key]int64{
				{"T1", "g1", 0}: 12, {"T1", "g1", 3}: 7, {"%RETRY%g2", "g2", 0}: 3, {sampleTopic, "g1", 0}: p.Changes[0].To,
			}, readBack(t, JSON, JSON.path(l)))
			s, err := ReadFile(JSON, JSON.path(l))
			require.NoError(t, err)
			require.NotNil(t, s.doc.root.Member("x"))

			_, err = PlanRestore(t.Context(), view(t, l), find(t, l), RestoreOptions{PlanOptions: PlanOptions{Place: place, Selection: All()}})
			require.ErrorContains(t, err, "name the file to restore from")
		}
	}
}

// With configManagerVersion=v2 a written file would do nothing: it is refused.
func TestPlanForV2IsRefused(t *testing.T) {
	l := sampleStore(t)
	require.NoError(t, os.CopyFS(RocksV2.path(l), os.DirFS(RocksV2.path(javaRoot(t, "v2")))))
	p := reset(t, l, ToMin, 0, Selection{Group: "g1", Topic: sampleTopic, QueueID: -1})
	require.Len(t, p.Refusals, 1)
	_, err := p.Apply(testNow)
	require.ErrorContains(t, err, "configManagerVersion=v2")
	require.NoFileExists(t, JSON.path(l))
}

// A database in which no offset ever was, as a migration leaves one where there were none, is not taken for the broker's place beside a file.
func TestAnEmptyDatabaseIsNoPlace(t *testing.T) {
	l := sampleStore(t)
	db, err := configdb.Open(filepath.Dir(JSON.path(l)), configdb.Separate)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	write(t, JSON.path(l), `{"offsetTable":{"T@g":{0:15}}}`)
	sources := find(t, l)
	require.Len(t, sources, 2)
	s, err := Choose(l, sources, "")
	require.NoError(t, err)
	require.Equal(t, JSON, s.Place)
	require.NoError(t, os.RemoveAll(Rocks.path(l)))
	require.NoError(t, os.CopyFS(Rocks.path(l), os.DirFS(Rocks.path(javaRoot(t, "v1")))))
	_, err = Choose(l, find(t, l), "")
	require.ErrorContains(t, err, "in several places")
}
