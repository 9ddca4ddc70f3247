/* Turning the contents of blocks and bonus buffers of the other byte order (02, section 11). */
#include "dmu/dmu_impl.h"
#include "dmu/sa.h"

#define DNODE_BONUS_END(slots) ((size_t)(slots) << DNODE_SHIFT)
#define ZAP_MICRO              (UINT64_C(1) << 63 | 3)
#define ZAP_LEAF               (UINT64_C(1) << 63 | 0)
#define LEAF_HEADER            48u
#define LEAF_CHUNK             24u
#define LEAF_ENTRY             252u
#define ZNODE_WORDS            (264u - 88u) /* the fixed fields before the ACL */
#define ZNODE_ACL_ACES         16u

static void swap16_at(uint8_t *p)
{
	store_host16(p, __builtin_bswap16(load_host16(p)));
}
static void swap32_at(uint8_t *p)
{
	store_host32(p, __builtin_bswap32(load_host32(p)));
}
static void swap64_at(uint8_t *p)
{
	store_host64(p, __builtin_bswap64(load_host64(p)));
}

/* --- ZAP (9.9) --- */

static void swap_zap_micro(uint8_t *p, size_t size)
{
	for (unsigned i = 0; i < 3; i++)
		swap64_at(p + 8 * i);
	for (size_t at = 64; at + 64 <= size; at += 64) {
		swap64_at(p + at);
		swap32_at(p + at + 8);
	}
}

static void swap_leaf_chunk(uint8_t *c)
{
	if (c[0] != LEAF_ENTRY) {
		swap16_at(c + LEAF_CHUNK - 2);
		return;
	}
	for (unsigned at = 2; at < 12; at += 2)
		swap16_at(c + at);
	swap32_at(c + 12);
	swap64_at(c + 16);
}

static void swap_zap_leaf(uint8_t *p, size_t size)
{
	size_t hash = size / 32; /* entries of the table, two bytes each */

	swap64_at(p);
	swap64_at(p + 16);
	swap32_at(p + 24);
	for (unsigned at = 28; at < 36; at += 2)
		swap16_at(p + at);
	for (size_t i = 0; i < hash; i++)
		swap16_at(p + LEAF_HEADER + 2 * i);
	for (size_t at = LEAF_HEADER + 2 * hash; at + LEAF_CHUNK <= size; at += LEAF_CHUNK)
		swap_leaf_chunk(p + at);
}

static void swap_zap(uint8_t *p, size_t size)
{
	uint64_t kind = size >= 512 ? load64(p, true) : 0;

	if (kind == ZAP_MICRO)
		swap_zap_micro(p, size);
	else if (kind == ZAP_LEAF)
		swap_zap_leaf(p, size);
	else
		swap64_buffer(p, ROUND_DOWN(size, 8));
}

/* --- dnodes and object sets --- */

static void swap_dnode(uint8_t *p, size_t avail)
{
	size_t end = DNODE_BONUS_END(1u + p[12]), at = 64 + (size_t)p[3] * BP_SIZE;
	bool spill = p[7] & 4;

	if (p[0] == 0 || end > avail || p[3] > 3) {
		memset(p, 0, DNODE_SIZE);
		return;
	}
	swap16_at(p + 8);
	swap16_at(p + 10);
	swap64_at(p + 16);
	swap64_at(p + 24);
	swap64_buffer(p + 64, (size_t)p[3] * BP_SIZE);
	if (spill) {
		end -= BP_SIZE;
		swap64_buffer(p + end, BP_SIZE);
	}
	if (load_host16(p + 10) != 0 && at < end)
		dmu_swap_contents(p[4], p + at, end - at);
}

static void swap_dnodes(uint8_t *p, size_t size)
{
	for (size_t at = 0; at + DNODE_SIZE <= size;) {
		swap_dnode(p + at, size - at);
		at += DNODE_BONUS_END(p[at] ? 1u + p[at + 12] : 1u);
	}
}

static void swap_objset(uint8_t *p, size_t size)
{
	if (size < 1024)
		return;
	swap_dnode(p, DNODE_SIZE);
	swap64_buffer(p + 512, 192 + 16);
	for (size_t at = 1024; at + DNODE_SIZE <= MIN(size, 2560); at += DNODE_SIZE)
		swap_dnode(p + at, DNODE_SIZE);
}

/* --- ACLs --- */

static void swap_old_acl(uint8_t *p, size_t size)
{
	for (; size >= 12; p += 12, size -= 12) {
		swap32_at(p);
		swap32_at(p + 4);
		swap16_at(p + 8);
		swap16_at(p + 10);
	}
}

static void swap_acl(uint8_t *p, size_t size)
{
	while (size >= 8) {
		size_t len;

		swap16_at(p);
		swap16_at(p + 2);
		swap32_at(p + 4);
		len = sa_ace_size(load_host16(p), load_host16(p + 2));
		if (len > 8 && size >= 16)
			swap64_at(p + 8); /* GUIDs behind it are bytes */
		if (len > size)
			return;
		p += len;
		size -= len;
	}
}

static void swap_znode(uint8_t *p, size_t size)
{
	uint8_t *acl = p + ZNODE_WORDS;
	size_t room;

	if (size < ZNODE_WORDS + ZNODE_ACL_ACES) {
		swap64_buffer(p, ROUND_DOWN(size, 8));
		return;
	}
	swap64_buffer(p, ZNODE_WORDS);
	swap64_at(acl);
	swap32_at(acl + 8);
	swap16_at(acl + 12);
	swap16_at(acl + 14);
	room = MIN(size - ZNODE_WORDS - ZNODE_ACL_ACES, 72);
	if (load_host16(acl + 12) == 0)
		swap_old_acl(acl + ZNODE_ACL_ACES, room);
	else
		swap_acl(acl + ZNODE_ACL_ACES, room);
}

/* --- classes (8, 8.2) --- */

static void swap_u8(uint8_t *p, size_t size)
{
	(void)p;
	(void)size;
}
static void swap_u16(uint8_t *p, size_t size)
{
	swap16_buffer(p, ROUND_DOWN(size, 2));
}
static void swap_u32(uint8_t *p, size_t size)
{
	swap32_buffer(p, ROUND_DOWN(size, 4));
}
static void swap_u64(uint8_t *p, size_t size)
{
	swap64_buffer(p, ROUND_DOWN(size, 8));
}

static void (*const swap_class[])(uint8_t *p, size_t size) = {
    swap_u8, swap_u16, swap_u32, swap_u64, swap_zap, swap_dnodes, swap_objset, swap_znode, swap_old_acl, swap_acl,
};

/* The class of each type with a number of its own. */
static const uint8_t type_class[] = {
    0, 4, 3, 0, 3, 3, 3, 3, 3, 0, 5, 6, 3, 4, 4, 4, 3, 7, 8, 0, 4, 4, 4, 0, 4, 0, 3,
    4, 4, 0, 3, 4, 4, 9, 0, 0, 3, 4, 4, 4, 4, 4, 4, 4, 0, 4, 4, 4, 4, 0, 4, 3, 4, 3,
};

void dmu_swap_contents(unsigned type, uint8_t *p, size_t size)
{
	unsigned class = type & 0x80 ? type & 0x1f : type < ARRAY_LEN(type_class) ? type_class[type] : 0;

	if (class < ARRAY_LEN(swap_class))
		swap_class[class](p, size);
}
