package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/migrate"
	"github.com/tandemq/tandemmq/store"
)

// migrateMemory is where the collector begins to work harder in a migrate step, in bytes.
const migrateMemory = 400 << 20

// withMigration opens the store directory for one migrate step, runs it and closes everything again.
func withMigration(c *cli.Context, step string, run func(*migration) error) (err error) {
	r := &migration{
		ctx: c.Context, c: c, out: c.App.Writer, yes: c.Bool("yes"), json: c.Bool("json"), root: c.String("store"),
		prog: newProgress(c.App.ErrWriter, chooseProgress(c.App.ErrWriter, c.Bool("json") || c.Bool("quiet"))),
	}
	defer r.prog.Finish()
	// The heap is allowed to grow to twice what is live: on stores with many queues that doubles what matters. Soft: where more
	// is live, more is used.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(migrateMemory))
	defer func() {
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted; repeat the command and it goes on where it stopped")
		}
		if err != nil && r.json && !r.printed {
			err = errors.Join(err, printJSON(r.out, errorJSON(err)))
		}
	}()
	o := migrate.Options{Version: version(), Progress: r.prog}
	if err := migrateArguments(c, step, &o); err != nil {
		return err
	}
	l := store.NewLayout(r.root)
	if err := l.CheckRoot(); err != nil {
		return err
	}
	if err := checkReport(c); err != nil {
		return err
	}
	if step == "status" {
		if r.m, err = migrate.New(migrate.Directory{Root: l.Root, StateDir: l.StateDir()}, o); err != nil {
			return err
		}
		return errors.Join(run(r), r.writeReport(step, l, nil, nil))
	}
	findings, err := openFindings(c.String("findings"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, findings.close()) }()
	o.OnFinding = findings.add
	lock, err := lockFor(c, step, l.Root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if !locksShared(c, step) {
		if err := l.RemoveScratch(); err != nil {
			return err
		}
	}
	log, err := commitlog.Open(l.CommitLogDir(), commitlog.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	d, err := directory(c, l, log)
	if err != nil {
		return err
	}
	end, err := r.recordProgress(l, &o, step, locksShared(c, step))
	if err != nil {
		return err
	}
	defer func() { err = end(err) }()
	if r.m, err = migrate.New(*d, o); err != nil {
		return err
	}
	return run(r)
}

// errorReport is what a step prints with --json when it fails.
type errorReport struct {
	Error    string            `json:"error"`
	ExitCode int               `json:"exitCode"`
	Reasons  []string          `json:"reasons,omitempty"`
	Findings *migrate.Findings `json:"findings,omitempty"`
}

func errorJSON(err error) errorReport {
	r := errorReport{Error: err.Error(), ExitCode: exitCode(err)}
	var refused *migrate.RefusedError
	if errors.As(err, &refused) {
		r.Reasons = refused.Reasons
	}
	var different *migrate.DifferentError
	if errors.As(err, &different) {
		r.Findings = different.Findings
	}
	return r
}

// lockFor takes the store's lock: shared for a step that writes nothing.
func lockFor(c *cli.Context, step, root string) (*store.Lock, error) {
	if locksShared(c, step) {
		return store.LockShared(root)
	}
	return store.LockExclusive(root)
}

// locksShared tells whether a step writes nothing.
func locksShared(c *cli.Context, step string) bool {
	return step == "plan" || step == "repair" && c.Bool("dry-run")
}

// migrateArguments takes the flags of a step into o. What is wrong of them is said before the store is looked at.
func migrateArguments(c *cli.Context, step string, o *migrate.Options) error {
	if step == "status" {
		return checkEvery(c)
	}
	if layout := c.String("layout"); layout != "" && layout != string(store.RocksSeparate) && layout != string(store.RocksShared) {
		return usageError("--layout %q: use separate or shared", layout)
	}
	if size := c.Int64("cq-file-size"); size < leastCQFile || size > mostCQFile {
		return usageError("--cq-file-size %d: use %d to %d bytes", size, leastCQFile, mostCQFile)
	}
	if _, err := repairSides(c.String("side")); err != nil {
		return err
	}
	return sourceOptions(c, o)
}

// The sizes that a queue file may have, in bytes.
const (
	leastCQFile = 20
	mostCQFile  = 1 << 30
)

func sourceOptions(c *cli.Context, o *migrate.Options) error {
	o.To = cq.Kind(c.String("to"))
	if o.To != cq.KindRocks && o.To != cq.KindFile {
		return usageError("--to %q: use rocks or file", c.String("to"))
	}
	o.Missing = migrate.MissingQueues(c.String("missing-queues"))
	switch o.Missing {
	case "", migrate.MissingRefuse, migrate.MissingBuild, migrate.MissingSkip:
	default:
		return usageError("--missing-queues %q: use refuse, build or skip", o.Missing)
	}
	o.AcceptTornTail, o.ReplaceTarget, o.Restart = c.Bool("accept-torn-tail"), c.Bool("replace-target"), c.Bool("restart")
	o.FromLog = c.Bool("from-log")
	if o.Level = migrate.Level(c.String("level")); o.Level != "" && !slices.Contains(strings.Split(migrate.LevelNames, ", "), string(o.Level)) {
		return usageError("--level %q: use one of %s", o.Level, migrate.LevelNames)
	}
	o.Samples, o.ChunkUnits = c.Int("samples"), c.Int("chunk-units")
	if c.IsSet("samples") && o.Samples < 1 {
		return usageError("--samples %d: use 1 or more", o.Samples)
	}
	if c.IsSet("chunk-units") && o.ChunkUnits < 1 {
		return usageError("--chunk-units %d: use 1 or more", o.ChunkUnits)
	}
	return nil
}

// directory describes the opened store directory to package migrate.
func directory(c *cli.Context, l store.Layout, log *commitlog.Log) (*migrate.Directory, error) {
	d := &migrate.Directory{Root: l.Root, StateDir: l.StateDir(), Log: log}
	var err error
	if d.Unclean, err = l.HasAbort(); err != nil {
		return nil, err
	}
	if d.BatchTopics, err = l.BatchTopics(); err != nil {
		return nil, err
	}
	if names, known, err := l.Topics(); err != nil {
		fmt.Fprintf(c.App.ErrWriter, "warning: %v; deleted topics cannot be told from missing queues\n", err)
	} else if known {
		d.KnownTopics = names
	}
	layout := store.RocksSeparate
	if store.RocksLayout(c.String("layout")) == store.RocksShared {
		layout = store.RocksShared
	}
	st, err := migrate.LoadState(l.StateDir())
	if err != nil {
		return nil, err
	}
	_, found, ok, err := l.FindRocks()
	if cut := (*store.RemnantsError)(nil); errors.As(err, &cut) {
		switch {
		case c.Bool("from-log"):
			found, ok, err = cut.Layout, true, nil // lost, as said; it is not opened
		case c.Bool("restart") && c.Bool("replace-target"):
			found, ok, err = cut.Layout, true, nil // the backfill removes it when all else is in order
		case !unfinished(st, cut):
		case c.Command.Name == "run" && !c.Bool("dry-run") || c.Command.Name == "backfill":
			if err := removeRocks(cut.Dir); err != nil {
				return nil, err
			}
			_, found, ok, err = l.FindRocks()
		default:
			found, ok, err = "", false, nil // the next backfill removes it
		}
	}
	if err != nil {
		return nil, err
	}
	if ok {
		layout = found
	}
	if layout == store.RocksShared {
		if err := l.CheckShared(); err != nil {
			return nil, err
		}
	}
	d.RocksFound, d.RocksLayout = ok, migrate.RocksLayout(layout)
	if d.FileFound, err = l.HasFileQueues(); err != nil {
		return nil, err
	}
	if d.CQFileSize, err = cqFileSize(c, l, d.FileFound, st.CQFileSize); err != nil {
		return nil, err
	}
	s := &sides{l: l, minPhy: max(log.MinOffset(), 0), rocksDir: l.RocksDir(layout), shared: layout == store.RocksShared, fileSize: d.CQFileSize, options: store.DefaultOptions()}
	if o, _, err := brokerOptions(c); err != nil {
		return nil, err
	} else if o != nil {
		s.options = *o
	}
	d.FreeBytes = func() (int64, error) { return mmap.FreeBytes(l.Root) }
	d.Unwritable = s.unwritable
	d.OpenReader, d.OpenTarget, d.RemoveTarget = s.openReader, s.openTarget, s.remove
	d.OpenScratch = s.openScratch
	d.MoveMetadata = func(to cq.Kind, commit bool) (told, refusals []string, err error) {
		moves, refusals, err := moveMetadata(c, l, to, commit)
		for i := range moves {
			told = append(told, moves[i].String())
		}
		return told, refusals, err
	}
	d.SetLogicsPosition = func(phyOffset, storeTimestampMs int64) error {
		return store.UpdateCheckpoint(l.CheckpointPath(), func(cp *store.Checkpoint) {
			cp.LogicsPhysicalOffset, cp.LogicsMsgTimestampMs = phyOffset, storeTimestampMs
		})
	}
	return d, nil
}

// unfinished tells whether a database without its CURRENT is one that a backfill began to create and was killed over: nothing is
// in it. One whose manifest has lost its end was once made durable by a store, and is none of these.
func unfinished(st *migrate.State, cut *store.RemnantsError) bool {
	return cut.Why == "" && st.Phase == migrate.PhaseBackfilling && st.TargetCreated && st.BackfilledTo < 0 && st.To == cq.KindRocks && st.RocksLayout == migrate.RocksLayout(cut.Layout)
}

// cqFileSize reads the size of a queue file off the directory; the flag counts where no file tells.
func cqFileSize(c *cli.Context, l store.Layout, filesFound bool, before int64) (size int64, err error) {
	asked := c.Int64("cq-file-size")
	if !filesFound && !c.IsSet("cq-file-size") && before > 0 {
		return before, nil // what the files had before they were removed
	}
	if !filesFound {
		return (asked + 19) / 20 * 20, nil // RocketMQ rounds up, too
	}
	s, err := file.Open(l.ConsumeQueueDir(), file.Options{ReadOnly: true, ExtDir: l.ExtDir()})
	if err != nil {
		return 0, err
	}
	return s.FileSizeBytes(), s.Close()
}

// sides opens the two sides of a store directory.
type sides struct {
	l        store.Layout
	minPhy   int64
	rocksDir string
	shared   bool
	fileSize int64
	options  store.Options
}

// unwritable tells which directories a migration to that side has to make files in, and may not.
func (s *sides) unwritable(to cq.Kind) (reasons []string) {
	dir := s.rocksDir
	if to == cq.KindFile {
		dir = s.l.ConsumeQueueDir()
	}
	for _, dir := range []string{s.l.StateDir(), dir} {
		if err := mayMakeIn(dir); err != nil {
			reasons = append(reasons, fmt.Sprintf("nothing can be written in %s: %v", dir, err))
		}
	}
	return reasons
}

// mayMakeIn tells why this process cannot make files in a directory, or the directory itself where it is not there; nil: it can, as far as permissions tell.
func mayMakeIn(dir string) error {
	for {
		st, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir):
			dir = filepath.Dir(dir)
			continue
		case err != nil:
			return err
		case !st.IsDir():
			return fmt.Errorf("%s is no directory", dir)
		}
		const write, enter = 2, 1 // of access(2)
		if err := syscall.Access(dir, write|enter); err != nil {
			return fmt.Errorf("access %s: %w", dir, err)
		}
		return nil
	}
}

