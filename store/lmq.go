package store

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/tandemq/tandemmq/message"
)

// Light queues. A message with INNER_MULTI_DISPATCH is seen in further queues besides its own: with enableLmq each of them
// gives it an offset at the put, and INNER_MULTI_QUEUE_OFFSET lists them in the order of the names. All of them are taken
// in one step with the message's own, and only when a unit will follow: not for prepared and rolled back messages and not on
// topics whose records are not dispatched so (retry, dead letters, rmq_sys_, schedule, and batch queues, for which 5.5.0 gives offsets that
// no unit follows), where the names stay for the message to be copied from.
//
// A name in that list must be one of a light queue: begin with %LMQ% and go on, in at most 255 bytes, keep the rules of a
// topic, and stand there once. RocketMQ takes others and stores an empty offset for them, which its dispatch cannot read: the
// record is tried again for ever and everything behind it waits (W4). No reader could find the message by such a name, so
// nothing is lost by refusing it. A name that stands twice would skip an offset there. Commas at the end do not count, as in
// Java.

// maxLightNameBytes is the limit of a topic, which is also what a directory and a key of RocksDB can take.
const maxLightNameBytes = 255

// lightQueue is one of the names of a message.
type lightQueue struct {
	name   []byte
	stripe int
	row    *int64 // under the stripe's lock; nil: a new queue
}

// checkLight finds the light queues of the message, given the properties it has.
func (p *putter) checkLight(has message.PropertySet) error {
	if has&message.HasMultiDispatch == 0 || !p.s.o.EnableLmq || p.count == 0 || p.s.isBatchTopic(p.msg.Topic) {
		return nil
	}
	m := &p.msg
	p.text = append(p.text[:0], m.Topic...)
	if !message.MultiDispatchEligible(p.text) {
		return nil
	}
	names, _ := message.FindProperty(m.Properties, message.PropertyMultiDispatch)
	if len(bytes.TrimSpace(names)) == 0 {
		return nil
	}
	names = bytes.TrimRight(names, ",")
	for more := len(names) > 0; more; {
		var name []byte
		name, names, more = bytes.Cut(names, []byte{','})
		if err := checkLightName(name); err != nil {
			return &PutError{PutMessageIllegal, err}
		}
		p.light = append(p.light, lightQueue{name: name, stripe: p.s.offsets.StripeBytes(name, 0)})
	}
	if len(p.light) == 0 {
		return nil
	}
	if name := p.repeatedName(); name != nil {
		return illegal("property %s names %q twice", message.PropertyMultiDispatch, name)
	}
	p.late |= lateLight
	for i := range p.light {
		p.stripes = append(p.stripes, p.light[i].stripe)
	}
	return nil
}

func checkLightName(name []byte) error {
	if !bytes.HasPrefix(name, []byte(message.LMQPrefix)) || len(name) == len(message.LMQPrefix) || len(name) > maxLightNameBytes {
		return fmt.Errorf("property %s has the name %q, want %s and more, at most %d bytes", message.PropertyMultiDispatch, name, message.LMQPrefix, maxLightNameBytes)
	}
	return checkTopic(name)
}

// repeatedName returns a name that the message goes to twice, nil when there is none.
func (p *putter) repeatedName() []byte {
	own := p.msg.QueueID == 0
	for i := range p.light {
		if own && string(p.light[i].name) == p.msg.Topic {
			return p.light[i].name
		}
	}
	if len(p.light) <= smallList {
		for i := range p.light {
			for j := range i {
				if bytes.Equal(p.light[i].name, p.light[j].name) {
					return p.light[i].name
				}
			}
		}
		return nil
	}
	seen := make(map[string]bool, len(p.light))
	for i := range p.light {
		if seen[string(p.light[i].name)] {
			return p.light[i].name
		}
		seen[string(p.light[i].name)] = true
	}
	return nil
}

// smallList is up to how many names are compared with one another rather than put into a map.
const smallList = 16

// findLightLocked looks up the rows of the light queues and returns how many there are none of.
func (p *putter) findLightLocked() (missing int, err error) {
	for i := range p.light {
		q := &p.light[i]
		q.row = p.s.offsets.rowBytesLocked(q.stripe, q.name, 0)
		if q.row == nil && p.s.offsets.load != nil {
			if q.row, err = p.s.offsets.findLocked(q.stripe, string(q.name), 0); err != nil {
				return 0, err
			}
		}
		if q.row == nil {
			missing++
		}
	}
	return missing, nil
}

// appendLightOffsets appends the offsets that the light queues give the message.
func (p *putter) appendLightOffsets(dst []byte) []byte {
	for i := range p.light {
		if i > 0 {
			dst = append(dst, ',')
		}
		var next int64
		if row := p.light[i].row; row != nil {
			next = *row
		}
		dst = strconv.AppendInt(dst, next, 10)
	}
	return dst
}

// increaseLightLocked counts those offsets as taken.
func (p *putter) increaseLightLocked() {
	for i := range p.light {
		q := &p.light[i]
		if q.row != nil {
			*q.row++
		} else {
			p.s.offsets.addLocked(q.stripe, string(q.name), 0, 1)
		}
	}
}

// lightLimit returns how many light queues there may be, -1 for no limit.
//
// Source: HookUtils.handleLmqQuota, 5.5.0.
func (s *Store) lightLimit() int64 {
	if s.o.EnableLmq && s.o.EnableMultiDispatch && s.live().EnableLmqQuota {
		return int64(s.live().MaxLmqConsumeQueueNum)
	}
	return -1
}

var errLightQuota = errors.New("too many light queues")

func lightQuotaError(limit int64, n int) error {
	return fmt.Errorf("%w: the message would make %d new ones, and %d are allowed (maxLmqConsumeQueueNum)", errLightQuota, n, limit)
}
