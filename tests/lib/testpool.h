/*
 * A small pool in memory for the tests of zio, arc and dmu: one or more plain top-level vdevs over memory disks, blocks
 * written by hand, block trees and object sets built from them. Either byte order.
 *
 * It can be written through zio_write too: space comes from the same bump allocator, which remembers what is in use, so
 * that tests see leaks and blocks that are freed twice; freed space is not used again.
 */
#ifndef TESTPOOL_H
#define TESTPOOL_H

/* clang-format off: cmocka wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
/* clang-format on */

#include "base/sync.h"
#include "disk/testdisk.h"
#include "dmu/dmu.h"

#define TP_TOPS     3
#define TP_SIZE     (UINT64_C(512) << 20)
#define TP_FRONT    (UINT64_C(4) << 20)
#define TP_TXG      10
#define TP_FILE     19 /* plain file contents */
#define TP_DNODE    10
#define TP_OBJSET   11
#define TP_SLOTS    32 /* of a dnode block */
#define TP_ECK      UINT64_C(0x0210da7ab10c7a11)
#define TP_UNCACHED UINT64_MAX

/* What zio_write got for a copy, a gang header or a member, and has not been given back. */
struct tp_extent {
	struct dva dva;
	uint64_t txg;
};

struct testpool;
struct tp_disk {
	struct testpool *tp;
	atomic_uint failed_at; /* the value of fail_write_at when it hit */
	_Atomic uint64_t failed_offset;
};

struct testpool {
	struct tp_disk disk_state[TP_TOPS];
	struct vdev *root;
	struct disk *disk[TP_TOPS];
	struct disk *(*lower)(void *arg, unsigned i); /* disks of TP_SIZE under the pool; NULL: in memory */
	void *lower_arg;
	uint64_t next[TP_TOPS]; /* allocation */
	struct zio_pool zp;
	struct dmu_pool dp;
	bool swap; /* write blocks of the other byte order */
	unsigned copies;
	atomic_bool fail; /* every device read fails */
	atomic_uint device_reads;
	atomic_uint errors; /* calls of on_error */

	/* --- writing --- */
	/* Of writes to the allocatable space: the devices' labels can be written, so that they are not lost. */
	atomic_bool count_writes;  /* from tp_set_writable on */
	atomic_bool fail_writes;   /* every device write fails */
	atomic_uint device_writes; /* so far */
	atomic_uint fail_write_at; /* this one fails, counted from 1, however often it is tried again; 0: none */
	atomic_uint bad_area;      /* one 32 KiB area of so many takes no writes; 0: all do */
	pthread_mutex_t lock;      /* of `next` and all below */
	struct tp_extent *live;
	size_t nlive, live_room;
	uint64_t space;      /* bytes that may be in use; 0: what the devices hold */
	uint64_t max_extent; /* bytes that can be had in one piece; 0: any */
	bool must_wait;      /* alloc says -EAGAIN to who may not wait */
	unsigned bad_frees;  /* of what was not allocated */
	unsigned claims;
};

static inline int tp_before_write(struct tp_disk *td, const struct disk_req *r)
{
	struct testpool *tp = td->tp;
	unsigned at = atomic_load(&tp->fail_write_at), bad = atomic_load(&tp->bad_area), n;

	if (r->offset < TP_FRONT || r->offset >= TP_SIZE - (512u << 10))
		return 0;
	n = atomic_fetch_add(&tp->device_writes, 1) + 1;
	if (n == at) {
		atomic_store(&td->failed_offset, r->offset);
		atomic_store(&td->failed_at, at);
	}
	if (at != 0 && atomic_load(&td->failed_at) == at && atomic_load(&td->failed_offset) == r->offset)
		return -EIO;
	for (uint64_t area = r->offset >> 15; bad && area <= (r->offset + r->length - 1) >> 15; area++)
		if (area % bad == 0)
			return -EIO;
	return atomic_load(&tp->fail_writes) ? -EIO : 0;
}

