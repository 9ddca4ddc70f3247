/*
 * dmu/sa.c: system attributes (docs/format/07-filesystem-zvol-zil.md, section 2).
 *
 * The registry maps the file system's attribute numbers to names and lengths; layouts are lists of those numbers. Both
 * are read once. An attribute buffer (bonus or spill) is then walked by its layout, and what Tarn knows by name is
 * remembered as a pointer into it: nothing is copied.
 */
#include "dmu/sa_impl.h"

#define SA_LEGACY_SIZE 264

/* In the order of enum sa_attr. Lengths are those that new file systems register; old registries may say otherwise. */
const struct sa_known sa_known[SA_ATTR_COUNT] = {
    [SA_ATIME] = {"ZPL_ATIME", 16, 0},
    [SA_MTIME] = {"ZPL_MTIME", 16, 0},
    [SA_CTIME] = {"ZPL_CTIME", 16, 0},
    [SA_CRTIME] = {"ZPL_CRTIME", 16, 0},
    [SA_GEN] = {"ZPL_GEN", 8, 0},
    [SA_MODE] = {"ZPL_MODE", 8, 0},
    [SA_SIZE] = {"ZPL_SIZE", 8, 0},
    [SA_PARENT] = {"ZPL_PARENT", 8, 0},
    [SA_LINKS] = {"ZPL_LINKS", 8, 0},
    [SA_XATTR] = {"ZPL_XATTR", 8, 0},
    [SA_RDEV] = {"ZPL_RDEV", 8, 0},
    [SA_FLAGS] = {"ZPL_FLAGS", 8, 0},
    [SA_UID] = {"ZPL_UID", 8, 0},
    [SA_GID] = {"ZPL_GID", 8, 0},
    [SA_PAD] = {"ZPL_PAD", 32, 0},
    [SA_ZNODE_ACL] = {"ZPL_ZNODE_ACL", 88, 3},
    [SA_DACL_COUNT] = {"ZPL_DACL_COUNT", 8, 0},
    [SA_SYMLINK] = {"ZPL_SYMLINK", 0, 3},
    [SA_SCANSTAMP] = {"ZPL_SCANSTAMP", 32, 3},
    [SA_DACL_ACES] = {"ZPL_DACL_ACES", 0, 4},
    [SA_DXATTR] = {"ZPL_DXATTR", 0, 3},
    [SA_PROJID] = {"ZPL_PROJID", 8, 0},
};

static int sa_attr_by_name(const char *name)
{
	for (int i = 0; i < SA_ATTR_COUNT; i++)
		if (strcmp(sa_known[i].name, name) == 0)
			return i;
	return SA_UNKNOWN;
}

void sa_reg_set(struct sa_os *so, unsigned number, uint16_t len, int attr)
{
	if (number >= so->nreg) {
		size_t n = MIN(SA_NUMBERS, ROUND_UP((size_t)number + 1, 32));

		so->reg = xrealloc(so->reg, n * sizeof(*so->reg));
		memset(so->reg + so->nreg, 0, (n - so->nreg) * sizeof(*so->reg));
		so->nreg = n;
	}
	so->reg[number] = (struct sa_reg){.present = true, .len = len, .attr = (int16_t)attr};
	if (attr != SA_UNKNOWN)
		so->number[attr] = (int)number;
}

void sa_os_define(struct sa_os *so, unsigned number, const char *name, uint16_t len)
{
	/* the fixed ones are known already, whatever a damaged registry says of them; and what is known stays */
	if (number < SA_FIXED || number >= SA_NUMBERS)
		return;
	if (!so->settled || (number < so->nreg && !so->reg[number].present))
		sa_reg_set(so, number, len, sa_attr_by_name(name));
}

void sa_os_layout(struct sa_os *so, unsigned long layout, const uint16_t *numbers, size_t n)
{
	struct sa_layout *l = &so->layout[layout < SA_LAYOUTS ? layout : 0];

	if (layout < 2 || layout >= SA_LAYOUTS || n > SA_LAYOUT_LEN || l->number)
		return;
	uint16_t *copy = xcalloc(MAX(n, 1), sizeof(*numbers));
	if (n)
		memcpy(copy, numbers, n * sizeof(*numbers));
	l->n = n;
	__atomic_store_n(&l->number, copy, __ATOMIC_RELEASE);
}

