/*
 * zpl/zpl_owner.c: whose an object is, from its attributes at their fixed places
 * (07-filesystem-zvol-zil.md 2.7, 2.9, 6.5), for the accounting of what a group writes.
 */
#include "zpl/zpl_impl.h"

#define SA_MAGIC   0x002F505Au
#define OFF_GID    32 /* after the header */
#define OFF_UID    24
#define OFF_FLAGS  48
#define OFF_PROJID 128
#define ZNODE_UID  128
#define ZNODE_GID  136

struct owner {
	uint64_t uid, gid, project;
};

static uint64_t word(const uint8_t *p, size_t len, size_t at, bool swap)
{
	return at + 8 <= len ? load64(p + at, swap) : 0;
}

static void owner_from_sa(const uint8_t *p, size_t len, struct owner *o)
{
	uint32_t magic = len >= 8 ? load_host32(p) : 0;
	bool swap = magic == __builtin_bswap32(SA_MAGIC);
	size_t header;

	if (magic != SA_MAGIC && !swap)
		return; /* nothing is stored yet: root's */
	header = bits64(load16(p + 4, swap), 10, 6) * 8;
	o->uid = word(p, len, header + OFF_UID, swap);
	o->gid = word(p, len, header + OFF_GID, swap);
	if (word(p, len, header + OFF_FLAGS, swap) & ZPL_HAS_PROJID)
		o->project = word(p, len, header + OFF_PROJID, swap);
}

int zpl_owner(struct objset *os, const struct dnode *dn, const uint8_t *bonus, size_t len, uint64_t *uid, uint64_t *gid,
	      uint64_t *project)
{
	struct owner o = {0};

	if (dn->bonustype == DMU_OT_SA) {
		owner_from_sa(bonus, len, &o);
	} else if (dn->bonustype == DMU_OT_ZNODE) {
		o.uid = word(bonus, len, ZNODE_UID, false);
		o.gid = word(bonus, len, ZNODE_GID, false);
	} else {
		return -ENOENT;
	}
	*uid = o.uid;
	*gid = o.gid;
	*project = o.project;
	return 0;
}
