package faultfs

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

const (
	maxFileBytes = 1 << 30  // the longest file
	minLiveBytes = 64 << 10 // the shortest slice: small files grow without moving
)

// PoisonByte fills the slice of a mapping when nothing maps its file any more.
const PoisonByte = 0xDB

// node is a file or a directory, whatever its names. All fields are guarded by the mutex of the FS, but for the bytes of live.
type node struct {
	ino     int64 // in order of creation
	mode    fs.FileMode
	modTime time.Time

	// Of a directory: the entries as all see them, and on the disk.
	entries, durable map[string]*node

	// Of a file.
	size        int64
	durableSize int64
	durableAt   int64 // when durableSize was read, by the clock of the FS
	low         int64 // the least size since the last sync
	lowAt       int64 // when it had that
	pages       []pageState
	// live is the content of all pages, in whole pages, zero beyond size; nil while nobody has written to the file or mapped it: then
	// pages[i].base is the content. It does not move while the file is mapped.
	live []byte

	opens, maps int  // what keeps the blocks
	linked      bool // has a name
}

// pageState is what is known of a page of a file. A nil page reads as zero.
type pageState struct {
	durable  *page // on the disk
	base     *page // as seen, while the node has no live
	lost     *page // as it was when a sync of it failed: a page that is still so passes for clean
	syncedAt int64 // when durable was read, by the clock of the FS
	erasedAt int64 // when its blocks were last given back

	block, durableBlock bool // has room on the disk
	written             bool // was written to: no hole, also if it is all zeros
}

func pagesOf(size int64) int { return int((size + PageBytes - 1) / PageBytes) }

func (n *node) isDir() bool { return n.mode.IsDir() }

// at returns page i as seen. The page may be being stored to.
func (n *node) at(i int) *page {
	var p *page
	if n.live == nil {
		p = n.pages[i].base
	} else if (i+1)*PageBytes <= len(n.live) {
		p = pageOf(n.live, i)
	}
	return orZero(p)
}

func orZero(p *page) *page {
	if p == nil {
		return &zeroPage
	}
	return p
}

// changed reports whether page i as seen differs from the disk.
func (n *node) changed(i int) bool { return !samePage(n.at(i), orZero(n.pages[i].durable)) }

// dirty reports whether a sync would write page i.
func (n *node) dirty(i int) bool {
	lost := n.pages[i].lost
	return n.changed(i) && (lost == nil || !samePage(n.at(i), lost))
}

// copyPage returns page i as it is now, the page of the disk itself when they are the same.
func (n *node) copyPage(i int) *page {
	switch {
	case n.live == nil:
		return n.pages[i].base
	case !n.changed(i):
		return n.pages[i].durable
	}
	p := new(page)
	readPage(p, n.at(i))
	return p
}

// memory returns live with at least size bytes, making or moving it.
func (n *node) memory(size int64) ([]byte, error) {
	need := max(pagesOf(max(size, n.size)), len(n.pages)) * PageBytes
	if n.live != nil && need <= len(n.live) {
		return n.live, nil
	}
	if n.maps > 0 {
		return nil, fmt.Errorf("file is mapped and cannot grow beyond %d bytes: %w", len(n.live), errors.ErrUnsupported)
	}
	live := make([]byte, max(need, min(2*len(n.live), maxFileBytes), minLiveBytes))
	if n.live != nil {
		copy(live, n.live)
	} else {
		for i := range n.pages {
			if b := n.pages[i].base; b != nil {
				copy(live[i*PageBytes:], b[:])
				n.pages[i].base = nil
			}
		}
	}
	n.live = live
	return live, nil
}

// content returns the memory of a file that does not grow.
func (n *node) content() []byte {
	live, err := n.memory(0)
	if err != nil {
		panic("faultfs: a mapped file without memory: " + err.Error())
	}
	return live
}

// contentToMap is content with as much again to grow into while the file is mapped.
func (n *node) contentToMap() []byte {
	if n.maps == 0 {
		if live, err := n.memory(min(2*n.size, maxFileBytes)); err == nil {
			return live
		}
	}
	return n.content()
}

