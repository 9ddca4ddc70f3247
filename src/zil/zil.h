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
#define ZIL_HEADER_SIZE        192u
/* -EINVAL: the pointer of the first block is damaged. */
int zil_header_decode(const uint8_t phys[ZIL_HEADER_SIZE], bool swap, struct zil_header *out);
void zil_header_encode(const struct zil_header *zh, uint8_t phys[ZIL_HEADER_SIZE]); /* host order */

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
#define ZIL_RECORD_HEAD 32u /* type, length, group, sequence; what the record says follows */
#define ZIL_WRITE_BP    64u /* of TX_WRITE: the pointer to the data */
#define ZIL_WRITE_FIXED                                                                                                \
	192u /* of TX_WRITE: what comes before data in the record; a record so short has the pointer                   \
	      */
static inline uint64_t zil_record_u64(const struct zil_record *r, size_t at)
{
	return at + 8 <= r->reclen ? load_host64(r->data + at) : 0;
}
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
 * zil_commit makes what was appended so far safe, together with everybody who waits. Who finds the log idle has its
 * records put into log blocks at once, on its own stack; who comes while a batch of records is being written gathers in
 * the next one, so that under load one write and one flush serve all who wait. A batch goes through these steps, each
 * driven by the completion of the one before; no thread waits for a device:
 *
 *	the data of INDIRECT records are written to their places (from the moment of the commit on)
 *	-> records are placed in blocks, each of which names the block that follows -> the blocks are written
 *	-> every device that took any of it is flushed, once -> the waiters are told
 *
 * The group in which following blocks are allocated is not synced before the batch is on the devices (9.6).
 *
 * Failures (no space, a device): whoever waits is answered once the groups of its records are on the devices instead;
 * the chain is given up with the group in whose time it broke, and a new one started.
 *
 * Locks: one mutex per log; it comes before those of txg.h, and no callback is called with it held. A batch's list of
 * records belongs to whoever drives the batch.
 */
enum zil_write_kind { ZIL_COPIED, ZIL_INDIRECT };

struct itx {
	struct list_node node;
	uint64_t txg;
	uint64_t object;  /* whose record it is, for asynchronous ones */
	bool async;       /* ordered per object only (9.8) */
	bool drop;        /* zil's own: not to be placed any more */
	uint32_t reclen;  /* multiple of 8; COPIED data included */
	uint32_t charged; /* bytes of `data` that nobody else keeps in memory: they count as dirty data */
	/* INDIRECT: the block whose place goes into the record when it is committed */
	struct dnode *dn; /* held; NULL: not of that kind */
	uint64_t blkid;
	/* COPIED: data_len bytes from data_off on follow the record's fixed part; held, not changed any more; NULL: the
	 * record is whole in itself */
	struct buf *data;
	uint32_t data_off, data_len;
	/* the record: txtype and fields of 9.14; txg, seq and reclen are filled in */
	uint8_t record[];
};
/* record_size: the part in memory; filled with zeros but for the type. */
struct itx *itx_create(uint64_t txtype, size_t record_size);
/* TX_WRITE of len bytes at `offset` of the object. Copied: the bytes are `data` from `off` on, of which it takes a
 * reference. Indirect: the bytes lie in block blkid of dn, of which it takes a reference. */
struct itx *itx_create_write(uint64_t object, uint64_t offset, uint64_t len);
void itx_set_data(struct itx *itx, struct buf *data, uint32_t off);
void itx_set_indirect(struct itx *itx, struct dnode *dn, uint64_t blkid);
void itx_destroy(struct itx *itx);

/*
 * Data set open for writing. A log that was claimed and needs no replay is emptied; one that does is replayed by
 * zil_replay, before anything is appended. Sets os->zil. Blocking.
 */
int zil_open(struct objset *os, struct zil **out, struct err *e);
/* Waits for the groups of all records and leaves an empty log, without a block. Nobody appends or commits any more.
 * Blocking. */
void zil_close(struct zil *zil);
/* Gives up the present chain: its blocks are freed with the next group or the one after, new ones are allocated where
 * the allocator now says (a log device that leaves). Does not block. */
void zil_restart(struct zil *zil);
/* How a write of len bytes, all of it in blocks of `blocksize`, is to be logged (06, section 9). sync: it is committed
 * at once. */
enum zil_write_kind zil_write_kind(const struct zil *zil, uint64_t len, uint32_t blocksize, bool sync);
/* Takes the itx. Inside the transaction whose change it describes. Data that do not fit one record are split. */
void zil_append(struct zil *zil, struct itx *itx, struct tx *tx);
/* Nothing is logged with sync=disabled; done is then called at once. object 0: everything. done: any thread, also the
 * caller's, does not block; err 0 always means safe; -EIO: the pool is lost or suspended (failmode=continue). */
struct zil_commit {
	uint64_t object;
	void (*done)(struct zil_commit *c, int err);
	void *arg;
	struct list_node node; /* zil's own */
	int err;
};
void zil_commit(struct zil *zil, struct zil_commit *c);
int zil_commit_wait(struct zil *zil, uint64_t object);

/* In the sync of the data set, before its header is written: trims the chain, stores the header (9.11). Sync thread;
 * may read log blocks. Nothing is done for sets without an open log. */
void zil_sync(struct objset *os, struct tx *tx);
/* The group is on the devices: its itxs are dropped. */
void zil_sync_done(struct objset *os, uint64_t txg);

/* Import (9.9): walk without a change: -EIO and such when a chain cannot be read for another reason than its end. Also
 * -ENOTSUP: there are records that cannot be claimed (block clones). */
int zil_check(struct objset *os);
/* Syncing context of the first group: claims; *max_birth grows to the highest birth seen. The set may be open without
 * its key. */
int zil_claim(struct objset *os, uint64_t first_txg, struct tx *tx, uint64_t *max_birth);
/* Forget a log (missing log device by -m, rewind; a set that is destroyed or rolled back): frees what is allocated,
 * zeroes the header. Syncing context. */
void zil_discard(struct objset *os, struct tx *tx);
/*
 * 9.10: applies the records that are needed through `apply` (0, or an error that stops), each in transactions that note
 * the sequence by zil_replayed; then destroys the log and waits for it. Nothing to do: 0. Blocking. After an error the
 * log is kept as it is, for the next try.
 */
int zil_replay(struct zil *zil, int (*apply)(void *arg, const struct zil_record *r), void *arg, struct err *e);
/* Inside the transaction. */
void zil_replayed(struct zil *zil, struct tx *tx);
bool zil_needs_replay(const struct objset *os);
/* The block a TX_WRITE record points to; zeros for a hole. Blocking. */
int zil_write_block(struct objset *os, const struct zil_record *r, struct buf **out);

#endif
