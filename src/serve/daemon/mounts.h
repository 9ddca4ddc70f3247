/*
 * serve/daemon/mounts.h: which file systems are mounted where. A mount holds its pool's spa; the list of a pool's
 * mounts is guarded by the daemon's lock.
 */
#ifndef SERVE_DAEMON_MOUNTS_H
#define SERVE_DAEMON_MOUNTS_H

#include "base/hash.h"
#include "base/str.h"
#include "serve/daemon/daemon.h"
#include "serve/fuse/fuse.h"

struct mount {
	struct list_node node;
	struct tarn_daemon *daemon;
	struct pool *pool;
	struct fuse_mount *fuse; /* NULL while it is being mounted */
	uint64_t dataset;        /* object number in the MOS */
	char name[DSL_NAME_MAX];
	char *dir, *options;   /* options: as mounted */
	char *request_options; /* the temporary ones */
	bool ending;           /* somebody is taking it down */
};

struct mount_request {
	const char *name;    /* "pool/fs" or "pool/fs@snap" */
	const char *dir;     /* NULL: the mountpoint property */
	const char *options; /* temporary mount options, NULL: none */
	bool overlay;        /* also over a directory that is not empty */
	bool force;          /* also a redacted data set */
	bool automatic;      /* of `mount -a` and import: canmount=noauto, legacy, none and mounted ones are no error */
};

/* Takes down, beside everything else, what killed daemons left mounted. */
void mounts_dead_sweep(void);
/* Tells the data set floor who is mounted ("mounted" property). */
void mounts_pool_attach(struct tarn_daemon *d, struct pool *p, struct spa *spa);
/* Blocking. The pool is held by the caller. */
int mounts_mount(struct tarn_daemon *d, struct pool *p, const struct mount_request *rq, struct err *e);
/* Every file system at and below `name` (the pool's name for all), in the order of their directories. Failures are told
 * one by one. */
void mounts_mount_all(struct tarn_daemon *d, struct pool *p, const char *name, const struct mount_request *rq,
		      void (*failed)(void *arg, const char *text), void *arg);
/* By data set name or directory; what is mounted in it of the data sets below it goes first, as in OpenZFS. */
int mounts_unmount(struct tarn_daemon *d, const char *what, bool force, struct err *e);
/* All of a pool, children first. Stops at the first one that is busy. */
int mounts_unmount_pool(struct tarn_daemon *d, struct pool *p, bool force, struct err *e);
/* Of a data set and all below it, children first; names of those that were mounted go to `mounted`. */
int mounts_unmount_tree(struct tarn_daemon *d, struct pool *p, const char *name, bool force, struct strings *mounted,
			struct err *e);
/* Of these data sets and snapshots, the keys of the map. */
int mounts_unmount_named(struct tarn_daemon *d, struct pool *p, const struct strmap *names, bool force,
			 struct strings *mounted, struct err *e);
/* A directory; also on one of our own mounts, if its pool is open for writing. It may exist. */
int mount_point_make(struct tarn_daemon *d, const char *path, struct err *e);
/* Calls back for every mount with copies, in data set order. */
int mounts_each(struct tarn_daemon *d, int (*fn)(void *arg, const char *name, const char *dir, const char *options),
		void *arg);

#endif
