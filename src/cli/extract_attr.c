/*
 * cli/extract_attr.c: what files have besides their bytes.
 */
#include <sys/xattr.h>
#include <fcntl.h>
#include <unistd.h>

#include "cli/extract.h"

#define FLAG_XATTR_DIR   0x1u /* pflags (docs/format/07, 4.9) */
#define FLAG_ACL_TRIVIAL 0x4u
#define ACL_PREFIX       "system.posix_acl_"

/* For calls that take a path only and no link of which is followed: /proc/self/fd/DIR/NAME, or the open file itself. */
static void path_of(const struct extract_file *f, char *path, size_t size)
{
	if (f->fd >= 0)
		snprintf(path, size, "/proc/self/fd/%d", f->fd);
	else
		snprintf(path, size, "/proc/self/fd/%d/%s", f->dirfd, f->name);
}

/* Once per run. */
static bool first_time(struct extract *x, bool *told)
{
	bool first;

	SCOPED_LOCK(&x->lock);
	first = !*told;
	*told = true;
	return first;
}

/* False when the file is not its owner's now: a set-user-id bit must not become somebody else's. */
static bool owner_set(struct extract_file *f, const struct stat *st)
{
	int rc = f->fd >= 0 ? fchown(f->fd, st->st_uid, st->st_gid)
			    : fchownat(f->dirfd, f->name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW);

	if (rc == 0)
		return true;
	if (errno != EPERM)
		extract_failed(f->x, f->label, "cannot set the owner: %s", strerror(errno));
	else if (first_time(f->x, &f->x->told_owner))
		extract_note(f->x, f->label, "owners are left out: only root may set them");
	return false;
}

static void mode_set(struct extract_file *f, const struct stat *st, bool owned)
{
	mode_t mode = st->st_mode & (owned ? 07777 : 01777);
	int rc;

	if (S_ISLNK(st->st_mode))
		return;
	rc = f->fd >= 0 ? fchmod(f->fd, mode) : fchmodat(f->dirfd, f->name, mode, 0);
	if (rc)
		extract_failed(f->x, f->label, "cannot set the mode: %s", strerror(errno));
}

static void times_set(struct extract_file *f, const struct stat *st)
{
	struct timespec times[2] = {st->st_atim, st->st_mtim};
	int rc = f->fd >= 0 ? futimens(f->fd, times) : utimensat(f->dirfd, f->name, times, AT_SYMLINK_NOFOLLOW);

	if (rc)
		extract_failed(f->x, f->label, "cannot set the times: %s", strerror(errno));
}

/* Those of one file that could not be stored, told in one line. */
struct xattr_refused {
	unsigned n;
	const char *first;
	int err;
};

static void xattr_set(struct extract_file *f, const char *name, struct xattr_refused *refused)
{
	autofree void *value = NULL;
	char path[64 + ZPL_NAME_MAX];
	size_t len;
	int rc = zpl_xattr_get(f->src.zn, name, &value, &len);

	if (rc) {
		autofree char *shown = extract_name_show(name);

		extract_failed(f->x, f->label, "lost: extended attribute %s cannot be read: %s", shown, err_words(rc));
		return;
	}
	path_of(f, path, sizeof(path));
	if (f->fd >= 0)
		rc = fsetxattr(f->fd, name, value, len, 0);
	else
		rc = lsetxattr(path, name, value, len, 0);
	if (rc && refused->n++ == 0) {
		refused->first = name;
		refused->err = errno;
	}
}

/* ACLs come with the attributes, by their names. */
static void xattrs_set(struct extract_file *f)
{
	autofree char *names = NULL, *shown = NULL;
	struct xattr_refused refused = {0, NULL, 0};
	size_t len = 0;
	int rc = zpl_xattr_list(f->src.zn, &names, &len);

	if (rc && rc != -EOPNOTSUPP)
		extract_failed(f->x, f->label, "lost: extended attributes cannot be listed: %s", err_words(rc));
	if (rc)
		return;
	for (char *name = names; name < names + len; name += strlen(name) + 1)
		xattr_set(f, name, &refused);
	if (!refused.n)
		return;
	shown = extract_name_show(refused.first);
	extract_failed(f->x, f->label, "%u extended attribute(s) cannot be stored here, the first is %s: %s", refused.n,
		       shown, strerror(refused.err));
}

static void nfs4_tell(struct extract_file *f)
{
	const struct znode *zn = f->src.zn;
	struct zpl_ace *aces = NULL;
	size_t n;

	if ((zn->flags & (FLAG_ACL_TRIVIAL | FLAG_XATTR_DIR)) || f->x->told_nfs4 || S_ISLNK(zn->mode))
		return;
	if (zpl_acl_get(f->src.zn, &aces, &n) == 0 && n && first_time(f->x, &f->x->told_nfs4))
		extract_note(
		    f->x, f->label,
		    "has an NFSv4 ACL, which Linux file systems cannot store: the mode alone is kept, here and "
		    "for other files");
	free(aces);
}

void extract_attrs_set(struct extract_file *f)
{
	struct stat st;
	bool owned = false;

	znode_stat(f->src.zn, &st);
	if (!f->x->o.no_owner)
		owned = owner_set(f, &st);
	else
		owned = st.st_uid == geteuid() && st.st_gid == getegid();
	mode_set(f, &st, owned);
	if (!f->x->o.no_xattrs)
		xattrs_set(f);
	nfs4_tell(f);
	times_set(f, &st);
}