static int sa_registry_read(struct sa_os *so, struct objset *os, uint64_t object)
{
	struct zap_cursor *c;
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	int rc = zap_cursor_open(os, object, 0, &c);

	if (rc)
		return rc;
	while ((rc = zap_cursor_next(c, ze)) == 0) {
		so->nregistered++;
		if (ze->intsize == 8)
			sa_os_define(so, bits64(ze->first, 0, 16), ze->name, bits64(ze->first, 24, 16));
	}
	zap_cursor_close(c);
	return rc == -ENOENT ? 0 : rc;
}

/* Files whose layout is passed over here will say so. */
static int sa_layout_read(struct sa_os *so, const struct zap_entry *ze, struct zap_cursor *c)
{
	char *end;
	unsigned long layout = strtoul(ze->name, &end, 10);
	autofree uint16_t *numbers = NULL;
	int rc;

	if (*end || ze->intsize != 2 || ze->nints > SA_LAYOUT_LEN)
		return 0;
	numbers = xcalloc(ze->nints + 1, sizeof(*numbers));
	rc = zap_cursor_value(c, numbers, ze->nints);
	if (!rc)
		sa_os_layout(so, layout, numbers, ze->nints);
	return rc;
}

static int sa_layouts_read(struct sa_os *so, struct objset *os, uint64_t object)
{
	struct zap_cursor *c;
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	int rc = zap_cursor_open(os, object, 0, &c);

	if (rc)
		return rc;
	while ((rc = zap_cursor_next(c, ze)) == 0) {
		so->nlayouts++;
		rc = sa_layout_read(so, ze, c);
		if (rc)
			break;
	}
	zap_cursor_close(c);
	return rc == -ENOENT ? 0 : rc;
}

static int sa_tables_read(struct sa_os *so, struct objset *os, uint64_t sa_attrs, struct err *e)
{
	int rc = zap_lookup_u64(os, sa_attrs, "REGISTRY", &so->registry);

	if (rc == -ENOENT)
		return 0; /* nothing was ever stored (2.1) */
	if (rc)
		return err_set(e, rc, "system attributes: master node: %s", err_words(rc));
	rc = zap_lookup_u64(os, sa_attrs, "LAYOUTS", &so->layouts);
	if (rc)
		return err_set(e, rc, "system attributes: no layouts: %s", err_words(rc));
	rc = sa_registry_read(so, os, so->registry);
	if (rc)
		return err_set(e, rc, "system attributes: registry: %s", err_words(rc));
	rc = sa_layouts_read(so, os, so->layouts);
	if (rc)
		return err_set(e, rc, "system attributes: layouts: %s", err_words(rc));
	return 0;
}

int sa_os_refresh(struct sa_os *so, struct err *e)
{
	if (!so->sa_attrs)
		return 0;
	so->nregistered = so->nlayouts = 0;
	return sa_tables_read(so, so->os, so->sa_attrs, e);
}

int sa_os_open(struct objset *os, uint64_t sa_attrs, struct sa_os **out, struct err *e)
{
	struct sa_os *so = xcalloc(1, sizeof(*so));
	int rc = 0;

	pthread_mutex_init(&so->lock, NULL);
	so->os = os;
	so->sa_attrs = sa_attrs;
	for (unsigned i = 0; i < SA_ATTR_COUNT; i++)
		so->number[i] = SA_UNKNOWN;
	for (unsigned i = 0; i < SA_FIXED; i++)
		sa_reg_set(so, i, sa_known[i].len, (int)i);
	so->layout[1].number = xcalloc(1, sizeof(uint16_t)); /* the layout of no attributes */
	rc = sa_os_refresh(so, e);
	if (rc) {
		sa_os_close(so);
		return rc;
	}
	/* readers hold no lock: the table does not move when names are registered */
	so->reg = xrealloc(so->reg, (so->nreg + SA_ATTR_COUNT) * sizeof(*so->reg));
	memset(so->reg + so->nreg, 0, SA_ATTR_COUNT * sizeof(*so->reg));
	so->nreg += SA_ATTR_COUNT;
	so->settled = true;
	*out = so;
	return 0;
}

