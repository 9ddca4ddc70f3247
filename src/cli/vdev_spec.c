#include "cli/vdev_spec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/str.h"

#define CHILDREN_MAX 255
#define SIZE_SLACK   (UINT64_C(16) << 20) /* devices of one vdev may differ by so much */

enum spec_class { CLASS_NORMAL, CLASS_LOG, CLASS_SPECIAL, CLASS_DEDUP, CLASS_SPARE, CLASS_CACHE };

static const struct {
	const char *word;
	enum spec_class class;
} classes[] = {{"log", CLASS_LOG},     {"logs", CLASS_LOG},    {"special", CLASS_SPECIAL}, {"dedup", CLASS_DEDUP},
	       {"spare", CLASS_SPARE}, {"cache", CLASS_CACHE}, {"normal", CLASS_NORMAL}};

struct spec_list {
	struct nvlist **v;
	size_t n;
};

struct spec {
	char *const *words;
	size_t n, at;
	enum spec_class class;
	unsigned once; /* classes seen that may be named but once, as bits */
	bool force;
	uint64_t ashift;
	struct spec_list tops, spares, caches;
	struct err *e;
};

static void list_add(struct spec_list *l, struct nvlist *vd)
{
	l->v = xrealloc(l->v, (l->n + 1) * sizeof(*l->v));
	l->v[l->n++] = vd;
}

static void list_free(struct spec_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		nvlist_destroy(l->v[i]);
	free(l->v);
}

/* --- devices --- */

static const char *const device_dirs[] = {"/dev",
					  "/dev/disk/by-vdev",
					  "/dev/mapper",
					  "/dev/disk/by-partlabel",
					  "/dev/disk/by-partuuid",
					  "/dev/disk/by-label",
					  "/dev/disk/by-uuid",
					  "/dev/disk/by-id",
					  "/dev/disk/by-path"};

/* Whole path of a device word; NULL: there is none. malloc'd. */
static char *device_path(const char *word)
{
	if (word[0] == '/')
		return access(word, F_OK) == 0 ? xstrdup(word) : NULL;
	for (size_t i = 0; i < ARRAY_LEN(device_dirs); i++) {
		char *path = xasprintf("%s/%s", device_dirs[i], word);

		if (access(path, F_OK) == 0)
			return path;
		free(path);
	}
	return NULL;
}

/* Bytes; 0 when it cannot be told. */
static uint64_t device_size(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t end;

	if (fd < 0)
		return 0;
	end = lseek(fd, 0, SEEK_END);
	close(fd);
	return end > 0 ? (uint64_t)end : 0;
}

static int device_parse(struct spec *s, const char *word, struct nvlist **out)
{
	autofree char *path = device_path(word);
	struct stat st;
	const char *type;

	if (!path || stat(path, &st))
		return err_set(s->e, -ENOENT, "cannot open '%s': no such device%s", word,
			       word[0] == '/' ? "" : " in /dev; files are named by their whole path");
	if (S_ISREG(st.st_mode))
		type = "file";
	else if (S_ISBLK(st.st_mode))
		type = "disk";
	else
		return err_set(s->e, -EINVAL, "cannot use '%s': must be a block device or a regular file", path);
	*out = nvlist_create();
	nvlist_add_string(*out, "type", type);
	nvlist_add_string(*out, "path", path);
	return 0;
}

/* --- kinds --- */

/* draid[P][:Dd][:Cc][:Ss] (06, 7.1). */
struct draid_spec {
	uint64_t parity, data, children, spares;
};

static int draid_parse(const char *word, struct draid_spec *d, struct err *e)
{
	const char *at = word + strlen("draid");
	char *end;

	*d = (struct draid_spec){.parity = 1};
	if (*at && *at != ':') {
		d->parity = strtoull(at, &end, 10);
		at = end;
	}
	while (*at == ':') {
		uint64_t v = strtoull(at + 1, &end, 10);

		if (end == at + 1)
			break;
		if (*end == 'd')
			d->data = v;
		else if (*end == 'c')
			d->children = v;
		else if (*end == 's')
			d->spares = v;
		else
			break;
		at = end + 1;
	}
	if (*at || d->parity < 1 || d->parity > 3)
		return err_set(e, -EINVAL, "invalid dRAID layout '%s': draid[1-3][:<data>d][:<children>c][:<spares>s]",
			       word);
	return 0;
}

