/* What each group leaves of a dnode's own fields, while it is not synced. */
#include "base/sync.h"
#include "dmu/dbuf.h"

#define SHARDS_LARGE 8u
#define SHARDS_HUGE  256u
#define BLOCKS_HUGE  16384u
#define BLOCKS_LARGE 64u /* an object of so many blocks gets a table of several shards */
#define DNODE_HEADER 64u

/* --- states --- */

static struct dnode_shape shape_load(const struct dnode *dn, const struct dnode_dirty *dd)
{
	return (struct dnode_shape){
	    .type = dn->type,
	    .bonustype = dn->bonustype,
	    .nblkptr = dd->nblkptr,
	    .indblkshift = dd->indblkshift,
	    .checksum = dn->checksum,
	    .compress = dn->compress,
	    .slots = dn->slots,
	    .has_spill = dn->has_spill,
	    .datablksz = dn->datablksz,
	    .bonuslen = dn->bonuslen,
	    .maxblkid = dn->maxblkid,
	};
}

static void shape_store(struct dnode *dn, struct dnode_dirty *dd, const struct dnode_shape *s)
{
	__atomic_store_n(&dn->type, s->type, __ATOMIC_RELAXED);
	dn->bonustype = s->bonustype;
	dd->nblkptr = s->nblkptr;
	dd->indblkshift = s->indblkshift;
	dn->checksum = s->checksum;
	dn->compress = s->compress;
	dn->slots = s->slots;
	dn->has_spill = s->has_spill;
	__atomic_store_n(&dn->datablksz, s->datablksz, __ATOMIC_RELAXED);
	dn->bonuslen = s->bonuslen;
	__atomic_store_n(&dn->maxblkid, s->maxblkid, __ATOMIC_RELAXED);
}

static size_t bonus_capacity(const struct dnode_shape *s)
{
	return ((size_t)s->slots << DNODE_SHIFT) - DNODE_HEADER - (size_t)s->nblkptr * BP_SIZE;
}

static struct dnode_state *state_create(const struct dnode_shape *s, const uint8_t *bonus, bool swapped)
{
	struct dnode_state *st = xmalloc(sizeof(*st));

	st->shape = *s;
	st->swapped = swapped;
	st->bonus = xcalloc(1, bonus_capacity(s));
	memcpy(st->bonus, bonus, s->bonuslen);
	return st;
}

static struct dnode_state *state_now(const struct dnode *dn, const struct dnode_dirty *dd)
{
	struct dnode_shape s = shape_load(dn, dd);

	return state_create(&s, dn->bonus, dn->swapped);
}

void dnode_state_free(struct dnode_state *s)
{
	if (!s)
		return;
	free(s->bonus);
	free(s);
}

/* --- the record of a dnode --- */

static struct dnode_dirty *dirty_create(struct dnode *dn)
{
	bool huge = dn->type == DMU_OT_ZVOL || dn->maxblkid >= BLOCKS_HUGE;
	unsigned n = huge ? SHARDS_HUGE : dn->maxblkid >= BLOCKS_LARGE ? SHARDS_LARGE : 1;
	size_t size = ROUND_UP(sizeof(struct dnode_dirty) + n * sizeof(struct dbuf_shard), 64);
	struct dnode_dirty *dd = aligned_alloc(64, size);

	BUG_ON(!dd);
	memset(dd, 0, size);
	dd->dn = dn;
	dd->nshards = n;
	dd->nblkptr = dn->nblkptr;
	/* Only a dnode with indirect blocks was checked for it. */
	dd->indblkshift = dn->indblkshift >= 10 && dn->indblkshift <= 17 ? dn->indblkshift : 17;
	pthread_mutex_init(&dd->free_lock, NULL);
	for (unsigned i = 0; i < n; i++)
		dbuf_shard_init(&dd->shard[i]);
	for (unsigned i = 0; i < TXG_SIZE; i++)
		rangetree_init(&dd->group[i].freed);
	return dd;
}

void dnode_dirty_destroy(struct dnode_dirty *dd)
{
	if (!dd)
		return;
	for (unsigned i = 0; i < TXG_SIZE; i++)
		rangetree_clear(&dd->group[i].freed);
	for (unsigned i = 0; i < dd->nshards; i++)
		pthread_mutex_destroy(&dd->shard[i].lock);
	pthread_mutex_destroy(&dd->free_lock);
	free(dd);
}

/* The bonus moves to a buffer of its own, with room to grow. */
static void bonus_make_own(struct dnode *dn, struct dnode_dirty *dd)
{
	struct dnode_shape s = shape_load(dn, dd);

	if (dn->own_bonus)
		return;
	dn->own_bonus = xcalloc(1, bonus_capacity(&s));
	memcpy(dn->own_bonus, dn->bonus, dn->bonuslen);
	dn->bonus = dn->own_bonus;
}

