/*
 * base/hash.h: mixing of keys for hash tables, and a map from strings to pointers for administrative tables.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"

uint64_t hash_mix(uint64_t a, uint64_t b);

struct strmap;
struct strmap *strmap_create(void);
void strmap_destroy(struct strmap *m); /* values are the caller's */
/* The old value (NULL when there was none); a NULL value removes the key. */
void *strmap_set(struct strmap *m, const char *key, void *value);
void *strmap_get(const struct strmap *m, const char *key);
size_t strmap_len(const struct strmap *m);

#endif
