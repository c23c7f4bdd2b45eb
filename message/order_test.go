//go:build unix

package message

import (
	"encoding/binary"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Until all of a record is written its first 8 bytes are as they were: what an encoding that was cut off leaves in a mapped file
// is no record. It is cut off here by properties, the last that is written, in memory that cannot be read.
func TestSizeAndMagicAreWrittenLast(t *testing.T) {
	unreadable, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(unreadable)) }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	m := Message{Topic: "t", Body: []byte("b"), Properties: unreadable[:100]}
	m.BornHost, m.StoreHost = hostOf("127.0.0.1:1"), hostOf("127.0.0.1:1")
	size, err := m.EncodedSize()
	require.NoError(t, err)
	dst := make([]byte, size)
	require.Panics(t, func() { _ = m.PutTo(dst) })
	require.NotZero(t, binary.BigEndian.Uint32(dst[atBodyCRC:]), "cut off too early to tell")
	require.Zero(t, binary.BigEndian.Uint64(dst))
}
