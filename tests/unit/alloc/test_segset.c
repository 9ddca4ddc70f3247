/* Sets of segments against a plain map of sectors. */
/* clang-format off: cmocka wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
/* clang-format on */

#include "alloc/segset.h"

#define SPAN 4096

static uint32_t seed = 11;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(seed >> 4) * below >> 28);
}

/* The run of equal sectors from `at` on. */
static unsigned run_at(const uint8_t *m, unsigned at)
{
	unsigned end = at;

	while (end < SPAN && m[end] == m[at])
		end++;
	return end;
}

static void check_index(const struct segset *s, const uint8_t *m)
{
	unsigned count[SEGSET_BUCKETS] = {0}, largest = 0, space = 0;

	for (unsigned at = 0, end; at < SPAN; at = end) {
		end = run_at(m, at);
		if (!m[at])
			continue;
		space += end - at;
		largest = MAX(largest, end - at);
		count[31 - __builtin_clz(end - at)]++;
	}
	assert_int_equal(s->space, space);
	assert_int_equal(segset_largest(s), largest);
	for (unsigned b = 0; b < SEGSET_BUCKETS; b++) {
		assert_int_equal(s->index->count[b], count[b]);
		assert_int_equal(s->index->buckets >> b & 1, count[b] != 0);
	}
}

static void check_segments(const struct segset *s, const uint8_t *m)
{
	struct segset_iter it;
	uint64_t start, end;
	unsigned n = 0;

	segset_iter_init(&it, s);
	for (unsigned at = 0, to; at < SPAN; at = to) {
		to = run_at(m, at);
		if (!m[at])
			continue;
		assert_true(segset_iter_next(&it, &start, &end));
		assert_int_equal(start, at);
		assert_int_equal(end, to);
		n++;
	}
	assert_false(segset_iter_next(&it, &start, &end));
	assert_int_equal(segset_count(s), n);
}

static void check_search(const struct segset *s, const uint8_t *m)
{
	unsigned len = 1 + rnd(40), from = rnd(SPAN), best = UINT32_MAX, best_at = 0, first = UINT32_MAX;
	uint64_t got;

	for (unsigned at = 0, end; at < SPAN; at = end) {
		end = run_at(m, at);
		if (!m[at])
			continue;
		if (end - at >= len && end - at < best) {
			best = end - at;
			best_at = at;
		}
		if (first == UINT32_MAX && end > from && end - MAX(at, from) >= len)
			first = MAX(at, from);
	}
	assert_int_equal(segset_best_fit(s, len, &got), best != UINT32_MAX);
	if (best != UINT32_MAX)
		assert_int_equal(got, best_at);
	assert_int_equal(segset_first_fit(s, from, SEGSET_END, 0, len, &got), first != UINT32_MAX);
	if (first != UINT32_MAX)
		assert_int_equal(got, first);
}

static bool all_are(const uint8_t *m, unsigned a, unsigned b, uint8_t v)
{
	for (; a < b; a++)
		if (m[a] != v)
			return false;
	return true;
}

static void one_change(struct segset *s, uint8_t *m)
{
	unsigned a = rnd(SPAN), most = MIN(SPAN - a, 64), b = a + 1 + rnd(most), op = rnd(6);
	int err = 0;

	switch (op) {
	case 0:
	case 1:
		err = segset_add(s, a, b);
		assert_int_equal(err, all_are(m, a, b, 0) ? 0 : -EEXIST);
		break;
	case 2:
	case 3:
		err = segset_remove(s, a, b);
		assert_int_equal(err, all_are(m, a, b, 1) ? 0 : -ENOENT);
		break;
	case 4:
		segset_add_any(s, a, b);
		break;
	default:
		segset_remove_any(s, a, b);
	}
	if (err == 0)
		memset(m + a, op < 2 || op == 4, b - a);
	a = rnd(SPAN);
	b = a + 1 + rnd(SPAN - a);
	uint64_t from, to;
	assert_int_equal(segset_contains(s, a, b), all_are(m, a, b, 1));
	assert_int_equal(segset_overlap(s, a, b, &from, &to), !all_are(m, a, b, 0));
	if (!all_are(m, a, b, 0)) {
		assert_true(all_are(m, a, (unsigned)from, 0));
		assert_true(all_are(m, (unsigned)from, (unsigned)to, 1));
		assert_true(to == b || m[to] == 0);
	}
}

