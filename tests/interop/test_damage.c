/*
 * test_damage POOL...: images of real pools with random damage: bits turned, ranges zeroed or overwritten, devices cut
 * short, missing, swapped, from the past, without labels, and labels that lie under right checksums.
 *
 * Whatever was done, nothing crashes, hangs or takes memory without bound, a refused import says why, and bytes that
 * are handed out as a file's are that file's. Damage that hits only data of some files (or that redundancy covers)
 * leaves the import and all other files as they were.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "async_sha256.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "dmu/traverse.h"
#include "golden_node.h"
#include "look.h"

#define ROUND_SECONDS 180
#define MEMORY_MAX    (UINT64_C(900) << 20)
#define GRAIN         4096
#define TOPS_MAX      16
#define CONFIG_OFFSET 0x4000
#define CONFIG_SIZE   0x1C000
#define RING_OFFSET   0x20000
#define TYPE_FILE     19
#define TYPE_VOLUME   23

/* --- what was there before, to be put back --- */
struct undo {
	unsigned image;
	uint64_t at;
	uint8_t was[GRAIN];
};
struct image {
	char *path;
	int fd;
	uint64_t size;
	unsigned top, bit; /* the top-level vdev it belongs to; its bit among the devices there */
};
/* Where a block lies: for the question what damage may take. */
struct place {
	unsigned top, hit;     /* bits of devices */
	uint64_t offset, size; /* in the top-level's space */
	size_t block;
};
struct block {
	uint64_t objset, object;
	bool file; /* data of one file or volume alone */
	unsigned copies, lost;
};
struct subject {
	struct golden g;
	struct image *image;
	unsigned nimages;
	struct undo *undo;
	size_t nundo, undo_cap;
	uint64_t txg;
	struct image *away;
	bool swapped;
	unsigned swap[2];
	unsigned rounds, imports, strict, same, lost;
	/* of the pool when whole; only for pools of plain devices and mirrors */
	bool mapped;
	struct block *block;
	struct place *place;
	size_t nblocks, nplaces, blocks_cap, places_cap;
	unsigned all[TOPS_MAX]; /* bits of all devices */
};

static void damage_write(struct subject *s, unsigned image, uint64_t at, const void *data, size_t len)
{
	const uint8_t *p = data;
	struct image *im = &s->image[image];

	while (len) {
		uint64_t grain = ROUND_DOWN(at, GRAIN);
		size_t part = MIN(len, (size_t)(grain + GRAIN - at));
		struct undo *u;

		if (at >= im->size)
			return;
		if (s->nundo == s->undo_cap)
			s->undo = xrealloc(s->undo, (s->undo_cap = MAX(s->undo_cap * 2, 64)) * sizeof(*s->undo));
		u = &s->undo[s->nundo++];
		*u = (struct undo){.image = image, .at = grain};
		if (pread(im->fd, u->was, GRAIN, (off_t)grain) < 0 || pwrite(im->fd, p, part, (off_t)at) < 0)
			golden_differs(&s->g, "cannot damage %s", im->path);
		p += part;
		at += part;
		len -= part;
	}
}

static void names_undo(struct subject *s)
{
	autofree char *dir = xasprintf("%s/.away", s->g.dir), *gone = xasprintf("%s/gone", dir);
	autofree char *between = xasprintf("%s/between", s->g.dir);
	struct image *a = &s->image[s->swap[0]], *b = &s->image[s->swap[1]];

	if (s->away && (rename(gone, s->away->path) || rmdir(dir)))
		golden_differs(&s->g, "cannot restore %s", s->away->path);
	if (s->swapped && (rename(a->path, between) || rename(b->path, a->path) || rename(between, b->path)))
		golden_differs(&s->g, "cannot restore %s", a->path);
	s->away = NULL;
	s->swapped = false;
}

static void damage_undo(struct subject *s)
{
	names_undo(s);
	for (unsigned i = 0; i < s->nimages; i++)
		if (ftruncate(s->image[i].fd, (off_t)s->image[i].size))
			golden_differs(&s->g, "cannot restore %s", s->image[i].path);
	while (s->nundo) {
		struct undo *u = &s->undo[--s->nundo];

		if (pwrite(s->image[u->image].fd, u->was, GRAIN, (off_t)u->at) != GRAIN)
			golden_differs(&s->g, "cannot restore %s", s->image[u->image].path);
	}
}

