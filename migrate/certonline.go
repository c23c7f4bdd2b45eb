package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"iter"
	"path/filepath"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/migrate/state"
)

// Certified is what a certificate says of one queue.
type Certified struct {
	Key cq.Key
	// Min and Max bound the slots that were compared, MinPhyOffset and MaxPhyOffset the records of these.
	Min, Max, MinPhyOffset, MaxPhyOffset int64
	// CRC is the CRC-32 over the units of [Min, Max) in their 20-byte form.
	CRC uint32
	// Alone tells that one side has the queue, as it should.
	Alone bool
}

func (c *Certified) line() certLine {
	side := onBoth
	if c.Alone {
		side = onTarget
	}
	return certLine{c.Key.Topic, c.Key.QueueID, c.Min, c.Max, c.MinPhyOffset, c.MaxPhyOffset, c.CRC, side.String()}
}

// WriteCertificate stores the certificate of a running store whose state directory is dir, durably. covered says what was compared, from one side to the other. queues yields the queues in the order of names,
// twice the same.
func WriteCertificate(dir string, from, to cq.Kind, actor string, covered *state.Coverage, queues iter.Seq[Certified]) error {
	lines := func(w io.Writer) (n int, err error) {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		for c := range queues {
			if err := enc.Encode(c.line()); err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	h := sha256.New()
	n, err := lines(h)
	if err != nil {
		return err
	}
	c := Certificate{
		Version: certVersion, From: from, To: to, Level: LevelUnits, Samples: covered.Records, Actor: actor,
		Fingerprint: Fingerprint{LogMin: covered.LogMin, LogEnd: covered.LogEnd, Queues: n, Units: covered.Units, Digest: hex.EncodeToString(h.Sum(nil)), Time: covered.Time},
	}
	return state.ReplaceFile(filepath.Join(dir, CertificateFileName), func(w io.Writer) error {
		if err := json.NewEncoder(w).Encode(c); err != nil {
			return err
		}
		_, err := lines(w)
		return err
	})
}

// ReadCertificate returns what the certificate says of each queue. A missing one is fs.ErrNotExist.
func ReadCertificate(dir string) (*CertifiedQueues, error) {
	t := &CertifiedQueues{}
	_, err := readCertificate(dir, func(k cq.Key, l certLine) error {
		return t.Add(Certified{k, l.Min, l.Max, l.MinPhyOffset, l.MaxPhyOffset, l.CRC, l.Side != onBoth.String()})
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}
