/* Attributes that change, in open context (docs/format/07-filesystem-zvol-zil.md, 2.5 - 2.7, 2.10). */
#include "saset.h"

#include "dmu/dbuf.h"

static const uint64_t words[4] = {0x1122334455667788, 2, 3, 4};

/* --- one object, what it should have, and how it is opened --- */

struct file {
	struct saset s;
	struct ss_list l;
	struct sa sa;
};

/* As a caller goes on: again after what was missing was added. */
static int change_at(struct file *f, const struct sa_value *v, size_t n, uint64_t txg)
{
	for (unsigned i = 0; i < 3; i++) {
		struct tx tx = ss_tx(&f->s, txg);
		int err = sa_change(f->s.so, &f->sa, v, n, &tx);

		if (err != -EAGAIN)
			return err;
		err = sa_layouts_add(f->s.so);
		if (err)
			return err;
	}
	return -EAGAIN;
}

static int change(struct file *f, const struct sa_value *v, size_t n)
{
	return change_at(f, v, n, SS_TXG);
}

static enum sa_attr attr_of(unsigned number)
{
	assert_true(number < SS_F64);
	return (enum sa_attr)number; /* those of a new file system are Tarn's own */
}

static int set(struct file *f, unsigned number, unsigned len)
{
	struct ss_list l = {.n = 0};
	int err;

	ss_list_add(&l, number, len);
	err = change(f, &(struct sa_value){attr_of(number), l.a[0].data, (uint16_t)len}, 1);
	ss_list_clear(&l);
	return err;
}

/* The same in the list: a place of its own for a project id, the end for others. */
static void list_set(struct ss_list *l, unsigned number, unsigned len)
{
	int at = ss_list_find(l, number);

	if (at >= 0)
		ss_list_remove(l, number);
	if (len)
		ss_list_insert(l, at >= 0 ? (unsigned)at : number == SS_PROJID ? 12 : l->n, number, len, NULL);
}

static void file_check(struct file *f)
{
	ss_check(&f->s, f->s.dn, &f->l);
	ss_view_check(&f->s, &f->sa);
}

static void set_and_check(struct file *f, unsigned number, unsigned len)
{
	assert_int_equal(set(f, number, len), 0);
	list_set(&f->l, number, len);
	file_check(f);
}

/* Opened as what the list says, stored in open context. */
static void file_store(struct file *f)
{
	struct tx tx = ss_tx(&f->s, SS_TXG);
	struct sa_value v[SS_MAX];
	int err;

	for (unsigned i = 0; i < f->l.n; i++)
		v[i] = (struct sa_value){attr_of(f->l.a[i].number), f->l.a[i].data, (uint16_t)f->l.a[i].len};
	while ((err = sa_store(f->s.so, f->s.dn, v, f->l.n, &tx)) == -EAGAIN)
		assert_int_equal(sa_layouts_add(f->s.so), 0);
	assert_int_equal(err, 0);
	assert_int_equal(sa_open(f->s.so, f->s.dn, &f->sa), 0);
	file_check(f);
}

static void file_open(struct file *f, unsigned dnodesize, bool projid)
{
	*f = (struct file){0};
	ss_open(&f->s, dnodesize);
	ss_list_fixed(&f->l, projid);
}

/* As others may have stored it. */
static void file_open_raw(struct file *f, unsigned in_bonus, size_t spill_size, bool swap)
{
	ss_store_raw(&f->s, f->s.dn, &f->l, in_bonus, 100, spill_size, swap);
	assert_int_equal(sa_open(f->s.so, f->s.dn, &f->sa), 0);
}

static void file_close(struct file *f)
{
	sa_close(&f->sa);
	ss_list_clear(&f->l);
	ss_close(&f->s);
}

/* --- placement --- */

/* One value grows byte by byte over every border, and shrinks again; others stand before and behind it. */
static void grow_and_shrink(unsigned dnodesize, bool projid, unsigned aces, unsigned target, unsigned stamp)
{
	unsigned max = dnodesize ? dnodesize : 512;
	struct file f;

	file_open(&f, dnodesize, projid);
	ss_list_add(&f.l, 16, 8);
	if (aces)
		ss_list_add(&f.l, SS_ACES, aces);
	if (target)
		ss_list_add(&f.l, SS_SYMLINK, target);
	file_store(&f);
	set_and_check(&f, SS_DXATTR, 1);
	if (stamp)
		set_and_check(&f, 18, 32);
	for (unsigned len = 2; len < max; len++)
		set_and_check(&f, SS_DXATTR, len);
	for (unsigned len = max; len > 0; len--)
		set_and_check(&f, SS_DXATTR, len);
	set_and_check(&f, SS_DXATTR, 0);
	assert_int_equal(set(&f, SS_DXATTR, 0), 0); /* there is none: nothing to be done */
	file_check(&f);
	file_close(&f);
}

static void attributes_are_placed_by_the_rule_at_every_size(void **state)
{
	static const unsigned aces[] = {0, 8, 24, 48, 49, 56, 57, 63, 64, 104, 160, 200};

	for (unsigned i = 0; i < ARRAY_LEN(aces); i++) {
		grow_and_shrink(0, i % 2, aces[i], 0, i % 3 == 0);
		grow_and_shrink(0, i % 2 == 0, aces[i], 5 + i, i % 3 == 1);
	}
	grow_and_shrink(1024, true, 24, 9, 1);
	grow_and_shrink(1024, false, 500, 0, 0);
}

