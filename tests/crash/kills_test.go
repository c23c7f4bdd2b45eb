package crash

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kills is how many random moments each case is killed at, few as a rule. TANDEMMQ_KILLS and TANDEMMQ_SEED change and repeat a run.
func kills(t *testing.T, few int) (int, *rand.Rand) {
	n, seed := few, uint64(time.Now().UnixNano())
	if s := os.Getenv("TANDEMMQ_KILLS"); s != "" {
		var err error
		n, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	if s := os.Getenv("TANDEMMQ_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d", seed)
	return n, rand.New(rand.NewPCG(seed, seed))
}

// reach counts how often a kill met what, so that a run shows what it covered.
type reach map[string]int
