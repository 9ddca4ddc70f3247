/*
 * dsl/dsl_free.c: what is freed in the background (03-datasets.md 3.6, 4.12; 01-pool.md 11.2): single blocks on
 * free_bpobj, trees of destroyed heads on the bptree, livelists of destroyed clones. Some of it in each group, on the
 * sync thread; the rest is found again after an import.
 *
 * Blocks with references in a table (dedup, block cloning) cannot be freed without changing it, which is not written
 * here: they stay on free_bpobj, for an OpenZFS that imports the pool.
 */
#include "base/log.h"
#include "dmu/traverse.h"
#include "dsl/ddt.h"
#include "dsl/dsl_write_impl.h"

#define NS_PER_MS       UINT64_C(1000000)
#define CHECK_EVERY     256
#define FEATURE_ASYNC   "com.delphix:async_destroy"
#define FEATURE_CLONING "com.fudosecurity:block_cloning"

TUNABLE(tunable_async_block_max, "zfs_async_block_max_blocks", "blocks", 1000000, 1, UINT64_C(1) << 40,
	"blocks of destroyed data sets and snapshots that are freed in one transaction group");
TUNABLE(tunable_free_min_time, "zfs_free_min_time_ms", "ms", 1000, 1, 600000,
	"time that freeing blocks of what was destroyed may take in one transaction group");

/* How much more may be done in this group, and what was. */
struct freeing {
	struct dsl_pool *p;
	struct tx *tx;
	uint64_t blocks, most, until_ns;
	int64_t used, comp, uncomp; /* freed: to be taken off $FREE */
	struct bp_list stuck;
	bool cloning;
};

static bool is_enough(const struct freeing *f)
{
	return f->blocks >= f->most || (f->blocks % CHECK_EVERY == 0 && now_ns() >= f->until_ns);
}

/* Somebody else may have it, too. */
static bool has_references(const struct freeing *f, const struct bp *bp)
{
	uint64_t refs = 0;

	if (bp_is_embedded(bp))
		return false;
	if (bp_is_dedup(bp))
		return true;
	if (!f->cloning || bp_level(bp) != 0)
		return false;
	for (unsigned i = 0; i < bp_ndvas(bp); i++) {
		struct dva d = bp_dva(bp, i);

		if (dsl_sync_check(f->p, brt_refcount(f->p, d.vdev, d.offset, &refs),
				   "the table of block references cannot be read") ||
		    refs)
			return true;
	}
	return false;
}

/* Gives the block back; false: it has references. */
static bool block_free(struct freeing *f, const struct bp *bp)
{
	struct dsl_write *w = f->p->write;
	struct dsl_space s;

	f->blocks++;
	if (has_references(f, bp))
		return false;
	s = dsl_bp_space(f->p, bp);
	f->used += (int64_t)s.used;
	f->comp += (int64_t)s.comp;
	f->uncomp += (int64_t)s.uncomp;
	w->ops->free(w->arg, bp, f->tx);
	return true;
}

/* --- free_bpobj --- */

static int listed_free(void *arg, const struct bp *bp, bool freed, struct tx *tx)
{
	struct freeing *f = arg;

	if (is_enough(f))
		return -EAGAIN;
	if (!block_free(f, bp))
		bp_list_add(&f->stuck, bp);
	return 0;
}

static uint64_t listed_deflated(void *arg, const struct bp *bp)
{
	struct freeing *f = arg;

	return dsl_bp_dsize(f->p, bp);
}

static void stuck_put_back(struct freeing *f)
{
	struct bpobj *list = f->stuck.len ? free_bpobj_get(f->p) : NULL;
	struct bp bp;

	f->p->write->stuck = f->stuck.len;
	while (bp_list_pop(&f->stuck, &bp))
		if (list)
			dsl_sync_check(f->p, bpobj_enqueue(list, &bp, false, dsl_bp_dsize(f->p, &bp), f->tx),
				       "the list of blocks to be freed cannot be written");
}

