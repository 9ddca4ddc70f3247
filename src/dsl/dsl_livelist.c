/*
 * dsl/dsl_livelist.c: livelists (03-datasets.md 3.6). Clones made here have none; those of OpenZFS's clones are removed
 * when they would have to be kept up to date, and the ones of destroyed clones are freed block by block.
 */
#include "base/hash.h"
#include "dsl/dsl_write_impl.h"

#define KEY_LIVELIST     "com.delphix:livelist"
#define DELETED_CLONES   "com.delphix:deleted_clones"
#define FEATURE_LIVELIST "com.delphix:livelist"

void dsl_livelist_drop(struct dsl_dir *d, struct tx *tx)
{
	struct dsl_pool *p = d->pool;
	uint64_t object;

	if (dsl_dir_ext_u64(d, KEY_LIVELIST, &object))
		return;
	deadlist_drop(p, object);
	dsl_sync_check(p, dsl_deadlist_free(p, object, tx), "a livelist cannot be freed");
	dsl_sync_check(p, zap_remove(p->mos, d->object, KEY_LIVELIST, tx), "a data set directory cannot be changed");
	dsl_feature_count(p, FEATURE_LIVELIST, -1, tx);
}

bool dsl_livelist_give_away(struct dsl_dir *d, struct tx *tx)
{
	struct dsl_pool *p = d->pool;
	struct dsl_space live;
	uint64_t object, set = 0;

	if (dsl_dir_ext_u64(d, KEY_LIVELIST, &object) ||
	    dsl_sync_check(p, dsl_list_range(p, object, 0, UINT64_MAX, &live), "a livelist cannot be read"))
		return false;
	deadlist_drop(p, object);
	if (zap_lookup_u64(p->mos, MOS_DIRECTORY, DELETED_CLONES, &set)) {
		set = dsl_mos_zap(p, DMU_OTN_ZAP_METADATA, tx);
		dsl_sync_check(p, zap_add_u64(p->mos, MOS_DIRECTORY, DELETED_CLONES, set, tx),
			       "the pool's directory cannot be changed");
	}
	dsl_set_add(p, &set, DMU_OTN_ZAP_METADATA, object, tx);
	dsl_sync_check(p, zap_remove(p->mos, d->object, KEY_LIVELIST, tx), "a data set directory cannot be changed");
	dsl_diduse(d, DSL_USED_HEAD, -(int64_t)live.used, -(int64_t)live.comp, -(int64_t)d->uncompressed, tx);
	dsl_free_diduse(p, (int64_t)live.used, (int64_t)live.comp, (int64_t)live.uncomp, tx);
	return true;
}

/* --- matching a sublist: how often each place was freed after the entries seen so far --- */

struct place_count {
	uint64_t vdev, offset, frees; /* offset UINT64_MAX: empty */
};

struct matching {
	struct place_count *slot;
	size_t nslots, len;
	struct bp_list live;
};

static struct place_count *slot_find(struct matching *m, uint64_t vdev, uint64_t offset)
{
	size_t i = hash_mix(vdev, offset) & (m->nslots - 1);

	while (m->slot[i].offset != UINT64_MAX && (m->slot[i].vdev != vdev || m->slot[i].offset != offset))
		i = (i + 1) & (m->nslots - 1);
	return &m->slot[i];
}

static void slots_grow(struct matching *m)
{
	struct place_count *old = m->slot;
	size_t n = m->nslots;

	m->nslots = n ? n * 2 : 1024;
	m->slot = xmalloc(m->nslots * sizeof(*m->slot));
	for (size_t i = 0; i < m->nslots; i++)
		m->slot[i] = (struct place_count){0, UINT64_MAX, 0};
	for (size_t i = 0; i < n; i++)
		if (old[i].offset != UINT64_MAX)
			*slot_find(m, old[i].vdev, old[i].offset) = old[i];
	free(old);
}

/* Last to first: a block's frees come before its allocations. */
static int entry_match(void *arg, const struct bp *bp, bool freed)
{
	struct matching *m = arg;
	struct dva d = bp_dva(bp, 0);
	struct place_count *c;

	if (m->len * 2 >= m->nslots)
		slots_grow(m);
	c = slot_find(m, d.vdev, d.offset);
	if (freed) {
		if (c->offset == UINT64_MAX) {
			*c = (struct place_count){d.vdev, d.offset, 0};
			m->len++;
		}
		c->frees++;
	} else if (c->offset != UINT64_MAX && c->frees) {
		c->frees--;
	} else {
		bp_list_add(&m->live, bp);
	}
	return 0;
}

/* --- freeing --- */

static int sublist_free(struct dsl_pool *p, struct dsl_deadlist *dl, void (*fn)(void *arg, const struct bp *bp),
			void *arg, struct tx *tx)
{
	struct matching m = {0};
	uint64_t key, object;
	struct bp bp;
	int err;

	dsl_deadlist_key(dl, 0, &key, &object);
	err = bpobj_iterate(p->mos, object, entry_match, &m);
	while (bp_list_pop(&m.live, &bp))
		if (!err)
			fn(arg, &bp);
	free(m.slot);
	return err ? err : dsl_deadlist_remove_entry(dl, key, tx);
}

static void livelist_end(struct dsl_pool *p, uint64_t set, uint64_t object, struct tx *tx)
{
	uint64_t left = 0;

	dsl_set_remove(p, set, object, tx);
	dsl_sync_check(p, dsl_deadlist_free(p, object, tx), "a livelist cannot be freed");
	dsl_feature_count(p, FEATURE_LIVELIST, -1, tx);
	if (dsl_sync_check(p, zap_count(p->mos, set, &left), "the livelists to be freed cannot be read") || left)
		return;
	dsl_mos_free(p, set, tx);
	dsl_sync_check(p, zap_remove(p->mos, MOS_DIRECTORY, DELETED_CLONES, tx),
		       "the pool's directory cannot be changed");
}

static int livelist_step(struct dsl_pool *p, uint64_t set, uint64_t object, void (*fn)(void *arg, const struct bp *bp),
			 void *arg, struct tx *tx)
{
	struct dsl_deadlist *dl;
	int err = dsl_deadlist_open(p, object, &dl);
	bool done = false;

	if (err)
		return err;
	if (dsl_deadlist_nkeys(dl))
		err = sublist_free(p, dl, fn, arg, tx);
	if (!err) {
		done = dsl_deadlist_nkeys(dl) == 0;
		err = dsl_deadlist_flush(dl, tx);
	}
	dsl_deadlist_close(dl);
	if (!err && done)
		livelist_end(p, set, object, tx);
	return err;
}

/* One sublist; true: there is more. fn is told every block that was still in use. */
bool dsl_livelists_free(struct dsl_pool *p, void (*fn)(void *arg, const struct bp *bp), void *arg, struct tx *tx)
{
	struct name_list l;
	uint64_t set;
	bool more;

	if (zap_lookup_u64(p->mos, MOS_DIRECTORY, DELETED_CLONES, &set))
		return false;
	if (dsl_sync_check(p, name_list_read(p->mos, set, &l), "the livelists to be freed cannot be read"))
		return false;
	more = l.n > 0;
	if (more)
		dsl_sync_check(p, livelist_step(p, set, l.e[0].object, fn, arg, tx), "a livelist cannot be freed");
	name_list_free(&l);
	return more && !p->write->failed;
}
