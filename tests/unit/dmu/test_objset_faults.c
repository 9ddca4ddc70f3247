/* Syncing over what cannot be read or written; encrypted sets; sets of the other byte order; writes ahead of the sync.
 */
#include <unistd.h>

#include "syncpool.h"

#include "zio/zio_crypt.h"

#define FIRST SP_FIRST
#define BS    1024u
#define EPB   32u /* pointers in an indirect block */

struct set {
	struct testpool *tp;
	struct objset *os;
	struct dnode *dn;
	uint64_t object;
	uint8_t data[4 * EPB * BS];
};

static void set_create(struct set *s, struct crypt_key *key)
{
	struct dmu_object spec = {.type = TP_FILE, .bonustype = 44, .bonuslen = 64, .blocksize = BS, .indblkshift = 12};
	struct tx tx;

	memset(s, 0, sizeof(*s));
	s->tp = sp_pool_create(9);
	tx = sp_open_tx(s->tp, FIRST);
	assert_int_equal(objset_create(&s->tp->dp, 5, OBJSET_ZFS, &sp_ops, NULL, key, &tx, &s->os), 0);
	s->os->props.compress = COMPRESS_LZ4;
	assert_int_equal(dmu_object_alloc(s->os, &spec, &tx, &s->object), 0);
	assert_int_equal(dnode_hold(s->os, s->object, &s->dn, NULL), 0);
	tp_pattern(s->data, sizeof(s->data), 1);
	assert_int_equal(dmu_bonus_write(s->dn, 0, s->data, 64, &tx), 0);
	assert_int_equal(dmu_write(s->dn, 0, s->data, sizeof(s->data), &tx), 0);
}

static void set_destroy(struct set *s)
{
	dnode_release(s->dn);
	objset_release(s->os);
	sp_pool_destroy(s->tp);
}

static void forget_cache(struct set *s)
{
	arc_flush_pool(s->tp->dp.arc, s->tp->zp.guid);
}

static void damage_all(struct set *s, unsigned level, uint64_t blkid)
{
	struct bp bp;

	assert_int_equal(dmu_block_pointer(s->dn, level, blkid, &bp), 0);
	for (unsigned i = 0; i < bp_ndvas(&bp); i++)
		tp_damage(s->tp, &bp, i);
	forget_cache(s);
}

static void write_both(struct set *s, size_t offset, size_t len, uint64_t txg, uint32_t seed)
{
	struct tx tx = sp_open_tx(s->tp, txg);

	tp_pattern(s->data + offset, len, seed);
	assert_int_equal(dmu_write(s->dn, offset, s->data + offset, len, &tx), 0);
}

static void compare(struct set *s, struct dnode *dn, size_t offset, size_t len)
{
	uint8_t *got = xmalloc(len);

	assert_int_equal(dmu_read(dn, offset, got, len, 0), 0);
	assert_memory_equal(got, s->data + offset, len);
	free(got);
}

/* --- unreadable blocks --- */

static void test_unreadable_block_changed_in_part(void **state)
{
	struct set s;
	uint8_t byte;

	set_create(&s, NULL);
	sp_sync_group(s.os, FIRST, 1);
	damage_all(&s, 0, 7);
	write_both(&s, 7 * BS + 100, 10, FIRST + 1, 2);
	write_both(&s, 8 * BS + 100, 10, FIRST + 1, 3);
	sp_sync_group(s.os, FIRST + 1, 1);
	/* Nobody is told zeros instead: what cannot be read stays so, and its neighbour is fine. */
	assert_int_equal(dmu_read(s.dn, 7 * BS + 100, &byte, 1, 0), -ECKSUM);
	compare(&s, s.dn, 0, 7 * BS);
	compare(&s, s.dn, 8 * BS, 100 * BS);
	/* As a whole it can be written. */
	write_both(&s, 7 * BS, BS, FIRST + 2, 4);
	sp_sync_group(s.os, FIRST + 2, 1);
	compare(&s, s.dn, 0, sizeof(s.data));
	objset_release(sp_reopen(s.tp, s.os));
	set_destroy(&s);
}

