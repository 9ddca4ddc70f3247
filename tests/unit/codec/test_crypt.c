/* Vectors of docs/format/04-crypto-dedup-clone.md, A1.15. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "base/bytes.h"
#include "codec/crypt.h"

#define WK "52d91d10ce53805ec72b3a817f2ff935868afac33d8627ddef285d78741b9f52"

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

static void expect_hex(const void *got, const char *want)
{
	uint8_t w[256];

	assert_memory_equal(got, w, unhex(want, w));
}

static void count_up(uint8_t *p, size_t n, unsigned from)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(from + i);
}

static void passphrases_become_wrapping_keys(void **state)
{
	uint8_t out[32];

	assert_int_equal(crypt_passphrase_key("correct horse", 13, 0x1122334455667788, 350000, out), 0);
	expect_hex(out, WK);
	assert_int_equal(crypt_passphrase_key("password\0junk", 13, 1, 100000, out), 0);
	expect_hex(out, "4cc282e497d2b5252909bed7c841e1e91d7608f48bb0bef6cf19e3477be56119");
	assert_int_equal(crypt_passphrase_key("password", 8, 1, 0, out), -EINVAL);
	assert_int_equal(crypt_passphrase_key("password", 8, 1, UINT64_MAX, out), -EINVAL);
}

/* Open a wrapped key pair; returns crypt_decrypt's result. */
static int unwrap(enum crypt_suite s, const char *aad_hex, const char *master, const char *hmac, const char *mac_hex,
		  uint8_t text[96])
{
	uint8_t key[32], iv[12], aad[24], mac[16];
	struct crypt_iov a = {aad, 0}, t[2] = {{text, 0}, {text + 32, 64}};

	unhex(WK, key);
	unhex("a0a1a2a3a4a5a6a7a8a9aaab", iv);
	a.len = unhex(aad_hex, aad);
	t[0].len = unhex(master, text);
	unhex(hmac, text + 32);
	unhex(mac_hex, mac);
	/* the wrapping key is always 32 bytes: a 256-bit cipher of the suite's mode */
	return crypt_decrypt(s < CRYPT_AES_128_GCM ? CRYPT_AES_256_CCM : CRYPT_AES_256_GCM, key, iv, &a, 1, t, 2, mac);
}

static void wrapped_keys_open(void **state)
{
	static const char m8[] = "a383288105dd90f0b6e48dbb3902afd5b08bd21b3e4e2308bfc1f366b1b5d48c",
			  h8[] = "061442db0235c319874bf61b122c15ed2f2916c3ca6a4729d232a6da3ed72512"
				 "408de8e8eabdad570611fd37e42632bf661a7c269fef8240db2253e23ccc62ac",
			  h3[] = "fcec6635b6e5e5e6cfae4469aaa0533344df1073332a271bd724b2929aeeaa4b"
				 "bd0a959dc54e0548ff5640f2125809ce05edcd79075fb67248df5d285e259052";
	uint8_t text[96], want[96];

	count_up(want, 32, 0);
	count_up(want + 32, 64, 0x40);
	assert_int_equal(unwrap(CRYPT_AES_256_GCM, "080706050403020108000000000000000100000000000000", m8, h8,
				"193f871210be32e669965727a89db312", text),
			 0);
	assert_memory_equal(text, want, 96);
	assert_int_equal(
	    unwrap(CRYPT_AES_256_GCM, "0807060504030201", m8, h8, "96145e630a5067c3bd99af53548805c5", text), 0);
	assert_memory_equal(text, want, 96);
	assert_int_equal(unwrap(CRYPT_AES_128_CCM, "080706050403020103000000000000000100000000000000",
				"0d78515ca4ef8e078da1cce0779acc92", h3, "fc6b812319f04c65ffe61f99765d213f", text),
			 0);
	assert_memory_equal(text, want, 16);
	assert_memory_equal(text + 32, want + 32, 64);
	assert_int_equal(
	    unwrap(CRYPT_AES_256_GCM, "0807060504030201", m8, h8, "96145e630a5067c3bd99af53548805c6", text), -ECKSUM);
	assert_int_equal(unwrap(CRYPT_AES_128_CCM, "080706050403020103000000000000000100000000000000",
				"0d78515ca4ef8e078da1cce0779acc92", h3, "fc6b812319f04c65ffe61f99765d213e", text),
			 -ECKSUM);
}

