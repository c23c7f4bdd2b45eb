package calibrate

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Device is the block device that a filesystem lies on. The zero value is an unknown one.
type Device struct{ stat string }

// The kernel counts sectors of 512 bytes whatever the device has; those written are the seventh figure of a stat file.
//
// Source: Documentation/block/stat.rst of Linux.
const (
	sectorBytes       = 512
	writtenSectorsCol = 6
)

// DeviceOf returns the device under path. Filesystems without one of their own (in memory, over a network, several devices
// in one) have an unknown one.
func DeviceOf(path string) Device {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return Device{}
	}
	dev := uint64(st.Dev) //nolint:unconvert // 32 bits on some platforms
	major := dev>>8&0xfff | dev>>32&^0xfff
	minor := dev&0xff | dev>>12&^0xff
	return Device{stat: fmt.Sprintf("/sys/dev/block/%d:%d/stat", major, minor)}
}

// Written returns how many bytes the device has written since the machine started, by whomever. ok is false when that
// cannot be told.
func (d Device) Written() (bytes int64, ok bool) {
	if d.stat == "" {
		return 0, false
	}
	b, err := os.ReadFile(d.stat)
	if err != nil {
		return 0, false
	}
	return parseWritten(string(b))
}

func parseWritten(stat string) (bytes int64, ok bool) {
	f := strings.Fields(stat)
	if len(f) <= writtenSectorsCol {
		return 0, false
	}
	n, err := strconv.ParseInt(f[writtenSectorsCol], 10, 64)
	return n * sectorBytes, err == nil
}
