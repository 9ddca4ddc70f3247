/*
 * Changing a leaf of a fat ZAP (02-blocks-and-objects.md, 9.4): in a copy, of which the lines that changed are written
 * back. What the chains and counts of a leaf from the disk say is checked at every step.
 */
#include "dmu/zap_impl.h"

/* Fields of the header. */
#define OFF_PREFIX     16
#define OFF_MAGIC      24
#define OFF_FREE       28
#define OFF_ENTRIES    30
#define OFF_PREFIX_LEN 32
#define OFF_FIRST_FREE 34
#define OFF_FLAGS      36

static size_t block_size(const struct zap_edit *e)
{
	return (size_t)1 << e->leaf.block_shift;
}

static void mark(struct zap_edit *e, const uint8_t *p, size_t len)
{
	size_t first = (p - e->data) / ZAP_LINE, last = (p - e->data + len - 1) / ZAP_LINE;

	for (size_t i = first; i <= last; i++)
		e->dirty[i / 8] |= 1u << i % 8;
}

static void put16(struct zap_edit *e, uint8_t *p, unsigned v)
{
	store_host16(p, v);
	mark(e, p, 2);
}

static uint8_t *chunk_at(const struct zap_edit *e, unsigned n)
{
	return e->data + LEAF_HEADER + block_size(e) / 16 + (size_t)n * CHUNK;
}

static uint8_t *slot_of(const struct zap_edit *e, uint64_t hash)
{
	uint64_t slot = hash << e->leaf.prefix_len >> (64 - (e->leaf.block_shift - 5));

	return e->data + LEAF_HEADER + 2 * slot;
}

unsigned zap_edit_free_chunks(const struct zap_edit *e)
{
	return load_host16(e->data + OFF_FREE);
}

unsigned zap_edit_entries(const struct zap_edit *e)
{
	return load_host16(e->data + OFF_ENTRIES);
}

void zap_edit_set_prefix(struct zap_edit *e, uint64_t prefix, unsigned prefix_len)
{
	e->leaf.prefix = prefix;
	e->leaf.prefix_len = prefix_len;
	store_host64(e->data + OFF_PREFIX, prefix);
	put16(e, e->data + OFF_PREFIX_LEN, prefix_len);
	mark(e, e->data, LEAF_HEADER);
}

/* --- opening and writing --- */

static void edit_init(const struct zap *z, uint64_t blkid, struct zap_edit *e)
{
	size_t size = (size_t)1 << z->block_shift;

	*e = (struct zap_edit){.blkid = blkid, .data = xcalloc(1, size + size / ZAP_LINE / 8)};
	e->dirty = e->data + size;
	e->leaf.block = (struct zap_block){.data = e->data, .len = size};
	e->leaf.block_shift = z->block_shift;
	e->leaf.nchunks = (size - size / 16) / CHUNK - 2;
}

/* 9.9: a leaf of the other byte order. */
static void order_mend(struct zap_edit *e)
{
	swap64_buffer(e->data, 24);
	swap32_buffer(e->data + OFF_MAGIC, 4);
	swap16_buffer(e->data + OFF_FREE, 8);
	swap16_buffer(e->data + LEAF_HEADER, block_size(e) / 16);
	for (unsigned i = 0; i < e->leaf.nchunks; i++) {
		uint8_t *p = chunk_at(e, i);

		if (p[0] == CHUNK_ENTRY) {
			swap16_buffer(p + 2, 10);
			swap32_buffer(p + 12, 4);
			swap64_buffer(p + 16, 8);
		} else {
			swap16_buffer(p + 22, 2);
		}
	}
	memset(e->dirty, 0xff, block_size(e) / ZAP_LINE / 8);
}

int zap_edit_open(struct zap *z, uint64_t index, struct zap_edit *out)
{
	struct zap_leaf leaf;
	uint64_t blkid;
	int err = zap_fat_table_entry(z, index, &blkid);

	*out = (struct zap_edit){0};
	if (err)
		return err;
	err = zap_leaf_open(z, blkid, index, &leaf);
	if (!err) {
		edit_init(z, blkid, out);
		memcpy(out->data, leaf.block.data, leaf.block.len);
		out->leaf.prefix = leaf.prefix;
		out->leaf.prefix_len = leaf.prefix_len;
		if (leaf.swap)
			order_mend(out);
	}
	zap_block_release(&leaf.block);
	return err;
}

