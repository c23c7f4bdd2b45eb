package file

import (
	"errors"
	"os"
	"syscall"

	"github.com/tandemq/tandemmq/cq"
)

// ErrName is the cause of a cq.QueueError of a queue whose topic cannot be the name of a directory on any filesystem, or whose id is negative.
var ErrName = errors.New("no possible directory of a queue")

// ErrReserved is the cause of a cq.QueueError of a queue whose topic has the name of a file that is not the store's, see Options.Reserved.
var ErrReserved = errors.New("the name is kept for a file that is no queue")

// CheckName tells whether the queue's name can be that of a directory here: ErrName says that no filesystem takes it, ENAMETOOLONG and EILSEQ that this one does not, and
// ENOTDIR that something else lies there, such as a file of a RocksDB database; ErrReserved that something else may.
func (s *Store) CheckName(k cq.Key) error {
	if err := s.checkKey(k); err != nil {
		return err
	}
	if _, err := os.Lstat(queueDir(s.dir, k)); err != nil && alone(s.dir, err) {
		return &cq.QueueError{Key: k, Err: err}
	}
	return nil
}

// alone tells whether err is about the name of a queue below tree, and about no other queue.
func alone(tree string, err error) bool {
	if errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EILSEQ) {
		return len(tree) < maxTreeBytes
	}
	if errors.Is(err, syscall.ENOTDIR) {
		st, serr := os.Stat(tree)
		return serr == nil && st.IsDir()
	}
	return false
}

// maxTreeBytes is how long the path of a store may be, so that every topic fits behind it.
const maxTreeBytes = 4096 - maxNameBytes - len("/2147483647/00000000000000000000") - 2

// aloneLocked makes a *cq.QueueError of an error that is about this queue's name.
func (q *queue) aloneLocked(err error) error {
	if err != nil && q.closeAloneLocked(err) {
		return &cq.QueueError{Key: q.key, Err: err}
	}
	return err
}

// closeAloneLocked tells whether err is about this queue's name, and then closes its list of files, to which the error sticks. A queue with unflushed units
// has a possible name.
func (q *queue) closeAloneLocked(err error) bool {
	if q.dirty || q.flushing || !alone(q.s.dir, err) {
		return false
	}
	q.forgetLocked()
	return true
}
