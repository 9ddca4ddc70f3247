/*
 * File systems of legacy znodes in memory, in both byte orders: look-ups, listing, reading; and what damage does: an
 * error for the object that is damaged, never a loop, for the others nothing (docs/format/07, sections 1 to 4).
 */
#include <dirent.h>

#include "testpool.h"
#include "zpl/zpl_impl.h"

#define OBJECTS 20
#define BLOCK   4096u

enum { MASTER = 1, ROOT, FILE_A, DIR_A, LINK, LOST, LOOP_A, LOOP_B, XATTRS, XATTR_FILE, SELF, NO_BONUS, LIAR };

struct world {
	struct testpool *tp;
	uint8_t slot[OBJECTS][512];
	uint8_t data[3 * BLOCK];
	struct dsl_dataset ds;
	struct zpl *z;
};

static const struct bp no_block;

struct entry {
	const char *name;
	uint64_t value;
};

static void put64(struct world *w, uint8_t *p, uint64_t v)
{
	tp_store64(w->tp, p, v);
}

/* A micro ZAP (02, 9.2). */
static void add_zap(struct world *w, unsigned object, unsigned type, const struct entry *e, size_t n)
{
	uint8_t block[1024] = {0};
	struct bp bp;

	put64(w, block, UINT64_C(0x8000000000000003));
	put64(w, block + 8, 0x12345);
	for (size_t i = 0; i < n; i++) {
		put64(w, block + 64 + 64 * i, e[i].value);
		strcpy((char *)block + 64 + 64 * i + 14, e[i].name);
	}
	bp = tp_write(w->tp, block, sizeof(block), type, 0);
	tp_dnode(w->tp, w->slot[object - 1], type, &bp, 1, sizeof(block), 12, 1);
}

/* A znode of 264 bytes (2.9) in the bonus. */
static void add_znode(struct world *w, unsigned object, unsigned mode, uint64_t size, uint64_t parent, uint64_t xattr)
{
	uint8_t *phys = w->slot[object - 1], *bonus = phys + 64 + BP_SIZE;

	if (phys[0] == 0)
		tp_dnode(w->tp, phys, ZPL_FILE_TYPE, &no_block, 0, 512, 12, 1);
	phys[4] = 17;
	tp_store16(w->tp, phys + 10, 264);
	put64(w, bonus + 16, 1000 + object); /* mtime */
	put64(w, bonus + 64, 5);             /* gen */
	put64(w, bonus + 72, mode);
	put64(w, bonus + 80, size);
	put64(w, bonus + 88, parent);
	put64(w, bonus + 96, 1);
	put64(w, bonus + 104, xattr);
	put64(w, bonus + 120, object == XATTRS || object == XATTR_FILE ? ZPL_XATTR : 0);
	put64(w, bonus + 128, 1001);
}

static void add_data(struct world *w, unsigned object, const uint8_t *data, const bool *hole, unsigned nblocks)
{
	struct bp bp[3] = {0};

	for (unsigned i = 0; i < nblocks; i++)
		if (!hole[i])
			bp[i] = tp_write(w->tp, data + i * BLOCK, BLOCK, ZPL_FILE_TYPE, 0);
	tp_dnode(w->tp, w->slot[object - 1], ZPL_FILE_TYPE, bp, nblocks, BLOCK, 12, 1);
}

