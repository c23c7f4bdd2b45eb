package migrate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// However many queues a sample has, each is read whole once, and every other one is asked for one unit before that.
func TestTimeReads(t *testing.T) {
	for count := range 5 {
		if count == 0 {
			continue
		}
		runs := make([]sampled, count)
		for i := range runs {
			runs[i] = sampled{key: cq.Key{Topic: "t", QueueID: int32(i)}, units: make([]cq.Unit, 3)}
		}
		whole, ones := map[int32]int{}, map[int32]int{}
		queue, unit, err := timeReads(t.Context(), runs, func(r *sampled, most int) (int, error) {
			if most == 1 {
				ones[r.key.QueueID]++
			} else {
				require.Equal(t, 3, most)
				whole[r.key.QueueID]++
			}
			return most, nil
		})
		require.NoError(t, err)
		require.False(t, queue < 0 || unit < 0, "%v %v", queue, unit)
		require.Len(t, whole, count)
		for id, n := range whole {
			require.Equal(t, 1, n, "queue %d of %d", id, count)
		}
		require.Len(t, ones, (count+1)/2)
	}
	broken := errors.New("broken")
	_, _, err := timeReads(t.Context(), make([]sampled, 3), func(*sampled, int) (int, error) { return 0, broken })
	require.ErrorIs(t, err, broken)
}

func TestReadAhead(t *testing.T) {
	require.Equal(t, maxAhead, readAhead(0))
	require.Equal(t, maxAhead, readAhead(64))
	require.Equal(t, 10, readAhead(100_000))
	require.Equal(t, 1, readAhead(1_000_000))
	require.Equal(t, 1, readAhead(5_000_000))
}
