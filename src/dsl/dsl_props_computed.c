/*
 * dsl/dsl_props_computed.c: the properties that are not stored values: sizes, places, states (03-datasets.md 2.7, 4.13,
 * 5.4, 5.5; 09-cli.md 9.4 for their sources). One small function each, and the table that ties them to names.
 */
#include "base/str.h"
#include "dsl/dsl_deadlist.h"
#include "dsl/dsl_live.h"
#include "zio/zio_crypt.h"

#define MASTER_NODE    1
#define ZVOL_DATA      1
#define ZVOL_PROPS     2
#define RATIO_ONE      100
#define ENCRYPTION_OFF 2

#define GETTER(name) static int name(struct props_request *r, const struct prop_def *def, struct prop_out *o)

/* What properties read is authenticated at most, never encrypted: the key need not be loaded. */
int props_request_objset(struct props_request *r, struct objset **os)
{
	if (!r->os_tried) {
		r->os_tried = true;
		r->os_err = dsl_dataset_open_raw(r->ds, &r->os, NULL);
	}
	*os = r->os;
	return r->os_err;
}

static const struct dsl_dir *dir_of(const struct props_request *r)
{
	return r->ds->dir;
}

static void source_default_if(struct prop_out *o, bool is_default)
{
	if (is_default)
		str_copy(o->source, sizeof(o->source), "default");
}

/* --- identity and age --- */

GETTER(get_type)
{
	o->string = xstrdup(r->ds->is_snapshot ? "snapshot" : r->type == DSL_VOLUME ? "volume" : "filesystem");
	return 0;
}

GETTER(get_name)
{
	o->string = xstrdup(r->ds->name);
	return 0;
}

GETTER(get_creation)
{
	o->number = r->ds->creation_time;
	return 0;
}

GETTER(get_createtxg)
{
	o->number = r->ds->creation_txg;
	return 0;
}

GETTER(get_guid)
{
	o->number = r->ds->guid;
	return 0;
}

GETTER(get_objsetid)
{
	o->number = r->ds->object;
	return 0;
}

GETTER(get_inconsistent)
{
	o->number = r->ds->flags & DSL_DS_INCONSISTENT ? 1 : 0;
	return 0;
}

/* --- space --- */

GETTER(get_used)
{
	o->number = r->ds->is_snapshot ? r->ds->unique : dir_of(r)->used;
	return 0;
}

GETTER(get_unique)
{
	o->number = r->ds->unique;
	return 0;
}

GETTER(get_referenced)
{
	o->number = r->ds->used;
	return 0;
}

GETTER(get_logicalreferenced)
{
	o->number = r->ds->uncompressed;
	return 0;
}

GETTER(get_logicalused)
{
	if (r->ds->is_snapshot)
		return -ENOENT;
	o->number = dir_of(r)->uncompressed;
	return 0;
}

static uint64_t ratio(uint64_t uncompressed, uint64_t compressed)
{
	if (compressed == 0)
		return RATIO_ONE;
	return (uint64_t)((unsigned __int128)uncompressed * RATIO_ONE / compressed);
}

GETTER(get_refcompressratio)
{
	o->number = ratio(r->ds->uncompressed, r->ds->compressed);
	return 0;
}

GETTER(get_compressratio)
{
	if (r->ds->is_snapshot)
		return get_refcompressratio(r, def, o);
	o->number = ratio(dir_of(r)->uncompressed, dir_of(r)->compressed);
	return 0;
}

/* 2.7, for the dir alone. */
static uint64_t dir_available(const struct dsl_dir *d)
{
	uint64_t limit = d->quota ? d->quota : UINT64_MAX;
	uint64_t above = d->up ? dir_available(d->up) : UINT64_MAX;

	if (!d->up)
		limit = MIN(limit, __atomic_load_n(&d->pool->usable_bytes, __ATOMIC_RELAXED));
	if (d->reserved > d->used && above != UINT64_MAX)
		above += d->reserved - d->used;
	return d->used > limit ? 0 : MIN(above, limit - d->used);
}