void zap_edit_new(const struct zap *z, uint64_t blkid, uint64_t prefix, unsigned prefix_len, struct zap_edit *out)
{
	edit_init(z, blkid, out);
	store_host64(out->data, ZAP_TYPE_LEAF);
	store_host32(out->data + OFF_MAGIC, LEAF_MAGIC);
	store_host16(out->data + OFF_FREE, out->leaf.nchunks);
	out->data[OFF_FLAGS] = z->normflags ? LEAF_CD_SORTED : 0;
	zap_edit_set_prefix(out, prefix, prefix_len);
	memset(out->data + LEAF_HEADER, 0xff, block_size(out) / 16);
	for (unsigned i = 0; i < out->leaf.nchunks; i++) {
		chunk_at(out, i)[0] = CHUNK_FREE;
		store_host16(chunk_at(out, i) + 22, i + 1 < out->leaf.nchunks ? i + 1 : CHUNK_END);
	}
	memset(out->dirty, 0xff, block_size(out) / ZAP_LINE / 8);
}

static bool line_is_dirty(const struct zap_edit *e, size_t i)
{
	return e->dirty[i / 8] >> i % 8 & 1;
}

int zap_edit_write(struct zap *z, struct zap_edit *e)
{
	size_t lines = block_size(e) / ZAP_LINE;
	uint64_t at = e->blkid << e->leaf.block_shift;
	int err = 0;

	for (size_t i = 0, end; i < lines && !err; i = end) {
		end = i + 1;
		if (!line_is_dirty(e, i))
			continue;
		while (end < lines && line_is_dirty(e, end))
			end++;
		err = z->source->write(z->source, at + i * ZAP_LINE, e->data + i * ZAP_LINE, (end - i) * ZAP_LINE);
	}
	memset(e->dirty, 0, lines / 8);
	return err;
}

void zap_edit_close(struct zap_edit *e)
{
	free(e->data);
	*e = (struct zap_edit){0};
}

/* --- chunks --- */

/* The first free chunk: CHUNK_END when the list of free ones is damaged or shorter than its count. */
static unsigned chunk_take(struct zap_edit *e)
{
	unsigned n = load_host16(e->data + OFF_FIRST_FREE), left = zap_edit_free_chunks(e);
	uint8_t *p;

	if (left == 0 || n >= e->leaf.nchunks)
		return CHUNK_END;
	p = chunk_at(e, n);
	if (p[0] != CHUNK_FREE)
		return CHUNK_END;
	put16(e, e->data + OFF_FREE, left - 1);
	put16(e, e->data + OFF_FIRST_FREE, load_host16(p + 22));
	memset(p, 0, CHUNK);
	mark(e, p, CHUNK);
	return n;
}

static void chunk_give(struct zap_edit *e, unsigned n)
{
	uint8_t *p = chunk_at(e, n);

	memset(p, 0, CHUNK);
	p[0] = CHUNK_FREE;
	store_host16(p + 22, load_host16(e->data + OFF_FIRST_FREE));
	mark(e, p, CHUNK);
	put16(e, e->data + OFF_FIRST_FREE, n);
	put16(e, e->data + OFF_FREE, zap_edit_free_chunks(e) + 1);
}

/* Bytes that an array of chunks takes, one after the other. */
struct feed {
	uint8_t (*byte)(const struct feed *f, size_t at);
	const uint8_t *bytes;
	const struct zap_value *value;
	size_t len;
};

static uint8_t feed_bytes(const struct feed *f, size_t at)
{
	return f->bytes[at];
}

/* Integers go in big-endian. */
static uint8_t feed_ints(const struct feed *f, size_t at)
{
	unsigned size = f->value->intsize;
	const uint8_t *p = (const uint8_t *)f->value->ints + at / size * size;

	return HOST_IS_LITTLE ? p[size - 1 - at % size] : p[at % size];
}

