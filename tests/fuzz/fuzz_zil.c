/* A block of the intent log: records of both forms and orders; the same bytes as the header of a log. */
#include "fuzz.h"
#include "zil/zil.h"

static int record(void *arg, const struct zil_record *r)
{
	uint64_t *sum = arg;

	BUG_ON(!zil_record_name(r->txtype));
	for (uint64_t i = 0; i < r->reclen; i++)
		*sum += r->data[i];
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree uint8_t *p = fuzz_copy(data, size);
	struct zil_header header;
	uint64_t sum = 0;

	for (unsigned swap = 0; swap < 2; swap++) {
		zil_block_each(p, size, swap, record, &sum);
		if (size >= 192)
			zil_header_decode(p, swap, &header);
	}
	return 0;
}
