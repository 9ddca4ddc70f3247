/* Maps and lists as objects: ZAPs, bpobjs, packed lists and the history over the real dmu. */
#include "writeset.h"

#include "dmu/bpobj.h"
#include "dmu/mosobj.h"
#include "dmu/zap.h"

/* --- ZAPs --- */

static void a_map_is_made_filled_and_emptied(void **state)
{
	struct writeset s;
	struct zap_stats st;
	uint64_t zap, v;
	char name[32];

	writeset_open(&s);
	assert_int_equal(zap_create(s.os, &(struct zap_spec){.type = DMU_OT_DSL_PROPS}, &s.tx, &zap), 0);
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "name%u", i);
		assert_int_equal(zap_add_u64(s.os, zap, name, i, &s.tx), 0);
		assert_int_equal(zap_add_u64(s.os, zap, name, i, &s.tx), -EEXIST);
	}
	assert_int_equal(zap_get_stats(s.os, zap, &st), 0);
	assert_false(st.micro);
	assert_int_equal(st.entries, 5000);
	assert_true(st.leaves > 10);
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "name%u", i);
		assert_int_equal(zap_lookup_u64(s.os, zap, name, &v), 0);
		assert_int_equal(v, i);
		assert_int_equal(zap_remove(s.os, zap, name, &s.tx), 0);
		assert_int_equal(zap_lookup_u64(s.os, zap, name, &v), -ENOENT);
	}
	assert_int_equal(zap_get_stats(s.os, zap, &st), 0);
	assert_int_equal(st.entries, 0);
	assert_int_equal(st.leaves, 1);
	writeset_close(&s);
}

static void counters_go_when_they_are_zero(void **state)
{
	struct writeset s;
	uint64_t zap, v, n;

	writeset_open(&s);
	assert_int_equal(zap_create(s.os, &(struct zap_spec){.type = DMU_OT_USERGROUP_USED}, &s.tx, &zap), 0);
	assert_int_equal(zap_increment_int(s.os, zap, 0x3e8, 100, &s.tx), 0);
	assert_int_equal(zap_increment_int(s.os, zap, 0x3e8, 20, &s.tx), 0);
	assert_int_equal(zap_lookup_u64(s.os, zap, "3e8", &v), 0);
	assert_int_equal(v, 120);
	assert_int_equal(zap_increment_int(s.os, zap, 7, 0, &s.tx), 0);
	assert_int_equal(zap_increment_int(s.os, zap, 0x3e8, -120, &s.tx), 0);
	assert_int_equal(zap_count(s.os, zap, &n), 0);
	assert_int_equal(n, 0);
	writeset_close(&s);
}

static void a_handle_and_a_cursor_follow_changes(void **state)
{
	struct writeset s;
	struct zap_cursor *c;
	struct zap_entry e;
	struct zap *z;
	uint64_t zap, v;
	unsigned old = 0;
	char name[32];

	writeset_open(&s);
	assert_int_equal(
	    zap_create(s.os, &(struct zap_spec){.type = DMU_OT_ZAP_OTHER, .fat = true, .blockshift = 12}, &s.tx, &zap),
	    0);
	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "old%u", i);
		assert_int_equal(zap_add_u64(s.os, zap, name, i, &s.tx), 0);
	}
	assert_int_equal(zap_open(s.os, zap, &z), 0);
	assert_int_equal(zap_cursor_open(s.os, zap, 0, &c), 0);
	/* the table grows, leaves split under the cursor: what was there before is met once each */
	for (unsigned i = 0; zap_cursor_next(c, &e) == 0; i++) {
		if (strncmp(e.name, "old", 3) == 0)
			old++;
		if (i >= 500)
			continue;
		for (unsigned k = 0; k < 20; k++) {
			snprintf(name, sizeof(name), "new%u", 20 * i + k);
			assert_int_equal(zap_add_u64(s.os, zap, name, 20 * i + k, &s.tx), 0);
			assert_int_equal(zap_find(z, name, 0, 8, 1, &v, NULL), 0);
		}
	}
	assert_int_equal(old, 500);
	zap_cursor_close(c);
	zap_close(z);
	writeset_close(&s);
}

static void names_match_when_they_are_removed(void **state)
{
	struct writeset s;
	uint64_t zap, v;

	writeset_open(&s);
	assert_int_equal(
	    zap_create(s.os, &(struct zap_spec){.type = DMU_OT_DIRECTORY_CONTENTS, .normflags = 2}, &s.tx, &zap), 0);
	assert_int_equal(zap_add_u64(s.os, zap, "ReadMe", 1, &s.tx), 0);
	assert_int_equal(zap_remove(s.os, zap, "README", &s.tx), -ENOENT);
	assert_int_equal(zap_remove_match(s.os, zap, "README", ZAP_MATCH_NORMALIZED, &s.tx), 0);
	assert_int_equal(zap_lookup_u64(s.os, zap, "ReadMe", &v), -ENOENT);
	writeset_close(&s);
}

