package migrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/cq"
)

func TestFindingsAreBounded(t *testing.T) {
	var a, b Findings
	for range 1000 {
		a.Add(Finding{Code: CodeNumbering})
	}
	b.Add(Finding{Code: CodeSlotTaken})
	a.Merge(&b)
	a.Merge(&a)
	require.EqualValues(t, 2000, a.Counts[CodeNumbering])
	require.EqualValues(t, 2, a.Counts[CodeSlotTaken])
	require.LessOrEqual(t, len(a.First), 2*maxDetailed)
	require.Equal(t, "2000 x numbering, 2 x slot-taken", a.Summary())
}

func TestBrokerConf(t *testing.T) {
	only, dual := BrokerConf(cq.KindRocks, LayoutSeparate, 6_000_000, false)
	require.Equal(t, []string{"storeType=defaultRocksDB", "useSeparateStorePathForRocksdbCQ=true", "rocksdbCQDoubleWriteEnable=false"}, only)
	require.Contains(t, dual, "combineCQPreferCQType=defaultRocksDB")
	require.Contains(t, dual, "combineCQUseRocksdbForLmq=true") // without it a complete broker does not start (C1)
	only, dual = BrokerConf(cq.KindFile, LayoutShared, 1000, true)
	require.Equal(t, []string{"storeType=default", "rocksdbCQDoubleWriteEnable=false", "mappedFileSizeConsumeQueue=1000", "enableLmq=true", "enableMultiDispatch=true"}, only)
	require.Nil(t, dual)
	only, _ = BrokerConf(cq.KindRocks, LayoutShared, 6_000_000, false)
	require.Contains(t, only, "useSeparateStorePathForRocksdbCQ=false")
}
