/* Entries of the cache: hash chains, lists, eviction. See arc/arc_impl.h. */
#include "arc/arc_impl.h"
#include "base/hash.h"

#define ARC_EVICT_SCAN 8u /* entries looked at in one list before the next is tried */

/* --- keys and hash chains --- */

struct arc_key arc_key_of(const struct zio_pool *zp, const struct bp *bp, unsigned flags, bool unverified)
{
	return (struct arc_key){
	    .guid = zp->guid,
	    .dva = {bp->w[0], bp->w[1]},
	    .birth = bp_physical_birth(bp),
	    .sum = bp->w[12] ^ bp->w[13],
	    .form = bits64(bp->w[6], 0, 39) | (flags & ZIO_RAW ? UINT64_C(1) << 63 : 0) |
		    (unverified ? UINT64_C(1) << 62 : 0),
	};
}

uint64_t arc_key_hash(const struct arc_key *k)
{
	return hash_mix(hash_mix(k->guid ^ k->birth, k->dva[0] ^ k->form), k->dva[1] ^ k->sum);
}

struct arc_shard *arc_shard_of(struct arc *a, uint64_t hash)
{
	return &a->shard[hash >> 60];
}

struct arc_entry **arc_slot_locked(struct arc_shard *s, const struct arc_key *k, uint64_t hash)
{
	struct arc_entry **pe = &s->bucket[hash & (s->nbuckets - 1)];

	while (*pe && ((*pe)->hash != hash || memcmp(&(*pe)->key, k, sizeof(*k)) != 0))
		pe = &(*pe)->next;
	return pe;
}

static void shard_grow_locked(struct arc_shard *s)
{
	size_t n = s->nbuckets * 2;
	struct arc_entry **bucket = calloc(n, sizeof(*bucket));

	if (!bucket)
		return;
	for (size_t i = 0; i < s->nbuckets; i++) {
		for (struct arc_entry *e = s->bucket[i], *next; e; e = next) {
			next = e->next;
			e->next = bucket[e->hash & (n - 1)];
			bucket[e->hash & (n - 1)] = e;
		}
	}
	free(s->bucket);
	s->bucket = bucket;
	s->nbuckets = n;
}

struct arc_entry *arc_entry_create_locked(struct arc_shard *s, const struct arc_key *k, uint64_t hash)
{
	struct arc_entry *e = xcalloc(1, sizeof(*e));

	e->key = *k;
	e->hash = hash;
	e->state = ARC_FLYING;
	if (s->nentries++ >= s->nbuckets)
		shard_grow_locked(s);
	e->next = s->bucket[hash & (s->nbuckets - 1)];
	s->bucket[hash & (s->nbuckets - 1)] = e;
	return e;
}

void arc_entry_destroy_locked(struct arc_shard *s, struct arc_entry *e)
{
	struct arc_entry **pe = &s->bucket[e->hash & (s->nbuckets - 1)];

	while (*pe != e)
		pe = &(*pe)->next;
	*pe = e->next;
	s->nentries--;
	free(e);
}

uint64_t arc_entry_charge(const struct buf *buf)
{
	return buf->alloc + sizeof(struct arc_entry);
}

/* --- lists --- */

static void list_note_oldest_locked(struct arc_shard *s, enum arc_state st, bool meta)
{
	struct list_node *n = list_last(&s->list[st][meta]);

	atomic_store_explicit(&s->oldest[st][meta], n ? container_of(n, struct arc_entry, node)->stamp : UINT64_MAX,
			      memory_order_relaxed);
}

void arc_entry_unlist_locked(struct arc *a, struct arc_shard *s, struct arc_entry *e)
{
	list_remove(&s->list[e->state][e->metadata], &e->node);
	list_note_oldest_locked(s, e->state, e->metadata);
	atomic_fetch_sub(&a->size[e->state][e->metadata], e->charge);
}

void arc_entry_enlist_locked(struct arc *a, struct arc_shard *s, struct arc_entry *e, enum arc_state st, uint64_t now)
{
	e->state = st;
	e->stamp = now;
	list_prepend(&s->list[st][e->metadata], &e->node);
	list_note_oldest_locked(s, st, e->metadata);
	atomic_fetch_add(&a->size[st][e->metadata], e->charge);
}

uint64_t arc_state_size(struct arc *a, enum arc_state st)
{
	return atomic_load(&a->size[st][0]) + atomic_load(&a->size[st][1]);
}

/* --- eviction --- */

static struct arc_shard *shard_with_oldest(struct arc *a, enum arc_state st, bool meta)
{
	struct arc_shard *found = NULL;
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < ARC_SHARDS; i++) {
		uint64_t stamp = atomic_load_explicit(&a->shard[i].oldest[st][meta], memory_order_relaxed);

		if (stamp < least) {
			least = stamp;
			found = &a->shard[i];
		}
	}
	return found;
}