static struct dnode_dirty *dirty_get_locked(struct dnode *dn)
{
	struct dnode_dirty *dd = dn->dirty;

	if (dd)
		return dd;
	dd = dirty_create(dn);
	bonus_make_own(dn, dd);
	__atomic_store_n(&dn->dirty, dd, __ATOMIC_RELEASE);
	return dd;
}

/* The youngest group before txg that has a state; NULL: none. */
static struct dnode_group *group_before_locked(struct dnode_dirty *dd, uint64_t txg)
{
	struct dnode_group *found = NULL;

	for (unsigned i = 0; i < TXG_SIZE; i++) {
		struct dnode_group *g = &dd->group[i];
		uint64_t t = atomic_load(&g->txg);

		if (t != 0 && t < txg && (!found || t > atomic_load(&found->txg)))
			found = g;
	}
	return found;
}

/*
 * The group's first change. While it is the youngest its state is the dnode itself; the group that was so before gets a
 * copy now. A transaction of an older group that comes late starts from what was before.
 */
static void group_begin_locked(struct dnode *dn, struct dnode_dirty *dd, struct dnode_group *g, uint64_t txg)
{
	uint64_t newest = atomic_load(&dd->newest);
	struct dnode_group *before;
	struct dnode_state *from;

	BUG_ON(atomic_load(&g->txg) != 0);
	if (newest == 0) {
		dd->base = state_now(dn, dd);
	} else if (newest < txg) {
		dnode_group(dd, newest)->state = state_now(dn, dd);
	} else {
		before = group_before_locked(dd, txg);
		from = before ? before->state : dd->base;
		g->state = state_create(&from->shape, from->bonus, from->swapped);
	}
	atomic_store(&g->txg, txg);
	if (newest < txg)
		atomic_store(&dd->newest, txg);
	dnode_ref(dn);
	objset_note_dirty(dn->os, g, txg);
}

struct dnode_dirty *dnode_dirty_mark_locked(struct dnode *dn, uint64_t txg)
{
	struct dnode_dirty *dd = dirty_get_locked(dn);
	struct dnode_group *g = dnode_group(dd, txg);

	if (atomic_load(&g->txg) != txg)
		group_begin_locked(dn, dd, g, txg);
	return dd;
}

static void change_now_locked(struct dnode *dn, struct dnode_dirty *dd, dnode_change_fn fn, void *arg)
{
	struct dnode_state now = {shape_load(dn, dd), dn->swapped, dn->bonus};

	fn(&now, arg);
	shape_store(dn, dd, &now.shape);
	dn->swapped = now.swapped;
	dn->bonus = dn->own_bonus = now.bonus;
}

void dnode_change_locked(struct dnode *dn, uint64_t txg, dnode_change_fn fn, void *arg)
{
	struct dnode_dirty *dd = dnode_dirty_mark_locked(dn, txg);

	for (uint64_t t = txg; t < atomic_load(&dd->newest); t++) {
		struct dnode_group *g = dnode_group(dd, t);

		if (atomic_load(&g->txg) == t)
			fn(g->state, arg);
	}
	change_now_locked(dn, dd, fn, arg);
}

struct dnode_state *dnode_state_of_group_locked(struct dnode *dn, uint64_t txg)
{
	struct dnode_dirty *dd = dn->dirty;
	struct dnode_group *g = dnode_group(dd, txg);

	if (g->state)
		return state_create(&g->state->shape, g->state->bonus, g->state->swapped);
	return state_now(dn, dd);
}

struct dnode_state *dnode_state_copy_locked(struct dnode *dn)
{
	return state_now(dn, dirty_get_locked(dn));
}

static void change_grow(struct dnode_state *s, void *arg)
{
	uint64_t blkid = *(uint64_t *)arg;

	s->shape.maxblkid = MAX(s->shape.maxblkid, blkid);
}

int dnode_dirty_mark(struct dnode *dn, uint64_t txg, uint64_t blkid)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);
	int err = 0;

	/* The way of nearly every write: nothing of the dnode itself changes. */
	if (dd && atomic_load(&dd->newest) == txg && __atomic_load_n(&dn->type, __ATOMIC_RELAXED) != 0 &&
	    (blkid == UINT64_MAX || blkid <= __atomic_load_n(&dn->maxblkid, __ATOMIC_RELAXED)))
		return 0;
	pthread_mutex_lock(&dn->lock);
	if (dn->type == 0)
		err = -ENOENT;
	else if (blkid == UINT64_MAX)
		dnode_dirty_mark_locked(dn, txg);
	else
		dnode_change_locked(dn, txg, change_grow, &blkid);
	pthread_mutex_unlock(&dn->lock);
	if (!err)
		objset_tell_dirty(dn->os, txg);
	return err;
}