static inline int tp_before(void *arg, const struct disk_req *r)
{
	struct tp_disk *td = arg;
	struct testpool *tp = td->tp;

	if (r->op == DISK_WRITE && (atomic_load(&tp->count_writes) || atomic_load(&tp->fail_writes)))
		return tp_before_write(td, r);
	if (r->op != DISK_READ)
		return 0;
	atomic_fetch_add(&tp->device_reads, 1);
	return atomic_load(&tp->fail) ? -EIO : 0;
}

static inline void tp_after(void *arg, struct disk_req *r)
{
}

static inline int tp_open(void *arg, struct vdev *leaf, struct disk **d, struct err *e)
{
	struct testpool *tp = arg;
	unsigned i = (unsigned)leaf->guid - 100;
	struct faultdisk_hooks hooks = {tp_before, tp_after, &tp->disk_state[i]};
	struct disk *lower = tp->lower ? tp->lower(tp->lower_arg, i) : memdisk_create("memory", TP_SIZE);

	tp->disk_state[i].tp = tp;
	*d = tp->disk[i] = faultdisk_create(lower, &hooks);
	return 0;
}

static inline void tp_on_error(struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb, int err)
{
	struct testpool *tp = zp->on_error_arg;

	atomic_fetch_add(&tp->errors, 1);
}

static inline uint64_t tp_alloc(struct testpool *tp, unsigned top, uint64_t size)
{
	uint64_t at = tp->next[top];

	tp->next[top] += ROUND_UP(size, UINT64_C(1) << tp->root->child[top]->ashift);
	return at;
}

/* --- the allocator of zio_write --- */

static inline uint64_t tp_in_use_locked(const struct testpool *tp)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < tp->nlive; i++)
		sum += tp->live[i].dva.asize;
	return sum;
}

/* Bytes in use. */
static inline uint64_t tp_in_use(struct testpool *tp)
{
	SCOPED_LOCK(&tp->lock);
	return tp_in_use_locked(tp);
}

static inline int tp_alloc_dvas(void *arg, enum zio_class class, uint64_t psize, unsigned ndvas, uint64_t txg,
				unsigned flags, const struct dva *near, struct dva dva[BP_DVAS])
{
	struct testpool *tp = arg;
	uint64_t limit = tp->root->child[0]->asize;

	SCOPED_LOCK(&tp->lock);
	if (tp->must_wait && flags & ZIO_ALLOC_NOWAIT)
		return -EAGAIN;
	if (!tp->must_wait)
		assert_true(flags & ZIO_ALLOC_NOWAIT || !thread_is_cpu_worker());
	if (tp->max_extent && psize > tp->max_extent)
		return -ENOSPC;
	for (unsigned i = 0; i < ndvas; i++) {
		uint64_t asize = vdev_psize_to_asize(tp->root->child[i], psize, txg);

		if (tp->next[i] + asize > limit || (tp->space && tp_in_use_locked(tp) + asize * ndvas > tp->space))
			return -ENOSPC;
	}
	for (unsigned i = 0; i < ndvas; i++) {
		uint64_t asize = vdev_psize_to_asize(tp->root->child[i], psize, txg);

		dva[i] = (struct dva){.vdev = i, .offset = tp_alloc(tp, i, asize), .asize = asize};
		if (tp->nlive == tp->live_room) {
			tp->live_room = MAX(2 * tp->live_room, 64);
			tp->live = xrealloc(tp->live, tp->live_room * sizeof(*tp->live));
		}
		tp->live[tp->nlive++] = (struct tp_extent){dva[i], txg};
	}
	return 0;
}

static inline void tp_free_dva(void *arg, const struct dva *dva, uint64_t txg, uint64_t birth)
{
	struct testpool *tp = arg;

	SCOPED_LOCK(&tp->lock);
	for (size_t i = 0; i < tp->nlive; i++) {
		const struct tp_extent *e = &tp->live[i];

		if (e->dva.vdev != dva->vdev || e->dva.offset != dva->offset)
			continue;
		if (e->dva.asize != dva->asize || e->txg != birth)
			break;
		tp->live[i] = tp->live[--tp->nlive];
		return;
	}
	tp->bad_frees++;
}

static inline void tp_unalloc_dva(void *arg, const struct dva *dva, uint64_t txg)
{
	tp_free_dva(arg, dva, txg, txg);
}

