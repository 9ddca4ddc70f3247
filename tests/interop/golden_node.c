/*
 * tests/interop/golden_node.c: one node compared with its entry of the manifest.
 */
#include "golden_node.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "async_sha256.h"

#define SNAPSHOT_ROOT_INO 0xFFFFFFFFFFFCu /* less the data set's object number (07, section 7) */

const char *golden_type_name(const struct znode *zn)
{
	switch (zn->mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "dir";
	case S_IFLNK:
		return "symlink";
	case S_IFCHR:
		return "char";
	case S_IFBLK:
		return "block";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	default:
		return "?";
	}
}

static void file_submit(void *what, struct dmu_read *r)
{
	zpl_read_submit(what, r);
}

void golden_md_finish(EVP_MD_CTX *md, char hex[65])
{
	uint8_t sum[32];

	EVP_DigestFinal_ex(md, sum, NULL);
	EVP_MD_CTX_free(md);
	golden_hex(sum, sizeof(sum), hex);
}

EVP_MD_CTX *golden_md_start(void)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();

	EVP_DigestInit_ex(md, EVP_sha256(), NULL);
	return md;
}

static void sha256_hex(const void *p, size_t n, char hex[65])
{
	EVP_MD_CTX *md = golden_md_start();

	EVP_DigestUpdate(md, p, n);
	golden_md_finish(md, hex);
}

/* Data ranges by seeking, as a program copying the file would find them. Hashes them into md when it is not NULL. */
static int file_extents(struct znode *zn, json_t **out, EVP_MD_CTX *md)
{
	uint64_t at = 0, end;
	json_t *list = json_array();
	int rc = 0;

	while (!rc && at < zn->size) {
		rc = zpl_seek(zn, &at, false);
		if (rc == -ENXIO) {
			rc = 0;
			break;
		}
		end = at;
		if (!rc)
			rc = zpl_seek(zn, &end, true);
		if (!rc && end <= at)
			rc = -ELOOP;
		if (!rc && md)
			rc = async_sha256(file_submit, zn, at, end - at, md);
		json_array_append_new(list, json_pack("[II]", (json_int_t)at, (json_int_t)end));
		at = end;
	}
	*out = list;
	return rc;
}

static void check_extents(struct walk *w, const char *path, struct znode *zn, const json_t *want)
{
	const char *sum = json_string_value(json_object_get(want, "sha256_of_extents"));
	json_t *list = json_object_get(want, "extents"), *got = NULL;
	EVP_MD_CTX *md = sum ? golden_md_start() : NULL;
	char hex[65];
	int rc = file_extents(zn, &got, md);

	if (rc)
		golden_differs(w->g, "%s: %s: extents: %s", w->z->ds->name, path, err_words(rc));
	else if (list && !json_equal(list, got))
		golden_differs(w->g, "%s: %s: holes are elsewhere", w->z->ds->name, path);
	else if (!list && zn->size && json_array_size(got) != 1)
		golden_differs(w->g, "%s: %s: holes where there are none", w->z->ds->name, path);
	json_decref(got);
	if (!md)
		return;
	golden_md_finish(md, hex);
	if (!rc && strcmp(hex, sum))
		golden_differs(w->g, "%s: %s: data of the extents differ", w->z->ds->name, path);
}

int golden_file_sha256(struct znode *zn, char hex[65])
{
	EVP_MD_CTX *md = golden_md_start();
	int rc = async_sha256(file_submit, zn, 0, zn->size, md);

	golden_md_finish(md, hex);
	return rc;
}

static void check_data(struct walk *w, const char *path, struct znode *zn, const json_t *want)
{
	const char *sum = json_string_value(json_object_get(want, "sha256"));
	char hex[65];
	int rc;

	check_extents(w, path, zn, want);
	if (!sum)
		return;
	rc = golden_file_sha256(zn, hex);
	if (rc)
		golden_differs(w->g, "%s: %s: %s", w->z->ds->name, path, err_words(rc));
	else if (strcmp(hex, sum))
		golden_differs(w->g, "%s: %s: data differ", w->z->ds->name, path);
}

