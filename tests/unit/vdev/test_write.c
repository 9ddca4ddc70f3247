/* Writes, flushes and trims of plain devices and mirrors; devices that fail, are lost, and come back. */
#include "vdev_fixture.h"

#define TOP_ASIZE (UINT64_C(240) << 20)
#define FOREVER   UINT32_MAX

static struct fixture *mirror(unsigned n)
{
	struct nvlist *nv = nv_vdev("mirror", 0, 50);

	nv_make_top(nv, 12, TOP_ASIZE);
	nv_add_leaves(nv, 0, n);
	struct fixture *f = fixture_create(&nv, 1);
	return f;
}

static struct fixture *single(void)
{
	struct nvlist *nv = nv_vdev("disk", 0, 100);

	nv_make_top(nv, 12, TOP_ASIZE);
	struct fixture *f = fixture_create(&nv, 1);
	fixture_open(f);
	return f;
}

static bool leaf_has(struct fixture *f, unsigned i, uint64_t offset, size_t size)
{
	uint8_t *got = xmalloc(size);
	bool same;

	sparse_read(f->leaf[i].bytes, offset + VDEV_LABEL_START_SIZE, got, size);
	same = memcmp(got, f->want, size) == 0;
	free(got);
	return same;
}

static uint64_t write_errors(struct fixture *f, unsigned i)
{
	return counter_read(&leaf_of(f, i)->stats.write_errors);
}

static void a_write_reaches_every_side(void **state)
{
	struct fixture *f = mirror(3);

	fixture_open(f);
	assert_int_equal(fixture_write(f, f->top, 0x10000, 0x20000, 10), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(leaf_has(f, i, 0x10000, 0x20000));
		assert_true(vdev_dtl_is_empty(leaf_of(f, i)));
		assert_int_equal(counter_read(&leaf_of(f, i)->stats.write_bytes), 0x20000);
		assert_int_equal(counter_read(&leaf_of(f, i)->stats.write_ops), 1);
	}
	assert_int_equal(counter_read(&f->top->stats.write_bytes), 0x20000);
	assert_int_equal(fixture_read(f, f->top, 0x10000, 0x20000, 10, 0), 0);
	fixture_destroy(f);
}

static void part_of_a_sector_is_written_as_a_whole_one(void **state)
{
	struct fixture *f = single();

	memset(f->want + 512, 0, 4096);
	assert_int_equal(fixture_write(f, f->top, 4096, 512, 10), 0);
	assert_true(leaf_has(f, 0, 4096, 4096));
	assert_int_equal(counter_read(&f->top->stats.write_bytes), 4096);
	fixture_destroy(f);
}

static void writes_that_cannot_be_are_refused(void **state)
{
	static const struct {
		uint64_t offset, size;
	} bad[] = {
	    {0, 0}, {0, 100}, {512, 4096}, {TOP_ASIZE, 4096}, {TOP_ASIZE - 4096, 4608}, {UINT64_MAX - 4095, 4096}};
	struct fixture *f = single();

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct sync_io w = {.io = {.offset = bad[i].offset, .size = bad[i].size, .done = sync_io_done}};

		waiter_init(&w.w);
		vdev_write(f->top, &w.io);
		assert_int_equal(waiter_wait(&w.w), -EINVAL);
	}
	fixture_destroy(f);
}

static void a_tree_opened_read_only_takes_no_writes(void **state)
{
	struct fixture *f = mirror(2);

	f->leaf[0].read_only = f->leaf[1].read_only = true;
	fixture_open(f);
	assert_int_equal(fixture_write(f, f->top, 0, 4096, 10), -ENXIO);
	assert_int_equal(fixture_trim(f->top, 0, 4096), 0);
	assert_int_equal(f->leaf[0].writes + f->leaf[1].writes + f->leaf[0].discards, 0);
	assert_int_equal(f->top->state, VDEV_STATE_HEALTHY);
	fixture_destroy(f);
}

static void a_write_that_fails_once_is_tried_again(void **state)
{
	struct fixture *f = mirror(2);

	fixture_open(f);
	fail_writes(f, 1, -EIO, 1, false);
	assert_int_equal(fixture_write(f, f->top, 0, 8192, 10), 0);
	assert_true(leaf_has(f, 1, 0, 8192));
	assert_int_equal(write_errors(f, 1), 0);
	assert_int_equal(f->leaf[1].writes, 2);
	assert_true(vdev_dtl_is_empty(leaf_of(f, 1)));
	fixture_destroy(f);
}

