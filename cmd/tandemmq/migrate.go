package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/store"
)

const migrateHelp = `Moves the consume queues of a stopped store between mapped files and RocksDB, with proof before the switch and a way
back after it. A migration never writes the queues it comes from; only a rollback does. Each step can be killed at any moment and repeated.

The usual way, which plans, backfills and verifies, and cuts over only with --yes:

   tandemmq migrate run --store /data/rocketmq/store --yes

Back again, at any time after a cutover:

   tandemmq migrate rollback --store /data/rocketmq/store --yes

Exit codes: 0 ok, 1 failed or refused, 2 wrong usage, 3 compared and found different (or the store is damaged).`

func migrateCommand() *cli.Command {
	step := func(name, usage, help string, flags []cli.Flag, run func(*migration) error) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, Description: help, Flags: append(commonFlags(), flags...),
			Action: func(c *cli.Context) error {
				if name == "run" && c.Bool("dry-run") {
					return withMigration(c, "plan", (*migration).plan)
				}
				return withMigration(c, name, run)
			},
		}
	}
	source, write := sourceFlags(), writeFlags()
	level := []cli.Flag{levelFlag(), findingsFlag()}
	yes := &cli.BoolFlag{Name: "yes", Usage: "do it; without this the step only checks and says what it would do"}
	return &cli.Command{
		Name: "migrate", Usage: "move a stopped store's consume queues between files and RocksDB", Description: migrateHelp,
		Subcommands: []*cli.Command{
			step("run", "plan, backfill, verify and, with --yes, cut over",
				"Does the whole migration. Without --yes it stops after the verification and leaves reads where they are.",
				slices.Concat(source, write, level, []cli.Flag{
					overruleFlag(),
					&cli.BoolFlag{Name: "yes", Usage: "cut over when verified; without this reads stay where they are"},
					&cli.BoolFlag{Name: "dry-run", Usage: "only plan: change nothing"},
				}), (*migration).runAll),
			step("plan", "say what is there, how much, how long it takes and which space it needs", "Changes nothing. How long it takes is measured with a sample of the queues, which is written beside the state and removed again.", source, (*migration).plan),
			step("backfill", "fill the target from the log and the source queues",
				"One sequential pass over the log. A killed backfill goes on where it stopped.", append(source, write...), (*migration).backfill),
			step("verify", "compare both sides, as far as --level says: by default every queue and every unit, and sampled records", verifyHelp,
				slices.Concat(source, []cli.Flag{missingFlag()}, level), (*migration).verify),
			step("cutover", "give reads to the target",
				"Refused unless verified and nothing changed since: both sides are read again in full. Topics, groups and consumer offsets move along.",
				append(source, overruleFlag(), yes), (*migration).cutover),
			step("rollback", "give reads back to the side the migration came from",
				"First brings that side up to the end of the log, then compares both sides in full. The only step that writes the side a\nmigration came from.",
				append(append(source, missingFlag(), replaceFlag("make queues of the old side anew that disagree with the other side, or drop them where it holds none"),
					overruleFlag(),
					&cli.BoolFlag{Name: "from-log", Usage: "do without the side reads belong to (it is damaged or lost): take what the old side lacks from the log alone"}), yes), (*migration).rollback),
			step("repair", "rewrite what the log proves wrong, on either side", repairHelp, slices.Concat(source, []cli.Flag{missingFlag(), findingsFlag()}, repairFlags()), (*migration).repair),
			metadataCommand(),
			migrateOnlineCommand(),
			step("status", "say where the migration stands, how far a backfill is, and who did what", "Takes no lock and writes nothing. Of the migration of a running broker it says what is in its file; `migrate online status` tells more.",
				[]cli.Flag{watchFlag("for the next step, or that step's end"), everyFlag()}, (*migration).status),
		},
	}
}

const verifyHelp = `The levels, and what each compares:

   counts    of each queue of both sides: max, min and min physical offset. Proves no unit; writes no certificate
   units     that, and each unit of one side with that of the other (position, size, tags code, and store time where both keep it);
             then about --samples units, at least two of each queue, with the records that they lead to
   records   counts, each unit of one side with that of the other, and in place of the samples all records of the log, each with its
             slot on both sides: topic, queue, offset, size, tags code and store time
   time      units, and 30 searches by time of each queue, answered by both sides
   all       records, and the searches of time

Of each difference the log says which side is wrong, and how. Writes the certificate that cutover asks for. After a cutover it
writes nothing.`

const repairHelp = `Reads the whole log, holds each record against its slot on both sides, and rewrites what is wrong: nothing else is touched. A slot gets
the unit of the record that has it. Units that no record has, behind the end of a queue, are cut off. Everything is named in
tandemmq/repair.jsonl before it is changed. --dry-run lists it and writes nothing. A repair that was killed is repeated.

Exit code 0: all is right now. 3: with --dry-run, something is wrong; without it, something is left that the log does not decide.`

