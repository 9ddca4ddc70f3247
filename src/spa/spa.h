/*
 * spa/spa.h: the pool as a whole: finding, importing, describing and exporting it (docs/format/01-pool.md;
 * 09-cli.md 9.6 - 9.10 for what is shown).
 *
 * Threads: any but cpu workers. One pool's import is sequential; different pools may be imported at once.
 */
#ifndef SPA_SPA_H
#define SPA_SPA_H

#include "dsl/dsl.h"
#include "vdev/label.h"

/* --- finding pools --- */
struct spa_search {
	const char *const *paths; /* directories or devices, -d; none: /dev and the usual by-* folders */
	size_t npaths;
	const char *cachefile; /* -c */
	bool destroyed;        /* -D: only destroyed pools; else they are left out */
	/* Told the stage ("reading labels of /dev/sdb"); returns true to stop (-EINTR). May be NULL. */
	bool (*progress)(void *arg, const char *stage);
	void *arg;
};
/*
 * Every pool found, as assembled configurations (4.7), one nvlist each with: name, pool_guid, state, txg, version,
 * hostid, hostname, vdev_tree with found paths, "devices" (guid in hex -> path), and for the listing by labels alone:
 * "health", "reason" and the words and rows of spa_status, "notes" (string array: stale labels ignored, ...), "unread"
 * (lines on devices that could not be searched, may be absent).
 *
 * No device holds up the search for longer than 10 s: what does not answer is left out. When nothing is found, e has
 * the lines on unreadable devices although 0 is returned.
 */
int spa_search(const struct spa_search *s, struct nvlist ***out, size_t *n, struct err *e);

/* --- importing --- */
struct spa_import {
	struct nvlist *config; /* from spa_search */
	const char *new_name;  /* NULL: its own */
	bool temporary_name;   /* -t */
	bool trial;       /* for a listing: to be exported again at once, so which host had it last does not count */
	bool force;       /* -f: although another host used it last */
	bool missing_log; /* -m */
	bool rewind, rewind_dry, extreme; /* -F -n -X; dry: the pool is opened as it would be, and noted */
	uint64_t txg;                     /* -T, 0 = newest */
	bool rewind_checkpoint;           /* --rewind-to-checkpoint */
	const char *altroot;              /* -R */
	const struct nvlist
	    *props;    /* -o: strings; what would have to be stored is refused when not writable (-EROFS) */
	bool writable; /* read-write: claims the logs, cleans up, writes labels */
	struct arc *arc;
	bool (*progress)(void *arg, const char *stage);
	void *progress_arg;
};
struct spa;
/* A block that could not be read. */
struct spa_error {
	struct zbookmark zb;
	uint64_t birth; /* physical */
};
/* Read-only: writes nothing at all to any device. Errors are sentences that name pool, device or feature and the cause.
 */
int spa_import(const struct spa_import *args, struct spa **out, struct err *e);
/*
 * Opens what was found, as an import would, and puts what `zpool import` lists better than labels tell into the
 * configuration: health, reason, rows of special, log, spare and cache devices. What cannot be opened keeps what the
 * labels said, with the cause as "error". A multihost pool is tested for activity, as for an import, which takes 20 s
 * and more. -EINTR only.
 */
int spa_config_try(struct nvlist *config, struct arc *arc, bool (*progress)(void *arg, const char *stage), void *arg);
/* -EBUSY while holds exist (mounts, exports, open objsets). */
int spa_export(struct spa *spa, struct err *e);

struct spa {
	char name[DSL_NAME_MAX];
	uint64_t guid, version, import_txg;
	struct uberblock uberblock;
	struct nvlist *config; /* trusted, from the MOS */
	struct nvlist *label;  /* of the device that had the best uberblock */
	struct vdev *root;
	struct zio_pool zp;
	struct dmu_pool dp;
	struct objset *mos;
	struct dsl_pool *dsl;
	char *altroot;
	bool temporary_name;
	struct nvlist *load_info; /* what was odd: skipped labels, rewound seconds, missing devices */
	atomic_uint holds;        /* mounts, exports, clients; spa_export wants 0 */
	/* blocks that could not be read since import, or, in pools that are written, since the last group; bounded;
	 * guarded by error_lock */
	pthread_mutex_t error_lock;
	struct spa_error *errors;
	size_t nerrors;
	uint64_t import_time;
	void *priv;
};

/* --- describing --- */
/*
 * Everything `zpool status` shows, as one nvlist (JSON keys of 9.9 where it has them): name, state, pool_guid, txg,
 * status, action, msgid, moreinfo, scan_stats, removal_stats, checkpoint_stats, raidz_expand_stats, vdevs tree, logs,
 * special, dedup, spares, l2cache, dedup_stats, error_count; also "reason" (short id of why status is not "ok") and,
 * with verbose_errors, "errors": [{ objset, object, level, blkid }], whose paths the floor above finds. Numbers are
 * u64s (times: seconds); vdev rows are keyed by name (09, 9.9 ROW).
 */
int spa_status(struct spa *spa, bool verbose_errors, struct nvlist **out);
/* Pool properties and feature@..., unsupported@...: { name: { value, source, number } } in table order (7). */
int spa_props_get(struct spa *spa, struct nvlist **out);
int spa_vdev_props_get(struct spa *spa, struct vdev *vd, struct nvlist **out);
/* Records oldest first: nvlists as stored (11.1). May wait for a group: what was said before the call is among them. */
int spa_history_each(struct spa *spa, int (*fn)(void *arg, const struct nvlist *record), void *arg);
/* Persistent error log (6.8 of chapter 03) and this session's errors. Paths are found by the floor above. */
int spa_errors_each(struct spa *spa, int (*fn)(void *arg, const struct zbookmark *zb), void *arg);

