package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// Plan says what a migration would do. Making one writes nothing.
type Plan struct {
	Root  string  `json:"root"`
	Phase Phase   `json:"phase"`
	From  cq.Kind `json:"from"`
	To    cq.Kind `json:"to"`

	RocksLayout RocksLayout `json:"rocksLayout"`
	CQFileSize  int64       `json:"cqFileSize"`

	LogMin   int64 `json:"logMin"`
	LogEnd   int64 `json:"logEnd"` // end of the last valid record
	LogBytes int64 `json:"logBytes"`

	Queues       int   `json:"queues"`
	LightQueues  int   `json:"lightQueues"`
	EmptyQueues  int   `json:"emptyQueues"` // advanced, but nothing left to read
	Topics       int   `json:"topics"`
	Units        int64 `json:"units"`
	TargetQueues int   `json:"targetQueues"` // already there
	TargetUnits  int64 `json:"targetUnits"`

	DiskNeeded int64 `json:"diskNeededBytes"` // for the target as it will be
	DiskPeak   int64 `json:"diskPeakBytes"`   // meanwhile
	DiskFree   int64 `json:"diskFreeBytes"`
	// Estimate is for the backfill and a verification of all units.
	Estimate         time.Duration `json:"estimateNanos"`
	EstimateBackfill time.Duration `json:"estimateBackfillNanos"`
	EstimateVerify   time.Duration `json:"estimateVerifyNanos"`

	// Refusals are the reasons why backfill would not begin. Findings is damage already visible from the outside: the
	// pass over the log looks much closer.
	Refusals []string `json:"refusals,omitempty"`
	Findings Findings `json:"findings"`
	// Warnings are about what happens after the cutover; they stop nothing.
	Warnings  []string `json:"warnings,omitempty"`
	filePages int64

	// States are those of RocketMQ's half-done ones in which the store was found.
	States []PlanState `json:"states,omitempty"`
}

// Rough costs, on the cautious side, where nothing could be measured.
const (
	rocksBytesPerUnit = 48 // uncompressed key, value and index share; compressed it is a third
	rocksBaseBytes    = 4 << 20
	fileBytesPerUnit  = 20
	fileBaseBytes     = 8 << 10 // blocks of a small queue's files and directories
	unitsPerSecond    = 700_000
	logBytesPerSecond = 500 << 20
)