func levelFlag() cli.Flag {
	return &cli.StringFlag{Name: "level", Value: string(migrate.LevelUnits), Usage: "how much is compared: `LEVEL` " + migrate.LevelNames}
}

func findingsFlag() cli.Flag {
	return &cli.StringFlag{Name: "findings", Usage: "write every finding to `FILE`, one JSON object a line; without it the first of each kind are shown"}
}

func repairFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "dry-run", Usage: "only list what is wrong and what would be done"},
		&cli.StringFlag{Name: "side", Usage: "`SIDE` to repair: file, rocks or both; by default both, and after a cutover the one that reads belong to"},
		&cli.BoolFlag{Name: "renumber", Usage: "write queues that are shifted as the log numbers them: consumers know them by other numbers"},
		&cli.BoolFlag{Name: "accept-loss", Usage: "cut off units behind the end of the log; their offsets are given again"},
	}
}

func commonFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "store", Usage: "store `DIR` (storePathRootDir)", Required: true},
		&cli.BoolFlag{Name: "json", Usage: "print one JSON document and no progress"},
		&cli.BoolFlag{Name: "quiet", Usage: "print no progress"},
		reportFlag(),
	}
}

func sourceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "to", Value: string(cq.KindRocks), Usage: "`SIDE` to migrate to: rocks or file"},
		&cli.StringFlag{Name: "layout", Usage: "where a new RocksDB goes: `LAYOUT` separate (consumequeue_rocksdb/, the default) or shared (consumequeue/); an existing one decides"},
		&cli.Int64Flag{Name: "cq-file-size", Value: 6_000_000, Usage: "`BYTES` of a consume queue file where no existing file tells (mappedFileSizeConsumeQueue)"},
		&cli.StringFlag{Name: "conf", Usage: "`FILE` of the broker (broker.conf): the options of RocksDB by their names, as the store takes them (rocksdbCompressionType and others)"},
		&cli.BoolFlag{Name: "accept-torn-tail", Usage: "take bytes after the last record that are no record as the end of the log"},
		&cli.IntFlag{Name: "samples", Aliases: []string{"sample"}, Value: 100_000, Usage: "about how many records (`N`) the verification decodes, at least two for each queue"},
	}
}

func writeFlags() []cli.Flag {
	return []cli.Flag{
		missingFlag(),
		replaceFlag("drop queues of the target that the source does not have or that go on past it"),
		&cli.BoolFlag{Name: "restart", Usage: "begin the backfill anew instead of resuming it; with --replace-target, remove a target that cannot be read"},
		&cli.IntFlag{Name: "chunk-units", Value: 2_000_000, Usage: "`N` units per import; 64 bytes of memory each", Hidden: true},
	}
}

func replaceFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: "replace-target", Usage: usage} }

func missingFlag() cli.Flag {
	return &cli.StringFlag{Name: "missing-queues", Value: string(migrate.MissingRefuse), Usage: "`WHAT` to do about queues that only the log knows: refuse, build or skip"}
}

// migration is one run of a migrate command.
type migration struct {
	ctx  context.Context
	c    *cli.Context
	m    *migrate.Migrator
	out  io.Writer
	yes  bool
	json bool
	prog *progress
	root string
	// printed tells that the one JSON document has been printed.
	printed bool
	did     runResult // for the report
}

// report prints v as JSON, or what human prints.
func (r *migration) report(v any, human func(w io.Writer)) error {
	r.result(v)
	r.prog.Finish()
	if r.json {
		r.printed = true
		return printJSON(r.out, v)
	}
	human(r.out)
	return nil
}

func (r *migration) plan() error {
	p, err := r.m.Plan(r.ctx)
	if err != nil {
		return err
	}
	if err := r.report(p, func(w io.Writer) { printPlan(w, p) }); err != nil {
		return err
	}
	return planError(p)
}

// planError turns what a plan saw into the error that a backfill would end with.
func planError(p *migrate.Plan) error {
	if len(p.Refusals) > 0 {
		return &migrate.RefusedError{Step: "plan", Reasons: p.Refusals}
	}
	if p.Findings.Len() > 0 {
		return &migrate.DifferentError{Step: "plan", Findings: &p.Findings, Advice: "nothing was changed"}
	}
	return nil
}

func (r *migration) backfill() error {
	b, err := r.m.Backfill(r.ctx)
	if err != nil {
		return err
	}
	return r.report(b, func(w io.Writer) { printBackfill(w, b) })
}

func (r *migration) verify() error {
	v, err := r.m.Verify(r.ctx)
	if err != nil {
		return err
	}
	return r.report(v, func(w io.Writer) { printVerify(w, v) })
}