static void test_unreadable_indirect_block(void **state)
{
	struct set s;
	uint8_t byte;

	set_create(&s, NULL);
	sp_sync_group(s.os, FIRST, 1);
	damage_all(&s, 1, 1);
	write_both(&s, (EPB + 3) * BS, BS, FIRST + 1, 2);
	write_both(&s, 3 * BS, BS, FIRST + 1, 3);
	sp_sync_group(s.os, FIRST + 1, 1);
	assert_int_equal(dmu_read(s.dn, (EPB + 3) * BS, &byte, 1, 0), -ECKSUM);
	compare(&s, s.dn, 0, EPB * BS);
	compare(&s, s.dn, 2 * EPB * BS, 2 * EPB * BS);
	set_destroy(&s);
}

/* Deleting a file with an unreadable indirect block frees what can be found. */
static void test_unreadable_indirect_block_freed(void **state)
{
	struct set s;
	struct tx tx;

	set_create(&s, NULL);
	sp_sync_group(s.os, FIRST, 1);
	uint64_t before = tp_in_use(s.tp);
	damage_all(&s, 1, 1);
	tx = sp_open_tx(s.tp, FIRST + 1);
	assert_int_equal(dmu_object_free(s.os, s.object, &tx), 0);
	sp_sync_group(s.os, FIRST + 1, 1);
	assert_true(tp_in_use(s.tp) < before - 3 * EPB * BS);
	assert_int_equal(dnode_hold(s.os, s.object, &(struct dnode *){NULL}, NULL), -ENOENT);
	set_destroy(&s);
}

/* --- devices that fail --- */

static atomic_uint asked;

static bool suspend(struct zio_pool *zp, const struct zbookmark *zb, int err)
{
	atomic_fetch_add(&asked, 1);
	return true;
}

static void *resumer_run(void *arg)
{
	struct set *s = arg;

	while (atomic_load(&asked) == 0)
		usleep(1000);
	atomic_store(&s->tp->fail, false);
	atomic_store(&s->tp->fail_writes, false);
	/* More may fail before they see it. */
	while (atomic_load(&asked) != UINT32_MAX) {
		zio_resume(&s->tp->zp);
		usleep(1000);
	}
	return NULL;
}

static void sync_with_resume(struct set *s, uint64_t txg)
{
	pthread_t thread;

	atomic_store(&asked, 0);
	s->tp->zp.on_write_failure = suspend;
	assert_int_equal(pthread_create(&thread, NULL, resumer_run, s), 0);
	sp_sync_group(s->os, txg, 1);
	assert_true(atomic_exchange(&asked, UINT32_MAX) > 0);
	pthread_join(thread, NULL);
	s->tp->zp.on_write_failure = NULL;
}

static void test_suspended_for_reads(void **state)
{
	struct set s;

	set_create(&s, NULL);
	sp_sync_group(s.os, FIRST, 1);
	write_both(&s, 50 * BS + 5, 5, FIRST + 1, 2);
	forget_cache(&s);
	atomic_store(&s.tp->fail, true);
	sync_with_resume(&s, FIRST + 1);
	compare(&s, s.dn, 0, sizeof(s.data));
	objset_release(sp_reopen(s.tp, s.os));
	set_destroy(&s);
}

static void test_suspended_for_writes(void **state)
{
	struct set s;

	set_create(&s, NULL);
	sp_sync_group(s.os, FIRST, 1);
	write_both(&s, 50 * BS + 5, 5 * BS, FIRST + 1, 2);
	atomic_store(&s.tp->fail_writes, true);
	sync_with_resume(&s, FIRST + 1);
	compare(&s, s.dn, 0, sizeof(s.data));
	objset_release(sp_reopen(s.tp, s.os));
	set_destroy(&s);
}

/* Every write of a sync fails once: the sync fails, and what was dirty can be dropped. */
static void test_every_write_fails(void **state)
{
	for (unsigned n = 1;; n++) {
		struct tx tx = {.txg = FIRST, .syncing = true, .pass = 1};
		struct set s;
		int err;

		set_create(&s, NULL);
		tx.txgs = s.tp->dp.txgs;
		/* The write is tried anew in another place: that fails, too. */
		atomic_store(&s.tp->fail_write_at, n);
		if (n > 1)
			atomic_store(&s.tp->device_writes, 0);
		err = objset_sync(s.os, &tx);
		objset_abandon(s.os);
		assert_int_equal(txg_dirty_bytes(s.tp->dp.txgs), 0);
		bool reached = atomic_load(&s.tp->device_writes) >= n;
		assert_int_equal(err, 0);
		set_destroy(&s);
		if (!reached)
			break;
		n += 6;
	}
	for (unsigned after = 0; after < 200; after += 9) {
		struct tx tx = {.txg = FIRST + 1, .syncing = true, .pass = 1};
		struct set s;

		set_create(&s, NULL);
		sp_sync_group(s.os, FIRST, 1);
		tx.txgs = s.tp->dp.txgs;
		write_both(&s, 0, after * 512 + 512, FIRST + 1, 2);
		atomic_store(&s.tp->fail_writes, true);
		assert_int_equal(objset_sync(s.os, &tx), -EIO);
		assert_true(objset_is_dirty(s.os, FIRST + 1));
		/* Readers still see it. */
		compare(&s, s.dn, 0, sizeof(s.data));
		objset_abandon(s.os);
		assert_int_equal(txg_dirty_bytes(s.tp->dp.txgs), 0);
		set_destroy(&s);
	}
}