/* --- damage --- */
struct hit {
	unsigned image;
	uint64_t at, len;
};
#define HITS_MAX 256
struct hits {
	struct hit hit[HITS_MAX];
	unsigned n;
	bool data_only; /* keep off the labels */
};

/* A place somebody wrote to, mostly. */
static bool some_place(struct subject *s, const struct hits *h, uint64_t *rnd, unsigned *image, uint64_t *at)
{
	struct image *im;
	off_t data;

	*image = (unsigned)(random_next(rnd) % s->nimages);
	im = &s->image[*image];
	*at = random_next(rnd) % im->size;
	data = lseek(im->fd, (off_t)*at, SEEK_DATA);
	if (data >= 0 && random_next(rnd) % 10)
		*at = (uint64_t)data + random_next(rnd) % GRAIN;
	if (!h->data_only)
		return *at < im->size;
	return *at >= VDEV_LABEL_START_SIZE && *at < im->size - VDEV_LABEL_END_SIZE - (1u << 20);
}

static void hit_note(struct hits *h, unsigned image, uint64_t at, uint64_t len)
{
	if (h->n < HITS_MAX)
		h->hit[h->n++] = (struct hit){image, at, len};
}

static void damage_bits(struct subject *s, struct hits *h, uint64_t *rnd)
{
	unsigned n = 1u << random_next(rnd) % 8;

	while (n-- && h->n < HITS_MAX) {
		unsigned image;
		uint64_t at;
		uint8_t byte;

		if (!some_place(s, h, rnd, &image, &at) || pread(s->image[image].fd, &byte, 1, (off_t)at) != 1)
			continue;
		byte ^= (uint8_t)(1u << random_next(rnd) % 8);
		damage_write(s, image, at, &byte, 1);
		hit_note(h, image, at, 1);
	}
}

static void damage_range(struct subject *s, struct hits *h, uint64_t *rnd)
{
	size_t len = (size_t)1 << (9 + random_next(rnd) % 12);
	autofree uint8_t *data = xcalloc(1, len);
	unsigned image;
	uint64_t at;

	if (!some_place(s, h, rnd, &image, &at))
		return;
	at = ROUND_DOWN(at, 512);
	if (random_next(rnd) % 2)
		for (size_t i = 0; i + 8 <= len; i += 8)
			store_le64(data + i, random_next(rnd));
	damage_write(s, image, at, data, len);
	hit_note(h, image, at, len);
}

/* What belongs elsewhere: a misdirected write. */
static void damage_misplaced(struct subject *s, struct hits *h, uint64_t *rnd)
{
	size_t len = (size_t)512 << random_next(rnd) % 9;
	autofree uint8_t *data = xcalloc(1, len);
	unsigned from, to;
	uint64_t a, b;

	if (!some_place(s, h, rnd, &from, &a) || !some_place(s, h, rnd, &to, &b))
		return;
	if (pread(s->image[from].fd, data, len, (off_t)ROUND_DOWN(a, 512)) != (ssize_t)len)
		return;
	damage_write(s, to, ROUND_DOWN(b, 512), data, len);
	hit_note(h, to, ROUND_DOWN(b, 512), len);
}

static void damage_cut(struct subject *s, struct hits *h, uint64_t *rnd)
{
	unsigned image = (unsigned)(random_next(rnd) % s->nimages);
	struct image *im = &s->image[image];
	uint64_t r = random_next(rnd), left = r % 3 == 0 ? r % im->size : im->size - r % MIN(im->size, 2u << 20);
	static const uint8_t nothing[GRAIN];
	off_t at;

	/* what is cut off is put among what is to be restored */
	for (uint64_t from = left; (at = lseek(im->fd, (off_t)from, SEEK_DATA)) >= 0; from = (uint64_t)at + GRAIN) {
		at = (off_t)MAX(left, ROUND_DOWN((uint64_t)at, GRAIN));
		damage_write(s, image, (uint64_t)at, nothing, 1);
	}
	if (ftruncate(im->fd, (off_t)left))
		golden_differs(&s->g, "cannot cut %s", im->path);
}

static void damage_away(struct subject *s, struct hits *h, uint64_t *rnd)
{
	struct image *im = &s->image[random_next(rnd) % s->nimages];
	autofree char *to = xasprintf("%s/.away/gone", s->g.dir), *dir = xasprintf("%s/.away", s->g.dir);

	if (!s->away && mkdir(dir, 0700) == 0 && rename(im->path, to) == 0)
		s->away = im;
}