static void ghosts_trim(struct arc *a, enum arc_state st)
{
	uint64_t max = atomic_load(&a->max), resident = arc_state_size(a, st - ARC_MRU_GHOST);
	uint64_t limit = max - MIN(max, resident);

	while (arc_state_size(a, st) > limit) {
		bool meta = atomic_load(&a->size[st][0]) < atomic_load(&a->size[st][1]);
		struct arc_shard *s = shard_with_oldest(a, st, meta);
		struct list_node *n;

		if (!s)
			return;
		SCOPED_LOCK(&s->lock);
		n = list_last(&s->list[st][meta]);
		if (n) {
			struct arc_entry *e = container_of(n, struct arc_entry, node);

			arc_entry_unlist_locked(a, s, e);
			arc_entry_destroy_locked(s, e);
		}
	}
}

/* Turn a resident entry into a ghost; the caller releases the buffer. */
static struct buf *entry_evict_locked(struct arc *a, struct arc_shard *s, struct arc_entry *e)
{
	struct buf *buf = e->buf;

	counter_add(&a->evicted, 1);
	counter_add(&a->evicted_bytes, e->charge);
	arc_entry_unlist_locked(a, s, e);
	atomic_fetch_sub(&a->used, e->charge);
	e->buf = NULL;
	arc_entry_enlist_locked(a, s, e, e->state + ARC_MRU_GHOST, e->stamp);
	return buf;
}

static bool shard_evict(struct arc *a, struct arc_shard *s, enum arc_state st, bool meta, bool referenced)
{
	struct buf *buf = NULL;
	unsigned scanned = 0;

	pthread_mutex_lock(&s->lock);
	for (struct list_node *n = s->list[st][meta].head.prev; n != &s->list[st][meta].head; n = n->prev) {
		struct arc_entry *e = container_of(n, struct arc_entry, node);

		if (referenced || atomic_load(&e->buf->refs) == 1) {
			buf = entry_evict_locked(a, s, e);
			break;
		}
		if (++scanned == ARC_EVICT_SCAN)
			break;
	}
	pthread_mutex_unlock(&s->lock);
	buf_release(buf);
	return buf != NULL;
}

/* The oldest entry of a list goes, or, when somebody reads it, an old one of another shard. */
static bool list_evict(struct arc *a, enum arc_state st, bool meta, bool referenced)
{
	struct arc_shard *s = shard_with_oldest(a, st, meta);

	if (!s)
		return false;
	if (shard_evict(a, s, st, meta, referenced))
		return true;
	for (unsigned i = 0; i < ARC_SHARDS; i++)
		if (shard_evict(a, &a->shard[i], st, meta, referenced))
			return true;
	return false;
}

static bool arc_evict_one(struct arc *a)
{
	uint64_t max = atomic_load(&a->max);
	uint64_t metadata = atomic_load(&a->size[ARC_MRU][1]) + atomic_load(&a->size[ARC_MFU][1]);
	enum arc_state st = arc_state_size(a, ARC_MRU) > atomic_load(&a->target_mru) ? ARC_MRU : ARC_MFU;
	bool meta = metadata > max - max / 4;

	for (unsigned referenced = 0; referenced < 2; referenced++)
		for (unsigned other = 0; other < 4; other++)
			if (list_evict(a, other & 1 ? !st : st, other & 2 ? !meta : meta, referenced))
				return true;
	return false;
}

void arc_shrink(struct arc *a)
{
	while (atomic_load(&a->used) > atomic_load(&a->max) && arc_evict_one(a))
		;
	ghosts_trim(a, ARC_MRU_GHOST);
	ghosts_trim(a, ARC_MFU_GHOST);
}

void arc_take(struct arc *a, uint64_t bytes)
{
	uint64_t used = atomic_load(&a->used);
	bool full = false;

	do {
		while (used + bytes > atomic_load(&a->max) && !full) {
			full = !arc_evict_one(a);
			used = atomic_load(&a->used);
		}
	} while (!atomic_compare_exchange_weak(&a->used, &used, used + bytes));
	ghosts_trim(a, ARC_MRU_GHOST);
	ghosts_trim(a, ARC_MFU_GHOST);
}

bool arc_take_if(struct arc *a, uint64_t bytes)
{
	uint64_t used = atomic_load(&a->used);

	do {
		while (used + bytes > atomic_load(&a->max)) {
			if (!arc_evict_one(a))
				return false;
			used = atomic_load(&a->used);
		}
	} while (!atomic_compare_exchange_weak(&a->used, &used, used + bytes));
	ghosts_trim(a, ARC_MRU_GHOST);
	ghosts_trim(a, ARC_MFU_GHOST);
	return true;
}
