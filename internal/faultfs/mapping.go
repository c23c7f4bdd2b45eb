package faultfs

import (
	"bytes"
	"fmt"
	"syscall"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// mapping is the first bytes of a file, a part of its live slice.
type mapping struct {
	fs       *FS
	node     *node
	path     string
	writable bool
	data     []byte // guarded by fs.mu; nil once unmapped
}

var _ mmap.Mapping = (*mapping)(nil)

func errSize(size, have int64) error {
	return fmt.Errorf("size %d is out of range: file has %d bytes", size, have)
}

// run makes an operation on bytes [off, off+n); without bytes it is none.
func (m *mapping) run(kind Kind, off, n int64, effect func(injected error) error) error {
	op := Op{Kind: kind, Path: m.path, Off: off, N: n}
	if n == 0 {
		m.fs.mu.Lock()
		defer m.fs.mu.Unlock()
		if err := m.check(off, n); err != nil {
			return fmt.Errorf("%s %s: %w", kind, m.path, err)
		}
		return nil
	}
	return m.fs.run(op, func(injected error) error {
		if err := m.check(off, n); err != nil {
			return err
		}
		return effect(injected)
	})
}

func (m *mapping) check(off, n int64) error {
	size := int64(len(m.data))
	switch {
	case m.data == nil:
		return mmap.ErrUnmapped
	case off < 0 || n < 0 || off > size || n > size-off:
		return fmt.Errorf("range [%d, +%d) outside [0, %d)", off, n, size)
	}
	return nil
}

func (m *mapping) Bytes() []byte {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	return m.data
}

func (m *mapping) Flush(off, n int64) error {
	var s shot
	m.fs.mu.Lock()
	if m.check(off, n) == nil {
		s = m.fs.shoot(m.node, int(off/PageBytes), min(pagesOf(off+n), len(m.node.pages)))
	}
	m.fs.mu.Unlock()
	return m.run(Flush, off, n, func(injected error) error { return m.fs.sync(m.node, s, injected) })
}

func (m *mapping) Advise(off, n int64, a mmap.Advice) error {
	if a < mmap.Normal || a > mmap.PopulateWrite {
		return fmt.Errorf("advise %s: unknown advice %d", m.path, a)
	}
	if a != mmap.PopulateRead && a != mmap.PopulateWrite {
		return m.run(Advise, off, n, unlessFailed(func() error { return nil }))
	}
	return m.run(Populate, off, n, unlessFailed(func() error {
		first, last := int(off/PageBytes), pagesOf(off+n)
		if last > pagesOf(m.node.size) {
			return fmt.Errorf("populate pages: disk full or read error: %w", syscall.EFAULT)
		}
		if a == mmap.PopulateRead {
			return nil
		}
		if !m.writable {
			return syscall.EINVAL
		}
		if _, err := m.fs.takeBlocks(m.node, first, last); err != nil {
			return fmt.Errorf("populate pages: %w: %w", err, syscall.EFAULT)
		}
		return nil
	}))
}

// Resident is true of all bytes that there are.
func (m *mapping) Resident(off, n int64) (bool, error) {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	if err := m.check(off, n); err != nil {
		return false, fmt.Errorf("ask for pages of %s: %w", m.path, err)
	}
	return true, nil
}

func (m *mapping) Lock(off, n int64) error {
	return m.run(Lock, off, n, unlessFailed(func() error { return nil }))
}

func (m *mapping) Unlock(off, n int64) error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	if err := m.check(off, n); err != nil {
		return fmt.Errorf("unlock %s: %w", m.path, err)
	}
	return nil
}

func (m *mapping) Unmap() error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	if m.data == nil {
		return nil
	}
	m.data = nil
	m.fs.mapped--
	n := m.node
	if n.maps--; n.maps == 0 {
		old := n.live
		n.live = bytes.Clone(old)
		for i := range old {
			old[i] = PoisonByte
		}
	}
	m.fs.release(n)
	return nil
}
