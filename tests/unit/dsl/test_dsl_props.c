/* Setting properties: rules and refusals, storing, inheritance, quotas and reservations (docs/format/03, section 5). */
#include "dsl_harness.h"

#include "zpl/zpl.h"
#include "zvol/zvol.h"

static void init_fs(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	assert_int_equal(zpl_create_objects(os, arg, tx), 0);
}

static void init_volume(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	assert_int_equal(
	    zvol_create_objects(os, nvlist_u64_or(arg, "volsize", 0), nvlist_u64_or(arg, "volblocksize", 0), tx), 0);
}

/* Pairs "name", "value", ..., NULL. */
static struct nvlist *values_of(const char *const *pairs)
{
	struct nvlist *l = nvlist_create();

	for (; *pairs; pairs += 2)
		nvlist_add_string(l, pairs[0], pairs[1]);
	return l;
}
#define VALUES(...) values_of((const char *const[]){__VA_ARGS__, NULL})

static int create(struct harness *h, const char *name, unsigned type, struct nvlist *values, struct err *e)
{
	autonv struct nvlist *v = values, *stored = NULL;
	struct dsl_create c = {.name = name, .type = type, .init = type == DSL_VOLUME ? init_volume : init_fs};
	int err = dsl_props_check(h->p, name, type, v, true, &stored, e);

	if (err)
		return err;
	c.props = c.arg = stored;
	return dsl_create(h->p, &c, e);
}

static void created(struct harness *h, const char *name, unsigned type, struct nvlist *values)
{
	struct err e = ERR_INIT;

	if (create(h, name, type, values, &e))
		fail_msg("%s: %s", name, e.text);
}

static void set(struct harness *h, const char *name, struct nvlist *values)
{
	autonv struct nvlist *v = values;
	struct err e = ERR_INIT;

	if (dsl_props_set(h->p, name, v, &e))
		fail_msg("%s: %s", name, e.text);
}

static void refused(struct harness *h, const char *name, const char *prop, const char *value, const char *words)
{
	autonv struct nvlist *v = VALUES(prop, value);
	struct err e = ERR_INIT;

	if (!dsl_props_set(h->p, name, v, &e))
		fail_msg("%s=%s was set", prop, value);
	assert_string_equal(e.text, words);
}

static void expect(struct harness *h, const char *name, const char *prop, const char *value, const char *source)
{
	char v[256], s[DSL_NAME_MAX + 16];
	struct dsl_dataset *ds;

	assert_int_equal(dsl_dataset_hold(h->p, name, &ds, NULL), 0);
	if (dsl_prop_string(ds, prop, v, sizeof(v), s)) {
		if (value)
			fail_msg("%s has no %s", name, prop);
	} else {
		if (!value)
			fail_msg("%s: %s is %s", name, prop, v);
		assert_string_equal(v, value);
		assert_string_equal(s, source);
	}
	dsl_dataset_release(ds);
}

static void inherit(struct harness *h, const char *name, const char *prop, bool received)
{
	struct err e = ERR_INIT;

	if (dsl_prop_inherit(h->p, name, prop, received, &e))
		fail_msg("%s: %s", name, e.text);
}

