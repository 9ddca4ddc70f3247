/*
 * dsl/dsl_live.h: dirs and data sets of a pool that is open for writing, and what the sync functions of this folder do
 * to them (docs/format/03-datasets.md). Nobody outside this folder includes it.
 *
 * One struct per object is live: its fields are the truth, and are stored into the bonus by dsl_dir_store and
 * dsl_dataset_store. They change on the sync thread only:
 *   - the tree, names, numbers of objects, holds: in sync tasks, with the configuration lock held alone;
 *   - space: there too, and when the data sets of a group were written (dsl_sync.c, the lock held alone).
 *
 * Locks, in this order, each held while the next is taken:
 *   1. the configuration lock of the pool: trees, names and everything that hangs on objects of the MOS. Shared by
 *      readers of the tree (recursive by thread), alone by the sync thread; waiting writers come first. A thread that
 *      holds it waits for devices of this pool, but for no group.
 *   2. live->open: opening and closing of the shared object set; held while its header is read.
 *   3. live->lock: what a data set gathers while it is written.
 *   4. write->lock: lists of what is dirty, tasks.
 *   5. write->space: all numbers of space, limits, what is in flight, and the chain of parents that they are summed
 *      along: reserve walks it on any thread.
 * 3 - 5 are never held while reading.
 *
 * Errors in syncing context: sync functions cannot fail. What reads the MOS there hands its result to dsl_sync_check;
 * the first error makes dsl_pool_sync fail, and the group is never committed. Functions go on as well as they can
 * meanwhile; outputs are 0 or NULL-safe then.
 */
#ifndef DSL_DSL_LIVE_H
#define DSL_DSL_LIVE_H

#include "dsl/dsl_deadlist.h"
#include "dsl/dsl_impl.h"
#include "dsl/dsl_write.h"

#define MOS_DIRECTORY 1

/* --- the configuration lock --- */

/* Shared to the end of the enclosing block; nothing in pools that are read-only, or when this thread has it. */
struct dsl_guard {
	struct dsl_pool *pool;
	struct dsl_guard *outer;
	bool took, alone;
};
struct dsl_guard *dsl_guard_enter(struct dsl_guard *g, struct dsl_pool *p, bool alone);
void dsl_guard_leave(struct dsl_guard *g);
static inline void dsl_guard_cleanup(struct dsl_guard **g)
{
	dsl_guard_leave(*g);
}
#define DSL_GUARD_AT_(p, alone, line)                                                                                  \
	struct dsl_guard dsl_guard_##line;                                                                             \
	__attribute__((cleanup(dsl_guard_cleanup), unused)) struct dsl_guard *dsl_guard_p_##line = dsl_guard_enter(    \
	    &dsl_guard_##line, p, alone)
#define DSL_GUARD_AT(p, alone, line) DSL_GUARD_AT_(p, alone, line)
#define DSL_SHARED(p)                DSL_GUARD_AT(p, false, __LINE__)
#define DSL_ALONE(p)                 DSL_GUARD_AT(p, true, __LINE__)
bool dsl_config_is_held(const struct dsl_pool *p); /* by this thread, in either way */

/* --- what spa handed down --- */
bool dsl_feature_enabled(struct dsl_pool *p, const char *guid);
uint64_t dsl_feature_refs(struct dsl_pool *p, const char *guid);
void dsl_feature_count(struct dsl_pool *p, const char *guid, int64_t delta, struct tx *tx);
void dsl_history(struct dsl_pool *p, const char *name, const struct dsl_dataset *ds, struct tx *tx, const char *fmt,
		 ...) __attribute__((format(printf, 5, 6)));

