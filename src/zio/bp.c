/* Block pointers: accessors, checks and text. See zio/bp.h. */
#include "zio/bp.h"
#include "base/str.h"

#define EMBEDDED_MAX      BP_EMBEDDED_MAX
#define EMBEDDED_DATA     0
#define EMBEDDED_REDACTED 2
#define EMBEDDED_TYPES    3
#define SIZE_SECTORS      16 /* bits of the size fields of the normal form */

#define TYPE_NEW       0x80u
#define TYPE_METADATA  0x40u
#define TYPE_ENCRYPTED 0x20u
#define TYPE_SWAP      0x1fu

/* 02-blocks-and-objects.md, 8 */
static const struct {
	const char *name;
	bool data; /* not metadata */
	bool encrypted;
} dmu_type_table[] = {
    [0] = {"unallocated"},
    [1] = {"object directory"},
    [2] = {"object array"},
    [3] = {"packed nvlist"},
    [4] = {"packed nvlist size"},
    [5] = {"bpobj"},
    [6] = {"bpobj header"},
    [7] = {"SPA space map header"},
    [8] = {"SPA space map"},
    [9] = {"ZIL intent log", false, true},
    [10] = {"DMU dnode", false, true},
    [11] = {"DMU objset"},
    [12] = {"DSL directory"},
    [13] = {"DSL directory child map"},
    [14] = {"DSL dataset snap map"},
    [15] = {"DSL props"},
    [16] = {"DSL dataset"},
    [17] = {"ZFS znode"},
    [18] = {"ZFS V0 ACL", false, true},
    [19] = {"ZFS plain file", true, true},
    [20] = {"ZFS directory", false, true},
    [21] = {"ZFS master node"},
    [22] = {"ZFS delete queue", false, true},
    [23] = {"zvol object", true, true},
    [24] = {"zvol prop"},
    [25] = {"other uint8[]", true, true},
    [26] = {"other uint64[]", true, true},
    [27] = {"other ZAP"},
    [28] = {"persistent error log"},
    [29] = {"SPA history"},
    [30] = {"SPA history offsets"},
    [31] = {"Pool properties"},
    [32] = {"DSL permissions"},
    [33] = {"ZFS ACL", false, true},
    [34] = {"ZFS SYSACL", false, true},
    [35] = {"FUID table", false, true},
    [36] = {"FUID table size"},
    [37] = {"DSL dataset next clones"},
    [38] = {"scan work queue"},
    [39] = {"ZFS user/group/project used", false, true},
    [40] = {"ZFS user/group/project quota", false, true},
    [41] = {"snapshot refcount tags"},
    [42] = {"DDT ZAP algorithm"},
    [43] = {"DDT statistics"},
    [44] = {"System attributes", false, true},
    [45] = {"SA master node", false, true},
    [46] = {"SA attr registration", false, true},
    [47] = {"SA attr layouts", false, true},
    [48] = {"scan translations"},
    [49] = {"deduplicated block", true, true},
    [50] = {"DSL deadlist map"},
    [51] = {"DSL deadlist map hdr"},
    [52] = {"DSL dir clones"},
    [53] = {"bpobj subobj"},
};

/* Ways of byte swapping that a type of the newer form names: uint8 .. acl. */
#define SWAP_CLASSES 10

static bool dmu_type_is_valid(unsigned type)
{
	if (type & TYPE_NEW)
		return (type & TYPE_SWAP) < SWAP_CLASSES;
	return type < ARRAY_LEN(dmu_type_table);
}

bool dmu_type_is_encrypted(unsigned type)
{
	if (type & TYPE_NEW)
		return type & TYPE_ENCRYPTED;
	return type < ARRAY_LEN(dmu_type_table) && dmu_type_table[type].encrypted;
}

bool dmu_type_is_metadata(unsigned type)
{
	if (type & TYPE_NEW)
		return type & TYPE_METADATA;
	return type < ARRAY_LEN(dmu_type_table) && !dmu_type_table[type].data;
}