static uint32_t rnd(uint32_t *seed, uint32_t n)
{
	*seed = *seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)*seed * n) >> 32);
}

/* Many variable attributes make headers of every size. */
static void many_variable_attributes_are_placed_by_the_rule(void **state)
{
	uint32_t seed = 5;

	for (unsigned round = 0; round < 300; round++) {
		unsigned in_bonus, nvars = 1 + rnd(&seed, SS_NVARS), size = 1 + rnd(&seed, 30);
		struct file f;

		file_open(&f, round % 2 ? 1024 : 0, rnd(&seed, 2));
		in_bonus = f.l.n;
		for (unsigned i = 0; i < nvars; i++)
			ss_list_add(&f.l, SS_FVAR + i, rnd(&seed, size));
		file_open_raw(&f, in_bonus, 4096, rnd(&seed, 2));
		set_and_check(&f, SS_SYMLINK, 1 + rnd(&seed, 20));
		for (unsigned i = 0; i < 20; i++) {
			set_and_check(&f, SS_DXATTR, rnd(&seed, 260));
			set_and_check(&f, SS_ACES, 8 * rnd(&seed, 7));
		}
		file_close(&f);
	}
}

static void spill_blocks_keep_their_size_while_it_does(void **state)
{
	struct file f;

	file_open(&f, 0, true);
	file_store(&f);
	set_and_check(&f, SS_DXATTR, 600);
	assert_int_equal(ss_check(&f.s, f.s.dn, &f.l), 1024);
	set_and_check(&f, SS_DXATTR, 1017);
	assert_int_equal(ss_check(&f.s, f.s.dn, &f.l), 1536);
	set_and_check(&f, SS_DXATTR, 600);
	assert_int_equal(ss_check(&f.s, f.s.dn, &f.l), 1536);
	set_and_check(&f, SS_DXATTR, 1528);
	assert_int_equal(ss_check(&f.s, f.s.dn, &f.l), 1536);
	set_and_check(&f, SS_DXATTR, 65535);
	assert_int_equal(ss_check(&f.s, f.s.dn, &f.l), 66048);
	set_and_check(&f, SS_DXATTR, 10);
	assert_int_equal(ss_check(&f.s, f.s.dn, &f.l), 0);
	set_and_check(&f, SS_DXATTR, 600);
	assert_int_equal(ss_check(&f.s, f.s.dn, &f.l), 1024);
	file_close(&f);
}

/* --- what is refused changes nothing --- */

struct state {
	uint8_t bonus[1024], spill[SS_SPILL];
	size_t len, spill_len;
	uint64_t newest;
	uint64_t layouts;
};

static void state_take(const struct file *f, struct state *st)
{
	autobuf struct buf *spill = NULL;

	memset(st, 0, sizeof(*st));
	st->len = f->s.dn->bonuslen;
	assert_int_equal(dmu_bonus_read(f->s.dn, 0, st->bonus, st->len), 0);
	if (f->s.dn->has_spill) {
		assert_int_equal(dmu_spill_read(f->s.dn, &spill), 0);
		st->spill_len = spill->size;
		memcpy(st->spill, spill->data, spill->size);
	}
	st->newest = atomic_load(&dnode_dirty_peek(f->s.dn)->newest);
	if (f->s.layouts)
		assert_int_equal(zap_count(f->s.os, f->s.layouts, &st->layouts), 0);
}

