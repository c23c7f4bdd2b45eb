package file

import (
	"github.com/tandemq/tandemmq/cq"
)

// Stored returns the slots that the files of a queue that contradicts itself have room or units for: from the first file's beginning to behind the last slot that is not zero. What lies between may be anything.
func (q *queue) Stored() (from, to int64, err error) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if err := q.openedRLocked(); err != nil {
		return 0, 0, err
	}
	if q.files == nil || len(q.files.Files()) == 0 {
		return 0, 0, nil
	}
	files := q.files.Files()
	p := newProber(files)
	defer p.close()
	for i := int64(len(files)) - 1; i >= 0 && to == 0; i-- {
		begin := p.first + i*p.perFile
		err := p.walk(begin, func(slot int64, u cq.Unit) error {
			if slot >= begin+p.perFile {
				return errStop
			}
			if !free(u) {
				to = slot + 1
			}
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return p.first, max(to, p.first), nil
}

// ReadStored is Read for a queue that contradicts itself: it copies what is stored, also behind the end that the queue seems to have.
func (q *queue) ReadStored(from int64, dst []cq.Unit) (int, error) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if err := q.openedRLocked(); err != nil {
		return 0, err
	}
	if q.files == nil || len(q.files.Files()) == 0 || from < 0 {
		return 0, nil
	}
	files := q.files.Files()
	n, exts, err := q.readRLocked(from, dst, files[len(files)-1].End()/unitBytes)
	if exts && err == nil {
		err = q.resolveRLocked(dst[:n])
	}
	return n, err
}
