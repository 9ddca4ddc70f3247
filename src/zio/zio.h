/*
 * zio/zio.h: the block pipeline: from a block pointer to verified, decrypted, decompressed bytes, and back
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
	atomic_bool dynamic_gang;   /* feature com.klarasystems:dynamic_gang_header is active */
	atomic_bool old_log;        /* pool version below 23: log blocks are of the form zilog */
	atomic_bool hole_birth;     /* feature com.delphix:hole_birth is active: holes that were blocks have births */
	/* An indirect, dnode or object set pointer born later is corrupt (others may come from the intent log, which is
	 * ahead of the pool). 0 or UINT64_MAX until known. */
	uint64_t max_txg;
	/* Told about every block that could not be read although all was tried; may be NULL. Any thread. */
	void (*on_error)(struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb, int err);
	void *on_error_arg;
	struct counter reads, read_bytes, checksum_failures, decrypt_failures, reconstructed;

	/* --- writing; all NULL or 0 in a pool that is read-only --- */
	const struct zio_alloc_ops *alloc; /* the alloc floor's */
	void *alloc_arg;
	/* A write that failed on every device: the pool is to be suspended or not, by its failmode. Returns true: keep
	 * the write, zio_resume will run it again. May be NULL: it just fails. Any thread, does not block. */
	bool (*on_write_failure)(struct zio_pool *zp, const struct zbookmark *zb, int err);
	struct zio_writer *writer;       /* zio's own: writes that wait to be started, suspended ones */
	unsigned min_ashift, max_ashift; /* of the tops that blocks may go to; set by alloc */
	uint64_t gcd_alloc, min_alloc;   /* granularity of sizes (06, 3.2 "Granularity"); set by alloc */
	struct counter writes, write_bytes, gang_writes, allocated, freed;
};

