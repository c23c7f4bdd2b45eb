package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
)

// runApp runs one command line in process.
func runApp(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"tandemmq"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsageErrors(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		stderr string
	}{
		{"unknown command", []string{"stor"}, "tandemmq: no command \"stor\"; did you mean \"store\"?\nsee 'tandemmq --help'\n"},
		{"unknown subcommand", []string{"store", "dmp"}, "tandemmq: store: no command \"dmp\"; did you mean \"dump\"?\nsee 'tandemmq store --help'\n"},
		{"unknown flag", []string{"store", "dump", "--stroe", "x"}, "tandemmq: store dump: flag provided but not defined: -stroe; did you mean \"--store\"?\nsee 'tandemmq store dump --help'\n"},
		{"unknown global flag", []string{"--verbos"}, "tandemmq: flag provided but not defined: -verbos; did you mean \"--version\"?\nsee 'tandemmq --help'\n"},
		{"no store", []string{"store", "dump"}, "tandemmq: store dump: --store is missing\nsee 'tandemmq store dump --help'\n"},
		{"no store to generate", []string{"store", "generate", "--messages", "5"}, "tandemmq: store generate: --store is missing\nsee 'tandemmq store generate --help'\n"},
		{"stray argument", []string{"store", "dump", "--cq", "file", "/data"}, "tandemmq: store dump: unexpected argument \"/data\"\nsee 'tandemmq store dump --help'\n"},
		{"value of the wrong kind", []string{"store", "generate", "--store", "x", "--messages", "many"}, "tandemmq: store generate: invalid value \"many\" for flag -messages: parse error\nsee 'tandemmq store generate --help'\n"},
		{"impossible value", []string{"store", "generate", "--store", "x", "--messages", "0"}, "tandemmq: --messages 0: want 1 to 1099511627776\nsee 'tandemmq store generate --help'\n"},
		{"unknown side", []string{"store", "dump", "--store", "x", "--cq", "tape"}, "tandemmq: --cq \"tape\": use file or rocks\nsee 'tandemmq store dump --help'\n"},
		{"negative limit", []string{"store", "dump", "--store", "x", "--limit", "-1"}, "tandemmq: --limit -1: use 1 or more, or 0 for all\nsee 'tandemmq store dump --help'\n"},
		{"negative queue", []string{"store", "dump", "--store", "x", "--queue", "-1"}, "tandemmq: --queue -1: use a queue id, 0 or more\nsee 'tandemmq store dump --help'\n"},
		{"nothing alike", []string{"bench", "xyz"}, "tandemmq: bench: no command \"xyz\"\nsee 'tandemmq bench --help'\n"},
		{"time without unit", []string{"bench", "put", "--duration", "1"}, "tandemmq: bench put: invalid value \"1\" for flag -duration: parse error; want a number with its unit, like 500ms, 30s or 5m\nsee 'tandemmq bench put --help'\n"},
		{"begin to no side", []string{"migrate", "online", "begin", "--to", "nonsense"}, "tandemmq: --to \"nonsense\": use rocks or file\nsee 'tandemmq migrate online begin --help'\n"},
		{"begin in no layout", []string{"migrate", "online", "begin", "--layout", "round"}, "tandemmq: --layout \"round\": use separate or shared\nsee 'tandemmq migrate online begin --help'\n"},
		{"no queue's name", []string{"migrate", "online", "resolve", "--queue", "bad"}, "tandemmq: --queue \"bad\": use TOPIC/ID\nsee 'tandemmq migrate online resolve --help'\n"},
		{"no side to keep", []string{"migrate", "online", "resolve", "--queue", "T/0", "--keep", "nix"}, "tandemmq: --keep \"nix\": use file, rocks or log\nsee 'tandemmq migrate online resolve --help'\n"},
		{"to no side, without a store", []string{"migrate", "run", "--store", "missing", "--to", "x"}, "tandemmq: --to \"x\": use rocks or file\nsee 'tandemmq migrate run --help'\n"},
		{"repair no side, without a store", []string{"migrate", "repair", "--store", "missing", "--side", "x"}, "tandemmq: --side \"x\": use file, rocks or both\nsee 'tandemmq migrate repair --help'\n"},
		{"in no layout, without a store", []string{"migrate", "run", "--store", "missing", "--layout", "x"}, "tandemmq: --layout \"x\": use separate or shared\nsee 'tandemmq migrate run --help'\n"},
		{"files of no size, without a store", []string{"migrate", "run", "--store", "missing", "--cq-file-size", "1"}, "tandemmq: --cq-file-size 1: use 20 to 1073741824 bytes\nsee 'tandemmq migrate run --help'\n"},
		{"no such help", []string{"help", "nothing"}, "tandemmq: no command \"nothing\"; did you mean \"completion\"?\nsee 'tandemmq --help'\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := runApp(t, tt.args...)
			require.Equal(t, 2, code)
			require.Empty(t, stdout)
			require.Equal(t, tt.stderr, stderr)
		})
	}
}

