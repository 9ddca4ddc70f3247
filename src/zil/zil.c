/* Reading intent-log chains. See zil/zil.h; sections are those of chapter 07. */
#include "zil/zil_impl.h"
#include "zio/zio_crypt.h"

#define TXTYPE_CI (UINT64_C(1) << 63)

static const struct {
	const char *name;
	uint8_t fixed; /* bytes of u64 fields at the start (9.14) */
} record_table[TX_TYPES] = {
    [TX_COMMIT] = {"TX_COMMIT", 32},
    [TX_CREATE] = {"TX_CREATE", 104},
    [TX_MKDIR] = {"TX_MKDIR", 104},
    [TX_MKXATTR] = {"TX_MKXATTR", 104},
    [TX_SYMLINK] = {"TX_SYMLINK", 104},
    [TX_REMOVE] = {"TX_REMOVE", 40},
    [TX_RMDIR] = {"TX_RMDIR", 40},
    [TX_LINK] = {"TX_LINK", 48},
    [TX_RENAME] = {"TX_RENAME", 48},
    [TX_WRITE] = {"TX_WRITE", 192},
    [TX_TRUNCATE] = {"TX_TRUNCATE", 56},
    [TX_SETATTR] = {"TX_SETATTR", 112},
    [TX_ACL_V0] = {"TX_ACL_V0", 48},
    [TX_ACL] = {"TX_ACL", 80},
    [TX_CREATE_ACL] = {"TX_CREATE_ACL", 144},
    [TX_CREATE_ATTR] = {"TX_CREATE_ATTR", 104},
    [TX_CREATE_ACL_ATTR] = {"TX_CREATE_ACL_ATTR", 144},
    [TX_MKDIR_ACL] = {"TX_MKDIR_ACL", 144},
    [TX_MKDIR_ATTR] = {"TX_MKDIR_ATTR", 104},
    [TX_MKDIR_ACL_ATTR] = {"TX_MKDIR_ACL_ATTR", 144},
    [TX_WRITE2] = {"TX_WRITE2", 192},
    [TX_SETSAXATTR] = {"TX_SETSAXATTR", 48},
    [TX_RENAME_EXCHANGE] = {"TX_RENAME_EXCHANGE", 48},
    [TX_RENAME_WHITEOUT] = {"TX_RENAME_WHITEOUT", 112},
    [TX_CLONE_RANGE] = {"TX_CLONE_RANGE", 72},
};

const char *zil_record_name(uint64_t txtype)
{
	txtype &= ~TXTYPE_CI;
	return txtype < TX_TYPES ? record_table[txtype].name : "TX_UNKNOWN";
}

/* 9.3 */
static int log_pointer_check(const struct bp *bp)
{
	enum checksum c = bp_checksum(bp);

	if (bp_check(bp) || bp_is_embedded(bp) || bp_type(bp) != DMU_OT_INTENT_LOG || bp_level(bp) != 0 ||
	    bp_is_gang(bp) || bp_compress(bp) != COMPRESS_OFF || bp_lsize(bp) != bp_psize(bp) ||
	    (c != CHECKSUM_ZILOG && c != CHECKSUM_ZILOG2))
		return -EINVAL;
	return 0;
}

int zil_header_decode(const uint8_t phys[ZIL_HEADER_SIZE], bool swap, struct zil_header *out)
{
	out->claim_txg = load64(phys, swap);
	out->replay_seq = load64(phys + 8, swap);
	bp_decode(&out->log, phys + 16, swap);
	out->claim_blk_seq = load64(phys + 144, swap);
	out->flags = load64(phys + 152, swap);
	out->claim_lr_seq = load64(phys + 160, swap);
	return bp_is_hole(&out->log) ? 0 : log_pointer_check(&out->log);
}

void zil_header_encode(const struct zil_header *zh, uint8_t phys[ZIL_HEADER_SIZE])
{
	memset(phys, 0, ZIL_HEADER_SIZE);
	store_host64(phys, zh->claim_txg);
	store_host64(phys + 8, zh->replay_seq);
	memcpy(phys + 16, &zh->log, sizeof(zh->log));
	store_host64(phys + 144, zh->claim_blk_seq);
	store_host64(phys + 152, zh->flags);
	store_host64(phys + 160, zh->claim_lr_seq);
}