/* --- encrypted sets --- */

static struct crypt_key *test_key(void)
{
	uint8_t master[32], hmac[64];

	tp_pattern(master, sizeof(master), 1);
	tp_pattern(hmac, sizeof(hmac), 2);
	return crypt_key_create(CRYPT_AES_256_GCM, 7, master, hmac, 1);
}

static void test_encrypted(void **state)
{
	struct crypt_key *key = test_key();
	struct objset *again;
	struct err e = ERR_INIT;
	struct dnode *dn;
	uint8_t bonus[64], log[192];
	struct tx tx;
	struct set s;
	struct bp bp;

	set_create(&s, key);
	sp_sync_group(s.os, FIRST, 1);
	write_both(&s, 50 * BS + 5, 5 * BS, FIRST + 1, 2);
	forget_cache(&s);
	sp_sync_group(s.os, FIRST + 1, 1);
	forget_cache(&s);
	assert_int_equal(objset_open(&s.tp->dp, 5, &s.os->rootbp, key, &again, &e), 0);
	assert_int_equal(dnode_hold(again, s.object, &dn, NULL), 0);
	compare(&s, dn, 0, sizeof(s.data));
	assert_int_equal(dmu_bonus_read(dn, 0, bonus, 64), 0);
	assert_memory_equal(bonus, s.data, 64);
	assert_int_equal(dmu_block_pointer(dn, 0, 3, &bp), 0);
	assert_true(bp_is_encrypted(&bp));
	assert_int_equal(bp_fill(&s.os->rootbp), 1);
	dnode_release(dn);
	objset_release(again);
	/* Without the key the log's header can be changed, and the rest stays what it is. */
	assert_int_equal(objset_open(&s.tp->dp, 5, &s.os->rootbp, NULL, &again, &e), 0);
	objset_set_writable(again, &sp_ops, NULL);
	memset(log, 0, sizeof(log));
	log[0] = 42;
	tx = sp_open_tx(s.tp, FIRST + 2);
	objset_set_zil_header(again, log, &tx);
	sp_sync_group(again, FIRST + 2, 1);
	s.os->rootbp = again->rootbp;
	objset_release(again);
	forget_cache(&s);
	assert_int_equal(objset_open(&s.tp->dp, 5, &s.os->rootbp, key, &again, &e), 0);
	assert_int_equal(again->zil_header[0], 42);
	assert_int_equal(dnode_hold(again, s.object, &dn, NULL), 0);
	compare(&s, dn, 0, sizeof(s.data));
	dnode_release(dn);
	objset_release(again);
	set_destroy(&s);
	crypt_key_release(key);
}

/* --- the other byte order --- */