void sa_os_close(struct sa_os *so)
{
	if (!so)
		return;
	for (unsigned i = 0; i < SA_LAYOUTS; i++)
		free(so->layout[i].number);
	free(so->reg);
	pthread_mutex_destroy(&so->lock);
	free(so);
}

/* What the header of an attribute buffer says (2.4). */
struct sa_header {
	bool swap;
	const struct sa_layout *layout;
	size_t size;
};

static int sa_header_read(const struct sa_os *so, const uint8_t *p, size_t len, struct sa_header *h)
{
	uint32_t magic;
	uint16_t info;

	if (len < 8)
		return -EIO;
	magic = load_host32(p);
	h->swap = magic == __builtin_bswap32(SA_MAGIC);
	if (magic != SA_MAGIC && !h->swap)
		return -EIO;
	info = load16(p + 4, h->swap);
	h->layout = &so->layout[MAX(bits64(info, 0, 10), 1)];
	h->size = bits64(info, 10, 6) * 8;
	if (!sa_layout_exists(h->layout) || h->size < 8 || h->size > len)
		return -EIO;
	return 0;
}

/* Walk the attributes of one buffer; the first place an attribute is found in counts. */
static int sa_buffer_walk(const struct sa_os *so, const uint8_t *p, size_t len, struct sa *sa)
{
	struct sa_header h;
	size_t at, slot = 0;
	int rc = sa_header_read(so, p, len, &h);

	if (rc)
		return rc;
	at = h.size;
	for (size_t i = 0; i < h.layout->n; i++) {
		unsigned number = h.layout->number[i];
		const struct sa_reg *r = number < so->nreg ? &so->reg[number] : NULL;
		size_t alen;

		if (!r || !r->present)
			return -EIO;
		alen = r->len;
		if (alen == 0) {
			if (6 + 2 * (slot + 1) > h.size)
				return -EIO;
			alen = load16(p + 6 + 2 * slot++, h.swap);
		}
		at = ROUND_UP(at, 8);
		if (at > len || alen > len - at)
			return -EIO;
		if (r->attr != SA_UNKNOWN && !sa->attr[r->attr].data) {
			sa->attr[r->attr].data = p + at;
			sa->attr[r->attr].len = (uint32_t)alen;
			sa->attr[r->attr].swap = h.swap;
		}
		at += alen;
	}
	return 0;
}

static void sa_legacy_set(struct sa *sa, enum sa_attr a, size_t offset, size_t len)
{
	sa->attr[a].data = (sa->bonus ? sa->bonus : sa->dn->bonus) + offset;
	sa->attr[a].len = (uint32_t)len;
	sa->attr[a].swap = sa->dn->swapped;
}

/* The fixed znode (2.9): attributes 0 .. 15 in order, then a short symlink target or a scan stamp. */
static int sa_legacy_walk(struct sa *sa, size_t len)
{
	size_t at = 0, rest;
	uint64_t mode = 0, size = 0, flags = 0;

	if (len < SA_LEGACY_SIZE)
		return -EIO;
	sa->is_legacy = true;
	for (unsigned i = 0; i < SA_FIXED; i++) {
		sa_legacy_set(sa, (enum sa_attr)i, at, sa_known[i].len);
		at += sa_known[i].len;
	}
	sa_u64(sa, SA_MODE, &mode);
	sa_u64(sa, SA_SIZE, &size);
	sa_u64(sa, SA_FLAGS, &flags);
	rest = len - SA_LEGACY_SIZE;
	if ((mode & 0170000) == 0120000 && size > 0 && size <= rest)
		sa_legacy_set(sa, SA_SYMLINK, SA_LEGACY_SIZE, size);
	else if ((flags & 0x80) && rest >= sa_known[SA_SCANSTAMP].len)
		sa_legacy_set(sa, SA_SCANSTAMP, SA_LEGACY_SIZE, sa_known[SA_SCANSTAMP].len);
	return 0;
}

