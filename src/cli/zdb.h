/*
 * cli/zdb.h: what the files of the zdb command share. tarn zdb reads the devices itself, whatever else has the pool
 * open: it writes nothing, takes no lock, asks no daemon.
 *
 *   zdb.c         options, finding and opening the pool         zdb_label.c   labels, uberblocks, configuration
 *   zdb_blocks.c  -b -c: every block of the pool, counted       zdb_types.c   tables of the counts
 *   zdb_dedup.c   -D, -S
 *   zdb_dataset.c -d: data sets and their objects               zdb_object.c  what objects hold
 *   zdb_log.c     -i: intent logs                               zdb_space.c   -m -y: metaslabs
 *   zdb_raw.c     -R: bytes of a device
 *
 * Output is near to OpenZFS's zdb, so that people and scripts find their way; where it differs it says more.
 * One thread prints; completions of -c print their errors under a lock.
 */
#ifndef CLI_ZDB_H
#define CLI_ZDB_H

#include <inttypes.h>

#include "alloc/spacemap.h"
#include "cli/cli.h"
#include "spa/spa.h"

#define ZDB_DAMAGE 3 /* exit code for leaks and unreadable blocks, as zdb's */

struct zdb {
	unsigned opt[128]; /* how often each letter was given */
	const char **dirs; /* -p */
	size_t ndirs;
	uint64_t txg; /* -t */
	struct arc *arc;
	struct spa *spa;
	const char *dataset; /* after the pool's name: "/fs", "@snap", "/", or "" */
	char **objects;      /* OBJECT and RANGE arguments */
	int nobjects;
	int rc;
};

static inline bool zdb_has(const struct zdb *z, char letter)
{
	return z->opt[(unsigned char)letter] > 0;
}
static inline unsigned zdb_level(const struct zdb *z, char letter)
{
	return z->opt[(unsigned char)letter];
}
/* Sizes and counts: short, or all digits with -P. */
const char *zdb_number(const struct zdb *z, uint64_t n, char out[SIZE_TEXT]);
/* Prints to stderr and makes the exit code 1 unless it is worse already. */
void zdb_warn(struct zdb *z, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "Mon Nov 30 10:01:49 2026" */
const char *zdb_date(uint64_t seconds, char out[64]);

/* --- zdb_label.c --- */
int zdb_labels(struct zdb *z, const char *device);
void zdb_uberblock(const struct zdb *z, const struct uberblock *ub, unsigned level);
void zdb_config(struct zdb *z);

/* --- zdb_blocks.c --- */
void zdb_blocks(struct zdb *z);

/* --- zdb_types.c --- */
#define ZDB_TYPES  58 /* the old-style types, then: */
#define ZDB_OTHER  56 /* new-style types */
#define ZDB_DEFER  54 /* freed, not yet reclaimed */
#define ZDB_DITTO  55
#define ZDB_TOTAL  57
#define ZDB_LEVELS 33 /* the last one: all levels */
#define ZDB_SIZES  17 /* histogram rows: 512 .. 32M */
struct zdb_count {
	uint64_t count, lsize, psize, asize, gangs;
};
struct zdb_totals {
	const struct vdev *root; /* for the size of metaslabs */
	struct zdb_count type[ZDB_TYPES][ZDB_LEVELS];
	struct zdb_count metadata;
	uint64_t embedded[8], embedded_size[8][113];
	uint64_t ditto_vdev, ditto_metaslab;
	uint64_t dedup_asize, dedup_blocks, clone_asize, clone_blocks;
	struct zdb_count histogram[3][ZDB_SIZES]; /* count and psize: by physical, logical, allocated size */
};
/* Bytes of the data inside an embedded pointer, as they are there (02 1.4). */
static inline uint64_t zdb_embedded_size(const struct bp *bp)
{
	return bits64(bp->w[6], 25, 7) + 1;
}
/* One block pointer that is stored in the pool; type: index above. */
void zdb_totals_add(struct zdb_totals *t, const struct bp *bp, unsigned type);
unsigned zdb_type_index(const struct bp *bp);
void zdb_totals_print(const struct zdb *z, const struct zdb_totals *t);
void zdb_types_print(const struct zdb *z, const struct zdb_totals *t, bool levels);
void zdb_sizes_print(const struct zdb *z, const struct zdb_totals *t);
void zdb_embedded_print(const struct zdb *z, const struct zdb_totals *t);
/* "   9:      7 *******" for the buckets from the first to the last that is not empty. */
void zdb_histogram_print(const uint64_t *bucket, unsigned n, unsigned first);

/* --- zdb_dedup.c --- */
void zdb_ddt(struct zdb *z);
void zdb_simulate(struct zdb *z);

/* --- zdb_dataset.c, zdb_object.c --- */
void zdb_datasets(struct zdb *z);
struct zdb_view {
	struct zdb *z;
	struct objset *os;
	struct dsl_dataset *ds; /* NULL: the MOS */
	struct zpl *zpl;        /* NULL: no file system, or its key is not loaded */
	unsigned level;         /* how much to tell: as many as the letters */
	bool header;            /* the column headings are still to be printed */
};
void zdb_object(struct zdb_view *v, struct dnode *dn);
/* "0:1000:200 20000L/400P F=1 B=8/8 cksum=..." */
void zdb_bp_compact(const struct bp *bp, struct str *out);

/* --- zdb_log.c --- */
void zdb_log(struct zdb *z, struct objset *os, bool snapshot);

/* --- zdb_space.c --- */
void zdb_metaslabs(struct zdb *z);
void zdb_space_check(struct zdb *z);

/* --- zdb_raw.c --- */
void zdb_raw(struct zdb *z, char **specs, int n);

#endif
