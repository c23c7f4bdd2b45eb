package broker

import "github.com/tandemq/tandemmq/store"

// storeTypes are the kinds of queues that this build has.
var storeTypes = []store.StoreType{store.StoreTypeFile}
