/*
 * Labels and uberblock rings of one leaf. Everything read here is unverified until its embedded checksum fits.
 */
#include <limits.h>

#include "base/bytes.h"
#include "codec/checksum.h"
#include "vdev/label.h"

#define BLANK_SIZE      0x2000u /* 01-pool.md 2.2 */
#define BOOT_SIZE       0x2000u
#define NVLIST_OFFSET   0x4000u
#define NVLIST_SIZE     0x1C000u
#define RING_OFFSET     0x20000u
#define TRAILER_SIZE    40u
#define PSIZE_MIN       (64u << 20)
#define UBERBLOCK_MAGIC 0x00bab10cu
#define UBERBLOCK_MIN   168u /* up to the end of rootbp */
#define UBERBLOCK_FULL  216u

_Static_assert(BLANK_SIZE + BOOT_SIZE == NVLIST_OFFSET, "01-pool.md 2.2");
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
	if (ub->mmp_magic != UBERBLOCK_MMP_MAGIC) /* the fields mean something only together (3.2) */
		ub->mmp_magic = ub->mmp_delay = ub->mmp_config = 0;
	return 0;
}

static unsigned slot_shift(unsigned ashift)
{
	return ashift < 10 ? 10 : ashift > 13 ? 13 : ashift;
}

int uberblock_each(struct disk *d, unsigned l, unsigned ashift, uberblock_fn fn, void *arg)
{
	unsigned shift = slot_shift(ashift);
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

/* --- writing --- */

static void embedded_put_as(uint8_t *data, size_t size, uint64_t offset, bool swap)
{
	struct cksum verifier = {{offset, 0, 0, 0}};

	checksum_embedded_put(CHECKSUM_LABEL, data, size, &verifier, swap, false);
}

static void embedded_put(uint8_t *data, size_t size, uint64_t offset)
{
	embedded_put_as(data, size, offset, false);
}

/* The list in its area of NVLIST_SIZE bytes, without the checksum. */
static int config_pack(const struct nvlist *config, uint8_t *area)
{
	void *packed;
	size_t len;
	int err = nvlist_pack(config, NV_XDR, &packed, &len);

	if (err)
		return err;
	if (len > NVLIST_SIZE - TRAILER_SIZE) {
		free(packed);
		return -E2BIG;
	}
	memset(area, 0, NVLIST_SIZE);
	memcpy(area, packed, len);
	free(packed);
	return 0;
}

int label_write_config(struct disk *d, unsigned l, const struct nvlist *config)
{
	uint64_t offset = label_offset(disk_psize(d), l) + NVLIST_OFFSET;
	autofree uint8_t *area = NULL;
	int err;

	if (d->size < PSIZE_MIN || l >= VDEV_LABELS)
		return -EOVERFLOW;
	area = xmalloc(NVLIST_SIZE);
	err = config_pack(config, area);
	if (err)
		return err;
	embedded_put(area, NVLIST_SIZE, offset);
	return disk_write(d, offset, area, NVLIST_SIZE);
}

int label_init(struct disk *d, const struct nvlist *config)
{
	autofree uint8_t *label = NULL;
	int err;

	if (d->size < PSIZE_MIN)
		return -EOVERFLOW;
	label = xcalloc(1, VDEV_LABEL_SIZE);
	err = config_pack(config, label + NVLIST_OFFSET);
	for (unsigned l = 0; l < VDEV_LABELS && !err; l++) {
		uint64_t offset = label_offset(disk_psize(d), l);

		embedded_put(label + BLANK_SIZE, BOOT_SIZE, offset + BLANK_SIZE);
		embedded_put(label + NVLIST_OFFSET, NVLIST_SIZE, offset + NVLIST_OFFSET);
		err = disk_write(d, offset + BLANK_SIZE, label + BLANK_SIZE, VDEV_LABEL_SIZE - BLANK_SIZE);
	}
	return err;
}

void uberblock_encode(const struct uberblock *ub, uint8_t *slot, size_t size)
{
	const struct {
		unsigned offset;
		uint64_t value;
	} words[] = {
	    {0, UBERBLOCK_MAGIC},
	    {8, ub->version},
	    {16, ub->txg},
	    {24, ub->guid_sum},
	    {32, ub->timestamp},
	    {168, ub->software_version},
	    {176, ub->mmp_magic},
	    {184, ub->mmp_delay},
	    {192, ub->mmp_config},
	    {200, ub->checkpoint_txg},
	    {208, ub->raidz_reflow_info},
	};

	BUG_ON(size < UBERBLOCK_FULL);
	memset(slot, 0, size);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		store_host64(slot + words[i].offset, ub->swapped ? __builtin_bswap64(words[i].value) : words[i].value);
	memcpy(slot + 40, ub->rootbp, sizeof(ub->rootbp));
}

unsigned uberblock_slot(unsigned ashift, const struct uberblock *ub)
{
	unsigned n = UBERBLOCK_RING_SIZE >> slot_shift(ashift);
	bool scratch_valid = ub->raidz_reflow_info >> 55 == 1;

	return (unsigned)((ub->txg - scratch_valid) % (n - (ub->mmp_delay != 0)));
}

int uberblock_write(struct disk *d, unsigned l, unsigned ashift, const struct uberblock *ub, unsigned slot)
{
	uint8_t data[1u << 13];
	size_t size = (size_t)1 << slot_shift(ashift);
	uint64_t offset = label_offset(disk_psize(d), l) + RING_OFFSET;
	unsigned n = (unsigned)(UBERBLOCK_RING_SIZE / size);

	if (d->size < PSIZE_MIN || l >= VDEV_LABELS)
		return -EOVERFLOW;
	offset += (slot == UINT_MAX ? uberblock_slot(ashift, ub) : n - 1 - slot % n) * size;
	uberblock_encode(ub, data, size);
	embedded_put_as(data, size, offset, ub->swapped);
	return disk_write(d, offset, data, size);
}

/* A slot of label 0 moves to another place: its checksum is made anew for that; what is not valid becomes zeros. */
static void slot_move(uint8_t *slot, size_t size, uint64_t from, uint64_t to)
{
	struct uberblock ub;

	if (uberblock_decode(slot, size - TRAILER_SIZE, &ub) != 0 || embedded_verify(slot, size, from) != 0)
		memset(slot, 0, size);
	else
		embedded_put_as(slot, size, to, ub.swapped);
}

int label_copy_rings(struct disk *d, unsigned ashift)
{
	size_t size = (size_t)1 << slot_shift(ashift);
	autofree uint8_t *ring = NULL;
	uint64_t from = RING_OFFSET;
	int err;

	if (d->size < PSIZE_MIN)
		return -EOVERFLOW;
	ring = xmalloc(UBERBLOCK_RING_SIZE);
	err = disk_read(d, from, ring, UBERBLOCK_RING_SIZE);
	for (unsigned l = 2; l < VDEV_LABELS && !err; l++) {
		uint64_t to = label_offset(disk_psize(d), l) + RING_OFFSET;

		for (size_t at = 0; at < UBERBLOCK_RING_SIZE; at += size)
			slot_move(ring + at, size, from + at, to + at);
		err = disk_write(d, to, ring, UBERBLOCK_RING_SIZE);
		from = to;
	}
	return err;
}

#define STATE_CACHE     4 /* 01-pool.md 4.4 */
#define CACHE_HEADER_AT ((uint64_t)VDEV_LABEL_START_SIZE)

static bool label_is_ours(const struct label *l, uint64_t *state)
{
	return l->config && nvlist_u64_or(l->config, "guid", 0) != 0 && nvlist_u64(l->config, "state", state) == 0 &&
	       *state <= STATE_CACHE;
}

int label_clear(struct disk *d)
{
	autofree uint8_t *zeros = NULL;
	struct label label[VDEV_LABELS];
	int err = label_read_all(d, label), result = -ENOENT;
	uint64_t state;

	if (err)
		return err;
	zeros = xcalloc(1, VDEV_LABEL_SIZE);
	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		if (!label_is_ours(&label[l], &state))
			continue;
		err = disk_write(d, label_offset(disk_psize(d), l) + NVLIST_OFFSET, zeros,
				 VDEV_LABEL_SIZE - NVLIST_OFFSET);
		if (!err && state == STATE_CACHE)
			err = disk_write(d, CACHE_HEADER_AT, zeros, 512);
		if (err || result == -ENOENT)
			result = err;
	}
	label_free_all(label);
	return result;
}