/* *first: CHUNK_END for no bytes. */
static int array_store(struct zap_edit *e, const struct feed *f, unsigned *first)
{
	uint8_t *link = NULL;

	*first = CHUNK_END;
	for (size_t at = 0; at < f->len;) {
		unsigned n = chunk_take(e);
		uint8_t *p;

		if (n == CHUNK_END)
			return -EINVAL;
		p = chunk_at(e, n);
		p[0] = CHUNK_ARRAY;
		for (unsigned i = 0; i < CHUNK_ARRAY_LEN && at < f->len; i++)
			p[1 + i] = f->byte(f, at++);
		store_host16(p + 22, CHUNK_END);
		if (link)
			store_host16(link, n);
		else
			*first = n;
		link = p + 22;
	}
	return 0;
}

static int array_free(struct zap_edit *e, unsigned chunk, size_t len)
{
	for (unsigned left = zap_chunks(len); left > 0; left--) {
		unsigned n = chunk;

		if (n >= e->leaf.nchunks || chunk_at(e, n)[0] != CHUNK_ARRAY)
			return -EINVAL;
		chunk = load_host16(chunk_at(e, n) + 22);
		chunk_give(e, n);
	}
	return 0;
}

/* --- entries --- */

/* Where the number of the chunk stands to which a chain leads: the slot, or an entry's field. NULL: damage. */
static uint8_t *chain_next(const struct zap_edit *e, const uint8_t *link)
{
	unsigned n = load_host16(link);

	if (n >= e->leaf.nchunks || chunk_at(e, n)[0] != CHUNK_ENTRY)
		return NULL;
	return chunk_at(e, n) + 2;
}

static int chain_insert(struct zap_edit *e, uint64_t hash, uint32_t cd, unsigned chunk)
{
	uint8_t *link = slot_of(e, hash);

	for (unsigned steps = 0; load_host16(link) != CHUNK_END; steps++) {
		uint8_t *next = chain_next(e, link);

		if (!next || steps >= e->leaf.nchunks)
			return -EINVAL;
		if (load_host32(next + 10) > cd)
			break;
		link = next;
	}
	store_host16(chunk_at(e, chunk) + 2, load_host16(link));
	put16(e, link, chunk);
	return 0;
}

/* Name and value are in their chunks. */
static int entry_store(struct zap_edit *e, const struct zap_item *it)
{
	unsigned n = chunk_take(e);
	uint8_t *p;

	if (n == CHUNK_END)
		return -EINVAL;
	p = chunk_at(e, n);
	p[0] = CHUNK_ENTRY;
	p[1] = it->intsize;
	store_host16(p + 4, it->name_chunk);
	store_host16(p + 6, it->name_ints);
	store_host16(p + 8, it->value_chunk);
	store_host16(p + 10, it->nints);
	store_host32(p + 12, it->cd);
	store_host64(p + 16, it->hash);
	put16(e, e->data + OFF_ENTRIES, zap_edit_entries(e) + 1);
	return chain_insert(e, it->hash, it->cd, n);
}

static struct feed value_feed(const struct zap_value *v)
{
	return (struct feed){.byte = feed_ints, .value = v, .len = v->intsize * v->nints};
}

int zap_edit_insert(struct zap_edit *e, const struct zap_key *key, const struct zap_value *v, uint32_t cd)
{
	struct feed name = {.byte = feed_bytes, .bytes = key->bytes, .len = key->len}, value = value_feed(v);
	struct zap_item it = {
	    .hash = key->hash,
	    .cd = cd,
	    .intsize = v->intsize,
	    .nints = v->nints,
	    .name_ints = key->ints,
	};

	if (array_store(e, &name, &it.name_chunk) || array_store(e, &value, &it.value_chunk))
		return -EINVAL;
	return entry_store(e, &it);
}

