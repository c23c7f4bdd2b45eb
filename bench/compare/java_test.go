package compare

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/bench/load"
	"github.com/tandemq/tandemmq/bench/report"
)

func TestParseJava(t *testing.T) {
	out := "a word of the store\n" +
		`{"t":"bench","task":"put","java":"17.0.15","messages":60000,"figures":{"putPerSecond":1000.5,"cpuMicros":7},"latencies":{"put":{"samples":10000,"p50Nanos":2000,"p99Nanos":9000,"p999Nanos":11000,"maxNanos":5000000}}}` + "\n"
	did, err := parseJava([]byte(out))
	require.NoError(t, err)
	put := calibrate.Summary{Samples: 10000, P50: 2 * time.Microsecond, P99: 9 * time.Microsecond, P999: 11 * time.Microsecond, Max: 5 * time.Millisecond}
	require.Equal(t, javaResult{
		Task: TaskPut, Java: "17.0.15", Messages: 60000, Figures: report.Figures{"putPerSecond": 1000.5, "cpuMicros": 7}, Latencies: map[string]calibrate.Summary{"put": put},
	}, did)

	r := &Run{Figures: report.Figures{}, Latencies: map[string]calibrate.Summary{}}
	did.keep(r)
	require.Equal(t, put, r.Latencies["put"])
	require.InDelta(t, 1000.5, r.Figures["putPerSecond"], 0)
	require.InDelta(t, 2, r.Figures["putP50Micros"], 0)
	require.InDelta(t, 9, r.Figures["putP99Micros"], 0)
	require.InDelta(t, 2000, r.Figures["putP50Nanos"], 0)

	for _, tt := range []struct{ name, out, want string }{
		{"nothing", "", "no result"},
		{"only the store's words", "one\ntwo\n", `one\ntwo`},
		{"cut off", `{"t":"bench","task":"put","fig`, "what StoreBench printed"},
		{"no figures", `{"t":"bench","task":"put","messages":3}`, "measured nothing"},
		{"another's line", `{"t":"put","messages":3}`, "no result"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseJava([]byte(tt.out))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestJavaWork(t *testing.T) {
	peer := &JavaStore{Warmup: 50_000}
	j := peer.work(Work{Task: TaskPut, Engine: load.CombineRocks, Root: "/r", Sync: true, Producers: 3, Queues: 1000, Body: 64, Warmup: 10, Time: 1500 * time.Millisecond})
	require.Equal(t, javaWork{
		Task: TaskPut, Mode: "combine", Prefer: "rocks", Assign: "rocks", Root: "/r", Sync: true, Producers: 3, Topics: 10, Queues: 100, Body: 64, Warmup: 50_000, Millis: 1500,
	}, j)
	require.Equal(t, 90_000, peer.work(Work{Task: TaskMixed, Warmup: 90_000, Queues: 8}).Warmup)
	// Where the first messages make the queues, and where the messages are there.
	require.Zero(t, peer.work(Work{Task: TaskPut, Queues: 10_000}).Warmup)
	require.Zero(t, peer.work(Work{Task: TaskRead, Queues: 8}).Warmup)
}

func TestJavaMissing(t *testing.T) {
	have := func(programs ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			for _, p := range programs {
				if p == name {
					return "/bin/" + p, nil
				}
			}
			return "", fs.ErrNotExist
		}
	}
	mvn := errors.New("build the Java programs: mvn: exit status 1\n[INFO] Scanning\n[ERROR] Could not resolve dependencies\n[ERROR] To see more")
	for _, tt := range []struct {
		name string
		have []string
		err  error
		want string
	}{
		{"nothing", nil, mvn, "no java in PATH"},
		{"a JRE", []string{"java"}, mvn, "no javac in PATH"},
		{"no Maven", []string{"java", "javac"}, mvn, "no mvn in PATH"},
		{"no network", []string{"java", "javac", "mvn"}, mvn, "not be built: Could not resolve dependencies"},
		{"no cache", []string{"java", "javac", "mvn"}, errors.New("no cache directory\nset it"), "not be built: no cache directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := javaMissing(tt.err, have(tt.have...)).Error()
			require.Contains(t, said, tt.want)
			require.NotContains(t, said, "\n")
		})
	}
}
