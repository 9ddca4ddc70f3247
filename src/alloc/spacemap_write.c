/*
 * spacemap_write.c: entries into space map objects (docs/format/06-allocation-and-vdevs.md, 2.3 and 2.4).
 */
#include "alloc/spacemap.h"

#define BONUS_OLD      24
#define BONUS          320
#define BONUS_HISTO    64
#define INDIRECT       14          /* log2 of the size of indirect blocks */
#define WRITE_WORDS    (16u << 10) /* as many at once */
#define PADDING        (UINT64_C(2) << 62)
#define ONE_RUN_MAX    (UINT64_C(1) << 15)
#define ONE_OFFSET_MAX (UINT64_C(1) << 47)
#define TWO_RUN_MAX    (UINT64_C(1) << 36)

/* --- words --- */

static void put_word(struct spacemap_encoder *e, uint64_t w)
{
	if (e->n == e->room) {
		e->room = e->room ? 2 * e->room : 64;
		e->word = xrealloc(e->word, e->room * sizeof(*e->word));
	}
	e->word[e->n++] = w;
}

void spacemap_encode_debug(struct spacemap_encoder *e, bool free, unsigned pass, uint64_t txg)
{
	put_word(e, UINT64_C(2) << 62 | (uint64_t)free << 60 | (uint64_t)(pass & 1023) << 50 |
			(txg & ((UINT64_C(1) << 50) - 1)));
}

static void encode_two(struct spacemap_encoder *e, bool free, uint64_t offset, uint64_t run)
{
	if ((e->at + e->n * 8) % e->blocksize == e->blocksize - 8)
		put_word(e, PADDING);
	put_word(e, UINT64_C(3) << 62 | (run - 1) << 24 | (e->vdev == UINT64_MAX ? 0 : e->vdev));
	put_word(e, (uint64_t)free << 63 | offset);
}

void spacemap_encode(struct spacemap_encoder *e, bool free, uint64_t offset, uint64_t run)
{
	bool two = e->two_words && (e->vdev != UINT64_MAX || offset + run > ONE_OFFSET_MAX || run > ONE_RUN_MAX);

	BUG_ON(e->vdev != UINT64_MAX && !e->two_words);
	while (run > 0) {
		uint64_t part = MIN(run, two ? TWO_RUN_MAX : ONE_RUN_MAX);

		if (two)
			encode_two(e, free, offset, part);
		else
			put_word(e, offset << 16 | (uint64_t)free << 15 | (part - 1));
		offset += part;
		run -= part;
	}
}

/* --- objects --- */

struct spacemap {
	struct objset *mos;
	struct dnode *dn;
	uint64_t object, start;
	unsigned shift;
	uint64_t length; /* bytes that are written */
	int64_t alloc;   /* bytes */
	bool histogram, free;
	struct spacemap_encoder e; /* what is not written yet */
	struct tx *tx;             /* between begin and end */
};

int spacemap_create(struct objset *mos, uint32_t blocksize, bool histogram, struct tx *tx, uint64_t *object)
{
	struct dmu_object spec = {
	    .type = DMU_OT_SPACE_MAP,
	    .bonustype = DMU_OT_SPACE_MAP_HEADER,
	    .bonuslen = histogram ? BONUS : BONUS_OLD,
	    .blocksize = blocksize,
	    .indblkshift = INDIRECT,
	};

	return dmu_object_alloc(mos, &spec, tx, object);
}

int spacemap_destroy(struct objset *mos, uint64_t object, struct tx *tx, bool *histogram)
{
	struct spacemap_header h;
	int err = spacemap_header_read(mos, object, &h);

	if (err)
		return err;
	*histogram = h.has_histogram;
	return dmu_object_free(mos, object, tx);
}

int spacemap_open(struct objset *mos, uint64_t object, uint64_t start, unsigned shift, bool two_words,
		  struct spacemap **out)
{
	struct spacemap_header h;
	struct spacemap *sm;
	struct dnode *dn;
	int err = spacemap_header_read(mos, object, &h);

	if (err == 0)
		err = dnode_hold(mos, object, &dn, NULL);
	if (err)
		return err;
	sm = xcalloc(1, sizeof(*sm));
	*sm = (struct spacemap){
	    .mos = mos,
	    .dn = dn,
	    .object = object,
	    .start = start,
	    .shift = shift,
	    .length = h.length,
	    .alloc = (int64_t)h.alloc,
	    .histogram = h.has_histogram,
	    .e = {.at = h.length, .blocksize = dn->datablksz, .two_words = two_words, .vdev = UINT64_MAX},
	};
	*out = sm;
	return 0;
}

