/*
 * zpl/zpl_acl.c: NFSv4 access control lists in all their stored forms (docs/format/07-filesystem-zvol-zil.md, 5.1, 5.2
 * and 2.9).
 */
#include "zpl/zpl_impl.h"

#define ACE_MAX     1024 /* entries of one list (5.1) */
#define ACE_V0_SIZE 12
#define ACE_OBJECT  48
#define ACL_V0_TYPE 18 /* object types of external lists */
#define ACL_V1_TYPE 33
#define ACL_INLINE  72 /* bytes within a legacy znode */

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
		size = sa_ace_size(ace->type, ace->flags);
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

/* The list of a legacy znode as it is stored, wherever it is. */
struct acl_legacy {
	struct acl_block b;
	const uint8_t *aces;
	uint8_t *external; /* where the list is, when it is in an object of its own; else NULL */
	bool swap;
};

/* -ENOENT: there is none. */
static int acl_legacy_read(struct znode *zn, struct acl_legacy *l)
{
	const uint8_t *p = NULL;
	uint32_t len = 0;
	int rc = sa_bytes(&zn->sa, SA_ZNODE_ACL, &p, &len);

	*l = (struct acl_legacy){.swap = zn->sa.attr[SA_ZNODE_ACL].swap};
	if (!rc)
		rc = acl_block_decode(p, l->swap, &l->b);
	if (!rc && l->b.bytes == 0)
		rc = -ENOENT;
	if (rc)
		return rc;
	l->aces = p + 16;
	if (!l->b.object)
		return 0;
	l->aces = l->external = malloc(l->b.bytes);
	if (!l->external)
		return -ENOMEM;
	return acl_external_read(zn->zpl, l->b.object, l->b.version ? ACL_V1_TYPE : ACL_V0_TYPE, l->external,
				 l->b.bytes, &l->swap);
}

static int acl_legacy_decode(const struct acl_legacy *l, struct zpl_ace **aces, size_t *n)
{
	return l->b.version ? acl_v1_decode(l->aces, l->b.bytes, l->swap, aces, n)
			    : acl_v0_decode(l->aces, l->b.word, l->swap, aces, n);
}

static int acl_legacy_get(struct znode *zn, struct zpl_ace **aces, size_t *n)
{
	struct acl_legacy l;
	int rc = acl_legacy_read(zn, &l);

	if (!rc)
		rc = acl_legacy_decode(&l, aces, n);
	free(l.external);
	return rc;
}

/* Entries of version 0 become those of version 1. They are never of types with GUIDs. */
static int acl_encode(const struct zpl_ace *a, size_t n, uint8_t **out, size_t *len)
{
	uint8_t *p = xcalloc(n, 16);
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		size_t size = sa_ace_size(a[i].type, a[i].flags);

		if (size > 16) {
			free(p);
			return -EIO;
		}
		store_host16(p + at, a[i].type);
		store_host16(p + at + 2, a[i].flags);
		store_host32(p + at + 4, a[i].access_mask);
		if (size > 8)
			store_host64(p + at + 8, a[i].who);
		at += size;
	}
	*out = p;
	*len = at;
	return 0;
}

/* As it is, but in our order. */
static void acl_copy(const struct acl_legacy *l, uint8_t **out, size_t *len)
{
	*len = l->b.bytes;
	*out = xmalloc(*len);
	memcpy(*out, l->aces, *len);
	if (l->swap)
		sa_aces_turn(*out, *len);
}

int zpl_acl_legacy_v1(struct znode *zn, uint8_t **out, size_t *len, size_t *count)
{
	autofree struct zpl_ace *aces = NULL;
	struct acl_legacy l;
	int rc = acl_legacy_read(zn, &l);

	if (!rc)
		rc = acl_legacy_decode(&l, &aces, count);
	if (!rc && l.b.version)
		acl_copy(&l, out, len);
	else if (!rc)
		rc = acl_encode(aces, *count, out, len);
	free(l.external);
	return rc;
}

int zpl_acl_legacy_object(struct znode *zn, uint64_t *object)
{
	const uint8_t *p;
	uint32_t len;
	struct dnode *dn;
	struct acl_block b;
	int rc = sa_bytes(&zn->sa, SA_ZNODE_ACL, &p, &len);

	*object = 0;
	if (!rc)
		rc = acl_block_decode(p, zn->sa.attr[SA_ZNODE_ACL].swap, &b);
	if (rc || !b.object || dnode_hold(zn->zpl->os, b.object, &dn, NULL))
		return rc;
	if (dn->type == (b.version ? ACL_V1_TYPE : ACL_V0_TYPE))
		*object = b.object;
	dnode_release(dn);
	return 0;
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
