/*
 * XDR form (docs/format/01-pool.md, 1.4): big endian, everything padded to 4 bytes.
 */
#include "nv/nv_impl.h"

/* Stored width of one integer: everything narrower than a word takes a whole word, except in byte arrays. */
static unsigned stored_width(const struct nvpair *p)
{
	return nv_type_info(p->type)->width == 8 ? 8 : 4;
}

static int get_u32(struct nv_reader *r, uint32_t *v)
{
	if (nv_left(r) < 4)
		return -EINVAL;
	*v = load_be32(r->p);
	r->p += 4;
	return 0;
}

/* A counted run of bytes with its padding; *s points into the buffer. */
static int get_bytes(struct nv_reader *r, size_t len, const uint8_t **s)
{
	if (nv_left(r) < len || nv_left(r) < NV_ALIGN4(len))
		return -EINVAL;
	*s = r->p;
	r->p += NV_ALIGN4(len);
	return 0;
}

static int get_string(struct nv_reader *r, char **out)
{
	const uint8_t *s;
	uint32_t len;

	if (get_u32(r, &len) || get_bytes(r, len, &s))
		return -EINVAL;
	*out = malloc((size_t)len + 1);
	if (!*out)
		return -ENOMEM;
	memcpy(*out, s, len);
	(*out)[len] = '\0';
	return 0;
}

static int get_ints(struct nv_reader *r, struct nvpair *p)
{
	unsigned width = stored_width(p);

	for (size_t i = 0; i < p->count; i++, r->p += width) {
		uint64_t v = width == 8 ? load_be64(r->p) : load_be32(r->p);

		if ((p->type == NV_BOOLEAN_VALUE || p->type == NV_BOOLEAN_ARRAY) && v > 1)
			return -EINVAL;
		nvpair_int_set(p, i, v);
	}
	return 0;
}

static int get_value(struct nv_reader *r, struct nvpair *p, unsigned depth)
{
	const struct nv_type_info *info = nv_type_info(p->type);
	const uint8_t *bytes;
	uint32_t again;
	int err = 0;

	if (p->count == 0) /* an empty array has no count word either (1.4, pitfalls) */
		return 0;
	if (p->type == NV_BYTE_ARRAY) {
		if (get_bytes(r, p->count, &bytes))
			return -EINVAL;
		memcpy(p->ints, bytes, p->count);
		return 0;
	}
	if (info->shape == NV_SHAPE_INT) {
		if (info->is_array && (get_u32(r, &again) || again != p->count))
			return -EINVAL;
		if (nv_left(r) / stored_width(p) < p->count)
			return -EINVAL;
		return get_ints(r, p);
	}
	for (size_t i = 0; i < p->count && !err; i++) {
		if (info->shape == NV_SHAPE_STRING) {
			err = get_string(r, &p->strings[i]);
		} else {
			p->lists[i] = nvlist_create();
			err = nv_xdr_unpack(r, p->lists[i], depth + 1);
		}
	}
	return err;
}

/* Whether `count` elements can be there at all: nothing is allocated for what the buffer cannot hold. */
static bool count_is_sane(const struct nv_reader *r, uint32_t type, uint32_t count)
{
	const struct nv_type_info *info = nv_type_info(type);
	size_t least = info->shape == NV_SHAPE_LIST ? 16 : info->width == 8 ? 8 : 4;

	if (info->shape == NV_SHAPE_NONE)
		return false;
	if (info->shape == NV_SHAPE_FLAG)
		return count == 0;
	if (!info->is_array)
		return count == 1;
	return count <= nv_left(r) / (type == NV_BYTE_ARRAY ? 1 : least);
}

static int get_pair(struct nv_reader *r, struct nvlist *l, unsigned depth)
{
	uint32_t namelen, type, count;
	const uint8_t *name;
	struct nvpair *p;
	int err;

	if (get_u32(r, &namelen) || get_bytes(r, namelen, &name) || memchr(name, 0, namelen))
		return -EINVAL;
	if (get_u32(r, &type) || get_u32(r, &count) || !count_is_sane(r, type, count))
		return -EINVAL;
	p = nvpair_create((const char *)name, namelen, type, count);
	if (!p)
		return -ENOMEM;
	err = get_value(r, p, depth);
	if (err)
		nvpair_destroy(p);
	else
		nvlist_insert(l, p);
	return err;
}

