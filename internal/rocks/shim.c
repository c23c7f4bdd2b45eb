//go:build cgo

#include "shim.h"

#include <stdlib.h>
#include <string.h>

typedef struct rocksdb_iterator_t rocksdb_iterator_t;
typedef struct rocksdb_writebatch_t rocksdb_writebatch_t;
typedef struct rocksdb_pinnableslice_t rocksdb_pinnableslice_t;

extern rocksdb_pinnableslice_t *rocksdb_get_pinned_cf(rocksdb_t *, const rocksdb_readoptions_t *,
                                                      rocksdb_column_family_handle_t *, const char *, size_t, char **);
extern const char *rocksdb_pinnableslice_value(const rocksdb_pinnableslice_t *, size_t *);
extern void rocksdb_pinnableslice_destroy(rocksdb_pinnableslice_t *);

extern rocksdb_iterator_t *rocksdb_create_iterator_cf(rocksdb_t *, const rocksdb_readoptions_t *,
                                                      rocksdb_column_family_handle_t *);
extern void rocksdb_iter_destroy(rocksdb_iterator_t *);
extern unsigned char rocksdb_iter_valid(const rocksdb_iterator_t *);
extern void rocksdb_iter_seek(rocksdb_iterator_t *, const char *, size_t);
extern void rocksdb_iter_seek_for_prev(rocksdb_iterator_t *, const char *, size_t);
extern void rocksdb_iter_next(rocksdb_iterator_t *);
extern void rocksdb_iter_prev(rocksdb_iterator_t *);
extern const char *rocksdb_iter_key(const rocksdb_iterator_t *, size_t *);
extern const char *rocksdb_iter_value(const rocksdb_iterator_t *, size_t *);
extern void rocksdb_iter_get_error(const rocksdb_iterator_t *, char **);

extern rocksdb_writebatch_t *rocksdb_writebatch_create_from(const char *, size_t);
extern void rocksdb_writebatch_destroy(rocksdb_writebatch_t *);
extern void rocksdb_write(rocksdb_t *, const rocksdb_writeoptions_t *, rocksdb_writebatch_t *, char **);

extern void rocksdb_sstfilewriter_put(rocksdb_sstfilewriter_t *, const char *, size_t, const char *, size_t, char **);

extern rocksdb_compactionfilter_t *rocksdb_compactionfilter_create(
	void *state, void (*destructor)(void *),
	unsigned char (*filter)(void *, int, const char *, size_t, const char *, size_t, char **, size_t *, unsigned char *),
	const char *(*name)(void *));

enum { SLOT_BYTES = 8, VALUE_BYTES = 28, MAX_KEY = 512 };

static int64_t get64(const char *p) {
	uint64_t v;
	memcpy(&v, p, 8);
	return (int64_t)__builtin_bswap64(v);
}

static void put64(char *p, int64_t x) {
	uint64_t v = __builtin_bswap64((uint64_t)x);
	memcpy(p, &v, 8);
}

static void decode(const char *p, tmq_unit *u) {
	uint32_t size;
	memcpy(&size, p + 8, 4);
	u->phy = get64(p);
	u->size = (int32_t)__builtin_bswap32(size);
	u->tags = get64(p + 12);
	u->time = get64(p + 20);
	u->pad = 0;
}

static void encode(const tmq_unit *u, char *p) {
	uint32_t size = __builtin_bswap32((uint32_t)u->size);
	put64(p, u->phy);
	memcpy(p + 8, &size, 4);
	put64(p + 12, u->tags);
	put64(p + 20, u->time);
}

static char *fail(const char *text) {
	char *s = malloc(strlen(text) + 1);
	if (s != NULL) {
		strcpy(s, text);
	}
	return s;
}

// at tells whether the iterator stands on a row of the queue that key belongs to; if so it stores the row's slot, and the
// unit unless the value is too short to be one (then *u is untouched and *whole is 0).
static int at(rocksdb_iterator_t *it, const char *key, size_t klen, int64_t *slot, tmq_unit *u, int *whole) {
	size_t kn, vn;
	if (!rocksdb_iter_valid(it)) {
		return 0;
	}
	const char *k = rocksdb_iter_key(it, &kn);
	if (kn != klen || memcmp(k, key, klen - SLOT_BYTES) != 0) {
		return 0;
	}
	*slot = get64(k + klen - SLOT_BYTES);
	const char *v = rocksdb_iter_value(it, &vn);
	*whole = vn >= VALUE_BYTES;
	if (*whole) {
		decode(v, u);
	}
	return 1;
}

// get reads one unit: a point look-up costs half of what an iterator does.
static int64_t get(rocksdb_t *db, rocksdb_readoptions_t *ro, rocksdb_column_family_handle_t *cf, const char *key,
                   size_t klen, tmq_unit *out, char **errptr) {
	size_t vn;
	int64_t got = 0;
	rocksdb_pinnableslice_t *s = rocksdb_get_pinned_cf(db, ro, cf, key, klen, errptr);
	if (s == NULL) {
		return 0;
	}
	const char *v = rocksdb_pinnableslice_value(s, &vn);
	if (vn >= VALUE_BYTES) {
		decode(v, out);
		got = 1;
	}
	rocksdb_pinnableslice_destroy(s);
	return got;
}