#define NEW_NAMES(kind)                                                                                                \
	{                                                                                                              \
		"bswap " kind " uint8", "bswap " kind " uint16", "bswap " kind " uint32", "bswap " kind " uint64",     \
		    "bswap " kind " zap", "bswap " kind " dnode", "bswap " kind " objset", "bswap " kind " znode",     \
		    "bswap " kind " oldacl", "bswap " kind " acl"                                                      \
	}

const char *dmu_type_name(unsigned type)
{
	static const char *const names[2][SWAP_CLASSES] = {NEW_NAMES("data"), NEW_NAMES("metadata")};

	if (!dmu_type_is_valid(type))
		return "unknown";
	if (type & TYPE_NEW)
		return names[dmu_type_is_metadata(type)][type & TYPE_SWAP];
	return dmu_type_table[type].name;
}

static unsigned bp_etype(const struct bp *bp)
{
	return bits64(bp->w[6], 40, 8);
}

uint64_t bp_lsize(const struct bp *bp)
{
	if (bp_is_embedded(bp))
		return bp_etype(bp) == EMBEDDED_DATA ? bits64(bp->w[6], 0, 25) + 1 : 0;
	return (bits64(bp->w[6], 0, SIZE_SECTORS) + 1) << SECTOR_SHIFT;
}

uint64_t bp_psize(const struct bp *bp)
{
	if (bp_is_embedded(bp))
		return 0;
	return (bits64(bp->w[6], 16, SIZE_SECTORS) + 1) << SECTOR_SHIFT;
}

bool bp_is_encrypted(const struct bp *bp)
{
	return !bp_is_embedded(bp) && bp_uses_crypt(bp) && bp_level(bp) == 0 && dmu_type_is_encrypted(bp_type(bp));
}

bool bp_is_authenticated(const struct bp *bp)
{
	return !bp_is_embedded(bp) && bp_uses_crypt(bp) && bp_level(bp) == 0 && !dmu_type_is_encrypted(bp_type(bp));
}

bool bp_is_metadata(const struct bp *bp)
{
	return bp_level(bp) > 0 || dmu_type_is_metadata(bp_type(bp));
}

struct dva bp_dva(const struct bp *bp, unsigned i)
{
	const uint64_t *w = &bp->w[2 * i];

	return (struct dva){
	    .vdev = bits64(w[0], 32, 24),
	    .offset = bits64(w[1], 0, 63) << SECTOR_SHIFT,
	    .asize = bits64(w[0], 0, 24) << SECTOR_SHIFT,
	    .gang = bits64(w[1], 63, 1),
	};
}

/* DVA slots that hold DVAs: the third of an encrypted pointer is salt and IV. */
static unsigned bp_dva_slots(const struct bp *bp)
{
	if (bp_is_embedded(bp))
		return 0;
	return bp_is_encrypted(bp) ? BP_DVAS - 1 : BP_DVAS;
}

unsigned bp_ndvas(const struct bp *bp)
{
	unsigned n = 0;

	for (unsigned i = 0; i < bp_dva_slots(bp); i++)
		n += bp_dva(bp, i).asize != 0;
	return n;
}

uint64_t bp_asize(const struct bp *bp)
{
	uint64_t asize = 0;

	for (unsigned i = 0; i < bp_dva_slots(bp); i++)
		asize += bp_dva(bp, i).asize;
	return asize;
}

uint64_t bp_fill(const struct bp *bp)
{
	if (bp_is_embedded(bp))
		return 1;
	return bp_is_encrypted(bp) ? bits64(bp->w[11], 0, 32) : bp->w[11];
}

uint64_t bp_physical_birth(const struct bp *bp)
{
	if (bp_is_embedded(bp))
		return 0;
	return bp->w[9] ? bp->w[9] : bp->w[10];
}

bool bp_equal(const struct bp *a, const struct bp *b)
{
	return bp_birth(a) == bp_birth(b) && bp_physical_birth(a) == bp_physical_birth(b) &&
	       memcmp(a->w, b->w, 2 * BP_DVAS * sizeof(a->w[0])) == 0;
}

