/*
 * dmu/sa_change.c: other values for some attributes of one object (docs/format/07-filesystem-zvol-zil.md, 2.6, 2.7).
 */
#include "dmu/sa_impl.h"

/* What accounting finds at fixed places: MODE to LINKS in this order, then PROJID (2.7). */
static const enum sa_attr fixed_order[] = {
    SA_MODE,  SA_SIZE,  SA_GEN,   SA_UID,    SA_GID,   SA_PARENT, SA_FLAGS,
    SA_ATIME, SA_MTIME, SA_CTIME, SA_CRTIME, SA_LINKS, SA_PROJID,
};
#define PROJID_OFFSET 128 /* after the header */

static bool lies_in(const uint8_t *p, const uint8_t *start, size_t len)
{
	return start && p >= start && p < start + len;
}

/* --- in place --- */

static bool is_absent(const struct sa *sa, enum sa_attr a)
{
	return !sa->attr[a].data && (!sa->spill_err || sa->spill_err == -ENOENT);
}

/* Where accounting looks for it. */
static bool projid_has_its_place(const struct sa *sa)
{
	const uint8_t *start = sa->bonuslen ? sa->bonus : sa->spill ? sa->spill->data : NULL;

	return start && sa->attr[SA_PROJID].data == start + sa_header_size(start) + PROJID_OFFSET;
}

static bool value_fits(const struct sa *sa, const struct sa_value *v)
{
	if (v->len == 0)
		return is_absent(sa, v->attr);
	if (!sa->attr[v->attr].data || v->len != sa->attr[v->attr].len)
		return false;
	if (sa->attr[v->attr].swap && sa_known[v->attr].class == SA_CLASS_ACL)
		return false; /* entries are turned one way only: to our order */
	return v->attr != SA_PROJID || projid_has_its_place(sa);
}

/* In the order that the buffer is in. */
static void value_write(const struct sa *sa, const struct sa_value *v, uint8_t *p)
{
	memmove(p, v->data, v->len);
	if (sa->attr[v->attr].swap && sa_known[v->attr].class == 0)
		swap64_buffer(p, v->len);
}

static bool is_in_spill(const struct sa *sa, enum sa_attr a)
{
	return sa->spill && lies_in(sa->attr[a].data, sa->spill->data, sa->spill->size);
}

/* The spill block with its new values; NULL: none of them is there. */
static int spill_update(const struct sa *sa, const struct sa_value *v, size_t n, struct buf **out)
{
	*out = NULL;
	for (size_t i = 0; i < n; i++) {
		if (v[i].len == 0 || !is_in_spill(sa, v[i].attr))
			continue;
		if (!*out) {
			*out = buf_alloc(sa->spill->size);
			if (!*out)
				return -ENOMEM;
			memcpy((*out)->data, sa->spill->data, sa->spill->size);
		}
		value_write(sa, &v[i], (*out)->data + (sa->attr[v[i].attr].data - sa->spill->data));
	}
	return 0;
}

static int bonus_update(struct sa *sa, const struct sa_value *v, struct tx *tx)
{
	size_t at = (size_t)(sa->attr[v->attr].data - sa->bonus);
	autofree uint8_t *bytes = xmalloc(v->len);
	int err;

	value_write(sa, v, bytes);
	err = dmu_bonus_write(sa->dn, at, bytes, v->len, tx);
	if (!err)
		memcpy(sa->bonus + at, bytes, v->len);
	return err;
}

static int change_in_place(struct sa_os *so, struct sa *sa, const struct sa_value *v, size_t n, struct tx *tx)
{
	struct buf *spill;
	int err = spill_update(sa, v, n, &spill);

	for (size_t i = 0; i < n && !err; i++)
		if (v[i].len && !is_in_spill(sa, v[i].attr))
			err = bonus_update(sa, &v[i], tx);
	if (!err && spill)
		err = dmu_spill_write(sa->dn, spill, tx);
	if (err || !spill) {
		buf_release(spill);
		return err;
	}
	sa_show(so, sa, sa->bonus, sa->bonuslen, spill);
	return 0;
}

/* --- placed anew --- */

struct items {
	struct sa_item *v;
	size_t n, room;
	int err;
};

static struct sa_item *items_find(const struct items *l, int number)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].number == number)
			return &l->v[i];
	return NULL;
}

static void items_append(struct items *l, const struct sa_item *item)
{
	if (l->n == l->room) {
		l->room = MAX(32, 2 * l->room);
		l->v = xrealloc(l->v, l->room * sizeof(*l->v));
	}
	l->v[l->n++] = *item;
}

/* The first place an attribute is found in counts. */
static void items_collect(void *arg, const struct sa_item *item)
{
	struct items *l = arg;

	if (items_find(l, item->number))
		return;
	if (item->swap && item->class >= SA_CLASSES)
		l->err = -ENOTSUP;
	items_append(l, item);
}

