package store

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

// Every field has a property whose name is its own with a small first letter.
func TestOptionsFieldsAreNamedAsProperties(t *testing.T) {
	typ := reflect.TypeFor[Options]()
	seen := 0
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Tag.Get("prop") == "-" {
			continue // given by the program, no property
		}
		name := string(unicode.ToLower(rune(f.Name[0]))) + f.Name[1:]
		require.Equal(t, name, properties[seen].Name)
		require.Equal(t, i, properties[seen].Index)
		require.NotContains(t, otherProperties, name)
		seen++
	}
	require.Len(t, properties, seen)
}

// What a property is written as is read as the same.
func TestParseOptionsRoundTrip(t *testing.T) {
	props := map[string]string{}
	o := DefaultOptions()
	o.StorePathCommitLog, o.FlushDiskType, o.OsPageCacheBusyTimeOutMills = []string{"/a", "/b"}, SyncFlush, 1234*time.Millisecond
	for i := range properties {
		props[properties[i].Name] = properties[i].Text(&o)
	}
	require.Equal(t, "1234", props["osPageCacheBusyTimeOutMills"])
	require.Equal(t, "/a,/b", props["storePathCommitLog"])
	got, notes, err := ParseOptions(props)
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Equal(t, o, got)
}

func TestParseOptionsValues(t *testing.T) {
	tests := []struct {
		name, text string
		got        func(o *Options) any
		want       any
	}{
		{"maxMessageSize", "+65536", func(o *Options) any { return o.MaxMessageSize }, int64(65536)},
		{"maxMessageSize", " 65536 ", func(o *Options) any { return o.MaxMessageSize }, int64(65536)},
		{"syncFlushTimeout", "7000", func(o *Options) any { return o.SyncFlushTimeout }, 7 * time.Second},
		{"useABSLock", "TRUE", func(o *Options) any { return o.UseABSLock }, true},
		{"dataReadAheadEnable", "false", func(o *Options) any { return o.DataReadAheadEnable }, false},
		{"flushDiskType", "SYNC_FLUSH", func(o *Options) any { return o.FlushDiskType }, SyncFlush},
		{"brokerRole", "SLAVE", func(o *Options) any { return o.BrokerRole }, Slave},
		{"syncFlushWriteMode", "staged", func(o *Options) any { return o.SyncFlushWriteMode }, SyncWriteStaged},
		{"storePathCommitLog", "/a , /b", func(o *Options) any { return o.StorePathCommitLog }, []string{"/a", "/b"}},
		{"storePathCommitLog", "", func(o *Options) any { return o.StorePathCommitLog }, []string(nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name+"="+tt.text, func(t *testing.T) {
			o, notes, err := ParseOptions(map[string]string{tt.name: tt.text})
			require.NoError(t, err)
			require.Empty(t, notes)
			require.Equal(t, tt.want, tt.got(&o))
		})
	}
}

func TestParseOptionsFaults(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"useABSLock", "yes", `useABSLock is "yes", want true or false`},
		{"useABSLock", "", `useABSLock is "", want true or false`},
		{"topicQueueLockNum", "32L", `topicQueueLockNum is "32L", want a whole number`},
		{"topicQueueLockNum", "1_000", `topicQueueLockNum is "1_000", want a whole number`},
		{"mappedFileSizeCommitLog", "1024 * 1024", `mappedFileSizeCommitLog is "1024 * 1024", want a whole number`},
		{"mappedFileSizeCommitLog", "99999999999999999999", `mappedFileSizeCommitLog is "99999999999999999999", want a whole number`},
		{"syncFlushTimeout", "5s", `syncFlushTimeout is "5s", want a whole number`},
		{"syncFlushTimeout", "9223372036854775807", "syncFlushTimeout is 9223372036854775807, want whole milliseconds from 1 to 2147483647"},
		{"syncFlushTimeout", "0", "syncFlushTimeout is 0s, want whole milliseconds from 1 to 2147483647"},
		{"flushDiskType", "sync_flush", `flushDiskType is "sync_flush", want ASYNC_FLUSH or SYNC_FLUSH`},
		{"storePathCommitLog", "/a,,/b", `storePathCommitLog "/a,,/b": an empty path among others`},
		{"duplicationEnable", "true", "duplicationEnable is true, which is not supported"},
		{"enableDLegerCommitLog", "True", "enableDLegerCommitLog is true, which is not supported"},
	}
	for _, tt := range tests {
		t.Run(tt.name+"="+tt.text, func(t *testing.T) {
			_, _, err := ParseOptions(map[string]string{tt.name: tt.text})
			require.ErrorContains(t, err, "store options: "+tt.want)
		})
	}
	_, _, err := ParseOptions(map[string]string{"useABSLock": "1", "topicQueueLockNum": "x", "maxMessageSize": "5"})
	require.ErrorContains(t, err, "useABSLock")
	require.ErrorContains(t, err, "topicQueueLockNum")
	require.ErrorContains(t, err, "maxMessageSize is 5, want 10 to 2147483647")
}

