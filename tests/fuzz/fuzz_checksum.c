/*
 * Byte 0: algorithm; byte 1 bit 0: of an encrypted block; 32 bytes of verifier; then the block with its trailer.
 * Verifying leaves a block as it was. The wide forms of sums must agree with the plain ones.
 */
#include "codec/checksum.h"
#include "codec/checksum_impl.h"
#include "fuzz.h"

#define HEAD 34

static void wide_equals_plain(const uint8_t *p, size_t size)
{
	static const uint32_t key[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct cksum a, b;
	uint8_t d[32], e[32];

	for (unsigned swap = 0; swap < 2; swap++) {
		fletcher4(p, size, swap, &a);
		fletcher4_portable(p, size, swap, &b);
		BUG_ON(!cksum_equal(&a, &b));
	}
	blake3_keyed(key, p, size, d);
	blake3_keyed_portable(key, p, size, e);
	BUG_ON(memcmp(d, e, sizeof(d)) != 0);
}

static void all_plain(const uint8_t *p, size_t size)
{
	static struct checksum_salt *salt;
	struct cksum sum;

	if (!salt)
		salt = checksum_salt_create((const uint8_t[32]){1, 2, 3});
	for (unsigned c = 0; c <= CHECKSUM_COUNT; c++)
		checksum_compute(c, salt, p, size, c & 1, &sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cksum verifier;
	bool swapped;

	if (size < HEAD)
		return 0;
	memcpy(&verifier, data + 2, sizeof(verifier));
	data += HEAD;
	size -= HEAD;
	autofree uint8_t *p = fuzz_copy(data, size);
	(data[1 - HEAD] & 1 ? checksum_embedded_verify_truncated : checksum_embedded_verify)(
	    data[-HEAD] % (CHECKSUM_COUNT + 1), p, size, &verifier, &swapped);
	BUG_ON(memcmp(p, data, size) != 0);
	wide_equals_plain(p, size);
	all_plain(p, size);
	return 0;
}
