/*
 * tests/interop/look.c: every part of a pool once.
 */
#include "look.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "alloc/spacemap.h"
#include "base/str.h"
#include "dmu/bpobj.h"
#include "dmu/traverse.h"
#include "dsl/ddt.h"
#include "dsl/dsl_deadlist.h"
#include "dsl/dsl_scan.h"
#include "zil/zil.h"
#include "zio/zio_verify.h"
#include "zvol/zvol.h"

#define DEPTH_MAX    40
#define READ_BYTES   (512u << 10)
#define SEEKS_MAX    64
#define RECORDS_MAX  20000
#define VERIFY_BYTES (8u << 20)

/* --- bounds of a test --- */
static char watched[200];

static void too_late(int sig)
{
	static const char words[] = ": took too long\n";

	if (write(STDERR_FILENO, watched, strlen(watched)) < 0 || write(STDERR_FILENO, words, sizeof(words) - 1) < 0)
		_exit(1);
	abort();
}

void watch(unsigned seconds, const char *what)
{
	alarm(0);
	signal(SIGALRM, too_late);
	snprintf(watched, sizeof(watched), "%s", what);
	alarm(seconds);
}

uint64_t memory_peak(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (uint64_t)ru.ru_maxrss << 10;
}

unsigned test_seconds(void)
{
	const char *s = getenv("TARN_TEST_SECONDS");

	return s ? (unsigned)atoi(s) : getenv("TARN_TEST_LONG") ? 300 : 12;
}

uint64_t test_seed(void)
{
	const char *s = getenv("TARN_TEST_SEED");

	return s ? strtoull(s, NULL, 0) : 1;
}

uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);

	x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
	return x ^ x >> 31;
}

/* --- files --- */
static void count(struct look *l, int err)
{
	l->failures += err != 0 && err != -ENOENT && err != -ENODATA;
}

static void look_data(struct look *l, struct znode *zn)
{
	autofree uint8_t *data = xmalloc(READ_BYTES);
	uint64_t at = 0;
	size_t got = 0;

	count(l, zpl_read(zn, 0, data, READ_BYTES, &got));
	l->bytes += got;
	if (zn->size > READ_BYTES)
		count(l, zpl_read(zn, zn->size - 4096, data, 8192, &got));
	for (unsigned i = 0; i < SEEKS_MAX && at < zn->size; i++)
		if (zpl_seek(zn, &at, i % 2))
			break;
}

static void look_xattrs(struct look *l, struct znode *zn)
{
	autofree char *names = NULL;
	size_t len = 0, n;
	unsigned left = 100;

	count(l, zpl_xattr_list(zn, &names, &len));
	for (const char *s = names; names && s < names + len && left--; s += strlen(s) + 1) {
		autofree void *value = NULL;

		count(l, zpl_xattr_get(zn, s, &value, &n));
	}
}

static void look_node(struct look *l, struct znode *zn)
{
	autofree char *path = NULL, *target = NULL;
	struct zpl_ace *aces = NULL;
	struct stat st;
	size_t n = 0;

	l->nodes++;
	znode_stat(zn, &st);
	look_xattrs(l, zn);
	count(l, zpl_acl_get(zn, &aces, &n));
	if (n)
		zpl_fuid_domain(zn->zpl, aces[0].who);
	free(aces);
	count(l, zpl_object_path(zn->zpl, zn->id, &path));
	if (S_ISREG(zn->mode))
		look_data(l, zn);
	if (S_ISLNK(zn->mode))
		count(l, zpl_readlink(zn, &target));
}

static void look_dir(struct look *l, struct znode *dir, unsigned depth)
{
	autofree struct zpl_dirent *de = xmalloc(sizeof(*de));
	struct zpl_dir *d;
	int rc = zpl_dir_open(dir, 0, &d);

	count(l, rc);
	if (rc)
		return;
	while (l->nodes_left && zpl_dir_next(d, de) == 0) {
		struct znode *zn;
		uint64_t id;

		l->nodes_left--;
		if (strcmp(de->name, ".") == 0 || strcmp(de->name, "..") == 0)
			continue;
		count(l, zpl_lookup(dir, de->name, &id, NULL));
		rc = znode_hold(dir->zpl, de->id, &zn, NULL);
		count(l, rc);
		if (rc)
			continue;
		look_node(l, zn);
		if (S_ISDIR(zn->mode) && depth < DEPTH_MAX)
			look_dir(l, zn, depth + 1);
		znode_release(zn);
	}
	zpl_dir_close(d);
}

static int space_line(void *arg, const char *domain, uint64_t id, const struct zpl_space *s)
{
	unsigned *left = arg;

	return (*left)-- == 0;
}