static void refusals_are_those_of_zfs(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct err e = ERR_INIT;
	char name[300], *value = xmalloc(8193);

	created(h, "p/a", DSL_FILESYSTEM, VALUES("compression", "lz4"));
	created(h, "p/v", DSL_VOLUME, VALUES("volsize", "8M", "volblocksize", "8K"));
	refused(h, "p/a", "foo", "1", "invalid property 'foo'");
	refused(h, "p/a", "A:b", "1", "invalid property 'A:b'");
	refused(h, "p/a", "used", "1", "'used' is readonly");
	refused(h, "p/a", "casesensitivity", "mixed", "'casesensitivity' is readonly");
	refused(h, "p/a", "volblocksize", "8K", "'volblocksize' does not apply to datasets of this type");
	refused(h, "p/v", "recordsize", "8K", "'recordsize' does not apply to datasets of this type");
	refused(h, "p/v", "volblocksize", "8K", "'volblocksize' is readonly");
	refused(h, "p/a", "copies", "4", "'copies' must be one of '1 | 2 | 3'");
	refused(h, "p/a", "readonly", "yes", "'readonly' must be one of 'on | off'");
	refused(h, "p/a", "recordsize", "100K", "'recordsize' must be power of 2 from 512B to 16M");
	refused(h, "p/a", "recordsize", "abc", "bad numeric value 'abc'");
	refused(h, "p/a", "filesystem_limit", "0x10", "invalid numeric suffix 'x10'");
	refused(h, "p/a", "quota", "20E", "numeric value is too large");
	refused(h, "p/a", "quota", "0", "use 'none' to disable quota/refquota");
	refused(h, "p/a", "mountpoint", "foo", "'mountpoint' must be an absolute path, 'none', or 'legacy'");
	refused(h, "p/a", "keylocation", "foo", "invalid keylocation");
	refused(h, "p/a", "keylocation", "prompt", "keylocation must be 'none' for unencrypted datasets");
	refused(h, "p/a", "mlslabel", "x", "mlslabels are unsupported");
	refused(h, "p/a", "written@x", "1", "'written@x' is readonly");
	refused(h, "p/a", "userused@0", "1", "'userused@0' is readonly");
	refused(h, "p/a", "userquota@no such user", "1", "'userquota@no such user' has an invalid user/group name");
	refused(h, "p/v", "userquota@0", "1", "invalid property value");
	refused(h, "p/a", "refreservation", "auto", "'refreservation=auto' only allowed on volumes");
	refused(h, "p/v", "volsize", "0", "'volsize' cannot be zero");
	refused(h, "p/v", "volsize", "8193K", "'volsize' must be a multiple of volume block size (8K)");
	refused(h, "p/a", "version", "4", "Can not downgrade; already at version 5");
	memset(name, 'x', 256);
	memcpy(name, "a:", 2);
	name[256] = '\0';
	autofree char *long_name = xasprintf("property name '%s' is too long", name);
	refused(h, "p/a", name, "1", long_name);
	memset(value, 'y', 8192);
	value[8192] = '\0';
	refused(h, "p/a", "a:b", value, "property value too long");
	refused(h, "p/a", "sharenfs", value, "'sharenfs' is too long");
	value[8191] = '\0';
	set(h, "p/a", VALUES("a:b", value));
	assert_int_equal(create(h, "p/x", DSL_FILESYSTEM, VALUES("normalization", "formD", "utf8only", "off"), &e),
			 -EINVAL);
	assert_string_equal(e.text, "'utf8only' must be set 'on' if normalization chosen");
	free(value);
	hw_destroy(h);
}

static void what_a_pool_lacks_is_refused(void **state)
{
	static const char *const off[] = {"org.freebsd:zstd_compress", "org.open-zfs:large_blocks", "org.illumos:skein",
					  "org.zfsonlinux:large_dnode", "com.joyent:filesystem_limits"};
	static const char words[] = "pool and or dataset must be upgraded to set this property or value";
	struct harness *h = hw_create(off, ARRAY_LEN(off));

	created(h, "p/a", DSL_FILESYSTEM, VALUES("compression", "off"));
	refused(h, "p/a", "compression", "zstd", words);
	refused(h, "p/a", "recordsize", "1M", "'recordsize' must be power of 2 from 512B to 128K");
	refused(h, "p/a", "checksum", "skein", words);
	refused(h, "p/a", "dedup", "skein,verify", words);
	refused(h, "p/a", "dnodesize", "auto", words);
	refused(h, "p/a", "snapshot_limit", "5", words);
	set(h, "p/a", VALUES("checksum", "sha512", "recordsize", "128K", "dnodesize", "legacy"));
	hw_destroy(h);
}

static unsigned told;
static void on_changed(void *arg, uint64_t object)
{
	told += object == *(uint64_t *)arg;
}

static void values_are_stored_inherited_and_watched(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct dsl_dataset *ds;
	struct objset *os;
	uint64_t object;

	created(h, "p/a", DSL_FILESYSTEM, VALUES("compression", "gzip-9", "my:prop", "x", "copies", "2"));
	created(h, "p/a/b", DSL_FILESYSTEM, VALUES("atime", "off"));
	expect(h, "p/a", "compression", "gzip-9", "local");
	expect(h, "p/a/b", "compression", "gzip-9", "inherited from p/a");
	expect(h, "p/a/b", "my:prop", "x", "inherited from p/a");
	expect(h, "p/a/b", "atime", "off", "local");
	expect(h, "p/a", "atime", "on", "default");

	assert_int_equal(dsl_dataset_hold(h->p, "p/a/b", &ds, NULL), 0);
	assert_int_equal(dsl_dataset_open_objset(ds, &os, NULL), 0);
	object = ds->object;
	dsl_prop_watch(h->p, on_changed, &object);
	told = 0;
	set(h, "p/a", VALUES("compression", "zstd-5", "sync", "always", "redundant_metadata", "none"));
	assert_int_equal(told, 1);
	assert_int_equal(os->props.sync, 1);
	assert_int_equal(os->props.redundant_metadata, 3);
	assert_int_equal(os->props.compress, COMPRESS_ZSTD);
	expect(h, "p/a/b", "redundant_metadata", "none", "inherited from p/a");
	assert_int_equal(hw_feature(h, "org.freebsd:zstd_compress")->refs, 1);
	inherit(h, "p/a", "sync", false);
	assert_int_equal(os->props.sync, 0);
	inherit(h, "p/a", "redundant_metadata", false);
	inherit(h, "p/a", "my:prop", false);
	expect(h, "p/a/b", "redundant_metadata", "all", "default");
	expect(h, "p/a/b", "my:prop", NULL, NULL);
	dsl_dataset_close_objset(ds, os);
	dsl_dataset_release(ds);
	hw_reopen(h);
	expect(h, "p/a/b", "compression", "zstd-5", "inherited from p/a");
	expect(h, "p/a", "copies", "2", "local");
	hw_destroy(h);
}

