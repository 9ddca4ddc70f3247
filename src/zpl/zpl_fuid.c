/*
 * zpl/zpl_fuid.c: domains of user and group ids that came from Windows networks
 * (docs/format/07-filesystem-zvol-zil.md, 5.6).
 */
#include "zpl/zpl_impl.h"

#define FUID_TABLE_TYPE 35
#define FUID_TABLE_MAX  (4u << 20) /* bytes; a domain takes some 100 */

struct zpl_fuid {
	struct nvlist *table;
	struct nvlist *const *domain; /* into table */
	size_t n;
};

static int zpl_fuid_parse(struct zpl_fuid *f, const void *packed, size_t len)
{
	int rc = nvlist_unpack(packed, len, &f->table, NULL);

	if (rc)
		return rc;
	return nvlist_lists(f->table, "fuid_nvlist", &f->domain, &f->n);
}

static int zpl_fuid_read(struct zpl *z, struct zpl_fuid *f)
{
	struct dnode *dn;
	uint64_t len = 0;
	autofree void *packed = NULL;
	int rc = dnode_hold(z->os, z->fuid_table, &dn, NULL);

	if (rc)
		return rc;
	if (dn->type != FUID_TABLE_TYPE || dmu_bonus_u64(dn, 0, &len) || len == 0 || len > FUID_TABLE_MAX)
		rc = -EINVAL;
	packed = rc ? NULL : malloc(len);
	if (!rc && !packed)
		rc = -ENOMEM;
	if (!rc)
		rc = dmu_read(dn, 0, packed, len, 0);
	dnode_release(dn);
	return rc ? rc : zpl_fuid_parse(f, packed, len);
}

/* A damaged table costs the domains' names, not the file system. */
int zpl_fuid_open(struct zpl *z)
{
	struct zpl_fuid *f;

	if (!z->fuid_table)
		return 0;
	f = xcalloc(1, sizeof(*f));
	z->fuid = f;
	if (zpl_fuid_read(z, f))
		f->n = 0;
	return 0;
}

void zpl_fuid_close(struct zpl *z)
{
	if (!z->fuid)
		return;
	nvlist_destroy(z->fuid->table);
	free(z->fuid);
	z->fuid = NULL;
}

const char *zpl_fuid_domain(const struct zpl *z, uint64_t fuid)
{
	uint64_t index = fuid >> 32;

	if (index == 0)
		return "";
	for (size_t i = 0; z->fuid && i < z->fuid->n; i++)
		if (nvlist_u64_or(z->fuid->domain[i], "fuid_idx", 0) == index)
			return nvlist_string_or(z->fuid->domain[i], "fuid_domain", NULL);
	return NULL;
}