/* In a transaction of a group in which nothing is dirty yet: and then still nothing is. */
static void refused(struct file *f, const struct sa_value *v, size_t n, int want)
{
	struct tx tx = ss_tx(&f->s, SS_TXG + 1);
	static struct state before, after;

	state_take(f, &before);
	assert_int_equal(sa_change(f->s.so, &f->sa, v, n, &tx), want);
	state_take(f, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(after.newest, SS_TXG);
	assert_false(objset_is_dirty(f->s.os, SS_TXG + 1));
	if (f->sa.spill_err == 0)
		ss_view_check(&f->s, &f->sa);
}

static void what_needs_a_layout_waits_for_it_and_changes_nothing(void **state)
{
	uint8_t *x = xcalloc(1, 65536);
	struct file f;

	tp_pattern(x, 65536, 3);
	for (unsigned spill = 0; spill < 2; spill++) {
		file_open(&f, 0, true);
		if (spill)
			ss_list_add(&f.l, SS_DXATTR, 700);
		file_store(&f);
		const struct sa_value changes[][3] = {
		    {{SA_XATTR, words, 8}},
		    {{SA_SIZE, words, 8}, {SA_SCANSTAMP, words, 32}, {SA_MODE, words, 8}},
		    {{SA_SYMLINK, x, 400}, {SA_SIZE, words, 8}},
		    {{SA_PROJID, NULL, 0}, {SA_SIZE, words, 8}},
		};
		for (unsigned i = 0; i < ARRAY_LEN(changes); i++) {
			size_t n = 1;

			while (n < 3 && (changes[i][n].data || changes[i][n].attr))
				n++;
			refused(&f, changes[i], n, -EAGAIN);
			refused(&f, changes[i], n, -EAGAIN);
			assert_int_equal(change(&f, changes[i], n), 0);
			ss_view_check(&f.s, &f.sa);
		}
		file_close(&f);
	}
	free(x);
}

static void what_cannot_be_stored_is_refused_whole(void **state)
{
	uint8_t *x = xcalloc(1, 65536);
	struct file f;

	file_open(&f, 0, true);
	file_store(&f);
	refused(&f, (struct sa_value[]){{SA_SIZE, words, 8}, {SA_MODE, words, 16}}, 2, -EINVAL);
	refused(&f, (struct sa_value[]){{SA_SIZE, words, 8}, {SA_XATTR, words, 4}}, 2, -EINVAL);
	refused(&f, (struct sa_value[]){{SA_SIZE, words, 8}, {SA_ZNODE_ACL, x, 88}}, 2, -EINVAL);
	refused(&f, &(struct sa_value){SA_PAD, x, 32}, 1, -EINVAL);
	/* 65536 for each of two values, and the 136 bytes before them */
	refused(&f, (struct sa_value[]){{SA_SIZE, words, 8}, {SA_DXATTR, x, 65535}, {SA_SYMLINK, x, 65535}}, 3, -EFBIG);
	/* the rest of the 131072 */
	assert_int_equal(change(&f, (struct sa_value[]){{SA_DXATTR, x, 65535}, {SA_SYMLINK, x, 65400}}, 2), 0);
	assert_true(f.s.dn->has_spill);
	refused(&f, &(struct sa_value){SA_SYMLINK, x, 65401}, 1, -EFBIG);
	struct objset_ops *none = (struct objset_ops *)f.s.os->ops;
	f.s.os->ops = NULL;
	struct tx tx = ss_tx(&f.s, SS_TXG);
	assert_int_equal(sa_change(f.s.so, &f.sa, &(struct sa_value){SA_SIZE, words, 8}, 1, &tx), -EROFS);
	f.s.os->ops = none;
	file_close(&f);
	free(x);
}

/* --- tables --- */

static void the_first_attributes_wait_for_the_tables(void **state)
{
	const struct sa_value v[] = {{SA_MODE, words, 8}, {SA_SIZE, words, 8}};
	struct saset s;
	struct tx tx, late;
	uint64_t there;

	ss_open_empty(&s);
	s.dn = ss_object(&s, DMU_OT_SA, 0, 0);
	tx = ss_tx(&s, SS_TXG);
	late = ss_tx(&s, SS_TXG - 1);
	assert_int_equal(sa_layouts_add(s.so), 0); /* nothing is wanted yet */
	assert_int_equal(sa_store(s.so, s.dn, v, 2, &tx), -EAGAIN);
	assert_int_equal(zap_lookup_u64(s.os, s.attrs, "REGISTRY", &there), -ENOENT);
	assert_int_equal(s.dn->bonuslen, 0);
	assert_int_equal(sa_layouts_add(s.so), 0);
	ss_tables_find(&s);
	assert_int_equal(sa_store(s.so, s.dn, v, 2, &late), -EAGAIN); /* no layout can help it */
	assert_int_equal(sa_layouts_add(s.so), 0);
	assert_int_equal(zap_count(s.os, s.layouts, &there), 0);
	assert_int_equal(there, 0);
	assert_int_equal(sa_store(s.so, s.dn, v, 2, &tx), -EAGAIN);
	assert_int_equal(s.dn->bonuslen, 0);
	assert_int_equal(zap_count(s.os, s.layouts, &there), 0);
	assert_int_equal(there, 0);
	assert_int_equal(sa_layouts_add(s.so), 0);
	/* a transaction that began before is too early for it, as often as it asks */
	assert_int_equal(sa_store(s.so, s.dn, v, 2, &late), -EAGAIN);
	assert_int_equal(sa_layouts_add(s.so), 0);
	assert_int_equal(sa_store(s.so, s.dn, v, 2, &late), -EAGAIN);
	assert_int_equal(s.dn->bonuslen, 0);
	assert_int_equal(sa_store(s.so, s.dn, v, 2, &tx), 0);
	assert_int_equal(s.dn->bonuslen, 24);
	assert_int_equal(zap_count(s.os, s.layouts, &there), 0);
	assert_int_equal(there, 1);
	ss_close(&s);
}

/* As if all that is there had been on the disk. */
static void tables_reopen_as_old(struct file *f)
{
	const struct objset_ops *ops = f->s.os->ops;

	sa_close(&f->sa);
	sa_os_close(f->s.so);
	f->s.os->ops = NULL;
	ss_tables_open(&f->s);
	f->s.os->ops = ops;
	assert_int_equal(sa_open(f->s.so, f->s.dn, &f->sa), 0);
}

static void a_layout_is_not_used_in_an_earlier_group(void **state)
{
	const struct sa_value size = {SA_SIZE, words, 8}, xattr = {SA_XATTR, words, 8},
			      spilled = {SA_DXATTR, words, 32};
	struct file f;
	struct tx early, tx;

	file_open(&f, 0, true);
	file_store(&f);
	tables_reopen_as_old(&f);
	early = ss_tx(&f.s, SS_TXG - 1);
	tx = ss_tx(&f.s, SS_TXG);
	for (unsigned i = 0; i < 2; i++) {
		const struct sa_value v[] = {i ? spilled : xattr};

		assert_int_equal(sa_change(f.s.so, &f.sa, v, 1, &tx), -EAGAIN);
		assert_int_equal(sa_layouts_add(f.s.so), 0);
		assert_int_equal(sa_change(f.s.so, &f.sa, v, 1, &early), -EAGAIN);
		assert_int_equal(sa_layouts_add(f.s.so), 0);
		file_check(&f);
		assert_int_equal(sa_change(f.s.so, &f.sa, v, 1, &tx), 0);
		assert_int_equal(sa_change(f.s.so, &f.sa, &(struct sa_value){v[0].attr, NULL, 0}, 1, &tx), 0);
	}
	assert_int_equal(sa_change(f.s.so, &f.sa, &size, 1, &tx), 0);
	file_close(&f);
}

/* Whoever added it: what is found in tables that are written now may be as young as the open group. */
static void layouts_of_a_later_group_are_not_used(void **state)
{
	const struct sa_value v[] = {{SA_XATTR, words, 8}};
	struct file f;
	struct tx early, tx;

	file_open(&f, 0, true);
	file_store(&f);
	early = ss_tx(&f.s, SS_TXG - 1);
	tx = ss_tx(&f.s, SS_TXG);
	assert_int_equal(sa_change(f.s.so, &f.sa, v, 1, &tx), -EAGAIN);
	assert_int_equal(sa_layouts_add(f.s.so), 0);
	for (unsigned again = 0; again < 2; again++) {
		assert_int_equal(sa_change(f.s.so, &f.sa, v, 1, &early), -EAGAIN);
		assert_int_equal(sa_layouts_add(f.s.so), 0);
		file_check(&f);
		sa_close(&f.sa);
		sa_os_close(f.s.so);
		ss_tables_open(&f.s);
		assert_int_equal(sa_open(f.s.so, f.s.dn, &f.sa), 0);
	}
	assert_int_equal(sa_change(f.s.so, &f.sa, v, 1, &tx), 0);
	file_close(&f);
}

/* Two that were opened for one set see what the other added. */
static void tables_that_others_add_to_are_shared(void **state)
{
	const struct sa_value v[] = {{SA_XATTR, words, 8}};
	struct sa_os *own;
	struct file f;
	struct tx tx;
	uint64_t n, n2;

	file_open(&f, 0, true);
	file_store(&f);
	tx = ss_tx(&f.s, SS_TXG);
	own = f.s.so;
	ss_tables_open(&f.s);
	assert_int_equal(sa_change(own, &f.sa, v, 1, &tx), -EAGAIN);
	assert_int_equal(sa_change(f.s.so, &f.sa, v, 1, &tx), -EAGAIN);
	assert_int_equal(sa_layouts_add(own), 0);
	assert_int_equal(zap_count(f.s.os, f.s.layouts, &n), 0);
	assert_int_equal(sa_layouts_add(f.s.so), 0);
	assert_int_equal(zap_count(f.s.os, f.s.layouts, &n2), 0);
	assert_int_equal(n, n2);
	assert_int_equal(sa_change(f.s.so, &f.sa, v, 1, &tx), 0);
	ss_list_insert(&f.l, f.l.n, 9, 8, words);
	file_check(&f);
	sa_os_close(own);
	file_close(&f);
}

static void tables_that_are_full_say_so(void **state)
{
	const struct sa_value v[] = {{SA_XATTR, words, 8}};
	struct file f;
	char name[8];

	file_open(&f, 0, true);
	file_store(&f);
	for (unsigned i = 2; i < 1024; i++) {
		uint16_t list[2] = {(uint16_t)i, 5};

		snprintf(name, sizeof(name), "%u", i);
		zap_add(f.s.os, f.s.layouts, name, 2, 2, list, &f.s.set.tx); /* some are there */
	}
	refused(&f, v, 1, -EAGAIN);
	assert_int_equal(sa_layouts_add(f.s.so), -ENOSPC);
	assert_int_equal(sa_layouts_add(f.s.so), 0); /* nobody waits for it any more */
	refused(&f, v, 1, -EAGAIN);
	assert_int_equal(change(&f, &(struct sa_value){SA_SIZE, words, 8}, 1), 0);
	file_close(&f);
}

static void file_systems_without_attributes_store_none(void **state)
{
	struct saset s;
	struct tx tx;

	ss_open_empty(&s);
	sa_os_close(s.so);
	assert_int_equal(sa_os_open(s.os, 0, &s.so, NULL), 0);
	s.dn = ss_object(&s, DMU_OT_SA, 0, 0);
	tx = ss_tx(&s, SS_TXG);
	assert_int_equal(sa_store(s.so, s.dn, &(struct sa_value){SA_MODE, words, 8}, 1, &tx), -ENOTSUP);
	assert_int_equal(sa_store(s.so, s.dn, &(struct sa_value){SA_MODE, words, 8}, 1, &s.set.tx), -ENOTSUP);
	ss_close(&s);
}

/* A dnode with three pointers has no room. */
static void dnodes_without_room_are_refused(void **state)
{
	struct saset s;
	struct tx tx;

	ss_open(&s, 0);
	struct dnode *dn = ss_object(&s, 0, 0, 0);
	dmu_object_set_type(dn, TP_FILE, DMU_OT_SA, 0, &s.set.tx);
	tx = ss_tx(&s, SS_TXG);
	assert_int_equal(sa_store(s.so, dn, &(struct sa_value){SA_MODE, words, 8}, 1, &tx), -EINVAL);
	dnode_release(dn);
	ss_close(&s);
}

/* --- what Tarn does not know --- */

static void list_add_foreign(struct ss_list *l)
{
	ss_list_add(l, SS_F64, 24);
	ss_list_add(l, SS_F32, 12);
	ss_list_add(l, 16, 8);
	ss_list_add(l, SS_ACES, 24);
	ss_list_add(l, SS_F16, 6);
	ss_list_add(l, SS_FBYTES, 13);
	ss_list_add(l, SS_F8, 5);
	ss_list_add(l, SS_FACL, 16);
	for (unsigned i = l->n - 5; i < l->n; i++)
		if (l->a[i].number == SS_FACL || l->a[i].number == SS_ACES)
			memset(l->a[i].data, 0, l->a[i].len);
	for (int at = ss_list_find(l, SS_ACES), i = 0; i < 3; i++) {
		store_host16(l->a[at].data + 8 * i, i % 2);
		store_host16(l->a[at].data + 8 * i + 2, 0x1000 << (2 * (i / 2)));
		store_host32(l->a[at].data + 8 * i + 4, 0x12345678);
	}
	for (int at = ss_list_find(l, SS_FACL), i = 0; i < 2; i++) {
		store_host16(l->a[at].data + 8 * i + 2, 0x4000);
		store_host32(l->a[at].data + 8 * i + 4, 0x89abcdef);
	}
}

static void attributes_of_others_are_kept_in_both_byte_orders(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		bool swap = i & 1;
		struct file f;

		file_open(&f, i & 2 ? 1024 : 0, true);
		list_add_foreign(&f.l);
		file_open_raw(&f, 13 + i, 2048, swap);
		assert_int_equal(f.sa.attr[SA_MODE].swap, swap);
		/* moved to where they belong and turned, with the first change that does not fit in place */
		set_and_check(&f, SS_DXATTR, 20);
		assert_false(f.sa.attr[SA_MODE].swap);
		set_and_check(&f, SS_DXATTR, 0);
		set_and_check(&f, SS_PROJID, 0);
		set_and_check(&f, SS_PROJID, 8);
		set_and_check(&f, SS_DXATTR, 3000);
		file_close(&f);
	}
}

