package combine

import (
	"log/slog"

	"github.com/tandemq/tandemmq/cq"
)

// Options of New.
type Options struct {
	// Preferred is the kind of the side that reads are served from. Empty: cq.KindFile. RocketMQ: combineCQPreferCQType.
	Preferred cq.Kind
	// Authority is the kind of the side that says which offset comes next. Empty: cq.KindFile. RocketMQ: combineAssignOffsetCQType.
	Authority cq.Kind
	// LightInRocks keeps light queues in RocksDB alone. RocketMQ: combineCQUseRocksdbForLmq.
	LightInRocks bool
	// OnDiverged is told of each queue that is found diverged, once, by the goroutine that found it; it must not call the Store. nil: nobody.
	OnDiverged func(Divergence)
	// Logger gets divergences, failures and switches. nil: discard.
	Logger *slog.Logger
}

// Divergence is a queue that lacks something on one side.
type Divergence struct {
	Side cq.Kind
	Key  cq.Key
	Err  error // e.g. a *cq.GapError
}