static int draid_add_numbers(struct nvlist *vd, const struct draid_spec *d, uint64_t children, struct err *e)
{
	uint64_t data = d->data, groups = 1, disks;

	if (d->children && d->children != children)
		return err_set(e, -EINVAL, "dRAID layout for %" PRIu64 " children, but %" PRIu64 " devices are given",
			       d->children, children);
	if (children < d->parity + d->spares + 1)
		return err_set(e, -EINVAL, "dRAID needs at least %" PRIu64 " devices", d->parity + d->spares + 1);
	disks = children - d->spares;
	if (!data)
		data = MIN(8, disks - d->parity);
	if (data + d->parity > disks)
		return err_set(e, -EINVAL,
			       "dRAID with %" PRIu64 " data and %" PRIu64 " parity devices and %" PRIu64
			       " spares needs %" PRIu64 " devices",
			       data, d->parity, d->spares, data + d->parity + d->spares);
	while (groups * (data + d->parity) % disks)
		groups++;
	nvlist_add_u64(vd, "nparity", d->parity);
	nvlist_add_u64(vd, "draid_ndata", data);
	nvlist_add_u64(vd, "draid_nspares", d->spares);
	nvlist_add_u64(vd, "draid_ngroups", groups);
	return 0;
}

/* Parity of "raidz", "raidz1" ...; 0: another word. */
static unsigned raidz_parity(const char *word)
{
	if (strcmp(word, "raidz") == 0)
		return 1;
	if (strncmp(word, "raidz", 5) == 0 && word[5] >= '1' && word[5] <= '3' && !word[6])
		return (unsigned)(word[5] - '0');
	return 0;
}

static bool word_is_group(const char *word)
{
	return strcmp(word, "mirror") == 0 || strncmp(word, "raidz", 5) == 0 || strncmp(word, "draid", 5) == 0;
}

static bool word_is_class(const char *word, enum spec_class *class)
{
	for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
		if (strcmp(classes[i].word, word))
			continue;
		*class = classes[i].class;
		return true;
	}
	return false;
}

static int children_parse(struct spec *s, struct spec_list *children)
{
	enum spec_class class;

	while (s->at < s->n && !word_is_group(s->words[s->at]) && !word_is_class(s->words[s->at], &class)) {
		struct nvlist *vd;
		int err = device_parse(s, s->words[s->at], &vd);

		if (err)
			return err;
		list_add(children, vd);
		s->at++;
	}
	return 0;
}

static int group_check(struct spec *s, const char *word, size_t least, size_t n)
{
	if (n < least)
		return err_set(s->e, -EINVAL, "invalid vdev specification: %s requires at least %zu devices", word,
			       least);
	if (n > CHILDREN_MAX)
		return err_set(s->e, -EINVAL, "invalid vdev specification: %s supports no more than %d devices", word,
			       CHILDREN_MAX);
	return 0;
}

static int group_fill(struct spec *s, const char *word, struct nvlist *vd, size_t n)
{
	unsigned parity = raidz_parity(word);
	struct draid_spec d;
	int err;

	if (strcmp(word, "mirror") == 0) {
		nvlist_add_string(vd, "type", "mirror");
		return group_check(s, word, 2, n);
	}
	if (parity) {
		nvlist_add_string(vd, "type", "raidz");
		nvlist_add_u64(vd, "nparity", parity);
		return group_check(s, word, parity + 1, n);
	}
	if (strncmp(word, "draid", 5))
		return err_set(s->e, -EINVAL, "invalid vdev specification: unknown type '%s'", word);
	nvlist_add_string(vd, "type", "draid");
	err = draid_parse(word, &d, s->e);
	if (!err)
		err = group_check(s, word, 2, n);
	return err ? err : draid_add_numbers(vd, &d, n, s->e);
}

static int group_parse(struct spec *s, struct nvlist **out)
{
	struct spec_list children = {NULL, 0};
	const char *word = s->words[s->at++];
	struct nvlist *vd = nvlist_create();
	int err = children_parse(s, &children);

	if (!err)
		err = group_fill(s, word, vd, children.n);
	if (!err)
		nvlist_add_lists(vd, "children", children.v, children.n);
	list_free(&children);
	if (err)
		nvlist_destroy(vd);
	else
		*out = vd;
	return err;
}

/* --- classes --- */

static const char *bias_of(enum spec_class class)
{
	return class == CLASS_LOG ? "log" : class == CLASS_SPECIAL ? "special" : class == CLASS_DEDUP ? "dedup" : NULL;
}

