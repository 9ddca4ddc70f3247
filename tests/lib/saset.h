/*
 * tests/lib/saset.h: an object with system attributes in a set that can be changed, and a reader of its own for what is
 * stored of it: bonus and spill block by docs/format/07-filesystem-zvol-zil.md, 2.2 - 2.5, written from there, not from
 * src/dmu.
 */
#ifndef TESTS_SASET_H
#define TESTS_SASET_H

#include "writeset.h"

#include "dmu/sa.h"

#define SS_TXG   11u /* the open group */
#define SS_MAX   64u
#define SS_SPILL 131072u

/* Numbers of a new file system, and foreign ones of every class. */
enum {
	SS_SYMLINK = 17,
	SS_ACES = 19,
	SS_DXATTR = 20,
	SS_PROJID = 21,
	SS_F64 = 22,
	SS_F32,
	SS_F16,
	SS_F8,
	SS_FACL,
	SS_FBYTES,
	SS_FODD, /* of a class that nobody knows */
	SS_FVAR, /* and more of the same kind behind it */
	SS_NVARS = 10,
	SS_NUMBERS = SS_FVAR + SS_NVARS,
};

static const struct {
	const char *name;
	unsigned len, class;
} ss_foreign[] = {{"X_64", 24, 0}, {"X_32", 12, 1},   {"X_16", 6, 2}, {"X_8", 5, 3},
		  {"X_ACL", 0, 4}, {"X_BYTES", 0, 3}, {"X_ODD", 8, 9}};

static const unsigned ss_fixed_len[] = {16, 16, 16, 16, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 32, 88, 8, 0, 32, 0, 0, 8};

static inline unsigned ss_registered_len(unsigned number)
{
	return number < SS_F64 ? ss_fixed_len[number] : number < SS_FVAR ? ss_foreign[number - SS_F64].len : 0;
}

static inline unsigned ss_class(unsigned number)
{
	if (number == SS_ACES)
		return 4;
	if (number == 15 || number == SS_SYMLINK || number == 18 || number == SS_DXATTR)
		return 3;
	return number < SS_F64 ? 0 : number < SS_FVAR ? ss_foreign[number - SS_F64].class : 3;
}

/* What an object is to have, in order. */
struct ss_attr {
	uint16_t number;
	unsigned len;
	uint8_t *data;
};
struct ss_list {
	struct ss_attr a[SS_MAX];
	unsigned n;
};

struct saset {
	struct writeset set;
	struct objset *os;
	uint64_t attrs, registry, layouts;
	struct sa_os *so;
	struct dnode *dn;
};

static inline struct tx ss_tx(const struct saset *s, uint64_t txg)
{
	return (struct tx){.txgs = s->set.tp->dp.txgs, .txg = txg, .os = s->os};
}

static inline void ss_register(struct saset *s, const char *name, unsigned number)
{
	uint64_t v = number | (uint64_t)ss_class(number) << 16 | (uint64_t)ss_registered_len(number) << 24;

	assert_int_equal(zap_add_u64(s->os, s->registry, name, v, &s->set.tx), 0);
}

static inline void ss_tables_open(struct saset *s)
{
	struct err e = ERR_INIT;

	if (sa_os_open(s->os, s->attrs, &s->so, &e))
		fail_msg("%s", e.text);
}

static inline struct dnode *ss_object(struct saset *s, unsigned bonustype, unsigned bonuslen, unsigned dnodesize)
{
	const struct dmu_object spec = {
	    .type = TP_FILE, .bonustype = bonustype, .bonuslen = bonuslen, .dnodesize = dnodesize};
	struct dnode *dn;
	uint64_t object;

	assert_int_equal(dmu_object_alloc(s->os, &spec, &s->set.tx, &object), 0);
	assert_int_equal(dnode_hold(s->os, object, &dn, NULL), 0);
	return dn;
}

/* Nothing but the master node. */
static inline void ss_open_empty(struct saset *s)
{
	*s = (struct saset){0};
	writeset_open(&s->set);
	s->os = s->set.os;
	assert_int_equal(sa_create(s->os, &s->set.tx, &s->attrs), 0);
	ss_tables_open(s);
}

