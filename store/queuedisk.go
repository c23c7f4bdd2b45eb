package store

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/cq"
)

// diskPause is after how many files QueueDisk waits as long as it has worked since.
const diskPause = 1000

// QueueDisk returns how many bytes of the disk the consume queues of each kind take that is there. The store may be in use meanwhile, and is not kept busy: half of the time nothing is done.
func (l Layout) QueueDisk(ctx context.Context) (map[cq.Kind]int64, error) {
	bytes := make(map[cq.Kind]int64)
	begin, n := time.Now(), 0
	walk := func(dir string, kind func(path string) cq.Kind) error {
		return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // never was there, or has gone since
				return nil
			}
			if err != nil {
				return err
			}
			if n++; n%diskPause == 0 {
				if !sleep(ctx, time.Since(begin)) {
					return ctx.Err()
				}
				begin = time.Now()
			}
			st, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if sys, ok := st.Sys().(*syscall.Stat_t); ok && path != dir {
				bytes[kind(path)] += sys.Blocks * 512
			}
			return nil
		})
	}
	files := l.ConsumeQueueDir()
	err := walk(files, func(path string) cq.Kind {
		if filepath.Dir(path) == files && IsRocksFile(filepath.Base(path)) {
			return cq.KindRocks
		}
		return cq.KindFile
	})
	if err == nil {
		err = walk(l.ExtDir(), func(string) cq.Kind { return cq.KindFile })
	}
	if err == nil {
		err = walk(l.RocksDir(RocksSeparate), func(string) cq.Kind { return cq.KindRocks })
	}
	return bytes, err
}