static void attributes_of_an_unknown_order_are_not_turned(void **state)
{
	struct file f;

	for (unsigned swap = 0; swap < 2; swap++) {
		file_open(&f, 0, true);
		ss_list_add(&f.l, SS_FODD, 8);
		file_open_raw(&f, f.l.n, 0, false);
		if (swap) {
			sa_close(&f.sa);
			ss_store_raw(&f.s, f.s.dn, &f.l, f.l.n, 102, 0, true);
			assert_int_equal(sa_open(f.s.so, f.s.dn, &f.sa), 0);
			refused(&f, &(struct sa_value){SA_DXATTR, words, 20}, 1, -ENOTSUP);
		} else {
			set_and_check(&f, SS_DXATTR, 20);
		}
		file_close(&f);
	}
}

/* --- in place --- */

static void bytes_check(const struct file *f, enum sa_attr a, const uint8_t *want, uint32_t len)
{
	const uint8_t *p;
	uint32_t got;

	assert_int_equal(sa_bytes(&f->sa, a, &p, &got), 0);
	assert_int_equal(got, len);
	assert_memory_equal(p, want, len);
}

static void values_of_one_length_change_in_place_in_both_orders(void **state)
{
	const uint8_t target[5] = "below", stamp[32] = "0123456789abcdefghijklmnopqrstu";
	uint64_t time[2] = {5, 6}, w;
	int64_t tv[2];

	for (unsigned i = 0; i < 4; i++) {
		bool swap = i & 1, spill = i & 2;
		struct state before, after;
		struct file f;

		file_open(&f, 0, true);
		ss_list_add(&f.l, SS_SYMLINK, 5);
		ss_list_add(&f.l, SS_FODD, 8);
		ss_list_add(&f.l, 9, 8);
		ss_list_add(&f.l, 18, 32);
		file_open_raw(&f, spill ? 13 : f.l.n, 1024, swap);
		state_take(&f, &before);
		const struct sa_value v[] = {{SA_SIZE, words, 8},      {SA_MTIME, time, 16}, {SA_SYMLINK, target, 5},
					     {SA_XATTR, words, 8},     {SA_DXATTR, NULL, 0}, {SA_SCANSTAMP, stamp, 32},
					     {SA_PROJID, &words[1], 8}};
		assert_int_equal(change(&f, v, ARRAY_LEN(v)), 0);
		state_take(&f, &after);
		assert_int_equal(after.layouts, before.layouts);
		assert_int_equal(after.len, before.len);
		assert_int_equal(after.spill_len, before.spill_len);
		assert_int_equal(f.sa.attr[SA_SIZE].swap, swap);
		for (unsigned again = 0; again < 2; again++) {
			assert_int_equal(sa_u64(&f.sa, SA_SIZE, &w), 0);
			assert_true(w == words[0]);
			assert_int_equal(sa_time(&f.sa, SA_MTIME, tv), 0);
			assert_int_equal(tv[0], 5);
			assert_int_equal(tv[1], 6);
			assert_int_equal(sa_u64(&f.sa, SA_XATTR, &w), 0);
			assert_true(w == words[0]);
			assert_int_equal(sa_u64(&f.sa, SA_PROJID, &w), 0);
			assert_int_equal(w, 2);
			bytes_check(&f, SA_SYMLINK, target, 5);
			bytes_check(&f, SA_SCANSTAMP, stamp, 32);
			sa_close(&f.sa);
			assert_int_equal(sa_open(f.s.so, f.s.dn, &f.sa), 0);
		}
		file_close(&f);
	}
}

