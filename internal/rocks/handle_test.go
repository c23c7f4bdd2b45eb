//go:build cgo

package rocks

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/linxGnu/grocksdb"
	"github.com/stretchr/testify/require"
)

// TestHandleLayout holds the binding to the layout that handle.go reads: the C pointer is the first field.
func TestHandleLayout(t *testing.T) {
	for _, c := range []struct {
		value any
		ctype string
	}{
		{grocksdb.DB{}, "rocksdb_t"},
		{grocksdb.ColumnFamilyHandle{}, "rocksdb_column_family_handle_t"},
		{grocksdb.ReadOptions{}, "rocksdb_readoptions_t"},
		{grocksdb.WriteOptions{}, "rocksdb_writeoptions_t"},
		{grocksdb.SSTFileWriter{}, "rocksdb_sstfilewriter_t"},
	} {
		t.Run(c.ctype, func(t *testing.T) {
			f := reflect.TypeOf(c.value).Field(0)
			require.Equal(t, "c", f.Name)
			require.Zero(t, f.Offset)
			require.Equal(t, reflect.Pointer, f.Type.Kind())
			require.Regexp(t, "_Ctype_(struct_)?"+c.ctype+"$", f.Type.Elem().Name())
		})
	}
}

// TestUnitLayout pins what shim.h says of a unit; TestIngest shows that C reads the same fields.
func TestUnitLayout(t *testing.T) {
	var u Unit
	require.EqualValues(t, 32, unsafe.Sizeof(u))
	require.EqualValues(t, 0, unsafe.Offsetof(u.PhyOffset))
	require.EqualValues(t, 8, unsafe.Offsetof(u.TagsCode))
	require.EqualValues(t, 16, unsafe.Offsetof(u.StoreTimestampMs))
	require.EqualValues(t, 24, unsafe.Offsetof(u.Size))
}
