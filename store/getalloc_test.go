package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A get takes no memory, whether what it reads is new or was there when the store was opened, and keeps nothing of it.
func TestGetTakesNoMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	forEachKind(t, func(t *testing.T, o Options) {
		o.MappedFileSizeConsumeQueue = 20_000 // a get ends where a file does
		root := t.TempDir()
		s := openStore(t, root, o)
		putSome(t, s, 100)
		for range 2 {
			awaitDispatch(t, s)
			var res GetResult
			offset := int64(0)
			one := func() {
				offset = (offset + 7) % 90
				if err := s.Get(&GetRequest{Group: "g", Topic: "T", QueueID: int32(offset % 2), Offset: offset, MaxMessages: 10}, &res); err != nil || len(res.Messages) != 10 {
					t.Fatal(res.Status, err)
				}
			}
			one()
			require.Zero(t, testing.AllocsPerRun(200, one))
			res.Release()
			require.Nil(t, res.getter.record.Body, "a place in the log is kept")
			require.Nil(t, res.getter.queue)
			require.NoError(t, s.Close())
			s = openStore(t, root, o)
		}
		require.NoError(t, s.Close())
	})
}