/* Entries of the other order are turned with all the rest. */
static void acls_of_the_other_order_are_replaced(void **state)
{
	struct file f;

	file_open(&f, 0, true);
	list_add_foreign(&f.l);
	file_open_raw(&f, 14, 1024, true);
	set_and_check(&f, SS_ACES, 24);
	file_close(&f);
}

/* --- project ids --- */

static void project_ids_come_after_the_links(void **state)
{
	struct file f;

	for (unsigned extra = 0; extra < 500; extra += 50) {
		file_open(&f, 0, false);
		ss_list_add(&f.l, 16, 8);
		ss_list_add(&f.l, SS_ACES, 24);
		file_store(&f);
		if (extra)
			set_and_check(&f, SS_DXATTR, extra);
		set_and_check(&f, SS_PROJID, 8);
		assert_ptr_equal(f.sa.attr[SA_PROJID].data, f.sa.attr[SA_MODE].data + 128);
		assert_ptr_equal(f.sa.attr[SA_FLAGS].data, f.sa.attr[SA_MODE].data + 48);
		set_and_check(&f, SS_PROJID, 0);
		file_close(&f);
	}
}

/* Whatever the order was, and wherever the id was: at its place it counts. */
static void files_of_another_order_get_that_of_the_accounting(void **state)
{
	static const uint16_t order[] = {8, 3, 2, 1, 0, 11, SS_F64, 7, 13, 12, 4, 6, 5, 16};
	struct ss_list want = {.n = 0};
	struct file f;

	for (unsigned there = 0; there < 2; there++) {
		*&f = (struct file){0};
		ss_open(&f.s, 0);
		for (unsigned i = 0; i < ARRAY_LEN(order); i++)
			ss_list_add(&f.l, order[i], ss_registered_len(order[i]));
		if (there)
			ss_list_add(&f.l, SS_PROJID, 8);
		file_open_raw(&f, there ? 11 : f.l.n, 1024, there);
		assert_int_equal(set(&f, SS_PROJID, 8), 0);
		ss_list_fixed(&want, true);
		ss_list_add(&want, SS_F64, 24);
		ss_list_add(&want, 16, 8);
		ss_check(&f.s, f.s.dn, &want);
		ss_view_check(&f.s, &f.sa);
		ss_list_clear(&want);
		file_close(&f);
	}
}

