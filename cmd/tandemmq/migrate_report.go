package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/migrate/report"
	"github.com/tandemq/tandemmq/migrate/state"
	"github.com/tandemq/tandemmq/remoting"
	"github.com/tandemq/tandemmq/store"
)

// reportDiskLimit is how long a report may look for what is on the disk.
const reportDiskLimit = 30 * time.Second

func reportFlag() cli.Flag {
	return &cli.StringFlag{Name: "report", Usage: "write what is known of the migration to `FILE`, as a page with charts that loads nothing"}
}

// checkReport makes the file, so that a step that takes hours does not end with not being able to.
func checkReport(c *cli.Context) error {
	path := c.String("report")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// result keeps what a step gave, for the report.
func (r *migration) result(v any) {
	switch v := v.(type) {
	case *migrate.Plan:
		r.did.Plan = v
	case *migrate.BackfillResult:
		r.did.Backfill = v
	case *migrate.VerifyResult:
		r.did.Verify = v
	case *migrate.RepairResult:
		r.did.Repair = v
	case *migrate.CutoverResult:
		r.did.Cutover = v
	}
}

// writeReport writes the page that --report asks for, after a step that ended with cause. rec takes down what is on the disk; nil for a step that writes nothing.
func (r *migration) writeReport(step string, l store.Layout, rec *migrate.Recorder, cause error) error {
	path := r.c.String("report")
	if path == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), reportDiskLimit)
	defer cancel()
	disk, diskErr := l.QueueDisk(ctx)
	if rec != nil && diskErr == nil {
		rec.Add(state.Sample{Time: time.Now(), Disk: disk})
	}
	o, err := migrate.LoadOverview(l.Root, l.StateDir())
	if err != nil {
		return err
	}
	if diskErr != nil {
		o.Problems = append(o.Problems, diskErr.Error())
	}
	o.Tool, o.Disk = version(), disk
	if step != "status" {
		if o.Step = step; r.yes {
			o.Step += " --yes"
		}
		o.Plan, o.Backfill, o.Verify, o.Repair, o.Cutover = r.did.Plan, r.did.Backfill, r.did.Verify, r.did.Repair, r.did.Cutover
	}
	if cause != nil {
		e := errorJSON(cause)
		o.Error, o.Reasons, o.Findings = e.Error, e.Reasons, e.Findings
	}
	return writeTo(path, func(f *os.File) error { return report.HTML(f, o) })
}

// recordProgress has what a step does taken down, if it writes to the store anyway. The function returned ends that.
func (r *migration) recordProgress(l store.Layout, o *migrate.Options, step string, shared bool) (end func(err error) error, err error) {
	var rec *migrate.Recorder
	if !shared {
		if rec, err = migrate.NewRecorder(l.StateDir(), r.prog); err != nil {
			return nil, err
		}
		o.Progress = rec
	}
	return func(cause error) error {
		err := r.writeReport(step, l, rec, cause)
		if rec != nil {
			err = errors.Join(err, rec.Close())
		}
		return errors.Join(cause, err)
	}, nil
}

// writeReport asks the broker for what it knows, and writes the page that --report asks for.
func (o *onlineCall) writeReport() error {
	path := o.c.String("report")
	if path == "" {
		return nil
	}
	var v migrate.Overview
	if err := o.invoke(remoting.MigrateOnlineStatus, &v, "overview", "true"); err != nil {
		return err
	}
	v.Tool = version()
	return writeTo(path, func(f *os.File) error { return report.HTML(f, &v) })
}
