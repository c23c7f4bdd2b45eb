//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

// mendAsPrinted runs the command that a check prints, and then the check is sound.
func mendAsPrinted(t *testing.T, dir, command string) {
	t.Helper()
	code, stdout, _ := runApp(t, "store", "check", "--store", dir, "--quiet")
	require.Equal(t, 3, code, stdout)
	require.Contains(t, stdout, "      "+command+"\n")
	code, _, stderr := runApp(t, append(strings.Fields(command)[1:], "--quiet")...)
	require.Zero(t, code, stderr)
	code, stdout, _ = runApp(t, "store", "check", "--store", dir, "--quiet", "--deep")
	require.Zero(t, code, stdout)
}

// removeDatabase removes the files of a store's RocksDB that are wanted.
func removeDatabase(t *testing.T, dir string, wanted func(name string) bool) {
	t.Helper()
	place, _, found, err := store.NewLayout(dir).FindRocks()
	require.NoError(t, err)
	require.True(t, found)
	entries, err := os.ReadDir(place)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Type().IsRegular() && store.IsRocksFile(e.Name()) && wanted(e.Name()) {
			require.NoError(t, os.Remove(filepath.Join(place, e.Name())))
		}
	}
}

// Issue 5, parts 1, 3 and 6: a second side is made by an explicit word; what the store keeps from then on and loses is an error, whose command mends it.
func TestIssue5LostSidesAtTheCommandLine(t *testing.T) {
	dir := checkSample(t)
	code, _, stderr := runApp(t, "store", "rebuild", "--store", dir, "--queues", "rocks", "--yes", "--quiet")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "`tandemmq migrate run --store "+dir+" --to rocks` moves them there")
	code, _, stderr = runApp(t, "store", "rebuild", "--store", dir, "--create", "--quiet")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--create needs --queues")
	code, stdout, stderr := runApp(t, "store", "rebuild", "--store", dir, "--queues", "rocks", "--create", "--yes", "--quiet")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "note: the store had no rocks queues: they are built from the log, beside the file queues, and it keeps both from now on; a broker that is told no storeType feeds both, one with storeType=default the file queues alone\n")

	all := func(string) bool { return true }
	removeDatabase(t, dir, all)
	code, out, stderr := runApp(t, "broker", "--store", dir, "--print-config", "--quiet")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "\nrocksdbCQDoubleWriteEnable=true\n", "the other side is filled while this one serves")
	code, _, stderr = runApp(t, "broker", "--store", dir, "--set", "storeType=defaultRocksDB", "--quiet")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "and those in RocksDB are gone")
	mendAsPrinted(t, dir, "tandemmq store rebuild --store "+dir+" --queues rocks --yes")
	names, err := os.ReadDir(filepath.Join(dir, "consumequeue", "sample_0", "1"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "consumequeue", "sample_0", "1", names[0].Name())))
	mendAsPrinted(t, dir, "tandemmq store rebuild --store "+dir+" --queues file --topic sample_0 --queue 1 --yes")
	removeDatabase(t, dir, func(name string) bool { return name == "CURRENT" })
	mendAsPrinted(t, dir, "tandemmq store recover --store "+dir)
}

// Issue 5, part 2: a store that has lost its RocksDB gets it back, and no file queues.
func TestIssue5Part2LostRocksDBAtTheCommandLine(t *testing.T) {
	dir := checkSample(t)
	code, _, stderr := runApp(t, "migrate", "run", "--store", dir, "--yes", "--quiet")
	require.Zero(t, code, stderr)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue")))
	removeDatabase(t, dir, func(string) bool { return true })
	code, out, stderr := runApp(t, "broker", "--store", dir, "--print-config", "--quiet")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "\nstoreType=defaultRocksDB\n")
	mendAsPrinted(t, dir, "tandemmq store rebuild --store "+dir+" --queues rocks --yes")
	code, stdout, stderr := runApp(t, "store", "recover", "--store", dir, "--quiet")
	require.Zero(t, code, stdout+stderr)
	require.NoDirExists(t, filepath.Join(dir, "consumequeue", "sample_0"))
}
