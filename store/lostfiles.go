package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/file"
	"github.com/tandemq/tandemmq/cq/rocks"
	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// What a process has open it goes on reading, also when the file was removed or cut behind it: whoever is about to give up the only other copy looks into the directory.

// maxLostFiles is how many are named.
const maxLostFiles = 20

// lostFiles collects what is told.
type lostFiles struct {
	words []string
	more  int
}

func (l *lostFiles) add(format string, args ...any) {
	if len(l.words) >= maxLostFiles {
		l.more++
		return
	}
	l.words = append(l.words, fmt.Sprintf(format, args...))
}

func (l *lostFiles) all() []string {
	if l.more > 0 {
		return append(l.words, fmt.Sprintf("and %d more", l.more))
	}
	return l.words
}

// LostFiles compares the files of the consume queues of one kind with the directory, and says in words which of them are not there or have another length; none where all is well. The store goes on meanwhile: one that
// retention, a compaction or the deletion of a topic takes away is not told of.
//
// Errors: ErrClosed, ErrNotCombined where queues of that kind are not open; those of the disk.
func (s *Store) LostFiles(ctx context.Context, kind cq.Kind) ([]string, error) {
	q, err := s.sideOf(kind)
	if err != nil {
		return nil, err
	}
	return lostFilesOf(ctx, s.layout, q)
}

// sideOf returns the store of queues of one kind.
func (s *Store) sideOf(kind cq.Kind) (cq.Store, error) {
	switch {
	case s.closed.Load():
		return nil, ErrClosed
	case s.views == nil:
		return nil, ErrNotCombined
	}
	q := s.views.queues
	if d := s.views.sides; d != nil {
		q = d.side(kind)
	}
	if q.Kind() != kind {
		return nil, ErrNotCombined
	}
	return q, nil
}

func lostFilesOf(ctx context.Context, l Layout, q cq.Store) ([]string, error) {
	var lost lostFiles
	switch q := q.(type) {
	case *rocks.Store:
		words, err := q.LostFiles()
		if err != nil {
			return nil, err
		}
		for _, w := range words {
			lost.add("%s", w)
		}
	case *file.Store:
		for k, err := range q.Queues() {
			switch {
			case err != nil:
				return nil, err
			case ctx.Err() != nil:
				return nil, ctx.Err()
			}
			if what := lostOf(l, q, k); what != "" { // or it was cut by retention, or deleted, meanwhile
				if what = lostOf(l, q, k); what != "" {
					lost.add("%s", what)
				}
			}
		}
	}
	return lost.all(), nil
}

// lostOf says what is wrong with the files that have a queue's units, "" where nothing is.
func lostOf(l Layout, s *file.Store, k cq.Key) string {
	q, ok := s.Queue(k)
	if !ok {
		return ""
	}
	b, err := q.Bounds()
	if err != nil {
		return fmt.Sprintf("queue %s: %v", k, err)
	}
	perFile := s.FileSizeBytes() / unitBytes
	for slot := b.Min - b.Min%perFile; slot < b.Max; slot += perFile {
		path := filepath.Join(l.ConsumeQueueDir(), k.Topic, strconv.Itoa(int(k.QueueID)), mappedfile.Name(slot*unitBytes))
		switch st, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			return path + " is not there"
		case err != nil:
			return err.Error()
		case st.Size() != s.FileSizeBytes():
			return fmt.Sprintf("%s has %d bytes, and should have %d", path, st.Size(), s.FileSizeBytes())
		}
	}
	return ""
}

// CheckKept looks at the consume queues of one kind in a store that nobody has open, before those of the other kind are moved out of it: whether they can be opened, have all their files, and end where the other
// ones do, or behind that. Units are not read. What is wrong is said in words; none where all is well. The caller holds the store's lock.
func CheckKept(ctx context.Context, l Layout, kept cq.Kind) []string {
	var lost lostFiles
	q, err := openQuietly(l, kept, 0)
	if err != nil {
		return []string{fmt.Sprintf("the %s queues cannot be opened: %v", kept, err)}
	}
	defer func() { _ = q.Close() }() // opened for reading
	words, err := lostFilesOf(ctx, l, q)
	if err != nil {
		words = append(words, err.Error())
	}
	if len(words) > 0 {
		return words
	}
	other, err := openQuietly(l, otherKind(kept), 0)
	if err != nil { // moved aside in part by a start that was cut off, or damaged itself
		return nil
	}
	defer func() { _ = other.Close() }()
	for k, err := range other.Queues() {
		switch {
		case err != nil:
			return lost.all()
		case ctx.Err() != nil:
			return []string{ctx.Err().Error()}
		}
		theirs, ok := keptEnd(other, k)
		if !ok || theirs == 0 {
			continue
		}
		switch ours, ok := keptEnd(q, k); {
		case !ok:
			lost.add("queue %s, which ends at slot %d in %s, cannot be read in %s, or is not there", k, theirs, otherKind(kept), kept)
		case ours < theirs:
			lost.add("queue %s ends at slot %d in %s and at %d in %s", k, ours, kept, theirs, otherKind(kept))
		}
	}
	return lost.all()
}

// keptEnd returns where a queue ends.
func keptEnd(r cq.Reader, k cq.Key) (end int64, ok bool) {
	q, ok := r.Queue(k)
	if !ok {
		return 0, false
	}
	b, err := q.Bounds()
	return b.Max, err == nil
}
