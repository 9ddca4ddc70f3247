/*
 * dsl/ddt.h: deduplication tables (docs/format/04-crypto-dedup-clone.md, A2) and block reference tables (A3). Read
 * side; blocking, any thread but cpu workers. Nothing is cached: every call reads what it needs through the ARC.
 *
 * A table of the "fast dedup" kind has a log whose entries are newer than those of its ZAPs; iteration merges both, and
 * statistics count the logged entries in, as an import for writing would after flushing.
 */
#ifndef DSL_DDT_H
#define DSL_DDT_H

#include "dsl/dsl.h"

enum ddt_class { DDT_DITTO = 0, DDT_DUPLICATE = 1, DDT_UNIQUE = 2, DDT_CLASSES };
const char *ddt_class_name(unsigned cls);

#define DDT_BUCKETS 64
/* By log2 of the reference count; the words of a bucket as stored (A2.6). */
struct ddt_histogram {
	struct ddt_bucket {
		uint64_t blocks, lsize, psize, dsize, ref_blocks, ref_lsize, ref_psize, ref_dsize;
	} bucket[DDT_BUCKETS];
};
void ddt_histogram_add(struct ddt_histogram *to, const struct ddt_histogram *h);
struct ddt_bucket ddt_histogram_total(const struct ddt_histogram *h);

#define DDT_FLAT 1u
#define DDT_LOG  2u

/* One ZAP of entries. */
struct ddt_object {
	uint64_t object; /* 0: there is none of this class */
	char name[32];   /* "DDT-sha256-zap-unique" */
	uint64_t entries, bytes_on_disk, bytes_in_core;
	struct ddt_histogram histogram; /* as stored: without the entries that are in a log */
};
struct ddt_log {
	uint64_t object;
	char name[32]; /* "DDT-log-sha256-0" */
	uint64_t length, first_txg;
	unsigned flags; /* as stored */
	uint64_t entries;
	uint64_t bytes_on_disk;
};
#define DDT_LOG_FLUSHING   1u
#define DDT_LOG_CHECKPOINT 2u

struct ddt_table {
	enum checksum checksum;
	unsigned version, flags;
	uint64_t root; /* the directory that holds its objects: 1 (the MOS directory) for legacy tables */
	struct ddt_object cls[DDT_CLASSES];
	struct ddt_log log[2]; /* object 0: none */
	struct ddt_histogram logged;
};
/* Every table of the pool; *out is malloc'd, NULL when there is none. -ENOTSUP: version or flags of the future. */
int ddt_tables_get(struct dsl_pool *p, struct ddt_table **out, size_t *n, struct err *e);

/*
 * Totals of all tables, for properties, `zpool status -D` and JSON: u64s "entries", "size_on_disk", "size_in_core",
 * "dedup_lsize", "dedup_psize", "dedup_dsize", "ref_lsize", "ref_psize", "ref_dsize", "ratio" (percent, 100 without
 * entries), and "histogram": 64 * 8 words in the order of ddt_bucket.
 */
int ddt_stats_get(struct dsl_pool *p, struct nvlist **out);

struct ddt_entry {
	enum checksum checksum;
	struct cksum key;
	uint64_t prop; /* sizes, compression and crypt bit of the key */
	struct {
		uint64_t dva[6];          /* three DVAs as stored words */
		uint64_t refcount, birth; /* birth 0: slot unused */
	} phys[4];
	unsigned nphys;   /* 4 of the legacy kind (slot 0 obsolete, 1 - 3 by copies), 1 of the flat kind */
	unsigned cls;     /* ditto 0, duplicate 1, unique 2: where it is stored or, when logged, belongs */
	bool logged;      /* from a log; its references may be 0: then the block is freed at the next flush */
	uint64_t changed; /* flat kind: UNIX time of the last change */
	uint64_t cookie;  /* ZAP cursor behind the entry; 0 when logged */
};
/* Order: tables by checksum id, their classes in order, then what is only in the log. Stops at a non-zero return of
 * fn, which is returned. A damaged entry is -EINVAL, after all others were told. */
int ddt_each(struct dsl_pool *p, int (*fn)(void *arg, const struct ddt_entry *e), void *arg);
/* The pointer of slot i as the tables' own reader rebuilds it (type "deduplicated block"). */
void ddt_entry_bp(const struct ddt_entry *e, unsigned i, struct bp *bp);
uint64_t ddt_entry_refs(const struct ddt_entry *e); /* of all slots */
/* Decode the value of an entry ZAP: `flat` or legacy payload behind its first byte. -EINVAL when it is damaged. */
int ddt_value_decode(const uint8_t *value, size_t len, bool flat, struct ddt_entry *e);
/* Records of one block of a dedup log; -EINVAL at a damaged one. */
int ddt_log_block_each(const uint8_t *block, size_t size, bool flat, bool swap,
		       int (*fn)(void *arg, const struct ddt_entry *e), void *arg);

/* --- block reference tables --- */

/* References of a block beyond the first (cloned blocks); 0 when not in the table. */
int brt_refcount(struct dsl_pool *p, uint64_t vdev, uint64_t offset, uint64_t *refs);
/* Every entry, by vdev; stops at a non-zero return. */
int brt_each(struct dsl_pool *p, int (*fn)(void *arg, uint64_t vdev, uint64_t offset, uint64_t refs), void *arg);
/*
 * { "used", "saved", "ratio" (percent, 100 without entries),
 *   "vdevs": [ { "vdev", "object", "entries_object", "entries", "used", "saved" } ] }; bytes.
 */
int brt_stats_get(struct dsl_pool *p, struct nvlist **out);

#endif
