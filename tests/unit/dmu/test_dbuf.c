/* Unsynced contents: writes of any size in several groups, freed ranges, bonus, objects; seen by readers at once. */
#include "testpool.h"

#include "dmu/dmu.h"

#define ARC_BYTES (UINT64_C(32) << 20)
#define BS        4096u
#define BLOCKS    40u
#define MODEL     (BS * BLOCKS * 2)

static unsigned told;

static void on_dirtied(struct objset *os, uint64_t txg)
{
	told |= 1u << txg;
}

static const struct objset_ops ops = {.dirtied = on_dirtied};

struct set {
	struct testpool *tp;
	struct objset *os;
	struct dnode *dn; /* object 1: a file of BLOCKS blocks over indirect blocks */
	struct tx tx[3];  /* of groups 11 - 13 */
	uint8_t *model;   /* what the file should read as */
};

static void set_open(struct set *s)
{
	uint8_t(*slot)[512] = xcalloc(2, 512);
	struct bp l0[BLOCKS], root;
	struct err e = ERR_INIT;

	memset(s, 0, sizeof(*s));
	s->tp = tp_create(9, ARC_BYTES);
	s->tp->dp.txgs = txgs_create(11, NULL, NULL);
	s->model = xcalloc(1, MODEL);
	for (unsigned i = 0; i < BLOCKS; i++) {
		memset(&l0[i], 0, sizeof(l0[i]));
		if (i % 5 == 3)
			continue;
		tp_pattern(s->model + i * BS, BS, i);
		l0[i] = tp_write(s->tp, s->model + i * BS, BS, TP_FILE, 0);
	}
	tp_dnode(s->tp, slot[0], TP_FILE, l0, BLOCKS, BS, 10, 1);
	tp_dnode(s->tp, slot[1], TP_FILE, l0, 1, BS, 10, 1);
	root = tp_objset(s->tp, slot, 2, 1024);
	free(slot);
	if (objset_open(&s->tp->dp, 5, &root, NULL, &s->os, &e))
		fail_msg("%s", e.text);
	objset_set_writable(s->os, &ops, NULL);
	assert_int_equal(dnode_hold(s->os, 1, &s->dn, &e), 0);
	told = 0;
	for (unsigned i = 0; i < ARRAY_LEN(s->tx); i++)
		s->tx[i] = (struct tx){.txgs = s->tp->dp.txgs, .txg = 11 + i};
}

static void set_close(struct set *s)
{
	objset_abandon(s->os);
	dnode_release(s->dn);
	objset_release(s->os);
	txgs_destroy(s->tp->dp.txgs);
	free(s->model);
	tp_destroy(s->tp);
}

static void set_check(struct set *s)
{
	uint8_t *got = xmalloc(MODEL);

	assert_int_equal(dmu_read(s->dn, 0, got, MODEL, 0), 0);
	for (size_t i = 0; i < MODEL; i++)
		if (got[i] != s->model[i])
			fail_msg("byte %zu of block %zu: %02x, not %02x", i % BS, i / BS, got[i], s->model[i]);
	free(got);
}

static void write_model(struct set *s, unsigned group, size_t offset, size_t len, uint32_t seed)
{
	tp_pattern(s->model + offset, len, seed);
	assert_int_equal(dmu_write(s->dn, offset, s->model + offset, len, &s->tx[group]), 0);
}

static void test_parts_are_completed(void **state)
{
	struct set s;

	set_open(&s);
	unsigned before = atomic_load(&s.tp->device_reads);
	write_model(&s, 0, 100, 50, 1);
	write_model(&s, 0, 200, 50, 2);
	write_model(&s, 0, 150, 50, 3);
	write_model(&s, 0, 3 * BS - 10, 20, 4);
	write_model(&s, 0, 3 * BS + 17, 1, 5);
	/* None of that reads anything. */
	assert_int_equal(atomic_load(&s.tp->device_reads), before);
	set_check(&s);
	assert_int_equal(told, 1u << 11);
	set_close(&s);
}

static void test_whole_blocks_are_never_read(void **state)
{
	struct set s;
	struct buf *b, *got;

	set_open(&s);
	unsigned before = atomic_load(&s.tp->device_reads);
	b = buf_alloc(BS);
	tp_pattern(b->data, BS, 77);
	assert_int_equal(dmu_write_block(s.dn, 7, b, &s.tx[0]), 0);
	write_model(&s, 0, 8 * BS, BS / 2, 1);
	write_model(&s, 0, 8 * BS + BS / 2, BS / 2, 2);
	assert_int_equal(dmu_block_get(s.dn, 7, &got), 0);
	assert_ptr_equal(got, b);
	buf_release(got);
	assert_int_equal(dmu_block_get(s.dn, 8, &got), 0);
	assert_memory_equal(got->data, s.model + 8 * BS, BS);
	buf_release(got);
	assert_int_equal(atomic_load(&s.tp->device_reads), before);
	/* A buffer that somebody holds does not change. */
	uint8_t *was = xmalloc(BS);
	memcpy(was, b->data, BS);
	memcpy(s.model + 7 * BS, b->data, BS);
	write_model(&s, 0, 7 * BS + 5, 5, 3);
	assert_memory_equal(was, b->data, BS);
	free(was);
	buf_release(b);
	set_check(&s);
	set_close(&s);
}

