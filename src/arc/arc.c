/* The adaptive replacement cache: reads, what is written, the whole. See arc/arc.h. */
#include "arc/arc_impl.h"
#include "zio/zio_crypt.h"

#define ARC_BUCKETS_MIN 256u
#define ARC_ONCE_NS     UINT64_C(62000000) /* accesses this close count as one */
#define ARC_TOUCH_NS    UINT64_C(1000000)  /* list order is kept to this precision */

/* Without a key an authenticated block is believed: such bytes must not answer those who have the key. */
static bool read_is_unverified(const struct bp *bp, const struct crypt_key *key, unsigned flags)
{
	return !key && bp_is_authenticated(bp) && !(flags & ZIO_RAW);
}

/* --- room for reads in flight --- */

/* What a read needs until it is done: the block, and its compressed form beside it. */
static uint64_t read_bytes(const struct bp *bp, unsigned flags)
{
	uint64_t stored = ROUND_UP(bp_psize(bp), 4096);

	if (flags & ZIO_RAW || bp_compress(bp) == COMPRESS_OFF)
		return stored + sizeof(struct arc_entry);
	return stored + ROUND_UP(bp_lsize(bp), 4096) + sizeof(struct arc_entry);
}

/* Prefetches stop where this much is in flight: above half, so that one block of a quarter of the cache can be read
 * ahead of another. */
static uint64_t prefetch_limit(uint64_t max)
{
	return max / 2 + max / 8;
}

static bool arc_reserve(struct arc *a, uint64_t bytes)
{
	uint64_t max = atomic_load(&a->max), limit = max - max / 4;
	uint64_t flying = atomic_load(&a->flying);

	do {
		if (flying != 0 && flying + bytes > limit)
			return false;
	} while (!atomic_compare_exchange_weak(&a->flying, &flying, flying + bytes));
	arc_take(a, bytes);
	return true;
}

static void flight_start(struct arc_flight *f)
{
	zio_read(f->zp, &f->zr);
}

/* Start waiting reads while there is room. */
static void arc_pump(struct arc *a)
{
	while (atomic_load(&a->nwaiting) > 0) {
		struct arc_flight *f = NULL;
		struct list_node *n;

		pthread_mutex_lock(&a->wait_lock);
		n = list_first(&a->waiting);
		if (n && arc_reserve(a, container_of(n, struct arc_flight, node)->reserved)) {
			f = container_of(n, struct arc_flight, node);
			list_remove(&a->waiting, n);
			atomic_fetch_sub(&a->nwaiting, 1);
		}
		pthread_mutex_unlock(&a->wait_lock);
		if (!f)
			return;
		flight_start(f);
	}
}

static void flight_admit(struct arc *a, struct arc_flight *f)
{
	if (atomic_load(&a->nwaiting) == 0 && arc_reserve(a, f->reserved)) {
		flight_start(f);
		return;
	}
	pthread_mutex_lock(&a->wait_lock);
	list_append(&a->waiting, &f->node);
	atomic_fetch_add(&a->nwaiting, 1);
	pthread_mutex_unlock(&a->wait_lock);
	arc_pump(a);
}

/* --- pools --- */

static struct arc_pool *pool_find(struct arc *a, uint64_t guid)
{
	struct arc_pool *p = atomic_load(&a->pools);

	while (p && p->guid != guid)
		p = p->next;
	return p;
}

static struct arc_pool *pool_get(struct arc *a, uint64_t guid)
{
	struct arc_pool *p = pool_find(a, guid);

	if (p)
		return p;
	SCOPED_LOCK(&a->pool_lock);
	p = pool_find(a, guid);
	if (p)
		return p;
	p = xcalloc(1, sizeof(*p));
	p->guid = guid;
	p->next = atomic_load(&a->pools);
	atomic_store(&a->pools, p);
	return p;
}

/* The last one ends under the lock: who waited for it may destroy the cache at once. */
static void pool_flight_ended(struct arc *a, struct arc_pool *p)
{
	uint_fast64_t n = atomic_load(&p->flights);

	while (n > 1)
		if (atomic_compare_exchange_weak(&p->flights, &n, n - 1))
			return;
	SCOPED_LOCK(&a->pool_lock);
	if (atomic_fetch_sub(&p->flights, 1) == 1)
		pthread_cond_broadcast(&a->drained);
}

static void pool_drain(struct arc *a, struct arc_pool *p)
{
	SCOPED_LOCK(&a->pool_lock);
	while (atomic_load(&p->flights) > 0)
		pthread_cond_wait(&a->drained, &a->pool_lock);
}

