package store

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// The checkpoint of a plain run of RocketMQ 5.5.0 that was shut down cleanly; its last record starts at 44912.
const goldenCheckpoint = "000001a2292afc1d" + "000001a2292afc3f" + "0000000000000000" + "0000000000000000" + "0000000000000000" + "000000000000af70"

var (
	goldenCheckpointFields = Checkpoint{PhysicMsgTimestampMs: 0x1a2292afc1d, LogicsMsgTimestampMs: 0x1a2292afc3f, LogicsPhysicalOffset: 44912}
	goldenCheckpointTime   = time.UnixMilli(0x1a2292afc3f)
)

// rocketMQFile is the file as RocketMQ leaves it.
func rocketMQFile(t *testing.T) []byte {
	t.Helper()
	b, err := hex.DecodeString(goldenCheckpoint)
	require.NoError(t, err)
	require.Len(t, b, checkpointBytes)
	return append(b, make([]byte, 4096-48)...)
}

// readCheckpointBytes writes b to a file and reads it as of the golden time.
func readCheckpointBytes(t *testing.T, b []byte) (Checkpoint, bool, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(path, b, 0o644))
	return readCheckpoint(mmap.OS, path, goldenCheckpointTime)
}

func TestCheckpointGolden(t *testing.T) {
	b := rocketMQFile(t)
	c, ours, err := readCheckpointBytes(t, b)
	require.NoError(t, err)
	require.False(t, ours)
	require.Equal(t, goldenCheckpointFields, c)
	require.Equal(t, b[:48], c.appendTo(nil))
}

// Every field has its own place, and the file is what the drawing says: 4096 bytes for RocketMQ to map, its 48 first.
func TestCheckpointImage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	want := Checkpoint{1, 2, 3, -1, 5 << 40, 6, 7}
	require.NoError(t, WriteCheckpoint(path, want))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, b, 4096)
	for i, last := range []byte{1, 2, 3, 0xff, 0, 6} {
		require.Equal(t, last, b[8*i+7], "field %d", i)
	}
	require.Equal(t, b[:48], b[48:96])
	require.EqualValues(t, 0x544d5132, binary.BigEndian.Uint32(b[104:]))
	require.EqualValues(t, 7, binary.BigEndian.Uint64(b[96:]))
	require.Equal(t, crc32.ChecksumIEEE(b[48:108]), binary.BigEndian.Uint32(b[108:]))
	require.Equal(t, make([]byte, 3984), b[112:])

	got, ours, err := readCheckpoint(mmap.OS, path, goldenCheckpointTime)
	require.NoError(t, err)
	require.True(t, ours)
	require.Equal(t, want, got)
}

func TestUpdateCheckpoint(t *testing.T) {
	old := Checkpoint{1, 2, 3, 4, 5, 6, 8}
	future := Checkpoint{LogicsMsgTimestampMs: time.Now().Add(time.Hour).UnixMilli(), ConfirmPhyOffset: 5}
	tests := []struct {
		name   string
		before *Checkpoint
		want   Checkpoint
	}{
		{"none", nil, Checkpoint{LogicsPhysicalOffset: 7}},
		{"the others stay", &old, Checkpoint{1, 2, 3, 4, 5, 7, 8}},
		{"times in the future stay", &future, Checkpoint{LogicsMsgTimestampMs: future.LogicsMsgTimestampMs, ConfirmPhyOffset: 5, LogicsPhysicalOffset: 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "checkpoint")
			if tt.before != nil {
				require.NoError(t, WriteCheckpoint(path, *tt.before))
			}
			require.NoError(t, UpdateCheckpoint(path, func(c *Checkpoint) { c.LogicsPhysicalOffset = 7 }))
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, tt.want.image(), b)
		})
	}
}

func TestUpdateCheckpointLeavesADamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(path, make([]byte, 47), 0o644))
	err := UpdateCheckpoint(path, func(*Checkpoint) {})
	require.EqualError(t, err, "read checkpoint "+path+": short: 47 bytes, want 4096 (move the file away: the next start then recovers from the log alone, and takes longer)")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 47), b)
}

