/* Blocks of RAIDZ and dRAID as they are written: what the maps of the chapter say, and readable without some devices.
 */
#include "vdev_fixture.h"

static struct fixture *raidz_closed(unsigned width, unsigned parity, unsigned ashift)
{
	struct nvlist *nv = nv_vdev("raidz", 0, 50);

	nv_make_top(nv, ashift, (LEAF_SIZE - (5 << 20)) * width);
	nvlist_add_u64(nv, "nparity", parity);
	nv_add_leaves(nv, 0, width);
	return fixture_create(&nv, 1);
}

static struct fixture *raidz(unsigned width, unsigned parity, unsigned ashift)
{
	struct fixture *f = raidz_closed(width, parity, ashift);

	fixture_open(f);
	return f;
}

static struct nvlist *nv_draid(unsigned children, unsigned parity, unsigned ndata, unsigned spares, unsigned groups)
{
	struct nvlist *nv = nv_vdev("draid", 0, 50);

	nv_make_top(nv, 12, UINT64_C(1344) << 20);
	nvlist_add_u64(nv, "nparity", parity);
	nvlist_add_u64(nv, "draid_ndata", ndata);
	nvlist_add_u64(nv, "draid_nspares", spares);
	nvlist_add_u64(nv, "draid_ngroups", groups);
	return nv;
}

static struct fixture *draid(unsigned children, unsigned parity, unsigned ndata, unsigned spares, unsigned groups)
{
	struct nvlist *nv = nv_draid(children, parity, ndata, spares, groups);

	nv_add_leaves(nv, 0, children);
	struct fixture *f = fixture_create(&nv, 1);
	fixture_open(f);
	return f;
}

static void set_failing(struct fixture *f, uint64_t mask)
{
	for (unsigned i = 0; i < f->top->nchildren; i++)
		f->leaf[i].fails = mask >> i & 1;
}

/* Readable with every set of as many failing devices as there is parity. */
static void check_readable(struct fixture *f, uint64_t offset, uint64_t size, uint64_t txg)
{
	for (uint64_t mask = 0; mask < UINT64_C(1) << f->top->nchildren; mask++) {
		if ((unsigned)__builtin_popcountll(mask) > f->top->nparity)
			continue;
		set_failing(f, mask);
		int err = fixture_read(f, f->top, offset, size, txg, 0);
		if (err)
			fail_msg("block %lx of %lx, without %lx: %d", (unsigned long)offset, (unsigned long)size,
				 (unsigned long)mask, err);
	}
	set_failing(f, 0);
	/* Also as a scrub sees it: no parity is wrong. */
	assert_int_equal(fixture_read(f, f->top, offset, size, txg, VDEV_READ_SCRUB), 0);
	for (unsigned i = 0; i < f->top->nchildren; i++)
		assert_int_equal(leaf_checksum_errors(f, i), 0);
}

static void check_raidz(unsigned width, unsigned parity, unsigned ashift)
{
	struct fixture *f = raidz(width, parity, ashift);
	uint64_t at = 0;

	for (unsigned sectors = 1; sectors < 40; sectors += sectors < 10 ? 1 : 7) {
		uint64_t size = (uint64_t)sectors << ashift;

		assert_int_equal(fixture_write(f, f->top, at, size, 10), 0);
		check_readable(f, at, size, 10);
		at += vdev_psize_to_asize(f->top, size, 10);
	}
	at = 1 << 20; /* raidz1: parity and data change places */
	assert_int_equal(fixture_write(f, f->top, at, 8 << ashift, 10), 0);
	check_readable(f, at, 8 << ashift, 10);
	fixture_destroy(f);
}

static void raidz_blocks_are_readable_without_as_many_as_parity(void **state)
{
	check_raidz(3, 1, 12);
	check_raidz(5, 1, 9);
	check_raidz(5, 2, 12);
	check_raidz(6, 3, 9);
	check_raidz(2, 1, 12);
}

