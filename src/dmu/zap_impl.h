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

#include <pthread.h>

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

/*
 * One operation at a time changes a ZAP, while none reads it. A stripe of these serves many objects: each is held for
 * one operation, by a thread that holds no other; below it only the dmu's own locks are taken, and devices may be
 * waited for.
 */
struct zap_lock {
	pthread_rwlock_t rw;
	uint64_t generation; /* counts changes: handles and cursors look anew after one */
};

struct zap_source {
	uint32_t block_size;
	uint64_t nblocks;
	/* Block blkid < nblocks, whole. Holes give -EINVAL. */
	int (*read)(struct zap_source *s, uint64_t blkid, struct zap_block *out);
	void (*close)(struct zap_source *s);
	struct zap_lock *lock; /* NULL: nobody changes it */
	/* block_size and nblocks as they are now; with `lock` only. */
	void (*refresh)(struct zap_source *s);

	/* Changing; NULL and 0 in sources that are only read. The lock is held alone. */
	int (*write)(struct zap_source *s, uint64_t offset, const void *data, size_t len);
	/* Of an object of one block; all of it is written afterwards. */
	int (*resize)(struct zap_source *s, uint32_t block_size);
	int (*punch)(struct zap_source *s, uint64_t blkid, uint64_t n);
	int (*cut)(struct zap_source *s, uint64_t nblocks); /* nothing behind these */
	unsigned name_max;                                  /* bytes of a name with its NUL (9.4) */
};

#define ZAP_TYPE_MICRO UINT64_C(0x8000000000000003)
#define ZAP_TYPE_FAT   UINT64_C(0x8000000000000001)
#define ZAP_TYPE_LEAF  UINT64_C(0x8000000000000000)

/* The micro-ZAP, 9.2. */
#define MICRO_HEADER   64
#define MICRO_ENTRY    64
#define MICRO_NAME_OFF 14
#define MICRO_NAME     50
#define MICRO_SIZE_MAX (128u << 10)

/* Header and leaves of a fat ZAP, 9.3 and 9.4. */
#define FAT_MAGIC       UINT64_C(0x2F52AB2AB)
#define FAT_HEADER      104
#define FAT_SHIFT       14 /* usual block size */
#define FAT_SHIFT_MIN   9
#define FAT_SHIFT_MAX   20 /* larger blocks would have more chunks than chunk numbers */
#define LEAF_MAGIC      0x02AB1EAFu
#define LEAF_HEADER     48
#define LEAF_CD_SORTED  1u
#define CHUNK           24
#define CHUNK_ENTRY     252
#define CHUNK_ARRAY     251
#define CHUNK_FREE      253
#define CHUNK_END       0xffffu
#define CHUNK_ARRAY_LEN 21

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
	uint64_t generation; /* of the lock, when this was read */
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

/* Reads block 0 anew. */
int zap_reload(struct zap *z);
/* Source of an object. tx NULL: for reading. */
struct zap_source *zap_source_of_dnode(struct dnode *dn, struct tx *tx);
/* Shares the lock for one operation, and catches up with changes. zap_leave also when it failed. */
int zap_enter(struct zap *z);
void zap_leave(struct zap *z);

/* The caller frees key->norm. The hash is left out for micro-ZAPs unless it is asked for. */
void zap_key_of_name(const struct zap *z, const char *name, unsigned match, bool hash, struct zap_key *key);
/* `bytes` has ZAP_NAME_MAX bytes and is used by the key. -EINVAL: no such keys here. */
int zap_key_of_words(const struct zap *z, const uint64_t *words, unsigned n, uint8_t *bytes, struct zap_key *key);
int zap_key_find(struct zap *z, const struct zap_key *key, struct zap_leaf *leaf, struct zap_item *it);

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