/* --- completion --- */

static void entry_land_locked(struct arc *a, struct arc_shard *s, struct arc_flight *f, struct buf *buf,
			      uint64_t charge)
{
	struct arc_entry *e = f->entry;
	uint64_t now = now_ns();

	e->flight = NULL;
	e->buf = buf_hold(buf);
	e->charge = charge;
	e->prefetched = !f->demand;
	e->access = now;
	arc_entry_enlist_locked(a, s, e, f->target, now);
}

/*
 * Speculative reads give up early and say nothing: when somebody waits by now, he gets a read of his own. False then,
 * and the flight goes on. Else its bytes move from reserved to resident, or are given back, and the waiters come out.
 */
static bool flight_land(struct arc_flight *f, int err, struct buf *buf, struct list *waiters)
{
	struct arc *a = f->arc;
	struct arc_shard *s = arc_shard_of(a, f->entry->hash);
	uint64_t charge = err ? 0 : arc_entry_charge(buf);

	if (charge > atomic_load(&a->max))
		charge = 0;
	if (charge > f->reserved)
		arc_take(a, charge - f->reserved);
	pthread_mutex_lock(&s->lock);
	if (err && f->zr.flags & ZIO_SPECULATIVE && f->demand) {
		pthread_mutex_unlock(&s->lock);
		return false;
	}
	list_splice(waiters, &f->waiters);
	/* Its bytes are charged before it can be found: an eviction never gives back what was not taken. */
	if (charge && f->keep) {
		entry_land_locked(a, s, f, buf, charge);
	} else {
		arc_entry_destroy_locked(s, f->entry);
		atomic_fetch_sub(&a->used, MAX(charge, f->reserved));
		charge = f->reserved;
	}
	pthread_mutex_unlock(&s->lock);
	if (charge < f->reserved)
		atomic_fetch_sub(&a->used, f->reserved - charge);
	atomic_fetch_sub(&a->flying, f->reserved);
	return true;
}

static void flight_done(struct zio_read *zr, int err, struct buf *buf)
{
	struct arc_flight *f = zr->arg;
	struct arc *a = f->arc;
	struct arc_pool *pool = f->pool;
	struct list waiters;
	struct list_node *n;

	list_init(&waiters);
	if (!flight_land(f, err, buf, &waiters)) {
		f->zr.flags &= ~(ZIO_SPECULATIVE | ZIO_QUIET);
		flight_start(f);
		return;
	}
	if (f->zr.key)
		crypt_key_release(f->zr.key);
	free(f);
	arc_pump(a);
	while ((n = list_pop(&waiters))) {
		struct arc_read *r = container_of(n, struct arc_read, node);

		r->done(r, err, err ? NULL : buf_hold(buf));
	}
	buf_release(buf);
	pool_flight_ended(a, pool);
}

/* --- look-up --- */

static void entry_touch_locked(struct arc *a, struct arc_shard *s, struct arc_entry *e)
{
	uint64_t now = now_ns();
	enum arc_state st = e->state;

	counter_add(&a->list_hit[st], 1);
	if (e->prefetched) {
		e->prefetched = false;
		e->access = now;
		counter_add(&a->prefetch_hits, 1);
	} else if (st == ARC_MRU && now - e->access > ARC_ONCE_NS) {
		st = ARC_MFU;
	}
	if (st == e->state && now - e->stamp < ARC_TOUCH_NS)
		return;
	arc_entry_unlist_locked(a, s, e);
	arc_entry_enlist_locked(a, s, e, st, now);
}

/* A block comes back that should not have been evicted: shift the balance towards the list it was on. */
static void arc_adapt(struct arc *a, const struct arc_entry *ghost)
{
	uint64_t max = atomic_load(&a->max), target = atomic_load(&a->target_mru), margin = max / 16;
	uint64_t mru = arc_state_size(a, ARC_MRU_GHOST) + 1, mfu = arc_state_size(a, ARC_MFU_GHOST) + 1;
	uint64_t step;

	if (ghost->state == ARC_MRU_GHOST) {
		step = ghost->charge * MAX(mfu / mru, 1);
		target = target + step;
	} else {
		step = ghost->charge * MAX(mru / mfu, 1);
		target = target - MIN(target, step);
	}
	atomic_store(&a->target_mru, MAX(MIN(target, max - margin), margin));
}

