/*
 * Object numbers (02, 6.5), and making and freeing objects.
 *
 * Each of some cursors has one dnode block in which it hands out free slots, so that threads that create objects do not
 * meet. A cursor that is at its block's end takes the next block nobody has taken; from time to time, when many objects
 * were freed, that begins again at the front. Slots are free when they are so in the synced tree and no object that was
 * made since has them; so a number that was freed comes again when that is synced, not earlier.
 *
 * Locks, in order: a cursor's (held while its dnode block is read: others go on with theirs); the allocator's.
 */
#include "base/counter.h"
#include "base/sync.h"
#include "dmu/dbuf.h"

#define CURSORS         8u
#define BLOCK_SLOTS     32u
#define NO_BLOCK        UINT64_MAX
#define RESCAN_FREED    4096u /* so many freed objects are worth beginning at the front; fewer in a small set */
#define INDBLKSHIFT_DEF 17u
#define DNODE_BLKPTR    3u

struct object_cursor {
	_Alignas(64) pthread_mutex_t lock;
	uint64_t block;
	uint32_t free; /* slots */
};

struct object_alloc {
	struct object_cursor cursor[CURSORS];
	pthread_mutex_t lock;   /* guards all below */
	uint64_t next;          /* the next block for a cursor */
	uint64_t freed;         /* objects, since the cursors began at the front */
	uint64_t rescan_txg;    /* in which they did */
	struct rangetree fresh; /* slots of objects that are not in the tree yet */
};

struct object_alloc *object_alloc_create(bool is_new)
{
	struct object_alloc *oa = aligned_alloc(64, ROUND_UP(sizeof(*oa), 64));

	BUG_ON(!oa);
	memset(oa, 0, sizeof(*oa));
	for (unsigned i = 0; i < CURSORS; i++) {
		pthread_mutex_init(&oa->cursor[i].lock, NULL);
		oa->cursor[i].block = NO_BLOCK;
	}
	pthread_mutex_init(&oa->lock, NULL);
	rangetree_init(&oa->fresh);
	/* In a set with one dnode block numbers must not come twice, and which were used nobody knows any more. */
	oa->next = is_new ? 0 : 1;
	return oa;
}

void object_alloc_destroy(struct object_alloc *oa)
{
	if (!oa)
		return;
	for (unsigned i = 0; i < CURSORS; i++)
		pthread_mutex_destroy(&oa->cursor[i].lock);
	pthread_mutex_destroy(&oa->lock);
	rangetree_clear(&oa->fresh);
	free(oa);
}

int object_next_fresh(struct objset *os, uint64_t object, uint64_t *out)
{
	struct object_alloc *oa = os->dirty->alloc;
	struct range *r;

	SCOPED_LOCK(&oa->lock);
	/* Ranges of neighbours are one: the live dnodes say where each object starts. */
	for (uint64_t at = object + 1; (r = rangetree_overlap(&oa->fresh, at, UINT64_MAX)); at++) {
		struct dnode *dn;

		at = MAX(at, r->start);
		dn = dnode_cache_get(os->cache, at);
		if (!dn)
			continue;
		dnode_release(dn);
		*out = at;
		return 0;
	}
	return -ESRCH;
}

void object_forget_fresh(struct objset *os, uint64_t object, unsigned slots, bool freed)
{
	struct object_alloc *oa = os->dirty->alloc;

	SCOPED_LOCK(&oa->lock);
	rangetree_remove_any(&oa->fresh, object, object + slots);
	oa->freed += freed;
}

/* --- free slots of a dnode block --- */

static uint32_t slots_mask(unsigned first, unsigned n)
{
	return (uint32_t)(((UINT64_C(1) << n) - 1) << first);
}

static uint32_t block_free_slots(const struct buf *buf)
{
	uint32_t used = 0;

	for (int slot = dnode_block_next(buf->data, buf->size, 0); slot >= 0;) {
		unsigned n = MIN(1u + buf->data[((size_t)slot << DNODE_SHIFT) + 12], BLOCK_SLOTS - (unsigned)slot);

		used |= slots_mask((unsigned)slot, n);
		slot = dnode_block_next(buf->data, buf->size, (unsigned)slot + n);
	}
	return ~used;
}

