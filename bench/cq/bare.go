//go:build cgo

package main

// #include "bare.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/tandemq/tandemmq/internal/rocks"
)

// liveObjects returns how many C objects are open.
func liveObjects() int64 { return rocks.LiveObjects() }

// bareGets returns the mean time of a get of one unit by RocksDB's C interface alone: in a loop of C, with the keys of those places in that order, and the same
// block cache. The second pass counts. All queues are of one topic and have as many units.
func bareGets(dir string, places []place) (time.Duration, error) {
	keys, width, err := unitKeys(dir)
	if err != nil {
		return 0, err
	}
	queues := 0
	for _, p := range places {
		queues = max(queues, p.queue+1)
	}
	reads, each := len(places), len(keys)/width/queues
	picked := make([]byte, 0, reads*width)
	for _, p := range places {
		i := p.queue*each + int(p.slot)
		picked = append(picked, keys[i*width:(i+1)*width]...)
		if slot := binary.BigEndian.Uint64(picked[len(picked)-8:]); slot != uint64(p.slot) {
			return 0, fmt.Errorf("%s: row %d is of slot %d, want %d", dir, i, slot, p.slot)
		}
	}
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	var (
		b    C.bare
		text *C.char
		took time.Duration
	)
	C.bare_open(&b, path, C.size_t(rocks.DefaultOptions().Units.BlockCacheBytes), &text)
	defer C.bare_close(&b)
	for range 2 {
		if text != nil {
			break
		}
		start := time.Now()
		if n := C.bare_gets(&b, (*C.char)(unsafe.Pointer(&picked[0])), C.size_t(width), C.int64_t(reads), &text); n != C.int64_t(reads) && text == nil {
			return 0, fmt.Errorf("%s: %d of %d rows are there", dir, n, reads)
		}
		took = time.Since(start) / time.Duration(reads)
	}
	if text != nil {
		defer C.free(unsafe.Pointer(text))
		return 0, errors.New(C.GoString(text))
	}
	return took, nil
}

// unitKeys returns the keys of all units, one after the other, and their length, which is the same for all.
func unitKeys(dir string) (keys []byte, width int, err error) {
	db, err := rocks.OpenReadOnly(dir, rocks.DefaultOptions())
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	uneven := false
	err = db.Scan(rocks.Units, nil, func(key, _ []byte) bool {
		width = len(key)
		keys = append(keys, key...)
		uneven = len(keys)%width != 0
		return !uneven
	})
	if err == nil && (width == 0 || uneven) {
		err = fmt.Errorf("%s has no units, or keys of several lengths", dir)
	}
	return keys, width, err
}
