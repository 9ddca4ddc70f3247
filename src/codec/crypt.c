/* Ciphers, MACs and key derivation over OpenSSL. See codec/crypt.h. */
#include <limits.h>
#include <pthread.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/bytes.h"
#include "codec/crypt.h"

#define SHA512_BYTES 64
#define SHA512_BLOCK 128
#define CCM_TEXT_MAX ((1u << 24) - 1) /* 3-byte length field, A1.2 */
#define AAD_MAX      (64u << 20)

static const struct {
	const char *name, *cipher;
	uint8_t key_bytes;
	bool ccm;
} suite_table[CRYPT_COUNT] = {
    [CRYPT_INHERIT] = {"inherit"},
    [CRYPT_ON] = {"on"},
    [CRYPT_OFF] = {"off"},
    [CRYPT_AES_128_CCM] = {"aes-128-ccm", "AES-128-CCM", 16, true},
    [CRYPT_AES_192_CCM] = {"aes-192-ccm", "AES-192-CCM", 24, true},
    [CRYPT_AES_256_CCM] = {"aes-256-ccm", "AES-256-CCM", 32, true},
    [CRYPT_AES_128_GCM] = {"aes-128-gcm", "AES-128-GCM", 16, false},
    [CRYPT_AES_192_GCM] = {"aes-192-gcm", "AES-192-GCM", 24, false},
    [CRYPT_AES_256_GCM] = {"aes-256-gcm", "AES-256-GCM", 32, false},
};

size_t crypt_suite_key_bytes(enum crypt_suite s)
{
	return (unsigned)s < CRYPT_COUNT ? suite_table[s].key_bytes : 0;
}

const char *crypt_suite_name(enum crypt_suite s)
{
	return (unsigned)s < CRYPT_COUNT ? suite_table[s].name : "unknown";
}

/*
 * What a thread keeps: fetching algorithms and making contexts costs more than sealing a small block. Contexts hold no
 * key between calls (thread_cipher_forget).
 */
struct crypt_thread {
	EVP_CIPHER_CTX *cipher[CRYPT_COUNT];
	EVP_MD_CTX *md;
	uint8_t *scratch; /* gathered pieces for CCM */
	size_t scratch_size;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static EVP_CIPHER *cipher_alg[CRYPT_COUNT];
static EVP_MD *sha512_alg;

static void thread_free(void *p)
{
	struct crypt_thread *t = p;

	for (unsigned i = 0; i < CRYPT_COUNT; i++)
		EVP_CIPHER_CTX_free(t->cipher[i]);
	EVP_MD_CTX_free(t->md);
	if (t->scratch)
		OPENSSL_cleanse(t->scratch, t->scratch_size);
	free(t->scratch);
	free(t);
}

static void crypt_init(void)
{
	BUG_ON(pthread_key_create(&thread_key, thread_free));
	for (unsigned i = 0; i < CRYPT_COUNT; i++)
		if (suite_table[i].cipher)
			BUG_ON(!(cipher_alg[i] = EVP_CIPHER_fetch(NULL, suite_table[i].cipher, NULL)));
	BUG_ON(!(sha512_alg = EVP_MD_fetch(NULL, "SHA512", NULL)));
}

static struct crypt_thread *thread_get(void)
{
	struct crypt_thread *t;

	pthread_once(&once, crypt_init);
	t = pthread_getspecific(thread_key);
	if (t)
		return t;
	t = xcalloc(1, sizeof(*t));
	BUG_ON(!(t->md = EVP_MD_CTX_new()));
	pthread_setspecific(thread_key, t);
	return t;
}

static EVP_CIPHER_CTX *thread_cipher(struct crypt_thread *t, enum crypt_suite s)
{
	if (!t->cipher[s])
		BUG_ON(!(t->cipher[s] = EVP_CIPHER_CTX_new()));
	return t->cipher[s];
}

/* Put a key of zeros in the place of the last one. */
static void thread_cipher_forget(EVP_CIPHER_CTX *ctx)
{
	static const uint8_t zero[CRYPT_KEY_MAX];

	EVP_DecryptInit_ex2(ctx, NULL, zero, NULL, NULL);
}

static int iov_total(const struct crypt_iov *v, size_t n, size_t max, size_t *total)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		if (v[i].len > max - sum)
			return -EINVAL;
		sum += v[i].len;
	}
	*total = sum;
	return 0;
}

