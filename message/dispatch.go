package message

import "bytes"

// TagsCode returns what the consume queue unit of the record holds as its tags code; levels nil stands for the default ones.
//
//	topic SCHEDULE_TOPIC_XXXX and DELAY above 0   the delivery time in ms: StoreTimestampMs + delay of that level, levels
//	                                              above the highest taken as the highest
//	otherwise                                     TagsHash of TAGS, 0 without TAGS
//
// A DELAY on that topic which is no 32-bit decimal number counts as absent, so the hash is returned. 5.5.0 instead takes the
// whole record for unreadable there, loses it at dispatch and, at the next clean start, cuts the log at it (W48, see
// docs/format/known-faults.md); no unit of such a record exists that ours could differ from. DispatchRequest reports it as BadProperty.
//
// Source: CommitLog.checkMessageAndReturnSize, DefaultMessageStore.computeDeliverTimestamp, 5.5.0.
func (r *Record) TagsCode(levels *DelayLevels) int64 {
	code, _ := r.tagsCode(levels)
	return code
}

// tagsCode is TagsCode and tells whether DELAY, if it mattered, could be parsed.
func (r *Record) tagsCode(levels *DelayLevels) (code int64, delayOK bool) {
	tags, _ := r.Property(PropertyTags)
	if string(r.Topic) != TopicSchedule {
		return TagsHash(tags), true
	}
	delay, _ := r.Property(PropertyDelay)
	return r.delayedCode(levels, tags, delay)
}

// delayedCode is the code of a record of SCHEDULE_TOPIC_XXXX with these values of TAGS and DELAY.
func (r *Record) delayedCode(levels *DelayLevels, tags, delay []byte) (code int64, delayOK bool) {
	if delay == nil {
		return TagsHash(tags), true
	}
	level, ok := parseJavaInt(delay, 32)
	if levels == nil {
		levels = defaultDelayLevels
	}
	if ok && level > 0 && levels.Max() > 0 {
		return r.StoreTimestampMs + levels.Delay(int(level)).Milliseconds(), true
	}
	return TagsHash(tags), ok
}

// DispatchRequest is what the views of the log (consume queues, index) are told about a record. Its slices alias the record.
//
// Source: DispatchRequest, 5.5.0.
type DispatchRequest struct {
	Topic            []byte
	QueueID          int32
	PhyOffset        int64
	Size             int32
	TagsCode         int64
	StoreTimestampMs int64
	QueueOffset      int64
	Keys             []byte // KEYS, nil when absent
	UniqKey          []byte // UNIQ_KEY, nil when absent
	Tags             []byte // TAGS, nil when absent
	SysFlag          int32

	PreparedTransactionOffset int64

	Properties    []byte
	MsgBaseOffset int64 // first queue offset of an inner batch; QueueOffset for everything else
	BatchSize     int16 // messages in an inner batch; 1 for everything else

	// BadProperty names the reserved property that should be a number and is not (DELAY, INNER_NUM, INNER_BASE); empty when
	// there is none. The request is usable all the same: the property counts as absent.
	BadProperty string
}

// DispatchRequest returns the request of the record; levels nil stands for the default ones. PhyOffset and Size are the
// record's own fields. INNER_NUM and INNER_BASE count only where both are present and are numbers of 16 and 64 bits.
//
// Source: CommitLog.checkMessageAndReturnSize, 5.5.0.
func (r *Record) DispatchRequest(levels *DelayLevels) DispatchRequest {
	d := DispatchRequest{
		Topic:                     r.Topic,
		QueueID:                   r.QueueID,
		PhyOffset:                 r.PhyOffset,
		Size:                      r.TotalSize,
		StoreTimestampMs:          r.StoreTimestampMs,
		QueueOffset:               r.QueueOffset,
		SysFlag:                   r.SysFlag,
		PreparedTransactionOffset: r.PreparedTransactionOffset,
		Properties:                r.Properties,
		MsgBaseOffset:             r.QueueOffset,
		BatchSize:                 1,
	}
	p := scanDispatched(r.Properties)
	d.Keys, d.UniqKey, d.Tags = p.keys, p.uniqKey, p.tags
	if string(r.Topic) != TopicSchedule {
		d.TagsCode = TagsHash(p.tags)
	} else {
		var ok bool
		if d.TagsCode, ok = r.delayedCode(levels, p.tags, p.delay); !ok {
			d.BadProperty = PropertyDelay
		}
	}
	if p.innerNum == nil || p.innerBase == nil {
		return d
	}
	n, numOK := parseJavaInt(p.innerNum, 16)
	b, baseOK := parseJavaInt(p.innerBase, 64)
	switch {
	case !numOK:
		d.BadProperty = PropertyInnerNum
	case !baseOK:
		d.BadProperty = PropertyInnerBase
	default:
		d.BatchSize, d.MsgBaseOffset = int16(n), b
	}
	return d
}

// dispatched are the values that dispatch asks for, nil where Property would not find one.
type dispatched struct{ keys, uniqKey, tags, delay, innerNum, innerBase []byte }

