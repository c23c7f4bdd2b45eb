//go:build cgo

package crash

import (
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

func init() {
	viewModes = append(
		viewModes,
		viewMode{"rocks", func(o *store.Options) { o.StoreType = store.StoreTypeRocksDB }, []cq.Kind{cq.KindRocks}},
	)
}
