/*
 * Writing gang blocks (docs/format/02-blocks-and-objects.md, section 5). The tree of headers and members is made, or
 * read back from a block that is overwritten in place, before anything is written: a header holds nothing that is not
 * known then. So all of it is written at once. Runs on threads that may wait.
 */
#include "zio/zio_write_impl.h"

#define HEADER_PSIZE 512u /* what is allocated for a header */
#define HEADER_MAX   (64u << 10)
#define TRAILER_SIZE 40u
#define GANG_DEPTH   16u
#define HEADER_SLOTS ((HEADER_MAX - TRAILER_SIZE) / BP_SIZE)

struct gang_member {
	struct bp bp; /* of a nested gang block: DVAs only, until the headers are made */
	uint32_t offset, bytes;
	struct gang_node *sub; /* NULL: data */
};

struct gang_node {
	struct dva header[BP_DVAS]; /* their own space */
	unsigned nheaders;
	uint32_t header_size;
	uint32_t offset, bytes; /* of the block's data, what is below */
	unsigned nmembers, slots;
	struct gang_member *member;
};

static void node_destroy(struct gang_node *n)
{
	if (!n)
		return;
	for (unsigned i = 0; i < n->nmembers; i++)
		node_destroy(n->member[i].sub);
	free(n->member);
	free(n);
}

void zio_gang_destroy(struct gang_node *gang)
{
	node_destroy(gang);
}

/* --- space --- */

static void dva_give_back(struct zio_wop *op, const struct dva *dva)
{
	op->zp->alloc->unalloc(op->zp->alloc_arg, dva, op->w->txg);
	counter_add(&op->zp->freed, dva->asize);
}

void zio_gang_give_back(struct zio_wop *op, const struct gang_node *n)
{
	for (unsigned i = 0; i < n->nheaders; i++)
		dva_give_back(op, &n->header[i]);
	for (unsigned i = 0; i < n->nmembers; i++) {
		if (n->member[i].sub) {
			zio_gang_give_back(op, n->member[i].sub);
			continue;
		}
		for (unsigned d = 0; d < bp_ndvas(&n->member[i].bp); d++) {
			struct dva dva = bp_dva(&n->member[i].bp, d);

			dva_give_back(op, &dva);
		}
	}
}

static int gang_alloc(struct zio_wop *op, uint64_t psize, unsigned ndvas, unsigned flags, const struct dva *near,
		      struct dva dva[BP_DVAS])
{
	int err = op->zp->alloc->alloc(op->zp->alloc_arg, op->class, psize, ndvas, op->w->txg, flags, near, dva);

	for (unsigned i = 0; i < ndvas && !err; i++)
		counter_add(&op->zp->allocated, dva[i].asize);
	return err;
}

static uint32_t header_size_of(const struct zio_pool *zp, const struct gang_node *n)
{
	uint64_t size = HEADER_MAX;

	if (!zp->dynamic_gang)
		return HEADER_PSIZE;
	for (unsigned i = 0; i < n->nheaders; i++)
		size = MIN(size, vdev_min_alloc(zp->root->child[n->header[i].vdev]));
	return MAX((uint32_t)size, HEADER_PSIZE);
}

static int node_alloc(struct zio_wop *op, uint32_t offset, uint32_t bytes, unsigned nheaders, unsigned depth,
		      struct gang_node **out);

/* Of sizes that would do, the largest that can be had: *limit is the smallest that could not. */
static int member_alloc(struct zio_wop *op, struct gang_node *n, uint32_t left, uint32_t *limit, unsigned depth)
{
	const uint32_t gran = (uint32_t)MAX(op->zp->gcd_alloc, 512), min = (uint32_t)MAX(op->zp->min_alloc, 512);
	uint32_t slots = n->slots - n->nmembers;
	uint32_t least = MIN(left, MAX(min, ROUND_UP((left + slots - 1) / slots, gran))), size = left;
	struct gang_member *m = &n->member[n->nmembers];
	struct dva dva[BP_DVAS];
	int err;

	if (size >= *limit)
		size = MIN(left, MAX(least, ROUND_UP(*limit / 2, gran)));
	while ((err = gang_alloc(op, size, op->ndvas, ZIO_ALLOC_MEMBER, &n->header[0], dva)) == -ENOSPC) {
		*limit = size;
		if (size == least)
			break;
		size = MAX(least, ROUND_UP(size / 2, gran));
	}
	*m = (struct gang_member){.offset = n->offset + n->bytes - left, .bytes = size};
	if (err == -ENOSPC && size > min)
		err = node_alloc(op, m->offset, size, op->ndvas, depth + 1, &m->sub);
	if (err)
		return err;
	for (unsigned d = 0; d < op->ndvas && !m->sub; d++)
		bp_set_dva(&m->bp, d, &dva[d]);
	n->nmembers++;
	return 0;
}