static void an_object_is_extended_by_a_map(void **state)
{
	const struct dmu_object spec = {.type = DMU_OT_DSL_DIR, .bonustype = DMU_OT_DSL_DIR, .bonuslen = 256};
	struct writeset s;
	struct dnode *dn;
	uint64_t object, v, w[4];

	writeset_open(&s);
	assert_int_equal(dmu_object_alloc(s.os, &spec, &s.tx, &object), 0);
	assert_int_equal(dnode_hold(s.os, object, &dn, NULL), 0);
	assert_int_equal(dmu_bonus_write(dn, 24, &(uint64_t){77}, 8, &s.tx), 0);
	assert_int_equal(zap_create_over(s.os, object, &s.tx), 0);
	assert_int_equal(zap_add_u64(s.os, object, "com.example:key", 5, &s.tx), 0);
	assert_int_equal(zap_lookup_u64(s.os, object, "com.example:key", &v), 0);
	assert_int_equal(v, 5);
	assert_int_equal(dn->type, DMU_OTN_ZAP_METADATA);
	assert_int_equal(dn->bonustype, DMU_OT_DSL_DIR);
	assert_int_equal(dmu_bonus_words(dn, w, 4), 4);
	assert_int_equal(w[3], 77);
	dnode_release(dn);
	writeset_close(&s);
}

/* --- bpobjs --- */

/* A pointer with a known place and size. */
static struct bp pointer(uint64_t n)
{
	struct bp bp = {0};

	bp.w[0] = UINT64_C(1) << 32 | 8; /* vdev 1, 4 KiB */
	bp.w[1] = n * 8;
	bp.w[6] = UINT64_C(7) | UINT64_C(7) << 16 | UINT64_C(2) << 32 | UINT64_C(7) << 40 | UINT64_C(19) << 48 |
		  (uint64_t)HOST_IS_LITTLE << 63;
	bp.w[10] = n;
	bp.w[11] = 1;
	bp.w[12] = 99;
	return bp;
}

static uint64_t pointer_number(const struct bp *bp)
{
	return bp_dva(bp, 0).offset / 4096;
}

static uint64_t deflated(void *arg, const struct bp *bp)
{
	return 4096;
}

static void bpobj_fill(struct bpobj *b, uint64_t first, uint64_t n, struct tx *tx)
{
	for (uint64_t i = first; i < first + n; i++) {
		struct bp bp = pointer(i);

		assert_int_equal(bpobj_enqueue(b, &bp, false, 4096, tx), 0);
	}
}

static uint64_t bpobj_filled(struct writeset *s, uint64_t first, uint64_t n)
{
	struct bpobj *b;
	uint64_t object;

	assert_int_equal(bpobj_create(s->os, 48, 0, &s->tx, &object), 0);
	assert_int_equal(bpobj_open(s->os, object, &b), 0);
	bpobj_fill(b, first, n, &s->tx);
	assert_int_equal(bpobj_flush(b, &s->tx), 0);
	bpobj_close(b);
	return object;
}

struct seen {
	uint64_t sum, n, limit;
};

static int count_entry(void *arg, const struct bp *bp, bool freed)
{
	struct seen *c = arg;

	assert_true(bp->w[12] == 0 && bp->w[11] == 0);
	c->sum += pointer_number(bp);
	c->n++;
	return 0;
}

static int consume_entry(void *arg, const struct bp *bp, bool freed, struct tx *tx)
{
	struct seen *c = arg;

	return c->n == c->limit ? -EAGAIN : count_entry(arg, bp, freed);
}

static uint64_t sum_to(uint64_t n)
{
	return n * (n + 1) / 2;
}