// Help is asked for, so it goes to standard output, and every command that does something shows an example.
func TestHelp(t *testing.T) {
	var walk func(path []string, commands []*cli.Command)
	walk = func(path []string, commands []*cli.Command) {
		for _, c := range commands {
			if c.Name == "help" {
				continue // shows what it is asked for, not itself
			}
			args := append(append([]string{}, path...), c.Name)
			code, stdout, stderr := runApp(t, append(args, "--help")...)
			require.Zero(t, code, args)
			require.Empty(t, stderr, args)
			require.Contains(t, stdout, "tandemmq "+strings.Join(args, " "), args)
			if len(args) == 1 || args[0] == "store" {
				require.Regexp(t, `\n +(source <\()?tandemmq [a-z]+ ?`, stdout, "%v has no example", args)
			}
			walk(args, c.Subcommands)
		}
	}
	walk(nil, newApp(nil, nil).Commands)
	for _, args := range [][]string{nil, {"--help"}, {"help"}, {"store"}, {"store", "--help"}, {"help", "store"}} {
		code, stdout, stderr := runApp(t, args...)
		require.Zero(t, code, args)
		require.Empty(t, stderr, args)
		require.Contains(t, stdout, "COMMANDS:", args)
	}
}

type codedError int

func (e codedError) Error() string { return "coded" }
func (e codedError) ExitCode() int { return int(e) }

func TestExitCode(t *testing.T) {
	require.Equal(t, 0, exitCode(nil))
	require.Equal(t, 1, exitCode(errors.New("x")))
	require.Equal(t, 2, exitCode(usageError("x")))
	require.Equal(t, 3, exitCode(codedError(3)))
	require.Equal(t, 3, exitCode(fmt.Errorf("y: %w", errors.Join(errors.New("x"), codedError(3)))))
}

func TestVersion(t *testing.T) {
	code, stdout, _ := runApp(t, "version")
	require.Zero(t, code)
	require.Regexp(t, `^tandemmq \S+ \(go1\.\S+.*, \w+/\w+\)\n$`, stdout)
	code, stdout, _ = runApp(t, "version", "--json")
	require.Zero(t, code)
	var v versionInfo
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	require.NotEmpty(t, v.Version)
	code, stdout, _ = runApp(t, "--version")
	require.Zero(t, code)
	require.Contains(t, stdout, version())
}

func TestVersionOfARelease(t *testing.T) {
	buildVersion = "v1.2.3"
	defer func() { buildVersion = "" }()
	require.Equal(t, "v1.2.3", version())
}

// What the shell asks for is answered with what may come next.
func TestCompletion(t *testing.T) {
	code, stdout, _ := runApp(t, "completion")
	require.Zero(t, code)
	require.Contains(t, stdout, "complete -o default -F _tandemmq tandemmq")
	complete := func(args ...string) string {
		// The library looks at the process's own arguments too.
		before := os.Args
		defer func() { os.Args = before }()
		args = append(args, "--generate-bash-completion")
		os.Args = append([]string{"tandemmq"}, args...)
		_, stdout, _ := runApp(t, args...)
		return stdout
	}
	require.Contains(t, complete(), "store\n")
	require.Contains(t, complete("store"), "dump\nstatus\ncheck\nrecover\nrebuild\nclean\ngenerate\noffsets\nget\nby-time\nquery\ninspect\n")
	require.Contains(t, complete("store", "dump", "--q"), "--queues-only\n")
}

