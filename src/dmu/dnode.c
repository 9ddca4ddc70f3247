/* Dnodes: decoding, looking up, the cache of an object set (02, section 6). */
#include "base/hash.h"
#include "base/sync.h"
#include "dmu/dbuf.h"

#define DNODE_SLOTS_MAX     32u
#define DNODE_FLAG_BYTES    0x01u
#define DNODE_FLAG_SPILL    0x04u
#define DNODE_CORE_SIZE     64u
#define DNODE_CACHE_SHARDS  8u
#define DNODE_CACHE_BUCKETS 256u
#define DNODE_CACHE_SHARD   512u /* dnodes kept in one shard */
#define DNODE_CACHE_SCAN    8u   /* looked at for one that can go */

/* --- decoding --- */

static bool type_is_valid(unsigned type)
{
	return type & 0x80 ? (type & 0x1f) < 10 : type < 54;
}

static int dnode_check(const struct dnode *dn, size_t avail)
{
	size_t size = (size_t)dn->slots << DNODE_SHIFT;
	size_t fixed = DNODE_CORE_SIZE + (size_t)dn->nblkptr * BP_SIZE + (dn->has_spill ? BP_SIZE : 0);

	if (dn->type == 0 || !type_is_valid(dn->type) || !type_is_valid(dn->bonustype))
		return -EINVAL;
	if (dn->slots > DNODE_SLOTS_MAX || size > avail)
		return -EINVAL;
	if (dn->nlevels < 1 || dn->nlevels > DNODE_LEVELS_MAX || dn->nblkptr < 1 || dn->nblkptr > 3)
		return -EINVAL;
	if (dn->nlevels > 1 && (dn->indblkshift < 10 || dn->indblkshift > 17))
		return -EINVAL;
	if (dn->datablksz == 0 || dn->datablksz > BLOCK_MAX)
		return -EINVAL;
	return fixed <= size && dn->bonuslen <= size - fixed ? 0 : -EINVAL;
}

static void dnode_decode_core(struct dnode *dn, const uint8_t *phys, bool swap)
{
	dn->type = phys[0];
	dn->indblkshift = phys[1];
	dn->nlevels = phys[2];
	dn->nblkptr = phys[3];
	dn->bonustype = phys[4];
	dn->checksum = phys[5];
	dn->compress = phys[6];
	dn->flags = phys[7];
	dn->datablksz = (uint32_t)load16(phys + 8, swap) << SECTOR_SHIFT;
	dn->bonuslen = load16(phys + 10, swap);
	dn->slots = phys[12] < DNODE_SLOTS_MAX ? phys[12] + 1 : UINT8_MAX;
	dn->maxblkid = load64(phys + 16, swap);
	dn->used = load64(phys + 24, swap);
	if (!(dn->flags & DNODE_FLAG_BYTES))
		dn->used <<= SECTOR_SHIFT;
	dn->has_spill = dn->flags & DNODE_FLAG_SPILL;
	dn->swapped = swap;
}

int dnode_decode(const uint8_t *phys, size_t avail, bool swap, struct dnode **out)
{
	struct dnode core = {.os = NULL}, *dn;

	if (avail < DNODE_SIZE)
		return -EINVAL;
	dnode_decode_core(&core, phys, swap);
	if (dnode_check(&core, avail))
		return -EINVAL;
	dn = xmalloc(sizeof(*dn) + core.bonuslen);
	*dn = core;
	for (unsigned i = 0; i < dn->nblkptr; i++)
		bp_decode(&dn->blkptr[i], phys + DNODE_CORE_SIZE + (size_t)i * BP_SIZE, swap);
	if (dn->has_spill)
		bp_decode(&dn->spill, phys + ((size_t)dn->slots << DNODE_SHIFT) - BP_SIZE, swap);
	dn->bonus = (uint8_t *)(dn + 1);
	memcpy(dn->bonus, phys + DNODE_CORE_SIZE + (size_t)dn->nblkptr * BP_SIZE, dn->bonuslen);
	dn->tree_maxblkid = dn->maxblkid;
	pthread_mutex_init(&dn->lock, NULL);
	atomic_init(&dn->refs, 1);
	*out = dn;
	return 0;
}

