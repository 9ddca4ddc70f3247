#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "codec/parity.h"

static void small_vectors_of_the_chapter(void **state)
{
	static const uint8_t d0[] = {0x01, 0x02, 0x80, 0xff}, d1[] = {0x10, 0x20, 0x40, 0x55},
			     d2[] = {0xa5, 0x00, 0x01, 0xfe};
	static const uint8_t full[3][4] = {
	    {0xb4, 0x22, 0xc1, 0x54}, {0x81, 0x48, 0xbb, 0x8f}, {0xf5, 0xa0, 0xf4, 0xfc}};
	static const uint8_t part[3][4] = {
	    {0xb4, 0x22, 0xc0, 0xaa}, {0x81, 0x48, 0xba, 0x71}, {0xf5, 0xa0, 0xf5, 0x02}};
	const uint8_t *data[] = {d0, d1, d2};
	size_t sizes[] = {4, 4, 4};
	uint8_t got[3][4], *parity[] = {got[0], got[1], got[2]};

	parity_generate(3, 3, data, sizes, 4, parity);
	assert_memory_equal(got, full, sizeof(full));
	sizes[2] = 2;
	parity_generate(3, 3, data, sizes, 4, parity);
	assert_memory_equal(got, part, sizeof(part));
}

/* The sector vector: three data columns of 1024, 1024 and 512 bytes. */
static void sector_vector_of_the_chapter(void **state)
{
	static const uint8_t p0[16] = {0x67, 0x6a, 0x65, 0x68, 0x73, 0x76, 0x71, 0x74,
				       0x7f, 0x42, 0x3d, 0x00, 0x0b, 0x0e, 0x09, 0x0c};
	static const uint8_t q512[16] = {0x20, 0x3a, 0x14, 0x16, 0xf8, 0x02, 0x1c, 0x0e,
					 0x30, 0x2a, 0x64, 0x66, 0x68, 0x52, 0x4c, 0x3e};
	static const uint8_t r512[16] = {0xed, 0x91, 0x75, 0x59, 0xe0, 0x3b, 0x7f, 0x73,
					 0xb7, 0xcb, 0x72, 0x5e, 0x3a, 0xc6, 0x82, 0x4e};
	uint8_t bytes[2560], got[3][1024], *parity[] = {got[0], got[1], got[2]};
	const uint8_t *data[] = {bytes, bytes + 1024, bytes + 2048};
	const size_t sizes[] = {1024, 1024, 512};

	for (unsigned i = 0; i < 5; i++)
		for (unsigned j = 0; j < 512; j++)
			bytes[512 * i + j] = (uint8_t)(17 * i + 3 * j + 1);
	parity_generate(3, 3, data, sizes, 1024, parity);
	assert_memory_equal(got[0], p0, 16);
	assert_memory_equal(got[1] + 512, q512, 16);
	assert_memory_equal(got[2] + 512, r512, 16);
}

static uint8_t pristine[8][256], columns[8][256], parity_bytes[3][256];
#define NDATA 8

static void columns_make(size_t sizes[NDATA])
{
	const uint8_t *data[NDATA];
	uint8_t *parity[3] = {parity_bytes[0], parity_bytes[1], parity_bytes[2]};
	uint32_t seed = 7;

	for (unsigned i = 0; i < NDATA; i++) {
		sizes[i] = i == 4 ? 0 : i > 4 ? 128 : 256;
		data[i] = pristine[i];
		for (unsigned b = 0; b < 256; b++)
			pristine[i][b] = (seed = seed * 1664525 + 1013904223) >> 24;
	}
	parity_generate(3, NDATA, data, sizes, 256, parity);
}

static void check_one(const size_t sizes[NDATA], unsigned missing_mask, unsigned parity_mask)
{
	const uint8_t *parity[3];
	uint8_t *data[NDATA];
	unsigned missing[NDATA], n = 0;

	memcpy(columns, pristine, sizeof(columns));
	for (unsigned i = 0; i < NDATA; i++) {
		data[i] = columns[i];
		if (!(missing_mask & 1u << i))
			continue;
		missing[n++] = i;
		memset(columns[i], 0xee, sizes[i]);
	}
	for (unsigned r = 0; r < 3; r++)
		parity[r] = parity_mask & 1u << r ? parity_bytes[r] : NULL;
	int err = parity_reconstruct(3, NDATA, data, sizes, 256, parity, missing, n);

	if (n > (unsigned)__builtin_popcount(parity_mask)) {
		assert_int_equal(err, -EINVAL);
		return;
	}
	assert_int_equal(err, 0);
	assert_memory_equal(columns, pristine, sizeof(columns));
}

static void every_solvable_loss_is_rebuilt_and_others_refused(void **state)
{
	size_t sizes[NDATA];

	columns_make(sizes);
	for (unsigned missing = 0; missing < 1u << NDATA; missing++)
		for (unsigned usable = 0; usable < 8; usable++)
			check_one(sizes, missing, usable);
}

static void one_data_column_is_copied(void **state)
{
	uint8_t d[] = {1, 0x80, 0xff, 7}, got[3][4], *parity[] = {got[0], got[1], got[2]};
	const uint8_t *data[] = {d};
	const size_t sizes[] = {4};

	parity_generate(3, 1, data, sizes, 4, parity);
	for (unsigned r = 0; r < 3; r++)
		assert_memory_equal(got[r], d, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(small_vectors_of_the_chapter),
	    cmocka_unit_test(sector_vector_of_the_chapter),
	    cmocka_unit_test(every_solvable_loss_is_rebuilt_and_others_refused),
	    cmocka_unit_test(one_data_column_is_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
