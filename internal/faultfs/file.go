package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// file is an open file.
type file struct {
	fs          *FS
	node        *node
	path        string
	read, write bool
	closed      bool // guarded by fs.mu
}

var _ mmap.File = (*file)(nil)

// run makes an operation on the file unless it is closed.
func (h *file) run(op Op, effect func(injected error) error) error {
	op.Path = h.path
	return h.fs.run(op, func(injected error) error {
		if h.closed {
			return fs.ErrClosed
		}
		return effect(injected)
	})
}

func (h *file) Name() string { return h.path }

func (h *file) Size() (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return 0, &fs.PathError{Op: "size", Path: h.path, Err: fs.ErrClosed}
	}
	return h.node.size, nil
}

var errNegative = errors.New("negative offset")

func (h *file) ReadAt(b []byte, off int64) (n int, err error) {
	err = h.run(Op{Kind: ReadAt, Off: off, N: int64(len(b))}, func(injected error) error {
		switch {
		case off < 0:
			return errNegative
		case !h.read:
			return syscall.EBADF
		}
		have := max(0, min(int64(len(b)), h.node.size-off))
		if n = done(injected, int(have)); n > 0 {
			copy(b[:n], h.node.content()[off:])
		}
		if injected == nil && n < len(b) {
			return io.EOF
		}
		return injected
	})
	return n, err
}

func (h *file) WriteAt(b []byte, off int64) (n int, err error) {
	err = h.run(Op{Kind: WriteAt, Off: off, N: int64(len(b))}, func(injected error) error {
		switch {
		case off < 0:
			return errNegative
		case !h.write:
			return syscall.EBADF
		case off > maxFileBytes-int64(len(b)):
			return syscall.EFBIG
		}
		var err error
		if n, err = h.writeAt(b[:done(injected, len(b))], off); err != nil {
			return err
		}
		return injected
	})
	return n, err
}

// writeAt writes as much of b as there is room for.
func (h *file) writeAt(b []byte, off int64) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, size, end := h.node, h.node.size, off+int64(len(b))
	live, err := n.memory(end)
	if err != nil {
		return 0, err
	}
	if end > size {
		if err := n.resize(h.fs, end); err != nil {
			return 0, err
		}
	}
	first, last := int(off/PageBytes), pagesOf(end)
	room, err := h.fs.takeBlocks(n, first, last)
	if err != nil {
		b = b[:max(0, int64(room)*PageBytes-off)]
		if end > size {
			if err := n.resize(h.fs, max(size, off+int64(len(b)))); err != nil {
				return 0, err
			}
		}
	}
	copy(live[off:], b)
	for i := first; i < room; i++ {
		n.pages[i].written = true
		n.pages[i].lost = nil // a write makes a page dirty whatever it writes
	}
	n.modTime = time.Now()
	return len(b), err
}

func (h *file) Truncate(size int64) error {
	return h.run(Op{Kind: Truncate, Off: size}, unlessFailed(func() error {
		if !h.write {
			return syscall.EINVAL
		}
		h.node.modTime = time.Now()
		return h.node.resize(h.fs, size)
	}))
}

func (h *file) Preallocate(off, n int64) error {
	return h.run(Op{Kind: Preallocate, Off: off, N: n}, unlessFailed(func() error {
		switch {
		case off < 0 || n <= 0:
			return syscall.EINVAL
		case !h.write:
			return syscall.EBADF
		case off > maxFileBytes-n:
			return syscall.EFBIG
		}
		size := h.node.size
		if off+n > size {
			if err := h.node.resize(h.fs, off+n); err != nil {
				return err
			}
		}
		var took []int
		for i := int(off / PageBytes); i < pagesOf(off+n); i++ {
			if h.node.pages[i].block {
				continue
			}
			if _, err := h.fs.takeBlocks(h.node, i, i+1); err != nil { // all or nothing
				for _, i := range took {
					h.node.pages[i].block = false
					h.fs.used -= PageBytes
				}
				if off+n > size {
					h.node.size = size // nothing can have been stored beyond it
				}
				return err
			}
			took = append(took, i)
		}
		return nil
	}))
}

func (h *file) Erase(off, n int64) error {
	if n == 0 {
		return nil
	}
	return h.run(Op{Kind: Erase, Off: off, N: n}, unlessFailed(func() error {
		switch {
		case off < 0 || n < 0:
			return syscall.EINVAL
		case !h.write:
			return syscall.EBADF
		}
		end := h.node.size
		if n < end-off {
			end = off + n
		}
		if off >= end {
			return nil
		}
		clear(h.node.content()[off:end])
		to := int(end / PageBytes)
		if end == h.node.size {
			to = pagesOf(end)
		}
		h.fs.giveBack(h.node, pagesOf(off), max(to, pagesOf(off)))
		h.node.modTime = time.Now()
		return nil
	}))
}

func (h *file) NextData(off int64) (from, to int64, err error) {
	err = h.run(Op{Kind: NextData, Off: off}, unlessFailed(func() error {
		n := h.node
		if off < 0 {
			return syscall.EINVAL
		}
		data := func(i int) bool { return n.pages[i].written || !samePage(n.at(i), &zeroPage) }
		from, to = n.size, n.size
		i, end := int(min(off, n.size)/PageBytes), pagesOf(n.size)
		for i < end && !data(i) {
			i++
		}
		if i == end || off >= n.size {
			return nil
		}
		from = max(off, int64(i)*PageBytes)
		for i < end && data(i) {
			i++
		}
		to = min(n.size, int64(i)*PageBytes)
		return nil
	}))
	return from, to, err
}

func (h *file) Datasync() error {
	h.fs.mu.Lock()
	s := h.fs.shoot(h.node, 0, len(h.node.pages))
	h.fs.mu.Unlock()
	return h.run(Op{Kind: Datasync, N: s.size}, func(injected error) error {
		return h.fs.sync(h.node, s, injected)
	})
}

func (h *file) StartWriteback(off, n int64) error {
	if n == 0 {
		return nil
	}
	return h.run(Op{Kind: StartWriteback, Off: off, N: n}, unlessFailed(func() error {
		if off < 0 || n < 0 || off+n < 0 {
			return syscall.EINVAL
		}
		return nil // what is on its way to the disk is still at stake
	}))
}

func (h *file) Map(size int64, writable bool) (mmap.Mapping, error) {
	m := &mapping{fs: h.fs, node: h.node, path: h.path, writable: writable}
	err := h.run(Op{Kind: Map, N: size}, unlessFailed(func() error {
		switch {
		case size <= 0 || size > h.node.size:
			return errSize(size, h.node.size)
		case !h.read || writable && !h.write:
			return syscall.EACCES
		}
		m.data = h.node.contentToMap()[:size:size]
		h.node.maps++
		h.fs.mapped++
		return nil
	}))
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (h *file) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return &fs.PathError{Op: "close", Path: h.path, Err: fs.ErrClosed}
	}
	h.closed = true
	h.fs.open--
	h.node.opens--
	h.fs.release(h.node)
	return nil
}