static void iov_gather(const struct crypt_iov *v, size_t n, uint8_t *to)
{
	for (size_t i = 0; i < n; to += v[i++].len)
		if (v[i].len)
			memcpy(to, v[i].base, v[i].len);
}

static void iov_scatter(const struct crypt_iov *v, size_t n, const uint8_t *from)
{
	for (size_t i = 0; i < n; from += v[i++].len)
		if (v[i].len)
			memcpy(v[i].base, from, v[i].len);
}

static bool gcm_open(EVP_CIPHER_CTX *ctx, const struct crypt_iov *aad, size_t naad, const struct crypt_iov *text,
		     size_t ntext, const uint8_t *mac)
{
	uint8_t final[16];
	int len;

	for (size_t i = 0; i < naad; i++)
		if (aad[i].len && !EVP_DecryptUpdate(ctx, NULL, &len, aad[i].base, (int)aad[i].len))
			return false;
	for (size_t i = 0; i < ntext; i++)
		if (text[i].len && !EVP_DecryptUpdate(ctx, text[i].base, &len, text[i].base, (int)text[i].len))
			return false;
	return EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, CRYPT_MAC, (void *)mac) &&
	       EVP_DecryptFinal_ex(ctx, final, &len);
}

static int gcm_decrypt(enum crypt_suite s, const uint8_t *key, const uint8_t *iv, const struct crypt_iov *aad,
		       size_t naad, const struct crypt_iov *text, size_t ntext, const uint8_t *mac)
{
	EVP_CIPHER_CTX *ctx = thread_cipher(thread_get(), s);
	bool ok = EVP_DecryptInit_ex2(ctx, cipher_alg[s], key, iv, NULL) && /* 12-byte IV is GCM's default */
		  gcm_open(ctx, aad, naad, text, ntext, mac);

	thread_cipher_forget(ctx);
	return ok ? 0 : -ECKSUM;
}

/* CCM takes the whole text, and the whole AAD, in one call each. */
static bool ccm_open(EVP_CIPHER_CTX *ctx, const uint8_t *aad, size_t aad_len, uint8_t *text, size_t text_len)
{
	int len;

	/* the length is announced even when it is 0: the MAC's first block holds it */
	return EVP_DecryptUpdate(ctx, NULL, &len, NULL, (int)text_len) &&
	       (!aad_len || EVP_DecryptUpdate(ctx, NULL, &len, aad, (int)aad_len)) &&
	       EVP_DecryptUpdate(ctx, text, &len, text, (int)text_len);
}

static uint8_t *thread_scratch(struct crypt_thread *t, size_t size)
{
	uint8_t *p;

	if (size <= t->scratch_size)
		return t->scratch;
	p = malloc(size);
	if (!p)
		return NULL;
	free(t->scratch);
	t->scratch = p;
	t->scratch_size = size;
	return p;
}

static int ccm_decrypt(enum crypt_suite s, const uint8_t *key, const uint8_t *iv, const struct crypt_iov *aad,
		       size_t naad, const struct crypt_iov *text, size_t ntext, const uint8_t *mac)
{
	struct crypt_thread *t = thread_get();
	EVP_CIPHER_CTX *ctx = thread_cipher(t, s);
	size_t aad_len, text_len;
	uint8_t *a, *x;
	bool direct, ok;

	if (iov_total(aad, naad, AAD_MAX, &aad_len) || iov_total(text, ntext, CCM_TEXT_MAX, &text_len))
		return -ECKSUM;
	direct = naad == 0 && ntext == 1 && text_len;
	a = thread_scratch(t, aad_len + (direct ? 0 : text_len) + 1);
	if (!a)
		return -ENOMEM;
	x = direct ? text[0].base : a + aad_len;
	iov_gather(aad, naad, a);
	if (!direct)
		iov_gather(text, ntext, x);
	ok = EVP_DecryptInit_ex2(ctx, cipher_alg[s], NULL, NULL, NULL) &&
	     EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_IVLEN, CRYPT_IV, NULL) &&
	     EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, CRYPT_MAC, (void *)mac) &&
	     EVP_DecryptInit_ex2(ctx, NULL, key, iv, NULL) && ccm_open(ctx, a, aad_len, x, text_len);
	if (ok && !direct)
		iov_scatter(text, ntext, x);
	if (!direct)
		OPENSSL_cleanse(x, text_len);
	thread_cipher_forget(ctx);
	return ok ? 0 : -ECKSUM;
}

