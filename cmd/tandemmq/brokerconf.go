package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	properties "github.com/tandemq/tandemmq/internal/property"
	"github.com/tandemq/tandemmq/store"
)

// confFlag names the broker's configuration. What is in it counts; what is not is read off the directory.
func confFlag(what string) cli.Flag {
	return &cli.StringFlag{Name: "conf", Usage: "`FILE` of the broker (broker.conf), for what cannot be read off the directory: " + what + "; sizes in it that the files contradict are refused"}
}

// brokerOptions reads the file that --conf names: options, and which of them it sets. Both are nil without the flag. What an operator has to know of a property without effect is
// printed.
func brokerOptions(c *cli.Context) (o *store.Options, given []string, err error) {
	path := c.String("conf")
	if path == "" {
		return nil, nil, nil
	}
	props, err := readConf(path)
	if err != nil {
		return nil, nil, err
	}
	options, notes, err := store.ParseOptions(props)
	if err != nil {
		return nil, nil, fmt.Errorf("broker's options in %s: %w", path, err)
	}
	for _, n := range notes { // most of a broker.conf is not the store's
		if n.Warning != "" {
			fmt.Fprintf(c.App.ErrWriter, "warning: %s: %v\n", path, n)
		}
	}
	return &options, slices.AppendSeq([]string{}, maps.Keys(props)), nil
}

// readConf reads a file of properties as Java's Properties do, see property.Parse.
func readConf(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		var set map[string]string
		if set, err = properties.Parse(text); err == nil {
			return set, nil
		}
		err = fmt.Errorf("%s: %w", path, err)
	}
	return nil, fmt.Errorf("read broker's options: %w", err)
}