static struct arc_flight *flight_create(struct arc *a, struct zio_pool *zp, const struct bp *bp,
					const struct zbookmark *zb, struct crypt_key *key, unsigned flags)
{
	struct arc_flight *f = xcalloc(1, sizeof(*f));
	bool prefetch = flags & ARC_PREFETCH;

	f->arc = a;
	f->pool = pool_get(a, zp->guid);
	f->zp = zp;
	f->zr.bp = *bp;
	f->zr.zb = *zb;
	f->zr.key = key ? crypt_key_hold(key) : NULL;
	f->zr.flags = (flags & (ZIO_RAW | ZIO_SPECULATIVE | ZIO_SCRUB | ZIO_QUIET)) |
		      (prefetch ? ZIO_SPECULATIVE | ZIO_QUIET : 0);
	f->zr.done = flight_done;
	f->zr.arg = f;
	f->keep = !(flags & ARC_NOCACHE);
	f->demand = !prefetch;
	f->reserved = read_bytes(bp, flags);
	list_init(&f->waiters);
	atomic_fetch_add(&f->pool->flights, 1);
	return f;
}

/* Ghost or unknown: make the entry fly. */
static struct arc_flight *entry_take_off_locked(struct arc *a, struct arc_shard *s, struct arc_entry *e,
						struct arc_flight *f, const struct arc_key *k, uint64_t hash)
{
	f->target = ARC_MRU;
	if (e) {
		counter_add(&a->list_hit[e->state], 1);
		if (f->demand) {
			arc_adapt(a, e);
			f->target = ARC_MFU;
		}
		arc_entry_unlist_locked(a, s, e);
		e->state = ARC_FLYING;
	} else {
		e = arc_entry_create_locked(s, k, hash);
	}
	e->metadata = bp_is_metadata(&f->zr.bp);
	e->objset = f->zr.zb.objset;
	e->flight = f;
	f->entry = e;
	return f;
}

static void flight_join_locked(struct arc *a, struct arc_flight *f, struct arc_read *r, unsigned flags)
{
	if (!(flags & ARC_PREFETCH) && !f->demand) {
		f->demand = true;
		counter_add(&a->prefetch_hits, 1);
	}
	if (!(flags & ARC_NOCACHE))
		f->keep = true;
	if (r)
		list_append(&f->waiters, &r->node);
}

enum arc_found { ARC_HIT, ARC_JOINED, ARC_STARTED, ARC_REFUSED };

/*
 * The one way in: r NULL means nobody waits. ARC_HIT: *out is held. ARC_JOINED, ARC_STARTED: r->done will be called.
 */
static enum arc_found arc_find(struct arc *a, struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb,
			       struct crypt_key *key, unsigned flags, struct arc_read *r, struct buf **out)
{
	struct arc_key k = arc_key_of(zp, bp, flags, read_is_unverified(bp, key, flags));
	uint64_t hash = arc_key_hash(&k);
	struct arc_shard *s = arc_shard_of(a, hash);
	bool prefetch = flags & ARC_PREFETCH, meta = bp_is_metadata(bp);
	struct arc_flight *f;
	struct arc_entry *e;

	pthread_mutex_lock(&s->lock);
	e = *arc_slot_locked(s, &k, hash);
	if (e && e->buf) {
		if (!prefetch)
			entry_touch_locked(a, s, e);
		*out = buf_hold(e->buf);
		pthread_mutex_unlock(&s->lock);
		counter_add(&a->hit[prefetch][meta], 1);
		return ARC_HIT;
	}
	if (e && e->flight) {
		flight_join_locked(a, e->flight, r, flags);
		pthread_mutex_unlock(&s->lock);
		counter_add(&a->io_hit[prefetch][meta], 1);
		return ARC_JOINED;
	}
	f = flight_create(a, zp, bp, zb, key, flags);
	entry_take_off_locked(a, s, e, f, &k, hash);
	if (r)
		list_append(&f->waiters, &r->node);
	pthread_mutex_unlock(&s->lock);
	counter_add(&a->miss[prefetch][meta], 1);
	flight_admit(a, f);
	return ARC_STARTED;
}

