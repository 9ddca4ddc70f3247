/*
 * spa/spa_write.h: a pool that is open for writing; what the files of that half of the floor share.
 *
 *   sync.c         one group: its passes                commit.c       flushes, labels, uberblocks (01, 8.3)
 *   config_gen.c   the lists of labels and MOS          config_sync.c  the configuration object, per-vdev ZAPs, lists
 *   features_set.c counts and enabling                  suspend.c      pools that cannot be written any more
 *   create.c layout.c in_use.c new pools                open.c close.c import for writing; export, destroy
 *
 * Threads: the tree of vdevs, spa->config and everything in the MOS are changed by the sync thread alone (before
 * txgs_start: by the one that opens the pool), the tree with the data sets' configuration lock held alone, so that
 * whoever holds it shared sees a tree that stands still. What is marked "lock" is guarded by spa_priv's state_lock, a
 * leaf.
 */
#ifndef SPA_SPA_WRITE_H
#define SPA_SPA_WRITE_H

#include "alloc/alloc.h"
#include "base/sync.h"
#include "dsl/dsl_write.h"
#include "spa/spa_impl.h"

#define SPA_FIRST_TXG 4                                                        /* of a new pool (01, 8.1) */
#define SPA_SOFTWARE  "pool version 5000; software version tarn-" TARN_VERSION /* in the history */
#define PASSES_MAX    1000u

enum spa_failmode { FAILMODE_WAIT, FAILMODE_CONTINUE, FAILMODE_PANIC };

struct spa_writer {
	struct alloc *alloc;
	struct txgs *txgs;
	bool started;                   /* of who opens the pool: its groups are being synced */
	char stored_name[DSL_NAME_MAX]; /* in the labels; another one than spa->name after import -t */

	/* of the sync thread */
	bool labels_due;   /* this group's commit writes the labels */
	bool more_to_free; /* background freeing goes on in the next group */
	bool avz_rebuild;  /* the per-vdev ZAPs were left behind by other software */
	bool has_deferred; /* `sync_bplist` is not empty */
	bool discarding;   /* a checkpoint, group by group */
	uint64_t sync_bplist, config_object;
	uint64_t last_ub_txg; /* of the newest uberblock on the devices */

	/* set by any thread */
	atomic_bool config_dirty;    /* configuration and labels are to be written with the group that is synced next */
	atomic_bool flush_metaslabs; /* the pool is being exported */
	atomic_uint pool_state;      /* POOL_STATE_*, for the labels */
	atomic_uint failmode;        /* enum spa_failmode */
	atomic_bool autoexpand, multihost;

	/* usable space, as of the last group: 01, 11.5 */
	atomic_uint_fast64_t space_whole, space_slop;
	uint64_t space_saved; /* by dedup and cloning: their tables do not change */
	bool space_saved_known;

	/* suspension; lock suspend_lock, a leaf */
	pthread_mutex_t suspend_lock;
	pthread_cond_t suspend_cond;
	bool suspended, lost;
	bool by_multihost; /* the suspension: another host may have the pool now */
	bool no_suspend;   /* not a pool yet: failures end its making */
	char failed[256];  /* the MOS cannot be written as it should be: nothing will be committed any more */

	/* history to be written with the next group; lock */
	struct list history;

	struct vdev_events vdev_events;
	atomic_bool dtl_dirty;      /* some leaf has dtl_unsynced */
	uint64_t new_tops_txg;      /* sync thread: the group that makes added devices usable; 0: none */
	pthread_mutex_t works_lock; /* guards the list, starting and joining; before suspend_lock */
	pthread_cond_t works_cond;  /* autotrim waits */
	struct list works;          /* leafwork.h */
	pthread_t autotrim_thread;
	bool autotrim_running; /* of who opens and closes the pool */
	atomic_bool autotrim, autotrim_stop;
	pthread_mutex_t reopen_lock; /* one opens or closes devices at a time; nothing is taken under it */
	pthread_mutex_t
	    mmp_lock;        /* one starts or ends the multihost thread at a time; groups are waited for under it */
	struct spa_mmp *mmp; /* mmp.c; NULL: multihost is off */

	struct taskq *commit_tq; /* one task per leaf in the steps of a commit */
	struct strmap **retired; /* former maps of active features: readers may still look at them */
	size_t nretired;
};

static inline struct spa_writer *spa_writer(const struct spa *spa)
{
	return spa_priv(spa)->writer;
}

