/* Where blocks go, in core: no map is written here. */
#include <unistd.h>

#include "testpool.h"

#include "alloc/alloc.h"
#include "base/log.h"
#include "base/tunable.h"

#define TXG   20
#define SMALL (UINT64_C(64) << 20) /* of a device: four metaslabs */
#define TOPS  TP_TOPS

struct fix {
	struct testpool *tp;
	struct alloc *a;
};

static void no_feature(void *arg, const char *feature, int64_t delta, struct tx *tx)
{
}

static void no_config(void *arg, struct vdev *top, struct tx *tx)
{
}

static void fix_open_sized(struct fix *f, uint64_t size, uint64_t ms_shift)
{
	struct err e = ERR_INIT;

	f->tp = tp_create(12, UINT64_C(32) << 20);
	for (unsigned i = 0; i < TOPS; i++) {
		f->tp->root->child[i]->asize = size;
		f->tp->root->child[i]->ms_shift = ms_shift;
	}
	struct alloc_args args = {
	    .root = f->tp->root, .zp = &f->tp->zp, .activate = no_feature, .config_dirty = no_config};
	if (alloc_open(&args, &f->a, &e))
		fail_msg("%s", e.text);
}

/* Tests do not depend on what happens to be loaded already. */
static void fix_load(struct fix *f, struct vdev *top)
{
	struct alloc_free_set *set;

	for (uint64_t m = 0; alloc_free_take(f->a, top, m, &set) == 0; m++)
		alloc_free_return(set);
}

static void fix_start(struct fix *f, unsigned ntops)
{
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < ntops; i++) {
		assert_int_equal(alloc_add_top(f->a, f->tp->root->child[i], &e), 0);
		fix_load(f, f->tp->root->child[i]);
	}
}

static void fix_open(struct fix *f, unsigned ntops)
{
	fix_open_sized(f, SMALL, 24);
	fix_start(f, ntops);
}

static void fix_close(struct fix *f)
{
	alloc_close(f->a);
	assert_null(f->tp->zp.alloc);
	tp_destroy(f->tp);
}

static int take(struct fix *f, enum zio_class class, uint64_t size, unsigned n, unsigned flags, struct dva dva[BP_DVAS])
{
	return f->tp->zp.alloc->alloc(f->tp->zp.alloc_arg, class, size, n, TXG, flags, NULL, dva);
}

static struct dva take_one(struct fix *f, uint64_t size, unsigned flags)
{
	struct dva dva[BP_DVAS];

	assert_int_equal(take(f, ZIO_CLASS_NORMAL, size, 1, flags, dva), 0);
	assert_int_equal(dva[0].asize, ROUND_UP(size, 4096));
	assert_int_equal(dva[0].offset % 4096, 0);
	return dva[0];
}

static void copies_lie_on_distinct_devices(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS];

	fix_open(&f, 3);
	for (unsigned i = 0; i < 500; i++) {
		assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096 << i % 5, 3, 0, d), 0);
		assert_true(d[0].vdev != d[1].vdev && d[1].vdev != d[2].vdev && d[0].vdev != d[2].vdev);
	}
	fix_close(&f);
}

static void copies_on_one_device_lie_in_distinct_metaslabs(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS];

	fix_open(&f, 1);
	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 8192, 3, 0, d), 0);
		assert_int_not_equal(d[0].offset >> 24, d[1].offset >> 24);
		assert_int_not_equal(d[1].offset >> 24, d[2].offset >> 24);
		assert_int_not_equal(d[0].offset >> 24, d[2].offset >> 24);
	}
	fix_close(&f);
}

static void the_last_room_takes_copies_of_one_block(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS];

	fix_open_sized(&f, UINT64_C(16) << 20, 24);
	fix_start(&f, 1);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4 << 20, 3, 0, d), 0);
	assert_int_not_equal(d[0].offset, d[1].offset);
	assert_int_not_equal(d[1].offset, d[2].offset);
	/* Of three copies that do not all fit none stays. */
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 2 << 20, 3, 0, d), -ENOSPC);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4 << 20, 1, 0, d), 0);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 1, 0, d), -ENOSPC);
	fix_close(&f);
}