static void free_model(struct set *s, unsigned group, size_t offset, size_t len)
{
	assert_int_equal(dmu_free_range(s->dn, offset, offset + len >= MODEL ? UINT64_MAX : len, &s->tx[group]), 0);
	memset(s->model + offset, 0, len);
}

static void test_groups_in_any_order(void **state)
{
	struct set s;

	set_open(&s);
	/* A younger group wrote first; the older one's transaction still changes what both leave. */
	write_model(&s, 1, 10 * BS + 100, 100, 1);
	write_model(&s, 0, 10 * BS + 300, 100, 2);
	write_model(&s, 0, 10 * BS + 150, 10, 3);
	set_check(&s);
	free_model(&s, 2, 12 * BS, 2 * BS);
	write_model(&s, 1, 12 * BS + 30, 30, 4);
	set_check(&s);
	write_model(&s, 2, 14 * BS + 1, 5, 5);
	free_model(&s, 0, 13 * BS, 5 * BS);
	set_check(&s);
	set_close(&s);
}

static void test_random_against_model(void **state)
{
	struct set s;
	uint32_t seed = 4711;

	set_open(&s);
	for (unsigned i = 0; i < 3000; i++) {
		seed = seed * 1664525 + 1013904223;
		size_t offset = (seed >> 3) % (MODEL - 1), len;
		unsigned group = (seed >> 8) % 3;

		seed = seed * 1664525 + 1013904223;
		len = (seed >> 7) % (3 * BS) + 1;
		if (seed >> 28 == 0)
			len = MODEL;
		len = MIN(len, MODEL - offset);
		if (seed >> 30 == 0)
			free_model(&s, group, offset, len);
		else if (len < 2 * BS + 10)
			write_model(&s, group, offset, len, seed);
		if (i % 50 == 0)
			set_check(&s);
	}
	set_check(&s);
	set_close(&s);
}

static void test_holes_and_data(void **state)
{
	struct set s;
	uint64_t at;

	set_open(&s);
	write_model(&s, 0, 3 * BS + 10, 10, 1); /* block 3 was a hole */
	free_model(&s, 1, 5 * BS, 4 * BS);
	at = 0;
	assert_int_equal(dmu_next_offset(s.dn, &at, true), 0);
	assert_int_equal(at, 5 * BS);
	assert_int_equal(dmu_next_offset(s.dn, &at, false), 0);
	assert_int_equal(at, 9 * BS);
	write_model(&s, 1, 7 * BS, BS, 1);
	at = 5 * BS;
	assert_int_equal(dmu_next_offset(s.dn, &at, false), 0);
	assert_int_equal(at, 7 * BS);
	free_model(&s, 2, 6 * BS, MODEL - 6 * BS);
	assert_int_equal(s.dn->maxblkid, 5);
	at = 5 * BS;
	assert_int_equal(dmu_next_offset(s.dn, &at, false), -ESRCH);
	write_model(&s, 2, 60 * BS, BS, 1);
	assert_int_equal(dmu_next_offset(s.dn, &at, false), 0);
	assert_int_equal(at, 60 * BS);
	at = 60 * BS;
	assert_int_equal(dmu_next_offset(s.dn, &at, true), -ESRCH);
	set_check(&s);
	set_close(&s);
}

