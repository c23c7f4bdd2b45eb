package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/index"
	indexrocks "github.com/tandemq/tandemmq/index/rocks"
	"github.com/tandemq/tandemmq/message"
)

// checkIndexEvery is of how many entries one is held against its record without Deep.
const checkIndexEvery = 1000

// checkIndexes holds the indexes against themselves and against the log.
func (c *checker) checkIndexes() error {
	if err := c.checkIndex(); err != nil {
		return err
	}
	return c.checkRocksIndex()
}

// checkIndex holds the index against itself and against the log: headers and lengths, counts, the links of all chains, and that each entry leads to a record which has a key of its hash. Deep looks
// every entry's record up, otherwise some. The index is a hint: a query that it misleads is put right by the record, so that a wrong entry
// costs a message that is not found by its key, and no finding here is about a message that is lost.
func (c *checker) checkIndex() error {
	if err := c.layout.indexInTheWay(); err != nil {
		c.found.add(placeFinding(CheckError, CheckIndexFile, checkSideIndex, c.layout.IndexDir(), "%v", err))
		return nil
	}
	entries, err := countEntries(c.layout.IndexDir())
	if err != nil || entries == 0 {
		return err
	}
	r := recovery{layout: c.layout, base: DefaultOptions()}
	if c.index != nil {
		r.base, r.o.Options = *c.index, c.index
	}
	if err := r.indexSizes(); err != nil {
		return err
	}
	if r.noIndex {
		c.notChecked("the index: maxHashSlotNum and maxIndexNum cannot be read off its files")
		return nil
	}
	x, err := index.Open(c.layout.IndexDir(), index.Options{HashSlots: int32(r.base.MaxHashSlotNum), MaxEntries: int32(r.base.MaxIndexNum), ReadOnly: true})
	if err != nil {
		return err
	}
	for _, fault := range x.Faults() {
		c.indexFault(fault)
	}
	for _, fault := range x.Verify() {
		c.indexFault(fault)
		var file *index.FileError
		if !errors.As(fault, &file) {
			continue
		}
		u, err := x.Unreached(file.Path)
		if err != nil {
			return errors.Join(err, x.Close())
		}
		c.unreached(&u)
	}
	if !c.o.Deep { // it holds each record against its entries
		hole, err := findIndexHole(c.log, -1, c.end, x.Files(), message.DefaultDelayLevels())
		if err != nil {
			return errors.Join(err, x.Close())
		}
		if hole != nil {
			f := placeFinding(c.suspended(), CheckIndexMissing, checkSideIndex, hole.file, "%v", hole)
			f.PhyOffset, f.EndPhyOffset = hole.record, hole.to
			c.found.add(f)
		}
	}
	err = c.checkEntries(x)
	return errors.Join(err, x.Close())
}

func countEntries(dir string) (n int, err error) {
	err = readDir(dir, func(fs.DirEntry) error {
		n++
		return nil
	})
	return n, err
}

func (c *checker) indexFault(err error) {
	f := placeFinding(c.suspended(), CheckIndexFile, checkSideIndex, "", "%v", err)
	var file *index.FileError
	if errors.As(err, &file) {
		f.File, f.Text = file.Path, file.Err.Error()
	}
	c.found.add(f)
}

// unreached tells how many entries of an index file no query finds.
func (c *checker) unreached(u *index.Unreached) {
	if u.Entries == 0 {
		return
	}
	f := placeFinding(c.suspended(), CheckIndexSlot, checkSideIndex, u.Path, "%d entries are not in the chain of the slot of their hash, so no query finds them; %d are in the chains of other slots. The first is entry %d (hash %d, phyOffset %d), of slot %d",
		u.Entries, u.Foreign, u.First.Index, u.First.Hash, u.First.PhyOffset, u.Slot)
	f.PhyOffset, f.FileOffset = u.First.PhyOffset, u.SlotAt
	f.Got, f.Want = fmt.Sprintf("%d entries out of place", u.Entries), "each entry in the chain of its slot"
	c.found.add(f)
}

