/*
 * disk/file.h: regular files and block devices, inside disk/ only.
 *
 * A file is opened twice: `fd` for everything, and `direct_fd` (O_DIRECT, -1 where the file system refuses it) for
 * requests whose offset, length and memory are multiples of `direct_align`. Requests run on one of two engines:
 * rings (uring.c) or, where the kernel refuses io_uring as in most containers, blocking threads (threads.c).
 * Writable disks are claimed (claim.c).
 * A transfer (struct xfer) is what both carry through short reads, unaligned rests and refusals.
 */
#ifndef DISK_FILE_H
#define DISK_FILE_H

#include "disk/disk.h"

#define XFER_REST_IOV 8

struct filedisk;

struct file_engine {
	const char *name;
	void (*submit)(struct filedisk *f, struct disk_req *r);
};

struct filedisk {
	struct disk disk;
	const struct file_engine *engine;
	int fd;
	int direct_fd;
	uint32_t direct_align;
	unsigned ring; /* any number; picks the ring that serves it */
	bool is_block;
};

/* How far a read or write got. */
struct xfer {
	struct filedisk *file;
	struct disk_req *req;
	uint64_t done;      /* bytes transferred so far */
	unsigned iov_index; /* where `done` stands in req->iov */
	size_t iov_offset;
	bool buffered;  /* O_DIRECT refused this request */
	unsigned again; /* times the kernel said to try again */
	/* The step under way. */
	int fd;
	const struct iovec *iov;
	unsigned niov;
	struct iovec rest[XFER_REST_IOV]; /* iov, when it starts within one of the request's */
};

void xfer_init(struct xfer *x, struct filedisk *f, struct disk_req *r);
/* Sets iov, niov and fd of the next step, which starts at req->offset + done. */
void xfer_step(struct xfer *x);
/* Takes the result of a step; true when the request is over and *err its outcome, false when a step is to follow. */
bool xfer_result(struct xfer *x, ssize_t res, int *err);

/* claim.c. Locks a file that was opened for writing as long as it is open: -EBUSY. */
int claim_file(int fd, const char *path, struct err *e);
/* -EBUSY, with what uses the device that could not be opened exclusively. */
int claim_refused(const char *path, dev_t dev, struct err *e);

/* NULL when the kernel refuses rings. */
const struct file_engine *uring_engine(void);
const struct file_engine *threads_engine(void);
/* For tests: disks opened from now on use the threads. */
void file_force_threads(bool force);
/* For what a ring cannot do: on a thread, like every request of that engine. */
void threads_run(struct filedisk *f, struct disk_req *r);

#endif
