package commitlog

import (
	"fmt"

	"github.com/tandemq/tandemmq/internal/mappedfile"
	"github.com/tandemq/tandemmq/message"
)

// A record has a checksum of its body alone. When power is lost while its last page is on the way to the disk, what is left of that page
// is zeros, and where the page begins within the properties, the record decodes all the same: with properties that
// nobody put.
//
//	| header ... body | topic | properties ... 0 0 0 0 0 0 0 | 0 0 0 0 ...
//	                                page ---^    record ends ^
//
// Two things tell it from properties that are meant to end in zeros: the zeros begin with a page, and no record follows,
// since it would begin in the same page. Of a page in the middle of properties of more than 4 KiB, and of the
// properties' checksum, which few stores write, nothing is said here.

// lostTail tells whether the record r, which begins at byte pos of a file, has lost what stands in its last page. One that ends with
// its file has not: writers leave room for a filler.
func lostTail(f *mappedfile.File, data []byte, pos int64, r *message.Record) bool {
	end := pos + int64(r.TotalSize)
	page := (end - 1) / pageBytes * pageBytes
	if data[end-1] != 0 || page < end-int64(len(r.Properties)) || end == f.Size() {
		return false
	}
	for _, b := range data[page:end] {
		if b != 0 {
			return false
		}
	}
	rest := data[end:]
	if size, blank := message.BlankSize(rest); blank && int64(size) == int64(len(rest)) {
		return false
	}
	var following message.Record
	return following.Decode(rest, false) != nil || following.PhyOffset != f.From()+end
}

// lostTailGot says what is wrong with such a record.
func lostTailGot(pos int64, r *message.Record) string {
	end := pos + int64(r.TotalSize)
	return fmt.Sprintf("properties of zeros from byte %d of the file on to the end of the record at %d", (end-1)/pageBytes*pageBytes, end)
}
