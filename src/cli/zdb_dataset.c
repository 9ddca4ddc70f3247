/* Data sets one after the other: children before parents, snapshots before their heads, as zdb lists them. */
#include "cli/zdb.h"

#include <ctype.h>

#include "dmu/bpobj.h"
#include "dsl/dsl_deadlist.h"
#include "zpl/zpl.h"

#define DEADLIST_KEYS_MAX 65536u

static const char *objset_word(enum objset_type type)
{
	static const char *const words[] = {"NONE", "META", "ZPL", "ZVOL"};

	return (unsigned)type < ARRAY_LEN(words) ? words[type] : "UNKNOWN";
}

/* ---- deadlists ---- */

static int dead_print(void *arg, const struct bp *bp, bool freed)
{
	struct str text = {NULL, 0, 0};

	zdb_bp_compact(bp, &text);
	printf("\t%s%s\n", freed ? "FREE " : "", str_get(&text));
	str_free(&text);
	return 0;
}

static void deadlist_entry(struct zdb *z, uint64_t mintxg, uint64_t object, unsigned level)
{
	struct bpobj_phys b;
	char text[SIZE_TEXT];
	int err;

	printf("    mintxg %" PRIu64 " -> obj %" PRIu64, mintxg, object);
	if (level < 5) {
		putchar('\n');
		return;
	}
	err = bpobj_read(z->spa->mos, object, &b);
	if (err) {
		printf(": %s\n", err_words(err));
		return;
	}
	printf(": object %" PRIu64 ", %" PRIu64 " blkptrs, %s\n", object, b.num_blkptrs, zdb_number(z, b.bytes, text));
	if (level >= 6 || b.num_blkptrs + b.num_subobjs)
		bpobj_iterate(z->spa->mos, object, dead_print, NULL);
	putchar('\n');
}

static void deadlist_print(struct zdb *z, struct dsl_dataset *ds, unsigned level)
{
	struct dsl_space s;
	char text[3][SIZE_TEXT];
	uint64_t count = 0;
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	struct zap_cursor *c;

	if (level < 3 || !ds->deadlist || dsl_deadlist_space(z->spa->dsl, ds->deadlist, &s))
		return;
	zap_count(z->spa->mos, ds->deadlist, &count);
	printf("\n    Deadlist: %s (%s/%s comp), %" PRIu64 " entries\n", zdb_number(z, s.used, text[0]),
	       zdb_number(z, s.comp, text[1]), zdb_number(z, s.uncomp, text[2]), count);
	if (level < 4 || zap_cursor_open(z->spa->mos, ds->deadlist, 0, &c)) {
		putchar('\n');
		return;
	}
	putchar('\n');
	while (zap_cursor_next(c, ze) == 0)
		deadlist_entry(z, strtoull(ze->name, NULL, 16), ze->first, level);
	zap_cursor_close(c);
	putchar('\n');
}

/* ---- objects ---- */

static void object_by_number(struct zdb_view *v, uint64_t object)
{
	struct dnode *dn;
	struct err e = ERR_INIT;

	if (object == 0) {
		zdb_object(v, v->os->meta);
		return;
	}
	if (dnode_hold(v->os, object, &dn, &e)) {
		zdb_warn(v->z, "object %" PRId64 ": %s", (int64_t)object, e.text);
		return;
	}
	zdb_object(v, dn);
	dnode_release(dn);
}

static void objects_range(struct zdb_view *v, uint64_t from, uint64_t to)
{
	uint64_t object = from ? from - 1 : 0, skipped = 0;

	if (from == 0)
		object_by_number(v, 0);
	while (dnode_next(v->os, &object, &skipped) == 0 && object <= to && !cli_interrupted)
		object_by_number(v, object);
	if (skipped)
		zdb_warn(v->z, "%" PRIu64 " blocks of the object list cannot be read", skipped);
}

static void objects_named(struct zdb_view *v)
{
	for (int i = 0; i < v->z->nobjects; i++) {
		const char *word = v->z->objects[i];
		char *end;
		uint64_t from = strtoull(word, &end, 0), to = from;

		if (*end == ':')
			to = strcmp(end + 1, "-1") == 0 ? UINT64_MAX : strtoull(end + 1, &end, 0);
		if (end == word || (*end && *end != ':' && *end != '-')) {
			zdb_warn(v->z, "'%s' is no object number or range", word);
			continue;
		}
		if (strchr(word, ':'))
			objects_range(v, from, to);
		else
			object_by_number(v, from);
	}
}

static void objects_all(struct zdb_view *v)
{
	struct dnode *special[] = {v->os->userused, v->os->groupused, v->os->projectused};
	uint64_t object = 0, skipped = 0, slots = 0, max = 0;

	zdb_object(v, v->os->meta);
	for (size_t i = 0; i < ARRAY_LEN(special); i++)
		if (special[i])
			zdb_object(v, special[i]);
	while (dnode_next(v->os, &object, &skipped) == 0 && !cli_interrupted) {
		struct dnode *dn;
		struct err e = ERR_INIT;

		if (dnode_hold(v->os, object, &dn, &e)) {
			zdb_warn(v->z, "object %" PRIu64 ": %s", object, e.text);
			continue;
		}
		slots += dn->slots;
		max = object + dn->slots - 1;
		zdb_object(v, dn);
		dnode_release(dn);
	}
	if (skipped)
		zdb_warn(v->z, "%" PRIu64 " blocks of the object list cannot be read", skipped);
	printf("\n    Dnode slots:\n\tTotal used:    %10" PRIu64 "\n\tMax used:      %10" PRIu64
	       "\n\tPercent empty: %10f\n\n",
	       slots, max, max ? 100.0 * (double)(max - MIN(slots, max)) / (double)max : 0.0);
}