/* --- allocation, as zio asks for it (docs/format/06, section 3) --- */
enum zio_class { ZIO_CLASS_NORMAL, ZIO_CLASS_LOG, ZIO_CLASS_SPECIAL, ZIO_CLASS_DEDUP };
#define ZIO_ALLOC_GANG_HEADER 1u  /* try hard */
#define ZIO_ALLOC_MEMBER      2u  /* try hard */
#define ZIO_ALLOC_ZIL         4u  /* classes in the order of 06, section 9; try hard; not throttled */
#define ZIO_ALLOC_FASTWRITE   8u  /* spread over devices rather than fill one */
#define ZIO_ALLOC_NOWAIT      16u /* on a cpu worker: -EAGAIN instead of waiting for a metaslab */
#define ZIO_ALLOC_SMALL       32u /* data in the special class for its size: only while that has room to spare */
struct zio_alloc_ops {
	/* Space for ndvas copies of psize bytes, in distinct extents, on as many top-levels as can be; into dva[]
	 * (asize and offset in bytes). All or nothing. -ENOSPC. `near` may be NULL: put them close to it. Never blocks
	 * on a device (a metaslab that is not loaded is passed over and asked to be loaded; when nothing else is there,
	 * the call waits for it, or with ZIO_ALLOC_NOWAIT gives -EAGAIN: zio asks so first, on the cpu worker that has
	 * compressed the block, and again without the flag on a thread of its own that may wait). */
	int (*alloc)(void *arg, enum zio_class class, uint64_t psize, unsigned ndvas, uint64_t txg, unsigned flags,
		     const struct dva *near, struct dva dva[BP_DVAS]);
	/* A block that was allocated in txg `birth` is not needed after txg; its space rests for some groups, whatever
	 * its birth, as a log record may still point to it. asize is what was allocated there: of a gang block one call
	 * for each header and each member. */
	void (*free)(void *arg, const struct dva *dva, uint64_t txg, uint64_t birth);
	/* What alloc gave in txg and nothing on a device points to: to be had again at once. */
	void (*unalloc)(void *arg, const struct dva *dva, uint64_t txg);
	/* Space found in use by a log chain at import; -ENOENT when it was not free. */
	int (*claim)(void *arg, const struct dva *dva, uint64_t txg);
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

/* --- writing --- */

/* How a block is to be written (02, 1.6, 2.7, 3.2): the dmu fills it from object type and data set properties. */
struct zio_policy {
	uint8_t type, level; /* of the pointer */
	enum checksum checksum;
	enum compress compress; /* resolved: never "on" or "inherit" */
	uint8_t complevel;      /* zstd, gzip; 0: default */
	uint8_t copies;         /* DVAs, 1 - 3 */
	uint8_t gang_copies;
	bool dedup, dedup_verify, nopwrite;
	bool embed;     /* may become an embedded pointer (feature embedded_data) */
	bool byteorder; /* false: host order */
	bool fast_write;
	enum zio_class class;   /* normal, special or dedup as asked; special falls back to normal */
	uint64_t special_small; /* psize up to which the special class is taken for data; 0: none */
};

#define ZIO_WRITE_SYNC        1u  /* somebody waits: class VDEV_SYNC_WRITE */
#define ZIO_WRITE_RAW         2u  /* data is psize bytes as they are to be stored; bp's properties are given */
#define ZIO_WRITE_FIXED       4u  /* no allocation: data goes where bp says, whose properties are kept (log blocks) */
#define ZIO_WRITE_NO_COMPRESS 8u  /* as if the policy said off (rewrites in sync passes from 8 on) */
#define ZIO_WRITE_MAY_FAIL    16u /* a failure is told by done; on_write_failure is not asked (log blocks) */
/* For a small fixed block that somebody waits for: it is summed (and encrypted) on the caller's stack, and done comes
 * on the thread that completes the device's write, also inside zio_write. */
#define ZIO_WRITE_DIRECT 32u

/*
 * Write one block of `lsize` bytes: zeros become holes (only when the policy compresses, 02 3.3), small ones embedded
 * pointers; else compress, encrypt, checksum, allocate (gang blocks when there is no room in one piece), write to all
 * DVAs. The buffer is shared and not changed; the caller holds it until done. Submission never blocks; computation runs
 * on cpu workers, allocation there or on the writer's own threads. Exactly one done call, on a cpu worker and never on
 * the submitter's stack. Any number may be submitted; they are started in order as memory for compressed and encrypted
 * copies allows, those with ZIO_WRITE_SYNC at once.
 *
 * In: `bp` holds the pointer that is being replaced (a hole when there is none). When its birth is txg and the stored
 * size stays, the block is overwritten in place if `rewrite` is set. Out: the new pointer, fill as given; when *bp was
 * not overwritten in place and nop-write did not keep it (bp_equal), the old block is still allocated: freeing it is
 * the caller's matter. On an error *bp is as it was and nothing is allocated.
 *
 * `key`: the block is of an encrypted set: encrypted or authenticated by its type and level (04, A1).
 *
 * ZIO_WRITE_RAW: bp gives lsize, psize, compression, type, level, byte order, X with salt, IV and MAC; births, DVAs and
 * checksum are made. ZIO_WRITE_FIXED: lsize bytes, at most the psize of bp, at its DVAs. Log blocks (zilog, zilog2) get
 * their trailer, and with `key` their ciphertext, inside `data`, which nobody else may hold then; checksum words, salt
 * and IV are in bp before, as zio_alloc_zil and zil made them, and nothing in bp changes. Other blocks get checksum
 * words.
 *
 * A device that fails: the block is allocated and written once more elsewhere; when that fails too, or there is no
 * space, zp->on_write_failure decides, unless ZIO_WRITE_MAY_FAIL: kept until zio_resume, or failed. err: -ENOSPC, -EIO,
 * -ENXIO, -ENOMEM; -EROFS (no writer), -ENOTSUP (a policy that is not understood), -EINVAL.
 */
struct zio_write {
	struct buf *data;
	uint32_t lsize;
	struct zio_policy policy;
	struct crypt_key *key;
	struct zbookmark zb;
	uint64_t txg;
	uint64_t fill;
	bool rewrite;
	unsigned flags;
	struct bp bp;
	/* Children were written: called on a cpu worker just before the data is compressed and summed, for an indirect
	 * or dnode block whose bytes must be final. May be NULL. */
	void (*ready)(struct zio_write *w);
	void (*done)(struct zio_write *w, int err);
	void *arg;
	struct list_node node; /* zio's own: waiting to be started */
};
void zio_write(struct zio_pool *zp, struct zio_write *w);
int zio_write_wait(struct zio_pool *zp, struct zio_write *w);

/* Makes zp->writer; called by spa once the pool is loaded for writing. */
void zio_writer_create(struct zio_pool *zp);
void zio_writer_destroy(struct zio_pool *zp);
/* Run the suspended writes again (zpool clear); or fail them for good (a pool that is dropped). */
void zio_resume(struct zio_pool *zp);
void zio_abandon(struct zio_pool *zp);
bool zio_is_suspended(const struct zio_pool *zp);
/* For a read that a group cannot do without, while on_write_failure has it wait: zio_resumes is asked before; waits
 * until zio_resume is called after that. False: abandoned. */
uint64_t zio_resumes(const struct zio_pool *zp);
bool zio_wait_resumed(const struct zio_pool *zp, uint64_t resumes);

/* Give a block's space back in txg (syncing or quiescing context): each DVA, and a gang block's members, whose header
 * is read; waits then. Holes and embedded pointers: nothing. Not for cpu workers. Dedup and cloned blocks are the
 * caller's matter. */
int zio_free(struct zio_pool *zp, const struct bp *bp, uint64_t txg);
/* Mark a block's space as allocated (log blocks and what they point to, at import). */
int zio_claim(struct zio_pool *zp, const struct bp *bp, uint64_t txg);
/* A log block of `size` bytes (multiple of 4096): type 9, one DVA, never gang; with `key` fresh salt and IV. Checksum
 * words are the caller's. -ENOSPC. May wait for a metaslab; `flags` ZIO_ALLOC_NOWAIT: -EAGAIN instead. */
int zio_alloc_zil(struct zio_pool *zp, uint64_t txg, uint32_t size, struct crypt_key *key, unsigned flags,
		  struct bp *out);
/* How many DVAs a block gets (02, 1.6), and its headers when it becomes a gang block: asked is the data set's `copies`
 * (the MOS: 3), redundant_metadata as in objset_props, encrypted: of an encrypted set. */
unsigned zio_copies(unsigned type, unsigned level, unsigned asked, unsigned redundant_metadata, bool encrypted);
unsigned zio_gang_copies(unsigned type, unsigned level, unsigned asked, unsigned redundant_metadata, bool encrypted);

#endif
