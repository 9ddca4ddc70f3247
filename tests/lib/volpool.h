/*
 * tests/lib/volpool.h: one volume with its log over recorded disks, without dsl and spa: transaction groups whose sync
 * writes the volume's object set, and what is left of it after a crash.
 */
#ifndef TESTS_VOLPOOL_H
#define TESTS_VOLPOOL_H

#include "testpool.h"

#include "disk/recorder.h"
#include "dmu/zap.h"
#include "zio/zio_crypt.h"
#include "zvol/zvol_impl.h"

#define VP_ID     77
#define VP_FIRST  11u
#define VP_ARC    (UINT64_C(32) << 20)
#define VP_GROUPS 8192 /* that are synced at most */
#define VP_MARK   48   /* marks: the kind above this bit */
#define VP_SYNCED UINT64_C(1)

struct vp_synced {
	uint64_t txg;
	struct bp root;
	uint8_t header[ZIL_HEADER_SIZE];
	size_t extents; /* in use, of this group and before */
};

struct volpool {
	struct recorder *rec; /* NULL: nothing is recorded */
	struct testpool *tp;
	struct objset *os;
	struct zvol zv; /* as zvol_open would make it */
	struct crypt_key *key;
	atomic_bool dirty[TXG_SIZE];
	struct vp_synced *synced; /* by number of the mark */
	size_t nsynced;
};

static inline void vp_dirtied(struct objset *os, uint64_t txg)
{
	struct volpool *vp = os->ops_arg;

	atomic_store(&vp->dirty[txg & TXG_MASK], true);
}

static inline uint64_t vp_born(struct objset *os, const struct bp *bp, struct tx *tx)
{
	return bp_asize(bp);
}

static inline uint64_t vp_kill(struct objset *os, const struct bp *bp, struct tx *tx)
{
	assert_int_equal(zio_free(os->dp->zp, bp, tx->txg), 0);
	return bp_asize(bp);
}

static const struct objset_ops vp_ops = {.dirtied = vp_dirtied, .born = vp_born, .kill = vp_kill};

static inline size_t vp_extents(struct volpool *vp, uint64_t txg)
{
	size_t n = 0;

	SCOPED_LOCK(&vp->tp->lock);
	for (size_t i = 0; i < vp->tp->nlive; i++)
		n += vp->tp->live[i].txg <= txg;
	return n;
}

static inline void vp_sync_now(struct volpool *vp, uint64_t txg)
{
	struct tx tx = {.txgs = vp->tp->dp.txgs, .txg = txg, .syncing = true, .pass = 1, .os = vp->os};

	if (atomic_exchange(&vp->dirty[txg & TXG_MASK], false)) {
		zil_sync(vp->os, &tx);
		assert_int_equal(objset_sync(vp->os, &tx), 0);
		assert_false(objset_is_dirty(vp->os, txg));
	}
	for (unsigned i = 0; i < TP_TOPS; i++)
		assert_int_equal(disk_flush(vp->tp->disk[i]), 0);
	BUG_ON(vp->nsynced == VP_GROUPS);
	vp->synced[vp->nsynced] = (struct vp_synced){txg, vp->os->rootbp, .extents = vp_extents(vp, txg)};
	memcpy(vp->synced[vp->nsynced].header, vp->os->zil_header, ZIL_HEADER_SIZE);
	if (vp->rec)
		recorder_mark(vp->rec, VP_SYNCED << VP_MARK | vp->nsynced);
	vp->nsynced++;
	zil_sync_done(vp->os, txg);
	objset_sync_done(vp->os, txg);
}

static inline void vp_sync(void *arg, uint64_t txg)
{
	vp_sync_now(arg, txg);
}

static inline struct disk *vp_recorded(void *arg, unsigned i)
{
	return recorder_open(arg, i);
}

static inline struct disk *vp_crashed(void *arg, unsigned i)
{
	return crash_open(arg, i);
}

/* The volume is opened: the log is replayed. */
static inline int vp_open(struct volpool *vp)
{
	struct err e = ERR_INIT;
	int err;

	vp->zv = (struct zvol){.os = vp->os};
	err = zvol_live_open(vp->os, &vp->zv.live, &e);
	if (err)
		return err;
	vp->zv.dn = vp->zv.live->dn;
	vp->zv.blocksize = vp->zv.live->blocksize;
	return 0;
}

static inline void vp_close(struct volpool *vp)
{
	zvol_live_close(vp->zv.live);
}

static inline struct crypt_key *vp_key(void)
{
	uint8_t master[CRYPT_KEY_MAX], hmac[CRYPT_HMAC_KEY];

	tp_pattern(master, sizeof(master), 1);
	tp_pattern(hmac, sizeof(hmac), 2);
	return crypt_key_create(CRYPT_AES_256_GCM, 99, master, hmac, 1);
}

/* Over rec's disks; NULL: disks in memory that record nothing. */
static inline struct volpool *vp_create_over(struct recorder *rec, unsigned ashift, uint64_t volsize,
					     uint32_t blocksize, bool encrypted)
{
	struct volpool *vp = xcalloc(1, sizeof(*vp));
	struct tx tx = {.txg = VP_FIRST, .syncing = true, .pass = 1};

	vp->key = encrypted ? vp_key() : NULL;

	vp->rec = rec;
	vp->tp = tp_create_over(ashift, VP_ARC, rec ? vp_recorded : NULL, rec);
	tp_set_writable(vp->tp);
	vp->synced = xcalloc(VP_GROUPS, sizeof(*vp->synced));
	vp->tp->dp.txgs = tx.txgs = txgs_create(VP_FIRST, vp_sync, vp);
	assert_int_equal(objset_create(&vp->tp->dp, VP_ID, OBJSET_ZVOL, &vp_ops, vp, vp->key, &tx, &vp->os), 0);
	assert_int_equal(zvol_create_objects(vp->os, volsize, blocksize, &tx), 0);
	txgs_start(vp->tp->dp.txgs);
	assert_int_equal(txg_wait_synced(vp->tp->dp.txgs, 0), 0);
	assert_int_equal(vp_open(vp), 0);
	return vp;
}

