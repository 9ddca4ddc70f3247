/* Logs that a crash left: claiming them at import, replaying, destroying (9.9 - 9.11). */
#include "base/log.h"
#include "zil/zil_impl.h"

/* A claimed birth lies at most a few groups above the last synced one; what is further ahead is damage. */
#define CLAIM_AHEAD 64u

/* --- places of blocks: each is claimed or freed once, however often records point to it --- */

struct place {
	struct tree_node node;
	uint64_t vdev, offset;
};

static int place_cmp(const struct tree_node *a, const struct tree_node *b)
{
	const struct place *x = container_of(a, struct place, node), *y = container_of(b, struct place, node);

	if (x->vdev != y->vdev)
		return x->vdev > y->vdev ? 1 : -1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* True the first time. */
static bool place_add(struct tree *places, const struct bp *bp)
{
	struct dva dva = bp_dva(bp, 0);
	struct place *p = xcalloc(1, sizeof(*p));

	p->vdev = dva.vdev;
	p->offset = dva.offset;
	if (!tree_insert(places, &p->node))
		return true;
	free(p);
	return false;
}

static void places_clear(struct tree *places)
{
	struct tree_node *n;

	while ((n = tree_first(places))) {
		tree_remove(places, n);
		free(container_of(n, struct place, node));
	}
}

/* --- what records point to --- */

/* The pointer of a TX_WRITE whose data lie outside the log; false: it has none. -EINVAL by *err. */
static bool record_pointer(const struct zil_record *r, struct bp *bp, int *err)
{
	*err = 0;
	if (r->txtype != TX_WRITE || r->reclen < ZIL_WRITE_FIXED)
		return false;
	memcpy(bp, r->data + ZIL_WRITE_BP, sizeof(*bp));
	/* the records of a block of the other order, and pointers in them, come in host order */
	if (bp_is_hole(bp) || bp_is_embedded(bp))
		return false;
	*err = bp_check(bp);
	return true;
}

int zil_write_block(struct objset *os, const struct zil_record *r, struct buf **out)
{
	struct zbookmark zb = {os->id, zil_record_u64(r, 32), -2, r->seq};
	struct bp bp;
	int err;

	if (record_pointer(r, &bp, &err))
		return err ? err : zio_read_wait(os->dp->zp, &bp, &zb, os->key, 0, out);
	memcpy(&bp, r->data + ZIL_WRITE_BP, sizeof(bp));
	if (bp_is_embedded(&bp))
		return zio_read_wait(os->dp->zp, &bp, &zb, os->key, 0, out);
	*out = buf_alloc(zil_record_u64(r, 48));
	if (!*out)
		return -EINVAL;
	memset((*out)->data, 0, (*out)->size);
	return 0;
}

/* --- claiming --- */

struct claim {
	struct objset *os;
	uint64_t first_txg, txg, max_birth, blk_seq, lr_seq;
	unsigned blocks, records;
	struct tree places;
};

static int claim_pointer(struct claim *c, const struct bp *bp)
{
	uint64_t birth = bp_birth(bp);

	if (birth < c->first_txg || !place_add(&c->places, bp))
		return 0;
	if (birth > c->first_txg + CLAIM_AHEAD)
		return -EIO;
	c->max_birth = MAX(c->max_birth, birth);
	return zio_claim(c->os->dp->zp, bp, c->txg);
}

static int claim_block(void *arg, const struct bp *bp, uint64_t seq)
{
	struct claim *c = arg;

	c->blocks++;
	c->blk_seq = seq;
	return claim_pointer(c, bp); /* a failure ends the import */
}

/* 1: the log ends before this record. */
static int claim_record(void *arg, const struct zil_record *r)
{
	struct claim *c = arg;
	struct zbookmark zb = {c->os->id, zil_record_u64(r, 32), -2, r->seq};
	autobuf struct buf *buf = NULL;
	struct bp bp;
	int err;

	if (record_pointer(r, &bp, &err)) {
		if (!err && bp_birth(&bp) >= c->first_txg) {
			err = zio_read_wait(c->os->dp->zp, &bp, &zb, NULL, ZIO_RAW | ZIO_QUIET, &buf);
			if (!err)
				err = claim_pointer(c, &bp);
		}
		if (err)
			return err == -ECKSUM || err == -EINVAL ? 1 : err;
	}
	c->lr_seq = r->seq;
	c->records++;
	return 0;
}

int zil_claim(struct objset *os, uint64_t first_txg, struct tx *tx, uint64_t *max_birth)
{
	struct claim c = {.os = os, .first_txg = first_txg, .txg = tx->txg};
	uint8_t phys[ZIL_HEADER_SIZE];
	struct zil_header zh;
	int err = zil_header_decode(os->zil_header, os->swapped, &zh);

	if (err || bp_is_hole(&zh.log) || zh.claim_txg)
		return err;
	tree_init(&c.places, place_cmp);
	err = zil_each(os, claim_block, claim_record, &c);
	places_clear(&c.places);
	if (err < 0 && err != -ECKSUM && err != -EINVAL)
		return err;
	*max_birth = MAX(*max_birth, c.max_birth);
	zh.claim_txg = first_txg;
	zh.claim_blk_seq = c.blk_seq;
	zh.claim_lr_seq = c.lr_seq;
	zh.flags |= ZIL_CLAIM_LR_SEQ_VALID;
	if (c.records || c.blocks > 1)
		zh.flags |= ZIL_REPLAY_NEEDED;
	zil_header_encode(&zh, phys);
	objset_set_zil_header(os, phys, tx);
	return 0;
}

static int check_record(void *arg, const struct zil_record *r)
{
	return r->txtype == TX_CLONE_RANGE ? -ENOTSUP : 0;
}

int zil_check(struct objset *os)
{
	struct zil_header zh;
	int err = zil_header_decode(os->zil_header, os->swapped, &zh);

	if (err || bp_is_hole(&zh.log) || zh.claim_txg)
		return err;
	err = zil_each(os, NULL, check_record, NULL);
	return err == -ECKSUM || err == -EINVAL ? 0 : err;
}

/* --- destroying --- */

struct destroy {
	struct objset *os;
	uint64_t claim_txg, txg;
	struct tree places;
};

static void destroy_pointer(struct destroy *d, const struct bp *bp)
{
	int err;

	if (!place_add(&d->places, bp))
		return;
	err = zio_free(d->os->dp->zp, bp, d->txg);
	if (err)
		log_warn("freeing what an intent log has: %s", err_words(err));
}

static int destroy_block(void *arg, const struct bp *bp, uint64_t seq)
{
	destroy_pointer(arg, bp);
	return 0;
}

static int destroy_record(void *arg, const struct zil_record *r)
{
	struct destroy *d = arg;
	struct bp bp;
	int err;

	if (record_pointer(r, &bp, &err) && !err && bp_birth(&bp) >= d->claim_txg)
		destroy_pointer(d, &bp);
	return 0;
}

void zil_free_claimed(struct objset *os, struct tx *tx)
{
	struct destroy d = {.os = os, .txg = tx->txg};
	struct zil_header zh;
	int err = zil_header_decode(os->zil_header, os->swapped, &zh);

	if (err || bp_is_hole(&zh.log))
		return;
	d.claim_txg = zh.claim_txg;
	tree_init(&d.places, place_cmp);
	err = zil_each(os, destroy_block, destroy_record, &d);
	places_clear(&d.places);
	if (err)
		log_warn("the end of an intent log cannot be read, its space is lost: %s", err_words(err));
}

void zil_discard(struct objset *os, struct tx *tx)
{
	uint8_t phys[ZIL_HEADER_SIZE] = {0};
	struct zil_header zh;
	int err = zil_header_decode(os->zil_header, os->swapped, &zh);

	BUG_ON(os->zil);
	if (!err && zh.claim_txg)
		zil_free_claimed(os, tx);
	else if (!err && !bp_is_hole(&zh.log) && bp_birth(&zh.log) < tx->txg)
		err = zio_free(os->dp->zp, &zh.log, tx->txg);
	if (err)
		log_warn("freeing an intent log: %s", err_words(err));
	objset_set_zil_header(os, phys, tx);
}

/* --- replay --- */

struct replay {
	struct zil *zil;
	struct zil_header zh;
	int (*apply)(void *arg, const struct zil_record *r);
	void *arg;
	struct zil_record failed;
};

/* 9.10, 2 */
static int replay_check(const struct zil_record *r)
{
	if (r->sealed)
		return -EKEY;
	return r->txtype == TX_COMMIT || r->txtype >= TX_TYPES || r->txtype == TX_CLONE_RANGE ? -ENOTSUP : 0;
}

static int replay_record(void *arg, const struct zil_record *r)
{
	struct replay *p = arg;
	struct zil *z = p->zil;
	int err;

	if (r->seq <= p->zh.replay_seq || r->txg < p->zh.claim_txg)
		return 0;
	z->replaying = r->seq;
	err = replay_check(r);
	if (!err)
		err = p->apply(p->arg, r);
	if (err && err != -EKEY && err != -ENOTSUP && txg_wait_synced(z->txgs, 0) == 0)
		err = p->apply(p->arg, r); /* freed dnodes can be used now */
	if (err)
		p->failed = *r;
	return err;
}

void zil_replayed(struct zil *z, struct tx *tx)
{
	uint64_t *seq = &z->replayed[tx->txg & TXG_MASK];

	SCOPED_LOCK(&z->lock);
	*seq = MAX(*seq, z->replaying);
}

/* All of the log goes, in one group. */
static int replay_destroy(struct zil *z)
{
	struct tx tx = {.flags = TX_NOWAIT | TX_NOSPACE_CHECK};
	int err = tx_begin_wait(z->txgs, &tx);

	if (err)
		return err;
	objset_dirty(z->os, &tx);
	pthread_mutex_lock(&z->lock);
	z->destroy_txg = tx.txg;
	pthread_mutex_unlock(&z->lock);
	tx_end(&tx);
	return txg_wait_synced(z->txgs, tx.txg);
}

int zil_replay(struct zil *z, int (*apply)(void *arg, const struct zil_record *r), void *arg, struct err *e)
{
	struct replay p = {.zil = z, .apply = apply, .arg = arg};
	int err;

	if (!zil_needs_replay(z->os))
		return 0;
	p.zh = z->header;
	err = txg_wait_synced(z->txgs, 0);
	if (!err)
		err = zil_each(z->os, NULL, replay_record, &p);
	if (err == -EINVAL && !p.failed.reclen)
		err = 0; /* damaged records: there the log ended when it was claimed */
	if (err && p.failed.reclen)
		return err_set(e, err, "the intent log cannot be replayed: %s of object %llu: %s",
			       zil_record_name(p.failed.txtype), (unsigned long long)zil_record_u64(&p.failed, 32),
			       err_words(err));
	if (!err)
		err = replay_destroy(z);
	return err ? err_set(e, err, "the intent log cannot be replayed: %s", err_words(err)) : 0;
}