/* True: there is more. */
static bool list_free(struct freeing *f)
{
	struct bpobj_consumer c = {.fn = listed_free, .deflated = listed_deflated, .arg = f};
	struct bpobj *list = f->p->version >= 26 ? free_bpobj_get(f->p) : NULL;
	const struct bpobj_phys *counts;
	int err;

	if (!list || bpobj_is_empty(list))
		return false;
	counts = bpobj_counts(list);
	if (counts->num_subobjs == 0 && counts->num_blkptrs == f->p->write->stuck)
		return false;
	err = bpobj_consume(list, &c, f->tx);
	if (err && err != -EAGAIN)
		dsl_sync_check(f->p, err, "the list of blocks to be freed cannot be read");
	stuck_put_back(f);
	return err == -EAGAIN;
}

/* --- the bptree --- */

#define BPTREE_ENTRY 168
#define BPTREE_BLOCK 131072
#define BPTREE_DONE  UINT64_MAX
#define DNODE_BYTES  512

struct bptree {
	struct dnode *dn;
	uint64_t begin, end, used, comp, uncomp;
};

struct bptree_entry {
	struct bp bp;
	uint64_t birth;
	struct zbookmark zb; /* all zero: from the start */
};

static int bptree_open(struct dsl_pool *p, uint64_t object, struct bptree *t)
{
	uint64_t w[5];
	int err = dnode_hold(p->mos, object, &t->dn, NULL);

	if (err)
		return err;
	err = dmu_bonus_read(t->dn, 0, w, sizeof(w));
	if (err) {
		dnode_release(t->dn);
		return err;
	}
	if (t->dn->swapped)
		swap64_buffer(w, sizeof(w));
	t->begin = w[0];
	t->end = w[1];
	t->used = w[2];
	t->comp = w[3];
	t->uncomp = w[4];
	return 0;
}

static void bptree_close(struct dsl_pool *p, struct bptree *t, struct tx *tx)
{
	uint64_t w[5] = {t->begin, t->end, t->used, t->comp, t->uncomp};

	dsl_sync_check(p, dmu_bonus_write(t->dn, 0, w, sizeof(w), tx),
		       "the list of trees to be freed cannot be written");
	dnode_release(t->dn);
}

static int entry_read(struct bptree *t, uint64_t i, struct bptree_entry *e)
{
	uint64_t w[BPTREE_ENTRY / 8], offset = i * BPTREE_ENTRY;
	bool swap = false;
	int err = dmu_block_is_swapped(t->dn, offset / t->dn->datablksz, &swap);

	if (!err)
		err = dmu_read(t->dn, offset, w, sizeof(w), 0);
	if (err)
		return err;
	if (swap)
		swap64_buffer(w, sizeof(w));
	memcpy(&e->bp, w, sizeof(e->bp));
	e->birth = w[16];
	e->zb = (struct zbookmark){w[17], w[18], (int64_t)w[19], w[20]};
	return 0;
}

static void entry_write(struct dsl_pool *p, struct bptree *t, uint64_t i, const struct bptree_entry *e, struct tx *tx)
{
	uint64_t w[BPTREE_ENTRY / 8] = {[16] = e->birth,
					[17] = e->zb.objset,
					[18] = e->zb.object,
					[19] = (uint64_t)e->zb.level,
					[20] = e->zb.blkid};

	memcpy(w, &e->bp, sizeof(e->bp));
	dsl_sync_check(p, dmu_write(t->dn, i * BPTREE_ENTRY, w, sizeof(w), tx),
		       "the list of trees to be freed cannot be written");
}

static uint64_t bptree_create(struct dsl_pool *p, struct tx *tx)
{
	uint64_t object = dsl_mos_object(p, DMU_OTN_UINT64_METADATA, BPTREE_BLOCK, DMU_OTN_UINT64_METADATA, 40, tx);

	dsl_sync_check(p, zap_add_u64(p->mos, MOS_DIRECTORY, "bptree_obj", object, tx),
		       "the pool's directory cannot be changed");
	dsl_feature_count(p, FEATURE_ASYNC, 1, tx);
	return object;
}

