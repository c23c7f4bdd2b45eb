package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/tandemq/tandemmq/store"
)

// row is one measurement of a repetition.
type row struct {
	name    string
	shape   shape
	kind    store.StoreType
	both    bool // files and RocksDB
	index   bool
	java    bool
	measure func(ctx context.Context, b *bench, r row, root string) (result, error)
}

// result is what a row gave. Figures that it does not have are 0.
type result struct {
	PerSecond      float64   `json:"perSecond,omitempty"`      // messages
	Millis         float64   `json:"millis,omitempty"`         // until the store serves, with all queues and the index at the end of the log
	OpenMillis     float64   `json:"openMillis,omitempty"`     // until puts are taken and queues answer; of Java load() and start()
	BytesPerSecond float64   `json:"bytesPerSecond,omitempty"` // of the log
	CPUShare       float64   `json:"cpuShare,omitempty"`       // of one processor
	Slope          float64   `json:"slope,omitempty"`          // bytes a second that the lag grows by, of the bytes a second that are put
	LagBytes       []int64   `json:"lagBytes,omitempty"`       // each second, of the view that is furthest behind
	CopyPerSecond  float64   `json:"copyPerSecond"`            // M, the mean of before and after
	Java           *javaOpen `json:"java,omitempty"`
}

func (x result) String() string {
	switch {
	case x.LagBytes != nil:
		return fmt.Sprintf("%.0f messages/s, lag %d to %d bytes, grows by %.4f of what is put", x.PerSecond, slices.Min(x.LagBytes), slices.Max(x.LagBytes), x.Slope)
	case x.PerSecond > 0:
		return fmt.Sprintf("%.0f messages/s", x.PerSecond)
	case x.BytesPerSecond > 0:
		return fmt.Sprintf("%.0f MB/s", x.BytesPerSecond/1e6)
	case x.Millis > 0:
		return fmt.Sprintf("%.0f ms, open after %.0f ms", x.Millis, x.OpenMillis)
	}
	return fmt.Sprintf("%.4f of a processor", x.CPUShare)
}

// rows are all rows of a repetition, in the order they are run. What is compared stands side by side.
func rows() []row {
	file, rocks := store.StoreTypeFile, store.StoreTypeRocksDB
	return []row{
		{name: "catchup-file", shape: eight, kind: file, measure: catchUp},
		{name: "catchup-file-index", shape: eight, kind: file, index: true, measure: catchUp},
		{name: "catchup-rocks", shape: eight, kind: rocks, measure: catchUp},
		{name: "catchup-combine", shape: eight, kind: file, both: true, measure: catchUp},
		{name: "catchup-file-1000", shape: kilo, kind: file, measure: catchUp},
		{name: "catchup-rocks-1000", shape: kilo, kind: rocks, measure: catchUp},
		{name: "catchup-combine-1000", shape: kilo, kind: file, both: true, measure: catchUp},
		{name: "catchup-rocks-100000", shape: lakh, kind: rocks, measure: catchUp},
		{name: "catchup-combine-100000", shape: lakh, kind: file, both: true, measure: catchUp},
		{name: "rebuild-file", shape: eight, kind: file, index: true, measure: rebuild},
		{name: "java-rebuild-file", shape: eight, kind: file, java: true, measure: javaRebuild},
		{name: "rebuild-rocks", shape: eight, kind: rocks, index: true, measure: rebuild},
		{name: "java-rebuild-rocks", shape: eight, kind: rocks, java: true, measure: javaRebuild},
		{name: "crash-file", shape: eight, kind: file, index: true, measure: crash},
		{name: "java-crash-file", shape: eight, kind: file, java: true, measure: javaCrash},
		{name: "restart-rocks", shape: restart, kind: rocks, index: true, measure: reopen},
		{name: "java-restart-rocks", shape: restart, kind: rocks, java: true, measure: javaReopen},
		{name: "read", shape: restart, measure: sequentialRead},
		{name: "scan", shape: restart, kind: rocks, measure: scan},
		{name: "idle-file", shape: none, kind: file, index: true, measure: idle},
		{name: "lag-file", shape: none, kind: file, index: true, measure: lag},
		{name: "lag-combine", shape: none, kind: file, both: true, index: true, measure: lag},
		{name: "lag-rocks", shape: none, kind: rocks, index: true, measure: lag},
	}
}

// chosen returns the rows that are asked for.
func chosen(all []row, only *regexp.Regexp, withJava bool) []row {
	return slices.DeleteFunc(all, func(r row) bool { return !only.MatchString(r.name) || r.java && !withJava })
}
