/*
 * dmu/sa_write.c: placing system attributes in bonus and spill block (docs/format/07-filesystem-zvol-zil.md, 2.4, 2.5).
 * Everything is made ready first; then it is written, and nothing can fail any more.
 */
#include "base/sync.h"
#include "dmu/dbuf.h"
#include "dmu/sa_impl.h"

#define SA_SPILL_MAX  131072u
#define SA_HEADER_MIN 8u
#define SA_HEADER_MAX 504u /* 6 bits count its words */

static size_t r8(size_t n)
{
	return ROUND_UP(n, 8);
}

/* --- placement --- */

struct placement {
	size_t in_bonus; /* attributes; the rest goes to the spill block */
	size_t header, total;
	bool spill;
};

/* The rule of 2.5 as it stands: others place by it, too. */
static void items_place(const struct sa_item *v, size_t n, size_t room, struct placement *p)
{
	size_t hdr = SA_HEADER_MIN, vars = 0, extra = 0, idx = n, total = 0;

	*p = (struct placement){.in_bonus = n};
	for (size_t i = 0; i < n; i++) {
		bool is_var = v[i].is_variable, might;
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

/* Header size and bytes of attributes that stand by themselves. */
static size_t buffer_size(const struct sa_item *v, size_t n, size_t *header)
{
	size_t vars = 0, at = 0;

	for (size_t i = 0; i < n; i++) {
		vars += v[i].is_variable;
		at = r8(at) + v[i].len;
	}
	*header = SA_HEADER_MIN + (vars > 1 ? r8(2 * (vars - 1)) : 0);
	return *header + at;
}

static void item_copy(const struct sa_item *v, uint8_t *out)
{
	static const uint8_t type[SA_CLASSES] = {0x83, 0x82, 0x81, 0x80, DMU_OT_ACL};

	if (v->len)
		memcpy(out, v->data, v->len);
	if (v->swap && v->class < SA_CLASSES)
		dmu_swap_contents(type[v->class], out, v->len);
}

/* `p` is zeroed and large enough. */
static void buffer_fill(const struct sa_item *v, size_t n, unsigned layout, size_t header, uint8_t *p)
{
	size_t at = header, slot = 0;

	store_host32(p, SA_MAGIC);
	store_host16(p + 4, (uint16_t)(layout | header / 8 << 10));
	for (size_t i = 0; i < n; i++) {
		if (v[i].is_variable)
			store_host16(p + 6 + 2 * slot++, v[i].len);
		at = r8(at);
		item_copy(&v[i], p + at);
		at += v[i].len;
	}
}

/* --- what is to be written --- */

static int layout_of(struct sa_os *so, const struct sa_item *v, size_t n, struct tx *tx, unsigned *layout)
{
	autofree uint16_t *list = xcalloc(MAX(n, 1), sizeof(*list));

	if (n > SA_LAYOUT_LEN)
		return -EFBIG;
	for (size_t i = 0; i < n; i++)
		list[i] = v[i].number;
	return sa_layout_need(so, list, n, tx, layout);
}

struct plan {
	struct placement p;
	unsigned bonus_layout, spill_layout;
	size_t bonus_len, spill_header, spill_size;
};

static int plan_sizes(const struct sa_item *v, size_t n, size_t room, size_t spill_size, struct plan *pl)
{
	struct placement *p = &pl->p;
	size_t need;

	items_place(v, n, room, p);
	pl->bonus_len = p->spill ? room - BP_SIZE : p->header + p->total;
	if (p->total > SA_SPILL_MAX || p->header > SA_HEADER_MAX)
		return -EFBIG;
	if (!p->spill)
		return 0;
	need = buffer_size(v + p->in_bonus, n - p->in_bonus, &pl->spill_header);
	pl->spill_size = ROUND_UP(need, 1u << SECTOR_SHIFT);
	if (pl->spill_size > SA_SPILL_MAX || pl->spill_header > SA_HEADER_MAX)
		return -EFBIG;
	if (spill_size <= SA_SPILL_MAX) /* a block that is large enough keeps its size */
		pl->spill_size = MAX(pl->spill_size, spill_size);
	return 0;
}

/* Both are asked for at once, so that one call of sa_layouts_add does. */
static int plan_layouts(struct sa_os *so, const struct sa_item *v, size_t n, struct tx *tx, struct plan *pl)
{
	size_t k = pl->p.in_bonus;
	int err = layout_of(so, v, k, tx, &pl->bonus_layout), spill_err = 0;

	if (pl->p.spill && (!err || err == -EAGAIN))
		spill_err = layout_of(so, v + k, n - k, tx, &pl->spill_layout);
	return spill_err && spill_err != -EAGAIN ? spill_err : err ? err : spill_err;
}

/* Bytes of bonus and spill pointer together. */
static size_t dnode_room(struct dnode *dn)
{
	struct dnode_dirty *dd;
	SCOPED_LOCK(&dn->lock);

	dd = dnode_dirty_peek(dn);
	return ((size_t)dn->slots << DNODE_SHIFT) - 64 - (size_t)(dd ? dd->nblkptr : dn->nblkptr) * BP_SIZE;
}

int sa_image_make(struct sa_os *so, struct dnode *dn, const struct sa_item *item, size_t n, size_t spill_size,
		  struct tx *tx, struct sa_image *out)
{
	size_t room = dnode_room(dn);
	struct plan pl = {0};
	int err;

	*out = (struct sa_image){0};
	if (room < BP_SIZE + SA_HEADER_MIN) /* no attributes have ever been here */
		return -EINVAL;
	err = plan_sizes(item, n, room, spill_size, &pl);
	if (!err)
		err = plan_layouts(so, item, n, tx, &pl);
	if (err)
		return err;
	if (pl.p.spill) {
		out->spill = buf_alloc(pl.spill_size);
		if (!out->spill)
			return -ENOMEM;
		memset(out->spill->data, 0, pl.spill_size);
		buffer_fill(item + pl.p.in_bonus, n - pl.p.in_bonus, pl.spill_layout, pl.spill_header,
			    out->spill->data);
	}
	out->len = pl.bonus_len;
	out->bonus = xcalloc(1, pl.bonus_len);
	buffer_fill(item, pl.p.in_bonus, pl.bonus_layout, pl.p.header, out->bonus);
	return 0;
}

void sa_image_free(struct sa_image *im)
{
	free(im->bonus);
	buf_release(im->spill);
	*im = (struct sa_image){0};
}

bool sa_is_late(struct dnode *dn, const struct tx *tx)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);

	return dd && atomic_load(&dd->newest) > tx->txg;
}

