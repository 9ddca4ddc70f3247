/*
 * test_cases FIXTURES: what people who run ZFS have met, one test of each kind. FIXTURES is the folder of pools that
 * the real OpenZFS made for this; the others are golden pools.
 *
 * Every device is watched: the program is linked with its own disk_submit, open and os_hostid in front of the real ones
 * (--wrap). A write to a device, or an image opened for writing, fails the test.
 */
/* clang-format off: cmocka wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "async_sha256.h"
#include "base/bytes.h"
#include "base/os.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "disk/disk.h"
#include "golden_node.h"
#include "look.h"

#define MIB          (UINT64_C(1) << 20)
#define BOUNDED      30 /* seconds, on a busy machine under a sanitizer */
#define SPREAD_FILES 320
#define RING_OFFSET  0x20000

static const char *fixtures;

/* --- in front of the engine --- */
static struct {
	const char *dir; /* of images */
	atomic_uint writes, writable_opens;
	bool hostid_is_set;
	uint32_t hostid;
	const char *feature, *renamed; /* in blocks that come from the disk */
	atomic_uint renames;
} trap;

void __real_disk_submit(struct disk *d, struct disk_req *r);
void __wrap_disk_submit(struct disk *d, struct disk_req *r);
void __wrap_disk_submit(struct disk *d, struct disk_req *r)
{
	if (r->op != DISK_READ)
		atomic_fetch_add(&trap.writes, 1);
	__real_disk_submit(d, r);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	if (trap.dir && strncmp(path, trap.dir, strlen(trap.dir)) == 0 && (flags & O_ACCMODE) != O_RDONLY)
		atomic_fetch_add(&trap.writable_opens, 1);
	return __real_open64(path, flags, mode);
}

uint32_t __real_os_hostid(void);
uint32_t __wrap_os_hostid(void);
uint32_t __wrap_os_hostid(void)
{
	return trap.hostid_is_set ? trap.hostid : __real_os_hostid();
}

struct intercept {
	struct zio_read zr;
	struct zio_read *outer;
};

/* A feature's name becomes another of the same length. */
static void renamed(struct zio_read *zr, int err, struct buf *buf)
{
	struct intercept *ic = zr->arg;
	struct zio_read *outer = ic->outer;
	size_t len = strlen(trap.feature);

	for (uint8_t *p = buf ? buf->data : NULL; p && (p = memmem(p, buf->data + buf->size - p, trap.feature, len));) {
		memcpy(p, trap.renamed, len);
		atomic_fetch_add(&trap.renames, 1);
	}
	free(ic);
	outer->done(outer, err, buf);
}

void __real_zio_read(struct zio_pool *zp, struct zio_read *r);
void __wrap_zio_read(struct zio_pool *zp, struct zio_read *r);
void __wrap_zio_read(struct zio_pool *zp, struct zio_read *r)
{
	struct intercept *ic;

	if (!trap.feature) {
		__real_zio_read(zp, r);
		return;
	}
	ic = xmalloc(sizeof(*ic));
	ic->outer = r;
	ic->zr = *r;
	ic->zr.done = renamed;
	ic->zr.arg = ic;
	__real_zio_read(zp, &ic->zr);
}

/* --- pools --- */
static void load(struct golden *g, const char *name)
{
	int rc = golden_load(g, name);

	if (rc == GOLDEN_SKIP) {
		golden_close(g);
		skip();
	}
	assert_int_equal(rc, 0);
	memset(&trap, 0, sizeof(trap));
	trap.dir = g->dir;
}

static void load_fixture(struct golden *g, const char *name)
{
	autofree char *path = xasprintf("%s/%s", fixtures, name);

	load(g, path);
}

static void import_ok(struct golden *g, struct spa_import args)
{
	struct err e = ERR_INIT;

	if (golden_try_import(g, &args, &e))
		fail_msg("%s", e.text);
}

static void unload(struct golden *g)
{
	trap.dir = NULL;
	golden_close(g);
	assert_int_equal(g->differences, 0);
	assert_int_equal(trap.writes, 0);
	assert_int_equal(trap.writable_opens, 0);
}

static void export(struct golden *g)
{
	assert_int_equal(golden_export(g, NULL), 0);
}

