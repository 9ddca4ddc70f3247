/*
 * Committing: what was promised is found by the walker after a crash at any moment, in order; failures end in waiting
 * for the group.
 */
#include "volpool.h"

#include "dmu/traverse.h"

#define THREADS 4
#define OPS     40 /* of each thread */
#define SPAN    (UINT64_C(1) << 24)
#define BS      8192u
enum { MARK_ACKED = 2 };

static struct volpool *log_create(void)
{
	return vp_create(12, 1 << 20, BS);
}

static void log_destroy(struct volpool *vp)
{
	vp_close(vp);
	vp_destroy(vp);
}

static struct zil *log_of(struct volpool *vp)
{
	return vp->zv.live->zil;
}

static int commit(struct volpool *vp)
{
	return zil_commit_wait(log_of(vp), 0);
}

/* --- operations: number n writes or truncates at n * SPAN --- */

static uint8_t pattern_at(uint64_t offset)
{
	return (uint8_t)(offset * 2654435761u >> 13);
}

static struct buf *pattern_from(uint64_t offset, uint32_t len)
{
	struct buf *b = buf_alloc(len);

	assert_non_null(b);
	for (uint32_t i = 0; i < len; i++)
		b->data[i] = pattern_at(offset + i);
	return b;
}

static struct itx *itx_of(uint64_t n, uint32_t len)
{
	struct itx *itx;

	if (len == 0) {
		itx = itx_create(TX_TRUNCATE, 56);
		store_host64(itx->record + 40, n * SPAN);
		return itx;
	}
	autobuf struct buf *b = pattern_from(n * SPAN, len);
	itx = itx_create_write(1, n * SPAN, len);
	itx_set_data(itx, b, 0);
	itx->charged = len;
	return itx;
}

static uint64_t log_append(struct volpool *vp, struct itx *itx)
{
	struct tx tx = {.os = NULL};

	assert_int_equal(tx_begin_wait(vp->tp->dp.txgs, &tx), 0);
	objset_dirty(vp->os, &tx);
	zil_append(log_of(vp), itx, &tx);
	tx_end(&tx);
	return tx.txg;
}

/* --- what a walk finds --- */

struct found {
	uint64_t bytes; /* of a write; 1 for a truncation */
	uint64_t txg;
};
struct walk {
	struct found *op;
	size_t nops;
	uint64_t seq, synced;
	unsigned records, blocks;
	size_t persistent; /* blocks that were allocated in synced groups */
};

static int walk_record(void *arg, const struct zil_record *r)
{
	struct walk *w = arg;
	uint64_t offset = zil_record_u64(r, 40), len = zil_record_u64(r, 48), n = offset / SPAN;

	w->records++;
	assert_true(r->seq > w->seq);
	w->seq = r->seq;
	assert_true(n < w->nops);
	if (r->txg <= w->synced)
		return 0; /* of what was split the head may be gone */
	w->op[n].txg = r->txg;
	if (r->txtype == TX_TRUNCATE) {
		w->op[n].bytes = 1;
		return 0;
	}
	assert_int_equal(r->txtype, TX_WRITE);
	assert_int_equal(w->op[n].bytes, offset % SPAN);
	assert_true(r->reclen >= ZIL_WRITE_FIXED + len);
	for (uint64_t i = 0; i < len; i++)
		assert_int_equal(r->data[ZIL_WRITE_FIXED + i], pattern_at(offset + i));
	w->op[n].bytes += len;
	return 0;
}

static int walk_block(void *arg, const struct bp *bp, uint64_t seq)
{
	struct walk *w = arg;

	w->blocks++;
	w->persistent += bp_birth(bp) <= w->synced;
	return 0;
}

/* The log that a header leads to. */
static void walk_log(struct testpool *tp, const struct vp_synced *last, struct walk *w)
{
	struct objset os = {.dp = &tp->dp, .id = VP_ID};

	memcpy(os.zil_header, last->header, ZIL_HEADER_SIZE);
	assert_int_equal(zil_each(&os, walk_block, walk_record, w), 0);
}

static struct walk walk_now(struct volpool *vp, size_t nops)
{
	struct walk w = {.op = xcalloc(nops, sizeof(*w.op)), .nops = nops};

	walk_log(vp->tp, &vp->synced[vp->nsynced - 1], &w);
	return w;
}

