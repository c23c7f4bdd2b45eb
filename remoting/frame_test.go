package remoting

import (
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// jsonFrame puts a header text and a body into a frame.
func jsonFrame(header string, body ...byte) []byte {
	n := 4 + len(header) + len(body)
	b := []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 0, byte(len(header) >> 16), byte(len(header) >> 8), byte(len(header))}
	return append(append(b, header...), body...)
}

// The vectors were made by RocketMQ 5.5.0.
func TestT01Vectors(t *testing.T) {
	tests := []struct {
		name string
		hex  string
		want Command
	}{
		{
			"request", "00000027 01000023 0069 00 0201 00000005 00000000 00000002 6162 0000000c 0005 746f706963 00000001 54",
			Command{Code: GetRouteInfoByTopic, Opaque: 5, Remark: "ab", Ext: Ext{{"topic", "T"}}, Version: V5_5_0, Language: Java},
		},
		{
			"response", "00000019 01000015 0000 00 0000 0000000a 00000001 00000000 00000000",
			Command{Opaque: 10, Flag: FlagResponse},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frame := unhex(t, tt.hex)
			got, err := DecodeFrame(frame)
			require.NoError(t, err)
			require.Equal(t, &tt.want, got)
			again, err := AppendBinaryFrame(nil, got)
			require.NoError(t, err)
			require.Equal(t, frame, again)
		})
	}
}