static char *note_with(const struct spa *spa, const char *words)
{
	const char *const *note;
	size_t n;

	if (nvlist_strings(spa->load_info, "notes", &note, &n))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (strstr(note[i], words))
			return xstrdup(note[i]);
	return NULL;
}

static void has_note(const struct spa *spa, const char *words)
{
	autofree char *note = note_with(spa, words);
	const char *const *all;
	size_t n;

	if (note)
		return;
	if (nvlist_strings(spa->load_info, "notes", &all, &n) == 0)
		for (size_t i = 0; i < n; i++)
			print_message("note: %s\n", all[i]);
	fail_msg("no note has '%s'", words);
}

/* For the tests themselves, past the trap. */
static int image_open(const struct golden *g, size_t i)
{
	autofree char *path = golden_image(g, i);
	int fd = __real_open64(path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void zero(int fd, uint64_t at, uint64_t len)
{
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)len), 0);
}

static void trailer_renew(uint8_t *block, size_t size, uint64_t offset)
{
	struct cksum sum;

	memset(block + size - 32, 0, 32);
	store_host64(block + size - 32, offset);
	assert_int_equal(checksum_compute(CHECKSUM_SHA256, NULL, block, size, false, &sum), 0);
	memcpy(block + size - 32, sum.word, 32);
}

/* --- files of the fixtures: the line "file NNNN of the pool P" over and over --- */
static bool text_is_right(const char *pool, unsigned n, const uint8_t *data, size_t len)
{
	autofree char *line = xasprintf("file %04u of the pool %s\n", n, pool);
	size_t w = strlen(line);

	for (size_t i = 0; i < len; i++)
		if (data[i] != (uint8_t)line[i % w])
			return false;
	return true;
}

static int file_check(struct zpl *z, const char *pool, const char *path, unsigned n, size_t size)
{
	autofree uint8_t *data = xmalloc(size);
	struct znode *zn;
	size_t got = 0;
	int rc = zpl_path_lookup(z, path, &zn, NULL);

	if (rc)
		return rc;
	assert_int_equal(zn->size, size);
	rc = zpl_read(zn, 0, data, size, &got);
	znode_release(zn);
	if (rc)
		return rc;
	assert_int_equal(got, size);
	assert_true(text_is_right(pool, n, data, size));
	return 0;
}

static struct zpl *filesystem(struct golden *g, const char *name, struct dsl_dataset **ds)
{
	struct err e = ERR_INIT;
	struct zpl *z = NULL;

	if (dsl_dataset_hold(g->spa->dsl, name, ds, &e) || zpl_open(*ds, &z, &e))
		fail_msg("%s", e.text);
	return z;
}

static void filesystem_close(struct zpl *z, struct dsl_dataset *ds)
{
	zpl_close(z);
	dsl_dataset_release(ds);
}

/* --- the cases --- */
static void manifest_compare(struct golden *g)
{
	const char *name, *path;
	json_t *fs, *file;
	struct dsl_dataset *ds;
	size_t i;

	json_object_foreach(json_object_get(g->manifest, "filesystems"), name, fs)
	{
		struct zpl *z = filesystem(g, name, &ds);

		json_array_foreach(json_object_get(fs, "files"), i, file)
		{
			const char *sum = json_string_value(json_object_get(file, "sha256"));
			struct znode *zn;
			char hex[65];

			path = json_string_value(json_object_get(file, "path"));
			if (!sum || !path || strncmp(path, ".zfs/", 5) == 0)
				continue;
			assert_int_equal(zpl_path_lookup(z, path, &zn, NULL), 0);
			assert_int_equal(golden_file_sha256(zn, hex), 0);
			assert_string_equal(hex, sum);
			znode_release(zn);
		}
		filesystem_close(z, ds);
	}
}

static void a_mirror_comes_up_without_one_file(void **state)
{
	struct golden g;
	time_t start = time(NULL);

	for (unsigned gone = 0; gone < 2; gone++) {
		autonv struct nvlist *status = NULL;
		autofree char *path = NULL;

		load(&g, "mirror");
		path = golden_image(&g, gone);
		assert_int_equal(unlink(path), 0);
		import_ok(&g, (struct spa_import){0});
		assert_true(time(NULL) - start < BOUNDED);
		assert_int_equal(g.spa->root->state, VDEV_STATE_DEGRADED);
		has_note(g.spa, gone ? "/dev/whole/vdb" : "/dev/whole/vda");
		assert_int_equal(spa_status(g.spa, true, &status), 0);
		assert_string_equal(nvlist_string_or(status, "state", ""), "DEGRADED");
		assert_string_equal(nvlist_string_or(status, "reason", ""), "missing-dev-r");
		manifest_compare(&g);
		export(&g);
		unload(&g);
	}
}

