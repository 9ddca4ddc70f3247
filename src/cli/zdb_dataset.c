/* Data sets one after the other: children before parents, snapshots before their heads, as zdb lists them. */
#include "cli/zdb.h"

#include <ctype.h>

#include "dmu/bpobj.h"
#include "dsl/dsl_deadlist.h"
#include "zil/zil.h"
#include "zpl/zpl.h"

#define DEADLIST_KEYS_MAX 65536u

static const char *objset_word(enum objset_type type)
{
	static const char *const words[] = {"NONE", "META", "ZPL", "ZVOL"};

	return (unsigned)type < ARRAY_LEN(words) ? words[type] : "UNKNOWN";
}

/* ---- intent logs ---- */

struct log_dump {
	struct zdb *z;
	unsigned level;
	uint64_t claim_txg;
	uint64_t records[TX_TYPES], blocks;
};

static int log_block_print(void *arg, const struct bp *bp, uint64_t seq)
{
	struct log_dump *l = arg;
	const char *claim = l->claim_txg                              ? "already claimed"
			    : bp_birth(bp) > l->z->spa->uberblock.txg ? "will claim"
								      : "won't claim";
	struct str text = {NULL, 0, 0};

	l->blocks++;
	if (l->level < 3)
		return 0;
	if (l->level >= 5) {
		str_add(&text, ", ");
		bp_print(bp, &text);
	}
	printf("\tBlock seqno %" PRIu64 ", %s%s\n", seq, claim, str_get(&text));
	str_free(&text);
	return 0;
}

static uint64_t record_word(const struct zil_record *r, unsigned at)
{
	return r->reclen >= at + 8 ? load_host64(r->data + at) : 0;
}

/* Fields of the commonest records (07 9.12); all begin with the object's number. */
static void record_fields(const struct zil_record *r, unsigned level)
{
	struct str text = {NULL, 0, 0};
	struct bp bp;

	if (r->txtype == TX_WRITE || r->txtype == TX_WRITE2) {
		printf("\t\t\tfoid %" PRIu64 ", offset %" PRIx64 ", length %" PRIx64 "\n", record_word(r, 32),
		       record_word(r, 40), record_word(r, 48));
		if (level < 5 || r->reclen < 192)
			return;
		bp_decode(&bp, r->data + 64, false);
		if (bp_is_hole(&bp))
			return;
		bp_print(&bp, &text);
		printf("\t\t\t%s\n", str_get(&text));
		str_free(&text);
	} else if (r->txtype == TX_TRUNCATE) {
		printf("\t\t\tfoid %" PRIu64 ", offset 0x%" PRIx64 ", length 0x%" PRIx64 "\n", record_word(r, 32),
		       record_word(r, 40), record_word(r, 48));
	} else if (r->txtype == TX_COMMIT) {
		return;
	} else if (r->txtype == TX_CREATE || (r->txtype >= TX_MKDIR && r->txtype <= TX_SYMLINK) ||
		   (r->txtype >= TX_CREATE_ACL && r->txtype <= TX_MKDIR_ACL_ATTR)) {
		printf("\t\t\tdoid %" PRIu64 ", foid %" PRIu64 ", mode %" PRIo64 "\n", record_word(r, 32),
		       record_word(r, 40) & ((UINT64_C(1) << 48) - 1), record_word(r, 48));
	} else {
		printf("\t\t\tfoid %" PRIu64 "\n", record_word(r, 32));
	}
}

static int log_record_print(void *arg, const struct zil_record *r)
{
	struct log_dump *l = arg;

	if (r->txtype < TX_TYPES)
		l->records[r->txtype]++;
	if (l->level < 4)
		return 0;
	printf("\t\t%s%-*s len %6" PRIu64 ", txg %" PRIu64 ", seq %" PRIu64 "\n", r->case_insensitive ? "CI-" : "",
	       r->case_insensitive ? 16 : 19, zil_record_name(r->txtype), r->reclen, r->txg, r->seq);
	if (r->sealed && r->txtype != TX_WRITE)
		puts("\t\t\t(encrypted)");
	else if (r->sealed)
		puts("\t\t\t(encrypted)");
	else
		record_fields(r, l->level);
	return 0;
}

static void log_print(struct zdb *z, struct objset *os, bool snapshot)
{
	struct log_dump l = {.z = z, .level = MAX(zdb_level(z, 'i'), MIN(zdb_level(z, 'd'), 5u))};
	struct zil_header h;
	int err;

	if (zil_header_decode(os->zil_header, os->swapped, &h) || bp_is_hole(&h.log) ||
	    (l.level < 2 && !zdb_has(z, 'i')))
		return;
	printf("\n    ZIL header: claim_txg %" PRIu64 ", claim_blk_seq %" PRIu64 ", claim_lr_seq %" PRIu64
	       " replay_seq %" PRIu64 ", flags 0x%" PRIx64 "\n",
	       h.claim_txg, h.claim_blk_seq, h.claim_lr_seq, h.replay_seq, h.flags);
	if (snapshot || l.level < 2)
		return;
	l.claim_txg = h.claim_txg;
	putchar('\n');
	err = zil_each(os, log_block_print, log_record_print, &l);
	if (err)
		zdb_warn(z, "intent log of data set %" PRIu64 ": %s", os->id, err_words(err));
	if (zdb_level(z, 'i') >= 1 && l.level >= 3) {
		uint64_t total = 0;

		for (unsigned i = 0; i < TX_TYPES; i++)
			total += l.records[i];
		printf("\tTotal %3" PRIu64 "\n", total);
		for (unsigned i = 0; i < TX_TYPES; i++)
			if (l.records[i])
				printf("\t\t%-16s %6" PRIu64 "\n", zil_record_name(i), l.records[i]);
	}
	putchar('\n');
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
		log_print(z, v->os, v->ds->is_snapshot);
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

struct objset *zdb_objset_open(struct zdb *z, struct dsl_dataset **ds)
{
	struct err e = ERR_INIT;
	struct objset *os;

	*ds = NULL;
	if (!z->dataset[0])
		return objset_hold(z->spa->mos);
	if (dataset_find(z, ds, &e) || objset_open(&z->spa->dp, (*ds)->object, &(*ds)->bp, NULL, &os, &e)) {
		zdb_warn(z, "%s", e.text);
		if (*ds)
			dsl_dataset_release(*ds);
		*ds = NULL;
		return NULL;
	}
	return os;
}

/* ---- reference counts of features that count data sets or objects ---- */

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
