package faultfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/internal/mmap"
)

// Options of an FS.
type Options struct {
	// Capacity is how many bytes of blocks (PageBytes each) there are; 0: any number. Directories take none.
	Capacity int64
	// KeepDirty has a sync that failed leave its pages dirty, so that the next one writes them. Linux does not.
	KeepDirty bool
}

// FS is a filesystem in memory, an mmap.FS. Relative paths begin at the root.
type FS struct {
	options Options
	before  atomic.Pointer[func(Op) error]
	after   atomic.Pointer[func(Op, error)]
	ops     atomic.Int64
	choices []choice // what it is left of, for String

	mu            sync.Mutex // guards all nodes and what follows; all methods below that are not exported are called with it held
	root          *node
	inodes, clock int64
	used          int64 // bytes of blocks
	open, mapped  int
	pending       []entryOp // directory operations that no SyncDir has covered, oldest first
}

var _ mmap.FS = (*FS)(nil)

// New makes an FS that holds the root directory and nothing else.
func New(o Options) *FS {
	f := &FS{options: o}
	f.root = f.newNode(fs.ModeDir | 0o755)
	return f
}

// tick returns a time later than all before.
func (f *FS) tick() int64 {
	f.clock++
	return f.clock
}

func (f *FS) newNode(mode fs.FileMode) *node {
	f.inodes++
	n := &node{ino: f.inodes, mode: mode, modTime: time.Now()}
	if mode.IsDir() {
		n.entries, n.durable = make(map[string]*node), make(map[string]*node)
	}
	return n
}

// OpenFiles returns how many files are open.
func (f *FS) OpenFiles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// Mappings returns how many mappings there are.
func (f *FS) Mappings() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mapped
}

// MkdirAll makes a directory and those above it, all of them durable. It is no operation: tests use it to begin with.
func (f *FS) MkdirAll(dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.root
	for _, name := range split(dir) {
		if d.entries[name] == nil {
			d.entries[name] = f.newNode(fs.ModeDir | 0o755)
			d.entries[name].linked = true
			d.durable[name] = d.entries[name]
		}
		if d = d.entries[name]; !d.isDir() {
			panic(fmt.Sprintf("faultfs: %s is a file", name))
		}
	}
}

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(filepath.Clean("/"+path), "/"), func(s string) bool { return s == "" })
}