static int count_extents(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	if (!bp_is_hole(bp) && !bp_is_embedded(bp))
		*(size_t *)t->arg += bp_ndvas(bp);
	return 0;
}

/* Extents that the tree of a synced group has. */
static size_t tree_extents(struct testpool *tp, const struct vp_synced *last)
{
	struct objset *os;
	size_t n = 0;
	struct traverse t = {.visit = count_extents, .arg = &n};

	assert_int_equal(objset_open(&tp->dp, VP_ID, &last->root, NULL, &os, NULL), 0);
	assert_int_equal(traverse_objset(os, &t), 0);
	objset_release(os);
	return n;
}

/* --- tests --- */

static void a_commit_is_one_block_and_one_flush(void **state)
{
	struct volpool *vp = log_create();
	struct walk w;

	for (unsigned n = 0; n < 4; n++) {
		log_append(vp, itx_of(n, 4096));
		assert_int_equal(commit(vp), 0);
	}
	unsigned writes = atomic_load(&vp->tp->device_writes);
	size_t at = recorder_len(vp->rec);
	for (unsigned n = 4; n < 8; n++) {
		log_append(vp, itx_of(n, 4096));
		assert_int_equal(commit(vp), 0);
		/* nothing new: nothing is done */
		assert_int_equal(commit(vp), 0);
	}
	assert_int_equal(atomic_load(&vp->tp->device_writes) - writes, 4);
	unsigned flushes = 0;
	for (; at < recorder_len(vp->rec); at++) {
		const struct record *r = recorder_record(vp->rec, at);

		flushes += r->kind == RECORD_FLUSH;
		if (r->kind == RECORD_WRITE)
			assert_int_equal(r->length, 8192);
	}
	assert_int_equal(flushes, 4);
	w = walk_now(vp, 8);
	for (unsigned n = 1; n < 8; n++)
		assert_int_equal(w.op[n].bytes, 4096);
	free(w.op);
	log_destroy(vp);
}

static void records_larger_than_a_block_are_split(void **state)
{
	static const uint32_t len[] = {131072, 5000, 0, 1 << 20, 1, 131072 - 376, 131072 - 375};
	struct volpool *vp = log_create();
	struct walk w;

	log_append(vp, itx_of(0, 0));
	assert_int_equal(commit(vp), 0);
	for (unsigned n = 0; n < ARRAY_LEN(len); n++)
		log_append(vp, itx_of(n + 1, len[n]));
	assert_int_equal(commit(vp), 0);
	w = walk_now(vp, 8);
	for (unsigned n = 0; n < ARRAY_LEN(len); n++)
		assert_int_equal(w.op[n + 1].bytes, MAX(len[n], 1u));
	free(w.op);
	log_destroy(vp);
}

struct worker {
	struct volpool *vp;
	unsigned first;
	uint64_t *txg; /* of each op */
	pthread_t thread;
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	uint32_t seed = w->first;

	for (unsigned i = 0; i < OPS; i++) {
		unsigned n = w->first + i;

		seed = seed * 1664525 + 1013904223;
		w->txg[n] = log_append(w->vp, itx_of(n, seed >> 28 ? seed >> 18 : 0));
		if (seed & 1u << 10)
			continue;
		assert_int_equal(commit(w->vp), 0);
		recorder_mark(w->vp->rec, (uint64_t)MARK_ACKED << VP_MARK | n);
		if ((seed >> 11) % 16 == 0)
			txg_kick(w->vp->tp->dp.txgs);
	}
	return NULL;
}

/* What was acknowledged before entry `at` and is in no synced group must be there; of each thread the log has a run of
 * operations without a gap. */
