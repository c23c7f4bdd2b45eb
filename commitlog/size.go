package commitlog

// Size returns how many bytes the log's files span, from the first file's start to the last file's end: what a full scan
// has to pass, not what is written.
func (l *Log) Size() int64 {
	if l.queue.MinOffset() < 0 {
		return 0
	}
	return l.queue.EndOffset() - l.queue.MinOffset()
}
