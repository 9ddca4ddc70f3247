/*
 * dmu/sa_write.c: storing system attributes (docs/format/07-filesystem-zvol-zil.md, 2.2 - 2.5).
 */
#include <stdio.h>

#include "base/sync.h"
#include "dmu/sa_impl.h"

#define SA_SPILL_MAX  131072u
#define SA_HEADER_MIN 8u

static size_t r8(size_t n)
{
	return ROUND_UP(n, 8);
}

int sa_create(struct objset *os, struct tx *tx, uint64_t *sa_attrs)
{
	return zap_create(os, &(struct zap_spec){.type = DMU_OT_SA_MASTER_NODE}, tx, sa_attrs);
}

/* --- registry and layouts; the lock is held --- */

static int attr_register(struct sa_os *so, unsigned number, enum sa_attr a, struct tx *tx)
{
	uint64_t v = number | (uint64_t)sa_known[a].class << 16 | (uint64_t)sa_known[a].len << 24;
	int err = zap_add_u64(so->os, so->registry, sa_known[a].name, v, tx);

	if (err)
		return err;
	so->nregistered++;
	sa_reg_set(so, number, sa_known[a].len, a);
	return 0;
}

/* The first attributes ever stored: both maps, and the numbers that are the same everywhere. */
static int tables_create(struct sa_os *so, struct tx *tx)
{
	int err = zap_create_in(so->os, DMU_OT_SA_ATTR_REGISTRATION, so->sa_attrs, "REGISTRY", tx, &so->registry);

	if (!err)
		err = zap_create_in(so->os, DMU_OT_SA_ATTR_LAYOUTS, so->sa_attrs, "LAYOUTS", tx, &so->layouts);
	for (unsigned i = 0; i < SA_FIXED && !err; i++)
		err = attr_register(so, i, (enum sa_attr)i, tx);
	return err;
}

static bool attrs_are_registered(const struct sa_os *so)
{
	for (unsigned i = 0; i < SA_ATTR_COUNT; i++)
		if (so->number[i] == SA_UNKNOWN)
			return false;
	return so->registry != 0;
}

static int attrs_register(struct sa_os *so, struct tx *tx)
{
	int err = 0;

	if (attrs_are_registered(so))
		return 0;
	err = sa_os_refresh(so, NULL); /* somebody else may have done it */
	if (!err && !so->registry)
		err = tables_create(so, tx);
	for (unsigned i = SA_FIXED; i < SA_ATTR_COUNT && !err; i++) {
		unsigned number = so->nregistered;

		if (so->number[i] != SA_UNKNOWN)
			continue;
		while (number < so->nreg && so->reg[number].present)
			number++;
		err = number < so->nreg ? attr_register(so, number, (enum sa_attr)i, tx) : -ENOSPC;
	}
	return err;
}

static int layout_add(struct sa_os *so, const uint16_t *list, size_t n, struct tx *tx, unsigned *layout)
{
	unsigned number = so->nlayouts + 2;
	char name[8];
	int err;

	while (number < SA_LAYOUTS && so->layout[number].number)
		number++;
	if (number >= SA_LAYOUTS)
		return -ENOSPC;
	snprintf(name, sizeof(name), "%u", number);
	err = zap_add(so->os, so->layouts, name, 2, n, list, tx);
	if (err)
		return err;
	so->nlayouts++;
	sa_os_layout(so, number, list, n);
	*layout = number;
	return 0;
}

static bool layout_exists(struct sa_os *so, const uint16_t *list, size_t n, unsigned *layout)
{
	for (unsigned i = 1; i < SA_LAYOUTS; i++) {
		const struct sa_layout *l = &so->layout[i];

		if (!l->number || l->n != n || memcmp(l->number, list, n * sizeof(*list)) != 0)
			continue;
		*layout = i;
		return true;
	}
	return false;
}

