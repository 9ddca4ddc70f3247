/*
 * zpl/zpl_acl.c: NFSv4 access control lists in all their stored forms (docs/format/07-filesystem-zvol-zil.md, 5.1, 5.2
 * and 2.9).
 */
#include "zpl/zpl_impl.h"

#define ACE_MAX        1024 /* entries of one list (5.1) */
#define ACE_V0_SIZE    12
#define ACE_OBJECT_MIN 5 /* types with GUIDs */
#define ACE_OBJECT_MAX 8
#define ACE_OBJECT     48
#define ACE_WHO        0x7040u
#define ACL_V0_TYPE    18 /* object types of external lists */
#define ACL_V1_TYPE    33
#define ACL_INLINE     72 /* bytes within a legacy znode */

static size_t ace_v1_size(uint16_t type, uint16_t flags)
{
	unsigned who = flags & ACE_WHO;

	if (type >= ACE_OBJECT_MIN && type <= ACE_OBJECT_MAX)
		return ACE_OBJECT;
	if (type <= 1 && (who == 0x1000 || who == 0x2040 || who == 0x4000))
		return 8;
	return 16;
}

/* -EIO when an entry does not fit what is there. */
static int acl_v1_decode(const uint8_t *p, size_t len, bool swap, struct zpl_ace **aces, size_t *n)
{
	struct zpl_ace *a = xcalloc(MIN(len / 8 + 1, ACE_MAX), sizeof(*a));
	size_t at = 0, count = 0;

	while (len - at >= 8 && count < ACE_MAX) {
		struct zpl_ace *ace = &a[count];
		size_t size;

		ace->type = load16(p + at, swap);
		ace->flags = load16(p + at + 2, swap);
		ace->access_mask = load32(p + at + 4, swap);
		size = ace_v1_size(ace->type, ace->flags);
		if (size > len - at)
			break;
		ace->who = size > 8 ? load64(p + at + 8, swap) : 0;
		at += size;
		count++;
	}
	if (at != len) {
		free(a);
		return -EIO;
	}
	*aces = a;
	*n = count;
	return 0;
}

static int acl_v0_decode(const uint8_t *p, size_t count, bool swap, struct zpl_ace **aces, size_t *n)
{
	struct zpl_ace *a = xcalloc(count + 1, sizeof(*a));

	for (size_t i = 0; i < count; i++, p += ACE_V0_SIZE) {
		a[i].who = load32(p, swap);
		a[i].access_mask = load32(p + 4, swap);
		a[i].flags = load16(p + 8, swap);
		a[i].type = load16(p + 10, swap);
	}
	*aces = a;
	*n = count;
	return 0;
}

/* The bytes of an external list, and their order: the object's data is in its writer's. */
static int acl_external_read(struct zpl *z, uint64_t id, unsigned type, uint8_t *p, size_t len, bool *swap)
{
	struct dnode *dn;
	struct bp bp;
	int rc = dnode_hold(z->os, id, &dn, NULL);

	if (rc)
		return rc == -ENOENT ? -EIO : rc;
	if (dn->type != type)
		rc = -EIO;
	if (!rc)
		rc = dmu_block_pointer(dn, 0, 0, &bp);
	if (!rc)
		rc = dmu_read(dn, 0, p, len, 0);
	if (!rc)
		*swap = bp_is_swapped(&bp);
	dnode_release(dn);
	return rc;
}

struct acl_block { /* of a legacy znode */
	uint64_t object;
	uint32_t word; /* v0: entries; v1: bytes */
	uint16_t version, count;
	size_t bytes;
};

static int acl_block_decode(const uint8_t *p, bool swap, struct acl_block *b)
{
	b->object = load64(p, swap);
	b->word = load32(p + 8, swap);
	b->version = load16(p + 12, swap);
	b->count = load16(p + 14, swap);
	if (b->version > 1)
		return -EIO;
	if (b->word > (b->version ? ACE_MAX * ACE_OBJECT : ACE_MAX))
		return -EIO;
	b->bytes = b->version ? b->word : (size_t)b->word * ACE_V0_SIZE;
	if (b->bytes > ACL_INLINE && b->object == 0)
		return -EIO;
	return 0;
}

static int acl_legacy_get(struct znode *zn, struct zpl_ace **aces, size_t *n)
{
	const uint8_t *p = NULL;
	autofree uint8_t *external = NULL;
	uint32_t len = 0;
	struct acl_block b;
	bool swap = zn->sa.attr[SA_ZNODE_ACL].swap;
	int rc = sa_bytes(&zn->sa, SA_ZNODE_ACL, &p, &len);

	if (!rc)
		rc = acl_block_decode(p, swap, &b);
	if (rc)
		return rc;
	if (b.bytes == 0)
		return -ENOENT;
	p += 16;
	if (b.object) {
		external = malloc(b.bytes);
		if (!external)
			return -ENOMEM;
		rc = acl_external_read(zn->zpl, b.object, b.version ? ACL_V1_TYPE : ACL_V0_TYPE, external, b.bytes,
				       &swap);
		if (rc)
			return rc;
		p = external;
	}
	return b.version ? acl_v1_decode(p, b.bytes, swap, aces, n) : acl_v0_decode(p, b.word, swap, aces, n);
}

int zpl_acl_get(struct znode *zn, struct zpl_ace **aces, size_t *n)
{
	const uint8_t *p;
	uint32_t len;
	int rc;

	*aces = NULL;
	*n = 0;
	if (zn->sa.is_legacy)
		return acl_legacy_get(zn, aces, n);
	rc = sa_bytes(&zn->sa, SA_DACL_ACES, &p, &len);
	if (rc)
		return rc;
	if (len == 0)
		return -ENOENT;
	return acl_v1_decode(p, len, zn->sa.attr[SA_DACL_ACES].swap, aces, n);
}