static int node_fill(struct zio_wop *op, struct gang_node *n, unsigned depth)
{
	uint32_t left = n->bytes, limit = n->bytes;
	int err = 0;

	while (left > 0 && !err) {
		err = member_alloc(op, n, left, &limit, depth);
		if (!err)
			left -= n->member[n->nmembers - 1].bytes;
	}
	return err;
}

static struct gang_node *node_create(uint32_t offset, uint32_t bytes, unsigned slots)
{
	struct gang_node *n = xcalloc(1, sizeof(*n));

	n->offset = offset;
	n->bytes = bytes;
	n->slots = slots;
	n->member = xcalloc(slots, sizeof(*n->member));
	return n;
}

static int node_alloc(struct zio_wop *op, uint32_t offset, uint32_t bytes, unsigned nheaders, unsigned depth,
		      struct gang_node **out)
{
	struct gang_node *n;
	int err;

	if (depth >= GANG_DEPTH)
		return -ENOSPC;
	n = node_create(offset, bytes, HEADER_SLOTS);
	err = gang_alloc(op, HEADER_PSIZE, nheaders, ZIO_ALLOC_GANG_HEADER, NULL, n->header);
	if (!err) {
		n->nheaders = nheaders;
		n->header_size = header_size_of(op->zp, n);
		n->slots = (n->header_size - TRAILER_SIZE) / BP_SIZE;
		err = node_fill(op, n, depth);
	}
	if (err) {
		zio_gang_give_back(op, n);
		node_destroy(n);
		return err;
	}
	*out = n;
	return 0;
}

int zio_gang_create(struct zio_wop *op, struct gang_node **out)
{
	unsigned most = bp_is_encrypted(&op->bp) ? BP_DVAS - 1 : BP_DVAS;

	return node_alloc(op, 0, op->psize, MIN(MAX(op->w->policy.gang_copies, op->ndvas), most), 0, out);
}

/* --- the tree of a block that is there --- */

static int node_load(struct zio_wop *op, const struct bp *bp, uint32_t offset, unsigned depth, struct gang_node **out);

static int member_load(struct zio_wop *op, struct gang_node *n, const struct bp *bp, uint32_t *at, unsigned depth)
{
	struct gang_member *m = &n->member[n->nmembers];

	if (bp_psize(bp) > n->offset + n->bytes - *at || bp_ndvas(bp) != op->ndvas || bp_birth(bp) != op->w->txg)
		return -EINVAL;
	*m = (struct gang_member){.bp = *bp, .offset = *at, .bytes = (uint32_t)bp_psize(bp)};
	*at += m->bytes;
	if (bp_is_gang(bp)) {
		int err = node_load(op, bp, m->offset, depth + 1, &m->sub);

		if (err)
			return err;
	}
	n->nmembers++;
	return 0;
}

static int node_load(struct zio_wop *op, const struct bp *bp, uint32_t offset, unsigned depth, struct gang_node **out)
{
	autofree struct bp *member = xcalloc(HEADER_SLOTS + 1, sizeof(*member));
	struct gang_node *n = node_create(offset, (uint32_t)bp_psize(bp), HEADER_SLOTS);
	uint32_t at = offset;
	struct buf *header;
	unsigned count;
	int err = -EINVAL;

	if (depth < GANG_DEPTH)
		err = zio_read_wait(op->zp, bp, &op->w->zb, NULL, ZIO_RAW | ZIO_GANG_HEADER | ZIO_QUIET, &header);
	if (!err) {
		n->header_size = header->size;
		for (; n->nheaders < bp_ndvas(bp); n->nheaders++) {
			struct dva *dva = &n->header[n->nheaders];

			*dva = bp_dva(bp, n->nheaders);
			dva->asize = vdev_psize_to_asize(op->zp->root->child[dva->vdev], HEADER_PSIZE, op->w->txg);
			dva->gang = false;
		}
		count = zio_gang_members(bp, header, member);
		buf_release(header);
		for (unsigned i = 0; i < count && !err; i++)
			err = member_load(op, n, &member[i], &at, depth);
	}
	if (!err && at != offset + n->bytes)
		err = -EINVAL;
	if (err) {
		node_destroy(n);
		return err;
	}
	*out = n;
	return 0;
}

int zio_gang_load(struct zio_wop *op, const struct bp *bp, struct gang_node **out)
{
	return node_load(op, bp, 0, 0, out);
}

