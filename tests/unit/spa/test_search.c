/*
 * Finding pools: every golden pool is assembled from its devices; stale labels never win; partitions are seen.
 * The unpacked images are looked for in $TARN_GOLDEN; without them only what is made here is
 * tested.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "codec/checksum.h"
#include "spa/spa.h"

#define MIB (UINT64_C(1) << 20)

/* --- images made here: labels and one uberblock, nothing else --- */
struct image {
	uint64_t pool_guid, guid, top_guid, txg, time, state;
	const char *name;
	unsigned id, children;
};

static void trailer_write(uint8_t *block, size_t size, uint64_t offset)
{
	struct cksum sum;

	store_host64(block + size - 40, UINT64_C(0x0210da7ab10c7a11));
	memset(block + size - 32, 0, 32);
	store_host64(block + size - 32, offset);
	assert_int_equal(checksum_compute(CHECKSUM_SHA256, NULL, block, size, false, &sum), 0);
	memcpy(block + size - 32, sum.word, 32);
}

static struct nvlist *label_make(const struct image *im)
{
	struct nvlist *l = nvlist_create(), *tree = nvlist_create();

	nvlist_add_u64(l, "version", 5000);
	nvlist_add_string(l, "name", im->name);
	nvlist_add_u64(l, "state", im->state);
	nvlist_add_u64(l, "txg", im->txg);
	nvlist_add_u64(l, "pool_guid", im->pool_guid);
	nvlist_add_u64(l, "top_guid", im->top_guid);
	nvlist_add_u64(l, "guid", im->guid);
	nvlist_add_u64(l, "vdev_children", im->children);
	nvlist_add_string(tree, "type", "file");
	nvlist_add_u64(tree, "id", im->id);
	nvlist_add_u64(tree, "guid", im->guid);
	nvlist_add_string(tree, "path", "/recorded/elsewhere");
	nvlist_add_u64(tree, "ashift", 12);
	nvlist_take_list(l, "vdev_tree", tree);
	return l;
}

static void label_write(int fd, uint64_t at, const struct image *im)
{
	autofree uint8_t *area = xcalloc(1, 0x1C000), *slot = xcalloc(1, 4096);
	autonv struct nvlist *l = label_make(im);
	autofree void *packed = NULL;
	size_t len;

	assert_int_equal(nvlist_pack(l, NV_XDR, &packed, &len), 0);
	memcpy(area, packed, len);
	trailer_write(area, 0x1C000, at + 0x4000);
	assert_int_equal(pwrite(fd, area, 0x1C000, at + 0x4000), 0x1C000);
	store_host64(slot, 0x00bab10c);
	store_host64(slot + 8, 5000);
	store_host64(slot + 16, im->txg);
	store_host64(slot + 32, im->time);
	trailer_write(slot, 4096, at + 0x20000);
	assert_int_equal(pwrite(fd, slot, 4096, at + 0x20000), 4096);
}

static void image_make(const char *path, uint64_t size, const struct image *im)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	for (unsigned l = 0; l < VDEV_LABELS; l++)
		label_write(fd, label_offset(size, l), im);
	close(fd);
}

static char *dir_make(void)
{
	char *dir = xstrdup("/tmp/tarn-search-XXXXXX");

	assert_non_null(mkdtemp(dir));
	return dir;
}

static void dir_remove(char *dir)
{
	autofree char *cmd = xasprintf("rm -rf '%s'", dir);

	assert_int_equal(system(cmd), 0);
	free(dir);
}

static struct nvlist **search(const char *path, size_t *n)
{
	struct spa_search s = {.paths = &path, .npaths = 1};
	struct nvlist **pool;
	struct err e = ERR_INIT;

	if (spa_search(&s, &pool, n, &e))
		fail_msg("%s", e.text);
	return pool;
}

static void pools_free(struct nvlist **pool, size_t n)
{
	for (size_t i = 0; i < n; i++)
		nvlist_destroy(pool[i]);
	free(pool);
}

static bool has_note(const struct nvlist *config, const char *word)
{
	const char *const *note;
	size_t n;

	assert_int_equal(nvlist_strings(config, "notes", &note, &n), 0);
	for (size_t i = 0; i < n; i++)
		if (strstr(note[i], word))
			return true;
	return false;
}