static void a_side_that_fails_lacks_the_txg(void **state)
{
	struct fixture *f = mirror(2);

	fixture_open(f);
	fail_writes(f, 1, -EIO, FOREVER, false);
	assert_int_equal(fixture_write(f, f->top, 0, 8192, 10), 0);
	assert_int_equal(write_errors(f, 1), 1);
	assert_int_equal(write_errors(f, 0), 0);
	assert_true(vdev_dtl_has(leaf_of(f, 1), 10));
	assert_false(vdev_dtl_has(leaf_of(f, 1), 11));
	assert_true(vdev_dtl_is_empty(leaf_of(f, 0)));
	/* Its labels can be written: a bad sector, not a bad device. */
	vdev_probe_join(leaf_of(f, 1));
	assert_int_equal(leaf_of(f, 1)->state, VDEV_STATE_HEALTHY);
	assert_int_equal(fixture_read(f, f->top, 0, 8192, 10, 0), 0);
	assert_int_equal(leaf_checksum_errors(f, 1), 0);
	fixture_destroy(f);
}

static void a_write_that_no_side_took_fails_without_a_trace(void **state)
{
	struct fixture *f = mirror(2);

	fixture_open(f);
	fail_writes(f, 0, -EIO, FOREVER, false);
	fail_writes(f, 1, -EIO, FOREVER, false);
	assert_int_equal(fixture_write(f, f->top, 0, 8192, 10), -EIO);
	assert_true(vdev_dtl_is_empty(leaf_of(f, 0)));
	assert_true(vdev_dtl_is_empty(leaf_of(f, 1)));
	fail_writes(f, 0, -EIO, 0, false);
	fail_writes(f, 1, -EIO, 0, false);
	assert_int_equal(fixture_write(f, f->top, 0, 8192, 10), 0);
	fixture_destroy(f);
}

static void an_absent_side_lacks_what_is_written(void **state)
{
	struct fixture *f = mirror(2);

	f->leaf[0].absent = true;
	fixture_open(f);
	for (uint64_t txg = 5; txg < 8; txg++)
		assert_int_equal(fixture_write(f, f->top, txg << 20, 4096, txg), 0);
	assert_true(vdev_dtl_has(leaf_of(f, 0), 5) && vdev_dtl_has(leaf_of(f, 0), 7));
	assert_false(vdev_dtl_has(leaf_of(f, 0), 4) || vdev_dtl_has(leaf_of(f, 0), 8));
	fixture_destroy(f);
}

struct events {
	atomic_uint states, dtls;
};

static void on_state(void *arg, struct vdev *leaf)
{
	atomic_fetch_add(&((struct events *)arg)->states, 1);
}

static void on_dtl(void *arg, struct vdev *leaf)
{
	atomic_fetch_add(&((struct events *)arg)->dtls, 1);
}

static void a_device_that_fails_everywhere_is_faulted(void **state)
{
	struct fixture *f = mirror(2);
	struct events seen = {0};
	const struct vdev_events ev = {on_state, on_dtl, &seen};
	struct vdev *leaf;

	fixture_open(f);
	vdev_set_events(f->root, &ev);
	leaf = leaf_of(f, 1);
	fail_writes(f, 1, -EIO, FOREVER, true);
	f->leaf[1].fails = true;
	assert_int_equal(fixture_write(f, f->top, 0, 8192, 10), 0);
	vdev_probe_join(leaf);
	assert_int_equal(leaf->state, VDEV_STATE_FAULTED);
	assert_int_equal(leaf->aux, VDEV_AUX_IO_FAILURE);
	assert_int_equal(f->top->state, VDEV_STATE_DEGRADED);
	assert_int_equal(f->root->state, VDEV_STATE_DEGRADED);
	assert_true(vdev_is_writable(f->top));
	unsigned writes = f->leaf[1].writes;
	assert_int_equal(fixture_write(f, f->top, 8192, 8192, 11), 0);
	assert_int_equal(f->leaf[1].writes, writes);
	assert_true(vdev_dtl_has(leaf, 10) && vdev_dtl_has(leaf, 11));
	assert_int_equal(seen.states, 1);
	assert_int_equal(seen.dtls, 2);
	fixture_destroy(f);
}

