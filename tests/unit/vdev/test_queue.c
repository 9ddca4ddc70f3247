/* Which requests a device gets, and in what pieces, when more wait than it is given. */
#include "base/tunable.h"
#include "vdev_fixture.h"

#define TOP_ASIZE (UINT64_C(240) << 20)

/* Keeps requests until they are let go one by one. */
struct holddisk {
	struct disk disk;
	struct disk *lower;
	pthread_mutex_t lock;
	struct disk_req *held[1024];
	unsigned nheld;
	bool holding;
};

static void hold_submit(struct disk *d, struct disk_req *r)
{
	struct holddisk *h = container_of(d, struct holddisk, disk);

	pthread_mutex_lock(&h->lock);
	bool keep = h->holding;
	if (keep)
		h->held[h->nheld++] = r;
	pthread_mutex_unlock(&h->lock);
	if (!keep)
		disk_submit(h->lower, r);
}

static void hold_close(struct disk *d)
{
	struct holddisk *h = container_of(d, struct holddisk, disk);

	disk_close(h->lower);
	free(h);
}

static const struct disk_ops hold_ops = {"hold", hold_submit, hold_close, NULL};

struct many_io {
	struct vdev_io io;
	struct buf *buf;
	atomic_int err;
	atomic_bool over;
};

struct bench {
	struct fixture *f;
	struct holddisk *h;
	struct many_io io[512];
	unsigned n;
};

static int open_held(void *arg, struct vdev *leaf, struct disk **out, struct err *e)
{
	struct bench *b = arg;

	b->h = xcalloc(1, sizeof(*b->h));
	b->h->lower = memdisk_create("m", LEAF_SIZE);
	b->h->disk = *b->h->lower;
	b->h->disk.path = NULL;
	b->h->disk.ops = &hold_ops;
	b->h->holding = true;
	pthread_mutex_init(&b->h->lock, NULL);
	*out = &b->h->disk;
	return 0;
}

static struct bench *bench_create(void)
{
	struct bench *b = xcalloc(1, sizeof(*b));
	struct nvlist *nv = nv_vdev("disk", 0, 100);

	nv_make_top(nv, 12, TOP_ASIZE);
	b->f = fixture_create(&nv, 1);
	vdev_tree_open(b->f->root, open_held, b);
	return b;
}

static void many_done(struct vdev_io *io, int err)
{
	struct many_io *m = container_of(io, struct many_io, io);

	atomic_store(&m->err, err);
	atomic_store(&m->over, true);
}

static void submit(struct bench *b, enum vdev_op op, enum vdev_class class, unsigned flags, uint64_t offset,
		   uint32_t size)
{
	struct many_io *m = &b->io[b->n++];

	m->buf = buf_alloc(size);
	memcpy(m->buf->data, b->f->want + offset % (2 << 20), size);
	m->io = (struct vdev_io){.offset = offset,
				 .size = size,
				 .data = m->buf->data,
				 .txg = 5,
				 .class = class,
				 .flags = flags,
				 .done = many_done};
	if (op == VDEV_OP_READ)
		vdev_read(b->f->top, &m->io);
	else
		vdev_write(b->f->top, &m->io);
}

/* Far apart, so that nothing is merged. */
static void submit_some(struct bench *b, enum vdev_op op, enum vdev_class class, unsigned flags, unsigned n)
{
	static uint64_t at;

	for (unsigned i = 0; i < n; i++)
		submit(b, op, class, flags, (at++ % 900) * (256 << 10), 4096);
}

static unsigned held(struct bench *b, enum disk_op op)
{
	unsigned n = 0;

	SCOPED_LOCK(&b->h->lock);
	for (unsigned i = 0; i < b->h->nheld; i++)
		n += b->h->held[i]->op == op;
	return n;
}

/* Complete the oldest held request of this kind. */
static void let_go(struct bench *b, enum disk_op op, int err)
{
	struct disk_req *r = NULL;

	pthread_mutex_lock(&b->h->lock);
	for (unsigned i = 0; i < b->h->nheld && !r; i++) {
		if (b->h->held[i]->op != op)
			continue;
		r = b->h->held[i];
		memmove(b->h->held + i, b->h->held + i + 1, (--b->h->nheld - i) * sizeof(r));
	}
	pthread_mutex_unlock(&b->h->lock);
	assert_non_null(r);
	r->done(r, err);
}

static void bench_destroy(struct bench *b)
{
	while (b->h->nheld > 0)
		let_go(b, b->h->held[0]->op, 0);
	for (unsigned i = 0; i < b->n; i++) {
		assert_true(b->io[i].over);
		buf_release(b->io[i].buf);
	}
	fixture_destroy(b->f);
	free(b);
}