static inline int tp_claim_dva(void *arg, const struct dva *dva, uint64_t txg)
{
	struct testpool *tp = arg;

	SCOPED_LOCK(&tp->lock);
	tp->claims++;
	return 0;
}

static const struct zio_alloc_ops tp_alloc_ops = {tp_alloc_dvas, tp_free_dva, tp_unalloc_dva, tp_claim_dva};

/* From now on zio_write works. Blocks that tp_write made before are not the allocator's. */
static inline void tp_set_writable(struct testpool *tp)
{
	uint64_t sector = UINT64_C(1) << tp->root->child[0]->ashift;

	tp->zp.alloc = &tp_alloc_ops;
	tp->zp.alloc_arg = tp;
	tp->zp.min_alloc = tp->zp.gcd_alloc = sector;
	tp->zp.min_ashift = tp->zp.max_ashift = (unsigned)tp->root->child[0]->ashift;
	tp->zp.hole_birth = true;
	atomic_store(&tp->count_writes, true);
	zio_writer_create(&tp->zp);
}

static inline struct testpool *tp_create_over(unsigned ashift, uint64_t arc_bytes,
					      struct disk *(*lower)(void *arg, unsigned i), void *lower_arg)
{
	struct testpool *tp = xcalloc(1, sizeof(*tp));
	autonv struct nvlist *root = nvlist_create();
	struct nvlist *top[TP_TOPS];
	struct err e = ERR_INIT;

	nvlist_add_string(root, "type", "root");
	nvlist_add_u64(root, "guid", 1);
	for (unsigned i = 0; i < TP_TOPS; i++) {
		top[i] = nvlist_create();
		nvlist_add_string(top[i], "type", "disk");
		nvlist_add_string(top[i], "path", "/dev/none");
		nvlist_add_u64(top[i], "id", i);
		nvlist_add_u64(top[i], "guid", 100 + i);
		nvlist_add_u64(top[i], "ashift", ashift);
		nvlist_add_u64(top[i], "asize", TP_SIZE - (5 << 20));
		nvlist_add_u64(top[i], "metaslab_shift", 24);
	}
	nvlist_add_lists(root, "children", top, TP_TOPS);
	for (unsigned i = 0; i < TP_TOPS; i++)
		nvlist_destroy(top[i]);
	if (vdev_tree_create(root, &tp->root, &e))
		fail_msg("%s", e.text);
	tp->lower = lower;
	tp->lower_arg = lower_arg;
	vdev_tree_open(tp->root, tp_open, tp);
	pthread_mutex_init(&tp->lock, NULL);
	tp->copies = 1;
	tp->zp.guid = 77;
	tp->zp.root = tp->root;
	tp->zp.on_error = tp_on_error;
	tp->zp.on_error_arg = tp;
	tp->dp.zp = &tp->zp;
	tp->dp.arc = arc_create(arc_bytes);
	return tp;
}

static inline struct testpool *tp_create(unsigned ashift, uint64_t arc_bytes)
{
	return tp_create_over(ashift, arc_bytes, NULL, NULL);
}

static inline void tp_destroy(struct testpool *tp)
{
	arc_flush_pool(tp->dp.arc, tp->zp.guid);
	arc_destroy(tp->dp.arc);
	zio_writer_destroy(&tp->zp);
	vdev_tree_destroy(tp->root);
	assert_int_equal(tp->bad_frees, 0);
	pthread_mutex_destroy(&tp->lock);
	free(tp->live);
	free(tp);
}

/* --- blocks --- */