static void a_device_that_can_only_be_read_stays_for_that(void **state)
{
	struct fixture *f = single();

	assert_int_equal(fixture_write(f, f->top, 0, 4096, 10), 0);
	fail_writes(f, 0, -EIO, FOREVER, true);
	assert_int_equal(fixture_write(f, f->top, 4096, 4096, 10), -EIO);
	vdev_probe_join(f->top);
	assert_int_equal(f->top->state, VDEV_STATE_DEGRADED);
	assert_int_equal(f->top->aux, VDEV_AUX_IO_FAILURE);
	assert_false(vdev_is_writable(f->top));
	assert_false(vdev_is_writable(f->root));
	assert_int_equal(fixture_write(f, f->top, 4096, 4096, 10), -ENXIO);
	assert_int_equal(fixture_read(f, f->top, 0, 4096, 10, 0), 0);
	assert_true(vdev_dtl_is_empty(f->top));
	vdev_reopen(f->root, fixture_open_leaf, f);
	assert_int_equal(f->top->state, VDEV_STATE_DEGRADED); /* opened anew, and no better */
	assert_int_equal(fixture_read(f, f->top, 0, 4096, 10, 0), 0);
	struct disk *same = f->top->disk;
	fail_writes(f, 0, 0, 0, true);
	vdev_reopen(f->root, fixture_open_leaf, f);
	assert_ptr_equal(f->top->disk, same);
	assert_int_equal(f->top->state, VDEV_STATE_HEALTHY);
	assert_true(vdev_is_writable(f->root));
	assert_int_equal(fixture_write(f, f->top, 4096, 4096, 10), 0);
	fixture_destroy(f);
}

static void a_device_that_is_gone_comes_back(void **state)
{
	struct fixture *f = mirror(2);
	struct vdev *leaf;

	fixture_open(f);
	leaf = leaf_of(f, 0);
	assert_int_equal(fixture_write(f, f->top, 0, 4096, 5), 0);
	assert_int_equal(vdev_flush_wait(f->root), 0);
	fail_writes(f, 0, -ENXIO, FOREVER, true);
	f->leaf[0].fail_to = UINT64_MAX;
	assert_int_equal(fixture_write(f, f->top, 4096, 4096, 6), 0);
	vdev_probe_join(leaf);
	assert_int_equal(leaf->state, VDEV_STATE_FAULTED); /* reads say EIO */
	f->leaf[0].absent = true;
	vdev_reopen(f->root, fixture_open_leaf, f);
	assert_int_equal(leaf->state, VDEV_STATE_CANT_OPEN);
	assert_int_equal(leaf->aux, VDEV_AUX_OPEN_FAILED);
	assert_null(leaf->disk);
	assert_int_equal(fixture_write(f, f->top, 8192, 4096, 7), 0);
	/* It is opened, but its probe fails. */
	f->leaf[0].absent = false;
	vdev_reopen(f->root, fixture_open_leaf, f);
	assert_int_equal(leaf->state, VDEV_STATE_CANT_OPEN);
	fail_writes(f, 0, 0, 0, true);
	f->leaf[0].fail_to = 0;
	vdev_reopen(f->root, fixture_open_leaf, f);
	assert_int_equal(leaf->state, VDEV_STATE_HEALTHY);
	assert_int_equal(f->root->state, VDEV_STATE_HEALTHY);
	assert_int_equal(fixture_write(f, f->top, 12288, 4096, 8), 0);
	assert_true(leaf_has(f, 0, 12288, 4096));
	assert_true(vdev_dtl_has(leaf, 6) && vdev_dtl_has(leaf, 7));
	assert_false(vdev_dtl_has(leaf, 5) || vdev_dtl_has(leaf, 8));
	fixture_destroy(f);
}

