/*
 * disk/testdisk.h: disks for tests and fault injection, stackable behind the same table. What records writes and
 * replays crashes is in recorder.h.
 */
#ifndef DISK_TESTDISK_H
#define DISK_TESTDISK_H

#include "disk/disk.h"
#include "disk/sparse.h"

/* A disk in memory, zero-filled (sparse: pages are made when written). */
struct disk *memdisk_create(const char *name, uint64_t size);
/* The same over bytes that stay the caller's and outlive it; one disk at a time. */
struct disk *memdisk_over(const char *name, struct sparse *bytes);

/* Asked before each request passes to `lower`: 0 lets it through, a negative errno fails it. May change what a read
 * returned: `after` is called with the data of completed reads. Owns `lower`. */
struct faultdisk_hooks {
	int (*before)(void *arg, const struct disk_req *r);
	void (*after)(void *arg, struct disk_req *r);
	void *arg;
};
struct disk *faultdisk_create(struct disk *lower, const struct faultdisk_hooks *hooks);

/*
 * Puts a test's disks where code opens devices by their paths: disk_open of exactly this path calls `open`, until it is
 * withdrawn. Not while other threads open disks.
 */
struct testdisk_path {
	const char *path;
	int (*open)(void *arg, unsigned flags, struct disk **out, struct err *e);
	void *arg;
	struct testdisk_path *next;
};
void testdisk_publish(struct testdisk_path *p);
void testdisk_withdraw(struct testdisk_path *p);
/* NULL: none of this path. For disk_open. */
const struct testdisk_path *testdisk_find(const char *path);

#endif