struct spa_feature {
	const char *guid, *name, *desc; /* "com.delphix:hole_birth", "hole_birth" */
	const char *depends;            /* names of others it needs, blanks between */
	bool readonly_compat, mos, per_dataset;
	bool not_by_upgrade; /* enabled only by name, or in no release yet */
	bool active_when_enabled;
};
extern const struct spa_feature spa_feature_table[];
extern const size_t spa_feature_table_len;

/* --- what other floors may not know: the data sets' types in use --- */
void spa_hold(struct spa *spa);
void spa_release(struct spa *spa);

/* =================================== writing =================================== */

/* import: args->writable; the log chains are claimed in the first group. */

struct spa_create {
	const char *name;
	/* vdev_tree as the command parsed it: type root, children of type file, disk, mirror ... with path, is_log,
	 * alloc_bias; ashift when given. Guids and sizes are filled in. */
	const struct nvlist *tree;
	const struct nvlist *props;    /* -o: strings, feature@... too */
	const struct nvlist *fs_props; /* -O: strings */
	const char *altroot;
	bool temporary_name; /* -t NAME: `name` is for now, real_name is stored */
	const char *real_name;
	bool no_features; /* -d */
	bool force;
	bool dry;            /* -n: every check, nothing written; *out NULL */
	const char *history; /* the command line */
	struct arc *arc;
	/* zpl's: objects of the root file system. */
	void (*init_root)(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx);
	void *init_root_arg;
};
int spa_create_pool(const struct spa_create *args, struct spa **out, struct err *e);
bool spa_is_writable(const struct spa *spa);
/* Everything so far is on the devices (zpool sync). */
void spa_sync_now(struct spa *spa);
int spa_destroy_pool(struct spa *spa, struct err *e); /* state 2; then gone as after spa_export */
/* Writes failed, and wait for spa_clear or spa_abandon. */
bool spa_is_suspended(const struct spa *spa);
/* Gives up a pool that cannot be written any more (export -f): whoever waits gets an error, and spa_export, once the
 * holds are gone, writes nothing. *lost (malloc'd, may come back NULL) names the data sets with unwritten changes. */
void spa_abandon(struct spa *spa, char **lost);
/* dry: every check, nothing written. */
int spa_add_vdevs(struct spa *spa, const struct nvlist *tree, bool force, bool dry, struct err *e);
int spa_remove_vdev(struct spa *spa, const char *name, struct err *e); /* log devices */
int spa_props_set(struct spa *spa, const struct nvlist *values, struct err *e);
/* Values as people write them; the device by name, path or guid, NULL or "root": the root. */
int spa_vdev_props_set(struct spa *spa, const char *device, const struct nvlist *values, struct err *e);
/* To a version (up to 28), or all features that `compatibility` allows (0). *done: { from, to: versions, features:
 * names enabled }, what did not change is left out. */
int spa_upgrade(struct spa *spa, uint64_t version, struct nvlist **done, struct err *e);
/* What to tell who made a pool or set its `compatibility`: "warnings" (strs), absent when there are none. */
void spa_compatibility_warn(const struct spa *spa, struct nvlist *result);
int spa_reguid(struct spa *spa, uint64_t guid, struct err *e); /* 0: random */
int spa_checkpoint(struct spa *spa, struct err *e);
int spa_checkpoint_discard(struct spa *spa, struct err *e);
int spa_clear(struct spa *spa, const char *device, struct err *e); /* counters; resumes a suspended pool */
int spa_online(struct spa *spa, const char *device, bool expand, struct err *e);
int spa_offline(struct spa *spa, const char *device, bool temporary, bool fault, struct err *e);
enum spa_activity { SPA_TRIM, SPA_INITIALIZE };
enum spa_activity_do { SPA_START, SPA_SUSPEND, SPA_CANCEL, SPA_UNINIT };
int spa_activity(struct spa *spa, enum spa_activity what, enum spa_activity_do how, const char *const *devices,
		 size_t n, uint64_t rate, bool secure, struct err *e);
/* zpool wait: whether the activity (its word in 09, 9.6) goes on, and the bytes it has before it (0: not known; left
 * may be NULL). -EINVAL unknown word. */
int spa_is_busy_with(struct spa *spa, const char *activity, bool *busy, uint64_t *left);
/* History of commands: after one that changed something (01, 11.1). who: user and host as known. */
void spa_history_command(struct spa *spa, const char *command, uint64_t uid, const char *host);
void spa_history_internal(struct spa *spa, const char *name, const struct dsl_dataset *ds, struct tx *tx,
			  const char *text);
/* Events (zpool events): numbered, the last zfs_zevent_len_max are kept. spa may be NULL. */
void spa_event_post(struct spa *spa, const char *class, const struct nvlist *payload);
/* The first one behind number `after`; waits until deadline_ns (now_ns) when there is none (0: not). -ENOENT none.
 * *event is the caller's: { class, seconds, nanoseconds, pool (may be absent), payload: list }. */
int spa_event_next(uint64_t after, uint64_t deadline_ns, uint64_t *id, struct nvlist **event);
unsigned spa_event_clear(void); /* how many there were */

#endif
