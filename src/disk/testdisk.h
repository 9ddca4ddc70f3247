/*
 * disk/testdisk.h: disks for tests and fault injection, stackable behind the same table.
 */
#ifndef DISK_TESTDISK_H
#define DISK_TESTDISK_H

#include "disk/disk.h"

/* A disk in memory, zero-filled (sparse: pages are made when written). */
struct disk *memdisk_create(const char *name, uint64_t size);

/* Asked before each request passes to `lower`: 0 lets it through, a negative errno fails it. May change what a read
 * returned: `after` is called with the data of completed reads. Owns `lower`. */
struct faultdisk_hooks {
	int (*before)(void *arg, const struct disk_req *r);
	void (*after)(void *arg, struct disk_req *r);
	void *arg;
};
struct disk *faultdisk_create(struct disk *lower, const struct faultdisk_hooks *hooks);

#endif