static void snapshots_take_user_properties_only(void **state)
{
	static const char *const name = "p/a@s";
	struct harness *h = hw_create(NULL, 0);
	autonv struct nvlist *v = VALUES("x:y", "1"), *stored = NULL;
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;

	created(h, "p/a", DSL_FILESYSTEM, VALUES("x:z", "above"));
	assert_int_equal(dsl_props_check(h->p, name, DSL_SNAPSHOT, v, true, &stored, &e), 0);
	assert_int_equal(dsl_snapshot(h->p, &name, 1, stored, &e), 0);
	expect(h, name, "x:y", "1", "local");
	expect(h, name, "x:z", "above", "inherited from p/a");
	refused(h, name, "atime", "off", "this property can not be modified for snapshots");
	set(h, name, VALUES("x:y", "2", "x:w", "3"));
	expect(h, name, "x:y", "2", "local");
	inherit(h, name, "x:y", false);
	inherit(h, name, "x:w", false);
	expect(h, name, "x:y", NULL, NULL);
	assert_int_equal(dsl_dataset_hold(h->p, name, &ds, NULL), 0);
	assert_int_equal(ds->props, 0); /* nothing left: no map */
	dsl_dataset_release(ds);
	assert_int_equal(dsl_prop_inherit(h->p, name, "atime", false, &e), -EINVAL);
	assert_string_equal(e.text, "property doesn't apply to datasets of this type");
	hw_destroy(h);
}

static void a_tree_inherits_in_few_groups(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	const char *names[64];
	struct err e = ERR_INIT;
	uint64_t before;

	created(h, "p/a", DSL_FILESYSTEM, VALUES("compression", "gzip-8"));
	names[0] = "p/a";
	for (unsigned i = 1; i < ARRAY_LEN(names); i++) {
		names[i] = xasprintf("p/a/%u", i);
		if (i % 2)
			created(h, names[i], DSL_VOLUME, VALUES("volsize", "1M", "volblocksize", "8K"));
		else
			created(h, names[i], DSL_FILESYSTEM, VALUES("atime", "off"));
		set(h, names[i], VALUES("compression", "gzip-9"));
	}
	before = h->groups;
	assert_int_equal(dsl_prop_inherit_tree(h->p, names, ARRAY_LEN(names), "compression", false, &e), 0);
	/* volumes have none */
	assert_int_equal(dsl_prop_inherit_tree(h->p, names, ARRAY_LEN(names), "atime", false, &e), 0);
	assert_in_range(h->groups - before, 2, 16);
	for (unsigned i = 1; i < ARRAY_LEN(names); i++) {
		expect(h, names[i], "compression", "on", "default");
		if (i % 2 == 0)
			expect(h, names[i], "atime", "on", "default");
	}
	assert_int_equal(dsl_prop_inherit_tree(h->p, names, ARRAY_LEN(names), "quota", false, &e), -EINVAL);
	assert_non_null(strstr(e.text, "cannot be inherited"));
	assert_int_equal(dsl_prop_inherit_tree(h->p, names + 1, 1, "atime", false, &e), 0);
	for (unsigned i = 1; i < ARRAY_LEN(names); i++)
		free((char *)names[i]);
	hw_destroy(h);
}