static void blocks_of_a_kind_follow_each_other(void **state)
{
	struct fix f;
	struct dva a, b;

	fix_open(&f, 1);
	a = take_one(&f, 8192, 0);
	for (unsigned i = 0; i < 50; i++) {
		b = take_one(&f, 8192, 0);
		assert_int_equal(b.offset, a.offset + 8192);
		a = b;
	}
	fix_close(&f);
}

/* Everything can be taken, to the last sector, and no sector twice. */
static void all_space_can_be_had(void **state)
{
	static uint8_t used[TOPS][SMALL >> 12];
	struct fix f;
	struct dva d[BP_DVAS];
	uint64_t total = 0;

	fix_open(&f, 3);
	for (uint64_t size = 1 << 20; size >= 4096; size /= 2) {
		while (take(&f, ZIO_CLASS_NORMAL, size - 512 * (size > 4096), 1, 0, d) == 0) {
			for (uint64_t s = d[0].offset; s < d[0].offset + d[0].asize; s += 4096)
				assert_int_equal(used[d[0].vdev][s >> 12]++, 0);
			total += d[0].asize;
		}
	}
	assert_int_equal(total, 3 * SMALL);
	fix_close(&f);
}

static void devices_fill_evenly_and_by_their_size(void **state)
{
	struct fix f;
	uint64_t sum[TOPS] = {0};

	fix_open_sized(&f, SMALL, 24);
	f.tp->root->child[2]->asize = 2 * SMALL;
	fix_start(&f, 3);
	for (unsigned i = 0; i < 20000; i++) {
		struct dva d = take_one(&f, 8192, 0);
		sum[d.vdev] += d.asize;
	}
	/* 156 MiB of 256: each in the proportion of its size, give or take a turn of the rotor. */
	assert_in_range(sum[0] >> 20, 34, 44);
	assert_in_range(sum[1] >> 20, 34, 44);
	assert_in_range(sum[2] >> 20, 70, 86);
	fix_close(&f);
}

static void fast_writes_go_round_the_devices(void **state)
{
	struct fix f;
	struct dva d = {0}, last;

	fix_open(&f, 3);
	for (unsigned i = 0; i < 30; i++) {
		last = d;
		d = take_one(&f, 4096, ZIO_ALLOC_FASTWRITE);
		assert_true(i == 0 || d.vdev == (last.vdev + 1) % 3);
	}
	fix_close(&f);
}

static void a_block_may_be_put_near_another(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS], near = {.vdev = 1, .offset = 20 << 20, .asize = 4096};

	fix_open(&f, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(f.a ? take(&f, ZIO_CLASS_NORMAL, 1 << 20, 3, 0, d) : -1, 0);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(f.tp->zp.alloc->alloc(f.tp->zp.alloc_arg, ZIO_CLASS_NORMAL, 4096, 1, TXG, 0, &near, d),
				 0);
		assert_int_equal(d[0].vdev, 1);
	}
	fix_close(&f);
}

