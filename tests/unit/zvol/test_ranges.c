/* Ranges that are being changed: overlapping ones one after another, in the order in which they came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "zvol/zvol_impl.h"

struct job {
	struct zvol_range range;
	bool runs;
	unsigned at; /* when it was granted */
};
static unsigned clock_;

static void granted(struct zvol_range *r)
{
	struct job *j = container_of(r, struct job, range);

	assert_false(j->runs);
	j->runs = true;
	j->at = ++clock_;
}

static void enter(struct zvol_ranges *rs, struct job *j, uint64_t start, uint64_t end)
{
	*j = (struct job){.range = {.start = start, .end = end, .granted = granted}};
	if (zvol_range_enter(rs, &j->range))
		granted(&j->range);
}

static void leave(struct zvol_ranges *rs, struct job *j)
{
	assert_true(j->runs);
	j->runs = false;
	zvol_range_leave(rs, &j->range);
}

static void neighbours_do_not_wait(void **state)
{
	struct zvol_ranges rs;
	struct job a, b, c;

	zvol_ranges_init(&rs);
	enter(&rs, &a, 0, 10);
	enter(&rs, &b, 10, 20);
	enter(&rs, &c, 20, UINT64_MAX);
	assert_true(a.runs && b.runs && c.runs);
	leave(&rs, &b);
	leave(&rs, &a);
	leave(&rs, &c);
	zvol_ranges_fini(&rs);
}

static void who_overlaps_waits_in_order(void **state)
{
	struct zvol_ranges rs;
	struct job a, b, c, d, e;

	zvol_ranges_init(&rs);
	enter(&rs, &a, 10, 20);
	enter(&rs, &b, 19, 30);
	enter(&rs, &c, 25, 40); /* only b, which waits, is in its way */
	enter(&rs, &d, 0, 100);
	enter(&rs, &e, 100, 101);
	assert_true(a.runs && !b.runs && !c.runs && !d.runs && e.runs);
	leave(&rs, &a);
	assert_true(b.runs && !c.runs && !d.runs);
	leave(&rs, &b);
	assert_true(c.runs && !d.runs);
	leave(&rs, &c);
	assert_true(d.runs);
	leave(&rs, &e);
	leave(&rs, &d);
	zvol_ranges_fini(&rs);
}

/* Against a table of who owns each byte. */
static void many_ranges(void **state)
{
	enum { JOBS = 64, BYTES = 100, ROUNDS = 20000 };
	struct job *owner[BYTES] = {NULL}, job[JOBS];
	bool used[JOBS] = {false}, told[JOBS] = {false};
	struct zvol_ranges rs;
	uint32_t seed = 1;

	zvol_ranges_init(&rs);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned n = (seed = seed * 1664525 + 1013904223) >> 26;

		if (!used[n]) {
			uint64_t start = (seed >> 8) % BYTES, len = 1 + (seed >> 16) % 8;

			enter(&rs, &job[n], start, MIN(start + len, (uint64_t)BYTES));
			used[n] = true;
			told[n] = false;
		} else if (job[n].runs) {
			for (uint64_t i = job[n].range.start; i < job[n].range.end; i++)
				owner[i] = NULL;
			leave(&rs, &job[n]);
			used[n] = false;
		}
		for (unsigned k = 0; k < JOBS; k++) {
			if (!used[k] || !job[k].runs || told[k])
				continue;
			told[k] = true;
			for (uint64_t i = job[k].range.start; i < job[k].range.end; i++) {
				assert_null(owner[i]);
				owner[i] = &job[k];
			}
		}
	}
	for (unsigned left = JOBS; left;) {
		left = 0;
		for (unsigned k = 0; k < JOBS; k++) {
			left += used[k];
			if (used[k] && job[k].runs) {
				leave(&rs, &job[k]);
				used[k] = false;
			}
		}
	}
	zvol_ranges_fini(&rs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(neighbours_do_not_wait),
	    cmocka_unit_test(who_overlaps_waits_in_order),
	    cmocka_unit_test(many_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
