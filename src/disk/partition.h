/*
 * disk/partition.h: partitions inside an image file or a device for which the kernel made no nodes, so that a pool on
 * a whole disk (GPT, the pool in partition 1) is found in its image. Tables are untrusted: every number is checked.
 *
 * A partition is named by the path of its device and "-partN", as udev names them.
 */
#ifndef DISK_PARTITION_H
#define DISK_PARTITION_H

#include "disk/disk.h"

struct partition {
	unsigned number;
	uint64_t offset, size; /* bytes */
};
#define PARTITIONS_MAX 128

/* GPT (first or second copy) or MBR (primary ones). *n = 0 when there is no table. */
int partition_read_table(struct disk *d, struct partition out[PARTITIONS_MAX], size_t *n);
/* The bytes [offset, offset + size) of `lower`, which the new disk owns from now on. */
struct disk *partition_disk_create(struct disk *lower, uint64_t offset, uint64_t size, const char *path);
/* disk_open, but "X-partN" is partition N of X where there is no file of that name. */
int partition_disk_open(const char *path, unsigned flags, struct disk **out, struct err *e);

#endif
