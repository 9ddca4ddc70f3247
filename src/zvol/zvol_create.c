/*
 * zvol/zvol_create.c: what a new volume holds, and which sizes it may have
 * (07-filesystem-zvol-zil.md, 8.1 - 8.4).
 */
#include "base/size.h"
#include "dsl/dsl_write.h"
#include "zvol/zvol.h"

#define DATA_OBJECT 1
#define PROP_OBJECT 2
#define BLOCK_MIN   512u

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

uint64_t zvol_volsize_to_reservation(const struct vdev *root, uint64_t volsize, uint32_t volblocksize, unsigned copies)
{
	return dsl_volume_reservation(root, volsize, volblocksize, copies);
}