/* What needs no device: 0 and *out, a negative error, or 1: look in the cache. */
static int read_inline(const struct bp *bp, struct crypt_key *key, unsigned flags, struct buf **out)
{
	size_t size;
	int err;

	if (bp_check(bp))
		return -EINVAL;
	if (!bp_is_hole(bp) && !bp_is_embedded(bp))
		return bp_is_encrypted(bp) && !key && !(flags & ZIO_RAW) ? -EKEY : 1;
	size = bp_lsize(bp);
	if (size == 0 || (key && bp_is_embedded(bp))) /* redacted; never in an encrypted set */
		return -EIO;
	*out = buf_alloc(size);
	if (!*out)
		return -ENOMEM;
	if (bp_is_hole(bp)) {
		memset((*out)->data, 0, size);
		return 0;
	}
	err = bp_embedded_data(bp, (*out)->data, size);
	if (err)
		buf_release(*out);
	return err;
}

/* Prefetches do not queue for room; asked before anything is set up. */
static bool prefetch_has_room(struct arc *a, const struct bp *bp, unsigned flags)
{
	uint64_t flying = atomic_load(&a->flying);

	return atomic_load(&a->nwaiting) == 0 &&
	       (flying == 0 || flying + read_bytes(bp, flags) <= prefetch_limit(atomic_load(&a->max)));
}

void arc_read(struct arc *a, struct arc_read *r)
{
	struct buf *buf = NULL;
	int err = read_inline(&r->bp, r->key, r->flags, &buf);

	if (err > 0) {
		if (r->flags & ARC_PREFETCH && !prefetch_has_room(a, &r->bp, r->flags))
			err = -EAGAIN;
		else if (arc_find(a, r->zp, &r->bp, &r->zb, r->key, r->flags, r->done ? r : NULL, &buf) != ARC_HIT)
			return;
		else
			err = 0;
	}
	if (r->done)
		r->done(r, err, err ? NULL : buf);
	else if (!err)
		buf_release(buf);
}

struct arc_wait {
	struct waiter w;
	struct buf *buf;
};

static void arc_wait_done(struct arc_read *r, int err, struct buf *buf)
{
	struct arc_wait *aw = r->arg;

	aw->buf = buf;
	waiter_done(&aw->w, err);
}

int arc_read_wait(struct arc *a, struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb,
		  struct crypt_key *key, unsigned flags, struct buf **out)
{
	struct arc_wait aw = {.buf = NULL};
	struct arc_read r = {
	    .zp = zp, .bp = *bp, .zb = *zb, .key = key, .flags = flags, .done = arc_wait_done, .arg = &aw};
	int err = read_inline(bp, key, flags, out);

	if (err <= 0)
		return err;
	waiter_init(&aw.w);
	if (arc_find(a, zp, bp, zb, key, flags, &r, &aw.buf) == ARC_HIT)
		waiter_done(&aw.w, 0);
	err = waiter_wait(&aw.w);
	*out = aw.buf;
	return err;
}

struct buf *arc_lookup(struct arc *a, struct zio_pool *zp, const struct bp *bp, unsigned flags)
{
	struct arc_key k = arc_key_of(zp, bp, flags, false);
	uint64_t hash = arc_key_hash(&k);
	struct arc_shard *s = arc_shard_of(a, hash);
	struct buf *buf = NULL;
	struct arc_entry *e;

	if (bp_check(bp) || bp_is_hole(bp) || bp_is_embedded(bp))
		return NULL;
	pthread_mutex_lock(&s->lock);
	e = *arc_slot_locked(s, &k, hash);
	if (e && e->buf) {
		entry_touch_locked(a, s, e);
		buf = buf_hold(e->buf);
	}
	pthread_mutex_unlock(&s->lock);
	if (buf)
		counter_add(&a->hit[0][bp_is_metadata(bp)], 1);
	return buf;
}

bool arc_prefetch(struct arc *a, struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb,
		  struct crypt_key *key)
{
	struct buf *buf;
	enum arc_found found;

	if (bp_check(bp) || bp_is_hole(bp) || bp_is_embedded(bp) || (bp_is_encrypted(bp) && !key))
		return true;
	if (!prefetch_has_room(a, bp, 0))
		return false;
	found = arc_find(a, zp, bp, zb, key, ARC_PREFETCH, NULL, &buf);
	if (found == ARC_HIT)
		buf_release(buf);
	else if (found == ARC_STARTED)
		counter_add(&a->prefetch_issued, 1);
	return true;
}

/* --- the whole cache --- */

struct arc *arc_create(uint64_t max_bytes)
{
	struct arc *a = aligned_alloc(64, ROUND_UP(sizeof(*a), 64));