static int dva_check(uint64_t w1)
{
	uint64_t sectors = bits64(w1, 0, 63);

	/* byte addresses must fit 63 bits, whatever the vdev's size */
	return sectors >> (63 - SECTOR_SHIFT) ? -EINVAL : 0;
}

static int bp_check_embedded(const struct bp *bp)
{
	if (bp_etype(bp) >= EMBEDDED_TYPES || bits64(bp->w[6], 25, 7) + 1 > EMBEDDED_MAX)
		return -EINVAL;
	return 0;
}

int bp_check(const struct bp *bp)
{
	if (!dmu_type_is_valid(bp_type(bp)) || bp_compress(bp) >= COMPRESS_COUNT || bp_lsize(bp) > BLOCK_MAX)
		return -EINVAL;
	if (bp_is_embedded(bp))
		return bp_check_embedded(bp);
	if (bp_is_hole(bp))
		return 0;
	if (bp_dva(bp, 0).asize == 0 || bp_checksum(bp) >= CHECKSUM_COUNT || bp_psize(bp) > BLOCK_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < bp_dva_slots(bp); i++) {
		if (bp_dva(bp, i).asize && dva_check(bp->w[2 * i + 1]))
			return -EINVAL;
	}
	return 0;
}

/* Where the words of the payload of an embedded pointer are (1.4). */
static const uint8_t payload_word[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15};

int bp_embedded_data(const struct bp *bp, void *dst, size_t lsize)
{
	uint8_t payload[EMBEDDED_MAX];
	size_t psize = bits64(bp->w[6], 25, 7) + 1;

	if (!bp_is_embedded(bp) || psize > sizeof(payload))
		return -EINVAL;
	if (bp_etype(bp) != EMBEDDED_DATA) /* redacted: there is no data to read */
		return -EIO;
	if (lsize != bp_lsize(bp))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(payload_word); i++)
		store_le64(payload + 8 * i, bp->w[payload_word[i]]);
	if (bp_compress(bp) != COMPRESS_OFF)
		return decompress(bp_compress(bp), payload, psize, dst, lsize);
	if (lsize != psize)
		return -EINVAL;
	memcpy(dst, payload, lsize);
	return 0;
}

static uint64_t prop_tail(const struct bp_props *p)
{
	return (uint64_t)p->compress << 32 | (uint64_t)p->type << 48 | (uint64_t)p->level << 56 |
	       (uint64_t)(HOST_IS_LITTLE != p->swapped) << 63;
}

void bp_set_props(struct bp *bp, const struct bp_props *p)
{
	bp->w[6] = ((p->lsize >> SECTOR_SHIFT) - 1) | ((p->psize >> SECTOR_SHIFT) - 1) << SIZE_SECTORS |
		   (uint64_t)p->checksum << 40 | (uint64_t)p->crypt << 61 | prop_tail(p);
}

void bp_set_dva(struct bp *bp, unsigned i, const struct dva *dva)
{
	bp->w[2 * i] = dva->vdev << 32 | dva->asize >> SECTOR_SHIFT;
	bp->w[2 * i + 1] = dva->offset >> SECTOR_SHIFT | (uint64_t)dva->gang << 63;
}

void bp_set_hole(struct bp *bp, unsigned type, unsigned level, uint64_t lsize, uint64_t birth)
{
	memset(bp, 0, sizeof(*bp));
	if (!birth)
		return;
	bp->w[6] = ((lsize >> SECTOR_SHIFT) - 1) | (uint64_t)type << 48 | (uint64_t)level << 56;
	bp->w[10] = birth;
}