/* File N begins where it does on the disk; those that lay in the first 64 MiB are lost, all others come out. */
static void the_rest_of_a_disk_comes_out_when_its_first_64_mib_are_zero(void **state)
{
	static const char *const names[] = {"spread", "spread@all"};
	struct golden g;
	int fd;

	load_fixture(&g, "spread");
	fd = image_open(&g, 0);
	zero(fd, 0, 64 * MIB);
	close(fd);
	import_ok(&g, (struct spa_import){0});
	for (unsigned k = 0; k < ARRAY_LEN(names); k++) {
		struct dsl_dataset *ds;
		struct zpl *z = filesystem(&g, names[k], &ds);
		unsigned lost = 0;

		for (unsigned n = 0; n < SPREAD_FILES; n++) {
			autofree char *path = xasprintf("d%u/f%04u", n / 40, n);
			int rc = file_check(z, "spread", path, n, (n % 7 + 1) * 131072 + n * 13);

			if (rc && rc != -ECKSUM)
				fail_msg("%s: %s", path, err_words(rc));
			lost += rc != 0;
		}
		filesystem_close(z, ds);
		/* 64 MiB are a third of what was written */
		print_message("%s: %u of %u files lost\n", names[k], lost, SPREAD_FILES);
		assert_in_range(lost, 1, SPREAD_FILES / 2);
	}
	assert_true(g.spa->nerrors > 0);
	export(&g);
	unload(&g);
}

static void a_destroyed_file_system_comes_back_from_an_older_uberblock(void **state)
{
	struct dsl_dataset *ds;
	struct golden g;
	struct zpl *z;
	unsigned lost = 0;

	load_fixture(&g, "undo");
	import_ok(&g, (struct spa_import){0});
	assert_int_equal(dsl_dataset_hold(g.spa->dsl, "undo/lost", &ds, NULL), -ENOENT);
	export(&g);
	import_ok(&g, (struct spa_import){.txg = golden_u64(g.manifest, "txg")});
	has_note(g.spa, "since");
	z = filesystem(&g, "undo/lost@then", &ds);
	assert_int_equal(ds->guid, strtoull(golden_text(g.manifest, "guid_of_then"), NULL, 10));
	for (unsigned n = 0; n < 20; n++) {
		autofree char *path = xasprintf("f%04u", n);

		lost += file_check(z, "undo", path, n, 262144) != 0;
	}
	filesystem_close(z, ds);
	print_message("%u of 20 files lost\n", lost);
	assert_in_range(lost, 0, 12); /* ten files of the same size were written over them */
	z = filesystem(&g, "undo/keep", &ds);
	for (unsigned n = 100; n < 120; n++) {
		autofree char *path = xasprintf("f%04u", n);

		assert_int_equal(file_check(z, "undo", path, n, 70000), 0);
	}
	filesystem_close(z, ds);
	export(&g);
	unload(&g);
}

static void image_sha256(const struct golden *g, size_t i, char hex[65])
{
	autofree uint8_t *data = xmalloc(MIB);
	EVP_MD_CTX *md = golden_md_start();
	int fd = image_open(g, i);
	ssize_t n;

	while ((n = read(fd, data, MIB)) > 0)
		EVP_DigestUpdate(md, data, (size_t)n);
	close(fd);
	golden_md_finish(md, hex);
}

static void reading_everything_writes_nothing(void **state)
{
	static const char *const pools[] = {"unclean",      "intent-log", "corrupt-mirror",
					    "stale-mirror", "encryption", "v24-raidz-expanding"};
	struct golden g;

	for (unsigned p = 0; p < ARRAY_LEN(pools); p++) {
		struct look l = {.nodes_left = 200, .blocks_left = 2000};
		char before[8][65], after[65];
		size_t n;

		load(&g, pools[p]);
		n = json_array_size(json_object_get(g.manifest, "images"));
		assert_in_range(n, 1, ARRAY_LEN(before));
		for (size_t i = 0; i < n; i++)
			image_sha256(&g, i, before[i]);
		import_ok(&g, (struct spa_import){.force = true});
		golden_keys_load(&g);
		look_pool(&l, g.spa);
		export(&g);
		import_ok(&g, (struct spa_import){.force = true, .rewind = true});
		export(&g);
		for (size_t i = 0; i < n; i++) {
			image_sha256(&g, i, after);
			assert_string_equal(after, before[i]);
		}
		unload(&g);
	}
}