static int items_of(struct sa_os *so, const struct sa *sa, struct items *l)
{
	int err = sa->spill_err == -ENOENT ? 0 : sa->spill_err;

	if (!err && sa->bonuslen)
		err = sa_buffer_each(so, sa->bonus, sa->bonuslen, items_collect, l);
	if (!err && sa->spill)
		err = sa_buffer_each(so, sa->spill->data, sa->spill->size, items_collect, l);
	return err ? err : l->err;
}

static void items_remove(struct items *l, struct sa_item *item)
{
	size_t after = (size_t)(l->v + l->n - (item + 1));

	memmove(item, item + 1, after * sizeof(*item));
	l->n--;
}

static int items_set(struct sa_os *so, struct items *l, const struct sa_value *v)
{
	struct sa_item *there = items_find(l, sa_number(so, v->attr)), item;
	int err;

	if (v->len == 0) {
		if (there)
			items_remove(l, there);
		return 0;
	}
	err = sa_item_from_value(so, v, &item);
	if (!err && there)
		*there = item;
	else if (!err)
		items_append(l, &item);
	return err;
}

/* A project id counts at its fixed place only: what must be before it comes first. */
static int items_order(struct sa_os *so, struct items *l)
{
	struct items ordered = {0};

	for (size_t i = 0; i < ARRAY_LEN(fixed_order); i++) {
		struct sa_item *item = items_find(l, sa_number(so, fixed_order[i]));

		if (!item) {
			free(ordered.v);
			return -ENOTSUP;
		}
		items_append(&ordered, item);
		items_remove(l, item);
	}
	for (size_t i = 0; i < l->n; i++)
		items_append(&ordered, &l->v[i]);
	free(l->v);
	*l = ordered;
	return 0;
}

static int items_change(struct sa_os *so, const struct sa *sa, const struct sa_value *v, size_t n, struct items *l)
{
	bool projid = false;
	int err = items_of(so, sa, l);

	for (size_t i = 0; i < n && !err; i++) {
		err = items_set(so, l, &v[i]);
		projid |= v[i].attr == SA_PROJID;
	}
	if (!err && projid && items_find(l, sa_number(so, SA_PROJID)))
		err = items_order(so, l);
	return err;
}

static int change_placed(struct sa_os *so, struct sa *sa, const struct sa_value *v, size_t n, struct tx *tx)
{
	struct sa_image im = {0};
	struct items l = {0};
	int err = sa_names_need(so, tx);

	if (!err)
		err = items_change(so, sa, v, n, &l);
	if (!err)
		err = sa_image_make(so, sa->dn, l.v, l.n, sa->spill ? sa->spill->size : 0, tx, &im);
	if (!err)
		err = sa_image_write(sa->dn, &im, tx);
	free(l.v);
	if (err)
		sa_image_free(&im);
	else
		sa_show(so, sa, im.bonus, im.len, im.spill);
	return err;
}

/* --- legacy znodes --- */

static const uint64_t no_xattr;

/* Every place is fixed; no directory of attributes is one of number 0. */
static struct sa_value legacy_value(const struct sa_value *v)
{
	if (v->attr == SA_XATTR && v->len == 0)
		return (struct sa_value){SA_XATTR, &no_xattr, sizeof(no_xattr)};
	return *v;
}

static int change_legacy(struct sa *sa, const struct sa_value *v, size_t n, struct tx *tx)
{
	int err = 0;

	for (size_t i = 0; i < n; i++) {
		struct sa_value w = legacy_value(&v[i]);

		if (w.len == 0 ? !is_absent(sa, w.attr) : !sa->attr[w.attr].data || w.len != sa->attr[w.attr].len)
			return -ENOTSUP;
	}
	for (size_t i = 0; i < n && !err; i++) {
		struct sa_value w = legacy_value(&v[i]);

		/* the znode of another machine is turned when it is first changed */
		if (w.len)
			err = dmu_bonus_write(sa->dn, (size_t)(sa->attr[w.attr].data - sa->bonus), w.data, w.len, tx);
	}
	return err ? err : sa_legacy_show(sa);
}

int sa_change(struct sa_os *so, struct sa *sa, const struct sa_value *v, size_t n, struct tx *tx)
{
	bool fits = true;

	if (!sa->dn->os || !sa->dn->os->ops)
		return -EROFS;
	if (sa->is_legacy)
		return change_legacy(sa, v, n, tx);
	for (size_t i = 0; i < n && fits; i++)
		fits = value_fits(sa, &v[i]);
	/* What is late may find the attributes of its own group elsewhere. */
	if (fits && !sa_is_late(sa->dn, tx))
		return change_in_place(so, sa, v, n, tx);
	return change_placed(so, sa, v, n, tx);
}