static void each_class_has_its_number_of_requests(void **state)
{
	static const struct {
		enum vdev_op op;
		enum vdev_class class;
		unsigned flags, want;
	} t[] = {
	    {VDEV_OP_READ, VDEV_SYNC_READ, 0, 10},          {VDEV_OP_READ, VDEV_ASYNC_READ, VDEV_READ_SPECULATIVE, 3},
	    {VDEV_OP_READ, VDEV_SCRUB, VDEV_READ_SCRUB, 1}, {VDEV_OP_WRITE, VDEV_SYNC_WRITE, 0, 10},
	    {VDEV_OP_WRITE, VDEV_ASYNC_WRITE, 0, 2},        {VDEV_OP_WRITE, VDEV_REMOVAL, 0, 1},
	    {VDEV_OP_WRITE, VDEV_INITIALIZE, 0, 1},         {VDEV_OP_WRITE, VDEV_REBUILD, 0, 1},
	};

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct bench *b = bench_create();

		submit_some(b, t[i].op, t[i].class, t[i].flags, 30);
		if (b->h->nheld != t[i].want)
			fail_msg("class %u: %u requests, not %u", t[i].class, b->h->nheld, t[i].want);
		bench_destroy(b);
	}
}

static void async_writes_follow_the_dirty_data(void **state)
{
	static const unsigned want[][2] = {{0, 2}, {30, 2}, {45, 6}, {59, 9}, {60, 10}, {100, 10}};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		struct bench *b = bench_create();

		vdev_set_dirty_percent(b->f->root, want[i][0]);
		submit_some(b, VDEV_OP_WRITE, VDEV_ASYNC_WRITE, 0, 30);
		assert_int_equal(held(b, DISK_WRITE), want[i][1]);
		/* More of it lets more out with the next completion. */
		vdev_set_dirty_percent(b->f->root, 100);
		let_go(b, DISK_WRITE, 0);
		assert_int_equal(held(b, DISK_WRITE), 10);
		bench_destroy(b);
	}
}

static void classes_below_their_minimum_come_first(void **state)
{
	struct bench *b = bench_create();

	submit_some(b, VDEV_OP_WRITE, VDEV_ASYNC_WRITE, 0, 20);
	submit_some(b, VDEV_OP_READ, VDEV_SYNC_READ, 0, 20);
	submit_some(b, VDEV_OP_READ, VDEV_ASYNC_READ, VDEV_READ_SPECULATIVE, 20);
	assert_int_equal(held(b, DISK_WRITE), 2);
	assert_int_equal(held(b, DISK_READ), 11); /* prefetch gets its minimum beside other reads */
	bench_destroy(b);
}

static void background_requests_give_way(void **state)
{
	struct bench *b = bench_create();

	/* Alone, after five of them, they get their maximum. */
	submit_some(b, VDEV_OP_READ, VDEV_SCRUB, VDEV_READ_SCRUB, 20);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(held(b, DISK_READ), 1);
		let_go(b, DISK_READ, 0);
	}
	assert_int_equal(held(b, DISK_READ), 3);
	/* While a write is under way no more than one, and only so many until a write ends. */
	submit_some(b, VDEV_OP_WRITE, VDEV_SYNC_WRITE, 0, 2);
	for (unsigned i = 0; i < 3; i++)
		let_go(b, DISK_READ, 0);
	assert_int_equal(held(b, DISK_READ), 0);
	let_go(b, DISK_WRITE, 0);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(held(b, DISK_READ), 1);
		let_go(b, DISK_READ, 0);
	}
	assert_int_equal(held(b, DISK_READ), 0);
	let_go(b, DISK_WRITE, 0);
	assert_int_equal(held(b, DISK_READ), 1);
	bench_destroy(b);
}

static void tunables_act_at_once(void **state)
{
	struct tunable *max = tunable_find("zfs_vdev_sync_write_max_active");
	struct tunable *min = tunable_find("vdev_sync_write_min_active"), *total = tunable_find("zfs_vdev_max_active");
	struct bench *b = bench_create();

	assert_int_equal(tunable_set(min, 2, NULL), 0);
	assert_int_equal(tunable_set(max, 3, NULL), 0);
	submit_some(b, VDEV_OP_WRITE, VDEV_SYNC_WRITE, 0, 10);
	assert_int_equal(held(b, DISK_WRITE), 3);
	assert_int_equal(tunable_set(max, max->def, NULL), 0);
	assert_int_equal(tunable_set(total, 6, NULL), 0);
	let_go(b, DISK_WRITE, 0);
	assert_int_equal(held(b, DISK_WRITE), 6);
	assert_int_equal(tunable_set(total, total->def, NULL), 0);
	assert_int_equal(tunable_set(min, min->def, NULL), 0);
	bench_destroy(b);
}

