/*
 * The transmission phase: requests in, replies out, in any order.
 *
 * A read's reply goes out as one nbd_out whose vectors alternate between chunk headers (in `head`) and slices of cached
 * blocks. With structured replies holes travel as holes, and an unreadable block costs only its own bytes: the rest of
 * the request is still delivered.
 */
#include "serve/nbd/request.h"

#include "base/bytes.h"

#define CHUNK_HEADER 20
/* Longest list of extents in one block status reply; clients ask again for the rest. */
#define EXTENTS_MAX 4096
#define ZEROS_SIZE  (256u << 10)

static const uint8_t zeros[ZEROS_SIZE];

/* A flush covers what completed on any connection, and all read the same blocks: several connections are fine. */
uint16_t transmit_flags(const struct zvol *zv)
{
	unsigned flags = NBD_EXPORT_HAS_FLAGS | NBD_EXPORT_SEND_DF | NBD_EXPORT_CAN_MULTI_CONN | NBD_EXPORT_SEND_CACHE;

	if (zvol_is_writable(zv))
		flags |= NBD_EXPORT_SEND_FLUSH | NBD_EXPORT_SEND_FUA | NBD_EXPORT_SEND_TRIM |
			 NBD_EXPORT_SEND_WRITE_ZEROES | NBD_EXPORT_SEND_FAST_ZERO;
	else
		flags |= NBD_EXPORT_READ_ONLY;
	return (uint16_t)flags;
}

static uint32_t errno_to_nbd(int err)
{
	switch (-err) {
	case EPERM:
	case EROFS:
		return NBD_EPERM;
	case ENOMEM:
		return NBD_ENOMEM;
	case EINVAL:
		return NBD_EINVAL;
	case ENOSPC:
	case EDQUOT:
		return NBD_ENOSPC;
	case ENOTSUP:
		return NBD_ENOTSUP;
	default:
		return NBD_EIO;
	}
}

static void chunk_header(uint8_t *h, const struct request *rq, unsigned flags, unsigned type, size_t len)
{
	store_be32(h, NBD_STRUCTURED_REPLY_MAGIC);
	store_be16(h + 4, (uint16_t)flags);
	store_be16(h + 6, (uint16_t)type);
	store_be64(h + 8, rq->cookie);
	store_be32(h + 16, (uint32_t)len);
}

static void simple_header(uint8_t *h, const struct request *rq, uint32_t error)
{
	store_be32(h, NBD_SIMPLE_REPLY_MAGIC);
	store_be32(h + 4, error);
	store_be64(h + 8, rq->cookie);
}

/* The last word on a request; gives back its allowance. */
static void request_finish(struct request *rq, struct nbd_out *o)
{
	struct nbd_conn *c = rq->conn;

	o->ends_request = true;
	o->inflight_bytes = rq->length;
	conn_send(c, o);
	request_free(rq);
	conn_unref(c);
}

void request_error(struct request *rq, int err, const char *text)
{
	uint8_t head[CHUNK_HEADER + 6 + 256];
	size_t len = MIN(strlen(text), (size_t)256);

	if (!rq->conn->structured) {
		simple_header(head, rq, errno_to_nbd(err));
		request_finish(rq, out_create(head, 16));
		return;
	}
	chunk_header(head, rq, NBD_CHUNK_DONE, NBD_CHUNK_ERROR, 6 + len);
	store_be32(head + CHUNK_HEADER, errno_to_nbd(err));
	store_be16(head + CHUNK_HEADER + 4, (uint16_t)len);
	memcpy(head + CHUNK_HEADER + 6, text, len);
	request_finish(rq, out_create(head, CHUNK_HEADER + 6 + len));
}

void request_done(struct request *rq)
{
	uint8_t head[CHUNK_HEADER];

	if (rq->conn->structured)
		chunk_header(head, rq, NBD_CHUNK_DONE, NBD_CHUNK_NONE, 0);
	else
		simple_header(head, rq, 0);
	request_finish(rq, out_create(head, rq->conn->structured ? CHUNK_HEADER : 16));
}

/* ---- read ---- */

/* Builds the vectors of a reply; head never moves once sized. */
struct reply {
	struct nbd_out *out;
	uint8_t *head; /* next free byte of out->head */
};

static void reply_add(struct reply *r, const void *data, size_t len)
{
	if (len)
		r->out->iov[r->out->niov++] = (struct iovec){(void *)(uintptr_t)data, len};
}

