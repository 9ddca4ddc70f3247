/*
 * zvol/zvol_create.c: what a new volume holds, which sizes it may have, and what it needs when it is full
 * (07-filesystem-zvol-zil.md, 8.1 - 8.4).
 */
#include "base/size.h"
#include "zvol/zvol.h"

#define DATA_OBJECT   1
#define PROP_OBJECT   2
#define BLOCK_MIN     512u
#define INDIRECT_SIZE 131072u
#define FANOUT        1024u /* pointers in an indirect block */
#define LEVELS        7u    /* indirect blocks that there are in any case */
#define COPIES_MAX    3u
#define DEFLATE_SIZE  131072u

int zvol_create_objects(struct objset *os, uint64_t volsize, uint32_t volblocksize, struct tx *tx)
{
	const struct dmu_object data = {.type = DMU_OT_ZVOL, .blocksize = volblocksize};
	int err = dmu_object_claim(os, DATA_OBJECT, &data, tx);

	if (!err)
		err = zap_create_claim(os, PROP_OBJECT, &(struct zap_spec){.type = DMU_OT_ZVOL_PROP}, tx);
	return err ? err : zap_add_u64(os, PROP_OBJECT, "size", volsize, tx);
}

int zvol_check_sizes(uint64_t volsize, uint32_t volblocksize, uint32_t max_block, struct err *e)
{
	char text[SIZE_TEXT];

	if (!IS_POW2(volblocksize) || volblocksize < BLOCK_MIN || volblocksize > max_block) {
		size_print(max_block, false, text);
		return err_set(e, -EINVAL, "'volblocksize' must be power of 2 from 512B to %s", text);
	}
	if (volsize == 0)
		return err_set(e, -EINVAL, "'volsize' cannot be zero");
	if (volsize % volblocksize) {
		size_print(volblocksize, true, text);
		return err_set(e, -EINVAL, "'volsize' must be a multiple of volume block size (%s)", text);
	}
	if (volsize > INT64_MAX)
		return err_set(e, -EINVAL, "'volsize' is too large");
	return 0;
}

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
			    (DEFLATE_SIZE / BLOCK_MIN);
		most = MAX(most, cap(allocated / (vdev_psize_to_asize(top, DEFLATE_SIZE, 0) / BLOCK_MIN)));
	}
	return most ? most : cap((unsigned __int128)blocks * volblocksize);
}

uint64_t zvol_volsize_to_reservation(const struct vdev *root, uint64_t volsize, uint32_t volblocksize, unsigned copies)
{
	uint64_t blocks = volsize / volblocksize, meta = LEVELS;
	unsigned __int128 sum;

	for (uint64_t n = blocks; n > 1; meta += n)
		n = n / FANOUT + (n % FANOUT != 0);
	sum = (unsigned __int128)meta * (MIN(COPIES_MAX, copies + 1) * INDIRECT_SIZE);
	sum += (unsigned __int128)data_bytes(root, blocks, volblocksize) * copies;
	return cap(sum);
}
