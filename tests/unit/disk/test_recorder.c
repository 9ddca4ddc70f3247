/* What the recorder says a crash can leave is what a device can leave: no more, no less. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/sync.h"
#include "disk/recorder.h"
#include "disk/testdisk.h"

#define SIZE   (UINT64_C(8) << 20)
#define SECTOR 512u

static void put(struct disk *d, uint64_t sector, uint8_t value)
{
	uint8_t b[SECTOR];

	memset(b, value, sizeof(b));
	assert_int_equal(disk_write(d, sector * SECTOR, b, sizeof(b)), 0);
}

static uint8_t get(struct disk *d, uint64_t sector)
{
	uint8_t b[SECTOR];

	assert_int_equal(disk_read(d, sector * SECTOR, b, sizeof(b)), 0);
	for (unsigned i = 1; i < SECTOR; i++)
		assert_int_equal(b[i], b[0]);
	return b[0];
}

static uint8_t get_after(struct crash *c, unsigned disk, uint64_t sector)
{
	struct disk *d = crash_open(c, disk);
	uint8_t v = get(d, sector);

	disk_close(d);
	return v;
}

/* Two disks; sector 1 written, flushed, written again; sector 2 written on both. */
static struct recorder *record_some(void)
{
	struct recorder *r = recorder_create(2, SIZE);
	struct disk *a = recorder_open(r, 0), *b = recorder_open(r, 1);

	put(a, 1, 1);
	put(b, 1, 11);
	assert_int_equal(disk_flush(a), 0);
	recorder_mark(r, 100);
	put(a, 1, 2);
	put(a, 2, 3);
	put(b, 2, 13);
	assert_int_equal(get(a, 1), 2);
	disk_close(a);
	disk_close(b);
	return r;
}

static void the_log_has_everything_in_order(void **state)
{
	static const enum record_kind kinds[] = {RECORD_WRITE, RECORD_WRITE, RECORD_FLUSH, RECORD_MARK,
						 RECORD_WRITE, RECORD_WRITE, RECORD_WRITE};
	struct recorder *r = record_some();

	assert_int_equal(recorder_len(r), ARRAY_LEN(kinds));
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		assert_int_equal(recorder_record(r, i)->kind, kinds[i]);
		assert_int_equal(recorder_record(r, i)->index, i);
	}
	assert_int_equal(recorder_record(r, 1)->disk, 1);
	assert_int_equal(recorder_record(r, 5)->offset, 2 * SECTOR);
	assert_int_equal(recorder_record(r, 5)->data[7], 3);
	recorder_destroy(r);
}

static void every_prefix_is_what_was_submitted(void **state)
{
	static const struct {
		uint8_t a1, a2, b1, b2;
		uint64_t mark;
	} want[] = {{0, 0, 0, 0, 0},    {1, 0, 0, 0, 0},    {1, 0, 11, 0, 0},   {1, 0, 11, 0, 0},
		    {1, 0, 11, 0, 100}, {2, 0, 11, 0, 100}, {2, 3, 11, 0, 100}, {2, 3, 11, 13, 100}};
	struct recorder *r = record_some();
	struct replay *re = replay_create(r);

	for (size_t at = 0; at < ARRAY_LEN(want); at++) {
		struct crash *c;

		replay_advance(re, at);
		assert_int_equal(replay_mark(re), want[at].mark);
		c = replay_crash(re, NULL);
		assert_int_equal(get_after(c, 0, 1), want[at].a1);
		assert_int_equal(get_after(c, 0, 2), want[at].a2);
		assert_int_equal(get_after(c, 1, 1), want[at].b1);
		assert_int_equal(get_after(c, 1, 2), want[at].b2);
		crash_destroy(c);
	}
	replay_destroy(re);
	recorder_destroy(r);
}