static void project_ids_need_what_comes_before_them(void **state)
{
	struct file f;

	for (unsigned gone = 0; gone < 12; gone++) {
		file_open(&f, 0, false);
		ss_list_remove(&f.l, f.l.a[gone].number);
		ss_list_add(&f.l, 16, 8);
		file_store(&f);
		refused(&f, &(struct sa_value){SA_PROJID, words, 8}, 1, -ENOTSUP);
		set_and_check(&f, 9, 8);
		file_close(&f);
	}
}

/* --- damage --- */

static void damaged_spill_blocks_keep_all_from_moving(void **state)
{
	struct file f;
	uint64_t w;

	file_open(&f, 0, true);
	ss_list_add(&f.l, SS_DXATTR, 700);
	file_store(&f);
	sa_close(&f.sa);
	autobuf struct buf *b = buf_alloc(1024);
	memset(b->data, 0x5a, 1024);
	assert_int_equal(dmu_spill_write(f.s.dn, b, &f.s.set.tx), 0);
	assert_int_equal(sa_open(f.s.so, f.s.dn, &f.sa), 0);
	assert_int_equal(f.sa.spill_err, -EIO);
	refused(&f, &(struct sa_value){SA_XATTR, words, 8}, 1, -EIO);
	refused(&f, &(struct sa_value){SA_XATTR, NULL, 0}, 1, -EIO);
	refused(&f, &(struct sa_value){SA_DXATTR, NULL, 0}, 1, -EIO);
	refused(&f, (struct sa_value[]){{SA_SIZE, words, 8}, {SA_DXATTR, words, 8}}, 2, -EIO);
	assert_int_equal(change(&f, &(struct sa_value){SA_SIZE, words, 8}, 1), 0);
	assert_int_equal(sa_u64(&f.sa, SA_SIZE, &w), 0);
	assert_true(w == words[0]);
	file_close(&f);
}

/* Of what is there twice the first counts, and stays. */
static void attributes_that_are_there_twice_become_one(void **state)
{
	struct file f;

	file_open(&f, 0, true);
	ss_list_add(&f.l, SS_F8, 5);
	ss_list_insert(&f.l, f.l.n, 6, 8, words);
	ss_list_insert(&f.l, f.l.n, SS_F8, 5, "other");
	file_open_raw(&f, 14, 512, false);
	assert_int_equal(set(&f, SS_DXATTR, 9), 0);
	for (unsigned i = 0; i < 2; i++)
		free(f.l.a[--f.l.n].data);
	ss_list_add(&f.l, SS_DXATTR, 9);
	file_check(&f);
	file_close(&f);
}

/* --- groups --- */

