/* Transaction groups: their order, who waits for whom, the bound on dirty data. */
/* clang-format off: cmocka wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

#include <unistd.h>

#include "base/sync.h"
#include "dmu/dmu.h"

#define FIRST 4

struct fixture {
	struct txgs *txgs;
	atomic_uint_fast64_t last;            /* group of the last call of sync */
	atomic_uint_fast64_t made[TXG_SIZE];  /* changes of each group */
	atomic_uint_fast64_t total, synced;   /* changes, all and written */
	atomic_uint_fast64_t dirty[TXG_SIZE]; /* told to txg_dirty_add */
	atomic_bool block;                    /* sync waits */
	atomic_bool wrong;
};

static void fixture_sync(void *arg, uint64_t txg)
{
	struct fixture *f = arg;

	while (atomic_load(&f->block))
		usleep(100);
	if (txg != f->last + 1 || txg_syncing(f->txgs) != txg || txg_open(f->txgs) > txg + 2)
		f->wrong = true;
	f->last = txg;
	f->synced += atomic_exchange(&f->made[txg & TXG_MASK], 0);
	txg_dirty_done(f->txgs, txg, atomic_exchange(&f->dirty[txg & TXG_MASK], 0));
}

static void fixture_init(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->last = FIRST - 1;
	f->txgs = txgs_create(FIRST, fixture_sync, f);
	txgs_start(f->txgs);
}

static void change(struct fixture *f, struct tx *tx, uint64_t bytes)
{
	f->made[tx->txg & TXG_MASK]++;
	f->total++;
	f->dirty[tx->txg & TXG_MASK] += bytes;
	txg_dirty_add(f->txgs, tx->txg, bytes);
}

static void groups_are_synced_in_order_and_whole(void **state)
{
	struct fixture f;

	fixture_init(&f);
	for (unsigned i = 0; i < 50; i++) {
		struct tx tx = {.os = NULL};

		assert_int_equal(tx_begin_wait(f.txgs, &tx), 0);
		change(&f, &tx, 1000);
		tx_end(&tx);
		if (i % 10 == 9) {
			assert_int_equal(txg_wait_synced(f.txgs, tx.txg), 0);
			assert_int_equal(f.synced, f.total);
			assert_true(txg_last_synced(f.txgs) >= tx.txg);
		}
	}
	txgs_destroy(f.txgs);
	assert_int_equal(f.synced, f.total);
	assert_false(f.wrong);
}

static void a_group_waits_for_its_transactions_and_holds(void **state)
{
	struct fixture f;
	struct tx tx = {.os = NULL};

	fixture_init(&f);
	assert_int_equal(tx_begin_wait(f.txgs, &tx), 0);
	txg_hold_sync(f.txgs, tx.txg);
	txg_kick(f.txgs);
	usleep(20000);
	assert_int_equal(f.last, FIRST - 1);
	change(&f, &tx, 1);
	tx_end(&tx);
	usleep(20000);
	assert_int_equal(f.last, FIRST - 1);
	txg_release_sync(f.txgs, tx.txg);
	assert_int_equal(txg_wait_synced(f.txgs, tx.txg), 0);
	assert_int_equal(f.synced, 1);
	txgs_destroy(f.txgs);
	assert_false(f.wrong);
}

struct called {
	struct txg_wait w;
	atomic_int err; /* 1: not yet */
};

static void called_done(struct txg_wait *w, int err)
{
	container_of(w, struct called, w)->err = err;
}

static void callbacks_come_after_their_group(void **state)
{
	struct fixture f;
	struct called c = {.w = {.txg = FIRST + 1, .done = called_done}, .err = 1};

	fixture_init(&f);
	txg_when_synced(f.txgs, &c.w);
	assert_int_equal(txg_wait_synced(f.txgs, FIRST), 0);
	assert_int_equal(c.err, 1);
	assert_int_equal(txg_wait_synced(f.txgs, FIRST + 1), 0);
	while (c.err == 1)
		usleep(100);
	assert_int_equal(c.err, 0);
	c.err = 1;
	txg_when_synced(f.txgs, &c.w);
	assert_int_equal(c.err, 0);
	txgs_destroy(f.txgs);
}

static void *writer(void *arg)
{
	struct fixture *f = arg;

	for (unsigned i = 0; i < 500; i++) {
		struct tx tx = {.os = NULL};

		if (tx_begin_wait(f->txgs, &tx)) {
			f->wrong = true;
			return NULL;
		}
		change(f, &tx, 1 << 20);
		tx_end(&tx);
		if (txg_dirty_bytes(f->txgs) > tunable_get(&tunable_dirty_data_max) + (8 << 20))
			f->wrong = true;
	}
	return NULL;
}

