package main

import "github.com/tandemq/tandemmq/bench/report"

// The limits. Java is the RocketMQ store on the same directory.
func ratios() []report.Ratio[report.Repetition] {
	ofJava := func(name, figure string) report.Value {
		return report.Of(report.Fig("read-"+name, figure), report.Fig("java-"+name, figure))
	}
	return []report.Ratio[report.Repetition]{
		report.AtLeast("pull_file_of_java", 3, ofJava("file", "pullPerSecond")),
		report.AtLeast("pull_rocks_of_java", 10, ofJava("rocks", "pullPerSecond")),
		report.AtMost("pull_file_allocs", maxAllocs, report.Fig("read-file", "pullAllocs")),
		report.AtMost("pull_rocks_allocs", maxAllocs, report.Fig("read-rocks", "pullAllocs")),
		report.AtMost("get_file_of_java", 0.5, ofJava("file", "getP50Micros")),
		report.AtMost("get_rocks_of_java", 0.5, ofJava("rocks", "getP50Micros")),
		report.AtMost("get_new_rocks_of_java", 0.1, report.Of(report.Fig("new-rocks", "newestP50Micros"), report.Fig("java-rocks", "newestP50Micros"))),
		report.AtMost("query_of_java", 0.5, ofJava("file", "queryP50Micros")),
		report.AtMost("query_large_of_java", 0.5, ofJava("index", "queryP50Micros")),
		report.AtMost("time_file_of_java", 0.5, ofJava("file", "timeP50Micros")),
		report.AtMost("time_rocks_of_java", 0.5, ofJava("rocks", "timeP50Micros")),
		report.AtMost("scan_put_p99", 1.5, report.Of(report.Fig("backscan", "scannedPutP99Micros"), report.Fig("backscan", "alonePutP99Micros"))),
		report.AtMost("scan_pull_p99", 1.5, report.Of(report.Fig("backscan", "scannedPullP99Micros"), report.Fig("backscan", "alonePullP99Micros"))),
		report.AtLeast("scan_put_rate", 0.99*besidePerSecond, report.Fig("backscan", "scannedPutPerSecond")),
	}
}

// maxAllocs a message: none; the rest is what goes on in the background.
const maxAllocs = 0.001
