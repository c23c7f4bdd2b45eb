#ifndef TANDEMMQ_BENCH_BARE_H
#define TANDEMMQ_BENCH_BARE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// The handful of RocksDB's C functions that are needed, declared in bare.c so that this package needs no include path of RocksDB's.
typedef struct rocksdb_t rocksdb_t;
typedef struct rocksdb_options_t rocksdb_options_t;
typedef struct rocksdb_readoptions_t rocksdb_readoptions_t;
typedef struct rocksdb_cache_t rocksdb_cache_t;
typedef struct rocksdb_column_family_handle_t rocksdb_column_family_handle_t;

enum { FAMILIES = 2 };

typedef struct {
	rocksdb_options_t *options;
	rocksdb_cache_t *cache;
	rocksdb_readoptions_t *read;
	rocksdb_t *db;
	rocksdb_column_family_handle_t *families[FAMILIES];
} bare;

// Opens the database in dir as a store does, for writing too, which costs a get a look into the memtable; with a block cache of that many bytes. On failure *err is a message to be freed; bare_close is called all the same.
void bare_open(bare *b, const char *dir, size_t cache, char **err);
void bare_close(bare *b);

// Gets n rows, whose keys of klen bytes lie one after the other, and copies 28 bytes of each. Returns how many were there.
int64_t bare_gets(bare *b, const char *keys, size_t klen, int64_t n, char **err);

#endif
