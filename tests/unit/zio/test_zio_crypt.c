/* Vectors of docs/format/04-crypto-dedup-clone.md, A1.15, and what damaged blocks must not do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "zio/zio_crypt.h"

static size_t unhex(const char *s, uint8_t *out)
{
	size_t n = 0;
	unsigned byte;

	for (; s[0] && s[1]; s += 2) {
		assert_int_equal(sscanf(s, "%2x", &byte), 1);
		out[n++] = (uint8_t)byte;
	}
	return n;
}

static void count_up(uint8_t *p, size_t n, unsigned from)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(from + i);
}

static struct crypt_key *vector_key(enum crypt_suite s)
{
	uint8_t master[32], hmac[64];

	count_up(master, 32, 0);
	count_up(hmac, 64, 0x40);
	return crypt_key_create(s, 7, master, hmac, 1);
}

/* The GCM block of A1.15 as plain file contents. */
static struct bp vector_bp(void)
{
	struct bp bp = {{1, 8}};

	bp.w[4] = 0x1716151413121110;
	bp.w[5] = 0xb7b6b5b4b3b2b1b0;
	bp.w[6] = 0xa013070200000000;
	bp.w[10] = 5;
	bp.w[11] = 0xbbbab9b800000001;
	bp.w[12] = 0x2bcae0ffb453a;
	bp.w[13] = 0x5a1f6128c3b5d0;
	bp.w[14] = 0xfe84f2bf4b52d4ed;
	bp.w[15] = 0x68c3faf3437e24bc;
	return bp;
}

static void gcm_block(uint8_t text[512])
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t key[32], iv[12];
	int len;

	unhex("7164b92c060337cef9b0c5d36809a5e0688209fda248ecd2f0f4f016d1116388", key);
	count_up(iv, 12, 0xb0);
	count_up(text, 512, 0);
	assert_true(EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, iv));
	assert_true(EVP_EncryptUpdate(ctx, text, &len, text, 512));
	EVP_CIPHER_CTX_free(ctx);
}

static void data_blocks_decrypt(void **state)
{
	struct crypt_key *k = vector_key(CRYPT_AES_256_GCM);
	struct bp bp = vector_bp();
	uint8_t text[512], plain[512];

	count_up(plain, 512, 0);
	for (unsigned round = 0; round < 2; round++) { /* the second finds the derived key in the cache */
		gcm_block(text);
		assert_int_equal(zio_crypt_read(k, &bp, text, 512), 0);
		assert_memory_equal(text, plain, 512);
	}
	gcm_block(text);
	text[77] ^= 1;
	assert_int_equal(zio_crypt_read(k, &bp, text, 512), -ECKSUM);
	crypt_key_release(k);
}

static void pointers_of_the_other_order_hold_the_same_bytes(void **state)
{
	struct crypt_key *k = vector_key(CRYPT_AES_256_GCM);
	struct bp bp = vector_bp();
	uint8_t text[512], plain[512];

	bp.w[6] &= ~(UINT64_C(1) << 63);
	for (unsigned i = 4; i < 16; i += i == 5 ? 9 : 1)
		bp.w[i] = __builtin_bswap64(bp.w[i]);
	bp.w[11] = 0xb8b9babb00000001;
	count_up(plain, 512, 0);
	gcm_block(text);
	assert_int_equal(zio_crypt_read(k, &bp, text, 512), 0);
	assert_memory_equal(text, plain, 512);
	crypt_key_release(k);
}

static void many_salts_are_derived_again(void **state)
{
	struct crypt_key *k = vector_key(CRYPT_AES_256_GCM);
	struct bp bp = vector_bp();
	uint8_t text[512];

	for (unsigned i = 0; i < 1000; i++) {
		bp.w[4] = i * UINT64_C(0x9e3779b97f4a7c15);
		gcm_block(text);
		assert_int_equal(zio_crypt_read(k, &bp, text, 512), -ECKSUM);
	}
	bp = vector_bp();
	gcm_block(text);
	assert_int_equal(zio_crypt_read(k, &bp, text, 512), 0);
	crypt_key_release(k);
}