static void crash_check(struct volpool *vp, struct crash *c, size_t at, const uint64_t *txg)
{
	struct testpool *tp = tp_create_over(12, 16u << 20, vp_crashed, c);
	struct found op[THREADS * OPS] = {{0}};
	struct walk w = {.op = op, .nops = ARRAY_LEN(op)};
	int acked[THREADS];
	uint64_t last = 0;

	memset(acked, 0xff, sizeof(acked));
	for (size_t i = 0; i < at; i++) {
		const struct record *r = recorder_record(vp->rec, i);

		if (r->kind == RECORD_MARK && r->mark >> VP_MARK == VP_SYNCED)
			last = (uint32_t)r->mark;
		else if (r->kind == RECORD_MARK)
			acked[(uint32_t)r->mark / OPS] = (int)((uint32_t)r->mark % OPS);
	}
	w.synced = vp->synced[last].txg;
	walk_log(tp, &vp->synced[last], &w);
	assert_int_equal(w.persistent + tree_extents(tp, &vp->synced[last]), vp->synced[last].extents); /* no leak */
	for (unsigned t = 0; t < THREADS; t++) {
		bool gap = false;

		for (int i = 0; i < OPS; i++) {
			unsigned n = t * OPS + (unsigned)i;

			if (!txg[n] || txg[n] <= vp->synced[last].txg)
				continue;
			assert_true(op[n].bytes || i > acked[t]);
			assert_false(gap && op[n].bytes);
			gap |= !op[n].bytes;
		}
	}
	tp_destroy(tp);
}

static void what_was_committed_survives_every_crash(void **state)
{
	struct volpool *vp = log_create();
	uint64_t txg[THREADS * OPS] = {0};
	struct worker w[THREADS];
	struct replay *re;
	size_t start = recorder_len(vp->rec);

	for (unsigned t = 0; t < THREADS; t++) {
		w[t] = (struct worker){.vp = vp, .first = t * OPS, .txg = txg};
		assert_int_equal(pthread_create(&w[t].thread, NULL, worker_main, &w[t]), 0);
	}
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(w[t].thread, NULL);
	vp_close(vp);
	vp_stop(vp);
	struct walk end = walk_now(vp, THREADS * OPS);
	assert_int_equal(end.records + end.blocks, 0);
	free(end.op);
	re = replay_create(vp->rec);
	for (size_t at = start; at <= recorder_len(vp->rec); at++) {
		struct crash_odds odds = {30, 30, at};
		struct crash_variant v[] = {{.fate = crash_lose_all},
					    {.fate = crash_by_odds, .arg = &odds, .seed = at}};

		replay_advance(re, at);
		for (unsigned i = 0; i < ARRAY_LEN(v); i++) {
			struct crash *c = replay_crash(re, &v[i]);

			crash_check(vp, c, at, txg);
			crash_destroy(c);
		}
	}
	replay_destroy(re);
	vp_destroy(vp);
}

static size_t log_extents(struct volpool *vp)
{
	const struct vp_synced *last = &vp->synced[vp->nsynced - 1];

	return vp_extents(vp, UINT64_MAX) - tree_extents(vp->tp, last);
}

static void a_closed_log_has_no_block(void **state)
{
	struct volpool *vp = log_create();

	for (unsigned n = 0; n < 20; n++) {
		log_append(vp, itx_of(n, 10000));
		if (n % 5 == 0)
			assert_int_equal(commit(vp), 0);
	}
	assert_true(log_extents(vp) > 0);
	vp_close(vp);
	assert_int_equal(log_extents(vp), 0);
	vp_destroy(vp);
}

static void a_chain_that_is_given_up_is_begun_anew(void **state)
{
	struct volpool *vp = log_create();
	uint64_t synced;

	log_append(vp, itx_of(0, 100));
	assert_int_equal(commit(vp), 0);
	zil_restart(log_of(vp));
	assert_int_equal(txg_wait_synced(vp->tp->dp.txgs, 0), 0);
	assert_int_equal(log_extents(vp), 0);
	log_append(vp, itx_of(0, 100));
	assert_int_equal(commit(vp), 0); /* waits for the group in which the chain begins */
	assert_int_equal(log_extents(vp), 1);
	synced = txg_last_synced(vp->tp->dp.txgs);
	log_append(vp, itx_of(1, 100));
	assert_int_equal(commit(vp), 0);
	assert_int_equal(txg_last_synced(vp->tp->dp.txgs), synced);
	log_destroy(vp);
}

static int no_log_space(void *arg, enum zio_class class, uint64_t psize, unsigned ndvas, uint64_t txg, unsigned flags,
			const struct dva *near, struct dva dva[BP_DVAS])
{
	if (flags & ZIO_ALLOC_ZIL)
		return -ENOSPC;
	return tp_alloc_dvas(arg, class, psize, ndvas, txg, flags, near, dva);
}

static void log_space_deny(struct volpool *vp, bool on)
{
	static struct zio_alloc_ops ops;

	ops = tp_alloc_ops;
	ops.alloc = no_log_space;
	vp->tp->zp.alloc = on ? &ops : &tp_alloc_ops;
}