// Plan looks at the store and says what there is, how much, how long it will take and which space it needs.
func (m *Migrator) Plan(ctx context.Context) (_ *Plan, err error) {
	p := &Plan{
		Root: m.dir.Root, Phase: m.state.Phase, From: m.from(), To: m.opt.To, RocksLayout: m.dir.RocksLayout, CQFileSize: m.dir.CQFileSize,
		LogMin: m.dir.Log.MinOffset(), LogEnd: -1, LogBytes: m.dir.Log.Size(),
	}
	p.Refusals = append(m.preconditions(p.From), m.unwritable()...)
	if p.LogMin >= 0 {
		end, err := logEnd(m.dir.Log, m.opt.AcceptTornTail)
		var de *DifferentError
		switch {
		case errors.As(err, &de):
			p.Findings.Merge(de.Findings)
		case err != nil:
			return nil, err
		}
		p.LogEnd = end
	}
	if m.dir.found(p.From) {
		if err := m.reading(p.From, func(s cq.Store) error {
			start, queues := time.Now(), newSample()
			if err := m.planSource(ctx, p, s, queues); err != nil {
				return err
			}
			listed := time.Since(start)
			m.estimateRoughly(p)
			if len(p.Refusals) > 0 || p.Findings.Len() > 0 {
				return nil
			}
			if err := m.estimate(ctx, p, s, queues, listed); err != nil {
				if ctx.Err() != nil {
					return err
				}
				p.Warnings = append(p.Warnings, fmt.Sprintf("time and space could not be measured, and are rough: %v", err))
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	if anew := m.opt.Restart && m.opt.ReplaceTarget; m.dir.found(p.To) && !anew {
		err := m.reading(p.To, func(s cq.Store) error { return m.planTarget(ctx, p, s) })
		if err != nil {
			return nil, unreadable(err, p.To)
		}
		if err := m.recognise(ctx, p); err != nil {
			return nil, err
		}
	}
	if p.DiskFree, err = m.dir.FreeBytes(); err != nil {
		return nil, err
	}
	if p.DiskFree < p.DiskPeak {
		p.Refusals = append(p.Refusals, spaceReason(p.To, p.DiskPeak, p.DiskFree))
	}
	m.peak = p.DiskPeak
	return p, nil
}

func (m *Migrator) estimateRoughly(p *Plan) {
	p.DiskNeeded = diskNeeded(p.To, p.Units, int64(p.Queues))
	if p.To == cq.KindFile {
		p.DiskNeeded = p.filePages + int64(p.Queues+p.Topics)*directoryBytes(p.Root)
	}
	p.DiskPeak = p.DiskNeeded
	p.EstimateBackfill = time.Duration(float64(p.Units)/unitsPerSecond*float64(time.Second)) + time.Duration(float64(p.LogBytes)/logBytesPerSecond*float64(time.Second))
	p.EstimateVerify = p.EstimateBackfill / 2
	p.Estimate = p.EstimateBackfill + p.EstimateVerify
}

// diskNeeded estimates what a side of that kind takes on disk.
func diskNeeded(to cq.Kind, units, queues int64) int64 {
	if to == cq.KindFile {
		return units*fileBytesPerUnit + queues*fileBaseBytes
	}
	return units*rocksBytesPerUnit + rocksBaseBytes
}

func spaceReason(to cq.Kind, need, free int64) string {
	return fmt.Sprintf("about %d bytes are needed for the %s side, %d are free", need, to, free)
}

func (m *Migrator) planSource(ctx context.Context, p *Plan, s cq.Reader, queues *sample) error {
	topics := make(map[string]bool)
	err := eachQueue(ctx, s, &p.Findings, func(k cq.Key, q cq.Queue, b cq.Bounds) error {
		p.Queues++
		topics[k.Topic] = true
		if p.To == cq.KindFile && !fileName(k.Topic) {
			p.Refusals = append(p.Refusals, nameReason(k))
		}
		if k.IsLMQ() {
			p.LightQueues++
		}
		p.Units += b.Max - b.Min
		queues.offer(k, b)
		if p.To == cq.KindFile {
			p.filePages += filePages(b, max(p.CQFileSize, fileBytesPerUnit))
		}
		if b.Empty() {
			p.EmptyQueues++
		} else if p.LogEnd >= 0 && b.MaxPhyOffset > p.LogEnd {
			p.Findings.Add(Finding{
				Code: CodeUnitOutsideLog, Topic: k.Topic, QueueID: k.QueueID, QueueOffset: b.Max - 1, PhyOffset: b.LastPhyOffset, Where: q.Where(b.Max - 1),
				Text: fmt.Sprintf("slot %d points to [%d, %d), the log ends at %d", b.Max-1, b.LastPhyOffset, b.MaxPhyOffset, p.LogEnd),
			})
		}
		return nil
	})
	p.Topics = len(topics)
	m.warnTopics(p, topics)
	return err
}

func (m *Migrator) planTarget(ctx context.Context, p *Plan, s cq.Reader) error {
	return eachQueue(ctx, s, &p.Findings, func(_ cq.Key, _ cq.Queue, b cq.Bounds) error {
		p.TargetQueues++
		p.TargetUnits += b.Max - b.Min
		return nil
	})
}

// fileName tells whether a topic can be the name of a directory: RocksDB can hold queues that files cannot.
func fileName(topic string) bool {
	return topic != "" && topic != "." && topic != ".." && len(topic) <= 255 && !strings.ContainsAny(topic, "/\x00")
}

func nameReason(k cq.Key) string {
	return fmt.Sprintf("queue %s cannot be kept in files: its topic cannot be the name of a directory", k)
}

// warnTopics tells about topics that a RocketMQ broker would not find in its topic table: ten minutes after its start, one
// with RocksDB queues deletes the queues of such topics.
// Source: RocksDBConsumeQueueStore.cleanDirty, 5.5.0.
func (m *Migrator) warnTopics(p *Plan, topics map[string]bool) {
	if p.To != cq.KindRocks {
		return
	}
	const danger = "a RocketMQ 5.5.0 broker with storeType=defaultRocksDB deletes the queues of topics that its topic table lacks, ten minutes after its start"
	if m.dir.KnownTopics == nil {
		p.Warnings = append(p.Warnings, "there is no readable config/topics.json in the store: make sure that the broker's topic table lists every topic; "+danger)
		return
	}
	var lost []string
	for t := range topics {
		if !m.dir.KnownTopics[t] && !systemTopic(t) {
			lost = append(lost, t)
		}
	}
	if len(lost) == 0 {
		return
	}
	slices.Sort(lost)
	named := lost[:min(len(lost), maxNamedTopics)]
	p.Warnings = append(p.Warnings, fmt.Sprintf("%d topics with queues are not in config/topics.json (%s); %s", len(lost), strings.Join(named, ", "), danger))
}

const maxNamedTopics = 10

// systemTopic tells whether RocketMQ spares the topic when it cleans.
func systemTopic(t string) bool {
	return strings.HasPrefix(t, message.SystemPrefix) || strings.HasPrefix(t, message.LMQPrefix) ||
		t == message.TopicSchedule || t == message.TopicTransHalf || t == message.TopicTransOpHalf
}