/* What a late transaction writes goes to its own group and to younger ones, and those may have left the object in
 * another form than its own finds it in: nothing is taken for granted then. */
int sa_image_write(struct dnode *dn, const struct sa_image *im, struct tx *tx)
{
	bool late = sa_is_late(dn, tx);
	int err = 0;

	/* the spill block's pointer takes the end of a full bonus */
	if (!im->spill && (dn->has_spill || late))
		err = dmu_spill_remove(dn, tx);
	if (err)
		return err;
	if (dn->bonustype != DMU_OT_SA || late)
		dmu_object_set_type(dn, dnode_type(dn), DMU_OT_SA, (uint16_t)im->len, tx);
	else if (dn->bonuslen != im->len)
		err = dmu_bonus_set_size(dn, im->len, tx);
	if (!err)
		err = dmu_bonus_write(dn, 0, im->bonus, im->len, tx);
	if (!err && im->spill)
		err = dmu_spill_write(dn, im->spill, tx);
	return err;
}

/* --- storing --- */

int sa_item_from_value(const struct sa_os *so, const struct sa_value *v, struct sa_item *item)
{
	int number = sa_number(so, v->attr);
	const struct sa_reg *r = sa_reg_find(so, (unsigned)number);

	if (!r || v->len == 0 || (r->len && v->len != r->len))
		return -EINVAL;
	if (v->attr == SA_PAD || v->attr == SA_ZNODE_ACL) /* the legacy znode's only */
		return -EINVAL;
	*item = (struct sa_item){
	    .number = (uint16_t)number, .len = v->len, .class = r->class, .is_variable = r->len == 0, .data = v->data};
	return 0;
}

static int values_image(struct sa_os *so, struct dnode *dn, const struct sa_value *v, size_t n, struct tx *tx,
			struct sa_image *out)
{
	autofree struct sa_item *item = xcalloc(MAX(n, 1), sizeof(*item));
	int err = dn->bonus_encrypted ? -EKEY : sa_names_need(so, tx);

	for (size_t i = 0; i < n && !err; i++)
		err = sa_item_from_value(so, &v[i], &item[i]);
	return err ? err : sa_image_make(so, dn, item, n, 0, tx, out);
}

int sa_store(struct sa_os *so, struct dnode *dn, const struct sa_value *v, size_t n, struct tx *tx)
{
	struct sa_image im = {0};
	int err = dn->bonustype == DMU_OT_SA ? values_image(so, dn, v, n, tx, &im) : -EINVAL;

	if (!err)
		err = sa_image_write(dn, &im, tx);
	sa_image_free(&im);
	return err;
}

int sa_convert(struct sa_os *so, struct sa *sa, const struct sa_value *v, size_t n, struct tx *tx)
{
	struct sa_image im = {0};
	int err = sa->is_legacy ? values_image(so, sa->dn, v, n, tx, &im) : -EINVAL;

	if (!err)
		err = sa_image_write(sa->dn, &im, tx);
	if (!err) {
		sa_show(so, sa, im.bonus, im.len, im.spill);
		im = (struct sa_image){0};
	}
	sa_image_free(&im);
	return err;
}
