/*
 * dsl/dsl_deadlist.c: sums over deadlists. A deadlist is a ZAP of bpobjs by birth, or in pools before version 26 one
 * plain bpobj.
 */
#include "dmu/bpobj.h"
#include "dsl/dsl_deadlist.h"
#include "dsl/dsl_live.h"

#define EMBEDDED_REDACTED 2 /* 02, 1.4 */

static void space_add(struct dsl_space *a, const struct dsl_space *b)
{
	a->used += b->used;
	a->comp += b->comp;
	a->uncomp += b->uncomp;
}

uint64_t dsl_bp_dsize(struct dsl_pool *p, const struct bp *bp)
{
	const struct vdev *root = p->dp->zp->root;
	uint64_t sum = 0;

	if (bp_is_embedded(bp) || bp_is_hole(bp))
		return 0;
	for (unsigned i = 0; i < bp_ndvas(bp); i++) {
		struct dva dva = bp_dva(bp, i);

		if (p->deflate && dva.vdev < root->nchildren && root->child[dva.vdev])
			sum += (dva.asize >> SECTOR_SHIFT) * vdev_deflate_ratio(root->child[dva.vdev]);
		else
			sum += dva.asize;
	}
	return sum;
}

bool dsl_bp_is_redacted(const struct bp *bp)
{
	return bp_is_embedded(bp) && bits64(bp->w[6], 40, 8) == EMBEDDED_REDACTED;
}

struct dsl_space dsl_bp_space(struct dsl_pool *p, const struct bp *bp)
{
	bool metadata = bp_level(bp) > 0 || dmu_type_is_metadata(bp_type(bp));

	if (bp_is_hole(bp) || dsl_bp_is_redacted(bp))
		return (struct dsl_space){0};
	return (struct dsl_space){
	    .used = dsl_bp_dsize(p, bp),
	    .comp = bp_is_embedded(bp) ? 0 : bp_psize(bp),
	    .uncomp = metadata ? bp_psize(bp) : bp_lsize(bp),
	};
}

uint64_t dsl_bp_birth(const struct bp *bp)
{
	bool rewritten = !bp_is_embedded(bp) && bits64(bp->w[7], 63, 1);

	return rewritten ? bp_physical_birth(bp) : bp_birth(bp);
}

static int bpobj_space(struct dsl_pool *p, uint64_t object, struct dsl_space *out)
{
	struct bpobj_phys b;
	int err = bpobj_read(p->mos, object, &b);

	if (!err)
		*out = (struct dsl_space){b.bytes, b.comp, b.uncomp};
	return err;
}

static int deadlist_hold(struct dsl_pool *p, uint64_t deadlist, struct dnode **dn)
{
	return deadlist ? dnode_hold(p->mos, deadlist, dn, NULL) : -ENOENT;
}

int dsl_deadlist_space(struct dsl_pool *p, uint64_t deadlist, struct dsl_space *out)
{
	struct dnode *dn;
	uint64_t w[3];
	int err = deadlist_hold(p, deadlist, &dn);

	if (err)
		return err;
	if (dn->type == DMU_OT_BPOBJ)
		err = bpobj_space(p, deadlist, out);
	else if (dmu_bonus_words(dn, w, 3) < 3)
		err = -EINVAL;
	else
		*out = (struct dsl_space){w[0], w[1], w[2]};
	dnode_release(dn);
	return err;
}

struct range_sum {
	struct dsl_pool *pool;
	uint64_t min_txg, max_txg;
	struct dsl_space sum;
};

static int range_add_bp(void *arg, const struct bp *bp, bool freed)
{
	struct range_sum *r = arg;
	uint64_t birth = dsl_bp_birth(bp);
	struct dsl_space s;

	if (freed || birth <= r->min_txg || birth > r->max_txg)
		return 0;
	s = dsl_bp_space(r->pool, bp);
	space_add(&r->sum, &s);
	return 0;
}

/* Keys are hexadecimal birth txgs, values bpobjs. */
static int range_add_entries(struct range_sum *r, uint64_t deadlist)
{
	struct name_list l;
	int err = name_list_read(r->pool->mos, deadlist, &l);

	for (size_t i = 0; i < l.n && !err; i++) {
		uint64_t key = strtoull(l.e[i].name, NULL, 16);
		struct dsl_space s;

		if (key < r->min_txg || key >= r->max_txg)
			continue;
		err = bpobj_space(r->pool, l.e[i].object, &s);
		if (!err)
			space_add(&r->sum, &s);
	}
	if (!err)
		err = l.err;
	name_list_free(&l);
	return err;
}

int dsl_deadlist_space_range(struct dsl_pool *p, uint64_t deadlist, uint64_t min_txg, uint64_t max_txg,
			     struct dsl_space *out)
{
	struct range_sum r = {.pool = p, .min_txg = min_txg, .max_txg = max_txg};
	struct dnode *dn;
	int err = deadlist_hold(p, deadlist, &dn);

	if (err)
		return err;
	if (dn->type == DMU_OT_BPOBJ)
		err = bpobj_iterate(p->mos, deadlist, range_add_bp, &r);
	else
		err = range_add_entries(&r, deadlist);
	dnode_release(dn);
	*out = r.sum;
	return err;
}

