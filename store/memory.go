package store

import "github.com/tandemq/tandemmq/internal/mmap"

// memoryBytes is the machine's memory.
type memoryBytes int64

// fallbackMemory is taken where the system does not say. Source: StoreUtil.TOTAL_PHYSICAL_MEMORY_SIZE, 5.5.0.
const fallbackMemory memoryBytes = 24 << 30

func machineMemory() memoryBytes {
	if n := mmap.MemoryBytes(); n > 0 {
		return memoryBytes(n)
	}
	return fallbackMemory
}

// share returns that many percent of it.
func (m memoryBytes) share(percent int) int64 { return int64(m) / 100 * int64(percent) }
