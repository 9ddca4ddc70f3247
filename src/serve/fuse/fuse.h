/*
 * serve/fuse/fuse.h: one mounted file system through the low-level API of libfuse 3. No storage logic: everything is
 * asked of zpl/.
 *
 * Reads are asynchronous: the request thread submits, the completion replies with slices of cached blocks. Look-ups and
 * directory reads may wait for devices on the mount's own few request threads.
 */
#ifndef SERVE_FUSE_FUSE_H
#define SERVE_FUSE_FUSE_H

#include "base/err.h"
#include "zpl/zpl.h"

struct fuse_mount;

struct fuse_mount_args {
	struct zpl *zpl;     /* ownership moves to the mount when it succeeds */
	const char *dir;     /* must exist */
	const char *options; /* comma list as mount(8) takes: noexec, nosuid, nodev, noatime ...; may be NULL */
	unsigned snapdir;    /* the property: 0 hidden, 1 visible, 2 disabled (no .zfs at all) */
	/* Called once, from a thread of the mount, when it was unmounted from outside (umount, fusermount3 -u). */
	void (*gone)(void *arg);
	void *arg;
};
int fuse_mount_create(const struct fuse_mount_args *args, struct fuse_mount **out, struct err *e);
/* -EBUSY when in use and not `force` (then a lazy unmount); frees the mount. */
int fuse_mount_destroy(struct fuse_mount *m, bool force, struct err *e);
/* A name was entered in a directory (by object number) of the file system: what the kernel remembers of them is taken
 * back. Any thread but those of the mount. */
void fuse_mount_entry_made(struct fuse_mount *m, uint64_t dir, const char *name);
/* Lazily takes down what a daemon that no longer runs has left mounted at dir. */
int fuse_unmount_dead(const char *dir);

#endif
