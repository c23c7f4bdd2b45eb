package message

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// DelayLevels is the table that turns the level of a delayed message into a time. Levels count from 1.
type DelayLevels struct {
	delays []time.Duration
}

var defaultDelayLevels = &DelayLevels{delays: []time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute, 6 * time.Minute, 7 * time.Minute,
	8 * time.Minute, 9 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour,
}}

// DefaultDelayLevels returns the 18 levels of a broker that sets none:
// 1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h.
//
// Source: MessageStoreConfig.messageDelayLevel, 5.5.0.
func DefaultDelayLevels() *DelayLevels { return defaultDelayLevels }

// ParseDelayLevels parses the broker property messageDelayLevel: numbers with a unit of s, m, h or d, separated by blanks.
//
// Source: DefaultMessageStore.parseDelayLevel, 5.5.0.
func ParseDelayLevels(s string) (*DelayLevels, error) {
	d := &DelayLevels{}
	for _, f := range strings.Fields(s) {
		var unit time.Duration
		switch f[len(f)-1] {
		case 's':
			unit = time.Second
		case 'm':
			unit = time.Minute
		case 'h':
			unit = time.Hour
		case 'd':
			unit = 24 * time.Hour
		default:
			return nil, fmt.Errorf("parse delay levels %q: level %d is %q, want a number and one of s, m, h, d", s, d.Max()+1, f)
		}
		n, err := strconv.ParseInt(f[:len(f)-1], 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/int64(unit) {
			return nil, fmt.Errorf("parse delay levels %q: level %d is %q, want a number from 0 to %d before the unit", s, d.Max()+1, f,
				math.MaxInt64/int64(unit))
		}
		d.delays = append(d.delays, time.Duration(n)*unit)
	}
	return d, nil
}

// Max returns the highest level, 0 for an empty table.
func (d *DelayLevels) Max() int { return len(d.delays) }

// Delay returns the delay of a level. A level beyond Max is taken as Max; 0 for a level below 1 and for an empty table.
func (d *DelayLevels) Delay(level int) time.Duration {
	level = min(level, len(d.delays))
	if level < 1 {
		return 0
	}
	return d.delays[level-1]
}