static inline struct volpool *vp_create(unsigned ashift, uint64_t volsize, uint32_t blocksize)
{
	return vp_create_over(recorder_create(TP_TOPS, TP_SIZE), ashift, volsize, blocksize, false);
}

/* The volume is closed. No group is synced any more: the disks are quiet. */
static inline void vp_stop(struct volpool *vp)
{
	txgs_destroy(vp->tp->dp.txgs);
	vp->tp->dp.txgs = NULL;
}

static inline void vp_destroy(struct volpool *vp)
{
	if (vp->tp->dp.txgs)
		vp_stop(vp);
	objset_release(vp->os);
	crypt_key_release(vp->key);
	arc_flush_pool(vp->tp->dp.arc, vp->tp->zp.guid);
	tp_destroy(vp->tp);
	if (vp->rec)
		recorder_destroy(vp->rec);
	free(vp->synced);
	free(vp);
}

static inline void vp_free_nothing(void *arg, const struct dva *dva, uint64_t txg, uint64_t birth)
{
}

/* What was on the disks before a crash is not the allocator's: it starts behind all of it. */
static inline void vp_allocator_after(struct volpool *vp, const struct testpool *before)
{
	static struct zio_alloc_ops ops;

	ops = tp_alloc_ops;
	ops.free = vp_free_nothing;
	tp_set_writable(vp->tp);
	vp->tp->zp.alloc = &ops;
	memcpy(vp->tp->next, before->next, sizeof(vp->tp->next));
}

static inline void vp_open_objset(struct volpool *vp, const struct bp *root, struct crypt_key *key)
{
	struct err e = ERR_INIT;

	if (objset_open(&vp->tp->dp, VP_ID, root, key, &vp->os, &e))
		fail_msg("%s", e.text);
	objset_set_writable(vp->os, &vp_ops, vp);
}

/* What OpenZFS can replay of a volume. */
static inline int vp_record_check(void *arg, const struct zil_record *r)
{
	assert_true(r->txtype == TX_WRITE || r->txtype == TX_TRUNCATE);
	return 0;
}

/* The volume as an import after the crash finds it: its log is claimed, without a key where there is one. */
static inline struct volpool *vp_recover(struct crash *c, const struct vp_synced *last, const struct testpool *before,
					 bool encrypted)
{
	struct volpool *vp = xcalloc(1, sizeof(*vp));
	uint64_t first = last->txg + 1, max_birth = 0;
	struct tx tx = {.txg = first, .syncing = true, .pass = 1};

	vp->tp = tp_create_over(before->root->child[0]->ashift, VP_ARC, vp_crashed, c);
	vp_allocator_after(vp, before);
	vp->synced = xcalloc(VP_GROUPS, sizeof(*vp->synced));
	vp->tp->dp.txgs = tx.txgs = txgs_create(first, vp_sync, vp);
	vp_open_objset(vp, &last->root, NULL);
	assert_int_equal(zil_check(vp->os), 0);
	assert_int_equal(zil_each(vp->os, NULL, vp_record_check, NULL), 0);
	assert_int_equal(zil_claim(vp->os, first, &tx, &max_birth), 0);
	txgs_start(vp->tp->dp.txgs);
	while (txg_last_synced(vp->tp->dp.txgs) < MAX(max_birth, first))
		assert_int_equal(txg_wait_synced(vp->tp->dp.txgs, 0), 0);
	if (encrypted) {
		struct objset *raw = vp->os;

		vp->key = vp_key();
		vp_open_objset(vp, &raw->rootbp, vp->key);
		objset_release(raw);
	}
	return vp;
}

/* --- requests --- */

struct vp_wait {
	struct zvol_req r;
	struct waiter w;
};

static inline void vp_done(struct zvol_req *r, int err)
{
	waiter_done(&container_of(r, struct vp_wait, r)->w, err);
}

static inline int vp_request(struct volpool *vp, struct zvol_req r)
{
	struct vp_wait w = {.r = r};

	w.r.done = vp_done;
	waiter_init(&w.w);
	zvol_submit(&vp->zv, &w.r);
	return waiter_wait(&w.w);
}

/* The bytes as one buffer that is copied. */
static inline int vp_write(struct volpool *vp, uint64_t offset, const void *data, uint32_t len, bool fua)
{
	autobuf struct buf *b = buf_alloc(len);

	memcpy(b->data, data, len);
	return vp_request(
	    vp,
	    (struct zvol_req){.op = ZVOL_WRITE, .offset = offset, .length = len, .buf = &b, .nbufs = 1, .fua = fua});
}

static inline int vp_flush(struct volpool *vp)
{
	return vp_request(vp, (struct zvol_req){.op = ZVOL_FLUSH});
}

static inline void vp_read(struct volpool *vp, uint64_t offset, void *data, size_t len)
{
	assert_int_equal(dmu_read(vp->zv.dn, offset, data, len, 0), 0);
}

#endif