func (s *sides) openReader(kind cq.Kind) (cq.Store, error) {
	if kind == cq.KindFile {
		return file.Open(s.l.ConsumeQueueDir(), file.Options{ReadOnly: true, MinPhyOffset: s.minPhy, ExtDir: s.l.ExtDir(), FileSizeBytes: s.fileSize})
	}
	return rocks.Open(s.rocksDir, s.rocksOptions(true))
}

func (s *sides) openTarget(kind cq.Kind) (migrate.Target, error) {
	if kind == cq.KindFile {
		o := file.Options{MinPhyOffset: s.minPhy, ExtDir: s.l.ExtDir(), FileSizeBytes: s.fileSize}
		if s.shared {
			o.Reserved = store.IsRocksFile
		}
		return file.Open(s.l.ConsumeQueueDir(), o)
	}
	return rocks.Open(s.rocksDir, s.rocksOptions(false))
}

// openScratch opens a new target in a place of its own, with the options of the real one: on the same disk if it may write there.
func (s *sides) openScratch(kind cq.Kind) (t migrate.Target, dir string, remove func() error, err error) {
	state := s.l.StateDir()
	_, err = os.Stat(state)
	made := errors.Is(err, fs.ErrNotExist) && os.Mkdir(state, 0o755) == nil
	root, err := os.MkdirTemp(state, "plan-")
	if err != nil {
		root, err = os.MkdirTemp("", "tandemmq-plan-")
	}
	if err != nil {
		return nil, "", nil, err
	}
	remove = func() error {
		err := os.RemoveAll(root)
		if made {
			_ = os.Remove(state) // fails where somebody has put something else there
		}
		return err
	}
	one := *s
	one.l = store.NewLayout(root)
	one.rocksDir, one.shared = one.l.RocksDir(store.RocksSeparate), false
	if err = os.Mkdir(one.l.StateDir(), 0o755); err == nil { // where RocksDB has its log and makes its tables
		t, err = one.openTarget(kind)
	}
	if err != nil {
		return nil, "", nil, errors.Join(err, remove())
	}
	dir = one.rocksDir
	if kind == cq.KindFile {
		dir = one.l.ConsumeQueueDir()
	}
	return t, dir, remove, nil
}

