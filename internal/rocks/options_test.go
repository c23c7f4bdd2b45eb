package rocks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	require.NoError(t, DefaultOptions().Validate())
	require.NoError(t, MigrationOptions().Validate())
	for _, c := range []struct {
		name   string
		change func(o *Options)
		want   string
	}{
		{"open files", func(o *Options) { o.MaxOpenFiles = -2 }, "max open files -2"},
		{"jobs", func(o *Options) { o.MaxBackgroundJobs = 0 }, "max background jobs 0"},
		{"subcompactions", func(o *Options) { o.MaxSubcompactions = 0 }, "max subcompactions 0"},
		{"calls", func(o *Options) { o.MaxCalls = 0 }, "max calls 0"},
		{"logs", func(o *Options) { o.KeepLogFiles = 0 }, "keep log files 0"},
		{"rate", func(o *Options) { o.RateLimitBytesPerSec = -1 }, "rate limit -1"},
		{"write buffer", func(o *Options) { o.Units.WriteBufferBytes = 5 }, "units: write buffer of 5 bytes"},
		{"buffers", func(o *Options) { o.Offsets.WriteBuffers = 1 }, "offsets: 1 write buffers"},
		{"block", func(o *Options) { o.Units.BlockBytes = 0 }, "units: block of 0 bytes"},
		{"levels", func(o *Options) { o.Units.Level0Slowdown = 1 }, "units: level 0 trigger 2, slowdown 1"},
		{"compression", func(o *Options) { o.Units.Compression = "LZ4" }, `units: unknown compression "LZ4"`},
		{"no compression named", func(o *Options) { o.Units.Compression = "" }, `units: unknown compression ""`},
		{"bottommost", func(o *Options) { o.Units.BottommostCompression = "brotli" }, `unknown bottommost compression "brotli"`},
		{"checksum", func(o *Options) { o.Offsets.Checksum = "md5" }, `offsets: unknown checksum "md5"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := DefaultOptions()
			c.change(&o)
			require.ErrorContains(t, o.Validate(), c.want)
		})
	}
	o := DefaultOptions()
	o.MaxCalls, o.KeepLogFiles = 0, 0
	require.ErrorContains(t, o.Validate(), "max calls")
	require.ErrorContains(t, o.Validate(), "keep log files", "all faults at once")
}
