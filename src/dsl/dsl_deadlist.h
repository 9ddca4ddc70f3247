/*
 * dsl/dsl_deadlist.h: space by deadlists: what was written since a snapshot, what snapshots hold
 * (docs/format/03-datasets.md 2.1, 3.3, 4.13); changing deadlists and livelists. Blocking.
 */
#ifndef DSL_DSL_DEADLIST_H
#define DSL_DSL_DEADLIST_H

#include "dmu/bpobj.h"
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

/*
 * --- writing; the sync thread, in syncing context ---
 *
 * An open deadlist or livelist (same form, 3.6): its keys, and the bpobjs that got entries. One handle per object at a
 * time: who holds it, as a live data set does, also asks it for sums. Entries and sums are gathered in memory until
 * dsl_deadlist_flush, which must come before the MOS is synced and before anybody reads the object by its number.
 * Both forms: the ZAP of bpobjs, and the plain bpobj of pools before version 26, for which keys are nothing (functions
 * on keys do nothing). Errors are those of reading the MOS; -ENOENT: no such key. After an error the list is damaged:
 * the caller gives up the group.
 */
struct dsl_deadlist;
/* Without keys. A plain bpobj in pools before version 26. */
int dsl_deadlist_create(struct dsl_pool *p, struct tx *tx, uint64_t *object);
int dsl_deadlist_open(struct dsl_pool *p, uint64_t object, struct dsl_deadlist **out);
int dsl_deadlist_flush(struct dsl_deadlist *dl, struct tx *tx);
void dsl_deadlist_close(struct dsl_deadlist *dl); /* flushed; NULL is fine */
/* The object, its bpobjs, not their blocks. Nobody has it open. */
int dsl_deadlist_free(struct dsl_pool *p, uint64_t object, struct tx *tx);

/* freed: livelists only. */
int dsl_deadlist_insert(struct dsl_deadlist *dl, const struct bp *bp, bool freed, struct tx *tx);
int dsl_deadlist_add_key(struct dsl_deadlist *dl, uint64_t key, struct tx *tx); /* above all others */
int dsl_deadlist_remove_key(struct dsl_deadlist *dl, uint64_t key, struct tx *tx);
int dsl_deadlist_remove_entry(struct dsl_deadlist *dl, uint64_t key, struct tx *tx);
int dsl_deadlist_clear_entry(struct dsl_deadlist *dl, uint64_t key, struct tx *tx);
/* A new object with the keys below max_key. prev_snap: the data set's latest snapshot (0: none), from which the keys of
 * a plain bpobj's clone are made. */
int dsl_deadlist_clone(struct dsl_deadlist *dl, uint64_t prev_snap, uint64_t max_key, struct tx *tx, uint64_t *object);
/* Entries of blocks born after min_key to another list (free_bpobj). */
int dsl_deadlist_move(struct dsl_deadlist *dl, struct bpobj *to, uint64_t min_key, struct tx *tx);
/* Everything of `other`, which nobody has open; it is empty then, and still there. */
int dsl_deadlist_merge(struct dsl_deadlist *dl, uint64_t other, struct tx *tx);

/* As dsl_deadlist_space and _space_range, what is not flushed included. */
void dsl_deadlist_sums(const struct dsl_deadlist *dl, struct dsl_space *out);
int dsl_deadlist_sums_range(struct dsl_deadlist *dl, uint64_t min_txg, uint64_t max_txg, struct dsl_space *out);
/* Keys in ascending order with their bpobjs, for livelists. The bpobj is up to date after dsl_deadlist_flush. */
size_t dsl_deadlist_nkeys(const struct dsl_deadlist *dl);
void dsl_deadlist_key(const struct dsl_deadlist *dl, size_t i, uint64_t *key, uint64_t *bpobj);
bool dsl_deadlist_has_key(const struct dsl_deadlist *dl, uint64_t key);

/* Lists as this pool makes them (02, 10.2), and references on the one empty list that deadlists share (3.2). */
int dsl_bpobj_create(struct dsl_pool *p, struct tx *tx, uint64_t *object);
int dsl_bpobj_alloc_empty(struct dsl_pool *p, struct tx *tx, uint64_t *object);
int dsl_bpobj_free_empty(struct dsl_pool *p, uint64_t object, struct tx *tx);
bool dsl_bpobj_is_shared_empty(struct dsl_pool *p, uint64_t object);
/* `sub` becomes part of `b`; a reference on the shared empty list is dropped. */
int dsl_bpobj_enqueue_sub(struct dsl_pool *p, struct bpobj *b, uint64_t sub, struct tx *tx);

#endif