static void check_link(struct walk *w, const char *path, struct znode *zn, const json_t *want)
{
	size_t len = 0;
	autofree char *target = NULL, *expected = golden_bytes(json_object_get(want, "target"), &len);
	int rc = zpl_readlink(zn, &target);

	if (rc)
		golden_differs(w->g, "%s: %s: target: %s", w->z->ds->name, path, err_words(rc));
	else if (!expected || strcmp(target, expected))
		golden_differs(w->g, "%s: %s: target '%s', not '%s'", w->z->ds->name, path, target,
			       expected ? expected : "");
}

/* One value against text, bytes or a digest. */
static bool value_matches(const json_t *want, const void *value, size_t len)
{
	const char *sum = json_string_value(json_object_get(want, "sha256"));
	autofree char *bytes = NULL;
	size_t n = 0;
	char hex[65];

	if (sum) {
		sha256_hex(value, len, hex);
		return strcmp(sum, hex) == 0 && golden_u64(want, "len") == len;
	}
	bytes = golden_bytes(want, &n);
	return bytes && n == len && memcmp(bytes, value, n) == 0;
}

static void check_xattrs(struct walk *w, const char *path, struct znode *zn, const json_t *want)
{
	json_t *xattrs = json_object_get(want, "xattrs");
	autofree char *names = NULL;
	size_t len = 0, count = 0;
	int rc = zpl_xattr_list(zn, &names, &len);

	if (rc)
		golden_differs(w->g, "%s: %s: xattrs: %s", w->z->ds->name, path, err_words(rc));
	for (const char *name = names; !rc && name < names + len; name += strlen(name) + 1) {
		autofree void *value = NULL;
		json_t *one = json_object_get(xattrs, name);
		size_t n;

		count++;
		rc = zpl_xattr_get(zn, name, &value, &n);
		if (rc)
			golden_differs(w->g, "%s: %s: xattr %s: %s", w->z->ds->name, path, name, err_words(rc));
		else if (!one)
			golden_differs(w->g, "%s: %s: xattr %s is not in the manifest", w->z->ds->name, path, name);
		else if (!value_matches(one, value, n))
			golden_differs(w->g, "%s: %s: xattr %s differs", w->z->ds->name, path, name);
		rc = 0;
	}
	if (count < json_object_size(xattrs))
		golden_differs(w->g, "%s: %s: %zu xattrs of %zu", w->z->ds->name, path, count,
			       json_object_size(xattrs));
}

/* Entries as getfacl -n prints them. */
static void acl_text(const uint8_t *p, size_t len, const char *prefix, json_t *out)
{
	static const struct {
		unsigned tag;
		const char *name;
	} tags[] = {{1, "user"}, {2, "user"}, {4, "group"}, {8, "group"}, {16, "mask"}, {32, "other"}};

	for (size_t at = 4; at + 8 <= len; at += 8) {
		unsigned tag = load_le16(p + at), perm = load_le16(p + at + 2);
		char id[16] = "";

		if (tag == 2 || tag == 8)
			snprintf(id, sizeof(id), "%u", load_le32(p + at + 4));
		for (size_t i = 0; i < ARRAY_LEN(tags); i++)
			if (tags[i].tag == tag)
				json_array_append_new(out, json_sprintf("%s%s:%s:%c%c%c", prefix, tags[i].name, id,
									perm & 4 ? 'r' : '-', perm & 2 ? 'w' : '-',
									perm & 1 ? 'x' : '-'));
	}
}

