/*
 * The list in memory: pairs in the order they were added, a hash index once there are many.
 */
#include "nv/nv_impl.h"

#define INDEX_AT 16 /* pairs; shorter lists are searched one by one */

#define INT(w, s, a)                                                                                                   \
	{                                                                                                              \
		NV_SHAPE_INT, w, a, s                                                                                  \
	}
static const struct nv_type_info type_table[] = {
    [NV_BOOLEAN] = {NV_SHAPE_FLAG, 0, false, false},
    [NV_BYTE] = INT(1, false, false),
    [NV_INT16] = INT(2, true, false),
    [NV_UINT16] = INT(2, false, false),
    [NV_INT32] = INT(4, true, false),
    [NV_UINT32] = INT(4, false, false),
    [NV_INT64] = INT(8, true, false),
    [NV_UINT64] = INT(8, false, false),
    [NV_STRING] = {NV_SHAPE_STRING, 0, false, false},
    [NV_BYTE_ARRAY] = INT(1, false, true),
    [NV_INT16_ARRAY] = INT(2, true, true),
    [NV_UINT16_ARRAY] = INT(2, false, true),
    [NV_INT32_ARRAY] = INT(4, true, true),
    [NV_UINT32_ARRAY] = INT(4, false, true),
    [NV_INT64_ARRAY] = INT(8, true, true),
    [NV_UINT64_ARRAY] = INT(8, false, true),
    [NV_STRING_ARRAY] = {NV_SHAPE_STRING, 0, true, false},
    [NV_HRTIME] = INT(8, true, false),
    [NV_NVLIST] = {NV_SHAPE_LIST, 0, false, false},
    [NV_NVLIST_ARRAY] = {NV_SHAPE_LIST, 0, true, false},
    [NV_BOOLEAN_VALUE] = INT(4, false, false),
    [NV_INT8] = INT(1, true, false),
    [NV_UINT8] = INT(1, false, false),
    [NV_BOOLEAN_ARRAY] = INT(4, false, true),
    [NV_INT8_ARRAY] = INT(1, true, true),
    [NV_UINT8_ARRAY] = INT(1, false, true),
    [NV_DOUBLE] = INT(8, false, false),
};

const struct nv_type_info *nv_type_info(uint32_t type)
{
	return &type_table[type < ARRAY_LEN(type_table) ? type : 0];
}

static uint32_t name_hash(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return h;
}

static struct nvpair *pair_of(struct list_node *n)
{
	return container_of(n, struct nvpair, node);
}

/* --- pairs --- */
struct nvpair *nvpair_create(const char *name, size_t namelen, enum nv_type type, size_t count)
{
	const struct nv_type_info *info = nv_type_info(type);
	struct nvpair *p = xcalloc(1, sizeof(*p));

	p->type = type;
	p->count = count;
	p->name = malloc(namelen + 1);
	if (!p->name)
		goto fail;
	memcpy(p->name, name, namelen);
	p->name[namelen] = '\0';
	p->hash = name_hash(p->name);
	if (info->shape == NV_SHAPE_INT && info->is_array)
		p->ints = calloc(MAX(count, 1), info->width);
	else if (info->shape == NV_SHAPE_STRING || info->shape == NV_SHAPE_LIST)
		p->ints = calloc(MAX(count, 1), sizeof(void *));
	else
		return p;
	if (p->ints)
		return p;
fail:
	free(p->name);
	free(p);
	return NULL;
}

void nvpair_destroy(struct nvpair *p)
{
	const struct nv_type_info *info;

	if (!p)
		return;
	info = nv_type_info(p->type);
	for (size_t i = 0; info->shape == NV_SHAPE_STRING && i < p->count; i++)
		free(p->strings[i]);
	for (size_t i = 0; info->shape == NV_SHAPE_LIST && i < p->count; i++)
		nvlist_destroy(p->lists[i]);
	if (info->is_array || info->shape == NV_SHAPE_STRING || info->shape == NV_SHAPE_LIST)
		free(p->ints);
	free(p->name);
	free(p);
}

void *nvpair_ints(const struct nvpair *p)
{
	return nv_type_info(p->type)->is_array ? p->ints : (void *)&p->scalar;
}

void nvpair_int_set(struct nvpair *p, size_t i, uint64_t v)
{
	unsigned width = nv_type_info(p->type)->width;
	uint8_t *at = (uint8_t *)nvpair_ints(p) + i * width;

	if (width == 8)
		store_host64(at, v);
	else if (width == 4)
		store_host32(at, v);
	else if (width == 2)
		store_host16(at, v);
	else
		*at = v;
}