GETTER(get_available)
{
	struct dsl_dataset *ds = r->ds;
	uint64_t n = dir_available(ds->dir), refreservation = 0, refquota = 0;

	if (dsl_prop_u64(ds, "refreservation", &refreservation, NULL) == 0 && refreservation > ds->unique)
		n += refreservation - ds->unique;
	if (dsl_prop_u64(ds, "refquota", &refquota, NULL) == 0 && refquota)
		n = ds->used >= refquota ? 0 : MIN(n, refquota - ds->used);
	o->number = n;
	return 0;
}

enum { USED_HEAD, USED_SNAP, USED_CHILD, USED_CHILD_RSRV, USED_REFRSRV };

static int get_breakdown(struct props_request *r, unsigned which, struct prop_out *o)
{
	if (!dir_of(r)->has_breakdown)
		return -ENOENT;
	o->number = dir_of(r)->used_breakdown[which];
	return 0;
}

GETTER(get_usedbysnapshots)
{
	return get_breakdown(r, USED_SNAP, o);
}

GETTER(get_usedbydataset)
{
	return get_breakdown(r, USED_HEAD, o);
}

GETTER(get_usedbyrefreservation)
{
	return get_breakdown(r, USED_REFRSRV, o);
}

GETTER(get_usedbychildren)
{
	int err = get_breakdown(r, USED_CHILD, o);

	if (!err)
		o->number += dir_of(r)->used_breakdown[USED_CHILD_RSRV];
	return err;
}

GETTER(get_written)
{
	return dsl_written(r->ds, &o->number);
}

/* Before pool version 22 only the dir knows; later the property ZAP tells the source. */
static int get_dir_limit(struct props_request *r, const struct prop_def *def, uint64_t value, struct prop_out *o)
{
	int err = dsl_prop_get_stored(r, def, o);

	if (err)
		return err;
	if (value && strcmp(o->source, "default") == 0)
		str_copy(o->source, sizeof(o->source), "local");
	o->number = value;
	return 0;
}

GETTER(get_quota)
{
	return get_dir_limit(r, def, dir_of(r)->quota, o);
}

GETTER(get_reservation)
{
	return get_dir_limit(r, def, dir_of(r)->reserved, o);
}

static int get_count(struct props_request *r, const char *key, struct prop_out *o)
{
	int err = dsl_dir_ext_u64(dir_of(r), key, &o->number);

	if (err && err != -ENOENT)
		return err;
	if (err)
		o->number = UINT64_MAX;
	str_copy(o->source, sizeof(o->source), err ? "default" : "local");
	return 0;
}

GETTER(get_filesystem_count)
{
	return get_count(r, "com.joyent:filesystem_count", o);
}

GETTER(get_snapshot_count)
{
	return get_count(r, "com.joyent:snapshot_count", o);
}

/* --- snapshots and clones --- */

GETTER(get_origin)
{
	struct dsl_dataset *origin;
	int err;

	if (!dsl_dir_is_clone(dir_of(r)))
		return -ENOENT;
	err = dsl_dataset_hold_obj(r->ds->pool, dir_of(r)->origin, &origin, NULL);
	if (err)
		return err;
	o->string = xstrdup(origin->name);
	dsl_dataset_release(origin);
	return 0;
}

GETTER(get_prevsnap)
{
	struct dsl_dataset *prev;
	int err;

	if (r->ds->prev_snap == 0 || r->ds->prev_snap == r->ds->pool->origin_snap)
		return -ENOENT;
	err = dsl_dataset_hold_obj(r->ds->pool, r->ds->prev_snap, &prev, NULL);
	if (err)
		return err;
	o->string = xstrdup(prev->name);
	dsl_dataset_release(prev);
	return 0;
}

GETTER(get_numclones)
{
	o->number = r->ds->num_children - 1;
	return 0;
}

