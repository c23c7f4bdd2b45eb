package mmap

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MemoryFile makes a file that is in no directory: size bytes that begin with head, the rest zeros without blocks. It goes when it is closed and nothing of it is mapped any more. name is what it calls itself.
func MemoryFile(name string, size int64, head []byte) (File, error) {
	fd, err := unix.MemfdCreate("tandemmq", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make %s in memory: %w", name, err)
	}
	f := &osFile{os.NewFile(uintptr(fd), name)}
	if err = f.Truncate(size); err == nil {
		_, err = f.WriteAt(head, 0)
	}
	if err != nil {
		_ = f.Close() // it is nowhere
		return nil, fmt.Errorf("make %s in memory: %w", name, err)
	}
	return f, nil
}
