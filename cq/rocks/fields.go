package rocks

import (
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/message"
)

// UnitFields returns the fields of a unit as they stand in the value of its row.
func UnitFields(u cq.Unit) []message.Field {
	return []message.Field{
		{Name: "PhyOffset", Offset: 0, Width: 8, Value: u.PhyOffset},
		{Name: "Size", Offset: 8, Width: 4, Value: u.Size},
		{Name: "TagsCode", Offset: 12, Width: 8, Value: u.TagsCode},
		{Name: "StoreTimestampMs", Offset: 20, Width: 8, Value: u.StoreTimestampMs, Text: message.TimeText(u.StoreTimestampMs)},
	}
}
