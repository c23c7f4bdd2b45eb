package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/message"
	"github.com/tandemq/tandemmq/store"
)

// Messages are put, and read back from the log.
func Example() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog = 1 << 20 // 1 GiB as it comes
	o.MaxHashSlotNum, o.MaxIndexNum = 1000, 4000
	s, err := store.Open(dir, o)
	if err != nil {
		panic(err)
	}
	host := message.Host{Addr: netip.MustParseAddr("127.0.0.1"), Port: 10911}
	for _, body := range []string{"one", "two"} {
		r, err := s.Put(context.Background(), &message.Message{
			Topic: "numbers", QueueID: 0, Body: []byte(body), Properties: message.AppendProperty(nil, message.PropertyTags, "small"),
			BornHost: host, StoreHost: host,
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(r.Status, r.Append.QueueOffset)
	}
	scan := s.Log().Scanner(-1, commitlog.ScanOptions{CheckCRC: true})
	for scan.Next() {
		fmt.Printf("%s\n", scan.Record().Body)
	}
	if err := scan.Err(); err != nil {
		panic(err)
	}
	scan.Close()
	if err := s.Close(); err != nil {
		panic(err)
	}
	// Output:
	// PUT_OK 0
	// PUT_OK 1
	// one
	// two
}

// What is refused says why, and by which status.
func ExampleStore_Put_refused() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	o := store.DefaultOptions()
	o.MappedFileSizeCommitLog = 1 << 20
	o.MaxMessageSize = 10
	o.BuildConsumeQueues = false
	s, err := store.Open(dir, o)
	if err != nil {
		panic(err)
	}
	host := message.Host{Addr: netip.MustParseAddr("127.0.0.1"), Port: 10911}
	_, err = s.Put(context.Background(), &message.Message{Topic: "numbers", Body: make([]byte, 11), BornHost: host, StoreHost: host})
	fmt.Println(errors.Is(err, store.PutMessageIllegal))
	fmt.Println(err)
	if err := s.Close(); err != nil {
		panic(err)
	}
	// Output:
	// true
	// put message: MESSAGE_ILLEGAL: encode message: body too long: got 11 bytes, want 0 to 10
}