static void without_space_a_commit_waits_for_the_group(void **state)
{
	struct volpool *vp = log_create();
	uint64_t txg;

	log_append(vp, itx_of(0, 100));
	assert_int_equal(commit(vp), 0);
	log_space_deny(vp, true);
	txg = log_append(vp, itx_of(1, 100));
	assert_int_equal(commit(vp), 0);
	assert_true(txg_last_synced(vp->tp->dp.txgs) >= txg);
	assert_int_equal(log_extents(vp), 0); /* the chain was given up */
	log_space_deny(vp, false);
	for (unsigned n = 2; n < 4; n++) {
		txg = log_append(vp, itx_of(n, 100));
		assert_int_equal(commit(vp), 0);
	}
	assert_true(txg_last_synced(vp->tp->dp.txgs) < txg);
	struct walk w = walk_now(vp, 4);
	assert_int_equal(w.op[3].bytes, 100);
	free(w.op);
	log_destroy(vp);
}

static void a_failed_write_ends_the_chain_and_nothing_leaks(void **state)
{
	struct volpool *vp = log_create();
	uint64_t txg;

	for (unsigned n = 0; n < 12; n++) {
		log_append(vp, itx_of(n, 6000));
		assert_int_equal(commit(vp), 0);
		if (n % 3 == 1)
			atomic_store(&vp->tp->fail_write_at, atomic_load(&vp->tp->device_writes) + 1);
		txg = log_append(vp, itx_of(n, 6000));
		assert_int_equal(commit(vp), 0);
		if (n % 3 == 1)
			assert_true(txg_last_synced(vp->tp->dp.txgs) >= txg);
	}
	vp_close(vp);
	assert_int_equal(log_extents(vp), 0);
	vp_destroy(vp);
}

static void a_metaslab_is_waited_for_elsewhere(void **state)
{
	struct volpool *vp = log_create();

	vp->tp->must_wait = true;
	for (unsigned n = 0; n < 4; n++) {
		log_append(vp, itx_of(n, 50000));
		assert_int_equal(commit(vp), 0);
	}
	struct walk w = walk_now(vp, 4);
	assert_int_equal(w.op[3].bytes, 50000);
	free(w.op);
	log_destroy(vp);
}

static int see_pointer(void *arg, const struct zil_record *r)
{
	memcpy(arg, r->data + ZIL_WRITE_BP, BP_SIZE);
	return r->reclen == ZIL_WRITE_FIXED ? 0 : -EINVAL;
}

static void indirect_records_carry_the_pointer(void **state)
{
	struct volpool *vp = log_create();
	struct objset os = {.dp = &vp->tp->dp, .id = VP_ID};
	uint8_t *data = xmalloc(65536);
	struct bp bp = {{0}};
	uint64_t synced;

	tp_pattern(data, 65536, 5);
	assert_int_equal(vp_write(vp, 0, data, BS, true), 0); /* begins the chain */
	assert_int_equal(txg_wait_synced(vp->tp->dp.txgs, 0), 0);
	synced = txg_last_synced(vp->tp->dp.txgs);
	vp->os->props.logbias = 1;
	assert_int_equal(vp_write(vp, 3 * BS, data, BS, true), 0);
	memcpy(os.zil_header, vp->synced[vp->nsynced - 1].header, ZIL_HEADER_SIZE);
	if (txg_last_synced(vp->tp->dp.txgs) == synced) {
		autobuf struct buf *got = NULL;

		assert_int_equal(zil_each(&os, NULL, see_pointer, &bp), 0);
		assert_int_equal(tp_read(vp->tp, &bp, 0, &got), 0);
		assert_memory_equal(got->data, data, BS);
	}
	/* the group takes the block over: its data is written once */
	assert_int_equal(txg_wait_synced(vp->tp->dp.txgs, 0), 0);
	struct bp now;
	assert_int_equal(dmu_block_pointer(vp->zv.dn, 0, 3, &now), 0);
	if (!bp_is_hole(&bp))
		assert_true(bp_equal(&bp, &now));
	free(data);
	log_destroy(vp);
}

/* The log's first block is on the devices, so that a commit waits for no group any more. */
static void chain_begin(struct volpool *vp)
{
	uint8_t sector[512] = {1};

	assert_int_equal(vp_write(vp, 64 * BS, sector, sizeof(sector), true), 0);
	assert_int_equal(txg_wait_synced(vp->tp->dp.txgs, 0), 0);
}

