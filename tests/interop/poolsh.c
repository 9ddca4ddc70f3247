/*
 * poolsh DIR COMMAND...: drives a pool on the files of a folder without the daemon, for tests that then show it to
 *other software. Commands are run in order, each a word or WORD=ARGUMENT:
 *
 *	-o=P=V				a property for create (before it)
 *	kind=mirror|raidz1|raidz2|raidz3	all files in one such device (before create)
 *	slog				the last file is a log device (before create)
 *	create				a pool named "live" over all files of DIR, in the order of their names
 *	import import-ro import-destroyed import-rewind import-checkpoint
 *	export destroy sync
 *	set=P=V upgrade reguid checkpoint discard
 *	fs=NAME volume=NAME:SIZE:BLOCK snapshot=NAME clone=SNAP:NAME
 *	destroy-fs=NAME destroy-snapshot=NAME
 *	prop=NAME:P=V inherit=NAME:P	properties of data sets; an empty NAME is the root
 *	bookmark=SNAP:BOOKMARK destroy-bookmark=BOOKMARK hold=SNAP:TAG release=SNAP:TAG
 *	promote=NAME rename=NAME:NEW rollback=NAME allow=NAME:UID:PERMISSION
 *	many=NAME:N			N file systems below NAME
 *	write=VOLUME:OFFSET:LENGTH:SEED	pseudo-random bytes; check=...: the same bytes are there
 *	zero=VOLUME:OFFSET:LENGTH	becomes a hole
 *	fill=VOLUME:LENGTH:SEED		writes from the front until there is no space left, which must happen
 *	scatter=VOLUME:LENGTH:BYTES:COUNT:SEED	so many pieces of BYTES at random places
 *	punch=VOLUME:LENGTH:BYTES:STRIDE	holes of BYTES, STRIDE apart
 *	tunable=NAME:VALUE
 *	add=FILE log=FILE remove=FILE	devices
 *	crash				the process ends here and now
 *	?COMMAND			its failure does not matter
 *
 * Names of data sets are below the pool. Prints what failed; exit status 1 then.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/tunable.h"
#include "dsl/dsl_write.h"
#include "spa/spa.h"
#include "zpl/zpl.h"
#include "zvol/zvol.h"

#define POOL      "live"
#define FILES_MAX 64
#define DATA_OBJ  1 /* of a volume */

struct shell {
	const char *dir;
	char *file[FILES_MAX];
	unsigned nfiles;
	struct nvlist *props;
	const char *kind;
	bool slog;
	struct arc *arc;
	struct spa *spa;
	struct err e;
};

/* --- trees --- */
static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void files_list(struct shell *s)
{
	DIR *d = opendir(s->dir);
	struct dirent *ent;

	while (d && (ent = readdir(d)) && s->nfiles < FILES_MAX)
		if (ent->d_name[0] != '.')
			s->file[s->nfiles++] = xasprintf("%s/%s", s->dir, ent->d_name);
	if (d)
		closedir(d);
	qsort(s->file, s->nfiles, sizeof(*s->file), by_name);
}

static struct nvlist *leaf(const char *path, bool log)
{
	struct nvlist *l = nvlist_create();

	nvlist_add_string(l, "type", "file");
	nvlist_add_string(l, "path", path);
	if (log)
		nvlist_add_u64(l, "is_log", 1);
	return l;
}

static void tops_put(struct nvlist *tree, struct nvlist **top, unsigned n)
{
	nvlist_add_string(tree, "type", "root");
	nvlist_add_lists(tree, "children", top, n);
	for (unsigned i = 0; i < n; i++)
		nvlist_destroy(top[i]);
}

static struct nvlist *group(const struct shell *s, unsigned n)
{
	struct nvlist *l = nvlist_create(), *child[FILES_MAX];
	bool mirror = strcmp(s->kind, "mirror") == 0;

	nvlist_add_string(l, "type", mirror ? "mirror" : "raidz");
	if (!mirror)
		nvlist_add_u64(l, "nparity", strtoull(s->kind + strlen("raidz"), NULL, 10));
	for (unsigned i = 0; i < n; i++)
		child[i] = leaf(s->file[i], false);
	nvlist_add_lists(l, "children", child, n);
	for (unsigned i = 0; i < n; i++)
		nvlist_destroy(child[i]);
	return l;
}

static struct nvlist *tree_of(const struct shell *s)
{
	unsigned n = s->nfiles - s->slog, ntops = 0;
	struct nvlist *tree = nvlist_create(), *top[FILES_MAX];

