#include <sys/stat.h>
#include <zlib.h>

#include "base/bytes.h"
#include "disk/partition.h"

#define GPT_ENTRIES_MAX 1024u

/* --- the tables --- */
static bool gpt_header_is_sane(const uint8_t *h, uint32_t sector)
{
	uint32_t size = load_le32(h + 12), esize = load_le32(h + 84), n = load_le32(h + 80);
	uint8_t copy[512];

	if (memcmp(h, "EFI PART", 8) != 0 || size < 92 || size > sizeof(copy))
		return false;
	memcpy(copy, h, size);
	store_le32(copy + 16, 0);
	if (crc32(0, copy, size) != load_le32(h + 16))
		return false;
	return esize >= 128 && esize <= 4096 && esize % 8 == 0 && n <= GPT_ENTRIES_MAX;
}

static void partition_add(struct disk *d, unsigned number, uint64_t offset, uint64_t size,
			  struct partition out[PARTITIONS_MAX], size_t *n)
{
	if (size == 0 || offset >= d->size || size > d->size - offset || *n == PARTITIONS_MAX)
		return;
	out[(*n)++] = (struct partition){number, offset, size};
}

static int gpt_read(struct disk *d, uint64_t header_at, uint32_t sector, struct partition out[PARTITIONS_MAX],
		    size_t *n)
{
	uint8_t h[512];
	autofree uint8_t *entries = NULL;
	uint32_t esize, count;
	uint64_t lba;

	if (disk_read(d, header_at, h, sizeof(h)) || !gpt_header_is_sane(h, sector))
		return -ENOENT;
	esize = load_le32(h + 84);
	count = load_le32(h + 80);
	lba = load_le64(h + 72);
	if (lba > d->size / sector || (uint64_t)esize * count > d->size - lba * sector)
		return -EINVAL;
	entries = xmalloc((size_t)esize * count + 1);
	if (disk_read(d, lba * sector, entries, (size_t)esize * count))
		return -EIO;
	if (crc32(0, entries, (size_t)esize * count) != load_le32(h + 88))
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *en = entries + (size_t)i * esize;
		uint64_t first = load_le64(en + 32), last = load_le64(en + 40);

		if ((load_host64(en) | load_host64(en + 8)) && first <= last && last < d->size / sector)
			partition_add(d, i + 1, first * sector, (last - first + 1) * sector, out, n);
	}
	return 0;
}

static void mbr_read(struct disk *d, struct partition out[PARTITIONS_MAX], size_t *n)
{
	uint8_t sector[512];

	if (disk_read(d, 0, sector, sizeof(sector)) || sector[510] != 0x55 || sector[511] != 0xaa)
		return;
	for (unsigned i = 0; i < 4; i++) {
		const uint8_t *en = sector + 446 + i * 16;

		if (en[4] && en[4] != 0xee && (en[0] & 0x7f) == 0)
			partition_add(d, i + 1, (uint64_t)load_le32(en + 8) * 512, (uint64_t)load_le32(en + 12) * 512,
				      out, n);
	}
}

int partition_read_table(struct disk *d, struct partition out[PARTITIONS_MAX], size_t *n)
{
	*n = 0;
	if (d->size < 64 * 1024)
		return 0;
	for (uint32_t sector = 512; sector <= 4096; sector *= 8) {
		if (sector < d->block_size)
			continue;
		if (gpt_read(d, sector, sector, out, n) == 0 ||
		    gpt_read(d, (d->size / sector - 1) * sector, sector, out, n) == 0)
			return 0;
	}
	mbr_read(d, out, n);
	return 0;
}

/* --- a part of a disk as a disk --- */
struct partition_disk {
	struct disk d;
	struct disk *lower;
	uint64_t offset;
};

struct partition_req {
	struct disk_req req;
	struct disk_req *outer;
};

static void part_done(struct disk_req *r, int err)
{
	struct disk_req *outer = container_of(r, struct partition_req, req)->outer;

	free(container_of(r, struct partition_req, req));
	outer->done(outer, err);
}

static void part_submit(struct disk *d, struct disk_req *r)
{
	struct partition_disk *pd = container_of(d, struct partition_disk, d);
	struct partition_req *inner;

	if (r->offset > d->size || r->length > d->size - r->offset) {
		r->done(r, -EIO);
		return;
	}
	inner = xcalloc(1, sizeof(*inner));
	inner->req = *r;
	inner->req.offset += pd->offset;
	inner->req.done = part_done;
	inner->outer = r;
	disk_submit(pd->lower, &inner->req);
}

static void part_close(struct disk *d)
{
	struct partition_disk *pd = container_of(d, struct partition_disk, d);

	disk_close(pd->lower);
	free(pd); /* the path is disk_close's */
}

static const struct disk_ops part_ops = {"partition", part_submit, part_close};

struct disk *partition_disk_create(struct disk *lower, uint64_t offset, uint64_t size, const char *path)
{
	struct partition_disk *pd = xcalloc(1, sizeof(*pd));

	pd->d = *lower;
	pd->d.ops = &part_ops;
	pd->d.size = size;
	pd->d.path = xstrdup(path);
	pd->lower = lower;
	pd->offset = offset;
	return &pd->d;
}

static int open_numbered(const char *path, const char *device, unsigned number, unsigned flags, struct disk **out,
			 struct err *e)
{
	struct partition table[PARTITIONS_MAX];
	struct disk *lower;
	size_t n;
	int err = disk_open(device, flags, &lower, e);

	if (err)
		return err;
	partition_read_table(lower, table, &n);
	for (size_t i = 0; i < n; i++) {
		if (table[i].number == number) {
			*out = partition_disk_create(lower, table[i].offset, table[i].size, path);
			return 0;
		}
	}
	disk_close(lower);
	return err_set(e, -ENOENT, "%s has no partition %u", device, number);
}

int partition_disk_open(const char *path, unsigned flags, struct disk **out, struct err *e)
{
	autofree char *device = xstrdup(path);
	char *at = strstr(device, "-part"), *next, *end;
	unsigned long number;
	struct stat st;

	while (at && (next = strstr(at + 1, "-part")))
		at = next;
	if (!at || stat(path, &st) == 0)
		return disk_open(path, flags, out, e);
	number = strtoul(at + 5, &end, 10);
	if (number == 0 || number > GPT_ENTRIES_MAX || *end)
		return disk_open(path, flags, out, e);
	*at = '\0';
	return open_numbered(path, device, number, flags, out, e);
}
