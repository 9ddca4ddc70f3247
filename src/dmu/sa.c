/*
 * dmu/sa.c: system attributes (docs/format/07-filesystem-zvol-zil.md, section 2).
 *
 * The registry maps the file system's attribute numbers to names and lengths; layouts are lists of those numbers. Both
 * are read once. An attribute buffer (bonus or spill) is then walked by its layout, and what Tarn knows by name is
 * remembered as a pointer into it: nothing is copied.
 */
#include "base/sync.h"
#include "dmu/dmu_impl.h"
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

void sa_reg_set(struct sa_os *so, unsigned number, struct sa_reg r)
{
	if (number >= so->nreg) {
		size_t n = MIN(SA_NUMBERS, ROUND_UP((size_t)number + 1, 32));

		so->reg = xrealloc(so->reg, n * sizeof(*so->reg));
		memset(so->reg + so->nreg, 0, (n - so->nreg) * sizeof(*so->reg));
		so->nreg = n;
	}
	if (so->reg[number].present)
		return;
	so->reg[number].len = r.len;
	so->reg[number].attr = r.attr;
	so->reg[number].class = r.class;
	__atomic_store_n(&so->reg[number].present, true, __ATOMIC_RELEASE);
	if (r.attr != SA_UNKNOWN)
		__atomic_store_n(&so->number[r.attr], (int)number, __ATOMIC_RELEASE);
}

void sa_os_define(struct sa_os *so, unsigned number, const char *name, uint16_t len, uint8_t class)
{
	int attr = sa_attr_by_name(name);

	/* the fixed ones are known already, whatever a damaged registry says of them; and what is known stays */
	if (number < SA_FIXED || number >= SA_NUMBERS || (so->settled && number >= so->nreg))
		return;
	if (attr != SA_UNKNOWN && so->number[attr] != SA_UNKNOWN)
		attr = SA_UNKNOWN; /* a second number for a name of ours: its values are somebody else's */
	if (attr != SA_UNKNOWN)
		class = sa_known[attr].class;
	sa_reg_set(so, number, (struct sa_reg){.len = len, .attr = (int16_t)attr, .class = class});
}

/* What is read of the tables now was added in this group at the latest. */
static uint64_t group_now(const struct sa_os *so)
{
	return so->os->ops && so->os->dp->txgs ? txg_open(so->os->dp->txgs) : 0;
}

void sa_layout_set(struct sa_os *so, unsigned long layout, const uint16_t *numbers, size_t n, uint64_t txg)
{
	struct sa_layout *l = &so->layout[layout < SA_LAYOUTS ? layout : 0];

	if (layout < 2 || layout >= SA_LAYOUTS || n > SA_LAYOUT_LEN || l->number)
		return;
	uint16_t *copy = xcalloc(MAX(n, 1), sizeof(*numbers));
	if (n)
		memcpy(copy, numbers, n * sizeof(*numbers));
	l->n = n;
	l->txg = txg;
	__atomic_store_n(&l->number, copy, __ATOMIC_RELEASE);
	if (layout >= so->layout_end)
		__atomic_store_n(&so->layout_end, (unsigned)layout + 1, __ATOMIC_RELEASE);
}

