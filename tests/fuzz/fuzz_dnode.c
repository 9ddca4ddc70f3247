/* Dnodes of both byte orders. */
#include "dmu/dmu.h"
#include "fuzz.h"

static uint64_t look(const struct dnode *dn)
{
	uint64_t sum = dn->type + dn->used + dn->maxblkid;

	BUG_ON(dn->nblkptr > 3 || dn->datablksz == 0);
	for (unsigned i = 0; i < dn->nblkptr; i++)
		sum += dn->blkptr[i].w[0];
	for (unsigned i = 0; i < dn->bonuslen; i++)
		sum += dn->bonus[i];
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree uint8_t *p = fuzz_copy(data, size);
	struct dnode *dn;

	for (unsigned swap = 0; swap < 2; swap++) {
		if (dnode_decode(p, size, swap, &dn))
			continue;
		look(dn);
		dnode_release(dn);
	}
	return 0;
}