static int clone_name_add(struct dsl_pool *p, uint64_t dataset, struct str *s)
{
	struct dataset_peek peek;
	struct dsl_dir *d;
	int err = dsl_dataset_peek(p, dataset, &peek);

	if (!err)
		err = dsl_dir_hold(p, peek.dir, &d, NULL);
	if (err)
		return err;
	str_addf(s, "%s%s", s->len ? "," : "", d->name);
	dsl_dir_release(d);
	return 0;
}

/* In the order of the ZAP, as OpenZFS shows them. */
GETTER(get_clones)
{
	struct dsl_dataset *ds = r->ds;
	struct str s = {0};
	struct name_list l;
	int err = name_list_read(ds->pool->mos, ds->next_clones, &l);

	if (err)
		return err;
	if (l.n == 0 || l.n != ds->num_children - 1)
		err = -ENOENT;
	for (size_t i = 0; i < l.n && !err; i++)
		err = clone_name_add(ds->pool, l.e[i].object, &s);
	name_list_free(&l);
	if (err)
		str_free(&s);
	else
		o->string = s.s;
	return err;
}

GETTER(get_defer_destroy)
{
	o->number = r->ds->flags & DSL_DS_DEFER_DESTROY ? 1 : 0;
	return 0;
}

GETTER(get_userrefs)
{
	o->number = 0;
	return r->ds->userrefs ? zap_count(r->ds->pool->mos, r->ds->userrefs, &o->number) : 0;
}

static int get_changed(struct props_request *r, unsigned which, struct prop_out *o)
{
	const struct dsl_dir *d = dir_of(r);
	uint64_t t[2];
	int err;

	if (!d->zapified)
		return -ENOENT;
	err = zap_lookup(d->pool->mos, d->object, "com.ixsystems:snapshots_changed", 8, 2, t);
	if (!err)
		o->number = t[which];
	return err;
}

GETTER(get_snapshots_changed)
{
	return get_changed(r, 0, o);
}

GETTER(get_snapshots_changed_nsecs)
{
	return get_changed(r, 1, o);
}

char *guid_list_text(const uint64_t *guids, size_t n)
{
	struct str s = {0};

	str_add(&s, "");
	for (size_t i = 0; i < n; i++)
		str_addf(&s, "%s%llu", i ? "," : "", (unsigned long long)guids[i]);
	return s.s;
}

GETTER(get_redact_snaps)
{
	uint64_t *guids;
	size_t n;
	int err = dsl_dataset_redact_snaps(r->ds, &guids, &n);

	if (err)
		return err;
	o->string = guid_list_text(guids, n);
	free(guids);
	return 0;
}

GETTER(get_redacted)
{
	uint64_t *guids;
	size_t n;

	o->number = dsl_dataset_redact_snaps(r->ds, &guids, &n) == 0;
	if (o->number)
		free(guids);
	return 0;
}

GETTER(get_ivsetguid)
{
	return dsl_dataset_ext_u64(r->ds, "com.datto:ivset_guid", &o->number);
}

GETTER(get_receive_resume_token)
{
	return dsl_resume_token(r->ds, &o->string);
}

/* --- file systems and volumes: what their object sets say --- */

static int get_master_node(struct props_request *r, const char *key, uint64_t fallback, struct prop_out *o)
{
	struct objset *os;
	int err;

	/* What is being received has no such properties yet. */
	if (r->type != DSL_FILESYSTEM || (r->ds->flags & DSL_DS_INCONSISTENT))
		return -ENOENT;
	err = props_request_objset(r, &os);
	if (err)
		return err;
	err = zap_lookup_u64(os, MASTER_NODE, key, &o->number);
	if (err != -ENOENT)
		return err;
	o->number = fallback;
	return 0;
}

GETTER(get_zpl)
{
	return get_master_node(r, def->name, 0, o);
}