static void damage_swapped(struct subject *s, struct hits *h, uint64_t *rnd)
{
	unsigned a = (unsigned)(random_next(rnd) % s->nimages), b = (unsigned)(random_next(rnd) % s->nimages);
	autofree char *between = xasprintf("%s/between", s->g.dir);

	if (a == b || s->away || s->swapped)
		return;
	if (rename(s->image[a].path, between) || rename(s->image[b].path, s->image[a].path) ||
	    rename(between, s->image[b].path))
		golden_differs(&s->g, "cannot swap images");
	s->swapped = true;
	s->swap[0] = a;
	s->swap[1] = b;
}

/* --- labels --- */
static void damage_labels(struct subject *s, struct hits *h, uint64_t *rnd)
{
	static const struct {
		uint64_t at, len;
	} parts[] = {{0, VDEV_LABEL_SIZE}, {CONFIG_OFFSET, CONFIG_SIZE}, {RING_OFFSET, UBERBLOCK_RING_SIZE}};
	autofree uint8_t *zeros = xcalloc(1, VDEV_LABEL_SIZE);
	uint64_t which = random_next(rnd);

	for (unsigned i = 0; i < s->nimages; i++)
		for (unsigned l = 0; l < VDEV_LABELS; l++, which = which >> 1 | which << 63) {
			unsigned part = (unsigned)(random_next(rnd) % ARRAY_LEN(parts));
			uint64_t size = ROUND_DOWN(s->image[i].size, VDEV_LABEL_SIZE);

			if (which & 1)
				damage_write(s, i, label_offset(size, l) + parts[part].at, zeros, parts[part].len);
		}
}

static void trailer_renew(uint8_t *block, size_t size, uint64_t offset)
{
	struct cksum sum;

	memset(block + size - 32, 0, 32);
	store_host64(block + size - 32, offset);
	if (checksum_compute(CHECKSUM_SHA256, NULL, block, size, false, &sum) == 0)
		memcpy(block + size - 32, sum.word, 32);
}

static void bytes_change(uint8_t *p, size_t len, uint64_t *rnd)
{
	static const uint64_t odd[] = {0, 1, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX};
	unsigned n = 1 + (unsigned)(random_next(rnd) % 4);

	while (n--) {
		size_t at = random_next(rnd) % len;

		if (random_next(rnd) % 2) {
			p[at] ^= (uint8_t)(1u << random_next(rnd) % 8);
			continue;
		}
		at = MIN(ROUND_DOWN(at, 4), len - 8);
		store_be64(p + at, odd[random_next(rnd) % ARRAY_LEN(odd)]);
	}
}

/* The configuration of one label says something else, under a right checksum; the same in all labels or one. */
static void damage_config(struct subject *s, struct hits *h, uint64_t *rnd)
{
	autofree uint8_t *area = xmalloc(CONFIG_SIZE);
	unsigned image = (unsigned)(random_next(rnd) % s->nimages);
	uint64_t size = ROUND_DOWN(s->image[image].size, VDEV_LABEL_SIZE), seed = random_next(rnd);
	bool all = random_next(rnd) % 2;

	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		uint64_t at = label_offset(size, l) + CONFIG_OFFSET, again = seed;

		if (pread(s->image[image].fd, area, CONFIG_SIZE, (off_t)at) != CONFIG_SIZE)
			continue;
		if (!all && seed % VDEV_LABELS != l)
			continue;
		bytes_change(area, 3000, &again);
		trailer_renew(area, CONFIG_SIZE, at);
		damage_write(s, image, at, area, CONFIG_SIZE);
	}
}

/* Uberblocks that lie, or are gone from some time on: a device from the past. */
static void damage_uberblocks(struct subject *s, struct hits *h, uint64_t *rnd)
{
	autofree uint8_t *slot = xmalloc(8192);
	unsigned image = (unsigned)(random_next(rnd) % s->nimages);
	uint64_t size = ROUND_DOWN(s->image[image].size, VDEV_LABEL_SIZE), seed = random_next(rnd);
	size_t step = (size_t)1 << (10 + seed % 4);
	bool lie = seed & 16;
	uint64_t newest = s->txg - (seed >> 8) % 12;

	for (unsigned l = 0; l < VDEV_LABELS; l++)
		for (uint64_t off = 0; off < UBERBLOCK_RING_SIZE; off += step) {
			uint64_t at = label_offset(size, l) + RING_OFFSET + off, again = seed + off;

			if (pread(s->image[image].fd, slot, step, (off_t)at) != (ssize_t)step ||
			    load_host64(slot) != 0x00bab10c)
				continue;
			if (lie && random_next(&again) % 3 == 0) {
				bytes_change(slot, 256, &again);
				trailer_renew(slot, step, at);
			} else if (!lie && load_host64(slot + 16) > newest) {
				memset(slot, 0, step);
			} else {
				continue;
			}
			damage_write(s, image, at, slot, step);
		}
}