/* What a crash at `at` leaves of the volume; the volume is closed and quiet. */
static void read_after_crash(struct volpool *vp, size_t at, uint64_t offset, void *data, size_t len)
{
	const struct vp_synced *last = &vp->synced[0];
	struct replay *re = replay_create(vp->rec);
	struct volpool *again;
	struct crash *c;

	for (size_t i = 0; i < at; i++)
		if (recorder_record(vp->rec, i)->kind == RECORD_MARK)
			last = &vp->synced[(uint32_t)recorder_record(vp->rec, i)->mark];
	replay_advance(re, at);
	c = replay_crash(re, NULL);
	again = vp_recover(c, last, vp->tp, false);
	assert_int_equal(vp_open(again), 0);
	vp_read(again, offset, data, len);
	vp_close(again);
	vp_destroy(again);
	crash_destroy(c);
	replay_destroy(re);
}

/* A block that is written whole, in part, and whole again, all in one batch: the pointer of the first record leads to
 * the last contents, and those must win over the second record when the log is replayed. */
static void a_pointer_is_repeated_behind_what_lies_between(void **state)
{
	static uint8_t data[3][BS], got[BS];
	struct volpool *vp = log_create();
	size_t at;

	for (unsigned i = 0; i < 3; i++)
		tp_pattern(data[i], BS, 10 + i);
	tunable_set(tunable_find("zfs_immediate_write_sz"), BS, NULL);
	chain_begin(vp);
	assert_int_equal(vp_write(vp, 0, data[0], BS, false), 0);
	assert_int_equal(vp_write(vp, 512, data[1], 1024, false), 0);
	assert_int_equal(vp_write(vp, 0, data[2], BS, false), 0);
	assert_int_equal(vp_flush(vp), 0);
	at = recorder_len(vp->rec);
	vp_close(vp);
	vp_stop(vp);
	read_after_crash(vp, at, 0, got, BS);
	assert_memory_equal(got, data[2], BS);
	tunable_set(tunable_find("zfs_immediate_write_sz"), tunable_find("zfs_immediate_write_sz")->def, NULL);
	vp_destroy(vp);
}

static void data_free(struct volpool *vp, uint64_t offset, uint64_t len, struct tx *tx)
{
	assert_int_equal(dmu_free_range(vp->zv.dn, offset, len, tx), 0);
}

/* A write is to be committed whose block was freed meanwhile, by somebody whose record comes later: it reads as zeros
 * then, not as what was there before. */
static void a_block_that_was_freed_is_logged_as_a_hole(void **state)
{
	static uint8_t data[BS], got[BS];
	static const uint8_t zeros[BS];
	struct volpool *vp = log_create();
	struct tx tx = {.os = NULL};
	struct itx *itx;
	size_t at;

	tp_pattern(data, BS, 3);
	assert_int_equal(vp_write(vp, 0, data, BS, false), 0);
	chain_begin(vp);
	assert_int_equal(tx_begin_wait(vp->tp->dp.txgs, &tx), 0);
	autobuf struct buf *b = pattern_from(0, BS);
	assert_int_equal(dmu_write_block(vp->zv.dn, 0, b, &tx), 0);
	itx = itx_create_write(1, 0, BS);
	itx_set_indirect(itx, vp->zv.dn, 0);
	zil_append(log_of(vp), itx, &tx);
	data_free(vp, 0, BS, &tx);
	tx_end(&tx);
	assert_int_equal(commit(vp), 0);
	at = recorder_len(vp->rec);
	vp_close(vp);
	vp_stop(vp);
	read_after_crash(vp, at, 0, got, BS);
	assert_memory_equal(got, zeros, BS);
	vp_destroy(vp);
}

/* Freeing what is free changes nothing, but has its record, which must not outlive its group. */
static void records_of_what_changed_nothing_go_with_their_group(void **state)
{
	struct volpool *vp = log_create();
	struct zvol_req discard = {.op = ZVOL_DISCARD, .offset = 0, .length = 4 * BS};

	for (unsigned i = 0; i < 2 * TXG_SIZE + 1; i++) {
		assert_int_equal(vp_request(vp, discard), 0);
		assert_int_equal(txg_wait_synced(vp->tp->dp.txgs, 0), 0);
	}
	log_destroy(vp);
}