int64_t tmq_read_units(rocksdb_t *db, rocksdb_readoptions_t *ro, rocksdb_column_family_handle_t *cf, const char *key,
                       size_t klen, tmq_unit *out, int64_t n, char **errptr) {
	int64_t got = 0, want = get64(key + klen - SLOT_BYTES), slot;
	int whole;
	if (n == 1) {
		return get(db, ro, cf, key, klen, out, errptr);
	}
	rocksdb_iterator_t *it = rocksdb_create_iterator_cf(db, ro, cf);
	for (rocksdb_iter_seek(it, key, klen); got < n; rocksdb_iter_next(it)) {
		if (!at(it, key, klen, &slot, &out[got], &whole) || slot != want + got || !whole) {
			break;
		}
		got++;
	}
	rocksdb_iter_get_error(it, errptr);
	rocksdb_iter_destroy(it);
	return got;
}

// first stores in *f the first unit in slots [from, end). A row whose slot is negative sorts behind all others; it is none of them.
static int first(rocksdb_iterator_t *it, char *key, size_t klen, int64_t from, int64_t end, tmq_found *f) {
	int whole;
	put64(key + klen - SLOT_BYTES, from);
	rocksdb_iter_seek(it, key, klen);
	while (at(it, key, klen, &f->slot, &f->unit, &whole) && f->slot >= from && f->slot < end) {
		if (whole) {
			return 1;
		}
		rocksdb_iter_next(it);
	}
	f->slot = -1;
	return 0;
}

// last stores in *f the last unit in slots [from, end).
static int last(rocksdb_iterator_t *it, char *key, size_t klen, int64_t from, int64_t end, tmq_found *f) {
	int whole;
	put64(key + klen - SLOT_BYTES, end - 1);
	rocksdb_iter_seek_for_prev(it, key, klen);
	while (at(it, key, klen, &f->slot, &f->unit, &whole) && f->slot >= from) {
		if (whole) {
			return 1;
		}
		rocksdb_iter_prev(it);
	}
	f->slot = -1;
	return 0;
}

// In the slots from key's to end (exclusive) physical offsets rise with the slot. *from is the first unit at or above phy,
// *below the last unit under it. A slot without a unit says nothing; the search goes on at the next unit above it.
void tmq_lower_bound(rocksdb_t *db, rocksdb_readoptions_t *ro, rocksdb_column_family_handle_t *cf, const char *key,
                     size_t klen, int64_t end, int64_t phy, tmq_found *below, tmq_found *from, char **errptr) {
	char buf[MAX_KEY];
	tmq_found probe;
	int64_t start = get64(key + klen - SLOT_BYTES), lo = start, hi = end;
	below->slot = from->slot = -1;
	if (klen > MAX_KEY) {
		*errptr = fail("Invalid argument: key too long");
		return;
	}
	memcpy(buf, key, klen);
	rocksdb_iterator_t *it = rocksdb_create_iterator_cf(db, ro, cf);
	// The first unit usually decides: most queues have lost nothing.
	if (lo < hi && first(it, buf, klen, lo, hi, &probe)) {
		if (probe.unit.phy >= phy) {
			*from = probe;
			hi = lo;
		} else {
			lo = probe.slot + 1;
		}
	} else {
		hi = lo;
	}
	while (lo < hi) {
		int64_t mid = lo + (hi - lo) / 2;
		if (!first(it, buf, klen, mid, hi, &probe)) {
			hi = mid;
		} else if (probe.unit.phy >= phy) {
			*from = probe;
			hi = mid;
		} else {
			lo = probe.slot + 1;
		}
	}
	if (hi > start) {
		last(it, buf, klen, start, hi, below);
	}
	rocksdb_iter_get_error(it, errptr);
	rocksdb_iter_destroy(it);
}

// timed tells what a unit that the search by time met is good for.
static int timed(const tmq_unit *u) {
	if (u->size <= 0 || u->phy < 0) {
		return TMQ_IMPOSSIBLE;
	}
	return u->time < 0 ? TMQ_NO_TIME : TMQ_DONE;
}