// scanDispatched finds them in one pass, by the rules of Property.
func scanDispatched(properties []byte) (d dispatched) {
	for p := properties; len(p) > 0; {
		e := p
		if i := bytes.IndexByte(p, propertySeparator); i >= 0 {
			e, p = p[:i], p[i+1:]
		} else {
			p = nil
		}
		if len(e) == 0 {
			continue
		}
		switch e[0] { // every name that is looked for has one of these
		case PropertyKeys[0]:
			keepValue(&d.keys, e, PropertyKeys)
		case PropertyUniqKey[0]:
			keepValue(&d.uniqKey, e, PropertyUniqKey)
		case PropertyTags[0]:
			keepValue(&d.tags, e, PropertyTags)
		case PropertyDelay[0]:
			keepValue(&d.delay, e, PropertyDelay)
		case PropertyInnerNum[0]:
			keepValue(&d.innerNum, e, PropertyInnerNum)
			keepValue(&d.innerBase, e, PropertyInnerBase)
		}
	}
	return d
}

// keepValue takes the value of the element e if it has that name, which holds no separator.
func keepValue(value *[]byte, e []byte, name string) {
	if n := len(name); len(e) > n+1 && e[n] == nameSeparator && string(e[:n]) == name {
		*value = e[n+1 : len(e) : len(e)]
	}
}

// MultiDispatch yields the further queues a record is dispatched to, in stored order: light queues and others named by
// INNER_MULTI_DISPATCH, each with the offset INNER_MULTI_QUEUE_OFFSET gives it. No allocation.
//
//	queue        name, aliases the record; its unit has the record's PhyOffset, size and TagsCode
//	queueID      0 for a %LMQ% name, the record's for another (upstream: also for %LMQ% names while enableLmq is off)
//	queueOffset  0 when !ok
//	ok           false: the name is empty, or the offset is no 64-bit decimal number or negative. Skip and count this one; the
//	             others are good (upstream dispatches such a record over and over: W4, see docs/format/known-faults.md)
//
// Nothing is yielded when the topic is not eligible (MultiDispatchEligible), when either property is absent or blank, or when the lists differ in length. Empty elements at the end of a list do not count, those before do: an
// offset list "5," for two names has length 1.
//
// Whether this kind of dispatch is on, and whether a queue store can take the name (a file store cannot take one that
// contains a path separator), is for the caller to decide.
//
// Source: ConsumeQueue.multiDispatchLmqQueue, RocksDBConsumeQueueStore.dispatchLMQ, 5.5.0.
func (r *Record) MultiDispatch(yield func(queue []byte, queueID int32, queueOffset int64, ok bool) bool) {
	names, has := r.Property(PropertyMultiDispatch)
	if !has {
		return
	}
	offsets, has := r.Property(PropertyMultiQueueOffset)
	if !has || isBlank(names) || isBlank(offsets) || !MultiDispatchEligible(r.Topic) {
		return
	}
	names, offsets = bytes.TrimRight(names, ","), bytes.TrimRight(offsets, ",")
	if bytes.Count(names, comma) != bytes.Count(offsets, comma) || len(names) == 0 || len(offsets) == 0 {
		return
	}
	for more := true; more; {
		var name, text []byte
		name, names, more = bytes.Cut(names, comma)
		text, offsets, _ = bytes.Cut(offsets, comma)
		queueID := r.QueueID
		if hasPrefix(name, LMQPrefix) {
			queueID = 0
		}
		offset, ok := parseJavaInt(text, 64)
		if ok = ok && offset >= 0 && len(name) > 0; !ok {
			offset = 0
		}
		if !yield(name, queueID, offset, ok) {
			return
		}
	}
}

var comma = []byte{','}

// MultiDispatchEligible tells whether records of a topic may be dispatched to further queues: not those of retry (%RETRY%),
// dead-letter (%DLQ%) and rmq_sys_ topics and of SCHEDULE_TOPIC_XXXX. The put assigns no offsets for them, so offsets in such
// a record are those of the message it was copied from. Upstream's file store does dispatch %DLQ% records by them, which ends
// at the slot being taken; its RocksDB store does not.
func MultiDispatchEligible(topic []byte) bool {
	return !hasPrefix(topic, RetryPrefix) && !hasPrefix(topic, DLQPrefix) && !hasPrefix(topic, SystemPrefix) && string(topic) != TopicSchedule
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// isBlank tells whether b is white space alone.
func isBlank(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }

// parseJavaInt parses a decimal number of the given bits by the rules of Java's parseInt and parseLong: an optional sign, then
// one or more digits, nothing else, in range. Java also takes decimal digits of other scripts; those are refused here.
func parseJavaInt(b []byte, bits uint) (n int64, ok bool) {
	neg := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg, b = b[0] == '-', b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	limit := uint64(1)<<(bits-1) - 1
	if neg {
		limit++
	}
	var u uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || u > (limit-d)/10 {
			return 0, false
		}
		u = u*10 + d
	}
	if neg {
		return -int64(u), true
	}
	return int64(u), true
}

// SlotIn tells whether the record belongs to a queue, its own or one of those it is dispatched to besides, and which slot it claims there.
func (r *Record) SlotIn(topic string, queueID int32) (slot int64, ok bool) {
	if r.QueueID == queueID && string(r.Topic) == topic {
		return r.QueueOffset, true
	}
	r.MultiDispatch(func(name []byte, id int32, queueOffset int64, good bool) bool {
		if good && id == queueID && string(name) == topic {
			slot, ok = queueOffset, true
		}
		return !ok
	})
	return slot, ok
}
