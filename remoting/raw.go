package remoting

import (
	"io"
	"syscall"
)

// rawReader reads a TCP connection so that memory is taken when there is something to read, not while waiting for it.
type rawReader struct {
	call func(fd uintptr) bool // made once
	n    int
	err  error
}

func (r *rawReader) read(conn syscall.RawConn, in *input) (int, error) {
	if r.call == nil {
		r.call = func(fd uintptr) bool {
			ch := newChunk(in.size)
			for {
				r.n, r.err = syscall.Read(int(fd), ch.buf)
				if r.err != syscall.EINTR { //nolint:errorlint // a bare errno
					break
				}
			}
			if r.n <= 0 {
				ch.release()
				return r.err != syscall.EAGAIN //nolint:errorlint // a bare errno
			}
			in.chunk = ch
			return true
		}
	}
	if err := conn.Read(r.call); err != nil {
		return 0, err
	}
	if r.n == 0 {
		return 0, io.EOF
	}
	return r.n, r.err
}

// rawWriter writes to a TCP connection as much as its buffer takes, and does not wait.
type rawWriter struct {
	call func(fd uintptr) bool // made once
	b    []byte
	n    int
	err  error
}

func (w *rawWriter) write(conn syscall.RawConn, b []byte) (int, error) {
	if w.call == nil {
		w.call = func(fd uintptr) bool {
			for {
				w.n, w.err = syscall.Write(int(fd), w.b)
				if w.err != syscall.EINTR { //nolint:errorlint // a bare errno
					return true
				}
			}
		}
	}
	w.b = b
	err := conn.Write(w.call)
	w.b = nil
	if err != nil {
		return 0, err
	}
	if w.err == syscall.EAGAIN { //nolint:errorlint // a bare errno
		return 0, nil
	}
	return max(w.n, 0), w.err
}
