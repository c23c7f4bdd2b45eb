package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/internal/mmap"
	"github.com/tandemq/tandemmq/message"
)

// Sizes of logWriter. A chunk is big enough that the call to write it costs nothing beside the copy; two in flight let one
// core encode while the other copies into the page cache.
const (
	chunkBytes     = 4 << 20
	chunksInFlight = 2
)

// chunk is a piece of the log; it never reaches over the end of a file.
type chunk struct {
	phyOffset int64
	bytes     []byte
}

// logWriter writes a fresh log from offset 0: records appended to buf, fillers and file changes by place. Sample stores
// are written through it, with large plain writes; the engine's own append path is another.
//
// It has one goroutine, which writes the chunks in order. It ends when chunks is closed, by finish or close; both join it.
type logWriter struct {
	dir      string
	fileSize int64
	start    int64  // phyOffset of buf[0]
	buf      []byte // encoded, not yet handed over

	chunks chan chunk
	free   chan []byte
	done   chan struct{}
	err    error // of the goroutine; read after done is closed
	failed chan struct{}
	ended  bool
}

func newLogWriter(dir string, fileSize int64) *logWriter {
	w := &logWriter{
		dir: dir, fileSize: fileSize,
		chunks: make(chan chunk, chunksInFlight), free: make(chan []byte, chunksInFlight),
		done: make(chan struct{}), failed: make(chan struct{}),
	}
	for range chunksInFlight {
		w.free <- make([]byte, 0, chunkBytes)
	}
	w.buf = make([]byte, 0, chunkBytes)
	go w.run()
	return w
}

// place makes room for a record of size bytes and returns its phyOffset: the next position, or the start of the next file
// when the record and the filler header that must be able to follow it do not fit. The caller appends exactly size bytes
// to buf.
//
// Source: CommitLog.DefaultAppendMessageCallback.doAppend, 5.5.0 (a filler when size + 8 > remaining).
func (w *logWriter) place(size int32) (phyOffset int64, err error) {
	phyOffset = w.start + int64(len(w.buf))
	if remaining := w.fileSize - phyOffset%w.fileSize; int64(size)+message.BlankHeaderSize > remaining {
		w.buf = message.AppendBlank(w.buf, int32(remaining))
		phyOffset += remaining
		if err := w.hand(phyOffset); err != nil {
			return 0, err
		}
	}
	if len(w.buf) > 0 && len(w.buf)+int(size)+message.BlankHeaderSize > chunkBytes {
		if err := w.hand(phyOffset); err != nil {
			return 0, err
		}
	}
	return phyOffset, nil
}

// hand gives buf to the goroutine and takes another, which begins at next.
func (w *logWriter) hand(next int64) error {
	select {
	case w.chunks <- chunk{w.start, w.buf}:
	case <-w.failed:
		w.buf = w.buf[:0]
		return w.end()
	}
	select {
	case b := <-w.free:
		w.buf, w.start = b[:0], next
	case <-w.failed:
		w.buf = nil
		return w.end()
	}
	return nil
}

// finish writes what is left and returns when everything is durable.
func (w *logWriter) finish() error {
	if err := w.hand(w.start); err != nil {
		return err
	}
	if err := w.end(); err != nil {
		return err
	}
	return mmap.SyncDir(w.dir)
}

// close ends the goroutine without finishing. After finish it does nothing.
func (w *logWriter) close() error {
	if w.ended {
		return nil
	}
	return w.end()
}

func (w *logWriter) end() error {
	if !w.ended {
		w.ended = true
		close(w.chunks)
	}
	<-w.done
	return w.err
}

func (w *logWriter) run() {
	defer close(w.done)
	var f *os.File
	var from int64
	for c := range w.chunks {
		if w.err != nil {
			continue // until the other side looks
		}
		err := func() (err error) {
			if at := c.phyOffset / w.fileSize * w.fileSize; f == nil || at != from {
				if err := syncClose(f); err != nil {
					return err
				}
				if f, err = w.create(at); err != nil {
					return err
				}
				from = at
			}
			_, err = f.WriteAt(c.bytes, c.phyOffset-from)
			return err
		}()
		if err != nil {
			w.err = fmt.Errorf("write log at %d: %w", c.phyOffset, err)
			close(w.failed)
			continue
		}
		w.free <- c.bytes
	}
	if err := syncClose(f); w.err == nil && err != nil {
		w.err = fmt.Errorf("write log: %w", err)
	}
}

// create makes the log file that begins at from, in full length and sparse.
func (w *logWriter) create(from int64) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(w.dir, mappedfile.Name(from)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(w.fileSize); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func syncClose(f *os.File) error {
	if f == nil {
		return nil
	}
	return errors.Join(mmap.Datasync(f), f.Close())
}
