package compare

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tandemq/tandemmq/bench/calibrate"
	"github.com/tandemq/tandemmq/internal/mmap"
)

// Read mode: records of a log copied out of its mapping, or read with pread, where they are in memory, where they are not, and where memory has not room for all of them.

// The modes.
const (
	readMapped = "mapping"
	readPread  = "pread"
)

// readState is where what is read lies when it begins.
type readState string

const (
	readHot    readState = "hot"    // in memory
	readCold   readState = "cold"   // on the disk, and there is room for it
	readLarger readState = "larger" // on the disk, and memory has room for a quarter
)

const (
	readRecord = 1024
	readPiece  = 64 << 10 // what pread takes at once where records are read one behind the other, as Get does of what is not in memory
)

// readSize is what is read: a file of so many records, all of them in order, or some at random, until the time is over.
type readSize struct {
	state   readState
	random  bool
	records int64
	time    time.Duration
}

// ReadModeScenarios compare the ways out of the log.
func ReadModeScenarios() (all []Scenario) {
	for _, state := range []readState{readHot, readCold, readLarger} {
		for _, order := range []string{"sequential", "random"} {
			s := Scenario{
				Name: fmt.Sprintf("read-mode/%s/%s", state, order), Engines: []string{readMapped, readPread},
				Title:    fmt.Sprintf("Records of 1 KiB read, %s, %s", map[readState]string{readHot: "in memory", readCold: "not in memory", readLarger: "four times what memory has room for"}[state], order),
				Headline: "bytesPerSecond", Full: state == readLarger || order == "sequential", Inputs: true,
				Run: func(ctx context.Context, r *Run) error {
					return runReadMode(ctx, r, readSize{state, order == "random", size[int64](r.Profile, 96<<10, 1<<20), size(r.Profile, 400*time.Millisecond, 4*time.Second)})
				},
			}
			if state == readLarger {
				s.Unfit = func() string {
					if _, err := findMemoryGroup(cgroupRoot); err != nil {
						return err.Error()
					}
					return ""
				}
			}
			all = append(all, s)
		}
	}
	return all
}

// The header of a record of the file: CRC-32 of all that follows, and its number.
const readHeader = 12

func putReadRecord(b []byte, n int64) {
	binary.BigEndian.PutUint64(b[4:], uint64(n))
	for i := readHeader; i < len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], uint32(n)*2654435761+uint32(i))
	}
	binary.BigEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
}

func checkReadRecord(b []byte, n int64) error {
	if got := int64(binary.BigEndian.Uint64(b[4:])); got != n {
		return fmt.Errorf("record %d where %d should be", got, n)
	}
	if binary.BigEndian.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
		return fmt.Errorf("record %d has a wrong checksum", n)
	}
	return nil
}

// readInput makes the file, which is the same for all.
func (r *Run) readInput(records int64) (path string, err error) {
	dir, err := r.Input(fmt.Sprintf("records-%d", records), func(dir string) (err error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(dir, "records"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		piece := make([]byte, 0, 1<<20)
		for n := int64(0); n < records; {
			piece = piece[:0]
			for len(piece) < cap(piece) && n < records {
				piece = piece[:len(piece)+readRecord]
				putReadRecord(piece[len(piece)-readRecord:], n)
				n++
			}
			if _, err := f.Write(piece); err != nil {
				return err
			}
		}
		return mmap.Datasync(f)
	})
	return filepath.Join(dir, "records"), err
}

// memoryRoom is what the process may have in memory beside the part of the file that has room: all of Go.
const memoryRoom = 64 << 20

func runReadMode(ctx context.Context, r *Run, size readSize) (err error) {
	path, err := r.readInput(size.records)
	if err != nil {
		return err
	}
	if err := calibrate.DropCache([]string{path}); err != nil {
		return err
	}
	if size.state == readLarger {
		g, err := findMemoryGroup(cgroupRoot)
		if err != nil {
			return err
		}
		leave, err := g.enter(size.records*readRecord/4 + memoryRoom)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, leave()) }()
	}
	return readMode(ctx, r, size, path)
}

