/*
 * dsl/dsl_deadlist.h: space by deadlists: what was written since a snapshot, what snapshots hold
 * (docs/format/03-datasets.md 2.1, 3.3, 4.13). Read side; blocking.
 */
#ifndef DSL_DSL_DEADLIST_H
#define DSL_DSL_DEADLIST_H

#include "dsl/dsl.h"

/* The three sizes of 2.1, in bytes: deflated, physical, logical. */
struct dsl_space {
	uint64_t used, comp, uncomp;
};

/* Deflated bytes of one pointer (2.1). */
uint64_t dsl_bp_dsize(struct dsl_pool *p, const struct bp *bp);

int dsl_deadlist_space(struct dsl_pool *p, uint64_t deadlist, struct dsl_space *out);
/* Blocks born in (min_txg, max_txg]; both are keys of the deadlist, max_txg may be UINT64_MAX. */
int dsl_deadlist_space_range(struct dsl_pool *p, uint64_t deadlist, uint64_t min_txg, uint64_t max_txg,
			     struct dsl_space *out);

/* Bytes of `ds` written after `old`, an earlier snapshot in its timeline. -EXDEV when it is not earlier. */
int dsl_written_since(struct dsl_dataset *ds, struct dsl_dataset *old, struct dsl_space *out);
/* The same after a bookmark that knows its sizes; -EXDEV also when it does not. */
int dsl_written_since_bookmark(struct dsl_dataset *ds, const struct dsl_bookmark *b, struct dsl_space *out);
/* Property `written`: since the previous snapshot. -ENOENT when the data set has none. */
int dsl_written(struct dsl_dataset *ds, uint64_t *used);
/* Bytes that destroying the snapshots first..last (of one dir, in that order of age) frees. */
int dsl_snapshots_reclaim(struct dsl_dataset *first, struct dsl_dataset *last, uint64_t *used);

#endif
