/*
 * Golden pools with keys, intent logs and shared blocks: every key of the manifest opens its root and every block
 * behind it reads, wrong keys do not; intent logs hold the records that were counted; dedup tables and clone tables
 * agree with the pool's properties. Pools and manifests are those of $TARN_GOLDEN and $TARN_MANIFESTS; without them the
 * tests are skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <jansson.h>

#include "dsl/ddt.h"
#include "dsl/dsl_crypt.h"
#include "spa/spa.h"
#include "zil/zil.h"

static struct arc *arc;

static json_t *manifest(const char *name)
{
	autofree char *path = NULL;
	json_t *m;

	if (!getenv("TARN_GOLDEN") || !getenv("TARN_MANIFESTS"))
		skip();
	path = xasprintf("%s/%s/manifest.json", getenv("TARN_MANIFESTS"), name);
	m = json_load_file(path, 0, NULL);
	assert_non_null(m);
	return m;
}

static struct spa *import(const char *name)
{
	autofree char *dir = xasprintf("%s/%s", getenv("TARN_GOLDEN"), name);
	const char *path = dir;
	struct spa_search s = {.paths = &path, .npaths = 1};
	struct spa_import args = {.arc = arc, .force = true};
	struct nvlist **pool;
	struct err e = ERR_INIT;
	struct spa *spa;
	size_t n;

	if (spa_search(&s, &pool, &n, &e))
		fail_msg("%s", e.text);
	assert_true(n >= 1);
	args.config = pool[0];
	if (spa_import(&args, &spa, &e))
		fail_msg("%s: %s", name, e.text);
	for (size_t i = 0; i < n; i++)
		nvlist_destroy(pool[i]);
	free(pool);
	return spa;
}

static void export(struct spa *spa)
{
	struct err e = ERR_INIT;

	if (spa_export(spa, &e))
		fail_msg("%s", e.text);
}

/* --- keys --- */

static size_t material_get(json_t *key, uint8_t out[512])
{
	const char *text = json_string_value(json_object_get(key, "value"));
	unsigned byte;
	size_t n = strlen(text);

	assert_true(n < 512);
	memcpy(out, text, n);
	if (strcmp(json_string_value(json_object_get(key, "format")), "raw") != 0)
		return n;
	for (size_t i = 0; i < n / 2; i++) {
		assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
		out[i] = (uint8_t)byte;
	}
	return n / 2;
}

static void keys_load(struct spa *spa, json_t *m)
{
	const char *root;
	json_t *key;

	json_object_foreach(json_object_get(m, "keys"), root, key)
	{
		struct err e = ERR_INIT;
		uint8_t text[512], was;
		size_t n = material_get(key, text);

		was = text[3];
		text[3] = was == '0' ? '1' : '0'; /* well-formed in every format */
		assert_int_equal(dsl_key_load(spa->dsl, root, text, n, false, &e), -EACCES);
		text[3] = was;
		assert_int_equal(dsl_key_load(spa->dsl, root, text, n, true, &e), 0);
		assert_int_equal(dsl_key_unload(spa->dsl, root, &e), -EACCES);
		if (dsl_key_load(spa->dsl, root, text, n, false, &e))
			fail_msg("%s: %s", root, e.text);
		assert_int_equal(dsl_key_load(spa->dsl, root, text, n, false, &e), -EEXIST);
	}
}

static void keys_unload(struct spa *spa, json_t *m)
{
	const char *root;
	json_t *key;

	json_object_foreach(json_object_get(m, "keys"), root, key)
	{
		struct err e = ERR_INIT;

		if (dsl_key_unload(spa->dsl, root, &e))
			fail_msg("%s: %s", root, e.text);
	}
}

static void object_read(struct objset *os, uint64_t object)
{
	struct err e = ERR_INIT;
	uint8_t *block;
	struct dnode *dn;
	struct buf *spill;

	if (dnode_hold(os, object, &dn, &e))
		fail_msg("object %llu: %s", (unsigned long long)object, e.text);
	block = malloc(dn->datablksz);
	for (uint64_t at = 0; !dmu_next_offset(dn, &at, false); at = ROUND_DOWN(at, dn->datablksz) + dn->datablksz)
		assert_int_equal(dmu_read(dn, ROUND_DOWN(at, dn->datablksz), block, dn->datablksz, 0), 0);
	if (dn->has_spill) {
		assert_int_equal(dmu_spill_read(dn, &spill), 0);
		buf_release(spill);
	}
	free(block);
	dnode_release(dn);
}