static void check_acl(struct walk *w, const char *path, struct znode *zn, const json_t *want)
{
	json_t *acl = json_object_get(want, "acl"), *got = json_array();
	autofree void *access = NULL, *defaults = NULL;
	size_t n;

	if (zpl_xattr_get(zn, "system.posix_acl_access", &access, &n) == 0)
		acl_text(access, n, "", got);
	if (zpl_xattr_get(zn, "system.posix_acl_default", &defaults, &n) == 0)
		acl_text(defaults, n, "default:", got);
	if (acl ? !json_equal(acl, got) : json_array_size(got) != 0)
		golden_differs(w->g, "%s: %s: ACL differs", w->z->ds->name, path);
	json_decref(got);
}

/* The list of NFSv4 entries always decodes and has as many entries as the file says. */
static void check_nfs4_acl(struct walk *w, const char *path, struct znode *zn)
{
	struct zpl_ace *aces = NULL;
	uint64_t count;
	size_t n = 0;
	int rc = zpl_acl_get(zn, &aces, &n);

	if (rc && rc != -ENOENT)
		golden_differs(w->g, "%s: %s: NFSv4 ACL: %s", w->z->ds->name, path, err_words(rc));
	else if (sa_u64(&zn->sa, SA_DACL_COUNT, &count) == 0 && count != n)
		golden_differs(w->g, "%s: %s: %zu entries of the NFSv4 ACL, not %llu", w->z->ds->name, path, n,
			       (unsigned long long)count);
	free(aces);
}

static uint64_t time_ns(struct timespec ts)
{
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void check_number(struct walk *w, const char *path, const json_t *want, const char *key, uint64_t got)
{
	if (golden_u64(want, key) != got)
		golden_differs(w->g, "%s: %s: %s is %llu, not %llu", w->z->ds->name, path, key, (unsigned long long)got,
			       (unsigned long long)golden_u64(want, key));
}

static void check_attributes(struct walk *w, const char *path, struct znode *zn, const json_t *want)
{
	struct stat st;
	char mode[16];

	znode_stat(zn, &st);
	if (zn->id == w->z->root && w->z->ds->is_snapshot)
		st.st_ino = SNAPSHOT_ROOT_INO - w->z->ds->object;
	if (zn->id == w->z->root)
		st.st_nlink += w->control_dir;
	snprintf(mode, sizeof(mode), "%04o", st.st_mode & 07777);
	if (strcmp(mode, golden_text(want, "mode")))
		golden_differs(w->g, "%s: %s: mode %s, not %s", w->z->ds->name, path, mode, golden_text(want, "mode"));
	check_number(w, path, want, "uid", st.st_uid);
	check_number(w, path, want, "gid", st.st_gid);
	check_number(w, path, want, "size", (uint64_t)st.st_size);
	check_number(w, path, want, "nlink", st.st_nlink);
	check_number(w, path, want, "ino", st.st_ino);
	check_number(w, path, want, "mtime_ns", time_ns(st.st_mtim));
	check_number(w, path, want, "ctime_ns", time_ns(st.st_ctim));
	check_number(w, path, want, "atime_ns", time_ns(st.st_atim));
	if (json_object_get(want, "rdev")) {
		json_t *got = json_pack("[ii]", major(st.st_rdev), minor(st.st_rdev));

		if (!json_equal(got, json_object_get(want, "rdev")))
			golden_differs(w->g, "%s: %s: device %u,%u", w->z->ds->name, path, major(st.st_rdev),
				       minor(st.st_rdev));
		json_decref(got);
	}
}

void golden_check_node(struct walk *w, const char *path, struct znode *zn, const json_t *want)
{
	const char *type = golden_type_name(zn);

	if (strcmp(type, golden_text(want, "type"))) {
		golden_differs(w->g, "%s: %s: is a %s, not a %s", w->z->ds->name, path, type,
			       golden_text(want, "type"));
		return;
	}
	check_attributes(w, path, zn, want);
	check_xattrs(w, path, zn, want);
	check_acl(w, path, zn, want);
	check_nfs4_acl(w, path, zn);
	if (strcmp(type, "file") == 0)
		check_data(w, path, zn, want);
	if (strcmp(type, "symlink") == 0)
		check_link(w, path, zn, want);
}