uint64_t nvpair_int(const struct nvpair *p, size_t i)
{
	const struct nv_type_info *info = nv_type_info(p->type);
	const uint8_t *at = (const uint8_t *)nvpair_ints(p) + i * info->width;

	if (info->shape != NV_SHAPE_INT || i >= p->count)
		return 0;
	if (info->width == 8)
		return load_host64(at);
	if (info->width == 4)
		return info->is_signed ? (uint64_t)(int64_t)(int32_t)load_host32(at) : load_host32(at);
	if (info->width == 2)
		return info->is_signed ? (uint64_t)(int64_t)(int16_t)load_host16(at) : load_host16(at);
	return info->is_signed ? (uint64_t)(int64_t)(int8_t)*at : *at;
}

size_t nvpair_value_size(const struct nvpair *p)
{
	const struct nv_type_info *info = nv_type_info(p->type);
	size_t size = info->is_array && info->shape != NV_SHAPE_INT ? 8 * p->count : 0;

	if (info->shape == NV_SHAPE_INT)
		return info->width * p->count;
	for (size_t i = 0; info->shape == NV_SHAPE_STRING && i < p->count; i++)
		size += strlen(p->strings[i]) + 1;
	if (info->shape == NV_SHAPE_LIST)
		size += 24 * p->count;
	return size;
}

size_t nvpair_decoded_size(const struct nvpair *p)
{
	return NV_ALIGN8(16 + strlen(p->name) + 1) + NV_ALIGN8(nvpair_value_size(p));
}

const char *nvpair_name(const struct nvpair *p)
{
	return p->name;
}

enum nv_type nvpair_type(const struct nvpair *p)
{
	return p->type;
}

size_t nvpair_count(const struct nvpair *p)
{
	return p->count;
}

const char *nvpair_string(const struct nvpair *p, size_t i)
{
	return nv_type_info(p->type)->shape == NV_SHAPE_STRING && i < p->count ? p->strings[i] : "";
}

struct nvlist *nvpair_list(const struct nvpair *p, size_t i)
{
	return nv_type_info(p->type)->shape == NV_SHAPE_LIST && i < p->count ? p->lists[i] : NULL;
}

static struct nvpair *pair_copy(const struct nvpair *from)
{
	const struct nv_type_info *info = nv_type_info(from->type);
	struct nvpair *p = nvpair_create(from->name, strlen(from->name), from->type, from->count);

	BUG_ON(!p);
	for (size_t i = 0; i < from->count; i++) {
		if (info->shape == NV_SHAPE_INT)
			nvpair_int_set(p, i, nvpair_int(from, i));
		else if (info->shape == NV_SHAPE_STRING)
			p->strings[i] = xstrdup(from->strings[i]);
		else if (info->shape == NV_SHAPE_LIST)
			p->lists[i] = nvlist_copy(from->lists[i]);
	}
	return p;
}

/* --- lists --- */
struct nvlist *nvlist_create(void)
{
	struct nvlist *l = xcalloc(1, sizeof(*l));

	list_init(&l->pairs);
	return l;
}

void nvlist_destroy(struct nvlist *l)
{
	struct list_node *n;

	if (!l)
		return;
	while ((n = list_pop(&l->pairs)))
		nvpair_destroy(pair_of(n));
	free(l->bucket);
	free(l);
}

struct nvlist *nvlist_copy(const struct nvlist *l)
{
	struct nvlist *copy = nvlist_create();

	for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_next(l, p))
		nvlist_insert(copy, pair_copy(p));
	return copy;
}

static void index_add(struct nvlist *l, struct nvpair *p)
{
	struct nvpair **slot = &l->bucket[p->hash & (l->nbuckets - 1)];

	p->chain = *slot;
	*slot = p;
}

static void index_grow(struct nvlist *l)
{
	free(l->bucket);
	l->nbuckets = l->nbuckets ? l->nbuckets * 4 : INDEX_AT * 4;
	l->bucket = xcalloc(l->nbuckets, sizeof(*l->bucket));
	list_for_each(&l->pairs, n)
		index_add(l, pair_of(n));
}

static void index_drop(struct nvlist *l, struct nvpair *p)
{
	struct nvpair **slot;

	if (!l->bucket)
		return;
	slot = &l->bucket[p->hash & (l->nbuckets - 1)];
	while (*slot != p)
		slot = &(*slot)->chain;
	*slot = p->chain;
}

static struct nvpair *pair_find(const struct nvlist *l, const char *name)
{
	uint32_t hash = name_hash(name);

	if (l->bucket) {
		for (struct nvpair *p = l->bucket[hash & (l->nbuckets - 1)]; p; p = p->chain)
			if (p->hash == hash && strcmp(p->name, name) == 0)
				return p;
		return NULL;
	}
	for (struct list_node *n = l->pairs.head.next; n != &l->pairs.head; n = n->next)
		if (pair_of(n)->hash == hash && strcmp(pair_of(n)->name, name) == 0)
			return pair_of(n);
	return NULL;
}