static int dataset_read(void *arg, struct dsl_dataset *ds)
{
	uint64_t object = 0, skipped = 0, *objects = arg;
	struct err e = ERR_INIT;
	struct objset *os;
	char root[DSL_NAME_MAX];

	if (dsl_dataset_open_objset(ds, &os, &e))
		fail_msg("%s: %s", ds->name, e.text);
	while (!dnode_next(os, &object, &skipped)) {
		object_read(os, object);
		(*objects)++;
	}
	assert_int_equal(skipped, 0);
	if (os->encrypted) { /* an open set keeps its key */
		assert_int_equal(dsl_crypt_root(ds->dir, root), 0);
		assert_int_equal(dsl_key_unload(ds->pool, root, &e), -EBUSY);
	}
	objset_release(os);
	return 0;
}

static int dir_read(void *arg, struct dsl_dir *d)
{
	struct dsl_dataset *head;

	assert_int_equal(dsl_dataset_hold_obj(d->pool, d->head, &head, NULL), 0);
	dataset_read(arg, head);
	dsl_each_snapshot(head, dataset_read, arg);
	dsl_dataset_release(head);
	return dsl_each_child(d, dir_read, arg);
}

static int dir_is_shut(void *arg, struct dsl_dir *d)
{
	struct dsl_dataset *head;
	struct objset *os;

	if (d->crypto_obj) {
		assert_false(dsl_key_is_loaded(d));
		assert_int_equal(dsl_dataset_hold_obj(d->pool, d->head, &head, NULL), 0);
		assert_int_equal(dsl_dataset_open_objset(head, &os, NULL), -EKEY);
		dsl_dataset_release(head);
	}
	return dsl_each_child(d, dir_is_shut, arg);
}

static void from_the_root(struct spa *spa, int (*fn)(void *arg, struct dsl_dir *d), void *arg)
{
	struct dsl_dir *root;

	assert_int_equal(dsl_dir_hold(spa->dsl, spa->dsl->root_dir, &root, NULL), 0);
	assert_int_equal(fn(arg, root), 0);
	dsl_dir_release(root);
}

static void pool_with_keys(const char *name)
{
	json_t *m = manifest(name);
	struct spa *spa = import(name);
	uint64_t objects = 0;

	from_the_root(spa, dir_is_shut, NULL);
	keys_load(spa, m);
	from_the_root(spa, dir_read, &objects);
	assert_true(objects > 0);
	keys_unload(spa, m);
	from_the_root(spa, dir_is_shut, NULL);
	export(spa);
	json_decref(m);
}

static void keys_of_every_suite_and_format_open(void **state)
{
	pool_with_keys("encryption");
}

static void keys_written_by_later_releases_open(void **state)
{
	pool_with_keys("encryption-24");
}

static void clones_of_blocks_in_encrypted_sets_open(void **state)
{
	pool_with_keys("v24-block-cloning");
}

/* --- intent logs --- */

struct log_count {
	uint64_t by_type[TX_TYPES], sealed;
};

static int count_record(void *arg, const struct zil_record *r)
{
	struct log_count *c = arg;

	assert_true(r->txtype < TX_TYPES);
	c->by_type[r->txtype]++;
	c->sealed += r->sealed;
	return 0;
}

static int dir_count(void *arg, struct dsl_dir *d)
{
	struct dsl_dataset *head;
	struct objset *os;

	assert_int_equal(dsl_dataset_hold_obj(d->pool, d->head, &head, NULL), 0);
	if (dsl_key_is_loaded(d))
		assert_int_equal(dsl_dataset_open_objset(head, &os, NULL), 0);
	else
		assert_int_equal(objset_open(d->pool->dp, head->object, &head->bp, NULL, &os, NULL), 0);
	assert_int_equal(zil_each(os, NULL, count_record, arg), 0);
	objset_release(os);
	dsl_dataset_release(head);
	return dsl_each_child(d, dir_count, arg);
}