static void inheriting_has_its_rules(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct err e = ERR_INIT;
	struct dsl_dataset *ds;

	created(h, "p/a", DSL_FILESYSTEM, VALUES("quota", "10M"));
	assert_int_equal(dsl_prop_inherit(h->p, "p/a", "quota", false, &e), -EINVAL);
	assert_string_equal(e.text, "'quota' property cannot be inherited\nuse 'zfs set quota=none' to clear\n"
				    "use 'zfs inherit -S quota' to revert to received value");
	assert_int_equal(dsl_prop_inherit(h->p, "p/a", "used", false, &e), -EINVAL);
	assert_string_equal(e.text, "used property is read-only");
	assert_int_equal(dsl_prop_inherit(h->p, "p/a", "version", true, &e), -EINVAL);
	assert_string_equal(e.text, "'version' property cannot be reverted to a received value");
	inherit(h, "p/a", "quota", true);
	assert_int_equal(dsl_dataset_hold(h->p, "p/a", &ds, NULL), 0);
	assert_int_equal(ds->dir->quota, 0);
	dsl_dataset_release(ds);
	expect(h, "p/a", "quota", "0", "default");
	hw_destroy(h);
}

struct received {
	struct harness *h;
	const char *name, *key;
	uint64_t v;
};

static int nothing_to_check(void *arg, struct tx *tx, struct err *e)
{
	return 0;
}

static void received_sync(void *arg, struct tx *tx)
{
	struct received *r = arg;
	struct dsl_dataset *ds;

	assert_int_equal(dsl_dataset_hold(r->h->p, r->name, &ds, NULL), 0);
	assert_int_equal(zap_update_u64(r->h->mos, ds->dir->props, r->key, r->v, tx), 0);
	dsl_dir_props_changed(ds->dir);
	dsl_dataset_release(ds);
}

static void receive(struct harness *h, const char *name, const char *key, uint64_t v)
{
	struct received r = {h, name, key, v};
	struct dsl_task t = {.check = nothing_to_check, .sync = received_sync, .arg = &r};

	assert_int_equal(dsl_task_run(h->p, &t, NULL), 0);
}

static void received_values_come_back(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct dsl_dataset *ds;

	created(h, "p/a", DSL_FILESYSTEM, VALUES("my:x", "1"));
	receive(h, "p/a", "$hasrecvd", 0);
	receive(h, "p/a", "atime$recvd", 0);
	receive(h, "p/a", "quota$recvd", 20 << 20);
	expect(h, "p/a", "atime", "off", "received");
	set(h, "p/a", VALUES("atime", "on", "quota", "30M"));
	expect(h, "p/a", "atime", "on", "local");
	inherit(h, "p/a", "atime", false);
	expect(h, "p/a", "atime", "on", "default"); /* the received value is not to count */
	inherit(h, "p/a", "atime", true);
	expect(h, "p/a", "atime", "off", "received");
	inherit(h, "p/a", "quota", true);
	assert_int_equal(dsl_dataset_hold(h->p, "p/a", &ds, NULL), 0);
	assert_int_equal(ds->dir->quota, 20 << 20);
	dsl_dataset_release(ds);
	hw_destroy(h);
}

static void space_properties_are_checked_and_counted(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct dsl_dataset *ds;
	uint64_t v;

	static const char *const too_much[][4] = {
	    {"reservation", "1T", "atime", "on"},
	    {"refreservation", "1T", "atime", "on"},
	    {"quota", "1M", "reservation", "2M"},
	    {"refquota", "1M", "refreservation", "2M"},
	};
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < ARRAY_LEN(too_much); i++) {
		const char *const *t = too_much[i];

		assert_int_equal(create(h, "p/x", DSL_FILESYSTEM, VALUES(t[0], t[1], t[2], t[3]), &e), -ENOSPC);
		assert_string_equal(e.text, "out of space");
	}
	created(h, "p/a", DSL_FILESYSTEM, VALUES("quota", "none"));
	refused(h, "p/a", "quota", "1", "size is less than current used or reserved space");
	refused(h, "p/a", "reservation", "1T", "size is greater than available space");
	refused(h, "p/a", "refreservation", "1T", "size is greater than available space");
	refused(h, "p/a", "refquota", "1", "size is less than current used or reserved space");
	/* whatever the order, the one makes room for the other */
	set(h, "p/a", VALUES("reservation", "3M", "quota", "20M"));
	set(h, "p/a", VALUES("quota", "2500K", "reservation", "2M"));
	set(h, "p/a", VALUES("refquota", "9M", "refreservation", "1M", "filesystem_limit", "3"));
	assert_int_equal(dsl_dataset_hold(h->p, "p/a", &ds, NULL), 0);
	assert_int_equal(ds->dir->quota, 2500 << 10);
	assert_int_equal(ds->dir->reserved, 2 << 20);
	assert_int_equal(dsl_dataset_refquota(ds), 9 << 20);
	assert_int_equal(dsl_dataset_refreservation(ds), 1 << 20);
	assert_int_equal(dsl_dir_ext_u64(ds->dir, "com.joyent:filesystem_count", &v), 0);
	assert_int_equal(hw_feature(h, "com.joyent:filesystem_limits")->refs, 1);
	dsl_dataset_release(ds);
	hw_destroy(h);
}

