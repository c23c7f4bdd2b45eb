package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

func main() {
	// A write past the file size limit (ulimit -f) fails, and raises SIGXFSZ, which by default kills a process in the middle
	// of what it does and without a word. The error names the file and is enough. Go's runtime of today lets the signal
	// pass; saying so here makes it a promise, for RocksDB's threads too.
	signal.Ignore(syscall.SIGXFSZ)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}

// run runs one command line and returns its exit code. What it writes goes to the two writers alone.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := newApp(stdout, stderr).RunContext(ctx, args)
	printError(stderr, err)
	return exitCode(err)
}

func newApp(stdout, stderr io.Writer) *cli.App {
	app := &cli.App{
		Name:  "tandemmq",
		Usage: "look into RocketMQ store directories and move their consume queues between files and RocksDB",
		Description: `Every command takes the store directory (storePathRootDir of the broker) with --store. Make a sample store and move it:

   tandemmq store generate --store /tmp/sample
   tandemmq migrate run --store /tmp/sample --yes

Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 verified and found different.`,
		Version:              version(),
		Writer:               stdout,
		ErrWriter:            stderr,
		EnableBashCompletion: true,
		Suggest:              true,
		ExitErrHandler:       func(*cli.Context, error) {}, // run maps errors, and tests live on
		Commands:             []*cli.Command{migrateCommand(), storeCommand(), brokerCommand(), benchCommand(), versionCommand(), completionCommand(), helpCommand()},
	}
	prepare(app)
	return app
}
