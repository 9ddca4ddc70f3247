/*
 * zil/zil.h: the intent log (docs/format/07-filesystem-zvol-zil.md, section 9; encrypted ones 04, A1.11): walking
 * chains, committing, claiming, replaying.
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

/* =================================== writing ===================================
 *
 * One struct zil per data set that is open for writing. Operations append records (itx) inside their transaction;
 * zil_commit makes what was appended so far safe, together with everybody who waits: records go into the open log
 * block, it is written when the one before it was issued and nobody adds more, then the devices are flushed once for
 * all that wait. Log blocks are written by a small state machine driven by completions; no thread waits for a device.
 *
 * Failures (no space, a device): whoever waits is answered once the groups of its records are on the devices instead.
 *
 * Locks: one mutex per log; no callback is called with it held.
 */
enum zil_write_kind { ZIL_COPIED, ZIL_INDIRECT };

struct itx {
	struct list_node node;
	uint64_t txg, seq;
	uint64_t object; /* whose record it is, for asynchronous ones */
	bool async;      /* ordered per object only (9.8) */
	uint32_t reclen; /* multiple of 8; COPIED data included */
	/* INDIRECT: the block whose place goes into the record when it is committed (bp at the record's end) */
	struct dnode *dn; /* held */
	uint64_t blkid;
	struct buf
	    *data; /* COPIED: bytes behind the record's fixed part, [data_off, + data_len) of it; held, may be NULL */
	uint32_t data_off, data_len;
	/* the record: txtype and fields of 9.14; txg, seq and reclen are filled in */
	uint8_t record[];
};
struct itx *itx_create(uint64_t txtype, size_t record_size);
void itx_destroy(struct itx *itx);

/* Data set open for writing; the header must have been claimed and replayed or be empty. */
int zil_open(struct objset *os, struct zil **out, struct err *e);
/* Commits, waits for the group, leaves a clean log. Blocking. */
void zil_close(struct zil *zil);
/* Largest data that one COPIED write record should hold, and which kind a write of len bytes is to be (06, section 9).
 */
enum zil_write_kind zil_write_kind(const struct zil *zil, uint64_t len, uint32_t blocksize, bool sync);
/* Takes the itx. Inside the transaction whose change it describes. */
void zil_append(struct zil *zil, struct itx *itx, struct tx *tx);
/* Nothing is logged with sync=disabled; done is then called at once. object 0: everything. done: any thread, does not
 * block; err 0 always means safe. */
struct zil_commit {
	uint64_t object;
	void (*done)(struct zil_commit *c, int err);
	void *arg;
	struct list_node node;
	uint64_t seq, txg; /* zil's own */
};
void zil_commit(struct zil *zil, struct zil_commit *c);
int zil_commit_wait(struct zil *zil, uint64_t object);

/* In the sync of the data set, before its header is written: trims the chain, stores the header (9.11). */
void zil_sync(struct objset *os, struct tx *tx);
/* The group is on the devices: its itxs are dropped. */
void zil_sync_done(struct objset *os, uint64_t txg);

/* Import (9.9): walk without a change: -EIO and such when a chain cannot be read for another reason than its end. */
int zil_check(struct objset *os);
/* Syncing context of the first group: claims; *max_birth grows to the highest birth seen. */
int zil_claim(struct objset *os, uint64_t first_txg, struct tx *tx, uint64_t *max_birth);
/* Forget a log (missing log device by -m, rewind): frees what is allocated, zeroes the header. Syncing context. */
void zil_discard(struct objset *os, struct tx *tx);
/* 9.10: applies the records that are needed through `apply` (0, or an error that stops), each in transactions that note
 * the sequence by zil_replayed; then destroys the log and waits for it. Blocking. */
int zil_replay(struct zil *zil, int (*apply)(void *arg, const struct zil_record *r), void *arg, struct err *e);
void zil_replayed(struct zil *zil, struct tx *tx);
bool zil_needs_replay(const struct objset *os);

#endif