int nv_xdr_unpack(struct nv_reader *r, struct nvlist *l, unsigned depth)
{
	uint32_t version, flags, encoded, decoded;
	int err;

	if (depth > NV_DEPTH_MAX || get_u32(r, &version) || get_u32(r, &flags) || version != 0)
		return -EINVAL;
	for (;;) {
		if (get_u32(r, &encoded) || get_u32(r, &decoded))
			return -EINVAL;
		if (decoded == 0)
			return 0;
		err = get_pair(r, l, depth);
		if (err)
			return err;
	}
}

/* --- packing --- */
static size_t value_size(const struct nvpair *p)
{
	const struct nv_type_info *info = nv_type_info(p->type);
	size_t size = 0;

	if (p->type == NV_BYTE_ARRAY)
		return NV_ALIGN4(p->count);
	if (info->shape == NV_SHAPE_INT) /* OpenZFS counts the count word of an empty array that it does not write */
		return (info->is_array ? 4 : 0) + stored_width(p) * p->count;
	for (size_t i = 0; info->shape == NV_SHAPE_STRING && i < p->count; i++)
		size += 4 + NV_ALIGN4(strlen(p->strings[i]));
	for (size_t i = 0; info->shape == NV_SHAPE_LIST && i < p->count; i++)
		size += nv_xdr_size(p->lists[i]);
	return size;
}

static size_t pair_size(const struct nvpair *p)
{
	return 4 + 4 + 4 + NV_ALIGN4(strlen(p->name)) + 4 + 4 + value_size(p);
}

size_t nv_xdr_size(const struct nvlist *l)
{
	size_t size = 4 + 4 + 8;

	for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_next(l, p))
		size += pair_size(p);
	return size;
}

static uint8_t *put_u32(uint8_t *out, uint32_t v)
{
	store_be32(out, v);
	return out + 4;
}

static uint8_t *put_string(uint8_t *out, const char *s)
{
	size_t len = strlen(s);

	out = put_u32(out, len);
	memcpy(out, s, len);
	return out + NV_ALIGN4(len);
}

/* Narrow values are written zero-extended, as the Linux kernel wants them; wide enough ones as they are. */
static uint8_t *put_int(uint8_t *out, const struct nvpair *p, size_t i)
{
	unsigned width = nv_type_info(p->type)->width;
	uint64_t v = nvpair_int(p, i);

	if (width == 8) {
		store_be64(out, v);
		return out + 8;
	}
	return put_u32(out, width == 4 || p->type == NV_INT16 || p->type == NV_INT16_ARRAY
				? (uint32_t)v
				: (uint32_t)bits64(v, 0, 8 * width));
}

static uint8_t *put_value(uint8_t *out, const struct nvpair *p)
{
	const struct nv_type_info *info = nv_type_info(p->type);

	if (p->count == 0)
		return out;
	if (p->type == NV_BYTE_ARRAY) {
		memcpy(out, p->ints, p->count);
		return out + NV_ALIGN4(p->count);
	}
	if (info->shape == NV_SHAPE_INT && info->is_array)
		out = put_u32(out, p->count);
	for (size_t i = 0; i < p->count; i++) {
		if (info->shape == NV_SHAPE_INT)
			out = put_int(out, p, i);
		else if (info->shape == NV_SHAPE_STRING)
			out = put_string(out, p->strings[i]);
		else
			out = nv_xdr_pack(p->lists[i], out);
	}
	return out;
}

uint8_t *nv_xdr_pack(const struct nvlist *l, uint8_t *out)
{
	out = put_u32(out, 0);
	out = put_u32(out, 1); /* names are unique */
	for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_next(l, p)) {
		out = put_u32(out, pair_size(p));
		out = put_u32(out, nvpair_decoded_size(p));
		out = put_string(out, p->name);
		out = put_u32(out, p->type);
		out = put_u32(out, p->count);
		out = put_value(out, p);
	}
	return out + 8; /* the buffer is zero */
}
