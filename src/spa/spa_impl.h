/*
 * spa/spa_impl.h: what the files of this floor share.
 *
 *   search.c search_device.c assemble.c   finding pools          import.c   the import as a job that can be left
 *   load.c trusted.c                      from labels to a pool  rewind.c   older uberblocks, checkpoints, reuse
 *   activity.c                            multihost              features.c config.c  what the MOS says
 *   status.c rows.c props.c space.c history.c errlog.c           describing
 *
 * What belongs to writing is in spa_write.h.
 */
#ifndef SPA_SPA_IMPL_H
#define SPA_SPA_IMPL_H

#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/str.h"
#include "base/sync.h"
#include "dmu/zap.h"
#include "spa/spa.h"

#define MOS_DIRECTORY    1 /* the one MOS object with a fixed number (01-pool.md 5.1) */
#define SPA_VERSION      5000
#define ZPL_VERSION      5
#define SPA_ERRORS_MAX   4096u
#define SPA_PACKED_MAX   (64u << 20) /* bytes of a packed list in the MOS that are believed */
#define CHECKPOINT_WORDS 27
#define SPA_DEVICE_MIN   (UINT64_C(64) << 20)

/* An uberblock and where it was found. */
struct spa_uberblock {
	struct uberblock ub;
	uint64_t leaf_guid;
	bool own;   /* lies under a label of this pool */
	bool known; /* has the devices of one that does */
};

/* Sums over the top-levels of one allocation class (01-pool.md 11). */
enum spa_class { SPA_CLASS_NORMAL, SPA_CLASS_SPECIAL, SPA_CLASS_DEDUP, SPA_CLASS_LOG, SPA_CLASSES };
struct spa_top_space {
	enum spa_class class;
	bool known;               /* size means something: a concrete top-level */
	uint64_t size, allocated; /* bytes of all metaslabs, and of them in use */
	uint64_t fragmentation;   /* percent; UINT64_MAX unknown */
	uint64_t checkpoint;      /* bytes kept for the checkpoint */
	uint64_t expand;          /* bytes that its devices have and it does not use yet: whole metaslabs */
	uint64_t usable, used;    /* size without the embedded log, and allocated, deflated (01-pool.md 11.4) */
	uint64_t embedded_usable; /* the embedded log, deflated */
	uint64_t embedded_log;    /* bytes of the metaslab set apart for log blocks */
};

struct spa_priv {
	struct nvlist *devices;                        /* guid (hex) -> path, from the search */
	struct nvlist *spares, *l2cache;               /* MOS lists, may be NULL */
	struct nvlist *read_features, *write_features; /* guid -> reference count; empty before version 5000 */
	struct strmap *active;                         /* handed to dsl_pool */
	struct checksum_salt *salt;
	struct spa_top_space *space; /* one per top-level; filled at first use under space_lock */
	pthread_mutex_t space_lock;
	bool space_loaded;
	uint64_t load_guid;
	bool registered; /* under its guid and name, against a second import */
	/* In pools that are written: spa->config, spa->uberblock, counts of features, history and errors not yet
	 * written. A leaf. */
	pthread_mutex_t state_lock;
	struct spa_writer *writer; /* spa_write.h; NULL: opened read-only */
};

static inline struct spa_priv *spa_priv(const struct spa *spa)
{
	return spa->priv;
}

/* --- config.c --- */
int spa_mos_u64(struct objset *mos, const char *key, uint64_t *v);
int spa_packed_read(struct objset *mos, uint64_t object, struct nvlist **out, struct err *e);
/* One word of a bonus buffer, whose byte order is the dnode's; 0 when it is not there. */
uint64_t spa_bonus_word(struct dnode *dn, unsigned i);
int spa_words_read(struct dnode *dn, uint64_t first, uint64_t *out, uint64_t n);

/* --- leaves.c --- */
/* The leaf's device by the guids of the search; checks that a label there names the leaf. arg: struct spa_opener. */
struct spa_opener {
	const struct nvlist *devices;
	uint64_t pool_guid;
	unsigned flags; /* DISK_RDONLY, DISK_RDWR */
	bool (*stop)(void *arg, const char *stage);
	void *stop_arg;
	char failure[256]; /* out: why a device that is there cannot be opened; the first one */
};
int spa_leaf_open(void *arg, struct vdev *leaf, struct disk **out, struct err *e);
/* Sum of all guids of the tree (01-pool.md 3.1). */
uint64_t spa_guid_sum(const struct vdev *vd);
/* Paths or names of what is missing under vd, separated by ", ". */
void spa_missing_list(const struct vdev *vd, struct str *out);

/* --- features.c --- */
const struct spa_feature *spa_feature_find(const char *guid);
/* Names in the label that stop any opening: the first unknown one, or NULL. */
const char *spa_features_unknown_in(const struct nvlist *label_features);
int spa_features_load(struct spa *spa, struct err *e);
/* Its count; -ENOENT: not enabled. */
int spa_feature_lookup(const struct spa *spa, const char *guid, uint64_t *count);
bool spa_feature_is_active(const struct spa *spa, const char *guid);

