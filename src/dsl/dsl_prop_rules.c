/*
 * dsl/dsl_prop_rules.c: which values a property may have (03-datasets.md 5.1, 5.4 - 5.6), with the refusals in the
 * words of `zfs`.
 */
#include <stdio.h>

#include "base/size.h"
#include "dsl/dsl_prop_set.h"

#define NAME_MAX_LEN   256 /* with its NUL */
#define STRING_MAX     8192
#define STRING_MAX_OLD 1024
#define BLOCK_OLD_MAX  (128u << 10) /* without large_blocks */
#define FEATURES_ALL   5000

/* Pool versions that brought things. */
#define VERSION_COPIES       2
#define VERSION_GZIP         5
#define VERSION_FUID         9 /* also refquota, refreservation, sharesmb */
#define VERSION_SNAP_PROPS   12
#define VERSION_PASSTHROUGH  14
#define VERSION_USERSPACE    15
#define VERSION_LONG_STRINGS 16
#define VERSION_ZLE          20
#define VERSION_DEDUP        21
#define VERSION_SA           24

static unsigned pool_version(const struct prop_rules *r)
{
	return r->p ? r->p->version : FEATURES_ALL;
}

static bool has_feature(const struct prop_rules *r, const char *guid)
{
	return !r->p || dsl_feature_enabled(r->p, guid);
}

static int refuse_upgrade(const struct prop_rules *r, struct err *e)
{
	return err_set(e, -ENOTSUP, "%s must be upgraded to set this property or value",
		       r->creating ? "pool" : "pool and or dataset");
}

static int need(const struct prop_rules *r, bool there, struct err *e)
{
	return there ? 0 : refuse_upgrade(r, e);
}

/* --- user properties --- */

bool prop_name_is_user(const char *name)
{
	return strchr(name, ':') && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:")] == '\0';
}

static int user_check(struct prop_rules *r, const char *name, const char *text, struct err *e)
{
	if (strlen(name) >= NAME_MAX_LEN)
		return err_set(e, -ENAMETOOLONG, "property name '%s' is too long", name);
	if (strlen(text) >= (pool_version(r) < VERSION_LONG_STRINGS ? STRING_MAX_OLD : STRING_MAX))
		return err_set(e, -E2BIG, "property value too long");
	if (r->type & DSL_SNAPSHOT && pool_version(r) < VERSION_SNAP_PROPS)
		return refuse_upgrade(r, e);
	nvlist_add_string(r->stored, name, text);
	return 0;
}

/* --- rules of single properties; v: the number --- */

static int block_size_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	uint64_t max = has_feature(r, "org.open-zfs:large_blocks") ? BLOCK_MAX : BLOCK_OLD_MAX;
	char text[SIZE_TEXT];

	if (IS_POW2(v) && v >= 1u << SECTOR_SHIFT && v <= max)
		return 0;
	size_print(max, true, text);
	return err_set(e, -EINVAL, "'%s' must be power of 2 from 512B to %s", def->name, text);
}

static int small_blocks_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	uint64_t max = has_feature(r, "org.open-zfs:large_blocks") ? BLOCK_MAX : BLOCK_OLD_MAX;
	char text[SIZE_TEXT];

	if (v <= max)
		return 0;
	size_print(max, true, text);
	return err_set(e, -EINVAL, "invalid '%s=%llu' property: must be from 0 to %s", def->name, (unsigned long long)v,
		       text);
}

static int copies_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	return need(r, v == 1 || pool_version(r) >= VERSION_COPIES, e);
}

static int compression_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	switch (v & 0x7f) {
	case 14: /* zle */
		return need(r, pool_version(r) >= VERSION_ZLE, e);
	case 15:
		return need(r, has_feature(r, "org.illumos:lz4_compress"), e);
	case 16:
		return need(r, has_feature(r, "org.freebsd:zstd_compress"), e);
	default: /* gzip is 5 to 13 */
		return need(r, v < 5 || pool_version(r) >= VERSION_GZIP, e);
	}
}

static int checksum_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	static const struct {
		unsigned id;
		const char *feature;
	} t[] = {
	    {11, "org.illumos:sha512"},
	    {12, "org.illumos:skein"},
	    {13, "org.illumos:edonr"},
	    {14, "org.openzfs:blake3"},
	};

	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		if (t[i].id == (v & 0xff))
			return need(r, has_feature(r, t[i].feature), e);
	return 0;
}