static void counts_compare(const struct log_count *c, json_t *want)
{
	for (unsigned i = 0; i < TX_TYPES; i++) {
		json_t *n = json_object_get(want, zil_record_name(i));

		assert_int_equal(c->by_type[i], n ? json_integer_value(n) : 0);
	}
}

/* Without keys all records can be counted, with them they can be read too. */
static void logs_of(const char *name, bool encrypted)
{
	json_t *m = manifest(name);
	struct spa *spa = import(name);
	struct log_count shut = {0}, open = {0};

	from_the_root(spa, dir_count, &shut);
	counts_compare(&shut, json_object_get(m, "intent_log_records"));
	assert_int_equal(shut.sealed != 0, encrypted);
	keys_load(spa, m);
	from_the_root(spa, dir_count, &open);
	counts_compare(&open, json_object_get(m, "intent_log_records"));
	assert_int_equal(open.sealed, 0);
	export(spa);
	json_decref(m);
}

static void logs_in_the_pool_are_read(void **state)
{
	logs_of("intent-log", true);
}

static void logs_on_log_devices_are_read(void **state)
{
	logs_of("intent-log-device", true);
}

static void logs_of_later_releases_are_read(void **state)
{
	logs_of("v24-intent-log", true);
}

static void pools_cut_off_without_logs_have_none(void **state)
{
	logs_of("unclean", false);
}

/* --- tables --- */

static int sum_entry(void *arg, const struct ddt_entry *e)
{
	uint64_t *sum = arg;
	struct bp bp;

	for (unsigned i = 0; i < e->nphys; i++) {
		if (!e->phys[i].birth)
			continue;
		ddt_entry_bp(e, i, &bp);
		assert_int_equal(bp_check(&bp), 0);
		sum[0] += bp_psize(&bp);
		sum[1] += bp_psize(&bp) * e->phys[i].refcount;
	}
	return 0;
}

static int sum_clone(void *arg, uint64_t vdev, uint64_t offset, uint64_t refs)
{
	uint64_t *sum = arg;

	sum[0]++;
	sum[1] += refs;
	return 0;
}

/* The entries must add up to what the stored histograms say. */
static void tables_of(const char *name, bool clones)
{
	json_t *m = manifest(name);
	struct spa *spa = import(name);
	struct nvlist *stats;
	uint64_t sum[2] = {0}, cloned[2] = {0};

	assert_int_equal(ddt_stats_get(spa->dsl, &stats), 0);
	assert_int_equal(ddt_each(spa->dsl, sum_entry, sum), 0);
	assert_true(sum[0] > 0);
	assert_int_equal(sum[0], nvlist_u64_or(stats, "dedup_psize", 0));
	assert_int_equal(sum[1], nvlist_u64_or(stats, "ref_psize", 0));
	nvlist_destroy(stats);
	assert_int_equal(brt_each(spa->dsl, sum_clone, cloned), 0);
	assert_int_equal(cloned[0] != 0, clones);
	export(spa);
	json_decref(m);
}

static void dedup_tables_of_each_kind_add_up(void **state)
{
	tables_of("dedup", false);
	tables_of("v24-fast-dedup", false);
	tables_of("v24-legacy-dedup", false);
	tables_of("v24-block-cloning", true);
}

static int group_setup(void **state)
{
	arc = arc_create(64u << 20);
	return 0;
}

static int group_teardown(void **state)
{
	arc_destroy(arc);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keys_of_every_suite_and_format_open),
	    cmocka_unit_test(keys_written_by_later_releases_open),
	    cmocka_unit_test(clones_of_blocks_in_encrypted_sets_open),
	    cmocka_unit_test(logs_in_the_pool_are_read),
	    cmocka_unit_test(logs_on_log_devices_are_read),
	    cmocka_unit_test(logs_of_later_releases_are_read),
	    cmocka_unit_test(pools_cut_off_without_logs_have_none),
	    cmocka_unit_test(dedup_tables_of_each_kind_add_up),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
