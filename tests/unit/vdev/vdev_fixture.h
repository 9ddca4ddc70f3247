/*
 * A tree of vdevs over disks in memory that can be absent, fail or lie, for the tests of this folder.
 */
#ifndef VDEV_FIXTURE_H
#define VDEV_FIXTURE_H

/* clang-format off: cmocka wants these before it */
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
/* clang-format on */

#include "base/buf.h"
#include "base/sync.h"
#include "disk/testdisk.h"
#include "vdev/stripe.h"

#define LEAVES_MAX 64
#define LEAF_SIZE  (UINT64_C(256) << 20)

struct fixture;
struct fixture_leaf {
	struct fixture *f;
	struct disk *disk;
	struct sparse *bytes; /* stay when the disk is closed and opened again */
	bool absent, fails, lies, read_only;
	atomic_uint reads, writes, flushes, discards;
	pthread_mutex_t *gate;       /* no read completes while somebody holds it */
	uint64_t fail_from, fail_to; /* device bytes that cannot be read */
	/* Writes to these device bytes fail with this so many times; likewise flushes. */
	_Atomic uint64_t bad_from, bad_to;
	atomic_int write_err, flush_err;
	atomic_uint write_failures;
};

struct fixture {
	struct vdev *root, *top;
	struct fixture_leaf leaf[LEAVES_MAX]; /* by guid - 100 */
	uint8_t want[4 << 20];
	atomic_uint verified;
};

static inline int leaf_before(void *arg, const struct disk_req *r)
{
	struct fixture_leaf *l = arg;

	if (r->op == DISK_WRITE) {
		atomic_fetch_add(&l->writes, 1);
		bool bad = r->offset < l->bad_to && r->offset + r->length > l->bad_from;
		unsigned left = atomic_load(&l->write_failures);
		while (bad && left > 0)
			if (atomic_compare_exchange_weak(&l->write_failures, &left, left - 1))
				return l->write_err;
		return 0;
	}
	if (r->op != DISK_READ) {
		atomic_fetch_add(r->op == DISK_FLUSH ? &l->flushes : &l->discards, 1);
		return r->op == DISK_FLUSH ? l->flush_err : 0;
	}
	atomic_fetch_add(&l->reads, 1);
	bool hit = r->offset < l->fail_to && r->offset + r->length > l->fail_from;
	return l->fails || hit ? -EIO : 0;
}

static inline void leaf_after(void *arg, struct disk_req *r)
{
	struct fixture_leaf *l = arg;

	if (l->gate) {
		pthread_mutex_lock(l->gate);
		pthread_mutex_unlock(l->gate);
	}
	for (unsigned i = 0; l->lies && r->op == DISK_READ && i < r->niov; i++)
		for (size_t b = 0; b < r->iov[i].iov_len; b += 64)
			((uint8_t *)r->iov[i].iov_base)[b] ^= 0x5a;
}

static inline int fixture_open_leaf(void *arg, struct vdev *leaf, struct disk **d, struct err *e)
{
	struct fixture *f = arg;
	struct fixture_leaf *l = &f->leaf[leaf->guid - 100];

	(void)e;
	if (l->absent)
		return -ENOENT;
	struct faultdisk_hooks hooks = {leaf_before, leaf_after, l};
	l->f = f;
	if (!l->bytes)
		l->bytes = sparse_create(LEAF_SIZE, NULL);
	l->disk = faultdisk_create(memdisk_over("m", l->bytes), &hooks);
	l->disk->writable = !l->read_only;
	*d = l->disk;
	return 0;
}

static inline struct nvlist *nv_vdev(const char *type, uint64_t id, uint64_t guid)
{
	struct nvlist *nv = nvlist_create();

	nvlist_add_string(nv, "type", type);
	nvlist_add_u64(nv, "id", id);
	nvlist_add_u64(nv, "guid", guid);
	if (strcmp(type, "disk") == 0)
		nvlist_add_string(nv, "path", "/dev/sdx");
	return nv;
}

static inline void nv_make_top(struct nvlist *nv, unsigned ashift, uint64_t asize)
{
	nvlist_add_u64(nv, "ashift", ashift);
	nvlist_add_u64(nv, "asize", asize);
	nvlist_add_u64(nv, "metaslab_shift", 24);
}

/* n leaves with guids from 100 + first on. */
static inline void nv_add_leaves(struct nvlist *nv, unsigned first, unsigned n)
{
	struct nvlist *leaf[LEAVES_MAX] = {NULL};

	for (unsigned i = 0; i < n; i++)
		leaf[i] = nv_vdev("disk", i, 100 + first + i);
	nvlist_add_lists(nv, "children", leaf, n);
	for (unsigned i = 0; i < n; i++)
		nvlist_destroy(leaf[i]);
}

/* Takes the tops. */
static inline struct fixture *fixture_create(struct nvlist **top, unsigned ntops)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	autonv struct nvlist *nv = nv_vdev("root", 0, 1);
	struct err e = ERR_INIT;

	nvlist_add_lists(nv, "children", top, ntops);
	for (unsigned i = 0; i < ntops; i++)
		nvlist_destroy(top[i]);
	if (vdev_tree_create(nv, &f->root, &e) != 0)
		fail_msg("%s", e.text);
	f->top = f->root->child[0];
	uint32_t v = 12345;
	for (size_t i = 0; i < sizeof(f->want); i++)
		f->want[i] = (uint8_t)((v = v * 1664525 + 1013904223) >> 24);
	return f;
}

