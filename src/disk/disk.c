/* The table's front: checks every request, and blocking helpers for any size and alignment. */
#include "base/buf.h"
#include "base/sync.h"
#include "disk/disk.h"

#define HELPER_CHUNK (1u << 20)
#define REQ_MAX      (1u << 30) /* what one system call surely takes */

void disk_close(struct disk *d)
{
	if (!d)
		return;
	free(d->path);
	d->ops->close(d);
}

void disk_refresh(struct disk *d)
{
	if (d->ops->refresh)
		d->ops->refresh(d);
}

static uint64_t iov_length(const struct disk_req *r)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < r->niov; i++)
		sum += r->iov[i].iov_len;
	return sum;
}

static int req_check(const struct disk *d, const struct disk_req *r)
{
	if (r->op != DISK_READ && !d->writable)
		return -EROFS;
	if (r->op == DISK_FLUSH)
		return 0;
	if (r->length == 0 || (r->offset | r->length) % d->block_size != 0)
		return -EINVAL;
	if (r->offset > d->size || r->length > d->size - r->offset)
		return -EIO;
	if (r->op != DISK_DISCARD && (r->length > REQ_MAX || iov_length(r) != r->length))
		return -EINVAL;
	return 0;
}

void disk_submit(struct disk *d, struct disk_req *r)
{
	int err = req_check(d, r);

	if (err)
		r->done(r, err);
	else
		d->ops->submit(d, r);
}

struct blocking_req {
	struct disk_req req;
	struct waiter w;
};

static void blocking_done(struct disk_req *r, int err)
{
	waiter_done(&container_of(r, struct blocking_req, req)->w, err);
}

static int disk_perform(struct disk *d, enum disk_op op, uint64_t offset, void *data, size_t len)
{
	struct iovec iov = {data, len};
	struct blocking_req b = {
	    .req = {.op = op, .offset = offset, .length = len, .iov = &iov, .niov = 1, .done = blocking_done},
	};

	waiter_init(&b.w);
	disk_submit(d, &b.req);
	return waiter_wait(&b.w);
}

int disk_flush(struct disk *d)
{
	return disk_perform(d, DISK_FLUSH, 0, NULL, 0);
}

/* One piece of a helper's work: [offset, offset + len) lies in whole blocks [from, to). */
struct piece {
	uint64_t from, to;
	size_t head; /* offset - from */
	size_t len;
};

static struct piece piece_at(const struct disk *d, uint64_t offset, size_t len)
{
	struct piece p;

	p.from = ROUND_DOWN(offset, (uint64_t)d->block_size);
	p.head = offset - p.from;
	p.len = MIN(len, HELPER_CHUNK - p.head);
	p.to = ROUND_UP(offset + p.len, (uint64_t)d->block_size);
	return p;
}

static struct buf *bounce_alloc(const struct disk *d, size_t len)
{
	return buf_alloc(MIN(len, HELPER_CHUNK) + 2 * d->block_size);
}

static int range_check(const struct disk *d, uint64_t offset, size_t len)
{
	return offset > d->size || len > d->size - offset ? -EIO : 0;
}

int disk_read(struct disk *d, uint64_t offset, void *data, size_t len)
{
	autobuf struct buf *bounce = NULL;
	uint8_t *out = data;
	int err = range_check(d, offset, len);

	if (err || len == 0)
		return err;
	bounce = bounce_alloc(d, len);
	if (!bounce)
		return -ENOMEM;
	while (len > 0 && !err) {
		struct piece p = piece_at(d, offset, len);

		err = disk_perform(d, DISK_READ, p.from, bounce->data, p.to - p.from);
		if (!err)
			memcpy(out, bounce->data + p.head, p.len);
		offset += p.len;
		out += p.len;
		len -= p.len;
	}
	return err;
}

/* Blocks that are written in part are read first. */
static int piece_prepare(struct disk *d, const struct piece *p, uint8_t *bounce)
{
	if (p->len == p->to - p->from)
		return 0;
	return disk_perform(d, DISK_READ, p->from, bounce, p->to - p->from);
}

int disk_write(struct disk *d, uint64_t offset, const void *data, size_t len)
{
	autobuf struct buf *bounce = NULL;
	const uint8_t *in = data;
	int err = range_check(d, offset, len);

	if (!d->writable)
		return -EROFS;
	if (err || len == 0)
		return err;
	bounce = bounce_alloc(d, len);
	if (!bounce)
		return -ENOMEM;
	while (len > 0 && !err) {
		struct piece p = piece_at(d, offset, len);

		err = piece_prepare(d, &p, bounce->data);
		if (!err) {
			memcpy(bounce->data + p.head, in, p.len);
			err = disk_perform(d, DISK_WRITE, p.from, bounce->data, p.to - p.from);
		}
		offset += p.len;
		in += p.len;
		len -= p.len;
	}
	return err;
}