func TestT01CanonicalJSON(t *testing.T) {
	tests := []struct {
		name string
		cmd  Command
		want string
	}{
		{
			"as Java writes it",
			Command{Code: 105, Ext: Ext{{"topic", "T"}}, Opaque: 1, Version: 513},
			`{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":513}`,
		},
		{
			"fields in order, an empty object, a remark",
			Command{Code: 1, Ext: Ext{}, Flag: 1, Language: Go, Opaque: -7, Remark: "a < b & c"},
			`{"code":1,"extFields":{},"flag":1,"language":"GO","opaque":-7,"remark":"a < b & c","serializeTypeCurrentRPC":"JSON","version":0}`,
		},
		{
			"sorted and escaped",
			Command{Ext: Ext{{"z", "1"}, {"i", "KEYS\x01k\"\\\x02"}, {"a", "ä\n\xff\t€"}}, Language: UnknownLanguage},
			`{"code":0,"extFields":{"a":"ä\n` + "\ufffd" + `\t€","i":"KEYS\u0001k\"\\\u0002","z":"1"},"flag":0,"opaque":0,"serializeTypeCurrentRPC":"JSON","version":0}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frame, err := AppendFrame(nil, &tt.cmd)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(frame[8:]))
			got, err := DecodeFrame(frame)
			require.NoError(t, err)
			require.Equal(t, tt.cmd.Code, got.Code)
			require.Equal(t, tt.cmd.Opaque, got.Opaque)
		})
	}
}

func TestT01TolerantJSON(t *testing.T) {
	tests := []struct {
		name   string
		header string
		want   Command
	}{
		{"the three keys", `{"code":105,"flag":0,"opaque":3}`, Command{Code: 105, Opaque: 3}},
		{"no key at all", `{}`, Command{}},
		{
			"numbers and booleans in ext, as the C++ client has them",
			`{"code":310,"language":"CPP","opaque":1,"flag":0,"version":333,"remark":"","extFields":{"e":-1,"k":false,"g":"17","x":1.5e3}}`,
			Command{Code: 310, Language: CPP, Opaque: 1, Version: 333, Ext: Ext{{"e", "-1"}, {"k", "false"}, {"g", "17"}, {"x", "1.5e3"}}},
		},
		{
			"any order, blanks, unknown keys", " { \"x\" : [1,{\"y\":[]},\"]\\\"\"] , \"opaque\":-2147483648,\r\n\t\"code\":34,\"flag\":2,\"q\":null,\"r\":{}} ",
			Command{Code: 34, Opaque: -2147483648, Flag: 2},
		},
		{"null in place of all", `{"code":1,"flag":null,"opaque":2,"language":null,"version":null,"remark":null,"extFields":null}`, Command{Code: 1, Opaque: 2}},
		{"null in ext is absent", `{"code":1,"extFields":{"a":null,"b":""}}`, Command{Code: 1, Ext: Ext{{"b", ""}}}},
		{"ext is empty", `{"code":1,"extFields":{}}`, Command{Code: 1, Ext: Ext{}}},
		{"numbers in quotes", `{"code":"11","opaque":"-5"}`, Command{Code: 11, Opaque: -5}},
		{"unknown language", `{"code":1,"language":"COBOL"}`, Command{Code: 1, Language: UnknownLanguage}},
		{"an object in ext is its text", `{"code":1,"extFields":{"dv":{"a":[1]}}}`, Command{Code: 1, Ext: Ext{{"dv", `{"a":[1]}`}}}},
		{
			"escapes", `{"code":1,"remark":"\u00e4\ud83d\ude00\ud800x\/\"\\\b\f\n\r\t","extFields":{"\u0061\u0001":"\u0002"}}`,
			Command{Code: 1, Remark: "ä😀\ufffdx/\"\\\b\f\n\r\t", Ext: Ext{{"a\x01", "\x02"}}},
		},
		{"the last of equal keys counts", `{"code":1,"remark":"long one","extFields":{"a":"1"},"code":2,"remark":"x","extFields":{"b":"2"}}`, Command{Code: 2, Remark: "x", Ext: Ext{{"b", "2"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeFrame(jsonFrame(tt.header, 'b', 'o'))
			require.NoError(t, err)
			tt.want.Body = []byte("bo")
			require.Equal(t, &tt.want, got)
		})
	}
}

func TestMalformedHeaders(t *testing.T) {
	tests := []struct{ name, header, want string }{
		{"empty", ``, "byte 8: no object"},
		{"no object", `[]`, "byte 8: no object"},
		{"cut after the brace", `{`, "byte 9: a key does not begin"},
		{"cut in a key", `{"co`, "byte 12: a string does not end"},
		{"cut in an escape", `{"code":1,"remark":"\`, "a string does not end"},
		{"no colon", `{"code" 1}`, "no colon"},
		{"no comma", `{"code":1 "flag":2}`, "neither comma nor end"},
		{"bare key", `{code:1}`, "a key does not begin"},
		{"trailing text", `{"code":1}x`, "something follows"},
		{"code too large", `{"code":2147483648}`, "32-bit"},
		{"code a fraction", `{"code":1.5}`, "neither comma nor end"},
		{"code a text", `{"code":"x"}`, "no 32-bit number"},
		{"code missing", `{"code":}`, "no 32-bit number"},
		{"bad escape", `{"remark":"\x"}`, `unknown escape \x`},
		{"bad hex", `{"remark":"\u00g0"}`, "four hex digits"},
		{"ext a text", `{"extFields":"x"}`, "no object"},
		{"deep", `{"x":` + strings.Repeat("[", 1000), "inside one another"},
		{"many fields", `{"extFields":{"a":1` + strings.Repeat(`,"a":1`, 600) + `}}`, "more than 512"},
		{"no value", `{"x":nul}`, "no value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := DecodeFrame(jsonFrame(tt.header))
			require.ErrorIs(t, err, ErrMalformed)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestMalformedFrames(t *testing.T) {
	tests := []struct{ name, hex, want string }{
		{"nothing", "", "byte 0"},
		{"length alone", "00000000", "byte 4"},
		{"length of more", "00000005 00000000", "byte 0: length 5"},
		{"negative length", "ffffffff 00000000", "byte 0: length -1"},
		{"header longer than the frame", "00000004 00000001", "byte 5: header of 1 bytes"},
		{"type 7", "00000004 07000000", "byte 4: serialize type 7"},
		{"short binary header", "00000018 01000014 0000 00 0000 0000000a 00000001 00000000 000000", "fewer than 21"},
		{"long remark", "00000019 01000015 0000 00 0000 0000000a 00000001 00000001 00000000", "byte 21: remark of 1"},
		{"negative remark", "00000019 01000015 0000 00 0000 0000000a 00000001 ffffffff 00000000", "byte 21: remark of -1"},
		{"long fields", "00000019 01000015 0000 00 0000 0000000a 00000001 00000000 00000001", "byte 25: header fields of 1"},
		{"negative fields", "00000019 01000015 0000 00 0000 0000000a 00000001 00000000 80000000", "byte 25: header fields of -2147483648"},
		{"half a length", "0000001a 01000016 0000 00 0000 0000000a 00000001 00000000 00000001 00", "byte 29: a header field without"},
		{"long key", "0000001f 0100001b 0000 00 0000 0000000a 00000001 00000000 00000006 0005 00000000", "byte 29: key of 5"},
		{"long value", "0000001f 0100001b 0000 00 0000 0000000a 00000001 00000000 00000006 0000 00000001", "byte 31: value of 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frame := unhex(t, tt.hex)
			if strings.HasPrefix(tt.hex, "00000018") {
				frame = append(frame[:27:27], 0)
			}
			_, err := DecodeFrame(frame)
			require.ErrorIs(t, err, ErrMalformed)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// FuzzDecodeFrame: a frame either has an error, or its command can be written in JSON and read back as the same.
func FuzzDecodeFrame(f *testing.F) {
	f.Add(unhex(f, "00000027 01000023 0069 00 0201 00000005 00000000 00000002 6162 0000000c 0005 746f706963 00000001 54"))
	f.Add(jsonFrame(`{"code":310,"extFields":{"i":"KEYS\u0001k\u0002","e":-1,"k":true,"x":{"y":[null]}},"remark":"\ud83d\ude00"}`, 'x'))
	f.Add(jsonFrame(`{"code":1,"remark":"\ud800\u0041","language":"GO","opaque":"5","version":null}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		before := string(frame)
		c, err := DecodeFrame(frame)
		require.Equal(t, before, string(frame), "the input was changed")
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		if c.Language == UnknownLanguage {
			c.Language = Java // what a header without a language is read as
		}
		again, err := AppendFrame(nil, c)
		require.NoError(t, err)
		d, err := DecodeFrame(again)
		require.NoError(t, err)
		require.Equal(t, c.Code, d.Code)
		require.Equal(t, c.Opaque, d.Opaque)
		require.Equal(t, c.Body, d.Body)
		require.Equal(t, c.Ext == nil, d.Ext == nil)
		if utf8.ValidString(c.Remark) {
			require.Equal(t, c.Remark, d.Remark)
		}
		third, err := AppendFrame(nil, d)
		require.NoError(t, err)
		require.Equal(t, string(again), string(third), "JSON is not canonical")
	})
}

// Issue 9, review: commands that are under way at once may share their fields.
func TestEncodingLeavesFieldsAsTheyAre(t *testing.T) {
	ext := Ext{{"b", "1"}, {"a", "2"}, {"b", "3"}}
	want := slices.Clone(ext)
	for _, encode := range []func([]byte, *Command, envelope) []byte{appendJSONHeader, appendBinaryHeader} {
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() { encode(nil, &Command{Ext: ext}, envelope{}) })
		}
		wait.Wait()
		require.Equal(t, want, ext)
	}
	require.Contains(t, string(appendJSONHeader(nil, &Command{Ext: ext}, envelope{})), `"extFields":{"a":"2","b":"1","b":"3"}`)
}
