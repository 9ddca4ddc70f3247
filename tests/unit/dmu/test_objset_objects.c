/* Objects through their lives: made, freed, made again, in several groups; bonus, spill, sizes; accounting; passes. */
#include "syncpool.h"

#include "dmu/zap.h"

#define FIRST  SP_FIRST
#define SLOTS  600u /* objects that the random test knows of */
#define FLIGHT 3u

static struct objset *set_create(struct testpool *tp, enum objset_type type, const struct objset_ops *ops)
{
	struct tx tx = sp_open_tx(tp, FIRST);
	struct objset *os;

	assert_int_equal(objset_create(&tp->dp, 5, type, ops, NULL, NULL, &tx, &os), 0);
	os->props.compress = COMPRESS_LZ4;
	return os;
}

/* --- random lives --- */

struct life {
	uint64_t object; /* 0: none */
	uint32_t seed;   /* of bonus and contents */
	uint16_t bonuslen;
	uint32_t blocksize;
	bool data, spill;
};
struct world {
	struct testpool *tp;
	struct objset *os;
	struct life life[FLIGHT][SLOTS];
	uint64_t open;
	uint32_t seed;
};

static uint32_t rnd(struct world *w, uint32_t n)
{
	w->seed = w->seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)w->seed * n) >> 32);
}

static void life_store(struct world *w, unsigned i, const struct life *l)
{
	w->life[w->open % FLIGHT][i] = *l;
}

static void life_write(struct world *w, struct life *l)
{
	struct tx tx = sp_open_tx(w->tp, w->open);
	uint8_t bonus[2560], data[8192];
	struct dnode *dn;

	assert_int_equal(dnode_hold(w->os, l->object, &dn, NULL), 0);
	l->seed = rnd(w, UINT32_MAX);
	tp_pattern(bonus, l->bonuslen, l->seed);
	if (l->bonuslen)
		assert_int_equal(dmu_bonus_write(dn, 0, bonus, l->bonuslen, &tx), 0);
	tp_pattern(data, sizeof(data), l->seed + 1);
	if (l->data)
		assert_int_equal(dmu_write(dn, 3, data, 5000, &tx), 0);
	if (l->spill) {
		struct buf *b = buf_alloc(1024);

		tp_pattern(b->data, 1024, l->seed + 2);
		assert_int_equal(dmu_spill_write(dn, b, &tx), 0);
		buf_release(b);
	}
	dnode_release(dn);
}

static void life_begin(struct world *w, unsigned i, uint64_t claim)
{
	struct tx tx = sp_open_tx(w->tp, w->open);
	unsigned slots = rnd(w, 5) ? 1 : 1 + rnd(w, 4);
	struct life l = {.blocksize = 512u << rnd(w, 4), .data = rnd(w, 2), .spill = rnd(w, 6) == 0};
	struct dmu_object spec = {.type = TP_FILE, .bonustype = 44, .blocksize = l.blocksize, .dnodesize = slots * 512};
	int err;

	l.bonuslen = (uint16_t)rnd(w, slots * 512 - 192 - 128);
	spec.bonuslen = l.bonuslen;
	if (claim) {
		err = dmu_object_claim(w->os, claim, &spec, &tx);
		l.object = claim;
		if (err == -EEXIST || err == -EINVAL) /* a larger one than was there */
			return;
	} else {
		err = dmu_object_alloc(w->os, &spec, &tx, &l.object);
	}
	assert_int_equal(err, 0);
	life_write(w, &l);
	life_store(w, i, &l);
}

static void life_end(struct world *w, unsigned i)
{
	struct tx tx = sp_open_tx(w->tp, w->open);
	struct life none = {0}, *l = &w->life[w->open % FLIGHT][i];
	uint64_t object = l->object;

	assert_int_equal(dmu_object_free(w->os, object, &tx), 0);
	life_store(w, i, &none);
	if (rnd(w, 3) == 0)
		life_begin(w, i, object);
}