/* The layout of the younger group's is not the older one's: a transaction that comes late must not mix them. */
static void late_transactions_leave_each_group_whole(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		unsigned first = i == 0 ? 10 : i == 1 ? 200 : 1000, then = i == 0 ? 1000 : i == 1 ? 20 : 60;
		struct dnode_state *st;
		struct ss_list l = {.n = 0};
		struct file f;

		file_open(&f, 0, true);
		file_store(&f);
		set_and_check(&f, SS_DXATTR, then); /* both layouts are there, in the older group */
		set_and_check(&f, SS_DXATTR, first);
		ss_list_add(&l, SS_DXATTR, then);
		const struct sa_value v = {SA_DXATTR, l.a[0].data, (uint16_t)then};
		assert_int_equal(change_at(&f, &v, 1, SS_TXG + 1), 0);
		assert_int_equal(change_at(&f, &(struct sa_value){SA_SIZE, words, 8}, 1, SS_TXG), 0);
		list_set(&f.l, SS_DXATTR, then);
		list_set(&f.l, 6, 0);
		ss_list_insert(&f.l, 1, 6, 8, words);
		file_check(&f);
		pthread_mutex_lock(&f.s.dn->lock);
		st = dnode_state_of_group_locked(f.s.dn, SS_TXG);
		pthread_mutex_unlock(&f.s.dn->lock);
		assert_int_equal(st->shape.bonuslen, f.s.dn->bonuslen);
		assert_int_equal(st->shape.has_spill, f.s.dn->has_spill);
		assert_memory_equal(st->bonus, f.s.dn->bonus, f.s.dn->bonuslen);
		dnode_state_free(st);
		ss_list_clear(&l);
		file_close(&f);
	}
}

/* --- many at once --- */

#define THREADS 4
#define CHANGES 150

struct worker {
	struct saset *s;
	struct sa_os *so;
	struct dnode *dn;
	uint32_t seed;
	int err;
};

static int worker_try(struct worker *w, struct sa *sa, const struct sa_value *v)
{
	struct tx tx = {.os = w->s->os};
	int err = tx_begin_wait(w->s->set.tp->dp.txgs, &tx);

	if (err)
		return err;
	err = sa->dn ? sa_change(w->so, sa, v, 1, &tx) : sa_store(w->so, w->dn, v, 1, &tx);
	tx_end(&tx);
	return err;
}

static int worker_change(struct worker *w, struct sa *sa, const struct sa_value *v)
{
	int err;

	while ((err = worker_try(w, sa, v)) == -EAGAIN)
		if ((err = sa_layouts_add(w->so)))
			break;
	return err;
}

static void *worker_main(void *arg)
{
	static const enum sa_attr attrs[] = {SA_SIZE, SA_GEN, SA_UID, SA_XATTR, SA_RDEV};
	struct worker *w = arg;
	struct sa sa = {0};

	w->err = worker_change(w, &sa, &(struct sa_value){SA_MODE, words, 8});
	if (!w->err)
		w->err = sa_open(w->so, w->dn, &sa);
	for (unsigned i = 0; i < CHANGES && !w->err; i++) {
		const struct sa_value v = {attrs[rnd(&w->seed, ARRAY_LEN(attrs))], words, rnd(&w->seed, 3) ? 8 : 0};

		w->err = worker_change(w, &sa, &v);
	}
	sa_close(&sa);
	return NULL;
}

static void layouts_check_unlike(struct saset *s)
{
	static uint16_t list[1024][8];
	size_t len[1024] = {0};
	unsigned intsize, n = 2;
	char name[8];

	for (;; n++) {
		snprintf(name, sizeof(name), "%u", n);
		if (zap_length(s->os, s->layouts, name, &intsize, &len[n]))
			break;
		assert_true(len[n] <= 8);
		assert_int_equal(zap_lookup(s->os, s->layouts, name, 2, 8, list[n]), 0);
		for (unsigned i = 2; i < n; i++)
			assert_false(len[i] == len[n] && memcmp(list[i], list[n], 2 * len[n]) == 0);
	}
	assert_true(n > 20);
}

static void threads_change_files_and_share_the_tables(void **state)
{
	struct worker w[THREADS];
	pthread_t t[THREADS];
	struct sa_os *other;
	struct saset s;
	struct sa sa;

	ss_open_empty(&s);
	assert_int_equal(sa_os_open(s.os, s.attrs, &other, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		w[i] = (struct worker){&s, i % 2 ? other : s.so, ss_object(&s, DMU_OT_SA, 0, 0), i + 1, 0};
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, worker_main, &w[i]), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(w[i].err, 0);
	}
	ss_tables_find(&s);
	layouts_check_unlike(&s);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(sa_open(s.so, w[i].dn, &sa), 0);
		sa_close(&sa);
		dnode_release(w[i].dn);
	}
	sa_os_close(other);
	ss_close(&s);
}

/* --- legacy znodes --- */

static void legacy_open(struct file *f, size_t len, bool swapped)
{
	uint64_t w[40] = {0};

	*f = (struct file){0};
	ss_open(&f->s, 0);
	dnode_release(f->s.dn);
	f->s.dn = ss_object(&f->s, DMU_OT_ZNODE, (unsigned)len, 0);
	for (unsigned i = 0; i < 18; i++)
		w[i] = i + 1;
	w[9] = 0100644;
	w[13] = 77; /* a directory of attributes */
	w[15] = len > 264 ? 0x80 : 0;
	if (swapped)
		swap64_buffer(w, 176);
	assert_int_equal(dmu_bonus_write(f->s.dn, 0, w, len, &f->s.set.tx), 0);
	f->s.dn->swapped = swapped;
	assert_int_equal(sa_open(f->s.so, f->s.dn, &f->sa), 0);
	assert_true(f->sa.is_legacy);
}

