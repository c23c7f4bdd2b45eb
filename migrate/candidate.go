package migrate

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// candidate is what one side has in a slot about which the sides differ.
type candidate struct {
	reader cq.Reader
	unit   []cq.Unit // none, or one
	q      cq.Queue
}

// judge has the log say which of two sides is wrong about a slot: one whose unit leads to a record that has the slot is right. Where both are, or none is, the finding names no side.
func judge(log *commitlog.Log, rec *message.Record, k cq.Key, slot, logEnd int64, sides [2]candidate) (Finding, error) {
	var right [2]bool
	var want cq.Unit
	for i, s := range sides {
		if len(s.unit) == 0 {
			continue
		}
		release, err := log.Read(s.unit[0].PhyOffset, 0, false, rec)
		if unreadableRecord(err) {
			continue
		}
		if err != nil {
			return Finding{}, err
		}
		owed := unitOf(rec)
		if claimed, belongs := rec.SlotIn(k.Topic, k.QueueID); belongs && claimed == slot && rec.OwesUnit() && unlike(s.reader, k, rec, owed, s.unit[0]) == "" {
			right[i], want = true, owed
		}
		release()
	}
	f := Finding{Code: CodeUnitDiffers, QueueOffset: slot, PhyOffset: -1, Where: sides[1].q.Where(slot)}
	text := func(s candidate) string {
		if len(s.unit) == 0 {
			return "no unit"
		}
		return unitText(s.unit[0])
	}
	f.Text = fmt.Sprintf("slot %d: %s on the %s side, %s on the %s side", slot, text(sides[0]), sides[0].reader.Kind(), text(sides[1]), sides[1].reader.Kind())
	for i := range sides {
		if len(sides[i].unit) == 1 && f.PhyOffset < 0 {
			f.PhyOffset = sides[i].unit[0].PhyOffset
		}
	}
	if right[0] == right[1] {
		return f, nil
	}
	wrong := 0
	if right[0] {
		wrong = 1
	}
	f.Side, f.Where, f.PhyOffset = sides[wrong].reader.Kind(), sides[wrong].q.Where(slot), want.PhyOffset
	f.Code = CodeHole
	if u := sides[wrong].unit; len(u) == 1 {
		switch {
		case u[0].PhyOffset >= logEnd:
			f.Code = CodeUnitOutsideLog
		case u[0].PhyOffset != want.PhyOffset:
			f.Code = CodeWrongPosition
		case u[0].Size != want.Size:
			f.Code = CodeWrongSize
		case u[0].TagsCode != want.TagsCode:
			f.Code = CodeWrongTags
		default:
			f.Code = CodeWrongTime
		}
	}
	f.Text = fmt.Sprintf("slot %d: %s, and %s by the log and the %s side", slot, text(sides[wrong]), unitText(want), sides[1-wrong].reader.Kind())
	return f, nil
}

// unreadableRecord tells whether no record could be read because none is there.
func unreadableRecord(err error) bool {
	return errors.Is(err, commitlog.ErrCorrupt) || errors.Is(err, commitlog.ErrOffsetOutOfRange)
}
