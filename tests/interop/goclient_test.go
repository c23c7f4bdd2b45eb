//go:build interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/broker"
	"github.com/tandemq/tandemmq/store"
)

// buildGoClient builds goclient/, which is a module of its own.
var buildGoClient = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(programs, "goclient")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Dir, cmd.Env = "goclient", append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build goclient: %w\n%s", err, out)
	}
	return path, nil
})

// goClient is RocketMQ's client for Go.
func goClient(namesrv string) func(t *testing.T, scenarios []string) *exec.Cmd {
	return func(t *testing.T, scenarios []string) *exec.Cmd {
		path, err := buildGoClient()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), path, append([]string{namesrv}, scenarios...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // it keeps offsets of broadcasting groups there
		return cmd
	}
}

// goWants is what RocketMQ's client for Go has to see.
var goWants = []outcome{
	{"T10 T11 send", `{"consumed":23,"largeIsWhole":true,"oneway":true}`},
	{"T12 batch", `{"ok":true,"ids":10,"odd":["b1","b3","b5","b7","b9"]}`},
	{"T15 delay", `{"got":["later","now"],"notBeforeItsTime":true}`},
	{"T17 transaction", `{"got":["committed","unknown"],"asked":["unknown"]}`},
	{"T20 tags", `["A","A","B","last"]`},
	{"T21 sql", `["s6","s8"]`},
	{"T23 held", `{"beforeTheEndOfTheWait":true,"got":["first","second"]}`},
	{"T25 pull", `{"there":"found 1 next 1","beyond":"illegal 0 next 1","empty":"illegal 0 next 0"}`},
	{"T27 retry", `[0,1,2,3]`},
	{"T29 orderly", `{"one":{"messages":40,"inOrder":true,"queues":true},"two":{"messages":40,"inOrder":true,"queues":true}}`},
	{"T30 rebalance", `{"missing":0}`},
	{"broadcast", `[["0"],["0"]]`},
}

// The client finds its way by our NameServer, which quotes ids of brokers in routes.
func TestT54GoClient(t *testing.T) {
	t.Parallel()
	b := startBroker(t, func(o *broker.Options) { o.Store.StoreType = store.StoreTypeRocksDB })
	requireOutcomes(t, goWants, goClient(b.NameServerAddr().String()))
}

// And by RocketMQ's, which does not.
func TestT34GoClientWithRocketMQsNameServer(t *testing.T) {
	t.Parallel()
	namesrv := startServers(t).nameServer(t, "n", "0")
	startBroker(t, func(o *broker.Options) { o.EmbeddedNamesrv, o.NamesrvAddr = "", namesrv })
	requireOutcomes(t, []outcome{goWants[0]}, goClient(namesrv))
}
