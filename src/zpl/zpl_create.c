/*
 * zpl/zpl_create.c: what a new file system holds (07-filesystem-zvol-zil.md, 1.3, 2.7 - 2.9, 5.3).
 */
#include <time.h>

#include "zpl/zpl_impl.h"

#define VERSION_DEFAULT 5
#define VERSION_SA      5
#define VERSION_SPACE   4 /* accounting by user and group */
#define VERSION_FUID    3 /* ACEs of version 1, name properties, DOS attributes */

#define FEATURE_USEROBJ "org.zfsonlinux:userobj_accounting"
#define FEATURE_PROJECT "org.zfsonlinux:project_quota"

#define ROOT_MODE       (S_IFDIR | 0755)
#define ROOT_FLAGS      0x144u /* trivial ACL, inherited automatically, execute for everybody */
#define FLAG_ARCHIVE    0x800000000u
#define FLAG_MODIFIED   0x40000000000u
#define LEGACY_LEN      264
#define LEGACY_ACL      176
#define FOLD_CASE       0x2u
#define ACES            3
#define ACE_ALL_DEFAULT 0x120088u /* everybody may look at the ACL and the attributes */
#define ACE_OWNER       0xC0110u  /* who owns it may change them */

static const struct {
	uint16_t flags;
	uint32_t mask;
} root_aces[ACES] = {
    {0x1000, ACE_ALL_DEFAULT | ACE_OWNER | 0x1 | 0x46 | 0x20}, /* owner@: rwx */
    {0x2040, ACE_ALL_DEFAULT | 0x1 | 0x20},                    /* group@: r-x */
    {0x4000, ACE_ALL_DEFAULT | 0x1 | 0x20},                    /* everyone@: r-x */
};

struct creation {
	struct objset *os;
	struct tx *tx;
	uint64_t version, normalization, utf8only, casesensitivity;
	bool project;
	uint64_t sa_attrs, delete_queue, root;
};

/* The root directory's attributes. */
struct root {
	uint64_t mode, size, gen, id, parent, flags, links, projid, count, time[2];
	uint8_t aces[8 * ACES];
};

static void root_fill(const struct creation *c, struct root *r)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	*r = (struct root){
	    .mode = ROOT_MODE,
	    .size = 2,
	    .gen = c->tx->txg,
	    .parent = c->root,
	    .flags = ROOT_FLAGS,
	    .links = 2,
	    .count = ACES,
	    .time = {now.tv_sec, now.tv_nsec},
	};
	if (c->version >= VERSION_FUID)
		r->flags |= FLAG_ARCHIVE | FLAG_MODIFIED;
	if (c->project)
		r->flags |= ZPL_HAS_PROJID;
	for (unsigned i = 0; i < ACES; i++) { /* type 0: allow */
		store_host16(r->aces + 8 * i + 2, root_aces[i].flags);
		store_host32(r->aces + 8 * i + 4, root_aces[i].mask);
	}
}

/* 2.7: the order that others' accounting relies on. */
static int root_store(const struct creation *c, struct dnode *dn, const struct root *r)
{
	const struct sa_value all[] = {
	    {SA_MODE, &r->mode, 8},     {SA_SIZE, &r->size, 8},        {SA_GEN, &r->gen, 8},
	    {SA_UID, &r->id, 8},        {SA_GID, &r->id, 8},           {SA_PARENT, &r->parent, 8},
	    {SA_FLAGS, &r->flags, 8},   {SA_ATIME, r->time, 16},       {SA_MTIME, r->time, 16},
	    {SA_CTIME, r->time, 16},    {SA_CRTIME, r->time, 16},      {SA_LINKS, &r->links, 8},
	    {SA_PROJID, &r->projid, 8}, {SA_DACL_COUNT, &r->count, 8}, {SA_DACL_ACES, r->aces, sizeof(r->aces)},
	};
	struct sa_value v[ARRAY_LEN(all)];
	struct sa_os *so;
	size_t n = 0;
	int err;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].attr != SA_PROJID || c->project)
			v[n++] = all[i];
	err = sa_os_open(c->os, c->sa_attrs, &so, NULL);
	if (err)
		return err;
	err = sa_store(so, dn, v, n, c->tx);
	sa_os_close(so);
	return err;
}

/* The ACL block of 2.9. */
static void legacy_acl_fill(const struct creation *c, const struct root *r, uint8_t *p)
{
	if (c->version >= VERSION_FUID) {
		store_host32(p + 8, sizeof(r->aces));
		store_host16(p + 12, 1);
		store_host16(p + 14, ACES);
		memcpy(p + 16, r->aces, sizeof(r->aces));
		return;
	}
	store_host32(p + 8, ACES);
	store_host16(p + 14, 12 * ACES);
	for (unsigned i = 0; i < ACES; i++) {
		store_host32(p + 16 + 12 * i, UINT32_MAX); /* nobody: the flags say who */
		store_host32(p + 20 + 12 * i, root_aces[i].mask);
		store_host16(p + 24 + 12 * i, root_aces[i].flags);
	}
}