/* --- what the whole pool holds --- */
static unsigned image_of(const struct subject *s, const struct vdev *leaf)
{
	for (unsigned i = 0; i < s->nimages; i++)
		if (leaf->path && strcmp(leaf->path, s->image[i].path) == 0)
			return i;
	return UINT32_MAX;
}

/* Devices of top-level vdevs whose space is laid out as the devices are. */
static bool tops_map(struct subject *s)
{
	const struct vdev *root = s->g.spa->root;

	for (unsigned t = 0; t < root->nchildren; t++) {
		const struct vdev *top = root->child[t];
		bool leaf = vdev_is_leaf(top);

		if (!leaf && top->kind != VDEV_MIRROR)
			return false;
		for (unsigned c = 0; c < (leaf ? 1 : top->nchildren); c++) {
			const struct vdev *vd = leaf ? top : top->child[c];
			unsigned image = vdev_is_leaf(vd) ? image_of(s, vd) : UINT32_MAX;

			if (image == UINT32_MAX || vd->state != VDEV_STATE_HEALTHY)
				return false;
			s->image[image].top = t;
			s->image[image].bit = 1u << c;
			s->all[t] |= 1u << c;
		}
	}
	return true;
}

static int block_note(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct subject *s = t->arg;
	struct block b = {.objset = zb->objset, .object = zb->object, .copies = bp_ndvas(bp)};

	if (bp_is_embedded(bp) || bp_is_hole(bp))
		return 0;
	if (bp_is_gang(bp))
		s->mapped = false;
	b.file = zb->objset && dn && zb->object && (dn->type == TYPE_FILE || dn->type == TYPE_VOLUME);
	if (s->nblocks == s->blocks_cap)
		s->block = xrealloc(s->block, (s->blocks_cap = MAX(s->blocks_cap * 2, 256)) * sizeof(*s->block));
	for (unsigned i = 0; i < b.copies; i++) {
		struct dva d = bp_dva(bp, i);

		if (s->nplaces == s->places_cap)
			s->place = xrealloc(s->place,
					    (s->places_cap = MAX(s->places_cap * 2, 256)) * sizeof(*s->place));
		s->place[s->nplaces++] = (struct place){(unsigned)d.vdev, 0, d.offset, bp_psize(bp), s->nblocks};
	}
	s->block[s->nblocks++] = b;
	return 0;
}

static void block_unreadable(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err)
{
	struct subject *s = t->arg;

	s->mapped = false;
}

static void pool_map(struct subject *s)
{
	struct spa *spa = s->g.spa;
	struct traverse t = {.visit = block_note, .error = block_unreadable, .arg = s};
	uint64_t object = 0;
	struct dsl_dataset *ds;
	struct objset *os;
	struct err e = ERR_INIT;

	s->mapped = spa->root->nchildren <= TOPS_MAX && tops_map(s);
	if (s->mapped)
		traverse_objset(spa->mos, &t);
	while (s->mapped && dnode_next(spa->mos, &object, NULL) == 0) {
		if (dsl_dataset_hold_obj(spa->dsl, object, &ds, &e))
			continue;
		if (!bp_is_hole(&ds->bp) && objset_open(&spa->dp, ds->object, &ds->bp, NULL, &os, &e) == 0) {
			traverse_objset(os, &t);
			objset_release(os);
		}
		dsl_dataset_release(ds);
	}
}

