/*
 * dsl/dsl_volume.c: what a volume takes when all of it is written (03-datasets.md 5.5; 07, 8.4).
 */
#include "dsl/dsl_write.h"
#include "vdev/vdev.h"

#define SECTOR        512u
#define INDIRECT_SIZE 131072u
#define FANOUT        1024u /* pointers in an indirect block */
#define LEVELS        7u    /* indirect blocks that there are in any case */
#define COPIES_MAX    3u
#define DEFLATE_SIZE  131072u

static uint64_t cap(unsigned __int128 v)
{
	return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

/* Deflated bytes of the data: the most that one of the vdevs with parity would take. */
static uint64_t data_bytes(const struct vdev *root, uint64_t blocks, uint32_t volblocksize)
{
	uint64_t most = 0;

	for (size_t i = 0; i < root->nchildren; i++) {
		const struct vdev *top = root->child[i];
		unsigned __int128 allocated;

		if (!top || (top->kind != VDEV_RAIDZ && top->kind != VDEV_DRAID))
			continue;
		allocated = (unsigned __int128)blocks * vdev_psize_to_asize(top, volblocksize, 0) *
			    (DEFLATE_SIZE / SECTOR);
		most = MAX(most, cap(allocated / (vdev_psize_to_asize(top, DEFLATE_SIZE, 0) / SECTOR)));
	}
	return most ? most : cap((unsigned __int128)blocks * volblocksize);
}

uint64_t dsl_volume_reservation(const struct vdev *root, uint64_t volsize, uint32_t volblocksize, unsigned copies)
{
	uint64_t blocks = volsize / volblocksize, meta = LEVELS;
	unsigned __int128 sum;

	for (uint64_t n = blocks; n > 1; meta += n)
		n = n / FANOUT + (n % FANOUT != 0);
	sum = (unsigned __int128)meta * (MIN(COPIES_MAX, copies + 1) * INDIRECT_SIZE);
	sum += (unsigned __int128)data_bytes(root, blocks, volblocksize) * copies;
	return cap(sum);
}
