/* Packed name-value lists of both encodings. What decodes can be packed again, copied and printed. */
#include "base/str.h"
#include "fuzz.h"
#include "nv/nv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree uint8_t *p = fuzz_copy(data, size);
	autonv struct nvlist *l = NULL, *again = NULL, *copy = NULL;
	struct str text = {0};
	struct err e = ERR_INIT;
	void *packed;
	size_t len;

	if (nvlist_unpack(p, size, &l, &e))
		return 0;
	nvlist_print(l, 0, &text);
	str_free(&text);
	copy = nvlist_copy(l);
	for (unsigned enc = NV_NATIVE; enc <= NV_XDR; enc++) {
		if (nvlist_pack(copy, enc, &packed, &len))
			continue;
		BUG_ON(nvlist_unpack(packed, len, &again, NULL));
		BUG_ON(nvlist_len(again) != nvlist_len(l));
		nvlist_destroy(again);
		again = NULL;
		free(packed);
	}
	return 0;
}