static void slow_requests_are_counted(void **state)
{
	struct tunable *slow = tunable_find("zio_slow_io_ms");
	struct bench *b = bench_create();

	submit_some(b, VDEV_OP_WRITE, VDEV_SYNC_WRITE, 0, 2);
	let_go(b, DISK_WRITE, 0);
	assert_int_equal(counter_read(&b->f->top->stats.slow_ios), 0);
	assert_int_equal(tunable_set(slow, 0, NULL), 0);
	let_go(b, DISK_WRITE, 0);
	assert_int_equal(counter_read(&b->f->top->stats.slow_ios), 1);
	assert_int_equal(tunable_set(slow, slow->def, NULL), 0);
	bench_destroy(b);
}

static struct disk_req *last_held(struct bench *b)
{
	return b->h->held[b->h->nheld - 1];
}

static void neighbouring_writes_become_one(void **state)
{
	struct bench *b = bench_create();
	struct disk_req *r;

	vdev_queue_plug(b->f->top->queue);
	for (unsigned i = 0; i < 64; i++)
		submit(b, VDEV_OP_WRITE, VDEV_ASYNC_WRITE, 0, (i * 7 % 64) * 8192, 8192);
	submit(b, VDEV_OP_WRITE, VDEV_ASYNC_WRITE, 0, 65 * 8192, 8192); /* behind a gap */
	vdev_queue_unplug(b->f->top->queue);
	assert_int_equal(b->h->nheld, 2);
	r = b->h->held[0];
	assert_int_equal(r->offset, VDEV_LABEL_START_SIZE);
	assert_int_equal(r->length, 64 * 8192);
	assert_int_equal(last_held(b)->length, 8192);
	uint64_t at = 0;
	for (unsigned i = 0; i < r->niov; i++) {
		assert_memory_equal(r->iov[i].iov_base, b->f->want + at, r->iov[i].iov_len);
		at += r->iov[i].iov_len;
	}
	assert_int_equal(at, r->length);
	bench_destroy(b);
}

