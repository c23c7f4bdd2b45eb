package cq

import "context"

// Trimmer is implemented by stores that can cut the end off a single queue. What repairs a store uses it.
type Trimmer interface {
	// TrimQueue removes every unit of slot end and above, also where nothing shows them to readers, and has the queue end there. A queue that ends at or below it loses no
	// more than what is hidden. One of which nothing but filler would be left is removed. Durable after the next Flush or Publish. Absent queue: nil. It and other writers take turns.
	TrimQueue(ctx context.Context, k Key, end int64) error
	// UnitFrom returns the first slot at or above from that holds a unit, whether or not the queue's end hides it, -1 when there is none: RocketMQ 5.5.0 lowers the max of a RocksDB
	// queue and leaves its units (F30).
	UnitFrom(k Key, from int64) (int64, error)
}
