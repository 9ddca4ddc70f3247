/*
 * Labels and uberblock rings of one leaf. Everything read here is unverified until its embedded checksum fits.
 */
#include "base/bytes.h"
#include "codec/checksum.h"
#include "vdev/label.h"

#define NVLIST_OFFSET   0x4000u /* 01-pool.md 2.2 */
#define NVLIST_SIZE     0x1C000u
#define RING_OFFSET     0x20000u
#define TRAILER_SIZE    40u
#define PSIZE_MIN       (64u << 20)
#define UBERBLOCK_MAGIC 0x00bab10cu
#define MMP_MAGIC       0xa11cea11u
#define UBERBLOCK_MIN   168u /* up to the end of rootbp */
#define UBERBLOCK_FULL  216u

_Static_assert(NVLIST_OFFSET + NVLIST_SIZE == RING_OFFSET, "01-pool.md 2.2");
_Static_assert(RING_OFFSET + UBERBLOCK_RING_SIZE == VDEV_LABEL_SIZE, "01-pool.md 2.2");

uint64_t label_offset(uint64_t psize, unsigned l)
{
	return l * (uint64_t)VDEV_LABEL_SIZE + (l < 2 ? 0 : psize - VDEV_LABELS * (uint64_t)VDEV_LABEL_SIZE);
}

static uint64_t disk_psize(const struct disk *d)
{
	return ROUND_DOWN(d->size, VDEV_LABEL_SIZE);
}

static int embedded_verify(uint8_t *data, size_t size, uint64_t offset)
{
	struct cksum verifier = {{offset, 0, 0, 0}};
	bool swapped;

	return checksum_embedded_verify(CHECKSUM_LABEL, data, size, &verifier, &swapped);
}

static void label_read(struct disk *d, uint64_t offset, uint8_t *data, struct label *out)
{
	int err = disk_read(d, offset + NVLIST_OFFSET, data, NVLIST_SIZE);

	*out = (struct label){NULL, err, 0};
	if (err)
		return;
	out->err = nvlist_unpack(data, NVLIST_SIZE - TRAILER_SIZE, &out->config, NULL);
	if (out->err)
		return;
	out->txg = nvlist_u64_or(out->config, "txg", 0);
	out->err = embedded_verify(data, NVLIST_SIZE, offset + NVLIST_OFFSET);
}

int label_read_all(struct disk *d, struct label out[VDEV_LABELS])
{
	autofree uint8_t *data = NULL;

	memset(out, 0, VDEV_LABELS * sizeof(*out));
	if (d->size < PSIZE_MIN)
		return -EOVERFLOW;
	data = xmalloc(NVLIST_SIZE);
	for (unsigned l = 0; l < VDEV_LABELS; l++)
		label_read(d, label_offset(disk_psize(d), l), data, &out[l]);
	return 0;
}

void label_free_all(struct label l[VDEV_LABELS])
{
	for (unsigned i = 0; i < VDEV_LABELS; i++) {
		nvlist_destroy(l[i].config);
		l[i].config = NULL;
	}
}

int uberblock_decode(const uint8_t *slot, size_t size, struct uberblock *ub)
{
	uint8_t full[UBERBLOCK_FULL] = {0};
	bool swap;

	if (size < UBERBLOCK_MIN)
		return -EINVAL;
	swap = load64(slot, false) != UBERBLOCK_MAGIC;
	if (load64(slot, swap) != UBERBLOCK_MAGIC)
		return -EINVAL;
	memcpy(full, slot, MIN(size, sizeof(full)));
	*ub = (struct uberblock){
	    .version = load64(full + 8, swap),
	    .txg = load64(full + 16, swap),
	    .guid_sum = load64(full + 24, swap),
	    .timestamp = load64(full + 32, swap),
	    .swapped = swap,
	    .software_version = load64(full + 168, swap),
	    .mmp_magic = load64(full + 176, swap),
	    .mmp_delay = load64(full + 184, swap),
	    .mmp_config = load64(full + 192, swap),
	    .checkpoint_txg = load64(full + 200, swap),
	    .raidz_reflow_info = load64(full + 208, swap),
	};
	memcpy(ub->rootbp, full + 40, sizeof(ub->rootbp));
	if (ub->mmp_magic != MMP_MAGIC) /* the fields mean something only together (3.2) */
		ub->mmp_magic = ub->mmp_delay = ub->mmp_config = 0;
	return 0;
}

int uberblock_each(struct disk *d, unsigned l, unsigned ashift, uberblock_fn fn, void *arg)
{
	unsigned shift = ashift < 10 ? 10 : ashift > 13 ? 13 : ashift;
	size_t size = (size_t)1 << shift;
	autofree uint8_t *ring = NULL;
	uint64_t offset;
	int err;

	if (d->size < PSIZE_MIN || l >= VDEV_LABELS)
		return -EOVERFLOW;
	ring = xmalloc(UBERBLOCK_RING_SIZE);
	offset = label_offset(disk_psize(d), l) + RING_OFFSET;
	err = disk_read(d, offset, ring, UBERBLOCK_RING_SIZE);
	for (unsigned slot = 0; !err && slot < UBERBLOCK_RING_SIZE >> shift; slot++) {
		uint8_t *at = ring + slot * size;
		struct uberblock ub;

		if (uberblock_decode(at, size - TRAILER_SIZE, &ub) == 0 &&
		    embedded_verify(at, size, offset + slot * size) == 0)
			fn(arg, l, slot, &ub);
	}
	return err;
}

unsigned uberblock_mmp_sequence(const struct uberblock *ub)
{
	return ub->mmp_config & 2 ? bits64(ub->mmp_config, 32, 16) : 0;
}

static int order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

int uberblock_compare(const struct uberblock *a, const struct uberblock *b)
{
	if (a->txg != b->txg)
		return order(a->txg, b->txg);
	if (a->timestamp != b->timestamp)
		return order(a->timestamp, b->timestamp);
	return order(uberblock_mmp_sequence(a), uberblock_mmp_sequence(b));
}