static void a_leaf_is_taken_offline_and_back(void **state)
{
	struct fixture *f = mirror(2);
	struct vdev *leaf;

	fixture_open(f);
	leaf = leaf_of(f, 1);
	leaf->offline = true;
	vdev_reopen(leaf, fixture_open_leaf, f);
	assert_int_equal(leaf->state, VDEV_STATE_OFFLINE);
	assert_int_equal(f->top->state, VDEV_STATE_DEGRADED);
	assert_int_equal(fixture_write(f, f->top, 0, 4096, 9), 0);
	assert_false(leaf_has(f, 1, 0, 4096));
	leaf->offline = false;
	vdev_reopen(leaf, fixture_open_leaf, f);
	assert_int_equal(f->root->state, VDEV_STATE_HEALTHY);
	assert_true(vdev_dtl_has(leaf, 9));
	assert_int_equal(fixture_read(f, f->top, 0, 4096, 9, 0), 0);
	assert_int_equal(leaf_checksum_errors(f, 1), 0);
	assert_int_equal(vdev_leaf_close(leaf, VDEV_STATE_REMOVED, VDEV_AUX_NONE), 0);
	assert_int_equal(leaf->state, VDEV_STATE_REMOVED);
	fixture_destroy(f);
}

/* --- flushes --- */

static void only_what_was_written_is_flushed(void **state)
{
	struct nvlist *top[2] = {nv_vdev("mirror", 0, 50), nv_vdev("disk", 1, 102)};

	nv_make_top(top[0], 12, TOP_ASIZE);
	nv_make_top(top[1], 12, TOP_ASIZE);
	nv_add_leaves(top[0], 0, 2);
	struct fixture *f = fixture_create(top, 2);
	fixture_open(f);
	assert_int_equal(vdev_flush_wait(f->root), 0);
	assert_int_equal(f->leaf[0].flushes + f->leaf[1].flushes + f->leaf[2].flushes, 0);
	assert_int_equal(fixture_write(f, f->root->child[1], 0, 4096, 5), 0);
	assert_int_equal(vdev_flush_wait(f->top), 0);
	assert_int_equal(f->leaf[2].flushes, 0);
	assert_int_equal(vdev_flush_wait(f->root), 0);
	assert_int_equal(vdev_flush_wait(f->root), 0);
	assert_int_equal(f->leaf[0].flushes, 0);
	assert_int_equal(f->leaf[2].flushes, 1);
	assert_int_equal(fixture_write(f, f->top, 0, 4096, 5), 0);
	assert_int_equal(vdev_flush_wait(f->root), 0);
	assert_int_equal(f->leaf[0].flushes, 1);
	assert_int_equal(f->leaf[1].flushes, 1);
	assert_int_equal(f->leaf[2].flushes, 1);
	fixture_destroy(f);
}

static void a_flush_that_fails_on_one_side_costs_it_its_txgs(void **state)
{
	struct fixture *f = mirror(2);

	fixture_open(f);
	assert_int_equal(fixture_write(f, f->top, 0, 4096, 5), 0);
	assert_int_equal(vdev_flush_wait(f->root), 0);
	assert_int_equal(fixture_write(f, f->top, 0, 4096, 7), 0);
	assert_int_equal(fixture_write(f, f->top, 8192, 4096, 8), 0);
	f->leaf[1].flush_err = -EIO;
	assert_int_equal(vdev_flush_wait(f->root), 0);
	assert_true(vdev_dtl_has(leaf_of(f, 1), 7) && vdev_dtl_has(leaf_of(f, 1), 8));
	assert_false(vdev_dtl_has(leaf_of(f, 1), 5));
	assert_int_equal(write_errors(f, 1), 1);
	assert_true(vdev_dtl_is_empty(leaf_of(f, 0)));
	/* Both: nobody has it for sure. */
	assert_int_equal(fixture_write(f, f->top, 0, 4096, 9), 0);
	f->leaf[0].flush_err = -EIO;
	assert_int_equal(vdev_flush_wait(f->root), -EIO);
	fixture_destroy(f);
}

/* The side whose flush succeeds does not have the txg that the other one lost. */
static void a_flush_fails_when_the_only_copy_was_not_flushed(void **state)
{
	struct fixture *f = mirror(2);

	fixture_open(f);
	fail_writes(f, 0, -EIO, 2, false);
	assert_int_equal(fixture_write(f, f->top, 0, 4096, 5), 0);
	vdev_probe_join(leaf_of(f, 0));
	f->leaf[1].flush_err = -EIO;
	assert_true(vdev_is_writable(leaf_of(f, 0)));
	assert_int_equal(vdev_flush_wait(f->root), -EIO);
	fixture_destroy(f);
}