/* --- labels left behind at the end of the device --- */
static void label_move(int from, uint64_t from_size, int to, uint64_t to_size, unsigned l)
{
	static const struct {
		uint64_t at, size;
	} parts[] = {{0x4000, 0x1C000}};
	autofree uint8_t *label = xmalloc(VDEV_LABEL_SIZE);
	uint64_t at = label_offset(to_size, l);

	assert_int_equal(pread(from, label, VDEV_LABEL_SIZE, (off_t)label_offset(from_size, l)), VDEV_LABEL_SIZE);
	for (unsigned i = 0; i < ARRAY_LEN(parts); i++)
		trailer_renew(label + parts[i].at, parts[i].size, at + parts[i].at);
	for (uint64_t slot = RING_OFFSET; slot < VDEV_LABEL_SIZE; slot += 1024)
		if (load_host64(label + slot) == 0x00bab10c)
			trailer_renew(label + slot, 1024, at + slot);
	assert_int_equal(pwrite(to, label, VDEV_LABEL_SIZE, (off_t)at), VDEV_LABEL_SIZE);
}

/* Golden pool `name` was made on a device whose end still has the labels of the pool `single`, of txg 130. */
static void stale_labels_lose_to(const char *name)
{
	struct golden older, newer;
	int from, to;

	load(&older, "single");
	load(&newer, name);
	trap.dir = newer.dir;
	from = image_open(&older, 0);
	to = image_open(&newer, 0);
	assert_int_equal(ftruncate(to, (off_t)(96 * MIB)), 0);
	for (unsigned l = 2; l < VDEV_LABELS; l++)
		label_move(from, golden_u64(json_array_get(json_object_get(older.manifest, "images"), 0), "size"), to,
			   96 * MIB, l);
	close(from);
	close(to);
	import_ok(&newer, (struct spa_import){.force = true});
	has_note(newer.spa, "stale label");
	manifest_compare(&newer);
	export(&newer);
	unload(&newer);
	golden_close(&older);
}

/* Whether the real pool's txg is greater (no-features, 133) or less (quotas, 94) than that of what was left behind. */
static void stale_labels_at_the_end_never_win(void **state)
{
	stale_labels_lose_to("no-features");
	stale_labels_lose_to("quotas");
}

/* --- hosts --- */
struct ring_edit {
	uint64_t delay, config;
	uint64_t later; /* seconds added to the newest */
};

static void ring_edit(const struct golden *g, const struct ring_edit *edit)
{
	uint8_t slot[1024];
	int fd = image_open(g, 0);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	for (unsigned l = 0; l < VDEV_LABELS; l++)
		for (uint64_t i = 0; i < UBERBLOCK_RING_SIZE; i += sizeof(slot)) {
			uint64_t at = label_offset((uint64_t)st.st_size, l) + RING_OFFSET + i;

			assert_int_equal(pread(fd, slot, sizeof(slot), (off_t)at), sizeof(slot));
			if (load_host64(slot) != 0x00bab10c)
				continue;
			store_host64(slot + 32, load_host64(slot + 32) + edit->later);
			store_host64(slot + 176, 0xa11cea11);
			store_host64(slot + 184, edit->delay);
			store_host64(slot + 192, edit->config);
			trailer_renew(slot, sizeof(slot), at);
			assert_int_equal(pwrite(fd, slot, sizeof(slot), (off_t)at), sizeof(slot));
		}
	close(fd);
}

/* Interval 100 ms, fails after so many: the test takes twice the product. */
static uint64_t multihost_config(unsigned fails)
{
	return 1 | 4 | UINT64_C(100) << 8 | (uint64_t)fails << 48;
}

static bool stage_is_seen(void *arg, const char *stage)
{
	if (strstr(stage, "waiting"))
		*(bool *)arg = true;
	return false;
}