/* What the hits took. False when it is more than data of single files. */
static bool losses_find(struct subject *s, const struct hits *h)
{
	for (size_t i = 0; i < s->nblocks; i++)
		s->block[i].lost = 0;
	for (size_t i = 0; i < s->nplaces; i++) {
		struct place *p = &s->place[i];

		p->hit = 0;
		for (unsigned k = 0; k < h->n; k++) {
			const struct hit *hit = &h->hit[k];
			const struct image *im = &s->image[hit->image];
			uint64_t at = p->offset + VDEV_LABEL_START_SIZE;

			if (im->top == p->top && hit->at < at + p->size && at < hit->at + hit->len)
				p->hit |= im->bit;
		}
		s->block[p->block].lost += p->hit == s->all[p->top];
	}
	for (size_t i = 0; i < s->nblocks; i++)
		if (s->block[i].lost == s->block[i].copies && !s->block[i].file)
			return false;
	return true;
}

static bool is_lost(const struct subject *s, uint64_t objset, uint64_t object)
{
	for (size_t i = 0; i < s->nblocks; i++)
		if (s->block[i].lost == s->block[i].copies && s->block[i].objset == objset &&
		    s->block[i].object == object)
			return true;
	return false;
}

/* --- what must have stayed --- */
struct compare {
	struct subject *s;
	const char *what;
	bool strict;
	uint64_t rnd;
	unsigned same, lost;
};

static void file_compare(struct compare *c, struct zpl *z, const json_t *file)
{
	size_t len;
	autofree char *path = golden_bytes(json_object_get(file, "path"), &len);
	const char *sum = json_string_value(json_object_get(file, "sha256"));
	struct znode *zn = NULL;
	struct err e = ERR_INIT;
	char hex[65];
	int rc;

	if (!sum || !path || strncmp(path, ".zfs/", 5) == 0)
		return;
	rc = zpl_path_lookup(z, path, &zn, &e);
	if (rc == 0)
		rc = golden_file_sha256(zn, hex);
	if (rc == 0 && strcmp(hex, sum))
		golden_differs(&c->s->g, "%s: %s: %s: other data than was written", c->what, z->ds->name, path);
	else if (rc && c->strict && (!zn || !is_lost(c->s, z->os->id, zn->id)))
		golden_differs(&c->s->g, "%s: %s: %s: was not hit, and yet: %s", c->what, z->ds->name, path,
			       err_words(rc));
	*(rc ? &c->lost : &c->same) += 1;
	if (zn)
		znode_release(zn);
}

static void filesystem_compare(struct compare *c, const char *name, const json_t *fs)
{
	json_t *file, *files = json_object_get(fs, "files");
	size_t i, step = 1 + json_array_size(files) / 25, first = random_next(&c->rnd) % step;
	struct dsl_dataset *ds;
	struct zpl *z;
	struct err e = ERR_INIT;
	int rc = dsl_dataset_hold(c->s->g.spa->dsl, name, &ds, &e);

	if (rc == 0) {
		rc = zpl_open(ds, &z, &e);
		if (rc == 0) {
			json_array_foreach(files, i, file)
			{
				if (i % step == first)
					file_compare(c, z, file);
			}
			zpl_close(z);
		}
		dsl_dataset_release(ds);
	}
	if (rc && c->strict)
		golden_differs(&c->s->g, "%s: %s: was not hit, and yet: %s", c->what, name, e.text);
}

static void pool_compare(struct compare *c)
{
	const json_t *all = json_object_get(c->s->g.manifest, "filesystems");
	size_t step = 1 + json_object_size(all) / 8, first = random_next(&c->rnd) % step, i = 0;
	const char *name;
	json_t *fs;

	json_object_foreach((json_t *)all, name, fs)
	{
		if (i++ % step == first)
			filesystem_compare(c, name, fs);
	}
}

/* --- rounds --- */
typedef void (*damage_fn)(struct subject *s, struct hits *h, uint64_t *rnd);

static void damage_anything(struct subject *s, struct hits *h, uint64_t *rnd)
{
	static const damage_fn kinds[] = {damage_bits,   damage_range,     damage_misplaced, damage_cut,
					  damage_away,   damage_swapped,   damage_labels,    damage_config,
					  damage_config, damage_uberblocks};
	unsigned n = 1 + (unsigned)(random_next(rnd) % 3);

	while (n--)
		kinds[random_next(rnd) % ARRAY_LEN(kinds)](s, h, rnd);
}

static void damage_data(struct subject *s, struct hits *h, uint64_t *rnd)
{
	static const damage_fn kinds[] = {damage_bits, damage_range, damage_misplaced};
	unsigned n = 1 + (unsigned)(random_next(rnd) % 6);

	h->data_only = true;
	while (n--)
		kinds[random_next(rnd) % ARRAY_LEN(kinds)](s, h, rnd);
}