static void block_keys_are_derived(void **state)
{
	uint8_t master[32], salt[8], out[32];

	count_up(master, 32, 0);
	count_up(salt, 8, 0x10);
	assert_int_equal(crypt_hkdf(master, 32, salt, out, 32), 0);
	expect_hex(out, "7164b92c060337cef9b0c5d36809a5e0688209fda248ecd2f0f4f016d1116388");
	assert_int_equal(crypt_hkdf(master, 16, salt, out, 16), 0);
	expect_hex(out, "b8af6191d36be5de3c8076bd9bf3e69a");
}

/* Sealing, by OpenSSL alone: the engine only opens so far. */
static void seal(const char *alg, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t naad, uint8_t *text,
		 size_t n, uint8_t mac[16])
{
	EVP_CIPHER *c = EVP_CIPHER_fetch(NULL, alg, NULL);
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	bool ccm = strstr(alg, "CCM");
	int len;

	assert_true(EVP_EncryptInit_ex2(ctx, c, NULL, NULL, NULL));
	assert_true(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_IVLEN, 12, NULL));
	if (ccm)
		assert_true(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, 16, NULL));
	assert_true(EVP_EncryptInit_ex2(ctx, NULL, key, iv, NULL));
	if (ccm)
		assert_true(EVP_EncryptUpdate(ctx, NULL, &len, NULL, (int)n));
	if (naad)
		assert_true(EVP_EncryptUpdate(ctx, NULL, &len, aad, (int)naad));
	assert_true(EVP_EncryptUpdate(ctx, text, &len, text, (int)n));
	assert_true(EVP_EncryptFinal_ex(ctx, text + len, &len));
	assert_true(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, mac));
	EVP_CIPHER_CTX_free(ctx);
	EVP_CIPHER_free(c);
}

static void blocks_decrypt_whole_and_in_pieces(void **state)
{
	uint8_t key[32], iv[12], plain[512], text[512], mac[16];
	struct crypt_iov one = {text, 512};
	struct crypt_iov many[4] = {{text, 100}, {text + 100, 0}, {text + 100, 13}, {text + 113, 399}};
	static const struct {
		enum crypt_suite s;
		const char *alg, *key, *first, *mac;
	} v[] = {
	    {CRYPT_AES_256_GCM, "AES-256-GCM", "7164b92c060337cef9b0c5d36809a5e0688209fda248ecd2f0f4f016d1116388",
	     "7f3944acf1b8c11c815a6c213415da1db9697ac369cb7216cd8e3ab85f6f0382", "edd4524bbff284febc247e43f3fac368"},
	    {CRYPT_AES_128_CCM, "AES-128-CCM", "b8af6191d36be5de3c8076bd9bf3e69a",
	     "ba81b5ebebb47d1d3c7bd7cba86a0da92957a72d705798fdecce246d8f01addc", "f0c2926c769c83b2cee9cd256ea9aa2f"},
	};

	count_up(plain, sizeof(plain), 0);
	unhex("b0b1b2b3b4b5b6b7b8b9babb", iv);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		unhex(v[i].key, key);
		for (unsigned pieces = 0; pieces < 2; pieces++) {
			memcpy(text, plain, sizeof(text));
			seal(v[i].alg, key, iv, NULL, 0, text, sizeof(text), mac);
			expect_hex(text, v[i].first);
			expect_hex(mac, v[i].mac);
			assert_int_equal(
			    crypt_decrypt(v[i].s, key, iv, NULL, 0, pieces ? many : &one, pieces ? 4 : 1, mac), 0);
			assert_memory_equal(text, plain, sizeof(text));
		}
	}
}

/* RFC 3610 with l(m) = 0, by hand from AES alone (A1.14, "Implementation trap"). */
static void ccm_tag_of_nothing(const uint8_t key[16], const uint8_t iv[12], const uint8_t *aad, size_t n,
			       uint8_t mac[16])
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t x[16] = {n ? 0x7a : 0x3a}, a0[16] = {2}, first[16] = {0};
	size_t fill = 2;
	int len;

	memcpy(x + 1, iv, 12);
	memcpy(a0 + 1, iv, 12);
	assert_true(EVP_EncryptInit_ex2(ctx, EVP_aes_128_ecb(), key, NULL, NULL));
	EVP_CIPHER_CTX_set_padding(ctx, 0);
	EVP_EncryptUpdate(ctx, x, &len, x, 16);
	store_be16(first, (uint16_t)n);
	for (size_t i = 0; i < n; i++) {
		first[fill++] = aad[i];
		if (fill < 16 && i + 1 < n)
			continue;
		for (unsigned b = 0; b < 16; b++)
			x[b] ^= first[b];
		EVP_EncryptUpdate(ctx, x, &len, x, 16);
		memset(first, 0, 16);
		fill = 0;
	}
	EVP_EncryptUpdate(ctx, a0, &len, a0, 16);
	for (unsigned b = 0; b < 16; b++)
		mac[b] = x[b] ^ a0[b];
	EVP_CIPHER_CTX_free(ctx);
}