/* ---- one data set ---- */

static void line_print(const struct zdb_view *v)
{
	const struct dsl_dataset *ds = v->ds;
	struct spa *spa = v->z->spa;
	uint64_t used = ds ? ds->used : 0, txg = ds ? ds->creation_txg : 4;
	struct str text = {NULL, 0, 0};
	struct dsl_dir *mos_dir;
	char size[SIZE_TEXT];

	if (!ds && spa->dsl->mos_dir && dsl_dir_hold(spa->dsl, spa->dsl->mos_dir, &mos_dir, NULL) == 0) {
		used = mos_dir->used;
		dsl_dir_release(mos_dir);
	}
	if (v->level >= 4) {
		str_add(&text, ", rootbp ");
		bp_print(&v->os->rootbp, &text);
	}
	printf("Dataset %s [%s], ID %" PRIu64 ", cr_txg %" PRIu64 ", %s, %" PRIu64 " objects%s%s\n",
	       ds ? ds->name : "mos", objset_word(v->os->type), v->os->id, txg, zdb_number(v->z, used, size),
	       bp_fill(&v->os->rootbp), str_get(&text), ds && ds->flags & 1 ? " (inconsistent)" : "");
	str_free(&text);
}

static void view_print(struct zdb_view *v)
{
	struct zdb *z = v->z;

	v->header = true;
	line_print(v);
	if (v->ds && v->level < 1)
		v->level = 1;
	if (z->nobjects) {
		objects_named(v);
		putchar('\n');
		return;
	}
	if (v->ds) {
		zdb_log(z, v->os, v->ds->is_snapshot);
		deadlist_print(z, v->ds, v->level);
	}
	if (v->level < 2)
		return;
	putchar('\n');
	objects_all(v);
}

static int dataset_print(struct zdb *z, struct dsl_dataset *ds)
{
	struct zdb_view v = {.z = z, .ds = ds, .level = zdb_level(z, 'd')};
	struct crypt_key *key = NULL;
	struct err e = ERR_INIT;
	int err;

	if (bp_is_hole(&ds->bp)) {
		printf("Dataset %s, ID %" PRIu64 ", cr_txg %" PRIu64 ": empty\n", ds->name, ds->object,
		       ds->creation_txg);
		return 0;
	}
	err = objset_open(&z->spa->dp, ds->object, &ds->bp, key, &v.os, &e);
	if (err) {
		zdb_warn(z, "data set '%s': %s", ds->name, e.text);
		return 0;
	}
	if (v.os->type == OBJSET_ZFS && !v.os->encrypted && v.level >= 4 && zpl_open(ds, &v.zpl, &e))
		zdb_warn(z, "file system '%s': %s", ds->name, e.text);
	view_print(&v);
	if (v.zpl)
		zpl_close(v.zpl);
	objset_release(v.os);
	return cli_interrupted ? -EINTR : 0;
}

static int snapshot_each(void *arg, struct dsl_dataset *snap)
{
	return dataset_print(arg, snap);
}

static int dir_print(void *arg, struct dsl_dir *dir)
{
	struct zdb *z = arg;
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;
	int err = dsl_each_child(dir, dir_print, z);

	if (err || !dir->head)
		return err;
	if (dsl_dataset_hold_obj(z->spa->dsl, dir->head, &ds, &e)) {
		zdb_warn(z, "data set '%s': %s", dir->name, e.text);
		return 0;
	}
	err = dsl_each_snapshot(ds, snapshot_each, z);
	if (!err)
		err = dataset_print(z, ds);
	dsl_dataset_release(ds);
	return err;
}

static void mos_print(struct zdb *z)
{
	struct zdb_view v = {.z = z, .os = z->spa->mos, .level = zdb_level(z, 'd')};

	view_print(&v);
}

static int dataset_find(struct zdb *z, struct dsl_dataset **ds, struct err *e)
{
	const char *rest = z->dataset;
	autofree char *name = NULL;
	char *end;
	uint64_t object;

	if (rest[0] == '/' && isdigit((unsigned char)rest[1])) {
		object = strtoull(rest + 1, &end, 10);
		if (*end == '\0' && dsl_dataset_hold_obj(z->spa->dsl, object, ds, NULL) == 0)
			return 0;
	}
	name = xasprintf("%s%s", z->spa->name, strcmp(rest, "/") ? rest : "");
	return dsl_dataset_hold(z->spa->dsl, name, ds, e);
}

static void pool_print(struct zdb *z)
{
	struct dsl_dir *root;
	struct err e = ERR_INIT;

	mos_print(z);
	if (dsl_dir_hold(z->spa->dsl, z->spa->dsl->root_dir, &root, &e)) {
		zdb_warn(z, "%s", e.text);
		return;
	}
	dir_print(z, root);
	dsl_dir_release(root);
}

void zdb_datasets(struct zdb *z)
{
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;

	if (!z->dataset[0]) {
		if (z->nobjects)
			mos_print(z);
		else
			pool_print(z);
		return;
	}
	if (dataset_find(z, &ds, &e)) {
		zdb_warn(z, "%s", e.text);
		return;
	}
	dataset_print(z, ds);
	dsl_dataset_release(ds);
}