/* --- changing, in syncing context --- */
/* Notes the first error that is not 0; returns err. */
int dsl_sync_check(struct dsl_pool *p, int err, const char *what);
void dsl_dir_store(struct dsl_dir *d, struct tx *tx);
void dsl_dataset_store(struct dsl_dataset *ds, struct tx *tx);
/* Gives the object a ZAP (1.5); no harm when it has one. */
void dsl_dir_extend(struct dsl_dir *d, struct tx *tx);
void dsl_dataset_extend(struct dsl_dataset *ds, struct tx *tx);
/* Per-dataset features (1.6), boolean ones. */
bool dsl_dataset_feature_has(const struct dsl_dataset *ds, const char *guid);
void dsl_dataset_feature_set(struct dsl_dataset *ds, const char *guid, struct tx *tx);
void dsl_dataset_feature_clear(struct dsl_dataset *ds, const char *guid, struct tx *tx);
/* The dir's properties changed in the MOS: what was decoded of them is forgotten. */
void dsl_dir_props_changed(struct dsl_dir *d);
/* Properties of this dir changed, or it inherits from another one: tells the watchers of data sets below. Under no
 * lock, after the task. */
void dsl_props_notify(struct dsl_dir *d);
/* Can what is reserved by properties of a new data set in `up` be had, and do its quotas allow it? */
int dsl_props_room_check(struct dsl_dir *up, const struct nvlist *stored, struct err *e);
/* The open deadlist of a data set: belongs to it, flushed and closed when the tasks of the pass are done. */
int dsl_dataset_deadlist(struct dsl_dataset *ds, struct dsl_deadlist **out);
/* Before the object that was behind it is given to another data set, or freed. */
void dsl_dataset_deadlist_drop(struct dsl_dataset *ds, struct tx *tx);
/* A data set that is to be looked at or changed, without searching its name in a long list: a held live one when there
 * is one, else a private copy that only knows its fields (no dir, no name). -ENOENT. */
struct dsl_edit {
	struct dsl_dataset *ds;
	bool is_private;
};
int dsl_edit_begin(struct dsl_pool *p, uint64_t object, struct dsl_edit *out);
void dsl_edit_end(struct dsl_edit *e);

/* --- space (2.3) --- */
enum dsl_used_by {
	DSL_USED_HEAD,
	DSL_USED_SNAP,
	DSL_USED_CHILD,
	DSL_USED_CHILD_RSRV,
	DSL_USED_REFRSRV,
};
/* The three sizes of a pointer, and its birth as snapshots count it (2.1). */
struct dsl_space dsl_bp_space(struct dsl_pool *p, const struct bp *bp);
uint64_t dsl_bp_birth(const struct bp *bp);
bool dsl_bp_is_redacted(const struct bp *bp);
void dsl_diduse(struct dsl_dir *d, enum dsl_used_by type, int64_t used, int64_t comp, int64_t uncomp, struct tx *tx);
void dsl_diduse_transfer(struct dsl_dir *d, int64_t used, int64_t comp, int64_t uncomp, int64_t tonew,
			 enum dsl_used_by from, enum dsl_used_by to, struct tx *tx);
void dsl_used_transfer(struct dsl_dir *d, int64_t used, enum dsl_used_by from, enum dsl_used_by to, struct tx *tx);
/* The same on the $FREE dir's HEAD; nothing in pools that have none. */
void dsl_free_diduse(struct dsl_pool *p, int64_t used, int64_t comp, int64_t uncomp, struct tx *tx);
/* Available to a dir (2.7), as if `delta` bytes were used more (or less) in `ancestor`, a dir above it or NULL. */
uint64_t dsl_dir_available(struct dsl_dir *d, const struct dsl_dir *ancestor, int64_t delta);
/* Effective values, cached; heads only. */
uint64_t dsl_dataset_refreservation(struct dsl_dataset *ds);
uint64_t dsl_dataset_refquota(struct dsl_dataset *ds);
/* Special properties (5.5, 2.6): check (any context), then sync with the value that results from look-up. The property
 * ZAP is the caller's matter. Refusals are sentences. */