static int legacy_root_store(const struct creation *c, struct dnode *dn, const struct root *r)
{
	uint64_t w[LEGACY_LEN / 8] = {
	    r->time[0], r->time[1], r->time[0], r->time[1], r->time[0], r->time[1], r->time[0], r->time[1],
	    r->gen,     r->mode,    r->size,    r->parent,  r->links,   0,          0,          r->flags,
	};

	legacy_acl_fill(c, r, (uint8_t *)w + LEGACY_ACL);
	return dmu_bonus_write(dn, 0, w, sizeof(w), c->tx);
}

static int root_create(struct creation *c)
{
	bool sa = c->version >= VERSION_SA;
	struct zap_spec spec = {
	    .type = DMU_OT_DIRECTORY_CONTENTS,
	    .normflags = c->normalization | (c->casesensitivity ? FOLD_CASE : 0),
	    .bonustype = sa ? DMU_OT_SA : DMU_OT_ZNODE,
	    .bonuslen = sa ? 0 : LEGACY_LEN,
	    .dnodesize = c->os->props.dnodesize,
	};
	struct dnode *dn;
	struct root r;
	int err = zap_create(c->os, &spec, c->tx, &c->root);

	if (!err)
		err = dnode_hold(c->os, c->root, &dn, NULL);
	if (err)
		return err;
	root_fill(c, &r);
	err = sa ? root_store(c, dn, &r) : legacy_root_store(c, dn, &r);
	dnode_release(dn);
	return err;
}

static int master_add(const struct creation *c, const char *name, uint64_t v)
{
	return zap_add_u64(c->os, ZPL_MASTER_NODE, name, v, c->tx);
}

static int master_create(const struct creation *c)
{
	int err = zap_create_claim(c->os, ZPL_MASTER_NODE, &(struct zap_spec){.type = DMU_OT_MASTER_NODE}, c->tx);

	if (!err && c->version >= VERSION_FUID) {
		err = master_add(c, "normalization", c->normalization);
		if (!err)
			err = master_add(c, "utf8only", c->utf8only);
		if (!err)
			err = master_add(c, "casesensitivity", c->casesensitivity);
	}
	return err ? err : master_add(c, "VERSION", c->version);
}

static int objects_create(struct creation *c)
{
	int err = master_create(c);

	if (!err && c->version >= VERSION_SA) {
		err = sa_create(c->os, c->tx, &c->sa_attrs);
		if (!err)
			err = master_add(c, "SA_ATTRS", c->sa_attrs);
	}
	if (!err)
		err = zap_create_in(c->os, DMU_OT_UNLINKED_SET, ZPL_MASTER_NODE, "DELETE_QUEUE", c->tx,
				    &c->delete_queue);
	if (!err)
		err = root_create(c);
	return err ? err : master_add(c, "ROOT", c->root);
}

static bool feature_enabled(struct objset *os, const char *guid)
{
	return os->ops && os->ops->enabled && os->ops->enabled(os, guid);
}

/* What counts from the first object on (6.6). */
static void accounting_start(const struct creation *c)
{
	struct objset *os = c->os;
	bool objects = feature_enabled(os, FEATURE_USEROBJ);

	if (c->version < VERSION_SPACE)
		return;
	objset_set_flags(
	    os, OBJSET_USERSPACE | (objects ? OBJSET_USEROBJSPACE : 0) | (c->project ? OBJSET_PROJECTSPACE : 0), c->tx);
	if (objects && os->ops->uses)
		os->ops->uses(os, FEATURE_USEROBJ, c->tx->txg);
	if (c->project && os->ops->uses)
		os->ops->uses(os, FEATURE_PROJECT, c->tx->txg);
}

int zpl_create_objects(struct objset *os, const struct nvlist *props, struct tx *tx)
{
	struct creation c = {
	    .os = os,
	    .tx = tx,
	    .version = nvlist_u64_or(props, "version", VERSION_DEFAULT),
	    .normalization = nvlist_u64_or(props, "normalization", 0),
	    .utf8only = nvlist_u64_or(props, "utf8only", 0),
	    .casesensitivity = nvlist_u64_or(props, "casesensitivity", 0),
	    .project = feature_enabled(os, FEATURE_PROJECT),
	};

	c.project = c.project && c.version >= VERSION_SA;
	c.utf8only |= c.normalization != 0;
	accounting_start(&c);
	return objects_create(&c);
}

/* Who makes file systems writes into them: their accounting begins with them. */
__attribute__((constructor)) static void accounting_attach(void)
{
	dsl_set_owner(zpl_owner);
}
