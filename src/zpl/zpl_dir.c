/*
 * zpl/zpl_dir.c: directories: look-ups, listing with stable cookies, paths down and up
 * (docs/format/07-filesystem-zvol-zil.md, section 3).
 */
#include <dirent.h>

#include "base/str.h"
#include "zpl/zpl_impl.h"

#define ENTRY_INTS_MAX 1024 /* integers of one entry: only the first is used (3.1) */

int zpl_dir_entry(struct zpl *z, uint64_t dir, const char *name, unsigned match, uint64_t *id, char *real)
{
	uint64_t value;
	int rc = zap_lookup_match(z->os, dir, name, match, 8, 1, &value, real);

	if (rc == -EOVERFLOW) {
		autofree uint64_t *many = xcalloc(ENTRY_INTS_MAX, sizeof(*many));

		rc = zap_lookup_match(z->os, dir, name, match, 8, ENTRY_INTS_MAX, many, real);
		value = many[0];
	}
	if (rc)
		return rc;
	*id = value & ZPL_OBJECT_MASK;
	return 0;
}

int zpl_lookup(struct znode *dir, const char *name, uint64_t *id, char *real)
{
	char stored[ZAP_NAME_MAX + 1] = "";
	size_t len = strlen(name);
	int rc;

	if (!ZPL_IS_DIR(dir))
		return -ENOTDIR;
	if (len > ZPL_NAME_MAX)
		return -ENAMETOOLONG;
	if (len == 0)
		return -ENOENT;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		*id = name[1] ? dir->parent : dir->id;
		if (real)
			str_copy(real, ZPL_NAME_MAX + 1, name);
		return 0;
	}
	rc = zpl_dir_entry(dir->zpl, dir->id, name, dir->zpl->name_match, id, stored);
	if (!rc && real)
		str_copy(real, ZPL_NAME_MAX + 1, stored);
	return rc;
}

/* Step from *at to one of its entries; the hold moves along. */
static int zpl_path_step(struct znode **at, const char *name, struct err *e)
{
	struct zpl *z = (*at)->zpl;
	struct znode *next;
	uint64_t id;
	int rc = zpl_lookup(*at, name, &id, NULL);

	if (rc)
		return err_set(e, rc, "%s", err_words(rc));
	rc = znode_hold(z, id, &next, e);
	if (rc)
		return rc == -ENOENT ? -EIO : rc; /* the entry is there, what it names is not */
	znode_release(*at);
	*at = next;
	return 0;
}

int zpl_path_lookup(struct zpl *z, const char *path, struct znode **out, struct err *e)
{
	struct znode *at;
	autofree char *copy = strdup(path);
	char *save, *name;
	int rc;

	if (!copy)
		return -ENOMEM;
	rc = znode_hold(z, z->root, &at, e);
	if (rc)
		return rc;
	for (name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
		rc = zpl_path_step(&at, name, e);
		if (rc) {
			znode_release(at);
			return err_prefix(e, rc, "%s: %s", path, name);
		}
	}
	*out = at;
	return 0;
}

struct zpl_dir {
	struct znode *dir;
	struct zap_cursor *zap; /* opened when the stored entries are reached */
	uint64_t cookie;
	struct zap_entry entry;
};

int zpl_dir_open(struct znode *dir, uint64_t cookie, struct zpl_dir **out)
{
	struct zpl_dir *d;

	if (!ZPL_IS_DIR(dir))
		return -ENOTDIR;
	d = xcalloc(1, sizeof(*d));
	d->dir = znode_ref(dir);
	d->cookie = cookie;
	*out = d;
	return 0;
}

void zpl_dir_close(struct zpl_dir *d)
{
	if (!d)
		return;
	if (d->zap)
		zap_cursor_close(d->zap);
	znode_release(d->dir);
	free(d);
}

/* "." and "..", which are not stored. */
static int zpl_dir_dots(struct zpl_dir *d, struct zpl_dirent *de)
{
	bool self = d->cookie == 0;

	str_copy(de->name, sizeof(de->name), self ? "." : "..");
	de->id = self ? d->dir->id : d->dir->parent;
	de->dtype = DT_DIR;
	de->next = ++d->cookie;
	return 0;
}

int zpl_dir_next(struct zpl_dir *d, struct zpl_dirent *de)
{
	int rc;

	if (d->cookie < 2)
		return zpl_dir_dots(d, de);
	if (!d->zap) {
		/* 2 is the place of ".zfs", which the caller puts in; the ZAP starts at 3 */
		rc = zap_cursor_open(d->dir->zpl->os, d->dir->id, d->cookie <= 3 ? 0 : d->cookie, &d->zap);
		if (rc)
			return rc;
	}
	do {
		rc = zap_cursor_next(d->zap, &d->entry);
		if (rc)
			return rc;
	} while (d->entry.intsize != 8 || d->entry.key_words || strlen(d->entry.name) > ZPL_NAME_MAX);
	str_copy(de->name, sizeof(de->name), d->entry.name);
	de->id = d->entry.first & ZPL_OBJECT_MASK;
	de->dtype = (unsigned)bits64(d->entry.first, 60, 4);
	de->next = d->cookie = d->entry.cookie;
	return 0;
}

/* The name of one node in its parent; NULL where it cannot be known. */
static const char *zpl_name_in_parent(const struct znode *zn, const struct znode *parent, char *name)
{
	uint64_t xattr;

	if (!parent)
		return NULL;
	if ((zn->flags & ZPL_XATTR) && !(parent->flags & ZPL_XATTR) && sa_u64(&parent->sa, SA_XATTR, &xattr) == 0 &&
	    xattr == zn->id)
		return "<xattrdir>";
	if (!ZPL_IS_DIR(parent) || zap_value_search(zn->zpl->os, parent->id, zn->id, ZPL_OBJECT_MASK, name))
		return NULL;
	return name;
}

/* Names from the node up to the root; the caller frees the parts. zn's hold is taken over. */
static unsigned zpl_names_upwards(struct znode *zn, char **parts, bool *known)
{
	struct zpl *z = zn->zpl;
	char name[ZAP_NAME_MAX + 1];
	struct znode *parent;
	unsigned n = 0;

	while (zn && zn->id != z->root && n < ZPL_PARENTS_MAX) {
		const char *part;

		if (znode_hold(z, zn->parent, &parent, NULL))
			parent = NULL;
		part = zpl_name_in_parent(zn, parent, name);
		*known &= part != NULL;
		parts[n++] = xstrdup(part ? part : "???");
		znode_release(zn);
		zn = parent;
	}
	*known &= zn != NULL && zn->id == z->root;
	znode_release(zn);
	return n;
}

int zpl_object_path_known(struct zpl *z, uint64_t id, char **path, bool *known)
{
	autofree char **parts = NULL;
	struct str text = {0};
	struct znode *zn;
	unsigned n;
	int rc = znode_hold(z, id, &zn, NULL);

	if (rc)
		return rc;
	*known = true;
	parts = xcalloc(ZPL_PARENTS_MAX, sizeof(*parts));
	n = zpl_names_upwards(zn, parts, known);
	for (unsigned i = n; i > 0; i--) {
		str_add(&text, "/");
		str_add(&text, parts[i - 1]);
		free(parts[i - 1]);
	}
	if (n == 0)
		str_add(&text, "/");
	*path = text.s;
	return 0;
}

int zpl_object_path(struct zpl *z, uint64_t id, char **path)
{
	bool known;

	return zpl_object_path_known(z, id, path, &known);
}