/* --- writer.c --- */
void spa_writer_create(struct spa *spa, const char *stored_name, uint64_t open_txg);
void spa_groups_start(struct spa *spa);
/* Syncs what is open (unless the pool was given up), ends the groups. */
void spa_writer_stop(struct spa *spa);
/* After spa_writer_stop and the end of MOS and data sets. */
void spa_writer_destroy(struct spa *spa);
int spa_dsl_set_writable(struct spa *spa);
int spa_alloc_open(struct spa *spa, uint64_t checkpoint_txg, struct err *e);
/* -EROFS, -EAGAIN (suspended), with the words for it. */
int spa_writable_check(struct spa *spa, struct err *e);
/* A sync task of the pool's own: dsl_task_run, with spa_writable_check before. */
struct spa_task {
	struct spa *spa;
	int (*check)(struct spa *spa, void *arg, struct tx *tx, struct err *e); /* may be NULL */
	void (*sync)(struct spa *spa, void *arg, struct tx *tx);
	void *arg;
	unsigned blocks;
	enum dsl_space_policy policy;
	bool early;
};
int spa_task_run(struct spa_task *t, struct err *e);

/* --- config_gen.c --- */
#define CONFIG_MOS 1u /* with what only the MOS says */
struct nvlist *spa_vdev_config(const struct vdev *vd, unsigned flags);
/* The pool's whole configuration (4.2): MOS object and cache file. */
struct nvlist *spa_config_full(struct spa *spa, uint64_t txg, unsigned flags);
/* What all labels of one top-level have in common (4.1), and a leaf's own words in it. */
struct nvlist *spa_config_label(struct spa *spa, const struct vdev *top, uint64_t txg);
void spa_config_label_leaf(struct nvlist *label, const struct vdev *leaf);

/* --- config_sync.c --- */
void spa_config_dirty(struct spa *spa);
void spa_config_sync(struct spa *spa, struct tx *tx);
int spa_avz_check(struct spa *spa, struct err *e);

/* --- features_set.c --- */
bool spa_feature_is_enabled(const struct spa *spa, const char *guid);
uint64_t spa_feature_refs(const struct spa *spa, const char *guid);
void spa_feature_count(struct spa *spa, const char *guid, int64_t delta, struct tx *tx);
/* With what it depends on. Syncing context. */
void spa_feature_enable(struct spa *spa, const struct spa_feature *f, struct tx *tx);
const struct spa_feature *spa_feature_by_name(const char *name);
/* What features change in how blocks are written. */
void spa_features_apply(struct spa *spa);