static void world_op(struct world *w)
{
	unsigned i = rnd(w, SLOTS);
	struct life *l = &w->life[w->open % FLIGHT][i], changed;

	if (!l->object) {
		life_begin(w, i, 0);
		return;
	}
	if (rnd(w, 3) == 0) {
		life_end(w, i);
		return;
	}
	changed = *l;
	if (changed.spill && rnd(w, 3) == 0) {
		struct tx tx = sp_open_tx(w->tp, w->open);
		struct dnode *dn;

		assert_int_equal(dnode_hold(w->os, l->object, &dn, NULL), 0);
		assert_int_equal(dmu_spill_remove(dn, &tx), 0);
		dnode_release(dn);
		changed.spill = false;
	}
	life_write(w, &changed);
	life_store(w, i, &changed);
}

static void life_check(struct objset *os, const struct life *l)
{
	uint8_t want[8192], got[8192];
	struct dnode *dn;
	struct buf *b;

	assert_int_equal(dnode_hold(os, l->object, &dn, NULL), 0);
	assert_int_equal(dn->bonuslen, l->bonuslen);
	assert_int_equal(dn->datablksz, l->blocksize);
	tp_pattern(want, l->bonuslen, l->seed);
	assert_int_equal(dmu_bonus_read(dn, 0, got, l->bonuslen), 0);
	assert_memory_equal(want, got, l->bonuslen);
	tp_pattern(want, sizeof(want), l->seed + 1);
	assert_int_equal(dmu_read(dn, 3, got, 5000, 0), 0);
	if (l->data)
		assert_memory_equal(want, got, 5000);
	else
		assert_int_equal(got[0], 0);
	assert_int_equal(dn->has_spill, l->spill);
	if (l->spill) {
		tp_pattern(want, 1024, l->seed + 2);
		assert_int_equal(dmu_spill_read(dn, &b), 0);
		assert_memory_equal(want, b->data, 1024);
		buf_release(b);
	}
	dnode_release(dn);
}

static void lives_check(struct world *w, struct objset *os, uint64_t txg)
{
	uint64_t object = 0, seen = 0, lives = 0;

	for (unsigned i = 0; i < SLOTS; i++) {
		if (!w->life[txg % FLIGHT][i].object)
			continue;
		life_check(os, &w->life[txg % FLIGHT][i]);
		lives++;
	}
	while (dnode_next(os, &object, NULL) == 0)
		seen++;
	assert_int_equal(seen, lives);
}

static void test_random_lives(void **state)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	w.tp = sp_pool_create(9);
	w.open = FIRST;
	w.seed = 1234;
	w.os = set_create(w.tp, OBJSET_ZFS, &sp_ops);
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = rnd(&w, 200); i > 0; i--)
			world_op(&w);
		w.open++;
		memcpy(w.life[w.open % FLIGHT], w.life[(w.open - 1) % FLIGHT], sizeof(w.life[0]));
		for (unsigned i = rnd(&w, 100); i > 0; i--)
			world_op(&w);
		sp_sync_group(w.os, w.open - 1, 1);
		lives_check(&w, w.os, w.open);
		struct objset *again = sp_reopen(w.tp, w.os);
		lives_check(&w, again, w.open - 1);
		objset_release(again);
	}
	sp_sync_group(w.os, w.open, 1);
	objset_release(sp_reopen(w.tp, w.os));
	objset_release(w.os);
	sp_pool_destroy(w.tp);
}

/* --- numbers --- */

