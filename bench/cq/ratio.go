package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/tandemq/tandemmq/bench/report"
)

// The limits. J is the RocketMQ store at the same work, M the rate of copying 1 KiB into warm memory.
func ratios() []report.Ratio[report.Repetition] {
	all := []report.Ratio[report.Repetition]{
		report.AtLeast("rocks_append_8", 1.8e6, report.Fig("rocks-append-8", "unitsPerSecond")),
		report.AtLeast("rocks_append_100000", 0.8e6, report.Fig("rocks-append-100000", "unitsPerSecond")),
		report.AtLeast("rocks_read_32", 1.8e6, report.Fig("rocks-read", "read32PerSecond")),
		report.AtLeast("rocks_read_256", 3e6, report.Fig("rocks-read", "read256PerSecond")),
		report.AtMost("rocks_get_of_bare", 1.2, report.Of(report.Fig("rocks-read", "getMicros"), report.Fig("rocks-read", "bareGetMicros"))),
		report.AtMost("rocks_tail_of_bare", 0.1, report.Of(report.Fig("rocks-read", "tailMicros"), report.Fig("rocks-read", "bareGetMicros"))),
		report.AtLeast("file_append", 25e6, report.Fig("file-append-8", "unitsPerSecond")),
		report.AtMost("rocks_disk_bytes", 12, report.Fig("written-rocks", "diskBytes")),
		report.AtMost("combine_readable_p99_ms", 5, report.Fig("readable-combine", "readableP99Millis")),
		report.AtLeast("combine_readable_rate", 0.99*pacedPerSecond, report.Fig("readable-combine", "putPerSecond")),
		report.AtLeast("combine_put_of_copy", 0.18, report.Of(report.Fig("sustained-combine", "putPerSecond"), report.Fig("sustained-combine", "copyPerSecond"))),
		report.AtMost("combine_lag_growth", 0.01, report.Fig("sustained-combine", "lagGrowth")),
		report.AtLeast("combine_put_of_file", 0.9, report.Of(report.Fig("sustained-combine", "putPerSecond"), report.Fig("sustained-file", "putPerSecond"))),
	}
	built := func(name string, limit float64) {
		all = append(all, report.AtLeast("built_"+under(name)+"_of_java", limit, ofJava(name, "builtPerSecond")))
	}
	built("rocks", 8)
	built("combine", 8)
	built("big-rocks", 8)
	built("big-combine", 8)
	all = append(all,
		report.AtLeast("pull_rocks_of_java", 10, ofJava("rocks", "pullPerSecond")),
		report.AtMost("get_rocks_of_java", 0.5, ofJava("rocks", "getP50Micros")),
		report.AtMost("time_rocks_of_java", 0.25, ofJava("rocks", "timeP50Micros")),
	)
	built("many-file", 3)
	built("many-rocks", 10)
	built("many-combine", 10)
	for _, name := range []string{"file", "rocks", "combine", "many-file", "many-rocks", "many-combine"} {
		all = append(all, report.AtMost("reopen_"+under(name)+"_of_java", 0.2, ofJava(name, "readyMillis")))
	}
	return all
}

func under(name string) string { return strings.ReplaceAll(name, "-", "_") }

func ofJava(name, figure string) report.Value {
	return report.Of(report.Fig("store-"+name, figure), report.Fig("java-"+name, figure))
}

// printRatios prints one line for each limit, and returns how many are missed.
func printRatios(w io.Writer, all []repetition) (missed int) {
	missed = report.PrintRatios(w, ratios(), all)
	note(w, all)
	return missed
}

// note says what the share of M asks for.
func note(w io.Writer, all []repetition) {
	m, ok := report.Spread(all, report.Fig("sustained-combine", "copyPerSecond"))
	if !ok {
		return
	}
	put, _ := report.Spread(all, report.Fig("sustained-combine", "putPerSecond"))
	const record = 1.2 // KiB
	fmt.Fprintf(w, "0.18 of M (%.1f million/s) is %.2f million messages/s or %.1f GB/s of log, %.0f ns a message; measured: %.0f ns\n",
		m[1]/1e6, 0.18*m[1]/1e6, 0.18*m[1]*record*1024/1e9, 1e9/(0.18*m[1]), 1e9/put[1])
}
