/* Keys as users give them and as key objects hold them (docs/format/04-crypto-dedup-clone.md, A1.3, A1.4, A1.15). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "dsl/dsl_crypt.h"

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

static int derive(const struct dsl_crypt_info *info, const char *material, size_t len, uint8_t out[32])
{
	struct err e = ERR_INIT;
	int err = dsl_wrapping_key(info, material, len, out, &e);

	if (err)
		assert_true(e.text[0]); /* a person reads why */
	return err;
}

static void three_formats_give_wrapping_keys(void **state)
{
	struct dsl_crypt_info pass = {.keyformat = KEYFORMAT_PASSPHRASE, .salt = 0x1122334455667788, .iters = 350000};
	struct dsl_crypt_info hex = {.keyformat = KEYFORMAT_HEX}, raw = {.keyformat = KEYFORMAT_RAW};
	uint8_t want[32], out[32];

	unhex(WK, want);
	assert_int_equal(derive(&pass, "correct horse", 13, out), 0);
	assert_memory_equal(out, want, 32);
	assert_int_equal(derive(&pass, "correct horse\n", 14, out), 0);
	assert_memory_equal(out, want, 32);
	assert_int_equal(derive(&hex, WK, 64, out), 0);
	assert_memory_equal(out, want, 32);
	assert_int_equal(derive(&hex, "52D91D10CE53805EC72B3A817F2FF935868AFAC33D8627DDEF285D78741B9F52\n", 65, out),
			 0);
	assert_memory_equal(out, want, 32);
	assert_int_equal(derive(&raw, (const char *)want, 32, out), 0);
	assert_memory_equal(out, want, 32);
}

static void malformed_keys_are_refused(void **state)
{
	struct dsl_crypt_info pass = {.keyformat = KEYFORMAT_PASSPHRASE, .salt = 1, .iters = 0};
	struct dsl_crypt_info hex = {.keyformat = KEYFORMAT_HEX}, raw = {.keyformat = KEYFORMAT_RAW};
	struct dsl_crypt_info none = {.keyformat = KEYFORMAT_NONE}, unknown = {.keyformat = 4};
	uint8_t out[32];

	assert_int_equal(derive(&pass, "password", 8, out), -EINVAL);
	assert_int_equal(derive(&hex, WK, 63, out), -EINVAL);
	assert_int_equal(derive(&hex, WK "\n\n", 66, out), -EINVAL);
	assert_int_equal(derive(&hex, "g" WK, 64, out), -EINVAL);
	assert_int_equal(derive(&hex, "", 0, out), -EINVAL);
	assert_int_equal(derive(&raw, WK, 31, out), -EINVAL);
	assert_int_equal(derive(&raw, WK, 33, out), -EINVAL);
	assert_int_equal(derive(&none, WK, 32, out), -EINVAL);
	assert_int_equal(derive(&unknown, WK, 32, out), -EINVAL);
}

static void key_objects_open_with_their_wrapping_key_only(void **state)
{
	static const struct {
		enum crypt_suite suite;
		uint64_t version;
		const char *master, *hmac, *mac;
	} v[] = {
	    {CRYPT_AES_256_GCM, 1, "a383288105dd90f0b6e48dbb3902afd5b08bd21b3e4e2308bfc1f366b1b5d48c",
	     "061442db0235c319874bf61b122c15ed2f2916c3ca6a4729d232a6da3ed72512"
	     "408de8e8eabdad570611fd37e42632bf661a7c269fef8240db2253e23ccc62ac",
	     "193f871210be32e669965727a89db312"},
	    {CRYPT_AES_256_GCM, 0, "a383288105dd90f0b6e48dbb3902afd5b08bd21b3e4e2308bfc1f366b1b5d48c",
	     "061442db0235c319874bf61b122c15ed2f2916c3ca6a4729d232a6da3ed72512"
	     "408de8e8eabdad570611fd37e42632bf661a7c269fef8240db2253e23ccc62ac",
	     "96145e630a5067c3bd99af53548805c5"},
	    {CRYPT_AES_128_CCM, 1, "0d78515ca4ef8e078da1cce0779acc92",
	     "fcec6635b6e5e5e6cfae4469aaa0533344df1073332a271bd724b2929aeeaa4b"
	     "bd0a959dc54e0548ff5640f2125809ce05edcd79075fb67248df5d285e259052",
	     "fc6b812319f04c65ffe61f99765d213f"},
	};
	uint8_t wk[32];

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct dsl_crypt_info info = {.suite = v[i].suite, .guid = 0x0102030405060708, .version = v[i].version};
		struct dsl_wrapped_key w = {0};
		struct crypt_key *k = NULL;

		unhex(WK, wk);
		unhex("a0a1a2a3a4a5a6a7a8a9aaab", w.iv);
		unhex(v[i].mac, w.mac);
		memset(w.master, 0xee, sizeof(w.master)); /* what lies behind a short key is no part of it */
		unhex(v[i].master, w.master);
		unhex(v[i].hmac, w.hmac_key);
		assert_int_equal(dsl_key_unwrap(&info, &w, wk, &k), 0);
		assert_int_equal(crypt_key_suite(k), v[i].suite);
		assert_int_equal(crypt_key_guid(k), 0x0102030405060708);
		assert_false(crypt_key_is_shared(k));
		crypt_key_release(k);
		wk[31] ^= 1;
		assert_int_equal(dsl_key_unwrap(&info, &w, wk, &k), -EACCES);
		wk[31] ^= 1;
		info.guid++;
		assert_int_equal(dsl_key_unwrap(&info, &w, wk, &k), -EACCES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(three_formats_give_wrapping_keys),
	    cmocka_unit_test(malformed_keys_are_refused),
	    cmocka_unit_test(key_objects_open_with_their_wrapping_key_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
