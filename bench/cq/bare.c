//go:build cgo

#include "bare.h"

#include <string.h>

typedef struct rocksdb_block_based_table_options_t rocksdb_block_based_table_options_t;
typedef struct rocksdb_pinnableslice_t rocksdb_pinnableslice_t;

extern rocksdb_options_t *rocksdb_options_create(void);
extern void rocksdb_options_destroy(rocksdb_options_t *);
extern rocksdb_block_based_table_options_t *rocksdb_block_based_options_create(void);
extern void rocksdb_block_based_options_destroy(rocksdb_block_based_table_options_t *);
extern void rocksdb_block_based_options_set_block_cache(rocksdb_block_based_table_options_t *, rocksdb_cache_t *);
extern void rocksdb_options_set_block_based_table_factory(rocksdb_options_t *, rocksdb_block_based_table_options_t *);
extern rocksdb_cache_t *rocksdb_cache_create_lru(size_t);
extern void rocksdb_cache_destroy(rocksdb_cache_t *);
extern rocksdb_readoptions_t *rocksdb_readoptions_create(void);
extern void rocksdb_readoptions_destroy(rocksdb_readoptions_t *);
extern void rocksdb_options_set_disable_auto_compactions(rocksdb_options_t *, int);
extern rocksdb_t *rocksdb_open_column_families(const rocksdb_options_t *, const char *, int, const char *const *, const rocksdb_options_t *const *,
                                               rocksdb_column_family_handle_t **, char **);
extern void rocksdb_column_family_handle_destroy(rocksdb_column_family_handle_t *);
extern void rocksdb_close(rocksdb_t *);
extern rocksdb_pinnableslice_t *rocksdb_get_pinned_cf(rocksdb_t *, const rocksdb_readoptions_t *, rocksdb_column_family_handle_t *, const char *, size_t, char **);
extern const char *rocksdb_pinnableslice_value(const rocksdb_pinnableslice_t *, size_t *);
extern void rocksdb_pinnableslice_destroy(rocksdb_pinnableslice_t *);

void bare_close(bare *b) {
	if (b->db != NULL) {
		for (int i = 0; i < FAMILIES; i++)
			rocksdb_column_family_handle_destroy(b->families[i]);
		rocksdb_close(b->db);
	}
	rocksdb_readoptions_destroy(b->read);
	rocksdb_options_destroy(b->options);
	rocksdb_cache_destroy(b->cache);
}

void bare_open(bare *b, const char *dir, size_t cache, char **err) {
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	b->options = rocksdb_options_create();
	b->cache = rocksdb_cache_create_lru(cache);
	b->read = rocksdb_readoptions_create();
	rocksdb_block_based_options_set_block_cache(table, b->cache);
	rocksdb_options_set_block_based_table_factory(b->options, table); // copies it
	rocksdb_block_based_options_destroy(table);
	rocksdb_options_set_disable_auto_compactions(b->options, 1); // what is read is what was read before
	const char *names[FAMILIES] = {"default", "offset"};
	const rocksdb_options_t *options[FAMILIES] = {b->options, b->options};
	b->db = rocksdb_open_column_families(b->options, dir, FAMILIES, names, options, b->families, err);
}

int64_t bare_gets(bare *b, const char *keys, size_t klen, int64_t n, char **err) {
	int64_t found = 0;
	char value[28];
	for (int64_t i = 0; i < n && *err == NULL; i++) {
		rocksdb_pinnableslice_t *slice = rocksdb_get_pinned_cf(b->db, b->read, b->families[0], keys + i * klen, klen, err);
		if (slice == NULL)
			continue;
		size_t len;
		const char *v = rocksdb_pinnableslice_value(slice, &len);
		if (len >= sizeof value) {
			memcpy(value, v, sizeof value);
			found += value[0] == 0;
		}
		rocksdb_pinnableslice_destroy(slice);
	}
	return found;
}