// resize sets the length. Bytes gained read as zero.
func (n *node) resize(f *FS, size int64) error {
	switch {
	case size < 0:
		return syscall.EINVAL
	case size > maxFileBytes:
		return syscall.EFBIG
	case size > n.size:
		if n.live != nil {
			live, err := n.memory(size)
			if err != nil {
				return err
			}
			clear(live[n.size:size]) // of what was stored beyond the end through a mapping
		}
		n.pages = append(n.pages, make([]pageState, max(0, pagesOf(size)-len(n.pages)))...)
	case size < n.size:
		clear(n.content()[size:n.size])
		f.giveBack(n, pagesOf(size), len(n.pages))
	}
	n.size = size
	if size < n.low {
		n.low, n.lowAt = size, f.tick()
	}
	return nil
}

// takeBlocks gives pages [from, to) room on the disk and returns how many of them, from the first on, have it.
func (f *FS) takeBlocks(n *node, from, to int) (end int, err error) {
	for i := from; i < to; i++ {
		if n.pages[i].block {
			continue
		}
		if f.options.Capacity > 0 && f.used+PageBytes > f.options.Capacity {
			return i, syscall.ENOSPC
		}
		n.pages[i].block = true
		f.used += PageBytes
	}
	return to, nil
}

// giveBack makes pages [from, to) a hole.
func (f *FS) giveBack(n *node, from, to int) {
	now := f.tick()
	for i := from; i < to; i++ {
		p := &n.pages[i]
		if p.block {
			f.used -= PageBytes
		}
		p.block, p.written, p.erasedAt = false, false, now
	}
}

// release gives back the blocks of a file that nothing refers to any more.
func (f *FS) release(n *node) {
	if n.linked || n.opens > 0 || n.maps > 0 {
		return
	}
	for i := range n.pages {
		if n.pages[i].block {
			n.pages[i].block = false
			f.used -= PageBytes
		}
	}
}

// shot is what a sync is about to make durable: the file as it was when the sync was called.
type shot struct {
	at       int64 // the clock of the FS
	size     int64
	from, to int           // pages
	pages    map[int]*page // those that were dirty
	blocks   []bool        // of pages [from, to)
}

// shoot reads pages [from, to) for a sync.
func (f *FS) shoot(n *node, from, to int) shot {
	s := shot{at: f.tick(), size: n.size, from: from, to: to, pages: make(map[int]*page), blocks: make([]bool, to-from)}
	for i := from; i < to; i++ {
		s.blocks[i-from] = n.pages[i].block
		if n.dirty(i) {
			s.pages[i] = n.copyPage(i)
		}
	}
	return s
}

// sync ends a sync with the error it was injected or with its effect. Where a sync that was called later has been faster, its
// pages stay.
func (f *FS) sync(n *node, s shot, err error) error {
	if err == nil {
		err = f.blocksFor(n, s)
	}
	if err != nil {
		for i, p := range s.pages {
			if !f.options.KeepDirty && n.pages[i].syncedAt < s.at {
				n.pages[i].lost = p
			}
		}
		return err
	}
	for i := s.from; i < s.to; i++ {
		p := &n.pages[i]
		if p.syncedAt > s.at {
			continue
		}
		p.syncedAt, p.durableBlock = s.at, s.blocks[i-s.from]
		if content, ok := s.pages[i]; ok {
			p.durable, p.lost = content, nil
		}
	}
	if n.durableAt < s.at {
		for i := int(s.size / PageBytes); i < len(n.pages) && s.size < n.durableSize; i++ {
			if p := &n.pages[i]; p.syncedAt <= s.at {
				p.durable = cutPage(p.durable, s.size-int64(i)*PageBytes)
			}
		}
		n.durableSize, n.durableAt = s.size, s.at
		if n.lowAt < s.at {
			n.low = min(s.size, n.size)
		}
	}
	return nil
}

// blocksFor takes blocks for what was stored into holes through a mapping.
func (f *FS) blocksFor(n *node, s shot) error {
	for i, p := range s.pages {
		if samePage(p, &zeroPage) {
			continue
		}
		if _, err := f.takeBlocks(n, i, i+1); err != nil {
			return err
		}
	}
	return nil
}

// cutPage returns p without what is behind its first tail bytes.
func cutPage(p *page, tail int64) *page {
	switch {
	case p == nil || tail <= 0:
		return nil
	case tail >= PageBytes:
		return p
	}
	cut := new(page)
	copy(cut[:tail], p[:])
	return cut
}
