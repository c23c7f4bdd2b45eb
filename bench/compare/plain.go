package compare

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// storeChange changes the options of a store, in tests; nil: nothing.
type storeChange func(o *store.Options)

func (c storeChange) to(o *store.Options) {
	if c != nil {
		c(o)
	}
}

// slowLimit is for scenarios that make a store before they measure something, which takes long on a machine that is busy.
const slowLimit = 3 * time.Minute

// plainTopic is where messages go that are put without a load.Producer, into its queue 0.
const plainTopic = "bench_plain"

// plainMessage is a message without properties.
func plainMessage(body int) message.Message {
	host := message.Host{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: 10911}
	return message.Message{Topic: plainTopic, Body: bytes.Repeat([]byte{'b'}, body), BornTimestampMs: time.Now().UnixMilli(), BornHost: host, StoreHost: host}
}