/* --- sync.c --- */
void spa_sync(void *arg, uint64_t txg);
extern const struct objset_ops spa_mos_ops;
/* Syncing context: something went wrong that must not; the group will not be committed, nor any after it. */
void spa_sync_failed(struct spa *spa, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void spa_mos_props_set(struct spa *spa);
/* A block's space comes back; waits, for gang headers. */
void spa_free(struct spa *spa, const struct bp *bp, struct tx *tx);

/* --- commit.c --- */
/* -EIO only when the pool is lost or not one yet. */
int spa_commit(struct spa *spa, uint64_t txg);

/* --- suspend.c --- */
/* A write that failed everywhere: true when it is to be kept. Any thread, does not block. */
bool spa_write_failed(struct zio_pool *zp, const struct zbookmark *zb, int err);
void spa_suspend(struct spa *spa, const char *why, bool by_multihost);
/* The sync thread: suspends the pool and waits until it is to try again (0), or never will (-EIO). */
int spa_suspend_wait(struct spa *spa, const char *why);
/* The sync thread, in a pool that cannot be written any more: until it is dropped. */
void spa_lost_wait(struct spa *spa);
bool spa_is_lost(struct spa *spa); /* given up */
/* Has everything that failed tried again. */
int spa_resume(struct spa *spa, struct err *e);

/* --- space.c --- */
struct spa_top_space *spa_space_live(struct spa *spa);
/* What data sets may use, after each group. */
void spa_space_update(struct spa *spa);

/* --- history_write.c --- */
void spa_history_sync(struct spa *spa, struct tx *tx);
bool spa_history_is_pending(struct spa *spa);
int spa_history_create(struct spa *spa, struct tx *tx);
void spa_history_drop(struct spa *spa);

/* --- cachefile.c --- */
const char *spa_cachefile_default(void);
void spa_cachefile_update(struct spa *spa);
void spa_cachefile_remove(struct spa *spa);
/* The property: "" default, "none", a path. */
void spa_cachefile_set(struct spa *spa, const char *value);

/* --- import.c: the pools of this process; names --- */
int spa_name_check(const char *name, struct err *e);
int spa_register(uint64_t guid, const char *name, struct err *e); /* -EEXIST */
bool spa_is_imported(uint64_t guid);
void spa_reregister(uint64_t from, uint64_t to);
/* The pool, registered before, can be asked from now on, or not any more. */
void spa_registered(const struct spa *spa, bool lives);
/* The imported pool that has a device in its list of spares. */
bool spa_spare_owner(uint64_t guid, char pool[DSL_NAME_MAX]);
/* Frees a pool, whatever state it is in; nothing is written any more but what spa_writer_stop writes. */
void spa_drop(struct spa *spa);

/* --- create.c --- */
/* A new top-level that was opened: refused when a device is missing or small; its metaslab size, its class. */
int spa_top_ready(struct spa *spa, struct vdev *top, struct err *e);
/* The class word of a configuration as a constant; NULL: none. */
const char *spa_bias_of(const char *word);

/* --- open.c --- */
/* A pool that was loaded becomes one that is written: logs claimed, first group on the devices. */
struct spa_loader;
int spa_open_writable(struct spa_loader *ld, struct err *e);
/* It is there: cache file, background work, event. */
void spa_opened(struct spa *spa, const char *event);

/* --- background.c: from the first group on the devices until the pool is being closed --- */
void spa_background_start(struct spa *spa);
void spa_background_stop(struct spa *spa);

/* --- devices.c --- */
struct vdev *spa_vdev_find(struct spa *spa, const char *name, struct err *e);
void spa_devices_reopen(struct spa *spa, struct vdev *vd);
void spa_vdev_events_set(struct spa *spa);
void spa_tops_expand(struct spa *spa, struct tx *tx);
void spa_devices_note(struct spa *spa, const struct vdev *vd); /* create.c: where it is, for opening again */
void spa_new_tops_take(struct spa *spa);                       /* open.c: those without space maps get them */
void spa_new_tops_use(struct spa *spa);                        /* after the group in which they did */

/* --- spares.c: lists are { spares: [entries] } --- */
int spa_spares_init(struct spa *spa, const struct nvlist *from, struct err *e); /* their labels; NULL is fine */
void spa_spares_add(struct spa *spa, const struct nvlist *from, struct tx *tx);
bool spa_has_spare(struct spa *spa, uint64_t guid);
int spa_spare_remove(struct spa *spa, const char *name, struct err *e); /* -ENOENT: no spare of that name */

/* --- dtl.c --- */
void spa_dtl_dirty(struct spa *spa, struct vdev *leaf); /* any thread, does not block */
void spa_dtl_sync(struct spa *spa, struct tx *tx);
int spa_dtl_destroy(struct spa *spa, struct vdev *leaf, struct tx *tx);

/* --- errlog_write.c --- */
bool spa_errlog_is_pending(struct spa *spa);
void spa_errlog_sync(struct spa *spa, struct tx *tx);

/* --- leafwork_admin.c: initializing, trimming --- */
void spa_works_start(struct spa *spa);
void spa_works_stop(struct spa *spa);
void spa_works_free(struct spa *spa);
bool spa_works_are_pending(struct spa *spa);
void spa_works_sync(struct spa *spa, struct tx *tx);
void spa_works_forget(struct spa *spa, const struct vdev *leaf);
bool spa_works_are_running(struct spa *spa, enum spa_activity what, uint64_t *left);

/* --- upgrade.c --- */
int spa_version_raise(struct spa *spa, uint64_t version, struct err *e);

/* --- checkpoint.c --- */
bool spa_has_checkpoint(struct spa *spa);
void spa_checkpoint_look(struct spa *spa); /* at import: one that is being discarded goes on */
void spa_checkpoint_sync(struct spa *spa, struct tx *tx);

/* --- mmp.c --- */
/* The words of multihost in the uberblock of a commit. */
void spa_mmp_fill(struct spa *spa, struct uberblock *ub);
/* Starts or ends the thread, as the property says and the pool needs it (run false: it is being closed). */
void spa_mmp_update(struct spa *spa, bool run);
bool spa_mmp_is_ours(struct spa *spa); /* before a suspended pool goes on */
int spa_mmp_claim(struct spa_loader *ld, struct err *e);
extern struct tunable tunable_multihost_interval, tunable_multihost_fail_intervals, tunable_multihost_import_intervals;

#endif
