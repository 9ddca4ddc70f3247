/*
 * Writers, readers, creators of objects, writes ahead of the sync and the sync itself, all at once, over real
 * transaction groups. Words say where they belong, so that readers see at once what is not theirs.
 */
#include "syncpool.h"

#define BS      1024u
#define CELL    2056u /* bytes of one writer, lying across blocks */
#define WRITERS 3u
#define CELLS   (WRITERS * 120u)
#define LENGTH  (CELL * CELLS)
#define WRITES  1500u
#define FILLER  UINT64_C(0x5a5a000000000000)

struct world {
	struct testpool *tp;
	struct objset *os;
	struct dnode *dn;
	uint32_t version[CELLS]; /* 0: zeros; each one its writer's */
	atomic_bool stop;
	atomic_uint groups;
	atomic_uint ahead;
};

struct writer {
	struct world *w;
	unsigned index;
	uint32_t seed;
};

static uint32_t rnd(uint32_t *seed, uint32_t n)
{
	*seed = *seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)*seed * n) >> 32);
}

static uint64_t cell_word(unsigned cell, uint32_t version)
{
	return version ? FILLER | (uint64_t)cell << 32 | version : 0;
}

static void cell_fill(uint64_t *data, unsigned cell, uint32_t version)
{
	for (unsigned i = 0; i < CELL / 8; i++)
		data[i] = cell_word(cell, version);
}

/* Every word is zero or of its cell, and not younger than is possible. */
static void words_check(const uint8_t *data, size_t offset, size_t len)
{
	for (size_t at = 0; at < len; at += 8) {
		uint64_t v = load_host64(data + at), cell = (offset + at) / CELL;

		if (v != 0 && v >> 32 != (FILLER >> 32 | cell))
			fail_msg("at %zu (cell %lu): %lx", offset + at, cell, v);
	}
}

static void sync_fn(void *arg, uint64_t txg)
{
	struct world *w = arg;

	sp_sync_group(w->os, txg, 1);
	atomic_fetch_add(&w->groups, 1);
}

/* --- writes ahead of the sync --- */

struct ahead {
	struct dmu_sync s;
	struct waiter wait;
};

static void ahead_done(struct dmu_sync *s, int err)
{
	waiter_done(&((struct ahead *)s)->wait, err);
}

static void write_ahead(struct world *w, uint64_t blkid, uint64_t txg)
{
	struct ahead a = {.s = {.dn = w->dn, .blkid = blkid, .txg = txg, .done = ahead_done}};
	struct zbookmark zb = {5, w->dn->object, 0, blkid};
	struct buf *buf;
	int err;

	waiter_init(&a.wait);
	dmu_sync(&a.s);
	err = waiter_wait(&a.wait);
	assert_true(err == 0 || err == -EEXIST || err == -ENOENT);
	if (err || bp_is_hole(&a.s.bp))
		return;
	atomic_fetch_add(&w->ahead, 1);
	assert_int_equal(zio_read_wait(&w->tp->zp, &a.s.bp, &zb, NULL, 0, &buf), 0);
	words_check(buf->data, blkid * BS, BS);
	buf_release(buf);
}

/* --- threads --- */

static void *writer_run(void *arg)
{
	struct writer *wr = arg;
	struct world *w = wr->w;
	uint64_t data[CELL / 8];

	for (unsigned i = 0; i < WRITES; i++) {
		unsigned cell = rnd(&wr->seed, CELLS / WRITERS) * WRITERS + wr->index;
		struct tx tx = {.bytes = CELL, .os = w->os};
		uint64_t offset = (uint64_t)cell * CELL;

		assert_int_equal(tx_begin_wait(w->tp->dp.txgs, &tx), 0);
		if (rnd(&wr->seed, 5) == 0) {
			assert_int_equal(dmu_free_range(w->dn, offset, CELL, &tx), 0);
			w->version[cell] = 0;
		} else {
			w->version[cell]++;
			cell_fill(data, cell, w->version[cell]);
			/* In pieces, so that blocks are partial for a while. */
			assert_int_equal(dmu_write(w->dn, offset, data, 512, &tx), 0);
			assert_int_equal(dmu_write(w->dn, offset + 512, (uint8_t *)data + 512, CELL - 512, &tx), 0);
		}
		if (rnd(&wr->seed, 10) == 0)
			write_ahead(w, offset / BS + rnd(&wr->seed, 3), tx.txg);
		tx_end(&tx);
		if (i % 100 == wr->index)
			txg_kick(w->tp->dp.txgs);
		if (i % 300 == 299)
			assert_int_equal(txg_wait_synced(w->tp->dp.txgs, 0), 0);
	}
	return NULL;
}

