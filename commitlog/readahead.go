package commitlog

import "github.com/tandemq/tandemmq/internal/mmap"

// Readahead of a scan, in bytes.
const (
	populateBytes = 1 << 20 // pages are mapped this much at a time; longer calls hold up whoever needs the address space
	willNeedBytes = 8 << 20 // the disk is told this far ahead
)

// readAhead maps the pages of the next piece of the file, so that the scan takes no page fault in it: a fault blocks the
// thread together with its share of the Go scheduler, a system call does not. And it has the disk start on a later piece.
//
// Errors are left for the scan to meet: it touches the same bytes, under GuardFault.
func (s *Scanner) readAhead() {
	size := int64(len(s.data))
	from := int64(s.pos)
	n := min(populateBytes, size-from)
	if later := from + willNeedBytes; later < size {
		_ = s.file.Advise(later, min(populateBytes, size-later), mmap.WillNeed)
	}
	if err := s.file.Advise(from, n, mmap.PopulateRead); err != nil {
		_ = s.file.Advise(from, n, mmap.WillNeed)
	}
	s.ahead = s.pos + int(n)
	if n == 0 {
		s.ahead = len(s.data) + 1
	}
}
