/* clang-format off: cmocka wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
/* clang-format on */

#include "alloc/spacemap.h"
#include "base/bytes.h"
#include "base/str.h"

static int print_entry(void *arg, const struct spacemap_entry *e)
{
	str_addf(arg, "%c%lx+%lx", e->free ? 'F' : 'A', (unsigned long)e->offset, (unsigned long)e->run);
	if (e->vdev != UINT64_MAX)
		str_addf(arg, "v%lu", (unsigned long)e->vdev);
	str_addf(arg, "@%lu.%u ", (unsigned long)e->txg, e->sync_pass);
	return 0;
}

static int decode(const uint64_t *words, size_t n, bool swap, uint64_t start, unsigned shift, struct str *out)
{
	uint64_t w[16];

	memcpy(w, words, n * 8);
	if (swap)
		swap64_buffer(w, n * 8);
	return spacemap_decode((uint8_t *)w, n * 8, swap, start, shift, print_entry, out);
}

#define DEBUG_WORD(action, pass, txg) (UINT64_C(2) << 62 | (uint64_t)(action) << 60 | (uint64_t)(pass) << 50 | (txg))
#define ONE_WORD(offset, free, run)   ((uint64_t)(offset) << 16 | (uint64_t)(free) << 15 | ((run)-1))

static void entries_of_every_form_are_decoded_in_both_orders(void **state)
{
	static const uint64_t words[] = {
	    DEBUG_WORD(0, 1, 77),
	    0,
	    ONE_WORD(5, 1, 32768),
	    UINT64_C(2) << 62, /* padding */
	    UINT64_C(3) << 62 | (UINT64_C(100000) - 1) << 24 | 3,
	    UINT64_C(1) << 63 | 0x1234,
	};

	(void)state;
	for (int swap = 0; swap < 2; swap++) {
		struct str out = {0};
		assert_int_equal(decode(words, ARRAY_LEN(words), swap, 0x1000, 9, &out), 0);
		assert_string_equal(out.s, "A1000+200@77.1 F1a00+1000000@77.1 F247800+30d4000v3@77.1 ");
		str_free(&out);
	}
}

static void entries_that_overflow_or_are_cut_are_refused(void **state)
{
	static const uint64_t cut[] = {UINT64_C(3) << 62}, far[] = {UINT64_C(3) << 62, UINT64_MAX >> 1};
	static const uint64_t wide[] = {UINT64_C(3) << 62 | UINT64_C(0xfffffffff) << 24, 0};
	struct str out = {0};

	(void)state;
	assert_int_equal(decode(cut, 1, false, 0, 9, &out), -EINVAL);
	assert_int_equal(decode(far, 2, false, 0, 9, &out), -EINVAL);
	assert_int_equal(decode(wide, 2, false, 0, 40, &out), -EINVAL);
	assert_int_equal(decode(wide, 2, false, 0, 64, &out), -EINVAL);
	assert_int_equal(decode(wide, 2, false, 0, 9, &out), 0);
	str_free(&out);
}

static void put(struct spacemap_encoder *e, bool free, uint64_t offset, uint64_t run)
{
	spacemap_encode(e, free, offset, run);
}

static void expect(struct spacemap_encoder *e, const char *want)
{
	struct str out = {0};

	assert_int_equal(spacemap_decode((uint8_t *)e->word, e->n * 8, false, 0, 0, print_entry, &out), 0);
	assert_string_equal(out.s, want);
	str_free(&out);
	e->at += e->n * 8;
	e->n = 0;
}

static void runs_are_written_in_the_shortest_form(void **state)
{
	struct spacemap_encoder e = {.blocksize = 512, .two_words = false, .vdev = UINT64_MAX};

	(void)state;
	spacemap_encode_debug(&e, true, 3, 99);
	put(&e, true, 5, 1);
	assert_int_equal(e.n, 2);
	expect(&e, "F5+1@99.3 ");
	put(&e, false, 0x10, 0x8000 * 2 + 1);
	assert_int_equal(e.n, 3);
	expect(&e, "A10+8000@0.0 A8010+8000@0.0 A10010+1@0.0 ");
	e.two_words = true;
	put(&e, false, 0x10, 0x8000);
	assert_int_equal(e.n, 1);
	expect(&e, "A10+8000@0.0 ");
	put(&e, false, 0x10, 0x8001);
	assert_int_equal(e.n, 2);
	expect(&e, "A10+8001v0@0.0 ");
	put(&e, true, UINT64_C(1) << 47, 1);
	assert_int_equal(e.n, 2);
	expect(&e, "F800000000000+1v0@0.0 ");
	put(&e, true, 7, (UINT64_C(1) << 36) + 2);
	assert_int_equal(e.n, 4);
	expect(&e, "F7+1000000000v0@0.0 F1000000007+2v0@0.0 ");
	e.vdev = 12;
	put(&e, true, 7, 2);
	assert_int_equal(e.n, 2);
	expect(&e, "F7+2v12@0.0 ");
	free(e.word);
}

static void two_words_stay_in_one_block(void **state)
{
	struct spacemap_encoder e = {.at = 512 - 16, .blocksize = 512, .two_words = true, .vdev = 1};

	(void)state;
	put(&e, false, 1, 1);
	assert_int_equal(e.n, 2);
	expect(&e, "A1+1v1@0.0 ");
	e.at = 512 - 8;
	put(&e, false, 1, 1);
	assert_int_equal(e.n, 3);
	assert_int_equal(e.word[0], UINT64_C(2) << 62);
	expect(&e, "A1+1v1@0.0 ");
	free(e.word);
}

/* The example of 7.3: 9 children, d4 p1 S2, ashift 12, metaslab shift 27. */
static void metaslabs_of_draid_are_whole_rows(void **state)
{
	autonv struct nvlist *nv = nvlist_create();
	struct nvlist *leaf[9];
	struct vdev *vd;
	uint64_t start, size;

	(void)state;
	nvlist_add_string(nv, "type", "draid");
	nvlist_add_u64(nv, "guid", 1);
	nvlist_add_u64(nv, "ashift", 12);
	nvlist_add_u64(nv, "asize", 1509949440);
	nvlist_add_u64(nv, "metaslab_shift", 27);
	nvlist_add_u64(nv, "nparity", 1);
	nvlist_add_u64(nv, "draid_ndata", 4);
	nvlist_add_u64(nv, "draid_nspares", 2);
	nvlist_add_u64(nv, "draid_ngroups", 7);
	for (unsigned i = 0; i < 9; i++) {
		leaf[i] = nvlist_create();
		nvlist_add_string(leaf[i], "type", "disk");
		nvlist_add_u64(leaf[i], "guid", 2 + i);
	}
	nvlist_add_lists(nv, "children", leaf, 9);
	for (unsigned i = 0; i < 9; i++)
		nvlist_destroy(leaf[i]);
	assert_int_equal(vdev_tree_create(nv, &vd, NULL), 0);
	assert_int_equal(vdev_min_alloc(vd), 4 << 12);
	metaslab_bounds(vd, 1, &start, &size);
	assert_int_equal(start, 0x8002000);
	assert_int_equal(size % (5 << 12), 0);
	assert_in_range(start + size, 0x10000000 - (5 << 12) + 1, 0x10000000);
	vdev_tree_destroy(vd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(entries_of_every_form_are_decoded_in_both_orders),
	    cmocka_unit_test(entries_that_overflow_or_are_cut_are_refused),
	    cmocka_unit_test(runs_are_written_in_the_shortest_form),
	    cmocka_unit_test(two_words_stay_in_one_block),
	    cmocka_unit_test(metaslabs_of_draid_are_whole_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