	if (s->kind)
		top[ntops++] = group(s, n);
	for (unsigned i = 0; i < n && !s->kind; i++)
		top[ntops++] = leaf(s->file[i], false);
	if (s->slog)
		top[ntops++] = leaf(s->file[n], true);
	tops_put(tree, top, ntops);
	return tree;
}

/* --- pools --- */
static void root_init(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	autonv struct nvlist *none = nvlist_create();

	BUG_ON(zpl_create_objects(os, props ? props : none, tx));
}

static int do_create(struct shell *s, char *arg)
{
	autonv struct nvlist *tree = tree_of(s);
	const struct spa_create args = {.name = POOL,
					.tree = tree,
					.props = s->props,
					.history = "zpool create " POOL,
					.arc = s->arc,
					.init_root = root_init};

	return spa_create_pool(&args, &s->spa, &s->e);
}

static int import(struct shell *s, struct spa_import args, bool destroyed)
{
	struct spa_search search = {.paths = &s->dir, .npaths = 1, .destroyed = destroyed};
	autonv struct nvlist *props = nvlist_create();
	struct nvlist **pool;
	size_t n;
	int err = spa_search(&search, &pool, &n, &s->e);

	if (!err && n == 0)
		err = err_set(&s->e, -ENOENT, "no pool found");
	nvlist_add_string(props, "cachefile", "none");
	args.arc = s->arc;
	args.props = props;
	args.force = true;
	if (!err) {
		args.config = pool[0];
		err = spa_import(&args, &s->spa, &s->e);
	}
	return err;
}

static int do_import(struct shell *s, char *arg)
{
	return import(s, (struct spa_import){.writable = true}, false);
}

static int do_import_ro(struct shell *s, char *arg)
{
	return import(s, (struct spa_import){.writable = false}, false);
}

static int do_import_destroyed(struct shell *s, char *arg)
{
	return import(s, (struct spa_import){.writable = true}, true);
}

static int do_import_rewind(struct shell *s, char *arg)
{
	return import(s, (struct spa_import){.writable = true, .rewind = true}, false);
}

static int do_import_checkpoint(struct shell *s, char *arg)
{
	return import(s, (struct spa_import){.writable = true, .rewind_checkpoint = true}, false);
}

static int do_export(struct shell *s, char *arg)
{
	int err = spa_export(s->spa, &s->e);

	s->spa = err ? s->spa : NULL;
	return err;
}

static int do_destroy(struct shell *s, char *arg)
{
	int err = spa_destroy_pool(s->spa, &s->e);

	s->spa = err ? s->spa : NULL;
	return err;
}

static int do_sync(struct shell *s, char *arg)
{
	spa_sync_now(s->spa);
	return 0;
}

static int do_prop(struct shell *s, char *arg)
{
	char *value = arg;

	strsep(&value, "=");
	nvlist_add_string(s->props, arg, value ? value : "");
	return 0;
}

static int do_kind(struct shell *s, char *arg)
{
	s->kind = arg;
	return 0;
}

static int do_slog(struct shell *s, char *arg)
{
	s->slog = true;
	return 0;
}

static int do_set(struct shell *s, char *arg)
{
	autonv struct nvlist *values = nvlist_create();
	char *value = arg;

	strsep(&value, "=");
	nvlist_add_string(values, arg, value ? value : "");
	return spa_props_set(s->spa, values, &s->e);
}

static int do_upgrade(struct shell *s, char *arg)
{
	autonv struct nvlist *done = NULL;

	return spa_upgrade(s->spa, 0, &done, &s->e);
}

static int do_reguid(struct shell *s, char *arg)
{
	return spa_reguid(s->spa, 0, &s->e);
}

static int do_checkpoint(struct shell *s, char *arg)
{
	return spa_checkpoint(s->spa, &s->e);
}

static int do_discard(struct shell *s, char *arg)
{
	return spa_checkpoint_discard(s->spa, &s->e);
}

static int device_add(struct shell *s, const char *name, bool log)
{
	autonv struct nvlist *tree = nvlist_create();
	autofree char *path = xasprintf("%s/%s", s->dir, name);
	struct nvlist *top = leaf(path, log);

	tops_put(tree, &top, 1);
	return spa_add_vdevs(s->spa, tree, false, false, &s->e);
}

static int do_add(struct shell *s, char *arg)
{
	return device_add(s, arg, false);
}

static int do_log(struct shell *s, char *arg)
{
	return device_add(s, arg, true);
}

static int do_remove(struct shell *s, char *arg)
{
	autofree char *path = xasprintf("%s/%s", s->dir, arg);

	return spa_remove_vdev(s->spa, path, &s->e);
}

