/*
 * zil/zil.h: reading intent-log chains (docs/format/07-filesystem-zvol-zil.md, section 9; encrypted ones 04, A1.11).
 * Pools are opened read-only here, so chains are walked, counted and shown, never claimed.
 *
 * Both block forms are read (zilog: chain structure at the end; zilog2: at the start) and both byte orders. A chain
 * ends where its next block does not verify: that is normal and no error. Blocking; any thread but cpu workers. No
 * locks, no state.
 */
#ifndef ZIL_ZIL_H
#define ZIL_ZIL_H

#include "dmu/dmu.h"

struct zil_header {
	uint64_t claim_txg, replay_seq, claim_blk_seq, claim_lr_seq, flags;
	struct bp log; /* a hole: no log */
};
#define ZIL_REPLAY_NEEDED      1u /* of the flags */
#define ZIL_CLAIM_LR_SEQ_VALID 2u
/* -EINVAL: the pointer of the first block is damaged. */
int zil_header_decode(const uint8_t phys[192], bool swap, struct zil_header *out);

enum zil_txtype {
	TX_COMMIT = 0,
	TX_CREATE = 1,
	TX_MKDIR = 2,
	TX_MKXATTR = 3,
	TX_SYMLINK = 4,
	TX_REMOVE = 5,
	TX_RMDIR = 6,
	TX_LINK = 7,
	TX_RENAME = 8,
	TX_WRITE = 9,
	TX_TRUNCATE = 10,
	TX_SETATTR = 11,
	TX_ACL_V0 = 12,
	TX_ACL = 13,
	TX_CREATE_ACL = 14,
	TX_CREATE_ATTR = 15,
	TX_CREATE_ACL_ATTR = 16,
	TX_MKDIR_ACL = 17,
	TX_MKDIR_ATTR = 18,
	TX_MKDIR_ACL_ATTR = 19,
	TX_WRITE2 = 20,
	TX_SETSAXATTR = 21,
	TX_RENAME_EXCHANGE = 22,
	TX_RENAME_WHITEOUT = 23,
	TX_CLONE_RANGE = 24,
	TX_TYPES
};

struct zil_record {
	uint64_t txtype, reclen, txg, seq; /* txtype without bit 63 */
	bool case_insensitive;             /* bit 63 */
	/* The whole record, reclen bytes: fixed fields and block pointers in host order; attribute blocks, ACEs and
	 * strings as stored. Valid during the call. */
	const uint8_t *data;
	bool sealed; /* encrypted and no key: only head and block pointers can be used */
	bool swapped;
};
/*
 * The chain of an object set, in order; each callback may be NULL and stops the walk by a non-zero return, which is
 * returned. `block` is told every log block's pointer, the allocated but unwritten tail too; seq is the block's
 * sequence. Without os->key records of an encrypted set are told sealed. -ECKSUM: an encrypted block's MAC is wrong;
 * -EINVAL: damaged records; -EIO and such: a block could not be read.
 */
int zil_each(struct objset *os, int (*block)(void *arg, const struct bp *bp, uint64_t seq),
	     int (*record)(void *arg, const struct zil_record *r), void *arg);
const char *zil_record_name(uint64_t txtype); /* "TX_WRITE" ... "TX_UNKNOWN" */
/* For the fuzzer: walk the records of one log block's bytes (its form is found by the magic). */
int zil_block_each(const uint8_t *data, size_t size, bool swap, int (*record)(void *arg, const struct zil_record *r),
		   void *arg);

#endif