/* --- one block --- */

struct log_block {
	const uint8_t *chain;         /* ZIL_CHAIN_BYTES */
	const uint8_t *rec, *rec_end; /* records */
	bool swap;
};

static bool magic_at(const uint8_t *chain, bool *swap)
{
	uint64_t m = load_host64(chain + ZIL_CHAIN_MAGIC);

	*swap = m != ZIL_MAGIC;
	return m == ZIL_MAGIC || m == __builtin_bswap64(ZIL_MAGIC);
}

/* Find chain structure and records (9.4). */
static int log_block_parse(const uint8_t *data, size_t size, bool old_form, struct log_block *b)
{
	uint64_t nused;

	if (size < ZIL_CHAIN_BYTES)
		return -EINVAL;
	b->chain = old_form ? data + size - ZIL_CHAIN_BYTES : data;
	if (!magic_at(b->chain, &b->swap))
		return -EINVAL;
	nused = load64(b->chain + ZIL_CHAIN_NUSED, b->swap);
	b->rec = old_form ? data : data + ZIL_CHAIN_BYTES;
	if (old_form ? nused > size - ZIL_CHAIN_BYTES : nused < ZIL_CHAIN_BYTES || nused > size)
		return -EINVAL;
	b->rec_end = data + nused;
	return 0;
}

/* What is made of u64s and block pointers in host order, in place. */
static void record_swap(uint8_t *r, uint64_t txtype, size_t len)
{
	size_t fixed = txtype < TX_TYPES ? record_table[txtype].fixed : ZIL_RECORD_HEAD;

	if (txtype == TX_CLONE_RANGE)
		fixed = len;
	swap64_buffer(r, ROUND_DOWN(MIN(fixed, len), 8));
}

struct record_walk {
	int (*record)(void *arg, const struct zil_record *r);
	void *arg;
	bool sealed;
	uint64_t last_seq; /* records above it are not of the claimed log; UINT64_MAX: no limit */
	uint64_t max_seq;  /* highest seen */
	bool stopped;      /* at last_seq */
};

static int record_tell(struct record_walk *w, const uint8_t *r, size_t len, uint64_t txtype, bool swap)
{
	autofree uint8_t *copy = NULL;
	struct zil_record rec = {.reclen = len, .data = r, .sealed = w->sealed, .swapped = swap};

	rec.txtype = txtype & ~TXTYPE_CI;
	rec.case_insensitive = txtype & TXTYPE_CI;
	rec.txg = load64(r + 16, swap);
	rec.seq = load64(r + 24, swap);
	if (rec.seq > w->last_seq) {
		w->stopped = true;
		return 0;
	}
	w->max_seq = MAX(w->max_seq, rec.seq);
	if (!w->record)
		return 0;
	if (swap) {
		copy = malloc(len);
		if (!copy)
			return -ENOMEM;
		memcpy(copy, r, len);
		record_swap(copy, rec.txtype, len);
		rec.data = copy;
	}
	return w->record(w->arg, &rec);
}

static int log_block_walk(const struct log_block *b, struct record_walk *w)
{
	int err = 0;

	for (const uint8_t *r = b->rec; r < b->rec_end && !err && !w->stopped;) {
		size_t rest = (size_t)(b->rec_end - r);
		uint64_t len = rest < ZIL_RECORD_HEAD ? 0 : load64(r + 8, b->swap);

		if (len < ZIL_RECORD_HEAD || len > rest)
			return -EINVAL;
		err = record_tell(w, r, len, load64(r, b->swap), b->swap);
		r += len;
	}
	return err;
}

int zil_block_each(const uint8_t *data, size_t size, bool swap, int (*record)(void *arg, const struct zil_record *r),
		   void *arg)
{
	struct record_walk w = {.record = record, .arg = arg, .last_seq = UINT64_MAX};
	struct log_block b;

	if (log_block_parse(data, size, false, &b) && log_block_parse(data, size, true, &b))
		return -EINVAL;
	return b.swap == swap ? log_block_walk(&b, &w) : -EINVAL;
}