static int do_crash(struct shell *s, char *arg)
{
	fflush(stdout);
	_exit(0);
}

/* --- data sets --- */
static char *full(const struct shell *s, const char *name)
{
	return xasprintf("%s%s%s", s->spa->name, *name && *name != '@' ? "/" : "", name);
}

static int do_fs(struct shell *s, char *arg)
{
	autofree char *name = full(s, arg);
	const struct dsl_create c = {.name = name, .type = DSL_FILESYSTEM, .init = root_init};

	return dsl_create(s->spa->dsl, &c, &s->e);
}

static void volume_init(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	const uint64_t *sizes = arg;

	BUG_ON(zvol_create_objects(os, sizes[0], (uint32_t)sizes[1], tx));
}

static uint64_t number(char **rest)
{
	char *word = strsep(rest, ":");

	return word ? strtoull(word, NULL, 0) : 0;
}

static int do_volume(struct shell *s, char *arg)
{
	autofree char *name = full(s, strsep(&arg, ":"));
	autonv struct nvlist *props = nvlist_create();
	uint64_t sizes[2] = {number(&arg), number(&arg)};
	const struct dsl_create c = {
	    .name = name, .type = DSL_VOLUME, .props = props, .init = volume_init, .arg = sizes};

	nvlist_add_u64(props, "volblocksize", sizes[1]);
	return dsl_create(s->spa->dsl, &c, &s->e);
}

static int do_snapshot(struct shell *s, char *arg)
{
	autofree char *name = full(s, arg);
	const char *one = name;

	return dsl_snapshot(s->spa->dsl, &one, 1, NULL, &s->e);
}

static int do_clone(struct shell *s, char *arg)
{
	autofree char *snap = full(s, strsep(&arg, ":")), *name = full(s, arg);

	return dsl_clone(s->spa->dsl, snap, name, NULL, &s->e);
}

static int do_destroy_fs(struct shell *s, char *arg)
{
	autofree char *name = full(s, arg);

	return dsl_destroy_head(s->spa->dsl, name, &s->e);
}

static int do_destroy_snapshot(struct shell *s, char *arg)
{
	autofree char *name = full(s, arg);
	const char *one = name;

	return dsl_destroy_snapshots(s->spa->dsl, &one, 1, false, &s->e);
}