static void merging_keeps_to_its_limit(void **state)
{
	struct tunable *limit = tunable_find("zfs_vdev_aggregation_limit_non_rotating");
	struct bench *b = bench_create();

	assert_int_equal(tunable_set(limit, 32768, NULL), 0);
	vdev_set_dirty_percent(b->f->root, 100);
	vdev_queue_plug(b->f->top->queue);
	for (unsigned i = 0; i < 16; i++)
		submit(b, VDEV_OP_WRITE, VDEV_ASYNC_WRITE, 0, i * 8192, 8192);
	vdev_queue_unplug(b->f->top->queue);
	assert_int_equal(b->h->nheld, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(b->h->held[i]->length, 32768);
	assert_int_equal(tunable_set(limit, limit->def, NULL), 0);
	bench_destroy(b);
}

static void a_failed_merge_is_tried_in_pieces(void **state)
{
	struct bench *b = bench_create();

	vdev_set_dirty_percent(b->f->root, 100);
	vdev_queue_plug(b->f->top->queue);
	for (unsigned i = 0; i < 4; i++)
		submit(b, VDEV_OP_WRITE, VDEV_ASYNC_WRITE, 0, i * 4096, 4096);
	vdev_queue_unplug(b->f->top->queue);
	assert_int_equal(b->h->nheld, 1);
	let_go(b, DISK_WRITE, -EIO);
	assert_int_equal(b->h->nheld, 4);
	let_go(b, DISK_WRITE, 0);
	let_go(b, DISK_WRITE, -EIO); /* the second piece, once: it is tried again */
	assert_int_equal(b->h->nheld, 3);
	while (b->h->nheld > 0)
		let_go(b, DISK_WRITE, 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(b->io[i].err, 0);
	assert_int_equal(counter_read(&b->f->top->stats.write_errors), 0);
	bench_destroy(b);
}

static void reads_and_writes_are_not_mixed(void **state)
{
	struct bench *b = bench_create();

	vdev_queue_plug(b->f->top->queue);
	submit(b, VDEV_OP_WRITE, VDEV_SCRUB, 0, 0, 4096);
	submit(b, VDEV_OP_READ, VDEV_SCRUB, VDEV_READ_SCRUB, 4096, 4096);
	submit(b, VDEV_OP_WRITE, VDEV_SCRUB, 0, 8192, 4096);
	vdev_queue_unplug(b->f->top->queue);
	assert_int_equal(b->h->nheld, 1);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(b->h->held[0]->length, 4096);
		let_go(b, b->h->held[0]->op, 0);
	}
	bench_destroy(b);
}

/* --- flushes --- */

struct flush_io {
	struct vdev_io io;
	atomic_bool over;
};

static void flush_over(struct vdev_io *io, int err)
{
	assert_int_equal(err, 0);
	atomic_store(&container_of(io, struct flush_io, io)->over, true);
}

static void flushes_that_wait_share_one(void **state)
{
	struct bench *b = bench_create();
	struct flush_io fl[4] = {0};

	for (unsigned i = 0; i < 4; i++)
		fl[i].io.done = flush_over;
	submit_some(b, VDEV_OP_WRITE, VDEV_SYNC_WRITE, 0, 1);
	vdev_flush(b->f->root, &fl[0].io); /* nothing is done yet: nothing to flush */
	assert_true(fl[0].over);
	let_go(b, DISK_WRITE, 0);
	fl[0].over = false;
	vdev_flush(b->f->root, &fl[0].io);
	vdev_flush(b->f->root, &fl[1].io); /* nothing came between: the running one will do */
	assert_int_equal(held(b, DISK_FLUSH), 1);
	submit_some(b, VDEV_OP_WRITE, VDEV_SYNC_WRITE, 0, 1);
	let_go(b, DISK_WRITE, 0);
	vdev_flush(b->f->root, &fl[2].io);
	vdev_flush(b->f->root, &fl[3].io);
	assert_int_equal(held(b, DISK_FLUSH), 1);
	let_go(b, DISK_FLUSH, 0);
	assert_true(fl[0].over && fl[1].over);
	assert_false(fl[2].over || fl[3].over);
	assert_int_equal(held(b, DISK_FLUSH), 1);
	let_go(b, DISK_FLUSH, 0);
	assert_true(fl[2].over && fl[3].over);
	assert_int_equal(b->h->nheld, 0);
	bench_destroy(b);
}

/* --- devices that go while they have requests --- */

static void a_device_is_left_with_its_requests(void **state)
{
	struct bench *b = bench_create();
	struct vdev *leaf = b->f->top;
	struct holddisk *old = b->h;
	struct disk_req *r;

	submit_some(b, VDEV_OP_WRITE, VDEV_SYNC_WRITE, 0, 12);
	assert_int_equal(old->nheld, 10);
	/* One request stays with it for ever, so to say. */
	while (old->nheld > 1)
		let_go(b, DISK_WRITE, 0);
	r = old->held[0];
	vdev_leaf_set(leaf, VDEV_STATE_CANT_OPEN, VDEV_AUX_OPEN_FAILED, false);
	vdev_leaf_set_device(leaf, NULL);
	assert_false(vdev_queue_reap(leaf->queue, 0));
	old->nheld = 0;
	vdev_leaf_open(leaf, open_held, b);
	assert_ptr_not_equal(b->h, old);
	assert_int_equal(leaf->state, VDEV_STATE_HEALTHY);
	submit_some(b, VDEV_OP_WRITE, VDEV_SYNC_WRITE, 0, 1);
	let_go(b, DISK_WRITE, 0);
	assert_false(vdev_queue_reap(leaf->queue, 0));
	r->done(r, 0);
	assert_true(vdev_queue_reap(leaf->queue, 0));
	bench_destroy(b);
}

static void who_waits_for_a_lost_device_fails_at_once(void **state)
{
	struct bench *b = bench_create();

	submit_some(b, VDEV_OP_READ, VDEV_SYNC_READ, 0, 30);
	vdev_queue_set_dead(b->f->top->queue, true);
	unsigned failed = 0;
	for (unsigned i = 0; i < b->n; i++)
		failed += b->io[i].over && b->io[i].err == -ENXIO;
	assert_int_equal(failed, 20);
	assert_int_equal(b->h->nheld, 10 + 1); /* and the probe that the first failure started */
	bench_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_class_has_its_number_of_requests),
	    cmocka_unit_test(async_writes_follow_the_dirty_data),
	    cmocka_unit_test(classes_below_their_minimum_come_first),
	    cmocka_unit_test(background_requests_give_way),
	    cmocka_unit_test(tunables_act_at_once),
	    cmocka_unit_test(slow_requests_are_counted),
	    cmocka_unit_test(neighbouring_writes_become_one),
	    cmocka_unit_test(merging_keeps_to_its_limit),
	    cmocka_unit_test(a_failed_merge_is_tried_in_pieces),
	    cmocka_unit_test(reads_and_writes_are_not_mixed),
	    cmocka_unit_test(flushes_that_wait_share_one),
	    cmocka_unit_test(a_device_is_left_with_its_requests),
	    cmocka_unit_test(who_waits_for_a_lost_device_fails_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
