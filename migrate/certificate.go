package migrate

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
)

// The certificate is a file of JSON lines: what was compared first, then one line for each queue. RocketMQ ignores it.

// certVersion is that of the file. It is not part of the digest.
const certVersion = 1

// Certificate is its first line.
type Certificate struct {
	Version int     `json:"certificate"` // certVersion
	From    cq.Kind `json:"from"`
	To      cq.Kind `json:"to"`
	Level   Level   `json:"level"`
	Samples int64   `json:"samples"` // records decoded; at LevelRecords and LevelAll all slots that the log has
	Actor   string  `json:"actor"`
	Fingerprint
}

// certLine is one queue of the certificate.
type certLine struct {
	Topic        string `json:"topic"`
	QueueID      int32  `json:"queueId"`
	Min          int64  `json:"min"`
	Max          int64  `json:"max"`
	MinPhyOffset int64  `json:"minPhyOffset"`
	MaxPhyOffset int64  `json:"maxPhyOffset"` // end of the last record
	CRC          uint32 `json:"cqCrc32"`      // CRC-32 over the 20-byte units of [min, max)
	Side         string `json:"side"`         // "both", or "target"
}

func (p *proof) line() certLine {
	return certLine{p.key.Topic, p.key.QueueID, p.bounds.Min, p.bounds.Max, p.bounds.MinPhyOffset, p.bounds.MaxPhyOffset, p.crc, p.side.String()}
}

// writeLines writes the queue lines of a certificate, sorted by topic and queue id.
func writeLines(w io.Writer, proofs []proof) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range proofs {
		if err := enc.Encode(proofs[i].line()); err != nil {
			return err
		}
	}
	return nil
}

func digest(proofs []proof) string {
	h := sha256.New()
	_ = writeLines(h, proofs) // a hash accepts every write
	return hex.EncodeToString(h.Sum(nil))
}

// writeCertificate stores it durably, before the state says that it is there.
func (v *verification) writeCertificate(fp *Fingerprint) error {
	c := Certificate{Version: certVersion, From: v.source, To: v.target, Level: v.level, Samples: v.sampled.Load(), Actor: v.m.actor(), Fingerprint: *fp}
	return state.ReplaceFile(filepath.Join(v.m.dir.StateDir, CertificateFileName), func(w io.Writer) error {
		if err := json.NewEncoder(w).Encode(c); err != nil {
			return err
		}
		return writeLines(w, v.proofs)
	})
}

// changedSince compares what was just found with the certificate and says in words what changed, a bounded number of
// queues by name.
func (v *verification) changedSince(was *Fingerprint, now Fingerprint) []string {
	var r []string
	add := func(what string, a, b any) {
		if a != b {
			r = append(r, fmt.Sprintf("%s was %v when verified and is %v now", what, a, b))
		}
	}
	add("the log's min offset", was.LogMin, now.LogMin)
	add("the log's end", was.LogEnd, now.LogEnd)
	add("the number of queues", was.Queues, now.Queues)
	add("the number of units", was.Units, now.Units)
	add("the dispatch position of the source", was.SourceDispatchFrom, now.SourceDispatchFrom)
	add("the dispatch position of the target", was.TargetDispatchFrom, now.TargetDispatchFrom)
	if was.Digest != now.Digest {
		r = append(r, v.changedQueues()...)
	}
	return r
}

const maxNamedQueues = 10

// readCertificate reads the certificate of the last verification, and holds its queue lines against the digest that it names. each, which may be nil, is told of them one by one, in the order of names; its error ends it. Until there
// is no error, nothing is known to be so.
func readCertificate(stateDir string, each func(cq.Key, certLine) error) (c Certificate, err error) {
	path := filepath.Join(stateDir, CertificateFileName)
	f, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("read certificate: %w", err)
	}
	defer f.Close()
	fail := func(err error) (Certificate, error) {
		return c, fmt.Errorf("read certificate %s: %w", path, err)
	}
	h := sha256.New()
	r := bufio.NewReaderSize(f, 1<<16)
	first, err := r.ReadBytes('\n')
	if err != nil {
		return fail(err)
	}
	if err := json.Unmarshal(first, &c); err != nil {
		return fail(err)
	}
	if c.Version > certVersion {
		return fail(fmt.Errorf("version %d, this tool knows version %d", c.Version, certVersion))
	}
	lines, topic := 0, ""
	rest := io.Reader(r)
	if c.Version == 0 { // of a build that wrote queue lines alone
		rest = io.MultiReader(bytes.NewReader(first), r)
	}
	dec := json.NewDecoder(io.TeeReader(rest, h))
	for {
		var l certLine
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fail(err)
		}
		if l.Topic != topic {
			topic = l.Topic
		}
		l.Topic = topic // the lines of one topic, which follow one another, share its name
		if lines++; each != nil {
			if err := each(cq.Key{Topic: topic, QueueID: l.QueueID}, l); err != nil {
				return fail(err)
			}
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); c.Version > 0 && (got != c.Digest || lines != c.Queues) {
		return fail(fmt.Errorf("its %d queue lines have digest %s, and it says %d and %s: it was changed", lines, got, c.Queues, c.Digest))
	}
	return c, nil
}

