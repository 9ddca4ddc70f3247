/*
 * arc/arc.h: the adaptive replacement cache of decoded blocks, one per process, shared by all pools.
 *
 * Key: pool guid, DVA 0, physical birth, checksum (a block may be overwritten in place, or its space used again, in the
 * group that made it), and whether the bytes are raw. Values are struct buf: a reader holds its own
 * reference, so eviction never pulls bytes from under anybody. Two resident lists (seen once, seen again) and two ghost
 * lists with the adaptive split of the ARC paper; metadata is favoured when trimming. Concurrent misses of one block
 * share one device read. The size limit holds: resident bytes + reads in flight stay at or under arc_max (a single
 * larger request is served uncached): a miss first reserves its bytes, evicting what it must; when reads in flight
 * leave no room, demand reads queue in order and prefetches are refused. Bytes that readers still hold after eviction
 * are theirs, not the cache's; unreferenced blocks are evicted first.
 *
 * Locks, in order: wait_lock (the queue of reads that wait for room), then one mutex per shard (its hash chains and
 * lists). No lock is held while reading or calling back.
 */
#ifndef ARC_ARC_H
#define ARC_ARC_H

#include "zio/zio.h"

struct arc;

#define ARC_MAX_MIN (16u << 20) /* the smallest limit that is accepted */

struct arc *arc_create(uint64_t max_bytes);
void arc_destroy(struct arc *a); /* no reads in flight */
void arc_set_max(struct arc *a, uint64_t max_bytes);
uint64_t arc_max(const struct arc *a);
uint64_t arc_size(const struct arc *a);

#define ARC_NOCACHE  0x100u /* served, not kept (primarycache=none, scans) */
#define ARC_PREFETCH 0x200u /* fill the cache, nobody waits: done may be NULL; -EAGAIN when there is no room */

struct arc_read {
	struct zio_pool *zp;
	struct bp bp;
	struct zbookmark zb;
	struct crypt_key *key;
	unsigned flags; /* ZIO_* and ARC_* */
	/* err 0: buf carries one reference for the callee. May run before arc_read returns (hit) or on a cpu worker.
	 * Does not block. */
	void (*done)(struct arc_read *r, int err, struct buf *buf);
	void *arg;
	struct list_node node; /* arc's own: waiting for the same block */
	void *priv;
};
void arc_read(struct arc *a, struct arc_read *r);
int arc_read_wait(struct arc *a, struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb,
		  struct crypt_key *key, unsigned flags, struct buf **out);
/* A resident block, or NULL: what arc_read would hand out at once. Never waits, counts nothing on a miss. */
struct buf *arc_lookup(struct arc *a, struct zio_pool *zp, const struct bp *bp, unsigned flags);
/* Fire and forget. false: refused, because reads in flight leave no room; ask again later. */
bool arc_prefetch(struct arc *a, struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb,
		  struct crypt_key *key);
/* A block that was just written: resident from now on, as if it had been read (not when flags say ARC_NOCACHE, nor for
 * holes and embedded pointers, nor when reads in flight leave no room). Takes a reference of its own; the bytes,
 * decoded and of lsize, must not change any more. Evicts, never waits; any thread. */
void arc_insert(struct arc *a, struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb, struct buf *buf,
		unsigned flags);
/* A block that was freed or overwritten is not worth its place. */
void arc_drop(struct arc *a, struct zio_pool *zp, const struct bp *bp);
/* Forget everything of a pool (export): waits for prefetches, and for what their completions start. */
void arc_flush_pool(struct arc *a, uint64_t pool_guid);
/* Forget what was read for an object set whose key is being unloaded; reads in flight are not kept. */
void arc_flush_objset(struct arc *a, uint64_t pool_guid, uint64_t objset);

/* Look-ups are counted by [prefetch][metadata]. io_hits: joined a read in flight. */
struct arc_stats {
	uint64_t hits, io_hits, misses, prefetch_issued, prefetch_hits, evicted, evicted_bytes;
	uint64_t hits_by[2][2], io_hits_by[2][2], misses_by[2][2];
	uint64_t mru_hits, mfu_hits, mru_ghost_hits, mfu_ghost_hits, in_flight, waiting;
	uint64_t size, max, target_mru, mru_size, mfu_size, mru_ghost_size, mfu_ghost_size, metadata_size, data_size;
};
void arc_stats(struct arc *a, struct arc_stats *out);

#endif
