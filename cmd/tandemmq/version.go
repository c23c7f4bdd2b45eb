package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// buildVersion is set by the linker in release builds (-X main.buildVersion=v1.2.3).
var buildVersion string

// versionInfo is what `tandemmq version --json` prints.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the sources; "+dirty" when they were changed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// version returns the version of this binary: the release's, the module's, or the revision it was built from.
func version() string {
	v := readVersion()
	if v.Version == "devel" && v.Revision != "" {
		return "devel-" + v.Revision
	}
	return v.Version
}

func readVersion() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if m := info.Main.Version; m != "" && m != "(devel)" {
			v.Version = m
		}
		dirty := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				v.Revision = s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+dirty"
			}
		}
		if v.Revision != "" {
			v.Revision += dirty
		}
	}
	if buildVersion != "" {
		v.Version = buildVersion
	}
	return v
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version of this binary",
		Description: "Example:\n\n   tandemmq version --json",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON document"}},
		Action: func(c *cli.Context) error {
			v := readVersion()
			if c.Bool("json") {
				return printJSON(c.App.Writer, v)
			}
			_, err := fmt.Fprintf(c.App.Writer, "tandemmq %s (%s, %s)\n", version(), v.Go, v.Platform)
			return err
		},
	}
}
