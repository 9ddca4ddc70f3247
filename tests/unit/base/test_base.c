/* Strings, errors, maps, byte order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/counter.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/os.h"
#include "base/str.h"

static void error_text_reads_from_the_outside_in(void **state)
{
	struct err e = ERR_INIT;

	assert_int_equal(err_set(&e, -ECKSUM, "label %d: %s", 0, err_words(-ECKSUM)), -ECKSUM);
	assert_int_equal(err_prefix(&e, -ECKSUM, "/dev/%s", "sdb"), -ECKSUM);
	err_hint(&e, "Try another label.");
	err_prefix(&e, -ECKSUM, "cannot import 'tank'");
	assert_string_equal(e.text, "cannot import 'tank': /dev/sdb: label 0: checksum mismatch\nTry another label.");
	assert_int_equal(e.code, -ECKSUM);
	assert_int_equal(err_set(NULL, -EIO, "x"), -EIO);
	assert_int_equal(err_prefix(NULL, -EIO, "x"), -EIO);
	err_hint(NULL, "x");
}

static void prefix_of_an_unset_error_says_what_the_code_means(void **state)
{
	struct err e = ERR_INIT;

	assert_int_equal(err_prefix(&e, -EIO, "cannot read"), -EIO);
	assert_string_equal(e.text, "cannot read: I/O error");
}

static void long_error_text_is_cut_never_overrun(void **state)
{
	struct err e = ERR_INIT;
	char longword[3000];

	memset(longword, 'a', sizeof(longword) - 1);
	longword[sizeof(longword) - 1] = '\0';
	err_set(&e, -EIO, "inner");
	err_prefix(&e, -EIO, "%s", longword);
	assert_true(strlen(e.text) < sizeof(e.text));
	err_set(&e, -EIO, "%s", longword);
	err_prefix(&e, -EIO, "outer");
	err_hint(&e, "%s", longword);
	assert_int_equal(strncmp(e.text, "outer: aaa", 10), 0);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
}

static void str_grows(void **state)
{
	struct str s = {0};

	assert_string_equal(str_get(&s), "");
	for (int i = 0; i < 1000; i++)
		str_addf(&s, "%03d,", i);
	str_add(&s, "end");
	str_add_bytes(&s, NULL, 0);
	assert_int_equal(s.len, 4003);
	assert_int_equal(strncmp(s.s + 3996, "999,end", 8), 0);
	str_free(&s);
	assert_null(s.s);
}

static void str_copy_cuts_and_says_so(void **state)
{
	char field[4];

	assert_true(str_copy(field, sizeof(field), "abc"));
	assert_string_equal(field, "abc");
	assert_false(str_copy(field, sizeof(field), "wxyz"));
	assert_string_equal(field, "wxy");
	assert_true(str_copy(field, sizeof(field), ""));
	assert_string_equal(field, "");
	assert_false(str_copy(field, 0, "a"));
}

static void strmap_finds_what_was_set(void **state)
{
	struct strmap *m = strmap_create();
	char key[32];

	for (size_t i = 1; i <= 1000; i++) {
		snprintf(key, sizeof(key), "pool/fs%zu", i);
		assert_null(strmap_set(m, key, (void *)i));
	}
	assert_int_equal(strmap_len(m), 1000);
	assert_ptr_equal(strmap_set(m, "pool/fs7", (void *)70), (void *)7);
	assert_ptr_equal(strmap_set(m, "pool/fs8", NULL), (void *)8);
	assert_null(strmap_set(m, "pool/fs8", NULL));
	assert_int_equal(strmap_len(m), 999);
	assert_null(strmap_get(m, "pool/fs8"));
	assert_null(strmap_get(m, ""));
	assert_ptr_equal(strmap_get(m, "pool/fs7"), (void *)70);
	assert_ptr_equal(strmap_get(m, "pool/fs1000"), (void *)1000);
	strmap_destroy(m);
}

static void integers_load_in_the_stated_order(void **state)
{
	const uint8_t b[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
	uint8_t out[8];

	assert_int_equal(load_le16(b + 1), 0x0201);
	assert_int_equal(load_be32(b + 1), 0x01020304);
	assert_int_equal(load_le64(b + 1), 0x0807060504030201);
	assert_int_equal(load64(b + 1, true), __builtin_bswap64(load_host64(b + 1)));
	store_be64(out, 0x0102030405060708);
	assert_memory_equal(out, b + 1, 8);
	swap32_buffer(out, 8);
	assert_int_equal(load_be64(out), 0x0403020108070605);
	swap16_buffer(out, 8);
	assert_int_equal(load_be64(out), 0x0304010207080506);
	swap64_buffer(out, 8);
	assert_int_equal(load_be64(out), 0x0605080702010403);
	assert_int_equal(bits64(0xf0, 4, 4), 0xf);
	assert_int_equal(bits64(UINT64_MAX, 0, 64), UINT64_MAX);
}

static void counters_and_histograms_add_up(void **state)
{
	static struct counter c;
	static struct histogram h;

	counter_add(&c, 3);
	counter_add(&c, 4);
	assert_int_equal(counter_read(&c), 7);
	histogram_add(&h, 0);
	histogram_add(&h, 1);
	histogram_add(&h, 1023);
	histogram_add(&h, 1024);
	assert_int_equal(h.bucket[0], 2);
	assert_int_equal(h.bucket[9], 1);
	assert_int_equal(h.bucket[10], 1);
	assert_true(now_ns() > 0);
}

struct item {
	struct list_node node;
	int v;
};

static void list_keeps_order_through_removal_and_splice(void **state)
{
	struct item it[4] = {{.v = 0}, {.v = 1}, {.v = 2}, {.v = 3}};
	struct list a, b;
	int seen = 0;

	list_init(&a);
	list_init(&b);
	list_append(&a, &it[1].node);
	list_prepend(&a, &it[0].node);
	list_append(&b, &it[2].node);
	list_append(&b, &it[3].node);
	list_splice(&a, &b);
	assert_true(list_is_empty(&b));
	assert_int_equal(a.len, 4);
	list_for_each_safe(&a, n) {
		assert_int_equal(container_of(n, struct item, node)->v, seen);
		seen++;
		list_remove(&a, n);
		assert_false(list_node_is_linked(n));
	}
	assert_int_equal(seen, 4);
	assert_null(list_pop(&a));
}

static void run_directory_comes_from_the_environment(void **state)
{
	char dir[] = "/tmp/tarn-unit-XXXXXX", path[64];

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a/b", dir);
	setenv("TARN_RUNDIR", path, 1);
	assert_string_equal(os_rundir(), path);
	assert_int_equal(os_rundir_make(), 0);
	assert_int_equal(os_dir_make(path), 0);
	assert_int_equal(access(path, W_OK), 0);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/a", dir);
	rmdir(path);
	rmdir(dir);
	assert_true(os_memory_bytes() > 1 << 20);
	assert_true(os_cpus() >= 1);
	assert_true(os_hostname()[0] != '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(error_text_reads_from_the_outside_in),
	    cmocka_unit_test(prefix_of_an_unset_error_says_what_the_code_means),
	    cmocka_unit_test(long_error_text_is_cut_never_overrun),
	    cmocka_unit_test(str_grows),
	    cmocka_unit_test(str_copy_cuts_and_says_so),
	    cmocka_unit_test(strmap_finds_what_was_set),
	    cmocka_unit_test(integers_load_in_the_stated_order),
	    cmocka_unit_test(counters_and_histograms_add_up),
	    cmocka_unit_test(list_keeps_order_through_removal_and_splice),
	    cmocka_unit_test(run_directory_comes_from_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
