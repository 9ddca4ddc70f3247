/* Block pointers: every accessor, embedded data and the text form. */
#include "base/str.h"
#include "fuzz.h"
#include "zio/bp.h"

static void look(const struct bp *bp)
{
	struct str text = {0};
	uint64_t lsize = bp_lsize(bp);

	bp_psize(bp);
	bp_asize(bp);
	bp_fill(bp);
	bp_physical_birth(bp);
	bp_is_metadata(bp);
	bp_is_encrypted(bp);
	bp_is_authenticated(bp);
	for (unsigned i = 0; i < bp_ndvas(bp); i++)
		bp_dva(bp, i);
	BUG_ON(bp_is_hole(bp) && bp_is_embedded(bp));
	bp_print(bp, &text);
	str_free(&text);
	if (!bp_is_embedded(bp))
		return;
	autofree uint8_t *out = xmalloc(lsize);
	bp_embedded_data(bp, out, lsize);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bp bp;

	if (size < BP_SIZE)
		return 0;
	for (unsigned swap = 0; swap < 2; swap++) {
		bp_decode(&bp, data, swap);
		if (bp_check(&bp) == 0)
			look(&bp);
	}
	return 0;
}