func readMode(ctx context.Context, r *Run, size readSize, path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	rd := &modeReader{f: f, to: make([]byte, readPiece)}
	if r.Engine == readMapped {
		if rd.region, err = mmap.Map(f, size.records*readRecord, false); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rd.region.Unmap()) }()
	} else if r.Engine != readPread {
		return fmt.Errorf("no read mode %q", r.Engine)
	}
	if size.state == readHot {
		if err := rd.sequential(ctx, size.records, time.Time{}, nil); err != nil {
			return err
		}
	}
	lat, late := calibrate.NewLatency(), make(chan *calibrate.Latency, 1)
	stop := make(chan struct{})
	go func() { late <- sleeperLate(stop) }()
	before, start := pageFaults(), time.Now()
	rd.bytes = 0
	for pass := 0; err == nil && (pass == 0 || size.state != readCold && time.Since(start) < size.time); pass++ { // what is cold is cold once
		if size.random {
			err = rd.random(ctx, size.records, start.Add(size.time), lat)
		} else {
			err = rd.sequential(ctx, size.records, start.Add(size.time), lat)
		}
	}
	took, after := time.Since(start), pageFaults()
	close(stop)
	woken := <-late
	if err != nil {
		return err
	}
	r.Figures["bytesPerSecond"] = float64(rd.bytes) / took.Seconds()
	mib := float64(rd.bytes) / (1 << 20)
	r.Figures["minorFaultsPerMiB"], r.Figures["majorFaultsPerMiB"] = float64(after.minor-before.minor)/mib, float64(after.major-before.major)/mib
	r.latency("read", lat)
	r.latency("otherWoken", woken)
	r.checked("number and checksum of each of %d records read", rd.bytes/readRecord)
	return nil
}

// modeReader copies records, out of the mapping if there is one, and checks each.
type modeReader struct {
	f      *os.File
	region *mmap.Region
	to     []byte
	bytes  int64
}

// take reads so many bytes from record n on, and checks what they are.
func (m *modeReader) take(n, bytes int64) error {
	to := m.to[:bytes]
	if m.region != nil {
		if err := mmap.GuardFault(func() error { copy(to, m.region.Bytes()[n*readRecord:]); return nil }); err != nil {
			return err
		}
	} else if _, err := m.f.ReadAt(to, n*readRecord); err != nil {
		return err
	}
	for at := int64(0); at < bytes; at += readRecord {
		if err := checkReadRecord(to[at:at+readRecord], n+at/readRecord); err != nil {
			return err
		}
	}
	m.bytes += bytes
	return nil
}

// sequential reads records from the first one on, until all are read or it is late; a zero time: all. Each piece is timed.
func (m *modeReader) sequential(ctx context.Context, records int64, until time.Time, lat *calibrate.Latency) error {
	last := time.Now()
	for n := int64(0); n < records && (until.IsZero() || last.Before(until)); {
		bytes := min(readPiece, (records-n)*readRecord)
		if err := errors.Join(m.take(n, bytes), ctx.Err()); err != nil {
			return err
		}
		n += bytes / readRecord
		now := time.Now()
		if lat != nil {
			lat.Record(now.Sub(last))
		}
		last = now
	}
	return nil
}

// random reads single records, at most as many as there are, until it is late.
func (m *modeReader) random(ctx context.Context, records int64, until time.Time, lat *calibrate.Latency) error {
	random := rand.New(rand.NewPCG(1, 2))
	last := time.Now()
	for range records {
		if !last.Before(until) {
			return nil
		}
		if err := errors.Join(m.take(random.Int64N(records), readRecord), ctx.Err()); err != nil {
			return err
		}
		now := time.Now()
		lat.Record(now.Sub(last))
		last = now
	}
	return nil
}

// sleeperLate tells by how much more than a millisecond each sleep of one took: what somebody else waits while what is read is not there.
func sleeperLate(stop chan struct{}) *calibrate.Latency {
	lat := calibrate.NewLatency()
	for {
		start := time.Now()
		time.Sleep(time.Millisecond)
		lat.Record(time.Since(start) - time.Millisecond)
		select {
		case <-stop:
			return lat
		default:
		}
	}
}

// faults are page faults of the process so far: minor ones found the page in memory, major ones waited for the disk.
type faults struct{ minor, major int64 }

func pageFaults() faults {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return faults{}
	}
	return faults{int64(u.Minflt), int64(u.Majflt)} //nolint:unconvert // 32 bits on some platforms
}