static void test_bonus(void **state)
{
	struct dmu_object spec = {.type = TP_FILE, .bonustype = 44, .bonuslen = 100};
	struct set s;
	struct dnode *dn;
	uint64_t object;
	uint8_t data[300], got[300];

	set_open(&s);
	tp_pattern(data, sizeof(data), 9);
	assert_int_equal(dmu_object_alloc(s.os, &spec, &s.tx[0], &object), 0);
	assert_int_equal(dnode_hold(s.os, object, &dn, NULL), 0);
	assert_int_equal(dmu_bonus_write(dn, 50, data, 51, &s.tx[0]), -EINVAL);
	assert_int_equal(dmu_bonus_set_size(dn, 321, &s.tx[0]), -EINVAL);
	assert_int_equal(dmu_bonus_set_size(dn, 300, &s.tx[0]), 0);
	assert_int_equal(dmu_bonus_write(dn, 0, data, 300, &s.tx[0]), 0);
	assert_int_equal(dmu_bonus_read(dn, 0, got, 300), 0);
	assert_memory_equal(got, data, 300);
	assert_int_equal(dmu_bonus_set_size(dn, 10, &s.tx[1]), 0);
	assert_int_equal(dmu_bonus_read(dn, 0, got, 11), -EINVAL);
	assert_int_equal(dmu_bonus_set_size(dn, 20, &s.tx[1]), 0);
	assert_int_equal(dmu_bonus_read(dn, 0, got, 20), 0);
	memset(data + 10, 0, 10);
	assert_memory_equal(got, data, 20);
	dnode_release(dn);
	set_close(&s);
}

static void test_objects(void **state)
{
	struct dmu_object spec = {.type = TP_FILE, .blocksize = 8192}, large = {.type = TP_FILE, .dnodesize = 2048};
	uint64_t number[200], at = 0;
	struct set s;
	struct dnode *dn, *again;

	set_open(&s);
	for (unsigned i = 0; i < ARRAY_LEN(number); i++) {
		struct dmu_object *sp = i % 10 == 9 ? &large : &spec;

		assert_int_equal(dmu_object_alloc(s.os, sp, &s.tx[0], &number[i]), 0);
		/* Not in the one dnode block there is: what was used there nobody knows. */
		assert_true(number[i] >= 32);
		for (unsigned j = 0; j < i; j++)
			assert_true(number[i] != number[j]);
		if (sp == &large)
			assert_true(number[i] % 32 <= 28);
	}
	assert_int_equal(dnode_hold(s.os, number[0], &dn, NULL), 0);
	assert_int_equal(dn->datablksz, 8192);
	assert_int_equal(dmu_write(dn, 5, "hello", 5, &s.tx[0]), 0);
	assert_int_equal(dnode_hold(s.os, number[0], &again, NULL), 0);
	assert_ptr_equal(dn, again);
	dnode_release(again);
	assert_int_equal(dmu_object_claim(s.os, number[0], &spec, &s.tx[1]), -EEXIST);
	assert_int_equal(dmu_object_claim(s.os, 1, &spec, &s.tx[1]), -EEXIST);
	assert_int_equal(dmu_object_free(s.os, number[0], &s.tx[1]), 0);
	assert_int_equal(dmu_object_free(s.os, number[0], &s.tx[1]), -ENOENT);
	assert_int_equal(dnode_hold(s.os, number[0], &again, NULL), -ENOENT);
	assert_int_equal(dmu_write(dn, 5, "hello", 5, &s.tx[1]), -ENOENT);
	assert_int_equal(dmu_object_free(s.os, 2, &s.tx[1]), 0);
	/* The walk over all objects sees what is there now. */
	unsigned seen = 0;
	while (dnode_next(s.os, &at, NULL) == 0) {
		assert_true(at != number[0] && at != 2);
		seen++;
	}
	assert_int_equal(seen, 1 + ARRAY_LEN(number) - 1);
	/* The same number again, by name, in the group that freed it. */
	assert_int_equal(dmu_object_claim(s.os, number[0], &large, &s.tx[1]), -EEXIST); /* neighbours are in the way */
	assert_int_equal(dmu_object_claim(s.os, number[0], &spec, &s.tx[1]), 0);
	uint8_t got[10];
	assert_int_equal(dmu_read(dn, 0, got, 10, 0), 0);
	assert_int_equal(got[5], 0);
	dnode_release(dn);
	set_close(&s);
}

static void test_blocksize(void **state)
{
	struct set s;
	struct dnode *dn;
	uint8_t got[3 * BS];

	set_open(&s);
	assert_int_equal(dnode_hold(s.os, 2, &dn, NULL), 0);
	assert_int_equal(dmu_object_set_blocksize(s.dn, BS * 2, 0, &s.tx[0]), -ENOTSUP);
	assert_int_equal(dmu_object_set_blocksize(dn, BS * 3, 0, &s.tx[0]), 0);
	assert_int_equal(dmu_write(dn, 2 * BS, "tail", 4, &s.tx[0]), 0);
	assert_int_equal(dmu_read(dn, 0, got, sizeof(got), 0), 0);
	assert_memory_equal(got, s.model, BS);
	for (unsigned i = BS; i < 2 * BS; i++)
		assert_int_equal(got[i], 0);
	assert_memory_equal(got + 2 * BS, "tail", 4);
	assert_int_equal(dmu_object_set_blocksize(dn, BS / 2, 0, &s.tx[1]), 0);
	assert_int_equal(dmu_read(dn, 0, got, BS, 0), 0);
	assert_memory_equal(got, s.model, BS / 2);
	assert_int_equal(got[BS / 2], 0);
	dnode_release(dn);
	set_close(&s);
}