/* Of all that match the key, that with the lowest cd. */
int zap_leaf_find(const struct zap_leaf *leaf, const struct zap_key *key, struct zap_item *out);
/* Does a word of the pointer table name a block of this object? */
bool zap_blkid_is_valid(const struct zap *z, uint64_t blkid);

/* --- changing: the lock is held alone, everything in `z` is as stored --- */

struct zap_value {
	unsigned intsize;
	size_t nints;
	const void *ints; /* host order */
};

/* Block 0 of an empty map. */
int zap_micro_format(struct zap_source *s, uint64_t salt, uint64_t normflags);
int zap_fat_format(struct zap_source *s, uint64_t salt, uint64_t normflags, uint64_t flags);
/* A block 0 that another machine wrote becomes one of ours, and what a grown table has left undone is done. */
int zap_ready(struct zap *z);
/* replace: an existing value is replaced, else -EEXIST. -E2BIG: the entry is too large for any ZAP; -ENOSPC: too many
 * keys with one hash. The key is exact. */
int zap_put(struct zap *z, const struct zap_key *key, const struct zap_value *v, bool replace);
int zap_drop(struct zap *z, const struct zap_key *key);

#define ZAP_NEEDS_FAT 1 /* nothing was changed */
int zap_micro_put(struct zap *z, const struct zap_key *key, const struct zap_value *v, bool replace);
int zap_micro_drop(struct zap *z, const struct zap_key *key);
int zap_micro_upgrade(struct zap *z);
int zap_fat_ready(struct zap *z);
int zap_fat_put(struct zap *z, const struct zap_key *key, const struct zap_value *v, bool replace);
int zap_fat_drop(struct zap *z, const struct zap_key *key);
/* A new key, whose cd is known. */
int zap_fat_insert(struct zap *z, const struct zap_key *key, const struct zap_value *v, uint32_t cd);

/* A leaf that is being changed: a copy, in host order, of which the lines that changed are written. */
struct zap_edit {
	struct zap_leaf leaf;
	uint8_t *data; /* the block's bytes, which leaf.block points to */
	uint64_t blkid;
	uint8_t *dirty; /* a bit per line */
};
#define ZAP_LINE 64u
/* The leaf of table entry `index`. */
int zap_edit_open(struct zap *z, uint64_t index, struct zap_edit *out);
/* An empty one for a new block. */
void zap_edit_new(const struct zap *z, uint64_t blkid, uint64_t prefix, unsigned prefix_len, struct zap_edit *out);
int zap_edit_write(struct zap *z, struct zap_edit *e);
void zap_edit_close(struct zap_edit *e);
unsigned zap_edit_free_chunks(const struct zap_edit *e);
unsigned zap_edit_entries(const struct zap_edit *e);
void zap_edit_set_prefix(struct zap_edit *e, uint64_t prefix, unsigned prefix_len);
/* Chunks of such an array. */
static inline unsigned zap_chunks(size_t bytes)
{
	return (bytes + CHUNK_ARRAY_LEN - 1) / CHUNK_ARRAY_LEN;
}
/* There is room. -EINVAL: damage. words: keys are words. */
int zap_edit_insert(struct zap_edit *e, const struct zap_key *key, const struct zap_value *v, uint32_t cd);
int zap_edit_replace(struct zap_edit *e, const struct zap_item *it, const struct zap_value *v);
int zap_edit_remove(struct zap_edit *e, const struct zap_item *it, bool words);
/* Every entry goes to `low` or `high`, new leaves of the next longer prefix. */
int zap_edit_divide(const struct zap_edit *from, bool words, struct zap_edit *low, struct zap_edit *high);
/* Smallest cd that no entry of this hash has; *chunks: of all the entries that have the hash. */
uint32_t zap_edit_cd(const struct zap_edit *e, uint64_t hash, bool words, unsigned *chunks);

struct unicode_range {
	uint32_t first, last;
};
extern const struct unicode_range unicode_5_0[];
extern const size_t unicode_5_0_len;

#endif