/* In the tree. An unreadable block has no free slots. */
static uint32_t tree_free_slots(struct objset *os, uint64_t block)
{
	struct dmu_fetch f = {.dn = os->meta, .blkid = block, .tree_only = true};
	struct buf *buf = NULL;
	uint32_t free;

	if (dmu_fetch_wait(&f, &buf))
		return 0;
	free = !buf ? UINT32_MAX : buf->size == DNODE_BLOCK ? block_free_slots(buf) : 0;
	buf_release(buf);
	return free;
}

static uint32_t fresh_slots_locked(struct object_alloc *oa, uint64_t block)
{
	uint64_t first = block * BLOCK_SLOTS;
	uint32_t used = 0;

	for (struct range *r = rangetree_overlap(&oa->fresh, first, first + BLOCK_SLOTS);
	     r && r->start < first + BLOCK_SLOTS; r = rangetree_next(r)) {
		uint64_t start = MAX(r->start, first), end = MIN(r->end, first + BLOCK_SLOTS);

		used |= slots_mask((unsigned)(start - first), (unsigned)(end - start));
	}
	return used;
}

/* Between the tree and the list nothing may move: a sync takes objects off the list once they are in the tree. */
static uint32_t free_slots(struct objset *os, uint64_t block)
{
	struct object_alloc *oa = os->dirty->alloc;
	uint64_t synced;
	uint32_t free;

	for (;;) {
		synced = atomic_load(&os->dirty->synced);
		free = tree_free_slots(os, block);
		SCOPED_LOCK(&oa->lock);
		if (atomic_load(&os->dirty->synced) != synced)
			continue;
		free &= ~fresh_slots_locked(oa, block);
		return block == 0 ? free & ~1u : free;
	}
}

/* --- the next block for a cursor --- */

static bool rescan_is_due_locked(const struct object_alloc *oa, const struct objset *os, uint64_t txg)
{
	uint64_t blocks = __atomic_load_n(&os->meta->tree_maxblkid, __ATOMIC_RELAXED) + 1;

	/* 6.5: with one dnode block only, no number comes twice. */
	return blocks > 1 && oa->next >= blocks && oa->rescan_txg != txg &&
	       oa->freed >= MIN(RESCAN_FREED, blocks * BLOCK_SLOTS / 4);
}

/* From `block` on, the first that is not full by its pointer's fill; blocks behind the tree are empty. */
static uint64_t block_with_room(struct objset *os, uint64_t block)
{
	while (block <= __atomic_load_n(&os->meta->tree_maxblkid, __ATOMIC_RELAXED)) {
		struct dmu_walk w = {.dn = os->meta, .blkid = block};
		uint64_t span = 1, i = 0;

		if (!dmu_walk_wait(&w)) {
			span = dmu_walk_span(&w);
			for (struct bp bp; i < span; i++) {
				dmu_walk_pointer(&w, i, &bp);
				if (bp_is_hole(&bp) || bp_fill(&bp) < BLOCK_SLOTS)
					break;
			}
		} else {
			i = 1;
		}
		dmu_walk_end(&w);
		block += i;
		if (i < span)
			break;
	}
	return block;
}

static uint64_t take_block(struct objset *os, uint64_t txg)
{
	struct object_alloc *oa = os->dirty->alloc;
	uint64_t from, found;

	for (;;) {
		pthread_mutex_lock(&oa->lock);
		if (rescan_is_due_locked(oa, os, txg)) {
			oa->next = 0;
			oa->freed = 0;
			oa->rescan_txg = txg;
		}
		from = oa->next;
		pthread_mutex_unlock(&oa->lock);
		found = block_with_room(os, from);
		SCOPED_LOCK(&oa->lock);
		if (oa->next != from)
			continue;
		oa->next = found + 1;
		return found;
	}
}

/* --- taking slots --- */

static int find_run(uint32_t free, unsigned n)
{
	for (unsigned at = 0; at + n <= BLOCK_SLOTS; at++)
		if ((free & slots_mask(at, n)) == slots_mask(at, n))
			return (int)at;
	return -1;
}

static bool take_fresh(struct object_alloc *oa, uint64_t object, unsigned slots)
{
	SCOPED_LOCK(&oa->lock);
	return rangetree_add(&oa->fresh, object, object + slots) == 0;
}