static int top_add(struct spec *s, struct nvlist *vd, bool group, const char *word)
{
	if (group && (s->class == CLASS_SPARE || s->class == CLASS_CACHE)) {
		nvlist_destroy(vd);
		return err_set(s->e, -EINVAL, "invalid vdev specification: %s devices stand alone, not in a %s",
			       s->class == CLASS_SPARE ? "spare" : "cache", word);
	}
	if (s->class == CLASS_LOG && group && strcmp(word, "mirror")) {
		nvlist_destroy(vd);
		return err_set(s->e, -EINVAL, "invalid vdev specification: unsupported 'log' device: %s", word);
	}
	if (s->ashift)
		nvlist_add_u64(vd, "ashift", s->ashift);
	if (s->class == CLASS_LOG)
		nvlist_add_u64(vd, "is_log", 1);
	if (bias_of(s->class))
		nvlist_add_string(vd, "alloc_bias", bias_of(s->class));
	list_add(s->class == CLASS_SPARE ? &s->spares : s->class == CLASS_CACHE ? &s->caches : &s->tops, vd);
	return 0;
}

/* A word such as "log"; what follows is of that class. */
static int class_begin(struct spec *s, const char *word)
{
	bool many = s->class == CLASS_SPECIAL || s->class == CLASS_DEDUP || s->class == CLASS_NORMAL;
	enum spec_class next;

	if (!many && s->once & 1u << s->class)
		return err_set(s->e, -EINVAL, "invalid vdev specification: '%s' can be specified only once", word);
	s->once |= 1u << s->class;
	if (++s->at == s->n || word_is_class(s->words[s->at], &next))
		return err_set(s->e, -EINVAL, "invalid vdev specification: '%s' requires at least 1 device", word);
	return 0;
}

static int words_parse(struct spec *s)
{
	while (s->at < s->n) {
		const char *word = s->words[s->at];
		bool group = word_is_group(word);
		struct nvlist *vd;
		int err;

		if (word_is_class(word, &s->class)) {
			err = class_begin(s, word);
			if (err)
				return err;
			continue;
		}
		err = group ? group_parse(s, &vd) : device_parse(s, word, &vd);
		if (!err && !group)
			s->at++;
		if (!err)
			err = top_add(s, vd, group, word);
		if (err)
			return err;
	}
	return s->tops.n + s->spares.n + s->caches.n
		   ? 0
		   : err_set(s->e, -EINVAL, "invalid vdev specification: at least one toplevel vdev must be specified");
}

/* --- what does not go well together --- */

static int devices_check_twice(struct spec *s, const struct nvlist *vd, struct strmap *seen)
{
	const char *path = nvlist_string_or(vd, "path", NULL);
	struct nvlist *const *child;
	size_t n;
	int err = 0;

	if (path) {
		autofree char *real = realpath(path, NULL);

		if (strmap_set(seen, real ? real : path, s))
			return err_set(s->e, -EBUSY, "invalid vdev specification: '%s' is given twice", path);
	}
	if (nvlist_lists(vd, "children", &child, &n) == 0)
		for (size_t i = 0; i < n && !err; i++)
			err = devices_check_twice(s, child[i], seen);
	return err;
}

struct replication {
	const char *type;
	uint64_t redundancy; /* devices that may fail */
};

static struct replication replication_of(const struct nvlist *vd)
{
	struct replication r = {nvlist_string_or(vd, "type", ""), nvlist_u64_or(vd, "nparity", 0)};
	struct nvlist *const *child;
	size_t n;

	if (strcmp(r.type, "mirror") == 0 && nvlist_lists(vd, "children", &child, &n) == 0)
		r.redundancy = n - 1;
	if (strcmp(r.type, "file") == 0)
		r.type = "disk";
	return r;
}

/* Files and disks in one vdev, or sizes far apart. */
static int children_check(struct spec *s, const struct nvlist *vd)
{
	uint64_t least = UINT64_MAX, most = 0;
	struct nvlist *const *child;
	const char *type = NULL;
	size_t n;

	if (nvlist_lists(vd, "children", &child, &n))
		return 0;
	for (size_t i = 0; i < n; i++) {
		const char *t = nvlist_string_or(child[i], "type", "");
		uint64_t size = device_size(nvlist_string_or(child[i], "path", ""));

		if (type && strcmp(type, t))
			return err_set(s->e, -EINVAL,
				       "mismatched replication level: %s contains both files and devices",
				       nvlist_string_or(vd, "type", "vdev"));
		type = t;
		least = MIN(least, size);
		most = MAX(most, size);
	}
	if (least && most - least > SIZE_SLACK)
		return err_set(s->e, -EINVAL, "mismatched replication level: %s contains devices of different sizes",
			       nvlist_string_or(vd, "type", "vdev"));
	return 0;
}

