/*
 * zio/zio.h: the block pipeline, read side: from a block pointer to verified, decrypted, decompressed bytes
 * (docs/format/02-blocks-and-objects.md sections 1-5; 04-crypto-dedup-clone.md A1).
 *
 * A read is a state machine: choose DVA -> (gang: header, members) -> vdev_read with our checksum as its verifier ->
 * decrypt or check the MAC -> decompress -> byteswap of block pointers is NOT done here (consumers decode with the
 * pointer's byte order). All computation runs on cpu workers; submission never blocks. DVAs are tried in order of their
 * vdev's health, then the others.
 */
#ifndef ZIO_ZIO_H
#define ZIO_ZIO_H

#include "base/buf.h"
#include "base/counter.h"
#include "base/err.h"
#include "base/taskq.h"
#include "vdev/vdev.h"
#include "zio/bp.h"

struct crypt_key; /* zio/zio_crypt.h: an unlocked data set's master key */

/* What reads of one pool share. Made by spa; outlives every read. */
struct zio_pool {
	uint64_t guid;
	struct vdev *root;          /* top-levels are root->child[] */
	struct checksum_salt *salt; /* NULL until loaded */
	bool dynamic_gang;          /* feature com.klarasystems:dynamic_gang_header is active */
	/* An indirect, dnode or object set pointer born later is corrupt (others may come from the intent log, which is
	 * ahead of the pool). 0 or UINT64_MAX until known. */
	uint64_t max_txg;
	/* Told about every block that could not be read although all was tried; may be NULL. Any thread. */
	void (*on_error)(struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb, int err);
	void *on_error_arg;
	struct counter reads, read_bytes, checksum_failures, decrypt_failures, reconstructed;
};

#define ZIO_RAW         1u  /* stored bytes: psize, checksum verified, neither decrypted nor decompressed */
#define ZIO_SPECULATIVE 2u  /* prefetch: quiet and late */
#define ZIO_SCRUB       4u  /* verify every copy; fails only when none is good, the others show in the vdev counters */
#define ZIO_NO_DATA     8u  /* verify only (with ZIO_RAW): the buffer is released before done */
#define ZIO_QUIET       16u /* do not report failures to on_error */
#define ZIO_GANG_HEADER 32u /* of a gang block: its header, whole and verified, instead of the members' bytes */

/*
 * Read one block. `key` is needed for encrypted and authenticated blocks (without ZIO_RAW); NULL gives -EKEY for
 * encrypted ones, and skips the HMAC of authenticated ones. Holes give zeros of lsize. Exactly one done call: err 0
 * with a buffer the callee now owns (one reference), or a negative errno: -EINVAL bad pointer, -ECKSUM, -EIO, -ENXIO,
 * -EKEY, -ENOMEM. done runs on a cpu worker (never on the submitter's stack) and does not block.
 */
struct zio_read {
	struct bp bp;
	struct zbookmark zb;
	struct crypt_key *key;
	unsigned flags;
	void (*done)(struct zio_read *r, int err, struct buf *buf);
	void *arg;
	void *priv; /* zio's own */
};
void zio_read(struct zio_pool *zp, struct zio_read *r);
/* Member pointers of a header that was read so (size / 128 of them at most, checked); holes are left out. */
unsigned zio_gang_members(const struct bp *leader, const struct buf *header, struct bp *out);
int zio_read_wait(struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb, struct crypt_key *key,
		  unsigned flags, struct buf **out);

#endif
