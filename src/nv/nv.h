/*
 * nv/nv.h: name-value lists, ZFS's own structured data, in both wire forms (docs/format/01-pool.md, section 1).
 *
 * A list has unique names: adding replaces. Decoding checks every size and count against the bytes that are there,
 * bounds the nesting (20) and refuses what does not fit with -EINVAL. Lists own their values (everything is copied in).
 * No locks: a list belongs to one thread at a time, or is read-only.
 */
#ifndef NV_NV_H
#define NV_NV_H

#include "base/base.h"
#include "base/err.h"

enum nv_type { /* numbers of the format */
	       NV_UNKNOWN = 0,
	       NV_BOOLEAN = 1, /* presence only */
	       NV_BYTE = 2,
	       NV_INT16 = 3,
	       NV_UINT16 = 4,
	       NV_INT32 = 5,
	       NV_UINT32 = 6,
	       NV_INT64 = 7,
	       NV_UINT64 = 8,
	       NV_STRING = 9,
	       NV_BYTE_ARRAY = 10,
	       NV_INT16_ARRAY = 11,
	       NV_UINT16_ARRAY = 12,
	       NV_INT32_ARRAY = 13,
	       NV_UINT32_ARRAY = 14,
	       NV_INT64_ARRAY = 15,
	       NV_UINT64_ARRAY = 16,
	       NV_STRING_ARRAY = 17,
	       NV_HRTIME = 18,
	       NV_NVLIST = 19,
	       NV_NVLIST_ARRAY = 20,
	       NV_BOOLEAN_VALUE = 21,
	       NV_INT8 = 22,
	       NV_UINT8 = 23,
	       NV_BOOLEAN_ARRAY = 24,
	       NV_INT8_ARRAY = 25,
	       NV_UINT8_ARRAY = 26,
	       NV_DOUBLE = 27,
};

enum nv_encoding { NV_NATIVE = 0, NV_XDR = 1 };

struct nvlist;
struct nvpair;

struct nvlist *nvlist_create(void);
void nvlist_destroy(struct nvlist *l); /* NULL is allowed */
struct nvlist *nvlist_copy(const struct nvlist *l);
static inline void autonv_release(struct nvlist **l)
{
	nvlist_destroy(*l);
}
#define autonv __attribute__((cleanup(autonv_release), unused))

/* Decode a packed list with its 4-byte header; trailing bytes are allowed. */
int nvlist_unpack(const void *data, size_t len, struct nvlist **out, struct err *e);
/* *data is malloc'd; the caller frees it. */
int nvlist_pack(const struct nvlist *l, enum nv_encoding enc, void **data, size_t *len);

/* Look-ups: 0, -ENOENT (no such name), -EINVAL (other type). Results point into the list. */
int nvlist_u64(const struct nvlist *l, const char *name, uint64_t *v);
int nvlist_i64(const struct nvlist *l, const char *name, int64_t *v);
int nvlist_string(const struct nvlist *l, const char *name, const char **v);
int nvlist_list(const struct nvlist *l, const char *name, struct nvlist **v);
int nvlist_lists(const struct nvlist *l, const char *name, struct nvlist *const **v, size_t *n);
int nvlist_u64s(const struct nvlist *l, const char *name, const uint64_t **v, size_t *n);
int nvlist_strings(const struct nvlist *l, const char *name, const char *const **v, size_t *n);
int nvlist_bytes(const struct nvlist *l, const char *name, const uint8_t **v, size_t *n); /* byte or uint8 array */
bool nvlist_bool(const struct nvlist *l, const char *name); /* present (boolean), or true (boolean_value) */
bool nvlist_exists(const struct nvlist *l, const char *name);
/* With a default instead of an error. */
uint64_t nvlist_u64_or(const struct nvlist *l, const char *name, uint64_t fallback);
const char *nvlist_string_or(const struct nvlist *l, const char *name, const char *fallback);

void nvlist_add_u64(struct nvlist *l, const char *name, uint64_t v);
void nvlist_add_i64(struct nvlist *l, const char *name, int64_t v);
void nvlist_add_string(struct nvlist *l, const char *name, const char *v);
void nvlist_add_boolean(struct nvlist *l, const char *name); /* presence */
void nvlist_add_boolean_value(struct nvlist *l, const char *name, bool v);
void nvlist_add_list(struct nvlist *l, const char *name, const struct nvlist *v);             /* copied */
void nvlist_take_list(struct nvlist *l, const char *name, struct nvlist *v);                  /* ownership moves */
void nvlist_add_lists(struct nvlist *l, const char *name, struct nvlist *const *v, size_t n); /* copied */
void nvlist_add_u64s(struct nvlist *l, const char *name, const uint64_t *v, size_t n);
void nvlist_add_strings(struct nvlist *l, const char *name, const char *const *v, size_t n);
void nvlist_add_bytes(struct nvlist *l, const char *name, const uint8_t *v, size_t n); /* byte array */
void nvlist_add_pair(struct nvlist *l, const struct nvpair *p);                        /* copied, from another list */
int nvlist_remove(struct nvlist *l, const char *name);

/* Pairs in the order they were added. */
const struct nvpair *nvlist_first(const struct nvlist *l);
const struct nvpair *nvlist_next(const struct nvlist *l, const struct nvpair *p);
size_t nvlist_len(const struct nvlist *l);
const char *nvpair_name(const struct nvpair *p);
enum nv_type nvpair_type(const struct nvpair *p);
size_t nvpair_count(const struct nvpair *p); /* elements */
/* Any integer scalar or array element, widened (signed ones sign-extended). */
uint64_t nvpair_int(const struct nvpair *p, size_t i);
const char *nvpair_string(const struct nvpair *p, size_t i);
struct nvlist *nvpair_list(const struct nvpair *p, size_t i);

struct str;
/* "name: value" lines as zdb prints configurations, `indent` blanks first. */
void nvlist_print(const struct nvlist *l, unsigned indent, struct str *out);

#endif