static void reply_add_head(struct reply *r, size_t len)
{
	reply_add(r, r->head, len);
	r->head += len;
}

static size_t zero_vectors(const struct dmu_slice *s)
{
	return s->buf ? 1 : s->len / ZEROS_SIZE + 1;
}

static struct reply reply_create(const struct dmu_read *read, size_t head)
{
	struct reply r = {.out = xcalloc(1, sizeof(*r.out))};
	size_t vectors = 2;

	for (unsigned i = 0; i < read->nslices; i++)
		vectors += 1 + zero_vectors(&read->slice[i]);
	r.out->iov = xcalloc(vectors, sizeof(*r.out->iov));
	r.out->head = r.head = xmalloc(head);
	return r;
}

static void reply_add_zeros(struct reply *r, size_t len)
{
	for (size_t n; len > 0; len -= n) {
		n = MIN(len, (size_t)ZEROS_SIZE);
		reply_add(r, zeros, n);
	}
}

static void reply_add_slices(struct reply *r, const struct dmu_slice *s, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (s[i].buf)
			reply_add(r, s[i].data, s[i].len);
		else
			reply_add_zeros(r, s[i].len);
	}
}

enum run_kind { RUN_DATA, RUN_HOLE, RUN_ERROR };

static enum run_kind slice_kind(const struct dmu_slice *s)
{
	return s->err ? RUN_ERROR : s->buf ? RUN_DATA : RUN_HOLE;
}

/* One chunk for neighbouring slices of one kind. */
static void reply_add_run(struct reply *r, const struct request *rq, const struct dmu_slice *s, unsigned n,
			  uint64_t offset, uint64_t len, bool last)
{
	unsigned flags = last ? NBD_CHUNK_DONE : 0;
	uint8_t *h = r->head;

	switch (slice_kind(s)) {
	case RUN_DATA:
		chunk_header(h, rq, flags, NBD_CHUNK_DATA, 8 + len);
		store_be64(h + CHUNK_HEADER, offset);
		reply_add_head(r, CHUNK_HEADER + 8);
		reply_add_slices(r, s, n);
		break;
	case RUN_HOLE:
		chunk_header(h, rq, flags, NBD_CHUNK_HOLE, 12);
		store_be64(h + CHUNK_HEADER, offset);
		store_be32(h + CHUNK_HEADER + 8, (uint32_t)len);
		reply_add_head(r, CHUNK_HEADER + 12);
		break;
	case RUN_ERROR:
		chunk_header(h, rq, flags, NBD_CHUNK_ERROR_OFFSET, 14);
		store_be32(h + CHUNK_HEADER, errno_to_nbd(s->err));
		store_be16(h + CHUNK_HEADER + 4, 0);
		store_be64(h + CHUNK_HEADER + 6, offset);
		reply_add_head(r, CHUNK_HEADER + 14);
		break;
	}
}

static struct nbd_out *reply_chunks(const struct request *rq, const struct dmu_read *read)
{
	struct reply r = reply_create(read, (size_t)read->nslices * (CHUNK_HEADER + 14));
	uint64_t offset = rq->offset;

	for (unsigned i = 0, n; i < read->nslices; i += n) {
		const struct dmu_slice *s = &read->slice[i];
		uint64_t len = s->len;

		for (n = 1; i + n < read->nslices && slice_kind(&s[n]) == slice_kind(s); n++)
			len += s[n].len;
		reply_add_run(&r, rq, s, n, offset, len, i + n == read->nslices);
		offset += len;
	}
	return r.out;
}

/* One piece: without structured replies, or because the client asked not to fragment. */
static struct nbd_out *reply_whole(const struct request *rq, const struct dmu_read *read)
{
	struct reply r = reply_create(read, CHUNK_HEADER + 8);

	if (rq->conn->structured) {
		chunk_header(r.head, rq, NBD_CHUNK_DONE, NBD_CHUNK_DATA, 8 + (size_t)rq->length);
		store_be64(r.head + CHUNK_HEADER, rq->offset);
		reply_add_head(&r, CHUNK_HEADER + 8);
	} else {
		simple_header(r.head, rq, 0);
		reply_add_head(&r, 16);
	}
	reply_add_slices(&r, read->slice, read->nslices);
	return r.out;
}

static int read_first_error(const struct dmu_read *read)
{
	for (unsigned i = 0; i < read->nslices; i++)
		if (read->slice[i].err)
			return read->slice[i].err;
	return 0;
}