static void world_fill(struct world *w)
{
	static const struct entry root[] = {{"file", FILE_A | UINT64_C(8) << 60},
					    {"dir", DIR_A | UINT64_C(4) << 60},
					    {"link", LINK | UINT64_C(10) << 60},
					    {"lost", OBJECTS + 50},
					    {"self", SELF},
					    {"no-bonus", NO_BONUS},
					    {"liar", LIAR}};
	static const struct entry xattrs[] = {{"user.x", XATTR_FILE}, {"plain", XATTR_FILE}};
	static const struct entry loop[] = {{"b", LOOP_B}}, loop2[] = {{"a", LOOP_A}};
	static const bool holes[] = {false, true, false}, no_hole[] = {false};

	tp_pattern(w->data, sizeof(w->data), 1);
	memset(w->data + BLOCK, 0, BLOCK);
	add_data(w, FILE_A, w->data, holes, 3);
	add_data(w, LINK, (const uint8_t *)memset(w->data, 'l', BLOCK), no_hole, 1);
	add_data(w, XATTR_FILE, w->data, no_hole, 1);
	tp_pattern(w->data, BLOCK, 2);
	add_data(w, FILE_A, w->data, holes, 3);
	add_zap(w, ROOT, ZPL_DIR_TYPE, root, ARRAY_LEN(root));
	add_zap(w, DIR_A, ZPL_DIR_TYPE, NULL, 0);
	add_zap(w, LOOP_A, ZPL_DIR_TYPE, loop, 1);
	add_zap(w, LOOP_B, ZPL_DIR_TYPE, loop2, 1);
	add_zap(w, XATTRS, ZPL_DIR_TYPE, xattrs, ARRAY_LEN(xattrs));
	add_znode(w, ROOT, S_IFDIR | 0755, 9, ROOT, 0);
	add_znode(w, FILE_A, S_IFREG | 0640, 2 * BLOCK + 100, ROOT, XATTRS);
	add_znode(w, DIR_A, S_IFDIR | 0700, 2, ROOT, 0);
	add_znode(w, LINK, S_IFLNK | 0777, 300, ROOT, 0); /* too long for the bonus */
	add_znode(w, LOST, S_IFREG | 0600, 0, OBJECTS + 51, 0);
	add_znode(w, LOOP_A, S_IFDIR | 0700, 3, LOOP_B, 0);
	add_znode(w, LOOP_B, S_IFDIR | 0700, 3, LOOP_A, 0);
	add_znode(w, XATTRS, S_IFDIR | 01777, 4, FILE_A, 0);
	add_znode(w, XATTR_FILE, S_IFREG | 0644, 7, XATTRS, 0);
	add_znode(w, SELF, S_IFREG | 0600, 0, ROOT, SELF);
	tp_dnode(w->tp, w->slot[NO_BONUS - 1], ZPL_FILE_TYPE, &no_block, 0, 512, 12, 1);
	add_znode(w, LIAR, S_IFDIR | 0700, 2, ROOT, 0); /* says directory, is none */
}

/* These stand in for the floor of data sets: there is one, and its object set is the world's. */
static struct objset *world_os;

struct dsl_dataset *dsl_dataset_ref(struct dsl_dataset *ds)
{
	return ds;
}

void dsl_dataset_release(struct dsl_dataset *ds)
{
}

int dsl_dataset_open_objset(struct dsl_dataset *ds, struct objset **out, struct err *e)
{
	*out = world_os;
	return 0;
}

static int world_open(struct world *w, uint64_t version, uint64_t root)
{
	const struct entry master[] = {{"VERSION", version}, {"ROOT", root}, {"DELETE_QUEUE", 15}};
	struct err e = ERR_INIT;
	struct bp bp;

	add_zap(w, MASTER, 21, master, ARRAY_LEN(master));
	bp = tp_objset(w->tp, w->slot, OBJECTS, 2048);
	assert_int_equal(objset_open(&w->tp->dp, 9, &bp, NULL, &world_os, &e), 0);
	return zpl_open(&w->ds, &w->z, &e);
}

static struct world *world_create(bool swap)
{
	struct world *w = xcalloc(1, sizeof(*w));

	w->tp = tp_create(9, 32 << 20);
	w->tp->swap = swap;
	strcpy(w->ds.name, "test/fs");
	world_fill(w);
	return w;
}

static void world_destroy(struct world *w)
{
	zpl_close(w->z);
	tp_destroy(w->tp);
	free(w);
}