static inline void fixture_open(struct fixture *f)
{
	vdev_tree_open(f->root, fixture_open_leaf, f);
}

static inline void fixture_destroy(struct fixture *f)
{
	vdev_tree_destroy(f->root);
	for (unsigned i = 0; i < LEAVES_MAX; i++)
		sparse_destroy(f->leaf[i].bytes);
	free(f);
}

/* Write every column of a block where the map has it. */
static inline void fixture_write_stripe(struct fixture *f, struct stripe *s)
{
	for (unsigned k = 0; k < s->nrows; k++) {
		struct stripe_row *r = &s->row[k];
		const uint8_t *data[256];
		uint8_t *parity[PARITY_MAX];
		size_t size[256];
		unsigned p = s->nparity;

		for (unsigned i = 0; i < p; i++)
			r->col[i].data = parity[i] = xcalloc(1, r->psize);
		for (unsigned i = p; i < r->ncols; i++) {
			data[i - p] = r->col[i].data;
			size[i - p] = r->col[i].size;
		}
		parity_generate(p, r->ncols - p, data, size, r->psize, parity);
		for (unsigned i = 0; i < r->ncols; i++) {
			const struct vdev *leaf = s->vd->child[r->col[i].child];
			struct disk *d = f->leaf[leaf->guid - 100].disk;
			if (d && r->col[i].size > 0)
				assert_int_equal(disk_write(d, r->col[i].offset + VDEV_LABEL_START_SIZE, r->col[i].data,
							    r->col[i].size),
						 0);
		}
		for (unsigned i = 0; i < p; i++)
			free(parity[i]);
	}
}

struct sync_read {
	struct vdev_io io;
	struct waiter w;
	struct fixture *f;
};

static inline int sync_verify(struct vdev_io *io, const uint8_t *data)
{
	struct sync_read *r = container_of(io, struct sync_read, io);

	atomic_fetch_add(&r->f->verified, 1);
	return memcmp(data, r->f->want, io->size) ? -ECKSUM : 0;
}

static inline void sync_done(struct vdev_io *io, int err)
{
	waiter_done(&container_of(io, struct sync_read, io)->w, err);
}

/* Read with the expected content as the checksum. */
static inline int fixture_read(struct fixture *f, struct vdev *vd, uint64_t offset, uint64_t size, uint64_t txg,
			       unsigned flags)
{
	autobuf struct buf *b = buf_alloc(ROUND_UP(size, UINT64_C(1) << vd->ashift));
	struct sync_read r = {
	    .io = {.offset = offset,
		   .size = size,
		   .txg = txg,
		   .flags = flags,
		   .data = b->data,
		   .verify = sync_verify,
		   .done = sync_done},
	    .f = f,
	};

	memset(b->data, 0xee, b->size);
	atomic_store(&f->verified, 0);
	waiter_init(&r.w);
	vdev_read(vd, &r.io);
	int err = waiter_wait(&r.w);
	if (err == 0)
		assert_memory_equal(b->data, f->want, size);
	return err;
}

struct sync_io {
	struct vdev_io io;
	struct waiter w;
};

static inline void sync_io_done(struct vdev_io *io, int err)
{
	waiter_done(&container_of(io, struct sync_io, io)->w, err);
}

/* Write from the start of the expected content. */
static inline int fixture_write(struct fixture *f, struct vdev *vd, uint64_t offset, uint64_t size, uint64_t txg)
{
	autobuf struct buf *b = buf_alloc(ROUND_UP(size, UINT64_C(1) << vd->ashift));
	struct sync_io w = {.io = {.offset = offset,
				   .size = size,
				   .txg = txg,
				   .data = b->data,
				   .class = VDEV_ASYNC_WRITE,
				   .done = sync_io_done}};

	memset(b->data, 0, b->size);
	memcpy(b->data, f->want, size);
	waiter_init(&w.w);
	vdev_write(vd, &w.io);
	return waiter_wait(&w.w);
}

static inline int fixture_trim(struct vdev *vd, uint64_t offset, uint64_t size)
{
	struct sync_io t = {.io = {.offset = offset, .size = size, .done = sync_io_done}};

	waiter_init(&t.w);
	vdev_trim(vd, &t.io);
	return waiter_wait(&t.w);
}

/* The next writes to the allocatable space fail; with `all` every write anywhere. */
static inline void fail_writes(struct fixture *f, unsigned i, int err, unsigned times, bool all)
{
	struct fixture_leaf *l = &f->leaf[i];

	l->bad_from = all ? 0 : VDEV_LABEL_START_SIZE;
	l->bad_to = all ? UINT64_MAX : LEAF_SIZE - VDEV_LABEL_END_SIZE;
	l->write_err = err;
	atomic_store(&l->write_failures, times);
}

static inline struct vdev *leaf_of(struct fixture *f, unsigned i)
{
	return vdev_by_guid(f->root, 100 + i);
}

static inline uint64_t leaf_checksum_errors(struct fixture *f, unsigned i)
{
	struct vdev *vd = vdev_by_guid(f->root, 100 + i);

	return counter_read(&vd->stats.checksum_errors);
}

#endif