static void pair_drop(struct nvlist *l, struct nvpair *p)
{
	index_drop(l, p);
	list_remove(&l->pairs, &p->node);
	nvpair_destroy(p);
}

void nvlist_insert(struct nvlist *l, struct nvpair *p)
{
	struct nvpair *old = pair_find(l, p->name);

	if (old)
		pair_drop(l, old);
	list_append(&l->pairs, &p->node);
	if (l->pairs.len > INDEX_AT && l->pairs.len * 2 > l->nbuckets)
		index_grow(l);
	else if (l->bucket)
		index_add(l, p);
}

int nvlist_remove(struct nvlist *l, const char *name)
{
	struct nvpair *p = pair_find(l, name);

	if (!p)
		return -ENOENT;
	pair_drop(l, p);
	return 0;
}

const struct nvpair *nvlist_first(const struct nvlist *l)
{
	return l->pairs.len ? pair_of(l->pairs.head.next) : NULL;
}

const struct nvpair *nvlist_next(const struct nvlist *l, const struct nvpair *p)
{
	return p->node.next == &l->pairs.head ? NULL : pair_of(p->node.next);
}

size_t nvlist_len(const struct nvlist *l)
{
	return l->pairs.len;
}

/* --- look-ups --- */
static int find_typed(const struct nvlist *l, const char *name, enum nv_type type, struct nvpair **out)
{
	*out = pair_find(l, name);
	if (!*out)
		return -ENOENT;
	return (*out)->type == type ? 0 : -EINVAL;
}

int nvlist_u64(const struct nvlist *l, const char *name, uint64_t *v)
{
	struct nvpair *p;
	int err = find_typed(l, name, NV_UINT64, &p);

	if (!err)
		*v = nvpair_int(p, 0);
	return err;
}

int nvlist_i64(const struct nvlist *l, const char *name, int64_t *v)
{
	struct nvpair *p;
	int err = find_typed(l, name, NV_INT64, &p);

	if (!err)
		*v = (int64_t)nvpair_int(p, 0);
	return err;
}

int nvlist_string(const struct nvlist *l, const char *name, const char **v)
{
	struct nvpair *p;
	int err = find_typed(l, name, NV_STRING, &p);

	if (!err)
		*v = p->strings[0];
	return err;
}

int nvlist_list(const struct nvlist *l, const char *name, struct nvlist **v)
{
	struct nvpair *p;
	int err = find_typed(l, name, NV_NVLIST, &p);

	if (!err)
		*v = p->lists[0];
	return err;
}

int nvlist_lists(const struct nvlist *l, const char *name, struct nvlist *const **v, size_t *n)
{
	struct nvpair *p;
	int err = find_typed(l, name, NV_NVLIST_ARRAY, &p);

	if (err)
		return err;
	*v = p->lists;
	*n = p->count;
	return 0;
}

int nvlist_u64s(const struct nvlist *l, const char *name, const uint64_t **v, size_t *n)
{
	struct nvpair *p;
	int err = find_typed(l, name, NV_UINT64_ARRAY, &p);

	if (err)
		return err;
	*v = p->ints;
	*n = p->count;
	return 0;
}

int nvlist_strings(const struct nvlist *l, const char *name, const char *const **v, size_t *n)
{
	struct nvpair *p;
	int err = find_typed(l, name, NV_STRING_ARRAY, &p);

	if (err)
		return err;
	*v = (const char *const *)p->strings;
	*n = p->count;
	return 0;
}

int nvlist_bytes(const struct nvlist *l, const char *name, const uint8_t **v, size_t *n)
{
	struct nvpair *p = pair_find(l, name);

	if (!p)
		return -ENOENT;
	if (p->type != NV_BYTE_ARRAY && p->type != NV_UINT8_ARRAY)
		return -EINVAL;
	*v = p->ints;
	*n = p->count;
	return 0;
}

bool nvlist_bool(const struct nvlist *l, const char *name)
{
	struct nvpair *p = pair_find(l, name);

	return p && (p->type == NV_BOOLEAN || (p->type == NV_BOOLEAN_VALUE && nvpair_int(p, 0)));
}

bool nvlist_exists(const struct nvlist *l, const char *name)
{
	return pair_find(l, name) != NULL;
}

uint64_t nvlist_u64_or(const struct nvlist *l, const char *name, uint64_t fallback)
{
	nvlist_u64(l, name, &fallback);
	return fallback;
}

const char *nvlist_string_or(const struct nvlist *l, const char *name, const char *fallback)
{
	nvlist_string(l, name, &fallback);
	return fallback;
}

