/*
 * Importing what is not whole: missing and overwritten devices, damaged roots, older states, pools of other hosts,
 * unknown features, and random damage. On copies of golden pools ($TARN_GOLDEN); skipped without.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/os.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "spa/spa.h"

#define MIB (UINT64_C(1) << 20)

static struct arc *arc;
static char dir[64];

static const char *golden(void)
{
	return getenv("TARN_GOLDEN") ? getenv("TARN_GOLDEN") : "";
}

static int setup(void **state)
{
	arc = arc_create(64 << 20);
	strcpy(dir, "/tmp/tarn-recovery-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	autofree char *cmd = xasprintf("rm -rf '%s'", dir);

	arc_destroy(arc);
	return system(cmd);
}

/* Copies one image of a golden pool into the empty test directory; its path is returned. */
static char *copy(const char *pool, unsigned disk)
{
	autofree char *from = xasprintf("%s/%s/disk%u.img", golden(), pool, disk);
	char *to = xasprintf("%s/disk%u.img", dir, disk);
	autofree char *cmd = xasprintf("cp --sparse=always '%s' '%s'", from, to);

	if (access(from, R_OK))
		skip();
	assert_int_equal(system(cmd), 0);
	return to;
}

static void clear(void)
{
	autofree char *cmd = xasprintf("rm -f '%s'/*", dir);

	assert_int_equal(system(cmd), 0);
}

static struct nvlist *found(void)
{
	const char *path = dir;
	struct spa_search s = {.paths = &path, .npaths = 1};
	struct nvlist **pool, *config;
	size_t n;

	assert_int_equal(spa_search(&s, &pool, &n, NULL), 0);
	assert_int_equal(n, 1);
	config = pool[0];
	free(pool);
	return config;
}

static int import(struct spa_import args, struct spa **out, struct err *e)
{
	autonv struct nvlist *config = found();

	*e = (struct err)ERR_INIT;
	args.config = config;
	args.arc = arc;
	return spa_import(&args, out, e);
}

static void import_ok(struct spa_import args, struct spa **out)
{
	struct err e;

	if (import(args, out, &e))
		fail_msg("%s", e.text);
}

