package broker

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tandemq/tandemmq/message"
)

// uniqueIDs makes the unique keys of messages that come without one, as clients do: tools read the time off them.
//
//	0   4  the last 4 bytes of the broker's address
//	4   2  process id
//	6   4  a number of this process's own
//	10  4  milliseconds since the month began
//	14  2  counter
//
// Source: MessageClientIDSetter, 5.5.0.
type uniqueIDs struct {
	self    uint32
	counter atomic.Uint32
}

func newUniqueIDs() *uniqueIDs { return &uniqueIDs{self: rand.Uint32()} }

// next returns 32 hex digits.
func (u *uniqueIDs) next(host message.Host) string {
	now := time.Now()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, now.Location())
	var b [16]byte
	addr := host.Addr.AsSlice()
	copy(b[:4], addr[max(0, len(addr)-4):])
	binary.BigEndian.PutUint16(b[4:], uint16(os.Getpid()))
	binary.BigEndian.PutUint32(b[6:], u.self)
	binary.BigEndian.PutUint32(b[10:], uint32(now.Sub(month).Milliseconds()))
	binary.BigEndian.PutUint16(b[14:], uint16(u.counter.Add(1)))
	return strings.ToUpper(hex.EncodeToString(b[:]))
}