static void a_failed_flush_of_a_lone_device_is_repeated(void **state)
{
	struct fixture *f = single();

	assert_int_equal(fixture_write(f, f->top, 0, 4096, 5), 0);
	f->leaf[0].flush_err = -EIO;
	assert_int_equal(vdev_flush_wait(f->root), -EIO);
	assert_true(vdev_dtl_is_empty(f->top));
	f->leaf[0].flush_err = 0;
	assert_int_equal(vdev_flush_wait(f->root), 0);
	assert_int_equal(f->leaf[0].flushes, 2);
	fixture_destroy(f);
}

static void an_absent_log_device_is_in_no_flush_s_way(void **state)
{
	struct nvlist *top[2] = {nv_vdev("disk", 0, 100), nv_vdev("disk", 1, 101)};

	nv_make_top(top[0], 12, TOP_ASIZE);
	nv_make_top(top[1], 12, TOP_ASIZE);
	struct fixture *f = fixture_create(top, 2);
	f->leaf[1].absent = true;
	fixture_open(f);
	assert_int_equal(fixture_write(f, f->top, 0, 4096, 5), 0);
	assert_int_equal(vdev_flush_wait(f->root), 0);
	assert_int_equal(f->leaf[0].flushes, 1);
	fixture_destroy(f);
}

/* --- all at once --- */

#define STORM_WRITES 3000
#define STORM_DEPTH  24
#define STORM_BLOCK  8192u

struct storm {
	struct fixture *f;
	atomic_uint next, left;
	bool ok[STORM_WRITES];
	struct buf *buf;
	struct waiter over;
	struct storm_io {
		struct vdev_io io;
		struct task task;
		struct storm *s;
		unsigned n;
	} io[STORM_DEPTH];
};

static uint64_t storm_txg(unsigned n)
{
	return 100 + n / 50;
}

static void storm_next(struct task *t)
{
	struct storm_io *si = container_of(t, struct storm_io, task);
	struct storm *s = si->s;

	si->n = atomic_fetch_add(&s->next, 1);
	if (si->n >= STORM_WRITES) {
		if (atomic_fetch_sub(&s->left, 1) == 1)
			waiter_done(&s->over, 0);
		return;
	}
	si->io.offset = (uint64_t)si->n * STORM_BLOCK;
	si->io.txg = storm_txg(si->n);
	vdev_write(s->f->top, &si->io);
}

static void storm_done(struct vdev_io *io, int err)
{
	struct storm_io *si = container_of(io, struct storm_io, io);

	si->s->ok[si->n] = err == 0;
	taskq_dispatch(cpu_taskq(), &si->task);
}

static void storm_start(struct storm *s)
{
	s->buf = buf_alloc(STORM_BLOCK);
	memcpy(s->buf->data, s->f->want, STORM_BLOCK);
	atomic_init(&s->left, STORM_DEPTH);
	waiter_init(&s->over);
	for (unsigned i = 0; i < STORM_DEPTH; i++) {
		s->io[i] = (struct storm_io){.s = s, .task.run = storm_next};
		s->io[i].io = (struct vdev_io){
		    .size = STORM_BLOCK, .data = s->buf->data, .class = VDEV_ASYNC_WRITE, .done = storm_done};
		taskq_dispatch(cpu_taskq(), &s->io[i].task);
	}
}

/* One thing after another that happens to a device. */
static void storm_trouble(struct fixture *f, unsigned step)
{
	struct vdev *leaf = leaf_of(f, step / 6 % 2);
	unsigned i = step / 6 % 2;

	switch (step % 6) {
	case 0: /* a bad spell */
		fail_writes(f, i, -EIO, 3, false);
		break;
	case 1: /* gone */
		fail_writes(f, i, -ENXIO, FOREVER, true);
		break;
	case 2: /* back */
		fail_writes(f, i, 0, 0, true);
		vdev_reopen(f->root, fixture_open_leaf, f);
		break;
	case 3:
		assert_int_equal(vdev_leaf_close(leaf, VDEV_STATE_REMOVED, VDEV_AUX_NONE), 0);
		break;
	case 4:
		vdev_reopen(leaf, fixture_open_leaf, f);
		break;
	default:
		vdev_flush_wait(f->root);
	}
}