static void authenticated_blocks_are_checked(void **state)
{
	struct crypt_key *k = vector_key(CRYPT_AES_128_CCM);
	struct bp bp = vector_bp();
	uint8_t text[512], mac[16];

	bp.w[6] = (bp.w[6] & ~(UINT64_C(0xff) << 48)) | UINT64_C(21) << 48; /* master node */
	unhex("f4c97895fe0d58ba21417d1d1162112c", mac);
	bp.w[14] = load_le64(mac);
	bp.w[15] = load_le64(mac + 8);
	count_up(text, 512, 0);
	assert_int_equal(zio_crypt_read(k, &bp, text, 512), 0);
	text[511]++;
	assert_int_equal(zio_crypt_read(k, &bp, text, 512), -ECKSUM);
	crypt_key_release(k);
}

static void indirect_macs_need_no_key(void **state)
{
	struct bp child = vector_bp(), bp = vector_bp();
	uint8_t block[1024] = {0}, mac[16];

	for (unsigned i = 0; i < 16; i++)
		store_host64(block + 8 * i, child.w[i]);
	bp.w[6] |= UINT64_C(1) << 56;
	unhex("3eaa87fa47aeecc5377099f52ac8f038", mac);
	bp.w[14] = load_le64(mac);
	bp.w[15] = load_le64(mac + 8);
	assert_int_equal(zio_crypt_check_indirect(&bp, block, sizeof(block)), 0);
	/* the old form of the record */
	unhex("aa84fbee68db223b398f2e408a6e101c", mac);
	bp.w[14] = load_le64(mac);
	bp.w[15] = load_le64(mac + 8);
	assert_int_equal(zio_crypt_check_indirect(&bp, block, sizeof(block)), 0);
	block[896] = block[896 + 48] = 1; /* a hole that is none */
	assert_int_equal(zio_crypt_check_indirect(&bp, block, sizeof(block)), -ECKSUM);
}

static void checksums_beside_macs_are_folded(void **state)
{
	struct cksum full = {{0x3e7d7c8aa3, 0x100b616bff5f, 0x2bc907287cf99, 0x5a0f6a49a84a8f}};
	struct bp bp = vector_bp();

	assert_true(zio_crypt_cksum_matches(&bp, &full));
	full.word[0] ^= 1;
	assert_false(zio_crypt_cksum_matches(&bp, &full));
	bp.w[6] = (bp.w[6] & ~(UINT64_C(0xff) << 40)) | (uint64_t)CHECKSUM_SHA256 << 40;
	bp.w[12] = full.word[0];
	bp.w[13] = full.word[1];
	assert_true(zio_crypt_cksum_matches(&bp, &full));
}

static void damaged_blocks_fail_quietly(void **state)
{
	static const uint8_t types[] = {9, 10, 11, 19, 21, 44};
	struct crypt_key *k = vector_key(CRYPT_AES_256_CCM);
	struct bp bp = vector_bp();
	uint64_t seed = 1;
	uint8_t data[4096];

	for (unsigned round = 0; round < 3000; round++) {
		for (size_t i = 0; i < sizeof(data); i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			data[i] = round % 3 ? (uint8_t)(seed >> 56) & (uint8_t)(seed >> 40) & (uint8_t)(seed >> 32)
					    : (uint8_t)(seed >> 56);
		}
		store_host64(data + 144, UINT64_C(0x0210da7ab10c7a11));
		store_host64(data + 136, 184 + (seed >> 54));
		for (unsigned at = 184; at + 16 < 1200; at += 64)
			store_host64(data + at + 8, round % 2 ? 64 : seed >> 55);
		bp.w[6] = (bp.w[6] & ~(UINT64_C(0xff) << 48)) | (uint64_t)types[round % 6] << 48;
		assert_int_equal(zio_crypt_check_objset(k, &bp, data, sizeof(data)), -ECKSUM);
		if (types[round % 6] != 11)
			assert_int_equal(zio_crypt_read(k, &bp, data, round % 4 ? 4096 : 512), -ECKSUM);
	}
	assert_int_equal(zio_crypt_check_objset(k, &bp, data, 512), -ECKSUM);
	crypt_key_release(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(data_blocks_decrypt),
	    cmocka_unit_test(pointers_of_the_other_order_hold_the_same_bytes),
	    cmocka_unit_test(many_salts_are_derived_again),
	    cmocka_unit_test(authenticated_blocks_are_checked),
	    cmocka_unit_test(indirect_macs_need_no_key),
	    cmocka_unit_test(checksums_beside_macs_are_folded),
	    cmocka_unit_test(damaged_blocks_fail_quietly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