static inline void ss_tables_find(struct saset *s)
{
	assert_int_equal(zap_lookup_u64(s->os, s->attrs, "REGISTRY", &s->registry), 0);
	assert_int_equal(zap_lookup_u64(s->os, s->attrs, "LAYOUTS", &s->layouts), 0);
}

/* Every name, foreign ones too, and an object. */
static inline void ss_open(struct saset *s, unsigned dnodesize)
{
	uint64_t w = 1;
	char name[16];

	ss_open_empty(s);
	s->dn = ss_object(s, DMU_OT_SA, 0, dnodesize);
	assert_int_equal(sa_store(s->so, s->dn, &(struct sa_value){SA_MODE, &w, 8}, 1, &s->set.tx), 0);
	ss_tables_find(s);
	sa_os_close(s->so);
	for (unsigned i = 0; i < ARRAY_LEN(ss_foreign); i++)
		ss_register(s, ss_foreign[i].name, SS_F64 + i);
	for (unsigned i = 0; i < SS_NVARS; i++) {
		snprintf(name, sizeof(name), "X_VAR_%u", i);
		ss_register(s, name, SS_FVAR + i);
	}
	ss_tables_open(s);
}

static inline void ss_close(struct saset *s)
{
	if (s->dn)
		dnode_release(s->dn);
	sa_os_close(s->so);
	writeset_close(&s->set);
}

/* --- lists --- */

static inline void ss_list_clear(struct ss_list *l)
{
	for (unsigned i = 0; i < l->n; i++)
		free(l->a[i].data);
	l->n = 0;
}

static inline int ss_list_find(const struct ss_list *l, unsigned number)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->a[i].number == number)
			return (int)i;
	return -1;
}

/* At the place `at`; data NULL: a pattern that tells by its number and length whose it is. */
static inline void ss_list_insert(struct ss_list *l, unsigned at, unsigned number, unsigned len, const void *data)
{
	uint8_t *copy = xmalloc(MAX(len, 1));

	assert_true(l->n < SS_MAX && at <= l->n);
	memmove(l->a + at + 1, l->a + at, (l->n - at) * sizeof(*l->a));
	l->n++;
	if (data && len)
		memcpy(copy, data, len);
	else
		for (unsigned i = 0; i < len; i++)
			copy[i] = (uint8_t)(number * 31 + len * 7 + i);
	l->a[at] = (struct ss_attr){(uint16_t)number, len, copy};
}

static inline void ss_list_add(struct ss_list *l, unsigned number, unsigned len)
{
	ss_list_insert(l, l->n, number, len, NULL);
}

static inline void ss_list_remove(struct ss_list *l, unsigned number)
{
	int at = ss_list_find(l, number);

	assert_true(at >= 0);
	free(l->a[at].data);
	memmove(l->a + at, l->a + at + 1, (l->n - (unsigned)at - 1) * sizeof(*l->a));
	l->n--;
}

/* The order of 2.7. */
static inline void ss_list_fixed(struct ss_list *l, bool projid)
{
	static const uint16_t order[] = {5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8};

	for (unsigned i = 0; i < ARRAY_LEN(order); i++)
		ss_list_add(l, order[i], ss_registered_len(order[i]));
	if (projid)
		ss_list_add(l, SS_PROJID, 8);
}

/* --- the rule of 2.5, as the chapter tells it --- */

struct ss_rule {
	bool spill;
	unsigned idx, header, total;
};

static inline unsigned ss_r8(unsigned n)
{
	return (n + 7) / 8 * 8;
}