int dnode_decode_os(struct objset *os, uint64_t object, const uint8_t *phys, size_t avail, bool swap,
		    struct dnode **out)
{
	int err = dnode_decode(phys, avail, swap, out);

	if (err)
		return err;
	(*out)->os = os;
	(*out)->object = object;
	if (os->encrypted && !os->key && dmu_type_is_encrypted((*out)->bonustype)) {
		(*out)->bonus_encrypted = true;
		(*out)->bonuslen = 0;
	}
	return 0;
}

struct dnode *dnode_create_free(struct objset *os, uint64_t object, unsigned slots, unsigned nblkptr,
				unsigned indblkshift)
{
	struct dnode *dn = xcalloc(1, sizeof(*dn));

	dn->os = os;
	dn->object = object;
	dn->nlevels = 1;
	dn->nblkptr = (uint8_t)nblkptr;
	dn->indblkshift = (uint8_t)indblkshift;
	dn->slots = (uint8_t)slots;
	dn->flags = DNODE_FLAG_BYTES;
	dn->datablksz = DNODE_SIZE;
	dn->bonus = (uint8_t *)(dn + 1);
	pthread_mutex_init(&dn->lock, NULL);
	atomic_init(&dn->refs, 1);
	return dn;
}

int dnode_block_next(const uint8_t *data, size_t size, unsigned slot)
{
	unsigned n = (unsigned)(size >> DNODE_SHIFT), i = 0;

	while (i < n) {
		const uint8_t *phys = data + ((size_t)i << DNODE_SHIFT);

		if (phys[0] != 0 && i >= slot)
			return (int)i;
		i += phys[0] != 0 ? 1u + phys[12] : 1u;
	}
	return -1;
}

struct dnode *dnode_ref(struct dnode *dn)
{
	atomic_fetch_add_explicit(&dn->refs, 1, memory_order_relaxed);
	return dn;
}

void dnode_destroy(struct dnode *dn)
{
	dmu_prefetch_destroy(dn);
	dnode_dirty_destroy(dn->dirty);
	pthread_mutex_destroy(&dn->lock);
	free(dn->own_bonus);
	free(dn);
}

void dnode_release(struct dnode *dn)
{
	if (dn && atomic_fetch_sub_explicit(&dn->refs, 1, memory_order_acq_rel) == 1)
		dnode_destroy(dn);
}

/* --- the cache of an object set --- */

struct dnode_cache {
	struct dnode_cache_shard {
		_Alignas(64) pthread_mutex_t lock;
		struct dnode *bucket[DNODE_CACHE_BUCKETS];
		struct list list; /* newest first */
	} shard[DNODE_CACHE_SHARDS];
};

struct dnode_cache *dnode_cache_create(void)
{
	struct dnode_cache *c = aligned_alloc(64, sizeof(*c));

	BUG_ON(!c);
	memset(c, 0, sizeof(*c));
	for (unsigned i = 0; i < DNODE_CACHE_SHARDS; i++) {
		pthread_mutex_init(&c->shard[i].lock, NULL);
		list_init(&c->shard[i].list);
	}
	return c;
}

void dnode_cache_destroy(struct dnode_cache *c)
{
	struct list_node *n;

	if (!c)
		return;
	for (unsigned i = 0; i < DNODE_CACHE_SHARDS; i++) {
		while ((n = list_pop(&c->shard[i].list)))
			dnode_release(container_of(n, struct dnode, cache_node));
		pthread_mutex_destroy(&c->shard[i].lock);
	}
	free(c);
}

static struct dnode **cache_slot(struct dnode_cache *c, uint64_t object, struct dnode_cache_shard **shard)
{
	uint64_t hash = hash_mix(object, 0);

	*shard = &c->shard[hash % DNODE_CACHE_SHARDS];
	return &(*shard)->bucket[(hash >> 32) % DNODE_CACHE_BUCKETS];
}

static struct dnode *cache_find_locked(struct dnode_cache_shard *s, struct dnode *chain, uint64_t object)
{
	while (chain && chain->object != object)
		chain = chain->cache_next;
	if (chain && s->list.head.next != &chain->cache_node) {
		list_remove(&s->list, &chain->cache_node);
		list_prepend(&s->list, &chain->cache_node);
	}
	return chain ? dnode_ref(chain) : NULL;
}

