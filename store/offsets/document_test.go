package offsets

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func parsed(t *testing.T, text string) *document {
	t.Helper()
	d, err := parseDocument("f", []byte(text), false)
	require.NoError(t, err)
	return d
}

// What 5.5.0 loads of such a file was seen by letting it do so.
func TestParseDocument(t *testing.T) {
	k0, k1 := Key{"T", "g", 0}, Key{"T", "g", 1}
	for _, tt := range []struct {
		name, text string
		want       map[Key]int64
		notes      int
	}{
		{"bare keys", `{"offsetTable":{"T@g":{0:1,1:7}}}`, map[Key]int64{k0: 1, k1: 7}, 0},
		{"quoted keys and values", `{"offsetTable":{"T@g":{"0":"12","1":"-7"}}}`, map[Key]int64{k0: 12, k1: -7}, 0},
		{"single quotes", `{'offsetTable':{'T@g':{0:1}}}`, map[Key]int64{k0: 1}, 0},
		{"commas to spare", "{\"offsetTable\":{,\"T@g\":{0:1,,1:7,},},\r\n}", map[Key]int64{k0: 1, k1: 7}, 0},
		{"a byte order mark", "\xef\xbb\xbf" + `{"offsetTable":{"T@g":{0:1}}}`, map[Key]int64{k0: 1}, 0},
		{"a row twice", `{"offsetTable":{"T@g":{0:1},"T@g":{1:7}}}`, map[Key]int64{k1: 7}, 1},
		{"the table twice", `{"offsetTable":{"T@g":{0:1}},"offsetTable":{"T@g":{1:7}}}`, map[Key]int64{k1: 7}, 0},
		{"rows of nobody", `{"offsetTable":{"T":{0:1},"T@g@x":{0:4},"@g":{0:1},"T@":{0:2}}}`, map[Key]int64{}, 4},
		{"an old tail", `{"offsetTable":{"T@g":{0:1}}}0}}}`, map[Key]int64{k0: 1}, 1},
		{"escapes", `{"offsetTable":{"\u0054@g":{0:1}}}`, map[Key]int64{k0: 1}, 0},
		{"other members", `{"x":{"y":[1,{"z":null},true]},"offsetTable":{}}`, map[Key]int64{}, 0},
		{"the ends of 64 bits", `{"offsetTable":{"T@g":{0:9223372036854775807,1:-9223372036854775808}}}`, map[Key]int64{k0: 1<<63 - 1, k1: -1 << 63}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := parsed(t, tt.text)
			require.Equal(t, tt.want, stored(&Source{Offsets: d.offsets}))
			require.Empty(t, d.faults)
			require.Len(t, d.notes, tt.notes)
		})
	}
}

// A file that is none is told by name and place.
func TestParseDocumentErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "read offset file f: it is empty"},
		{"zeros", "\x00\x00\x00", "read offset file f: it is 3 zero bytes"},
		{"blank", " \n", "read offset file f at line 2, column 1: the text ends, want a value"},
		{"no object", "[1]", "read offset file f at line 1, column 1: [1], want an object"},
		{"no table", "{}", "read offset file f: it has no offsetTable"},
		{"cut", "{\n\t\"offsetTable\":{\n\t\t\"T@g\":{0:1,", "read offset file f at line 3, column 14: the text ends, want a key or }"},
		{"an open string", `{"offsetTable":{"T@g`, "read offset file f at line 1, column 17: a string without its closing quote"},
		{"no colon", "{\"offsetTable\":{\"T@g\" {}}}", "read offset file f at line 1, column 23: \"{}}}\", want a colon"},
		{"two values", `{"offsetTable":{} {}}`, "read offset file f at line 1, column 19: \"{}}\", want a comma or }"},
		{"a table that is a list", `{"offsetTable":[]}`, "read offset file f at line 1, column 16: offsetTable is [], want an object"},
		{"a version that is a word", `{"offsetTable":{},"dataVersion":7}`, "read offset file f at line 1, column 33: dataVersion is 7, want an object"},
		{"a counter that is a word", `{"dataVersion":{"counter":x},"offsetTable":{}}`, "read offset file f at line 1, column 27: dataVersion.counter is x, want a whole number of at most 64 bits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseDocument("f", []byte(tt.text), false)
			var file *FileError
			require.ErrorAs(t, err, &file)
			require.EqualError(t, err, tt.want)
		})
	}
	deep := make([]byte, 1<<20)
	for i := range deep {
		deep[i] = '['
	}
	_, err := parseDocument("f", deep, false)
	require.ErrorContains(t, err, "more than 64 levels")
}

// One such value makes 5.5.0 reject the whole file.
func TestFaultsNameTheirPlace(t *testing.T) {
	d := parsed(t, "{\"offsetTable\":{\n\"T@g\":{0:abc,1:99999999999999999999,2:12.5,3:null,4:{},5:6},\n\"U@g\":7,\n\"V@g\":{x:1,4294967296:2}}}")
	require.Equal(t, map[Key]int64{{"T", "g", 5}: 6}, stored(&Source{Offsets: d.offsets}))
	var got []string
	for _, f := range d.faults {
		got = append(got, f.At+": "+f.Text)
	}
	const number = ", want a whole number of at most 64 bits"
	require.Equal(t, []string{
		"line 2, column 10: abc" + number, "line 2, column 16: 99999999999999999999" + number, "line 2, column 39: 12.5" + number,
		"line 2, column 46: null" + number, "line 2, column 53: {}, want a whole number",
		`line 3, column 7: the queues of "U@g" are 7, want an object`,
		`line 4, column 8: queue id "x" of "V@g" is no 32-bit number`, `line 4, column 12: queue id "4294967296" of "V@g" is no 32-bit number`,
	}, got)
	require.Equal(t, &Key{"T", "g", 0}, d.faults[0].Key)
	require.Nil(t, d.faults[5].Key)
}