static inline struct ss_rule ss_rule(const struct ss_list *l, unsigned B)
{
	unsigned hdr = 8, vars = 0, extra = 0, total = 0;
	int idx = -1;
	bool spill = false;

	for (unsigned i = 0; i < l->n; i++) {
		bool isvar = ss_registered_len(l->a[i].number) == 0, might;
		unsigned tmp;

		total = ss_r8(total) + l->a[i].len;
		if (spill)
			continue;
		if (isvar)
			vars++;
		tmp = hdr + (isvar && vars > 1 ? 2 : 0);
		might = idx < 0 && total + ss_r8(tmp) > B - 128;
		if (isvar && vars > 1) {
			if (tmp + total < B) {
				hdr = tmp;
				if (idx >= 0 || might)
					extra += 2;
			} else {
				if (idx < 0)
					idx = (int)i;
				spill = true;
				continue;
			}
		}
		if (might)
			idx = (int)i;
		if (total + ss_r8(hdr) > B)
			spill = true;
	}
	if (spill)
		hdr -= extra;
	return (struct ss_rule){spill, spill ? (unsigned)idx : l->n, ss_r8(hdr), total};
}

/* --- what is stored --- */

static inline void ss_layout_check(struct saset *s, unsigned layout, const struct ss_attr *a, unsigned n)
{
	uint16_t list[SS_MAX];
	unsigned intsize;
	size_t count;
	char name[8];

	if (n == 0) {
		assert_int_equal(layout, 1);
		return;
	}
	snprintf(name, sizeof(name), "%u", layout);
	assert_int_equal(zap_length(s->os, s->layouts, name, &intsize, &count), 0);
	assert_int_equal(intsize, 2);
	assert_int_equal(count, n);
	assert_int_equal(zap_lookup(s->os, s->layouts, name, 2, SS_MAX, list), 0);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(list[i], a[i].number);
}

/* Host order. Returns the bytes used. */
static inline size_t ss_buffer_check(struct saset *s, const uint8_t *p, const struct ss_attr *a, unsigned n)
{
	unsigned info = load_host16(p + 4), slot = 0, vars = 0;
	size_t at;

	assert_int_equal(load_host32(p), 0x2F505A);
	ss_layout_check(s, info & 1023, a, n);
	for (unsigned i = 0; i < n; i++)
		vars += ss_registered_len(a[i].number) == 0;
	at = 8 + (vars > 1 ? ss_r8(2 * (vars - 1)) : 0);
	assert_int_equal(info >> 10, at / 8);
	for (unsigned i = 0; i < n; i++) {
		if (ss_registered_len(a[i].number) == 0)
			assert_int_equal(load_host16(p + 6 + 2 * slot++), a[i].len);
		for (; at % 8; at++)
			assert_int_equal(p[at], 0);
		assert_memory_equal(p + at, a[i].data, a[i].len);
		at += a[i].len;
	}
	return at;
}

/* The object has just this, placed as the rule says. Returns the size of its spill block. */
static inline size_t ss_check(struct saset *s, struct dnode *dn, const struct ss_list *l)
{
	unsigned B = dn->slots * 512 - 192;
	struct ss_rule r = ss_rule(l, B);
	autobuf struct buf *spill = NULL;
	uint8_t bonus[16384];
	size_t used;

	assert_int_equal(dn->bonustype, DMU_OT_SA);
	assert_int_equal(dn->has_spill, r.spill);
	assert_int_equal(dn->bonuslen, r.spill ? B - 128 : r.header + r.total);
	assert_int_equal(dmu_bonus_read(dn, 0, bonus, dn->bonuslen), 0);
	used = ss_buffer_check(s, bonus, l->a, r.idx);
	assert_true(used <= dn->bonuslen);
	for (; used < dn->bonuslen; used++)
		assert_int_equal(bonus[used], 0);
	if (!r.spill)
		return 0;
	assert_int_equal(dmu_spill_read(dn, &spill), 0);
	used = ss_buffer_check(s, spill->data, l->a + r.idx, l->n - r.idx);
	assert_true(used <= spill->size && spill->size % 512 == 0 && spill->size <= SS_SPILL);
	return spill->size;
}