static void dirty_data_is_bounded(void **state)
{
	struct fixture f;
	pthread_t thread[4];

	assert_int_equal(tunable_set(&tunable_dirty_data_max, 64 << 20, NULL), 0);
	fixture_init(&f);
	for (unsigned i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, writer, &f);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	txgs_destroy(f.txgs);
	assert_int_equal(f.total, 2000);
	assert_int_equal(f.synced, f.total);
	assert_false(f.wrong);
}

static void a_suspended_pool_lets_writers_wait_or_fail(void **state)
{
	struct fixture f;
	struct tx tx = {.os = NULL};
	pthread_t thread;

	fixture_init(&f);
	txgs_set_mode(f.txgs, TXGS_FAIL);
	assert_int_equal(tx_begin_wait(f.txgs, &tx), -EIO);
	txgs_set_mode(f.txgs, TXGS_WAIT);
	pthread_create(&thread, NULL, writer, &f);
	usleep(20000);
	assert_int_equal(f.total, 0);
	txgs_set_mode(f.txgs, TXGS_RUN);
	pthread_join(thread, NULL);
	assert_int_equal(f.total, 500);
	txgs_destroy(f.txgs);
	assert_false(f.wrong);
}

static void *wait_for_all(void *arg)
{
	struct fixture *f = arg;

	return txg_wait_synced(f->txgs, 0) == -EIO ? arg : NULL;
}

static void an_abandoned_pool_lets_everybody_go(void **state)
{
	struct fixture f;
	struct called c = {.w = {.txg = FIRST + 100, .done = called_done}, .err = 1};
	struct tx tx = {.os = NULL};
	pthread_t thread;
	void *result;

	fixture_init(&f);
	f.block = true;
	assert_int_equal(tx_begin_wait(f.txgs, &tx), 0);
	change(&f, &tx, 1);
	tx_end(&tx);
	txg_when_synced(f.txgs, &c.w);
	pthread_create(&thread, NULL, wait_for_all, &f);
	usleep(10000);
	txgs_abandon(f.txgs);
	pthread_join(thread, &result);
	assert_ptr_equal(result, &f);
	assert_int_equal(tx_begin_wait(f.txgs, &tx), -EIO);
	f.block = false;
	txgs_destroy(f.txgs);
	assert_int_equal(c.err, -EIO);
}

static int stingy_reserve(struct objset *os, struct tx *tx)
{
	unsigned *refusals = os->ops_arg;

	if (*refusals) {
		--*refusals;
		return -EAGAIN;
	}
	tx->reserved = tx->bytes;
	return 0;
}

static void stingy_unreserve(struct objset *os, struct tx *tx)
{
	assert_int_equal(tx->reserved, 77);
}

static void space_that_comes_with_a_later_group_is_waited_for(void **state)
{
	const struct objset_ops ops = {.reserve = stingy_reserve, .unreserve = stingy_unreserve};
	unsigned refusals = 2;
	struct objset os = {.ops = &ops, .ops_arg = &refusals};
	struct tx tx = {.os = &os, .bytes = 77};
	struct fixture f;

	fixture_init(&f);
	assert_int_equal(tx_begin_wait(f.txgs, &tx), 0);
	assert_true(tx.txg >= FIRST + 2);
	tx_end(&tx);
	refusals = 1000;
	assert_int_equal(tx_begin_wait(f.txgs, &tx), -ENOSPC);
	txgs_destroy(f.txgs);
}

static void the_first_group_can_be_filled_before_the_start(void **state)
{
	struct fixture f = {.last = FIRST - 1};
	struct tx tx = {.txg = FIRST, .syncing = true};

	f.txgs = txgs_create(FIRST, fixture_sync, &f);
	tx.txgs = f.txgs;
	change(&f, &tx, 10);
	txgs_start(f.txgs);
	assert_int_equal(txg_wait_synced(f.txgs, FIRST), 0);
	assert_int_equal(f.synced, 1);
	txgs_destroy(f.txgs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(groups_are_synced_in_order_and_whole),
	    cmocka_unit_test(a_group_waits_for_its_transactions_and_holds),
	    cmocka_unit_test(callbacks_come_after_their_group),
	    cmocka_unit_test(dirty_data_is_bounded),
	    cmocka_unit_test(a_suspended_pool_lets_writers_wait_or_fail),
	    cmocka_unit_test(an_abandoned_pool_lets_everybody_go),
	    cmocka_unit_test(space_that_comes_with_a_later_group_is_waited_for),
	    cmocka_unit_test(the_first_group_can_be_filled_before_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
