package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/index"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// The file index-read notes how far the log was read for the index files. Messages without keys leave nothing in them, so they cannot tell: without the note the log is read again from the last message with
// keys on, all of it where none has any. It is a note: without it, or with one that does not fit log and index files, that is what is done. RocketMQ does not know of it.
//
//	offset  width  name           type  meaning
//	0       4      magic          u32   0x544d5133 ("TMQ3")
//	4       8      lastOffset     i64   where the last record begins that was read: the entries of all up to it are durable
//	12      8      lastTimestamp  i64   its store time in ms
//	20      4      count          u32   rows
//	24      ...    rows           -     the index files that had entries then, oldest first
//	end-4   4      crc            u32   CRC-32 (IEEE) of all bytes before
//
//	row: name u64, the number that is the file's name; beginPhyOffset i64 and endPhyOffset i64, of its first and last entry; entries i32
//
// All integers are big-endian.
const (
	indexReadMagic  = 0x544d5133
	indexReadHeader = 24
	indexReadRow    = 8 + 8 + 8 + 4
	indexReadCRC    = 4
	indexReadName   = "index-read"

	maxIndexReadBytes = 1 << 24 // some 600,000 files
)

// indexRead is what the file says.
type indexRead struct {
	last  recordMark
	files []indexReadFile
}

// indexReadFile is an index file with entries.
type indexReadFile struct {
	name             uint64
	beginPhy, endPhy int64
	entries          int32
}

func (l Layout) indexReadPath() string { return filepath.Join(l.StateDir(), indexReadName) }

// indexReadFiles are the rows of index files: those that have entries.
func indexReadFiles(files []index.FileInfo) []indexReadFile {
	rows := make([]indexReadFile, 0, len(files))
	for i := range files {
		f := &files[i]
		if f.Entries == 0 {
			continue
		}
		name, _ := strconv.ParseUint(filepath.Base(f.Path), 10, 64) // index.Open takes no other for index files
		rows = append(rows, indexReadFile{name, f.BeginPhyOffset, f.EndPhyOffset, f.Entries})
	}
	return rows
}

func (n *indexRead) image() []byte {
	be := binary.BigEndian
	b := be.AppendUint32(make([]byte, 0, indexReadHeader+len(n.files)*indexReadRow+indexReadCRC), indexReadMagic)
	b = be.AppendUint64(b, uint64(n.last.phy))
	b = be.AppendUint64(b, uint64(n.last.ms))
	b = be.AppendUint32(b, uint32(len(n.files)))
	for _, f := range n.files {
		b = be.AppendUint64(b, f.name)
		b = be.AppendUint64(b, uint64(f.beginPhy))
		b = be.AppendUint64(b, uint64(f.endPhy))
		b = be.AppendUint32(b, uint32(f.entries))
	}
	return be.AppendUint32(b, crc32.ChecksumIEEE(b))
}

var errIndexRead = errors.New("not what this module writes")

func parseIndexRead(b []byte) (*indexRead, error) {
	be := binary.BigEndian
	end := len(b) - indexReadCRC
	if end < indexReadHeader || be.Uint32(b) != indexReadMagic || be.Uint32(b[end:]) != crc32.ChecksumIEEE(b[:end]) {
		return nil, errIndexRead
	}
	n := &indexRead{last: recordMark{phy: int64(be.Uint64(b[4:])), ms: int64(be.Uint64(b[12:]))}}
	rows := b[indexReadHeader:end]
	if int64(len(rows)) != int64(be.Uint32(b[20:]))*indexReadRow {
		return nil, errIndexRead
	}
	for ; len(rows) > 0; rows = rows[indexReadRow:] {
		n.files = append(n.files, indexReadFile{be.Uint64(rows), int64(be.Uint64(rows[8:])), int64(be.Uint64(rows[16:])), int32(be.Uint32(rows[24:]))})
	}
	return n, nil
}