static void stale_labels_of_another_pool_never_win(void **state)
{
	struct image old = {
	    .pool_guid = 1, .guid = 2, .top_guid = 2, .txg = 900, .time = 100, .name = "old", .children = 1};
	struct image new = {
	    .pool_guid = 5, .guid = 6, .top_guid = 6, .txg = 10, .time = 200, .name = "new", .children = 1};
	char *dir = dir_make();
	autofree char *path = xasprintf("%s/disk", dir);
	struct nvlist **pool;
	size_t n;

	/* the new pool was made while the device was smaller: the old labels at its end are still there */
	image_make(path, 256 * MIB, &old);
	image_make(path, 128 * MIB, &new);
	assert_int_equal(truncate(path, 128 * MIB), 0);
	image_make(path, 256 * MIB, &old);
	for (unsigned l = 0; l < 2; l++) {
		int fd = open(path, O_RDWR);

		label_write(fd, label_offset(256 * MIB, l), &new);
		close(fd);
	}
	pool = search(dir, &n);
	assert_int_equal(n, 1);
	assert_string_equal(nvlist_string_or(pool[0], "name", ""), "new");
	assert_string_equal(nvlist_string_or(pool[0], "health", ""), "ONLINE");
	assert_true(has_note(pool[0], "stale labels of pool 'old'"));
	pools_free(pool, n);
	dir_remove(dir);
}

static void an_older_copy_of_a_device_never_wins(void **state)
{
	struct image im = {
	    .pool_guid = 1, .guid = 2, .top_guid = 2, .txg = 50, .time = 100, .name = "p", .children = 1};
	char *dir = dir_make();
	autofree char *a = xasprintf("%s/a-copy", dir), *b = xasprintf("%s/b-real", dir);
	struct nvlist **pool, *tree, *const *child;
	size_t n, nchild;

	image_make(a, 64 * MIB, &im);
	im.txg = 60;
	image_make(b, 64 * MIB, &im);
	pool = search(dir, &n);
	assert_int_equal(n, 1);
	assert_int_equal(nvlist_u64_or(pool[0], "txg", 0), 60);
	assert_int_equal(nvlist_list(pool[0], "vdev_tree", &tree), 0);
	assert_int_equal(nvlist_lists(tree, "children", &child, &nchild), 0);
	assert_string_equal(nvlist_string_or(child[0], "path", ""), b);
	assert_true(has_note(pool[0], "a-copy"));
	pools_free(pool, n);
	dir_remove(dir);
}

static void missing_top_levels_are_named(void **state)
{
	struct image im = {.pool_guid = 1, .guid = 2, .top_guid = 2, .txg = 50, .name = "p", .id = 1, .children = 3};
	char *dir = dir_make();
	autofree char *path = xasprintf("%s/disk", dir);
	struct nvlist **pool, *tree, *const *child;
	size_t n, nchild;

	image_make(path, 64 * MIB, &im);
	pool = search(path, &n);
	assert_int_equal(n, 1);
	assert_int_equal(nvlist_list(pool[0], "vdev_tree", &tree), 0);
	assert_int_equal(nvlist_lists(tree, "children", &child, &nchild), 0);
	assert_int_equal(nchild, 3);
	assert_string_equal(nvlist_string_or(child[0], "type", ""), "missing");
	assert_string_equal(nvlist_string_or(child[1], "type", ""), "file");
	assert_string_equal(nvlist_string_or(pool[0], "health", ""), "UNAVAIL");
	assert_string_equal(nvlist_string_or(pool[0], "reason", ""), "missing-dev-nr");
	pools_free(pool, n);
	dir_remove(dir);
}

static void destroyed_pools_show_only_when_asked_for(void **state)
{
	struct image im = {.pool_guid = 1, .guid = 2, .top_guid = 2, .txg = 50, .state = 2, .name = "p", .children = 1};
	char *dir = dir_make();
	autofree char *path = xasprintf("%s/disk", dir);
	const char *paths[] = {dir};
	struct spa_search s = {.paths = paths, .npaths = 1, .destroyed = true};
	struct nvlist **pool;
	size_t n;

	image_make(path, 64 * MIB, &im);
	pool = search(dir, &n);
	assert_int_equal(n, 0);
	pools_free(pool, n);
	assert_int_equal(spa_search(&s, &pool, &n, NULL), 0);
	assert_int_equal(n, 1);
	pools_free(pool, n);
	dir_remove(dir);
}

