/*
 * codec/checksum.h: block checksums (docs/format/02-blocks-and-objects.md, section 2). Pure functions, any thread.
 */
#ifndef CODEC_CHECKSUM_H
#define CODEC_CHECKSUM_H

#include "base/base.h"

enum checksum { /* numbers of the format */
		CHECKSUM_INHERIT = 0,
		CHECKSUM_ON = 1,
		CHECKSUM_OFF = 2,
		CHECKSUM_LABEL = 3,
		CHECKSUM_GANG_HEADER = 4,
		CHECKSUM_ZILOG = 5,
		CHECKSUM_FLETCHER_2 = 6,
		CHECKSUM_FLETCHER_4 = 7,
		CHECKSUM_SHA256 = 8,
		CHECKSUM_ZILOG2 = 9,
		CHECKSUM_NOPARITY = 10,
		CHECKSUM_SHA512 = 11,
		CHECKSUM_SKEIN = 12,
		CHECKSUM_EDONR = 13,
		CHECKSUM_BLAKE3 = 14,
		CHECKSUM_COUNT
};

struct cksum {
	uint64_t word[4]; /* numeric values, as in a block pointer of host order */
};

/* The pool's 32-byte salt and what is derived from it once (skein, edonr, blake3 contexts). */
struct checksum_salt;
struct checksum_salt *checksum_salt_create(const uint8_t salt[32]);
void checksum_salt_destroy(struct checksum_salt *s);

/*
 * Sum `size` bytes. `swap`: the block was written in the other byte order. -ENOTSUP for ids without a plain
 * function (off, on, inherit, noparity) and unknown ids; -EINVAL when the algorithm needs a salt and salt is NULL.
 * Embedded checksums (label, gang header, zilog, zilog2) are verified with checksum_embedded_verify.
 */
int checksum_compute(enum checksum c, const struct checksum_salt *salt, const void *data, size_t size, bool swap,
		     struct cksum *out);

/*
 * Verify the 40-byte trailer at the end of `size` bytes (2.5). The trailer's checksum is replaced by `verifier` while
 * hashing; the buffer is left as it was. *swapped says that the writer had the other byte order. 0, -ECKSUM (mismatch
 * or no magic). For CHECKSUM_ZILOG2 the trailer is at the start of the block (chain header) and `size` is the whole
 * block.
 */
int checksum_embedded_verify(enum checksum c, void *data, size_t size, const struct cksum *verifier, bool *swapped);

/*
 * What is left of a checksum in a pointer or trailer with the X bit (2.6): 128 bits in words 0 and 1, folded unless the
 * checksum is strong enough for dedup; words 2 and 3, which hold the MAC there, are zeroed.
 */
void checksum_truncate(enum checksum c, struct cksum *sum);
/* checksum_embedded_verify for the ZIL blocks and gang headers that a pointer with the X bit leads to. */
int checksum_embedded_verify_truncated(enum checksum c, void *data, size_t size, const struct cksum *verifier,
				       bool *swapped);

/*
 * Writing: puts magic and sum into the trailer of `size` bytes (with CHECKSUM_ZILOG2: of the whole block, of which
 * nused says how much is summed). swap: the block is in the other byte order. truncated: for pointers with the X bit;
 * words 2 and 3 of the trailer stay as they are, a MAC or zeros. -EINVAL: nused or size cannot be.
 */
int checksum_embedded_put(enum checksum c, void *data, size_t size, const struct cksum *verifier, bool swap,
			  bool truncated);

bool checksum_is_salted(enum checksum c);
/* Equal sums mean equal data, well enough not to write it again (flag N of 2.1). */
bool checksum_is_strong(enum checksum c);
/* Property names: "fletcher4", "sha256", ... NULL for unknown. */
const char *checksum_name(enum checksum c);
static inline bool cksum_equal(const struct cksum *a, const struct cksum *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

#endif