static void test_other_byte_order(void **state)
{
	struct testpool *tp = sp_pool_create(9);
	uint8_t(*slot)[512] = xcalloc(40, 512), *data = xmalloc(100 * BS), *got = xmalloc(100 * BS);
	struct bp l0[100], root;
	struct objset *os, *again;
	struct err e = ERR_INIT;
	struct dnode *dn, *list;
	struct tx tx = sp_open_tx(tp, FIRST);
	uint64_t words[BS / 8], v;

	tp->swap = true;
	tp_pattern(data, 100 * BS, 5);
	for (unsigned i = 0; i < 100; i++)
		l0[i] = tp_write(tp, data + i * BS, BS, TP_FILE, 0);
	tp_dnode(tp, slot[0], TP_FILE, l0, 100, BS, 12, 1);
	/* An array of words, with a bonus of words. */
	for (unsigned i = 0; i < BS / 8; i++)
		words[i] = __builtin_bswap64(i * 1000);
	l0[0] = tp_write(tp, words, BS, DMU_OT_OBJECT_ARRAY, 0);
	tp_dnode(tp, slot[34], DMU_OT_OBJECT_ARRAY, l0, 1, BS, 12, 1);
	slot[34][4] = DMU_OT_BPOBJ_HDR;
	tp_store16(tp, slot[34] + 10, 16);
	tp_store64(tp, slot[34] + 192, 77);
	tp_store64(tp, slot[34] + 200, 88);
	memcpy(slot[35], slot[34], 512);
	root = tp_objset(tp, slot, 36, 1024);
	tp->swap = false;
	assert_int_equal(objset_open(&tp->dp, 5, &root, NULL, &os, &e), 0);
	objset_set_writable(os, &(struct objset_ops){.dirtied = NULL}, NULL);
	assert_int_equal(dnode_hold(os, 1, &dn, NULL), 0);
	assert_int_equal(dnode_hold(os, 35, &list, NULL), 0);
	memcpy(data + 40 * BS + 3, "hello", 5);
	assert_int_equal(dmu_write(dn, 40 * BS + 3, "hello", 5, &tx), 0);
	v = 4711;
	assert_int_equal(dmu_write(list, 80, &v, 8, &tx), 0);
	assert_int_equal(dmu_bonus_write(list, 0, &v, 8, &tx), 0);
	sp_sync_group(os, FIRST, 1);
	assert_int_equal(objset_open(&tp->dp, 5, &os->rootbp, NULL, &again, &e), 0);
	dnode_release(dn);
	dnode_release(list);
	assert_int_equal(dnode_hold(again, 1, &dn, NULL), 0);
	assert_int_equal(dmu_read(dn, 0, got, 100 * BS, 0), 0);
	assert_memory_equal(data, got, 100 * BS);
	dnode_release(dn);
	/* The one that was changed and its neighbour in the dnode block are in this host's order now. */
	for (unsigned object = 35; object <= 36; object++) {
		uint64_t bonus[2];

		assert_int_equal(dnode_hold(again, object, &list, NULL), 0);
		assert_false(list->swapped);
		assert_int_equal(dmu_bonus_read(list, 0, bonus, 16), 0);
		assert_int_equal(bonus[0], object == 35 ? 4711 : 77);
		assert_int_equal(bonus[1], 88);
		bool swapped;
		assert_int_equal(dmu_block_is_swapped(list, 0, &swapped), 0);
		assert_int_equal(swapped, object == 36);
		assert_int_equal(dmu_read(list, 0, words, BS, 0), 0);
		for (unsigned i = 0; i < BS / 8; i++)
			assert_int_equal(swapped ? __builtin_bswap64(words[i]) : words[i],
					 i == 10 && object == 35 ? 4711 : i * 1000);
		dnode_release(list);
	}
	objset_release(again);
	objset_release(os);
	free(slot);
	free(data);
	free(got);
	sp_pool_destroy(tp);
}

/* --- dnodes that lie --- */

/* Whatever a dnode says, as long as it decodes it can be changed and synced, or is refused. */
static void test_lying_dnodes(void **state)
{
	uint32_t seed = 99;

	for (unsigned i = 0; i < 400; i++) {
		struct testpool *tp = sp_pool_create(9);
		uint8_t slot[2][512], data[3000];
		struct tx tx = sp_open_tx(tp, FIRST);
		struct tx stx = {.txgs = tp->dp.txgs, .txg = FIRST, .syncing = true, .pass = 1};
		struct bp l0[40], root;
		struct objset *os;
		struct dnode *dn;
		uint64_t object;

		tp_pattern(data, sizeof(data), i);
		for (unsigned b = 0; b < ARRAY_LEN(l0); b++)
			l0[b] = tp_write(tp, data, BS, TP_FILE, 0);
		tp_dnode(tp, slot[0], TP_FILE, l0, ARRAY_LEN(l0), BS, 12, 1);
		tp_dnode(tp, slot[1], TP_FILE, l0, 1, BS, 12, 3);
		for (unsigned hits = 1 + i % 4; hits > 0; hits--) {
			seed = seed * 1664525 + 1013904223;
			slot[i % 2][(seed >> 8) % (i % 3 ? 32 : 200)] = (uint8_t)(seed >> 24);
		}
		root = tp_objset(tp, slot, 2, 2048);
		assert_int_equal(objset_open(&tp->dp, 5, &root, NULL, &os, NULL), 0);
		objset_set_writable(os, &(struct objset_ops){.dirtied = NULL}, NULL);
		if (dnode_hold(os, 1 + i % 2, &dn, NULL) == 0) {
			dmu_write(dn, 700, data, 3000, &tx);
			dmu_write(dn, UINT64_C(1) << (seed >> 26), data, 10, &tx);
			dmu_free_range(dn, 20 * BS, 15 * BS + 5, &tx);
			dmu_object_set_blocksize(dn, 4096, 14, &tx);
			dmu_bonus_set_size(dn, 100, &tx);
			if (seed & 1)
				dmu_object_free(os, dn->object, &tx);
			dnode_release(dn);
		}
		assert_int_equal(dmu_object_alloc(os, &(struct dmu_object){.type = TP_FILE}, &tx, &object), 0);
		objset_sync(os, &stx);
		objset_abandon(os);
		objset_release(os);
		sp_pool_destroy(tp);
	}
}