static int replication_check(struct spec *s)
{
	struct replication first = {NULL, 0}, r;
	int err = 0;

	for (size_t i = 0; i < s->tops.n && !err; i++) {
		err = children_check(s, s->tops.v[i]);
		if (err || nvlist_u64_or(s->tops.v[i], "is_log", 0))
			continue;
		r = replication_of(s->tops.v[i]);
		if (!first.type)
			first = r;
		else if ((strcmp(first.type, "disk") == 0) != (strcmp(r.type, "disk") == 0))
			err = err_set(s->e, -EINVAL, "mismatched replication level: both %s and %s vdevs are present",
				      first.type, r.type);
		else if (first.redundancy != r.redundancy)
			err = err_set(
			    s->e, -EINVAL,
			    "mismatched replication level: %s and %s vdevs with different redundancy, %" PRIu64
			    " and %" PRIu64 ", are present",
			    first.type, r.type, first.redundancy, r.redundancy);
	}
	if (err)
		err_hint(s->e, "use '-f' to override");
	return err;
}

static int spec_check(struct spec *s)
{
	struct strmap *seen = strmap_create();
	const struct spec_list *lists[] = {&s->tops, &s->spares, &s->caches};
	int err = 0;

	for (size_t l = 0; l < ARRAY_LEN(lists); l++)
		for (size_t i = 0; i < lists[l]->n && !err; i++)
			err = devices_check_twice(s, lists[l]->v[i], seen);
	strmap_destroy(seen);
	return err || s->force ? err : replication_check(s);
}

int vdev_spec_parse(char *const *words, size_t n, bool force, uint64_t ashift, struct nvlist **tree, struct err *e)
{
	struct spec s = {.words = words, .n = n, .force = force, .ashift = ashift, .e = e};
	int err = words_parse(&s);

	if (!err)
		err = spec_check(&s);
	if (!err) {
		*tree = nvlist_create();
		nvlist_add_string(*tree, "type", "root");
		nvlist_add_lists(*tree, "children", s.tops.v, s.tops.n);
		if (s.spares.n)
			nvlist_add_lists(*tree, "spares", s.spares.v, s.spares.n);
		if (s.caches.n)
			nvlist_add_lists(*tree, "l2cache", s.caches.v, s.caches.n);
	}
	list_free(&s.tops);
	list_free(&s.spares);
	list_free(&s.caches);
	return err;
}

/* --- showing --- */

static void vdev_print(const struct nvlist *vd, uint64_t *number, unsigned depth)
{
	const char *type = nvlist_string_or(vd, "type", ""), *path = nvlist_string_or(vd, "path", NULL);
	uint64_t parity = nvlist_u64_or(vd, "nparity", 0), id = (*number)++;
	struct nvlist *const *child;
	size_t n;

	printf("\t%*s", (int)depth * 2, "");
	if (path)
		printf("%s\n", strncmp(path, "/dev/", 5) == 0 ? path + 5 : path);
	else if (parity)
		printf("%s%" PRIu64 "-%" PRIu64 "\n", type, parity, id);
	else
		printf("%s-%" PRIu64 "\n", type, id);
	if (nvlist_lists(vd, "children", &child, &n) == 0)
		for (size_t i = 0; i < n; i++)
			vdev_print(child[i], &(uint64_t){0}, depth + 1);
}

static void class_print(const struct nvlist *tree, const char *heading, const char *bias)
{
	struct nvlist *const *child;
	uint64_t number = 0;
	bool any = false;
	size_t n;

	if (nvlist_lists(tree, "children", &child, &n))
		return;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(nvlist_string_or(child[i], "alloc_bias", ""), bias)) {
			number++;
			continue;
		}
		if (heading && !any)
			printf("\t%s\n", heading);
		any = true;
		vdev_print(child[i], &number, 1);
	}
}

static void aux_print(const struct nvlist *tree, const char *heading, const char *key)
{
	struct nvlist *const *child;
	uint64_t number = 0;
	size_t n;

	if (nvlist_lists(tree, key, &child, &n))
		return;
	printf("\t%s\n", heading);
	for (size_t i = 0; i < n; i++)
		vdev_print(child[i], &number, 1);
}

void vdev_spec_print(const struct nvlist *tree, const char *pool)
{
	printf("\t%s\n", pool);
	class_print(tree, NULL, "");
	class_print(tree, "dedup", "dedup");
	class_print(tree, "special", "special");
	class_print(tree, "logs", "log");
	aux_print(tree, "cache", "l2cache");
	aux_print(tree, "spares", "spares");
}
