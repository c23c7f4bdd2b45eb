package remoting

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type offsetBody struct {
	OffsetTable map[MessageQueue]int64 `json:"offsetTable"`
	Queues      []MessageQueue         `json:"queues,omitempty"`
}

func TestMarshalBody(t *testing.T) {
	a, b := MessageQueue{"b", 1, "T"}, MessageQueue{"b", 2, `T<"&`}
	tests := []struct {
		name string
		v    any
		want string
	}{
		{
			"objects as keys, in order",
			offsetBody{map[MessageQueue]int64{b: 7, a: 9}, []MessageQueue{a}},
			`{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:9,{"brokerName":"b","queueId":2,"topic":"T<\"&"}:7},"queues":[{"brokerName":"b","queueId":1,"topic":"T"}]}`,
		},
		{
			"inside one another",
			map[string]map[MessageQueue]map[MessageQueue]bool{"x": {a: {a: true}}},
			`{"x":{{"brokerName":"b","queueId":1,"topic":"T"}:{{"brokerName":"b","queueId":1,"topic":"T"}:true}}}`,
		},
		{"numeric keys in quotes", map[int64]string{0: "127.0.0.1:10911", -1: "<>&"}, `{"-1":"<>&","0":"127.0.0.1:10911"}`},
		{"a text that looks like a key stays a text", map[string]string{"{}": "\x00{}"}, `{"{}":"\u0000{}"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := MarshalBody(tt.v)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
	_, err := MarshalBody(make(chan int))
	require.Error(t, err)
}

func TestUnmarshalBody(t *testing.T) {
	t.Run("objects as keys", func(t *testing.T) {
		var got offsetBody
		require.NoError(t, UnmarshalBody([]byte(` { "offsetTable" : { {"queueId" : "1" , "topic":"T\u00e4\"","brokerName":"b"} : 9 , `+
			`{"brokerName":"c","queueId":2,"topic":"U"}:-1}, "queues":[{"brokerName":"b","queueId":3,"topic":"T"}] } `), &got))
		require.Equal(t, offsetBody{map[MessageQueue]int64{{"b", 1, `Tä"`}: 9, {"c", 2, "U"}: -1}, []MessageQueue{{"b", 3, "T"}}}, got)
	})
	t.Run("numeric keys with and without quotes", func(t *testing.T) {
		var got map[int64]string
		require.NoError(t, UnmarshalBody([]byte(`{0:"a","1":"b", -2 : "c"}`), &got))
		require.Equal(t, map[int64]string{0: "a", 1: "b", -2: "c"}, got)
	})
	t.Run("what RocketMQ's library reads beside", func(t *testing.T) { // issue 9, review: one lax JSON
		var got map[string][]int
		require.NoError(t, UnmarshalBody([]byte(`{a:[1,,2],'b':[3,],}`), &got))
		require.Equal(t, map[string][]int{"a": {1, 2}, "b": {3}}, got)
	})
	t.Run("numbers in quotes", func(t *testing.T) {
		var got struct{ CodeSet []Int }
		require.NoError(t, UnmarshalBody([]byte(`{"codeSet":["65",66,"-934813832",null]}`), &got))
		require.Equal(t, []Int{65, 66, -934813832, 0}, got.CodeSet)
		require.Error(t, UnmarshalBody([]byte(`{"codeSet":["x"]}`), &got))
		require.Error(t, UnmarshalBody([]byte(`{"codeSet":[9223372036854775808]}`), &got))
	})
	t.Run("round trip", func(t *testing.T) {
		want := offsetBody{map[MessageQueue]int64{{"b\\{}", 1, "T"}: 9}, nil}
		b, err := MarshalBody(want)
		require.NoError(t, err)
		var got offsetBody
		require.NoError(t, UnmarshalBody(b, &got))
		require.Equal(t, want, got)
	})
	for _, bad := range []struct{ body, want string }{
		{``, "byte 0: the text ends, want a value"},
		{`{`, "byte 1: the text ends, want a key"},
		{`{"a"`, "byte 4: the text ends, want a colon"},
		{`{"a":1`, "byte 6: the text ends, want a comma"},
		{`{"a":1]`, "want a comma"},
		{`{"a":"x`, "byte 5: a string without"},
		{`{"a":"\`, "byte 5: a string without"},
		{`{"a":1}}`, "byte 7: something follows"},
		{`{"offsetTable":{{"queueId":1}:tru}}`, "cannot unmarshal string"},
		{strings.Repeat("[", 1000), "levels"},
		{strings.Repeat("{", 1000), "levels"},
		{`{"offsetTable":{{"queueId":2147483648}:1}}`, "more than 32 bits"},
		{`{"offsetTable":{{"queueId":1:1}}`, "want a comma"},
	} {
		t.Run(bad.body[:min(len(bad.body), 12)], func(t *testing.T) {
			var got offsetBody
			require.ErrorContains(t, UnmarshalBody([]byte(bad.body), &got), bad.want)
		})
	}
}

func TestUnmarshalEnum(t *testing.T) {
	names := []string{"CONSUME_ACTIVELY", "CONSUME_PASSIVELY"}
	for in, want := range map[string]int{`"CONSUME_PASSIVELY"`: 1, `0`: 0, `"1"`: 1} {
		got, err := UnmarshalEnum([]byte(in), names)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, in := range []string{`2`, `-1`, `"CONSUME"`, `null`} {
		_, err := UnmarshalEnum([]byte(in), names)
		require.ErrorContains(t, err, "CONSUME_ACTIVELY, CONSUME_PASSIVELY")
	}
}

// FuzzUnmarshalBody: what is standard JSON is read as the standard reads it, and nothing else panics.
func FuzzUnmarshalBody(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,"x",null,true,-1.5e3]},"c":"\u0041"}`))
	f.Add([]byte(`{{"brokerName":"b","queueId":1,"topic":"T"}:{0:1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, want any
		err := UnmarshalBody(body, &got)
		if standard := json.Unmarshal(body, &want); standard == nil && err == nil {
			require.Equal(t, want, got)
		} else if standard == nil {
			require.ErrorContains(t, err, "levels")
		}
	})
}