static void lists_keep_order_counts_and_marks(void **state)
{
	struct writeset s;
	struct bpobj_phys phys;
	struct seen seen = {0};
	struct bpobj *b;
	uint64_t object;

	writeset_open(&s);
	assert_int_equal(bpobj_create(s.os, 56, 0, &s.tx, &object), 0);
	assert_int_equal(bpobj_open(s.os, object, &b), 0);
	bpobj_fill(b, 1, 3000, &s.tx);
	struct bp hole = {0}, freed = pointer(5);
	assert_int_equal(bpobj_enqueue(b, &hole, false, 0, &s.tx), 0);
	assert_int_equal(bpobj_enqueue(b, &freed, true, 4096, &s.tx), 0);
	assert_int_equal(bpobj_flush(b, &s.tx), 0);
	bpobj_close(b);
	assert_int_equal(bpobj_read(s.os, object, &phys), 0);
	assert_int_equal(phys.num_blkptrs, 3001);
	assert_int_equal(phys.num_freed, 1);
	assert_int_equal(phys.bytes, 2999 * 4096);
	assert_int_equal(phys.comp, 2999 * 4096);
	assert_int_equal(bpobj_iterate(s.os, object, count_entry, &seen), 0);
	assert_int_equal(seen.n, 3001);
	assert_int_equal(seen.sum, sum_to(3000) + 5);
	assert_int_equal(bpobj_destroy(s.os, object, &s.tx), 0);
	assert_int_equal(bpobj_read(s.os, object, &phys), -ENOENT);
	writeset_close(&s);
}

/* A tree of lists: small ones are folded in, long ones attached. Then it is used up in steps. */
static void lists_of_lists_are_consumed_in_steps(void **state)
{
	struct writeset s;
	struct bpobj_phys phys;
	struct seen seen;
	struct bpobj *b, *mid;
	uint64_t object, long1, middle, n = 0;

	writeset_open(&s);
	object = bpobj_filled(&s, 1, 10);
	middle = bpobj_filled(&s, 11, 2000);
	long1 = bpobj_filled(&s, 2011, 1500);
	assert_int_equal(bpobj_open(s.os, middle, &mid), 0);
	assert_int_equal(bpobj_enqueue_sub(mid, long1, &s.tx), 0);
	assert_int_equal(bpobj_flush(mid, &s.tx), 0);
	bpobj_close(mid);
	assert_int_equal(bpobj_open(s.os, object, &b), 0);
	assert_int_equal(bpobj_enqueue_sub(b, middle, &s.tx), 0);
	assert_int_equal(bpobj_enqueue_sub(b, bpobj_filled(&s, 3511, 100), &s.tx), 0);
	assert_int_equal(bpobj_enqueue_sub(b, bpobj_filled(&s, 0, 0), &s.tx), 0);
	assert_int_equal(bpobj_counts(b)->num_subobjs, 1);
	assert_int_equal(bpobj_counts(b)->num_blkptrs, 110);
	assert_int_equal(bpobj_counts(b)->bytes, 3610 * 4096);

	seen = (struct seen){0};
	assert_int_equal(bpobj_flush(b, &s.tx), 0);
	assert_int_equal(bpobj_iterate(s.os, object, count_entry, &seen), 0);
	assert_int_equal(seen.n, 3610);
	assert_int_equal(seen.sum, sum_to(3610));

	for (uint64_t step = 1, sum = 0; !bpobj_is_empty(b); step += 333) {
		seen = (struct seen){.limit = step};
		int err = bpobj_consume(b, &(struct bpobj_consumer){consume_entry, deflated, &seen}, &s.tx);

		assert_int_equal(err, bpobj_is_empty(b) ? 0 : -EAGAIN);
		n += seen.n;
		sum += seen.sum;
		assert_int_equal(bpobj_read(s.os, object, &phys), 0);
		assert_int_equal(phys.bytes, (3610 - n) * 4096);
		assert_int_equal(phys.uncomp, (3610 - n) * 4096);
		seen = (struct seen){0};
		assert_int_equal(bpobj_iterate(s.os, object, count_entry, &seen), 0);
		assert_int_equal(seen.n, 3610 - n);
		assert_int_equal(seen.sum + sum, sum_to(3610));
	}
	assert_int_equal(n, 3610);
	assert_int_equal(bpobj_read(s.os, middle, &phys), -ENOENT);
	assert_int_equal(bpobj_read(s.os, long1, &phys), -ENOENT);
	bpobj_close(b);
	writeset_close(&s);
}

static void lists_of_old_pools_take_entries_one_by_one(void **state)
{
	struct writeset s;
	struct seen seen = {0};
	struct bpobj *b;
	uint64_t object;

	writeset_open(&s);
	assert_int_equal(bpobj_create(s.os, bpobj_bonuslen(20, false), 0, &s.tx, &object), 0);
	assert_int_equal(bpobj_open(s.os, object, &b), 0);
	bpobj_fill(b, 1, 10, &s.tx);
	assert_int_equal(bpobj_enqueue_sub(b, bpobj_filled(&s, 11, 1500), &s.tx), 0);
	assert_int_equal(bpobj_flush(b, &s.tx), 0);
	assert_int_equal(bpobj_counts(b)->num_blkptrs, 1510);
	assert_int_equal(bpobj_counts(b)->bytes, 1510 * 4096);
	bpobj_close(b);
	assert_int_equal(bpobj_iterate(s.os, object, count_entry, &seen), 0);
	assert_int_equal(seen.sum, sum_to(1510));
	writeset_close(&s);
}