static void what_no_flush_confirmed_can_be_lost(void **state)
{
	const struct crash_variant lose = {.fate = crash_lose_all};
	struct recorder *r = record_some();
	struct replay *re = replay_create(r);
	struct crash *c;

	replay_advance(re, recorder_len(r));
	assert_int_equal(replay_unconfirmed(re), 4);
	c = replay_crash(re, &lose);
	assert_int_equal(get_after(c, 0, 1), 1);
	assert_int_equal(get_after(c, 0, 2), 0);
	assert_int_equal(get_after(c, 1, 1), 0); /* the flush was of the other disk */
	assert_int_equal(get_after(c, 1, 2), 0);
	crash_destroy(c);
	replay_destroy(re);
	recorder_destroy(r);
}

static enum crash_fate lose_third(void *arg, const struct record *w)
{
	return w->index == 4 ? CRASH_LOSE : CRASH_KEEP;
}

static void any_subset_can_be_chosen(void **state)
{
	const struct crash_variant v = {.fate = lose_third};
	struct recorder *r = record_some();
	struct replay *re = replay_create(r);
	struct crash *c;

	replay_advance(re, recorder_len(r));
	c = replay_crash(re, &v);
	assert_int_equal(get_after(c, 0, 1), 1);
	assert_int_equal(get_after(c, 0, 2), 3);
	assert_int_equal(get_after(c, 1, 2), 13);
	crash_destroy(c);
	replay_destroy(re);
	recorder_destroy(r);
}

static enum crash_fate tear_all(void *arg, const struct record *w)
{
	return CRASH_TEAR;
}

static void a_torn_write_leaves_some_of_its_sectors(void **state)
{
	struct recorder *r = recorder_create(1, SIZE);
	struct disk *d = recorder_open(r, 0);
	struct buf *b = buf_alloc(64 * SECTOR);
	unsigned kept = 0;

	memset(b->data, 7, b->size);
	assert_int_equal(disk_write(d, 0, b->data, b->size), 0);
	disk_close(d);
	struct replay *re = replay_create(r);
	replay_advance(re, 1);
	for (uint64_t seed = 0; seed < 8; seed++) {
		const struct crash_variant v = {.fate = tear_all, .seed = seed};
		struct crash *c = replay_crash(re, &v);

		for (unsigned i = 0; i < 64; i++)
			kept += get_after(c, 0, i) == 7;
		crash_destroy(c);
	}
	assert_in_range(kept, 8 * 64 / 4, 8 * 64 * 3 / 4);
	replay_destroy(re);
	recorder_destroy(r);
	buf_release(b);
}

struct held {
	struct disk_req req;
	struct iovec iov;
	struct waiter w;
};

static void held_done(struct disk_req *q, int err)
{
	waiter_done(&container_of(q, struct held, req)->w, err);
}

static void held_submit(struct held *h, struct disk *d, struct buf *b, uint8_t value)
{
	memset(b->data, value, SECTOR);
	h->iov = (struct iovec){b->data, SECTOR};
	h->req = (struct disk_req){.op = DISK_WRITE, .length = SECTOR, .iov = &h->iov, .niov = 1, .done = held_done};
	waiter_init(&h->w);
	disk_submit(d, &h->req);
}

/* Two writes of one sector: submitted one after another they keep their order, together they do not. */
static bool second_can_be_overtaken(bool together)
{
	struct recorder *r = recorder_create(1, SIZE);
	struct disk *d = recorder_open(r, 0);
	autobuf struct buf *b1 = buf_alloc(4096), *b2 = buf_alloc(4096);
	struct held h1, h2;
	bool seen = false;

	do {
		recorder_rebase(r);
		held_submit(&h1, d, b1, 1);
		if (!together)
			assert_int_equal(waiter_wait(&h1.w), 0);
		held_submit(&h2, d, b2, 2);
		if (together)
			assert_int_equal(waiter_wait(&h1.w), 0);
		assert_int_equal(waiter_wait(&h2.w), 0);
		/* the first may have completed before the second was submitted after all */
	} while (together && recorder_record(r, 0)->done < recorder_record(r, 1)->start);
	disk_close(d);
	struct replay *re = replay_create(r);
	replay_advance(re, 2);
	for (uint64_t seed = 0; seed < 64; seed++) {
		const struct crash_variant v = {.reorder = true, .seed = seed};
		struct crash *c = replay_crash(re, &v);

		seen |= get_after(c, 0, 0) == 1;
		crash_destroy(c);
	}
	replay_destroy(re);
	recorder_destroy(r);
	return seen;
}

