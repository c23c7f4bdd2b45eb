//go:build interop

package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
	"github.com/tandemq/tandemmq/tests/golden"
)

// Stores that RocketMQ wrote are gone on by us: every queue, the light ones too, from the offset where it ended. RocketMQ then reads
// what was there as before, and what we put.
func TestRocketMQReadsPutsIntoItsStores(t *testing.T) {
	t.Parallel()
	ledgers := map[string]*ledger{}
	ends := map[string]int64{}
	var jobs []job
	for _, name := range golden.Names() {
		t.Run("put/"+name, func(sub *testing.T) {
			m := golden.Manifest(sub, name)
			dir := golden.Unpack(t, name)
			h := openedAs(m, m.Meta.Mode)
			h.log = true
			o := store.DefaultOptions()
			o.BuildConsumeQueues = false // RocketMQ does, in whatever mode the store has
			if h.sizes.commitLog > 0 {
				o.MappedFileSizeCommitLog = h.sizes.commitLog
			}
			o.EnableLmq, o.EnableMultiDispatch = h.lmq, h.lmq

			l := newLedger(false)
			l.adopt(sub, m, nil)
			func() {
				s, err := store.Open(dir, o)
				require.NoError(sub, err)
				defer func() { require.NoError(sub, s.Close()) }()
				l.from = s.Positions().Wrote
				l.requireOffsets(sub, s)
				l.putOnto(sub, s, o.MappedFileSizeCommitLog, m)
				l.requireOffsets(sub, s)
				ends[name] = s.Positions().Wrote
			}()
			l.seal(sub, dir, o.MappedFileSizeCommitLog)
			ledgers[name] = l
			jobs = append(jobs, job{name, dir, h, 0})
		})
	}
	reports := runJobs(t, jobs)
	for _, j := range jobs {
		t.Run("read/"+j.name, func(t *testing.T) {
			r := done(t, reports, j)
			require.Equal(t, ends[j.name], r.log.max)
			ledgers[j.name].requireRead(t, r.opened, r.log)
		})
	}
}

// putOnto puts messages and batches into every queue of the listing, for more than a file of the log, and a few into a new one.
func (l *ledger) putOnto(t *testing.T, s *store.Store, fileSize int64, of *golden.Listing) {
	t.Helper()
	var light []string
	own := []golden.Queue{{Topic: "New", QueueID: 7}}
	for _, q := range of.Queues {
		if strings.HasPrefix(q.Topic, "%LMQ%") {
			light = append(light, q.Topic)
		} else {
			own = append(own, q)
		}
	}
	for i := range 4 {
		for _, q := range own {
			e := element{body: []byte(fmt.Sprintf("put %d", i)), properties: []property{{"TAGS", "TagP"}, {"KEYS", fmt.Sprintf("put-%d", i)}}}
			sh := shape{name: q.Name(), topic: q.Topic, queueID: q.QueueID, element: e}
			if n := min(i, len(light)); n > 0 && i < 3 {
				sh.light = slices.Clone(light[:n])
				sh.properties = append(sh.properties, property{"INNER_MULTI_DISPATCH", strings.Join(sh.light, ",")})
			}
			l.put(t, s, &sh)
			if i == 3 {
				l.put(t, s, &shape{name: q.Name(), topic: q.Topic, queueID: q.QueueID, born: bornV6, batch: []element{e, {}, e}})
			}
		}
	}
	for file := s.Positions().Wrote / fileSize; s.Positions().Wrote/fileSize == file; {
		l.put(t, s, &shape{name: "roll", topic: "New", queueID: 7, element: element{body: make([]byte, 5000)}})
	}
}