static int dedup_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	if (v != 2 && pool_version(r) < VERSION_DEDUP)
		return refuse_upgrade(r, e);
	return checksum_check(r, def, v, e);
}

static int dnodesize_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	return need(r, v == 0 || has_feature(r, "org.zfsonlinux:large_dnode"), e);
}

static int aclinherit_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	return need(r, v != 5 || pool_version(r) >= VERSION_PASSTHROUGH, e);
}

static int longname_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	return need(r, v == 0 || has_feature(r, "org.zfsonlinux:longname"), e);
}

static int limit_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	return need(r, has_feature(r, "com.joyent:filesystem_limits"), e);
}

static int ref_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	return need(r, pool_version(r) >= VERSION_FUID, e);
}

static int space_quota_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	return need(r, pool_version(r) >= VERSION_USERSPACE, e);
}

static int volsize_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	uint64_t block = r->volblocksize;
	char text[SIZE_TEXT];

	if (v == 0)
		return err_set(e, -EINVAL, "'%s' cannot be zero", def->name);
	if (v > INT64_MAX)
		return err_set(e, -EINVAL, "'%s' is too large", def->name);
	if (block == 0 || v % block == 0)
		return 0;
	size_print(block, true, text);
	return err_set(e, -EINVAL, "'%s' must be a multiple of volume block size (%s)", def->name, text);
}

unsigned dsl_zpl_pool_version(unsigned zpl)
{
	static const unsigned pool[] = {1, 1, 1, VERSION_FUID, VERSION_USERSPACE, VERSION_SA};

	return pool[MIN(zpl, ARRAY_LEN(pool) - 1)];
}

unsigned dsl_zpl_version_max(const struct dsl_pool *p)
{
	unsigned v = 5;

	while (v > 1 && p && dsl_zpl_pool_version(v) > p->version)
		v--;
	return v;
}

static int version_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	uint64_t now = 0;

	if (v > dsl_zpl_version_max(r->p))
		return refuse_upgrade(r, e);
	if (!r->creating && r->ds)
		dsl_zpl_version(r->ds, &now);
	if (v < now)
		return err_set(e, -EINVAL, "Can not downgrade; already at version %llu", (unsigned long long)now);
	return 0;
}

static int encryption_check(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e)
{
	if (v == def->def_number)
		return 0;
	if (!has_feature(r, "com.datto:encryption"))
		return err_set(e, -ENOTSUP, "Encryption feature not enabled.");
	return err_set(e, -ENOTSUP, "making encrypted datasets is not supported");
}

/* --- rules of strings --- */

static int mountpoint_check(struct prop_rules *r, const struct prop_def *def, const char *v, struct err *e)
{
	if (v[0] == '/' || strcmp(v, "none") == 0 || strcmp(v, "legacy") == 0)
		return 0;
	return err_set(e, -EINVAL, "'%s' must be an absolute path, 'none', or 'legacy'", def->name);
}

static int mlslabel_check(struct prop_rules *r, const struct prop_def *def, const char *v, struct err *e)
{
	return strcmp(v, "none") == 0 ? 0 : err_set(e, -ENOTSUP, "mlslabels are unsupported");
}

static int sharesmb_check(struct prop_rules *r, const struct prop_def *def, const char *v, struct err *e)
{
	return need(r, pool_version(r) >= VERSION_FUID, e);
}

static bool keylocation_is_sane(const char *v)
{
	static const char *const schemes[] = {"file:///", "https://", "http://"};

	if (strcmp(v, "none") == 0 || strcmp(v, "prompt") == 0)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (strncmp(v, schemes[i], strlen(schemes[i])) == 0)
			return true;
	return false;
}

static int keylocation_check(struct prop_rules *r, const struct prop_def *def, const char *v, struct err *e)
{
	char root[DSL_NAME_MAX];
	bool is_none = strcmp(v, "none") == 0;

	if (!keylocation_is_sane(v))
		return err_set(e, -EINVAL, "invalid keylocation");
	if (r->creating)
		return is_none ? 0 : err_set(e, -EINVAL, "keylocation must not be specified for unencrypted datasets");
	if (!r->ds || !r->ds->dir->crypto_obj)
		return is_none ? 0 : err_set(e, -EINVAL, "keylocation must be 'none' for unencrypted datasets");
	if (is_none)
		return err_set(e, -EINVAL, "keylocation may not be 'none' for encrypted datasets");
	if (dsl_crypt_root(r->ds->dir, root) || strcmp(root, r->ds->dir->name) != 0)
		return err_set(e, -EINVAL, "keylocation may only be set on encryption roots");
	return 0;
}

