package calibrate

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

const (
	// sendRecords is how many records of RecordBytes go out with one writev, as a pull of 32 messages has them.
	sendRecords = 32
	// sendPiece is what one sendfile sends.
	sendPiece = 256 << 10
	// receiveBytes is the buffer of who receives.
	receiveBytes = 256 << 10
)

// Writev sends records out of memory over loopback, 32 with each writev, for about d, and returns bytes a second that were received.
func Writev(d time.Duration) (bytesPerSecond float64, err error) {
	record := make([]byte, RecordBytes)
	var parts [sendRecords][]byte
	bytesPerSecond, err = overLoopback(d, func(c *net.TCPConn) (int64, error) {
		for i := range parts {
			parts[i] = record
		}
		buffers := net.Buffers(parts[:])
		return buffers.WriteTo(c)
	})
	return bytesPerSecond, named("writev over loopback", err)
}

// Sendfile sends pieces of a file that is in memory over loopback for about d, and returns bytes a second that were received.
func Sendfile(dir string, d time.Duration) (bytesPerSecond float64, err error) {
	err = withFile(dir, func(f *os.File) error {
		if _, err := f.Write(make([]byte, sendPiece)); err != nil {
			return err
		}
		bytesPerSecond, err = overLoopback(d, func(c *net.TCPConn) (int64, error) {
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return 0, err
			}
			return c.ReadFrom(&io.LimitedReader{R: f, N: sendPiece})
		})
		return err
	})
	return bytesPerSecond, named("sendfile over loopback", err)
}

// overLoopback calls send for about d with a connection whose other end reads and forgets.
func overLoopback(d time.Duration, send func(*net.TCPConn) (int64, error)) (bytesPerSecond float64, err error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	type end struct {
		bytes int64
		at    time.Time
		err   error
	}
	received := make(chan end, 1)
	go func() {
		var e end
		c, err := l.Accept()
		if err == nil {
			buffer := make([]byte, receiveBytes)
			for err == nil {
				var n int
				n, err = c.Read(buffer)
				e.bytes += int64(n)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			err = errors.Join(err, c.Close())
		}
		e.at, e.err = time.Now(), err
		received <- e
	}()
	c, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		return 0, errors.Join(err, l.Close(), (<-received).err)
	}
	start, sent := time.Now(), int64(0)
	for err == nil && time.Since(start) < d {
		var n int64
		n, err = send(c)
		sent += n
	}
	err = errors.Join(err, c.Close())
	e := <-received
	if err = errors.Join(err, e.err); err == nil && e.bytes != sent {
		err = errors.New("not all that was sent was received")
	}
	return float64(e.bytes) / e.at.Sub(start).Seconds(), err
}
