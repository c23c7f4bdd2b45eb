package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

// Scripts give the same flags to every command that works on a store: none of them is without --json or --quiet, and where something may be changed --yes and --dry-run say
// which, and not both.
func TestCommandsOnStoresHaveTheSameFlags(t *testing.T) {
	leaves := 0
	var walk func(path []string, commands []*cli.Command)
	walk = func(path []string, commands []*cli.Command) {
		for _, c := range commands {
			args := append(slices.Clone(path), c.Name)
			if len(c.Subcommands) > 0 {
				walk(args, c.Subcommands)
				continue
			}
			has := func(name string) bool {
				return slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
			}
			if !has("store") {
				continue
			}
			leaves++
			line := strings.Join(args, " ")
			require.True(t, has("json"), line)
			require.True(t, has("quiet"), line)
			require.Equal(t, has("yes"), has("dry-run"), line)
			if has("yes") {
				code, stdout, stderr := runApp(t, append(args, "--store", t.TempDir(), "--yes", "--dry-run")...)
				require.Equal(t, 2, code, line)
				require.Empty(t, stdout, line)
				require.Contains(t, stderr, "--yes and --dry-run: use one of them", line)
			}
			names := map[string]bool{}
			for _, f := range c.Flags {
				for _, name := range f.Names() {
					require.False(t, names[name], "%s has --%s twice", line, name)
					names[name] = true
				}
			}
		}
	}
	walk(nil, newApp(nil, nil).Commands)
	require.Greater(t, leaves, 25)
}

// ages differ from one second to the next.
var ages = regexp.MustCompile(`[0-9hms]+ ago`)

// --quiet is taken, and --dry-run is what happens without --yes.
func TestFlagsThatChangeNothing(t *testing.T) {
	dir := checkSample(t)
	for _, command := range []string{"dump", "status", "clean"} {
		_, plain, _ := runApp(t, "store", command, "--store", dir)
		code, stdout, stderr := runApp(t, "store", command, "--store", dir, "--quiet")
		require.Zero(t, code, stderr)
		require.Empty(t, stderr)
		require.Equal(t, ages.ReplaceAllString(plain, "an age"), ages.ReplaceAllString(stdout, "an age"), command)
	}
	code, stdout, stderr := runApp(t, "store", "recover", "--store", dir, "--yes", "--quiet")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "Result: in order")
}