static const struct {
	const char *name;
	int (*number)(struct prop_rules *r, const struct prop_def *def, uint64_t v, struct err *e);
	int (*string)(struct prop_rules *r, const struct prop_def *def, const char *v, struct err *e);
} rule_table[] = {
    {"aclinherit", aclinherit_check, NULL},
    {"checksum", checksum_check, NULL},
    {"compression", compression_check, NULL},
    {"copies", copies_check, NULL},
    {"dedup", dedup_check, NULL},
    {"defaultgroupobjquota", space_quota_check, NULL},
    {"defaultgroupquota", space_quota_check, NULL},
    {"defaultprojectobjquota", space_quota_check, NULL},
    {"defaultprojectquota", space_quota_check, NULL},
    {"defaultuserobjquota", space_quota_check, NULL},
    {"defaultuserquota", space_quota_check, NULL},
    {"dnodesize", dnodesize_check, NULL},
    {"encryption", encryption_check, NULL},
    {"filesystem_limit", limit_check, NULL},
    {"keyformat", encryption_check, NULL},
    {"keylocation", NULL, keylocation_check},
    {"longname", longname_check, NULL},
    {"mlslabel", NULL, mlslabel_check},
    {"mountpoint", NULL, mountpoint_check},
    {"pbkdf2iters", encryption_check, NULL},
    {"recordsize", block_size_check, NULL},
    {"refquota", ref_check, NULL},
    {"refreservation", ref_check, NULL},
    {"sharesmb", NULL, sharesmb_check},
    {"snapshot_limit", limit_check, NULL},
    {"special_small_blocks", small_blocks_check, NULL},
    {"version", version_check, NULL},
    {"volblocksize", block_size_check, NULL},
    {"volsize", volsize_check, NULL},
};

/* --- values --- */

static bool is_space_limit(const char *name)
{
	return strcmp(name, "quota") == 0 || strcmp(name, "refquota") == 0;
}

int prop_number_parse(const char *text, uint64_t *v, struct err *e)
{
	int err = size_parse(text, v);

	if (err == -ERANGE)
		return err_set(e, err, "numeric value is too large");
	if (err && text[0] >= '0' && text[0] <= '9')
		return err_set(e, err, "invalid numeric suffix '%s'", text + strspn(text, "0123456789."));
	return err ? err_set(e, err, "bad numeric value '%s'", text) : 0;
}

static int auto_reservation(struct prop_rules *r, uint64_t *v, struct err *e)
{
	uint64_t volsize, copies = 1;

	if (r->type != DSL_VOLUME)
		return err_set(e, -EINVAL, "'refreservation=auto' only allowed on volumes");
	if (nvlist_u64(r->stored, "volsize", &volsize))
		volsize = r->volsize;
	if (nvlist_u64(r->stored, "copies", &copies) && r->ds)
		dsl_prop_u64(r->ds, "copies", &copies, NULL);
	if (volsize == 0 || r->volblocksize == 0 || !r->p)
		return err_set(e, -EINVAL, "'refreservation=auto' needs the size of the volume");
	*v = dsl_volume_reservation(r->p->dp->zp->root, volsize, r->volblocksize, copies);
	return 0;
}

static int number_text(struct prop_rules *r, const struct prop_def *def, const char *text, uint64_t *v, struct err *e)
{
	int err;

	if (strcmp(text, "none") == 0) {
		*v = def->show == PROP_SHOW_COUNT_NONE ? UINT64_MAX : 0;
		return 0;
	}
	if (strcmp(text, "auto") == 0 && strcmp(def->name, "refreservation") == 0)
		return auto_reservation(r, v, e);
	err = prop_number_parse(text, v, e);
	if (!err && *v == 0 && is_space_limit(def->name))
		return err_set(e, -EINVAL, "use 'none' to disable quota/refquota");
	return err;
}

