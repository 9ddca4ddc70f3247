/* NFSv4 ACLs in every stored form (docs/format/07-filesystem-zvol-zil.md, 5.1, 5.2, 2.9). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zpl/zpl.h"

static void put(uint8_t *p, uint64_t v, unsigned bytes, bool swap)
{
	if (bytes == 2)
		store_host16(p, swap ? __builtin_bswap16(v) : v);
	else if (bytes == 4)
		store_host32(p, swap ? __builtin_bswap32(v) : v);
	else
		store_host64(p, swap ? __builtin_bswap64(v) : v);
}

static uint8_t *put_v1(uint8_t *p, unsigned type, unsigned flags, uint32_t mask, uint64_t who, size_t size, bool swap)
{
	memset(p, 0, size);
	put(p, type, 2, swap);
	put(p + 2, flags, 2, swap);
	put(p + 4, mask, 4, swap);
	if (size > 8)
		put(p + 8, who, 8, swap);
	return p + size;
}

static void set(struct znode *zn, enum sa_attr a, const uint8_t *p, size_t len, bool swap)
{
	zn->sa.attr[a].data = p;
	zn->sa.attr[a].len = len;
	zn->sa.attr[a].swap = swap;
}

/* Whatever the error, there is nothing to free and nothing to look at. */
static void get_fails(struct znode *zn, int want)
{
	struct zpl_ace *aces = (struct zpl_ace *)1;
	size_t n = 1;

	assert_int_equal(zpl_acl_get(zn, &aces, &n), want);
	assert_null(aces);
	assert_int_equal(n, 0);
}

static void check_v1(bool swap)
{
	uint8_t b[256], *end = b;
	struct znode zn = {0};
	struct zpl_ace *aces;
	size_t n;

	end = put_v1(end, 0, 0x1000, 0x1E01FF, 0, 8, swap);
	end = put_v1(end, 1, 0x40, 0x20, UINT64_C(0x100000032), 16, swap);
	end = put_v1(end, 5, 0x1000, 0x1, 7, 48, swap); /* object entries have two GUIDs and a who */
	end = put_v1(end, 0, 0x4000, 0x1200A9, 0, 8, swap);
	set(&zn, SA_DACL_ACES, b, (size_t)(end - b), swap);
	assert_int_equal(zpl_acl_get(&zn, &aces, &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(aces[0].access_mask, 0x1E01FF);
	assert_int_equal(aces[1].who, UINT64_C(0x100000032));
	assert_int_equal(aces[1].type, 1);
	assert_int_equal(aces[2].type, 5);
	assert_int_equal(aces[3].flags, 0x4000);
	free(aces);
	/* cut anywhere but between entries */
	for (size_t cut = 1; cut < (size_t)(end - b); cut++) {
		zn.sa.attr[SA_DACL_ACES].len = cut;
		if (cut != 8 && cut != 24 && cut != 72) {
			get_fails(&zn, -EIO);
			continue;
		}
		assert_int_equal(zpl_acl_get(&zn, &aces, &n), 0);
		free(aces);
	}
}

static void entries_of_version_1_decode_in_both_orders(void **state)
{
	check_v1(false);
	check_v1(true);
}

static void check_v0(bool swap)
{
	uint8_t b[88] = {0};
	struct znode zn = {.sa.is_legacy = true};
	struct zpl_ace *aces;
	size_t n;

	put(b + 8, 2, 4, swap); /* entries */
	put(b + 14, 24, 2, swap);
	put(b + 16 + 12, 1001, 4, swap);
	put(b + 16 + 16, 0x6, 4, swap);
	put(b + 16 + 20, 0x40, 2, swap);
	put(b + 16 + 22, 1, 2, swap);
	set(&zn, SA_ZNODE_ACL, b, sizeof(b), swap);
	assert_int_equal(zpl_acl_get(&zn, &aces, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(aces[1].who, 1001);
	assert_int_equal(aces[1].access_mask, 6);
	assert_int_equal(aces[1].flags, 0x40);
	assert_int_equal(aces[1].type, 1);
	free(aces);
	put(b + 8, 7, 4, swap); /* more than fit, and no other object */
	get_fails(&zn, -EIO);
	put(b + 8, UINT32_MAX, 4, swap);
	get_fails(&zn, -EIO);
	put(b + 8, 0, 4, swap);
	get_fails(&zn, -ENOENT);
	put(b + 12, 2, 2, swap); /* unknown version */
	get_fails(&zn, -EIO);
}

static void entries_of_version_0_decode_in_both_orders(void **state)
{
	check_v0(false);
	check_v0(true);
}

static void a_file_without_a_list_says_so(void **state)
{
	struct znode zn = {0};

	get_fails(&zn, -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(entries_of_version_1_decode_in_both_orders),
	    cmocka_unit_test(entries_of_version_0_decode_in_both_orders),
	    cmocka_unit_test(a_file_without_a_list_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
