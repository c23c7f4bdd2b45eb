package store

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// What is listed does not depend on the order in which it was found; all is counted.
func TestFindingsAreBoundedAndSorted(t *testing.T) {
	const limit, count = 7, 200
	slots := rand.New(rand.NewPCG(1, 2)).Perm(count)
	fs := newFindings(limit)
	for _, i := range slots {
		fs.add(queueFinding(CheckHole, "file", cq.Key{Topic: "t", QueueID: int32(i % 2)}, int64(i)))
	}
	fs.add(placeFinding(CheckNotice, CheckAbortMark, checkSideState, "abort", "left"))
	warning := queueFinding(CheckNoUnit, checkSideLog, cq.Key{Topic: "a"}, 3)
	warning.Severity = CheckWarning
	fs.add(warning)
	fs.add(queueFinding(CheckNoUnit, checkSideLog, cq.Key{Topic: "z"}, 3))
	list, counts := fs.report()
	var got []string
	for _, f := range list {
		got = append(got, brief(f))
	}
	require.Equal(t, []string{
		"error hole file t/0 slot 0", "error hole file t/0 slot 2", "error hole file t/0 slot 4", "error hole file t/0 slot 6",
		"error hole file t/0 slot 8", "error hole file t/0 slot 10", "error hole file t/0 slot 12",
		"error no-unit log z/0 slot 3", "warning no-unit log a/0 slot 3", "notice abort-mark state",
	}, got)
	require.Equal(t, []CheckCount{
		{CheckError, InvariantUnits, CheckHole, count, limit},
		{CheckError, InvariantRecords, CheckNoUnit, 1, 1},
		{CheckWarning, InvariantRecords, CheckNoUnit, 1, 1},
		{CheckNotice, "", CheckAbortMark, 1, 1},
	}, counts)
}

func TestCheckFindingString(t *testing.T) {
	f := queueFinding(CheckHole, "file", cq.Key{Topic: "t", QueueID: 2}, 5)
	f.Invariant, f.File, f.FileOffset, f.Text = InvariantUnits, "/s/q", 100, "slot 5 holds no unit"
	require.Equal(t, "error FRI-1 hole: queue t/2: slot 5 holds no unit [/s/q+100]", f.String())
	f.Row = "unit t/2 slot 5"
	require.Equal(t, "error FRI-1 hole: queue t/2: slot 5 holds no unit [/s/q+100, unit t/2 slot 5]", f.String())
	f.Row, f.FileOffset = "unit t/2 slot 5", -1
	require.Equal(t, "error FRI-1 hole: queue t/2: slot 5 holds no unit [/s/q, unit t/2 slot 5]", f.String())
	require.Equal(t, "notice abort-mark: left [abort]", placeFinding(CheckNotice, CheckAbortMark, checkSideState, "abort", "left").String())
	require.Equal(t, "notice light-off: left", placeFinding(CheckNotice, CheckLightOff, checkSideLog, "", "left").String())
}