static int number_check(struct prop_rules *r, const struct prop_def *def, const char *text, struct err *e)
{
	uint64_t v;
	int err = 0;

	if (def->kind == PROP_NUMBER)
		err = number_text(r, def, text, &v, e);
	else if (!prop_index_value(def, text, &v))
		err = err_set(e, -EINVAL, "'%s' must be one of '%s'", def->name, dsl_prop_values(def));
	for (size_t i = 0; i < ARRAY_LEN(rule_table) && !err; i++)
		if (strcmp(rule_table[i].name, def->name) == 0)
			err = rule_table[i].number(r, def, v, e);
	if (!err)
		nvlist_add_u64(r->stored, def->name, v);
	return err;
}

static int string_check(struct prop_rules *r, const struct prop_def *def, const char *text, struct err *e)
{
	int err = 0;

	if (strlen(text) >= (pool_version(r) < VERSION_LONG_STRINGS ? STRING_MAX_OLD : STRING_MAX))
		return err_set(e, -E2BIG, "'%s' is too long", def->name);
	for (size_t i = 0; i < ARRAY_LEN(rule_table) && !err; i++)
		if (strcmp(rule_table[i].name, def->name) == 0)
			err = rule_table[i].string(r, def, text, e);
	if (!err)
		nvlist_add_string(r->stored, def->name, text);
	return err;
}

/* userquota@alice and its like: "none" is no quota. The name stays as it is; it is resolved when it is set. */
static int user_quota_check(struct prop_rules *r, const char *name, const char *text, struct err *e)
{
	uint64_t v = 0;
	int err;

	if (!dsl_name_is_quota(name))
		return err_set(e, -EINVAL, "'%s' is readonly", name);
	err = strcmp(text, "none") == 0 ? 0 : prop_number_parse(text, &v, e);
	if (!err)
		err = dsl_quota_name_check(name, e);
	if (!err && r->type != DSL_FILESYSTEM)
		err = err_set(e, -EINVAL, "invalid property value");
	if (!err)
		err = need(r, pool_version(r) >= VERSION_USERSPACE, e);
	if (!err)
		nvlist_add_u64(r->stored, name, v);
	return err;
}

int prop_check(struct prop_rules *r, const char *name, const char *text, struct err *e)
{
	const struct prop_def *def;

	if (prop_name_is_user(name))
		return user_check(r, name, text, e);
	if (r->type & DSL_SNAPSHOT)
		return err_set(e, -EINVAL, "this property can not be modified for snapshots");
	if (dsl_name_is_userspace(name))
		return user_quota_check(r, name, text, e);
	if (strncmp(name, "written@", 8) == 0 || strncmp(name, "written#", 8) == 0)
		return err_set(e, -EINVAL, "'%s' is readonly", name);
	def = dsl_prop_find(name);
	if (!def)
		return err_set(e, -EINVAL, "invalid property '%s'", name);
	if (!(def->types & r->type))
		return err_set(e, -EINVAL, "'%s' does not apply to datasets of this type", def->name);
	if (def->readonly || (def->setonce && !r->creating))
		return err_set(e, -EINVAL, "'%s' is readonly", def->name);
	return def->kind == PROP_STRING ? string_check(r, def, text, e) : number_check(r, def, text, e);
}

/* What values mean together. */
static int together_check(struct prop_rules *r, struct err *e)
{
	uint64_t normalization = nvlist_u64_or(r->stored, "normalization", 0), utf8only;

	if (normalization && nvlist_u64(r->stored, "utf8only", &utf8only) == 0 && !utf8only)
		return err_set(e, -EINVAL, "'utf8only' must be set 'on' if normalization chosen");
	if (normalization)
		nvlist_add_u64(r->stored, "utf8only", 1);
	return 0;
}

static const char *pair_text(const struct nvpair *pair, char *buf, size_t size)
{
	if (nvpair_type(pair) == NV_STRING)
		return nvpair_string(pair, 0);
	snprintf(buf, size, "%llu", (unsigned long long)nvpair_int(pair, 0));
	return buf;
}

int props_check(struct prop_rules *r, const struct nvlist *values, struct err *e)
{
	const char *block;
	char buf[24];
	int err = 0;

	/* others are measured by it, wherever it stands */
	if (r->creating && r->type == DSL_VOLUME && nvlist_string(values, "volblocksize", &block) == 0)
		size_parse(block, &r->volblocksize);
	for (const struct nvpair *p = nvlist_first(values); p && !err; p = nvlist_next(values, p))
		err = prop_check(r, nvpair_name(p), pair_text(p, buf, sizeof(buf)), e);
	return err ? err : together_check(r, e);
}
