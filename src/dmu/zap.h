/*
 * dmu/zap.h: ZAP objects, the on-disk maps (docs/format/02-blocks-and-objects.md, section 9): micro and fat. Read side;
 * blocking. Values come back as host-order integers of `intsize` bytes (1, 2, 4, 8).
 */
#ifndef DMU_ZAP_H
#define DMU_ZAP_H

#include "dmu/dmu.h"

#define ZAP_NAME_MAX 1024

/* Matching for directories of case-insensitive or normalising file systems (9.6; which to use when: 07, 3.2). 0: exact
 * bytes. ZAP_MATCH_CASE counts only together with ZAP_MATCH_NORMALIZED. */
#define ZAP_MATCH_CASE       1u /* the caller wants the exact case even where the object folds it */
#define ZAP_MATCH_NORMALIZED 2u /* match as the object's own normalisation says */

/*
 * An opened ZAP, for many lookups in the same one: block 0 stays held. One thread at a time. The functions below that
 * take an object open it for one call.
 */
struct zap;
int zap_open(struct objset *os, uint64_t object, struct zap **out);
void zap_close(struct zap *z);
/* As zap_lookup_match and zap_lookup_u64key. */
int zap_find(struct zap *z, const char *name, unsigned match, unsigned intsize, size_t nints, void *out, char *real);
int zap_find_words(struct zap *z, const uint64_t *key, unsigned nwords, unsigned intsize, size_t nints, void *out);

/* 0, -ENOENT, -EOVERFLOW (value has more elements than room), -EINVAL (stored integers are wider than intsize, or
 * damage), I/O errors. */
int zap_lookup(struct objset *os, uint64_t object, const char *name, unsigned intsize, size_t nints, void *out);
int zap_lookup_u64(struct objset *os, uint64_t object, const char *name, uint64_t *out);
/* Keys of u64 words (DDT, BRT and such). */
int zap_lookup_u64key(struct objset *os, uint64_t object, const uint64_t *key, unsigned nwords, unsigned intsize,
		      size_t nints, void *out);
int zap_length(struct objset *os, uint64_t object, const char *name, unsigned *intsize, size_t *nints);
/* Name matching by flags; `real` (ZAP_NAME_MAX bytes, may be NULL) takes the stored name. */
int zap_lookup_match(struct objset *os, uint64_t object, const char *name, unsigned match, unsigned intsize,
		     size_t nints, void *out, char *real);

/* Entries in hash order; the cookie is stable (07, 3.4). */
struct zap_cursor;
struct zap_entry {
	char name[ZAP_NAME_MAX + 1]; /* string keys; for u64 keys the raw words (host order), key_words > 0 */
	unsigned key_words;
	unsigned intsize;
	size_t nints;
	uint64_t first;  /* first integer, for the common case */
	uint64_t cookie; /* where the entry after this one starts */
};
int zap_cursor_open(struct objset *os, uint64_t object, uint64_t cookie, struct zap_cursor **out);
/* Takes over z: closed with the cursor. */
void zap_cursor_start(struct zap *z, uint64_t cookie, struct zap_cursor **out);
/* -ENOENT at the end. A damaged leaf or entry is skipped after one -EIO return (call again to go on). */
int zap_cursor_next(struct zap_cursor *c, struct zap_entry *e);
int zap_cursor_value(struct zap_cursor *c, void *out, size_t nints); /* whole value of the entry just returned */
void zap_cursor_close(struct zap_cursor *c);
int zap_count(struct objset *os, uint64_t object, uint64_t *count);
/* Reverse: the name of the entry whose first integer, under mask, is `value`; name has room for ZAP_NAME_MAX + 1. */
int zap_value_search(struct objset *os, uint64_t object, uint64_t value, uint64_t mask, char *name);

struct zap_stats {
	bool micro;
	uint64_t blocks, leaves, ptrtbl_len, entries, salt, normflags, flags, block_size;
};
int zap_get_stats(struct objset *os, uint64_t object, struct zap_stats *out);

/*
 * Writing (02, 9.2 - 9.5): blocking (a leaf may have to be read); inside a transaction or in syncing context. Any
 * number of readers and writers may be at one map: each call is one step. But the groups of the transactions that
 * change one map must come in order: who shares a map with others in open context begins its transaction under a lock
 * of the object's.
 *
 * Micro until it cannot be. -ENAMETOOLONG, -E2BIG (value of more than 8192 bytes), -ENOSPC: too many keys of one hash;
 * -EINVAL: damage, or a key of the wrong kind. An open handle or cursor sees changes from its next call on; the entries
 * of the leaf (or micro map) that a cursor is in are those of when it came there.
 */
struct zap_spec {
	uint8_t type;              /* DMU type of the object */
	uint64_t normflags, flags; /* 9.3, 9.6; 0: byte strings, 48-bit hashes as usual */
	bool fat; /* from the start; u64 keys and wide values need it (made so by themselves otherwise) */
	uint8_t blockshift, indblkshift; /* 0: the usual ones */
	uint8_t bonustype;
	uint16_t bonuslen;
	uint32_t dnodesize;
};
int zap_create(struct objset *os, const struct zap_spec *spec, struct tx *tx, uint64_t *object);
int zap_create_claim(struct objset *os, uint64_t object, const struct zap_spec *spec, struct tx *tx); /* -EEXIST */
/* An existing object without blocks gets an empty map and the type DMU_OTN_ZAP_METADATA; its bonus stays (03, 1.5). */
int zap_create_over(struct objset *os, uint64_t object, struct tx *tx);
/* zap_create of type `type`, entered as `name` in `parent`. */
int zap_create_in(struct objset *os, uint8_t type, uint64_t parent, const char *name, struct tx *tx, uint64_t *object);
/* -EEXIST / replaces / -ENOENT. */
int zap_add(struct objset *os, uint64_t object, const char *name, unsigned intsize, size_t nints, const void *value,
	    struct tx *tx);
int zap_update(struct objset *os, uint64_t object, const char *name, unsigned intsize, size_t nints, const void *value,
	       struct tx *tx);
int zap_remove(struct objset *os, uint64_t object, const char *name, struct tx *tx);
/* The same with the matching of 9.6 (file systems that fold case). */
int zap_remove_match(struct objset *os, uint64_t object, const char *name, unsigned match, struct tx *tx);
int zap_add_u64(struct objset *os, uint64_t object, const char *name, uint64_t value, struct tx *tx);
int zap_update_u64(struct objset *os, uint64_t object, const char *name, uint64_t value, struct tx *tx);
/* A counter under a name: an entry that becomes 0 goes. */
int zap_increment(struct objset *os, uint64_t object, const char *name, int64_t delta, struct tx *tx);
/* Names that are numbers: lower-case hex (9.8). */
int zap_add_int(struct objset *os, uint64_t object, uint64_t key, uint64_t value, struct tx *tx);
int zap_update_int(struct objset *os, uint64_t object, uint64_t key, uint64_t value, struct tx *tx);
int zap_remove_int(struct objset *os, uint64_t object, uint64_t key, struct tx *tx);
int zap_lookup_int(struct objset *os, uint64_t object, uint64_t key, uint64_t *value);
int zap_increment_int(struct objset *os, uint64_t object, uint64_t key, int64_t delta, struct tx *tx);
int zap_update_u64key(struct objset *os, uint64_t object, const uint64_t *key, unsigned nwords, unsigned intsize,
		      size_t nints, const void *value, struct tx *tx);
int zap_remove_u64key(struct objset *os, uint64_t object, const uint64_t *key, unsigned nwords, struct tx *tx);

#endif
