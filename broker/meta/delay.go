package meta

import (
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"time"
)

// DelayOffsets is how far each delay level was delivered, kept in delayOffset.json: the next queue offset of queue level-1 of SCHEDULE_TOPIC_XXXX.
type DelayOffsets struct {
	saver *saver

	mu struct {
		sync.Mutex
		next    map[int32]int64
		version DataVersion
		extra   extra
	}
}

type delayFile struct {
	Version DataVersion     `json:"dataVersion"`
	Table   map[int32]int64 `json:"offsetTable"`
}

// OpenDelayOffsets reads <dir>/delayOffset.json; without one every level is at its beginning. Errors: *conffile.FileError.
func OpenDelayOffsets(dir string, log *slog.Logger) (*DelayOffsets, error) {
	d := &DelayOffsets{}
	path := filepath.Join(dir, "delayOffset.json")
	d.saver = newSaver(replacing(path, func() ([]byte, error) {
		d.mu.Lock()
		f, x := d.snapshotLocked(), d.mu.extra
		d.mu.Unlock()
		return encodeFile(f, x)
	}))
	var f withExtra[delayFile]
	if _, err := loadLogged(path, &f, func() { f = withExtra[delayFile]{} }, log); err != nil {
		return nil, err
	}
	d.mu.version, d.mu.next, d.mu.extra = f.known.Version, f.known.Table, f.extra
	if d.mu.next == nil {
		d.mu.next = map[int32]int64{}
	}
	return d, nil
}

func (d *DelayOffsets) snapshotLocked() delayFile {
	return delayFile{d.mu.version, maps.Clone(d.mu.next)}
}

// Next returns the next queue offset of a level; 0 if nothing was delivered.
func (d *DelayOffsets) Next(level int32) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.next[level]
}

// Set sets it. It is durable after Save.
func (d *DelayOffsets) Set(level int32, next int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.next[level] = next
}

// Save makes the offsets durable.
func (d *DelayOffsets) Save() error {
	d.mu.Lock()
	d.mu.version = d.mu.version.next(time.Now())
	d.mu.Unlock()
	return d.saver.save()
}

// Text is the content of the file as of now, without line breaks.
func (d *DelayOffsets) Text() ([]byte, error) {
	d.mu.Lock()
	f := d.snapshotLocked()
	d.mu.Unlock()
	return plain(f)
}