static inline void tp_pattern(void *data, size_t size, uint32_t seed)
{
	uint8_t *p = data;

	for (size_t i = 0; i < size; i++)
		p[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
}

static inline void tp_set_dva(struct bp *bp, unsigned i, unsigned top, uint64_t offset, uint64_t asize, bool gang)
{
	bp->w[2 * i] = (uint64_t)top << 32 | asize >> SECTOR_SHIFT;
	bp->w[2 * i + 1] = offset >> SECTOR_SHIFT | (uint64_t)gang << 63;
}

static inline void tp_put(struct testpool *tp, unsigned top, uint64_t offset, const void *data, size_t size)
{
	assert_int_equal(disk_write(tp->disk[top], TP_FRONT + offset, data, size), 0);
}

static inline void tp_set_prop(struct testpool *tp, struct bp *bp, size_t size, unsigned type, unsigned level)
{
	bool little = HOST_IS_LITTLE ^ tp->swap;

	bp->w[6] = ((size >> SECTOR_SHIFT) - 1) | ((size >> SECTOR_SHIFT) - 1) << 16 | (uint64_t)COMPRESS_OFF << 32 |
		   (uint64_t)CHECKSUM_FLETCHER_4 << 40 | (uint64_t)type << 48 | (uint64_t)level << 56 |
		   (uint64_t)little << 63;
	bp->w[10] = TP_TXG;
	bp->w[11] = 1;
}

static inline void tp_set_sum(struct testpool *tp, struct bp *bp, const void *data, size_t size)
{
	struct cksum sum;

	assert_int_equal(checksum_compute(CHECKSUM_FLETCHER_4, NULL, data, size, tp->swap, &sum), 0);
	memcpy(&bp->w[12], &sum, sizeof(sum));
}

/* Uncompressed, tp->copies DVAs on different devices. Data is in the order of the block. */
static inline struct bp tp_write(struct testpool *tp, const void *data, size_t size, unsigned type, unsigned level)
{
	struct bp bp = {{0}};

	for (unsigned i = 0; i < tp->copies; i++) {
		uint64_t at = tp_alloc(tp, i, size);

		tp_put(tp, i, at, data, size);
		tp_set_dva(&bp, i, i, at, ROUND_UP(size, UINT64_C(1) << tp->root->child[i]->ashift), false);
	}
	tp_set_prop(tp, &bp, size, type, level);
	tp_set_sum(tp, &bp, data, size);
	return bp;
}

static inline void tp_damage(struct testpool *tp, const struct bp *bp, unsigned dva)
{
	struct dva d = bp_dva(bp, dva);
	uint8_t block[512];

	assert_int_equal(disk_read(tp->disk[d.vdev], TP_FRONT + d.offset, block, sizeof(block)), 0);
	block[100] ^= 0x40;
	tp_put(tp, (unsigned)d.vdev, d.offset, block, sizeof(block));
}

static inline int tp_read(struct testpool *tp, const struct bp *bp, unsigned flags, struct buf **out)
{
	struct zbookmark zb = {1, 2, 0, 3};

	return zio_read_wait(&tp->zp, bp, &zb, NULL, flags, out);
}

/* --- gang blocks --- */

/* Write a header of `size` bytes with these members at `offset` and put it into the pointer. */
static inline void tp_put_gang_header(struct testpool *tp, struct bp *bp, uint64_t offset, size_t size,
				      const struct bp *member, unsigned n)
{
	autofree uint8_t *h = xcalloc(1, size);
	struct cksum sum = {{0, offset, TP_TXG, 0}};

	for (unsigned i = 0; i < n; i++) {
		memcpy(h + i * BP_SIZE, &member[i], BP_SIZE);
		if (tp->swap)
			swap64_buffer(h + i * BP_SIZE, BP_SIZE);
	}
	store_host64(h + size - 40, TP_ECK);
	memcpy(h + size - 32, &sum, sizeof(sum));
	if (tp->swap)
		swap64_buffer(h + size - 40, 40);
	assert_int_equal(checksum_compute(CHECKSUM_SHA256, NULL, h, size, false, &sum), 0);
	if (bp_uses_crypt(bp)) {
		sum.word[0] ^= sum.word[2];
		sum.word[1] ^= sum.word[3];
		sum.word[2] = sum.word[3] = 0;
	}
	memcpy(h + size - 32, &sum, sizeof(sum));
	if (tp->swap)
		swap64_buffer(h + size - 32, 32);
	tp_put(tp, 0, offset, h, size);
	tp_set_dva(bp, 0, 0, offset, size, true);
}

static inline struct bp tp_write_gang(struct testpool *tp, const uint8_t *data, size_t size, size_t header,
				      const struct bp *member, unsigned n)
{
	struct bp bp = {{0}};

	tp_set_prop(tp, &bp, size, TP_FILE, 0);
	tp_set_sum(tp, &bp, data, size);
	tp_put_gang_header(tp, &bp, tp_alloc(tp, 0, header), header, member, n);
	return bp;
}

/* --- trees and object sets --- */

static inline void tp_store16(struct testpool *tp, uint8_t *p, uint16_t v)
{
	store_host16(p, tp->swap ? __builtin_bswap16(v) : v);
}
static inline void tp_store64(struct testpool *tp, uint8_t *p, uint64_t v)
{
	store_host64(p, tp->swap ? __builtin_bswap64(v) : v);
}
static inline void tp_store_bp(struct testpool *tp, uint8_t *p, const struct bp *bp)
{
	memcpy(p, bp, BP_SIZE);
	if (tp->swap)
		swap64_buffer(p, BP_SIZE);
}

/* A dnode over n block pointers, with as many indirect levels as that takes. */
static inline void tp_dnode(struct testpool *tp, uint8_t phys[512], unsigned type, const struct bp *l0, uint64_t n,
			    uint32_t blksz, unsigned indshift, unsigned nblkptr)
{
	size_t per = (size_t)1 << (indshift - 7), left = n;
	struct bp *level = xcalloc(MAX(n, 3), sizeof(*level));
	unsigned nlevels = 1;

	memcpy(level, l0, n * sizeof(*level));
	for (; left > nblkptr; nlevels++) {
		size_t up = 0;

		for (size_t i = 0; i < left; i += per) {
			autofree uint8_t *ind = xcalloc(per, BP_SIZE);
			bool any = false;

			for (size_t j = 0; j < per && i + j < left; j++) {
				tp_store_bp(tp, ind + j * BP_SIZE, &level[i + j]);
				any |= !bp_is_hole(&level[i + j]);
			}
			memset(&level[up], 0, sizeof(level[up]));
			if (any)
				level[up] = tp_write(tp, ind, per * BP_SIZE, type, nlevels);
			up++;
		}
		left = up;
	}
	memset(phys, 0, 512);
	phys[0] = (uint8_t)type;
	phys[1] = (uint8_t)indshift;
	phys[2] = (uint8_t)nlevels;
	phys[3] = (uint8_t)nblkptr;
	phys[7] = 1;
	tp_store16(tp, phys + 8, (uint16_t)(blksz >> SECTOR_SHIFT));
	tp_store64(tp, phys + 16, n ? n - 1 : 0);
	for (unsigned i = 0; i < nblkptr; i++)
		if (i < left)
			tp_store_bp(tp, phys + 64 + i * BP_SIZE, &level[i]);
	free(level);
}

/* Objects 1 .. n from their slots; slot 0 is left empty. */
static inline struct bp tp_objset_of(struct testpool *tp, uint8_t (*slot)[512], unsigned n, size_t header_size,
				     enum objset_type type)
{
	unsigned nblocks = (n + 1 + TP_SLOTS - 1) / TP_SLOTS;
	autofree struct bp *l0 = xcalloc(nblocks, sizeof(*l0));
	autofree uint8_t *h = xcalloc(1, header_size);

	for (unsigned b = 0; b < nblocks; b++) {
		autofree uint8_t *block = xcalloc(TP_SLOTS, 512);
		bool any = false;

		for (unsigned i = 0; i < TP_SLOTS; i++) {
			unsigned object = b * TP_SLOTS + i;

			if (object == 0 || object > n)
				continue;
			memcpy(block + i * 512, slot[object - 1], 512);
			any |= slot[object - 1][0] != 0;
		}
		if (any)
			l0[b] = tp_write(tp, block, TP_SLOTS * 512, TP_DNODE, 0);
	}
	tp_dnode(tp, h, TP_DNODE, l0, nblocks, TP_SLOTS * 512, 12, 1);
	tp_store64(tp, h + 704, type);
	return tp_write(tp, h, header_size, TP_OBJSET, 0);
}

static inline struct bp tp_objset(struct testpool *tp, uint8_t (*slot)[512], unsigned n, size_t header_size)
{
	return tp_objset_of(tp, slot, n, header_size, OBJSET_ZFS);
}

#endif