/* --- written --- */

/* 4.13. `fbn`: what was freed before the next snapshot, of a bookmark; NULL for a snapshot. */
static int written_walk(struct dsl_dataset *ds, uint64_t old_txg, const struct dsl_space *old,
			const struct dsl_space *fbn, struct dsl_space *out)
{
	struct dsl_pool *p = ds->pool;
	uint64_t deadlist = ds->deadlist, prev = ds->prev_snap, prev_txg = ds->prev_snap_txg;
	struct dsl_space w = {ds->used - old->used, ds->compressed - old->comp, ds->uncompressed - old->uncomp};
	struct dsl_space s;
	int err;

	while (prev_txg > old_txg) {
		struct dataset_peek peek;

		err = dsl_deadlist_space_range(p, deadlist, 0, old_txg, &s);
		if (!err)
			err = dsl_dataset_peek(p, prev, &peek);
		if (err)
			return err;
		if (peek.prev_snap_txg >= prev_txg)
			return -EINVAL; /* a loop */
		space_add(&w, &s);
		deadlist = peek.deadlist;
		prev = peek.prev_snap;
		prev_txg = peek.prev_snap_txg;
	}
	if (fbn) {
		space_add(&w, fbn);
	} else {
		err = dsl_deadlist_space(p, deadlist, &s);
		if (err)
			return err;
		space_add(&w, &s);
	}
	*out = w;
	return 0;
}

bool dsl_timeline_has(struct dsl_dir *dir, uint64_t txg, uint64_t old_dir, uint64_t old_object, uint64_t old_txg)
{
	struct dataset_peek origin;
	struct dsl_dir *d = dsl_dir_ref(dir), *next;
	bool found = false;

	for (unsigned depth = 0; depth < 4 * DSL_DEPTH_MAX; depth++) {
		if (d->object == old_dir) {
			found = old_txg < txg;
			break;
		}
		if (!dsl_dir_is_clone(d) || dsl_dataset_peek(d->pool, d->origin, &origin))
			break;
		if (d->origin == old_object) {
			found = true;
			break;
		}
		if (dsl_dir_hold(d->pool, origin.dir, &next, NULL))
			break;
		dsl_dir_release(d);
		d = next;
		txg = origin.creation_txg;
	}
	dsl_dir_release(d);
	return found;
}

static uint64_t point_in_time(const struct dsl_dataset *ds)
{
	return ds->is_snapshot ? ds->creation_txg : UINT64_MAX;
}

int dsl_written_since(struct dsl_dataset *ds, struct dsl_dataset *old, struct dsl_space *out)
{
	DSL_SHARED(ds->pool);
	struct dsl_space size = {old->used, old->compressed, old->uncompressed};

	if (!old->is_snapshot ||
	    !dsl_timeline_has(ds->dir, point_in_time(ds), old->dir->object, old->object, old->creation_txg))
		return -EXDEV;
	return written_walk(ds, old->creation_txg, &size, NULL, out);
}

int dsl_written_since_bookmark(struct dsl_dataset *ds, const struct dsl_bookmark *b, struct dsl_space *out)
{
	DSL_SHARED(ds->pool);
	struct dsl_space size = {b->referenced, b->compressed, b->uncompressed};
	struct dsl_space fbn = {b->fbn[0], b->fbn[1], b->fbn[2]};

	if (!b->written_valid || b->creation_txg >= point_in_time(ds))
		return -EXDEV;
	return written_walk(ds, b->creation_txg, &size, &fbn, out);
}

int dsl_written(struct dsl_dataset *ds, uint64_t *used)
{
	DSL_SHARED(ds->pool);
	struct dataset_peek prev;
	struct dsl_space s;
	int err;

	if (ds->prev_snap == 0)
		return -ENOENT;
	err = dsl_dataset_peek(ds->pool, ds->prev_snap, &prev);
	if (!err)
		err = dsl_deadlist_space(ds->pool, ds->deadlist, &s);
	if (!err)
		*used = ds->used - prev.used + s.used;
	return err;
}

int dsl_snapshots_reclaim(struct dsl_dataset *first, struct dsl_dataset *last, uint64_t *used)
{
	struct dsl_pool *p = first->pool;
	DSL_SHARED(p);
	uint64_t object = last->next_snap, sum = 0, newer = UINT64_MAX;
	struct dataset_peek s;
	struct dsl_space r;
	int err;

	if (!first->is_snapshot || !last->is_snapshot || first->dir != last->dir ||
	    first->creation_txg > last->creation_txg)
		return -EXDEV;
	do {
		err = dsl_dataset_peek(p, object, &s);
		if (!err && s.prev_snap_txg >= newer)
			err = -EINVAL;
		if (!err)
			err = dsl_deadlist_space_range(p, s.deadlist, first->prev_snap_txg, UINT64_MAX, &r);
		if (err)
			return err;
		sum += r.used;
		newer = s.prev_snap_txg;
		object = s.prev_snap;
	} while (object != first->object && newer > first->creation_txg);
	*used = sum;
	return 0;
}