func (r *migration) repair() error {
	o := migrate.RepairOptions{Renumber: r.c.Bool("renumber"), AcceptLoss: r.c.Bool("accept-loss")}
	var err error
	if o.Sides, err = repairSides(r.c.String("side")); err != nil {
		return err
	}
	res, err := r.m.Repair(r.ctx, o, !r.c.Bool("dry-run"))
	if res == nil {
		return err
	}
	if rerr := r.report(res, func(w io.Writer) { printRepair(w, res) }); rerr != nil {
		return rerr
	}
	if n := res.Findings.Len(); err == nil && res.DryRun && n > 0 {
		return &toMendError{n}
	}
	return err
}

// repairSides are those that --side names; none: the default.
func repairSides(side string) ([]cq.Kind, error) {
	switch side {
	case "":
		return nil, nil
	case "both":
		return []cq.Kind{cq.KindFile, cq.KindRocks}, nil
	case string(cq.KindFile), string(cq.KindRocks):
		return []cq.Kind{cq.Kind(side)}, nil
	}
	return nil, usageError("--side %q: use file, rocks or both", side)
}

// toMendError tells that a dry run found something. What, has been printed.
type toMendError struct{ n int64 }

func (e *toMendError) Error() string {
	return fmt.Sprintf("%s findings; nothing was changed, and without --dry-run they are mended", thousands(e.n))
}

// ExitCode is 3: compared and found different.
func (e *toMendError) ExitCode() int { return 3 }

func (r *migration) cutover() error {
	res, err := r.m.Cutover(r.ctx, r.yes)
	if err != nil {
		return err
	}
	return r.report(res, func(w io.Writer) { printCutover(w, "cutover", res, r.root) })
}

func (r *migration) rollback() error {
	res, err := r.m.Rollback(r.ctx, r.yes)
	if err != nil {
		return err
	}
	return r.report(res, func(w io.Writer) { printCutover(w, "rollback", res, r.root) })
}

// runResult is what `migrate run --json` prints.
type runResult struct {
	Plan     *migrate.Plan           `json:"plan,omitempty"`
	Backfill *migrate.BackfillResult `json:"backfill,omitempty"`
	Verify   *migrate.VerifyResult   `json:"verify,omitempty"`
	Cutover  *migrate.CutoverResult  `json:"cutover,omitempty"`
	Repair   *migrate.RepairResult   `json:"-"`
	*errorReport
}

func (r *migration) runAll() (err error) {
	var res runResult
	defer func() {
		r.did = res
		if err != nil && r.json && !r.printed && res.Plan != nil {
			report := errorJSON(err)
			res.errorReport, r.printed = &report, true
			err = errors.Join(err, printJSON(r.out, res))
		}
	}()
	say := func(human func(w io.Writer)) {
		r.prog.Finish()
		if !r.json {
			human(r.out)
		}
	}
	if st := r.m.State(); st.Phase == migrate.PhaseCutover && string(st.To) == r.c.String("to") {
		return r.cutover() // says that there is nothing to do
	}
	p, err := r.m.Plan(r.ctx)
	if err != nil {
		return err
	}
	res.Plan = p
	say(func(w io.Writer) { printPlan(w, p) })
	if err := planError(p); err != nil {
		return err
	}
	if res.Backfill, err = r.m.Backfill(r.ctx); err != nil {
		return err
	}
	say(func(w io.Writer) { printBackfill(w, res.Backfill) })
	if res.Verify, err = r.m.Verify(r.ctx); err != nil {
		return err
	}
	say(func(w io.Writer) { printVerify(w, res.Verify) })
	if r.yes {
		if res.Cutover, err = r.m.Cutover(r.ctx, true); err != nil {
			return err
		}
		say(func(w io.Writer) { printCutover(w, "cutover", res.Cutover, r.root) })
	} else {
		say(func(w io.Writer) {
			fmt.Fprintf(w, "\nVerified. Reads are still with the %s side. To switch: tandemmq migrate cutover --store %s --to %s --yes\n", p.From, r.root, p.To)
		})
	}
	if r.json {
		r.printed = true
		return printJSON(r.out, res)
	}
	return nil
}

func (r *migration) status() error {
	dir := store.NewLayout(r.root).StateDir()
	var place *screen
	if chooseProgress(r.out, r.json) == progressBars {
		place = &screen{w: r.out}
	}
	for watch := r.c.Bool("watch"); ; {
		st, err := offlineStatus(dir, time.Now())
		if err != nil {
			return err
		}
		last := !watch || st.Phase != migrate.PhaseBackfilling && st.Phase != migrate.PhaseRollingBack && st.Phase != migrate.PhaseRepairing
		var b strings.Builder
		printStatus(&b, st, r.root, !watch)
		switch {
		case r.json && watch:
			err = json.NewEncoder(r.out).Encode(st)
			r.printed = true
		case r.json:
			return r.report(st, nil)
		case watch && place != nil:
			err = place.show(b.String())
		default:
			_, err = io.WriteString(r.out, b.String())
		}
		if err != nil || last {
			return err
		}
		select {
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-time.After(r.c.Duration("every")):
		}
	}
}