GETTER(get_version)
{
	return get_master_node(r, "VERSION", def->def_number, o);
}

GETTER(get_volsize)
{
	struct objset *os;
	int err;

	if (r->type != DSL_VOLUME)
		return -ENOENT;
	err = props_request_objset(r, &os);
	if (!err)
		err = zap_lookup_u64(os, ZVOL_PROPS, "size", &o->number);
	str_copy(o->source, sizeof(o->source), "local");
	return err;
}

GETTER(get_volblocksize)
{
	struct dnode *dn;
	struct objset *os;
	int err = props_request_objset(r, &os);

	if (!err)
		err = dnode_hold(os, ZVOL_DATA, &dn, NULL);
	if (err)
		return err;
	o->number = dnode_blocksize(dn);
	dnode_release(dn);
	source_default_if(o, o->number == def->def_number);
	return 0;
}

GETTER(get_mounted)
{
	struct dsl_pool *p = r->ds->pool;

	o->number = p->is_mounted && p->is_mounted(p->is_mounted_arg, r->ds->object);
	return 0;
}

static void str_trim_slashes(struct str *s)
{
	while (s->len && s->s[s->len - 1] == '/')
		s->s[--s->len] = '\0';
}

/* 5.5: the path where it was set, then the names below; the default "/" belongs above the pool's root. */
static char *mountpoint_path(const struct dsl_pool *p, const char *value, const char *below)
{
	struct str s = {0};

	str_add(&s, p->altroot ? p->altroot : "");
	str_trim_slashes(&s);
	str_add(&s, value);
	str_trim_slashes(&s);
	if (*below)
		str_addf(&s, "/%s", below);
	if (s.len == 0)
		str_add(&s, "/");
	return s.s;
}

GETTER(get_mountpoint)
{
	struct dsl_dataset *ds = r->ds;
	struct prop_found f;
	const char *below;
	int err = dsl_prop_find_value(ds, r->own, def->name, def, &f);

	if (err)
		return err;
	prop_source_text(&f, o->source);
	if (f.string[0] != '/') {
		o->string = xstrdup(f.string);
		return 0;
	}
	below = ds->dir->name;
	if (f.source != SOURCE_DEFAULT) {
		below += strlen(f.from->name);
		below += *below == '/';
	}
	o->string = mountpoint_path(ds->pool, f.string, below);
	return 0;
}

/* --- encryption --- */

GETTER(get_encryption)
{
	if (!dir_of(r)->crypto_obj)
		return dsl_prop_get_stored(r, def, o);
	return zap_lookup_u64(r->ds->pool->mos, dir_of(r)->crypto_obj, "DSL_CRYPTO_SUITE", &o->number);
}

GETTER(get_encryptionroot)
{
	char root[DSL_NAME_MAX];
	int err;

	if (!dir_of(r)->crypto_obj)
		return -ENOENT;
	err = dsl_crypt_root(r->ds->dir, root);
	if (!err)
		o->string = xstrdup(root);
	return err;
}

GETTER(get_keystatus)
{
	if (!dir_of(r)->crypto_obj)
		return -ENOENT;
	o->number = dsl_key_is_loaded(r->ds->dir) ? 2 : 1;
	return 0;
}

GETTER(get_keyguid)
{
	if (!dir_of(r)->crypto_obj)
		return -ENOENT;
	return zap_lookup_u64(r->ds->pool->mos, dir_of(r)->crypto_obj, "DSL_CRYPTO_GUID", &o->number);
}