	BUG_ON(!a);
	memset(a, 0, sizeof(*a));
	for (unsigned i = 0; i < ARC_SHARDS; i++) {
		struct arc_shard *s = &a->shard[i];

		pthread_mutex_init(&s->lock, NULL);
		s->nbuckets = ARC_BUCKETS_MIN;
		s->bucket = xcalloc(s->nbuckets, sizeof(*s->bucket));
		for (unsigned st = 0; st < ARC_STATES; st++) {
			for (unsigned meta = 0; meta < 2; meta++) {
				list_init(&s->list[st][meta]);
				atomic_init(&s->oldest[st][meta], UINT64_MAX);
			}
		}
	}
	pthread_mutex_init(&a->wait_lock, NULL);
	pthread_mutex_init(&a->pool_lock, NULL);
	pthread_cond_init(&a->drained, NULL);
	list_init(&a->waiting);
	atomic_init(&a->max, MAX(max_bytes, ARC_MAX_MIN));
	atomic_init(&a->target_mru, MAX(max_bytes, ARC_MAX_MIN) / 2);
	return a;
}

/* --- blocks that are written and freed --- */

/* The buffer that was resident, for the caller to release; reads in flight land nowhere. */
static struct buf *key_forget_locked(struct arc *a, struct arc_shard *s, const struct arc_key *k, uint64_t hash)
{
	struct arc_entry *e = *arc_slot_locked(s, k, hash);
	struct buf *buf;

	if (!e)
		return NULL;
	if (e->flight) {
		e->flight->keep = false;
		e->key.form |= KEY_PASSED; /* nobody finds it, and joins, any more */
		return NULL;
	}
	buf = e->buf;
	arc_entry_unlist_locked(a, s, e);
	if (buf)
		atomic_fetch_sub(&a->used, e->charge);
	arc_entry_destroy_locked(s, e);
	return buf;
}

static void key_forget(struct arc *a, const struct arc_key *k)
{
	uint64_t hash = arc_key_hash(k);
	struct arc_shard *s = arc_shard_of(a, hash);
	struct buf *buf;

	pthread_mutex_lock(&s->lock);
	buf = key_forget_locked(a, s, k, hash);
	pthread_mutex_unlock(&s->lock);
	buf_release(buf);
}

static void entry_make_locked(struct arc *a, struct arc_shard *s, const struct arc_key *k, struct buf *buf,
			      const struct bp *bp, uint64_t objset)
{
	struct arc_entry *e = arc_entry_create_locked(s, k, arc_key_hash(k));
	uint64_t now = now_ns();

	e->buf = buf_hold(buf);
	e->charge = arc_entry_charge(buf);
	e->metadata = bp_is_metadata(bp);
	e->objset = objset;
	e->access = now;
	arc_entry_enlist_locked(a, s, e, ARC_MRU, now);
}

void arc_insert(struct arc *a, struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb, struct buf *buf,
		unsigned flags)
{
	struct arc_key k = arc_key_of(zp, bp, flags, false);
	uint64_t hash = arc_key_hash(&k);
	struct arc_shard *s = arc_shard_of(a, hash);
	struct buf *old;
	bool keep;

	if (bp_is_hole(bp) || bp_is_embedded(bp))
		return;
	keep = !(flags & ARC_NOCACHE) && arc_take_if(a, arc_entry_charge(buf));
	pthread_mutex_lock(&s->lock);
	old = key_forget_locked(a, s, &k, hash);
	if (keep)
		entry_make_locked(a, s, &k, buf, bp, zb->objset);
	pthread_mutex_unlock(&s->lock);
	buf_release(old);
}

void arc_drop(struct arc *a, struct zio_pool *zp, const struct bp *bp)
{
	struct arc_key k;

	if (bp_is_hole(bp) || bp_is_embedded(bp))
		return;
	for (unsigned raw = 0; raw < 2; raw++) {
		k = arc_key_of(zp, bp, raw ? ZIO_RAW : 0, false);
		key_forget(a, &k);
	}
	if (bp_is_authenticated(bp)) {
		k = arc_key_of(zp, bp, 0, true);
		key_forget(a, &k);
	}
}

/* --- all of a pool, or of an object set --- */

/* Which entries to forget: objset 0 means the whole pool, guid 0 everything. */
static void shard_flush(struct arc *a, struct arc_shard *s, uint64_t guid, uint64_t objset)
{
	SCOPED_LOCK(&s->lock);
	for (size_t i = 0; i < s->nbuckets; i++) {
		for (struct arc_entry *e = s->bucket[i], *next; e; e = next) {
			next = e->next;
			if ((guid && e->key.guid != guid) || (objset && e->objset != objset))
				continue;
			if (e->flight) {
				e->flight->keep = false;
				continue;
			}
			arc_entry_unlist_locked(a, s, e);
			if (e->buf)
				atomic_fetch_sub(&a->used, e->charge);
			buf_release(e->buf);
			arc_entry_destroy_locked(s, e);
		}
	}
}

