package combine_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
)

var (
	inFiles = combine.Roles{Preferred: cq.KindFile, Authority: cq.KindFile}
	inRocks = combine.Roles{Preferred: cq.KindRocks, Authority: cq.KindRocks}
)

// Canary topics are read from the other side, whatever is appended, expires, fails or is switched beside.
func TestTopicsOfTheOtherSide(t *testing.T) {
	d := newDuo(t, combine.Options{})
	d.rocks.late = true
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	require.NoError(t, d.Append(t.Context(), row(keyB, 0, 10, 1000)))
	a, b := mustQueue(t, d, keyA), mustQueue(t, d, keyB)
	require.Equal(t, cq.KindFile, readFrom(t, d, a, 9))

	canary := inFiles
	canary.Topics = []string{keyA.Topic}
	require.NoError(t, d.SetRoles(canary))
	require.Equal(t, canary, d.Roles())
	where := func(wantA, wantB cq.Kind, slot int64) {
		t.Helper()
		require.Equal(t, wantA, readFrom(t, d, a, slot))
		require.Equal(t, wantB, readFrom(t, d, b, slot))
		require.Equal(t, wantA, readFrom(t, d, mustQueue(t, d, keyA), slot), "a queue that is asked for anew")
	}
	where(cq.KindRocks, cq.KindFile, 9)
	batch := append(row(keyA, 10, 11, 2000), row(keyB, 10, 11, 3000)...)
	require.NoError(t, d.Append(t.Context(), batch))
	require.False(t, d.Served(batch), "whoever is told must wait for both sides")
	require.NoError(t, d.AwaitReadable(t.Context()))
	where(cq.KindRocks, cq.KindFile, 10)
	require.NoError(t, d.SetMinPhyOffset(50))
	where(cq.KindRocks, cq.KindFile, 10)
	d.MarkDiverged(cq.KindRocks, keyA, errors.New("on purpose"))
	where(cq.KindFile, cq.KindFile, 10)
	d.Heal(cq.KindRocks, keyA)
	where(cq.KindRocks, cq.KindFile, 10)

	require.NoError(t, d.SetRoles(inRocks))
	where(cq.KindRocks, cq.KindRocks, 10)
	require.Empty(t, d.Roles().Topics)
	require.NoError(t, d.SetRoles(inFiles))
	where(cq.KindFile, cq.KindFile, 10)
	require.NoError(t, d.SetRoles(canary))
	require.NoError(t, d.SetPreferred(cq.KindFile))
	where(cq.KindFile, cq.KindFile, 10)
}

// A side that lacks something of what it gets takes no role; one that has it all does, and one that has a role already keeps it.
func TestRolesAreRefusedToASideThatLacksSomething(t *testing.T) {
	diverge := func(k cq.Key) func(d *duo) {
		return func(d *duo) { d.MarkDiverged(cq.KindRocks, k, errors.New("on purpose")) }
	}
	canaryB := inFiles
	canaryB.Topics = []string{keyB.Topic}
	authority := combine.Roles{Preferred: cq.KindFile, Authority: cq.KindRocks}
	for _, c := range []struct {
		name string
		do   func(d *duo)
		set  combine.Roles
		want string
	}{
		{"held", func(d *duo) { d.Hold(cq.KindRocks) }, inRocks, "it is held"},
		{"held, authority alone", func(d *duo) { d.Hold(cq.KindRocks) }, authority, "it is held"},
		{"held, a topic alone", func(d *duo) { d.Hold(cq.KindRocks) }, canaryB, "it is held"},
		{"held, and it gets nothing", func(d *duo) { d.Hold(cq.KindRocks) }, inFiles, ""},
		{"diverged", diverge(keyA), inRocks, "diverged there, " + keyA.String()},
		{"diverged, another topic", diverge(keyA), canaryB, ""},
		{"diverged, the topic", diverge(keyB), canaryB, "diverged there, " + keyB.String()},
		{"failed", func(d *duo) {
			d.rocks.broken = errors.New("no disk")
			require.NoError(t, d.Append(t.Context(), row(keyA, 10, 11, 5000)))
		}, inRocks, "no disk"},
		{"an unknown side", func(*duo) {}, combine.Roles{Preferred: "java", Authority: cq.KindFile}, "java"},
		{"closed", func(d *duo) { require.NoError(t, d.Close()) }, inRocks, cq.ErrClosed.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDuo(t, combine.Options{})
			require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
			require.NoError(t, d.Append(t.Context(), row(keyB, 0, 10, 1000)))
			before := d.Roles()
			c.do(d)
			err := d.SetRoles(c.set)
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, c.set, d.Roles())
				return
			}
			require.ErrorContains(t, err, c.want)
			require.Equal(t, before, d.Roles())
		})
	}
}

// A side with authority whose writes fail stops dispatch; taking both roles from it is the way out.
func TestRolesCanBeTakenFromASideThatFails(t *testing.T) {
	d := newDuo(t, combine.Options{Preferred: cq.KindRocks, Authority: cq.KindRocks})
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	d.rocks.broken = errors.New("no disk")
	require.ErrorContains(t, d.Append(t.Context(), row(keyA, 10, 11, 5000)), "no disk")
	require.NoError(t, d.SetRoles(inFiles))
	require.NoError(t, d.Append(t.Context(), row(keyA, 10, 11, 5000)))
	require.Error(t, d.Failure(cq.KindRocks))
	require.Equal(t, cq.KindFile, readFrom(t, d, mustQueue(t, d, keyA), 10))
}

// Units that were compared before are left out, and whoever wants to know is told of each pair.
func TestVerifyFromASlotOn(t *testing.T) {
	d := newDuo(t, combine.Options{})
	require.NoError(t, d.Append(t.Context(), row(keyA, 0, 10, 0)))
	d.rocks.m[keyA].units[2].Size++
	var told []int64
	verify := func(from int64) combine.Verdict {
		told = nil
		v, err := d.VerifyWith(t.Context(), keyA, combine.VerifyOptions{Level: combine.Units, From: from, Pace: t.Context().Err, Each: func(slot int64, units [2]cq.Unit) error {
			require.True(t, units[0].SameRecord(units[1]))
			told = append(told, slot)
			return nil
		}})
		require.NoError(t, err)
		return v
	}
	v := verify(0)
	require.EqualValues(t, 1, v.Different)
	require.Equal(t, []int64{0, 1, 3, 4, 5, 6, 7, 8, 9}, told)
	v = verify(7)
	require.True(t, v.OK())
	require.Equal(t, []int64{7, 8, 9}, told)
	require.EqualValues(t, 7, v.From)
	v = verify(99)
	require.True(t, v.OK())
	require.Empty(t, told)
	stop := errors.New("enough")
	_, err := d.VerifyWith(t.Context(), keyA, combine.VerifyOptions{Level: combine.Units, Pace: t.Context().Err, Each: func(int64, [2]cq.Unit) error { return stop }})
	require.ErrorIs(t, err, stop)
}
