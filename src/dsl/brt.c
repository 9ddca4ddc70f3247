/* Block reference tables (04-crypto-dedup-clone.md, A3). See dsl/ddt.h. */
#include <stdio.h>

#include "dsl/ddt.h"

#define MOS_DIRECTORY 1
#define BRT_PREFIX    "com.fudosecurity:brt:vdev:"
#define BRT_BONUS     56

/* The bonus of a vdev's table object (A3.2). */
struct brt_vdev {
	uint64_t vdev, object, entries_object, entries, used, saved;
	bool big; /* order of counts stored as bytes */
};

static int brt_vdev_load(struct dsl_pool *p, uint64_t vdev, uint64_t object, struct brt_vdev *out)
{
	struct dnode *dn;
	int err = dnode_hold(p->mos, object, &dn, NULL);

	if (err)
		return err == -ENOENT ? -EIO : err; /* the directory names it: it must be there */
	if (dn->bonuslen < BRT_BONUS) {
		err = -EINVAL;
	} else {
		*out = (struct brt_vdev){
		    .vdev = vdev,
		    .object = object,
		    .entries_object = load64(dn->bonus, dn->swapped),
		    .big = load64(dn->bonus + 16, dn->swapped) != 0,
		    .entries = load64(dn->bonus + 24, dn->swapped),
		    .used = load64(dn->bonus + 40, dn->swapped),
		    .saved = load64(dn->bonus + 48, dn->swapped),
		};
	}
	dnode_release(dn);
	return err;
}

static uint64_t count_from_bytes(const struct brt_vdev *v, const uint8_t bytes[8])
{
	return v->big ? load_be64(bytes) : load_le64(bytes);
}

/* Counts are numbers with feature block_cloning_endian, else eight bytes in their writer's order. */
static int brt_count_lookup(struct dsl_pool *p, const struct brt_vdev *v, uint64_t offset, uint64_t *refs)
{
	uint8_t bytes[8];
	int err = zap_lookup_u64key(p->mos, v->entries_object, &offset, 1, 8, 1, refs);

	if (err != -EINVAL)
		return err;
	err = zap_lookup_u64key(p->mos, v->entries_object, &offset, 1, 1, 8, bytes);
	if (!err)
		*refs = count_from_bytes(v, bytes);
	return err;
}

int brt_refcount(struct dsl_pool *p, uint64_t vdev, uint64_t offset, uint64_t *refs)
{
	char name[64];
	struct brt_vdev v;
	uint64_t object;
	int err;

	*refs = 0;
	snprintf(name, sizeof(name), BRT_PREFIX "%llu", (unsigned long long)vdev);
	err = zap_lookup_u64(p->mos, MOS_DIRECTORY, name, &object);
	if (!err)
		err = brt_vdev_load(p, vdev, object, &v);
	if (!err)
		err = brt_count_lookup(p, &v, offset, refs);
	return err == -ENOENT ? 0 : err;
}

static int brt_vdev_cmp(const void *a, const void *b)
{
	uint64_t x = ((const struct brt_vdev *)a)->vdev, y = ((const struct brt_vdev *)b)->vdev;

	return x == y ? 0 : x < y ? -1 : 1;
}

static bool brt_entry_vdev(const struct zap_entry *ze, uint64_t *vdev)
{
	size_t prefix = strlen(BRT_PREFIX);
	char *end;

	if (ze->key_words || ze->intsize != 8 || ze->nints != 1 || strncmp(ze->name, BRT_PREFIX, prefix) != 0)
		return false;
	errno = 0;
	*vdev = strtoull(ze->name + prefix, &end, 10);
	return ze->name[prefix] && !*end && !errno;
}

