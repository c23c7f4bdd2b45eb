package store

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/property"
)

// referenceDefaults are the defaults of 5.5.0, each as a properties file has it.
//
// Source: MessageStoreConfig, 5.5.0.
var referenceDefaults = map[string]string{
	"storePathCommitLog":                            "",
	"readOnlyCommitLogStorePaths":                   "",
	"mappedFileSizeCommitLog":                       "1073741824",
	"maxMessageSize":                                "4194304",
	"autoMessageVersionOnTopicLen":                  "true",
	"enabledAppendPropCRC":                          "false",
	"forceVerifyPropCRC":                            "false",
	"useReentrantLockWhenPutMessage":                "true",
	"useABSLock":                                    "false",
	"topicQueueLockNum":                             "32",
	"osPageCacheBusyTimeOutMills":                   "1000",
	"flushDiskType":                                 "ASYNC_FLUSH",
	"syncFlushTimeout":                              "5000",
	"flushIntervalCommitLog":                        "500",
	"flushCommitLogTimed":                           "true",
	"flushCommitLogLeastPages":                      "4",
	"flushCommitLogThoroughInterval":                "10000",
	"wakeFlushWhenPutMessage":                       "false",
	"enableRunningFlagsInFlush":                     "false",
	"transientStorePoolEnable":                      "false",
	"transientStorePoolSize":                        "5",
	"fastFailIfNoBufferInStorePool":                 "false",
	"commitIntervalCommitLog":                       "200",
	"commitCommitLogLeastPages":                     "4",
	"commitCommitLogThoroughInterval":               "200",
	"wakeCommitWhenPutMessage":                      "true",
	"writeWithoutMmap":                              "false",
	"sharedByteBufferNum":                           "16",
	"warmMapedFileEnable":                           "false",
	"flushLeastPagesWhenWarmMapedFile":              "4096",
	"dataReadAheadEnable":                           "true",
	"diskSpaceCleanForciblyRatio":                   "85",
	"enableLmq":                                     "false",
	"enableMultiDispatch":                           "false",
	"enableLmqQuota":                                "false",
	"maxLmqConsumeQueueNum":                         "20000",
	"checkCRCOnRecover":                             "true",
	"messageDelayLevel":                             "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
	"brokerRole":                                    "ASYNC_MASTER",
	"storeType":                                     "default",
	"useSeparateStorePathForRocksdbCQ":              "false",
	"rocksdbCQDoubleWriteEnable":                    "false",
	"combineCQLoadingCQTypes":                       "default;defaultRocksDB",
	"combineCQPreferCQType":                         "default",
	"combineAssignOffsetCQType":                     "default",
	"combineCQUseRocksdbForLmq":                     "false",
	"mappedFileSizeConsumeQueue":                    "6000000",
	"flushConsumeQueueThoroughInterval":             "60000",
	"messageIndexEnable":                            "true",
	"indexFileWriteEnable":                          "true",
	"indexFileReadEnable":                           "true",
	"indexRocksDBEnable":                            "false",
	"maxRocksDBIndexQueryDays":                      "7",
	"maxHashSlotNum":                                "5000000",
	"maxIndexNum":                                   "20000000",
	"readUnCommitted":                               "false",
	"maxTransferCountOnMessageInMemory":             "32",
	"maxTransferBytesOnMessageInMemory":             "262144",
	"maxTransferCountOnMessageInDisk":               "8",
	"maxTransferBytesOnMessageInDisk":               "65536",
	"accessMessageInMemoryMaxRatio":                 "40",
	"accessMessageInMemoryHotRatio":                 "26",
	"coldDataFlowControlEnable":                     "false",
	"coldDataScanEnable":                            "false",
	"cgColdReadThreshold":                           "3145728",
	"globalColdReadThreshold":                       "104857600",
	"maxFilterMessageSize":                          "16000",
	"travelCqFileNumWhenGetMessage":                 "1",
	"deleteWhen":                                    "04",
	"fileReservedTime":                              "72",
	"deleteFileBatchMax":                            "10",
	"cleanResourceInterval":                         "10000",
	"deleteCommitLogFilesInterval":                  "100",
	"deleteConsumeQueueFilesInterval":               "100",
	"cleanFileForciblyEnable":                       "true",
	"diskMaxUsedSpaceRatio":                         "75",
	"diskSpaceWarningLevelRatio":                    "90",
	"destroyMapedFileIntervalForcibly":              "120000",
	"rocksdbCompressionType":                        "lz4",
	"bottomMostCompressionTypeForConsumeQueueStore": "zstd",
	"redeleteHangedFileInterval":                    "120000",
	"duplicationEnable":                             "false",
}