// In the slots from key's to end (exclusive) store times rise with the slot, or stay. at->slot is the first unit stored at ms or
// later, end when there is none; below->slot the last one before it, one less than key's slot when there is none. A slot without a unit says
// nothing; the search goes on at the next unit above it. It ends early, with at as the unit, when that one tells no time.
// Package cq says the same in Go, step for step.
int tmq_time_bound(rocksdb_t *db, rocksdb_readoptions_t *ro, rocksdb_column_family_handle_t *cf, const char *key,
                   size_t klen, int64_t end, int64_t ms, tmq_found *below, tmq_found *at, char **errptr) {
	char buf[MAX_KEY];
	tmq_found probe;
	int64_t lo = get64(key + klen - SLOT_BYTES), hi = end;
	int is = TMQ_DONE;
	below->slot = lo - 1;
	at->slot = end;
	if (klen > MAX_KEY) {
		*errptr = fail("Invalid argument: key too long");
		return TMQ_DONE;
	}
	memcpy(buf, key, klen);
	rocksdb_iterator_t *it = rocksdb_create_iterator_cf(db, ro, cf);
	// The last unit first: most who ask want what is new.
	for (int64_t mid = end - 1; lo < hi; mid = lo + (hi - lo) / 2) {
		if (!first(it, buf, klen, mid, hi, &probe)) {
			hi = mid;
			continue;
		}
		is = timed(&probe.unit);
		if (is != TMQ_DONE) {
			*at = probe;
			break;
		}
		if (probe.unit.time >= ms) {
			*at = probe;
			hi = mid;
		} else {
			*below = probe;
			lo = probe.slot + 1;
		}
	}
	rocksdb_iter_get_error(it, errptr);
	rocksdb_iter_destroy(it);
	return is;
}

int64_t tmq_sst_put_units(rocksdb_sstfilewriter_t *w, const char *key, size_t klen, const tmq_unit *units, int64_t n,
                          char **errptr) {
	char buf[MAX_KEY], value[VALUE_BYTES];
	int64_t slot = get64(key + klen - SLOT_BYTES);
	if (klen > MAX_KEY) {
		*errptr = fail("Invalid argument: key too long");
		return 0;
	}
	memcpy(buf, key, klen);
	for (int64_t i = 0; i < n; i++) {
		put64(buf + klen - SLOT_BYTES, slot + i);
		encode(&units[i], value);
		rocksdb_sstfilewriter_put(w, buf, klen, value, VALUE_BYTES, errptr);
		if (*errptr != NULL) {
			return i;
		}
	}
	return n;
}

// Copies the rows below before, which is no row of theirs itself, from the greatest down, as long as they begin with prefix; the first that does not is copied too,
// without its value, and ends it. *more tells that out was full. A row that does not fit into an empty out is passed over.
int64_t tmq_rows_before(rocksdb_t *db, rocksdb_readoptions_t *ro, rocksdb_column_family_handle_t *cf, const char *before,
                        size_t blen, const char *prefix, size_t plen, char *out, size_t cap, int *more, char **errptr) {
	size_t used = 0;
	*more = 0;
	rocksdb_iterator_t *it = rocksdb_create_iterator_cf(db, ro, cf);
	rocksdb_iter_seek_for_prev(it, before, blen);
	for (; rocksdb_iter_valid(it); rocksdb_iter_prev(it)) {
		size_t kn, vn;
		const char *k = rocksdb_iter_key(it, &kn);
		const char *v = rocksdb_iter_value(it, &vn);
		if (used == 0 && kn == blen && memcmp(k, before, kn) == 0) {
			continue;
		}
		int is = kn >= plen && memcmp(k, prefix, plen) == 0;
		if (!is) {
			vn = 0;
		}
		if (kn > cap || vn > cap || 8 + kn + vn > cap - used) {
			if (used == 0) {
				continue;
			}
			*more = 1;
			break;
		}
		uint32_t lengths[2] = {(uint32_t)kn, (uint32_t)vn};
		memcpy(out + used, lengths, 8);
		memcpy(out + used + 8, k, kn);
		memcpy(out + used + 8 + kn, v, vn);
		used += 8 + kn + vn;
		if (!is) {
			break;
		}
	}
	rocksdb_iter_get_error(it, errptr);
	rocksdb_iter_destroy(it);
	return (int64_t)used;
}

void tmq_write(rocksdb_t *db, rocksdb_writeoptions_t *wo, const char *rep, size_t len, char **errptr) {
	rocksdb_writebatch_t *b = rocksdb_writebatch_create_from(rep, len);
	rocksdb_write(db, wo, b, errptr);
	rocksdb_writebatch_destroy(b);
}

// The filter runs on RocksDB's compaction threads; Go stores the bound with an atomic write.
static unsigned char expired(void *state, int level, const char *key, size_t klen, const char *value, size_t vlen,
                             char **new_value, size_t *new_len, unsigned char *changed) {
	(void)level, (void)key, (void)new_value, (void)new_len;
	*changed = 0;
	return klen > 0 && vlen >= VALUE_BYTES && get64(value) < __atomic_load_n((int64_t *)state, __ATOMIC_RELAXED);
}

static const char *filter_name(void *state) {
	(void)state;
	return "TandemMQExpiredUnits";
}

// The state belongs to Go.
static void keep_state(void *state) { (void)state; }

rocksdb_compactionfilter_t *tmq_filter_create(int64_t *min_phy) {
	return rocksdb_compactionfilter_create(min_phy, keep_state, expired, filter_name);
}
