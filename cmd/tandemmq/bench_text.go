package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tandemq/tandemmq/store"
)

// printBench prints what bench put measured for people.
func printBench(w io.Writer, doc benchDocument) error {
	var b strings.Builder
	for _, r := range doc.Runs {
		noun := "producers"
		if r.Producers == 1 {
			noun = "producer"
		}
		if r.Interrupted {
			b.WriteString("Interrupted; until then:\n")
		}
		fmt.Fprintf(&b, "%s %s: %s messages with bodies of %s in %s: %s messages/s, %s/s\n", thousands(int64(r.Producers)), noun, thousands(r.Messages),
			byteSize(int64(doc.BodyBytes)), round(seconds(r.Seconds)), thousands(int64(r.MessagesPerSecond)), byteSize(int64(r.LogBytesPerSecond)))
		l := r.Latency
		fmt.Fprintf(&b, "  latency    p50 %s, p99 %s, p99.9 %s, longest %s (%s)\n", micros(l.P50), micros(l.P99), micros(l.P999), micros(l.Max), sampled(r.SampledEvery))
		if r.Rolls.Samples > 0 {
			fmt.Fprintf(&b, "  rolls      %s, p50 %s, longest %s\n", thousands(r.Rolls.Samples), micros(r.Rolls.P50), micros(r.Rolls.Max))
		}
		var statuses []string
		for _, name := range slices.Sorted(maps.Keys(r.Statuses)) {
			status := name + " " + thousands(r.Statuses[name])
			if name == store.PutFlushDiskTimeout.String() {
				status += " (stored all the same, and counted)"
			}
			statuses = append(statuses, status)
		}
		fmt.Fprintf(&b, "  statuses   %s\n", strings.Join(statuses, ", "))
		if len(r.Shapes) > 0 {
			var kinds []string
			for _, name := range shapeNames {
				if n := r.Shapes[name]; n > 0 {
					kinds = append(kinds, name+" "+thousands(n))
				}
			}
			fmt.Fprintf(&b, "  messages   %s, in %s puts\n", strings.Join(kinds, ", "), thousands(r.Puts))
		}
		fmt.Fprintf(&b, "  undurable  at most %s, for at most %s\n", byteSize(r.UndurableMaxBytes), round(seconds(r.UndurableMaxMillis/1000)))
		fmt.Fprintf(&b, "  disk       %s syncs, %s of the device's writes a sync\n", thousands(r.Syncs), perSync(r))
		fmt.Fprintf(&b, "  memory     %.4f allocations a put\n", r.AllocsPerPut)
	}
	fmt.Fprintf(&b, "The logs hold what was acknowledged. %d processors used by %s.\n", doc.GoMaxProcs, doc.Go)
	_, err := io.WriteString(w, b.String())
	return err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// micros writes a latency.
func micros(d time.Duration) string {
	if d >= time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
}

func sampled(every int) string {
	if every == 1 {
		return "every put"
	}
	return fmt.Sprintf("one put in %d", every)
}

func perSync(r benchRun) string {
	if r.DeviceBytes < 0 || r.Syncs == 0 {
		return "n/a"
	}
	return byteSize(r.DeviceBytes / r.Syncs)
}