static void sets_agree_with_a_map_of_sectors(void **state)
{
	static uint8_t m[SPAN];
	struct segset s;

	(void)state;
	segset_init(&s, true);
	for (unsigned round = 0; round < 20000; round++) {
		one_change(&s, m);
		if (round % 50 == 0) {
			check_index(&s, m);
			check_segments(&s, m);
			check_search(&s, m);
		}
	}
	segset_clear(&s);
	memset(m, 0, sizeof(m));
	check_index(&s, m);
	segset_destroy(&s);
}

/* Allocations and frees in any order leave the difference, each sector on one side only. */
static void what_is_freed_and_allocated_cancels(void **state)
{
	static int8_t m[SPAN]; /* 1 allocated since, -1 freed since */
	static bool used[SPAN];
	static uint8_t want[SPAN];
	struct segset allocs = {0}, frees = {0};

	(void)state;
	for (unsigned i = 0; i < SPAN; i++)
		used[i] = rnd(2);
	for (unsigned round = 0; round < 5000; round++) {
		unsigned a = rnd(SPAN), b = a + 1;
		bool was = used[a];

		while (b < SPAN && b - a < 50 && used[b] == was)
			b++;
		assert_int_equal(segset_xor_add(was ? &frees : &allocs, was ? &allocs : &frees, a, b), 0);
		for (; a < b; a++) {
			used[a] = !was;
			m[a] += was ? -1 : 1;
		}
	}
	for (unsigned i = 0; i < SPAN; i++)
		want[i] = m[i] == 1;
	check_segments(&allocs, want);
	for (unsigned i = 0; i < SPAN; i++)
		want[i] = m[i] == -1;
	check_segments(&frees, want);
	segset_destroy(&allocs);
	segset_destroy(&frees);
}

static void what_is_changed_twice_the_same_way_is_refused(void **state)
{
	struct segset allocs = {0}, frees = {0};

	(void)state;
	assert_int_equal(segset_xor_add(&allocs, &frees, 10, 20), 0);
	assert_int_equal(segset_xor_add(&allocs, &frees, 15, 25), -EEXIST);
	assert_int_equal(segset_xor_add(&frees, &allocs, 12, 14), 0);
	assert_int_equal(segset_xor_add(&frees, &allocs, 5, 12), 0);
	assert_int_equal(allocs.space, 6);
	assert_int_equal(frees.space, 5);
	segset_destroy(&allocs);
	segset_destroy(&frees);
}

static void a_set_may_span_all_positions(void **state)
{
	struct segset s;
	uint64_t at;

	(void)state;
	segset_init(&s, true);
	assert_int_equal(segset_add(&s, 0, SEGSET_END), 0);
	assert_int_equal(segset_largest(&s), SEGSET_END);
	assert_int_equal(s.index->count[SEGSET_BUCKETS - 1], 1);
	assert_true(segset_best_fit(&s, SEGSET_END, &at));
	assert_false(segset_best_fit(&s, SEGSET_END + 1, &at));
	assert_int_equal(segset_remove(&s, SEGSET_END - 1, SEGSET_END), 0);
	assert_int_equal(segset_remove(&s, 0, 1), 0);
	assert_int_equal(s.space, SEGSET_END - 2);
	assert_false(segset_first_fit(&s, SEGSET_END - 1, SEGSET_END, 0, 1, &at));
	assert_int_equal(segset_add(&s, SEGSET_END - 1, SEGSET_END), 0);
	assert_true(segset_first_fit(&s, SEGSET_END - 1, SEGSET_END, 0, 1, &at));
	segset_destroy(&s);
}

static void a_search_ends_at_its_limits(void **state)
{
	struct segset s;
	uint64_t at;

	(void)state;
	segset_init(&s, true);
	for (unsigned i = 0; i < 100; i++)
		segset_add(&s, i * 10, i * 10 + 2);
	segset_add(&s, 2000, 2100);
	assert_false(segset_first_fit(&s, 5, 900, 0, 3, &at));
	assert_false(segset_first_fit(&s, 5, 0, 99, 3, &at));
	assert_true(segset_first_fit(&s, 5, 0, 100, 3, &at));
	assert_int_equal(at, 2000);
	assert_true(segset_first_fit(&s, 2050, 0, 0, 50, &at));
	assert_false(segset_first_fit(&s, 2051, 0, 0, 50, &at));
	segset_destroy(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sets_agree_with_a_map_of_sectors),
	    cmocka_unit_test(what_is_freed_and_allocated_cancels),
	    cmocka_unit_test(what_is_changed_twice_the_same_way_is_refused),
	    cmocka_unit_test(a_set_may_span_all_positions),
	    cmocka_unit_test(a_search_ends_at_its_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