// The copy behind the 48 bytes tells our own write from a later one of RocketMQ, and both from damage.
func TestW46CheckpointTellsWriteFromDamage(t *testing.T) {
	ours := Checkpoint{1000, 2000, 3000, 0, 0, 4096, 5000}
	tests := []struct {
		name   string
		change func(b []byte)
		want   Checkpoint
		ours   bool
		fault  CheckpointFault
		detail string
	}{
		{name: "untouched", change: func([]byte) {}, want: ours, ours: true},
		{name: "RocketMQ wrote since", change: func(b []byte) { copy(b, rocketMQFile(t)[:48]) }, want: goldenCheckpointFields},
		{name: "first 48 bytes are zero", change: func(b []byte) { clear(b[:48]) }},
		{name: "first 48 bytes are noise", change: func(b []byte) {
			for i := range b[:48] {
				b[i] = 0x5A
			}
		}, fault: CheckpointImpossible, detail: "physicMsgTimestamp is 6510615555426900570"},
		{name: "copy damaged", change: func(b []byte) { b[95] ^= 1 }, fault: CheckpointDamaged, detail: "byte 54 is 0x03"},
		{name: "magic damaged", change: func(b []byte) { b[104] = 0 }, fault: CheckpointDamaged, detail: "byte 54"},
		{name: "checksum damaged", change: func(b []byte) { b[111] ^= 0x80 }, fault: CheckpointDamaged, detail: "byte 54"},
		{name: "trailer of another kind", change: func(b []byte) {
			b[107]++
			binary.BigEndian.PutUint32(b[108:], crc32.ChecksumIEEE(b[48:108]))
		}, fault: CheckpointDamaged, detail: "byte 54"},
		{name: "position damaged", change: func(b []byte) { b[96] = 1 }, fault: CheckpointDamaged, detail: "byte 54"},
		{name: "byte behind the copy", change: func(b []byte) { b[4095] = 7 }, fault: CheckpointDamaged, detail: "byte 4095 is 0x07"},
		{name: "byte behind a file of RocketMQ", change: func(b []byte) { copy(b, rocketMQFile(t)); b[104] = 1 }, fault: CheckpointDamaged, detail: "byte 104 is 0x01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := ours.image()
			tt.change(b)
			c, byUs, err := readCheckpointBytes(t, b)
			require.Equal(t, tt.want, c)
			require.Equal(t, tt.ours, byUs)
			requireCheckpointFault(t, err, tt.fault, tt.detail)
		})
	}
}

func requireCheckpointFault(t *testing.T, err error, fault CheckpointFault, detail string) {
	t.Helper()
	if fault == 0 {
		require.NoError(t, err)
		return
	}
	var e *CheckpointError
	require.ErrorAs(t, err, &e)
	require.Equal(t, fault, e.Fault, "%v", err)
	require.Contains(t, e.Detail, detail)
}