/* Whatever happens to the devices, each has what was written or knows that it lacks it. */
static void writes_go_on_while_devices_come_and_go(void **state)
{
	struct storm *s = xcalloc(1, sizeof(*s));
	unsigned failed = 0;

	s->f = mirror(2);
	fixture_open(s->f);
	storm_start(s);
	for (unsigned step = 0; atomic_load(&s->next) < STORM_WRITES; step++)
		storm_trouble(s->f, step);
	waiter_wait(&s->over);
	vdev_probe_join(leaf_of(s->f, 0));
	vdev_probe_join(leaf_of(s->f, 1));
	for (unsigned n = 0; n < STORM_WRITES; n++) {
		uint64_t txg = storm_txg(n), at = (uint64_t)n * STORM_BLOCK;

		failed += !s->ok[n];
		if (!s->ok[n])
			continue;
		for (unsigned i = 0; i < 2; i++)
			assert_true(vdev_dtl_has(leaf_of(s->f, i), txg) || leaf_has(s->f, i, at, STORM_BLOCK));
		assert_true(leaf_has(s->f, 0, at, STORM_BLOCK) || leaf_has(s->f, 1, at, STORM_BLOCK));
	}
	assert_true(failed < STORM_WRITES);
	buf_release(s->buf);
	fixture_destroy(s->f);
	free(s);
}

/* --- trim, growth, refusals --- */

static void trim_gives_the_range_back_on_every_side(void **state)
{
	struct fixture *f = mirror(2);
	uint8_t got[4096], zero[4096] = {0};

	fixture_open(f);
	assert_int_equal(fixture_write(f, f->top, 0x10000, 0x3000, 5), 0);
	assert_int_equal(fixture_trim(f->top, 0x11000, 0x1000), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(f->leaf[i].discards, 1);
		assert_int_equal(counter_read(&leaf_of(f, i)->stats.trim_bytes), 0x1000);
		assert_int_equal(counter_read(&leaf_of(f, i)->stats.trim_ops), 1);
		sparse_read(f->leaf[i].bytes, VDEV_LABEL_START_SIZE + 0x11000, got, sizeof(got));
		assert_memory_equal(got, zero, sizeof(got));
		assert_true(leaf_has(f, i, 0x10000, 0x1000));
		sparse_read(f->leaf[i].bytes, VDEV_LABEL_START_SIZE + 0x12000, got, sizeof(got));
		assert_memory_equal(got, f->want + 0x2000, sizeof(got));
	}
	assert_int_equal(fixture_trim(f->top, 0x11000, 0x800), -EINVAL);
	assert_int_equal(fixture_trim(f->top, TOP_ASIZE, 0x1000), -EINVAL);
	fixture_destroy(f);
}

/* A disk of memory whose size the test changes. */
static uint64_t grown_size = LEAF_SIZE;

static void grown_refresh(struct disk *d)
{
	d->size = grown_size;
}

static int open_growing(void *arg, struct vdev *leaf, struct disk **out, struct err *e)
{
	static struct disk_ops ops;
	struct fixture *f = arg;
	struct fixture_leaf *l = &f->leaf[leaf->guid - 100];

	if (!l->bytes)
		l->bytes = sparse_create(2 * LEAF_SIZE, NULL);
	*out = memdisk_over("m", l->bytes);
	ops = *(*out)->ops;
	ops.refresh = grown_refresh;
	(*out)->ops = &ops;
	(*out)->size = grown_size;
	return 0;
}

static void count_slot(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	++*(unsigned *)arg;
}

