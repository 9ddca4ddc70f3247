/*
 * dsl/dsl_write.h: changing data sets (docs/format/03-datasets.md, sections 2 - 5, 7, 8). Blocking, any thread but cpu
 * workers and the sync thread; names as in dsl.h. Each operation is one or several sync tasks (8.1) and returns when
 * its group is on the devices. Errors are sentences as `zfs` prints them after "cannot ...: ", with all holds, clones
 * or children in the way named.
 *
 * In a pool that is open for writing, held dirs and data sets are live: their fields change. Names, trees and sizes are
 * read under the pool's configuration lock, which every function of dsl.h takes by itself (shared, recursive by
 * thread); sync tasks take it alone. Callers that look at fields of what they hold read single words only.
 */
#ifndef DSL_DSL_WRITE_H
#define DSL_DSL_WRITE_H

#include "dsl/dsl.h"

/* --- the pool's side: called by spa --- */
/* An empty tree in a new MOS (01, 9.2: root dir, $MOS, $FREE, $ORIGIN, free_bpobj; the root data set by
 * dsl_create_root). */
int dsl_pool_create(struct dmu_pool *dp, struct objset *mos, const char *name, struct tx *tx, struct dsl_pool **out);
/* What spa hands down to a pool that is opened for writing. */
struct dsl_write_ops {
	/* Feature counts (01, 6.2). Syncing context. */
	void (*feature_count)(void *arg, const char *guid, int64_t delta, struct tx *tx);
	bool (*feature_enabled)(void *arg, const char *guid);
	uint64_t (*feature_refs)(void *arg, const char *guid); /* the count; 0 also when it is not enabled */
	/* An event for the pool's history (01, 11.1): internal name, data set (may be NULL), text. */
	void (*history)(void *arg, const char *name, const struct dsl_dataset *ds, struct tx *tx, const char *text);
	/* Usable bytes by policy: deflated size less slop, half of it, a quarter (03, 8.1; 2.7). */
	uint64_t (*usable)(void *arg, enum dsl_space_policy policy);
	/* Of the freed bytes those that cannot be had yet: in their rest of some groups, or in sync_bplist. */
	uint64_t (*deferred)(void *arg);
	/* A block's space comes back (01, 8.2 step 5): at once, or through sync_bplist. Syncing context, on threads
	 * that may wait, several at once. */
	void (*free)(void *arg, const struct bp *bp, struct tx *tx);
	void (*event)(void *arg, const char *class, const struct nvlist *payload);
	/* zil's (zil.h): zil_sync before a set that is dirty is written in pass 1, zil_sync_done, zil_discard when a
	 * head is destroyed or rolled back. */
	void (*log_sync)(struct objset *os, struct tx *tx);
	void (*log_sync_done)(struct objset *os, uint64_t txg);
	void (*log_discard)(struct objset *os, struct tx *tx);
};
int dsl_pool_set_writable(struct dsl_pool *p, const struct dsl_write_ops *ops, void *arg);
/* Bytes of MOS blocks that came or went; collected, and charged to $MOS by the next dsl_pool_sync. What is left over
 * when a group ends makes no other group dirty. Any thread. */
void dsl_pool_mos_space(struct dsl_pool *p, int64_t used, int64_t compressed, int64_t uncompressed);
/*
 * One pass (03, 8.2 without the MOS): data sets, accounting, deadlists, space; in pass 1 early tasks before and the
 * tasks after. The caller writes the MOS then. An error (the MOS cannot be read, or is damaged) means that the group
 * must not be committed: the pool has to be abandoned.
 */
int dsl_pool_sync(struct dsl_pool *p, struct tx *tx);
void dsl_pool_sync_done(struct dsl_pool *p, uint64_t txg);
/* A pool that is lost: drops all that is dirty; names of the data sets that lose something, ", " between, are appended
 * to `lost` (may be NULL). Groups are synced no more. */
struct str;
void dsl_pool_abandon(struct dsl_pool *p, struct str *lost);
/* A data set has something of this group that is not written: there must be another pass. The sync thread. */
bool dsl_pool_needs_pass(struct dsl_pool *p, uint64_t txg);
bool dsl_pool_is_dirty(struct dsl_pool *p, uint64_t txg); /* data sets, dirs or tasks: the group is not empty */
/* Some of what is to be freed in the background (async destroy, 4.12); after the pass 1. True: there is more. */
bool dsl_pool_free_some(struct dsl_pool *p, struct tx *tx);
/* Import: destroy what is INCONSISTENT, drop temporary holds (03, 8.3). Blocking, after the first group. */
void dsl_pool_clean_up(struct dsl_pool *p);
/* The shared object set of a head for claiming its log: also when its key is not loaded; only the header is changed. */
int dsl_dataset_open_raw(struct dsl_dataset *head, struct objset **out, struct err *e);
/* Every head of the pool, hidden ones too. */
int dsl_each_head(struct dsl_pool *p, int (*fn)(void *arg, struct dsl_dataset *ds), void *arg);

