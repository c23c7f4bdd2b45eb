//go:build !linux

package remoting

import (
	"errors"
	"os"
	"syscall"
)

var errNoSendfile = errors.New("no sendfile here")

func sendfile(syscall.RawConn, *os.File, int64, int64, func(int64)) (int64, error) {
	return 0, errNoSendfile
}