static void look_filesystem(struct look *l, struct dsl_dataset *ds)
{
	struct znode *root;
	struct zpl *z;
	struct err e = ERR_INIT;
	int rc = zpl_open(ds, &z, &e);

	count(l, rc);
	if (rc)
		return;
	rc = znode_hold(z, z->root, &root, &e);
	count(l, rc);
	if (!rc) {
		look_node(l, root);
		look_dir(l, root, 0);
		znode_release(root);
	}
	for (int who = ZPL_USER; who <= ZPL_PROJECT; who++) {
		unsigned left = RECORDS_MAX;

		count(l, zpl_space_each(z, (enum zpl_who)who, space_line, &left));
	}
	zpl_close(z);
}

/* --- volumes --- */
static void look_volume(struct look *l, struct dsl_dataset *ds)
{
	autofree uint8_t *data = xmalloc(READ_BYTES);
	struct zvol *zv;
	struct err e = ERR_INIT;
	uint64_t at = 0;
	int rc = zvol_open(ds, &zv, &e);

	count(l, rc);
	if (rc)
		return;
	for (unsigned i = 0; i < 8 && at < zv->size; i++) {
		count(l, dmu_read(zv->dn, at, data, (size_t)MIN(READ_BYTES, zv->size - at), 0));
		at += READ_BYTES;
	}
	at = 0;
	for (unsigned i = 0; i < SEEKS_MAX && at < zv->size; i++)
		if (zvol_next_offset(zv, &at, i % 2))
			break;
	zvol_close(zv);
}

/* --- data sets --- */
static int log_block(void *arg, const struct bp *bp, uint64_t seq)
{
	unsigned *left = arg;

	return (*left)-- == 0;
}

static int log_record(void *arg, const struct zil_record *r)
{
	zil_record_name(r->txtype);
	return 0;
}

static int change_line(void *arg, const struct zpl_change *c)
{
	unsigned *left = arg;

	return (*left)-- == 0;
}

static void look_diff(struct look *l, struct dsl_dataset *from, struct dsl_dataset *to)
{
	struct zpl *a = NULL, *b = NULL;
	struct err e = ERR_INIT;
	unsigned left = RECORDS_MAX;

	if (zpl_open(from, &a, &e) == 0 && zpl_open(to, &b, &e) == 0)
		zpl_diff(a, b, change_line, &left, &e);
	if (a)
		zpl_close(a);
	if (b)
		zpl_close(b);
}

static int hold_line(void *arg, const char *tag, uint64_t time)
{
	return 0;
}

static void look_dataset(struct look *l, struct dsl_dataset *ds)
{
	autonv struct nvlist *props = NULL;
	struct dsl_space space;
	struct objset *os;
	struct err e = ERR_INIT;
	unsigned type = 0, left = 1000;
	uint64_t used;

	l->datasets++;
	count(l, dsl_props_get(ds, NULL, 0, &props, &e));
	count(l, dsl_written(ds, &used));
	if (ds->deadlist)
		count(l, dsl_deadlist_space(ds->pool, ds->deadlist, &space));
	count(l, dsl_dataset_type(ds, &type));
	if (type & DSL_FILESYSTEM)
		look_filesystem(l, ds);
	if (type & DSL_VOLUME)
		look_volume(l, ds);
	if (dsl_dataset_open_objset(ds, &os, &e) == 0) {
		count(l, zil_each(os, log_block, log_record, &left));
		objset_release(os);
	}
}

struct snapshots {
	struct look *l;
	struct dsl_dataset *head, *last;
};

static int look_snapshot(void *arg, struct dsl_dataset *snap)
{
	struct snapshots *s = arg;
	struct dsl_space space;
	uint64_t used;

	look_dataset(s->l, snap);
	dsl_each_hold(snap, hold_line, NULL);
	dsl_written_since(s->head, snap, &space);
	if (s->last) {
		dsl_snapshots_reclaim(s->last, snap, &used);
		look_diff(s->l, s->last, snap);
		dsl_dataset_release(s->last);
	}
	s->last = dsl_dataset_ref(snap);
	return s->l->nodes_left == 0;
}

static int look_bookmark(void *arg, const struct dsl_bookmark *b)
{
	struct snapshots *s = arg;
	autonv struct nvlist *props = NULL;
	struct err e = ERR_INIT;
	autofree uint64_t *guids = NULL;
	struct dsl_space space;
	size_t n;

	dsl_bookmark_props_get(s->head, b, &props, &e);
	dsl_bookmark_redact_snaps(s->head->pool, b, &guids, &n);
	dsl_written_since_bookmark(s->head, b, &space);
	return 0;
}

static int look_tree(void *arg, struct dsl_dir *d)
{
	struct snapshots s = {.l = arg};
	autonv struct nvlist *deleg = NULL;
	struct err e = ERR_INIT;
	char root[DSL_NAME_MAX];

	count(s.l, dsl_deleg_get(d, &deleg));
	if (d->crypto_obj)
		dsl_crypt_root(d, root);
	if (dsl_dataset_hold_obj(d->pool, d->head, &s.head, &e) == 0) {
		look_dataset(s.l, s.head);
		dsl_each_snapshot(s.head, look_snapshot, &s);
		dsl_each_bookmark(s.head, look_bookmark, &s);
		if (s.last) {
			look_diff(s.l, s.last, s.head);
			dsl_dataset_release(s.last);
		}
		dsl_dataset_release(s.head);
	}
	return s.l->nodes_left ? dsl_each_child(d, look_tree, arg) : 1;
}