static void a_grown_device_is_seen_and_used_when_asked(void **state)
{
	const struct uberblock ub = {.version = 5000, .txg = 17};
	struct fixture *f = mirror(2);
	unsigned valid = 0;

	grown_size = LEAF_SIZE;
	vdev_tree_open(f->root, open_growing, f);
	assert_int_equal(uberblock_write(leaf_of(f, 0)->disk, 0, 12, &ub, UINT_MAX), 0);
	assert_true(vdev_expand(f->top)); /* the tests' tops are smaller than their devices */
	uint64_t asize = f->top->asize;
	assert_int_equal(asize, LEAF_SIZE - VDEV_LABEL_START_SIZE - VDEV_LABEL_END_SIZE);
	assert_int_equal(fixture_write(f, f->top, asize, 4096, 10), -EINVAL);
	assert_false(vdev_expand(f->top));
	grown_size = 2 * LEAF_SIZE;
	vdev_reopen(f->root, open_growing, f);
	assert_int_equal(f->top->asize, asize);
	assert_int_equal(vdev_max_asize(f->top), asize + LEAF_SIZE);
	assert_int_equal(uberblock_each(leaf_of(f, 0)->disk, 3, 12, count_slot, &valid), 0);
	assert_int_equal(valid, 1);
	assert_true(vdev_expand(f->top));
	assert_int_equal(f->top->asize, asize + LEAF_SIZE);
	assert_int_equal(fixture_write(f, f->top, asize, 4096, 10), 0);
	/* It shrinks below what it has to hold. */
	grown_size = LEAF_SIZE / 2;
	vdev_reopen(f->root, open_growing, f);
	assert_int_equal(leaf_of(f, 0)->state, VDEV_STATE_CANT_OPEN);
	assert_int_equal(leaf_of(f, 0)->aux, VDEV_AUX_BAD_LABEL);
	fixture_destroy(f);
}

static int why_not(const char *type, unsigned children, const char *key, char *words)
{
	struct nvlist *nv = nv_vdev(type, 0, 50);
	struct err e = ERR_INIT;
	int err;

	nv_make_top(nv, 12, TOP_ASIZE);
	nv_add_leaves(nv, 0, children);
	if (strcmp(type, "raidz") == 0)
		nvlist_add_u64(nv, "nparity", 1);
	if (key && strcmp(key, "raidz_expanding") == 0)
		nvlist_add_boolean(nv, key);
	else if (key)
		nvlist_add_u64(nv, key, 1);
	struct fixture *f = fixture_create(&nv, 1);
	err = vdev_why_not_writable(f->root, &e);
	snprintf(words, sizeof(e.text), "%s", e.text);
	if (err) {
		fixture_open(f);
		if (strcmp(type, "raidz") == 0)
			assert_int_equal(fixture_write(f, f->top, 0, 4096, 10), -ENOTSUP);
	}
	fixture_destroy(f);
	return err;
}

static void trees_that_others_are_changing_are_refused(void **state)
{
	char words[1024];

	assert_int_equal(why_not("mirror", 2, NULL, words), 0);
	assert_int_equal(why_not("raidz", 4, NULL, words), 0);
	assert_int_equal(why_not("raidz", 4, "raidz_expanding", words), -ENOTSUP);
	assert_non_null(strstr(words, "raidz1-0 is being expanded"));
	assert_int_equal(why_not("mirror", 2, "removing", words), -ENOTSUP);
	assert_non_null(strstr(words, "mirror-0 is being removed"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_write_reaches_every_side),
	    cmocka_unit_test(part_of_a_sector_is_written_as_a_whole_one),
	    cmocka_unit_test(writes_that_cannot_be_are_refused),
	    cmocka_unit_test(a_tree_opened_read_only_takes_no_writes),
	    cmocka_unit_test(a_write_that_fails_once_is_tried_again),
	    cmocka_unit_test(a_side_that_fails_lacks_the_txg),
	    cmocka_unit_test(a_write_that_no_side_took_fails_without_a_trace),
	    cmocka_unit_test(an_absent_side_lacks_what_is_written),
	    cmocka_unit_test(a_device_that_fails_everywhere_is_faulted),
	    cmocka_unit_test(a_device_that_can_only_be_read_stays_for_that),
	    cmocka_unit_test(a_device_that_is_gone_comes_back),
	    cmocka_unit_test(a_leaf_is_taken_offline_and_back),
	    cmocka_unit_test(only_what_was_written_is_flushed),
	    cmocka_unit_test(a_flush_that_fails_on_one_side_costs_it_its_txgs),
	    cmocka_unit_test(a_flush_fails_when_the_only_copy_was_not_flushed),
	    cmocka_unit_test(a_failed_flush_of_a_lone_device_is_repeated),
	    cmocka_unit_test(an_absent_log_device_is_in_no_flush_s_way),
	    cmocka_unit_test(writes_go_on_while_devices_come_and_go),
	    cmocka_unit_test(trim_gives_the_range_back_on_every_side),
	    cmocka_unit_test(a_grown_device_is_seen_and_used_when_asked),
	    cmocka_unit_test(trees_that_others_are_changing_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