static int take_number(struct objset *os, unsigned slots, uint64_t txg, uint64_t *object)
{
	struct object_alloc *oa = os->dirty->alloc;
	struct object_cursor *c = &oa->cursor[counter_shard() % CURSORS];

	SCOPED_LOCK(&c->lock);
	for (;;) {
		int slot = c->block == NO_BLOCK ? -1 : find_run(c->free, slots);

		if (slot >= 0) {
			c->free &= ~slots_mask((unsigned)slot, slots);
			*object = c->block * BLOCK_SLOTS + (unsigned)slot;
			if (take_fresh(oa, *object, slots))
				return 0;
			continue;
		}
		c->block = take_block(os, txg);
		if (c->block >= DMU_OBJECT_END / BLOCK_SLOTS) {
			c->block = NO_BLOCK;
			return -ENOSPC;
		}
		c->free = free_slots(os, c->block);
	}
}

/* A number that was asked for by name is no cursor's to give. */
static void cursors_forbid(struct object_alloc *oa, uint64_t object, unsigned slots)
{
	for (unsigned i = 0; i < CURSORS; i++) {
		struct object_cursor *c = &oa->cursor[i];

		SCOPED_LOCK(&c->lock);
		if (c->block == object / BLOCK_SLOTS)
			c->free &= ~slots_mask((unsigned)(object % BLOCK_SLOTS), slots);
	}
}

/* --- making --- */

static unsigned spec_slots(const struct dmu_object *spec)
{
	return spec->dnodesize ? spec->dnodesize >> DNODE_SHIFT : 1;
}

static struct dnode_shape shape_of(const struct dmu_object *spec)
{
	unsigned slots = spec_slots(spec);
	unsigned room = (slots << DNODE_SHIFT) - 192;

	return (struct dnode_shape){
	    .type = spec->type,
	    .bonustype = spec->bonustype,
	    .nblkptr = spec->bonustype == DMU_OT_SA ? 1
						    : (uint8_t)MIN(DNODE_BLKPTR, 1 + (room - spec->bonuslen) / BP_SIZE),
	    .indblkshift = spec->indblkshift ? (uint8_t)MIN(MAX(spec->indblkshift, 12u), 17u) : INDBLKSHIFT_DEF,
	    .slots = (uint8_t)slots,
	    .datablksz = spec->blocksize ? ROUND_UP(spec->blocksize, 1u << SECTOR_SHIFT) : 1u << SECTOR_SHIFT,
	    .bonuslen = spec->bonuslen,
	};
}

static int spec_check(const struct dmu_object *spec)
{
	unsigned slots = spec_slots(spec);

	if (spec->type == 0 || slots == 0 || slots > BLOCK_SLOTS || spec->dnodesize % DNODE_SIZE)
		return -EINVAL;
	if (spec->blocksize > BLOCK_MAX || spec->bonuslen > (slots << DNODE_SHIFT) - 192)
		return -EINVAL;
	return 0;
}

/* A free dnode becomes an object. */
static void change_claim(struct dnode_state *s, void *arg)
{
	const struct dnode_shape *shape = arg;

	s->shape = *shape;
	s->swapped = false;
	free(s->bonus);
	s->bonus = xcalloc(1, ((size_t)shape->slots << DNODE_SHIFT) - 64 - (size_t)shape->nblkptr * BP_SIZE);
}

/* The live dnode of a number that is free: new, or of an object that was freed and is not synced. Comes locked. */
static struct dnode *free_dnode_lock(struct objset *os, uint64_t object, const struct dnode_shape *shape,
				     uint8_t nlevels)
{
	for (;;) {
		struct dnode *dn = dnode_create_free(os, object, shape->slots, shape->nblkptr, shape->indblkshift);

		dn->nlevels = MAX(nlevels, 1);
		dn = dnode_cache_put(os->cache, dn, atomic_load(&os->dirty->synced));
		if (!dn)
			continue;
		pthread_mutex_lock(&dn->lock);
		/* When the freed object was synced in between, it is live no more. */
		if (list_node_is_linked(&dn->cache_node))
			return dn;
		pthread_mutex_unlock(&dn->lock);
		dnode_release(dn);
	}
}

static int object_make(struct objset *os, uint64_t object, const struct dmu_object *spec, struct tx *tx)
{
	struct dnode_shape shape = shape_of(spec);
	struct dnode *dn = free_dnode_lock(os, object, &shape, spec->nlevels);
	int err = 0;

	if (dn->type != 0)
		err = -EEXIST;
	else
		dnode_change_locked(dn, tx->txg, change_claim, &shape);
	pthread_mutex_unlock(&dn->lock);
	dnode_release(dn);
	if (err)
		return err;
	objset_tell_dirty(os, tx->txg);
	if (shape.slots > 1 && os->ops->uses)
		os->ops->uses(os, "org.zfsonlinux:large_dnode", tx->txg);
	return 0;
}