/* An opened object shows what one that is opened now does. */
static inline void ss_view_check(struct saset *s, const struct sa *sa)
{
	struct sa now;

	assert_int_equal(sa_open(s->so, sa->dn, &now), 0);
	assert_int_equal(sa->is_legacy, now.is_legacy);
	assert_int_equal(sa->spill_err, now.spill_err);
	for (unsigned i = 0; i < SA_ATTR_COUNT; i++) {
		assert_int_equal(sa->attr[i].data != NULL, now.attr[i].data != NULL);
		if (!now.attr[i].data)
			continue;
		assert_int_equal(sa->attr[i].len, now.attr[i].len);
		assert_int_equal(sa->attr[i].swap, now.attr[i].swap);
		assert_memory_equal(sa->attr[i].data, now.attr[i].data, now.attr[i].len);
	}
	sa_close(&now);
}

/* --- stored by hand --- */

static inline void ss_put16(uint8_t *p, unsigned v, bool swap)
{
	store_host16(p, swap ? __builtin_bswap16((uint16_t)v) : (uint16_t)v);
}

/* An access control entry is turned by its own sizes: those here have 8 bytes. */
static inline void ss_turn(unsigned class, uint8_t *p, unsigned len)
{
	static const uint8_t step[] = {8, 4, 2, 1};

	if (class < 4)
		for (unsigned at = 0; at + step[class] <= len; at += step[class])
			for (unsigned i = 0; i < step[class] / 2; i++) {
				uint8_t x = p[at + i];

				p[at + i] = p[at + step[class] - 1 - i];
				p[at + step[class] - 1 - i] = x;
			}
	for (unsigned at = 0; class == 4 && at + 8 <= len; at += 8) {
		ss_turn(2, p + at, 4);
		ss_turn(1, p + at + 4, 4);
	}
}

/* A buffer of `layout`, which is entered; returns its bytes. */
static inline size_t ss_buffer_make(struct saset *s, unsigned layout, const struct ss_attr *a, unsigned n, bool swap,
				    uint8_t *p)
{
	unsigned slot = 0, vars = 0;
	uint16_t list[SS_MAX];
	char name[8];
	size_t at;

	for (unsigned i = 0; i < n; i++) {
		list[i] = a[i].number;
		vars += ss_registered_len(a[i].number) == 0;
	}
	snprintf(name, sizeof(name), "%u", layout);
	assert_int_equal(zap_add(s->os, s->layouts, name, 2, n, list, &s->set.tx), 0);
	at = 8 + (vars > 1 ? ss_r8(2 * (vars - 1)) : 0);
	store_host32(p, swap ? 0x5A502F00 : 0x2F505A);
	ss_put16(p + 4, layout | (unsigned)at / 8 << 10, swap);
	for (unsigned i = 0; i < n; i++) {
		if (ss_registered_len(a[i].number) == 0)
			ss_put16(p + 6 + 2 * slot++, a[i].len, swap);
		at = (at + 7) / 8 * 8;
		memcpy(p + at, a[i].data, a[i].len);
		if (swap)
			ss_turn(ss_class(a[i].number), p + at, a[i].len);
		at += a[i].len;
	}
	return at;
}

/* The first `in_bonus` in the bonus, the rest in a spill block of `spill_size` bytes; the tables are opened anew. */
static inline void ss_store_raw(struct saset *s, struct dnode *dn, const struct ss_list *l, unsigned in_bonus,
				unsigned layout, size_t spill_size, bool swap)
{
	uint8_t bonus[1024] = {0};
	size_t len = ss_buffer_make(s, layout, l->a, in_bonus, swap, bonus);

	assert_int_equal(dmu_bonus_set_size(dn, in_bonus < l->n ? dn->slots * 512u - 320 : len, &s->set.tx), 0);
	assert_int_equal(dmu_bonus_write(dn, 0, bonus, dn->bonuslen, &s->set.tx), 0);
	if (in_bonus < l->n) {
		autobuf struct buf *b = buf_alloc(spill_size);

		memset(b->data, 0, spill_size);
		ss_buffer_make(s, layout + 1, l->a + in_bonus, l->n - in_bonus, swap, b->data);
		assert_int_equal(dmu_spill_write(dn, b, &s->set.tx), 0);
	}
	sa_os_close(s->so);
	ss_tables_open(s);
}

#endif