struct dnode *dnode_cache_get(struct dnode_cache *c, uint64_t object)
{
	struct dnode_cache_shard *s;
	struct dnode **slot = cache_slot(c, object, &s);

	SCOPED_LOCK(&s->lock);
	return cache_find_locked(s, *slot, object);
}

static void cache_unlink_locked(struct dnode_cache *c, struct dnode_cache_shard *s, struct dnode *dn)
{
	struct dnode_cache_shard *same;
	struct dnode **p;

	for (p = cache_slot(c, dn->object, &same); *p != dn; p = &(*p)->cache_next)
		;
	*p = dn->cache_next;
	list_remove(&s->list, &dn->cache_node);
}

/* In a set that is written what somebody holds or what is dirty (which holds it) must stay: there is one live dnode per
 * object. The bound then is on the others. */
static struct dnode *cache_remove_oldest_locked(struct dnode_cache *c, struct dnode_cache_shard *s)
{
	struct dnode *dn = container_of(list_last(&s->list), struct dnode, cache_node);

	for (unsigned i = 0; dn->os->ops && atomic_load(&dn->refs) > 1; i++) {
		list_remove(&s->list, &dn->cache_node);
		list_prepend(&s->list, &dn->cache_node);
		if (i == DNODE_CACHE_SCAN)
			return NULL;
		dn = container_of(list_last(&s->list), struct dnode, cache_node);
	}
	cache_unlink_locked(c, s, dn);
	return dn;
}

struct dnode *dnode_cache_put(struct dnode_cache *c, struct dnode *dn, uint64_t synced)
{
	struct dnode_cache_shard *s;
	struct dnode **slot = cache_slot(c, dn->object, &s), *drop[2] = {NULL}, *found;

	pthread_mutex_lock(&s->lock);
	found = cache_find_locked(s, *slot, dn->object);
	if (found) {
		drop[0] = dn;
	} else if (dn->os->dirty && atomic_load(&dn->os->dirty->synced) != synced) {
		drop[0] = dn;
	} else {
		for (unsigned i = 0; i < 2 && s->list.len >= DNODE_CACHE_SHARD; i++)
			drop[i] = cache_remove_oldest_locked(c, s);
		found = dnode_ref(dn);
		dn->cache_next = *slot;
		*slot = dn;
		list_prepend(&s->list, &dn->cache_node);
	}
	pthread_mutex_unlock(&s->lock);
	dnode_release(drop[0]);
	dnode_release(drop[1]);
	return found;
}

void dnode_cache_remove(struct dnode_cache *c, struct dnode *dn)
{
	struct dnode_cache_shard *s;

	cache_slot(c, dn->object, &s);
	pthread_mutex_lock(&s->lock);
	if (!list_node_is_linked(&dn->cache_node)) {
		pthread_mutex_unlock(&s->lock);
		return;
	}
	cache_unlink_locked(c, s, dn);
	pthread_mutex_unlock(&s->lock);
	dnode_release(dn);
}

/* --- looking up --- */

struct get_op {
	struct dmu_walk walk;
	struct dmu_fetch fetch; /* when the sync was writing over the block */
	struct arc_read ar;
	struct dnode_get *g;
	unsigned slot;
	uint64_t synced; /* of the object set, when the walk began */
};

static void get_finish(struct get_op *op, int err, struct dnode *dn)
{
	struct dnode_get *g = op->g;

	dmu_walk_end(&op->walk);
	free(op);
	g->done(g, err, dn);
}

static void get_start(struct get_op *op);

/* A live dnode of an object that was freed. */
static bool dnode_is_dead(const struct dnode *dn)
{
	return __atomic_load_n(&dn->type, __ATOMIC_RELAXED) == 0;
}

static bool get_is_stale(const struct get_op *op)
{
	struct objset *os = op->g->os;

	return os->dirty && atomic_load(&os->dirty->synced) != op->synced;
}

static void get_found(struct get_op *op, struct dnode *dn)
{
	bool dead = dnode_is_dead(dn);

	if (dead)
		dnode_release(dn);
	get_finish(op, dead ? -ENOENT : 0, dead ? NULL : dn);
}

static void get_fetched(struct dmu_fetch *f, int err, struct buf *buf);

/* What was read may be what the set was before a group was synced: then it is read again. Or the block is being written
 * over in place: the dnode, which has no change of this group, is in the new contents as well. */
