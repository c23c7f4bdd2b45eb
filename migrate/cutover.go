package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// CutoverResult says what a cutover or rollback did, or (DryRun) would do.
type CutoverResult struct {
	Nothing bool    `json:"nothing"` // it had been done before
	DryRun  bool    `json:"dryRun"`
	Active  cq.Kind `json:"active"` // the side that reads belong to now
	Queues  int     `json:"queues"`
	Units   int64   `json:"units"`
	// BrokerConf are the lines that a RocketMQ 5.5.0 broker needs to read that side.
	BrokerConf []string `json:"brokerConf"`
	// DualConf are the lines for a broker that goes on writing both sides; empty after a rollback.
	DualConf []string       `json:"dualConf,omitempty"`
	Backfill BackfillResult `json:"backfill"` // of a rollback
	Notices  Findings       `json:"notices"`
	// Metadata says what became of topics, groups and consumer offsets, a line for each.
	Metadata []string      `json:"metadata,omitempty"`
	Elapsed  time.Duration `json:"elapsedNanos"`
}

// Cutover gives reads to the target. It is refused unless a verification succeeded and nothing changed since: both sides
// are read again in full and their fingerprint is compared with the certificate. With commit false it only says what
// it would do.
//
// Topics, groups and consumer offsets are moved along before that, so that a cutover that is cut off leaves both forms with the same.
//
// No byte that RocketMQ reads selects the engine; its broker.conf does. So a cutover records the state, which our broker
// and tools follow, and returns the lines that a RocketMQ broker needs.
func (m *Migrator) Cutover(ctx context.Context, commit bool) (_ *CutoverResult, err error) {
	start := time.Now()
	res := &CutoverResult{DryRun: !commit, Active: m.opt.To}
	if m.done() {
		res.Nothing, res.DryRun = true, false
		if err := m.overtaken(ctx, "cutover"); err != nil {
			return res, err
		}
		return res, m.conf(res)
	}
	if m.state.Phase != PhaseVerified || m.state.Verified == nil {
		return nil, &RefusedError{Step: "cutover", Reasons: []string{fmt.Sprintf("the migration is %s, not verified: %s", m.state.Phase, nextStep(m.state.Phase))}}
	}
	if m.state.To != m.opt.To {
		return nil, &RefusedError{Step: "cutover", Reasons: []string{fmt.Sprintf("what is verified is the migration from %s to %s: add --to %s", m.state.From, m.state.To, m.state.To)}}
	}
	if r := m.preconditions(m.state.From); len(r) > 0 {
		return nil, &RefusedError{Step: "cutover", Reasons: r}
	}
	if !m.dir.found(m.state.To) {
		return nil, &RefusedError{Step: "cutover", Reasons: []string{fmt.Sprintf("the %s side is gone", m.state.To)}}
	}
	if r := m.certified(); len(r) > 0 {
		return nil, &RefusedError{Step: "cutover", Reasons: r}
	}
	if res.Metadata, err = m.moveMetadata("cutover", m.state.To, false); err != nil {
		return nil, err
	}
	v := &verification{m: m, step: "cutover", source: m.state.From, target: m.state.To}
	now, err := v.run(ctx)
	if err != nil {
		return nil, err
	}
	if changed := v.changedSince(m.state.Verified, now.Fingerprint); len(changed) > 0 {
		return nil, &RefusedError{Step: "cutover", Reasons: append(changed, "verify again")}
	}
	res.Queues, res.Units, res.Notices = now.Queues, now.Units, now.Notices
	if commit {
		if err := m.logicsPosition(ctx, m.state.To); err != nil {
			return nil, err
		}
		if res.Metadata, err = m.moveMetadata("cutover", m.state.To, true); err != nil {
			return nil, err
		}
		note := fmt.Sprintf("%d queues, %d units, digest %s", now.Queues, now.Units, now.Fingerprint.Digest)
		if err := m.advance(EventCutover, note); err != nil {
			return nil, err
		}
	}
	res.Elapsed = time.Since(start)
	return res, m.conf(res)
}

func nextStep(p Phase) string {
	switch p {
	case PhaseVerifying, PhaseDiverged:
		return "run verify first"
	case PhaseRepairing:
		return "a repair is not complete: run it to its end, then verify"
	case PhaseCutover, PhaseRollingBack:
		return "use rollback"
	default:
		return "run backfill and verify first"
	}
}

func (m *Migrator) sideNow() cq.Kind {
	if k, ok := m.state.Active(); ok {
		return k
	}
	if m.dir.FileFound {
		return cq.KindFile
	}
	return cq.KindRocks
}

// logicsPosition records in the store's checkpoint how far the file queues are durable, when reads move to them. A value
// too small only makes a later crash recovery slower, a value too large would hide units: so it is the start of the
// last record that has a file unit.
func (m *Migrator) logicsPosition(ctx context.Context, to cq.Kind) error {
	if to != cq.KindFile || m.dir.SetLogicsPosition == nil {
		return nil
	}
	last := int64(-1)
	err := m.reading(cq.KindFile, func(s cq.Store) error {
		var bad Findings // compared a moment ago: there is none
		return eachQueue(ctx, s, &bad, func(_ cq.Key, _ cq.Queue, b cq.Bounds) error {
			if !b.Empty() {
				last = max(last, b.LastPhyOffset)
			}
			return nil
		})
	})
	if err != nil || last < 0 {
		return err
	}
	var r message.Record
	release, err := m.dir.Log.Read(last, 0, false, &r)
	if err != nil {
		return err
	}
	defer release()
	return m.dir.SetLogicsPosition(last, r.StoreTimestampMs)
}

// conf fills in the broker.conf lines for the side that res names.
func (m *Migrator) conf(res *CutoverResult) error {
	light := false
	if m.dir.found(res.Active) {
		err := m.reading(res.Active, func(s cq.Store) error {
			for k, err := range s.Queues() {
				if light = k.IsLMQ(); light || err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	res.BrokerConf, res.DualConf = BrokerConf(res.Active, m.dir.RocksLayout, m.dir.CQFileSize, light)
	return nil
}

const defaultCQFileSize = 6_000_000

// BrokerConf returns the broker.conf lines with which a RocketMQ 5.5.0 broker reads the given side, and those with which
// it goes on writing both sides (nil when the side is file: going back to files means leaving RocksDB).
func BrokerConf(side cq.Kind, layout RocksLayout, cqFileSize int64, light bool) (only, dual []string) {
	separate := fmt.Sprintf("useSeparateStorePathForRocksdbCQ=%t", layout == LayoutSeparate)
	var common []string
	if cqFileSize > 0 && cqFileSize != defaultCQFileSize {
		common = append(common, fmt.Sprintf("mappedFileSizeConsumeQueue=%d", cqFileSize))
	}
	if light {
		common = append(common, "enableLmq=true", "enableMultiDispatch=true")
	}
	if side == cq.KindFile {
		return append([]string{"storeType=default", "rocksdbCQDoubleWriteEnable=false"}, common...), nil
	}
	only = append([]string{"storeType=defaultRocksDB", separate, "rocksdbCQDoubleWriteEnable=false"}, common...)
	dual = append([]string{
		"storeType=default", separate, "rocksdbCQDoubleWriteEnable=true", "combineCQUseRocksdbForLmq=true",
		"combineCQPreferCQType=defaultRocksDB", "combineAssignOffsetCQType=default",
	}, common...)
	return only, dual
}
