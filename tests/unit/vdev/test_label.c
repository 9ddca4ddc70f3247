/* Labels and uberblocks are written as OpenZFS writes them: bit by bit on the golden pools. */
/* clang-format off: cmocka wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
/* clang-format on */

#include <dirent.h>

#include "base/bytes.h"
#include "disk/testdisk.h"
#include "vdev/label.h"

#define SIZE        (UINT64_C(70) << 20)
#define NVLIST_AT   0x4000u
#define NVLIST_SIZE 0x1C000u
#define RING_AT     0x20000u

static struct nvlist *some_config(uint64_t txg)
{
	struct nvlist *nv = nvlist_create();

	nvlist_add_u64(nv, "version", 5000);
	nvlist_add_string(nv, "name", "tank");
	nvlist_add_u64(nv, "state", 0);
	nvlist_add_u64(nv, "txg", txg);
	nvlist_add_u64(nv, "guid", 42);
	return nv;
}

static void assert_same(struct disk *a, struct disk *b, uint64_t offset, size_t size)
{
	uint8_t *x = xmalloc(size), *y = xmalloc(size);

	assert_int_equal(disk_read(a, offset, x, size), 0);
	assert_int_equal(disk_read(b, offset, y, size), 0);
	assert_memory_equal(x, y, size);
	free(x);
	free(y);
}

static void count_slot(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	++*(unsigned *)arg;
}

static void a_new_label_is_valid_and_its_ring_empty(void **state)
{
	static const uint8_t boot_trailer[40] = {0x11, 0x7a, 0x0c, 0xb1, 0x7a, 0xda, 0x10, 0x02, 0x3f, 0x2a,
						 0x6e, 0x7f, 0x80, 0x8f, 0xf4, 0x97, 0xfc, 0xce, 0xaa, 0x58,
						 0x16, 0x9f, 0x90, 0xaf, 0x8b, 0xb4, 0x6d, 0xff, 0x57, 0xea,
						 0xd1, 0xcb, 0xab, 0x5f, 0x46, 0x0d, 0xdb, 0x92, 0xc6, 0x6e};
	struct disk *d = memdisk_create("d", SIZE + 4096);
	autonv struct nvlist *config = some_config(0);
	struct label label[VDEV_LABELS];
	uint8_t junk[8192], got[8192];
	unsigned valid = 0;

	memset(junk, 0xd7, sizeof(junk));
	for (uint64_t at = 0; at < 512 << 10; at += sizeof(junk))
		assert_int_equal(disk_write(d, at, junk, sizeof(junk)), 0);
	assert_int_equal(label_init(d, config), 0);
	assert_int_equal(label_read_all(d, label), 0);
	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		assert_int_equal(label[l].err, 0);
		assert_int_equal(nvlist_u64_or(label[l].config, "guid", 0), 42);
		assert_int_equal(uberblock_each(d, l, 9, count_slot, &valid), 0);
	}
	label_free_all(label);
	assert_int_equal(valid, 0);
	/* The blank area is left alone; the boot block is the chapter's example (2.3). */
	assert_int_equal(disk_read(d, 0, got, sizeof(got)), 0);
	assert_memory_equal(got, junk, sizeof(got));
	assert_int_equal(disk_read(d, 0x4000 - sizeof(boot_trailer), got, sizeof(boot_trailer)), 0);
	assert_memory_equal(got, boot_trailer, sizeof(boot_trailer));
	disk_close(d);
}

static void one_label_is_rewritten_alone(void **state)
{
	struct disk *d = memdisk_create("d", SIZE);
	autonv struct nvlist *old = some_config(5), *new = some_config(6);
	struct label label[VDEV_LABELS];

	assert_int_equal(label_init(d, old), 0);
	assert_int_equal(label_write_config(d, 2, new), 0);
	assert_int_equal(label_write_config(d, 4, new), -EOVERFLOW);
	assert_int_equal(label_read_all(d, label), 0);
	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		assert_int_equal(label[l].err, 0);
		assert_int_equal(label[l].txg, l == 2 ? 6 : 5);
	}
	label_free_all(label);
	disk_close(d);
}

static void a_list_that_does_not_fit_is_refused(void **state)
{
	struct disk *d = memdisk_create("d", SIZE);
	autonv struct nvlist *config = some_config(5);
	autofree char *text = xcalloc(1, 114000);
	struct label label[VDEV_LABELS];

	memset(text, 'x', 113900);
	nvlist_add_string(config, "comment", text);
	assert_int_equal(label_init(d, config), 0);
	assert_int_equal(label_read_all(d, label), 0);
	assert_int_equal(label[3].err, 0);
	label_free_all(label);
	memset(text, 'x', 113999);
	nvlist_add_string(config, "more", text);
	assert_int_equal(label_init(d, config), -E2BIG);
	assert_int_equal(label_write_config(d, 0, config), -E2BIG);
	disk_close(d);
}

struct best {
	struct uberblock ub;
	unsigned slot, valid;
};

static void take_best(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	struct best *b = arg;

	if (b->valid++ == 0 || uberblock_compare(ub, &b->ub) > 0) {
		b->ub = *ub;
		b->slot = slot;
	}
}