static void get_failed(struct get_op *op, int err)
{
	struct objset *os = op->g->os;

	if (get_is_stale(op)) {
		dmu_walk_end(&op->walk);
		get_start(op);
	} else if (err != -ENOENT && !op->fetch.dn && os->ops &&
		   dmu_block_moved(os->meta, op->walk.blkid, op->walk.tree.seq)) {
		op->fetch = (struct dmu_fetch){.dn = os->meta, .blkid = op->walk.blkid, .done = get_fetched};
		dmu_fetch_start(&op->fetch);
	} else {
		get_finish(op, err, NULL);
	}
}

static void get_decode(struct get_op *op, int err, struct buf *buf, bool swapped)
{
	struct objset *os = op->g->os;
	struct dnode *dn = NULL;

	if (!err && dnode_block_next(buf->data, buf->size, op->slot) != (int)op->slot)
		err = -ENOENT;
	if (!err) {
		size_t at = (size_t)op->slot << DNODE_SHIFT;

		err = dnode_decode_os(os, op->g->object, buf->data + at, buf->size - at, swapped, &dn);
	}
	buf_release(buf);
	if (!err)
		dn = dnode_cache_put(os->cache, dn, op->synced);
	if (!err && dn)
		get_found(op, dn);
	else
		get_failed(op, err);
}

static void get_block_done(struct arc_read *ar, int err, struct buf *buf)
{
	get_decode(ar->arg, err, buf, bp_is_swapped(&ar->bp));
}

static void get_fetched(struct dmu_fetch *f, int err, struct buf *buf)
{
	get_decode(container_of(f, struct get_op, fetch), err || buf ? err : -ENOENT, buf, f->swapped);
}

static void get_walk_done(struct dmu_walk *w, int err)
{
	struct get_op *op = container_of(w, struct get_op, walk);
	struct objset *os = op->g->os;

	if (!err && bp_is_hole(&w->bp))
		err = -ENOENT;
	if (err) {
		get_failed(op, err);
		return;
	}
	op->ar = (struct arc_read){
	    .zp = os->dp->zp,
	    .bp = w->bp,
	    .zb = {os->id, 0, 0, w->blkid},
	    .key = os->key,
	    .flags = dmu_arc_flags(os->meta, &w->bp),
	    .done = get_block_done,
	    .arg = op,
	};
	arc_read(os->dp->arc, &op->ar);
}

static void get_start(struct get_op *op)
{
	struct objset *os = op->g->os;
	struct dnode *dn = dnode_cache_get(os->cache, op->g->object);

	if (dn) {
		get_found(op, dn);
		return;
	}
	op->fetch.dn = NULL;
	op->synced = os->dirty ? atomic_load(&os->dirty->synced) : 0;
	op->slot = op->g->object % (dnode_blocksize(os->meta) >> DNODE_SHIFT);
	op->walk.dn = os->meta;
	op->walk.blkid = op->g->object / (dnode_blocksize(os->meta) >> DNODE_SHIFT);
	op->walk.done = get_walk_done;
	dmu_walk_start(&op->walk);
}

static bool get_special(struct dnode_get *g, struct dnode **dn)
{
	struct objset *os = g->os;

	switch (g->object) {
	case DMU_OBJECT_USERUSED:
		*dn = __atomic_load_n(&os->userused, __ATOMIC_ACQUIRE);
		return true;
	case DMU_OBJECT_GROUPUSED:
		*dn = __atomic_load_n(&os->groupused, __ATOMIC_ACQUIRE);
		return true;
	case DMU_OBJECT_PROJECTUSED:
		*dn = __atomic_load_n(&os->projectused, __ATOMIC_ACQUIRE);
		return true;
	default:
		*dn = NULL;
		return g->object == 0 || g->object >= DMU_OBJECT_END;
	}
}

void dnode_get(struct dnode_get *g)
{
	struct objset *os = g->os;
	struct get_op *op;
	struct dnode *dn;

	if (get_special(g, &dn)) {
		g->done(g, dn ? 0 : -ENOENT, dn ? dnode_ref(dn) : NULL);
		return;
	}
	dn = dnode_cache_get(os->cache, g->object);
	if (dn && !dnode_is_dead(dn)) {
		g->done(g, 0, dn);
		return;
	}
	if (dn) {
		dnode_release(dn);
		g->done(g, -ENOENT, NULL);
		return;
	}
	op = xcalloc(1, sizeof(*op));
	op->g = g;
	get_start(op);
}

