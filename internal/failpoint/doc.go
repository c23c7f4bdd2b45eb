// Package failpoint names places between two steps of the product where tests stop the process, or look at what is on disk. Without the build tag
// tandemmq_failpoints Hit is empty and costs nothing; with it a test sets what happens (Set), or the environment of a process does:
//
//	TANDEMMQ_FAILPOINT=queues-flushed:3    the third time that place is reached, the process kills itself
//
// No product code depends on what a place does: a handler may block for a while, and nothing else.
package failpoint

// Place is where a process can be stopped.
type Place string

// The places.
const (
	RecordsRead      Place = "records-read"      // published records were read for a view, and are not delivered
	QueuesAppended   Place = "queues-appended"   // queues have the units of a batch, and nobody has noted it
	IndexAppended    Place = "index-appended"    // the index has the keys of a batch, and nobody has noted it
	LogFlushed       Place = "log-flushed"       // a flush of the views: the log is durable, the queues are not
	QueuesFlushed    Place = "queues-flushed"    // the queues are durable, the checkpoint does not say so
	OffsetsNoted     Place = "offsets-noted"     // the queue offsets are noted, the checkpoint is not written
	FileReplaced     Place = "file-replaced"     // the new content of a state file lies beside the old one
	QueueTruncated   Place = "queue-truncated"   // one queue was cut to the log, others were not
	QueuesMended     Place = "queues-mended"     // a broken queue has some of its units, it still counts as broken
	LogFileRemoved   Place = "log-file-removed"  // retention has removed a log file, the views still have its units
	QueuesTrimmed    Place = "queues-trimmed"    // queues are trimmed to the log, the index is not
	ChunkImported    Place = "chunk-imported"    // a backfill has imported units, and not noted it
	BackfillComplete Place = "backfill-complete" // a backfill has published the queues, the state does not say so
)

// Places are all of them, those of a migration last.
func Places() []Place {
	return []Place{
		RecordsRead, QueuesAppended, IndexAppended, LogFlushed, QueuesFlushed, OffsetsNoted, FileReplaced, QueueTruncated, QueuesMended, LogFileRemoved,
		QueuesTrimmed, ChunkImported, BackfillComplete,
	}
}

// Env is the name of the variable that kills a process at a place.
const Env = "TANDEMMQ_FAILPOINT"
