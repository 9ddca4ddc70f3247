/*
 * vdev/label.h: the four labels of a leaf, the uberblock ring (docs/format/01-pool.md, sections 2 and 3).
 *
 * Everything here waits for the device; different devices at once from as many threads as wanted. The place of labels 2
 * and 3 comes from the size of the disk as it is opened.
 */
#ifndef VDEV_LABEL_H
#define VDEV_LABEL_H

#include "disk/disk.h"
#include "nv/nv.h"

#define VDEV_LABELS           4
#define VDEV_LABEL_SIZE       (256u << 10)
#define VDEV_LABEL_START_SIZE (4u << 20) /* front labels and boot region: DVA offset 0 is here */
#define VDEV_LABEL_END_SIZE   (512u << 10)
#define UBERBLOCK_RING_SIZE   (128u << 10)
#define UBERBLOCK_MMP_MAGIC   0xa11cea11u

struct uberblock {
	uint64_t version, txg, guid_sum, timestamp;
	uint8_t rootbp[128]; /* as stored, byte order of the writer */
	bool swapped;        /* written in the other byte order */
	uint64_t software_version;
	uint64_t mmp_magic, mmp_delay, mmp_config;
	uint64_t checkpoint_txg, raidz_reflow_info;
};

struct label {
	struct nvlist *config; /* NULL: unreadable; see err */
	int err;      /* 0; -ECKSUM: decodes but its checksum is wrong (config is set); other: why there is none */
	uint64_t txg; /* 0 when absent */
};

/* Byte offset of label l on a device of psize bytes (already rounded down to 256 KiB). */
uint64_t label_offset(uint64_t psize, unsigned l);
/* Read all four; unreadable ones carry err. Only fails when the device is too small. */
int label_read_all(struct disk *d, struct label out[VDEV_LABELS]);
void label_free_all(struct label l[VDEV_LABELS]);
/* Checked decode of one uberblock (168+ bytes); -EINVAL when the magic is wrong. */
int uberblock_decode(const uint8_t *slot, size_t size, struct uberblock *ub);
/* Visit every valid slot (checksum verified) of label l. Slot shift from the top-level's ashift. */
typedef void (*uberblock_fn)(void *arg, unsigned label, unsigned slot, const struct uberblock *ub);
int uberblock_each(struct disk *d, unsigned l, unsigned ashift, uberblock_fn fn, void *arg);
/* The writer's sequence number within one second (3.2); 0 when it is not valid. */
unsigned uberblock_mmp_sequence(const struct uberblock *ub);
/* (txg, timestamp, mmp sequence) order: <0, 0, >0. */
int uberblock_compare(const struct uberblock *a, const struct uberblock *b);

/*
 * Writing (01, 2.6 and 8.3). A label's list is packed XDR; every part gets its embedded checksum for the place where it
 * is written. Not flushed: the caller flushes between the steps of a commit. Errors: what the device said; -EOVERFLOW:
 * it is smaller than 64 MiB.
 */
/* A device that becomes part of a pool: all four labels whole, with boot blocks, list and an empty ring. -E2BIG as
 * below. */
int label_init(struct disk *d, const struct nvlist *config);
/* The list of label l alone. -E2BIG: the list is larger than its area. */
int label_write_config(struct disk *d, unsigned l, const struct nvlist *config);
/* Into label l: with UINT_MAX the slot of its txg (uberblock_slot), else that many before the last of the ring (0:
 * where multihost writes). */
int uberblock_write(struct disk *d, unsigned l, unsigned ashift, const struct uberblock *ub, unsigned slot);
/* 01, 2.4: the last slot is left to multihost when the uberblock says that it is on; s is taken from its reflow state.
 */
unsigned uberblock_slot(unsigned ashift, const struct uberblock *ub);
/* As stored, in the byte order that ub->swapped says, which rootbp is in already; zeros up to `size`. The checksum is
 * uberblock_write's. */
void uberblock_encode(const struct uberblock *ub, uint8_t *slot, size_t size);
/* The device has grown: the uberblocks of label 0 into labels 2 and 3 where they are now (01, 2.1). */
int label_copy_rings(struct disk *d, unsigned ashift);
/* Wipe what makes a device part of a pool (06, 11.4). -ENOENT: there is no label to be cleared. */
int label_clear(struct disk *d);

#endif
