/*
 * zpl/zpl_convert.c: legacy znodes that get attributes (07-filesystem-zvol-zil.md, 2.10).
 */
#include "zpl/zpl_impl.h"

#define VALUES_MAX (SA_ATTR_COUNT + 1)
#define WORDS      20

/* What the object will have; words and aces are what values point to. */
struct conversion {
	struct sa_value v[VALUES_MAX];
	size_t n, nwords;
	uint64_t word[WORDS];
	uint8_t *aces;
};

static void value_add(struct conversion *c, enum sa_attr a, const void *data, size_t len)
{
	c->v[c->n++] = (struct sa_value){a, data, (uint16_t)len};
}

static void words_add(struct conversion *c, enum sa_attr a, const uint64_t *w, size_t n)
{
	memcpy(c->word + c->nwords, w, 8 * n);
	value_add(c, a, c->word + c->nwords, 8 * n);
	c->nwords += n;
}

static int attr_add(struct conversion *c, const struct sa *sa, enum sa_attr a)
{
	bool is_time = a == SA_ATIME || a == SA_MTIME || a == SA_CTIME || a == SA_CRTIME;
	int64_t t[2];
	uint64_t w;
	int err = is_time ? sa_time(sa, a, t) : sa_u64(sa, a, &w);

	if (!err && is_time)
		words_add(c, a, (const uint64_t *)t, 2);
	else if (!err)
		words_add(c, a, &w, 1);
	return err;
}

static const struct sa_value *value_find(const struct sa_value *v, size_t n, enum sa_attr a)
{
	for (size_t i = n; i > 0; i--) /* the last one counts */
		if (v[i - 1].attr == a)
			return &v[i - 1];
	return NULL;
}

/* What accounting finds at fixed places. */
static int fixed_add(struct conversion *c, const struct sa *sa, const struct sa_value *projid)
{
	static const enum sa_attr order[] = {SA_MODE,  SA_SIZE,  SA_GEN,   SA_UID,   SA_GID,    SA_PARENT,
					     SA_FLAGS, SA_ATIME, SA_MTIME, SA_CTIME, SA_CRTIME, SA_LINKS};
	int err = 0;

	for (size_t i = 0; i < ARRAY_LEN(order) && !err; i++)
		err = attr_add(c, sa, order[i]);
	if (!err && projid && projid->len)
		c->v[c->n++] = *projid;
	return err;
}

/* Not asked for when the values say what it will be. */
static int acl_add(struct conversion *c, struct znode *zn, const struct sa_value *v, size_t n)
{
	size_t len, count;
	uint64_t word;
	int err;

	if (value_find(v, n, SA_DACL_COUNT) || value_find(v, n, SA_DACL_ACES))
		return 0;
	err = zpl_acl_legacy_v1(zn, &c->aces, &len, &count);
	if (err)
		return err == -ENOENT ? 0 : err; /* the mode says it all */
	if (len > UINT16_MAX)
		return -EFBIG;
	word = count;
	words_add(c, SA_DACL_COUNT, &word, 1);
	value_add(c, SA_DACL_ACES, c->aces, len);
	return 0;
}

static int rest_add(struct conversion *c, struct znode *zn, const struct sa_value *v, size_t n)
{
	const struct sa *sa = &zn->sa;
	uint64_t xattr;
	int err = ZPL_IS_DEVICE(zn) ? attr_add(c, sa, SA_RDEV) : 0;

	if (!err)
		err = acl_add(c, zn, v, n);
	if (!err && sa_u64(sa, SA_XATTR, &xattr) == 0 && xattr)
		err = attr_add(c, sa, SA_XATTR);
	if (!err && sa->attr[SA_SCANSTAMP].data)
		value_add(c, SA_SCANSTAMP, sa->attr[SA_SCANSTAMP].data, sa->attr[SA_SCANSTAMP].len);
	return err;
}

static void value_remove(struct conversion *c, struct sa_value *at)
{
	memmove(at, at + 1, (size_t)(c->v + c->n - (at + 1)) * sizeof(*at));
	c->n--;
}

/* The new values: at their places, those without one at the end. */
static void values_apply(struct conversion *c, const struct sa_value *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct sa_value *there = (struct sa_value *)value_find(c->v, c->n, v[i].attr);

		if (there && v[i].len)
			*there = v[i];
		else if (there)
			value_remove(c, there);
		else if (v[i].len)
			c->v[c->n++] = v[i];
	}
}

/* The stamp is an attribute like others now. */
static int stamp_flag_clear(struct conversion *c)
{
	struct sa_value *flags = (struct sa_value *)value_find(c->v, c->n, SA_FLAGS);
	uint64_t *w = &c->word[c->nwords++];

	if (!flags || flags->len != sizeof(*w))
		return -EINVAL;
	memcpy(w, flags->data, sizeof(*w));
	*w &= ~(uint64_t)ZPL_BONUS_STAMP;
	flags->data = w;
	return 0;
}

static int list_make(struct conversion *c, struct znode *zn, const struct sa_value *v, size_t n)
{
	int err = fixed_add(c, &zn->sa, value_find(v, n, SA_PROJID));

	if (!err)
		err = rest_add(c, zn, v, n);
	if (err)
		return err;
	values_apply(c, v, n);
	return stamp_flag_clear(c);
}

static bool may_be_converted(const struct znode *zn)
{
	return zn->zpl->version >= ZPL_VERSION_SA && !ZPL_IS_LINK(zn);
}

static int convert(struct znode *zn, const struct sa_value *v, size_t n, struct tx *tx)
{
	struct conversion c = {0};
	uint64_t acl;
	int err = zpl_acl_legacy_object(zn, &acl);

	if (!err)
		err = list_make(&c, zn, v, n);
	if (!err)
		err = sa_convert(zn->zpl->sa, &zn->sa, c.v, c.n, tx);
	free(c.aces);
	if (!err && acl) /* if it cannot be freed it is only lost */
		dmu_object_free(zn->zpl->os, acl, tx);
	return err;
}

int zpl_sa_change(struct znode *zn, const struct sa_value *v, size_t n, struct tx *tx)
{
	int err = sa_change(zn->zpl->sa, &zn->sa, v, n, tx);

	return err == -ENOTSUP && zn->sa.is_legacy && may_be_converted(zn) ? convert(zn, v, n, tx) : err;
}
