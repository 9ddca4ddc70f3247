/*
 * dsl/dsl_write_impl.h: the state behind dsl_live.h: of a pool, of a data set that is open for writing, and how the
 * files that write a group divide the work:
 *
 *   dsl_config.c   the configuration lock            dsl_space.c    sums of space, quotas, room for transactions
 *   dsl_live.c     fields and objects                dsl_objset.c   shared object sets, blocks born and killed
 *   dsl_sync.c     the passes of a group             dsl_task.c     sync tasks
 */
#ifndef DSL_DSL_WRITE_IMPL_H
#define DSL_DSL_WRITE_IMPL_H

#include "base/rangetree.h"
#include "base/taskq.h"
#include "dsl/dsl_live.h"

struct config_lock {
	pthread_mutex_t lock; /* guards the rest; a leaf */
	pthread_cond_t changed;
	unsigned shared, waiting;
	bool alone;
};
void config_lock_init(struct config_lock *c);
void config_lock_fini(struct config_lock *c);

/* Pointers gathered while a data set is written, without what is never needed of them again. */
struct bp_list {
	struct bp_chunk *first, *last;
	size_t len;
};
void bp_list_add(struct bp_list *l, const struct bp *bp);
/* Takes the oldest ones off; false: empty. */
bool bp_list_pop(struct bp_list *l, struct bp *bp);
void bp_list_clear(struct bp_list *l);

/* What became of a data set's blocks since the last settlement. */
struct gather {
	/* constant while it is written */
	uint64_t prev_txg;      /* of the previous snapshot */
	uint64_t prev_prev_txg; /* and of the one before that */
	uint64_t origin_txg;    /* of the dir's origin; 0: no clone */
	bool prev_follows;      /* the previous snapshot's next is this data set */
	bool check_cloned;      /* block cloning is in use: data blocks may have more references */
	/* sums */
	int64_t ref[3];      /* referenced: used, compressed, uncompressed */
	int64_t own[3];      /* of that, what the data set alone has */
	int64_t prev_own;    /* what the previous snapshot alone has */
	int64_t to_snap;     /* charged to the snapshots now instead of the head */
	uint64_t features;   /* bits of dsl_ds_features[] */
	struct bp_list now;  /* to be freed */
	struct bp_list slow; /* to be freed in the background */
	struct bp_list dead; /* for the deadlist */
};

struct live_dataset {
	struct dsl_dataset *ds;             /* heads: held while os is set, or dirty */
	pthread_mutex_t open;               /* guards os, and its opening */
	struct objset *os;                  /* shared by all who opened the data set; NULL: nobody */
	struct list_node opened;            /* in write->opened while os is set */
	atomic_uint_fast64_t features_used; /* bits told by objset_ops.uses, to be activated */
	uint64_t features;                  /* bits that are active; sync thread */
	bool features_read;
	/* guarded by write->lock */
	struct list_node dirty[TXG_SIZE]; /* in write->dirty */
	struct objset *dirty_os[TXG_SIZE];
	bool lost; /* named among those that lost something */
	/* guarded by write->space */
	bool limits_read;
	uint64_t refquota, refreservation;
	uint64_t inflight[TXG_SIZE], inflight_meta[TXG_SIZE];
	/* while the data set is written */
	pthread_mutex_t lock;
	struct gather gather;
	struct dsl_fbn *fbn;
	bool fbn_read;
};
/* Of a live data set of a pool open for writing; made at first use. Any thread. */
struct live_dataset *dsl_live(struct dsl_dataset *ds);
void live_dataset_destroy(struct live_dataset *l);

/* Per-dataset features (1.6). */
struct dsl_ds_feature {
	const char *guid;
};
extern const struct dsl_ds_feature dsl_ds_features[];
extern const unsigned dsl_ds_features_len;
enum { /* of those that blocks bring about, the places in the table */
       DSL_DS_LARGE_BLOCKS = 0,
       DSL_DS_SHA512 = 2,
       DSL_DS_SKEIN = 3,
       DSL_DS_EDONR = 4,
       DSL_DS_BLAKE3 = 5,
       DSL_DS_ZSTD = 6,
};
int dsl_ds_feature_bit(const char *guid);              /* -1: none of them */
uint64_t dsl_dataset_features(struct dsl_dataset *ds); /* bits */

struct queued_task {
	const struct dsl_task *task;
	struct list_node node;
	enum { TASK_QUEUED, TASK_RUNNING, TASK_DONE } state;
	int err;
	struct err *e;
};

#define DEADLISTS_KEPT 64

struct dsl_write {
	const struct dsl_write_ops *ops; /* NULL while the pool is being made */
	void *arg;
	struct config_lock config;
	struct dsl_dir *mos_dir, *free_dir; /* held; NULL: the pool has none */
	struct taskq *taskq;                /* writes data sets, several at once */