static int layout_find(struct sa_os *so, const uint16_t *list, size_t n, struct tx *tx, unsigned *layout)
{
	int err;

	if (layout_exists(so, list, n, layout))
		return 0;
	err = sa_os_refresh(so, NULL);
	if (err || layout_exists(so, list, n, layout))
		return err;
	return layout_add(so, list, n, tx, layout);
}

/* --- placement --- */

struct placement {
	size_t in_bonus; /* attributes; the rest goes to the spill block */
	size_t header, total;
	bool spill;
};

static bool value_is_variable(const struct sa_os *so, const struct sa_value *v)
{
	return so->reg[so->number[v->attr]].len == 0;
}

/* The rule of 2.5 as it stands: others place by it, too. */
static void values_place(const struct sa_os *so, const struct sa_value *v, size_t n, size_t room, struct placement *p)
{
	size_t hdr = SA_HEADER_MIN, vars = 0, extra = 0, idx = n, total = 0;

	*p = (struct placement){.in_bonus = n};
	for (size_t i = 0; i < n; i++) {
		bool is_var = value_is_variable(so, &v[i]), might;
		size_t tmp;

		total = r8(total) + v[i].len;
		if (p->spill)
			continue;
		vars += is_var;
		tmp = hdr + (is_var && vars > 1 ? 2 : 0);
		might = idx == n && total + r8(tmp) > room - BP_SIZE;
		if (is_var && vars > 1) {
			if (tmp + total >= room) {
				idx = MIN(idx, i);
				p->spill = true;
				continue;
			}
			hdr = tmp;
			if (idx != n || might)
				extra += 2;
		}
		if (might)
			idx = i;
		if (total + r8(hdr) > room)
			p->spill = true;
	}
	if (p->spill) {
		hdr -= extra;
		p->in_bonus = idx;
	}
	p->header = r8(hdr);
	p->total = total;
}

/* Header size and bytes of values that stand by themselves. */
static size_t buffer_size(const struct sa_os *so, const struct sa_value *v, size_t n, size_t *header)
{
	size_t vars = 0, at = 0;

	for (size_t i = 0; i < n; i++) {
		vars += value_is_variable(so, &v[i]);
		at = r8(at) + v[i].len;
	}
	*header = SA_HEADER_MIN + (vars > 1 ? r8(2 * (vars - 1)) : 0);
	return *header + at;
}

/* `p` is zeroed and large enough. */
static int buffer_fill(struct sa_os *so, const struct sa_value *v, size_t n, size_t header, uint8_t *p, struct tx *tx)
{
	autofree uint16_t *list = xcalloc(MAX(n, 1), sizeof(*list));
	size_t at = header, slot = 0;
	unsigned layout;
	int err;

	for (size_t i = 0; i < n; i++)
		list[i] = so->number[v[i].attr];
	err = layout_find(so, list, n, tx, &layout);
	if (err)
		return err;
	store_host32(p, SA_MAGIC);
	store_host16(p + 4, layout | header / 8 << 10);
	for (size_t i = 0; i < n; i++) {
		if (value_is_variable(so, &v[i]))
			store_host16(p + 6 + 2 * slot++, v[i].len);
		at = r8(at);
		memcpy(p + at, v[i].data, v[i].len);
		at += v[i].len;
	}
	return 0;
}

static int bonus_store(struct sa_os *so, struct dnode *dn, const struct sa_value *v, const struct placement *p,
		       size_t room, struct tx *tx)
{
	size_t len = p->spill ? room - BP_SIZE : p->header + p->total;
	autofree uint8_t *bytes = xcalloc(1, room);
	int err = buffer_fill(so, v, p->in_bonus, p->header, bytes, tx);

	if (!err && dn->bonuslen != len)
		err = dmu_bonus_set_size(dn, len, tx);
	return err ? err : dmu_bonus_write(dn, 0, bytes, len, tx);
}

