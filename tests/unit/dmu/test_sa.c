/* Attribute buffers by the rules of docs/format/07-filesystem-zvol-zil.md, section 2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dmu/sa.h"

static struct sa_os *so;

/* "file, directory, fifo, socket" and the symlink of 2.8, with two variable attributes in the latter. */
static const uint16_t file_layout[] = {5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19};
static const uint16_t link_layout[] = {5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19, 17};
static const uint16_t foreign_layout[] = {5, 200};

static int setup(void **state)
{
	struct objset os = {0};

	assert_int_equal(sa_os_open(&os, 0, &so, NULL), 0);
	sa_os_define(so, 16, "ZPL_DACL_COUNT", 8, 0);
	sa_os_define(so, 17, "ZPL_SYMLINK", 0, 3);
	sa_os_define(so, 19, "ZPL_DACL_ACES", 0, 4);
	sa_os_define(so, 21, "ZPL_PROJID", 8, 0);
	sa_os_define(so, 5, "ZPL_SIZE", 4, 0); /* fixed numbers do not change */
	sa_os_layout(so, 2, file_layout, ARRAY_LEN(file_layout));
	sa_os_layout(so, 3, link_layout, ARRAY_LEN(link_layout));
	sa_os_layout(so, 4, foreign_layout, ARRAY_LEN(foreign_layout));
	return 0;
}

static int teardown(void **state)
{
	sa_os_close(so);
	return 0;
}

static struct dnode dnode_make(unsigned bonustype, uint8_t *bonus, size_t len, bool swapped)
{
	struct dnode dn = {.bonustype = bonustype, .bonuslen = len, .bonus = bonus, .swapped = swapped};

	atomic_init(&dn.refs, 1000); /* never the last */
	return dn;
}

static void put(uint8_t *p, uint64_t v, unsigned bytes, bool swap)
{
	if (bytes == 2)
		store_host16(p, swap ? __builtin_bswap16(v) : v);
	else if (bytes == 4)
		store_host32(p, swap ? __builtin_bswap32(v) : v);
	else
		store_host64(p, swap ? __builtin_bswap64(v) : v);
}

/* A file's bonus: words 1, 2, 3, ... in order, so that each attribute shows where it was found. */
static size_t file_bonus(uint8_t *b, unsigned layout, unsigned header, const uint16_t *lens, unsigned nlens,
			 size_t body, bool swap)
{
	memset(b, 0, 512);
	put(b, 0x2F505A, 4, swap);
	put(b + 4, layout | header / 8 << 10, 2, swap);
	for (unsigned i = 0; i < nlens; i++)
		put(b + 6 + 2 * i, lens[i], 2, swap);
	for (size_t i = 0; i + 8 <= body; i += 8)
		put(b + header + i, i / 8 + 1, 8, swap);
	return header + body;
}

static void check_file(bool swap)
{
	uint8_t b[512];
	const uint16_t lens[] = {24};
	size_t len = file_bonus(b, 2, 8, lens, 1, 168, swap);
	struct dnode dn = dnode_make(44, b, len, swap);
	const uint8_t *p;
	struct sa sa;
	uint64_t v;
	int64_t tv[2];
	uint32_t n;

	assert_int_equal(sa_open(so, &dn, &sa), 0);
	assert_int_equal(sa_u64(&sa, SA_MODE, &v), 0);
	assert_int_equal(v, 1);
	assert_int_equal(sa_u64(&sa, SA_FLAGS, &v), 0);
	assert_int_equal(v, 7);
	assert_int_equal(sa_time(&sa, SA_MTIME, tv), 0);
	assert_int_equal(tv[0], 10);
	assert_int_equal(tv[1], 11);
	assert_int_equal(sa_u64(&sa, SA_PROJID, &v), 0);
	assert_int_equal(v, 17); /* at offset 128 */
	assert_int_equal(sa_bytes(&sa, SA_DACL_ACES, &p, &n), 0);
	assert_int_equal(n, 24);
	assert_ptr_equal(p, b + 8 + 144);
	assert_int_equal(sa_u64(&sa, SA_XATTR, &v), -ENOENT);
	sa_close(&sa);
}

static void attributes_are_found_in_both_byte_orders(void **state)
{
	check_file(false);
	check_file(true);
}

static void two_variable_attributes_have_their_lengths(void **state)
{
	uint8_t b[512];
	const uint16_t lens[] = {20, 5};
	size_t len = file_bonus(b, 3, 16, lens, 2, 128 + 8 + 24 + 5, false);
	struct dnode dn = dnode_make(44, b, len, false);
	const uint8_t *p;
	struct sa sa;
	uint32_t n;

	assert_int_equal(sa_open(so, &dn, &sa), 0);
	assert_int_equal(sa_bytes(&sa, SA_SYMLINK, &p, &n), 0);
	assert_int_equal(n, 5);
	assert_ptr_equal(p, b + 16 + 128 + 8 + 24); /* R8 of the 20 bytes before */
	sa_close(&sa);
}

