/*
 * arc/arc_impl.h: what the files of the cache share: entries, their chains and lists, eviction. Names that end in
 * _locked are called with the shard's lock.
 */
#ifndef ARC_ARC_IMPL_H
#define ARC_ARC_IMPL_H

#include "arc/arc.h"
#include "base/sync.h"

#define ARC_SHARDS 16u
#define ARC_STATES 4

enum arc_state { ARC_MRU, ARC_MFU, ARC_MRU_GHOST, ARC_MFU_GHOST, ARC_FLYING };

struct arc_key {
	uint64_t guid, dva[2], birth, sum;
	uint64_t form; /* sizes and compression of the pointer; bit 63: raw; bit 62: its MAC was not checked */
};
#define KEY_PASSED (UINT64_C(1) << 61) /* in `form`: written or freed while it was being read */

struct arc_flight;

struct arc_entry {
	struct arc_key key;
	uint64_t hash;
	struct arc_entry *next; /* hash chain */
	struct list_node node;
	uint64_t objset;
	uint64_t stamp;  /* ns: place in its list */
	uint64_t access; /* ns: first look-up that counts */
	uint64_t charge; /* bytes */
	enum arc_state state;
	bool metadata, prefetched;
	struct buf *buf;           /* resident */
	struct arc_flight *flight; /* ARC_FLYING */
};

/* A device read on behalf of everybody who asked for the block meanwhile. */
struct arc_flight {
	struct arc *arc;
	struct arc_entry *entry;
	struct arc_pool *pool;
	struct zio_pool *zp;
	struct zio_read zr;
	struct list waiters;   /* struct arc_read; guarded by the shard lock */
	struct list_node node; /* waiting for room */
	uint64_t reserved;
	enum arc_state target;
	bool keep, demand;
};

struct arc_shard {
	_Alignas(64) pthread_mutex_t lock;
	struct arc_entry **bucket;
	size_t nbuckets, nentries;
	struct list list[ARC_STATES][2];            /* by state and metadata; newest first */
	atomic_uint_fast64_t oldest[ARC_STATES][2]; /* stamp of each list's last entry, UINT64_MAX: empty */
};

/* Reads in flight of one pool, until their completions have returned. */
struct arc_pool {
	uint64_t guid;
	atomic_uint_fast64_t flights;
	struct arc_pool *next;
};

struct arc {
	struct arc_shard shard[ARC_SHARDS];
	atomic_uint_fast64_t max, target_mru;
	atomic_uint_fast64_t used;   /* resident + reserved by reads in flight */
	atomic_uint_fast64_t flying; /* the reserved part */
	atomic_uint_fast64_t size[ARC_STATES][2];

	pthread_mutex_t wait_lock;
	struct list waiting; /* flights without room, in order of arrival */
	atomic_size_t nwaiting;

	_Atomic(struct arc_pool *) pools; /* grows only */
	pthread_mutex_t pool_lock;        /* adding to pools, the end of the last flight, sleeping on drained */
	pthread_cond_t drained;

	struct counter hit[2][2], io_hit[2][2], miss[2][2];
	struct counter list_hit[ARC_STATES];
	struct counter prefetch_issued, prefetch_hits, evicted, evicted_bytes;
};

struct arc_key arc_key_of(const struct zio_pool *zp, const struct bp *bp, unsigned flags, bool unverified);
uint64_t arc_key_hash(const struct arc_key *k);
struct arc_shard *arc_shard_of(struct arc *a, uint64_t hash);
/* Where the chain leads to the entry of this key, or ends. */
struct arc_entry **arc_slot_locked(struct arc_shard *s, const struct arc_key *k, uint64_t hash);
struct arc_entry *arc_entry_create_locked(struct arc_shard *s, const struct arc_key *k, uint64_t hash);
void arc_entry_destroy_locked(struct arc_shard *s, struct arc_entry *e);
uint64_t arc_entry_charge(const struct buf *buf);
void arc_entry_enlist_locked(struct arc *a, struct arc_shard *s, struct arc_entry *e, enum arc_state st, uint64_t now);
void arc_entry_unlist_locked(struct arc *a, struct arc_shard *s, struct arc_entry *e);
uint64_t arc_state_size(struct arc *a, enum arc_state st);

/* Evict down to the limit. */
void arc_shrink(struct arc *a);
/* Charge bytes, evicting first what is in their way. */
void arc_take(struct arc *a, uint64_t bytes);
/* The same, if there is room or can be made. */
bool arc_take_if(struct arc *a, uint64_t bytes);

#endif