static void test_blocksize_of_new_objects(void **state)
{
	struct dmu_object spec = {.type = TP_FILE};
	struct set s;
	struct dnode *dn;
	uint64_t object, at = 0;

	set_open(&s);
	assert_int_equal(dmu_object_alloc(s.os, &spec, &s.tx[0], &object), 0);
	assert_int_equal(dnode_hold(s.os, object, &dn, NULL), 0);
	assert_int_equal(dmu_object_set_blocksize(dn, BS, 0, &s.tx[0]), 0);
	/* Nothing was there that would have to grow. */
	assert_int_equal(dmu_next_offset(dn, &at, false), -ESRCH);
	dnode_release(dn);
	/* An object that comes again where another had indirect blocks. */
	assert_int_equal(dmu_object_free(s.os, 1, &s.tx[0]), 0);
	assert_int_equal(dmu_object_claim(s.os, 1, &spec, &s.tx[0]), 0);
	assert_int_equal(dmu_object_set_blocksize(s.dn, BS, 15, &s.tx[0]), 0);
	assert_int_equal(dmu_write(s.dn, BS, "x", 1, &s.tx[0]), 0);
	assert_int_equal(dmu_object_set_blocksize(s.dn, BS, 14, &s.tx[1]), -ENOTSUP);
	set_close(&s);
}

static void test_new_set(void **state)
{
	struct dmu_object spec = {.type = TP_FILE};
	struct testpool *tp = tp_create(9, ARC_BYTES);
	struct tx tx = {.txg = 11};
	struct objset *os;
	uint64_t object;

	tp->dp.txgs = tx.txgs = txgs_create(11, NULL, NULL);
	told = 0;
	assert_int_equal(objset_create(&tp->dp, 9, OBJSET_ZFS, &ops, NULL, NULL, &tx, &os), 0);
	assert_int_equal(told, 1u << 11);
	assert_true(objset_is_dirty(os, 11));
	assert_false(objset_is_dirty(os, 12));
	assert_int_equal(dmu_object_alloc(os, &spec, &tx, &object), 0);
	assert_int_equal(object, 1);
	assert_int_equal(dmu_object_claim(os, 3, &spec, &tx), 0);
	assert_int_equal(dmu_object_alloc(os, &spec, &tx, &object), 0);
	assert_int_equal(object, 2);
	assert_int_equal(dmu_object_alloc(os, &spec, &tx, &object), 0);
	assert_int_equal(object, 4);
	objset_abandon(os);
	assert_int_equal(txg_dirty_bytes(tx.txgs), 0);
	objset_release(os);
	txgs_destroy(tx.txgs);
	tp_destroy(tp);
}

static void test_spill(void **state)
{
	struct dmu_object spec = {.type = TP_FILE, .bonustype = 44, .bonuslen = 192};
	struct set s;
	struct dnode *dn;
	struct buf *b, *got;
	uint64_t object;

	set_open(&s);
	assert_int_equal(dmu_object_alloc(s.os, &spec, &s.tx[0], &object), 0);
	assert_int_equal(dnode_hold(s.os, object, &dn, NULL), 0);
	assert_int_equal(dmu_spill_read(dn, &got), -ENOENT);
	b = buf_alloc(1024);
	tp_pattern(b->data, 1024, 3);
	assert_int_equal(dmu_spill_write(dn, b, &s.tx[0]), 0);
	assert_int_equal(dmu_bonus_set_size(dn, 193, &s.tx[0]), -EINVAL);
	assert_int_equal(dmu_spill_read(dn, &got), 0);
	assert_ptr_equal(got, b);
	buf_release(got);
	assert_int_equal(dmu_spill_remove(dn, &s.tx[1]), 0);
	assert_int_equal(dmu_spill_read(dn, &got), -ENOENT);
	buf_release(b);
	dnode_release(dn);
	set_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_parts_are_completed),
	    cmocka_unit_test(test_whole_blocks_are_never_read),
	    cmocka_unit_test(test_groups_in_any_order),
	    cmocka_unit_test(test_random_against_model),
	    cmocka_unit_test(test_holes_and_data),
	    cmocka_unit_test(test_bonus),
	    cmocka_unit_test(test_objects),
	    cmocka_unit_test(test_blocksize),
	    cmocka_unit_test(test_blocksize_of_new_objects),
	    cmocka_unit_test(test_new_set),
	    cmocka_unit_test(test_spill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