static void *reader_run(void *arg)
{
	struct writer *r = arg;
	struct world *w = r->w;
	uint8_t *data = xmalloc(64 * BS);

	while (!atomic_load(&w->stop)) {
		size_t len = 8 * (1 + rnd(&r->seed, 64 * BS / 8)), offset = 8 * rnd(&r->seed, (LENGTH - len) / 8);
		uint64_t at = offset;

		assert_int_equal(dmu_read(w->dn, offset, data, len, 0), 0);
		words_check(data, offset, len);
		if (rnd(&r->seed, 8) == 0)
			assert_true(dmu_next_offset(w->dn, &at, rnd(&r->seed, 2)) <= 0);
	}
	free(data);
	return NULL;
}

static void *creator_run(void *arg)
{
	struct writer *c = arg;
	struct world *w = c->w;
	struct dmu_object spec = {.type = TP_FILE, .bonustype = 44, .bonuslen = 8};
	uint64_t mine[50] = {0}, again = 0;

	for (unsigned i = 0; i < WRITES; i++) {
		uint64_t *o = &mine[rnd(&c->seed, ARRAY_LEN(mine))], got;
		struct tx tx = {.bytes = 1024, .os = w->os};
		struct dnode *dn;

		assert_int_equal(tx_begin_wait(w->tp->dp.txgs, &tx), 0);
		if (*o) {
			assert_int_equal(dnode_hold(w->os, *o, &dn, NULL), 0);
			assert_int_equal(dmu_bonus_read(dn, 0, &got, 8), 0);
			assert_int_equal(got, *o);
			dnode_release(dn);
			assert_int_equal(dmu_object_free(w->os, *o, &tx), 0);
			again = *o;
			*o = 0;
		} else {
			/* A number that was just freed, or any. */
			*o = again;
			again = 0;
			if (!*o || dmu_object_claim(w->os, *o, &spec, &tx))
				assert_int_equal(dmu_object_alloc(w->os, &spec, &tx, o), 0);
			assert_int_equal(dnode_hold(w->os, *o, &dn, NULL), 0);
			assert_int_equal(dmu_bonus_write(dn, 0, o, 8, &tx), 0);
			assert_int_equal(dmu_write(dn, 0, o, 8, &tx), 0);
			dnode_release(dn);
		}
		tx_end(&tx);
	}
	return NULL;
}

