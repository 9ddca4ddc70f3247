/* A transfer step by step. */
#include <limits.h>

#include "disk/file.h"

#define XFER_AGAIN_MAX 64

void xfer_init(struct xfer *x, struct filedisk *f, struct disk_req *r)
{
	*x = (struct xfer){.file = f, .req = r};
}

static bool xfer_can_be_direct(const struct xfer *x)
{
	uint64_t bits = x->req->offset + x->done, mask = x->file->direct_align - 1;

	if (x->buffered || x->file->direct_fd < 0)
		return false;
	for (unsigned i = 0; i < x->niov; i++)
		bits |= (uintptr_t)x->iov[i].iov_base | x->iov[i].iov_len;
	return (bits & mask) == 0;
}

/* After a short transfer the step begins inside one of the request's vectors. */
static void xfer_rest(struct xfer *x)
{
	const struct disk_req *r = x->req;

	x->niov = MIN(r->niov - x->iov_index, XFER_REST_IOV);
	memcpy(x->rest, r->iov + x->iov_index, x->niov * sizeof(x->rest[0]));
	x->rest[0].iov_base = (char *)x->rest[0].iov_base + x->iov_offset;
	x->rest[0].iov_len -= x->iov_offset;
	x->iov = x->rest;
}

void xfer_step(struct xfer *x)
{
	const struct disk_req *r = x->req;

	if (x->iov_offset > 0) {
		xfer_rest(x);
	} else {
		x->iov = r->iov + x->iov_index;
		x->niov = MIN(r->niov - x->iov_index, IOV_MAX);
	}
	x->fd = xfer_can_be_direct(x) ? x->file->direct_fd : x->file->fd;
}

static void xfer_advance(struct xfer *x, size_t n)
{
	x->done += n;
	while (n > 0) {
		size_t left = x->req->iov[x->iov_index].iov_len - x->iov_offset;

		if (n < left) {
			x->iov_offset += n;
			return;
		}
		n -= left;
		x->iov_index++;
		x->iov_offset = 0;
	}
}

bool xfer_result(struct xfer *x, ssize_t res, int *err)
{
	if (res == -EINVAL && x->fd == x->file->direct_fd && !x->buffered) {
		x->buffered = true; /* an alignment rule the file system did not tell */
		return false;
	}
	if ((res == -EAGAIN || res == -EINTR) && x->again++ < XFER_AGAIN_MAX)
		return false;
	if (res <= 0) {
		*err = res < 0 ? (int)res : -EIO; /* 0: the file became shorter */
		return true;
	}
	xfer_advance(x, res);
	*err = 0;
	return x->done >= x->req->length;
}
