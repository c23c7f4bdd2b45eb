package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/cq"
)

// combineSeparator stands between the store types of combineCQLoadingCQTypes.
const combineSeparator = ";"

// queueKind returns the kind of consume queues that a store type has. ok is false for an unknown one.
func (t StoreType) queueKind() (k cq.Kind, ok bool) {
	switch {
	case strings.EqualFold(string(t), string(StoreTypeFile)):
		return cq.KindFile, true
	case strings.EqualFold(string(t), string(StoreTypeRocksDB)):
		return cq.KindRocks, true
	}
	return "", false
}

// sides tells in what the consume queues are kept: files, RocksDB, or both.
//
// Source: ConsumeQueueStoreFactory, CombineConsumeQueueStore, 5.5.0.
func (o *Options) sides() (file, rocks bool) {
	if o.StoreType == StoreTypeRocksDB {
		return false, true
	}
	if !o.RocksdbCQDoubleWriteEnable {
		return true, false
	}
	for name := range strings.SplitSeq(o.CombineCQLoadingCQTypes, combineSeparator) {
		switch k, _ := StoreType(strings.TrimSpace(name)).queueKind(); k {
		case cq.KindFile:
			file = true
		case cq.KindRocks:
			rocks = true
		}
	}
	return file, rocks
}

// combineFaults returns what is wrong with the combined store, if there is to be one, and otherwise only what has no meaning.
//
// Source: CombineConsumeQueueStore, 5.5.0; light queues in RocksDB beside offsets of the files for the rest, which it asks for, are no condition here.
func (o *Options) combineFaults() (faults []error) {
	file, rocks := o.sides()
	asked := o.RocksdbCQDoubleWriteEnable && o.StoreType == StoreTypeFile
	unknown := slices.ContainsFunc(strings.Split(o.CombineCQLoadingCQTypes, combineSeparator), func(name string) bool {
		name = strings.TrimSpace(name)
		_, ok := StoreType(name).queueKind()
		return !ok && name != ""
	})
	if unknown || asked && !file && !rocks {
		return []error{fmt.Errorf("combineCQLoadingCQTypes is %q, want %s, %s or both, separated by %q", o.CombineCQLoadingCQTypes,
			StoreTypeFile, StoreTypeRocksDB, combineSeparator)}
	}
	if !asked {
		return nil
	}
	for name, t := range map[string]StoreType{"combineCQPreferCQType": o.CombineCQPreferCQType, "combineAssignOffsetCQType": o.CombineAssignOffsetCQType} {
		k, known := t.queueKind()
		switch {
		case !known:
			faults = append(faults, fmt.Errorf("%s is %q, want %s or %s", name, t, StoreTypeFile, StoreTypeRocksDB))
		case k == cq.KindFile && !file, k == cq.KindRocks && !rocks:
			faults = append(faults, fmt.Errorf("%s is %s, and combineCQLoadingCQTypes, which is %q, does not load it", name, t, o.CombineCQLoadingCQTypes))
		}
	}
	if o.CombineCQUseRocksdbForLmq && !rocks {
		faults = append(faults, fmt.Errorf("combineCQUseRocksdbForLmq is true, and combineCQLoadingCQTypes, which is %q, does not load %s", o.CombineCQLoadingCQTypes, StoreTypeRocksDB))
	}
	return faults
}
