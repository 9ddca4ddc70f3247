/*
 * dsl/dsl_remap.c: remap deadlists (03-datasets.md 3.5): places on removed devices that only snapshots still refer to,
 * in pools where OpenZFS has written after a device was removed. Nothing here adds to them; they follow the snapshots.
 */
#include "dsl/dsl_write_impl.h"

#define KEY_REMAP        "com.delphix:remap_deadlist"
#define KEY_OBSOLETE     "com.delphix:obsolete_bpobj"
#define FEATURE_OBSOLETE "com.delphix:obsolete_counts"

uint64_t dsl_remap_take(struct dsl_dataset *ds, struct tx *tx)
{
	uint64_t object;

	if (dsl_dataset_ext_u64(ds, KEY_REMAP, &object))
		return 0;
	dsl_sync_check(ds->pool, zap_remove(ds->pool->mos, ds->object, KEY_REMAP, tx), "a data set cannot be changed");
	return object;
}

void dsl_remap_give(struct dsl_dataset *ds, uint64_t object, struct tx *tx)
{
	if (!object)
		return;
	dsl_dataset_extend(ds, tx);
	dsl_sync_check(ds->pool, zap_add_u64(ds->pool->mos, ds->object, KEY_REMAP, object, tx),
		       "a data set cannot be changed");
}

void dsl_remap_free(struct dsl_pool *p, uint64_t object, struct tx *tx)
{
	if (!object)
		return;
	deadlist_drop(p, object);
	dsl_sync_check(p, dsl_deadlist_free(p, object, tx), "a remap deadlist cannot be freed");
	dsl_feature_count(p, FEATURE_OBSOLETE, -1, tx);
}

/* The pool's list of what may be forgotten of removed devices. */
static uint64_t obsolete_list(struct dsl_pool *p, struct tx *tx)
{
	uint64_t object = 0;

	if (zap_lookup_u64(p->mos, MOS_DIRECTORY, KEY_OBSOLETE, &object) == 0)
		return object;
	if (dsl_sync_check(p, dsl_bpobj_create(p, tx, &object), "a list cannot be made"))
		return 0;
	dsl_sync_check(p, zap_add_u64(p->mos, MOS_DIRECTORY, KEY_OBSOLETE, object, tx),
		       "the pool's directory cannot be changed");
	dsl_feature_count(p, FEATURE_OBSOLETE, 1, tx);
	return object;
}

static void obsolete_move(struct dsl_pool *p, struct dsl_deadlist *dl, uint64_t txg, struct tx *tx)
{
	struct bpobj *list;
	uint64_t object = obsolete_list(p, tx);

	if (!object || dsl_sync_check(p, bpobj_open(p->mos, object, &list), "a list cannot be read"))
		return;
	dsl_sync_check(p, dsl_deadlist_move(dl, list, txg, tx), "a remap deadlist cannot be written");
	dsl_sync_check(p, bpobj_flush(list, tx), "a list cannot be written");
	bpobj_close(list);
}

/* A snapshot goes; what is on its list is `next`'s matter. */
void dsl_remap_pass_on(struct dsl_dataset *snap, struct dsl_dataset *next, struct tx *tx)
{
	struct dsl_pool *p = snap->pool;
	uint64_t from = dsl_remap_take(snap, tx), to;
	struct dsl_deadlist *dl;

	if (dsl_dataset_ext_u64(next, KEY_REMAP, &to)) {
		dsl_remap_give(next, from, tx);
		return;
	}
	dl = deadlist_get(p, to);
	if (!dl)
		return;
	obsolete_move(p, dl, snap->prev_snap_txg, tx);
	if (!from)
		return;
	deadlist_drop(p, from);
	dsl_sync_check(p, dsl_deadlist_merge(dl, from, tx), "a remap deadlist cannot be written");
	dsl_remap_free(p, from, tx);
}

void dsl_remap_key_remove(const struct dsl_dataset *head, uint64_t txg, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	struct dsl_deadlist *dl;
	uint64_t object;

	if (dsl_dataset_ext_u64(head, KEY_REMAP, &object))
		return;
	dl = deadlist_get(p, object);
	if (dl && dsl_deadlist_has_key(dl, txg))
		dsl_sync_check(p, dsl_deadlist_remove_key(dl, txg, tx), "a remap deadlist cannot be written");
}