static void classes_have_their_devices_and_fall_back(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS];
	uint64_t taken = 0;

	fix_open_sized(&f, SMALL, 24);
	f.tp->root->child[0]->alloc_bias = "special";
	f.tp->root->child[1]->is_log = true;
	fix_start(&f, 3);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 1, 0, d), 0);
	assert_int_equal(d[0].vdev, 2);
	assert_int_equal(take(&f, ZIO_CLASS_SPECIAL, 4096, 1, 0, d), 0);
	assert_int_equal(d[0].vdev, 0);
	assert_int_equal(take(&f, ZIO_CLASS_DEDUP, 4096, 1, 0, d), 0); /* there is none */
	assert_int_equal(d[0].vdev, 0);
	assert_int_equal(take(&f, ZIO_CLASS_LOG, 4096, 1, ZIO_ALLOC_ZIL, d), 0);
	assert_int_equal(d[0].vdev, 1);
	/* A full class is followed by the next; a normal block never goes to the others. */
	while (take(&f, ZIO_CLASS_LOG, 1 << 20, 1, ZIO_ALLOC_ZIL, d) == 0 && d[0].vdev == 1)
		taken++;
	assert_int_equal(taken, 63);
	assert_int_equal(d[0].vdev, 0);
	while (take(&f, ZIO_CLASS_SPECIAL, 1 << 20, 1, 0, d) == 0 && d[0].vdev == 0)
		;
	assert_int_equal(d[0].vdev, 2);
	while (take(&f, ZIO_CLASS_NORMAL, 1 << 20, 1, 0, d) == 0)
		assert_int_equal(d[0].vdev, 2);
	while (take(&f, ZIO_CLASS_NORMAL, 4096, 1, 0, d) == 0)
		assert_int_equal(d[0].vdev, 2);
	assert_int_equal(take(&f, ZIO_CLASS_SPECIAL, 4096, 1, 0, d), 0); /* crumbs that 1 MiB left */
	assert_int_equal(d[0].vdev, 0);
	fix_close(&f);
}

static void small_data_leaves_room_for_metadata(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS];
	uint64_t taken = 0;

	fix_open_sized(&f, SMALL, 24);
	f.tp->root->child[0]->alloc_bias = "special";
	fix_start(&f, 2);
	while (take(&f, ZIO_CLASS_SPECIAL, 1 << 20, 1, ZIO_ALLOC_SMALL, d) == 0 && d[0].vdev == 0)
		taken++;
	assert_int_equal(d[0].vdev, 1);
	assert_in_range(taken, 47, 49);
	assert_int_equal(take(&f, ZIO_CLASS_SPECIAL, 1 << 20, 1, 0, d), 0);
	assert_int_equal(d[0].vdev, 0);
	fix_close(&f);
}

static void large_devices_set_a_metaslab_apart_for_logs(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS];
	struct alloc_space sp;

	fix_open_sized(&f, UINT64_C(70) << 20, 20); /* 70 metaslabs of 1 MiB */
	fix_start(&f, 1);
	alloc_top_space(f.a, f.tp->root->child[0], &sp);
	assert_int_equal(sp.embedded_log, 1 << 20);
	assert_int_equal(sp.size, 70 << 20);
	assert_int_equal(sp.usable, 69 << 20);
	assert_int_equal(sp.embedded_usable, 1 << 20);
	assert_int_equal(take(&f, ZIO_CLASS_LOG, 4096, 1, ZIO_ALLOC_ZIL, d), 0);
	uint64_t own = d[0].offset >> 20;
	for (unsigned i = 0; i < 69; i++) {
		assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 1 << 20, 1, 0, d), 0);
		assert_int_not_equal(d[0].offset >> 20, own);
	}
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 1, 0, d), -ENOSPC);
	assert_int_equal(take(&f, ZIO_CLASS_LOG, 4096, 1, ZIO_ALLOC_ZIL, d), 0);
	assert_int_equal(d[0].offset >> 20, own);
	fix_close(&f);
}

static void devices_that_take_nothing_are_passed_over(void **state)
{
	struct fix f;

	fix_open(&f, 3);
	f.tp->root->child[0]->noalloc = true;
	f.tp->root->child[1]->removing = true;
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(take_one(&f, 1 << 18, 0).vdev, 2);
	struct dva d[BP_DVAS];
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 2, 0, d), 0);
	assert_true(d[0].vdev == 2 && d[1].vdev == 2);
	fix_close(&f);
}

