/* One dirty dnode: which blocks and indirect blocks are to be written, and what becomes of the dnode. */
#include "dmu/sync.h"

#define FLAG_BYTES   0x01u
#define FLAG_USED    0x02u
#define FLAG_SPILL   0x04u
#define FLAG_OBJUSED 0x08u

/* --- dirty blocks --- */

static int item_cmp(const void *a, const void *b)
{
	uint64_t x = (*(struct dbuf_version *const *)a)->db->blkid, y = (*(struct dbuf_version *const *)b)->db->blkid;

	return (x > y) - (x < y);
}

/* Dropped versions are listed too: a write ahead of the sync may be under way for them. */
static void items_collect(struct sync_dnode *sd, struct dnode_group *g)
{
	struct dbuf_version *list = atomic_load(&g->versions);
	uint32_t n = 0;

	for (struct dbuf_version *v = list; v; v = v->next)
		n++;
	sd->item = xcalloc(MAX(n, 1u), sizeof(*sd->item));
	for (struct dbuf_version *v = list; v; v = v->next) {
		if (v->db->blkid == DMU_BLKID_SPILL)
			sd->spill = v;
		else if (dbuf_is_wanted(sd->dn->dirty, v))
			sd->item[sd->nitems++] = v;
	}
	qsort(sd->item, sd->nitems, sizeof(*sd->item), item_cmp);
}

/* --- nodes --- */

/* Block numbers of one level. */
struct ids {
	uint64_t *id;
	size_t n, room;
};

static void ids_add(struct ids *s, uint64_t id)
{
	if (s->n > 0 && s->id[s->n - 1] == id)
		return;
	if (s->n == s->room) {
		s->room = MAX(16, s->room * 2);
		s->id = xrealloc(s->id, s->room * sizeof(*s->id));
	}
	s->id[s->n++] = id;
}