/* --- data of a volume, through its object --- */
static void pattern(uint8_t *p, size_t n, uint64_t offset, uint64_t seed)
{
	for (size_t i = 0; i < n; i += 8) {
		uint64_t x = (offset + i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed * UINT64_C(0xc2b2ae3d27d4eb4f);

		x ^= x >> 29;
		x *= UINT64_C(0xbf58476d1ce4e5b9);
		x ^= x >> 32;
		memcpy(p + i, &x, MIN(n - i, 8));
	}
}

struct open_volume {
	struct dsl_dataset *ds;
	struct objset *os;
	struct dnode *dn;
};

static int volume_open(struct shell *s, const char *volume, struct open_volume *v)
{
	autofree char *name = full(s, volume);
	int err = dsl_dataset_hold(s->spa->dsl, name, &v->ds, &s->e);

	if (err)
		return err;
	err = dsl_dataset_open_objset(v->ds, &v->os, &s->e);
	if (!err) {
		err = dnode_hold(v->os, DATA_OBJ, &v->dn, &s->e);
		if (!err)
			return 0;
		objset_release(v->os);
	}
	dsl_dataset_release(v->ds);
	return err;
}

static void volume_close(struct open_volume *v)
{
	dnode_release(v->dn);
	objset_release(v->os);
	dsl_dataset_release(v->ds);
}

static int one_write(struct open_volume *v, uint64_t offset, const uint8_t *data, size_t n)
{
	struct tx tx = {.os = v->os, .bytes = data ? n : 0, .flags = data ? 0 : TX_NETFREE};
	int err = tx_begin_wait(v->os->dp->txgs, &tx);

	if (err)
		return err;
	err = data ? dmu_write(v->dn, offset, data, n, &tx) : dmu_free_range(v->dn, offset, n, &tx);
	tx_end(&tx);
	return err;
}

enum access { WRITE, CHECK, ZERO };

static int access_range(struct shell *s, char *arg, enum access access)
{
	const char *name = strsep(&arg, ":");
	uint64_t offset = number(&arg), length = number(&arg), seed = number(&arg), end = offset + length;
	uint8_t want[65536], have[65536];
	struct open_volume v;
	int err = volume_open(s, name, &v);

	if (err)
		return err;
	for (; offset < end && !err; offset += sizeof(want)) {
		size_t n = MIN(end - offset, sizeof(want));

		pattern(want, n, offset, seed);
		if (access != CHECK)
			err = one_write(&v, offset, access == WRITE ? want : NULL, n);
		else
			err = dmu_read(v.dn, offset, have, n, 0);
		if (access == CHECK && !err && memcmp(have, want, n) != 0)
			err = err_set(&s->e, -EILSEQ, "%s at %" PRIu64 ": other bytes", name, offset);
	}
	volume_close(&v);
	return err && !s->e.code ? err_set(&s->e, err, "%s: %s", name, err_words(err)) : err;
}

/* --- what hangs on data sets --- */
static int do_data_prop(struct shell *s, char *arg)
{
	autofree char *name = full(s, strsep(&arg, ":"));
	autonv struct nvlist *values = nvlist_create();
	char *value = arg;

	strsep(&value, "=");
	nvlist_add_string(values, arg, value ? value : "");
	return dsl_props_set(s->spa->dsl, name, values, &s->e);
}

static int do_inherit(struct shell *s, char *arg)
{
	autofree char *name = full(s, strsep(&arg, ":"));

	return dsl_prop_inherit(s->spa->dsl, name, arg, false, &s->e);
}

static int do_bookmark(struct shell *s, char *arg)
{
	autofree char *source = full(s, strsep(&arg, ":")), *mark = full(s, arg);

	return dsl_bookmark_create(s->spa->dsl, source, mark, &s->e);
}

static int do_destroy_bookmark(struct shell *s, char *arg)
{
	autofree char *mark = full(s, arg);

	return dsl_bookmark_destroy(s->spa->dsl, (const char *const *)&mark, 1, &s->e);
}

static int do_hold(struct shell *s, char *arg)
{
	autofree char *snap = full(s, strsep(&arg, ":"));

	return dsl_hold(s->spa->dsl, (const char *const *)&snap, 1, arg, &s->e);
}

static int do_release(struct shell *s, char *arg)
{
	autofree char *snap = full(s, strsep(&arg, ":"));

	return dsl_release_hold(s->spa->dsl, (const char *const *)&snap, 1, arg, &s->e);
}

static int do_promote(struct shell *s, char *arg)
{
	autofree char *name = full(s, arg);

	return dsl_promote(s->spa->dsl, name, &s->e);
}

static int do_rename(struct shell *s, char *arg)
{
	autofree char *from = full(s, strsep(&arg, ":")), *to = full(s, arg);

	return dsl_rename(s->spa->dsl, from, to, false, &s->e);
}

static int do_rollback(struct shell *s, char *arg)
{
	autofree char *name = full(s, arg);

	return dsl_rollback(s->spa->dsl, name, NULL, &s->e);
}

static int do_allow(struct shell *s, char *arg)
{
	autofree char *name = full(s, strsep(&arg, ":"));
	autonv struct nvlist *perms = nvlist_create(), *who = nvlist_create();
	struct nvlist *one = who;

	nvlist_add_string(who, "who", "user");
	nvlist_add_u64(who, "id", number(&arg));
	nvlist_add_strings(who, "permissions", (const char *const *)&arg, 1);
	nvlist_add_lists(perms, "local+descendent", &one, 1);
	return dsl_allow(s->spa->dsl, name, perms, false, &s->e);
}

static int do_many(struct shell *s, char *arg)
{
	const char *below = strsep(&arg, ":");
	uint64_t n = number(&arg);
	int err = 0;

	for (uint64_t i = 0; i < n && !err; i++) {
		autofree char *name = xasprintf("%s/%" PRIu64, below, i);

		err = do_fs(s, name);
	}
	return err;
}

static int do_write(struct shell *s, char *arg)
{
	return access_range(s, arg, WRITE);
}

static int do_check(struct shell *s, char *arg)
{
	return access_range(s, arg, CHECK);
}

static int do_zero(struct shell *s, char *arg)
{
	return access_range(s, arg, ZERO);
}

static int do_fill(struct shell *s, char *arg)
{
	const char *name = strsep(&arg, ":");
	uint64_t length = number(&arg), seed = number(&arg), offset = 0;
	uint8_t data[65536];
	struct open_volume v;
	int err = volume_open(s, name, &v);

	if (err)
		return err;
	for (; offset < length && !err; offset += sizeof(data)) {
		pattern(data, sizeof(data), offset, seed);
		err = one_write(&v, offset, data, sizeof(data));
	}
	volume_close(&v);
	if (err == -ENOSPC)
		return 0;
	return err_set(&s->e, err ? err : -EEXIST, "%s: %s", name, err ? err_words(err) : "it all fits");
}

static int do_scatter(struct shell *s, char *arg)
{
	const char *name = strsep(&arg, ":");
	uint64_t length = number(&arg), bytes = number(&arg), count = number(&arg), seed = number(&arg), x = seed;
	autofree uint8_t *data = xmalloc(bytes + 8);
	struct open_volume v;
	int err = volume_open(s, name, &v);

	if (err)
		return err;
	for (; count > 0 && !err; count--) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		uint64_t offset = (x >> 20) % (length / bytes) * bytes;

		pattern(data, bytes, offset, seed + count);
		err = one_write(&v, offset, data, bytes);
	}
	volume_close(&v);
	return err ? err_set(&s->e, err, "%s: %s", name, err_words(err)) : 0;
}