static void a_size_below_a_sector_is_filled_up(void **state)
{
	struct fixture *f = raidz(4, 1, 12);

	assert_int_equal(fixture_write(f, f->top, 0x2000, 5 * 512, 10), 0);
	memset(f->want + 5 * 512, 0, 4096 - 5 * 512);
	check_readable(f, 0x2000, 5 * 512, 10);
	fixture_destroy(f);
}

static void neighbours_keep_what_they_have(void **state)
{
	struct fixture *f = raidz(5, 2, 12);
	uint64_t size = 6 << 12, asize = vdev_psize_to_asize(f->top, size, 10); /* with padding */

	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(fixture_write(f, f->top, i * asize, size, 10), 0);
	for (unsigned i = 0; i < 20; i += 2)
		assert_int_equal(fixture_write(f, f->top, i * asize, size, 11), 0);
	for (unsigned i = 0; i < 20; i++)
		check_readable(f, i * asize, size, 10);
	fixture_destroy(f);
}

/* 06, 5.8: the chapter's sector vector. */
static void the_chapter_s_vector_is_on_the_devices(void **state)
{
	static const uint8_t p0[16] = {0x67, 0x6a, 0x65, 0x68, 0x73, 0x76, 0x71, 0x74,
				       0x7f, 0x42, 0x3d, 0x00, 0x0b, 0x0e, 0x09, 0x0c};
	static const uint8_t q512[16] = {0x20, 0x3a, 0x14, 0x16, 0xf8, 0x02, 0x1c, 0x0e,
					 0x30, 0x2a, 0x64, 0x66, 0x68, 0x52, 0x4c, 0x3e};
	static const uint8_t r0[16] = {0xd9, 0x90, 0x9f, 0x5e, 0x3d, 0x81, 0xae, 0xc7,
				       0x3c, 0x45, 0x97, 0x71, 0x02, 0xe3, 0xcc, 0xf5};
	struct fixture *f = raidz(6, 3, 9);
	uint8_t got[16];

	for (unsigned i = 0; i < 5; i++)
		for (unsigned j = 0; j < 512; j++)
			f->want[i * 512 + j] = (uint8_t)(17 * i + 3 * j + 1);
	assert_int_equal(fixture_write(f, f->top, 0x2000, 2560, 10), 0);
	sparse_read(f->leaf[4].bytes, VDEV_LABEL_START_SIZE + 0x400, got, 16);
	assert_memory_equal(got, p0, 16);
	sparse_read(f->leaf[5].bytes, VDEV_LABEL_START_SIZE + 0x400 + 512, got, 16);
	assert_memory_equal(got, q512, 16);
	sparse_read(f->leaf[0].bytes, VDEV_LABEL_START_SIZE + 0x600, got, 16);
	assert_memory_equal(got, r0, 16);
	fixture_destroy(f);
}

static void writes_survive_as_many_failures_as_parity(void **state)
{
	struct fixture *f = raidz(5, 2, 12);
	uint64_t size = 32 << 12;

	fail_writes(f, 1, -EIO, UINT32_MAX, false);
	fail_writes(f, 3, -EIO, UINT32_MAX, false);
	assert_int_equal(fixture_write(f, f->top, 0, size, 10), 0);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(vdev_dtl_has(leaf_of(f, i), 10), i == 1 || i == 3);
		assert_int_equal(counter_read(&leaf_of(f, i)->stats.write_errors), i == 1 || i == 3);
	}
	assert_int_equal(fixture_read(f, f->top, 0, size, 10, 0), 0);
	fail_writes(f, 2, -EIO, UINT32_MAX, false);
	assert_int_equal(fixture_write(f, f->top, 1 << 20, size, 11), -EIO);
	for (unsigned i = 0; i < 5; i++)
		assert_false(vdev_dtl_has(leaf_of(f, i), 11));
	/* A block that needs few devices is not concerned by the others. */
	assert_int_equal(vdev_psize_to_asize(f->top, 4096, 10), 3 * 4096);
	fixture_destroy(f);
}