static void uberblocks_go_into_the_slots_of_the_chapter(void **state)
{
	static const struct {
		unsigned ashift, slot, slot_multihost;
	} want[] = {{9, 1000 % 128, 1000 % 127}, {12, 1000 % 32, 1000 % 31}, {16, 1000 % 16, 1000 % 15}};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		struct disk *d = memdisk_create("d", SIZE);
		struct uberblock ub = {.version = 5000, .txg = 1000, .guid_sum = 77, .mmp_magic = UBERBLOCK_MMP_MAGIC};
		struct best best = {.valid = 0};

		assert_int_equal(uberblock_write(d, 1, want[i].ashift, &ub, UINT_MAX), 0);
		assert_int_equal(uberblock_each(d, 1, want[i].ashift, take_best, &best), 0);
		assert_int_equal(best.valid, 1);
		assert_int_equal(best.slot, want[i].slot);
		assert_int_equal(best.ub.guid_sum, 77);
		ub.mmp_delay = 5;
		ub.timestamp = 1;
		assert_int_equal(uberblock_slot(want[i].ashift, &ub), want[i].slot_multihost);
		assert_int_equal(uberblock_write(d, 1, want[i].ashift, &ub, 0), 0);
		assert_int_equal(uberblock_each(d, 1, want[i].ashift, take_best, &best), 0);
		assert_int_equal(best.slot, (UBERBLOCK_RING_SIZE >> MIN(MAX(want[i].ashift, 10), 13)) - 1);
		ub.mmp_delay = 0;
		ub.raidz_reflow_info = UINT64_C(1) << 55;
		assert_int_equal(uberblock_slot(want[i].ashift, &ub), want[i].slot - 1);
		disk_close(d);
	}
}

static void clearing_takes_lists_and_rings_only(void **state)
{
	struct disk *d = memdisk_create("d", SIZE);
	autonv struct nvlist *config = some_config(5);
	struct uberblock ub = {.version = 5000, .txg = 9};
	struct label label[VDEV_LABELS];
	uint8_t bytes[512], first = 0xaa;
	unsigned valid = 0;

	assert_int_equal(label_clear(d), -ENOENT);
	assert_int_equal(disk_write(d, 0, &first, 1), 0);
	assert_int_equal(disk_write(d, VDEV_LABEL_START_SIZE, &first, 1), 0);
	assert_int_equal(label_init(d, config), 0);
	assert_int_equal(uberblock_write(d, 3, 9, &ub, UINT_MAX), 0);
	assert_int_equal(label_clear(d), 0);
	assert_int_equal(label_read_all(d, label), 0);
	for (unsigned l = 0; l < VDEV_LABELS; l++)
		assert_true(!label[l].config || !nvlist_exists(label[l].config, "guid"));
	label_free_all(label);
	assert_int_equal(label_clear(d), -ENOENT);
	assert_int_equal(uberblock_each(d, 3, 9, count_slot, &valid), 0);
	assert_int_equal(valid, 0);
	assert_int_equal(disk_read(d, 0, bytes, 512), 0);
	assert_int_equal(bytes[0], 0xaa);
	assert_int_equal(disk_read(d, VDEV_LABEL_START_SIZE, bytes, 512), 0);
	assert_int_equal(bytes[0], 0xaa);
	/* A cache device loses its header, too. */
	nvlist_add_u64(config, "state", 4);
	assert_int_equal(label_init(d, config), 0);
	assert_int_equal(label_clear(d), 0);
	assert_int_equal(disk_read(d, VDEV_LABEL_START_SIZE, bytes, 512), 0);
	assert_int_equal(bytes[0], 0);
	disk_close(d);
}

static void rings_are_copied_to_the_end_of_a_device_that_grew(void **state)
{
	struct sparse *small = sparse_create(SIZE, NULL), *big = sparse_create(2 * SIZE, NULL);
	struct disk *d = memdisk_over("d", small);
	uint8_t *all = xmalloc(SIZE);

	for (uint64_t txg = 1; txg <= 5; txg++) {
		const struct uberblock ub = {.version = 5000, .txg = txg, .swapped = txg == 3};

		for (unsigned l = 0; l < VDEV_LABELS; l++)
			assert_int_equal(uberblock_write(d, l, 12, &ub, UINT_MAX), 0);
	}
	disk_close(d);
	sparse_read(small, 0, all, SIZE);
	memset(all + RING_AT + (4 << 12) + 100, 0x55, 8); /* txg 4 is damaged */
	sparse_write(big, 0, all, SIZE);
	d = memdisk_over("d", big);
	assert_int_equal(label_copy_rings(d, 12), 0);
	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		struct best best = {.valid = 0};
		uint8_t damaged[4096];

		assert_int_equal(uberblock_each(d, l, 12, take_best, &best), 0);
		assert_int_equal(best.valid, l == 1 ? 5 : 4);
		assert_int_equal(best.ub.txg, 5);
		if (l < 2)
			continue;
		assert_int_equal(disk_read(d, label_offset(2 * SIZE, l) + RING_AT + (4 << 12), damaged, 4096), 0);
		for (size_t i = 0; i < sizeof(damaged); i++)
			assert_int_equal(damaged[i], 0);
	}
	disk_close(d);
	free(all);
	sparse_destroy(small);
	sparse_destroy(big);
}