void dnode_group_end(struct dnode *dn, uint64_t txg)
{
	struct dnode_dirty *dd = dn->dirty;
	struct dnode_group *g = dnode_group(dd, txg);
	struct dnode_kept *kept;
	uint64_t newest = 0;

	dbuf_forget_group(dd, txg);
	pthread_mutex_lock(&dn->lock);
	kept = dd->kept;
	dd->kept = NULL;
	atomic_store(&g->txg, 0);
	atomic_store(&g->syncing, false);
	g->reborn = false;
	for (unsigned i = 0; i < TXG_SIZE; i++)
		newest = MAX(newest, atomic_load(&dd->group[i].txg));
	atomic_store(&dd->newest, newest);
	dnode_state_free(dd->base);
	dd->base = NULL;
	if (newest)
		dd->base = g->state;
	else
		dnode_state_free(g->state);
	g->state = NULL;
	pthread_mutex_unlock(&dn->lock);
	dnode_kept_free(kept);
}

/* --- the bonus --- */

struct bonus_change {
	size_t offset, len;
	const void *data;
	bool swap; /* turned to host order first */
};

int dmu_bonus_read(struct dnode *dn, size_t offset, void *dst, size_t len)
{
	int err = -EINVAL;

	pthread_mutex_lock(&dn->lock);
	if (offset <= dn->bonuslen && len <= dn->bonuslen - offset) {
		memcpy(dst, dn->bonus + offset, len);
		err = 0;
	}
	pthread_mutex_unlock(&dn->lock);
	return err;
}

int dmu_bonus_u64(struct dnode *dn, size_t offset, uint64_t *v)
{
	int err = -EINVAL;

	pthread_mutex_lock(&dn->lock);
	if (offset <= dn->bonuslen && dn->bonuslen - offset >= 8) {
		*v = load64(dn->bonus + offset, dn->swapped);
		err = 0;
	}
	pthread_mutex_unlock(&dn->lock);
	return err;
}

static void change_bonus(struct dnode_state *s, void *arg)
{
	const struct bonus_change *c = arg;

	if (s->swapped) {
		dmu_swap_contents(s->shape.bonustype, s->bonus, s->shape.bonuslen);
		s->swapped = false;
	}
	/* A younger group may have made it smaller. */
	if (c->offset < s->shape.bonuslen)
		memcpy(s->bonus + c->offset, c->data, MIN(c->len, s->shape.bonuslen - c->offset));
}

static void change_bonus_size(struct dnode_state *s, void *arg)
{
	size_t len = *(size_t *)arg;

	if (s->swapped) {
		dmu_swap_contents(s->shape.bonustype, s->bonus, s->shape.bonuslen);
		s->swapped = false;
	}
	if (len < s->shape.bonuslen)
		memset(s->bonus + len, 0, s->shape.bonuslen - len);
	s->shape.bonuslen = (uint32_t)len;
}

static int bonus_check_locked(const struct dnode *dn)
{
	if (dn->type == 0)
		return -ENOENT;
	return dn->bonus_encrypted ? -EKEY : 0;
}

int dmu_bonus_write(struct dnode *dn, size_t offset, const void *data, size_t len, struct tx *tx)
{
	struct bonus_change c = {offset, len, data, false};
	int err;

	pthread_mutex_lock(&dn->lock);
	err = bonus_check_locked(dn);
	if (!err && (offset > dn->bonuslen || len > dn->bonuslen - offset))
		err = -EINVAL;
	if (!err)
		dnode_change_locked(dn, tx->txg, change_bonus, &c);
	pthread_mutex_unlock(&dn->lock);
	if (!err)
		objset_tell_dirty(dn->os, tx->txg);
	return err;
}

int dmu_bonus_set_size(struct dnode *dn, size_t len, struct tx *tx)
{
	struct dnode_dirty *dd;
	struct dnode_shape s;
	int err;

	pthread_mutex_lock(&dn->lock);
	err = bonus_check_locked(dn);
	if (!err) {
		dd = dirty_get_locked(dn);
		s = shape_load(dn, dd);
		err = len > dnode_bonus_room(&s) ? -EINVAL : 0;
	}
	if (!err)
		dnode_change_locked(dn, tx->txg, change_bonus_size, &len);
	pthread_mutex_unlock(&dn->lock);
	if (!err)
		objset_tell_dirty(dn->os, tx->txg);
	return err;
}

/* --- single fields --- */

struct type_change {
	uint8_t type, bonustype;
	uint16_t bonuslen;
};