/* The link that leads to this entry. */
static uint8_t *entry_link(const struct zap_edit *e, const struct zap_item *it)
{
	uint8_t *link = slot_of(e, it->hash);

	for (unsigned steps = 0; link && steps <= e->leaf.nchunks; steps++) {
		uint8_t *next = chain_next(e, link);

		if (next && load_host64(next + 14) == it->hash && load_host16(next + 2) == it->name_chunk)
			return link;
		link = next;
	}
	return NULL;
}

int zap_edit_replace(struct zap_edit *e, const struct zap_item *it, const struct zap_value *v)
{
	uint8_t *link = entry_link(e, it), *p;
	struct feed value = value_feed(v);
	unsigned chunk;

	if (!link)
		return -EINVAL;
	p = chunk_at(e, load_host16(link));
	if (array_free(e, it->value_chunk, it->intsize * it->nints) || array_store(e, &value, &chunk))
		return -EINVAL;
	p[1] = v->intsize;
	store_host16(p + 8, chunk);
	store_host16(p + 10, v->nints);
	mark(e, p, CHUNK);
	return 0;
}

static size_t name_bytes(const struct zap_item *it, bool words)
{
	return (size_t)it->name_ints * (words ? 8 : 1);
}

int zap_edit_remove(struct zap_edit *e, const struct zap_item *it, bool words)
{
	uint8_t *link = entry_link(e, it), *p;
	unsigned n;

	if (!link || zap_edit_entries(e) == 0)
		return -EINVAL;
	n = load_host16(link);
	p = chunk_at(e, n);
	put16(e, link, load_host16(p + 2));
	chunk_give(e, n);
	put16(e, e->data + OFF_ENTRIES, zap_edit_entries(e) - 1);
	if (array_free(e, it->name_chunk, name_bytes(it, words)))
		return -EINVAL;
	return array_free(e, it->value_chunk, it->intsize * it->nints);
}

/* --- many entries --- */

static int entry_copy(const struct zap_item *from, bool words, struct zap_edit *to)
{
	size_t nlen = name_bytes(from, words), vlen = from->intsize * from->nints;
	autofree uint8_t *bytes = xmalloc(MAX(nlen + vlen, 1));
	struct feed name = {.byte = feed_bytes, .bytes = bytes, .len = nlen};
	struct feed value = {.byte = feed_bytes, .bytes = bytes + nlen, .len = vlen};
	struct zap_item it = *from;

	if (zap_leaf_bytes(from->leaf, from->name_chunk, nlen, bytes) ||
	    zap_leaf_bytes(from->leaf, from->value_chunk, vlen, bytes + nlen))
		return -EINVAL;
	if (array_store(to, &name, &it.name_chunk) || array_store(to, &value, &it.value_chunk))
		return -EINVAL;
	return entry_store(to, &it);
}

int zap_edit_divide(const struct zap_edit *from, bool words, struct zap_edit *low, struct zap_edit *high)
{
	struct zap_item it;
	int err = 0;

	for (unsigned i = 0; i < from->leaf.nchunks && !err; i++) {
		if (chunk_at(from, i)[0] != CHUNK_ENTRY)
			continue;
		err = zap_leaf_item(&from->leaf, i, &it);
		if (!err)
			err = entry_copy(&it, words, it.hash >> (63 - from->leaf.prefix_len) & 1 ? high : low);
	}
	return err;
}

uint32_t zap_edit_cd(const struct zap_edit *e, uint64_t hash, bool words, unsigned *chunks)
{
	/* no more entries than chunks: the smallest unused cd is at most their number */
	autofree uint8_t *used = xcalloc(1, e->leaf.nchunks + 1);
	struct zap_item it;
	uint32_t cd = 0;

	*chunks = 0;
	for (unsigned i = 0; i < e->leaf.nchunks; i++) {
		if (chunk_at(e, i)[0] != CHUNK_ENTRY || load_host64(chunk_at(e, i) + 16) != hash)
			continue;
		if (zap_leaf_item(&e->leaf, i, &it))
			continue;
		if (it.cd < e->leaf.nchunks)
			used[it.cd] = 1;
		*chunks += 1 + zap_chunks(name_bytes(&it, words)) + zap_chunks(it.intsize * it.nints);
	}
	while (used[cd])
		cd++;
	return cd;
}