	pthread_mutex_t lock;
	struct list dirty[TXG_SIZE]; /* live_dataset.dirty[] */
	struct list opened;          /* live_dataset.opened */
	struct list tasks[TXG_SIZE]; /* queued_task */
	pthread_cond_t task_done;
	bool abandoned;

	pthread_mutex_t space;
	uint64_t usable[4], deferred; /* by dsl_space_policy; as of the last refresh */
	bool freeing;                 /* space of $FREE is on its way */

	atomic_int_fast64_t mos_space[3]; /* not yet charged to $MOS */

	/* the sync thread's */
	struct tx *tx; /* of the pass that is under way */
	int failed;
	struct open_deadlist *deadlists; /* newest first */
	unsigned ndeadlists;
	struct bpobj *free_bpobj;   /* open since it was first needed in this pass */
	uint64_t stuck;             /* entries of free_bpobj that only tables could free */
	struct rangetree bad_trees; /* entries of the bptree that cannot be read */
	struct list retired;        /* retired_objset */
};

/* --- dsl_pool.c --- */
struct dsl_pool *dsl_pool_make(struct dmu_pool *dp, struct objset *mos, const char *name);

/* --- dsl_live.c --- */
struct dsl_write *dsl_write_create(void);
void dsl_write_destroy(struct dsl_pool *p);
/* The cached list behind an object number; sync thread. NULL after an error. */
struct dsl_deadlist *deadlist_get(struct dsl_pool *p, uint64_t object);
/* Nobody may have it open from now on. */
void deadlist_drop(struct dsl_pool *p, uint64_t object);
struct bpobj *free_bpobj_get(struct dsl_pool *p);
/* Everything that is gathered in memory goes to its objects: the end of each step that holds the lock alone. */
void dsl_lists_flush(struct dsl_pool *p, struct tx *tx);
/* Objects whose live structs go: nobody finds them any more. */
void dsl_dir_forget(struct dsl_dir *d);
void dsl_dataset_forget(struct dsl_dataset *ds);
/* A dir and its child map entry, or the root (up NULL); held in *out, NULL after an error. */
void dsl_dir_create_sync(struct dsl_pool *p, struct dsl_dir *up, const char *name, struct tx *tx, struct dsl_dir **out);
/* 1.4; held. origin NULL: $ORIGIN, if there is one. */
void dsl_dataset_create_sync(struct dsl_dir *d, struct dsl_dataset *origin, uint64_t flags, struct tx *tx,
			     struct dsl_dataset **out);
uint64_t dsl_mos_object(struct dsl_pool *p, uint8_t type, uint32_t blocksize, uint8_t bonustype, uint16_t bonuslen,
			struct tx *tx);
void dsl_mos_free(struct dsl_pool *p, uint64_t object, struct tx *tx); /* 0: nothing */
/* Integer sets (conventions of the chapter). *zap 0: made first. */
void dsl_set_add(struct dsl_pool *p, uint64_t *zap, uint8_t type, uint64_t v, struct tx *tx);
void dsl_set_remove(struct dsl_pool *p, uint64_t zap, uint64_t v, struct tx *tx);
uint64_t dsl_time(void);
void dsl_dataset_features_copy(const struct dsl_dataset *from, struct dsl_dataset *to, struct tx *tx);
void dsl_dataset_features_clear(struct dsl_dataset *ds, struct tx *tx);
void dsl_dataset_feature_move(struct dsl_dataset *from, struct dsl_dataset *to, const char *guid, struct tx *tx);
/* Sums over a deadlist by its number: from the open one, for the sync thread. */
int dsl_list_range(struct dsl_pool *p, uint64_t deadlist, uint64_t min_txg, uint64_t max_txg, struct dsl_space *out);
bool dsl_config_is_held_alone(const struct dsl_pool *p);
void dsl_extended_free(struct dsl_pool *p, uint64_t object, bool zapified, struct tx *tx);

/* --- dsl_space.c --- */
void dsl_space_refresh(struct dsl_pool *p);
int dsl_reserve(struct objset *os, struct tx *tx);
/* Nothing of group txg is in flight any more: it is settled. */
void dsl_inflight_clear(struct dsl_pool *p, uint64_t txg);
/* refquota and refreservation are known from now on. */
void dsl_limits_load(struct dsl_dataset *ds);
int dsl_snapshot_space_check(struct dsl_dataset *head, struct err *e);
void dsl_mos_space_settle(struct dsl_pool *p, struct tx *tx);
bool dsl_limits_are_active(struct dsl_pool *p);
bool dsl_limits_get(struct dsl_dir *d, uint64_t *fs, uint64_t *snaps);
int dsl_limits_check_below(struct dsl_dir *d, const struct dsl_dir *ancestor, bool snapshots, uint64_t delta,
			   struct err *e);
int dsl_limits_check_snapshots(struct dsl_dataset *const *head, size_t n, struct err *e);
void dsl_limits_adjust(struct dsl_dir *d, bool snapshots, int64_t delta, struct tx *tx);
int dsl_limits_check(struct dsl_dir *d, bool snapshots, uint64_t delta, struct err *e);

