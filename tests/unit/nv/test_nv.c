/*
 * Name-value lists against the byte vectors of docs/format/01-pool.md, 1.7, and against damage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "nv/nv.h"

static const char xdr_hex[] =
    "01010000000000000000000100000020000000200000000178000000000000080000000100000000000000070000002000000020"
    "000000017300000000000009000000010000000268690000000000180000001800000001620000000000000100000000000000480000"
    "0030000000016e00000000000013000000010000000000000001000000200000002000000001790000000000000800000001"
    "00000000000000080000000000000000"
    "0000000000000000";
static const char native_hex[] =
    "000100000000000001000000200000000200000001000000080000007800000000000000070000000000000020000000020000000100000009"
    "0000007300000000000000686900000000000018000000020000000000000001000000620000000000000030000000020000000100000013"
    "0000006e00000000000000000000000100000000000000000000000000000000000000200000000200000001000000080000007900000000"
    "00000008000000000000000000000000000000";

static size_t unhex(const char *hex, uint8_t *out)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++) {
		unsigned v;

		sscanf(hex + 2 * i, "%2x", &v);
		out[i] = v;
	}
	return n;
}

static struct nvlist *example(void)
{
	struct nvlist *l = nvlist_create(), *n = nvlist_create();

	nvlist_add_u64(l, "x", 7);
	nvlist_add_string(l, "s", "hi");
	nvlist_add_boolean(l, "b");
	nvlist_add_u64(n, "y", 8);
	nvlist_take_list(l, "n", n);
	return l;
}

static void check_vector(const char *hex, enum nv_encoding enc, size_t size)
{
	uint8_t want[512];
	size_t n = unhex(hex, want), len;
	autonv struct nvlist *l = example(), *back = NULL;
	autofree void *data = NULL;
	struct nvlist *inner;
	const char *s;
	uint64_t v;

	assert_int_equal(n, size);
	assert_int_equal(nvlist_pack(l, enc, &data, &len), 0);
	assert_int_equal(len, size);
	assert_memory_equal(data, want, size);
	assert_int_equal(nvlist_unpack(want, size, &back, NULL), 0);
	assert_int_equal(nvlist_len(back), 4);
	assert_int_equal(nvlist_u64(back, "x", &v), 0);
	assert_int_equal(v, 7);
	assert_int_equal(nvlist_string(back, "s", &s), 0);
	assert_string_equal(s, "hi");
	assert_true(nvlist_bool(back, "b"));
	assert_int_equal(nvlist_list(back, "n", &inner), 0);
	assert_int_equal(nvlist_u64_or(inner, "y", 0), 8);
	assert_int_equal(nvlist_u64(back, "s", &v), -EINVAL);
	assert_int_equal(nvlist_u64(back, "nothing", &v), -ENOENT);
}

static void xdr_vector_is_read_and_written(void **state)
{
	check_vector(xdr_hex, NV_XDR, 180);
}

static void native_vector_is_read_and_written(void **state)
{
	check_vector(native_hex, NV_NATIVE, 188);
}

static struct nvlist *everything(void)
{
	struct nvlist *l = nvlist_create(), *a = example();
	const char *strings[] = {"ab", "cdefg"};
	const uint8_t bytes[] = {1, 2, 3, 4, 0xfe};
	const uint64_t words[] = {1, UINT64_MAX, 3};
	struct nvlist *lists[] = {a, a};

	nvlist_add_strings(l, "sa", strings, 2);
	nvlist_add_bytes(l, "by", bytes, 5);
	nvlist_add_u64s(l, "words", words, 3);
	nvlist_add_u64s(l, "none", NULL, 0);
	nvlist_add_lists(l, "lists", lists, 2);
	nvlist_add_lists(l, "nolists", NULL, 0);
	nvlist_add_boolean_value(l, "yes", true);
	nvlist_add_i64(l, "minus", -5);
	nvlist_destroy(a);
	return l;
}

static void every_kind_survives_a_round_trip(void **state)
{
	for (int enc = NV_NATIVE; enc <= NV_XDR; enc++) {
		autonv struct nvlist *l = everything(), *back = NULL;
		autofree void *data = NULL;
		struct str a = {0}, b = {0};
		size_t len;

		assert_int_equal(nvlist_pack(l, enc, &data, &len), 0);
		assert_int_equal(nvlist_unpack(data, len, &back, NULL), 0);
		nvlist_print(l, 0, &a);
		nvlist_print(back, 0, &b);
		assert_string_equal(str_get(&a), str_get(&b));
		assert_int_equal(nvlist_len(back), 8);
		str_free(&a);
		str_free(&b);
	}
}

static void xdr_values_are_the_chapters(void **state)
{
	uint8_t want[64];
	autonv struct nvlist *l = everything();
	autofree uint8_t *data = NULL;
	void *packed;
	size_t len, n = unhex("0000002c00000038000000027361000000000011000000020000000261620000"
			      "000000056364656667000000",
			      want);

	assert_int_equal(nvlist_pack(l, NV_XDR, &packed, &len), 0);
	data = packed;
	assert_memory_equal(data + 12, want, n);
	n = unhex("01020304fe000000", want);
	assert_non_null(memmem(data, len, want, n));
}

static void cut_and_flipped_lists_are_refused_or_read_but_never_crash(void **state)
{
	for (int enc = NV_NATIVE; enc <= NV_XDR; enc++) {
		autonv struct nvlist *l = everything();
		autofree void *data = NULL;
		size_t len;

		assert_int_equal(nvlist_pack(l, enc, &data, &len), 0);
		for (size_t cut = 0; cut < len; cut++) {
			struct nvlist *back = NULL;
			uint8_t *copy = malloc(cut ? cut : 1);

			memcpy(copy, data, cut);
			if (nvlist_unpack(copy, cut, &back, NULL) == 0)
				assert_true(cut + 4 >= len); /* the unused tail of an empty array (1.4) */
			nvlist_destroy(back);
			free(copy);
		}
		for (size_t bit = 0; bit < len * 8; bit++) {
			struct nvlist *back = NULL;

			((uint8_t *)data)[bit / 8] ^= 1u << (bit % 8);
			nvlist_unpack(data, len, &back, NULL);
			nvlist_destroy(back);
			((uint8_t *)data)[bit / 8] ^= 1u << (bit % 8);
		}
	}
}

