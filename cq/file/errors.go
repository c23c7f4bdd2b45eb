package file

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/tandemq/tandemmq/cq"
)

// ErrName is the cause of a QueueError of a queue whose topic cannot be the name of a directory on any filesystem, or whose id is negative.
var ErrName = errors.New("no possible directory of a queue")

// ErrQueueAlone is the class of QueueError.
var ErrQueueAlone = errors.New("queue cannot be kept in files")

// QueueError tells that nothing can be written to one queue, by reason of its name: the name is impossible (ErrName), too long or not allowed on this
// filesystem (ENAMETOOLONG, EILSEQ), or something else lies where its directory has to be (ENOTDIR). Nothing was written. It is not sticky: other queues
// are written to as before, so a caller may leave this one out.
type QueueError struct {
	Key cq.Key
	Err error // the cause
}

func (e *QueueError) Error() string {
	return fmt.Sprintf("queue %q: %v: %v", e.Key.String(), ErrQueueAlone, e.Err)
}

// Unwrap returns the cause.
func (e *QueueError) Unwrap() error { return e.Err }

// Is matches ErrQueueAlone.
func (e *QueueError) Is(target error) bool { return target == ErrQueueAlone }

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

// aloneLocked makes a QueueError of an error that is about this queue's name.
func (q *queue) aloneLocked(err error) error {
	if err != nil && q.closeAloneLocked(err) {
		return &QueueError{Key: q.key, Err: err}
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