static bool is_noted(const struct spa *spa, const char *words)
{
	const char *const *note;
	size_t n;

	if (nvlist_strings(spa->load_info, "notes", &note, &n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (strstr(note[i], words))
			return true;
	return false;
}

static void reason_is(struct spa *spa, const char *reason)
{
	autonv struct nvlist *st = NULL;

	assert_int_equal(spa_status(spa, true, &st), 0);
	assert_string_equal(nvlist_string_or(st, "reason", ""), reason);
}

/* --- devices --- */
static void a_mirror_without_one_side_comes_up_degraded_and_names_it(void **state)
{
	autofree char *disk = copy("mirror", 0);
	struct err e;
	struct spa *spa, *again;

	import_ok((struct spa_import){0}, &spa);
	assert_int_equal(spa->root->state, VDEV_STATE_DEGRADED);
	assert_true(is_noted(spa, "/dev/whole/vdb"));
	reason_is(spa, "missing-dev-r");
	assert_int_equal(import((struct spa_import){0}, &again, &e), -EEXIST);
	assert_int_equal(spa_export(spa, NULL), 0);
	clear();
}

static void zero(const char *path, uint64_t offset, uint64_t len)
{
	autofree uint8_t *zeros = xcalloc(1, MIB);
	int fd = open(path, O_RDWR);

	assert_true(fd >= 0);
	for (uint64_t at = 0; at < len; at += MIB)
		assert_int_equal(pwrite(fd, zeros, MIN(MIB, len - at), offset + at), MIN(MIB, len - at));
	close(fd);
}

/* Labels 0 and 1 and the first copy of everything are gone. (With all of 64 MiB this small pool would lose the third
 * copies, too.) */
static void a_disk_whose_start_is_zero_is_found_by_its_last_labels_and_read(void **state)
{
	autofree char *disk = copy("intent-log", 0);
	struct spa *spa;

	zero(disk, 0, 16 * MIB);
	import_ok((struct spa_import){.force = true}, &spa);
	assert_string_equal(spa->name, "abrupt");
	assert_int_equal(spa_export(spa, NULL), 0);
	clear();
}

static void a_missing_log_is_refused_unless_allowed(void **state)
{
	autofree char *disk = copy("intent-log-device", 0);
	struct err e;
	struct spa *spa;

	assert_int_equal(import((struct spa_import){.force = true}, &spa, &e), -ENXIO);
	assert_non_null(strstr(e.text, "/dev/whole/vdb"));
	assert_non_null(strstr(e.text, "-m"));
	import_ok((struct spa_import){.force = true, .missing_log = true}, &spa);
	reason_is(spa, "bad-log");
	assert_int_equal(spa_export(spa, NULL), 0);
	clear();
}

static void a_missing_top_level_is_refused_and_named(void **state)
{
	autofree char *disk = copy("unclean", 0);
	struct err e;
	struct spa *spa;

	assert_int_equal(import((struct spa_import){.force = true}, &spa, &e), -ENXIO);
	assert_non_null(strstr(e.text, "/dev/whole/vdb"));
	clear();
}

/* --- hosts --- */
static void trailer_renew(uint8_t *block, size_t size, uint64_t offset)
{
	struct cksum sum;

	memset(block + size - 32, 0, 32);
	store_host64(block + size - 32, offset);
	assert_int_equal(checksum_compute(CHECKSUM_SHA256, NULL, block, size, false, &sum), 0);
	memcpy(block + size - 32, sum.word, 32);
}

/* Rewrites the labels of a 64 MiB device with what `edit` does to them. */
static void labels_edit(const char *path, void (*edit)(struct nvlist *config))
{
	int fd = open(path, O_RDWR);
	autofree uint8_t *area = xmalloc(0x1C000);

	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		uint64_t at = label_offset(64 * MIB, l) + 0x4000;
		autonv struct nvlist *config = NULL;
		autofree void *packed = NULL;
		size_t len;

		assert_int_equal(pread(fd, area, 0x1C000, at), 0x1C000);
		assert_int_equal(nvlist_unpack(area, 0x1C000 - 40, &config, NULL), 0);
		edit(config);
		assert_int_equal(nvlist_pack(config, NV_XDR, &packed, &len), 0);
		memset(area, 0, 0x1C000 - 40);
		memcpy(area, packed, len);
		trailer_renew(area, 0x1C000, at);
		assert_int_equal(pwrite(fd, area, 0x1C000, at), 0x1C000);
	}
	close(fd);
}

static void host_add(struct nvlist *config)
{
	nvlist_add_u64(config, "hostid", 0x12345678);
	nvlist_add_string(config, "hostname", "elsewhere");
}

static void a_pool_of_another_host_needs_force(void **state)
{
	autofree char *a = copy("unclean", 0), *b = copy("unclean", 1);
	struct err e;
	struct spa *spa;

	labels_edit(a, host_add);
	labels_edit(b, host_add);
	assert_int_equal(import((struct spa_import){0}, &spa, &e), -EBUSY);
	assert_non_null(strstr(e.text, "elsewhere"));
	assert_non_null(strstr(e.text, "-f"));
	import_ok((struct spa_import){.force = true, .new_name = "renamed"}, &spa);
	assert_true(is_noted(spa, "elsewhere"));
	assert_string_equal(spa->name, "renamed");
	assert_string_equal(spa->dsl->name, "renamed");
	assert_int_equal(spa_export(spa, NULL), 0);
	clear();
}

static bool stop(void *arg, const char *stage)
{
	return true;
}

/* Every uberblock gets `delay` as if multihost were on. */
static void multihost_fake(const char *path, unsigned shift, uint64_t delay)
{
	int fd = open(path, O_RDWR);
	autofree uint8_t *slot = xmalloc(8192);
	size_t size = (size_t)1 << shift;
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		uint64_t ring = label_offset(ROUND_DOWN((uint64_t)st.st_size, VDEV_LABEL_SIZE), l) + 0x20000;

		for (uint64_t at = ring; at < ring + UBERBLOCK_RING_SIZE; at += size) {
			assert_int_equal(pread(fd, slot, size, at), size);
			if (load_host64(slot) != 0x00bab10c)
				continue;
			store_host64(slot + 184, delay);
			store_host64(slot + 192, 1 | 4 | UINT64_C(100) << 8 | UINT64_C(20) << 48);
			trailer_renew(slot, size, at);
			assert_int_equal(pwrite(fd, slot, size, at), size);
		}
	}
	close(fd);
}

static void a_multihost_pool_is_tested_or_refused(void **state)
{
	autofree char *disk = copy("single", 0);
	autonv struct nvlist *config = NULL;
	struct err e;
	struct spa *spa;
	int err;

	multihost_fake(disk, 10, 1000000000);
	err = import((struct spa_import){.force = true, .progress = stop}, &spa, &e);
	if (os_hostid() == 0) {
		assert_int_equal(err, -EREMOTEIO);
		assert_non_null(strstr(e.text, "multihost"));
		config = found();
		assert_int_equal(spa_config_try(config, arc, NULL, NULL), 0);
		assert_string_equal(nvlist_string_or(config, "health", ""), "ONLINE");
		assert_string_equal(nvlist_string_or(config, "reason", ""), "hostid-required");
	} else {
		assert_int_equal(err, -EINTR); /* while it waits */
	}
	clear();
}

