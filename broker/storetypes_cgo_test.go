//go:build cgo

package broker

import "github.com/tandemq/tandemmq/store"

func init() { storeTypes = append(storeTypes, store.StoreTypeRocksDB) }
