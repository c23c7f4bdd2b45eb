package cqtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

var closedCases = []testCase{
	{"every call answers that the store is closed", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		appendAll(t, s, l.PutN(60, keyA, keyB))
		q := mustQueue(t, s, keyA)
		im := e.importer(t, s)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "close twice")

		_, err := q.Bounds()
		require.ErrorIs(t, err, cq.ErrClosed)
		_, err = q.Read(0, make([]cq.Unit, 1))
		require.ErrorIs(t, err, cq.ErrClosed)
		ctx := t.Context()
		require.ErrorIs(t, s.Append(ctx, l.PutN(1, keyA)), cq.ErrClosed)
		require.ErrorIs(t, s.AwaitReadable(ctx), cq.ErrClosed)
		require.ErrorIs(t, s.Flush(ctx), cq.ErrClosed)
		require.ErrorIs(t, s.TruncateDirty(ctx, 0), cq.ErrClosed)
		require.ErrorIs(t, im.Import(ctx, l.runs(0, 10, keyB)), cq.ErrClosed)
		require.ErrorIs(t, im.Publish(ctx, l.ends(), l.lastEnd()), cq.ErrClosed)
		require.ErrorIs(t, im.DropQueue(ctx, keyB), cq.ErrClosed)
		_, err = cq.SortedKeys(s)
		require.ErrorIs(t, err, cq.ErrClosed, "a listing that is cut off says so")
		require.NotPanics(t, func() {
			s.Queue(keyB)
			s.Queue(cq.Key{Topic: "nobody"})
			s.DispatchFrom()
			s.Progress()
		})
	}},
}

var readOnlyCases = []testCase{
	{"reads everything, refuses writes, changes no byte", func(t *testing.T, e *env) {
		s := e.open(t, OpenOptions{})
		l := NewLog(0)
		l.StartQueue(keyRetry, 60)
		batch := l.PutN(360, allKeys...)
		appendAll(t, s, batch)
		im := e.importer(t, s)
		require.NoError(t, im.Publish(t.Context(), []cq.QueueEnd{
			{Key: cq.Key{Topic: "gone"}, Min: 70, MinPhyOffset: 0, Max: 70},
		}, l.lastEnd()))
		require.NoError(t, im.DropQueue(t.Context(), cq.Key{Topic: "gone"}))
		require.NoError(t, s.Close())
		before := e.tree(t)

		s = e.open(t, OpenOptions{ReadOnly: true})
		e.requireEqualsLog(t, s, l, 0)
		require.Equal(t, l.lastEnd(), s.DispatchFrom())
		_, ok := s.Queue(cq.Key{Topic: "nobody"})
		require.False(t, ok)
		ctx := t.Context()
		im = e.importer(t, s)
		require.ErrorIs(t, s.Append(ctx, batch[:1]), cq.ErrReadOnly, "even a repeat")
		require.ErrorIs(t, s.Append(ctx, l.PutN(1, keyA)), cq.ErrReadOnly)
		require.ErrorIs(t, s.TruncateDirty(ctx, 0), cq.ErrReadOnly)
		require.ErrorIs(t, im.Import(ctx, l.runs(0, 10, keyB)), cq.ErrReadOnly)
		require.ErrorIs(t, im.Publish(ctx, l.ends(), l.lastEnd()), cq.ErrReadOnly)
		require.ErrorIs(t, im.DropQueue(ctx, keyB), cq.ErrReadOnly)
		l.Cut(batch[len(batch)-1].Unit.End())
		e.requireEqualsLog(t, s, l, 0)
		require.NoError(t, s.Close())
		require.Equal(t, before, e.tree(t))
	}},
	{"nothing to read is no reason to write", func(t *testing.T, e *env) {
		sub := &env{Harness: e.Harness, dir: filepath.Join(e.dir, "absent")}
		s, err := sub.Open(sub.dir, OpenOptions{ReadOnly: true})
		if err == nil { // an empty store is as good an answer as an error
			require.Empty(t, keysOf(s))
			require.NoError(t, s.Close())
		}
		_, err = os.Stat(sub.dir)
		require.ErrorIs(t, err, os.ErrNotExist)
	}},
}