// A checkpoint that cannot be believed is told by its fault, so that a start can do without it.
func TestFRB10CheckpointFaults(t *testing.T) {
	field := func(i int, v int64) []byte {
		var c Checkpoint
		*c.fields()[i] = v
		return append(c.appendTo(nil), make([]byte, 4048)...)
	}
	now := goldenCheckpointTime.UnixMilli()
	tests := []struct {
		name   string
		file   []byte
		fault  CheckpointFault
		detail string
	}{
		{"empty", nil, 0, ""},
		{"zero-filled", make([]byte, 4096), 0, ""},
		{"one byte", make([]byte, 1), CheckpointShort, "1 bytes, want 4096"},
		{"cut within the fields", rocketMQFile(t)[:47], CheckpointShort, "47 bytes"},
		{"cut behind them", rocketMQFile(t)[:4095], CheckpointShort, "4095 bytes"},
		{"negative time", field(1, -1), CheckpointImpossible, "logicsMsgTimestamp is -1, want 0 to"},
		{"negative position", field(5, -2), CheckpointImpossible, "logicsPhysicalOffset is -2, want -1 to 1152921504606846976"},
		{"position beyond any log", field(4, 1<<60+1), CheckpointImpossible, "confirmPhyOffset is 1152921504606846977"},
		{"a minute ahead of the clock", field(0, now+60_000), 0, ""},
		{"more than that", field(0, now+60_001), CheckpointFuture, "physicMsgTimestamp is"},
		{"index time in the future", field(2, now+86_400_000), CheckpointFuture, "indexMsgTimestamp is"},
		{"a century ahead", field(1, now+101*365*86_400_000), CheckpointImpossible, "logicsMsgTimestamp is"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := readCheckpointBytes(t, tt.file)
			requireCheckpointFault(t, err, tt.fault, tt.detail)
		})
	}
	t.Run("random", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		b := make([]byte, 4096)
		for range 1000 {
			for i := 0; i < len(b); i += 8 {
				binary.BigEndian.PutUint64(b[i:], r.Uint64())
			}
			path := filepath.Join(t.TempDir(), "checkpoint")
			require.NoError(t, os.WriteFile(path, b, 0o644))
			_, err := ReadCheckpoint(path)
			requireCheckpointFault(t, err, CheckpointDamaged, "")
		}
	})
}

func TestReadCheckpointMissing(t *testing.T) {
	_, err := ReadCheckpoint(filepath.Join(t.TempDir(), "checkpoint"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// brokenFS fails its failAt-th operation that changes something, and counts them.
type brokenFS struct {
	mmap.FS
	failAt, ops int
}

type brokenFile struct {
	mmap.File
	fs *brokenFS
}

func (b *brokenFS) op() error {
	b.ops++
	if b.ops == b.failAt {
		return fs.ErrPermission
	}
	return nil
}

func (b *brokenFS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	if flag != os.O_RDONLY {
		if err := b.op(); err != nil {
			return nil, err
		}
	}
	f, err := b.FS.OpenFile(path, flag, perm)
	return &brokenFile{f, b}, err
}

func (b *brokenFS) Mkdir(dir string, perm fs.FileMode) error {
	if err := b.op(); err != nil {
		return err
	}
	return b.FS.Mkdir(dir, perm)
}

func (b *brokenFS) Rename(from, to string) error {
	if err := b.op(); err != nil {
		return err
	}
	return b.FS.Rename(from, to)
}

func (b *brokenFS) SyncDir(dir string) error {
	if err := b.op(); err != nil {
		return err
	}
	return b.FS.SyncDir(dir)
}

func (f *brokenFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.op(); err != nil {
		_, _ = f.File.WriteAt(p[:len(p)/2], off) // a disk that fills up
		return len(p) / 2, err
	}
	return f.File.WriteAt(p, off)
}

func (f *brokenFile) Datasync() error {
	if err := f.fs.op(); err != nil {
		return err
	}
	return f.File.Datasync()
}

// Whatever fails, the old or the new checkpoint is there, whole, and nothing beside it.
func TestW46CheckpointIsReplacedWhole(t *testing.T) {
	before, after := Checkpoint{1, 2, 3, 4, 5, 6, 7}, Checkpoint{10, 20, 30, 40, 50, 60, 70}
	for failAt := 1; ; failAt++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "checkpoint")
		require.NoError(t, WriteCheckpoint(path, before))
		fsys := &brokenFS{FS: mmap.OS, failAt: failAt}
		err := writeCheckpoint(fsys, path, after)
		c, rerr := ReadCheckpoint(path)
		require.NoError(t, rerr)
		if err == nil {
			require.Equal(t, after, c)
			require.Equal(t, 5, fsys.ops, "open, write, sync, rename, sync of the directory")
			return
		}
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorContains(t, err, path)
		require.Contains(t, []Checkpoint{before, after}, c)
		require.Equal(t, failAt == 5, c == after, "operation %d", failAt)
		entries, derr := os.ReadDir(dir)
		require.NoError(t, derr)
		require.Len(t, entries, 1, "operation %d", failAt)
	}
}
