/*
 * nv/nv_impl.h: how a list lies in memory, shared by the two wire forms (nv_xdr.c, nv_native.c).
 */
#ifndef NV_NV_IMPL_H
#define NV_NV_IMPL_H

#include "base/bytes.h"
#include "base/list.h"
#include "nv/nv.h"

#define NV_DEPTH_MAX 20 /* of nesting, as OpenZFS bounds it (1.4) */
#define NV_ALIGN8(x) ROUND_UP((size_t)(x), 8)
#define NV_ALIGN4(x) ROUND_UP((size_t)(x), 4)

struct nvpair {
	struct list_node node;
	struct nvpair *chain; /* next of the same hash bucket */
	uint32_t hash;
	enum nv_type type;
	size_t count; /* elements: 0 for NV_BOOLEAN, 1 for scalars */
	char *name;
	union {
		uint64_t scalar; /* NV_SHAPE_INT without array: the value in its natural width at the start */
		void *ints;      /* arrays of integers, natural width */
		char **strings;  /* strings, also a single one */
		struct nvlist **lists;
	};
};

struct nvlist {
	struct list pairs;
	struct nvpair **bucket; /* NULL while the list is short */
	size_t nbuckets;
};

enum nv_shape { NV_SHAPE_NONE, NV_SHAPE_FLAG, NV_SHAPE_INT, NV_SHAPE_STRING, NV_SHAPE_LIST };
struct nv_type_info {
	enum nv_shape shape;
	uint8_t width; /* bytes of one integer */
	bool is_array, is_signed;
};
/* Unknown types have shape NV_SHAPE_NONE. */
const struct nv_type_info *nv_type_info(uint32_t type);

/* Makes a pair of the type with room for `count` elements (zeros); it is on no list yet. NULL without memory. */
struct nvpair *nvpair_create(const char *name, size_t namelen, enum nv_type type, size_t count);
void nvpair_destroy(struct nvpair *p);
/* Puts the pair on the list; one of the same name goes away. */
void nvlist_insert(struct nvlist *l, struct nvpair *p);
void *nvpair_ints(const struct nvpair *p);
void nvpair_int_set(struct nvpair *p, size_t i, uint64_t v);
/* Bytes of the value in OpenZFS's memory form: V of the chapter (1.4). */
size_t nvpair_value_size(const struct nvpair *p);
size_t nvpair_decoded_size(const struct nvpair *p);

struct nv_reader {
	const uint8_t *p, *end;
	bool swap; /* native form only: the packer had the other byte order */
};
static inline size_t nv_left(const struct nv_reader *r)
{
	return r->end - r->p;
}

int nv_xdr_unpack(struct nv_reader *r, struct nvlist *l, unsigned depth);
size_t nv_xdr_size(const struct nvlist *l);
uint8_t *nv_xdr_pack(const struct nvlist *l, uint8_t *out);
int nv_native_unpack(struct nv_reader *r, struct nvlist *l, unsigned depth);
size_t nv_native_size(const struct nvlist *l);
uint8_t *nv_native_pack(const struct nvlist *l, uint8_t *out);

#endif