static void deep_nesting_is_refused(void **state)
{
	struct nvlist *l = nvlist_create(), *back;
	autofree void *data = NULL;
	size_t len;

	for (int i = 0; i < 30; i++) {
		struct nvlist *outer = nvlist_create();

		nvlist_take_list(outer, "n", l);
		l = outer;
	}
	assert_int_equal(nvlist_pack(l, NV_XDR, &data, &len), 0);
	assert_int_equal(nvlist_unpack(data, len, &back, NULL), -EINVAL);
	nvlist_destroy(l);
}

static void names_stay_unique_in_long_lists(void **state)
{
	autonv struct nvlist *l = nvlist_create();
	char name[32];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 1000; i++) {
			snprintf(name, sizeof(name), "name%d", i);
			nvlist_add_u64(l, name, i + round);
		}
	}
	assert_int_equal(nvlist_len(l), 1000);
	assert_int_equal(nvlist_u64_or(l, "name77", 0), 78);
	assert_int_equal(nvlist_remove(l, "name77"), 0);
	assert_int_equal(nvlist_remove(l, "name77"), -ENOENT);
	assert_false(nvlist_exists(l, "name77"));
	assert_int_equal(nvlist_len(l), 999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(xdr_vector_is_read_and_written),
	    cmocka_unit_test(native_vector_is_read_and_written),
	    cmocka_unit_test(every_kind_survives_a_round_trip),
	    cmocka_unit_test(xdr_values_are_the_chapters),
	    cmocka_unit_test(cut_and_flipped_lists_are_refused_or_read_but_never_crash),
	    cmocka_unit_test(deep_nesting_is_refused),
	    cmocka_unit_test(names_stay_unique_in_long_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