// A whole broker.conf can be handed in: what has no effect is told, with the reason, and is no error.
func TestParseOptionsNotes(t *testing.T) {
	o, notes, err := ParseOptions(map[string]string{
		"brokerClusterName": "c", "flushDiskTyp": "SYNC_FLUSH", "MaxMessageSize": "1", "wakeFlushWhenPutMesage": "true",
		"maxTopicLength": "100", "messageIndexSafe": "true", "enableDLegerCommitLog": "false", "syncFlushTimeout": "6000",
	})
	require.NoError(t, err)
	want := DefaultOptions()
	want.SyncFlushTimeout = 6 * time.Second
	require.Equal(t, want, o)
	var texts []string
	for _, n := range notes {
		texts = append(texts, n.String())
	}
	require.Equal(t, []string{
		"MaxMessageSize: unknown; did you mean maxMessageSize?",
		"brokerClusterName: unknown",
		"enableDLegerCommitLog: without effect in this version",
		"flushDiskTyp: unknown; did you mean flushDiskType?",
		"maxTopicLength: without effect, as in RocketMQ 5.5.0",
		"messageIndexSafe: without effect in this version",
		"wakeFlushWhenPutMesage: unknown; did you mean wakeFlushWhenPutMessage?",
	}, texts)
	require.Equal(t, PropertyNote{Name: "flushDiskTyp", Kind: NoteUnknown, Nearest: "flushDiskType"}, notes[3])
}

// A running store is never switched between the flush types: 5.5.0 then fails every put after the append.
func TestW37FlushDiskTypeIsRestartOnly(t *testing.T) {
	before := DefaultOptions()
	require.Empty(t, RestartOnly(before, before))
	after := before
	after.FlushDiskType = SyncFlush
	require.Equal(t, []string{"flushDiskType"}, RestartOnly(before, after))

	after.MaxMessageSize, after.OsPageCacheBusyTimeOutMills = 1<<20, 2*time.Second // a running store takes these over
	after.StorePathCommitLog, after.SyncFlushTimeout = []string{"/a"}, time.Second
	after.Logger = slog.New(slog.DiscardHandler)
	require.Equal(t, []string{"storePathCommitLog", "flushDiskType"}, RestartOnly(before, after))
	require.Equal(t, []string{"storePathCommitLog", "flushDiskType"}, RestartOnly(after, before))
}

// Each option is told apart by RestartOnly when it changes, and by Set when it is parsed: no field is forgotten.
func TestEveryOptionCanChange(t *testing.T) {
	for i := range properties {
		p := &properties[i]
		t.Run(p.Name, func(t *testing.T) {
			before, after := DefaultOptions(), DefaultOptions()
			old := p.Text(&before)
			text := map[string]string{"true": "false", "false": "true", "0": "7"}[old]
			if text == "" {
				text = strings.TrimLeft(old+"7", " ")
			}
			require.NoError(t, p.Set(&after, text))
			require.Equal(t, text, p.Text(&after))
			require.Equal(t, old, p.Text(&before))
			if p.Live {
				require.Empty(t, RestartOnly(before, after))
			} else {
				require.Equal(t, []string{p.Name}, RestartOnly(before, after))
			}
		})
	}
}
