//go:build ignore

// Make picks records for records.jsonl out of a store that RocketMQ 5.5.0 wrote and of a manifest of what its own
// getMessage then returned: one line for each position, the manifest's line as "want" beside the bytes as "raw".
//
//	go run make.go STORE MANIFEST PHYOFFSET... >> records.jsonl
//
// STORE is the store's root directory with a single CommitLog file; MANIFEST has a JSON object a line, those of messages with
// "t":"msg". The lines here come from stores with V2 topics and IPv6 hosts in all four combinations, with light queues, and
// with delayed and transactional messages.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: make STORE MANIFEST PHYOFFSET...")
	}
	logFile, err := os.ReadFile(filepath.Join(os.Args[1], "commitlog", "00000000000000000000"))
	if err != nil {
		log.Fatal(err)
	}
	manifest, err := os.Open(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	defer manifest.Close()
	var at []int64
	for _, a := range os.Args[3:] {
		n, err := strconv.ParseInt(a, 10, 64)
		if err != nil {
			log.Fatal(err)
		}
		at = append(at, n)
	}
	lines := bufio.NewScanner(manifest)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var m struct {
			T               string `json:"t"`
			CommitLogOffset int64  `json:"commitLogOffset"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			log.Fatal(err)
		}
		if m.T != "msg" || !slices.Contains(at, m.CommitLogOffset) {
			continue
		}
		b := logFile[m.CommitLogOffset:]
		fmt.Printf(`{"want":%s,"raw":"%s"}`+"\n", lines.Bytes(), hex.EncodeToString(b[:binary.BigEndian.Uint32(b)]))
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
