/* One kilobyte of an uberblock slot, then the name-value area of a label; both are sealed as a device has them. */
#include "codec/checksum.h"
#include "disk/testdisk.h"
#include "fuzz.h"
#include "vdev/label.h"

#define SLOT      1024u
#define NV_OFFSET (16u << 10)
#define NV_SIZE   (112u << 10)
#define RING      (128u << 10)
#define DISK_SIZE (64u << 20)
#define ECK       40

static void seal(uint8_t *p, size_t size, uint64_t offset)
{
	struct cksum sum = {{offset, 0, 0, 0}};

	store_host64(p + size - ECK, 0x0210da7ab10c7a11);
	memcpy(p + size - ECK + 8, &sum, sizeof(sum));
	checksum_compute(CHECKSUM_SHA256, NULL, p, size, false, &sum);
	memcpy(p + size - ECK + 8, &sum, sizeof(sum));
}

static void seen(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	uberblock_mmp_sequence(ub);
	BUG_ON(uberblock_compare(ub, ub) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t area[NV_SIZE];
	struct label labels[VDEV_LABELS];
	uint8_t slot[SLOT] = {0};
	struct uberblock ub;
	struct disk *d;
	autofree uint8_t *exact = fuzz_copy(data, MIN(size, SLOT));

	if (uberblock_decode(exact, MIN(size, SLOT), &ub) == 0)
		seen(NULL, 0, 0, &ub);
	d = memdisk_create("label", DISK_SIZE);
	memcpy(slot, data, MIN(size, SLOT));
	seal(slot, SLOT, RING);
	memset(area, 0, sizeof(area));
	if (size > SLOT)
		memcpy(area, data + SLOT, MIN(size - SLOT, NV_SIZE - ECK));
	seal(area, NV_SIZE, NV_OFFSET);
	BUG_ON(disk_write(d, RING, slot, SLOT) || disk_write(d, NV_OFFSET, area, NV_SIZE));
	BUG_ON(label_read_all(d, labels));
	uberblock_each(d, 0, 9, seen, NULL);
	label_free_all(labels);
	disk_close(d);
	return 0;
}