/* --- adding --- */
static struct nvpair *pair_new(const char *name, enum nv_type type, size_t count)
{
	struct nvpair *p = nvpair_create(name, strlen(name), type, count);

	BUG_ON(!p);
	return p;
}

static void add_int(struct nvlist *l, const char *name, enum nv_type type, uint64_t v)
{
	struct nvpair *p = pair_new(name, type, 1);

	nvpair_int_set(p, 0, v);
	nvlist_insert(l, p);
}

void nvlist_add_u64(struct nvlist *l, const char *name, uint64_t v)
{
	add_int(l, name, NV_UINT64, v);
}

void nvlist_add_i64(struct nvlist *l, const char *name, int64_t v)
{
	add_int(l, name, NV_INT64, (uint64_t)v);
}

void nvlist_add_boolean_value(struct nvlist *l, const char *name, bool v)
{
	add_int(l, name, NV_BOOLEAN_VALUE, v);
}

void nvlist_add_boolean(struct nvlist *l, const char *name)
{
	nvlist_insert(l, pair_new(name, NV_BOOLEAN, 0));
}

void nvlist_add_string(struct nvlist *l, const char *name, const char *v)
{
	struct nvpair *p = pair_new(name, NV_STRING, 1);

	p->strings[0] = xstrdup(v);
	nvlist_insert(l, p);
}

void nvlist_take_list(struct nvlist *l, const char *name, struct nvlist *v)
{
	struct nvpair *p = pair_new(name, NV_NVLIST, 1);

	p->lists[0] = v;
	nvlist_insert(l, p);
}

void nvlist_add_pair(struct nvlist *l, const struct nvpair *p)
{
	nvlist_insert(l, pair_copy(p));
}

void nvlist_add_list(struct nvlist *l, const char *name, const struct nvlist *v)
{
	nvlist_take_list(l, name, nvlist_copy(v));
}

void nvlist_add_lists(struct nvlist *l, const char *name, struct nvlist *const *v, size_t n)
{
	struct nvpair *p = pair_new(name, NV_NVLIST_ARRAY, n);

	for (size_t i = 0; i < n; i++)
		p->lists[i] = nvlist_copy(v[i]);
	nvlist_insert(l, p);
}

void nvlist_add_u64s(struct nvlist *l, const char *name, const uint64_t *v, size_t n)
{
	struct nvpair *p = pair_new(name, NV_UINT64_ARRAY, n);

	if (n)
		memcpy(p->ints, v, n * sizeof(*v));
	nvlist_insert(l, p);
}

void nvlist_add_strings(struct nvlist *l, const char *name, const char *const *v, size_t n)
{
	struct nvpair *p = pair_new(name, NV_STRING_ARRAY, n);

	for (size_t i = 0; i < n; i++)
		p->strings[i] = xstrdup(v[i]);
	nvlist_insert(l, p);
}

void nvlist_add_bytes(struct nvlist *l, const char *name, const uint8_t *v, size_t n)
{
	struct nvpair *p = pair_new(name, NV_BYTE_ARRAY, n);

	if (n)
		memcpy(p->ints, v, n);
	nvlist_insert(l, p);
}

/* --- packed form: the 4-byte stream header (1.2) --- */
int nvlist_unpack(const void *data, size_t len, struct nvlist **out, struct err *e)
{
	const uint8_t *bytes = data;
	struct nv_reader r;
	struct nvlist *l;
	int err = -EINVAL;

	*out = NULL;
	if (len < 4)
		return err_set(e, -EINVAL, "name-value list: only %zu bytes", len);
	if (bytes[0] > NV_XDR || bytes[1] > 1)
		return err_set(e, -EINVAL, "name-value list: unknown encoding %u", bytes[0]);
	r = (struct nv_reader){bytes + 4, bytes + len, (bytes[1] == 1) != HOST_IS_LITTLE};
	l = nvlist_create();
	err = bytes[0] == NV_XDR ? nv_xdr_unpack(&r, l, 0) : nv_native_unpack(&r, l, 0);
	if (err) {
		nvlist_destroy(l);
		return err_set(e, err, "name-value list: damaged near byte %zu", (size_t)(r.p - bytes));
	}
	*out = l;
	return 0;
}

int nvlist_pack(const struct nvlist *l, enum nv_encoding enc, void **data, size_t *len)
{
	size_t size = 4 + (enc == NV_XDR ? nv_xdr_size(l) : nv_native_size(l));
	uint8_t *out = calloc(1, size);

	if (!out)
		return -ENOMEM;
	out[0] = enc;
	out[1] = HOST_IS_LITTLE;
	if (enc == NV_XDR)
		nv_xdr_pack(l, out + 4);
	else
		nv_native_pack(l, out + 4);
	*data = out;
	*len = size;
	return 0;
}
