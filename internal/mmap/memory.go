package mmap

import "golang.org/x/sys/unix"

// MemoryBytes returns the physical memory of the machine in bytes, 0 when the system does not say.
func MemoryBytes() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