// readIndexRead returns up to where the log was read for these index files, as the note says if it fits them and the log, which ends at end; -1 without such a note. The error says why one is not used.
func readIndexRead(fsys mmap.FS, l Layout, log *commitlog.Log, end int64, files []index.FileInfo) (to int64, err error) {
	b, err := readFile(fsys, l.indexReadPath(), maxIndexReadBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	var n *indexRead
	if err == nil {
		n, err = parseIndexRead(b)
	}
	if err == nil {
		to, err = n.fits(log, end, indexReadFiles(files))
	}
	if err != nil {
		return -1, fmt.Errorf("read the note of how far the index is %s: %w", l.indexReadPath(), err)
	}
	return to, nil
}

// fits returns the end of the last record that was read, and an error where the note is not about this log and these index files. The log has that record, at its place. The files are those that were
// there, but for what has expired since, with the entries that they had; only the last may have got more, and others may follow.
func (n *indexRead) fits(log *commitlog.Log, end int64, files []indexReadFile) (to int64, err error) {
	begin := max(log.MinOffset(), 0)
	if n.last.phy < begin || n.last.phy >= end {
		return -1, fmt.Errorf("it speaks of a record at physical offset %d, and the log goes from %d to %d", n.last.phy, begin, end)
	}
	var r message.Record
	release, err := log.Read(n.last.phy, 0, false, &r)
	if err != nil {
		return -1, fmt.Errorf("it is about another log: %w", err)
	}
	to = n.last.phy + int64(r.TotalSize)
	ms := r.StoreTimestampMs
	release()
	if ms != n.last.ms || to > end {
		return -1, fmt.Errorf("it is about another log: the record at physical offset %d is of %d and ends at %d, want one of %d that ends at or below %d", n.last.phy, ms, to, n.last.ms, end)
	}
	expired := func(f indexReadFile) bool { return f.endPhy < begin }
	noted := slices.DeleteFunc(slices.Clone(n.files), expired)
	files = slices.DeleteFunc(slices.Clone(files), expired)
	for i, f := range noted {
		switch {
		case i >= len(files):
			return -1, fmt.Errorf("index file %017d is gone", f.name)
		case files[i] == f:
		case i < len(noted)-1 || files[i].name != f.name || files[i].beginPhy != f.beginPhy || files[i].entries < f.entries:
			return -1, fmt.Errorf("index file %017d, which had %d entries, is not there, or is another one", f.name, f.entries)
		}
	}
	return to, nil
}

// indexReadTo is readIndexRead for the index of an open store. A note that does not fit is removed: what comes may be such that it would seem to.
func (s *Store) indexReadTo(ix *index.Index) int64 {
	to, err := readIndexRead(s.fs, s.layout, s.writer.Log(), s.writer.Positions().Confirm, ix.Files())
	if err == nil {
		return to
	}
	s.logger.Warn("the log is read for the index from its last message with keys on", slog.String("view", indexName), slog.Any("err", err))
	if err := removeDurably(s.fs, s.layout.indexReadPath()); err != nil {
		s.logger.Error("a note of how far the index is stays, though it does not fit", slog.Any("err", err))
	}
	return -1
}

// noteRead notes how far the log was read for the index, whose files had these entries or more when they were made durable, after last was in it. Nothing is noted while something was passed over: that is to
// be tried again.
func (v *indexView) noteRead(last recordMark, files []index.FileInfo) {
	f := v.follow
	if last.phy < 0 || last.phy == v.noted || f.doubt.Load() || f.poison.Load() > 0 || f.holes.Load() > 0 {
		return
	}
	note := indexRead{last, indexReadFiles(files)}
	err := makeDir(v.s.fs, v.s.layout.StateDir())
	if err == nil {
		err = replaceFile(v.s.fs, v.s.layout.indexReadPath(), note.image())
	}
	if err != nil { // it saves time, and nothing else
		v.s.logger.Warn("it is not noted how far the index is", slog.Any("err", err))
		return
	}
	v.noted = last.phy
}