func (s *sides) rocksOptions(readOnly bool) rocks.Options {
	o := s.options.OfflineRocksOptions()
	o.ReadOnly, o.Create, o.MinPhyOffset = readOnly, !readOnly, s.minPhy
	o.IngestDir = filepath.Join(s.l.StateDir(), "ingest")
	o.RocksDB.LogDir = filepath.Join(s.l.StateDir(), "rocksdb-log") // not among the queues, where a shared layout keeps its topics
	return o
}

// remove takes away a side that a migration created and then gave up: the files that are RocksDB's, or the queues, and nothing
// else that lies beside them.
func (s *sides) remove(kind cq.Kind) (err error) {
	if kind == cq.KindRocks {
		return removeRocks(s.rocksDir)
	}
	t, err := s.openTarget(cq.KindFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	keys, err := cq.SortedKeys(t)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := t.DropQueue(context.Background(), k); err != nil {
			return err
		}
	}
	return t.Flush(context.Background())
}

// removeRocks removes a database's own regular files, and its directory when that is then empty and not a link.
func removeRocks(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// CURRENT first: what is left when this is cut off is no database any more, and known as such (store.RemnantsError).
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	if i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "CURRENT" }); i > 0 {
		entries[0], entries[i] = entries[i], entries[0]
	}
	for _, e := range entries {
		if e.Type().IsRegular() && store.IsRocksFile(e.Name()) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if st, err := os.Lstat(dir); err == nil && st.IsDir() {
		_ = os.Remove(dir) // fails where something else lies in it
	}
	return nil
}