/* --- pointers, headers, pieces --- */

static uint64_t member_asize(const struct gang_member *m, unsigned d);

static uint64_t node_asize(const struct gang_node *n, unsigned d)
{
	uint64_t sum = n->header[d].asize;

	for (unsigned i = 0; i < n->nmembers; i++)
		sum += member_asize(&n->member[i], d);
	return sum;
}

static uint64_t member_asize(const struct gang_member *m, unsigned d)
{
	if (!m->sub)
		return bp_dva(&m->bp, d).asize;
	return d < m->sub->nheaders ? node_asize(m->sub, d) : 0;
}

void zio_gang_set_dvas(const struct gang_node *n, struct bp *bp)
{
	for (unsigned d = 0; d < n->nheaders; d++) {
		struct dva dva = n->header[d];

		dva.gang = true;
		dva.asize = node_asize(n, d);
		bp_set_dva(bp, d, &dva);
	}
}

static unsigned node_pieces(const struct gang_node *n, unsigned ndvas)
{
	unsigned sum = n->nheaders;

	for (unsigned i = 0; i < n->nmembers; i++)
		sum += n->member[i].sub ? node_pieces(n->member[i].sub, ndvas) : ndvas;
	return sum;
}

/* One piece per copy; they share the bytes, of which a device gets as many as its sectors need. */
static int pieces_add(struct zio_wop *op, const struct dva *dva, unsigned ndvas, const uint8_t *bytes, uint32_t size)
{
	uint32_t most = 0;
	struct buf *buf;

	for (unsigned d = 0; d < ndvas; d++)
		most = MAX(most, zio_write_size(op->zp, &dva[d], size));
	buf = buf_alloc(most);
	if (!buf)
		return -ENOMEM;
	memcpy(buf->data, bytes, size);
	memset(buf->data + size, 0, most - size);
	for (unsigned d = 0; d < ndvas; d++) {
		struct zio_piece *p = &op->piece[op->npieces++];

		p->dva = dva[d];
		p->buf = buf_hold(buf);
		p->size = zio_write_size(op->zp, &dva[d], size);
	}
	buf_release(buf);
	return 0;
}

static int node_make(struct zio_wop *op, struct gang_node *n, bool leader);

static int member_make(struct zio_wop *op, struct gang_member *m)
{
	enum checksum c = bp_checksum(&op->bp);
	const uint8_t *bytes = op->data->data + m->offset;
	struct dva dva[BP_DVAS];
	struct cksum sum = {{0}};
	int err = 0;

	bp_set_props(&m->bp,
		     &(struct bp_props){.lsize = m->bytes, .psize = m->bytes, .compress = COMPRESS_OFF, .checksum = c});
	m->bp.w[10] = op->w->txg;
	if (c != CHECKSUM_OFF && c != CHECKSUM_NOPARITY)
		err = checksum_compute(c, op->zp->salt, bytes, m->bytes, false, &sum);
	memcpy(&m->bp.w[12], &sum, sizeof(sum));
	if (err)
		return err;
	if (m->sub) {
		zio_gang_set_dvas(m->sub, &m->bp);
		return node_make(op, m->sub, false);
	}
	for (unsigned d = 0; d < op->ndvas; d++)
		dva[d] = bp_dva(&m->bp, d);
	return pieces_add(op, dva, op->ndvas, bytes, m->bytes);
}

/* A leader's header is in the order of its contents; nested ones hang off pointers of host order. */
static int node_make(struct zio_wop *op, struct gang_node *n, bool leader)
{
	struct cksum verifier = {{n->header[0].vdev, n->header[0].offset, op->w->txg, 0}};
	bool swap = leader && bp_is_swapped(&op->bp), truncated = leader && bp_uses_crypt(&op->bp);
	autofree uint8_t *h = xcalloc(1, n->header_size);
	int err = 0;

	for (unsigned i = 0; i < n->nmembers && !err; i++) {
		err = member_make(op, &n->member[i]);
		memcpy(h + (size_t)i * BP_SIZE, &n->member[i].bp, BP_SIZE);
	}
	if (err)
		return err;
	if (swap)
		swap64_buffer(h, n->nmembers * BP_SIZE);
	err = checksum_embedded_put(CHECKSUM_GANG_HEADER, h, n->header_size, &verifier, swap, truncated);
	return err ? err : pieces_add(op, n->header, n->nheaders, h, n->header_size);
}

int zio_gang_make_pieces(struct zio_wop *op, struct gang_node *gang)
{
	op->piece = xcalloc(node_pieces(gang, op->ndvas), sizeof(*op->piece));
	return node_make(op, gang, true);
}