static int id_cmp(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void ids_sort(struct ids *s)
{
	size_t n = 0;

	if (s->n)
		qsort(s->id, s->n, sizeof(*s->id), id_cmp);
	for (size_t i = 0; i < s->n; i++)
		if (n == 0 || s->id[n - 1] != s->id[i])
			s->id[n++] = s->id[i];
	s->n = n;
}

static bool is_aligned(uint64_t blkid, unsigned shift)
{
	return shift < 64 ? (blkid & ((UINT64_C(1) << shift) - 1)) == 0 : blkid == 0;
}

/* Blocks at the edges of freed ranges, whose pointers go only in part. */
static void ids_add_edges(struct sync_dnode *sd, struct ids *s, unsigned level)
{
	unsigned shift = level * sd->epb_shift;

	if (level >= sd->tree.nlevels)
		return;
	for (struct range *r = rangetree_first(sd->freed); r && r->start < sd->free_limit; r = rangetree_next(r)) {
		if (!is_aligned(r->start, shift))
			ids_add(s, shift_down(r->start, shift));
		if (r->end < sd->free_limit && !is_aligned(r->end, shift))
			ids_add(s, shift_down(r->end, shift));
	}
}

static void ids_of_level(struct sync_dnode *sd, struct ids *below, struct ids *s, unsigned level)
{
	unsigned shift = sd->epb_shift;

	if (level == 1)
		for (uint32_t i = 0; i < sd->nitems; i++)
			ids_add(s, shift_down(sd->item[i]->db->blkid, shift));
	for (size_t i = 0; level > 1 && i < below->n; i++)
		ids_add(s, shift_down(below->id[i], shift));
	if (!sd->is_new_tree)
		ids_add_edges(sd, s, level);
	/* The pointers of a dnode that gets more levels move there. */
	if (!sd->is_new_tree && level == sd->tree.nlevels)
		ids_add(s, 0);
	ids_sort(s);
}

/* Which children, or dirty blocks, belong to each node of a level. */
static void level_link(struct sync_dnode *sd, struct sync_node *node, size_t n, struct sync_node *below, size_t nbelow)
{
	unsigned shift = sd->epb_shift;
	size_t at = 0, item = 0;

	for (size_t i = 0; i < n; i++) {
		struct sync_node *p = &node[i];
		bool top = p == sd->top;

		if (p->level == 1) {
			p->first = (uint32_t)item;
			while (item < sd->nitems && (top || shift_down(sd->item[item]->db->blkid, shift) == p->blkid))
				item++;
			p->count = p->pending = (uint32_t)item - p->first;
			continue;
		}
		p->child = below ? &below[at] : NULL;
		for (; at < nbelow && (top || shift_down(below[at].blkid, shift) == p->blkid); at++) {
			below[at].parent = p;
			p->nchildren++;
		}
		p->pending = p->nchildren;
	}
}

static void nodes_create(struct sync_dnode *sd)
{
	struct ids level[DNODE_LEVELS_MAX + 1] = {{0}};
	struct sync_node *at, *below = NULL;
	size_t total = 1;

	for (unsigned l = 1; l < sd->nlevels; l++) {
		ids_of_level(sd, &level[l - 1], &level[l], l);
		total += level[l].n;
	}
	sd->nodes = at = xcalloc(total, sizeof(*sd->nodes));
	sd->nnodes = (uint32_t)total;
	sd->top = &sd->nodes[total - 1];
	for (unsigned l = 1; l <= sd->nlevels; l++) {
		size_t n = l < sd->nlevels ? level[l].n : 1;

		for (size_t i = 0; i < n; i++) {
			at[i].sd = sd;
			at[i].level = l;
			at[i].blkid = l < sd->nlevels ? level[l].id[i] : 0;
		}
		level_link(sd, at, n, below, l > 1 ? level[l - 1].n : 0);
		below = at;
		at += n;
		free(level[l - 1].id);
	}
	free(level[sd->nlevels].id);
}

/* 6.3: levels that are needed for a block. */
static unsigned levels_for(uint64_t blkid, unsigned nblkptr, unsigned shift)
{
	uint64_t reach = nblkptr;
	unsigned n = 1;

	for (; reach <= blkid && n < DNODE_LEVELS_MAX; n++)
		if (reach > UINT64_MAX >> shift)
			reach = UINT64_MAX;
		else
			reach <<= shift;
	return n;
}

/* --- beginning --- */

static void tree_load(struct sync_dnode *sd, bool reborn)
{
	struct dnode *dn = sd->dn;

	dnode_tree_get(dn, &sd->tree);
	pthread_mutex_lock(&dn->lock);
	sd->old_spill = sd->was_spill = dn->spill;
	sd->used = dn->used;
	pthread_mutex_unlock(&dn->lock);
	sd->is_new_tree = reborn || sd->old_slots == 0;
	if (!reborn)
		return;
	for (unsigned i = 0; i < sd->tree.nblkptr; i++)
		sync_kill_tree(sd, &sd->tree.blkptr[i], sd->tree.nlevels - 1u, i);
	sync_kill_tree(sd, &sd->old_spill, 0, DMU_BLKID_SPILL);
	memset(&sd->old_spill, 0, sizeof(sd->old_spill));
	sd->used = 0;
}

struct sync_dnode *sync_dnode_create(struct sync *s, struct dnode *dn)
{
	struct sync_dnode *sd = xcalloc(1, sizeof(*sd));
	struct dnode_dirty *dd = dn->dirty;
	struct dnode_group *g = dnode_group(dd, s->tx->txg);
	uint64_t last;
	bool reborn;

	sd->s = s;
	sd->dn = dn;
	pthread_mutex_lock(&dn->lock);
	atomic_store(&g->syncing, true);
	sd->state = dnode_state_of_group_locked(dn, s->tx->txg);
	sd->old_slots = dd->base->shape.type ? dd->base->shape.slots : 0;
	reborn = g->reborn;
	pthread_mutex_unlock(&dn->lock);
	sd->freed = &g->freed;
	tree_load(sd, reborn);
	sd->epb_shift = sd->is_new_tree || sd->tree.nlevels == 1 ? sd->state->shape.indblkshift - 7u
								 : sd->tree.epb_shift;
	if (!sd->is_new_tree)
		sd->free_limit = sd->tree.maxblkid < UINT64_MAX ? sd->tree.maxblkid + 1 : UINT64_MAX;
	items_collect(sd, g);
	last = sd->nitems ? MAX(sd->item[sd->nitems - 1]->db->blkid, sd->state->shape.maxblkid)
			  : sd->state->shape.maxblkid;
	sd->nlevels = levels_for(last, sd->state->shape.nblkptr, sd->epb_shift);
	if (!reborn)
		sd->nlevels = MAX(sd->nlevels, sd->tree.nlevels);
	nodes_create(sd);
	for (uint32_t i = 0; i < sd->nnodes; i++)
		sd->nstarts += sd->nodes[i].nchildren == 0;
	return sd;
}

void sync_dnode_destroy(struct sync_dnode *sd)
{
	if (!sd)
		return;
	for (uint32_t i = 0; i < sd->nnodes; i++)
		buf_release(sd->nodes[i].old);
	dnode_state_free(sd->state);
	free(sd->item);
	free(sd->nodes);
	free(sd);
}

/* --- the dnode as it is stored (6.1) --- */

void sync_dnode_encode(const struct dnode *dn, const struct dnode_state *st, uint8_t *phys)
{
	const struct dnode_shape *s = &st->shape;
	size_t size = (size_t)s->slots << DNODE_SHIFT;
	uint8_t *bonus = phys + 64 + (size_t)s->nblkptr * BP_SIZE;

	memset(phys, 0, size);
	if (s->type == 0)
		return;
	phys[0] = s->type;
	phys[1] = s->indblkshift;
	phys[2] = dn->nlevels;
	phys[3] = s->nblkptr;
	phys[4] = s->bonustype;
	phys[5] = s->checksum;
	phys[6] = s->compress;
	phys[7] = (dn->flags & ~FLAG_SPILL) | FLAG_BYTES | (s->has_spill ? FLAG_SPILL : 0);
	store_host16(phys + 8, (uint16_t)(s->datablksz >> SECTOR_SHIFT));
	store_host16(phys + 10, (uint16_t)s->bonuslen);
	phys[12] = s->slots - 1;
	store_host64(phys + 16, s->maxblkid);
	store_host64(phys + 24, dn->used);
	memcpy(phys + 64, dn->blkptr, (size_t)s->nblkptr * BP_SIZE);
	memcpy(bonus, st->bonus, s->bonuslen);
	if (st->swapped)
		dmu_swap_contents(s->bonustype, bonus, s->bonuslen);
	if (s->has_spill)
		memcpy(phys + size - BP_SIZE, &dn->spill, BP_SIZE);
}

static bool is_special(const struct dnode *dn)
{
	return dn->object == 0 || dn->object >= DMU_OBJECT_END;
}

/* Into the meta-dnode's block, which is synced after. */
static int slots_store(struct sync_dnode *sd)
{
	struct objset *os = sd->s->os;
	struct dnode *dn = sd->dn, *meta = os->meta;
	unsigned slots = MAX(sd->old_slots, sd->state->shape.slots);
	uint64_t offset = dn->object << DNODE_SHIFT, blkid = offset / DNODE_BLOCK, txg = sd->s->tx->txg;
	autofree uint8_t *phys = xcalloc(slots, DNODE_SIZE);
	unsigned n = MAX(sd->state->shape.type ? sd->state->shape.slots : 0, sd->old_slots);
	int err;

	sync_dnode_encode(dn, sd->state, phys);
	if (n == 0)
		return 0;
	err = dnode_dirty_mark(meta, txg, blkid);
	return err ? err
		   : dbuf_write(meta->dirty, blkid, DNODE_BLOCK, (uint32_t)(offset % DNODE_BLOCK), phys,
				n << DNODE_SHIFT, txg);
}

/* --- the end --- */

static void tree_store(struct sync_dnode *sd)
{
	const struct dnode_shape *s = &sd->state->shape;
	struct objset *os = sd->s->os;
	struct dnode *dn = sd->dn;
	uint8_t counted = 0;

	if (os->ops->owner && os->type == OBJSET_ZFS && !is_special(dn))
		counted = FLAG_USED | (os->dp->userobj_accounting ? FLAG_OBJUSED : 0);
	pthread_mutex_lock(&dn->lock);
	dn->nlevels = s->type ? (uint8_t)sd->nlevels : 1;
	dn->nblkptr = s->nblkptr;
	dn->indblkshift = s->indblkshift;
	memcpy(dn->blkptr, sd->root, sizeof(dn->blkptr));
	dn->spill = sd->new_spill;
	dn->used = sd->used;
	__atomic_store_n(&dn->tree_maxblkid, s->maxblkid, __ATOMIC_RELAXED);
	dn->flags = (sd->is_new_tree ? FLAG_BYTES : dn->flags) | counted;
	dn->tree_seq++;
	pthread_mutex_unlock(&dn->lock);
}

/* Where blocks were written ahead of the sync, before they changed again. */
static void retired_free(struct sync_dnode *sd)
{
	struct dnode_group *g = dnode_group(sd->dn->dirty, sd->s->tx->txg);

	for (struct dbuf_version *v = atomic_load(&g->versions); v; v = v->next)
		for (struct dbuf_place *p = v->retired; p; p = p->next)
			zio_free(sd->s->os->dp->zp, &p->bp, sd->s->tx->txg);
}

static void dnode_finish(struct sync_dnode *sd)
{
	struct sync *s = sd->s;
	struct dnode *dn = sd->dn;
	struct dnode_state *old = dn->dirty->base;
	uint8_t old_flags = dn->flags;
	uint64_t old_used = dn->used;

	retired_free(sd);
	tree_store(sd);
	if (!is_special(dn)) {
		sync_account(sd, old, old_flags, old_used);
		if (!s->err)
			s->err = slots_store(sd);
	}
	dnode_group_end(dn, s->tx->txg);
	free(sd->item);
	free(sd->nodes);
	sd->item = NULL;
	sd->nodes = NULL;
	sd->nnodes = 0;
	s->ndnodes--;
	list_remove(&s->working, &sd->work);
	list_append(&s->finished, &sd->link);
}

struct spill_op {
	struct sync_event e;
	struct sync_dnode *sd;
	struct zio_write w;
	int err;
};

static void spill_write_done(struct zio_write *w, int err)
{
	struct spill_op *op = w->arg;

	op->err = err;
	sync_post(&op->e);
}

static void spill_written(struct sync_event *e)
{
	struct spill_op *op = container_of(e, struct spill_op, e);
	struct sync_dnode *sd = op->sd;
	struct sync *s = e->s;
	struct objset *os = s->os;

	s->bytes -= op->w.lsize;
	if (op->err) {
		s->err = op->err;
	} else {
		arc_insert(os->dp->arc, os->dp->zp, &op->w.bp, &op->w.zb, op->w.data, dmu_arc_flags(sd->dn, &op->w.bp));
		sync_replace(sd, &sd->old_spill, &op->w.bp);
		sd->new_spill = op->w.bp;
		dbuf_written(sd->dn->dirty, sd->spill, &op->w.bp);
	}
	buf_release(op->w.data);
	free(op);
	if (!s->err)
		dnode_finish(sd);
}

static void spill_write(struct sync_dnode *sd, struct buf *buf)
{
	struct sync *s = sd->s;
	struct spill_op *op = xcalloc(1, sizeof(*op));

	op->sd = sd;
	op->w = (struct zio_write){
	    .data = buf,
	    .lsize = buf->size,
	    .key = s->os->key,
	    .zb = {s->os->id, sd->dn->object, 0, DMU_BLKID_SPILL},
	    .txg = s->tx->txg,
	    .fill = 1,
	    .rewrite = s->tx->pass > 1,
	    .bp = sd->old_spill,
	    .done = spill_write_done,
	    .arg = op,
	};
	sync_policy(s->os, sd->dn, &sd->state->shape, 0, true, &op->w.policy);
	s->bytes += buf->size;
	sync_expect(s, &op->e, spill_written);
	zio_write(s->os->dp->zp, &op->w);
}

void sync_dnode_top_done(struct sync_dnode *sd)
{
	const struct bp none = {{0}};
	struct buf *buf = NULL;

	if (sd->spill && dbuf_sync_look(sd->dn->dirty, sd->spill, NULL, &buf) == DBUF_MUST_WRITE) {
		spill_write(sd, buf);
		return;
	}
	sd->new_spill = sd->old_spill;
	if (!sd->state->shape.has_spill) {
		sync_replace(sd, &sd->old_spill, &none);
		sd->new_spill = none;
	}
	dnode_finish(sd);
}
