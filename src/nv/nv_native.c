/*
 * Native form (docs/format/01-pool.md, 1.5): the packer's byte order and C layout; the pairs of nested lists follow
 * after the whole parent pair. Both byte orders are read.
 */
#include "nv/nv_impl.h"

#define PAIR_HEAD 16
#define LIST_HEAD 24 /* version, flags and 16 bytes without meaning */

static int get_strings(struct nvpair *p, const uint8_t *value, size_t left)
{
	for (size_t i = 0; i < p->count; i++) {
		size_t len = strnlen((const char *)value, left);

		if (len == left)
			return -EINVAL;
		p->strings[i] = malloc(len + 1);
		if (!p->strings[i])
			return -ENOMEM;
		memcpy(p->strings[i], value, len + 1);
		value += len + 1;
		left -= len + 1;
	}
	return 0;
}

static int get_ints(const struct nv_reader *r, struct nvpair *p, const uint8_t *value)
{
	unsigned width = nv_type_info(p->type)->width;

	for (size_t i = 0; i < p->count; i++, value += width) {
		uint64_t v = width == 8   ? load64(value, r->swap)
			     : width == 4 ? load32(value, r->swap)
			     : width == 2 ? load16(value, r->swap)
					  : *value;

		if ((p->type == NV_BOOLEAN_VALUE || p->type == NV_BOOLEAN_ARRAY) && v > 1)
			return -EINVAL;
		nvpair_int_set(p, i, v);
	}
	return 0;
}

static int get_pairs(struct nv_reader *r, struct nvlist *l, unsigned depth);

/* `value`, `left`: the pair's own value area; the pairs of nested lists come from the reader. */
static int get_value(struct nv_reader *r, struct nvpair *p, const uint8_t *value, size_t left, unsigned depth)
{
	const struct nv_type_info *info = nv_type_info(p->type);
	size_t slots = info->is_array && info->shape != NV_SHAPE_INT ? 8 * p->count : 0;
	int err = 0;

	if (info->shape == NV_SHAPE_INT)
		return get_ints(r, p, value);
	if (info->shape == NV_SHAPE_STRING)
		return get_strings(p, value + slots, left - slots);
	for (size_t i = 0; info->shape == NV_SHAPE_LIST && i < p->count && !err; i++) {
		p->lists[i] = nvlist_create();
		err = get_pairs(r, p->lists[i], depth + 1);
	}
	return err;
}

/* The least the value area must have for `count` elements; SIZE_MAX when that cannot be. */
static size_t value_least(uint32_t type, uint32_t count, size_t left)
{
	const struct nv_type_info *info = nv_type_info(type);
	size_t each = info->shape == NV_SHAPE_INT    ? info->width
		      : info->shape == NV_SHAPE_LIST ? LIST_HEAD
						     : 1; /* a string's NUL */

	if (info->shape == NV_SHAPE_NONE)
		return SIZE_MAX;
	if (info->shape == NV_SHAPE_FLAG)
		return count == 0 ? 0 : SIZE_MAX;
	if (!info->is_array)
		return count == 1 ? each : SIZE_MAX;
	if (info->shape != NV_SHAPE_INT)
		each += 8;
	return count <= left / each ? count * each : SIZE_MAX;
}

static int get_pair(struct nv_reader *r, struct nvlist *l, size_t size, unsigned depth)
{
	const uint8_t *at = r->p;
	uint16_t namesize = load16(at + 4, r->swap);
	uint32_t count = load32(at + 8, r->swap), type = load32(at + 12, r->swap);
	size_t head = NV_ALIGN8(PAIR_HEAD + namesize);
	struct nvpair *p;
	int err;

	if (namesize == 0 || head > size || memchr(at + PAIR_HEAD, 0, namesize) != at + PAIR_HEAD + namesize - 1)
		return -EINVAL;
	if (value_least(type, count, size - head) > size - head)
		return -EINVAL;
	p = nvpair_create((const char *)at + PAIR_HEAD, namesize - 1, type, count);
	if (!p)
		return -ENOMEM;
	r->p += size;
	err = get_value(r, p, at + head, size - head, depth);
	if (err)
		nvpair_destroy(p);
	else
		nvlist_insert(l, p);
	return err;
}

static int get_pairs(struct nv_reader *r, struct nvlist *l, unsigned depth)
{
	int err = depth > NV_DEPTH_MAX ? -EINVAL : 0;

	while (!err) {
		int32_t size;

		if (nv_left(r) < 4)
			return -EINVAL;
		size = (int32_t)load32(r->p, r->swap);
		if (size == 0) {
			r->p += 4;
			return 0;
		}
		if (size < PAIR_HEAD || (size_t)size > nv_left(r))
			return -EINVAL;
		err = get_pair(r, l, size, depth);
	}
	return err;
}

int nv_native_unpack(struct nv_reader *r, struct nvlist *l, unsigned depth)
{
	if (nv_left(r) < 8 || load32(r->p, r->swap) != 0)
		return -EINVAL;
	r->p += 8;
	return get_pairs(r, l, depth);
}

/* --- packing --- */
static size_t pairs_size(const struct nvlist *l)
{
	size_t size = 4;

	for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_next(l, p)) {
		size += nvpair_decoded_size(p);
		for (size_t i = 0; nv_type_info(p->type)->shape == NV_SHAPE_LIST && i < p->count; i++)
			size += pairs_size(p->lists[i]);
	}
	return size;
}

size_t nv_native_size(const struct nvlist *l)
{
	return 8 + pairs_size(l);
}

static void put_value(uint8_t *out, const struct nvpair *p)
{
	const struct nv_type_info *info = nv_type_info(p->type);

	if (info->shape == NV_SHAPE_INT) {
		memcpy(out, nvpair_ints(p), nvpair_value_size(p));
		return;
	}
	if (info->is_array)
		out += 8 * p->count;
	for (size_t i = 0; i < p->count; i++) {
		if (info->shape == NV_SHAPE_STRING) {
			size_t len = strlen(p->strings[i]) + 1;

			memcpy(out, p->strings[i], len);
			out += len;
		} else {
			store_host32(out + 4, 1); /* names are unique */
			out += LIST_HEAD;
		}
	}
}

static uint8_t *put_pairs(const struct nvlist *l, uint8_t *out)
{
	for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_next(l, p)) {
		size_t namesize = strlen(p->name) + 1, size = nvpair_decoded_size(p);

		store_host32(out, size);
		store_host16(out + 4, namesize);
		store_host32(out + 8, p->count);
		store_host32(out + 12, p->type);
		memcpy(out + PAIR_HEAD, p->name, namesize);
		put_value(out + NV_ALIGN8(PAIR_HEAD + namesize), p);
		out += size;
		for (size_t i = 0; nv_type_info(p->type)->shape == NV_SHAPE_LIST && i < p->count; i++)
			out = put_pairs(p->lists[i], out);
	}
	return out + 4;
}

uint8_t *nv_native_pack(const struct nvlist *l, uint8_t *out)
{
	store_host32(out + 4, 1); /* names are unique */
	return put_pairs(l, out + 8);
}
