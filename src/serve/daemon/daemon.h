/*
 * serve/daemon/daemon.h: what tarnd owns: the imported pools, their mounts and exports, and the commands it answers
 * (serve/daemon/commands.h). It holds no storage logic: pools live in spa/, file systems in zpl/, protocols in fuse/,
 * nbd/, control/.
 *
 * Locks: daemon->lock guards the list of pools and each pool's `refs`, `exporting` and mounts list. It is never held
 * while a device is read or a mount is made: whoever uses a pool holds a reference instead.
 */
#ifndef SERVE_DAEMON_DAEMON_H
#define SERVE_DAEMON_DAEMON_H

#include <pthread.h>

#include "base/list.h"
#include "base/taskq.h"
#include "serve/control/control.h"
#include "serve/nbd/nbd.h"
#include "spa/spa.h"

struct tarn_daemon {
	struct arc *arc;
	struct nbd_server *nbd;
	char *nbd_socket, *nbd_tcp;
	uint64_t start_time; /* seconds since 1970 */
	pthread_mutex_t lock;
	pthread_cond_t idle; /* a pool's refs fell, or an import ended */
	struct list pools;
	struct taskq *housekeeping; /* taking down mounts that were unmounted from outside */
};

struct pool {
	struct list_node node;
	struct tarn_daemon *daemon;
	struct spa *spa; /* NULL while the import is running */
	char name[DSL_NAME_MAX];
	uint64_t guid;
	unsigned refs; /* commands, mounts being made, exports being opened */
	bool exporting;
	struct list mounts; /* of struct mount, mounts.h */
};

/* pools.c */
void daemon_init(struct tarn_daemon *d, uint64_t arc_max_bytes);
/* Unmounts, disconnects and exports everything. */
void daemon_end(struct tarn_daemon *d);
/* The pool a data set, snapshot or bookmark name belongs to; -ENOENT with a sentence. Released with pool_release. */
int pool_hold(struct tarn_daemon *d, const char *name, struct pool **out, struct err *e);
bool pool_is_imported(struct tarn_daemon *d, uint64_t guid); /* or is being imported */
void pool_release(struct tarn_daemon *d, struct pool *p);
/* All pools, in name order, each held; the array is the caller's. */
size_t pools_hold_all(struct tarn_daemon *d, struct pool ***out);
void pools_release_all(struct tarn_daemon *d, struct pool **pools, size_t n);
/* Import; refuses a second import of the same guid or name. The pool comes back held. */
int pool_import(struct tarn_daemon *d, struct spa_import *args, struct pool **out, struct err *e);
/* A new pool, held. c->arc is filled in; with c->dry *out stays NULL. */
int pool_create(struct tarn_daemon *d, struct spa_create *c, struct pool **out, struct err *e);
/* -EBUSY names what uses the pool; `force` ends NBD clients and unmounts busy file systems. */
int pool_export(struct tarn_daemon *d, const char *name, bool force, struct err *e);
/* The same, and the pool may be destroyed. A pool whose devices are gone can only be dropped, by force: what was not
 * written is in the log, and in e although 0 is returned. */
int pool_end(struct tarn_daemon *d, const char *name, bool force, bool destroy, struct err *e);

/* exports.c: the NBD server's view of the pools */
/* config: what TCP is about; the Unix socket is in the run directory. */
int daemon_nbd_start(struct tarn_daemon *d, const struct nbd_config *config, struct err *e);

/* commands.c */
extern const struct control_command daemon_commands[];
extern const size_t daemon_commands_len;

#endif
