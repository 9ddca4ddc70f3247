/*
 * dmu/zap_impl.h: what the files of the ZAP share (docs/format/02-blocks-and-objects.md, section 9). Private to dmu/
 * and its tests.
 *
 * A ZAP is read through a zap_source, which hands out referenced blocks: the dmu's cached blocks, or a buffer of a test
 * or fuzzer. Nothing of a leaf is copied but the name and value asked for. Both byte orders are read in place: every
 * block tells its own by its first word, except external pointer-table blocks (see table_entry).
 *
 * A struct zap serves one thread at a time.
 */
#ifndef DMU_ZAP_IMPL_H
#define DMU_ZAP_IMPL_H

#include "base/buf.h"
#include "base/bytes.h"
#include "base/str.h"
#include "dmu/zap.h"

struct zap_block {
	struct buf *buf; /* reference, NULL when the source owns the bytes */
	const uint8_t *data;
	uint32_t len;
};
static inline void zap_block_release(struct zap_block *b)
{
	buf_release(b->buf);
	b->buf = NULL;
	b->data = NULL;
}

struct zap_source {
	uint32_t block_size;
	uint64_t nblocks;
	/* Block blkid < nblocks, whole. Holes give -EINVAL. */
	int (*read)(struct zap_source *s, uint64_t blkid, struct zap_block *out);
	void (*close)(struct zap_source *s);
};

/* Flags of a fat ZAP's header, 9.3. */
#define ZAP_FLAG_HASH64    1u /* 48 bits of the hash are kept instead of 28 */
#define ZAP_FLAG_U64_KEYS  2u
#define ZAP_FLAG_PREHASHED 4u

#define ZAP_NORM_UPPER   0x02u
#define ZAP_NORM_D       0x10u
#define ZAP_NORM_KD      0x20u
#define ZAP_NORM_COMPOSE 0x40u
#define ZAP_NORM_ALL     (ZAP_NORM_UPPER | ZAP_NORM_D | ZAP_NORM_KD | ZAP_NORM_COMPOSE)

struct zap {
	struct zap_source *source;
	struct zap_block head; /* block 0 */
	bool micro;
	bool swap; /* of block 0 */
	uint64_t salt, normflags, flags;
	/* fat only */
	unsigned block_shift;
	uint64_t table_blk, table_nblks; /* 0: the table is the second half of block 0 */
	unsigned table_shift;
	uint64_t freeblk, nleaves, nentries;
	struct zap_block table; /* the table block used last */
	uint64_t table_held;    /* its number, 0: none */
};

struct zap_leaf {
	struct zap_block block;
	bool swap;
	unsigned block_shift, nchunks;
	unsigned prefix_len;
	uint64_t prefix;
};

/* One entry, where it lies. Valid while its leaf (or the micro ZAP) is held. */
struct zap_item {
	uint64_t hash;
	uint32_t cd;
	unsigned intsize;
	size_t nints;
	/* fat */
	const struct zap_leaf *leaf;
	unsigned name_chunk, name_ints, value_chunk;
	/* micro */
	const char *micro_name; /* at most 50 bytes, may lack its NUL */
	uint64_t micro_value;
};

/* What is looked for. */
struct zap_key {
	const uint8_t *bytes; /* as arrays of a leaf hold it: name with NUL, or big-endian words */
	size_t len;
	unsigned ints;
	uint64_t hash;
	bool by_norm; /* compare normalised by norm_flags, else exactly */
	unsigned norm_flags;
	struct str norm; /* the normalised name when by_norm */
};

/* Takes over the source: closed by zap_close_source, also when opening fails. */
int zap_open_source(struct zap_source *source, struct zap **out);

unsigned zap_hash_bits(const struct zap *z);
uint64_t zap_hash_name(const struct zap *z, const char *name, size_t len);
uint64_t zap_hash_words(const struct zap *z, const uint64_t *words, unsigned n);
/* Does this stored name (without NUL) match a key that is compared by its normalised form? */
bool zap_norm_matches(const struct zap_key *key, const char *name, size_t len);
/* `out` is replaced by the name transformed as 9.6 says. */
void zap_normalize(unsigned normflags, const char *name, size_t len, struct str *out);

int zap_item_value(const struct zap_item *it, unsigned intsize, size_t nints, void *out);
/* String names are NUL-terminated; words come out in host order. key_words 0: a string. name: ZAP_NAME_MAX bytes. */
int zap_item_name(const struct zap *z, const struct zap_item *it, char *name, unsigned *key_words);

/* Position of an entry within a leaf (chunk number) or a micro ZAP (entry number). */
struct zap_pos {
	uint64_t hash;
	uint32_t cd, where;
};

int zap_micro_open(struct zap *z);
int zap_micro_find(struct zap *z, const struct zap_key *key, struct zap_item *out);
unsigned zap_micro_slots(const struct zap *z);
/* false: the slot is free. The hash is left out. */
bool zap_micro_item(const struct zap *z, unsigned slot, struct zap_item *out);

int zap_fat_open(struct zap *z);
/* The leaf, held for `out`, is released by the caller also after an error. */
int zap_fat_find(struct zap *z, const struct zap_key *key, struct zap_leaf *leaf, struct zap_item *out);
/* Leaf block number in entry `index` of the pointer table. */
int zap_fat_table_entry(struct zap *z, uint64_t index, uint64_t *blkid);
/* Hold the leaf and check that it is the one for table entry `index`. */
int zap_leaf_open(struct zap *z, uint64_t blkid, uint64_t index, struct zap_leaf *out);
/* Every sound entry, in no order; room for leaf->nchunks. */
unsigned zap_leaf_list(const struct zap_leaf *leaf, struct zap_pos *pos);
int zap_leaf_item(const struct zap_leaf *leaf, unsigned chunk, struct zap_item *out);
int zap_leaf_value(const struct zap_item *it, unsigned intsize, void *out);
int zap_leaf_bytes(const struct zap_leaf *leaf, unsigned chunk, size_t len, uint8_t *out);

struct unicode_range {
	uint32_t first, last;
};
extern const struct unicode_range unicode_5_0[];
extern const size_t unicode_5_0_len;

#endif
