package broker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/tandemq/tandemmq/broker/meta"
	"github.com/tandemq/tandemmq/message"
)

// Op records say which prepared messages are done: records of queue 0 of RMQ_SYS_TRANS_OP_HALF_TOPIC with the tag d, whose body is offsets of the half topic in decimal, each followed by a
// comma.
//
// Source: TransactionalOpBatchService, TransactionalMessageUtil, 5.5.0.
const (
	opTag       = "d"
	opSeparator = ','
)

// opRetry is after how long op records that could not be written are tried again.
const opRetry = time.Second

// op has an offset of the half topic written to the op topic, soon.
func (h *halves) op(offset int64) {
	h.mu.Lock()
	h.mu.op = append(strconv.AppendInt(h.mu.op, offset, 10), opSeparator)
	first, full := h.mu.opSince.IsZero(), len(h.mu.op) >= h.b.live().TransactionOpMsgMaxSize
	if first {
		h.mu.opSince = time.Now()
	}
	h.mu.Unlock()
	if first || full {
		select {
		case h.wakeOps <- struct{}{}:
		default:
		}
	}
}

// runOps writes op records until its context ends. What is left then, or comes later, writeOps writes.
func (h *halves) runOps(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wakeOps:
		case <-timer.C:
		}
		wait := h.opWait()
		if wait <= 0 {
			if err := h.writeOps(); err != nil {
				h.b.log.Error("what became of prepared messages was not written, and is tried again", slog.Any("err", err))
				wait = opRetry
			}
		}
		if wait > 0 {
			timer.Reset(wait)
		}
	}
}

// opWait is how long op records may still be gathered; 0 or less if they are to be written, an hour where there are none.
func (h *halves) opWait() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.mu.opSince.IsZero():
		return time.Hour
	case len(h.mu.op) >= h.b.live().TransactionOpMsgMaxSize:
		return 0
	}
	return time.Until(h.mu.opSince.Add(h.b.live().TransactionOpBatchInterval))
}

// writeOps writes what was gathered. What could not be written stays.
func (h *halves) writeOps() error {
	h.ops.Lock()
	defer h.ops.Unlock()
	for {
		h.mu.Lock()
		body := h.mu.op[:opLength(h.mu.op, h.b.live().TransactionOpMsgMaxSize)]
		h.mu.Unlock() // others append behind it, which leaves these bytes as they are
		if len(body) == 0 {
			return nil
		}
		_, err := h.b.store.PutUnflushed(context.Background(), &message.Message{
			Topic: meta.OpHalfTopic, BornHost: h.b.storeHost, StoreHost: h.b.storeHost, BornTimestampMs: h.b.o.now().UnixMilli(),
			Body: body, Properties: message.AppendProperty(nil, message.PropertyTags, opTag),
		})
		if err != nil {
			return fmt.Errorf("write op record: %w", err)
		}
		h.mu.Lock()
		h.mu.op = append([]byte(nil), h.mu.op[len(body):]...)
		h.mu.opSince = time.Time{}
		if len(h.mu.op) > 0 {
			h.mu.opSince = time.Now()
		}
		h.mu.Unlock()
	}
}

// opLength is how much of the text goes into one record: whole offsets, until there are so many bytes.
func opLength(text []byte, most int) int {
	for i := max(0, most-1); i < len(text); i++ {
		if text[i] == opSeparator {
			return i + 1
		}
	}
	return len(text)
}