static void a_device_that_leaves_takes_no_more(void **state)
{
	struct fix f;
	struct dva d;

	fix_open(&f, 2);
	do
		d = take_one(&f, 1 << 20, 0);
	while (d.vdev != 1);
	assert_int_equal(alloc_drain_top(f.a, f.tp->root->child[1]), -EBUSY);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(take_one(&f, 1 << 20, 0).vdev, 0);
	f.tp->zp.alloc->unalloc(f.tp->zp.alloc_arg, &d, TXG);
	while (alloc_drain_top(f.a, f.tp->root->child[1]) && d.vdev == 1)
		d.vdev = 0; /* what else lies there stays */
	alloc_undrain_top(f.a, f.tp->root->child[1]);
	do
		d = take_one(&f, 1 << 20, 0);
	while (d.vdev != 1);
	fix_close(&f);
}

static void what_was_undone_can_be_had_again_at_once(void **state)
{
	struct fix f;
	struct dva d[64], one[BP_DVAS];

	fix_open_sized(&f, UINT64_C(16) << 20, 24);
	fix_start(&f, 1);
	for (unsigned i = 0; i < 64; i++)
		d[i] = take_one(&f, 1 << 18, 0);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 1, 0, one), -ENOSPC);
	f.tp->zp.alloc->unalloc(f.tp->zp.alloc_arg, &d[17], TXG);
	assert_int_equal(take_one(&f, 1 << 18, 0).offset, d[17].offset);
	/* But not what a log record may still point to. */
	f.tp->zp.alloc->free(f.tp->zp.alloc_arg, &d[18], TXG, TXG);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 1, 0, one), -ENOSPC);
	fix_close(&f);
}

static void who_may_not_wait_is_told_to_come_again(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS];
	struct err e = ERR_INIT;
	int err;

	fix_open_sized(&f, SMALL, 24);
	assert_int_equal(alloc_add_top(f.a, f.tp->root->child[0], &e), 0);
	/* Nothing is loaded yet: either it was faster, or we are told. */
	while ((err = take(&f, ZIO_CLASS_NORMAL, 4096, 1, ZIO_ALLOC_NOWAIT, d)) == -EAGAIN)
		assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 1, 0, d), 0);
	assert_int_equal(err, 0);
	fix_close(&f);
}

static void a_new_device_gives_nothing_before_it_may(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS];
	struct err e = ERR_INIT;

	fix_open_sized(&f, SMALL, 24);
	assert_int_equal(alloc_add_top_closed(f.a, f.tp->root->child[0], &e), 0);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 1, 0, d), -ENOSPC);
	alloc_undrain_top(f.a, f.tp->root->child[0]);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 1, 0, d), 0);
	fix_close(&f);
}

static void frees_of_what_is_free_are_survived(void **state)
{
	struct fix f;
	struct dva d = {.vdev = 0, .offset = 40 << 20, .asize = 8192};
	struct dva wrong[] = {
	    {.vdev = 9, .offset = 0, .asize = 4096},
	    {.vdev = 0, .offset = SMALL, .asize = 4096},
	    {.vdev = 0, .offset = UINT64_MAX - 4095, .asize = 4096},
	    {.vdev = 0, .offset = 512, .asize = 4096},
	    {.vdev = 0, .offset = 4096, .asize = 512},
	    {.vdev = 0, .offset = (16 << 20) - 4096, .asize = 8192},
	    {.vdev = 0, .offset = 0, .asize = 0},
	};

	log_set_level(LOG_LEVEL_ERROR);
	fix_open(&f, 1);
	assert_int_equal(f.tp->zp.alloc->claim(f.tp->zp.alloc_arg, &d, TXG), 0);
	assert_int_equal(f.tp->zp.alloc->claim(f.tp->zp.alloc_arg, &d, TXG), -ENOENT);
	f.tp->zp.alloc->free(f.tp->zp.alloc_arg, &d, TXG + 1, TXG);
	f.tp->zp.alloc->free(f.tp->zp.alloc_arg, &d, TXG + 1, TXG);
	d.offset += 4096;
	f.tp->zp.alloc->free(f.tp->zp.alloc_arg, &d, TXG + 2, TXG);
	d.offset -= 1 << 20;
	f.tp->zp.alloc->free(f.tp->zp.alloc_arg, &d, TXG, TXG);
	for (unsigned i = 0; i < ARRAY_LEN(wrong); i++) {
		f.tp->zp.alloc->free(f.tp->zp.alloc_arg, &wrong[i], TXG, TXG);
		assert_int_equal(f.tp->zp.alloc->claim(f.tp->zp.alloc_arg, &wrong[i], TXG), -EINVAL);
	}
	fix_close(&f);
}

