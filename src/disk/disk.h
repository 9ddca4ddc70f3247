/*
 * disk/disk.h: what is below us: a flat run of bytes with asynchronous requests. Files and block devices go through
 * io_uring (O_DIRECT where the file system can, else buffered); memory, fault-injecting, recording and slow disks stand
 * behind the same table for tests.
 *
 * Requests complete by callback on a ring thread or on the submitting thread; a callback does not block. Requests
 * may complete in any order. Offsets, lengths and buffers are multiples of disk_block_size(); buffers come from
 * buf_alloc or are aligned to 4096.
 */
#ifndef DISK_DISK_H
#define DISK_DISK_H

#include <sys/uio.h>

#include "base/base.h"
#include "base/err.h"

struct disk;

enum disk_op { DISK_READ, DISK_WRITE, DISK_FLUSH, DISK_DISCARD };

struct disk_req {
	enum disk_op op;
	uint64_t offset;
	const struct iovec *iov; /* stays valid until done; total length = the request's */
	unsigned niov;
	uint64_t length; /* bytes, at most 1 GiB for reads and writes; for DISCARD the range */
	/* err: 0 or negative errno; a short transfer or a range beyond the end is -EIO, anything but a read on a disk
	 * that is not writable -EROFS, a device that is gone -ENXIO, -ENODEV or -EIO as the kernel says. After FLUSH
	 * what had completed before it was submitted is on the medium. DISCARD: the bytes are undefined then;
	 * -EOPNOTSUPP: they stay. */
	void (*done)(struct disk_req *r, int err);
	void *priv; /* the disk's own, from submission to completion */
	void *priv2;
};

#define DISK_RDONLY 0u
#define DISK_RDWR   1u

struct disk_ops {
	const char *kind; /* "file", "block", "memory", ... */
	void (*submit)(struct disk *d, struct disk_req *r);
	void (*close)(struct disk *d);
	void (*refresh)(struct disk *d); /* size; NULL: it never changes */
};

struct disk { /* embedded first in each kind's own struct */
	const struct disk_ops *ops;
	_Atomic uint64_t size; /* bytes */
	uint32_t block_size;   /* logical sector: smallest I/O and alignment, 512 for files */
	uint32_t physical_block_size;
	bool writable;
	bool rotational; /* the kernel says so of a block device; of the device below a file nothing is known */
	bool discards;   /* ranges could be given back: TRIM, holes in a file */
	char *path;
};

/* Regular file or block device. A writable one is ours alone among those that write while it is open. -ENOENT, -EACCES,
 * -EBUSY (in use: writable opens only; e says by whom), -EINVAL (other kind). */
int disk_open(const char *path, unsigned flags, struct disk **out, struct err *e);
/* All requests must have completed. */
void disk_close(struct disk *d);
/* Learns the size again, of a file or device that may have grown (or shrunk). Any thread. */
void disk_refresh(struct disk *d);
/* Any thread. Never blocks on the device (what the rings have no room for waits in a queue). */
void disk_submit(struct disk *d, struct disk_req *r);
/* Blocking helpers for administrative code; any size and alignment. */
int disk_read(struct disk *d, uint64_t offset, void *data, size_t len);
int disk_write(struct disk *d, uint64_t offset, const void *data, size_t len);
int disk_flush(struct disk *d);

#endif