/* --- the chain (9.5) --- */

struct chain_walk {
	struct objset *os;
	struct zil_header zh;
	bool claimed;
	int (*block)(void *arg, const struct bp *bp, uint64_t seq);
	struct record_walk records;
};

static uint64_t pointer_seq(const struct bp *bp)
{
	return bp->w[ZIL_VERIFIER + 3];
}

/* The stored bytes, decrypted where there is a key. The checksum and the MAC fail apart: the first ends a log. */
static int log_block_read(struct chain_walk *c, const struct bp *bp, struct buf **out, bool *end)
{
	struct zbookmark zb = {c->os->id, 0, -2, pointer_seq(bp)};
	struct objset *os = c->os;
	int err = zio_read_wait(os->dp->zp, bp, &zb, NULL, ZIO_RAW | ZIO_QUIET, out);

	*end = err == -ECKSUM;
	if (err)
		return *end ? 0 : err;
	if (!bp_uses_crypt(bp) || !os->key)
		return 0;
	err = zio_crypt_read(os->key, bp, (*out)->data, bp_psize(bp));
	if (err)
		buf_release(*out);
	return err;
}

/* The pointer behind; a hole when the chain ends here. */
static void chain_next(const struct log_block *b, const struct bp *bp, struct bp *next)
{
	bp_decode(next, b->chain + ZIL_CHAIN_NEXT, b->swap);
	if (memcmp(&next->w[ZIL_VERIFIER], &bp->w[ZIL_VERIFIER], 3 * sizeof(bp->w[0])) != 0 ||
	    pointer_seq(next) != pointer_seq(bp) + 1 || log_pointer_check(next))
		memset(next, 0, sizeof(*next));
}

static bool chain_claim_ends(const struct chain_walk *c, uint64_t seq)
{
	return c->claimed && c->records.max_seq == c->records.last_seq && seq == c->zh.claim_blk_seq;
}

/* One block: *bp becomes its successor, a hole at the end. */
static int chain_step(struct chain_walk *c, struct bp *bp)
{
	uint64_t seq = pointer_seq(bp);
	bool end = c->claimed && seq > c->zh.claim_blk_seq;
	struct buf *buf = NULL;
	struct log_block b;
	struct bp next;
	int err = !end && c->block ? c->block(c->records.arg, bp, seq) : 0;

	if (!err && !end)
		end = chain_claim_ends(c, seq);
	if (!err && !end)
		err = log_block_read(c, bp, &buf, &end);
	if (err || end) {
		memset(bp, 0, sizeof(*bp));
		return err;
	}
	err = log_block_parse(buf->data, bp_psize(bp), bp_checksum(bp) == CHECKSUM_ZILOG, &b);
	if (!err) {
		chain_next(&b, bp, &next);
		c->records.sealed = bp_uses_crypt(bp) && !c->os->key;
		/* without a successor this is no block of the chain (stale content) */
		err = bp_is_hole(&next) ? 0 : log_block_walk(&b, &c->records);
		*bp = next;
	}
	buf_release(buf);
	return err;
}

int zil_each(struct objset *os, int (*block)(void *arg, const struct bp *bp, uint64_t seq),
	     int (*record)(void *arg, const struct zil_record *r), void *arg)
{
	struct chain_walk c = {.os = os, .block = block, .records = {.record = record, .arg = arg}};
	struct bp bp;
	int err = zil_header_decode(os->zil_header, os->swapped, &c.zh);

	if (err)
		return err;
	c.claimed = c.zh.claim_txg != 0;
	c.records.last_seq = c.claimed && c.zh.flags & ZIL_CLAIM_LR_SEQ_VALID ? c.zh.claim_lr_seq : UINT64_MAX;
	bp = c.zh.log;
	while (!err && !bp_is_hole(&bp) && !c.records.stopped)
		err = chain_step(&c, &bp);
	return err;
}