static void ranges_that_are_trimmed_are_not_handed_out(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS];
	struct alloc_free_set *set;
	const struct range *r;

	fix_open_sized(&f, UINT64_C(32) << 20, 24);
	fix_start(&f, 1);
	d[0] = take_one(&f, 1 << 20, 0);
	uint64_t m = d[0].offset >> 24;
	assert_int_equal(alloc_free_take(f.a, f.tp->root->child[0], m, &set), 0);
	assert_int_equal(alloc_free_ranges(set)->space, 15 << 20);
	r = rangetree_first(alloc_free_ranges(set));
	assert_int_equal(r->start, (m << 24) + (1 << 20));
	for (unsigned i = 0; i < 16; i++)
		assert_int_not_equal(take_one(&f, 1 << 20, 0).offset >> 24, m);
	/* Room there will be, but not now. */
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 1, ZIO_ALLOC_NOWAIT, d), -EAGAIN);
	alloc_free_return(set);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 15 << 20, 1, ZIO_ALLOC_NOWAIT, d), 0);
	assert_int_equal(alloc_free_take(f.a, f.tp->root->child[0], 2, &set), -ENOENT);
	fix_close(&f);
}

static void *give_back_later(void *set)
{
	usleep(20000);
	alloc_free_return(set);
	return NULL;
}

static void who_may_wait_waits_for_the_trim(void **state)
{
	struct fix f;
	struct alloc_free_set *set;
	pthread_t thread;

	fix_open_sized(&f, UINT64_C(16) << 20, 24);
	fix_start(&f, 1);
	assert_int_equal(alloc_free_take(f.a, f.tp->root->child[0], 0, &set), 0);
	pthread_create(&thread, NULL, give_back_later, set);
	take_one(&f, 1 << 20, 0);
	pthread_join(thread, NULL);
	fix_close(&f);
}

static void a_device_that_grew_has_more_metaslabs(void **state)
{
	struct fix f;
	struct dva d[BP_DVAS];
	struct err e = ERR_INIT;
	unsigned n = 0;

	fix_open_sized(&f, UINT64_C(32) << 20, 24);
	fix_start(&f, 1);
	while (take(&f, ZIO_CLASS_NORMAL, 1 << 20, 1, 0, d) == 0)
		n++;
	assert_int_equal(n, 32);
	f.tp->root->child[0]->asize = (UINT64_C(63) << 20) + 12345;
	assert_int_equal(alloc_grow_top(f.a, f.tp->root->child[0], &e), 0);
	while (take(&f, ZIO_CLASS_NORMAL, 1 << 20, 1, 0, d) == 0)
		n++;
	assert_int_equal(n, 48);
	fix_close(&f);
}

static void some_blocks_gang_when_told_so(void **state)
{
	struct tunable *size = tunable_find("metaslab_force_ganging"),
		       *pct = tunable_find("metaslab_force_ganging_pct");
	struct fix f;
	struct dva d[BP_DVAS];
	struct err e = ERR_INIT;

	fix_open(&f, 1);
	assert_int_equal(tunable_set(size, 8192, &e), 0);
	assert_int_equal(tunable_set(pct, 100, &e), 0);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 8192, 1, 0, d), -ENOSPC);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 4096, 1, 0, d), 0);
	assert_int_equal(take(&f, ZIO_CLASS_NORMAL, 8192, 1, ZIO_ALLOC_GANG_HEADER, d), 0);
	assert_int_equal(take(&f, ZIO_CLASS_LOG, 8192, 1, ZIO_ALLOC_ZIL, d), 0);
	tunable_set(size, size->def, &e);
	tunable_set(pct, pct->def, &e);
	fix_close(&f);
}