static void arc_flush(struct arc *a, uint64_t guid, uint64_t objset)
{
	for (unsigned i = 0; i < ARC_SHARDS; i++)
		shard_flush(a, &a->shard[i], guid, objset);
}

void arc_destroy(struct arc *a)
{
	struct arc_pool *p, *next;

	if (!a)
		return;
	for (p = atomic_load(&a->pools); p; p = p->next)
		pool_drain(a, p);
	arc_flush(a, 0, 0);
	BUG_ON(atomic_load(&a->used) != 0);
	for (unsigned i = 0; i < ARC_SHARDS; i++) {
		free(a->shard[i].bucket);
		pthread_mutex_destroy(&a->shard[i].lock);
	}
	for (p = atomic_load(&a->pools); p; p = next) {
		next = p->next;
		free(p);
	}
	pthread_mutex_destroy(&a->wait_lock);
	pthread_mutex_destroy(&a->pool_lock);
	pthread_cond_destroy(&a->drained);
	free(a);
}

void arc_flush_pool(struct arc *a, uint64_t pool_guid)
{
	struct arc_pool *p = pool_find(a, pool_guid);

	arc_flush(a, pool_guid, 0);
	if (!p)
		return;
	pool_drain(a, p);
	arc_flush(a, pool_guid, 0);
}

void arc_flush_objset(struct arc *a, uint64_t pool_guid, uint64_t objset)
{
	arc_flush(a, pool_guid, objset);
}

void arc_set_max(struct arc *a, uint64_t max_bytes)
{
	uint64_t max = MAX(max_bytes, ARC_MAX_MIN);
	uint64_t old = atomic_exchange(&a->max, max);
	uint64_t target = atomic_load(&a->target_mru);

	/* The balance that was learnt is kept in proportion. */
	atomic_store(&a->target_mru, (uint64_t)((double)target / (double)old * (double)max));
	arc_shrink(a);
	arc_pump(a);
}

uint64_t arc_max(const struct arc *a)
{
	return atomic_load(&a->max);
}

uint64_t arc_size(const struct arc *a)
{
	return atomic_load(&a->used);
}

static uint64_t stats_sum(const struct counter c[2][2], uint64_t by[2][2])
{
	uint64_t sum = 0;

	for (unsigned p = 0; p < 2; p++) {
		for (unsigned m = 0; m < 2; m++) {
			by[p][m] = counter_read(&c[p][m]);
			sum += by[p][m];
		}
	}
	return sum;
}

void arc_stats(struct arc *a, struct arc_stats *out)
{
	*out = (struct arc_stats){
	    .prefetch_issued = counter_read(&a->prefetch_issued),
	    .prefetch_hits = counter_read(&a->prefetch_hits),
	    .evicted = counter_read(&a->evicted),
	    .evicted_bytes = counter_read(&a->evicted_bytes),
	    .mru_hits = counter_read(&a->list_hit[ARC_MRU]),
	    .mfu_hits = counter_read(&a->list_hit[ARC_MFU]),
	    .mru_ghost_hits = counter_read(&a->list_hit[ARC_MRU_GHOST]),
	    .mfu_ghost_hits = counter_read(&a->list_hit[ARC_MFU_GHOST]),
	    .in_flight = atomic_load(&a->flying),
	    .waiting = atomic_load(&a->nwaiting),
	    .size = arc_size(a),
	    .max = arc_max(a),
	    .target_mru = atomic_load(&a->target_mru),
	    .mru_size = arc_state_size(a, ARC_MRU),
	    .mfu_size = arc_state_size(a, ARC_MFU),
	    .mru_ghost_size = arc_state_size(a, ARC_MRU_GHOST),
	    .mfu_ghost_size = arc_state_size(a, ARC_MFU_GHOST),
	    .metadata_size = atomic_load(&a->size[ARC_MRU][1]) + atomic_load(&a->size[ARC_MFU][1]),
	    .data_size = atomic_load(&a->size[ARC_MRU][0]) + atomic_load(&a->size[ARC_MFU][0]),
	};
	out->hits = stats_sum(a->hit, out->hits_by);
	out->io_hits = stats_sum(a->io_hit, out->io_hits_by);
	out->misses = stats_sum(a->miss, out->misses_by);
}