static void disabled_logs_nothing_and_is_made_good_later(void **state)
{
	struct volpool *vp = log_create();
	uint64_t txg;

	vp->os->props.sync = 2;
	txg = log_append(vp, itx_of(0, 100));
	assert_int_equal(commit(vp), 0);
	assert_true(txg_last_synced(vp->tp->dp.txgs) < txg);
	assert_int_equal(log_extents(vp), 0);
	vp->os->props.sync = 0;
	assert_int_equal(commit(vp), 0);
	assert_true(txg_last_synced(vp->tp->dp.txgs) >= txg);
	log_destroy(vp);
}

static void asynchronous_records_are_committed_by_object(void **state)
{
	struct volpool *vp = log_create();

	log_append(vp, itx_of(0, 100));
	assert_int_equal(commit(vp), 0);
	for (unsigned n = 1; n < 7; n++) {
		struct itx *itx = itx_of(n, 100);

		itx->object = 10 + n % 2;
		itx->async = n < 6;
		log_append(vp, itx);
	}
	assert_int_equal(zil_commit_wait(log_of(vp), 11), 0);
	struct walk w = walk_now(vp, 7);
	for (unsigned n = 1; n < 7; n++)
		assert_int_equal(w.op[n].bytes, n % 2 || n == 6 ? 100 : 0);
	free(w.op);
	assert_int_equal(commit(vp), 0);
	w = walk_now(vp, 7);
	for (unsigned n = 1; n < 7; n++)
		assert_int_equal(w.op[n].bytes, 100);
	free(w.op);
	log_destroy(vp);
}

static void kinds_of_writes(void **state)
{
	struct volpool *vp = log_create();
	struct vdev *top = vp->tp->root->child[2];

	assert_int_equal(zil_write_kind(log_of(vp), 4096, 8192, true), ZIL_COPIED);
	assert_int_equal(zil_write_kind(log_of(vp), 32767, 8192, false), ZIL_COPIED);
	assert_int_equal(zil_write_kind(log_of(vp), 32768, 8192, true), ZIL_INDIRECT);
	assert_int_equal(zil_write_kind(log_of(vp), 32768, 131072, true), ZIL_COPIED);
	assert_int_equal(zil_write_kind(log_of(vp), 32768, 131072, false), ZIL_INDIRECT);
	assert_int_equal(zil_write_kind(log_of(vp), 65536, 131072, true), ZIL_INDIRECT);
	top->alloc_bias = "special";
	assert_int_equal(zil_write_kind(log_of(vp), 65536, 131072, true), ZIL_COPIED);
	vp->os->props.special_small = 131072;
	assert_int_equal(zil_write_kind(log_of(vp), 65536, 131072, true), ZIL_INDIRECT);
	top->alloc_bias = NULL;
	top->is_log = true;
	assert_int_equal(zil_write_kind(log_of(vp), 65536, 131072, true), ZIL_COPIED);
	vp->os->props.logbias = 1;
	assert_int_equal(zil_write_kind(log_of(vp), 512, 131072, true), ZIL_INDIRECT);
	top->is_log = false;
	log_destroy(vp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_commit_is_one_block_and_one_flush),
	    cmocka_unit_test(records_larger_than_a_block_are_split),
	    cmocka_unit_test(what_was_committed_survives_every_crash),
	    cmocka_unit_test(a_closed_log_has_no_block),
	    cmocka_unit_test(a_chain_that_is_given_up_is_begun_anew),
	    cmocka_unit_test(without_space_a_commit_waits_for_the_group),
	    cmocka_unit_test(a_failed_write_ends_the_chain_and_nothing_leaks),
	    cmocka_unit_test(a_metaslab_is_waited_for_elsewhere),
	    cmocka_unit_test(indirect_records_carry_the_pointer),
	    cmocka_unit_test(a_pointer_is_repeated_behind_what_lies_between),
	    cmocka_unit_test(a_block_that_was_freed_is_logged_as_a_hole),
	    cmocka_unit_test(records_of_what_changed_nothing_go_with_their_group),
	    cmocka_unit_test(disabled_logs_nothing_and_is_made_good_later),
	    cmocka_unit_test(asynchronous_records_are_committed_by_object),
	    cmocka_unit_test(kinds_of_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