static void absent_children_lack_what_is_written(void **state)
{
	struct fixture *f = raidz_closed(4, 1, 12);

	f->leaf[2].absent = true;
	fixture_open(f);
	assert_int_equal(fixture_write(f, f->top, 0, 64 << 12, 10), 0);
	assert_true(vdev_dtl_has(leaf_of(f, 2), 10));
	assert_true(vdev_dtl_is_empty(leaf_of(f, 1)));
	assert_int_equal(fixture_read(f, f->top, 0, 64 << 12, 10, 0), 0);
	assert_int_equal(vdev_flush_wait(f->root), 0);
	f->leaf[2].absent = false;
	vdev_reopen(f->root, fixture_open_leaf, f);
	assert_int_equal(f->top->state, VDEV_STATE_HEALTHY);
	assert_int_equal(fixture_read(f, f->top, 0, 64 << 12, 10, 0), 0); /* not from the one that was away */
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(leaf_checksum_errors(f, i), 0);
	fixture_destroy(f);
}

static void a_flush_may_fail_on_as_many_as_parity(void **state)
{
	struct fixture *f = raidz(4, 1, 12);

	assert_int_equal(fixture_write(f, f->top, 0, 64 << 12, 10), 0);
	f->leaf[1].flush_err = -EIO;
	assert_int_equal(vdev_flush_wait(f->root), 0);
	assert_true(vdev_dtl_has(leaf_of(f, 1), 10));
	assert_int_equal(fixture_write(f, f->top, 0, 64 << 12, 11), 0);
	f->leaf[2].flush_err = -EIO;
	assert_int_equal(vdev_flush_wait(f->root), -EIO);
	fixture_destroy(f);
}

struct batch {
	struct vdev_io io[64];
	struct buf *buf;
	atomic_uint left;
	struct waiter w;
};

static void batch_done(struct vdev_io *io, int err)
{
	struct batch *b = io->arg;

	assert_int_equal(err, 0);
	if (atomic_fetch_sub(&b->left, 1) == 1)
		waiter_done(&b->w, 0);
}

/* Padding between blocks is written when that makes one request of two. */
static void padding_is_bridged(void **state)
{
	struct fixture *f = raidz(5, 2, 12);
	struct batch *b = xcalloc(1, sizeof(*b));
	uint64_t size = 6 << 12, asize = vdev_psize_to_asize(f->top, size, 10);
	unsigned before = 0, after = 0;

	assert_int_equal(asize, 12 << 12); /* 10 sectors and 2 of padding */
	b->buf = buf_alloc(size);
	memcpy(b->buf->data, f->want, size);
	atomic_init(&b->left, 64);
	waiter_init(&b->w);
	for (unsigned i = 0; i < 5; i++) {
		vdev_queue_plug(f->top->child[i]->queue);
		before += f->leaf[i].writes;
	}
	for (unsigned i = 0; i < 64; i++) {
		b->io[i] = (struct vdev_io){.offset = i * asize,
					    .size = size,
					    .data = b->buf->data,
					    .txg = 10,
					    .class = VDEV_ASYNC_WRITE,
					    .done = batch_done,
					    .arg = b};
		vdev_write(f->top, &b->io[i]);
	}
	/* All columns are in the queues when parity was made for all blocks. */
	unsigned queued;
	do {
		queued = 0;
		for (unsigned i = 0; i < 5; i++)
			queued += vdev_queue_load(f->top->child[i]->queue, UINT64_MAX) - 1;
	} while (queued < 64 * 5);
	for (unsigned i = 0; i < 5; i++)
		vdev_queue_unplug(f->top->child[i]->queue);
	waiter_wait(&b->w);
	for (unsigned i = 0; i < 5; i++)
		after += f->leaf[i].writes;
	assert_true(after - before <= 5 * 2);
	for (unsigned i = 0; i < 64; i++)
		check_readable(f, i * asize, size, 10);
	buf_release(b->buf);
	free(b);
	fixture_destroy(f);
}

/* --- dRAID --- */