static void empty_messages_have_a_tag(void **state)
{
	uint8_t key[32] = {1, 2, 3}, iv[12] = {4, 5}, aad[100], mac[16];
	struct crypt_iov a[2] = {{aad, 33}, {aad + 33, 67}};

	count_up(aad, sizeof(aad), 7);
	ccm_tag_of_nothing(key, iv, aad, sizeof(aad), mac);
	assert_int_equal(crypt_decrypt(CRYPT_AES_128_CCM, key, iv, a, 2, NULL, 0, mac), 0);
	mac[3] ^= 1;
	assert_int_equal(crypt_decrypt(CRYPT_AES_128_CCM, key, iv, a, 2, NULL, 0, mac), -ECKSUM);
	ccm_tag_of_nothing(key, iv, NULL, 0, mac);
	assert_int_equal(crypt_decrypt(CRYPT_AES_128_CCM, key, iv, NULL, 0, NULL, 0, mac), 0);
	mac[15] ^= 0x80;
	assert_int_equal(crypt_decrypt(CRYPT_AES_128_CCM, key, iv, NULL, 0, NULL, 0, mac), -ECKSUM);
	seal("AES-192-GCM", key, iv, aad, sizeof(aad), mac, 0, mac);
	assert_int_equal(crypt_decrypt(CRYPT_AES_192_GCM, key, iv, a, 2, NULL, 0, mac), 0);
	aad[50]++;
	assert_int_equal(crypt_decrypt(CRYPT_AES_192_GCM, key, iv, a, 2, NULL, 0, mac), -ECKSUM);
}

/* The vectors of the chapter, made by us; and key pairs wrapped as they are in its other example. */
static void what_is_sealed_is_as_in_the_chapter(void **state)
{
	static const struct {
		enum crypt_suite s;
		const char *key, *first, *mac;
	} v[] = {
	    {CRYPT_AES_256_GCM, "7164b92c060337cef9b0c5d36809a5e0688209fda248ecd2f0f4f016d1116388",
	     "7f3944acf1b8c11c815a6c213415da1db9697ac369cb7216cd8e3ab85f6f0382", "edd4524bbff284febc247e43f3fac368"},
	    {CRYPT_AES_128_CCM, "b8af6191d36be5de3c8076bd9bf3e69a",
	     "ba81b5ebebb47d1d3c7bd7cba86a0da92957a72d705798fdecce246d8f01addc", "f0c2926c769c83b2cee9cd256ea9aa2f"},
	};
	uint8_t key[32], iv[12], text[512], to[512], mac[16], aad[24], pair[96];
	struct crypt_iov one = {text, sizeof(text)};
	struct crypt_iov many[4] = {{text, 100}, {text + 100, 0}, {text + 100, 13}, {text + 113, 399}};
	struct crypt_iov a = {aad, sizeof(aad)}, t[2] = {{pair, 32}, {pair + 32, 64}};

	unhex("b0b1b2b3b4b5b6b7b8b9babb", iv);
	for (size_t i = 0; i < 2 * ARRAY_LEN(v); i++) {
		unhex(v[i / 2].key, key);
		count_up(text, sizeof(text), 0);
		assert_int_equal(
		    crypt_encrypt(v[i / 2].s, key, iv, NULL, 0, i % 2 ? many : &one, i % 2 ? 4 : 1, NULL, mac), 0);
		expect_hex(text, v[i / 2].first);
		expect_hex(mac, v[i / 2].mac);
		memset(mac, 0, sizeof(mac));
		count_up(text, sizeof(text), 0);
		assert_int_equal(crypt_encrypt(v[i / 2].s, key, iv, NULL, 0, &one, 1, to, mac), 0);
		expect_hex(to, v[i / 2].first);
		expect_hex(mac, v[i / 2].mac);
		assert_int_equal(text[100], 100); /* as it was */
	}
	unhex(WK, key);
	unhex("a0a1a2a3a4a5a6a7a8a9aaab", iv);
	unhex("080706050403020108000000000000000100000000000000", aad);
	count_up(pair, 32, 0);
	count_up(pair + 32, 64, 0x40);
	assert_int_equal(crypt_encrypt(CRYPT_AES_256_GCM, key, iv, &a, 1, t, 2, NULL, mac), 0);
	expect_hex(pair, "a383288105dd90f0b6e48dbb3902afd5b08bd21b3e4e2308bfc1f366b1b5d48c");
	expect_hex(mac, "193f871210be32e669965727a89db312");
}