static void threads_run(struct world *w)
{
	struct writer arg[WRITERS + 3];
	pthread_t thread[ARRAY_LEN(arg)];

	for (unsigned i = 0; i < ARRAY_LEN(arg); i++) {
		arg[i] = (struct writer){w, i, 77 + i};
		assert_int_equal(pthread_create(&thread[i], NULL,
						i < WRITERS        ? writer_run
						: i == WRITERS + 2 ? creator_run
								   : reader_run,
						&arg[i]),
				 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(arg); i++)
		if (i < WRITERS || i == WRITERS + 2)
			pthread_join(thread[i], NULL);
	atomic_store(&w->stop, true);
	pthread_join(thread[WRITERS], NULL);
	pthread_join(thread[WRITERS + 1], NULL);
}

static void cells_check(struct world *w, struct objset *os)
{
	uint64_t want[CELL / 8], got[CELL / 8];
	struct dnode *dn;

	assert_int_equal(dnode_hold(os, w->dn->object, &dn, NULL), 0);
	for (unsigned cell = 0; cell < CELLS; cell++) {
		cell_fill(want, cell, w->version[cell]);
		assert_int_equal(dmu_read(dn, (uint64_t)cell * CELL, got, CELL, 0), 0);
		assert_memory_equal(want, got, CELL);
	}
	dnode_release(dn);
}

static void test_all_at_once(void **state)
{
	struct dmu_object spec = {.type = TP_FILE, .blocksize = BS, .indblkshift = 12};
	struct testpool *tp = sp_pool_create(9);
	struct tx tx = {.txg = SP_FIRST, .syncing = true};
	static struct world w;
	struct objset *again;
	uint64_t object;

	memset(&w, 0, sizeof(w));
	w.tp = tp;
	txgs_destroy(tp->dp.txgs);
	tp->dp.txgs = tx.txgs = txgs_create(SP_FIRST, sync_fn, &w);
	assert_int_equal(objset_create(&tp->dp, 5, OBJSET_ZFS, &sp_ops, NULL, NULL, &tx, &w.os), 0);
	w.os->props.compress = COMPRESS_LZ4;
	assert_int_equal(dmu_object_alloc(w.os, &spec, &tx, &object), 0);
	assert_int_equal(dnode_hold(w.os, object, &w.dn, NULL), 0);
	txgs_start(tp->dp.txgs);
	threads_run(&w);
	assert_int_equal(txg_wait_synced(tp->dp.txgs, 0), 0);
	assert_true(atomic_load(&w.groups) > 3);
	assert_true(atomic_load(&w.ahead) > 0);
	cells_check(&w, w.os);
	again = sp_reopen(tp, w.os);
	cells_check(&w, again);
	objset_release(again);
	dnode_release(w.dn);
	txgs_destroy(tp->dp.txgs);
	tp->dp.txgs = txgs_create(SP_FIRST, NULL, NULL);
	objset_release(w.os);
	sp_pool_destroy(tp);
}

/* --- later passes of a group write over what earlier ones wrote, under readers that find nothing in the cache --- */

#define PASSES_BLOCKS  600u /* under two levels of indirect blocks */
#define PASSES_OBJECTS 300u
#define PASSES_GROUPS  60u
#define PASSES         8u

struct passes {
	struct testpool *tp;
	struct objset *os;
	struct dnode *dn;
	uint64_t object[PASSES_OBJECTS];
	atomic_bool stop;
};

static void *passes_reader(void *arg)
{
	struct passes *p = arg;
	uint32_t seed = 7;
	uint64_t word;

	while (!atomic_load(&p->stop)) {
		uint64_t blkid = rnd(&seed, PASSES_BLOCKS), object = p->object[rnd(&seed, PASSES_OBJECTS)];
		struct dnode *dn;

		arc_flush_pool(p->tp->dp.arc, p->tp->zp.guid);
		assert_int_equal(dmu_read(p->dn, blkid * BS, &word, 8, DMU_READ_NOPREFETCH), 0);
		assert_int_equal(word >> 32, blkid);
		assert_int_equal(dnode_hold(p->os, object, &dn, NULL), 0);
		dnode_release(dn);
	}
	return NULL;
}

/* Every `step`th block. */
static void passes_write(struct passes *p, uint32_t round, uint64_t step, struct tx *tx)
{
	uint64_t data[BS / 8];

	for (uint64_t blkid = 0; blkid < PASSES_BLOCKS; blkid += step) {
		for (unsigned i = 0; i < BS / 8; i++)
			data[i] = blkid << 32 | (round * 2654435761u ^ i);
		assert_int_equal(dmu_write(p->dn, blkid * BS, data, BS, tx), 0);
	}
}

static void passes_create(struct passes *p, struct tx *tx)
{
	struct dmu_object big = {.type = TP_FILE, .blocksize = BS, .indblkshift = 10}, small = {.type = TP_FILE};
	uint64_t object;

	assert_int_equal(objset_create(&p->tp->dp, 5, OBJSET_META, &sp_ops, NULL, NULL, tx, &p->os), 0);
	assert_int_equal(dmu_object_alloc(p->os, &big, tx, &object), 0);
	assert_int_equal(dnode_hold(p->os, object, &p->dn, NULL), 0);
	for (unsigned i = 0; i < PASSES_OBJECTS; i++)
		assert_int_equal(dmu_object_alloc(p->os, &small, tx, &p->object[i]), 0);
	p->os->props.checksum = CHECKSUM_FLETCHER_4;
	passes_write(p, 0, 1, tx);
}

static void test_readers_under_passes(void **state)
{
	static struct passes p;
	struct tx tx;
	pthread_t thread[2];

	memset(&p, 0, sizeof(p));
	p.tp = sp_pool_create(9);
	tx = (struct tx){.txgs = p.tp->dp.txgs, .txg = SP_FIRST, .syncing = true, .pass = 1};
	passes_create(&p, &tx);
	sp_sync_group(p.os, SP_FIRST, 1);
	for (unsigned i = 0; i < ARRAY_LEN(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, passes_reader, &p), 0);
	for (unsigned g = 1; g <= PASSES_GROUPS; g++) {
		tx.txg = SP_FIRST + g;
		for (tx.pass = 1; tx.pass <= PASSES; tx.pass++) {
			passes_write(&p, g * PASSES + tx.pass, 8, &tx); /* one beneath each indirect block */
			assert_int_equal(objset_sync(p.os, &tx), 0);
		}
		objset_sync_done(p.os, tx.txg);
	}
	atomic_store(&p.stop, true);
	for (unsigned i = 0; i < ARRAY_LEN(thread); i++)
		pthread_join(thread[i], NULL);
	dnode_release(p.dn);
	objset_release(p.os);
	sp_pool_destroy(p.tp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_at_once),
					   cmocka_unit_test(test_readers_under_passes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