int crypt_decrypt(enum crypt_suite s, const uint8_t *key, const uint8_t iv[CRYPT_IV], const struct crypt_iov *aad,
		  size_t naad, const struct crypt_iov *text, size_t ntext, const uint8_t mac[CRYPT_MAC])
{
	if (!crypt_suite_key_bytes(s))
		return -ENOTSUP;
	if (suite_table[s].ccm)
		return ccm_decrypt(s, key, iv, aad, naad, text, ntext, mac);
	return gcm_decrypt(s, key, iv, aad, naad, text, ntext, mac);
}

/* --- sealing --- */

static bool gcm_seal(EVP_CIPHER_CTX *ctx, const struct crypt_iov *aad, size_t naad, const struct crypt_iov *text,
		     size_t ntext, uint8_t *to, uint8_t *mac)
{
	uint8_t final[16];
	int len;

	for (size_t i = 0; i < naad; i++)
		if (aad[i].len && !EVP_EncryptUpdate(ctx, NULL, &len, aad[i].base, (int)aad[i].len))
			return false;
	for (size_t i = 0; i < ntext; i++)
		if (text[i].len &&
		    !EVP_EncryptUpdate(ctx, to ? to : text[i].base, &len, text[i].base, (int)text[i].len))
			return false;
	return EVP_EncryptFinal_ex(ctx, final, &len) && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, CRYPT_MAC, mac);
}

static int gcm_encrypt(enum crypt_suite s, const uint8_t *key, const uint8_t *iv, const struct crypt_iov *aad,
		       size_t naad, const struct crypt_iov *text, size_t ntext, uint8_t *to, uint8_t *mac)
{
	EVP_CIPHER_CTX *ctx = thread_cipher(thread_get(), s);
	size_t total;
	bool ok;

	if (iov_total(aad, naad, AAD_MAX, &total) || iov_total(text, ntext, INT_MAX, &total))
		return -EINVAL;
	ok = EVP_EncryptInit_ex2(ctx, cipher_alg[s], key, iv, NULL) && gcm_seal(ctx, aad, naad, text, ntext, to, mac);
	thread_cipher_forget(ctx);
	return ok ? 0 : -ENOMEM;
}

/* As ccm_open: all AAD in one call, all text in one, its length announced even when it is 0. */
static bool ccm_seal(EVP_CIPHER_CTX *ctx, const uint8_t *aad, size_t aad_len, const uint8_t *text, size_t text_len,
		     uint8_t *to, uint8_t *mac)
{
	uint8_t final[16];
	int len;

	return EVP_EncryptUpdate(ctx, NULL, &len, NULL, (int)text_len) &&
	       (!aad_len || EVP_EncryptUpdate(ctx, NULL, &len, aad, (int)aad_len)) &&
	       EVP_EncryptUpdate(ctx, to, &len, text, (int)text_len) && EVP_EncryptFinal_ex(ctx, final, &len) &&
	       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, CRYPT_MAC, mac);
}

static int ccm_encrypt(enum crypt_suite s, const uint8_t *key, const uint8_t *iv, const struct crypt_iov *aad,
		       size_t naad, const struct crypt_iov *text, size_t ntext, uint8_t *to, uint8_t *mac)
{
	struct crypt_thread *t = thread_get();
	EVP_CIPHER_CTX *ctx = thread_cipher(t, s);
	size_t aad_len, text_len;
	uint8_t *a, *x;
	bool direct, ok;

	if (iov_total(aad, naad, AAD_MAX, &aad_len) || iov_total(text, ntext, CCM_TEXT_MAX, &text_len))
		return -EINVAL;
	direct = ntext == 1 && text_len;
	a = thread_scratch(t, aad_len + (direct ? 0 : text_len) + 1);
	if (!a)
		return -ENOMEM;
	iov_gather(aad, naad, a);
	x = direct ? text[0].base : a + aad_len;
	if (!direct)
		iov_gather(text, ntext, x);
	ok = EVP_EncryptInit_ex2(ctx, cipher_alg[s], NULL, NULL, NULL) &&
	     EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_IVLEN, CRYPT_IV, NULL) &&
	     EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, CRYPT_MAC, NULL) &&
	     EVP_EncryptInit_ex2(ctx, NULL, key, iv, NULL) &&
	     ccm_seal(ctx, a, aad_len, x, text_len, direct && to ? to : x, mac);
	if (ok && !direct)
		iov_scatter(text, ntext, x);
	if (!direct)
		OPENSSL_cleanse(x, text_len);
	thread_cipher_forget(ctx);
	return ok ? 0 : -ENOMEM;
}

