/*
 * dsl/dsl_crypt.h: the keys of encrypted data sets (docs/format/04-crypto-dedup-clone.md, A1.2 - A1.5).
 *
 * A DSL crypto key object (one per family of clones) holds a master key wrapped with the wrapping key of its encryption
 * root. The keystore of a pool holds the wrapping keys that were loaded, by the root's dir object, and the data keys
 * unwrapped with them, by key object; all of it in secret memory (os_secret_alloc).
 *
 * A data key leaves the keystore only while nobody but the keystore holds it; what was cached decrypted under it is
 * forgotten then. Lock: one mutex per keystore, a leaf; never held while reading or deriving.
 */
#ifndef DSL_DSL_CRYPT_H
#define DSL_DSL_CRYPT_H

#include "dsl/dsl.h"
#include "zio/zio_crypt.h"

enum dsl_keyformat { /* numbers of the format */
		     KEYFORMAT_NONE = 0,
		     KEYFORMAT_RAW = 1,
		     KEYFORMAT_HEX = 2,
		     KEYFORMAT_PASSPHRASE = 3,
};

struct dsl_keystore;
struct dsl_keystore *dsl_keystore_create(void);
void dsl_keystore_destroy(struct dsl_keystore *ks); /* NULL is allowed; wipes everything */

/* Another dir is the encryption root now: the keys stay loaded. */
void dsl_keystore_root_move(struct dsl_keystore *ks, uint64_t from, uint64_t to);

/* What the key object says in clear. */
struct dsl_crypt_info {
	enum crypt_suite suite;
	uint64_t guid;                   /* of the master key */
	uint64_t root;                   /* dir object of the encryption root */
	uint64_t version;                /* 0: pre-release format, 1 */
	uint64_t keyformat, salt, iters; /* as stored here; true only in the root's key object */
};
/* -ENOENT when not encrypted, -ENOTSUP for suites and versions of the future. */
int dsl_crypt_info_get(struct dsl_dir *d, struct dsl_crypt_info *out, struct err *e);
/* The same with key format, salt and iterations of the encryption root. */
int dsl_crypt_info_of_root(struct dsl_dir *d, struct dsl_crypt_info *out, struct err *e);

/*
 * The wrapping key from what the user gave: 32 raw bytes, 64 hex digits, or a passphrase; of the latter two one line
 * feed at the end is cut. -EINVAL malformed.
 */
int dsl_wrapping_key(const struct dsl_crypt_info *info, const void *material, size_t len, uint8_t out[32],
		     struct err *e);
/* What a key object stores of a wrapped key pair. */
struct dsl_wrapped_key {
	uint8_t iv[CRYPT_IV], mac[CRYPT_MAC], master[CRYPT_KEY_MAX], hmac_key[CRYPT_HMAC_KEY];
};
/* -EACCES: not wrapped with this key. */
int dsl_key_unwrap(const struct dsl_crypt_info *info, const struct dsl_wrapped_key *w, const uint8_t wrapping[32],
		   struct crypt_key **out);

#endif
