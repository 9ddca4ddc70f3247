/*
 * serve/fuse/node.h: what one mount knows: the nodes the kernel holds, the snapshots opened below .zfs, requests in
 * flight.
 *
 * Node numbers of the file system itself are its object numbers (FUSE's root 1 stands for the root directory). Below
 * .zfs/snapshot the device number is the same for all, so object numbers of different snapshots must not meet: numbers
 * there are (snapshot's slot + 1) << 48 | object, and so is st_ino.
 *
 * The kernel remembers as many nodes as its memory allows, and of each we keep no more than a number: decoded znodes
 * are cached for the last ZNODES_CACHED used ones and found again by their number. A snapshot that nobody used for
 * SNAP_IDLE_S is closed, and opened again by the next request for one of its nodes.
 *
 * Lock: fuse_mount.lock guards the node table, the cache of znodes, the snapshot slots and the open handles; innermost.
 * No device is read under it.
 */
#ifndef SERVE_FUSE_NODE_H
#define SERVE_FUSE_NODE_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <sys/statvfs.h>

#include "base/list.h"
#include "serve/fuse/fuse.h"

#define NODE_HASH_MIN   1024 /* chains; a power of two */
#define ZNODES_CACHED   8192
#define SNAP_IDLE_S     300
#define NODE_SNAP_SHIFT 48
#define FUSE_READ_MAX   (1u << 20)
/* How long the kernel may keep names and attributes: nothing changes but what fuse_mount_entry_made tells it. */
#define FOREVER_S  86400.0
#define SNAP_SLOTS 0x7ffe
/* Below .zfs, in no object number's way. */
#define NODE_CTLDIR  (UINT64_C(0xffff) << NODE_SNAP_SHIFT | 1)
#define NODE_SNAPDIR (UINT64_C(0xffff) << NODE_SNAP_SHIFT | 2)

/* Inode numbers OpenZFS shows for .zfs and .zfs/snapshot, and from which a snapshot's data set number is taken off for
 * its root. */
#define CTLDIR_INO   UINT64_C(0xffffffffffff)
#define SNAPDIR_INO  UINT64_C(0xfffffffffffd)
#define SNAPROOT_INO UINT64_C(0xfffffffffffc)

/* A snapshot the kernel knows nodes of. Freed with the last of them. */
struct snap {
	struct zpl *zpl; /* NULL: closed for want of use */
	char *name;
	unsigned slot;
	unsigned nodes, users; /* nodes in the table; who uses zpl: held and cached znodes */
	uint64_t last_used;    /* seconds */
};

struct node {
	struct node *next; /* hash chain */
	uint64_t number, lookups;
	struct snap *snap;       /* NULL: the file system itself */
	struct znode *zn;        /* NULL: not cached */
	struct list_node cached; /* in fuse_mount.cached when zn is set; newest first */
};

/* A znode in use, and what it lives in. */
struct held {
	struct znode *zn;
	struct snap *snap;
};

/* An open file or directory. */
struct handle {
	struct list_node node;
	struct held held;
	struct dir_walk *dir; /* NULL for files; readdir.c */
};

struct fuse_mount {
	struct fuse_mount_args args;
	char *dir, *options;
	struct fuse_session *session;
	struct zpl *zpl;
	struct statvfs statvfs; /* read-only: does not change */
	bool posix_acl;
	pthread_t *thread;
	unsigned nthreads;
	int wake_fd;
	atomic_bool ending, told_gone;
	atomic_uint threads_left;

	pthread_mutex_t lock;
	pthread_cond_t idle;
	struct node **node;
	uint64_t nchains, nnodes;
	struct list cached, handles;
	struct snap **snap; /* by slot; NULL: free */
	unsigned nsnaps;
	uint64_t next_expiry; /* seconds */
	unsigned inflight;    /* asynchronous reads */
};

/* ---- node.c ---- */
uint64_t node_number(const struct fuse_mount *m, const struct snap *snap, uint64_t object);
/* The znode of a number the kernel uses; -ESTALE when it is not one. Control directories are not here. */
int node_hold(struct fuse_mount *m, uint64_t number, struct held *h);
/* A further object of the same file system or snapshot. */
int node_hold_object(struct fuse_mount *m, struct snap *snap, struct zpl *zpl, uint64_t object, struct held *h);
void node_drop(struct fuse_mount *m, struct held *h);
/* The kernel gets one more reference of the node. */
void node_add_lookup(struct fuse_mount *m, const struct held *h);
void node_forget(struct fuse_mount *m, uint64_t number, uint64_t lookups);
/* The node is read anew by the next request for it. */
void node_refresh(struct fuse_mount *m, uint64_t number);
void node_table_init(struct fuse_mount *m);
/* Everything, when no thread of the mount is left. */
void node_table_free(struct fuse_mount *m);
/* The root of a snapshot of the mount's file system. */
int snap_hold_root(struct fuse_mount *m, const char *name, struct held *h);
/* Closes what was not used for long; cheap, called often. */
void snap_expire(struct fuse_mount *m);
/* Takes over what is held. */
struct handle *handle_create(struct fuse_mount *m, struct held *h);
void handle_free(struct fuse_mount *m, struct handle *h);

/* ---- ops.c ---- */
extern const struct fuse_lowlevel_ops fuse_ops;
void node_stat(const struct fuse_mount *m, const struct held *h, struct stat *st);

/* The kernel gets a reference of the object's node. */
int entry_of(struct fuse_mount *m, struct snap *snap, struct zpl *zpl, uint64_t object, struct fuse_entry_param *e);
bool control_exists(const struct fuse_mount *m);
static inline struct fuse_mount *mount_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* ---- readdir.c ---- */
void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void dir_walk_free(struct dir_walk *d);

/* ---- control.c: .zfs and .zfs/snapshot ---- */
bool control_is(uint64_t number);
void control_stat(const struct fuse_mount *m, uint64_t number, struct stat *st);
/* Look-up below a control directory, and of ".zfs" in the root. */
int control_lookup(struct fuse_mount *m, uint64_t dir, const char *name, struct fuse_entry_param *e);
void control_readdir(struct fuse_mount *m, fuse_req_t req, uint64_t dir, size_t size, off_t off, bool plus);

int errno_of(int err); /* what a program may see: positive */

#endif