static void legacy_znodes_change_at_their_places(void **state)
{
	uint8_t acl[88] = {1, 2, 3}, stamp[32] = "stamp";
	uint64_t time[2] = {5, 6}, v64;

	for (unsigned i = 0; i < 4; i++) {
		size_t len = i & 2 ? 296 : 264;
		struct file f;

		legacy_open(&f, len, i & 1);
		struct sa_value v[] = {{SA_SIZE, words, 8},     {SA_XATTR, NULL, 0},  {SA_MTIME, time, 16},
				       {SA_ZNODE_ACL, acl, 88}, {SA_DXATTR, NULL, 0}, {SA_SCANSTAMP, stamp, 32}};
		assert_int_equal(change(&f, v, i & 2 ? 6 : 5), 0);
		assert_false(f.s.dn->swapped);
		assert_int_equal(f.s.dn->bonuslen, len);
		for (unsigned k = 0; k < 18; k++) {
			uint64_t want = k == 2    ? 5
					: k == 3  ? 6
					: k == 9  ? 0100644
					: k == 10 ? words[0]
					: k == 13 ? 0
						  : k + 1;

			assert_int_equal(dmu_bonus_u64(f.s.dn, 8 * k, &v64), 0);
			assert_true(k == 15 || v64 == want);
		}
		ss_view_check(&f.s, &f.sa);
		bytes_check(&f, SA_ZNODE_ACL, acl, 88);
		if (i & 2)
			bytes_check(&f, SA_SCANSTAMP, stamp, 32);
		const struct sa_value none[][2] = {
		    {{SA_SIZE, words, 8}, {SA_PROJID, words, 8}}, {{SA_SIZE, words, 8}, {SA_DXATTR, words, 8}},
		    {{SA_SIZE, words, 8}, {SA_UID, words, 4}},    {{SA_SIZE, words, 8}, {SA_UID, NULL, 0}},
		    {{SA_SIZE, words, 8}, {SA_SYMLINK, "x", 1}},  {{SA_SIZE, words, 8}, {SA_DACL_COUNT, words, 8}},
		};
		for (unsigned k = 0; k < ARRAY_LEN(none); k++)
			refused(&f, none[k], 2, -ENOTSUP);
		file_close(&f);
	}
}

static void legacy_znodes_become_attributes(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		unsigned big = i & 2 ? 600 : 20;
		struct sa_value v[SS_MAX];
		struct file f;
		struct tx tx;
		int err;

		legacy_open(&f, 264, i & 1);
		ss_list_fixed(&f.l, true);
		ss_list_add(&f.l, SS_DXATTR, big);
		for (unsigned k = 0; k < f.l.n; k++)
			v[k] = (struct sa_value){attr_of(f.l.a[k].number), f.l.a[k].data, (uint16_t)f.l.a[k].len};
		static struct state before, after;
		state_take(&f, &before);
		tx = ss_tx(&f.s, SS_TXG + 1);
		assert_int_equal(sa_convert(f.s.so, &f.sa, v, f.l.n, &tx), -EAGAIN);
		state_take(&f, &after);
		assert_memory_equal(&before, &after, sizeof(before));
		assert_true(f.sa.is_legacy && f.s.dn->bonustype == DMU_OT_ZNODE);
		assert_int_equal(sa_layouts_add(f.s.so), 0);
		tx = ss_tx(&f.s, SS_TXG);
		err = sa_convert(f.s.so, &f.sa, v, f.l.n, &tx);
		assert_int_equal(err, 0);
		assert_false(f.s.dn->swapped);
		file_check(&f);
		assert_int_equal(sa_convert(f.s.so, &f.sa, v, f.l.n, &tx), -EINVAL);
		set_and_check(&f, SS_DXATTR, 50);
		file_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(attributes_are_placed_by_the_rule_at_every_size),
	    cmocka_unit_test(many_variable_attributes_are_placed_by_the_rule),
	    cmocka_unit_test(spill_blocks_keep_their_size_while_it_does),
	    cmocka_unit_test(what_needs_a_layout_waits_for_it_and_changes_nothing),
	    cmocka_unit_test(what_cannot_be_stored_is_refused_whole),
	    cmocka_unit_test(the_first_attributes_wait_for_the_tables),
	    cmocka_unit_test(a_layout_is_not_used_in_an_earlier_group),
	    cmocka_unit_test(layouts_of_a_later_group_are_not_used),
	    cmocka_unit_test(tables_that_others_add_to_are_shared),
	    cmocka_unit_test(tables_that_are_full_say_so),
	    cmocka_unit_test(file_systems_without_attributes_store_none),
	    cmocka_unit_test(dnodes_without_room_are_refused),
	    cmocka_unit_test(attributes_of_others_are_kept_in_both_byte_orders),
	    cmocka_unit_test(attributes_of_an_unknown_order_are_not_turned),
	    cmocka_unit_test(values_of_one_length_change_in_place_in_both_orders),
	    cmocka_unit_test(acls_of_the_other_order_are_replaced),
	    cmocka_unit_test(project_ids_come_after_the_links),
	    cmocka_unit_test(files_of_another_order_get_that_of_the_accounting),
	    cmocka_unit_test(project_ids_need_what_comes_before_them),
	    cmocka_unit_test(damaged_spill_blocks_keep_all_from_moving),
	    cmocka_unit_test(attributes_that_are_there_twice_become_one),
	    cmocka_unit_test(late_transactions_leave_each_group_whole),
	    cmocka_unit_test(threads_change_files_and_share_the_tables),
	    cmocka_unit_test(legacy_znodes_change_at_their_places),
	    cmocka_unit_test(legacy_znodes_become_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