// configRow is a row of a table of docs/config.md.
type configRow struct{ defaultText, changes, meaning, differs string }

// configPage reads docs/config.md: the rows of its tables, and the names in the two lists.
func configPage(t *testing.T) (rows map[string]configRow, names map[NoteKind][]string) {
	t.Helper()
	b, err := os.ReadFile("../docs/config.md")
	require.NoError(t, err)
	rows, names = map[string]configRow{}, map[NoteKind][]string{}
	lists := map[string]NoteKind{"## Dead in 5.5.0": NoteDead, "## Without effect in this version": NoteUnused}
	name := regexp.MustCompile("`([a-zA-Z0-9]+)`[,.]")
	heading := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			heading = line
		}
		if strings.HasPrefix(line, "| `") {
			cells := strings.Split(strings.Trim(line, "|"), " | ")
			require.Len(t, cells, 5, "%s", line)
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			property := strings.Trim(cells[0], "`")
			require.NotContains(t, rows, property, "a second row")
			rows[property] = configRow{cells[1], cells[2], cells[3], cells[4]}
		}
		if kind, ok := lists[heading]; ok && strings.HasPrefix(line, "`") {
			for _, m := range name.FindAllStringSubmatch(line, -1) {
				names[kind] = append(names[kind], m[1])
			}
		}
	}
	return rows, names
}

// docs/config.md and Options say the same, in both directions.
func TestConfigPageMatchesOptions(t *testing.T) {
	rows, _ := configPage(t)
	o := DefaultOptions()
	for i := range properties {
		p := &properties[i]
		t.Run(p.Name, func(t *testing.T) {
			row, ok := rows[p.Name]
			require.True(t, ok, "no row in docs/config.md")
			delete(rows, p.Name)
			want := "(empty)"
			if text := p.Text(&o); text != "" {
				want = "`" + text + "`"
			}
			require.Equal(t, want, row.defaultText)
			require.Equal(t, map[bool]string{true: "run time", false: "restart"}[p.Live], row.changes)
			require.NotEmpty(t, row.meaning)
			require.Equal(t, p.Own, row.differs == "addition")
			reference, known := referenceDefaults[p.Name]
			require.Equal(t, !p.Own, known, "in the list of 5.5.0's defaults")
			if known && reference != p.Text(&o) {
				require.Contains(t, row.differs, "default", "5.5.0 has %q", reference)
			}
		})
	}
	require.Empty(t, rows, "rows of properties that Options does not have")
	for name := range referenceDefaults {
		require.True(t, slices.ContainsFunc(properties, func(p property.Field) bool { return p.Name == name }), name)
	}
}

func TestConfigPageListsTheOtherProperties(t *testing.T) {
	_, names := configPage(t)
	for kind, heading := range map[NoteKind]string{NoteDead: "dead", NoteUnused: "unused"} {
		t.Run(heading, func(t *testing.T) {
			var want []string
			for name, k := range otherProperties {
				if k == kind {
					want = append(want, name)
				}
			}
			require.NotEmpty(t, want)
			require.ElementsMatch(t, want, slices.DeleteFunc(names[kind], func(n string) bool { return n == "ParseOptions" }))
		})
	}
}