static void only_what_was_under_way_together_is_reordered(void **state)
{
	assert_false(second_can_be_overtaken(false));
	assert_true(second_can_be_overtaken(true));
}

/* A flush says nothing about a write that was still under way when it was submitted. */
static void a_flush_confirms_what_had_completed_before_it(void **state)
{
	const struct crash_variant lose = {.fate = crash_lose_all};
	struct recorder *r = recorder_create(1, SIZE);
	struct disk *d = recorder_open(r, 0);
	autobuf struct buf *b = buf_alloc(4096);
	struct held write, flush;
	const struct record *w, *f = NULL;
	uint8_t value = 0;

	do { /* until the flush was submitted before the write had completed */
		recorder_rebase(r);
		held_submit(&write, d, b, ++value);
		flush.req = (struct disk_req){.op = DISK_FLUSH, .done = held_done};
		waiter_init(&flush.w);
		disk_submit(d, &flush.req);
		assert_int_equal(waiter_wait(&write.w), 0);
		assert_int_equal(waiter_wait(&flush.w), 0);
		w = recorder_record(r, 0);
		f = recorder_record(r, 1);
	} while (w->done < f->start);
	disk_close(d);
	struct replay *re = replay_create(r);
	replay_advance(re, 2);
	assert_int_equal(replay_unconfirmed(re), 1);
	struct crash *c = replay_crash(re, &lose);
	assert_int_not_equal(get_after(c, 0, 0), value);
	crash_destroy(c);
	replay_destroy(re);
	recorder_destroy(r);
}

static void a_rebase_makes_everything_durable(void **state)
{
	const struct crash_variant lose = {.fate = crash_lose_all};
	struct recorder *r = record_some();
	struct replay *re;
	struct crash *c;
	struct disk *d;

	recorder_rebase(r);
	assert_int_equal(recorder_len(r), 0);
	d = recorder_open(r, 1);
	assert_int_equal(get(d, 2), 13);
	put(d, 2, 14);
	disk_close(d);
	re = replay_create(r);
	replay_advance(re, 1);
	c = replay_crash(re, &lose);
	assert_int_equal(get_after(c, 0, 1), 2);
	assert_int_equal(get_after(c, 1, 2), 13);
	crash_destroy(c);
	replay_destroy(re);
	recorder_destroy(r);
}

static void crashed_disks_can_be_written_and_forget_it(void **state)
{
	struct recorder *r = record_some();
	struct replay *re = replay_create(r);
	struct crash *c;
	struct disk *d;

	replay_advance(re, 1);
	c = replay_crash(re, NULL);
	d = crash_open(c, 0);
	put(d, 1, 77);
	disk_close(d);
	assert_int_equal(get_after(c, 0, 1), 77);
	crash_destroy(c);
	c = replay_crash(re, NULL);
	assert_int_equal(get_after(c, 0, 1), 1);
	crash_destroy(c);
	replay_destroy(re);
	recorder_destroy(r);
}