/* keyformat, pbkdf2salt, pbkdf2iters are right only in the encryption root's key object. */
GETTER(get_key_param)
{
	struct dsl_pool *p = r->ds->pool;
	uint64_t object = dir_of(r)->crypto_obj, root;
	struct dsl_dir *d;
	int err;

	o->number = def->def_number;
	source_default_if(o, true);
	if (!object)
		return 0;
	if (zap_lookup_u64(p->mos, object, "DSL_CRYPTO_ROOT_DDOBJ", &root) == 0 && root != dir_of(r)->object &&
	    dsl_dir_hold(p, root, &d, NULL) == 0) {
		object = d->crypto_obj;
		dsl_dir_release(d);
	}
	err = zap_lookup_u64(p->mos, object, def->name, &o->number);
	if (err && err != -ENOENT)
		return err;
	if (o->number != def->def_number)
		str_copy(o->source, sizeof(o->source), "-");
	return 0;
}

/* Obsolete properties that no pool answers. */
GETTER(get_nothing)
{
	return -ENOENT;
}

static const struct {
	const char *name;
	prop_getter get;
} getter_table[] = {
    {"type", get_type},
    {"name", get_name},
    {"creation", get_creation},
    {"createtxg", get_createtxg},
    {"guid", get_guid},
    {"objsetid", get_objsetid},
    {"inconsistent", get_inconsistent},
    {"used", get_used},
    {"unique", get_unique},
    {"referenced", get_referenced},
    {"logicalreferenced", get_logicalreferenced},
    {"logicalused", get_logicalused},
    {"compressratio", get_compressratio},
    {"refcompressratio", get_refcompressratio},
    {"available", get_available},
    {"usedbysnapshots", get_usedbysnapshots},
    {"usedbydataset", get_usedbydataset},
    {"usedbychildren", get_usedbychildren},
    {"usedbyrefreservation", get_usedbyrefreservation},
    {"written", get_written},
    {"quota", get_quota},
    {"reservation", get_reservation},
    {"filesystem_count", get_filesystem_count},
    {"snapshot_count", get_snapshot_count},
    {"origin", get_origin},
    {"prevsnap", get_prevsnap},
    {"numclones", get_numclones},
    {"clones", get_clones},
    {"defer_destroy", get_defer_destroy},
    {"userrefs", get_userrefs},
    {"snapshots_changed", get_snapshots_changed},
    {"snapshots_changed_nsecs", get_snapshots_changed_nsecs},
    {"redact_snaps", get_redact_snaps},
    {"redacted", get_redacted},
    {"ivsetguid", get_ivsetguid},
    {"receive_resume_token", get_receive_resume_token},
    {"version", get_version},
    {"utf8only", get_zpl},
    {"normalization", get_zpl},
    {"casesensitivity", get_zpl},
    {"defaultuserquota", get_zpl},
    {"defaultgroupquota", get_zpl},
    {"defaultprojectquota", get_zpl},
    {"defaultuserobjquota", get_zpl},
    {"defaultgroupobjquota", get_zpl},
    {"defaultprojectobjquota", get_zpl},
    {"volsize", get_volsize},
    {"volblocksize", get_volblocksize},
    {"mounted", get_mounted},
    {"mountpoint", get_mountpoint},
    {"encryption", get_encryption},
    {"encryptionroot", get_encryptionroot},
    {"keystatus", get_keystatus},
    {"keyguid", get_keyguid},
    {"keyformat", get_key_param},
    {"pbkdf2salt", get_key_param},
    {"pbkdf2iters", get_key_param},
    {"useraccounting", get_nothing},
    {"stmf_sbd_lu", get_nothing},
    {"remaptxg", get_nothing},
};

static pthread_once_t getters_once = PTHREAD_ONCE_INIT;
static prop_getter *getters; /* by index in dsl_prop_table */

static void getters_fill(void)
{
	getters = xcalloc(dsl_prop_table_len, sizeof(*getters));
	for (size_t i = 0; i < ARRAY_LEN(getter_table); i++) {
		const struct prop_def *def = dsl_prop_find(getter_table[i].name);

		BUG_ON(!def);
		getters[def - dsl_prop_table] = getter_table[i].get;
	}
}

prop_getter dsl_prop_getter(const struct prop_def *def)
{
	pthread_once(&getters_once, getters_fill);
	return getters[def - dsl_prop_table];
}