static void every_suite_opens_what_it_sealed(void **state)
{
	uint8_t key[32], iv[12] = {9}, text[1000], plain[1000], aad[100], mac[16];

	count_up(key, sizeof(key), 3);
	count_up(plain, sizeof(plain), 1);
	count_up(aad, sizeof(aad), 2);
	for (unsigned s = CRYPT_AES_128_CCM; s < CRYPT_COUNT; s++) {
		for (size_t n = 0; n <= sizeof(text); n += n < 40 ? 1 : 137) {
			struct crypt_iov a[2] = {{aad, n % 33}, {aad + n % 33, 50}};
			struct crypt_iov t[2] = {{text, n / 3}, {text + n / 3, n - n / 3}};
			size_t naad = n % 3, ntext = n ? 2 : 0;

			memcpy(text, plain, sizeof(text));
			assert_int_equal(crypt_encrypt(s, key, iv, a, naad, t, ntext, NULL, mac), 0);
			if (n > 16)
				assert_memory_not_equal(text, plain, n);
			assert_memory_equal(text + n, plain + n, sizeof(text) - n);
			assert_int_equal(crypt_decrypt(s, key, iv, a, naad, t, ntext, mac), 0);
			assert_memory_equal(text, plain, sizeof(text));
		}
	}
}

static void more_than_ccm_takes_is_refused(void **state)
{
	autofree uint8_t *text = xcalloc(1, 16 << 20);
	struct crypt_iov v = {text, 16 << 20};
	uint8_t key[32] = {0}, iv[12] = {0}, mac[16];

	assert_int_equal(crypt_encrypt(CRYPT_AES_256_CCM, key, iv, NULL, 0, &v, 1, NULL, mac), -EINVAL);
	v.len--;
	assert_int_equal(crypt_encrypt(CRYPT_AES_256_CCM, key, iv, NULL, 0, &v, 1, NULL, mac), 0);
	assert_int_equal(crypt_decrypt(CRYPT_AES_256_CCM, key, iv, NULL, 0, &v, 1, mac), 0);
	assert_int_equal(crypt_encrypt((enum crypt_suite)9, key, iv, NULL, 0, &v, 1, NULL, mac), -ENOTSUP);
}

static void hmac_covers_scattered_text(void **state)
{
	uint8_t key[64], text[512], out[64];
	struct crypt_iov v[3] = {{text, 1}, {text + 1, 300}, {text + 301, 211}};

	count_up(key, 64, 0x40);
	count_up(text, 512, 0);
	crypt_hmac_sha512(key, 64, v, 3, out);
	expect_hex(out, "f4c97895fe0d58ba21417d1d1162112c36102a1b");
	crypt_sha512(NULL, 0, out);
	expect_hex(out, "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
			"47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e");
}

static void unknown_suites_are_refused(void **state)
{
	uint8_t key[32] = {0}, iv[12] = {0}, mac[16] = {0};

	assert_int_equal(crypt_suite_key_bytes(CRYPT_ON), 0);
	assert_int_equal(crypt_suite_key_bytes((enum crypt_suite)9), 0);
	assert_int_equal(crypt_suite_key_bytes(CRYPT_AES_192_CCM), 24);
	assert_string_equal(crypt_suite_name(CRYPT_AES_192_CCM), "aes-192-ccm");
	assert_int_equal(crypt_decrypt((enum crypt_suite)9, key, iv, NULL, 0, NULL, 0, mac), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(passphrases_become_wrapping_keys), cmocka_unit_test(wrapped_keys_open),
	    cmocka_unit_test(block_keys_are_derived),           cmocka_unit_test(blocks_decrypt_whole_and_in_pieces),
	    cmocka_unit_test(empty_messages_have_a_tag),        cmocka_unit_test(hmac_covers_scattered_text),
	    cmocka_unit_test(unknown_suites_are_refused),       cmocka_unit_test(what_is_sealed_is_as_in_the_chapter),
	    cmocka_unit_test(every_suite_opens_what_it_sealed), cmocka_unit_test(more_than_ccm_takes_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
