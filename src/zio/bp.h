/*
 * zio/bp.h: block pointers (docs/format/02-blocks-and-objects.md, section 1). The 128 bytes as 16 words of host order;
 * nothing above this floor sees another byte order. Accessors only: nothing here does I/O.
 */
#ifndef ZIO_BP_H
#define ZIO_BP_H

#include "base/bytes.h"
#include "codec/checksum.h"
#include "codec/compress.h"
#include "zio/objtype.h"

#define SECTOR_SHIFT 9
#define BP_SIZE      128
#define BP_DVAS      3
#define BLOCK_MAX    (16u << 20)

struct bp {
	uint64_t w[16];
};
_Static_assert(sizeof(struct bp) == BP_SIZE, "02-blocks-and-objects.md 1.1");

struct dva {
	uint64_t vdev, offset, asize; /* index of top-level; bytes; bytes */
	bool gang;
};

static inline void bp_decode(struct bp *bp, const void *phys, bool swap)
{
	memcpy(bp, phys, sizeof(*bp));
	if (swap)
		swap64_buffer(bp, sizeof(*bp));
}

static inline bool bp_is_embedded(const struct bp *bp)
{
	return bits64(bp->w[6], 39, 1);
}
static inline bool bp_is_hole(const struct bp *bp)
{
	return !bp_is_embedded(bp) && bp->w[0] == 0 && bp->w[1] == 0;
}
static inline unsigned bp_type(const struct bp *bp)
{
	return bits64(bp->w[6], 48, 8);
}
static inline unsigned bp_level(const struct bp *bp)
{
	return bits64(bp->w[6], 56, 5);
}
static inline bool bp_uses_crypt(const struct bp *bp)
{
	return bits64(bp->w[6], 61, 1);
}
static inline bool bp_is_dedup(const struct bp *bp)
{
	return bits64(bp->w[6], 62, 1);
}
/* Contents were written in the order other than this host's. */
static inline bool bp_is_swapped(const struct bp *bp)
{
	return bits64(bp->w[6], 63, 1) != HOST_IS_LITTLE;
}
static inline bool bp_is_gang(const struct bp *bp)
{
	return !bp_is_embedded(bp) && bits64(bp->w[1], 63, 1);
}
static inline enum compress bp_compress(const struct bp *bp)
{
	return (enum compress)bits64(bp->w[6], 32, 7);
}
static inline enum checksum bp_checksum(const struct bp *bp)
{
	return bp_is_embedded(bp) ? CHECKSUM_OFF : (enum checksum)bits64(bp->w[6], 40, 8);
}
uint64_t bp_lsize(const struct bp *bp); /* bytes, embedded form included */
uint64_t bp_psize(const struct bp *bp);
uint64_t bp_asize(const struct bp *bp);              /* all DVAs */
uint64_t bp_fill(const struct bp *bp);               /* 32 bits in encrypted pointers, 1 in embedded ones */
static inline uint64_t bp_birth(const struct bp *bp) /* logical */
{
	return bp->w[10];
}
uint64_t bp_physical_birth(const struct bp *bp);
bool bp_is_encrypted(const struct bp *bp);     /* level 0, encrypted type */
bool bp_is_authenticated(const struct bp *bp); /* level 0, other type, X = 1 */
bool bp_is_metadata(const struct bp *bp);
unsigned bp_ndvas(const struct bp *bp);
struct dva bp_dva(const struct bp *bp, unsigned i);
bool bp_equal(const struct bp *a, const struct bp *b); /* same block: births and DVAs */
/* Checks of 1.5: sizes, types, algorithms, DVAs; -EINVAL. Must pass before any other use of a pointer from a disk. */
int bp_check(const struct bp *bp);
/* The 112 payload bytes of an embedded pointer, decompressed to lsize bytes. */
int bp_embedded_data(const struct bp *bp, void *dst, size_t lsize);

/* --- making pointers; host order --- */

/* Word 6 of the normal form. Sizes in bytes, multiples of 512; swapped: contents are in the other byte order. */
struct bp_props {
	uint64_t lsize, psize;
	enum compress compress;
	enum checksum checksum;
	unsigned type, level;
	bool crypt, swapped;
};
void bp_set_props(struct bp *bp, const struct bp_props *p);
void bp_set_dva(struct bp *bp, unsigned i, const struct dva *dva);
void bp_set_hole(struct bp *bp, unsigned type, unsigned level, uint64_t lsize, uint64_t birth);
/* psize payload bytes, at most BP_EMBEDDED_MAX; birth is set too. */
#define BP_EMBEDDED_MAX 112
void bp_set_embedded(struct bp *bp, const struct bp_props *p, const void *payload, uint64_t birth);
/* Text as zdb prints a pointer. */
struct str;
void bp_print(const struct bp *bp, struct str *out);

bool dmu_type_is_encrypted(unsigned type);
bool dmu_type_is_metadata(unsigned type);
const char *dmu_type_name(unsigned type); /* zdb's words; "unknown" never NULL */

/* Where in the pool a block belongs (for errors, MACs, ZIL verifiers). */
struct zbookmark {
	uint64_t objset, object;
	int64_t level;
	uint64_t blkid;
};

#endif