static void draid_blocks_are_readable_without_as_many_as_parity(void **state)
{
	for (unsigned parity = 1; parity <= 3; parity++) {
		struct fixture *f = draid(8, parity, 3, 1, 7);
		uint64_t row = (3 + parity) << 12, group = (uint64_t)(3 + parity) << 24, at = 0;

		for (unsigned i = 0; i < LEAVES_MAX && f->leaf[i].bytes; i++) /* what was there is not zeros */
			for (uint64_t o = 0; o < 1 << 20; o += 4096)
				sparse_write(f->leaf[i].bytes, VDEV_LABEL_START_SIZE + o, f->want + 77, 4096);
		for (unsigned sectors = 1; sectors < 9; sectors++) {
			assert_int_equal(fixture_write(f, f->top, at, sectors << 12, 10), 0);
			check_readable(f, at, sectors << 12, 10);
			at += vdev_psize_to_asize(f->top, sectors << 12, 10);
		}
		at = group * 2 - row * 2; /* crosses groups */
		assert_int_equal(fixture_write(f, f->top, at, 131072, 10), 0);
		check_readable(f, at, 131072, 10);
		fixture_destroy(f);
	}
}

/* 7.4: unused sectors of the last row are zeros on the device. */
static void draid_rows_are_filled_up_with_zeros(void **state)
{
	struct fixture *f = draid(8, 1, 3, 1, 7);
	struct vdev_io io = {.offset = 0, .size = 4 << 12, .txg = 10, .data = f->want};
	struct stripe *s;
	unsigned zero_sectors = 0;

	for (unsigned i = 0; i < 8; i++)
		for (uint64_t o = 0; o < 1 << 20; o += 4096)
			sparse_write(f->leaf[i].bytes, VDEV_LABEL_START_SIZE + o, f->want + 77, 4096);
	assert_int_equal(fixture_write(f, f->top, 0, 4 << 12, 10), 0);
	s = vdev_draid_map(f->top, &io);
	for (unsigned i = 1; i < s->row[0].ncols; i++) {
		const struct stripe_col *c = &s->row[0].col[i];
		uint8_t got[4096];
		bool zero = true;

		for (uint32_t at = c->size; at < s->row[0].psize; at += 4096) {
			sparse_read(f->leaf[c->child].bytes, VDEV_LABEL_START_SIZE + c->offset + at, got, 4096);
			for (unsigned k = 0; k < 4096; k++)
				zero &= got[k] == 0;
			assert_true(zero);
			zero_sectors++;
		}
	}
	assert_int_equal(zero_sectors, 2);
	stripe_free(s);
	fixture_destroy(f);
}

static void a_distributed_spare_takes_writes(void **state)
{
	struct nvlist *child[8], *nv = nv_draid(8, 1, 3, 1, 7);
	struct nvlist *pair[2] = {nv_vdev("disk", 0, 103), nv_vdev("dspare", 1, 60)};

	nvlist_add_u64(pair[1], "top_guid", 50);
	nvlist_add_u64(pair[1], "spareid", 0);
	nvlist_add_string(pair[1], "path", "draid1-0-0");
	for (unsigned i = 0; i < 8; i++)
		child[i] = nv_vdev(i == 3 ? "spare" : "disk", i, 100 + i + (i == 3 ? 900 : 0));
	nvlist_add_lists(child[3], "children", pair, 2);
	nvlist_add_lists(nv, "children", child, 8);
	for (unsigned i = 0; i < 8; i++)
		nvlist_destroy(child[i]);
	nvlist_destroy(pair[0]);
	nvlist_destroy(pair[1]);
	struct fixture *f = fixture_create(&nv, 1);
	f->leaf[3].absent = true;
	fixture_open(f);
	for (uint64_t group = 0; group < 21; group++) {
		uint64_t offset = group * (UINT64_C(4) << 24);

		assert_int_equal(fixture_write(f, f->top, offset, 5 << 12, 10), 0);
		/* All columns are there, in the spare's places too: parity survives another loss. */
		for (unsigned i = 0; i < 8; i++) {
			f->leaf[i].fails = true;
			assert_int_equal(fixture_read(f, f->top, offset, 5 << 12, 10, 0), 0);
			f->leaf[i].fails = false;
		}
	}
	assert_true(vdev_dtl_has(leaf_of(f, 3), 10));
	assert_true(vdev_dtl_is_empty(vdev_by_guid(f->root, 60)));
	assert_int_equal(vdev_flush_wait(f->root), 0);
	fixture_destroy(f);
}