static void read_done(struct dmu_read *read, int err)
{
	struct request *rq = read->arg;
	bool whole = !rq->conn->structured || (rq->flags & NBD_CMD_FLAG_DF);
	struct nbd_out *out;

	if (!err && whole)
		err = read_first_error(read);
	if (err) {
		dmu_read_finish(read);
		free(read);
		request_error(rq, err, err_words(err));
		return;
	}
	out = whole ? reply_whole(rq, read) : reply_chunks(rq, read);
	out->read = read;
	request_finish(rq, out);
}

static void request_read(struct request *rq)
{
	struct dmu_read *read = xcalloc(1, sizeof(*read));

	conn_request_bytes(rq->conn, rq->length);
	read->offset = rq->offset;
	read->length = rq->length;
	read->flags = DMU_READ_CONTINUE;
	read->done = read_done;
	read->arg = rq;
	zvol_read_submit(rq->conn->zv, read);
}

/* CACHE: the same read, answered without the bytes. */
static void cache_done(struct dmu_read *read, int err)
{
	struct request *rq = read->arg;

	dmu_read_finish(read);
	free(read);
	if (err)
		request_error(rq, err, err_words(err));
	else
		request_done(rq);
}

static void request_cache(struct request *rq)
{
	struct dmu_read *read = xcalloc(1, sizeof(*read));

	conn_request_bytes(rq->conn, rq->length);
	read->offset = rq->offset;
	read->length = rq->length;
	read->done = cache_done;
	read->arg = rq;
	zvol_read_submit(rq->conn->zv, read);
}

/* ---- block status ---- */

struct extents {
	uint8_t *data; /* (length, flags) pairs in wire form */
	size_t n, max;
};

static void extents_add(struct extents *x, uint64_t len, uint32_t flags)
{
	if (len == 0)
		return;
	store_be32(x->data + 8 * x->n, (uint32_t)len);
	store_be32(x->data + 8 * x->n + 4, flags);
	x->n++;
}

/* Where the run of data or hole that holds `offset` ends, at most `end`. */
static int run_end(struct zvol *zv, uint64_t offset, uint64_t end, bool *hole, uint64_t *out)
{
	uint64_t next = offset;
	int err = zvol_next_offset(zv, &next, false);

	if (err && err != -ESRCH)
		return err;
	*hole = err == -ESRCH || next > offset;
	if (!*hole) {
		next = offset;
		err = zvol_next_offset(zv, &next, true);
		if (err && err != -ESRCH)
			return err;
	}
	*out = err == -ESRCH || next > end ? end : next;
	return 0;
}

/* What cannot be told counts as data: reading it gives the error. A failed block status would not do, for copying
 * programs take it for zeros (nbdcopy 1.14). */
static void extents_collect(struct extents *x, struct zvol *zv, uint64_t offset, uint64_t end)
{
	while (offset < end && x->n < x->max) {
		bool hole;
		uint64_t next;

		if (run_end(zv, offset, end, &hole, &next)) {
			hole = false;
			next = end;
		}
		extents_add(x, next - offset, hole ? NBD_STATE_HOLE | NBD_STATE_ZERO : 0);
		offset = next;
	}
}

static void status_task(struct task *t)
{
	struct request *rq = container_of(t, struct request, task);
	size_t max = rq->flags & NBD_CMD_FLAG_REQ_ONE ? 1 : EXTENTS_MAX;
	uint8_t *buf = xmalloc(CHUNK_HEADER + 4 + 8 * max);
	struct extents x = {.data = buf + CHUNK_HEADER + 4, .max = max};

	extents_collect(&x, rq->conn->zv, rq->offset, rq->offset + rq->length);
	rq->length = 0; /* its bytes were never counted */
	chunk_header(buf, rq, NBD_CHUNK_DONE, NBD_CHUNK_STATUS, 4 + 8 * x.n);
	store_be32(buf + CHUNK_HEADER, NBD_CONTEXT_ALLOCATION);
	request_finish(rq, out_create(buf, CHUNK_HEADER + 4 + 8 * x.n));
	free(buf);
}

static void request_status(struct request *rq)
{
	rq->task.run = status_task;
	taskq_dispatch(nbd_admin(rq->conn->server), &rq->task);
}

/* ---- requests ---- */

