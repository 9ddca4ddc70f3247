/*
 * zpl/zpl_xattr.c: extended attributes in both forms under their Linux names
 * (docs/format/07-filesystem-zvol-zil.md, 5.7 - 5.10).
 *
 * A name is looked for in the packed list first, then in the xattr directory. POSIX ACLs are attributes like others:
 * what is stored is the kernel's own format, handed on when it is well formed.
 */
#include "base/hash.h"
#include "base/str.h"
#include "zpl/zpl_impl.h"

#define XATTR_VALUE_MAX (16u << 20) /* bytes of one value; Linux takes at most 64 KiB, others wrote longer ones */
#define XATTR_NAMES_MAX (16u << 20) /* bytes of all names of one file */
#define POSIX_ACL_V2    2

#define ACL_ACCESS  "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

static bool starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Names that carry their Linux namespace as stored (5.9). */
static bool xattr_has_namespace(const char *name)
{
	return starts_with(name, "user.") || starts_with(name, "trusted.") || starts_with(name, "security.") ||
	       starts_with(name, "system.");
}

static int xattr_copy(const void *p, size_t n, void **value, size_t *len)
{
	*value = malloc(n + 1);
	if (!*value)
		return -ENOMEM;
	if (n)
		memcpy(*value, p, n);
	*len = n;
	return 0;
}

/* The packed list of xattr=sa; -ENOENT when the file has none. */
static int xattr_sa_list(struct znode *zn, struct nvlist **list)
{
	const uint8_t *p;
	uint32_t len;
	int rc = sa_bytes(&zn->sa, SA_DXATTR, &p, &len);

	if (rc)
		return rc;
	if (len == 0)
		return -ENOENT;
	return nvlist_unpack(p, len, list, NULL) ? -EIO : 0;
}

static int xattr_sa_get(struct znode *zn, const char *stored, void **value, size_t *len)
{
	autonv struct nvlist *list = NULL;
	const uint8_t *p;
	size_t n;
	int rc = xattr_sa_list(zn, &list);

	if (rc)
		return rc;
	rc = nvlist_bytes(list, stored, &p, &n);
	return rc ? rc : xattr_copy(p, n, value, len);
}

/* The xattr directory; -ENOENT when the file has none. */
static int xattr_dir_hold(struct znode *zn, struct znode **dir)
{
	uint64_t id;
	int rc = sa_u64(&zn->sa, SA_XATTR, &id);

	if (rc)
		return rc;
	if (id == 0)
		return -ENOENT;
	rc = znode_hold(zn->zpl, id, dir, NULL);
	if (rc)
		return rc == -ENOENT ? -EIO : rc;
	if (ZPL_IS_DIR(*dir) && id != zn->id)
		return 0;
	znode_release(*dir);
	*dir = NULL;
	return -EIO;
}

static int xattr_file_read(struct znode *zn, void **value, size_t *len)
{
	int rc;

	if (!ZPL_IS_REG(zn))
		return -EIO;
	if (zn->size > XATTR_VALUE_MAX)
		return -E2BIG;
	*value = malloc(zn->size + 1);
	if (!*value)
		return -ENOMEM;
	rc = zpl_read(zn, 0, *value, zn->size, len);
	if (rc) {
		free(*value);
		*value = NULL;
	}
	return rc;
}

static int xattr_dir_get(struct znode *zn, const char *stored, void **value, size_t *len)
{
	struct zpl *z = zn->zpl;
	autoznode struct znode *dir = NULL, *file = NULL;
	uint64_t id;
	int rc = xattr_dir_hold(zn, &dir);

	if (rc)
		return rc;
	/* attribute names are exact even where file names fold */
	rc = zpl_dir_entry(z, dir->id, stored, z->name_match ? z->name_match | ZAP_MATCH_CASE : 0, &id, NULL);
	if (rc)
		return rc;
	rc = znode_hold(z, id, &file, NULL);
	if (rc)
		return rc == -ENOENT ? -EIO : rc;
	return xattr_file_read(file, value, len);
}

/* By the name as stored; -ENOENT when neither form has it. */
static int xattr_stored_get(struct znode *zn, const char *stored, void **value, size_t *len)
{
	int rc = xattr_sa_get(zn, stored, value, len), rc2;

	if (rc == 0)
		return 0;
	/* a damaged list does not hide the directory, but is told when that has nothing either */
	rc2 = xattr_dir_get(zn, stored, value, len);
	return rc2 == -ENOENT ? rc : rc2;
}