// find returns what is at path.
func (f *FS) find(path string) (*node, error) {
	n := f.root
	for _, name := range split(path) {
		if !n.isDir() {
			return nil, syscall.ENOTDIR
		}
		if n = n.entries[name]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// parent returns the directory that path is or would be in, and its name there.
func (f *FS) parent(path string) (*node, string, error) {
	names := split(path)
	if len(names) == 0 {
		return nil, "", syscall.EBUSY
	}
	dir, err := f.findDir(filepath.Join(names[:len(names)-1]...))
	return dir, names[len(names)-1], err
}

func (f *FS) findDir(path string) (*node, error) {
	n, err := f.find(path)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// OpenFile is that of mmap.FS. Of the flags it knows those for access, os.O_CREATE, os.O_EXCL and os.O_TRUNC.
func (f *FS) OpenFile(path string, flag int, perm fs.FileMode) (mmap.File, error) {
	h := &file{fs: f, path: path, read: true, write: true}
	switch flag & syscall.O_ACCMODE {
	case os.O_RDONLY:
		h.write = false
	case os.O_WRONLY:
		h.read = false
	}
	op := Op{Kind: Open, Path: path}
	f.mu.Lock()
	if n, err := f.find(path); err == nil && flag&os.O_TRUNC != 0 && n.size > 0 {
		op.Kind = Truncate
	} else if err != nil && flag&os.O_CREATE != 0 {
		op.Kind = Create
	}
	f.mu.Unlock()
	err := f.run(op, unlessFailed(func() error {
		if flag&^(syscall.O_ACCMODE|os.O_CREATE|os.O_EXCL|os.O_TRUNC) != 0 {
			return syscall.EINVAL
		}
		n, err := f.lookUp(path, flag, perm)
		if err != nil {
			return err
		}
		if flag&os.O_TRUNC != 0 {
			if err := n.resize(f, 0); err != nil {
				return err
			}
		}
		h.node = n
		n.opens++
		f.open++
		return nil
	}))
	if err != nil {
		return nil, err
	}
	return h, nil
}

// lookUp finds the file to open, or makes it.
func (f *FS) lookUp(path string, flag int, perm fs.FileMode) (*node, error) {
	n, err := f.find(path)
	switch {
	case err == nil && flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, syscall.EEXIST
	case err == nil && n.isDir():
		return nil, syscall.EISDIR
	case err == nil:
		return n, nil
	case flag&os.O_CREATE == 0:
		return nil, err
	}
	dir, name, err := f.parent(path)
	if err != nil {
		return nil, err
	}
	n = f.newNode(perm.Perm())
	f.change(entryOp{kind: Create, moved: n, to: place{dir, name}})
	return n, nil
}

// ReadDir is that of mmap.FS. There are no links.
func (f *FS) ReadDir(dir string) ([]fs.FileInfo, error) {
	var infos []fs.FileInfo
	err := f.run(Op{Kind: ReadDir, Path: dir}, unlessFailed(func() error {
		d, err := f.findDir(dir)
		if err != nil {
			return err
		}
		infos = make([]fs.FileInfo, 0, len(d.entries))
		for name, n := range d.entries {
			infos = append(infos, info{name, n.size, n.mode, n.modTime})
		}
		slices.SortFunc(infos, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
		return nil
	}))
	return infos, err
}

// info is an fs.FileInfo.
type info struct {
	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return i.modTime }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

// Mkdir is that of mmap.FS.
func (f *FS) Mkdir(dir string, perm fs.FileMode) error {
	return f.run(Op{Kind: Mkdir, Path: dir}, unlessFailed(func() error {
		if len(split(dir)) == 0 {
			return syscall.EEXIST
		}
		parent, name, err := f.parent(dir)
		switch {
		case err != nil:
			return err
		case parent.entries[name] != nil:
			return syscall.EEXIST
		}
		f.change(entryOp{kind: Mkdir, moved: f.newNode(fs.ModeDir | perm.Perm()), to: place{parent, name}})
		return nil
	}))
}

// Remove is that of mmap.FS.
func (f *FS) Remove(path string) error {
	return f.run(Op{Kind: Remove, Path: path}, unlessFailed(func() error {
		dir, name, err := f.parent(path)
		if err != nil {
			return err
		}
		n := dir.entries[name]
		switch {
		case n == nil:
			return syscall.ENOENT
		case len(n.entries) > 0:
			return syscall.ENOTEMPTY
		}
		f.change(entryOp{kind: Remove, from: place{dir, name}})
		return nil
	}))
}

// Rename is that of mmap.FS; it moves directories as well, to names that are free.
func (f *FS) Rename(from, to string) error {
	return f.run(Op{Kind: Rename, Path: from, To: to}, unlessFailed(func() error {
		fromDir, fromName, err := f.parent(from)
		if err != nil {
			return err
		}
		toDir, toName, err := f.parent(to)
		if err != nil {
			return err
		}
		n, there := fromDir.entries[fromName], toDir.entries[toName]
		switch {
		case n == nil:
			return syscall.ENOENT
		case n == there:
			return nil
		case there != nil && there.isDir():
			return syscall.EEXIST
		case there != nil && n.isDir():
			return syscall.ENOTDIR
		case n.isDir() && strings.HasPrefix(filepath.Clean("/"+to)+"/", filepath.Clean("/"+from)+"/"):
			return syscall.EINVAL
		}
		f.change(entryOp{kind: Rename, moved: n, from: place{fromDir, fromName}, to: place{toDir, toName}})
		return nil
	}))
}

// SyncDir is that of mmap.FS.
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	before := f.tick()
	f.mu.Unlock()
	return f.run(Op{Kind: SyncDir, Path: dir}, unlessFailed(func() error {
		d, err := f.findDir(dir)
		if err != nil {
			return err
		}
		f.settle(d, before)
		return nil
	}))
}

// Usage is that of mmap.FS. An FS of any capacity has 1 TiB.
func (f *FS) Usage(dir string) (total, free int64, err error) {
	err = f.run(Op{Kind: Usage, Path: dir}, unlessFailed(func() error {
		if _, err := f.find(dir); err != nil {
			return err
		}
		if total = f.options.Capacity; total <= 0 {
			total = 1 << 40
		}
		free = max(0, total-f.used)
		return nil
	}))
	return total, free, err
}