static void devices_too_small_are_refused(void **state)
{
	struct disk *d = memdisk_create("d", 63 << 20);
	autonv struct nvlist *config = some_config(5);
	struct uberblock ub = {.txg = 1};

	assert_int_equal(label_init(d, config), -EOVERFLOW);
	assert_int_equal(label_write_config(d, 0, config), -EOVERFLOW);
	assert_int_equal(uberblock_write(d, 0, 9, &ub, UINT_MAX), -EOVERFLOW);
	assert_int_equal(label_copy_rings(d, 9), -EOVERFLOW);
	assert_int_equal(label_clear(d), -EOVERFLOW);
	disk_close(d);
}

/* --- the golden pools --- */

struct golden {
	struct disk *file, *copy;
	unsigned ashift;
	unsigned *uberblocks;
};

static void golden_uberblock(void *arg, unsigned l, unsigned slot, const struct uberblock *ub)
{
	struct golden *g = arg;
	size_t size = (size_t)1 << MIN(MAX(g->ashift, 10), 13);
	unsigned from_end = (unsigned)(UBERBLOCK_RING_SIZE / size) - 1 - slot;
	uint64_t at = label_offset(ROUND_DOWN(g->file->size, VDEV_LABEL_SIZE), l) + RING_AT + slot * size;

	assert_int_equal(uberblock_write(g->copy, l, g->ashift, ub, from_end), 0);
	assert_same(g->file, g->copy, at, size);
	if (ub->mmp_delay == 0)
		assert_int_equal(uberblock_slot(g->ashift, ub), slot);
	++*g->uberblocks;
}

static void golden_label(struct golden *g, const struct label *label, unsigned l)
{
	struct nvlist *top;

	if (label->err)
		return;
	assert_int_equal(label_write_config(g->copy, l, label->config), 0);
	assert_same(g->file, g->copy, label_offset(ROUND_DOWN(g->file->size, VDEV_LABEL_SIZE), l) + NVLIST_AT,
		    NVLIST_SIZE);
	if (nvlist_list(label->config, "vdev_tree", &top) != 0)
		return; /* spares and cache devices */
	g->ashift = (unsigned)nvlist_u64_or(top, "ashift", 9);
	assert_int_equal(uberblock_each(g->file, l, g->ashift, golden_uberblock, g), 0);
}

static unsigned golden_device(const char *path, unsigned *uberblocks)
{
	struct label label[VDEV_LABELS];
	struct golden g = {.uberblocks = uberblocks};
	unsigned labels = 0;

	assert_int_equal(disk_open(path, DISK_RDONLY, &g.file, NULL), 0);
	if (label_read_all(g.file, label) == 0) {
		g.copy = memdisk_create("copy", g.file->size);
		for (unsigned l = 0; l < VDEV_LABELS; l++) {
			golden_label(&g, &label[l], l);
			labels += label[l].err == 0;
		}
		label_free_all(label);
		disk_close(g.copy);
	}
	disk_close(g.file);
	return labels;
}

static unsigned golden_pool(const char *dir, unsigned *uberblocks)
{
	DIR *d = opendir(dir);
	unsigned labels = 0;

	for (const struct dirent *de; d && (de = readdir(d));) {
		autofree char *path = xasprintf("%s/%s", dir, de->d_name);

		if (strncmp(de->d_name, "disk", 4) == 0)
			labels += golden_device(path, uberblocks);
	}
	if (d)
		closedir(d);
	return labels;
}

static void golden_labels_written_again_are_bit_equal(void **state)
{
	const char *root = getenv("TARN_GOLDEN") ? getenv("TARN_GOLDEN") : "";
	DIR *d = opendir(root);
	unsigned labels = 0, uberblocks = 0;

	if (!d) {
		print_message("skipped: no golden pools in $TARN_GOLDEN\n");
		skip();
	}
	for (const struct dirent *de; (de = readdir(d));) {
		autofree char *dir = xasprintf("%s/%s", root, de->d_name);

		if (de->d_name[0] != '.')
			labels += golden_pool(dir, &uberblocks);
	}
	closedir(d);
	print_message("%u labels, %u uberblocks\n", labels, uberblocks);
	assert_true(labels > 0 && uberblocks > labels);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_new_label_is_valid_and_its_ring_empty),
	    cmocka_unit_test(one_label_is_rewritten_alone),
	    cmocka_unit_test(a_list_that_does_not_fit_is_refused),
	    cmocka_unit_test(uberblocks_go_into_the_slots_of_the_chapter),
	    cmocka_unit_test(clearing_takes_lists_and_rings_only),
	    cmocka_unit_test(rings_are_copied_to_the_end_of_a_device_that_grew),
	    cmocka_unit_test(devices_too_small_are_refused),
	    cmocka_unit_test(golden_labels_written_again_are_bit_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