static void an_import_can_be_interrupted(void **state)
{
	autofree char *disk = copy("single", 0);
	struct err e;
	struct spa *spa;
	int err = import((struct spa_import){.progress = stop}, &spa, &e);

	if (err == 0) /* it was done before anybody asked */
		assert_int_equal(spa_export(spa, NULL), 0);
	else
		assert_int_equal(err, -EINTR);
	clear();
}

/* --- features --- */
static void feature_add(struct nvlist *config)
{
	struct nvlist *features;

	assert_int_equal(nvlist_list(config, "features_for_read", &features), 0);
	nvlist_add_boolean(features, "org.example:from_the_future");
}

static void an_unknown_feature_in_the_label_is_named(void **state)
{
	autofree char *disk = copy("single", 0);
	struct err e;
	struct spa *spa;

	labels_edit(disk, feature_add);
	assert_int_equal(import((struct spa_import){0}, &spa, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "org.example:from_the_future"));
	clear();
}

/* --- older states --- */
struct newest {
	struct uberblock ub, before; /* the newest, and the newest of an older txg */
};

static void newest_note(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	struct newest *n = arg;

	if (uberblock_compare(ub, &n->ub) > 0) {
		if (n->ub.txg != ub->txg)
			n->before = n->ub;
		n->ub = *ub;
	} else if (ub->txg < n->ub.txg && uberblock_compare(ub, &n->before) > 0) {
		n->before = *ub;
	}
}

static struct newest newest_of(const char *path, unsigned ashift)
{
	struct newest n = {0};
	struct disk *d;

	assert_int_equal(disk_open(path, DISK_RDONLY, &d, NULL), 0);
	for (unsigned l = 0; l < VDEV_LABELS; l++)
		assert_int_equal(uberblock_each(d, l, ashift, newest_note, &n), 0);
	disk_close(d);
	return n;
}

static void an_older_state_is_opened_when_the_newest_root_is_damaged(void **state)
{
	autofree char *disk = copy("single", 0);
	struct newest n = newest_of(disk, 9);
	struct err e;
	struct spa *spa;
	struct bp bp;
	int err;

	bp_decode(&bp, n.ub.rootbp, n.ub.swapped);
	for (unsigned i = 0; i < bp_ndvas(&bp); i++)
		zero(disk, bp_dva(&bp, i).offset + VDEV_LABEL_START_SIZE, bp_psize(&bp));
	err = import((struct spa_import){0}, &spa, &e);
	if (err)
		fail_msg("%s", e.text);
	assert_true(spa->uberblock.txg < n.ub.txg);
	assert_true(is_noted(spa, "seconds before the newest state"));
	assert_int_equal(spa_export(spa, NULL), 0);
	clear();
}

static void an_older_txg_is_opened_and_says_what_was_reused(void **state)
{
	autofree char *a = copy("unclean", 0), *b = copy("unclean", 1);
	struct newest n = newest_of(a, 9);
	struct err e;
	struct spa *spa;

	assert_true(n.before.txg > 0);
	import_ok((struct spa_import){.force = true, .txg = n.before.txg}, &spa);
	assert_int_equal(spa->uberblock.txg, n.before.txg);
	assert_true(is_noted(spa, "reused since") || is_noted(spa, "written over since") ||
		    is_noted(spa, "used again since"));
	assert_int_equal(spa_export(spa, NULL), 0);
	assert_int_equal(import((struct spa_import){.force = true, .txg = 1}, &spa, &e), -ENOENT);
	clear();
}

static void a_dry_run_notes_what_a_rewind_would_come_to(void **state)
{
	autofree char *disk = copy("single", 0);
	struct spa *spa;

	import_ok((struct spa_import){.rewind = true, .rewind_dry = true}, &spa);
	assert_true(is_noted(spa, "would return"));
	assert_int_equal(spa_export(spa, NULL), 0);
	clear();
}

static void properties_that_would_be_written_are_refused(void **state)
{
	autofree char *disk = copy("single", 0);
	autonv struct nvlist *props = nvlist_create(), *shown = NULL;
	struct err e;
	struct spa *spa;
	struct nvlist *cachefile;

	nvlist_add_string(props, "readonly", "on");
	nvlist_add_string(props, "cachefile", "none");
	import_ok((struct spa_import){.props = props}, &spa);
	assert_int_equal(spa_props_get(spa, &shown), 0);
	assert_int_equal(nvlist_list(shown, "cachefile", &cachefile), 0);
	assert_string_equal(nvlist_string_or(cachefile, "value", ""), "none");
	assert_int_equal(spa_export(spa, NULL), 0);
	nvlist_add_string(props, "readonly", "off");
	assert_int_equal(import((struct spa_import){.props = props}, &spa, &e), -EROFS);
	nvlist_add_string(props, "readonly", "on");
	nvlist_add_string(props, "comment", "x");
	assert_int_equal(import((struct spa_import){.props = props}, &spa, &e), -EROFS);
	assert_non_null(strstr(e.text, "comment"));
	clear();
}