/* What each command takes; FUA means nothing to those that only read. */
static const struct command {
	uint16_t flags;
	bool changes, data, empty; /* data: at most NBD_REQUEST_MAX bytes; empty: offset and length are 0 */
	void (*submit)(struct request *rq);
} commands[] = {
    [NBD_CMD_READ] = {NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_DF, .data = true, .submit = request_read},
    [NBD_CMD_WRITE] = {NBD_CMD_FLAG_FUA, .changes = true, .data = true, .submit = write_begin},
    [NBD_CMD_FLUSH] = {NBD_CMD_FLAG_FUA, .empty = true, .submit = change_submit},
    [NBD_CMD_TRIM] = {NBD_CMD_FLAG_FUA, .changes = true, .submit = change_submit},
    [NBD_CMD_CACHE] = {NBD_CMD_FLAG_FUA, .data = true, .submit = request_cache},
    [NBD_CMD_WRITE_ZEROES] = {NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO, .changes = true,
			      .submit = change_submit},
    [NBD_CMD_BLOCK_STATUS] = {NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_REQ_ONE, .submit = request_status},
};

static const struct command *command_of(const struct request *rq)
{
	return rq->type < ARRAY_LEN(commands) && commands[rq->type].submit ? &commands[rq->type] : NULL;
}

/* Beyond the end there is no space, as the protocol puts it. */
static int range_check(const struct request *rq, const char **fault)
{
	uint64_t size = zvol_size(rq->conn->zv);

	if (rq->offset > size || rq->length > size - rq->offset) {
		*fault = "beyond the end of the volume";
		return rq->type == NBD_CMD_WRITE || rq->type == NBD_CMD_WRITE_ZEROES ? -ENOSPC : -EINVAL;
	}
	*fault = "a request of no bytes";
	return rq->length == 0 ? -EINVAL : 0;
}

static int request_check(const struct request *rq, const char **fault)
{
	const struct nbd_conn *c = rq->conn;
	const struct command *cmd = command_of(rq);
	unsigned not_negotiated = c->writable ? 0 : NBD_CMD_FLAG_FUA;

	*fault = "unknown command";
	if (!cmd)
		return -EINVAL;
	*fault = "the export is read-only";
	if (cmd->empty && !c->writable)
		return -EINVAL;
	if (cmd->changes && !zvol_is_writable(c->zv))
		return -EPERM;
	*fault = "flags that this command does not take";
	if (rq->flags & (~cmd->flags | not_negotiated))
		return -EINVAL;
	*fault = "a flush has neither offset nor length";
	if (cmd->empty)
		return rq->offset || rq->length ? -EINVAL : 0;
	*fault = "longer than the largest request, 32 MiB";
	if (cmd->data && rq->length > NBD_REQUEST_MAX)
		return -EINVAL;
	*fault = "block status was not negotiated";
	if (rq->type == NBD_CMD_BLOCK_STATUS && !c->allocation)
		return -EINVAL;
	*fault = "writing zeros that take space is not fast";
	if (rq->flags & NBD_CMD_FLAG_FAST_ZERO && rq->flags & NBD_CMD_FLAG_NO_HOLE)
		return -ENOTSUP;
	return range_check(rq, fault);
}

static void request_refuse(struct request *rq, int err, const char *fault)
{
	if (rq->type == NBD_CMD_WRITE)
		rq->conn->discard = rq->length;
	rq->length = 0; /* its bytes were never counted */
	request_error(rq, err, fault);
}

static struct request request_read_header(struct nbd_conn *c)
{
	return (struct request){
	    .conn = c,
	    .flags = load_be16(c->in + 4),
	    .type = load_be16(c->in + 6),
	    .cookie = load_be64(c->in + 8),
	    .offset = load_be64(c->in + 16),
	    .length = load_be32(c->in + 24),
	};
}

int transmit_step(struct nbd_conn *c)
{
	struct request head, *rq;
	const char *fault = NULL;
	int err;

	if (c->receiving) {
		write_take(c);
		return 1;
	}
	if (c->in_len < NBD_REQUEST_SIZE)
		return 0;
	if (load_be32(c->in) != NBD_REQUEST_MAGIC)
		return -EPROTO;
	head = request_read_header(c);
	if (head.type == NBD_CMD_DISC) {
		conn_consume(c, NBD_REQUEST_SIZE);
		conn_drain(c);
		return 1;
	}
	err = request_check(&head, &fault);
	conn_consume(c, NBD_REQUEST_SIZE);
	rq = xmalloc(sizeof(*rq));
	*rq = head;
	conn_request_begin(c);
	if (err)
		request_refuse(rq, err, fault);
	else
		command_of(rq)->submit(rq);
	return 1;
}
