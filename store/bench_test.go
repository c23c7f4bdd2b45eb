package store

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

// benchOptions makes a store of 200-byte bodies over 64 queues.
func benchOptions() GenerateOptions {
	o := DefaultGenerateOptions()
	o.Messages, o.Topics, o.QueuesPerTopic = 200_000, 8, 8
	return o
}

func BenchmarkGenerate(b *testing.B) {
	o := benchOptions()
	for b.Loop() {
		rep, err := Generate(b.Context(), filepath.Join(b.TempDir(), "store"), o)
		require.NoError(b, err)
		b.SetBytes(rep.MaxPhyOffset)
	}
	b.ReportMetric(float64(o.Messages)*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

func BenchmarkDump(b *testing.B) {
	root := filepath.Join(b.TempDir(), "store")
	rep, err := Generate(b.Context(), root, benchOptions())
	require.NoError(b, err)
	v, err := OpenView(root, ViewOptions{Kind: cq.KindFile})
	require.NoError(b, err)
	defer v.Close()
	for _, queuesOnly := range []bool{false, true} {
		b.Run(map[bool]string{false: "what=all", true: "what=queues"}[queuesOnly], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := Dump(b.Context(), io.Discard, v, DumpOptions{QueueID: -1, QueuesOnly: queuesOnly})
				require.NoError(b, err)
			}
			b.ReportMetric(float64(rep.Units)*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