void dsl_bptree_add(struct dsl_pool *p, const struct bp *root, uint64_t birth, uint64_t used, uint64_t comp,
		    uint64_t uncomp, struct tx *tx)
{
	struct bptree_entry e = {.bp = *root, .birth = birth};
	struct bptree t;
	uint64_t object;

	if (zap_lookup_u64(p->mos, MOS_DIRECTORY, "bptree_obj", &object))
		object = bptree_create(p, tx);
	if (dsl_sync_check(p, bptree_open(p, object, &t), "the list of trees to be freed cannot be read"))
		return;
	entry_write(p, &t, t.end++, &e, tx);
	t.used += used;
	t.comp += comp;
	t.uncomp += uncomp;
	bptree_close(p, &t, tx);
	pthread_mutex_lock(&p->write->space);
	p->write->freeing = true;
	pthread_mutex_unlock(&p->write->space);
}

struct tree_free {
	struct freeing *f;
	struct zbookmark stopped;
	uint64_t dnodes_per_block;
};

/* Nothing below an unreadable block was visited: it goes on there, before its first leaf. */
static void tree_error(struct traverse *tr, const struct bp *bp, const struct zbookmark *zb, int err)
{
	struct tree_free *tf = tr->arg;
	uint64_t first = zb->blkid;

	for (int64_t l = 0; l < zb->level; l++)
		first *= MAX(1, bp_lsize(bp) / BP_SIZE);
	if (zb->object == 0)
		tf->stopped = (struct zbookmark){0, MAX(1, first * tf->dnodes_per_block), 0, 0};
	else
		tf->stopped = (struct zbookmark){0, zb->object, 0, first};
}

static int tree_visit(struct traverse *tr, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct tree_free *tf = tr->arg;

	if (dsl_bp_is_redacted(bp))
		return 0;
	if (zb->level == 0 && is_enough(tf->f)) {
		tf->stopped = *zb;
		return -EAGAIN;
	}
	if (!block_free(tf->f, bp))
		bp_list_add(&tf->f->stuck, bp);
	return 0;
}

/* What only tables could free goes over to the list of single blocks. */
static void stuck_pass_on(struct freeing *f, struct bptree *t)
{
	struct bpobj *list = f->stuck.len ? free_bpobj_get(f->p) : NULL;
	struct bp bp;

	while (bp_list_pop(&f->stuck, &bp)) {
		struct dsl_space s = dsl_bp_space(f->p, &bp);

		if (list)
			dsl_sync_check(f->p, bpobj_enqueue(list, &bp, false, s.used, f->tx),
				       "the list of blocks to be freed cannot be written");
		t->used -= s.used;
		t->comp -= s.comp;
		t->uncomp -= s.uncomp;
	}
}

/* 0: the tree is gone; -EAGAIN: enough for now; others: it cannot be read. e->zb says where it goes on. */
static int tree_free(struct freeing *f, struct bptree *t, struct bptree_entry *e)
{
	struct tree_free tf = {.f = f};
	struct traverse tr = {.min_txg = e->birth, .post = true, .visit = tree_visit, .error = tree_error, .arg = &tf};
	int64_t used = f->used, comp = f->comp, uncomp = f->uncomp;
	struct zbookmark from = e->zb;
	struct objset *os;
	int err = bp_is_hole(&e->bp) ? 0 : bp_check(&e->bp);

	if (err || bp_is_hole(&e->bp))
		return err;
	err = objset_open(f->p->dp, UINT64_MAX, &e->bp, NULL, &os, NULL);
	if (err)
		return err;
	if (from.objset || from.object || from.level || from.blkid)
		tr.resume = &from;
	tf.dnodes_per_block = os->meta->datablksz / DNODE_BYTES;
	err = traverse_objset(os, &tr);
	objset_release(os);
	if (err) {
		e->zb = tf.stopped;
		e->zb.objset = UINT64_MAX;
	}
	t->used -= (uint64_t)(f->used - used);
	t->comp -= (uint64_t)(f->comp - comp);
	t->uncomp -= (uint64_t)(f->uncomp - uncomp);
	stuck_pass_on(f, t);
	return err;
}