/* --- the pool --- */
static int record_line(void *arg, const struct nvlist *record)
{
	unsigned *left = arg;

	return (*left)-- == 0;
}

static int error_line(void *arg, const struct zbookmark *zb)
{
	unsigned *left = arg;

	return (*left)-- == 0;
}

static void look_vdev_props(struct look *l, struct spa *spa, struct vdev *vd)
{
	autonv struct nvlist *props = NULL;

	count(l, spa_vdev_props_get(spa, vd, &props));
	for (unsigned i = 0; i < vd->nchildren; i++)
		look_vdev_props(l, spa, vd->child[i]);
}

static int table_entry(void *arg, const struct ddt_entry *de)
{
	unsigned *left = arg;
	struct bp bp;

	ddt_entry_bp(de, 0, &bp);
	ddt_entry_refs(de);
	return (*left)-- == 0;
}

static int clone_entry(void *arg, uint64_t vdev, uint64_t offset, uint64_t refs)
{
	unsigned *left = arg;

	return (*left)-- == 0;
}

static void look_tables(struct look *l, struct spa *spa)
{
	autonv struct nvlist *dedup = NULL, *clones = NULL;
	struct ddt_table *tables = NULL;
	struct dsl_error_scrub es;
	struct dsl_scan scan;
	struct err e = ERR_INIT;
	unsigned left = RECORDS_MAX;
	size_t n;

	count(l, ddt_tables_get(spa->dsl, &tables, &n, &e));
	free(tables);
	count(l, ddt_stats_get(spa->dsl, &dedup));
	ddt_each(spa->dsl, table_entry, &left);
	left = RECORDS_MAX;
	brt_each(spa->dsl, clone_entry, &left);
	count(l, brt_stats_get(spa->dsl, &clones));
	count(l, dsl_scan_read(spa->dsl, &scan));
	count(l, dsl_error_scrub_read(spa->dsl, &es));
}

static void look_space(struct look *l, struct spa *spa)
{
	struct spacemap_pool maps = {0};
	struct err e = ERR_INIT;
	uint64_t log = 0;
	int rc;

	zap_lookup_u64(spa->mos, 1, "com.delphix:log_spacemap_zap", &log);
	rc = spacemap_load_pool(spa->mos, spa->root, log, &maps, &e);
	count(l, rc);
	if (!rc)
		spacemap_free_pool(&maps);
}

struct blocks {
	struct look *l;
	struct zio_verifier *verifier;
};

static void verified(void *arg, const struct bp *bp, const struct zbookmark *zb, int err)
{
}

static int block(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct blocks *b = t->arg;

	if (b->l->blocks_left == 0)
		return -EINTR;
	b->l->blocks_left--;
	if (b->l->blocks_left % 4 == 0)
		zio_verifier_submit(b->verifier, bp, zb);
	return 0;
}

static void block_error(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err)
{
	struct blocks *b = t->arg;

	b->l->failures++;
}

static void look_blocks(struct look *l, struct spa *spa)
{
	struct blocks b = {l, zio_verifier_create(&spa->zp, VERIFY_BYTES, verified, NULL)};
	struct traverse t = {.visit = block, .error = block_error, .arg = &b, .holes = true};
	uint64_t object = 0;
	struct dsl_dataset *ds;
	struct objset *os;
	struct err e = ERR_INIT;

	traverse_objset(spa->mos, &t);
	for (unsigned n = 0; n < RECORDS_MAX && l->blocks_left && dnode_next(spa->mos, &object, NULL) == 0; n++) {
		if (dsl_dataset_hold_obj(spa->dsl, object, &ds, &e))
			continue;
		if (!bp_is_hole(&ds->bp) && objset_open(&spa->dp, ds->object, &ds->bp, NULL, &os, &e) == 0) {
			traverse_objset(os, &t);
			objset_release(os);
		}
		dsl_dataset_release(ds);
	}
	zio_verifier_destroy(b.verifier);
}

void look_pool(struct look *l, struct spa *spa)
{
	autonv struct nvlist *status = NULL, *props = NULL;
	struct dsl_dir *root;
	struct err e = ERR_INIT;
	unsigned left = RECORDS_MAX;
	int rc;

	count(l, spa_status(spa, true, &status));
	count(l, spa_props_get(spa, &props));
	look_vdev_props(l, spa, spa->root);
	count(l, spa_history_each(spa, record_line, &left));
	look_tables(l, spa);
	look_space(l, spa);
	rc = dsl_dir_hold(spa->dsl, spa->dsl->root_dir, &root, &e);
	count(l, rc);
	if (!rc) {
		look_tree(l, root);
		dsl_dir_release(root);
	}
	look_blocks(l, spa);
	left = RECORDS_MAX;
	count(l, spa_errors_each(spa, error_line, &left));
}
