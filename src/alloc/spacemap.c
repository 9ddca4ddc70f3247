/*
 * spacemap.c: the entries of one space map object (docs/format/06-allocation-and-vdevs.md, 2.3 and 2.4).
 */
#include "alloc/spacemap.h"

#include "base/bytes.h"

#define SPACEMAP_BONUS_OLD 24
#define SPACEMAP_BONUS     320
#define SPACEMAP_HISTOGRAM 64
#define SPACEMAP_BLOCK_MAX (16u << 20)
#define BONUSTYPE_SPACEMAP 7
#define ENTRY_DEBUG        2 /* the two top bits of a word; 0 and 1: one-word entry */
#define ENTRY_TWO_WORDS    3

static int header_decode(const struct dnode *dn, struct spacemap_header *h)
{
	if (dn->bonustype != BONUSTYPE_SPACEMAP || dn->bonuslen < SPACEMAP_BONUS_OLD)
		return -EINVAL;
	memset(h, 0, sizeof(*h));
	h->object = load64(dn->bonus, dn->swapped);
	h->length = load64(dn->bonus + 8, dn->swapped);
	h->alloc = load64(dn->bonus + 16, dn->swapped);
	if (dn->bonuslen >= SPACEMAP_BONUS)
		for (unsigned i = 0; i < ARRAY_LEN(h->histogram); i++)
			h->histogram[i] = load64(dn->bonus + SPACEMAP_HISTOGRAM + 8 * i, dn->swapped);
	return h->length % 8 == 0 ? 0 : -EINVAL;
}

int spacemap_header_read(struct objset *mos, uint64_t object, struct spacemap_header *out)
{
	struct dnode *dn;
	int err = dnode_hold(mos, object, &dn, NULL);

	if (err)
		return err;
	err = header_decode(dn, out);
	dnode_release(dn);
	return err;
}

/* What entries take from those before them. */
struct decoder {
	uint64_t start;
	unsigned shift;
	uint64_t txg;
	unsigned sync_pass;
	int (*fn)(void *arg, const struct spacemap_entry *e);
	void *arg;
};

static int emit(struct decoder *d, uint64_t offset, uint64_t run, bool free, uint64_t vdev)
{
	uint64_t max = (UINT64_MAX - d->start) >> d->shift;

	if (offset > max || run > max - offset)
		return -EINVAL;
	struct spacemap_entry e = {
	    .free = free,
	    .vdev = vdev,
	    .offset = d->start + (offset << d->shift),
	    .run = run << d->shift,
	    .txg = d->txg,
	    .sync_pass = d->sync_pass,
	};
	return d->fn(d->arg, &e);
}

static int decode_words(struct decoder *d, const uint8_t *p, size_t nwords, bool swap)
{
	int err = 0;

	for (size_t i = 0; i < nwords && err == 0; i++) {
		uint64_t w = load64(p + 8 * i, swap);
		if (w >> 62 == ENTRY_DEBUG) {
			if (bits64(w, 0, 50) != 0) { /* else padding */
				d->txg = bits64(w, 0, 50);
				d->sync_pass = (unsigned)bits64(w, 50, 10);
			}
		} else if (w >> 62 == ENTRY_TWO_WORDS) {
			if (++i == nwords)
				return -EINVAL;
			uint64_t second = load64(p + 8 * i, swap);
			err = emit(d, bits64(second, 0, 63), bits64(w, 24, 36) + 1, bits64(second, 63, 1),
				   bits64(w, 0, 24));
		} else {
			err = emit(d, bits64(w, 16, 47), bits64(w, 0, 15) + 1, bits64(w, 15, 1), UINT64_MAX);
		}
	}
	return err;
}

int spacemap_decode(const uint8_t *data, size_t len, bool swap, uint64_t start, unsigned shift,
		    int (*fn)(void *arg, const struct spacemap_entry *e), void *arg)
{
	struct decoder d = {.start = start, .shift = shift, .fn = fn, .arg = arg};

	return shift < 64 ? decode_words(&d, data, len / 8, swap) : -EINVAL;
}

static int decode_block(struct decoder *d, struct dnode *dn, uint64_t blkid, uint8_t *room, size_t len)
{
	struct bp bp;
	int err = dmu_block_pointer(dn, 0, blkid, &bp);

	if (err)
		return err;
	if (bp_is_hole(&bp)) /* no block of a space map is all zeros */
		return -EINVAL;
	err = dmu_read(dn, blkid * dn->datablksz, room, len, 0);
	return err ? err : decode_words(d, room, len / 8, bp_is_swapped(&bp));
}

static int decode_object(struct decoder *d, struct dnode *dn)
{
	struct spacemap_header h;
	int err = header_decode(dn, &h);

	if (err)
		return err;
	if (dn->datablksz == 0 || dn->datablksz > SPACEMAP_BLOCK_MAX || dn->datablksz % 16 != 0 || d->shift > 63)
		return -EINVAL;
	autofree uint8_t *room = malloc(dn->datablksz);
	if (!room)
		return -ENOMEM;
	/* Two-word entries do not cross blocks. */
	for (uint64_t left = h.length, blkid = 0; left > 0 && err == 0; blkid++) {
		size_t len = MIN(left, dn->datablksz);
		err = blkid > dn->maxblkid ? -EINVAL : decode_block(d, dn, blkid, room, len);
		left -= len;
	}
	return err;
}

int spacemap_each(struct objset *mos, uint64_t object, uint64_t start, unsigned shift,
		  int (*fn)(void *arg, const struct spacemap_entry *e), void *arg)
{
	struct decoder d = {.start = start, .shift = shift, .fn = fn, .arg = arg};
	struct dnode *dn;
	int err = dnode_hold(mos, object, &dn, NULL);

	if (err)
		return err;
	err = decode_object(&d, dn);
	dnode_release(dn);
	return err;
}

static int dtl_entry(void *arg, const struct spacemap_entry *e)
{
	int err = e->free ? rangetree_remove(arg, e->offset, e->offset + e->run)
			  : rangetree_add(arg, e->offset, e->offset + e->run);

	return err ? -EINVAL : 0;
}

int spacemap_load_dtl(struct objset *mos, uint64_t object, struct rangetree *rt)
{
	return spacemap_each(mos, object, 0, 0, dtl_entry, rt);
}