int dsl_quota_check(struct dsl_dir *d, uint64_t v, struct tx *tx, struct err *e);
void dsl_quota_sync(struct dsl_dir *d, uint64_t v, struct tx *tx);
int dsl_reservation_check(struct dsl_dir *d, uint64_t v, struct tx *tx, struct err *e);
void dsl_reservation_sync(struct dsl_dir *d, uint64_t v, struct tx *tx);
int dsl_refquota_check(struct dsl_dataset *head, uint64_t v, struct tx *tx, struct err *e);
void dsl_refquota_sync(struct dsl_dataset *head, uint64_t v, struct tx *tx);
int dsl_refreservation_check(struct dsl_dataset *head, uint64_t v, struct tx *tx, struct err *e);
void dsl_refreservation_sync(struct dsl_dataset *head, uint64_t v, struct tx *tx);
/* Counts of file systems and snapshots (2.8): the first limit of a subtree. */
void dsl_limits_start(struct dsl_dir *d, struct tx *tx);

/* --- destroying, for those who let the last hold go (4.9) --- */
bool dsl_snapshot_goes_with_last_hold(struct dsl_dataset *snap, uint64_t holds_left);
/* Releases an objset that was opened for a moment; closes it when nobody else uses it. */
void dsl_dataset_close_objset(struct dsl_dataset *ds, struct objset *os);
/* Somebody has the data set's objects open. */
bool dsl_dataset_is_busy(struct dsl_dataset *ds);
void dsl_snapshot_destroy_sync(struct dsl_dataset *snap, struct tx *tx);

/* --- bookmarks (4.11, table "FBN"), dsl_bookmark_write.c --- */
/* The bookmarks of a head that count what is freed; NULL: none. Kept by the live data set; its live->lock is held for
 * _killed. Called once when the head is opened for writing, and again after anything of them changed
 * (dsl_dataset_bookmarks_changed). */
struct dsl_fbn;
struct dsl_fbn *dsl_fbn_load(struct dsl_dataset *head);
void dsl_fbn_free(struct dsl_fbn *f); /* NULL is fine */
/* The head killed a pointer. prev_txg: of its previous snapshot. */
void dsl_fbn_killed(struct dsl_fbn *f, uint64_t prev_txg, uint64_t birth, const struct dsl_space *s);
/* End of the data set's sync: sums that changed go to the ZAP. */
void dsl_fbn_store(struct dsl_fbn *f, struct dsl_dataset *head, struct tx *tx);
void dsl_dataset_bookmarks_changed(struct dsl_dataset *head);
/* Snapshot taken, its deadlist handed over: keys of the head's new list for bookmarks after txg `prev_txg`. */
void dsl_bookmarks_snapshotted(struct dsl_dataset *head, uint64_t prev_txg, struct dsl_deadlist *dl, struct tx *tx);
/* Snapshot goes; dl is the deadlist of the one after it. True: the key of its txg must stay. */
bool dsl_bookmarks_snapshot_destroyed(struct dsl_dataset *head, struct dsl_dataset *snap, struct dsl_deadlist *dl,
				      struct tx *tx);
/* Head goes: all bookmarks, redaction lists, feature counts. */
void dsl_bookmarks_destroy_all(struct dsl_dataset *head, struct tx *tx);
/* 4.6 step 4, 4.7 step 8. */
void dsl_bookmarks_promoted(struct dsl_dataset *from, struct dsl_dataset *to, struct dsl_dataset *branch,
			    struct tx *tx);
void dsl_bookmarks_recompute(struct dsl_dataset *head, struct dsl_dataset *at, struct tx *tx);
/* The newest one's txg, 0 without; the first of `from` up to txg whose name `to` has, too (name: DSL_NAME_MAX). */
uint64_t dsl_bookmarks_newest(struct dsl_dataset *head);
bool dsl_bookmarks_conflict(struct dsl_dataset *from, uint64_t txg, struct dsl_dataset *to, char *name);
/* Removes the key of `txg` from the head and all heads of clones branched off later (4.3 step 8). */
void dsl_deadlist_key_remove_all(struct dsl_dataset *head, uint64_t txg, struct tx *tx);

/* --- creating low-level pieces --- */
/* A ZAP of this type in the MOS; 0 after an error. */
uint64_t dsl_mos_zap(struct dsl_pool *p, uint8_t type, struct tx *tx);

#endif