// What nobody changes comes back as it was, and in the form in which 5.5.0 writes.
func TestRenderKeepsTheRest(t *testing.T) {
	const text = "{\n\t\"dataVersion\":{\"counter\":3,\"stateVersion\":2,\"timestamp\":1,\"more\":\"x\"},\n\t\"groupTopicMap\":{\"g\":[\n\t\t\"T\"\n\t]},\n" +
		"\t\"offsetTable\":{\"Z@g\":{0:1},\"odd\":{0:3},\"T@g\":{3:7,\"0\":\"12\"},\"E@g\":{}},\n\t\"unknown\":[1,{2:3}],\n\t\"pullOffsetTable\":{\"T@g\":{0:20}}\n}"
	d := parsed(t, text)
	offsets := stored(&Source{Offsets: d.offsets})
	offsets[Key{"T", "g", 0}] = 13
	offsets[Key{"A\"", "h", 10}], offsets[Key{"A\"", "h", 9}] = 5, 6
	v := &Version{Counter: 4, StateVersion: 2, TimestampMs: 9}
	got := render(d, offsets, v, false)
	want := []byte("{\n\t\"dataVersion\":{\n\t\t\"counter\":4,\n\t\t\"stateVersion\":2,\n\t\t\"timestamp\":9,\n\t\t\"more\":\"x\"\n\t},\n\t\"groupTopicMap\":{\"g\":[\n\t\t\"T\"\n\t]},\n" +
		"\t\"offsetTable\":{\n\t\t\"Z@g\":{\n\t\t\t0:1\n\t\t},\n\t\t\"odd\":{0:3},\n\t\t\"T@g\":{\n\t\t\t0:13,\n\t\t\t3:7\n\t\t},\n\t\t\"E@g\":{},\n" +
		"\t\t\"A\\\"@h\":{\n\t\t\t9:6,\n\t\t\t10:5\n\t\t}\n\t},\n\t\"unknown\":[1,{2:3}],\n\t\"pullOffsetTable\":{\"T@g\":{0:20}}\n}")
	require.Equal(t, want, got)
	again, err := parseDocument("f", got, false)
	require.NoError(t, err)
	require.Equal(t, offsets, stored(&Source{Offsets: again.offsets}))
	require.Equal(t, v, again.version)

	require.NotContains(t, string(render(parsed(t, `{"offsetTable":{}}`), nil, nil, false)), versionMember, "a version is not made up")
}

// A file of 5.5.0 itself comes out as it was, byte for byte, but for the order of what changed.
func TestRenderOfAJavaFile(t *testing.T) {
	for root, p := range map[string]Place{"json": JSON, "lmq": LightJSON} {
		path := p.path(javaRoot(t, root))
		s, err := ReadFile(p, path)
		require.NoError(t, err)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(raw), string(render(s.doc, stored(s), s.Version, p == LightJSON)), root)
	}
}

func TestLightQueuesHaveATableOfTheirOwn(t *testing.T) {
	path := LightJSON.path(javaRoot(t, "lmq"))
	require.Equal(t, map[Key]int64{{"T1", "g1", 0}: 12, {"%LMQ%x", "g1", 0}: 9, {"%LMQ%l", "%LMQ%l", 0}: 5}, readBack(t, LightJSON, path))
	require.NotContains(t, readBack(t, JSON, path), Key{"%LMQ%l", "%LMQ%l", 0}, "a broker without enableLmq does not read that table")
}

// A file cut anywhere is an error or, at the very end, all of it: never a part.
func TestCutAnywhere(t *testing.T) {
	raw, err := os.ReadFile(JSON.path(javaRoot(t, "json")))
	require.NoError(t, err)
	for n := range raw {
		_, err := parseDocument("f", raw[:n], false)
		require.Error(t, err, "cut at %d of %d", n, len(raw))
	}
}

func FuzzParseDocument(f *testing.F) {
	f.Add([]byte(`{"dataVersion":{"counter":1},"offsetTable":{"T@g":{0:1,'1':"2"}},"x":[1,{2:3}]}`))
	f.Add([]byte(`{"offsetTable":{"T@g":{},"":{}},"lmqOffsetTable":{"a@b":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, light := range []bool{false, true} {
			d, err := parseDocument("f", b, light)
			if err != nil {
				continue
			}
			// What is put together again is read as the same.
			offsets := stored(&Source{Offsets: d.offsets})
			out := render(d, offsets, d.version, light)
			again, err := parseDocument("f", out, light)
			require.NoError(t, err, "%s", out)
			require.Equal(t, offsets, stored(&Source{Offsets: again.offsets}))
			require.Equal(t, d.version, again.version)
		}
	})
}