static void test_numbers_come_again(void **state)
{
	struct testpool *tp = sp_pool_create(9);
	struct objset *os = set_create(tp, OBJSET_ZFS, &sp_ops);
	struct dmu_object spec = {.type = TP_FILE};
	uint64_t object, last = 0;

	/* 20000 objects, never more than a hundred at a time: their numbers stay small. */
	for (uint64_t txg = FIRST; txg < FIRST + 200; txg++) {
		struct tx tx = sp_open_tx(tp, txg);
		uint64_t number[100];

		for (unsigned i = 0; i < 100; i++)
			assert_int_equal(dmu_object_alloc(os, &spec, &tx, &number[i]), 0);
		for (unsigned i = 0; i < 100; i++) {
			last = MAX(last, number[i]);
			assert_int_equal(dmu_object_free(os, number[i], &tx), 0);
		}
		sp_sync_group(os, txg, 1);
	}
	/* None of them was ever in the tree: nobody gave it a block. */
	assert_true(last <= 20000 + 32);
	for (uint64_t txg = FIRST + 200; txg < FIRST + 400; txg += 2) {
		struct tx tx = sp_open_tx(tp, txg), tx2 = sp_open_tx(tp, txg + 1);
		uint64_t number[200];

		for (unsigned i = 0; i < 200; i++)
			assert_int_equal(dmu_object_alloc(os, &spec, &tx, &number[i]), 0);
		sp_sync_group(os, txg, 1);
		for (unsigned i = 0; i < 200; i++) {
			object = number[i];
			last = MAX(last, object);
			assert_int_equal(dmu_object_free(os, object, &tx2), 0);
		}
		sp_sync_group(os, txg + 1, 1);
	}
	assert_true(last < 30000);
	objset_release(sp_reopen(tp, os));
	objset_release(os);
	sp_pool_destroy(tp);
}

/* --- accounting --- */

static int owner(struct objset *os, const struct dnode *dn, const uint8_t *bonus, size_t len, uint64_t *uid,
		 uint64_t *gid, uint64_t *project)
{
	if (len < 24)
		return -ENOENT;
	*uid = load_host64(bonus);
	*gid = load_host64(bonus + 8);
	*project = load_host64(bonus + 16);
	return 0;
}

static const struct objset_ops owned_ops = {.born = sp_born, .kill = sp_kill, .owner = owner};

static void own(struct objset *os, uint64_t object, uint64_t uid, uint64_t gid, struct tx *tx)
{
	uint64_t ids[3] = {uid, gid, 7};
	struct dnode *dn;

	assert_int_equal(dnode_hold(os, object, &dn, NULL), 0);
	assert_int_equal(dmu_bonus_write(dn, 0, ids, sizeof(ids), tx), 0);
	dnode_release(dn);
}

static uint64_t table_value(struct objset *os, uint64_t table, const char *name)
{
	uint64_t v = 0;
	int err = zap_lookup_u64(os, table, name, &v);

	assert_true(err == 0 || err == -ENOENT);
	return err ? 0 : v;
}

static void sync_with_accounts(struct objset *os, uint64_t txg)
{
	struct tx tx = {.txgs = os->dp->txgs, .txg = txg, .syncing = true, .pass = 1};

	assert_int_equal(objset_sync(os, &tx), 0);
	objset_sync_accounting(os, &tx);
	sp_sync_group(os, txg, 1);
}

