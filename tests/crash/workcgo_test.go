//go:build cgo

package crash

import (
	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/store"
)

func init() {
	both := []cq.Kind{cq.KindFile, cq.KindRocks}
	viewModes = append(
		viewModes,
		viewMode{name: "rocks", set: func(o *store.Options) { o.StoreType = store.StoreTypeRocksDB }, kinds: []cq.Kind{cq.KindRocks}},
		viewMode{name: "combine", set: func(o *store.Options) { o.RocksdbCQDoubleWriteEnable = true }, kinds: both},
		viewMode{name: "combine, RocksDB first", set: func(o *store.Options) {
			o.RocksdbCQDoubleWriteEnable, o.CombineCQUseRocksdbForLmq = true, true
			o.CombineCQPreferCQType, o.CombineAssignOffsetCQType = store.StoreTypeRocksDB, store.StoreTypeRocksDB
		}, kinds: both, lightInRocks: true},
	)
}
