/*
 * A golden pool shows every file, directory, link, device, attribute and volume exactly as the real OpenZFS showed
 * them.
 *
 *     test_golden_files POOL
 */
#include <stdio.h>
#include <sys/stat.h>

#include "async_sha256.h"
#include "base/str.h"
#include "golden_node.h"
#include "zvol/zvol.h"

#define DEPTH_MAX 200

struct names {
	char **v;
	size_t n;
};

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_free(struct names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

/* The names of a directory, sorted. Read again from a cookie in the middle the rest must be the same. */
static int names_read(struct znode *dir, struct names *out)
{
	autofree struct zpl_dirent *de = xmalloc(sizeof(*de));
	struct zpl_dir *d;
	size_t cap = 0;
	int rc = zpl_dir_open(dir, 0, &d);

	*out = (struct names){0};
	while (rc == 0 && (rc = zpl_dir_next(d, de)) == 0) {
		if (strcmp(de->name, ".") == 0 || strcmp(de->name, "..") == 0)
			continue;
		if (out->n == cap) {
			cap = cap ? cap * 2 : 64;
			out->v = xrealloc(out->v, cap * sizeof(*out->v));
		}
		out->v[out->n++] = xstrdup(de->name);
		/* go on from the cookie now and then, as a program would that reads in pieces */
		if (out->n % 37 == 0) {
			zpl_dir_close(d);
			rc = zpl_dir_open(dir, de->next, &d);
		}
	}
	if (rc == -ENOENT)
		rc = 0;
	zpl_dir_close(d);
	if (out->n)
		qsort(out->v, out->n, sizeof(*out->v), name_cmp);
	return rc;
}

static int child_hold(struct walk *w, struct znode *dir, const char *name, struct znode **out)
{
	uint64_t id;
	int rc = zpl_lookup(dir, name, &id, NULL);

	return rc ? rc : znode_hold(w->z, id, out, NULL);
}

/* The line of one entry of a big directory. */
static char *digest_line(struct znode *zn, const char *name, size_t *len)
{
	autofree char *target = NULL;
	struct str line = {0};
	char last[65] = "", mode[16];

	if ((zn->mode & S_IFMT) == S_IFREG && golden_file_sha256(zn, last))
		strcpy(last, "unreadable");
	if ((zn->mode & S_IFMT) == S_IFLNK)
		zpl_readlink(zn, &target);
	snprintf(mode, sizeof(mode), "%04o", (unsigned)zn->mode & 07777);
	str_add_bytes(&line, name, strlen(name) + 1);
	str_add_bytes(&line, golden_type_name(zn), strlen(golden_type_name(zn)) + 1);
	str_add_bytes(&line, mode, strlen(mode) + 1);
	str_addf(&line, "%llu", (unsigned long long)zn->size);
	str_add_bytes(&line, "", 1);
	str_addf(&line, "%s\n", target ? target : last);
	*len = line.len;
	return line.s;
}

/* A directory of which the manifest has digests only. */
static void check_digest(struct walk *w, const char *path, struct znode *dir, const struct names *names,
			 const json_t *want)
{
	EVP_MD_CTX *of_names = golden_md_start(), *of_lines = golden_md_start();
	char hex_names[65], hex_lines[65];

	for (size_t i = 0; i < names->n; i++) {
		struct znode *zn;
		size_t len;
		int rc = child_hold(w, dir, names->v[i], &zn);

		EVP_DigestUpdate(of_names, names->v[i], strlen(names->v[i]));
		EVP_DigestUpdate(of_names, "\n", 1);
		if (rc) {
			golden_differs(w->g, "%s: %s/%s: %s", w->z->ds->name, path, names->v[i], err_words(rc));
			continue;
		}
		autofree char *line = digest_line(zn, names->v[i], &len);

		EVP_DigestUpdate(of_lines, line, len);
		znode_release(zn);
	}
	golden_md_finish(of_names, hex_names);
	golden_md_finish(of_lines, hex_lines);
	if (strcmp(hex_names, golden_text(want, "names_sha256")))
		golden_differs(w->g, "%s: %s: names differ", w->z->ds->name, path);
	if (strcmp(hex_lines, golden_text(want, "lines_sha256")))
		golden_differs(w->g, "%s: %s: contents differ", w->z->ds->name, path);
}

static void walk_node(struct walk *w, const char *path, struct znode *zn, unsigned depth);

static void walk_children(struct walk *w, const char *path, struct znode *dir, const struct names *names,
			  unsigned depth)
{
	for (size_t i = 0; i < names->n; i++) {
		bool top = strcmp(path, ".") == 0;
		autofree char *child = xasprintf("%s%s%s", top ? "" : path, top ? "" : "/", names->v[i]);
		struct znode *zn;
		int rc = child_hold(w, dir, names->v[i], &zn);

		if (rc) {
			golden_differs(w->g, "%s: %s: %s", w->z->ds->name, child, err_words(rc));
			continue;
		}
		walk_node(w, child, zn, depth);
		znode_release(zn);
	}
}

static void walk_dir(struct walk *w, const char *path, struct znode *dir, const json_t *want, unsigned depth)
{
	json_t *entries = json_object_get(want, "entries");
	struct names names;
	int rc = names_read(dir, &names);
	uint64_t count = json_is_object(entries) ? golden_u64(entries, "count") : (uint64_t)json_integer_value(entries);

	if (rc)
		golden_differs(w->g, "%s: %s: list: %s", w->z->ds->name, path, err_words(rc));
	if (dir->id == w->z->root)
		count -= w->control_dir;
	if (entries && names.n != count)
		golden_differs(w->g, "%s: %s: %zu entries, not %llu", w->z->ds->name, path, names.n,
			       (unsigned long long)count);
	if (json_is_object(entries))
		check_digest(w, path, dir, &names, entries);
	else
		walk_children(w, path, dir, &names, depth + 1);
	names_free(&names);
}

static void check_path(struct walk *w, const char *path, struct znode *zn)
{
	autofree char *found = NULL;
	int rc = zpl_object_path(w->z, zn->id, &found);

	/* names of one file may be several; the one found must lead to it */
	if (rc) {
		golden_differs(w->g, "%s: %s: path of the object: %s", w->z->ds->name, path, err_words(rc));
	} else if (zn->links == 1 || S_ISDIR(zn->mode)) {
		if (strcmp(strcmp(path, ".") ? path : "", found + 1))
			golden_differs(w->g, "%s: %s: path of the object is '%s'", w->z->ds->name, path, found);
	}
}

static void walk_node(struct walk *w, const char *path, struct znode *zn, unsigned depth)
{
	const json_t *want = strmap_get(w->expected, path);

	if (!want) {
		golden_differs(w->g, "%s: %s: is not in the manifest", w->z->ds->name, path);
		return;
	}
	w->seen++;
	golden_check_node(w, path, zn, want);
	check_path(w, path, zn);
	if (S_ISDIR(zn->mode) && depth < DEPTH_MAX)
		walk_dir(w, path, zn, want, depth);
}

/* ".zfs", which is not stored, is what the protocols above make. */
static struct strmap *expected_map(struct walk *w, const json_t *files)
{
	struct strmap *m = strmap_create();
	json_t *file;
	size_t i;

	json_array_foreach(files, i, file)
	{
		size_t len;
		autofree char *path = golden_bytes(json_object_get(file, "path"), &len);

		if (path && strcmp(path, ".zfs") == 0)
			w->control_dir = 1;
		else if (path && strncmp(path, ".zfs/", 5) != 0)
			strmap_set(m, path, file);
	}
	return m;
}

static void walk_filesystem(struct walk *w, const json_t *files)
{
	struct err e = ERR_INIT;
	struct znode *root;
	int rc = znode_hold(w->z, w->z->root, &root, &e);

	if (rc) {
		golden_differs(w->g, "%s", e.text);
		return;
	}
	w->expected = expected_map(w, files);
	walk_node(w, ".", root, 0);
	znode_release(root);
	if (w->seen < strmap_len(w->expected))
		golden_differs(w->g, "%s: %zu of %zu files found", w->z->ds->name, w->seen, strmap_len(w->expected));
	strmap_destroy(w->expected);
}

struct space_check {
	struct walk *w;
	const json_t *want;
	const char *what;
	size_t seen;
};

static int space_line(void *arg, const char *domain, uint64_t id, const struct zpl_space *s)
{
	struct space_check *sc = arg;
	char name[32], used[32], quota[32], objused[32], objquota[32];
	json_t *line;
	size_t i;

	snprintf(name, sizeof(name), "%llu", (unsigned long long)id);
	snprintf(used, sizeof(used), "%llu", (unsigned long long)s->used);
	snprintf(quota, sizeof(quota), "%llu", (unsigned long long)s->quota);
	snprintf(objused, sizeof(objused), "%llu", (unsigned long long)s->objused);
	snprintf(objquota, sizeof(objquota), "%llu", (unsigned long long)s->objquota);
	json_array_foreach(sc->want, i, line)
	{
		const char *v[6] = {0};

		for (size_t k = 0; k < 6; k++)
			v[k] = json_string_value(json_array_get(line, k));
		if (!v[1] || strcmp(v[1], name))
			continue;
		sc->seen++;
		if (strcmp(v[2], used) || strcmp(v[3], quota) || strcmp(v[4], objused) || strcmp(v[5], objquota))
			golden_differs(sc->w->g, "%s: %s %s: %s %s %s %s, not %s %s %s %s", sc->w->z->ds->name,
				       sc->what, name, used, quota, objused, objquota, v[2], v[3], v[4], v[5]);
		return 0;
	}
	golden_differs(sc->w->g, "%s: %s %s: is not in the manifest", sc->w->z->ds->name, sc->what, name);
	return 0;
}

static void check_space(struct walk *w, const json_t *fs)
{
	static const char *const keys[] = {
	    [ZPL_USER] = "userspace", [ZPL_GROUP] = "groupspace", [ZPL_PROJECT] = "projectspace"};

	for (unsigned who = 0; who < ARRAY_LEN(keys); who++) {
		struct space_check sc = {w, json_object_get(fs, keys[who]), keys[who], 0};
		int rc = sc.want ? zpl_space_each(w->z, (enum zpl_who)who, space_line, &sc) : 0;

		if (rc)
			golden_differs(w->g, "%s: %s: %s", w->z->ds->name, keys[who], err_words(rc));
		else if (sc.seen < json_array_size(sc.want))
			golden_differs(w->g, "%s: %s: %zu of %zu", w->z->ds->name, keys[who], sc.seen,
				       json_array_size(sc.want));
	}
}

static void check_filesystem(struct golden *g, const char *name, const json_t *fs)
{
	struct walk w = {.g = g};
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;

	if (dsl_dataset_hold(g->spa->dsl, name, &ds, &e)) {
		golden_differs(g, "%s: %s", name, e.text);
		return;
	}
	if (zpl_open(ds, &w.z, &e)) {
		golden_differs(g, "%s: %s", name, e.text);
	} else {
		if (golden_u64(fs, "objects_used") != bp_fill(&ds->bp) && !golden_was_written(g))
			golden_differs(g, "%s: %llu objects", name, (unsigned long long)bp_fill(&ds->bp));
		walk_filesystem(&w, json_object_get(fs, "files"));
		check_space(&w, fs);
		zpl_close(w.z);
	}
	dsl_dataset_release(ds);
}

static void volume_submit(void *what, struct dmu_read *r)
{
	zvol_read_submit(what, r);
}

static void check_range(struct golden *g, const char *name, struct zvol *zv, uint64_t offset, uint64_t length,
			const char *sum)
{
	EVP_MD_CTX *md = golden_md_start();
	char hex[65];
	int rc = async_sha256(volume_submit, zv, offset, length, md);

	golden_md_finish(md, hex);
	if (rc)
		golden_differs(g, "%s: at %llu: %s", name, (unsigned long long)offset, err_words(rc));
	else if (strcmp(hex, sum))
		golden_differs(g, "%s: %llu bytes at %llu differ", name, (unsigned long long)length,
			       (unsigned long long)offset);
}

static void check_volume_data(struct golden *g, const char *name, struct zvol *zv, const json_t *want)
{
	json_t *probe;
	size_t i;

	if (zv->size != golden_u64(want, "volsize") || zv->blocksize != golden_u64(want, "volblocksize"))
		golden_differs(g, "%s: size %llu, block size %u", name, (unsigned long long)zv->size, zv->blocksize);
	if (json_object_get(want, "sha256"))
		check_range(g, name, zv, 0, zv->size, golden_text(want, "sha256"));
	json_array_foreach(json_object_get(want, "probes"), i, probe) check_range(
	    g, name, zv, golden_u64(probe, "offset"), golden_u64(probe, "length"), golden_text(probe, "sha256"));
}

static void check_volume(struct golden *g, const char *name, const json_t *want)
{
	struct dsl_dataset *ds;
	struct zvol *zv;
	struct err e = ERR_INIT;

	if (dsl_dataset_hold(g->spa->dsl, name, &ds, &e)) {
		golden_differs(g, "%s: %s", name, e.text);
		return;
	}
	if (zvol_open(ds, &zv, &e)) {
		golden_differs(g, "%s: %s", name, e.text);
	} else {
		check_volume_data(g, name, zv, want);
		zvol_close(zv);
	}
	dsl_dataset_release(ds);
}

static void check_pool(struct golden *g)
{
	const char *name;
	json_t *one;
	/* a pool cut off with a full intent log is described after its replay, which a read-only import leaves out */
	bool replayed = json_object_size(json_object_get(g->manifest, "intent_log_records")) > 0;

	json_object_foreach(json_object_get(g->manifest, "filesystems"), name, one)
	{
		g->tolerant = replayed && !strchr(name, '@');
		check_filesystem(g, name, one);
	}
	json_object_foreach(json_object_get(g->manifest, "volumes"), name, one)
	{
		g->tolerant = replayed && !strchr(name, '@');
		check_volume(g, name, one);
	}
	g->tolerant = false;
}

int main(int argc, char **argv)
{
	struct golden g;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: test_golden_files POOL\n");
		return 2;
	}
	rc = golden_open(&g, argv[1]);
	if (rc == 0)
		check_pool(&g);
	golden_close(&g);
	if (g.tolerated)
		printf("%s: %u differences that the intent log's replay explains\n", g.name, g.tolerated);
	if (g.differences)
		printf("%s: %u differences\n", g.name, g.differences);
	return rc ? rc : g.differences != 0;
}