static int do_punch(struct shell *s, char *arg)
{
	const char *name = strsep(&arg, ":");
	uint64_t length = number(&arg), bytes = number(&arg), stride = number(&arg);
	struct open_volume v;
	int err = volume_open(s, name, &v);

	if (err)
		return err;
	for (uint64_t offset = 0; offset + bytes <= length && stride && !err; offset += stride)
		err = one_write(&v, offset, NULL, bytes);
	volume_close(&v);
	return err ? err_set(&s->e, err, "%s: %s", name, err_words(err)) : 0;
}

static int do_tunable(struct shell *s, char *arg)
{
	struct tunable *t = tunable_find(strsep(&arg, ":"));

	return t ? tunable_set(t, number(&arg), &s->e) : err_set(&s->e, -ENOENT, "no such tunable");
}

/* --- the table --- */
static const struct {
	const char *word;
	int (*run)(struct shell *s, char *arg);
} commands[] = {
    {"-o", do_prop},
    {"kind", do_kind},
    {"slog", do_slog},
    {"create", do_create},
    {"import", do_import},
    {"import-ro", do_import_ro},
    {"import-destroyed", do_import_destroyed},
    {"import-rewind", do_import_rewind},
    {"import-checkpoint", do_import_checkpoint},
    {"export", do_export},
    {"destroy", do_destroy},
    {"sync", do_sync},
    {"set", do_set},
    {"upgrade", do_upgrade},
    {"reguid", do_reguid},
    {"checkpoint", do_checkpoint},
    {"discard", do_discard},
    {"fs", do_fs},
    {"volume", do_volume},
    {"snapshot", do_snapshot},
    {"clone", do_clone},
    {"destroy-fs", do_destroy_fs},
    {"destroy-snapshot", do_destroy_snapshot},
    {"prop", do_data_prop},
    {"inherit", do_inherit},
    {"bookmark", do_bookmark},
    {"destroy-bookmark", do_destroy_bookmark},
    {"hold", do_hold},
    {"release", do_release},
    {"promote", do_promote},
    {"rename", do_rename},
    {"rollback", do_rollback},
    {"allow", do_allow},
    {"many", do_many},
    {"write", do_write},
    {"check", do_check},
    {"zero", do_zero},
    {"fill", do_fill},
    {"scatter", do_scatter},
    {"punch", do_punch},
    {"tunable", do_tunable},
    {"add", do_add},
    {"log", do_log},
    {"remove", do_remove},
    {"crash", do_crash},
};

static int command_run(struct shell *s, char *word)
{
	char *arg = word;

	strsep(&arg, "=");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].word, word) == 0)
			return commands[i].run(s, arg);
	return err_set(&s->e, -EINVAL, "no such command");
}

int main(int argc, char **argv)
{
	struct shell s = {.dir = argc > 1 ? argv[1] : "", .props = nvlist_create()};

	s.arc = arc_create(UINT64_C(64) << 20);
	nvlist_add_string(s.props, "cachefile", "none");
	files_list(&s);
	for (int i = 2; i < argc; i++) {
		autofree char *shown = xstrdup(argv[i]);

		bool may_fail = argv[i][0] == '?';

		s.e = (struct err)ERR_INIT;
		if (command_run(&s, argv[i] + may_fail) && !may_fail) {
			fprintf(stderr, "%s: %s\n", shown, s.e.text);
			return 1;
		}
	}
	if (s.spa && spa_export(s.spa, &s.e)) {
		fprintf(stderr, "export: %s\n", s.e.text);
		return 1;
	}
	nvlist_destroy(s.props);
	for (unsigned i = 0; i < s.nfiles; i++)
		free(s.file[i]);
	arc_destroy(s.arc);
	return 0;
}
