package meta

import "time"

// DataVersion tells states of a table apart: a NameServer takes a broker's topics over when it differs from the last one it saw.
// 5.5.0 compares all three numbers.
type DataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	TimestampMs  int64 `json:"timestamp"`
}

// next is the version of a table that was changed now. The time never goes back, so that a clock set back hides no change.
func (v DataVersion) next(now time.Time) DataVersion {
	return DataVersion{Counter: v.Counter + 1, StateVersion: v.StateVersion, TimestampMs: max(now.UnixMilli(), v.TimestampMs)}
}
