package online

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/store"
)

// repeatInFile puts the unit of the next slot into a slot of a file queue, behind the back of the open store.
func (r *real) repeatInFile(t *testing.T, k cq.Key, slot int64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(r.root, "consumequeue", k.Topic, fmt.Sprint(k.QueueID), fmt.Sprintf("%020d", slot/100*2000)), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, 20)
	_, err = f.ReadAt(b, (slot%100+1)*20)
	require.NoError(t, err)
	_, err = f.WriteAt(b, slot%100*20)
	require.NoError(t, err)
}

// requireEachOnce reads a queue from a slot on, and wants each message once, in its slot.
func (r *real) requireEachOnce(t *testing.T, k cq.Key, from int64) {
	t.Helper()
	var res store.GetResult
	defer res.Release()
	for at := from; at < realUnits; {
		require.NoError(t, r.s.Get(&store.GetRequest{Topic: k.Topic, QueueID: k.QueueID, Offset: at, MaxMessages: 32}, &res))
		require.NotEmpty(t, res.Messages)
		for i := range res.Messages {
			require.Equal(t, at, res.Messages[i].QueueOffset)
			require.Contains(t, string(res.Messages[i].Record), fmt.Sprintf("body %d", at))
			at++
		}
	}
}

// A rollback reads what was the same before not again. A unit that was damaged since and leads to its neighbour's message is not served, neither then nor while the migration is verified: no message is missed, and none comes
// twice.
func TestDamageThatARollbackDoesNotRead(t *testing.T) {
	for _, back := range []bool{true, false} {
		t.Run(fmt.Sprint("after a rollback: ", back), func(t *testing.T) {
			r, k := newReal(t, 1), cq.Key{Topic: "A", QueueID: 1}
			if back {
				require.NoError(t, r.m.Cutover(t.Context(), "me", nil))
			}
			r.repeatInFile(t, k, 50)
			if back {
				require.NoError(t, r.m.Rollback(t.Context(), "me", RollbackOptions{}))
				require.Equal(t, state.RolledBack, r.m.Status().Phase)
			}
			require.Equal(t, cq.KindFile, r.m.Status().Reads)
			r.requireEachOnce(t, k, 49)
			require.EqualValues(t, 1, r.m.Status().Shadow.Found)
			if !back { // the verification counts no more, and everything is compared again
				require.Eventually(t, func() bool { f := r.m.Status().Findings; return f != nil && f.Healed == 1 }, 20*time.Second, time.Millisecond)
				r.await(t, state.Verified)
			}
			r.requireEachOnce(t, k, 0)
		})
	}
}
