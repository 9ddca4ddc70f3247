/* Directories made for mount points, in file systems of every kind (docs/format/07, 3.1, 3.5, 4.1). */
#include "../dsl/dsl_harness.h"

#include "zpl/zpl.h"

static void init_fs(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	assert_int_equal(zpl_create_objects(os, arg, tx), 0);
}

static struct zpl *fs_create(struct harness *h, const char *name, const struct nvlist *props)
{
	struct dsl_create c = {.name = name, .type = DSL_FILESYSTEM, .init = init_fs, .arg = (void *)props};
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;
	struct zpl *z;

	if (dsl_create(h->p, &c, &e))
		fail_msg("%s: %s", name, e.text);
	assert_int_equal(dsl_dataset_hold(h->p, name, &ds, &e), 0);
	if (zpl_open(ds, &z, &e))
		fail_msg("%s: %s", name, e.text);
	dsl_dataset_release(ds);
	return z;
}

static uint64_t made(struct zpl *z, uint64_t parent, const char *name)
{
	struct err e = ERR_INIT;
	uint64_t id;

	if (zpl_mkdir(z, parent, name, 0755, 1000, 100, &id, &e))
		fail_msg("%s: %s", name, e.text);
	return id;
}

static void refused(struct zpl *z, uint64_t parent, const char *name, int err)
{
	struct err e = ERR_INIT;
	uint64_t id;

	assert_int_equal(zpl_mkdir(z, parent, name, 0755, 0, 0, &id, &e), err);
	assert_true(e.text[0]);
}

static void dir_check(struct zpl *z, const char *path, uint64_t id, uint64_t parent, uint64_t entries, uint64_t uid)
{
	struct znode *zn;
	struct err e = ERR_INIT;

	if (zpl_path_lookup(z, path, &zn, &e))
		fail_msg("%s: %s", path, e.text);
	assert_int_equal(zn->id, id);
	assert_int_equal(zn->parent, parent);
	assert_int_equal(zn->mode, 040755);
	assert_int_equal(zn->size, 2 + entries);
	assert_int_equal(zn->links, 2 + entries);
	assert_int_equal(zn->uid, uid);
	assert_true(zn->gen >= HW_FIRST_TXG);
	assert_true(zn->mtime.tv_sec > 1000000000);
	znode_release(zn);
}

static void directories_appear_with_all_that_belongs_to_them(void **state)
{
	for (uint64_t version = 1; version <= 5; version++) {
		struct harness *h = hw_create(NULL, 0);
		autonv struct nvlist *props = nvlist_create();

		nvlist_add_u64(props, "version", version);
		struct zpl *z = fs_create(h, "p/a", props), *other;
		uint64_t a = made(z, z->root, "a"), b = made(z, a, "b"),
			 c = made(z, a, "a name, which is longer than fifty bytes, for one");
		assert_int_equal(zpl_open(z->ds, &other, NULL), 0);
		uint64_t d = made(other, z->root, "d");

		dir_check(z, "", z->root, z->root, 2, 0);
		dir_check(z, "a", a, z->root, 2, 1000);
		dir_check(other, "a/b", b, a, 0, 1000);
		dir_check(z, "a/a name, which is longer than fifty bytes, for one", c, a, 0, 1000);
		dir_check(z, "d", d, z->root, 0, 1000);
		refused(z, z->root, "a", -EEXIST);
		refused(z, z->root, ".zfs", -EEXIST);
		refused(z, z->root, "..", -EINVAL);
		refused(z, z->root, "x/y", -EINVAL);
		refused(z, 1, "x", -EINVAL);
		refused(z, 12345678, "x", -ENOENT);
		zpl_close(other);
		zpl_close(z);
		hw_destroy(h);
	}
}

/* The file system is older than project quotas: it lacks the layout that its directories get now. */
static void directories_get_layouts_that_are_not_there_yet(void **state)
{
	static const char *const off[] = {"org.zfsonlinux:project_quota"};
	struct harness *h = hw_create(off, 1);
	struct zpl *z = fs_create(h, "p/a", NULL);
	uint64_t a;

	for (size_t i = 0; i < ARRAY_LEN(h->f); i++)
		if (h->f[i].guid && strcmp(h->f[i].guid, off[0]) == 0)
			h->f[i].enabled = true;
	a = made(z, z->root, "a");
	dir_check(z, "", z->root, z->root, 1, 0);
	dir_check(z, "a", a, z->root, 0, 1000);
	zpl_close(z);
	hw_destroy(h);
}

struct usage {
	uint64_t objects[2], bytes[2];
};

static int usage_take(void *arg, const char *domain, uint64_t id, const struct zpl_space *s)
{
	struct usage *u = arg;

	assert_true(id == 0 || id == 1000);
	u->objects[id == 1000] = s->objused;
	u->bytes[id == 1000] = s->used;
	return 0;
}

static void directories_are_accounted(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct usage u = {{0}, {0}};

	h->tp->dp.userobj_accounting = h->tp->dp.project_quota = true;
	struct zpl *z = fs_create(h, "p/a", NULL);
	made(z, z->root, "a");
	made(z, z->root, "b");
	zpl_close(z);
	hw_reopen(h);
	struct dsl_dataset *ds;
	assert_int_equal(dsl_dataset_hold(h->p, "p/a", &ds, NULL), 0);
	assert_int_equal(zpl_open(ds, &z, NULL), 0);
	assert_int_equal(zpl_space_each(z, ZPL_USER, usage_take, &u), 0);
	assert_int_equal(u.objects[0], 1);
	assert_int_equal(u.objects[1], 2);
	assert_true(u.bytes[1] >= 2 * 512);
	dsl_dataset_release(ds);
	zpl_close(z);
	hw_destroy(h);
}

static void names_follow_the_rules_of_the_file_system(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	autonv struct nvlist *props = nvlist_create();

	nvlist_add_u64(props, "casesensitivity", 1);
	nvlist_add_u64(props, "normalization", 0x10);
	struct zpl *z = fs_create(h, "p/a", props);
	made(z, z->root, "ReadMe");
	refused(z, z->root, "README", -EEXIST);
	refused(z, z->root, "bad\xff", -EILSEQ);
	made(z, z->root, "caf\xc3\xa9");
	refused(z, z->root, "cafe\xcc\x81", -EEXIST);
	zpl_close(z);
	hw_destroy(h);
}

static void what_is_read_only_stays_so(void **state)
{
	static const char *const name = "p/a@s";
	autonv struct nvlist *on = nvlist_create();
	struct harness *h = hw_create(NULL, 0);
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;
	struct zpl *z = fs_create(h, "p/a", NULL), *snap;

	assert_int_equal(dsl_snapshot(h->p, &name, 1, NULL, &e), 0);
	assert_int_equal(dsl_dataset_hold(h->p, name, &ds, NULL), 0);
	assert_int_equal(zpl_open(ds, &snap, NULL), 0);
	refused(snap, snap->root, "x", -EROFS);
	zpl_close(snap);
	dsl_dataset_release(ds);
	nvlist_add_string(on, "readonly", "on");
	assert_int_equal(dsl_props_set(h->p, "p/a", on, &e), 0);
	refused(z, z->root, "x", -EROFS);
	zpl_close(z);
	hw_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(directories_appear_with_all_that_belongs_to_them),
	    cmocka_unit_test(directories_get_layouts_that_are_not_there_yet),
	    cmocka_unit_test(directories_are_accounted),
	    cmocka_unit_test(names_follow_the_rules_of_the_file_system),
	    cmocka_unit_test(what_is_read_only_stays_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
