/*
 * serve/fuse/node.h: what one mount knows: the nodes the kernel holds, the snapshots opened below .zfs, requests in
 * flight.
 *
 * Node numbers of the file system itself are its object numbers (FUSE's root 1 stands for the root directory). Below
 * .zfs/snapshot the device number is the same for all, so object numbers of different snapshots must not meet: numbers
 * there are (snapshot's slot + 1) << 48 | object, and so is st_ino.
 *
 * Lock: fuse_mount.lock guards the node table and the snapshot slots; innermost. No device is read under it.
 */
#ifndef SERVE_FUSE_NODE_H
#define SERVE_FUSE_NODE_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <sys/statvfs.h>

#include "base/list.h"
#include "serve/fuse/fuse.h"

#define NODE_HASH       4096 /* chains; a power of two */
#define NODE_SNAP_SHIFT 48
#define SNAP_SLOTS      0x7ffe
/* Below .zfs, in no object number's way. */
#define NODE_CTLDIR  (UINT64_C(0xffff) << NODE_SNAP_SHIFT | 1)
#define NODE_SNAPDIR (UINT64_C(0xffff) << NODE_SNAP_SHIFT | 2)

/* Inode numbers OpenZFS shows for .zfs and .zfs/snapshot, and from which a snapshot's data set number is taken off for
 * its root. */
#define CTLDIR_INO   UINT64_C(0xffffffffffff)
#define SNAPDIR_INO  UINT64_C(0xfffffffffffd)
#define SNAPROOT_INO UINT64_C(0xfffffffffffc)

/* A snapshot somebody looks at; closed when the kernel has forgotten its last node. */
struct snap {
	struct zpl *zpl;
	char *name;
	unsigned slot, refs;
};

struct node {
	struct node *next; /* hash chain */
	uint64_t number, lookups;
	struct znode *zn;
	struct snap *snap; /* NULL: the file system itself */
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
	struct node *node[NODE_HASH];
	struct snap **snap; /* by slot; NULL: free */
	unsigned nsnaps;
	unsigned inflight; /* asynchronous reads */
};

/* ---- node.c ---- */
uint64_t node_number(const struct fuse_mount *m, const struct snap *snap, uint64_t object);
/* A referenced znode of a number the kernel uses; -ENOENT when it never got it, -ESTALE. Control directories are not
 * here. */
int node_get(struct fuse_mount *m, uint64_t number, struct znode **zn, struct snap **snap);
/* The kernel gets one more reference of the node. Takes over one reference of zn. */
struct node *node_add_lookup(struct fuse_mount *m, struct snap *snap, struct znode *zn);
void node_forget(struct fuse_mount *m, uint64_t number, uint64_t lookups);
void node_forget_all(struct fuse_mount *m);
/* Opens, or finds open, a snapshot of the mount's file system; released with snap_release. */
int snap_get(struct fuse_mount *m, const char *name, struct snap **out);
void snap_release(struct fuse_mount *m, struct snap *s);

/* ---- ops.c ---- */
extern const struct fuse_lowlevel_ops fuse_ops;

/* ---- control.c: .zfs and .zfs/snapshot ---- */
bool control_is(uint64_t number);
void control_stat(const struct fuse_mount *m, uint64_t number, struct stat *st);
/* Look-up below a control directory, and of ".zfs" in the root. */
int control_lookup(struct fuse_mount *m, uint64_t dir, const char *name, struct fuse_entry_param *e);
void control_readdir(struct fuse_mount *m, fuse_req_t req, uint64_t dir, size_t size, off_t off, bool plus);

int errno_of(int err); /* what a program may see: positive */

#endif
