/*
 * zpl/zpl.c: opening a file system: its master node (docs/format/07-filesystem-zvol-zil.md, section 1), and reading
 * the data of files (4.4, 4.12).
 */
#include "zpl/zpl_impl.h"

#define ZPL_VERSION_MAX 5
#define ZPL_LINK_MAX    65536 /* bytes of a symbolic link's target */
#define MASTER_TYPE     21

/* A number of the master node; absent is `fallback`. */
static int zpl_master_u64(struct zpl *z, const char *name, uint64_t fallback, uint64_t *v, struct err *e)
{
	int rc = zap_lookup_u64(z->os, ZPL_MASTER_NODE, name, v);

	if (rc == -ENOENT) {
		*v = fallback;
		return 0;
	}
	return rc ? err_set(e, rc, "master node: %s: %s", name, err_words(rc)) : 0;
}

static void zpl_name_match_set(struct zpl *z)
{
	/* 3.2: how a look-up compares; what the directory's hash covers is the ZAP's own business */
	z->name_match = 0;
	if (z->normalization || z->casesensitivity)
		z->name_match |= ZAP_MATCH_NORMALIZED;
	if (z->casesensitivity == 2)
		z->name_match |= ZAP_MATCH_CASE;
}

static int zpl_master_check(const struct zpl *z, struct err *e)
{
	if (z->version == 0)
		return err_set(e, -EINVAL, "the file system has no version");
	if (z->version > ZPL_VERSION_MAX)
		return err_set(e, -ENOTSUP, "file system version %llu is newer than version %d that is supported",
			       (unsigned long long)z->version, ZPL_VERSION_MAX);
	if (z->root == 0 || z->root > ZPL_OBJECT_MASK)
		return err_set(e, -EINVAL, "the file system has no root directory");
	if (z->casesensitivity > 2)
		return err_set(e, -ENOTSUP, "unknown value of casesensitivity: %llu",
			       (unsigned long long)z->casesensitivity);
	return 0;
}

static int zpl_master_read(struct zpl *z, struct err *e)
{
	uint64_t utf8only = 0, sa_attrs = 0;
	const struct {
		const char *name;
		uint64_t *v;
	} words[] = {
	    {"VERSION", &z->version},
	    {"ROOT", &z->root},
	    {"DELETE_QUEUE", &z->delete_queue},
	    {"normalization", &z->normalization},
	    {"utf8only", &utf8only},
	    {"casesensitivity", &z->casesensitivity},
	    {"FUID", &z->fuid_table},
	    {"SA_ATTRS", &sa_attrs},
	};
	int rc;

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		rc = zpl_master_u64(z, words[i].name, 0, words[i].v, e);
		if (rc)
			return rc;
	}
	rc = zpl_master_check(z, e);
	if (rc)
		return rc;
	z->utf8only = utf8only != 0;
	zpl_name_match_set(z);
	return sa_os_open(z->os, z->version >= 5 ? sa_attrs : 0, &z->sa, e);
}

static bool zpl_has_longname(struct dsl_dataset *ds)
{
	unsigned intsize;
	size_t nints;

	return ds->pool && ds->pool->mos &&
	       zap_length(ds->pool->mos, ds->object, "org.zfsonlinux:longname", &intsize, &nints) == 0;
}

int zpl_open(struct dsl_dataset *ds, struct zpl **out, struct err *e)
{
	struct zpl *z = xcalloc(1, sizeof(*z));
	int rc;

	z->ds = dsl_dataset_ref(ds);
	rc = dsl_dataset_open_objset(ds, &z->os, e);
	if (!rc && z->os->type != OBJSET_ZFS)
		rc = err_set(e, -EINVAL, "not a file system");
	if (!rc)
		rc = zpl_master_read(z, e);
	if (!rc)
		rc = zpl_fuid_open(z);
	if (rc) {
		zpl_close(z);
		return err_prefix(e, rc, "%s", ds->name);
	}
	z->longname = zpl_has_longname(ds);
	*out = z;
	return 0;
}

void zpl_close(struct zpl *z)
{
	if (!z)
		return;
	zpl_fuid_close(z);
	sa_os_close(z->sa);
	if (z->os)
		objset_release(z->os);
	dsl_dataset_release(z->ds);
	free(z);
}

void zpl_read_submit(struct znode *zn, struct dmu_read *r)
{
	r->slice = NULL;
	r->nslices = 0;
	r->priv = NULL;
	if (!ZPL_IS_REG(zn)) {
		r->done(r, ZPL_IS_DIR(zn) ? -EISDIR : -EINVAL);
		return;
	}
	r->length = r->offset >= zn->size ? 0 : MIN(r->length, zn->size - r->offset);
	if (r->length == 0) {
		r->done(r, 0);
		return;
	}
	r->dn = zn->dn;
	dmu_read_submit(r);
}

int zpl_read(struct znode *zn, uint64_t offset, void *dst, size_t len, size_t *got)
{
	int rc;

	*got = 0;
	if (!ZPL_IS_REG(zn))
		return ZPL_IS_DIR(zn) ? -EISDIR : -EINVAL;
	if (offset >= zn->size)
		return 0;
	len = MIN(len, zn->size - offset);
	rc = dmu_read(zn->dn, offset, dst, len, 0);
	if (!rc)
		*got = len;
	return rc;
}

int zpl_seek(struct znode *zn, uint64_t *offset, bool hole)
{
	uint64_t at = *offset;
	int rc;

	if (at >= zn->size)
		return -ENXIO;
	if (!IS_POW2(dnode_blocksize(zn->dn))) {
		/* the only block of a small file is data, hole or not (section 11) */
		*offset = hole ? zn->size : at;
		return 0;
	}
	rc = dmu_next_offset(zn->dn, &at, hole);
	if (rc && rc != -ESRCH)
		return rc == -ENXIO ? -EIO : rc; /* a device that is gone is not the end of the data */
	if (rc == -ESRCH || at >= zn->size) {
		if (!hole)
			return -ENXIO;
		at = dmu_blocks_end(zn->dn, *offset, zn->size);
	}
	*offset = at;
	return 0;
}

int zpl_readlink(struct znode *zn, char **target)
{
	const uint8_t *p;
	uint32_t len;
	char *text;
	int rc;

	if (!ZPL_IS_LINK(zn))
		return -EINVAL;
	rc = sa_bytes(&zn->sa, SA_SYMLINK, &p, &len);
	if (rc == 0) {
		*target = strndup((const char *)p, len);
		return *target ? 0 : -ENOMEM;
	}
	if (rc != -ENOENT || !zn->sa.is_legacy)
		return rc == -ENOENT ? -EIO : rc;
	if (zn->size == 0 || zn->size > ZPL_LINK_MAX)
		return -EIO;
	text = calloc(1, zn->size + 1);
	if (!text)
		return -ENOMEM;
	rc = dmu_read(zn->dn, 0, text, zn->size, 0);
	if (rc) {
		free(text);
		return rc;
	}
	*target = text;
	return 0;
}