static void discards_are_recorded_too(void **state)
{
	const struct crash_variant lose = {.fate = crash_lose_all};
	struct recorder *r = recorder_create(1, SIZE);
	struct disk *d = recorder_open(r, 0);
	struct held h = {.req = {.op = DISK_DISCARD, .length = 1 << 20, .done = held_done}};

	put(d, 1, 1);
	put(d, 2048, 2);
	recorder_rebase(r);
	waiter_init(&h.w);
	disk_submit(d, &h.req);
	assert_int_equal(waiter_wait(&h.w), 0);
	assert_int_equal(get(d, 1), 0);
	assert_int_equal(get(d, 2048), 2);
	disk_close(d);
	struct replay *re = replay_create(r);
	replay_advance(re, 1);
	struct crash *c = replay_crash(re, NULL);
	assert_int_equal(get_after(c, 0, 1), 0);
	crash_destroy(c);
	c = replay_crash(re, &lose);
	assert_int_equal(get_after(c, 0, 1), 1);
	crash_destroy(c);
	replay_destroy(re);
	recorder_destroy(r);
}

/* Random writes, flushes and crashes against a model that knows each sector's possible values. */
static void random_crashes_agree_with_a_model(void **state)
{
	enum { SECTORS = 64, STEPS = 400 };
	struct recorder *r = recorder_create(1, SIZE);
	struct disk *d = recorder_open(r, 0);
	uint8_t version[STEPS + 1][SECTORS] = {{0}};
	size_t durable[STEPS + 1] = {0}; /* the step whose contents are sure */

	srandom(7);
	for (unsigned i = 1; i <= STEPS; i++) {
		memcpy(version[i], version[i - 1], SECTORS);
		durable[i] = durable[i - 1];
		if (random() % 20 == 0) {
			assert_int_equal(disk_flush(d), 0);
			durable[i] = i;
		} else {
			unsigned at = random() % SECTORS;

			version[i][at] = (uint8_t)(1 + random() % 255);
			put(d, at, version[i][at]);
		}
	}
	disk_close(d);
	assert_int_equal(recorder_len(r), STEPS);
	struct replay *re = replay_create(r);
	for (unsigned at = 0; at <= STEPS; at++) {
		const struct crash_odds odds = {30, 30, at};
		const struct crash_variant v = {crash_by_odds, (void *)&odds, true, at};

		replay_advance(re, at);
		struct crash *c = replay_crash(re, &v);
		struct disk *cd = crash_open(c, 0);
		for (unsigned s = 0; s < SECTORS; s++) {
			uint8_t got = get(cd, s);
			bool possible = false;

			for (size_t i = durable[at]; i <= at; i++)
				possible |= version[i][s] == got;
			assert_true(possible);
		}
		disk_close(cd);
		crash_destroy(c);
	}
	replay_destroy(re);
	recorder_destroy(r);
}

static int open_recorded(void *arg, unsigned flags, struct disk **out, struct err *e)
{
	*out = recorder_open(arg, 1);
	return 0;
}

static void published_disks_are_opened_by_path(void **state)
{
	struct recorder *r = record_some();
	struct testdisk_path p = {.path = "/no/such/device", .open = open_recorded, .arg = r};
	struct disk *d;

	testdisk_publish(&p);
	assert_int_equal(disk_open("/no/such/device", DISK_RDWR, &d, NULL), 0);
	assert_int_equal(get(d, 2), 13);
	disk_close(d);
	testdisk_withdraw(&p);
	assert_int_equal(disk_open("/no/such/device", DISK_RDWR, &d, NULL), -ENOENT);
	recorder_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_log_has_everything_in_order),
	    cmocka_unit_test(every_prefix_is_what_was_submitted),
	    cmocka_unit_test(what_no_flush_confirmed_can_be_lost),
	    cmocka_unit_test(any_subset_can_be_chosen),
	    cmocka_unit_test(a_torn_write_leaves_some_of_its_sectors),
	    cmocka_unit_test(only_what_was_under_way_together_is_reordered),
	    cmocka_unit_test(a_flush_confirms_what_had_completed_before_it),
	    cmocka_unit_test(a_rebase_makes_everything_durable),
	    cmocka_unit_test(crashed_disks_can_be_written_and_forget_it),
	    cmocka_unit_test(discards_are_recorded_too),
	    cmocka_unit_test(random_crashes_agree_with_a_model),
	    cmocka_unit_test(published_disks_are_opened_by_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
