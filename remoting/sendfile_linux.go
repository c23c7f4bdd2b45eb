package remoting

import (
	"cmp"
	"errors"
	"io"
	"os"
	"syscall"
)

var errNoSendfile = errors.New("no sendfile here")

// sendfileBytes is the most that one call is asked for; the kernel takes less than 2 GiB.
const sendfileBytes = 4 << 20

// sendfile has the kernel write a range of file to a socket. The file's own position is neither used nor changed, so that many may send from
// one file. Progress is told as it is made. errNoSendfile, with nothing sent: the file or the kernel cannot do it.
func sendfile(conn syscall.RawConn, file *os.File, offset, size int64, progress func(int64)) (sent int64, err error) {
	from, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var waitErr error
	controlErr := from.Control(func(in uintptr) {
		waitErr = conn.Write(func(out uintptr) bool {
			for sent < size {
				at := offset + sent
				n, e := syscall.Sendfile(int(out), int(in), &at, int(min(size-sent, sendfileBytes)))
				switch {
				case n > 0:
					sent += int64(n)
					progress(int64(n))
				case e == syscall.EINTR:
				case e == syscall.EAGAIN:
					return false // wait until the socket takes more
				case sent == 0 && (e == syscall.EINVAL || e == syscall.ENOSYS):
					err = errNoSendfile
					return true
				case e == nil:
					err = io.ErrUnexpectedEOF
					return true
				default:
					err = e
					return true
				}
			}
			return true
		})
	})
	return sent, cmp.Or(err, waitErr, controlErr)
}
