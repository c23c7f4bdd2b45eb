#ifndef TANDEMMQ_ROCKS_SHIM_H
#define TANDEMMQ_ROCKS_SHIM_H

#include <stddef.h>
#include <stdint.h>

// The handful of RocksDB's C functions that the shim calls, declared here so that this package needs no include path of
// RocksDB's. The Go binding includes the real header; handles pass through this package as opaque pointers.
typedef struct rocksdb_t rocksdb_t;
typedef struct rocksdb_column_family_handle_t rocksdb_column_family_handle_t;
typedef struct rocksdb_readoptions_t rocksdb_readoptions_t;
typedef struct rocksdb_writeoptions_t rocksdb_writeoptions_t;
typedef struct rocksdb_sstfilewriter_t rocksdb_sstfilewriter_t;
typedef struct rocksdb_compactionfilter_t rocksdb_compactionfilter_t;

// A unit as Go lays it out; unit_test.go pins the layout.
typedef struct {
	int64_t phy;
	int64_t tags;
	int64_t time;
	int32_t size;
	int32_t pad;
} tmq_unit;

// Result of a search: the slot and the unit found there; slot is -1 when there is none.
typedef struct {
	int64_t slot;
	tmq_unit unit;
} tmq_found;

// Every function that takes errptr sets *errptr to a message (to be freed with rocksdb_free) when it fails, and leaves it
// alone otherwise. A key argument is a whole unit key: klen bytes of which the last 8 are the slot, big-endian.

int64_t tmq_read_units(rocksdb_t *db, rocksdb_readoptions_t *ro, rocksdb_column_family_handle_t *cf, const char *key,
                       size_t klen, tmq_unit *out, int64_t n, char **errptr);

void tmq_lower_bound(rocksdb_t *db, rocksdb_readoptions_t *ro, rocksdb_column_family_handle_t *cf, const char *key,
                     size_t klen, int64_t end, int64_t phy, tmq_found *below, tmq_found *from, char **errptr);

// What tmq_time_bound answers. TMQ_DONE: the search came to its end (or failed). TMQ_IMPOSSIBLE: *at is a row that can be no unit. TMQ_NO_TIME: *at is a unit
// without a store time.
enum { TMQ_DONE = 0, TMQ_IMPOSSIBLE = 1, TMQ_NO_TIME = 2 };

int tmq_time_bound(rocksdb_t *db, rocksdb_readoptions_t *ro, rocksdb_column_family_handle_t *cf, const char *key,
                   size_t klen, int64_t end, int64_t ms, tmq_found *below, tmq_found *at, char **errptr);

int64_t tmq_sst_put_units(rocksdb_sstfilewriter_t *w, const char *key, size_t klen, const tmq_unit *units, int64_t n,
                          char **errptr);

// Rows are stored one behind the other: length of the key and of the value, u32 each as the machine has them, key, value.
int64_t tmq_rows_before(rocksdb_t *db, rocksdb_readoptions_t *ro, rocksdb_column_family_handle_t *cf, const char *before,
                        size_t blen, const char *prefix, size_t plen, char *out, size_t cap, int *more, char **errptr);

void tmq_write(rocksdb_t *db, rocksdb_writeoptions_t *wo, const char *rep, size_t len, char **errptr);

rocksdb_compactionfilter_t *tmq_filter_create(int64_t *min_phy);

void rocksdb_free(void *p);
void rocksdb_enable_manual_compaction(rocksdb_t *db);

#endif
