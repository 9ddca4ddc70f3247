/*
 * dsl/ddt.h: deduplication tables (docs/format/04, A2) and block reference tables (A3). Read side.
 */
#ifndef DSL_DDT_H
#define DSL_DDT_H

#include "dsl/dsl.h"

/* Histogram and totals of all tables, as `zpool status -D` and zdb -D print them (A2.6). */
int ddt_stats_get(struct dsl_pool *p, struct nvlist **out);
struct ddt_entry {
	enum checksum checksum;
	struct cksum key;
	uint64_t prop; /* sizes, compression of the key */
	struct {
		uint64_t dva[6]; /* three DVAs as stored words */
		uint64_t refcount, birth;
	} phys[4];
	unsigned nphys;
	unsigned cls; /* ditto 0, duplicate 1, unique 2 */
};
int ddt_each(struct dsl_pool *p, int (*fn)(void *arg, const struct ddt_entry *e), void *arg);
/* References of a block beyond the first (cloned blocks); 0 when not in the table. */
int brt_refcount(struct dsl_pool *p, uint64_t vdev, uint64_t offset, uint64_t *refs);
int brt_stats_get(struct dsl_pool *p, struct nvlist **out);

#endif
