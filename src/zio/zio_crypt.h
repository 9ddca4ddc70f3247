/*
 * zio/zio_crypt.h: what of a block is encrypted or authenticated, by its type (docs/format/04-crypto-dedup-clone.md,
 * A1.6 - A1.13).
 *
 * A crypt_key holds one data set family's master and HMAC keys, in locked memory kept out of core dumps, wiped when the
 * last reference goes; derived per-salt keys are cached inside (bounded). Reference counted, any thread.
 */
#ifndef ZIO_ZIO_CRYPT_H
#define ZIO_ZIO_CRYPT_H

#include "base/tunable.h"
#include "codec/crypt.h"
#include "zio/bp.h"

struct crypt_key;

struct crypt_key *crypt_key_create(enum crypt_suite suite, uint64_t guid, const uint8_t *master,
				   const uint8_t *hmac_key, unsigned version);
struct crypt_key *crypt_key_hold(struct crypt_key *k);
void crypt_key_release(struct crypt_key *k);
enum crypt_suite crypt_key_suite(const struct crypt_key *k);
bool crypt_key_is_shared(const struct crypt_key *k); /* somebody else holds it too */
uint64_t crypt_key_guid(const struct crypt_key *k);  /* names the master key: equal in one family of clones */

/*
 * Decrypt or authenticate a block of psize stored bytes in place, by the pointer's class and type: ordinary data, dnode
 * blocks (bonus areas), ZIL blocks (mac in the block), authenticated blocks (HMAC only). 0 or -ECKSUM.
 */
int zio_crypt_read(struct crypt_key *k, const struct bp *bp, uint8_t *data, size_t psize);
/* MAC of an indirect block over its uncompressed pointers; needs no key. 0 or -ECKSUM. */
int zio_crypt_check_indirect(const struct bp *bp, const uint8_t *data, size_t lsize);
/* Object set header: portable and local MAC. 0 or -ECKSUM. */
int zio_crypt_check_objset(struct crypt_key *k, const struct bp *bp, const uint8_t *data, size_t size);
/* Stored checksum words of a block whose pointer has X = 1 (2.6 of chapter 02): `full` against words 0 and 1. */
bool zio_crypt_cksum_matches(const struct bp *bp, const struct cksum *full);

/* --- writing; the pointer's properties, X among them, are set before --- */

/* Only keys of version 1 seal (A1.14). */
bool crypt_key_can_seal(const struct crypt_key *k);
/* Fresh salt and IV into an encrypted pointer. A salt is used 400 million times (zfs_key_max_salt_uses). */
void zio_crypt_set_fresh(struct crypt_key *k, struct bp *bp);
/* Fill counts of encrypted pointers share their word with the IV. */
void zio_crypt_set_fill(struct bp *bp, uint64_t fill);
/*
 * Encrypts psize bytes of a level 0 block of an encrypted type with the salt and IV of bp, `from` to `to` (which may be
 * the same); the MAC goes into bp, that of a log block into its trailer. -EINVAL: a dnode or log block that is
 * malformed, more than a CCM suite takes; -ENOMEM.
 */
int zio_crypt_encrypt(struct crypt_key *k, struct bp *bp, const uint8_t *from, uint8_t *to, size_t psize);
/* MAC of an authenticated block over its stored bytes. */
void zio_crypt_authenticate(struct crypt_key *k, struct bp *bp, const uint8_t *data, size_t psize);
/* MAC of an indirect block over its uncompressed pointers. -ENOMEM. */
int zio_crypt_set_indirect(struct bp *bp, const uint8_t *data, size_t lsize);
/* Both MACs into an object set's header. -EINVAL: too small, or its dnodes are malformed. */
int zio_crypt_seal_objset(struct crypt_key *k, const struct bp *bp, uint8_t *data, size_t size);

extern struct tunable tunable_key_max_salt_uses;

#endif