static int setup(void **state)
{
	struct world *w = world_create(*state != NULL);

	assert_int_equal(world_open(w, 4, ROOT), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	world_destroy(*state);
	return 0;
}

static struct znode *hold(struct world *w, uint64_t id)
{
	struct znode *zn;

	assert_int_equal(znode_hold(w->z, id, &zn, NULL), 0);
	return zn;
}

static void paths_lead_to_files(void **state)
{
	struct world *w = *state;
	struct znode *zn;
	struct stat st;
	struct err e = ERR_INIT;

	assert_int_equal(zpl_path_lookup(w->z, "/file", &zn, NULL), 0);
	znode_stat(zn, &st);
	assert_int_equal(st.st_ino, FILE_A);
	assert_int_equal(st.st_mode, S_IFREG | 0640);
	assert_int_equal(st.st_uid, 1001);
	assert_int_equal(st.st_mtim.tv_sec, 1000 + FILE_A);
	znode_release(zn);
	assert_int_equal(zpl_path_lookup(w->z, "dir/../dir/.", &zn, NULL), 0);
	assert_int_equal(zn->id, DIR_A);
	znode_release(zn);
	assert_int_equal(zpl_path_lookup(w->z, "", &zn, NULL), 0);
	assert_int_equal(zn->id, ROOT);
	znode_release(zn);
	assert_int_equal(zpl_path_lookup(w->z, "dir/none", &zn, &e), -ENOENT);
	assert_non_null(strstr(e.text, "dir/none"));
	assert_int_equal(zpl_path_lookup(w->z, "file/x", &zn, NULL), -ENOTDIR);
}

static void listing_goes_on_from_every_cookie(void **state)
{
	struct world *w = *state;
	struct znode *root = hold(w, ROOT);
	static struct zpl_dirent all[16], de;
	struct zpl_dir *d;
	size_t n = 0;

	assert_int_equal(zpl_dir_open(root, 0, &d), 0);
	while (zpl_dir_next(d, &all[n]) == 0)
		n++;
	zpl_dir_close(d);
	assert_int_equal(n, 9);
	assert_string_equal(all[0].name, ".");
	assert_string_equal(all[1].name, "..");
	assert_int_equal(all[1].next, 2);
	for (size_t i = 0; i + 1 < n; i++) {
		assert_int_equal(zpl_dir_open(root, all[i].next, &d), 0);
		assert_int_equal(zpl_dir_next(d, &de), 0);
		assert_string_equal(de.name, all[i + 1].name);
		if (strcmp(de.name, "dir") == 0)
			assert_int_equal(de.dtype, DT_DIR);
		zpl_dir_close(d);
	}
	znode_release(root);
}

static void data_end_at_the_size_and_holes_are_found(void **state)
{
	struct world *w = *state;
	struct znode *zn = hold(w, FILE_A);
	uint8_t got[sizeof(w->data)];
	uint64_t at = 0;
	size_t n;

	assert_int_equal(zpl_read(zn, 0, got, sizeof(got), &n), 0);
	assert_int_equal(n, 2 * BLOCK + 100);
	assert_memory_equal(got, w->data, n);
	assert_int_equal(zpl_read(zn, 3 * BLOCK, got, 1, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(zpl_seek(zn, &at, true), 0);
	assert_int_equal(at, BLOCK);
	assert_int_equal(zpl_seek(zn, &at, false), 0);
	assert_int_equal(at, 2 * BLOCK);
	assert_int_equal(zpl_seek(zn, &at, true), 0);
	assert_int_equal(at, 2 * BLOCK + 100);
	assert_int_equal(zpl_seek(zn, &at, true), -ENXIO);
	znode_release(zn);
}

static void a_long_link_is_read_from_its_data(void **state)
{
	struct znode *zn = hold(*state, LINK);
	char *target, want[301];

	memset(want, 'l', 300);
	want[300] = '\0';
	assert_int_equal(zpl_readlink(zn, &target), 0);
	assert_string_equal(target, want);
	free(target);
	znode_release(zn);
}

static void attributes_in_a_folder_answer(void **state)
{
	struct znode *zn = hold(*state, FILE_A);
	char *names;
	void *value;
	size_t n;

	assert_int_equal(zpl_xattr_get(zn, "user.plain", &value, &n), 0);
	assert_int_equal(n, 7);
	assert_memory_equal(value, "lllllll", 7);
	free(value);
	assert_int_equal(zpl_xattr_get(zn, "user.none", &value, &n), -ENODATA);
	assert_int_equal(zpl_xattr_list(zn, &names, &n), 0);
	assert_int_equal(n, sizeof("user.x") + sizeof("user.plain"));
	free(names);
	znode_release(zn);
}

static void expect_path(struct world *w, uint64_t id, const char *want)
{
	char *path;

	assert_int_equal(zpl_object_path(w->z, id, &path), 0);
	assert_string_equal(path, want);
	free(path);
}

static void objects_know_their_paths(void **state)
{
	struct world *w = *state;
	char *path;

	expect_path(w, ROOT, "/");
	expect_path(w, FILE_A, "/file");
	expect_path(w, XATTR_FILE, "/file/<xattrdir>/user.x");
	expect_path(w, LOST, "/???");
	assert_int_equal(zpl_object_path(w->z, LOOP_A, &path), 0); /* ends, though its parents do not */
	free(path);
	assert_int_equal(zpl_object_path(w->z, MASTER, &path), -EINVAL);
	assert_int_equal(zpl_object_path(w->z, OBJECTS + 50, &path), -ENOENT);
}

static void damaged_objects_are_errors_of_their_own(void **state)
{
	struct world *w = *state;
	struct znode *zn;
	void *value;
	size_t n;

	assert_int_equal(zpl_path_lookup(w->z, "lost", &zn, NULL), -EIO);
	assert_int_equal(zpl_path_lookup(w->z, "no-bonus", &zn, NULL), -EINVAL);
	assert_int_equal(zpl_path_lookup(w->z, "liar", &zn, NULL), -EIO);
	assert_int_equal(znode_hold(w->z, UINT64_MAX, &zn, NULL), -EINVAL);
	assert_int_equal(zpl_path_lookup(w->z, "self", &zn, NULL), 0); /* its own attribute folder */
	assert_int_equal(zpl_xattr_get(zn, "user.x", &value, &n), -EIO);
	znode_release(zn);
	assert_int_equal(zpl_path_lookup(w->z, "file", &zn, NULL), 0);
	znode_release(zn);
}

static void unusable_master_nodes_are_refused(void **state)
{
	static const struct {
		uint64_t version, root;
		int rc;
	} cases[] = {{0, ROOT, -EINVAL}, {6, ROOT, -ENOTSUP}, {4, 0, -EINVAL}, {5, UINT64_MAX, -EINVAL}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world *w = world_create(false);

		assert_int_equal(world_open(w, cases[i].version, cases[i].root), cases[i].rc);
		world_destroy(w);
	}
}

#define BOTH_ORDERS(f)                                                                                                 \
	{#f, f, setup, teardown, NULL},                                                                                \
	{                                                                                                              \
#f " (swapped)", f, setup, teardown, "swap"                                                            \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    BOTH_ORDERS(paths_lead_to_files),
	    BOTH_ORDERS(listing_goes_on_from_every_cookie),
	    BOTH_ORDERS(data_end_at_the_size_and_holes_are_found),
	    BOTH_ORDERS(a_long_link_is_read_from_its_data),
	    BOTH_ORDERS(attributes_in_a_folder_answer),
	    BOTH_ORDERS(objects_know_their_paths),
	    BOTH_ORDERS(damaged_objects_are_errors_of_their_own),
	    cmocka_unit_test(unusable_master_nodes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
