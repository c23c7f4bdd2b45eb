package laxjson

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStrict(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"bare integer keys", `{"offsetTable":{"T@g":{0:12,1:-1}}}`, `{"offsetTable":{"T@g":{"0":12,"1":-1}}}`},
		{"object as key", `{{"brokerName":"b","queueId":1,"topic":"T"}:{"k":1}}`, `{"{\"brokerName\":\"b\",\"queueId\":1,\"topic\":\"T\"}":{"k":1}}`},
		{"single quotes and spare commas", "{,'a':'x',,'b':[1,,2,],}", `{"a":"x","b":[1,2]}`},
		{"words that JSON does not know", `{a:NaN,b:true,c:null,d:0x1}`, `{"a":"NaN","b":true,"c":null,"d":"0x1"}`},
		{"byte order mark and what follows", "\xef\xbb\xbf{} rest", `{}`},
		{"escapes", `"a\u0041\n\"<>&"`, `"aA\u000a\"<>&"`},
		{"a pair of escapes", `"\ud83d\ude00 \ud83d \u00e4"`, "\"\U0001F600 \uFFFD ä\""},
		{"indented", "{\n\t\"a\":{\n\t\t1:5\n\t}\n}", `{"a":{"1":5}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Strict([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			require.True(t, json.Valid(got))
		})
	}
}

func TestUnmarshal(t *testing.T) {
	var v struct{ OffsetTable map[string]map[int32]int64 }
	require.NoError(t, Unmarshal([]byte(`{"offsetTable":{"T@g":{0:12,"1":3}}}`), &v))
	require.Equal(t, map[string]map[int32]int64{"T@g": {0: 12, 1: 3}}, v.OffsetTable)
}

func TestErrorsTellThePlace(t *testing.T) {
	for in, want := range map[string]string{
		"":                   `line 1, column 1: the text ends, want a value`,
		"{\n\"a\" 1}":        `line 2, column 5: "1}", want a colon`,
		`{"a":"x`:            `line 1, column 6: a string without its closing quote`,
		`[1 2]`:              `line 1, column 4: "2]", want a comma or ]`,
		`{"a":1 "b":2}`:      `line 1, column 8: "\"b\":2}", want a comma or }`,
		`{:1}`:               `line 1, column 2: ":1}", want a key or }`,
		deep('['):            `line 1, column 65: more than 64 levels`,
		`{{"a":` + deep('{'): `line 1, column 69: more than 64 levels`,
	} {
		_, err := Strict([]byte(in))
		require.EqualError(t, err, want)
		var s *SyntaxError
		require.ErrorAs(t, err, &s)
	}
}

func deep(c byte) string {
	b := make([]byte, 100)
	for i := range b {
		b[i] = c
	}
	return string(b)
}

// FuzzStrict: whatever the text, the answer is JSON or an error, and JSON keeps its meaning.
func FuzzStrict(f *testing.F) {
	f.Add([]byte(`{"a":{0:1},{"b":[null]}:'x'}`))
	f.Add([]byte(`[1.5e3,"é",{}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := Strict(b)
		if err != nil {
			require.Nil(t, out)
			return
		}
		again, err := Strict(out)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
		var got, want any
		require.NoError(t, json.Unmarshal(out, &got))
		if json.Unmarshal(b, &want) == nil {
			require.Equal(t, want, got)
		}
	})
}
