/*
 * codec/crypt.h: ciphers, MACs and key derivation of native encryption (docs/format/04-crypto-dedup-clone.md, A1.2,
 * A1.3, A1.6). Knows bytes only: what of a block is authenticated is said in zio/zio_crypt.h. Any thread.
 */
#ifndef CODEC_CRYPT_H
#define CODEC_CRYPT_H

#include "base/base.h"

enum crypt_suite { /* numbers of the format */
		   CRYPT_INHERIT = 0,
		   CRYPT_ON = 1,
		   CRYPT_OFF = 2,
		   CRYPT_AES_128_CCM = 3,
		   CRYPT_AES_192_CCM = 4,
		   CRYPT_AES_256_CCM = 5,
		   CRYPT_AES_128_GCM = 6,
		   CRYPT_AES_192_GCM = 7,
		   CRYPT_AES_256_GCM = 8,
		   CRYPT_COUNT
};

#define CRYPT_KEY_MAX  32
#define CRYPT_HMAC_KEY 64
#define CRYPT_SALT     8
#define CRYPT_IV       12
#define CRYPT_MAC      16

struct crypt_iov {
	void *base;
	size_t len;
};

size_t crypt_suite_key_bytes(enum crypt_suite s); /* 0: no such suite */
const char *crypt_suite_name(enum crypt_suite s);

/* Decrypt scattered text in place (AAD scattered too). 0, -ECKSUM when the tag does not match (text is then undefined).
 */
int crypt_decrypt(enum crypt_suite s, const uint8_t *key, const uint8_t iv[CRYPT_IV], const struct crypt_iov *aad,
		  size_t naad, const struct crypt_iov *text, size_t ntext, const uint8_t mac[CRYPT_MAC]);

/* Encrypt scattered text in place and make the tag; `to` not NULL: ntext is 1, and the ciphertext goes there instead.
 * -EINVAL: more text than the suite takes (CCM: 2^24 - 1 bytes); -ENOMEM. */
int crypt_encrypt(enum crypt_suite s, const uint8_t *key, const uint8_t iv[CRYPT_IV], const struct crypt_iov *aad,
		  size_t naad, const struct crypt_iov *text, size_t ntext, void *to, uint8_t mac[CRYPT_MAC]);

/* PBKDF2-HMAC-SHA1 of a passphrase to a 32-byte wrapping key. */
int crypt_passphrase_key(const char *pass, size_t len, uint64_t salt, uint64_t iters, uint8_t out[32]);
/* HKDF-SHA512 of the master key with a block's salt. */
int crypt_hkdf(const uint8_t *master, size_t master_len, const uint8_t salt[CRYPT_SALT], uint8_t *out, size_t out_len);
void crypt_hmac_sha512(const uint8_t *key, size_t key_len, const struct crypt_iov *text, size_t n, uint8_t out[64]);
void crypt_sha512(const struct crypt_iov *text, size_t n, uint8_t out[64]);

#endif