int crypt_encrypt(enum crypt_suite s, const uint8_t *key, const uint8_t iv[CRYPT_IV], const struct crypt_iov *aad,
		  size_t naad, const struct crypt_iov *text, size_t ntext, void *to, uint8_t mac[CRYPT_MAC])
{
	BUG_ON(to && ntext != 1);
	if (!crypt_suite_key_bytes(s))
		return -ENOTSUP;
	if (suite_table[s].ccm)
		return ccm_encrypt(s, key, iv, aad, naad, text, ntext, to, mac);
	return gcm_encrypt(s, key, iv, aad, naad, text, ntext, to, mac);
}

int crypt_passphrase_key(const char *pass, size_t len, uint64_t salt, uint64_t iters, uint8_t out[32])
{
	uint8_t salt_bytes[8];

	len = strnlen(pass, len); /* A1.3: up to the first NUL */
	if (len > INT_MAX || iters == 0 || iters > INT_MAX)
		return -EINVAL;
	store_le64(salt_bytes, salt);
	if (!PKCS5_PBKDF2_HMAC(pass, (int)len, salt_bytes, sizeof(salt_bytes), (int)iters, EVP_sha1(), 32, out))
		return -EINVAL;
	return 0;
}

static void sha512_parts(EVP_MD_CTX *md, const uint8_t *head, size_t head_len, const struct crypt_iov *text, size_t n,
			 uint8_t out[SHA512_BYTES])
{
	bool ok = EVP_DigestInit_ex2(md, sha512_alg, NULL);

	if (head_len)
		ok = ok && EVP_DigestUpdate(md, head, head_len);
	for (size_t i = 0; i < n; i++)
		if (text[i].len)
			ok = ok && EVP_DigestUpdate(md, text[i].base, text[i].len);
	ok = ok && EVP_DigestFinal_ex(md, out, NULL);
	BUG_ON(!ok); /* only for want of memory */
}

void crypt_sha512(const struct crypt_iov *text, size_t n, uint8_t out[64])
{
	sha512_parts(thread_get()->md, NULL, 0, text, n, out);
}

static void hmac_pad(const uint8_t *key, size_t len, uint8_t with, uint8_t pad[SHA512_BLOCK])
{
	memset(pad, with, SHA512_BLOCK);
	for (size_t i = 0; i < len; i++)
		pad[i] ^= key[i];
}

/* RFC 2104; no key of the format is longer than SHA-512's block. */
void crypt_hmac_sha512(const uint8_t *key, size_t key_len, const struct crypt_iov *text, size_t n, uint8_t out[64])
{
	EVP_MD_CTX *md = thread_get()->md;
	uint8_t pad[SHA512_BLOCK], inner[SHA512_BYTES];
	struct crypt_iov v = {inner, sizeof(inner)};

	BUG_ON(key_len > SHA512_BLOCK);
	hmac_pad(key, key_len, 0x36, pad);
	sha512_parts(md, pad, sizeof(pad), text, n, inner);
	hmac_pad(key, key_len, 0x5c, pad);
	sha512_parts(md, pad, sizeof(pad), &v, 1, out);
	OPENSSL_cleanse(pad, sizeof(pad));
}

int crypt_hkdf(const uint8_t *master, size_t master_len, const uint8_t salt[CRYPT_SALT], uint8_t *out, size_t out_len)
{
	uint8_t prk[SHA512_BYTES], okm[SHA512_BYTES], info[CRYPT_SALT + 1];
	struct crypt_iov v = {(void *)master, master_len};

	if (out_len > sizeof(okm))
		return -EINVAL;
	crypt_hmac_sha512(NULL, 0, &v, 1, prk);
	memcpy(info, salt, CRYPT_SALT);
	info[CRYPT_SALT] = 1;
	v = (struct crypt_iov){info, sizeof(info)};
	crypt_hmac_sha512(prk, sizeof(prk), &v, 1, okm);
	memcpy(out, okm, out_len);
	OPENSSL_cleanse(prk, sizeof(prk));
	OPENSSL_cleanse(okm, sizeof(okm));
	return 0;
}
