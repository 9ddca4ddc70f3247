/*
 * What the MOS keeps as numbers and packed lists (docs/format/01-pool.md, 5.2 and 5.3).
 */
#include "base/bytes.h"
#include "spa/spa_impl.h"

int spa_mos_u64(struct objset *mos, const char *key, uint64_t *v)
{
	return zap_lookup_u64(mos, MOS_DIRECTORY, key, v);
}

uint64_t spa_bonus_word(struct dnode *dn, unsigned i)
{
	uint64_t v;

	return dmu_bonus_u64(dn, 8 * (size_t)i, &v) ? 0 : v;
}

int spa_packed_read(struct objset *mos, uint64_t object, struct nvlist **out, struct err *e)
{
	autofree uint8_t *data = NULL;
	struct dnode *dn;
	uint64_t size;
	int err = dnode_hold(mos, object, &dn, e);

	if (err)
		return err;
	size = spa_bonus_word(dn, 0);
	if (size < 4 || size > SPA_PACKED_MAX || size > (dn->maxblkid + 1) * dn->datablksz) {
		dnode_release(dn);
		return err_set(e, -EINVAL, "MOS object %" PRIu64 ": impossible size %" PRIu64, object, size);
	}
	data = malloc(size);
	err = data ? dmu_read(dn, 0, data, size, 0) : -ENOMEM;
	dnode_release(dn);
	if (err)
		return err_set(e, err, "MOS object %" PRIu64 ": %s", object, err_words(err));
	err = nvlist_unpack(data, size, out, e);
	return err ? err_prefix(e, err, "MOS object %" PRIu64, object) : 0;
}

/* Words of an object's data in host order; each block may have been written in another byte order. */
int spa_words_read(struct dnode *dn, uint64_t first, uint64_t *out, uint64_t n)
{
	while (n > 0) {
		uint64_t offset = first * 8, blkid = offset / dn->datablksz;
		uint64_t here = MIN(n, (dn->datablksz - offset % dn->datablksz) / 8);
		struct bp bp;
		int err = dmu_block_pointer(dn, 0, blkid, &bp);

		if (!err)
			err = dmu_read(dn, offset, out, here * 8, 0);
		if (err)
			return err;
		if (!bp_is_hole(&bp) && bp_is_swapped(&bp))
			swap64_buffer(out, here * 8);
		first += here;
		out += here;
		n -= here;
	}
	return 0;
}