static int spill_store(struct sa_os *so, struct dnode *dn, const struct sa_value *v, size_t n, struct tx *tx)
{
	size_t header, need = buffer_size(so, v, n, &header), size = ROUND_UP(need, 1u << SECTOR_SHIFT);
	autobuf struct buf *b = NULL;
	int err;

	if (size > SA_SPILL_MAX)
		return -EFBIG;
	b = buf_alloc(size);
	if (!b)
		return -ENOMEM;
	memset(b->data, 0, size);
	err = buffer_fill(so, v, n, header, b->data, tx);
	return err ? err : dmu_spill_write(dn, b, tx);
}

static int values_check(const struct sa_os *so, const struct sa_value *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint16_t len = so->reg[so->number[v[i].attr]].len;

		if (v[i].len == 0 || (len && v[i].len != len))
			return -EINVAL;
	}
	return 0;
}

int sa_store(struct sa_os *so, struct dnode *dn, const struct sa_value *v, size_t n, struct tx *tx)
{
	size_t room = ((size_t)dn->slots << 9) - 192;
	struct placement p;
	int err;

	if (dn->bonustype != DMU_OT_SA)
		return -EINVAL;
	SCOPED_LOCK(&so->lock);
	err = attrs_register(so, tx);
	if (!err)
		err = values_check(so, v, n);
	if (err)
		return err;
	values_place(so, v, n, room, &p);
	if (p.total > SA_SPILL_MAX)
		return -EFBIG;
	/* the spill block's pointer takes the end of a full bonus */
	if (!p.spill && dn->has_spill)
		err = dmu_spill_remove(dn, tx);
	if (!err)
		err = bonus_store(so, dn, v, &p, room, tx);
	if (!err && p.spill)
		err = spill_store(so, dn, v + p.in_bonus, n - p.in_bonus, tx);
	return err;
}

/* --- changing in place --- */

/* Words of the order that the buffer is in. */
static int value_turn(const struct sa *sa, const struct sa_value *v, uint8_t *out)
{
	memcpy(out, v->data, v->len);
	if (sa->is_legacy || !sa->attr[v->attr].swap)
		return 0; /* the dmu turns the znode of another machine when it is first changed */
	if (sa_known[v->attr].class == 4)
		return -EINVAL;
	if (sa_known[v->attr].class == 0)
		swap64_buffer(out, v->len);
	return 0;
}

static bool lies_in(const uint8_t *p, const uint8_t *start, size_t len)
{
	return start && p >= start && p < start + len;
}

static int value_update(struct sa *sa, const struct sa_value *v, struct buf **spill, struct tx *tx)
{
	const uint8_t *p = sa->attr[v->attr].data;
	autofree uint8_t *bytes = xmalloc(MAX(v->len, 1));
	int err;

	if (!p)
		return sa->spill_err ? sa->spill_err : -ENOENT;
	if (v->len != sa->attr[v->attr].len)
		return -EINVAL;
	err = value_turn(sa, v, bytes);
	if (err)
		return err;
	if (lies_in(p, sa->bonus, sa->dn->bonuslen))
		return dmu_bonus_write(sa->dn, p - sa->bonus, bytes, v->len, tx);
	if (!sa->spill || !lies_in(p, sa->spill->data, sa->spill->size))
		return -EROFS;
	if (!*spill) {
		*spill = buf_alloc(sa->spill->size);
		if (!*spill)
			return -ENOMEM;
		memcpy((*spill)->data, sa->spill->data, sa->spill->size);
	}
	memcpy((*spill)->data + (p - sa->spill->data), bytes, v->len);
	return 0;
}

int sa_update(struct sa *sa, const struct sa_value *v, size_t n, struct tx *tx)
{
	autobuf struct buf *spill = NULL;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = value_update(sa, &v[i], &spill, tx);
	if (!err && spill)
		err = dmu_spill_write(sa->dn, spill, tx);
	return err;
}