static void a_quiet_multihost_pool_is_watched_before_it_is_imported(void **state)
{
	struct golden g;
	bool waited = false;

	load(&g, "single");
	ring_edit(&g, &(struct ring_edit){.delay = 100000000, .config = multihost_config(8)});
	trap.hostid_is_set = true;
	trap.hostid = 0x00c0ffee;
	import_ok(&g, (struct spa_import){.force = true, .progress = stage_is_seen, .progress_arg = &waited});
	assert_true(waited);
	export(&g);
	unload(&g);
}

static bool other_host_writes(void *arg, const char *stage)
{
	struct golden *g = arg;

	if (strstr(stage, "waiting"))
		ring_edit(g, &(struct ring_edit){.delay = 100000000, .config = multihost_config(30), .later = 1});
	return false;
}

static void a_multihost_pool_that_somebody_writes_is_refused_even_by_force(void **state)
{
	struct err e = ERR_INIT;
	struct golden g;

	load(&g, "single");
	ring_edit(&g, &(struct ring_edit){.delay = 100000000, .config = multihost_config(30)});
	trap.hostid_is_set = true;
	trap.hostid = 0x00c0ffee;
	assert_int_equal(
	    golden_try_import(
		&g, &(struct spa_import){.force = true, .progress = other_host_writes, .progress_arg = &g}, &e),
	    -EREMOTEIO);
	assert_non_null(strstr(e.text, "in use"));
	unload(&g);
}

static void a_multihost_pool_needs_a_host_id(void **state)
{
	struct err e = ERR_INIT;
	struct golden g;

	load(&g, "single");
	ring_edit(&g, &(struct ring_edit){.delay = 100000000, .config = multihost_config(10)});
	trap.hostid_is_set = true;
	assert_int_equal(golden_try_import(&g, &(struct spa_import){.force = true}, &e), -EREMOTEIO);
	assert_non_null(strstr(e.text, "/etc/hostid"));
	unload(&g);
}

/* --- features --- */
static void an_unknown_feature_that_reading_needs_is_refused_by_name(void **state)
{
	struct err e = ERR_INIT;
	struct golden g;

	load(&g, "single");
	trap.feature = "com.delphix:extensibl";
	trap.renamed = "org.example:extensibl";
	assert_int_equal(golden_try_import(&g, &(struct spa_import){0}, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "org.example:extensible_dataset"));
	assert_true(trap.renames > 0);
	trap.feature = NULL;
	unload(&g);
}

static void an_unknown_feature_of_writing_alone_is_told_and_read(void **state)
{
	autonv struct nvlist *props = NULL;
	struct nvlist *one;
	struct golden g;

	load(&g, "single");
	trap.feature = "com.delphix:spacemap_h";
	trap.renamed = "org.example:spacemap_h";
	import_ok(&g, (struct spa_import){0});
	assert_true(trap.renames > 0);
	has_note(g.spa, "org.example:spacemap_histogram");
	assert_int_equal(spa_props_get(g.spa, &props), 0);
	assert_int_equal(nvlist_list(props, "unsupported@org.example:spacemap_histogram", &one), 0);
	assert_string_equal(nvlist_string_or(one, "value", ""), "readonly");
	export(&g);
	trap.feature = NULL;
	unload(&g);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_mirror_comes_up_without_one_file),
	    cmocka_unit_test(the_rest_of_a_disk_comes_out_when_its_first_64_mib_are_zero),
	    cmocka_unit_test(a_destroyed_file_system_comes_back_from_an_older_uberblock),
	    cmocka_unit_test(reading_everything_writes_nothing),
	    cmocka_unit_test(stale_labels_at_the_end_never_win),
	    cmocka_unit_test(a_quiet_multihost_pool_is_watched_before_it_is_imported),
	    cmocka_unit_test(a_multihost_pool_that_somebody_writes_is_refused_even_by_force),
	    cmocka_unit_test(a_multihost_pool_needs_a_host_id),
	    cmocka_unit_test(an_unknown_feature_that_reading_needs_is_refused_by_name),
	    cmocka_unit_test(an_unknown_feature_of_writing_alone_is_told_and_read),
	};

	if (argc != 2)
		return 2;
	fixtures = argv[1];
	cmocka_set_test_filter(getenv("TARN_TEST_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