static void test_accounts(void **state)
{
	struct dmu_object spec = {.type = TP_FILE, .bonustype = 44, .bonuslen = 24};
	struct testpool *tp = sp_pool_create(9);
	struct tx tx = sp_open_tx(tp, FIRST), tx2 = sp_open_tx(tp, FIRST + 1), tx3 = sp_open_tx(tp, FIRST + 2);
	struct objset *os, *again;
	struct dnode *dn;
	uint64_t a, b, used;
	uint8_t data[5000];

	tp->dp.userobj_accounting = true;
	os = set_create(tp, OBJSET_ZFS, &owned_ops);
	tp_pattern(data, sizeof(data), 1);
	assert_int_equal(dmu_object_alloc(os, &spec, &tx, &a), 0);
	assert_int_equal(dmu_object_alloc(os, &spec, &tx, &b), 0);
	own(os, a, 1000, 100, &tx);
	own(os, b, 1000, 200, &tx);
	assert_int_equal(dnode_hold(os, a, &dn, NULL), 0);
	assert_int_equal(dmu_write(dn, 0, data, sizeof(data), &tx), 0);
	sync_with_accounts(os, FIRST);
	used = dn->used;
	assert_true(used > 5000);
	assert_int_equal(dn->flags, 0x0b);
	assert_int_equal(table_value(os, DMU_OBJECT_USERUSED, "3e8"), used + 1024);
	assert_int_equal(table_value(os, DMU_OBJECT_USERUSED, "obj-3e8"), 2);
	assert_int_equal(table_value(os, DMU_OBJECT_GROUPUSED, "64"), used + 512);
	assert_int_equal(table_value(os, DMU_OBJECT_GROUPUSED, "c8"), 512);
	assert_int_equal(table_value(os, DMU_OBJECT_PROJECTUSED, "7"), used + 1024);
	/* The one changes hands and the other goes; at the same time the next group writes. */
	own(os, a, 1001, 100, &tx2);
	assert_int_equal(dmu_object_free(os, b, &tx2), 0);
	assert_int_equal(dmu_write(dn, 8192, data, sizeof(data), &tx3), 0);
	own(os, a, 1002, 100, &tx3);
	sync_with_accounts(os, FIRST + 1);
	assert_int_equal(table_value(os, DMU_OBJECT_USERUSED, "3e8"), 0);
	assert_int_equal(table_value(os, DMU_OBJECT_USERUSED, "obj-3e8"), 0);
	assert_int_equal(table_value(os, DMU_OBJECT_USERUSED, "3e9"), used + 512);
	assert_int_equal(table_value(os, DMU_OBJECT_GROUPUSED, "c8"), 0);
	sync_with_accounts(os, FIRST + 2);
	assert_true(dn->used > used);
	assert_int_equal(table_value(os, DMU_OBJECT_USERUSED, "3e9"), 0);
	assert_int_equal(table_value(os, DMU_OBJECT_USERUSED, "3ea"), dn->used + 512);
	dnode_release(dn);
	again = sp_reopen(tp, os);
	assert_non_null(again->projectused);
	assert_int_equal(table_value(again, DMU_OBJECT_PROJECTUSED, "obj-7"), 1);
	objset_release(again);
	objset_release(os);
	sp_pool_destroy(tp);
}

/* --- passes of the MOS --- */

static void test_passes(void **state)
{
	struct dmu_object spec = {.type = DMU_OT_OBJECT_ARRAY, .blocksize = 4096};
	struct testpool *tp = sp_pool_create(9);
	struct objset *os = set_create(tp, OBJSET_META, &sp_ops), *again;
	struct tx tx = {.txgs = tp->dp.txgs, .txg = FIRST, .syncing = true};
	struct dnode *dn, *got;
	uint64_t object, used = 0;
	uint8_t data[4096], back[4096];
	struct bp root = {{0}};

	assert_int_equal(dmu_object_alloc(os, &spec, &tx, &object), 0);
	assert_int_equal(dnode_hold(os, object, &dn, NULL), 0);
	for (unsigned pass = 1; pass < 12; pass++) {
		/* Contents that compress always to the same size. */
		memset(data, (int)pass, sizeof(data));
		tp_pattern(data, 1000, pass);
		assert_int_equal(dmu_write(dn, 0, data, sizeof(data), &tx), 0);
		assert_int_equal(dmu_read(dn, 0, back, sizeof(back), 0), 0);
		sp_sync_group(os, FIRST, pass);
		again = sp_reopen(tp, os);
		assert_int_equal(dnode_hold(again, object, &got, NULL), 0);
		assert_int_equal(dmu_read(got, 0, back, sizeof(back), 0), 0);
		assert_memory_equal(back, data, sizeof(data));
		dnode_release(got);
		objset_release(again);
		assert_int_equal(dmu_read(dn, 0, back, sizeof(back), 0), 0);
		assert_memory_equal(back, data, sizeof(data));
		/* From the second pass on nothing is allocated, but once when compression ends. */
		if (pass == 2 || pass == 10) {
			used = tp_in_use(tp);
			root = os->rootbp;
		}
		if ((pass > 2 && pass < 8) || pass > 10) {
			assert_int_equal(tp_in_use(tp), used);
			assert_true(bp_equal(&root, &os->rootbp));
		}
	}
	assert_int_equal(bp_ndvas(&dn->blkptr[0]), 3);
	assert_int_equal(bp_compress(&dn->blkptr[0]), COMPRESS_OFF);
	dnode_release(dn);
	objset_release(os);
	sp_pool_destroy(tp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_random_lives),
	    cmocka_unit_test(test_numbers_come_again),
	    cmocka_unit_test(test_accounts),
	    cmocka_unit_test(test_passes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