static int resize(struct dsl_dataset *ds, uint64_t volsize, struct err *e)
{
	told = volsize >> 20;
	return 0;
}

static void reservations_of_volumes_follow_their_size(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct dsl_dataset *ds;

	h->p->set_volsize = resize;
	created(h, "p/v", DSL_VOLUME, VALUES("volsize", "8M", "volblocksize", "8K", "refreservation", "auto"));
	assert_int_equal(dsl_dataset_hold(h->p, "p/v", &ds, NULL), 0);
	assert_int_equal(dsl_dataset_refreservation(ds), 10485760);
	set(h, "p/v", VALUES("volsize", "16M"));
	assert_int_equal(told, 16);
	assert_int_equal(dsl_dataset_refreservation(ds), 16777216 + (7 + 2 + 1) * 262144);
	set(h, "p/v", VALUES("refreservation", "5M"));
	set(h, "p/v", VALUES("volsize", "12M"));
	assert_int_equal(dsl_dataset_refreservation(ds), 5 << 20);
	set(h, "p/v", VALUES("refreservation", "none"));
	assert_int_equal(dsl_dataset_refreservation(ds), 0);
	dsl_dataset_release(ds);
	hw_destroy(h);
}

static void versions_and_user_quotas_live_in_the_file_system(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct dsl_dataset *ds;
	struct objset *os;
	uint64_t v, map;
	struct err e = ERR_INIT;

	created(h, "p/a", DSL_FILESYSTEM, VALUES("version", "3"));
	set(h, "p/a", VALUES("userquota@0", "1M", "groupobjquota@17", "5", "defaultuserquota", "7M"));
	assert_int_equal(dsl_set_version(h->p, "p/a", 4, &e), 0);
	set(h, "p/a", VALUES("version", "current"));
	assert_int_equal(dsl_set_version(h->p, "p/a", 4, &e), -EINVAL);
	assert_int_equal(dsl_dataset_hold(h->p, "p/a", &ds, NULL), 0);
	assert_int_equal(dsl_dataset_open_objset(ds, &os, NULL), 0);
	assert_int_equal(zap_lookup_u64(os, 1, "VERSION", &v), 0);
	assert_int_equal(v, 5);
	assert_int_equal(zap_lookup_u64(os, 1, "SA_ATTRS", &v), 0);
	assert_int_equal(zap_lookup_u64(os, 1, "defaultuserquota", &v), 0);
	assert_int_equal(v, 7 << 20);
	assert_int_equal(zap_lookup_u64(os, 1, "userquota@", &map), 0);
	assert_int_equal(zap_lookup_u64(os, map, "0", &v), 0);
	assert_int_equal(v, 1 << 20);
	assert_int_equal(zap_lookup_u64(os, 1, "groupobjquota@", &map), 0);
	assert_int_equal(zap_lookup_u64(os, map, "11", &v), 0);
	assert_int_equal(v, 5);
	set(h, "p/a", VALUES("groupobjquota@17", "none", "defaultuserquota", "none"));
	assert_int_equal(zap_lookup_u64(os, map, "11", &v), -ENOENT);
	assert_int_equal(zap_lookup_u64(os, 1, "defaultuserquota", &v), -ENOENT);
	dsl_dataset_close_objset(ds, os);
	dsl_dataset_release(ds);
	hw_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(refusals_are_those_of_zfs),
	    cmocka_unit_test(what_a_pool_lacks_is_refused),
	    cmocka_unit_test(values_are_stored_inherited_and_watched),
	    cmocka_unit_test(snapshots_take_user_properties_only),
	    cmocka_unit_test(a_tree_inherits_in_few_groups),
	    cmocka_unit_test(inheriting_has_its_rules),
	    cmocka_unit_test(received_values_come_back),
	    cmocka_unit_test(space_properties_are_checked_and_counted),
	    cmocka_unit_test(reservations_of_volumes_follow_their_size),
	    cmocka_unit_test(versions_and_user_quotas_live_in_the_file_system),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
