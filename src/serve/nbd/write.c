/*
 * Requests that change a volume. The payload of a write is received straight from the socket into buffers cut at the
 * boundaries of the volume's blocks.
 */
#include "serve/nbd/request.h"

#include <sys/uio.h>

#define BLOCK_MIN    4096u        /* smaller blocks are not worth a buffer each: theirs are copied */
#define PIECE        (128u << 10) /* of a buffer that is copied anyway */
#define RECV_VECTORS 64
#define AHEAD        (256u << 10) /* bytes of buffers that may wait for payload */

void request_free(struct request *rq)
{
	for (unsigned i = 0; i < rq->nbufs; i++)
		buf_release(rq->buf[i]);
	free(rq->buf);
	if (rq->room)
		memory_give(nbd_memory_of(rq->conn->server), rq->room);
	free(rq);
}

static void change_done(struct zvol_req *zr, int err)
{
	struct request *rq = zr->arg;

	if (err)
		request_error(rq, err, err_words(err));
	else
		request_done(rq);
}

void change_submit(struct request *rq)
{
	static const enum zvol_op op[] = {
	    [NBD_CMD_WRITE] = ZVOL_WRITE,
	    [NBD_CMD_FLUSH] = ZVOL_FLUSH,
	    [NBD_CMD_TRIM] = ZVOL_DISCARD,
	    [NBD_CMD_WRITE_ZEROES] = ZVOL_ZERO,
	};

	rq->zvol = (struct zvol_req){
	    .op = op[rq->type],
	    .offset = rq->offset,
	    .length = rq->length,
	    .buf = rq->buf,
	    .nbufs = rq->nbufs,
	    .fua = rq->flags & NBD_CMD_FLAG_FUA,
	    .no_hole = rq->flags & NBD_CMD_FLAG_NO_HOLE,
	    .done = change_done,
	    .arg = rq,
	};
	if (rq->type != NBD_CMD_WRITE)
		rq->length = 0; /* its bytes were never counted */
	zvol_submit(rq->conn->zv, &rq->zvol);
}

/* --- payload --- */

static void write_received(struct request *rq)
{
	memory_leave(nbd_memory_of(rq->conn->server), rq->conn);
	conn_receive(rq->conn, NULL);
	conn_request_bytes(rq->conn, rq->length);
	change_submit(rq);
}

/* The rest of the payload is thrown away. */
static void write_fail(struct request *rq, int err)
{
	struct nbd_conn *c = rq->conn;

	memory_leave(nbd_memory_of(c->server), c);
	conn_receive(c, NULL);
	c->discard = rq->length - rq->got;
	rq->length = 0;
	request_error(rq, err, err_words(err));
}

/* One more buffer: up to the end of the block. */
static int write_extend(struct request *rq)
{
	uint64_t bs = rq->conn->zv->blocksize, at = rq->offset + rq->room, left = rq->length - rq->room;
	uint64_t size = bs < BLOCK_MIN ? PIECE : bs - at % bs;
	struct buf *b = buf_alloc(MIN(size, left));

	if (!b)
		return -ENOMEM;
	BUG_ON(rq->nbufs == rq->max_bufs);
	rq->buf[rq->nbufs++] = b;
	rq->room += b->size;
	memory_take(nbd_memory_of(rq->conn->server), b->size);
	return 0;
}

/* Where the next bytes go. Memory is taken as they come, not as the header claims. */
static int write_vectors(struct request *rq, struct iovec iov[RECV_VECTORS], int *n)
{
	uint32_t skip = rq->at_len;

	while (rq->room < rq->length && rq->room - rq->got < AHEAD && rq->nbufs - rq->at < RECV_VECTORS) {
		int err = write_extend(rq);

		if (err)
			return err;
	}
	*n = 0;
	for (unsigned i = rq->at; i < rq->nbufs && *n < RECV_VECTORS; i++) {
		iov[(*n)++] = (struct iovec){rq->buf[i]->data + skip, rq->buf[i]->size - skip};
		skip = 0;
	}
	return 0;
}

static void write_advance(struct request *rq, size_t bytes)
{
	rq->got += bytes;
	rq->at_len += (uint32_t)bytes;
	while (rq->at < rq->nbufs && rq->at_len >= rq->buf[rq->at]->size)
		rq->at_len -= rq->buf[rq->at++]->size;
	if (rq->got == rq->length)
		write_received(rq);
}

void write_take(struct nbd_conn *c)
{
	while (c->receiving && c->in_len > 0 && memory_may_receive(nbd_memory_of(c->server), c)) {
		struct request *rq = c->receiving;
		struct iovec iov[RECV_VECTORS];
		int n, err = write_vectors(rq, iov, &n);
		size_t bytes = 0;

		if (err) {
			write_fail(rq, err);
			return;
		}
		for (int i = 0; i < n && c->in_len > 0; i++) {
			size_t part = MIN(iov[i].iov_len, c->in_len);

			memcpy(iov[i].iov_base, c->in, part);
			conn_consume(c, part);
			bytes += part;
		}
		write_advance(rq, bytes);
	}
}

int write_fill(struct nbd_conn *c)
{
	struct request *rq = c->receiving;
	struct iovec iov[RECV_VECTORS];
	ssize_t bytes;
	int n, err;

	if (!memory_may_receive(nbd_memory_of(c->server), c))
		return -EAGAIN;
	err = write_vectors(rq, iov, &n);
	if (err) {
		write_fail(rq, err);
		return 0;
	}
	bytes = conn_recv(c, iov, n);
	if (bytes < 0)
		return (int)bytes;
	write_advance(rq, (size_t)bytes);
	return 0;
}

void write_begin(struct request *rq)
{
	uint64_t bs = rq->conn->zv->blocksize;

	rq->max_bufs = (unsigned)(rq->length / (bs < BLOCK_MIN ? PIECE : bs)) + 2;
	rq->buf = xcalloc(rq->max_bufs, sizeof(*rq->buf));
	conn_receive(rq->conn, rq);
	write_take(rq->conn);
}

void write_abort(struct nbd_conn *c)
{
	struct request *rq = c->receiving;

	if (!rq)
		return;
	conn_receive(c, NULL);
	request_free(rq);
	conn_unref(c);
}
