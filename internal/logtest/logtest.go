// Package logtest has a log that tests read while others write to it.
package logtest

import (
	"bytes"
	"log/slog"
	"sync"
)

// Log is a log of lines of text. Its zero value is empty; it is safe for use by several goroutines.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger is one that writes to the log.
func (x *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(x, nil)) }

// Write adds to the log.
func (x *Log) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.Write(p)
}

// String is all that was logged so far.
func (x *Log) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// Reset forgets what was logged.
func (x *Log) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.text.Reset()
}