// certified lists why the certificate does not allow a cutover.
func (m *Migrator) certified() []string {
	c, err := readCertificate(m.dir.StateDir, nil)
	switch was := m.state.Verified; {
	case err != nil:
		return []string{err.Error(), "verify again"}
	case c.Version == 0:
		return []string{"the certificate file does not say what was compared: it is of an earlier build", "verify again"}
	case c.Digest != was.Digest || c.LogMin != was.LogMin || c.LogEnd != was.LogEnd || !c.Time.Equal(was.Time) || c.From != m.state.From || c.To != m.state.To:
		return []string{"the certificate file is not the one this state was saved with", "verify again"}
	case c.Level == LevelCounts || !c.Level.valid():
		return []string{fmt.Sprintf("the certificate is of level %q, which proves no unit", c.Level), "verify again"}
	}
	return nil
}

// lostSince lists queues of the source that hold less than they held when they were verified.
func (v *verification) lostSince(src cq.Reader) *Findings {
	lost := &Findings{}
	logMin := v.m.dir.Log.MinOffset()
	_, err := readCertificate(v.m.dir.StateDir, func(k cq.Key, l certLine) error {
		if l.Side != onBoth.String() || l.Min >= l.Max {
			return nil
		}
		now, err := maxOf(src, k)
		switch {
		case err != nil:
			lost.Add(badQueue(k, err))
		case now >= l.Max:
		case now == 0 && l.MaxPhyOffset <= logMin: // all of it has expired, and RocketMQ removed the queue
		default:
			lost.Add(queueFinding(CodeMaxDiffers, k, fmt.Sprintf("the %s side went to %d when it was verified, and goes to %d now", v.source, l.Max, now)))
		}
		return nil
	})
	if err != nil {
		lost = &Findings{}
		lost.Add(Finding{Code: CodeBadQueue, QueueOffset: -1, PhyOffset: -1, Text: err.Error()})
	}
	return lost
}

// changedQueues names what the certificate says otherwise. Both are in the order of names, so that they are read beside one another.
func (v *verification) changedQueues() []string {
	var r []string
	n := 0
	say := func(format string, a ...any) {
		if n++; n <= maxNamedQueues {
			r = append(r, fmt.Sprintf(format, a...))
		}
	}
	rest := v.proofs
	upTo := func(k *cq.Key) { // what comes before k, which nil is behind of
		for len(rest) > 0 && (k == nil || rest[0].key.Compare(*k) < 0) {
			say("queue %s is new", rest[0].key)
			rest = rest[1:]
		}
	}
	_, err := readCertificate(v.m.dir.StateDir, func(k cq.Key, l certLine) error {
		if upTo(&k); len(rest) == 0 || rest[0].key != k {
			say("queue %s is gone", k)
			return nil
		}
		p := &rest[0]
		rest = rest[1:]
		if l != p.line() {
			say("queue %s was [%d, %d) with checksum %d and is [%d, %d) with checksum %d", p.key, l.Min, l.Max, l.CRC, p.bounds.Min, p.bounds.Max, p.crc)
		}
		return nil
	})
	if err != nil {
		return []string{err.Error()}
	}
	upTo(nil)
	if n > maxNamedQueues {
		r = append(r, fmt.Sprintf("and %d more queues", n-maxNamedQueues))
	}
	if n == 0 {
		r = append(r, "the certificate file is not the one this state was saved with")
	}
	return r
}
