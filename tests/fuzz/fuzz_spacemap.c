/* Entries of a space map: the first byte tells byte order (bit 0) and the unit (512 bytes and up), the rest is entries.
 */
#include "alloc/spacemap.h"
#include "fuzz.h"

static int apply(void *arg, const struct spacemap_entry *e)
{
	struct rangetree *rt = arg;

	if (e->offset + e->run <= e->offset)
		return 0;
	return e->free ? rangetree_remove(rt, e->offset, e->offset + e->run)
		       : rangetree_add(rt, e->offset, e->offset + e->run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rangetree rt;

	if (size < 1)
		return 0;
	autofree uint8_t *p = fuzz_copy(data + 1, size - 1);
	rangetree_init(&rt);
	spacemap_decode(p, size - 1, data[0] & 1, 0, 9 + (data[0] >> 1) % 9, apply, &rt);
	rangetree_clear(&rt);
	return 0;
}
