/*
 * spacemap.c: the entries of one space map object (docs/format/06-allocation-and-vdevs.md, 2.3 and 2.4).
 */
#include "alloc/spacemap.h"

#include "base/bytes.h"

#define SPACEMAP_BONUS_OLD 24
#define SPACEMAP_BONUS     320
#define SPACEMAP_HISTOGRAM 64
#define SPACEMAP_BLOCK_MAX (16u << 20)
#define ENTRY_DEBUG        2 /* the two top bits of a word; 0 and 1: one-word entry */
#define ENTRY_TWO_WORDS    3

static int header_decode(struct dnode *dn, struct spacemap_header *h)
{
	uint64_t w[SPACEMAP_BONUS / 8];

	if (dn->bonustype != DMU_OT_SPACE_MAP_HEADER || dmu_bonus_words(dn, w, ARRAY_LEN(w)) < SPACEMAP_BONUS_OLD / 8)
		return -EINVAL;
	*h = (struct spacemap_header){
	    .object = w[0], .length = w[1], .alloc = w[2], .has_histogram = dn->bonuslen >= SPACEMAP_BONUS};
	if (h->has_histogram)
		memcpy(h->histogram, &w[SPACEMAP_HISTOGRAM / 8], sizeof(h->histogram));
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
	uint64_t base; /* byte of the map where the words begin */
	uint64_t txg;
	unsigned sync_pass;
	int (*fn)(void *arg, const struct spacemap_entry *e);
	void *arg;
};

static int emit(struct decoder *d, size_t i, uint64_t offset, uint64_t run, bool free, uint64_t vdev)
{
	uint64_t max = (UINT64_MAX - d->start) >> d->shift;

	if (offset > max || run > max - offset)
		return -EINVAL;
	struct spacemap_entry e = {
	    .free = free,
	    .vdev = vdev,
	    .offset = d->start + (offset << d->shift),
	    .run = run << d->shift,
	    .at = d->base + 8 * i,
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
			err = emit(d, i - 1, bits64(second, 0, 63), bits64(w, 24, 36) + 1, bits64(second, 63, 1),
				   bits64(w, 0, 24));
		} else {
			err = emit(d, i, bits64(w, 16, 47), bits64(w, 0, 15) + 1, bits64(w, 15, 1), UINT64_MAX);
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

/* The block and its byte order; a block that is not written yet may be turned between the two questions. */
static int block_get(struct dnode *dn, uint64_t blkid, struct buf **buf, bool *swap)
{
	bool before = false;
	int err;

	*swap = false;
	do {
		before = *swap;
		err = dmu_block_is_swapped(dn, blkid, swap);
	} while (err == 0 && before != *swap);
	return err ? err : dmu_block_get(dn, blkid, buf);
}

static int decode_block(struct decoder *d, struct dnode *dn, uint64_t blkid, size_t len)
{
	struct buf *buf;
	bool swap;
	int err = block_get(dn, blkid, &buf, &swap);

	if (err)
		return err == -ENOENT ? -EINVAL : err; /* no block of a space map is all zeros */
	d->base = blkid * dn->datablksz;
	err = buf->size < len ? -EINVAL : decode_words(d, buf->data, len / 8, swap);
	buf_release(buf);
	return err;
}

/* Blocks from `blkid` on. */
static int decode_object(struct decoder *d, struct dnode *dn, uint64_t blkid, uint64_t length)
{
	int err = 0;

	if (dn->datablksz == 0 || dn->datablksz > SPACEMAP_BLOCK_MAX || dn->datablksz % 16 != 0 || d->shift > 63)
		return -EINVAL;
	/* Two-word entries do not cross blocks. */
	for (uint64_t left = length - MIN(length, blkid * dn->datablksz); left > 0 && err == 0; blkid++) {
		size_t len = MIN(left, dn->datablksz);
		err = blkid > dn->maxblkid ? -EINVAL : decode_block(d, dn, blkid, len);
		left -= len;
	}
	return err;
}

int spacemap_each(struct objset *mos, uint64_t object, uint64_t start, unsigned shift,
		  int (*fn)(void *arg, const struct spacemap_entry *e), void *arg)
{
	struct decoder d = {.start = start, .shift = shift, .fn = fn, .arg = arg};
	struct spacemap_header h;
	struct dnode *dn;
	int err = dnode_hold(mos, object, &dn, NULL);

	if (err)
		return err;
	err = header_decode(dn, &h);
	if (err == 0)
		err = decode_object(&d, dn, 0, h.length);
	dnode_release(dn);
	return err;
}

int spacemap_each_from(struct dnode *dn, uint64_t blkid, uint64_t length, uint64_t start, unsigned shift,
		       int (*fn)(void *arg, const struct spacemap_entry *e), void *arg)
{
	struct decoder d = {.start = start, .shift = shift, .fn = fn, .arg = arg};

	return decode_object(&d, dn, blkid, length);
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