static void change_type(struct dnode_state *s, void *arg)
{
	const struct type_change *c = arg;
	size_t len = MIN(c->bonuslen, dnode_bonus_room(&s->shape));

	change_bonus_size(s, &len);
	s->shape.type = c->type;
	s->shape.bonustype = c->bonustype;
}

void dmu_object_set_type(struct dnode *dn, uint8_t type, uint8_t bonustype, uint16_t bonuslen, struct tx *tx)
{
	struct type_change c = {type, bonustype, bonuslen};

	pthread_mutex_lock(&dn->lock);
	dnode_change_locked(dn, tx->txg, change_type, &c);
	pthread_mutex_unlock(&dn->lock);
	objset_tell_dirty(dn->os, tx->txg);
}

static void change_algorithms(struct dnode_state *s, void *arg)
{
	const uint8_t *a = arg;

	s->shape.checksum = a[0];
	s->shape.compress = a[1];
}

void dmu_object_set_algorithms(struct dnode *dn, uint8_t checksum, uint8_t compress, struct tx *tx)
{
	uint8_t a[2] = {checksum, compress};

	pthread_mutex_lock(&dn->lock);
	dnode_change_locked(dn, tx->txg, change_algorithms, a);
	pthread_mutex_unlock(&dn->lock);
	objset_tell_dirty(dn->os, tx->txg);
}

struct size_change {
	uint32_t blocksize;
	unsigned indblkshift; /* 0: as it is */
};

static void change_blocksize(struct dnode_state *s, void *arg)
{
	const struct size_change *c = arg;

	s->shape.datablksz = c->blocksize;
	if (c->indblkshift)
		s->shape.indblkshift = (uint8_t)c->indblkshift;
}

/* The youngest group up to txg in which the object was freed: what was before does not count. 0: none. */
static uint64_t reborn_locked(const struct dnode_dirty *dd, uint64_t txg)
{
	uint64_t found = 0;

	for (unsigned i = 0; i < TXG_SIZE; i++) {
		uint64_t t = atomic_load(&dd->group[i].txg);

		if (t <= txg && dd->group[i].reborn)
			found = MAX(found, t);
	}
	return found;
}

/* At most block 0 exists; for the size of indirect blocks there must never have been any. */
static bool blocksize_may_change_locked(const struct dnode *dn, const struct dnode_dirty *dd, bool indirect,
					uint64_t txg)
{
	uint64_t from = reborn_locked(dd, txg);

	if (dn->maxblkid != 0)
		return false;
	if (!indirect)
		return true;
	if (from == 0 && (dn->nlevels != 1 || dn->tree_maxblkid != 0))
		return false;
	for (unsigned i = 0; i < TXG_SIZE; i++) {
		const struct dnode_group *g = &dd->group[i];

		if (g->state && atomic_load(&g->txg) >= from && g->state->shape.maxblkid != 0)
			return false;
	}
	return true;
}

/* Block 0 has contents that are to get the new size. */
static bool block0_exists(struct dnode *dn, struct dnode_dirty *dd, uint64_t txg)
{
	struct buf *buf = NULL;
	enum dbuf_found found;
	struct bp bp;

	if (atomic_load(&dd->newest) > txg)
		return true;
	found = dbuf_find(dd, 0, &buf, &bp);
	buf_release(buf);
	if (found != DBUF_NONE)
		return found != DBUF_HOLE;
	SCOPED_LOCK(&dn->lock);
	return reborn_locked(dd, txg) == 0 && (dn->nlevels > 1 || !bp_is_hole(&dn->blkptr[0]));
}

int dmu_object_set_blocksize(struct dnode *dn, uint32_t blocksize, unsigned indblkshift, struct tx *tx)
{
	struct size_change c = {ROUND_UP(blocksize, 1u << SECTOR_SHIFT), indblkshift};
	struct dnode_dirty *dd;
	bool resize;
	int err;

	if (c.blocksize == 0 || c.blocksize > BLOCK_MAX)
		return -EINVAL;
	if (indblkshift)
		c.indblkshift = MIN(MAX(indblkshift, 12u), 17u);
	pthread_mutex_lock(&dn->lock);
	dd = dirty_get_locked(dn);
	resize = dn->datablksz != c.blocksize;
	if (c.indblkshift == dd->indblkshift)
		c.indblkshift = 0;
	err = dn->type == 0 ? -ENOENT : 0;
	if (!err && !blocksize_may_change_locked(dn, dd, c.indblkshift != 0, tx->txg))
		err = -ENOTSUP;
	if (!err)
		dnode_change_locked(dn, tx->txg, change_blocksize, &c);
	pthread_mutex_unlock(&dn->lock);
	if (err)
		return err;
	objset_tell_dirty(dn->os, tx->txg);
	return resize && block0_exists(dn, dd, tx->txg) ? dbuf_touch(dd, 0, c.blocksize, tx->txg) : 0;
}