static void a_list_that_contains_itself_is_damage(void **state)
{
	struct writeset s;
	struct seen seen = {.limit = UINT64_MAX};
	struct bpobj *b;
	uint64_t object, loop;

	writeset_open(&s);
	object = bpobj_filled(&s, 1, 5);
	loop = bpobj_filled(&s, 6, 1100);
	assert_int_equal(bpobj_open(s.os, object, &b), 0);
	assert_int_equal(bpobj_enqueue_sub(b, loop, &s.tx), 0);
	assert_int_equal(bpobj_enqueue_sub(b, loop, &s.tx), 0);
	assert_int_equal(bpobj_flush(b, &s.tx), 0);
	assert_int_equal(bpobj_consume(b, &(struct bpobj_consumer){consume_entry, deflated, &seen}, &s.tx), -ENOENT);
	bpobj_close(b);
	writeset_close(&s);
}

/* --- packed lists and history --- */

static void packed_lists_are_replaced(void **state)
{
	struct writeset s;
	autonv struct nvlist *l = nvlist_create(), *got = NULL;
	struct dnode *dn;
	uint64_t object, len;
	uint8_t *p = xmalloc(65536);

	writeset_open(&s);
	assert_int_equal(mos_nvlist_create(s.os, &s.tx, &object), 0);
	char *text = xmalloc(40001);
	memset(text, 'x', 40000);
	text[40000] = '\0';
	nvlist_add_string(l, "long", text);
	assert_int_equal(mos_nvlist_write(s.os, object, l, &s.tx), 0);
	nvlist_add_string(l, "long", "short");
	assert_int_equal(mos_nvlist_write(s.os, object, l, &s.tx), 0);
	assert_int_equal(dnode_hold(s.os, object, &dn, NULL), 0);
	assert_int_equal(dn->maxblkid, 0);
	assert_int_equal(dmu_bonus_words(dn, &len, 1), 1);
	assert_int_equal(dmu_read(dn, 0, p, 16384, 0), 0);
	assert_int_equal(nvlist_unpack(p, len, &got, NULL), 0);
	assert_string_equal(nvlist_string_or(got, "long", ""), "short");
	for (size_t i = len; i < 16384; i++)
		assert_int_equal(p[i], 0);
	dnode_release(dn);
	free(text);
	free(p);
	writeset_close(&s);
}

static void the_history_is_a_ring_that_keeps_its_beginning(void **state)
{
	struct writeset s;
	struct dnode *dn;
	uint64_t object, w[5], records;
	uint8_t head[8];

	writeset_open(&s);
	assert_int_equal(mos_history_create(s.os, 1000, &s.tx, &object), 0);
	assert_int_equal(dnode_hold(s.os, object, &dn, NULL), 0);
	for (unsigned i = 0; i < 3000; i++) {
		autonv struct nvlist *r = nvlist_create();

		nvlist_add_u64(r, "history time", i);
		if (i == 1)
			nvlist_add_string(r, "history command", "zpool create p");
		assert_int_equal(mos_history_append(s.os, object, r, i == 1, &s.tx), 0);
	}
	assert_int_equal(dmu_bonus_words(dn, w, 5), 5);
	assert_int_equal(w[1], 131072);
	assert_true(w[0] > 0 && w[2] > w[0] && w[4] > 0);
	assert_true(w[3] - w[2] <= w[1] - w[0]);
	records = w[4] + 2;
	for (uint64_t at = w[2]; at < w[3]; records++) {
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(dmu_read(dn, w[0] + (at + i - w[0]) % (w[1] - w[0]), head + i, 1, 0), 0);
		at += 8 + load_le64(head);
	}
	assert_int_equal(records, 3000);
	dnode_release(dn);
	writeset_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_map_is_made_filled_and_emptied),
	    cmocka_unit_test(counters_go_when_they_are_zero),
	    cmocka_unit_test(a_handle_and_a_cursor_follow_changes),
	    cmocka_unit_test(names_match_when_they_are_removed),
	    cmocka_unit_test(an_object_is_extended_by_a_map),
	    cmocka_unit_test(lists_keep_order_counts_and_marks),
	    cmocka_unit_test(lists_of_lists_are_consumed_in_steps),
	    cmocka_unit_test(lists_of_old_pools_take_entries_one_by_one),
	    cmocka_unit_test(a_list_that_contains_itself_is_damage),
	    cmocka_unit_test(packed_lists_are_replaced),
	    cmocka_unit_test(the_history_is_a_ring_that_keeps_its_beginning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