static void damaged_buffers_are_refused(void **state)
{
	uint8_t b[512];
	const uint16_t lens[] = {24}, toolong[] = {400};
	size_t len = file_bonus(b, 2, 8, lens, 1, 168, false);
	struct dnode dn = dnode_make(44, b, len, false);
	struct sa sa;

	for (size_t cut = 0; cut < len; cut++) {
		dn.bonuslen = cut;
		assert_int_equal(sa_open(so, &dn, &sa), -EIO);
	}
	dn.bonuslen = file_bonus(b, 2, 8, toolong, 1, 168, false);
	assert_int_equal(sa_open(so, &dn, &sa), -EIO);
	dn.bonuslen = file_bonus(b, 900, 8, lens, 1, 168, false); /* unknown layout */
	assert_int_equal(sa_open(so, &dn, &sa), -EIO);
	dn.bonuslen = file_bonus(b, 4, 8, lens, 1, 168, false); /* attribute without registration */
	assert_int_equal(sa_open(so, &dn, &sa), -EIO);
	dn.bonuslen = file_bonus(b, 3, 8, lens, 1, 168, false); /* header too short for two lengths */
	assert_int_equal(sa_open(so, &dn, &sa), -EIO);
	put(b, 0, 4, false);
	assert_int_equal(sa_open(so, &dn, &sa), -EIO);
	dn.bonustype = 12;
	assert_int_equal(sa_open(so, &dn, &sa), -EINVAL);
}

static void layout_zero_means_no_attributes(void **state)
{
	uint8_t b[512];
	size_t len = file_bonus(b, 0, 8, NULL, 0, 168, false);
	struct dnode dn = dnode_make(44, b, len, false);
	struct sa sa;
	uint64_t v;

	assert_int_equal(sa_open(so, &dn, &sa), 0);
	assert_int_equal(sa_u64(&sa, SA_MODE, &v), -ENOENT);
	sa_close(&sa);
}

static void check_legacy(bool swap)
{
	uint8_t b[320] = {0};
	struct dnode dn = dnode_make(17, b, sizeof(b), swap);
	const uint8_t *p;
	struct sa sa;
	int64_t tv[2];
	uint64_t v;
	uint32_t n;

	put(b + 16, (uint64_t)-5, 8, swap); /* mtime before 1970 */
	put(b + 64, 77, 8, swap);           /* gen */
	put(b + 72, 0120777, 8, swap);      /* mode */
	put(b + 80, 6, 8, swap);            /* size */
	put(b + 136, 50, 8, swap);          /* gid */
	memcpy(b + 264, "target", 6);
	assert_int_equal(sa_open(so, &dn, &sa), 0);
	assert_true(sa.is_legacy);
	assert_int_equal(sa_time(&sa, SA_MTIME, tv), 0);
	assert_int_equal(tv[0], -5);
	assert_int_equal(sa_u64(&sa, SA_GEN, &v), 0);
	assert_int_equal(v, 77);
	assert_int_equal(sa_u64(&sa, SA_GID, &v), 0);
	assert_int_equal(v, 50);
	assert_int_equal(sa_bytes(&sa, SA_ZNODE_ACL, &p, &n), 0);
	assert_int_equal(n, 88);
	assert_int_equal(sa_bytes(&sa, SA_SYMLINK, &p, &n), 0);
	assert_int_equal(n, 6);
	assert_memory_equal(p, "target", 6);
	sa_close(&sa);
	dn.bonuslen = 263;
	assert_int_equal(sa_open(so, &dn, &sa), -EIO);
}

static void legacy_znodes_answer_like_others(void **state)
{
	check_legacy(false);
	check_legacy(true);
}

/* By 5.1 and 5.2; GUIDs are bytes. */
static size_t ace_make(uint8_t *p, unsigned type, unsigned flags, bool swap)
{
	unsigned who = flags & 0x7040;
	size_t len = type >= 5 && type <= 8                                          ? 48
		     : type < 2 && (who == 0x1000 || who == 0x2040 || who == 0x4000) ? 8
										     : 16;

	for (unsigned i = 0; i < 48; i++)
		p[i] = (uint8_t)(type + i);
	put(p, type, 2, swap);
	put(p + 2, flags, 2, swap);
	put(p + 4, 0x12345678, 4, swap);
	if (len > 8)
		put(p + 8, 0x1122334455667788, 8, swap);
	return len;
}

static void access_control_entries_of_every_kind_are_turned(void **state)
{
	static const unsigned flags[] = {0, 0x1000, 0x2000, 0x2040, 0x40, 0x4000, 0x3040, 0x1003};
	uint8_t ours[0x11 * 8 * 48 + 48], theirs[sizeof(ours)];
	size_t len = 0;

	for (unsigned type = 0; type <= 0x10; type++)
		for (unsigned i = 0; i < ARRAY_LEN(flags); i++) {
			assert_int_equal(ace_make(theirs + len, type, flags[i], true), sa_ace_size(type, flags[i]));
			len += ace_make(ours + len, type, flags[i], false);
		}
	sa_aces_turn(theirs, len);
	assert_memory_equal(ours, theirs, len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(attributes_are_found_in_both_byte_orders),
	    cmocka_unit_test(two_variable_attributes_have_their_lengths),
	    cmocka_unit_test(damaged_buffers_are_refused),
	    cmocka_unit_test(layout_zero_means_no_attributes),
	    cmocka_unit_test(legacy_znodes_answer_like_others),
	    cmocka_unit_test(access_control_entries_of_every_kind_are_turned),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
