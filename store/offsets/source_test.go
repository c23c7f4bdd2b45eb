package offsets

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/store"
)

func TestFindFiles(t *testing.T) {
	const good, older = `{"offsetTable":{"T@g":{0:15}}}`, `{"offsetTable":{"T@g":{0:12}}}`
	k := Key{"T", "g", 0}
	for _, tt := range []struct {
		name         string
		file, backup string // "-": none
		want         map[Key]int64
		fellBack     bool
		err, backErr string // "": none
	}{
		{"both", good, older, map[Key]int64{k: 15}, false, "", ""},
		{"no backup", good, "-", map[Key]int64{k: 15}, false, "", ""},
		{"a bad backup", good, "{", map[Key]int64{k: 15}, false, "", "consumerOffset.json.bak at line 1, column 2: the text ends"},
		{"file missing", "-", older, map[Key]int64{k: 12}, true, "consumerOffset.json: no such file or directory", ""},
		{"file empty", "", older, map[Key]int64{k: 12}, true, "consumerOffset.json: it is empty", ""},
		{"file of zeros", "\x00\x00", older, map[Key]int64{k: 12}, true, "consumerOffset.json: it is 2 zero bytes", ""},
		{"file cut", good[:20], older, map[Key]int64{k: 12}, true, "consumerOffset.json at line 1, column 17: a string without its closing quote", ""},
		{"both bad", "x", "", map[Key]int64{}, false, "consumerOffset.json at line 1, column 1: x, want an object", "consumerOffset.json.bak: it is empty"},
		{"file bad, no backup", "x", "-", map[Key]int64{}, false, "line 1, column 1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := store.NewLayout(t.TempDir())
			if tt.file != "-" {
				write(t, JSON.path(l), tt.file)
			}
			if tt.backup != "-" {
				write(t, JSON.path(l)+BackupSuffix, tt.backup)
			}
			s := find(t, l)
			require.Len(t, s, 1)
			require.Equal(t, tt.want, stored(s[0]))
			require.Equal(t, tt.fellBack, s[0].FellBack())
			requireError(t, tt.err, s[0].Err)
			requireError(t, tt.backErr, s[0].BackupErr)
		})
	}
	require.Empty(t, find(t, store.NewLayout(t.TempDir())), "nothing at all is nothing")
	_, err := ReadFile(JSON, "/nowhere")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func requireError(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, want)
}

func TestV2Key(t *testing.T) {
	good := []byte("\x02\x00\x01g\x01\x00\x02TT\x01\x00\x00\x00\x07")
	k, ok := parseV2Key(good)
	require.True(t, ok)
	require.Equal(t, Key{"TT", "g", 7}, k)
	for n := range good {
		_, ok := parseV2Key(good[:n])
		require.False(t, ok, "cut at %d", n)
	}
	_, ok = parseV2Key(append(good, 0))
	require.False(t, ok)
	for _, at := range []int{0, 4, 9} { // record kind, both separators
		bad := []byte(string(good))
		bad[at] ^= 0x40
		_, ok := parseV2Key(bad)
		require.False(t, ok, "byte %d", at)
	}
}

func TestRowsThatAreNone(t *testing.T) {
	s := &Source{Offsets: map[Key]Value{}}
	s.takeRow([]byte("T"), []byte(`{"offsetTable":{0:1}}`))
	require.Len(t, s.Notes, 1)
	s.takeRow([]byte("T@g"), []byte(`[1]`))
	s.takeRow([]byte("T@g"), []byte(`{"offsetTable":{0:x,y:1}}`))
	s.takeV2Row([]byte("\x01\x00\x01\x02junk"), make([]byte, 8))
	require.Len(t, s.Faults, 4)
	require.Equal(t, `row "T@g"`, s.Faults[0].At)
}