// checkEntries reads the records that entries lead to. Entries of one message follow one another.
func (c *checker) checkEntries(x *index.Index) error {
	var total int64
	for _, f := range x.Files() {
		total += int64(f.Entries)
	}
	add := c.phase("index", total, "entries")
	e := entryCheck{c: c, x: x, phy: -1, next: max(c.log.MinOffset(), 0)}
	n := int64(0)
	err := x.Entries(func(en index.Entry) error {
		n++
		if n%4096 == 0 {
			add(4096)
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
		if !c.o.Deep && n%checkIndexEvery != 1 {
			return nil
		}
		return e.check(&en)
	})
	if err != nil || !c.o.Deep || total == 0 {
		return err
	}
	e.lackingKeys()
	return e.lacking(c.end, CheckWarning, "the next start adds them")
}

// entryCheck is what is known of the record looked at last.
type entryCheck struct {
	c       *checker
	x       *index.Index
	phy     int64
	bad     string // why it is none
	hashes  []int32
	seen    []bool // which of hashes have entries
	file    string // of the last of them
	next    int64  // every record below has been held against the entries
	storeMs int64
	topic   string
}

func (e *entryCheck) check(en *index.Entry) error {
	switch {
	case en.PhyOffset < max(e.c.log.MinOffset(), 0):
		return nil // expired, and not yet removed
	case en.PhyOffset >= e.c.end:
		e.tell(en, e.c.suspended(), CheckIndexOutside, fmt.Sprintf("leads past the end of the log, %d", e.c.end))
		return nil
	}
	if en.PhyOffset != e.phy {
		if e.c.o.Deep {
			e.lackingKeys()
			if err := e.lacking(en.PhyOffset, e.c.suspended(), "entries of later ones are there"); err != nil {
				return err
			}
		}
		if err := e.read(en.PhyOffset); err != nil {
			return err
		}
	}
	known := false
	for i, hash := range e.hashes {
		if hash == en.Hash {
			e.seen[i], known = true, true
		}
	}
	e.file = en.File
	seconds := max(e.storeMs-en.BeginMs, 0) / 1000
	switch {
	case e.bad != "" && e.c.lostToFiller(en.PhyOffset):
		e.tell(en, CheckWarning, CheckIndexEntry, leadsToFiller)
	case e.bad != "":
		e.tell(en, CheckError, CheckIndexEntry, "leads to no record: "+e.bad)
	case !known:
		e.tell(en, CheckError, CheckIndexEntry, fmt.Sprintf("leads to a record of topic %s without a key of that hash", e.topic))
	case int64(en.TimeDiff) > seconds+1 || int64(en.TimeDiff) < seconds-1:
		e.tell(en, CheckError, CheckIndexEntry, fmt.Sprintf("has timeDiff %d, the record was stored %d seconds after the file's beginTimestamp", en.TimeDiff, seconds))
	}
	return nil
}

// read looks the record up.
func (e *entryCheck) read(phy int64) error {
	e.phy, e.bad, e.hashes = phy, "", e.hashes[:0]
	var r message.Record
	release, err := e.c.log.Read(phy, 0, false, &r)
	if err != nil {
		e.bad = err.Error()
		return nil
	}
	defer release()
	d := r.DispatchRequest(message.DefaultDelayLevels())
	e.hashes, e.storeMs, e.topic = index.Hashes(e.hashes, &d), r.StoreTimestampMs, string(r.Topic)
	e.seen = append(e.seen[:0], make([]bool, len(e.hashes))...)
	e.next = max(e.next, phy+int64(r.TotalSize))
	return nil
}

// lackingKeys tells of keys of the last record that have no entry.
func (e *entryCheck) lackingKeys() {
	if n := len(slices.DeleteFunc(e.seen, func(seen bool) bool { return seen })); e.bad == "" && n > 0 {
		f := placeFinding(CheckError, CheckIndexMissing, checkSideIndex, e.file, "%d of the %d keys of the record of topic %s at physical offset %d have no entry", n, len(e.hashes), e.topic, e.phy)
		f.PhyOffset = e.phy
		e.c.found.add(f)
	}
	e.seen = e.seen[:0]
	e.hashes = e.hashes[:0]
}

// lacking tells of records with keys below to that have no entry at all.
func (e *entryCheck) lacking(to int64, severity CheckSeverity, behind string) error {
	first, n := int64(-1), 0
	err := withKeys(e.c.log, e.next, to, message.DefaultDelayLevels(), func(phy int64) bool {
		if n++; first < 0 {
			first = phy
		}
		return n%4096 != 0 || e.c.ctx.Err() == nil
	})
	if n > 0 {
		f := placeFinding(severity, CheckIndexMissing, checkSideIndex, "", "%d records with keys from physical offset %d on, up to %d, have no entry; %s", n, first, to, behind)
		f.PhyOffset, f.EndPhyOffset = first, to
		e.c.found.add(f)
	}
	e.next = max(e.next, to)
	return errors.Join(err, e.c.ctx.Err())
}

// checkRocksIndex holds the rows of an index in RocksDB against the log: that each can be one, and that it leads to a record with such a key and that store time.
func (c *checker) checkRocksIndex() error {
	dir := c.layout.RocksIndexDir()
	if _, err := os.Stat(filepath.Join(dir, currentFile)); missing(err) {
		return nil
	}
	x, err := indexrocks.Open(dir, indexrocks.Options{ReadOnly: true})
	switch {
	case errors.Is(err, index.ErrNoRocksDB):
		c.notChecked("the index in RocksDB: " + err.Error())
		return nil
	case err != nil:
		f := placeFinding(c.suspended(), CheckIndexFile, checkSideIndex, dir, "%v", err)
		c.found.add(f)
		return nil
	}
	total, err := x.RowCount()
	if err != nil {
		return errors.Join(err, x.Close())
	}
	add := c.phase(rocksIndexName, total, "rows")
	e := entryCheck{c: c, phy: -1}
	n := 0
	err = x.Rows(func(r indexrocks.Row) bool {
		if n++; n%4096 == 0 {
			add(4096)
			if c.ctx.Err() != nil {
				return false
			}
		}
		if c.o.Deep || n%checkIndexEvery == 1 {
			e.checkRow(dir, &r)
		}
		return true
	}, func(err error) {
		c.found.add(placeFinding(CheckError, CheckIndexFile, checkSideIndex, dir, "%v", err))
	})
	return errors.Join(err, c.ctx.Err(), x.Close())
}

// leadsToFiller is said of entries of messages that are lost: no query finds them, and that is right.
const leadsToFiller = "leads into a filler, which was written over records that the log has lost"

// checkRow looks up the record of a row.
func (e *entryCheck) checkRow(dir string, r *indexrocks.Row) {
	if r.PhyOffset < max(e.c.log.MinOffset(), 0) {
		return // expired, and not yet removed
	}
	severity, code, text := CheckError, CheckIndexEntry, ""
	if r.PhyOffset >= e.c.end {
		severity, code, text = e.c.suspended(), CheckIndexOutside, fmt.Sprintf("leads past the end of the log, %d", e.c.end)
	} else {
		var m message.Record
		release, err := e.c.log.Read(r.PhyOffset, 0, false, &m)
		switch {
		case err != nil && e.c.lostToFiller(r.PhyOffset):
			severity, text = CheckWarning, leadsToFiller
		case err != nil:
			text = "leads to no record: " + err.Error()
		default:
			text = rowFault(&m, r)
			release()
		}
	}
	if text == "" {
		return
	}
	f := placeFinding(severity, code, checkSideIndex, dir, "row of topic %s, type %c, key %q, phyOffset %d %s", r.Topic, r.Type, r.Text, r.PhyOffset, text)
	f.PhyOffset = r.PhyOffset
	e.c.found.add(f)
}

// rowFault says why a row cannot be one of a record, "" when it can.
func rowFault(m *message.Record, r *indexrocks.Row) string {
	if string(m.Topic) != r.Topic {
		return fmt.Sprintf("leads to a record of topic %s", m.Topic)
	}
	if m.StoreTimestampMs != r.StoreMs {
		return fmt.Sprintf("has store time %d, the record %d", r.StoreMs, m.StoreTimestampMs)
	}
	d := m.DispatchRequest(message.DefaultDelayLevels())
	begins := func(key []byte) bool { return len(key) > 0 && strings.HasPrefix(r.Text, string(key)+"@") }
	has := false
	switch r.Type {
	case index.TypeUniqKey:
		has = string(d.UniqKey) == r.Text
	case index.TypeTag:
		has = begins(d.Tags)
	default:
		for word := range bytes.SplitSeq(d.Keys, []byte(" ")) {
			has = has || begins(word)
		}
	}
	if !has {
		return "leads to a record without such a key"
	}
	return ""
}

func (e *entryCheck) tell(en *index.Entry, severity CheckSeverity, code CheckCode, text string) {
	f := placeFinding(severity, code, checkSideIndex, en.File, "entry %d (hash %d, phyOffset %d) %s", en.Index, en.Hash, en.PhyOffset, text)
	f.PhyOffset, f.FileOffset = en.PhyOffset, e.x.ByteOf(en.Index)
	e.c.found.add(f)
}