void bp_set_embedded(struct bp *bp, const struct bp_props *p, const void *payload, uint64_t birth)
{
	uint8_t padded[EMBEDDED_MAX] = {0};

	memcpy(padded, payload, p->psize);
	for (size_t i = 0; i < ARRAY_LEN(payload_word); i++)
		bp->w[payload_word[i]] = load_le64(padded + 8 * i);
	bp->w[6] = (p->lsize - 1) | (p->psize - 1) << 25 | UINT64_C(1) << 39 | prop_tail(p);
	bp->w[10] = birth;
}

static const char *word_or_unknown(const char *w)
{
	return w ? w : "unknown";
}

static const char *bp_compress_word(const struct bp *bp)
{
	return bp_compress(bp) == COMPRESS_OFF ? "uncompressed" : word_or_unknown(compress_name(bp_compress(bp)));
}

static const char *bp_crypt_word(const struct bp *bp)
{
	if (!bp_uses_crypt(bp))
		return "unencrypted";
	if (bp_level(bp) > 0)
		return "indirect-MAC";
	return bp_is_encrypted(bp) ? "encrypted" : "authenticated";
}

#define ULL(x) ((unsigned long long)(x))

static void bp_print_embedded(const struct bp *bp, struct str *out)
{
	unsigned level = bp_level(bp);
	const char *type = dmu_type_name(bp_type(bp));

	if (bp_etype(bp) == EMBEDDED_REDACTED) {
		str_addf(out, "REDACTED [L%u %s] size=%llxL birth=%lluL", level, type, ULL(bits64(bp->w[6], 0, 25) + 1),
			 ULL(bp_birth(bp)));
		return;
	}
	str_addf(out, "EMBEDDED [L%u %s] et=%u %s size=%llxL/%llxP birth=%lluL", level, type, bp_etype(bp),
		 bp_compress_word(bp), ULL(bits64(bp->w[6], 0, 25) + 1), ULL(bits64(bp->w[6], 25, 7) + 1),
		 ULL(bp_birth(bp)));
}

static void bp_print_block(const struct bp *bp, struct str *out)
{
	static const char *const copies[] = {"zero", "single", "double", "triple"};

	for (unsigned i = 0; i < bp_dva_slots(bp); i++) {
		struct dva d = bp_dva(bp, i);

		if (d.asize)
			str_addf(out, "DVA[%u]=<%llu:%llx:%llx> ", i, ULL(d.vdev), ULL(d.offset), ULL(d.asize));
	}
	if (bp_is_encrypted(bp))
		str_addf(out, "salt=%llx iv=%llx:%llx ", ULL(bp->w[4]), ULL(bp->w[5]), ULL(bp->w[11] >> 32));
	str_addf(out, "[L%u %s] %s %s %s %s %s %s %s size=%llxL/%llxP birth=%lluL/%lluP fill=%llu ", bp_level(bp),
		 dmu_type_name(bp_type(bp)), word_or_unknown(checksum_name(bp_checksum(bp))), bp_compress_word(bp),
		 bp_crypt_word(bp), bits64(bp->w[6], 63, 1) ? "LE" : "BE", bp_is_gang(bp) ? "gang" : "contiguous",
		 bp_is_dedup(bp) ? "dedup" : "unique", copies[bp_ndvas(bp)], ULL(bp_lsize(bp)), ULL(bp_psize(bp)),
		 ULL(bp_birth(bp)), ULL(bp_physical_birth(bp)), ULL(bp_fill(bp)));
	str_addf(out, "cksum=%016llx:%016llx:%016llx:%016llx", ULL(bp->w[12]), ULL(bp->w[13]), ULL(bp->w[14]),
		 ULL(bp->w[15]));
}

void bp_print(const struct bp *bp, struct str *out)
{
	if (bp_is_embedded(bp)) {
		bp_print_embedded(bp, out);
	} else if (!bp_is_hole(bp)) {
		bp_print_block(bp, out);
	} else {
		str_add(out, "HOLE");
		if (bp_birth(bp))
			str_addf(out, " [L%u %s] size=%llxL birth=%lluL", bp_level(bp), dmu_type_name(bp_type(bp)),
				 ULL(bp_lsize(bp)), ULL(bp_birth(bp)));
	}
}