/* All tables, by vdev. *out is malloc'd. */
static int brt_vdevs_get(struct dsl_pool *p, struct brt_vdev **out, size_t *n)
{
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	struct brt_vdev *v = NULL;
	struct zap_cursor *c;
	uint64_t vdev;
	int err = zap_cursor_open(p->mos, MOS_DIRECTORY, 0, &c);

	*out = NULL;
	*n = 0;
	if (err)
		return err;
	while (!err && !(err = zap_cursor_next(c, ze))) {
		if (!brt_entry_vdev(ze, &vdev))
			continue;
		v = xrealloc(v, (*n + 1) * sizeof(*v));
		err = brt_vdev_load(p, vdev, ze->first, &v[(*n)++]);
	}
	zap_cursor_close(c);
	if (err != -ENOENT) {
		free(v);
		*n = 0;
		return err;
	}
	if (*n)
		qsort(v, *n, sizeof(*v), brt_vdev_cmp);
	*out = v;
	return 0;
}

static int brt_entry_tell(const struct brt_vdev *v, struct zap_cursor *c, const struct zap_entry *ze,
			  int (*fn)(void *arg, uint64_t vdev, uint64_t offset, uint64_t refs), void *arg)
{
	uint64_t refs = ze->first;
	uint8_t bytes[8];

	if (ze->key_words != 1)
		return -EINVAL;
	if (ze->intsize == 1 && ze->nints == sizeof(bytes) && !zap_cursor_value(c, bytes, sizeof(bytes)))
		refs = count_from_bytes(v, bytes);
	else if (ze->intsize != 8 || ze->nints != 1)
		return -EINVAL;
	return fn(arg, v->vdev, load_host64(ze->name), refs);
}

static int brt_vdev_each(struct dsl_pool *p, const struct brt_vdev *v,
			 int (*fn)(void *arg, uint64_t vdev, uint64_t offset, uint64_t refs), void *arg)
{
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	struct zap_cursor *c;
	int err = zap_cursor_open(p->mos, v->entries_object, 0, &c);

	if (err)
		return err;
	while (!err && !(err = zap_cursor_next(c, ze)))
		err = brt_entry_tell(v, c, ze, fn, arg);
	zap_cursor_close(c);
	return err == -ENOENT ? 0 : err;
}

int brt_each(struct dsl_pool *p, int (*fn)(void *arg, uint64_t vdev, uint64_t offset, uint64_t refs), void *arg)
{
	autofree struct brt_vdev *v = NULL;
	size_t n;
	int err = brt_vdevs_get(p, &v, &n);

	for (size_t i = 0; i < n && !err; i++)
		err = brt_vdev_each(p, &v[i], fn, arg);
	return err;
}

static struct nvlist *brt_vdev_list(const struct brt_vdev *v)
{
	struct nvlist *l = nvlist_create();

	nvlist_add_u64(l, "vdev", v->vdev);
	nvlist_add_u64(l, "object", v->object);
	nvlist_add_u64(l, "entries_object", v->entries_object);
	nvlist_add_u64(l, "entries", v->entries);
	nvlist_add_u64(l, "used", v->used);
	nvlist_add_u64(l, "saved", v->saved);
	return l;
}

int brt_stats_get(struct dsl_pool *p, struct nvlist **out)
{
	autofree struct brt_vdev *v = NULL;
	autofree struct nvlist **lists = NULL;
	uint64_t used = 0, saved = 0;
	struct nvlist *l;
	size_t n;
	int err = brt_vdevs_get(p, &v, &n);

	if (err)
		return err;
	lists = xcalloc(n + 1, sizeof(*lists));
	for (size_t i = 0; i < n; i++) {
		used += v[i].used;
		saved += v[i].saved;
		lists[i] = brt_vdev_list(&v[i]);
	}
	l = nvlist_create();
	nvlist_add_u64(l, "used", used);
	nvlist_add_u64(l, "saved", saved);
	nvlist_add_u64(l, "ratio", used ? (uint64_t)(((__uint128_t)used + saved) * 100 / used) : 100);
	nvlist_add_lists(l, "vdevs", lists, n);
	for (size_t i = 0; i < n; i++)
		nvlist_destroy(lists[i]);
	*out = l;
	return 0;
}