/* --- load.c, trusted.c --- */
struct spa_loader;
void spa_tree_open(struct spa_loader *ld, struct vdev *root);
struct spa_job; /* import.c */
int spa_job_stage(struct spa_job *job, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct spa_loader {
	struct spa *spa;
	const struct spa_import *args;
	struct spa_job *job;
	struct vdev *untrusted;
	struct spa_uberblock *ub; /* newest first */
	size_t nub;
	struct strings *notes;
	bool devices_short; /* what failed was a lack of devices: no state helps */
	bool retry;         /* the failure lies in what the uberblock points to: an older one may do */
};
int spa_load(struct spa_loader *ld, struct err *e);
void spa_unload(struct spa *spa); /* everything that spa_load_from made; safe at any stage */
/* From one uberblock to an open pool. */
int spa_load_from(struct spa_loader *ld, const struct spa_uberblock *from, struct err *e);
int spa_trusted_load(struct spa_loader *ld, struct err *e);
int spa_trusted_extras(struct spa_loader *ld, struct err *e);
void spa_note(struct spa *spa, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct spa *spa_create(void);
void spa_destroy(struct spa *spa);

/* --- rewind.c, reuse.c --- */
/* The label of another pool or device, left behind on this leaf. */
bool spa_label_is_foreign(const struct nvlist *label, const struct nvlist *pool, const struct vdev *leaf);
int spa_uberblocks_collect(struct spa_loader *ld, struct err *e);
int spa_checkpoint_read(struct objset *mos, struct uberblock *out);
/* Ranges that were allocated at txg and have been given to something else since, as a note of the pool. */
struct spa_reuse;
struct spa_reuse *spa_reuse_collect(struct spa *spa, uint64_t txg);
void spa_reuse_note(struct spa *spa, struct spa_reuse *r);
void spa_reuse_destroy(struct spa_reuse *r);

/* --- activity.c --- */
/* Whether the pool has to be watched for another host before it is opened. */
bool spa_activity_check_is_needed(const struct nvlist *config, const struct uberblock *ub);
int spa_activity_check(struct spa_loader *ld, const struct spa_uberblock *best, struct err *e);
int spa_host_check(struct spa_loader *ld, const struct nvlist *config, struct err *e);

/* --- rows.c --- */
struct nvlist *spa_row(const struct vdev *vd, const char *class, const struct spa_top_space *space);
/* All rows of a tree by class, as `zpool status` lists them: "vdevs", "logs", "special", "dedup". */
void spa_rows_add(struct nvlist *out, const struct vdev *root, const char *pool, const struct spa_top_space *space);
const char *spa_class_name(const struct vdev *top);
const char *spa_state_of_root(const struct vdev *root);
const char *spa_state(const struct spa *spa);            /* SUSPENDED, or the root's */
const char *spa_suspended_reason(const struct spa *spa); /* NULL: is not */
/* Adds "health", "status" and the rows to a configuration of the search, by its labels alone. */
void spa_config_describe(struct nvlist *config);
/* The reason's message, action, id and link (status.c); nothing for "ok". */
void spa_reason_add(struct nvlist *out, const char *reason);

/* --- props.c, vdev_props.c --- */
/* One property { value, source }; returned to have a number added. */
struct nvlist *spa_prop_add(struct nvlist *out, const char *name, const char *value, const char *source);
void spa_prop_add_number(struct nvlist *out, const char *name, uint64_t v, const char *source);
/* "-" where there is nothing to tell, with the number for those who sort. */
void spa_prop_add_dash(struct nvlist *out, const char *name, uint64_t v, uint64_t nothing, const char *source);
/* Properties of users: those whose name has a colon. zap 0: none. */
void spa_user_props_add(struct spa *spa, uint64_t zap, struct nvlist *out);
uint64_t spa_percent(uint64_t part, uint64_t whole);

/* --- space.c --- */
/* Bytes that a top-level could grow by, in whole metaslabs; 0 for what is below one. */
uint64_t spa_expand_size(const struct vdev *vd);
/* Never fails: what cannot be read counts as unknown. Returns one entry per top-level; the caller's. */
struct spa_top_space *spa_space(struct spa *spa);
uint64_t spa_usable_bytes(struct spa *spa);
/* Per metaslab the txg from which on its changes are in the log (06 2.9); NULL when there is none. */
uint64_t *spa_unflushed_txgs(struct spa *spa, const struct vdev *top, uint64_t *n);
enum spa_class spa_top_class(const struct vdev *top);
uint64_t spa_dedup_saved(struct spa *spa, uint64_t *dspace, uint64_t *used); /* deflated bytes */
void spa_clone_stats(struct spa *spa, uint64_t *used, uint64_t *saved);

#endif
