//go:build cgo

package rocks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorPlace(t *testing.T) {
	for _, tt := range []struct {
		text, file string
		offset     int64
	}{
		{"Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in /the db/1.x/000012.sst offset 4711 size 3999", "000012.sst", 4711},
		{"Corruption: truncated block read from /the db/1.x/000012.sst offset 0, expected 99 bytes, got 5", "000012.sst", 0},
		{"Corruption: file is too short (50 bytes) to be an sstable: /the db/1.x/000012.sst", "000012.sst", -1},
		{"IO error: No such file or directory: While open a file for random read: /the db/1.x/000012.sst: No such file or directory", "000012.sst", -1},
		{"Corruption: no meta-nextfile entry in descriptor: /the db/1.x/MANIFEST-000005.", "MANIFEST-000005", -1},
		{"Corruption: in /the db/1.x/000012.sst offset x", "000012.sst", -1},
		{"Corruption: bad magic in /another/000012.sst offset 5", "", -1},
		{"Corruption: something", "", -1},
		{"Corruption: /the db/1.x/", "", -1},
	} {
		file, offset := (&Error{Dir: "/the db/1.x", Text: tt.text}).Place()
		if tt.file != "" {
			tt.file = "/the db/1.x/" + tt.file
		}
		require.Equal(t, tt.file, file, tt.text)
		require.Equal(t, tt.offset, offset, tt.text)
	}
}

// What a rebuild does not mend gets no such advice.
func TestOpenErrorsAdviseARebuildOfWhatIsDamaged(t *testing.T) {
	for text, advised := range map[string]bool{
		"Corruption: bad magic": true,
		"IO error: No such file or directory: While open a file for random read: /db/1.sst: No such file or directory": true,
		"IO error: No space left on device: While appending to file: /db/1.log: No space left on device":               false,
		"IO error: While open a file for appending: /db/LOG: Permission denied":                                        false,
	} {
		e := &Error{Op: opOpen, Dir: "/db", Text: text, families: QueueFamilies}
		if advised {
			require.ErrorContains(t, e, "rebuild the consume queues from the CommitLog")
		} else {
			require.NotContains(t, e.Error(), "rebuild")
		}
	}
}