static void sa_spill_walk(const struct sa_os *so, struct sa *sa)
{
	sa->spill_err = dmu_spill_read(sa->dn, &sa->spill);
	if (!sa->spill_err)
		sa->spill_err = sa_buffer_walk(so, sa->spill->data, sa->spill->size, sa);
}

/* In a set that is written the bonus changes under its readers. */
static int sa_bonus_take(struct sa *sa, size_t *len)
{
	struct dnode *dn = sa->dn;

	*len = dn->bonuslen;
	if (!dn->os || !dn->os->ops || *len == 0)
		return 0;
	sa->bonus = xmalloc(*len);
	return dmu_bonus_read(dn, 0, sa->bonus, *len);
}

static int sa_walk_once(struct sa_os *so, struct sa *sa)
{
	struct dnode *dn = sa->dn;
	size_t len;
	int rc = sa_bonus_take(sa, &len);

	if (rc)
		return rc;
	if (dn->bonustype == DMU_OT_ZNODE)
		return sa_legacy_walk(sa, len);
	if (dn->bonustype != DMU_OT_SA)
		return -EINVAL;
	rc = len || !dn->has_spill ? sa_buffer_walk(so, sa->bonus ? sa->bonus : dn->bonus, len, sa) : 0;
	if (!rc && dn->has_spill)
		sa_spill_walk(so, sa);
	return rc;
}

/* Somebody else may have added to the tables of a set that is written. */
static int sa_walk(struct sa_os *so, struct sa *sa)
{
	struct dnode *dn = sa->dn;
	int rc = sa_walk_once(so, sa);

	if ((rc != -EIO && sa->spill_err != -EIO) || !dn->os || !dn->os->ops)
		return rc;
	pthread_mutex_lock(&so->lock);
	rc = sa_os_refresh(so, NULL);
	pthread_mutex_unlock(&so->lock);
	buf_release(sa->spill);
	free(sa->bonus);
	*sa = (struct sa){.dn = dn};
	return rc ? rc : sa_walk_once(so, sa);
}

int sa_open(struct sa_os *so, struct dnode *dn, struct sa *out)
{
	int rc;

	*out = (struct sa){.dn = dn};
	rc = sa_walk(so, out);
	if (rc) {
		buf_release(out->spill);
		free(out->bonus);
		*out = (struct sa){0};
		return rc;
	}
	dnode_ref(dn);
	return 0;
}

void sa_close(struct sa *sa)
{
	buf_release(sa->spill);
	if (sa->dn)
		dnode_release(sa->dn);
	free(sa->bonus);
	*sa = (struct sa){0};
}

int sa_bytes(const struct sa *sa, enum sa_attr a, const uint8_t **data, uint32_t *len)
{
	if (!sa->attr[a].data)
		return sa->spill_err ? sa->spill_err : -ENOENT;
	*data = sa->attr[a].data;
	*len = sa->attr[a].len;
	return 0;
}

int sa_u64(const struct sa *sa, enum sa_attr a, uint64_t *v)
{
	const uint8_t *p;
	uint32_t len;
	int rc = sa_bytes(sa, a, &p, &len);

	if (rc)
		return rc;
	if (len < 8)
		return -EIO;
	*v = load64(p, sa->attr[a].swap);
	return 0;
}

int sa_time(const struct sa *sa, enum sa_attr a, int64_t tv[2])
{
	const uint8_t *p;
	uint32_t len;
	int rc = sa_bytes(sa, a, &p, &len);

	if (rc)
		return rc;
	if (len < 16)
		return -EIO;
	tv[0] = (int64_t)load64(p, sa->attr[a].swap);
	tv[1] = (int64_t)load64(p + 8, sa->attr[a].swap);
	return 0;
}