/* --- trim --- */

/* Three blocks in a row, the middle one given back: its bytes are zeros on all devices, the others are whole. */
static void check_trim(struct fixture *f, uint64_t size)
{
	uint64_t asize = vdev_psize_to_asize(f->top, size, 10), bytes = 0;
	autobuf struct buf *got = buf_alloc(1 << 20);

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(fixture_write(f, f->top, i * asize, size, 10), 0);
	assert_int_equal(fixture_trim(f->top, asize, asize), 0);
	check_readable(f, 0, size, 10);
	check_readable(f, 2 * asize, size, 10);
	for (unsigned i = 0; i < f->top->nchildren; i++) {
		sparse_read(f->leaf[i].bytes, VDEV_LABEL_START_SIZE, got->data, got->size);
		for (size_t at = 0; at < got->size; at += 512)
			for (size_t k = at; k < at + 512; k++)
				if (got->data[k]) {
					bytes += 512;
					break;
				}
	}
	/* Data and parity of two blocks are left. */
	uint64_t sectors = size >> f->top->ashift, ndata = f->top->kind == VDEV_DRAID ? 3 : f->top->nchildren - 1;
	uint64_t rows = (sectors + ndata - 1) / ndata;
	assert_int_equal(bytes, 2 * ((sectors + rows * f->top->nparity) << f->top->ashift));
	assert_int_equal(fixture_read(f, f->top, asize, size, 10, 0), -ECKSUM);
}

static void trim_finds_the_block_s_sectors(void **state)
{
	struct fixture *f = raidz(4, 1, 12);

	check_trim(f, 7 << 12);
	fixture_destroy(f);
	f = raidz(3, 1, 9);
	check_trim(f, 32 << 9);
	fixture_destroy(f);
	f = draid(8, 1, 3, 1, 7);
	check_trim(f, 9 << 12);
	fixture_destroy(f);
}

static void draid_trim_crosses_groups(void **state)
{
	struct fixture *f = draid(8, 1, 3, 1, 7);
	uint64_t group = UINT64_C(4) << 24, row = 4 << 12, at = group - 2 * row;

	assert_int_equal(fixture_write(f, f->top, at, 12 << 12, 10), 0);
	assert_int_equal(fixture_write(f, f->top, at - row, 3 << 12, 10), 0);
	assert_int_equal(fixture_write(f, f->top, at + 4 * row, 3 << 12, 10), 0);
	assert_int_equal(fixture_trim(f->top, at, 4 * row), 0);
	check_readable(f, at - row, 3 << 12, 10);
	check_readable(f, at + 4 * row, 3 << 12, 10);
	assert_int_equal(fixture_read(f, f->top, at, 12 << 12, 10, 0), -ECKSUM);
	fixture_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(raidz_blocks_are_readable_without_as_many_as_parity),
	    cmocka_unit_test(a_size_below_a_sector_is_filled_up),
	    cmocka_unit_test(neighbours_keep_what_they_have),
	    cmocka_unit_test(the_chapter_s_vector_is_on_the_devices),
	    cmocka_unit_test(writes_survive_as_many_failures_as_parity),
	    cmocka_unit_test(absent_children_lack_what_is_written),
	    cmocka_unit_test(a_flush_may_fail_on_as_many_as_parity),
	    cmocka_unit_test(padding_is_bridged),
	    cmocka_unit_test(draid_blocks_are_readable_without_as_many_as_parity),
	    cmocka_unit_test(draid_rows_are_filled_up_with_zeros),
	    cmocka_unit_test(a_distributed_spare_takes_writes),
	    cmocka_unit_test(trim_finds_the_block_s_sectors),
	    cmocka_unit_test(draid_trim_crosses_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