/* --- dsl_objset.c --- */
extern const struct objset_ops dsl_objset_ops;
void gather_begin(struct live_dataset *l);
void gather_clear(struct gather *g);
void dsl_objset_attach(struct live_dataset *l, struct objset *os);
/* Closes shared object sets that nobody uses. */
void dsl_objsets_trim(struct dsl_pool *p);
/* Before it is asked whether the data set is busy: waits a moment for those who are about to let it go. */
void dsl_dataset_settle(struct dsl_dataset *ds);
/* In groups other than txg. */
bool dsl_dataset_is_dirty_after(struct dsl_dataset *ds, uint64_t txg);
/* The data set gets other contents or goes: nobody has its objset open, no later group has changed it. What was made
 * dirty since it was written in this group is dropped. */
void dsl_objset_forget(struct dsl_dataset *ds, struct tx *tx);
void dsl_retired_end(struct dsl_pool *p, uint64_t txg);
/* The log in the header of a head is not its own. */
void dsl_log_header_clear(struct dsl_dataset *head, struct tx *tx);
void dsl_objset_fill_props(struct dsl_dataset *ds, struct objset *os);
void dsl_objset_props_changed(void *arg, uint64_t dataset_object);

/* --- dsl_create.c, dsl_snapshot.c, dsl_destroy.c, dsl_rename.c --- */
int dsl_component_check(const char *name, struct err *e);
int dsl_parent_hold(struct dsl_pool *p, const char *name, struct dsl_dir **out, const char **last, struct err *e);
/* keep_log: the caller sees to the log that came with the snapshot's header. */
struct dsl_dataset *dsl_clone_sync(struct dsl_dataset *snap, struct dsl_dir *up, const char *name, bool keep_log,
				   struct tx *tx);
int dsl_snapname_split(struct dsl_pool *p, const char *full, struct dsl_dataset **head, const char **snap,
		       struct err *e);
bool dsl_snapname_exists(struct dsl_dataset *head, const char *snap);
int dsl_snapshot_lookup(struct dsl_dataset *head, const char *snap, struct dsl_dataset **out);
void dsl_snapshots_changed(struct dsl_dir *d, struct tx *tx);
uint64_t dsl_snapshot_sync(struct dsl_dataset *head, const char *name, uint64_t now, struct tx *tx);
int dsl_head_destroy_check(struct dsl_dataset *head, struct tx *tx, struct err *e);
void dsl_head_destroy_sync(struct dsl_dataset *head, struct tx *tx);
int dsl_move_check(struct dsl_dir *from, struct dsl_dir *to, uint64_t used, uint64_t fs, uint64_t snaps, struct err *e);
void dsl_clone_swap_sync(struct dsl_dataset *c, struct dsl_dataset *h, struct tx *tx);

/* --- dsl_cleanup.c: heads without the bptree --- */
void dsl_tree_kill(struct dsl_dataset *head, struct tx *tx);
int dsl_head_empty(struct dsl_pool *p, const char *name, struct err *e);

/* --- dsl_free.c --- */
void dsl_bptree_add(struct dsl_pool *p, const struct bp *root, uint64_t birth, uint64_t used, uint64_t comp,
		    uint64_t uncomp, struct tx *tx);

/* --- dsl_sync.c --- */
void dsl_set_settle(struct live_dataset *l, const struct bp *root, struct tx *tx);

/* --- dsl_crypt_root.c --- */
/* What had `from` as its encryption root has `to` from now on, its clone. */
void dsl_crypt_root_move(struct dsl_dir *from, struct dsl_dir *to, struct tx *tx);

/* --- dsl_remap.c --- */
uint64_t dsl_remap_take(struct dsl_dataset *ds, struct tx *tx); /* 0: it has none */
void dsl_remap_give(struct dsl_dataset *ds, uint64_t object, struct tx *tx);
void dsl_remap_free(struct dsl_pool *p, uint64_t object, struct tx *tx);
void dsl_remap_pass_on(struct dsl_dataset *snap, struct dsl_dataset *next, struct tx *tx);
void dsl_remap_key_remove(const struct dsl_dataset *head, uint64_t txg, struct tx *tx);

/* --- dsl_livelist.c --- */
bool dsl_livelists_free(struct dsl_pool *p, void (*fn)(void *arg, const struct bp *bp), void *arg, struct tx *tx);
/* A clone of OpenZFS's that is written here loses its livelist (3.6). */
void dsl_livelist_drop(struct dsl_dir *d, struct tx *tx);
/* One that is destroyed as it was: its blocks are freed by the list. False: it has none. */
bool dsl_livelist_give_away(struct dsl_dir *d, struct tx *tx);

/* --- dsl_task.c --- */
void dsl_tasks_run(struct dsl_pool *p, bool early, struct tx *tx);
void dsl_tasks_abandon(struct dsl_pool *p);

#endif