static void metaslabs_too_large_for_us_are_refused(void **state)
{
	struct fix f;
	struct err e = ERR_INIT;

	fix_open_sized(&f, UINT64_C(1) << 46, 45);
	assert_int_equal(alloc_add_top(f.a, f.tp->root->child[0], &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "too large"));
	fix_close(&f);
}

struct worker {
	struct fix *f;
	pthread_t thread;
	struct dva dva[3000];
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct dva d[BP_DVAS];

	for (unsigned i = 0; i < ARRAY_LEN(w->dva); i++) {
		assert_int_equal(take(w->f, ZIO_CLASS_NORMAL, 4096 << i % 3, 1, 0, d), 0);
		w->dva[i] = d[0];
		if (i % 7 == 3) {
			w->f->tp->zp.alloc->unalloc(w->f->tp->zp.alloc_arg, &w->dva[i - 2], TXG);
			w->dva[i - 2].asize = 0;
		}
	}
	return NULL;
}

static void threads_never_get_the_same_space(void **state)
{
	static uint8_t used[TOPS][SMALL >> 12];
	static struct worker w[4];
	struct fix f;

	fix_open(&f, 3);
	for (unsigned i = 0; i < ARRAY_LEN(w); i++) {
		w[i].f = &f;
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	for (unsigned i = 0; i < ARRAY_LEN(w); i++)
		pthread_join(w[i].thread, NULL);
	for (unsigned i = 0; i < ARRAY_LEN(w); i++)
		for (unsigned j = 0; j < ARRAY_LEN(w[i].dva); j++)
			for (uint64_t s = 0; s < w[i].dva[j].asize; s += 4096)
				assert_int_equal(used[w[i].dva[j].vdev][(w[i].dva[j].offset + s) >> 12]++, 0);
	fix_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(copies_lie_on_distinct_devices),
	    cmocka_unit_test(copies_on_one_device_lie_in_distinct_metaslabs),
	    cmocka_unit_test(the_last_room_takes_copies_of_one_block),
	    cmocka_unit_test(blocks_of_a_kind_follow_each_other),
	    cmocka_unit_test(all_space_can_be_had),
	    cmocka_unit_test(devices_fill_evenly_and_by_their_size),
	    cmocka_unit_test(fast_writes_go_round_the_devices),
	    cmocka_unit_test(a_block_may_be_put_near_another),
	    cmocka_unit_test(classes_have_their_devices_and_fall_back),
	    cmocka_unit_test(small_data_leaves_room_for_metadata),
	    cmocka_unit_test(large_devices_set_a_metaslab_apart_for_logs),
	    cmocka_unit_test(devices_that_take_nothing_are_passed_over),
	    cmocka_unit_test(a_device_that_leaves_takes_no_more),
	    cmocka_unit_test(what_was_undone_can_be_had_again_at_once),
	    cmocka_unit_test(who_may_not_wait_is_told_to_come_again),
	    cmocka_unit_test(a_new_device_gives_nothing_before_it_may),
	    cmocka_unit_test(frees_of_what_is_free_are_survived),
	    cmocka_unit_test(ranges_that_are_trimmed_are_not_handed_out),
	    cmocka_unit_test(who_may_wait_waits_for_the_trim),
	    cmocka_unit_test(a_device_that_grew_has_more_metaslabs),
	    cmocka_unit_test(some_blocks_gang_when_told_so),
	    cmocka_unit_test(metaslabs_too_large_for_us_are_refused),
	    cmocka_unit_test(threads_never_get_the_same_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
