//go:build cgo

package rocks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linxGnu/grocksdb"
	"github.com/stretchr/testify/require"
)

// optionsFile returns the newest OPTIONS file of a database: section -> name -> value.
func optionsFile(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	b, err := os.ReadFile(names[len(names)-1])
	require.NoError(t, err)
	out := map[string]map[string]string{}
	section := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			out[section] = map[string]string{}
		} else if name, value, ok := strings.Cut(line, "="); ok {
			out[section][name] = value
		}
	}
	return out
}

// TestOptionsArriveInRocksDB compares with the values that RocketMQ 5.5.0 leaves in its OPTIONS file, apart from the sizes that
// are scaled.
func TestOptionsArriveInRocksDB(t *testing.T) {
	dir := t.TempDir()
	o := DefaultOptions()
	logs := t.TempDir()
	o.LogDir = logs
	openTest(t, dir, o)
	got := optionsFile(t, dir)
	for section, want := range map[string]map[string]string{
		"DBOptions": {
			"atomic_flush": "true", "allow_concurrent_memtable_write": "false", "manual_wal_flush": "true", "max_open_files": "-1",
			"wal_recovery_mode": "kPointInTimeRecovery", "max_background_jobs": "2", "max_subcompactions": "2", "bytes_per_sync": "1048576",
			"paranoid_checks": "true", "delayed_write_rate": "16777216", "keep_log_file_num": "5", "stats_dump_period_sec": "600",
			"avoid_flush_during_shutdown": "false", "db_log_dir": logs, "compaction_readahead_size": "2097152",
		},
		`CFOptions "default"`: {
			"compaction_style": "kCompactionStyleUniversal", "compression": "kLZ4Compression", "bottommost_compression": "kZSTD",
			"write_buffer_size": "67108864", "max_write_buffer_number": "4", "min_write_buffer_number_to_merge": "1", "num_levels": "7",
			"level0_file_num_compaction_trigger": "2", "level0_slowdown_writes_trigger": "8", "level0_stop_writes_trigger": "10",
			"target_file_size_base": "268435456", "target_file_size_multiplier": "2", "max_compaction_bytes": "107374182400",
			"soft_pending_compaction_bytes_limit": "107374182400", "hard_pending_compaction_bytes_limit": "274877906944",
			"inplace_update_support": "false", "optimize_filters_for_hits": "true", "periodic_compaction_seconds": "2592000",
			"compaction_pri": "kMinOverlappingRatio",
			"compaction_options_universal": "{incremental=false;compression_size_percent=-1;allow_trivial_move=true;max_size_amplification_percent=25;" +
				"max_merge_width=2147483647;stop_style=kCompactionStopStyleTotalSize;min_merge_width=2;max_read_amp=-1;size_ratio=100;}",
		},
		`CFOptions "offset"`: {
			"compaction_style": "kCompactionStyleLevel", "compression": "kNoCompression", "bottommost_compression": "kDisableCompressionOption",
			"write_buffer_size": "16777216", "inplace_update_support": "true", "target_file_size_base": "67108864",
			"max_bytes_for_level_base": "268435456", "max_bytes_for_level_multiplier": "2.000000", "level_compaction_dynamic_level_bytes": "true",
		},
		`TableOptions/BlockBasedTable "default"`: {
			"format_version": "5", "checksum": "kCRC32c", "block_size": "32768", "metadata_block_size": "4096", "index_type": "kBinarySearch",
			"data_block_index_type": "kDataBlockBinaryAndHash", "data_block_hash_table_util_ratio": "0.750000", "whole_key_filtering": "true",
			"cache_index_and_filter_blocks": "false", "pin_l0_filter_and_index_blocks_in_cache": "false",
			"cache_index_and_filter_blocks_with_high_priority": "true", "pin_top_level_index_and_filter": "true",
		},
		`TableOptions/BlockBasedTable "offset"`: {
			"format_version": "5", "checksum": "kCRC32c", "block_size": "32768", "data_block_index_type": "kDataBlockBinarySearch",
		},
	} {
		require.Contains(t, got, section)
		for name, value := range want {
			require.Equal(t, value, got[section][name], "%s: %s", section, name)
		}
	}
	require.FileExists(t, filepath.Join(logs, strings.ReplaceAll(strings.TrimPrefix(dir, "/"), "/", "_")+"_LOG"))
}

// TestFormatVersionEverywhere: also families that are not ours get the format that RocketMQ's library reads.
func TestFormatVersionEverywhere(t *testing.T) {
	for name, o := range map[string]Options{"default": DefaultOptions(), "migration": MigrationOptions()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := grocksdb.NewDefaultOptions()
			c.SetCreateIfMissing(true)
			c.SetCreateIfMissingColumnFamilies(true)
			db, handles, err := grocksdb.OpenDbColumnFamilies(c, dir, []string{"default", "theirs"}, []*grocksdb.Options{c, c})
			require.NoError(t, err)
			for _, h := range handles {
				h.Destroy()
			}
			db.Close()
			c.Destroy()
			openTest(t, dir, o)
			found := 0
			got := optionsFile(t, dir)
			require.Equal(t, "false", got[`CFOptions "theirs"`]["inplace_update_support"])
			for section, values := range got {
				if strings.HasPrefix(section, "TableOptions/") {
					require.Equal(t, "5", values["format_version"], section)
					found++
				}
			}
			require.Equal(t, 3, found)
		})
	}
}

func TestChecksumOption(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	o.Units.Checksum = XXH3
	openTest(t, dir, o)
	got := optionsFile(t, dir)
	require.Equal(t, "kXXH3", got[`TableOptions/BlockBasedTable "default"`]["checksum"])
	require.Equal(t, "kCRC32c", got[`TableOptions/BlockBasedTable "offset"`]["checksum"])
}