/* --- ahead of the sync --- */

struct ahead {
	struct dmu_sync s;
	struct waiter w;
};

static void ahead_done(struct dmu_sync *s, int err)
{
	waiter_done(&((struct ahead *)s)->w, err);
}

static int ahead(struct dnode *dn, uint64_t blkid, uint64_t txg, struct bp *bp)
{
	struct ahead a = {.s = {.dn = dn, .blkid = blkid, .txg = txg, .done = ahead_done}};
	int err;

	waiter_init(&a.w);
	dmu_sync(&a.s);
	err = waiter_wait(&a.w);
	*bp = a.s.bp;
	return err;
}

static void test_ahead(void **state)
{
	struct set s;
	struct bp bp, bp2, got;
	struct tx tx;

	set_create(&s, NULL);
	assert_int_equal(ahead(s.dn, 3, FIRST, &bp), 0);
	assert_int_equal(bp_birth(&bp), FIRST);
	/* Asked again: the same place. */
	assert_int_equal(ahead(s.dn, 3, FIRST, &got), 0);
	assert_memory_equal(&bp, &got, sizeof(bp));
	/* Another block is written ahead, then changed: the sync writes it anew, and the first place goes back. */
	assert_int_equal(ahead(s.dn, 4, FIRST, &bp2), 0);
	write_both(&s, 4 * BS + 10, 10, FIRST, 9);
	assert_int_equal(ahead(s.dn, 5, FIRST, &got), 0);
	tx = sp_open_tx(s.tp, FIRST);
	assert_int_equal(dmu_free_range(s.dn, 5 * BS, BS, &tx), 0);
	memset(s.data + 5 * BS, 0, BS);
	assert_int_equal(ahead(s.dn, 5, FIRST, &got), -ENOENT);
	unsigned before = atomic_load(&s.tp->device_writes);
	sp_sync_group(s.os, FIRST, 1);
	assert_true(atomic_load(&s.tp->device_writes) > before);
	assert_int_equal(dmu_block_pointer(s.dn, 0, 3, &got), 0);
	assert_memory_equal(&bp, &got, sizeof(bp));
	assert_int_equal(dmu_block_pointer(s.dn, 0, 4, &got), 0);
	assert_false(bp_equal(&bp2, &got));
	objset_release(sp_reopen(s.tp, s.os));
	assert_int_equal(ahead(s.dn, 3, FIRST, &got), -EEXIST);
	/* A part: completed first. */
	write_both(&s, 9 * BS + 10, 10, FIRST + 1, 9);
	forget_cache(&s);
	assert_int_equal(ahead(s.dn, 9, FIRST + 1, &bp), 0);
	sp_sync_group(s.os, FIRST + 1, 1);
	compare(&s, s.dn, 0, sizeof(s.data));
	objset_release(sp_reopen(s.tp, s.os));
	set_destroy(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_unreadable_block_changed_in_part),
	    cmocka_unit_test(test_unreadable_indirect_block),
	    cmocka_unit_test(test_unreadable_indirect_block_freed),
	    cmocka_unit_test(test_suspended_for_reads),
	    cmocka_unit_test(test_suspended_for_writes),
	    cmocka_unit_test(test_every_write_fails),
	    cmocka_unit_test(test_encrypted),
	    cmocka_unit_test(test_other_byte_order),
	    cmocka_unit_test(test_lying_dnodes),
	    cmocka_unit_test(test_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
