package commitlog

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/faultfs"
)

// Behind the end of a log are zeros that are data, as after a copy, and a hole. Of the zeros pieces are asked for ahead, for each of its own would be a wait for the disk a page; of the
// hole nothing, since reserved blocks would be data from then on.
func TestZerosBehindTheEndAreAskedForAhead(t *testing.T) {
	const size, data = 8 << 20, 5<<20 + 3*faultfs.PageBytes
	b := newBuilder(t, size, 0).add(19)
	fsys := faultfs.New(faultfs.Options{})
	b.files[0] = b.files[0][:data]
	b.load(fsys)
	f, err := fsys.OpenFile(b.path(lossDir, 0), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	log, err := Open(lossDir, Options{FS: fsys})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	asked := make([]bool, size/faultfs.PageBytes)
	fsys.Observe(func(op faultfs.Op, err error) {
		if op.Kind != faultfs.Advise || op.N == size {
			return
		}
		require.NoError(t, err)
		require.LessOrEqual(t, op.N, int64(zerosAhead))
		for at := op.Off; at < op.Off+op.N; at += faultfs.PageBytes {
			asked[at/faultfs.PageBytes] = true
		}
	})
	require.Equal(t, EndClean, scan(t, log, -1, ScanOptions{NoReadahead: true}).end.Kind)
	for i, was := range asked[1:] {
		require.Equal(t, i+1 < data/faultfs.PageBytes, was, "page %d", i+1)
	}
}
