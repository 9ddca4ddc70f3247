/*
 * zio/zio_crypt.h: what of a block is encrypted or authenticated, by its type (docs/format/04-crypto-dedup-clone.md,
 * A1.6 - A1.13).
 *
 * A crypt_key holds one data set family's master and HMAC keys, in locked memory kept out of core dumps, wiped when the
 * last reference goes; derived per-salt keys are cached inside (bounded). Reference counted, any thread.
 */
#ifndef ZIO_ZIO_CRYPT_H
#define ZIO_ZIO_CRYPT_H

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
/* Stored checksum words of a block whose pointer has X = 1 (2.6 of chapter 02): fold `full` for comparison with words 0
 * and 1. */
void zio_crypt_cksum_fold(enum checksum c, struct cksum *sum); /* words 2 and 3 become 0 */
bool zio_crypt_cksum_matches(const struct bp *bp, const struct cksum *full);

#endif
