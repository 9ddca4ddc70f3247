/*
 * zpl/zpl_make.c: a new directory: its attributes in the order that others' accounting relies on, or the fixed znode of
 * old versions; its trivial ACL (07-filesystem-zvol-zil.md, 2.7 - 2.9, 4.1, 5.3).
 */
#include <time.h>

#include "zpl/zpl_impl.h"

#define ACES_MAX        6
#define ACE_ALL         0x120088u /* everybody may look at the ACL and the attributes */
#define ACE_OWNER       0xC0110u  /* who owns it may change them */
#define ACE_DENY        1
#define WHO_OWNER       0x1000
#define WHO_GROUP       0x2040
#define WHO_EVERYONE    0x4000
#define ACL_TRIVIAL     0x4u
#define ACL_AUTO        0x40u
#define LEGACY_LEN      264
#define LEGACY_ACL      176
#define LEGACY_ACL_ROOM 72

struct ace {
	uint16_t type, flags;
	uint32_t mask;
};

/* What is stored of one directory. */
struct attrs {
	uint64_t mode, size, gen, uid, gid, parent, flags, links, projid, count, time[2];
	struct ace ace[ACES_MAX];
	uint8_t aces[8 * ACES_MAX]; /* as stored */
};

/* --- the ACL that a mode stands for (5.3) --- */

/* rwx of one class as bits of an ACE. */
static uint32_t class_mask(uint64_t rwx)
{
	return (rwx & 4 ? 0x1 : 0) | (rwx & 2 ? 0x46 : 0) | (rwx & 1 ? 0x20 : 0);
}

static void ace_add(struct attrs *a, uint16_t type, uint16_t who, uint32_t mask)
{
	uint8_t *p = a->aces + 8 * a->count;

	a->ace[a->count++] = (struct ace){type, who, mask};
	store_host16(p, type);
	store_host16(p + 2, who);
	store_host32(p + 4, mask);
}

static void acl_fill(struct attrs *a)
{
	uint64_t owner = a->mode >> 6 & 7, group = a->mode >> 3 & 7, others = a->mode & 7;
	uint64_t early = owner & ~group & others, no_owner = ~owner & (group | others) & 7,
		 no_group = ~group & others & 7;

	if (early)
		ace_add(a, 0, WHO_OWNER, class_mask(early));
	if (no_owner)
		ace_add(a, ACE_DENY, WHO_OWNER, class_mask(no_owner));
	if (no_group)
		ace_add(a, ACE_DENY, WHO_GROUP, class_mask(no_group));
	ace_add(a, 0, WHO_OWNER, ACE_ALL | ACE_OWNER | class_mask(owner));
	ace_add(a, 0, WHO_GROUP, ACE_ALL | class_mask(group));
	ace_add(a, 0, WHO_EVERYONE, ACE_ALL | class_mask(others));
	a->flags |= ACL_TRIVIAL | ACL_AUTO | ((a->mode & 0111) == 0111 ? ZPL_NO_EXECS_DENIED : 0);
}

/* --- attributes --- */

static void attrs_fill(const struct zpl_new_dir *n, uint64_t id, const struct tx *tx, struct attrs *a)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	*a = (struct attrs){
	    .mode = S_IFDIR | (n->mode & 07777),
	    .size = 2,
	    .gen = tx->txg,
	    .uid = n->uid,
	    .gid = n->gid,
	    .parent = n->parent ? n->parent : id,
	    .flags = n->flags,
	    .links = 2,
	    .projid = n->projid,
	    .time = {now.tv_sec, now.tv_nsec},
	};
	if (n->version >= ZPL_VERSION_FUID)
		a->flags |= ZPL_ARCHIVE | ZPL_AV_MODIFIED;
	if (n->has_projid)
		a->flags |= ZPL_HAS_PROJID;
	acl_fill(a);
}

static int sa_attrs_store(const struct zpl_new_dir *n, struct dnode *dn, const struct attrs *a, struct tx *tx)
{
	const struct sa_value all[] = {
	    {SA_MODE, &a->mode, 8},     {SA_SIZE, &a->size, 8},        {SA_GEN, &a->gen, 8},
	    {SA_UID, &a->uid, 8},       {SA_GID, &a->gid, 8},          {SA_PARENT, &a->parent, 8},
	    {SA_FLAGS, &a->flags, 8},   {SA_ATIME, a->time, 16},       {SA_MTIME, a->time, 16},
	    {SA_CTIME, a->time, 16},    {SA_CRTIME, a->time, 16},      {SA_LINKS, &a->links, 8},
	    {SA_PROJID, &a->projid, 8}, {SA_DACL_COUNT, &a->count, 8}, {SA_DACL_ACES, a->aces, 8 * a->count},
	};
	struct sa_value v[ARRAY_LEN(all)];
	size_t k = 0;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].attr != SA_PROJID || n->has_projid)
			v[k++] = all[i];
	return sa_store(n->sa, dn, v, k, tx);
}

/* The ACL block of 2.9. */
static void legacy_acl_fill(const struct zpl_new_dir *n, const struct attrs *a, uint8_t *p)
{
	if (n->version >= ZPL_VERSION_FUID) {
		store_host32(p + 8, 8 * a->count);
		store_host16(p + 12, 1);
		store_host16(p + 14, a->count);
		memcpy(p + 16, a->aces, 8 * a->count);
		return;
	}
	store_host32(p + 8, a->count);
	store_host16(p + 14, 12 * a->count);
	for (unsigned i = 0; i < a->count; i++) {
		store_host32(p + 16 + 12 * i, UINT32_MAX); /* nobody: the flags say who */
		store_host32(p + 20 + 12 * i, a->ace[i].mask);
		store_host16(p + 24 + 12 * i, a->ace[i].flags);
		store_host16(p + 26 + 12 * i, a->ace[i].type);
	}
}

_Static_assert(12 * ACES_MAX <= LEGACY_ACL_ROOM, "a trivial ACL fits the znode");

static int legacy_attrs_store(const struct zpl_new_dir *n, struct dnode *dn, const struct attrs *a, struct tx *tx)
{
	uint64_t w[LEGACY_LEN / 8] = {
	    a->time[0], a->time[1], a->time[0], a->time[1], a->time[0], a->time[1], a->time[0], a->time[1], a->gen,
	    a->mode,    a->size,    a->parent,  a->links,   0,          0,          a->flags,   a->uid,     a->gid,
	};

	legacy_acl_fill(n, a, (uint8_t *)w + LEGACY_ACL);
	return dmu_bonus_write(dn, 0, w, sizeof(w), tx);
}

int zpl_dir_make(const struct zpl_new_dir *n, struct tx *tx, uint64_t *object)
{
	bool sa = n->version >= ZPL_VERSION_SA;
	const struct zap_spec spec = {
	    .type = DMU_OT_DIRECTORY_CONTENTS,
	    .normflags = n->normflags,
	    .bonustype = sa ? DMU_OT_SA : DMU_OT_ZNODE,
	    .bonuslen = sa ? 0 : LEGACY_LEN,
	    .dnodesize = n->os->props.dnodesize,
	};
	struct attrs a;
	struct dnode *dn;
	int err = zap_create(n->os, &spec, tx, object);

	if (!err)
		err = dnode_hold(n->os, *object, &dn, NULL);
	if (err)
		return err;
	attrs_fill(n, *object, tx, &a);
	err = sa ? sa_attrs_store(n, dn, &a, tx) : legacy_attrs_store(n, dn, &a, tx);
	dnode_release(dn);
	if (err)
		dmu_object_free(n->os, *object, tx);
	return err;
}
