package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/internal/configdb"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/store"
)

const metadataHelp = `Topics, consumer groups and consumer offsets are in JSON files below config/ where a broker has storeType=default, and in RocksDB databases there
where it has storeType=defaultRocksDB. Cutover and rollback move them along. This moves them alone: where a store was switched by hand, or where a broker refuses to start
because databases are newer than the files (or the other way round). Afterwards both forms hold the same, under the same versions.

It takes no notice of the consume queues. Without --yes it only says what it would do.`

func metadataCommand() *cli.Command {
	return &cli.Command{
		Name: "metadata", Usage: "move topics, groups and consumer offsets alone between files and databases", Description: metadataHelp,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "store", Usage: "store `DIR` (storePathRootDir)", Required: true},
			&cli.StringFlag{Name: "to", Usage: "`SIDE` to move them to: rocks or file", Required: true},
			confFlag("the form of the databases (useSingleRocksDBForAllConfigs)"),
			overruleFlag(),
			&cli.BoolFlag{Name: "yes", Usage: "do it"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document"},
		},
		Action: runMetadata,
	}
}

func overruleFlag() cli.Flag {
	return &cli.BoolFlag{Name: "overrule-metadata", Usage: "topics, groups and offsets of the side they are moved from count, though those of the other side were changed later"}
}

// metadataResult is what migrate metadata prints with --json.
type metadataResult struct {
	DryRun bool             `json:"dryRun"`
	Tables []meta.TableMove `json:"tables"`
}

func runMetadata(c *cli.Context) (err error) {
	to := cq.Kind(c.String("to"))
	if to != cq.KindRocks && to != cq.KindFile {
		return usageError("--to %q: use rocks or file", c.String("to"))
	}
	defer func() {
		if err != nil && c.Bool("json") {
			err = errors.Join(err, printJSON(c.App.Writer, errorJSON(err)))
		}
	}()
	l := store.NewLayout(c.String("store"))
	if err := l.CheckRoot(); err != nil {
		return err
	}
	takeLock := store.LockShared
	if c.Bool("yes") {
		takeLock = store.LockExclusive
	}
	lock, err := takeLock(l.Root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	moves, refusals, err := moveMetadata(c, l, to, c.Bool("yes"))
	if err != nil {
		return err
	}
	if len(refusals) > 0 {
		return &migrate.RefusedError{Step: "metadata", Reasons: refusals}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, metadataResult{!c.Bool("yes"), moves})
	}
	printMetadata(c.App.Writer, moves)
	if !c.Bool("yes") {
		_, err = fmt.Fprintln(c.App.Writer, "Nothing was changed; --yes does it")
	}
	return err
}

func printMetadata(w io.Writer, moves []meta.TableMove) {
	for i := range moves {
		fmt.Fprintf(w, "  %s\n", &moves[i])
	}
}

// moveMetadata moves topics, groups and offsets to the form of a side, or says why not.
func moveMetadata(c *cli.Context, l store.Layout, to cq.Kind, commit bool) (moves []meta.TableMove, refusals []string, err error) {
	config := filepath.Dir(l.TopicsPath())
	form, refusal, err := databaseForm(c, config, to)
	if err != nil || refusal != "" || form == "" {
		if refusal != "" {
			refusals = append(refusals, refusal)
		}
		return nil, refusals, err
	}
	o := meta.MoveOptions{From: meta.FormFiles, To: form, Overrule: c.Bool("overrule-metadata"), Commit: commit}
	if to == cq.KindFile {
		o.From, o.To = form, meta.FormFiles
	}
	moves, err = meta.Move(config, o)
	if newer := (*meta.NewerError)(nil); errors.As(err, &newer) {
		return nil, append(newer.Tables, "a broker used them since both were the same: move them the other way first (`tandemmq migrate metadata`), or have them overruled (--overrule-metadata)"), nil
	}
	return moves, nil, err
}

// databaseForm tells which databases a broker has, or will have, by its broker.conf, else by what is there; "" where there are none to move from.
func databaseForm(c *cli.Context, config string, to cq.Kind) (form meta.Form, refusal string, err error) {
	props := map[string]string{}
	if path := c.String("conf"); path != "" {
		if props, err = readConf(path); err != nil {
			return "", "", err
		}
	}
	v2, err := configdb.ExistsV2(config)
	if err != nil {
		return "", "", err
	}
	switch version := strings.TrimSpace(props["configManagerVersion"]); {
	case version == "v2" || v2 && version != "v1":
		return "", fmt.Sprintf("topics, groups and offsets of configManagerVersion=v2 (%s) cannot be moved: have its broker export them (mqadmin rocksDBConfigToJson), "+
			"and set configManagerVersion=v1 in the file that --conf names", filepath.Join(config, "rdb")), nil
	case strings.EqualFold(strings.TrimSpace(props["useSingleRocksDBForAllConfigs"]), "true"):
		return meta.FormSingle, "", nil
	case props["useSingleRocksDBForAllConfigs"] != "":
		return meta.FormRocks, "", nil
	}
	separate, err := configdb.Exists(config, configdb.Separate)
	if err != nil {
		return "", "", err
	}
	single, err := configdb.Exists(config, configdb.Single)
	switch {
	case err != nil:
		return "", "", err
	case separate && single:
		return "", fmt.Sprintf("%s has databases of topics, groups and offsets in two forms: say which the broker uses, by useSingleRocksDBForAllConfigs in the file that --conf names", config), nil
	case single:
		return meta.FormSingle, "", nil
	case !separate && to == cq.KindFile:
		return "", "", nil
	}
	return meta.FormRocks, "", nil
}
