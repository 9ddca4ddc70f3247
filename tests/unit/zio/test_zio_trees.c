/* Blocks and gang blocks on every kind of top-level: written, read, and read again with a device that lies. */
#include "../vdev/vdev_fixture.h"
#include "zio/zio.h"

#define TXG 12

struct pool {
	struct fixture *f;
	struct zio_pool zp;
	pthread_mutex_t lock;
	uint64_t next, in_use, max_extent;
};

static int pool_alloc(void *arg, enum zio_class class, uint64_t psize, unsigned ndvas, uint64_t txg, unsigned flags,
		      const struct dva *near, struct dva dva[BP_DVAS])
{
	struct pool *p = arg;

	SCOPED_LOCK(&p->lock);
	if (psize > p->max_extent)
		return -ENOSPC;
	for (unsigned i = 0; i < ndvas; i++) {
		uint64_t asize = vdev_psize_to_asize(p->f->top, psize, txg);

		dva[i] = (struct dva){.vdev = 0, .offset = p->next, .asize = asize};
		p->next += asize;
		p->in_use += asize;
	}
	return 0;
}

static void pool_unalloc(void *arg, const struct dva *dva, uint64_t txg)
{
	struct pool *p = arg;

	SCOPED_LOCK(&p->lock);
	p->in_use -= dva->asize;
}

static void pool_free(void *arg, const struct dva *dva, uint64_t txg, uint64_t birth)
{
	pool_unalloc(arg, dva, txg);
}

static const struct zio_alloc_ops pool_ops = {.alloc = pool_alloc, .free = pool_free, .unalloc = pool_unalloc};

static struct nvlist *nv_top(const char *type, unsigned width, unsigned parity, unsigned ashift)
{
	struct nvlist *nv = nv_vdev(type, 0, 50);
	uint64_t devices = strcmp(type, "mirror") == 0 ? 1 : width;

	nv_make_top(nv, ashift, ROUND_DOWN((LEAF_SIZE - (9 << 19)) * devices, UINT64_C(1) << 24));
	if (parity)
		nvlist_add_u64(nv, "nparity", parity);
	if (strcmp(type, "draid") == 0) {
		nvlist_remove(nv, "metaslab_shift");
		nvlist_add_u64(nv, "draid_ndata", 3);
		nvlist_add_u64(nv, "draid_nspares", 1);
		nvlist_add_u64(nv, "draid_ngroups", 1);
	}
	nv_add_leaves(nv, 0, width);
	return nv;
}

static void pool_open(struct pool *p, struct nvlist *top, bool dynamic)
{
	p->f = fixture_create(&top, 1);
	fixture_open(p->f);
	pthread_mutex_init(&p->lock, NULL);
	p->zp.root = p->f->root;
	p->zp.alloc = &pool_ops;
	p->zp.alloc_arg = p;
	p->zp.min_alloc = p->zp.gcd_alloc = vdev_min_alloc(p->f->top);
	p->zp.dynamic_gang = dynamic;
	zio_writer_create(&p->zp);
}

static void pool_close(struct pool *p)
{
	zio_writer_destroy(&p->zp);
	fixture_destroy(p->f);
	pthread_mutex_destroy(&p->lock);
}

static void check(struct pool *p, const struct bp *bp, unsigned flags)
{
	struct zbookmark zb = {1, 2, 0, 3};
	struct buf *got;

	assert_int_equal(zio_read_wait(&p->zp, bp, &zb, NULL, flags, &got), 0);
	assert_memory_equal(got->data, p->f->want, got->size);
	buf_release(got);
}

static void write_and_read(struct pool *p, uint32_t size, unsigned leaves)
{
	autobuf struct buf *data = buf_alloc(size);
	struct zio_write w = {.data = data, .lsize = size, .txg = TXG, .fill = 1};

	w.policy = (struct zio_policy){
	    .type = 19, .checksum = CHECKSUM_SHA256, .compress = COMPRESS_OFF, .copies = 1, .gang_copies = 2};
	memcpy(data->data, p->f->want, size);
	p->max_extent = UINT64_MAX;
	for (unsigned gang = 0; gang < 2; gang++) {
		assert_int_equal(zio_write_wait(&p->zp, &w), 0);
		assert_int_equal(bp_asize(&w.bp), p->in_use);
		assert_int_equal(bp_is_gang(&w.bp), gang && size > p->zp.min_alloc);
		check(p, &w.bp, ZIO_SCRUB);
		for (unsigned i = 0; i < leaves; i++) {
			p->f->leaf[i].lies = true;
			check(p, &w.bp, 0);
			p->f->leaf[i].lies = false;
		}
		if (bp_is_gang(&w.bp)) { /* in place */
			struct bp first = w.bp;

			w.rewrite = true;
			assert_int_equal(zio_write_wait(&p->zp, &w), 0);
			assert_true(bp_equal(&first, &w.bp));
			check(p, &w.bp, ZIO_SCRUB);
		}
		assert_int_equal(zio_free(&p->zp, &w.bp, TXG), 0);
		assert_int_equal(p->in_use, 0);
		p->max_extent = p->zp.min_alloc;
		w.rewrite = false;
		memset(&w.bp, 0, sizeof(w.bp));
	}
}

static void every_kind_of_vdev_takes_blocks(void **state)
{
	static const struct {
		const char *type;
		unsigned width, parity, ashift;
		bool dynamic;
	} trees[] = {
	    {"mirror", 2, 0, 9, false}, {"mirror", 3, 0, 12, true}, {"raidz", 3, 1, 9, false},
	    {"raidz", 3, 1, 12, true},  {"raidz", 6, 2, 12, false}, {"raidz", 7, 3, 13, true},
	    {"draid", 5, 1, 12, false}, {"draid", 5, 1, 12, true},
	};
	static const uint32_t sizes[] = {512, 4096, 12800, 32768, 128 << 10, 1 << 20};

	for (unsigned t = 0; t < ARRAY_LEN(trees); t++) {
		struct pool p = {.next = 0};

		pool_open(&p, nv_top(trees[t].type, trees[t].width, trees[t].parity, trees[t].ashift),
			  trees[t].dynamic);
		for (unsigned i = 0; i < ARRAY_LEN(sizes); i++)
			write_and_read(&p, sizes[i], trees[t].width);
		pool_close(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_kind_of_vdev_takes_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