/* --- sync tasks --- */
struct dsl_task {
	/* -EAGAIN: wait for two groups and try again. Called in open context (tx->syncing false, txg 0), under the
	 * shared configuration lock, and again before `sync`. */
	int (*check)(void *arg, struct tx *tx, struct err *e);
	void (*sync)(void *arg, struct tx *tx); /* must not fail */
	void *arg;
	unsigned blocks;
	enum dsl_space_policy policy;
	bool early;
};
/* -EIO: the pool was abandoned. Not with the configuration lock held. */
int dsl_task_run(struct dsl_pool *p, const struct dsl_task *t, struct err *e);

/* --- operations --- */
struct dsl_create {
	const char *name;
	unsigned type;              /* DSL_FILESYSTEM, DSL_VOLUME */
	const struct nvlist *props; /* validated values as they are stored: strings or u64s; NULL: none */
	/* Makes the objects of the new set; zpl or zvol. Syncing context; must not fail. */
	void (*init)(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx);
	void *arg;
};
int dsl_create(struct dsl_pool *p, const struct dsl_create *c, struct err *e);
/* In the group that makes the pool. */
int dsl_create_root(struct dsl_pool *p, const struct dsl_create *c, struct tx *tx);
/* All names in one group or none; in one pool. props may be NULL (user properties and such of snapshots). */
int dsl_snapshot(struct dsl_pool *p, const char *const *names, size_t n, const struct nvlist *props, struct err *e);
int dsl_clone(struct dsl_pool *p, const char *snapshot, const char *name, const struct nvlist *props, struct err *e);
int dsl_promote(struct dsl_pool *p, const char *name, struct err *e);
/* recursive: a snapshot's name in all descendents. */
int dsl_rename(struct dsl_pool *p, const char *from, const char *to, bool recursive, struct err *e);
/* To the latest snapshot; others must have been destroyed. */
int dsl_rollback(struct dsl_pool *p, const char *name, const char *snapshot, struct err *e);
/* Heads and snapshots, named in an order in which they can go: each whole or not at all, many in one group; snapshots
 * that are already gone are passed over. What is busy or held is refused before anything is done; what turns out later
 * to be in the way ends it: *done names are gone then, which a second call need not repeat. */
int dsl_destroy(struct dsl_pool *p, const char *const *names, size_t n, bool defer, size_t *done, struct err *e);
/* Of these refusals, those that do not depend on who has something open. Any thread that may wait. */
int dsl_destroy_check(struct dsl_pool *p, const char *const *names, size_t n, bool defer, struct err *e);
int dsl_destroy_head(struct dsl_pool *p, const char *name, struct err *e);
int dsl_destroy_snapshots(struct dsl_pool *p, const char *const *names, size_t n, bool defer, struct err *e);
/* Space that destroying these would give back, for -nv. */
int dsl_destroy_snapshots_space(struct dsl_pool *p, const char *first, const char *last, uint64_t *bytes);
int dsl_hold(struct dsl_pool *p, const char *const *snapshots, size_t n, const char *tag, struct err *e);
int dsl_release_hold(struct dsl_pool *p, const char *const *snapshots, size_t n, const char *tag, struct err *e);
int dsl_bookmark_create(struct dsl_pool *p, const char *source, const char *bookmark, struct err *e);
int dsl_bookmark_destroy(struct dsl_pool *p, const char *const *names, size_t n, struct err *e);

/* --- properties (dsl_prop_set.c) --- */
/* Values as people write them ("10G", "on", "lz4"): all rules of 5.3 - 5.6; *stored: as dsl_create and dsl_clone take
 * them. `creating`, for dsl_create: properties that can only be set then are allowed. Clones take what an existing data
 * set takes; `name` need not exist. p NULL: the root of a pool that is about to be made. */
int dsl_props_check(struct dsl_pool *p, const char *name, unsigned type, const struct nvlist *values, bool creating,
		    struct nvlist **stored, struct err *e);
int dsl_props_set(struct dsl_pool *p, const char *name, const struct nvlist *values, struct err *e);
/* received: back to the received value (-S). */
int dsl_prop_inherit(struct dsl_pool *p, const char *name, const char *property, bool received, struct err *e);
/* Of names[0] and others at or below it, many in one group. Those whose type does not have the property are passed
 * over; the first that cannot be done ends it. */
int dsl_prop_inherit_tree(struct dsl_pool *p, const char *const *names, size_t n, const char *property, bool received,
			  struct err *e);
/* From the sync of dsl_create and dsl_clone. */
void dsl_props_set_sync(struct dsl_dataset *ds, const struct nvlist *stored, struct tx *tx);
/* Tell me when a property of this set, or one that it inherits, may have changed: objset_props and exports follow. Of
 * data sets that were held at some time; under no lock, on the thread that changed it, when the change is on the
 * devices and before it is reported. For as long as the pool is open. */
void dsl_prop_watch(struct dsl_pool *p, void (*changed)(void *arg, uint64_t dataset_object), void *arg);

/* refreservation=auto of a volume, in bytes (5.5). */
uint64_t dsl_volume_reservation(const struct vdev *root, uint64_t volsize, uint32_t volblocksize, unsigned copies);

/* who and perms as dsl_deleg_get tells them; add or take away (7.2). */
int dsl_allow(struct dsl_pool *p, const char *name, const struct nvlist *perms, bool remove, struct err *e);
/* zfs upgrade: to this version, -ENOTSUP when the pool is too old. */
int dsl_set_version(struct dsl_pool *p, const char *name, uint64_t version, struct err *e);

#endif