void spacemap_close(struct spacemap *sm)
{
	if (!sm)
		return;
	free(sm->e.word);
	dnode_release(sm->dn);
	free(sm);
}

static int write_words(struct spacemap *sm)
{
	size_t bytes = sm->e.n * 8;
	int err = bytes ? dmu_write(sm->dn, sm->length, sm->e.word, bytes, sm->tx) : 0;

	if (err)
		return err;
	sm->length += bytes;
	sm->e.at = sm->length;
	sm->e.n = 0;
	return 0;
}

void spacemap_begin(struct spacemap *sm, bool free, uint64_t vdev, struct tx *tx)
{
	sm->free = free;
	sm->tx = tx;
	sm->e.vdev = vdev;
	spacemap_encode_debug(&sm->e, free, tx->pass, tx->txg);
}

int spacemap_put(struct spacemap *sm, uint64_t offset, uint64_t size)
{
	uint64_t units = size >> sm->shift;

	BUG_ON(offset < sm->start || units << sm->shift != size ||
	       (offset - sm->start) >> sm->shift << sm->shift != offset - sm->start);
	spacemap_encode(&sm->e, sm->free, (offset - sm->start) >> sm->shift, units);
	sm->alloc += sm->free ? -(int64_t)size : (int64_t)size;
	return sm->e.n >= WRITE_WORDS ? write_words(sm) : 0;
}

int spacemap_end(struct spacemap *sm)
{
	int err = write_words(sm);

	sm->tx = NULL;
	return err;
}

int spacemap_append(struct spacemap *sm, const struct rangetree *rt, bool free, struct tx *tx)
{
	int err = 0;

	if (!rt->space)
		return 0;
	spacemap_begin(sm, free, UINT64_MAX, tx);
	for (struct range *r = rangetree_first(rt); r && err == 0; r = rangetree_next(r))
		err = spacemap_put(sm, r->start, r->end - r->start);
	return err ? err : spacemap_end(sm);
}

static void set_length(struct spacemap *sm, uint64_t length)
{
	sm->length = sm->e.at = length;
}

int spacemap_truncate(struct spacemap *sm, struct tx *tx)
{
	int err = dmu_free_range(sm->dn, 0, UINT64_MAX, tx);

	if (err)
		return err;
	set_length(sm, 0);
	sm->alloc = 0;
	return 0;
}

/* First byte of the last block. */
static uint64_t last_block(const struct spacemap *sm)
{
	return sm->length ? ROUND_DOWN(sm->length - 1, (uint64_t)sm->e.blocksize) : 0;
}

int spacemap_tail(struct spacemap *sm, int (*fn)(void *arg, const struct spacemap_entry *e), void *arg)
{
	return spacemap_each_from(sm->dn, last_block(sm) / sm->e.blocksize, sm->length, sm->start, sm->shift, fn, arg);
}

void spacemap_cut(struct spacemap *sm, uint64_t at, uint64_t size)
{
	BUG_ON(at < last_block(sm) || at >= sm->length);
	set_length(sm, at);
	sm->alloc += (int64_t)size;
}

void spacemap_cut_block(struct spacemap *sm)
{
	set_length(sm, last_block(sm));
}

int spacemap_header_write(struct spacemap *sm, const uint64_t histogram[32], struct tx *tx)
{
	uint64_t head[3] = {sm->object, sm->length, (uint64_t)sm->alloc};
	int err = dmu_bonus_write(sm->dn, 0, head, sizeof(head), tx);

	if (err == 0 && histogram && sm->histogram)
		err = dmu_bonus_write(sm->dn, BONUS_HISTO, histogram, BONUS - BONUS_HISTO, tx);
	return err;
}

uint64_t spacemap_length(const struct spacemap *sm)
{
	return sm->length;
}

int64_t spacemap_allocated(const struct spacemap *sm)
{
	return sm->alloc;
}

bool spacemap_has_histogram(const struct spacemap *sm)
{
	return sm->histogram;
}

uint32_t spacemap_blocksize(const struct spacemap *sm)
{
	return sm->e.blocksize;
}
