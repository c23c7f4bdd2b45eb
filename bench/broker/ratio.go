package main

import "github.com/tandemq/tandemmq/bench/report"

// The limits. Java is RocketMQ's broker, echo the server that answers alone.
func ratios() []report.Ratio[report.Repetition] {
	fig := report.Fig
	return []report.Ratio[report.Repetition]{
		report.AtLeast("send_of_java", 2, report.Of(fig("send-ours", "perSecond"), fig("send-java", "perSecond"))),
		report.AtLeast("send_of_echo", 0.7, report.Of(fig("send-ours", "perSecond"), fig("send-echo", "perSecond"))),
		report.AtMost("send_p99_of_java", 0.5, report.Of(fig("send-ours", "p99Micros"), fig("send-java", "p99Micros"))),
		report.AtMost("paced_p99_of_java", 0.5, report.Of(fig("paced-ours", "p99Micros"), fig("paced-java", "p99Micros"))),
		report.AtLeast("pipelined_per_second", 250_000, fig("pipelined-ours", "perSecond")),
		report.AtLeast("pull_of_java", 3, report.Of(fig("pull-ours", "perSecond"), fig("pull-java", "perSecond"))),
		report.AtLeast("pull_per_second", 250_000, fig("pull-ours", "perSecond")),
		report.AtMost("client_send_cpu_of_java", 0.5, report.Of(fig("client-ours", "sendCPUMicros"), fig("client-java", "sendCPUMicros"))),
		report.AtMost("client_consume_cpu_of_java", 0.33, report.Of(fig("client-ours", "consumeCPUMicros"), fig("client-java", "consumeCPUMicros"))),
		report.AtMost("anon_of_java", 0.25, report.Of(fig("memory-ours", "anonMiB"), fig("memory-java", "anonMiB"))),
		report.AtMost("start_millis", 1000, fig("start-ours", "startMillis")),
		report.AtMost("held_bytes", 1024, fig("held-ours", "bytesEach")),
		report.AtMost("wake_p99_millis", 1, fig("held-ours", "wakeP99Millis")),
	}
}