static void a_cache_file_leads_to_its_pools_alone(void **state)
{
	struct image im = {.pool_guid = 1, .guid = 2, .top_guid = 2, .txg = 50, .name = "p", .children = 1};
	struct image other = {.pool_guid = 7, .guid = 8, .top_guid = 8, .txg = 50, .name = "q", .children = 1};
	char *dir = dir_make();
	autofree char *path = xasprintf("%s/disk", dir), *path2 = xasprintf("%s/other", dir);
	autofree char *cache = xasprintf("%s/zpool.cache", dir);
	autonv struct nvlist *list = nvlist_create();
	struct nvlist *config = label_make(&im), *tree, *gone, **pool;
	struct spa_search s = {.cachefile = cache};
	autofree void *packed = NULL;
	size_t len, n;
	FILE *f = fopen(cache, "w");

	image_make(path, 64 * MIB, &im);
	image_make(path2, 64 * MIB, &other);
	assert_int_equal(nvlist_list(config, "vdev_tree", &tree), 0);
	nvlist_add_string(tree, "path", path);
	nvlist_take_list(list, "p", config);
	gone = nvlist_copy(config);
	nvlist_add_u64(gone, "pool_guid", 99);
	nvlist_take_list(list, "gone", gone);
	assert_int_equal(nvlist_pack(list, NV_NATIVE, &packed, &len), 0);
	assert_int_equal(fwrite(packed, 1, len, f), len);
	fclose(f);
	assert_int_equal(spa_search(&s, &pool, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(nvlist_string_or(pool[0], "name", ""), "p");
	assert_string_equal(nvlist_string_or(pool[0], "health", ""), "ONLINE");
	assert_string_equal(nvlist_string_or(pool[1], "name", ""), "gone");
	assert_string_not_equal(nvlist_string_or(pool[1], "health", ""), "ONLINE");
	pools_free(pool, n);
	dir_remove(dir);
}

static bool stop_at_once(void *arg, const char *stage)
{
	return true;
}

static void a_search_can_be_interrupted(void **state)
{
	struct image im = {.pool_guid = 1, .guid = 2, .top_guid = 2, .txg = 50, .name = "p", .children = 1};
	char *dir = dir_make();
	autofree char *path = xasprintf("%s/disk", dir);
	const char *paths[] = {dir};
	struct spa_search s = {.paths = paths, .npaths = 1, .progress = stop_at_once};
	struct nvlist **pool;
	size_t n;

	image_make(path, 64 * MIB, &im);
	assert_int_equal(spa_search(&s, &pool, &n, NULL), -EINTR);
	dir_remove(dir);
}

static void junk_is_no_pool(void **state)
{
	char *dir = dir_make();
	autofree char *path = xasprintf("%s/disk", dir);
	autofree uint8_t *junk = xmalloc(64 * MIB);
	const char *nowhere = "/nonexistent/tarn";
	struct spa_search s = {.paths = &nowhere, .npaths = 1};
	struct nvlist **pool;
	size_t n;
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	for (size_t i = 0; i < 64 * MIB; i++)
		junk[i] = i * 2654435761u >> 13;
	assert_int_equal(pwrite(fd, junk, 64 * MIB, 0), 64 * MIB);
	close(fd);
	pool = search(dir, &n);
	assert_int_equal(n, 0);
	pools_free(pool, n);
	assert_int_equal(spa_search(&s, &pool, &n, NULL), -ENOENT);
	dir_remove(dir);
}

/* --- the golden pools --- */
static const char *golden(void)
{
	return getenv("TARN_GOLDEN") ? getenv("TARN_GOLDEN") : "";
}

static void golden_check(const char *name)
{
	autofree char *dir = xasprintf("%s/%s", golden(), name);
	struct nvlist **pool;
	const char *health;
	size_t n;

	pool = search(dir, &n);
	if (n != 1)
		fail_msg("%s: %zu pools", name, n);
	health = nvlist_string_or(pool[0], "health", "");
	if (strcmp(health, strncmp(name, "degraded-", 9) == 0 ? "DEGRADED" : "ONLINE") != 0)
		fail_msg("%s: %s (%s)", name, health, nvlist_string_or(pool[0], "error", ""));
	pools_free(pool, n);
}

static void every_golden_pool_is_assembled(void **state)
{
	DIR *d = opendir(golden());
	struct dirent *de;

	if (!d)
		skip();
	while ((de = readdir(d)))
		if (de->d_name[0] != '.')
			golden_check(de->d_name);
	closedir(d);
}

static void a_pool_in_a_partition_of_an_image_is_found(void **state)
{
	autofree char *dir = xasprintf("%s/whole-disk", golden());
	struct nvlist **pool, *tree, *const *child;
	size_t n, nchild;

	if (access(dir, R_OK))
		skip();
	pool = search(dir, &n);
	assert_int_equal(n, 1);
	assert_int_equal(nvlist_list(pool[0], "vdev_tree", &tree), 0);
	assert_int_equal(nvlist_lists(tree, "children", &child, &nchild), 0);
	assert_non_null(strstr(nvlist_string_or(child[0], "path", ""), "disk0.img-part1"));
	pools_free(pool, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stale_labels_of_another_pool_never_win),
	    cmocka_unit_test(an_older_copy_of_a_device_never_wins),
	    cmocka_unit_test(missing_top_levels_are_named),
	    cmocka_unit_test(destroyed_pools_show_only_when_asked_for),
	    cmocka_unit_test(a_cache_file_leads_to_its_pools_alone),
	    cmocka_unit_test(a_search_can_be_interrupted),
	    cmocka_unit_test(junk_is_no_pool),
	    cmocka_unit_test(every_golden_pool_is_assembled),
	    cmocka_unit_test(a_pool_in_a_partition_of_an_image_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
