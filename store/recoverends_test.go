package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// damagedOnBoth is a combined store with a queue, Old, of which the log has no record: in RocksDB it is not there, its file cannot be read.
func damagedOnBoth(t *testing.T, note bool) (root string, o Options) {
	t.Helper()
	needRocksDB(t)
	o = combineOptions()
	root = expiredQueue(t, o, note)
	dir := filepath.Join(NewLayout(root).ConsumeQueueDir(), "Old", "0")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	path := filepath.Join(dir, files[len(files)-1].Name())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	copy(b[6*20:], bytes.Repeat([]byte{0xff}, 20))
	require.NoError(t, os.WriteFile(path, b, 0o644))
	return root, o
}

// A recovery ends where both sides of a queue lack something that the log does not have: what is noted says where it goes on.
func TestRecoveryEndsWhereBothSidesAreDamaged(t *testing.T) {
	root, o := damagedOnBoth(t, true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // it hung
	defer cancel()
	_, err := Recover(ctx, root, RecoverOptions{Options: &o, Kind: cq.KindCombine, Create: true})
	require.NoError(t, err)
	s := openStore(t, root, o)
	defer s.Close()
	awaitSides(t, s)
	for _, kind := range combinedKinds {
		requireEnd(t, s.views.sides.side(kind), cq.Key{Topic: "Old"}, 7)
	}
}

// A mending that fails again and again ends a recovery with its cause; so does a side that was given up.
func TestRecoveryEndsWithWhyAQueueCannotBeMended(t *testing.T) {
	needRocksDB(t)
	s := openCombined(t, t.TempDir(), combineOptions())
	putSome(t, s, 3)
	awaitSides(t, s)
	cause := errors.New("no way")
	for range mendTries - 1 {
		s.views.noteMending(cause)
	}
	require.NoError(t, s.awaitViews(t.Context()))
	s.views.noteMending(cause)
	require.ErrorIs(t, s.awaitViews(t.Context()), cause)
	s.views.noteMending(nil)
	require.NoError(t, s.awaitViews(t.Context()))
	s.views.sides.failed.Store(&cause)
	require.ErrorIs(t, s.awaitViews(t.Context()), cause)
	s.views.sides.failed.Store(nil)
	require.NoError(t, s.Close())
}
