package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Main is the main function of a benchmark: run gets the arguments, and a context that ends when the program is told to.
func Main(name string, run func(ctx context.Context, args []string, w io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Own runs a row in a process of its own: this program with -row, -sizes and -dir, which prints the figures as JSON.
func Own(ctx context.Context, row string, sizes any, dir string) (Figures, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	given, err := json.Marshal(sizes)
	if err != nil {
		return nil, err
	}
	out, err := Output(exec.CommandContext(ctx, self, "-row", row, "-sizes", string(given), "-dir", dir))
	if err != nil {
		return nil, err
	}
	x := Figures{}
	return x, json.Unmarshal(out, &x)
}