func TestGenerateAndDump(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	code, stdout, stderr := runApp(t, "store", "generate", "--store", dir, "--messages", "500", "--topics", "1", "--queues", "2",
		"--commitlog-size", "1048576", "--cq-file-size", "2000")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^Store `+dir+`: 500 messages in 2 queues \(500 units\), \d+\.\d KiB of log, made in \S+\n$`, stdout)
	require.Contains(t, stderr, "generate: 500 messages to do\n")
	require.Contains(t, stderr, "generate: 500 messages in ")

	code, stdout, stderr = runApp(t, "store", "dump", "--store", dir)
	require.Zero(t, code)
	require.Empty(t, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 502)
	require.Regexp(t, `^{"t":"queue","topic":"sample_0","queueId":0,"min":0,"max":\d+,"readable":\d+,"cqCrc32":\d+,"unreadable":0}$`, lines[0])
	require.Regexp(t, `^{"t":"msg","topic":"sample_0","queueId":0,"queueOffset":0,"commitLogOffset":\d+,`, lines[1])

	code, stdout, _ = runApp(t, "store", "dump", "--store", dir, "--cq", "file", "--topic", "sample_0", "--queue", "1", "--limit", "2")
	require.Zero(t, code)
	require.Equal(t, 3, strings.Count(stdout, "\n"))
	code, stdout, _ = runApp(t, "store", "dump", "--store", dir, "--queues-only")
	require.Zero(t, code)
	require.Equal(t, 2, strings.Count(stdout, "\n"))

	plain := stdout
	code, stdout, _ = runApp(t, "store", "dump", "--store", dir, "--queues-only", "--json", "--limit", "0")
	require.Zero(t, code)
	require.Equal(t, plain, stdout)
	for _, none := range [][]string{{"--topic", "nosuch"}, {"--queue", "7"}, {"--topic", "sample_0", "--queue", "7"}} {
		code, stdout, stderr = runApp(t, append([]string{"store", "dump", "--store", dir}, none...)...)
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "has no such queue (file side)")
	}

	code, stdout, stderr = runApp(t, "store", "generate", "--store", dir)
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "tandemmq: generate store: "+dir+" is not empty")
}

// Whatever the options' own check finds is told by the flag that the user typed.
func TestGenerateFaultsNameFlags(t *testing.T) {
	want := "tandemmq: "
	args := []string{"store", "generate", "--store", "x"}
	for i, f := range []struct{ flag, want string }{
		{"messages", "want 1 to 1099511627776"},
		{"topics", "want 1 to 1000000"},
		{"queues", "want 1 to 65536"},
		{"body", "want 0 to 4194304"},
		{"tags", "want 0 to 1000000"},
		{"keys", "want 0 to 64"},
		{"lmq", "want 0 to 1000000"},
		{"start-ms", "want 1 to 1125899906842624"},
		{"cq-file-size", "want 20 to 1073741824"},
		{"commitlog-size", "want 4096 to 1073741824"},
	} {
		if i > 0 {
			want += "; "
		}
		args = append(args, "--"+f.flag+"=-7")
		want += "--" + f.flag + " -7: " + f.want
	}
	code, stdout, stderr := runApp(t, args...)
	require.Equal(t, 2, code)
	require.Empty(t, stdout)
	require.Equal(t, want+"\nsee 'tandemmq store generate --help'\n", stderr)
}

func TestGenerateJSON(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	code, stdout, stderr := runApp(t, "store", "generate", "--store", dir, "--messages", "100", "--json", "--commitlog-size", "1048576",
		"--delayed", "--transactions", "--lmq", "3")
	require.Zero(t, code)
	require.Empty(t, stderr)
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, dir, got["store"])
	require.EqualValues(t, 100, got["messages"])
	require.Greater(t, got["units"], 100.0)
	require.Contains(t, got, "seconds")
	require.Contains(t, got, "maxPhyOffset")
}

func TestDumpUncleanStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	code, _, _ := runApp(t, "store", "generate", "--store", dir, "--messages", "20", "--quiet", "--commitlog-size", "1048576")
	require.Zero(t, code)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), []byte("1"), 0o644))
	code, stdout, stderr := runApp(t, "store", "dump", "--store", dir, "--cq", "file")
	require.Zero(t, code)
	require.Contains(t, stdout, `"t":"msg"`)
	require.Equal(t, "warning: store "+dir+" was not closed cleanly (it has a file abort): this is what lies on disk, before recovery\n", stderr)
}

// Units that point to nothing are shown and counted; ten are named.
func TestDumpDamagedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	code, _, _ := runApp(t, "store", "generate", "--store", dir, "--messages", "20", "--topics", "1", "--queues", "1", "--quiet", "--commitlog-size", "1048576")
	require.Zero(t, code)
	log := filepath.Join(dir, "commitlog", "00000000000000000000")
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(log, make([]byte, len(b)), 0o644))
	code, stdout, stderr := runApp(t, "store", "dump", "--store", dir)
	require.Zero(t, code)
	require.Equal(t, 20, strings.Count(stdout, `{"t":"bad",`))
	require.Equal(t, 10, strings.Count(stderr, "warning: queue sample_0/0 slot "))
	require.Contains(t, stderr, log+"+0")
	require.Contains(t, stderr, "warning: 0 good messages; 0 are damaged, 20 units point to no record, 0 slots hold no unit\n")
}

func TestDumpWhichSide(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	code, _, _ := runApp(t, "store", "generate", "--store", dir, "--messages", "20", "--quiet", "--commitlog-size", "1048576")
	require.Zero(t, code)
	code, stdout, stderr := runApp(t, "store", "dump", "--store", dir, "--cq", "rocks")
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "no RocksDB consume queues")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "consumequeue", "CURRENT"), []byte("x"), 0o644))
	code, _, stderr = runApp(t, "store", "dump", "--store", dir)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "say which with --cq file or --cq rocks")

	state := func(phase migrate.Phase) {
		b, err := json.Marshal(migrate.State{Version: 1, Phase: phase, From: cq.KindRocks, To: cq.KindFile})
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "tandemmq"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tandemmq", migrate.StateFileName), b, 0o644))
	}
	state(migrate.PhaseCutover)
	code, stdout, _ = runApp(t, "store", "dump", "--store", dir)
	require.Zero(t, code, "reads belong to the files")
	require.Contains(t, stdout, `"t":"msg"`)
	state(migrate.PhaseRolledBack)
	code, stdout, _ = runApp(t, "store", "dump", "--store", dir)
	require.Equal(t, 1, code, "reads belong to the database, and this is none")
	require.Empty(t, stdout)

	code, _, stderr = runApp(t, "store", "dump", "--store", filepath.Join(dir, "nowhere"))
	require.Equal(t, 1, code)
	require.Equal(t, "tandemmq: open store "+filepath.Join(dir, "nowhere")+": no such directory\n", stderr)
}
