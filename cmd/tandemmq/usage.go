package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Exit codes beside 0; 3, found different, comes from package migrate.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageErr tells that a command line cannot be meant. Nothing was done.
type usageErr struct {
	msg  string
	hint string // the line that says where help is
}

func (e *usageErr) Error() string { return e.msg }

// ExitCode is 2: wrong usage.
func (e *usageErr) ExitCode() int { return exitUsage }

// usageError makes the error of a command line that cannot be meant. Commands return it; the hint is added for them.
func usageError(format string, args ...any) error {
	return &usageErr{msg: fmt.Sprintf(format, args...)}
}

// exitCode returns the exit code of a command that ended with err: what the first error in its chain with an ExitCode
// method says, otherwise 1.
func exitCode(err error) int {
	var coded interface {
		error
		ExitCode() int
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.ExitCode()
	default:
		return exitFailed
	}
}

// printError tells what went wrong, and after wrong usage where to look.
func printError(w io.Writer, err error) {
	if err == nil {
		return
	}
	msg := err.Error()
	if errors.Is(err, context.Canceled) {
		msg = strings.ReplaceAll(msg, context.Canceled.Error(), "interrupted")
	}
	fmt.Fprintf(w, "tandemmq: %s\n", msg)
	var usage *usageErr
	if errors.As(err, &usage) && usage.hint != "" {
		fmt.Fprintln(w, usage.hint)
	}
}

// prepare gives every command the same manners: wrong flags, missing required flags, unknown commands and stray arguments
// are usage errors, told in one line and not with a page of help on standard output.
func prepare(app *cli.App) {
	app.OnUsageError = onUsageError
	app.Action = groupAction
	app.HideHelpCommand = true // helpCommand is ours; the library then leaves the flag out too
	app.Flags = append(app.Flags, cli.HelpFlag)
	for _, c := range app.Commands {
		prepareCommand(app.Name, c)
	}
}

func prepareCommand(parent string, c *cli.Command) {
	path := parent + " " + c.Name
	c.OnUsageError = onUsageError
	c.HideHelpCommand = true
	if len(c.Subcommands) > 0 {
		c.Action = groupAction
		for _, sub := range c.Subcommands {
			prepareCommand(path, sub)
		}
		return
	}
	c.Flags = evenFlags(c.Flags)
	var required []string
	for _, f := range c.Flags {
		if s, ok := f.(*cli.StringFlag); ok && s.Required {
			s.Required = false // the library would print the whole help first
			required = append(required, s.Name)
		}
	}
	action := c.Action
	c.Action = func(ctx *cli.Context) error {
		err := func() error {
			if ctx.NArg() > 0 && c.ArgsUsage == "" {
				return usageError("%s: unexpected argument %q", below(path), ctx.Args().First())
			}
			if declares(ctx, "dry-run") && ctx.Bool("yes") && ctx.Bool("dry-run") {
				return usageError("--yes and --dry-run: use one of them")
			}
			for _, name := range required {
				if ctx.String(name) == "" {
					return usageError("%s: --%s is missing", below(path), name)
				}
			}
			return action(ctx)
		}()
		return withHint(err, path)
	}
}

// evenFlags gives the commands that work on a store the same flags, so that scripts need not know which of them has what to say: --quiet where there is no progress to leave
// out, --dry-run beside --yes, and --yes beside --dry-run.
func evenFlags(flags []cli.Flag) []cli.Flag {
	has := func(name string) bool {
		return slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	}
	if !has("store") {
		return flags
	}
	flags = slices.Clip(flags)
	switch {
	case has("yes") && !has("dry-run"):
		flags = append(flags, &cli.BoolFlag{Name: "dry-run", Usage: "say what would be done, and change nothing (the default)"})
	case has("dry-run") && !has("yes"):
		flags = append(flags, &cli.BoolFlag{Name: "yes", Usage: "do it (the default)"})
	}
	if !has("quiet") {
		flags = append(flags, &cli.BoolFlag{Name: "quiet", Usage: "print no progress; this command prints none anyway"})
	}
	return flags
}

// onUsageError is called with what the flag parser could not take.
func onUsageError(c *cli.Context, err error, _ bool) error {
	path := commandPath(c)
	msg := below(path) + ": " + err.Error()
	if _, rest, ok := strings.Cut(err.Error(), " for flag -"); ok {
		name, _, _ := strings.Cut(rest, ":")
		for _, f := range c.Command.Flags {
			if _, ok := f.(*cli.DurationFlag); ok && slices.Contains(f.Names(), name) {
				msg += "; want a number with its unit, like 500ms, 30s or 5m"
			}
		}
	}
	if _, name, ok := strings.Cut(err.Error(), "not defined: "); ok {
		if s := cli.SuggestFlag(c.Command.Flags, strings.TrimLeft(name, "-"), false); s != "" {
			msg += fmt.Sprintf("; did you mean %q?", s)
		}
	}
	return withHint(&usageErr{msg: strings.TrimPrefix(msg, ": ")}, path)
}

// groupAction is what a command with subcommands does when none was named, or an unknown one.
func groupAction(c *cli.Context) error {
	if !c.Args().Present() {
		if c.Command.Name == c.App.Name {
			return cli.ShowAppHelp(c)
		}
		return cli.ShowSubcommandHelp(c)
	}
	path, name := commandPath(c), c.Args().First()
	msg := fmt.Sprintf("%s: no command %q", below(path), name)
	if s := cli.SuggestCommand(c.Command.Subcommands, name); s != "" && !strings.Contains(s, `""`) { // the library has a sentence for no suggestion too
		msg += "; d" + strings.TrimPrefix(s, "D")
	}
	return withHint(&usageErr{msg: strings.TrimPrefix(msg, ": ")}, path)
}

// helpCommand shows what --help behind the same words would.
func helpCommand() *cli.Command {
	return &cli.Command{
		Name: "help", Usage: "show help for a command", ArgsUsage: "[command ...]",
		Description: "Example:\n\n   tandemmq help store dump",
		Action: func(c *cli.Context) error {
			return c.App.RunContext(c.Context, append(append([]string{c.App.Name}, c.Args().Slice()...), "--help"))
		},
	}
}

func commandPath(c *cli.Context) string {
	if c.Command.HelpName != "" {
		return c.Command.HelpName
	}
	return c.Command.Name
}

// below returns a command's path without the program, which stands in front of every error anyway.
func below(path string) string {
	_, rest, _ := strings.Cut(path, " ")
	return rest
}

func withHint(err error, path string) error {
	var usage *usageErr
	if errors.As(err, &usage) && usage.hint == "" {
		usage.hint = fmt.Sprintf("see '%s --help'", path)
	}
	return err
}