static void a_checkpoint_is_opened(void **state)
{
	autofree char *disk = copy("checkpoint", 0);
	struct spa *spa;
	uint64_t now;

	import_ok((struct spa_import){0}, &spa);
	now = spa->uberblock.txg;
	assert_int_equal(spa_export(spa, NULL), 0);
	import_ok((struct spa_import){.rewind_checkpoint = true}, &spa);
	assert_true(spa->uberblock.txg < now);
	assert_int_equal(spa->uberblock.checkpoint_txg, spa->uberblock.txg);
	assert_true(is_noted(spa, "checkpoint"));
	assert_int_equal(spa_export(spa, NULL), 0);
	clear();
}

/* --- holds, damage --- */
static void a_pool_in_use_is_not_exported(void **state)
{
	autofree char *disk = copy("single", 0);
	struct spa *spa;
	struct err e = ERR_INIT;

	import_ok((struct spa_import){0}, &spa);
	spa_hold(spa);
	assert_int_equal(spa_export(spa, &e), -EBUSY);
	spa_release(spa);
	assert_int_equal(spa_export(spa, NULL), 0);
	clear();
}

static int take_record(void *arg, const struct nvlist *record)
{
	return 0;
}

static void look_at_everything(struct spa *spa)
{
	struct nvlist *l;

	assert_int_equal(spa_status(spa, true, &l), 0);
	nvlist_destroy(l);
	assert_int_equal(spa_props_get(spa, &l), 0);
	nvlist_destroy(l);
	assert_int_equal(spa_vdev_props_get(spa, spa->root->child[0], &l), 0);
	nvlist_destroy(l);
	spa_history_each(spa, take_record, NULL);
}

static void random_damage_is_an_error_or_is_read_around(void **state)
{
	autofree char *disk = copy("single", 0);
	int fd = open(disk, O_RDWR);
	uint64_t seed = 42;

	for (unsigned round = 0; round < 24; round++) {
		uint8_t was[64][16], junk[16];
		uint64_t at[64];
		struct err e;
		struct spa *spa;

		for (unsigned i = 0; i < 64; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			/* half of it in the labels, half in the first data, where much metadata is */
			at[i] = (seed >> 20) % (i % 2 ? 512 << 10 : 12 << 20);
			assert_int_equal(pread(fd, was[i], 16, at[i]), 16);
			memset(junk, (int)(seed >> 50), sizeof(junk));
			assert_int_equal(pwrite(fd, junk, 16, at[i]), 16);
		}
		if (import((struct spa_import){.force = true, .rewind = true}, &spa, &e) == 0) {
			look_at_everything(spa);
			assert_int_equal(spa_export(spa, NULL), 0);
		} else {
			assert_true(e.text[0]);
		}
		for (unsigned i = 64; i > 0; i--)
			assert_int_equal(pwrite(fd, was[i - 1], 16, at[i - 1]), 16);
	}
	close(fd);
	clear();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_mirror_without_one_side_comes_up_degraded_and_names_it),
	    cmocka_unit_test(a_disk_whose_start_is_zero_is_found_by_its_last_labels_and_read),
	    cmocka_unit_test(a_missing_log_is_refused_unless_allowed),
	    cmocka_unit_test(a_missing_top_level_is_refused_and_named),
	    cmocka_unit_test(a_pool_of_another_host_needs_force),
	    cmocka_unit_test(a_multihost_pool_is_tested_or_refused),
	    cmocka_unit_test(an_import_can_be_interrupted),
	    cmocka_unit_test(an_unknown_feature_in_the_label_is_named),
	    cmocka_unit_test(an_older_state_is_opened_when_the_newest_root_is_damaged),
	    cmocka_unit_test(an_older_txg_is_opened_and_says_what_was_reused),
	    cmocka_unit_test(a_dry_run_notes_what_a_rewind_would_come_to),
	    cmocka_unit_test(properties_that_would_be_written_are_refused),
	    cmocka_unit_test(a_checkpoint_is_opened),
	    cmocka_unit_test(a_pool_in_use_is_not_exported),
	    cmocka_unit_test(random_damage_is_an_error_or_is_read_around),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