void sa_os_layout(struct sa_os *so, unsigned long layout, const uint16_t *numbers, size_t n)
{
	sa_layout_set(so, layout, numbers, n, group_now(so));
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
			sa_os_define(so, bits64(ze->first, 0, 16), ze->name, bits64(ze->first, 24, 16),
				     bits64(ze->first, 16, 8));
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

static bool sa_names_are_registered(const struct sa_os *so)
{
	for (unsigned i = 0; i < SA_ATTR_COUNT; i++)
		if (so->number[i] == SA_UNKNOWN)
			return false;
	return so->registry != 0;
}

int sa_os_refresh(struct sa_os *so, struct err *e)
{
	int rc;

	if (!so->sa_attrs)
		return 0;
	so->nregistered = so->nlayouts = 0;
	rc = sa_tables_read(so, so->os, so->sa_attrs, e);
	if (!rc && so->registered == SA_NEVER && sa_names_are_registered(so))
		__atomic_store_n(&so->registered, group_now(so), __ATOMIC_RELEASE);
	return rc;
}

static struct sa_os *sa_os_create(struct objset *os, uint64_t sa_attrs)
{
	struct sa_os *so = xcalloc(1, sizeof(*so));

	pthread_mutex_init(&so->lock, NULL);
	pthread_mutex_init(&so->want_lock, NULL);
	list_init(&so->wanted);
	so->os = os;
	so->sa_attrs = sa_attrs;
	so->registered = SA_NEVER;
	for (unsigned i = 0; i < SA_ATTR_COUNT; i++)
		so->number[i] = SA_UNKNOWN;
	for (unsigned i = 0; i < SA_FIXED; i++)
		sa_reg_set(so, i,
			   (struct sa_reg){.len = sa_known[i].len, .attr = (int16_t)i, .class = sa_known[i].class});
	so->layout[1].number = xcalloc(1, sizeof(uint16_t)); /* the layout of no attributes */
	so->layout_end = 2;
	return so;
}

int sa_os_open(struct objset *os, uint64_t sa_attrs, struct sa_os **out, struct err *e)
{
	struct sa_os *so = sa_os_create(os, sa_attrs);
	int rc = sa_os_refresh(so, e);

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
	for (struct list_node *n; (n = list_pop(&so->wanted));)
		free(container_of(n, struct sa_want, node));
	pthread_mutex_destroy(&so->want_lock);
	pthread_mutex_destroy(&so->lock);
	free(so);
}

void sa_aces_turn(uint8_t *aces, size_t len)
{
	dmu_swap_contents(DMU_OT_ACL, aces, len);
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

int sa_buffer_each(const struct sa_os *so, const uint8_t *p, size_t len,
		   void (*visit)(void *arg, const struct sa_item *item), void *arg)
{
	struct sa_header h;
	size_t at, slot = 0;
	int rc = sa_header_read(so, p, len, &h);

	if (rc)
		return rc;
	at = h.size;
	for (size_t i = 0; i < h.layout->n; i++) {
		const struct sa_reg *r = sa_reg_find(so, h.layout->number[i]);
		size_t alen;

		if (!r)
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
		visit(arg, &(struct sa_item){.number = h.layout->number[i],
					     .len = (uint16_t)alen,
					     .class = r->class,
					     .is_variable = r->len == 0,
					     .swap = h.swap,
					     .data = p + at});
		at += alen;
	}
	return 0;
}

struct sa_finding {
	const struct sa_os *so;
	struct sa *sa;
};

/* The first place an attribute is found in counts. */
static void sa_found(void *arg, const struct sa_item *item)
{
	const struct sa_finding *f = arg;
	int a = sa_reg_find(f->so, item->number)->attr;

	if (a == SA_UNKNOWN || f->sa->attr[a].data)
		return;
	f->sa->attr[a].data = item->data;
	f->sa->attr[a].len = item->len;
	f->sa->attr[a].swap = item->swap;
}

static int sa_buffer_walk(const struct sa_os *so, const uint8_t *p, size_t len, struct sa *sa)
{
	return sa_buffer_each(so, p, len, sa_found, &(struct sa_finding){so, sa});
}

static void sa_legacy_set(struct sa *sa, enum sa_attr a, size_t offset, size_t len, bool swap)
{
	sa->attr[a].data = (sa->bonus ? sa->bonus : sa->dn->bonus) + offset;
	sa->attr[a].len = (uint32_t)len;
	sa->attr[a].swap = swap;
}

/* The fixed znode (2.9): attributes 0 .. 15 in order, then a short symlink target or a scan stamp. */
static int sa_legacy_walk(struct sa *sa, size_t len, bool swap)
{
	size_t at = 0, rest;
	uint64_t mode = 0, size = 0, flags = 0;

	if (len < SA_LEGACY_SIZE)
		return -EIO;
	sa->is_legacy = true;
	for (unsigned i = 0; i < SA_FIXED; i++) {
		sa_legacy_set(sa, (enum sa_attr)i, at, sa_known[i].len, swap);
		at += sa_known[i].len;
	}
	sa_u64(sa, SA_MODE, &mode);
	sa_u64(sa, SA_SIZE, &size);
	sa_u64(sa, SA_FLAGS, &flags);
	rest = len - SA_LEGACY_SIZE;
	if ((mode & 0170000) == 0120000 && size > 0 && size <= rest)
		sa_legacy_set(sa, SA_SYMLINK, SA_LEGACY_SIZE, size, swap);
	else if ((flags & 0x80) && rest >= sa_known[SA_SCANSTAMP].len)
		sa_legacy_set(sa, SA_SCANSTAMP, SA_LEGACY_SIZE, sa_known[SA_SCANSTAMP].len, swap);
	return 0;
}

static void sa_spill_walk(const struct sa_os *so, struct sa *sa)
{
	sa->spill_err = dmu_spill_read(sa->dn, &sa->spill);
	if (!sa->spill_err)
		sa->spill_err = sa_buffer_walk(so, sa->spill->data, sa->spill->size, sa);
}

/* The fields of the dnode that belong together. */
struct sa_source {
	uint8_t bonustype;
	bool swapped, has_spill;
};

/* In a set that is written the bonus changes under its readers: sa->bonus is a copy then. */
static void sa_bonus_take(struct sa *sa, struct sa_source *src)
{
	struct dnode *dn = sa->dn;

	if (!dn->os || !dn->os->ops) {
		*src = (struct sa_source){dn->bonustype, dn->swapped, dn->has_spill};
		sa->bonuslen = dn->bonuslen;
		return;
	}
	SCOPED_LOCK(&dn->lock);
	*src = (struct sa_source){dn->bonustype, dn->swapped, dn->has_spill};
	sa->bonuslen = dn->bonuslen;
	if (sa->bonuslen == 0)
		return;
	sa->bonus = xmalloc(sa->bonuslen);
	memcpy(sa->bonus, dn->bonus, sa->bonuslen);
}

static int sa_walk_once(struct sa_os *so, struct sa *sa)
{
	struct sa_source src;
	int rc = 0;

	sa_bonus_take(sa, &src);
	if (src.bonustype == DMU_OT_ZNODE)
		return sa_legacy_walk(sa, sa->bonuslen, src.swapped);
	if (src.bonustype != DMU_OT_SA)
		return -EINVAL;
	if (sa->bonuslen || !src.has_spill)
		rc = sa_buffer_walk(so, sa->bonus ? sa->bonus : sa->dn->bonus, sa->bonuslen, sa);
	if (!rc && src.has_spill)
		sa_spill_walk(so, sa);
	return rc;
}

int sa_legacy_show(struct sa *sa)
{
	struct sa_source src;

	free(sa->bonus);
	sa->bonus = NULL;
	memset(sa->attr, 0, sizeof(sa->attr));
	sa_bonus_take(sa, &src);
	return sa_legacy_walk(sa, sa->bonuslen, src.swapped);
}

void sa_show(struct sa_os *so, struct sa *sa, uint8_t *bonus, size_t len, struct buf *spill)
{
	if (sa->bonus != bonus)
		free(sa->bonus);
	if (sa->spill != spill)
		buf_release(sa->spill);
	sa->bonus = bonus;
	sa->bonuslen = len;
	sa->spill = spill;
	sa->is_legacy = false;
	memset(sa->attr, 0, sizeof(sa->attr));
	if (len)
		sa_buffer_walk(so, bonus, len, sa);
	if (spill)
		sa_buffer_walk(so, spill->data, spill->size, sa);
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