/* The kernel's format (5.10): a version, then entries of 8 bytes. */
static bool posix_acl_is_valid(const uint8_t *p, size_t len)
{
	return len >= 4 && (len - 4) % 8 == 0 && load_le32(p) == POSIX_ACL_V2;
}

static int xattr_acl_get(struct znode *zn, const char *name, void **value, size_t *len)
{
	int rc = xattr_stored_get(zn, name, value, len);

	if (rc || posix_acl_is_valid(*value, *len))
		return rc;
	free(*value);
	*value = NULL;
	return -EIO;
}

static int xattr_user_get(struct znode *zn, const char *name, void **value, size_t *len)
{
	const char *bare = name + strlen("user.");
	int rc;

	if (*bare == '\0' || xattr_has_namespace(bare) || starts_with(bare, "freebsd:"))
		return -EINVAL;
	rc = xattr_stored_get(zn, name, value, len);
	return rc == -ENOENT ? xattr_stored_get(zn, bare, value, len) : rc;
}

int zpl_xattr_get(struct znode *zn, const char *name, void **value, size_t *len)
{
	int rc = -EOPNOTSUPP;

	*value = NULL;
	*len = 0;
	if (starts_with(name, "user."))
		rc = xattr_user_get(zn, name, value, len);
	else if (strcmp(name, ACL_ACCESS) == 0 || strcmp(name, ACL_DEFAULT) == 0)
		rc = xattr_acl_get(zn, name, value, len);
	else if (starts_with(name, "trusted.") || starts_with(name, "security."))
		rc = xattr_stored_get(zn, name, value, len);
	return rc == -ENOENT ? -ENODATA : rc;
}

struct xattr_names {
	struct str text;
	struct strmap *seen; /* one name in both forms is shown once */
};

static int xattr_name_add(struct xattr_names *xn, const char *stored)
{
	const char *prefix = xattr_has_namespace(stored) ? "" : "user.";
	autofree char *name = NULL;

	if (*stored == '\0' || starts_with(stored, "freebsd:"))
		return 0;
	if (starts_with(stored, "system.") && strcmp(stored, ACL_ACCESS) && strcmp(stored, ACL_DEFAULT))
		return 0;
	name = xasprintf("%s%s", prefix, stored);
	if (strmap_set(xn->seen, name, xn))
		return 0;
	str_add_bytes(&xn->text, name, strlen(name) + 1);
	return xn->text.len > XATTR_NAMES_MAX ? -E2BIG : 0;
}

static int xattr_sa_names(struct znode *zn, struct xattr_names *xn)
{
	autonv struct nvlist *list = NULL;
	int rc = xattr_sa_list(zn, &list);

	if (rc)
		return rc == -ENOENT ? 0 : rc;
	for (const struct nvpair *p = nvlist_first(list); p; p = nvlist_next(list, p)) {
		rc = xattr_name_add(xn, nvpair_name(p));
		if (rc)
			return rc;
	}
	return 0;
}

static int xattr_dir_names(struct znode *zn, struct xattr_names *xn)
{
	autoznode struct znode *dir = NULL;
	autofree struct zpl_dirent *de = NULL;
	struct zpl_dir *d;
	int rc = xattr_dir_hold(zn, &dir);

	if (rc)
		return rc == -ENOENT ? 0 : rc;
	rc = zpl_dir_open(dir, 2, &d);
	if (rc)
		return rc;
	de = xmalloc(sizeof(*de));
	while ((rc = zpl_dir_next(d, de)) == 0) {
		rc = xattr_name_add(xn, de->name);
		if (rc)
			break;
	}
	zpl_dir_close(d);
	return rc == -ENOENT ? 0 : rc;
}

int zpl_xattr_list(struct znode *zn, char **names, size_t *len)
{
	struct xattr_names xn = {.seen = strmap_create()};
	int sa_rc = xattr_sa_names(zn, &xn);
	int rc = xattr_dir_names(zn, &xn);

	strmap_destroy(xn.seen);
	/* what one form has is shown although the other is damaged */
	if (xn.text.len == 0 && (sa_rc || rc)) {
		str_free(&xn.text);
		return sa_rc ? sa_rc : rc;
	}
	*len = xn.text.len;
	*names = xn.text.s ? xn.text.s : xcalloc(1, 1);
	return 0;
}