static void round_look(struct subject *s, const char *what, uint64_t seed, bool strict)
{
	struct look l = {.nodes_left = 200, .blocks_left = 1500};
	struct compare c = {.s = s, .what = what, .strict = strict, .rnd = seed};
	struct err e = ERR_INIT;

	golden_keys_load(&s->g);
	if (s->g.spa->uberblock.txg == s->txg)
		pool_compare(&c);
	else if (strict)
		golden_differs(&s->g, "%s: an older state was opened", what);
	s->same += c.same;
	s->lost += c.lost;
	look_pool(&l, s->g.spa);
	if (golden_export(&s->g, &e))
		golden_differs(&s->g, "%s: export: %s", what, e.text);
}

static void round_run(struct subject *s, uint64_t seed)
{
	struct hits h = {0};
	struct err e = ERR_INIT;
	uint64_t rnd = seed;
	bool strict = false;
	char what[100];
	int rc;

	snprintf(what, sizeof(what), "seed %" PRIu64, seed);
	watch(ROUND_SECONDS, what);
	if (random_next(&rnd) % 2 && s->mapped) {
		damage_data(s, &h, &rnd);
		strict = losses_find(s, &h);
	} else {
		damage_anything(s, &h, &rnd);
	}
	rc = golden_try_import(
	    &s->g, &(struct spa_import){.force = true, .rewind = !strict && rnd % 3 == 0, .missing_log = rnd % 2}, &e);
	s->rounds++;
	s->imports += rc == 0;
	s->strict += strict;
	if (rc == 0)
		round_look(s, what, seed, strict);
	else if (strict)
		golden_differs(&s->g, "%s: only data was hit, and yet: %s", what, e.text);
	else if (!e.text[0])
		golden_differs(&s->g, "%s: no word on why the import failed", what);
	if (getenv("TARN_TEST_VERBOSE"))
		printf("%s %s: %s%s\n", s->g.name, what, strict ? "strict " : "", rc ? e.text : "imported");
	damage_undo(s);
	watch(0, "");
}

static int subject_open(struct subject *s, const char *name)
{
	json_t *images;
	int rc = golden_open(&s->g, name);

	if (rc)
		return rc;
	images = json_object_get(s->g.manifest, "images");
	s->nimages = (unsigned)json_array_size(images);
	s->image = xcalloc(s->nimages, sizeof(*s->image));
	for (unsigned i = 0; i < s->nimages; i++) {
		s->image[i].path = golden_image(&s->g, i);
		s->image[i].size = golden_u64(json_array_get(images, i), "size");
		s->image[i].fd = open(s->image[i].path, O_RDWR | O_CLOEXEC);
	}
	s->txg = s->g.spa->uberblock.txg;
	pool_map(s);
	return golden_export(&s->g, NULL);
}

static void subject_close(struct subject *s)
{
	printf(
	    "%s: %u rounds, %u imports, %u with damage to data alone (%zu blocks known), %u files the same, %u lost\n",
	    s->g.name, s->rounds, s->imports, s->strict, s->mapped ? s->nblocks : 0, s->same, s->lost);
	for (unsigned i = 0; i < s->nimages; i++) {
		close(s->image[i].fd);
		free(s->image[i].path);
	}
	free(s->image);
	free(s->undo);
	free(s->block);
	free(s->place);
	golden_close(&s->g);
}

int main(int argc, char **argv)
{
	struct subject *s = xcalloc((size_t)argc, sizeof(*s));
	uint64_t seed = test_seed();
	unsigned differences = 0;
	time_t end;
	int rc = argc < 2;

	for (int i = 1; i < argc && rc == 0; i++)
		rc = subject_open(&s[i], argv[i]);
	log_init(LOG_LEVEL_ERROR);
	end = time(NULL) + test_seconds();
	for (; rc == 0 && time(NULL) < end; seed++)
		for (int i = 1; i < argc && time(NULL) < end; i++)
			round_run(&s[i], seed);
	for (int i = 1; i < argc && rc == 0; i++) {
		subject_close(&s[i]);
		differences += s[i].g.differences;
	}
	free(s);
	printf("at most %" PRIu64 " MiB of memory\n", memory_peak() >> 20);
#ifndef __SANITIZE_ADDRESS__
	if (memory_peak() > MEMORY_MAX) {
		printf("takes too much memory\n");
		differences++;
	}
#endif
	return rc ? rc : differences != 0;
}
