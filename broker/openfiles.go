package broker

import (
	"log/slog"
	"math"
	"syscall"
)

// openFiles returns how many files the process may have open. Go raises what is in effect to what is allowed when a program starts.
func openFiles() (int64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	return int64(min(limit.Cur, math.MaxInt64)), nil
}

// leastReserve is how many files the store and the broker need beside connections, where so many are allowed twice.
const leastReserve = 1000

// connectionsWithin returns how many connections leave the store a quarter of the files that may be open, at least leastReserve, and at most a half.
func connectionsWithin(files int64) int {
	reserve := min(files/2, max(files/4, leastReserve))
	return int(min(max(files-reserve, 1), math.MaxInt32))
}

// fitConnections lowers MaxConnections to what the files that may be open allow: connections that wait must not take those that the store needs to go on.
func (o *Options) fitConnections(log *slog.Logger) {
	files, err := o.openFiles()
	if err != nil {
		log.Warn("it is not known how many files may be open: maxConnections stays", slog.Any("err", err))
		return
	}
	if n := connectionsWithin(files); n < o.MaxConnections {
		log.Warn("fewer connections are taken than maxConnections says: the process may not open enough files (ulimit -n)",
			slog.Int("maxConnections", o.MaxConnections), slog.Int("connections", n), slog.Int64("openFiles", files))
		o.MaxConnections = n
	}
}