/* Entries that are done leave the front; their data is punched out. */
static void bptree_advance(struct dsl_pool *p, struct bptree *t, struct tx *tx)
{
	struct bptree_entry e;
	uint64_t begin = t->begin;

	while (t->begin < t->end && entry_read(t, t->begin, &e) == 0 && e.birth == BPTREE_DONE)
		t->begin++;
	if (t->begin > begin)
		dsl_sync_check(p, dmu_free_range(t->dn, begin * BPTREE_ENTRY, (t->begin - begin) * BPTREE_ENTRY, tx),
			       "the list of trees to be freed cannot be written");
}

static bool bptree_walk(struct freeing *f, struct bptree *t)
{
	struct bptree_entry e;

	for (uint64_t i = t->begin; i < t->end; i++) {
		int err = entry_read(t, i, &e);

		if (dsl_sync_check(f->p, err, "the list of trees to be freed cannot be read"))
			return false;
		if (e.birth == BPTREE_DONE || rangetree_contains(&f->p->write->bad_trees, i, i + 1))
			continue;
		err = tree_free(f, t, &e);
		if (err == 0)
			e.birth = BPTREE_DONE;
		entry_write(f->p, t, i, &e, f->tx);
		if (err == -EAGAIN)
			return true;
		if (err) { /* until the next import */
			log_warn("%s: a destroyed data set cannot be freed completely: %s", f->p->name, err_words(err));
			rangetree_add(&f->p->write->bad_trees, i, i + 1);
		}
	}
	return false;
}

static bool trees_free(struct freeing *f)
{
	struct dsl_pool *p = f->p;
	struct bptree t;
	uint64_t object;
	bool more;

	if (zap_lookup_u64(p->mos, MOS_DIRECTORY, "bptree_obj", &object))
		return false;
	if (dsl_sync_check(p, bptree_open(p, object, &t), "the list of trees to be freed cannot be read"))
		return false;
	more = bptree_walk(f, &t);
	bptree_advance(p, &t, f->tx);
	bptree_close(p, &t, f->tx);
	if (t.begin == t.end) {
		dsl_mos_free(p, object, f->tx);
		dsl_sync_check(p, zap_remove(p->mos, MOS_DIRECTORY, "bptree_obj", f->tx),
			       "the pool's directory cannot be changed");
		dsl_feature_count(p, FEATURE_ASYNC, -1, f->tx);
	}
	return more;
}

/* --- livelists of destroyed clones --- */

static void live_block_free(void *arg, const struct bp *bp)
{
	struct freeing *f = arg;
	struct bpobj *list;

	if (block_free(f, bp))
		return;
	list = free_bpobj_get(f->p);
	if (list)
		dsl_sync_check(f->p, bpobj_enqueue(list, bp, false, dsl_bp_dsize(f->p, bp), f->tx),
			       "the list of blocks to be freed cannot be written");
}

/* --- */

bool dsl_pool_free_some(struct dsl_pool *p, struct tx *tx)
{
	struct dsl_write *w = p->write;
	struct freeing f = {
	    .p = p,
	    .tx = tx,
	    .most = tunable_get(&tunable_async_block_max),
	    .until_ns = now_ns() + tunable_get(&tunable_free_min_time) * NS_PER_MS,
	    .cloning = dsl_feature_refs(p, FEATURE_CLONING) > 0,
	};
	bool more;

	if (w->failed)
		return false;
	w->tx = tx;
	more = list_free(&f);
	if (!more)
		more = trees_free(&f);
	if (!more)
		more = dsl_livelists_free(p, live_block_free, &f, tx);
	if (f.blocks) {
		DSL_ALONE(p);
		dsl_free_diduse(p, -f.used, -f.comp, -f.uncomp, tx);
	}
	if (w->free_bpobj)
		dsl_sync_check(p, bpobj_flush(w->free_bpobj, tx), "the list of blocks to be freed cannot be written");
	w->tx = NULL;
	pthread_mutex_lock(&w->space);
	w->freeing = more;
	pthread_mutex_unlock(&w->space);
	return more;
}
