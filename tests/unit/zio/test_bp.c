/* Examples of docs/format/02-blocks-and-objects.md, 1.8 and 4, and the checks of 1.5. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "zio/bp.h"

static size_t unhex(const char *s, uint8_t *out)
{
	size_t n = 0;
	unsigned byte;

	for (; *s; s += 2) {
		while (*s == ' ')
			s++;
		assert_int_equal(sscanf(s, "%2x", &byte), 1);
		out[n++] = (uint8_t)byte;
	}
	return n;
}

static struct bp root_bp(void)
{
	uint8_t phys[BP_SIZE];
	struct bp bp;

	assert_int_equal(unhex("0100000000000000 3181040000000000 0100000000000000 9600050000000000"
			       "0100000000000000 a983050000000000 070000000f070b80 0000000000000000"
			       "0000000000000000 0000000000000000 3002000000000000 c000000000000000"
			       "5bf4131b0b000000 6920465177040000 da7068661dea0000 f34a5632758e2000",
			       phys),
			 BP_SIZE);
	bp_decode(&bp, phys, !HOST_IS_LITTLE);
	return bp;
}

static void expect_text(const struct bp *bp, const char *want)
{
	struct str s = {0};

	bp_print(bp, &s);
	assert_string_equal(str_get(&s), want);
	str_free(&s);
}

static void root_pointer_decodes(void **state)
{
	struct bp bp = root_bp();

	assert_int_equal(bp_check(&bp), 0);
	assert_int_equal(bp_lsize(&bp), 4096);
	assert_int_equal(bp_psize(&bp), 512);
	assert_int_equal(bp_asize(&bp), 1536);
	assert_int_equal(bp_ndvas(&bp), 3);
	assert_int_equal(bp_dva(&bp, 0).offset, 0x9026200);
	assert_int_equal(bp_dva(&bp, 2).offset, 0xb075200);
	assert_int_equal(bp_type(&bp), 11);
	assert_int_equal(bp_compress(&bp), COMPRESS_LZ4);
	assert_int_equal(bp_checksum(&bp), CHECKSUM_FLETCHER_4);
	assert_int_equal(bp_fill(&bp), 192);
	assert_int_equal(bp_physical_birth(&bp), 560);
	assert_true(bp_is_metadata(&bp));
	assert_false(bp_is_swapped(&bp) == HOST_IS_LITTLE);
	expect_text(&bp, "DVA[0]=<0:9026200:200> DVA[1]=<0:a012c00:200> DVA[2]=<0:b075200:200> [L0 DMU objset] "
			 "fletcher4 lz4 unencrypted LE contiguous unique triple size=1000L/200P birth=560L/560P "
			 "fill=192 cksum=0000000b1b13f45b:0000047751462069:0000ea1d666870da:00208e7532564af3");
}

static void embedded_data_comes_out(void **state)
{
	struct bp bp = {{0x0001032117000000, 0x0009bce980410000}};
	uint8_t raw[56], out[512], want[512] = {3, 0, 0, 0, 0, 0, 0, 0x80, 0xe9, 0xbc, 2};

	unhex("0000001721030001 004180e9bc020900 0f0200ffd9500000 0000000000000000 0000000000000000"
	      "0000000000000000 ff0100348f000d80",
	      raw);
	for (unsigned i = 0; i < 7; i++)
		bp.w[i] = load_le64(raw + 8 * i);
	bp.w[10] = 5;
	assert_int_equal(bp_check(&bp), 0);
	assert_int_equal(bp_lsize(&bp), 512);
	assert_int_equal(bp_embedded_data(&bp, out, 512), 0);
	assert_memory_equal(out, want, 512);
	assert_int_equal(bp_embedded_data(&bp, out, 511), -EINVAL);
	expect_text(&bp, "EMBEDDED [L0 DSL directory child map] et=0 lz4 size=200L/1bP birth=5L");
	bp.w[6] |= UINT64_C(2) << 40;
	assert_int_equal(bp_embedded_data(&bp, out, 512), -EIO);
	bp.w[6] |= UINT64_C(4) << 40;
	assert_int_equal(bp_check(&bp), -EINVAL);
}

static void encrypted_pointers_have_two_dvas(void **state)
{
	struct bp bp = root_bp();

	bp.w[4] = 0x85a1a12f9900f4;
	bp.w[6] = 0xe01a0c0f0000000f;
	bp.w[11] = 0xed7648a900000001;
	assert_int_equal(bp_check(&bp), 0);
	assert_true(bp_is_encrypted(&bp));
	assert_false(bp_is_authenticated(&bp));
	assert_int_equal(bp_ndvas(&bp), 2);
	assert_int_equal(bp_fill(&bp), 1);
	assert_int_equal(bp_asize(&bp), 1024);
	assert_true(bp_is_dedup(&bp));
	bp.w[6] |= UINT64_C(1) << 56; /* an indirect one keeps all three */
	assert_false(bp_is_encrypted(&bp));
	assert_int_equal(bp_ndvas(&bp), 3);
}

static void damaged_pointers_are_refused(void **state)
{
	static const struct {
		unsigned word, bit, bits;
		uint64_t value;
	} bad[] = {
	    {6, 48, 8, 54},      /* type */
	    {6, 48, 8, 0x8a},    /* swap class */
	    {6, 32, 7, 17},      /* compression */
	    {6, 40, 8, 15},      /* checksum */
	    {6, 0, 16, 0xffff},  /* lsize 32 MiB */
	    {6, 16, 16, 0xffff}, /* psize 32 MiB */
	    {0, 0, 24, 0},       /* DVA 0 without size */
	    {1, 0, 63, UINT64_C(1) << 60},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct bp bp = root_bp();
		uint64_t mask = ((UINT64_C(1) << bad[i].bits) - 1) << bad[i].bit;

		bp.w[bad[i].word] = (bp.w[bad[i].word] & ~mask) | bad[i].value << bad[i].bit;
		assert_int_equal(bp_check(&bp), -EINVAL);
	}
}

static void holes_say_what_they_stand_for(void **state)
{
	struct bp bp = {0};

	assert_true(bp_is_hole(&bp));
	assert_int_equal(bp_check(&bp), 0);
	expect_text(&bp, "HOLE");
	bp.w[6] = UINT64_C(19) << 48 | 0xff;
	bp.w[10] = 17;
	expect_text(&bp, "HOLE [L0 ZFS plain file] size=20000L birth=17L");
}

static void type_names_are_zdbs(void **state)
{
	assert_string_equal(dmu_type_name(196), "bswap metadata zap");
	assert_string_equal(dmu_type_name(195), "bswap metadata uint64");
	assert_string_equal(dmu_type_name(19), "ZFS plain file");
	assert_string_equal(dmu_type_name(54), "unknown");
	assert_string_equal(dmu_type_name(0x9f), "unknown");
	assert_true(dmu_type_is_encrypted(44));
	assert_false(dmu_type_is_encrypted(17));
	assert_true(dmu_type_is_encrypted(0xe4));
	assert_false(dmu_type_is_metadata(23));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(root_pointer_decodes),
	    cmocka_unit_test(embedded_data_comes_out),
	    cmocka_unit_test(encrypted_pointers_have_two_dvas),
	    cmocka_unit_test(damaged_pointers_are_refused),
	    cmocka_unit_test(holes_say_what_they_stand_for),
	    cmocka_unit_test(type_names_are_zdbs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