struct hold_wait {
	struct waiter w;
	struct dnode *dn;
};

static void hold_done(struct dnode_get *g, int err, struct dnode *dn)
{
	struct hold_wait *hw = g->arg;

	hw->dn = dn;
	waiter_done(&hw->w, err);
}

int dnode_hold(struct objset *os, uint64_t object, struct dnode **out, struct err *e)
{
	struct hold_wait hw = {.dn = NULL};
	struct dnode_get g = {.os = os, .object = object, .done = hold_done, .arg = &hw};
	int err;

	waiter_init(&hw.w);
	dnode_get(&g);
	err = waiter_wait(&hw.w);
	*out = hw.dn;
	if (err)
		err_set(e, err, "object %llu of object set %llu: %s", (unsigned long long)object,
			(unsigned long long)os->id, err == -ENOENT ? "no such object" : err_words(err));
	return err;
}

/* --- all objects --- */

/* The first object at or after `object` in its dnode block; -ENOENT: none in this block. */
static int next_in_block(struct objset *os, uint64_t object, uint64_t *out)
{
	unsigned per_block = dnode_blocksize(os->meta) >> DNODE_SHIFT;
	struct prefetch_plan plan;
	uint64_t blkid = object / per_block;
	struct dmu_walk w = {.dn = os->meta, .blkid = blkid};
	struct zbookmark zb = {os->id, 0, 0, blkid};
	autobuf struct buf *buf = NULL;
	int slot, err;

	dmu_prefetch_plan(os->meta, blkid, 1, &plan);
	err = dmu_walk_wait(&w);
	dmu_walk_end(&w);
	if (!err && bp_is_hole(&w.bp))
		err = -ENOENT;
	dmu_prefetch_run(&plan);
	if (!err)
		err = arc_read_wait(os->dp->arc, os->dp->zp, &w.bp, &zb, os->key, dmu_arc_flags(os->meta, &w.bp), &buf);
	if (err)
		return err;
	slot = dnode_block_next(buf->data, buf->size, object % per_block);
	if (slot < 0)
		return -ENOENT;
	*out = blkid * per_block + (unsigned)slot;
	return 0;
}

/* In the tree alone. */
static int tree_next_object(struct objset *os, uint64_t *object, uint64_t *skipped)
{
	unsigned per_block = dnode_blocksize(os->meta) >> DNODE_SHIFT, level, shift;
	uint64_t at = *object + 1;

	while (at < DMU_OBJECT_END) {
		uint64_t blkid = at / per_block;
		int err = dmu_next_block(os->meta, &blkid, false, &level);

		if (err == -ESRCH)
			return err;
		if (!err) {
			at = MAX(at, blkid * per_block);
			level = 0;
			err = next_in_block(os, at, object);
		}
		if (!err)
			return 0;
		if (err != -ENOENT && skipped)
			(*skipped)++;
		shift = level * dnode_epb_shift(os->meta);
		if (shift >= 48)
			return -ESRCH;
		at = (((blkid >> shift) + 1) << shift) * per_block;
	}
	return -ESRCH;
}

/* Freed, but not synced. */
static bool object_is_freed(struct objset *os, uint64_t object)
{
	struct dnode *dn = dnode_cache_get(os->cache, object);
	bool dead = dn && dnode_is_dead(dn);

	dnode_release(dn);
	return dead;
}

int dnode_next(struct objset *os, uint64_t *object, uint64_t *skipped)
{
	uint64_t fresh = *object, at = *object;
	bool has_fresh;
	int err;

	if (!os->dirty)
		return tree_next_object(os, object, skipped);
	do
		has_fresh = object_next_fresh(os, fresh, &fresh) == 0;
	while (has_fresh && object_is_freed(os, fresh));
	do
		err = tree_next_object(os, &at, skipped);
	while (!err && object_is_freed(os, at));
	if (has_fresh && (err == -ESRCH || fresh < at)) {
		*object = fresh;
		return 0;
	}
	*object = err ? *object : at;
	return err;
}