int dmu_object_alloc(struct objset *os, const struct dmu_object *spec, struct tx *tx, uint64_t *object)
{
	int err = spec_check(spec);

	if (!err)
		err = take_number(os, spec_slots(spec), tx->txg, object);
	return err ? err : object_make(os, *object, spec, tx);
}

/* The slots of a number that was asked for: free in the tree, or those of the object itself, which was freed. */
static int claim_number(struct objset *os, uint64_t object, unsigned slots)
{
	struct object_alloc *oa = os->dirty->alloc;
	struct dnode *dn = dnode_cache_get(os->cache, object);
	uint32_t mask = slots_mask((unsigned)(object % BLOCK_SLOTS), slots), own = 0;

	if (dn) {
		pthread_mutex_lock(&dn->lock);
		if (dn->type == 0)
			own = slots_mask((unsigned)(object % BLOCK_SLOTS), MIN(dn->slots, slots));
		pthread_mutex_unlock(&dn->lock);
		dnode_release(dn);
		if (!own)
			return -EEXIST;
	}
	cursors_forbid(oa, object, slots);
	if (((free_slots(os, object / BLOCK_SLOTS) | own) & mask) != mask)
		return -EEXIST;
	SCOPED_LOCK(&oa->lock);
	rangetree_add_any(&oa->fresh, object, object + slots);
	return 0;
}

/* Those whose dnodes are in the header (7). */
static struct dnode **special_slot(struct objset *os, uint64_t object)
{
	switch (object) {
	case DMU_OBJECT_USERUSED:
		return &os->userused;
	case DMU_OBJECT_GROUPUSED:
		return &os->groupused;
	case DMU_OBJECT_PROJECTUSED:
		return &os->projectused;
	default:
		return NULL;
	}
}

static int special_claim(struct objset *os, struct dnode **slot, uint64_t object, const struct dmu_object *spec,
			 struct tx *tx)
{
	struct dnode_shape shape = shape_of(spec);
	struct dnode *dn;

	if (*slot || shape.slots != 1)
		return -EEXIST;
	dn = dnode_create_free(os, object, 1, shape.nblkptr, shape.indblkshift);
	pthread_mutex_lock(&dn->lock);
	dnode_change_locked(dn, tx->txg, change_claim, &shape);
	pthread_mutex_unlock(&dn->lock);
	__atomic_store_n(slot, dn, __ATOMIC_RELEASE);
	objset_tell_dirty(os, tx->txg);
	return 0;
}

int dmu_object_claim(struct objset *os, uint64_t object, const struct dmu_object *spec, struct tx *tx)
{
	struct dnode **special = special_slot(os, object);
	unsigned slots = spec_slots(spec);
	int err = spec_check(spec);

	if (err)
		return err;
	if (special)
		return special_claim(os, special, object, spec, tx);
	if (object == 0 || object >= DMU_OBJECT_END || object % BLOCK_SLOTS + slots > BLOCK_SLOTS)
		return -EINVAL;
	err = claim_number(os, object, slots);
	return err ? err : object_make(os, object, spec, tx);
}

/* --- freeing --- */

static void change_freed(struct dnode_state *s, void *arg)
{
	memset(s->bonus, 0, s->shape.bonuslen);
	s->shape.type = s->shape.bonustype = 0;
	s->shape.bonuslen = 0;
	s->shape.maxblkid = 0;
	s->shape.has_spill = false;
}

int dmu_object_free(struct objset *os, uint64_t object, struct tx *tx)
{
	struct dnode *dn;
	int err = object == 0 || object >= DMU_OBJECT_END ? -EINVAL : dnode_hold(os, object, &dn, NULL);

	if (err)
		return err;
	pthread_mutex_lock(&dn->lock);
	if (dn->type == 0) {
		err = -ENOENT;
	} else {
		dnode_change_locked(dn, tx->txg, change_freed, NULL);
		dnode_group(dn->dirty, tx->txg)->reborn = true;
	}
	pthread_mutex_unlock(&dn->lock);
	if (!err) {
		objset_tell_dirty(os, tx->txg);
		dbuf_free_range(dn->dirty, 0, UINT64_MAX, tx->txg);
	}
	dnode_release(dn);
	return err;
}
