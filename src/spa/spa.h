/*
 * spa/spa.h: the pool as a whole: finding, importing, describing and exporting it (docs/format/01-pool.md;
 * 09-cli.md 9.6 - 9.10 for what is shown). Read-only pools.
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
	const struct nvlist *props;       /* -o: strings; what would have to be stored is refused (-EROFS) */
	struct arc *arc;
	bool (*progress)(void *arg, const char *stage);
	void *progress_arg;
};
struct spa;
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
	/* log of blocks that could not be read since import (data set, object, level, block), bounded; guarded by
	 * error_lock */
	pthread_mutex_t error_lock;
	struct zbookmark *errors;
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
/* Records oldest first: nvlists as stored (11.1). */
int spa_history_each(struct spa *spa, int (*fn)(void *arg, const struct nvlist *record), void *arg);
/* Persistent error log (6.8 of chapter 03) and this session's errors. Paths are found by the floor above. */
int spa_errors_each(struct spa *spa, int (*fn)(void *arg, const struct zbookmark *zb), void *arg);

struct spa_feature {
	const char *guid, *name, *desc; /* "com.delphix:hole_birth", "hole_birth" */
	bool readonly_compat, mos, per_dataset;
	bool not_by_upgrade; /* enabled only by name, or in no release yet */
};
extern const struct spa_feature spa_feature_table[];
extern const size_t spa_feature_table_len;

/* --- what other floors may not know: the data sets' types in use --- */
void spa_hold(struct spa *spa);
void spa_release(struct spa *spa);

#endif
