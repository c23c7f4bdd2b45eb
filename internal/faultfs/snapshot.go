package faultfs

import "unsafe"

// PageBytes is the unit in which content survives a loss of power and in which blocks are counted.
const PageBytes = 4096

// page is a page that never changes any more: on the disk, or as it was when a sync was called. Pages are shared between an
// FS and what its crashes leave.
type page [PageBytes]byte

var zeroPage page

// The three functions below read pages while goroutines may be storing to them through a mapping, and the race detector is told
// not to look. That is right here and nowhere else: they stand for the disk controller, which reads a page of the page cache
// whenever it likes, in the midst of stores too. What it reads of bytes stored to meanwhile may be old or new, word by word,
// and an engine that relies on more is wrong on the machine as well; what was stored before the sync was called (in the order of
// Go's memory model: the caller of Datasync knows of the store) is read new. Reporting a race would forbid what the engine must be
// able to do, storing beyond the published position while what is below it is being synced. Races between goroutines of the
// engine stay visible, because nothing of this hides their own loads and stores.
//
// The loops go by words, on memory aligned to them. copy and bytes.Equal would do the same faster, but copy is
// instrumented inside the runtime whatever the function that calls it says.

type words [PageBytes / 8]uint64

//go:norace
func readPage(dst *page, src *page) {
	d, s := (*words)(unsafe.Pointer(dst)), (*words)(unsafe.Pointer(src))
	for i := range d {
		d[i] = s[i]
	}
}

//go:norace
func samePage(a, b *page) bool {
	x, y := (*words)(unsafe.Pointer(a)), (*words)(unsafe.Pointer(b))
	if x == y {
		return true
	}
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return true
}

// pageOf returns page i of buf, which is whole pages long, as a page that may still change.
func pageOf(buf []byte, i int) *page {
	return (*page)(buf[i*PageBytes:])
}
