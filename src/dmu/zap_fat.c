/*
 * The fat ZAP: header, pointer table, leaves (02-blocks-and-objects.md, 9.3 and 9.4).
 *
 * Every walk is bounded by the number of chunks of a leaf, whatever the chains say. A leaf counts only in the place of
 * the pointer table that its own prefix names, so that no damage makes a cursor visit one twice.
 */
#include "dmu/zap_impl.h"

/* 9.3: where the table is and how many entries it has must agree. */
static int table_check(const struct zap *z, uint64_t shift)
{
	if (shift == 0 || shift > zap_hash_bits(z))
		return -EINVAL;
	if (z->table_nblks == 0)
		return z->table_blk == 0 && shift == z->block_shift - 4 ? 0 : -EINVAL;
	if (shift < z->block_shift - 3 || z->table_nblks != UINT64_C(1) << (shift - (z->block_shift - 3)))
		return -EINVAL;
	if (z->table_blk == 0 || z->table_blk >= z->source->nblocks ||
	    z->table_nblks > z->source->nblocks - z->table_blk)
		return -EINVAL;
	return 0;
}

int zap_fat_open(struct zap *z)
{
	const uint8_t *p = z->head.data;
	uint64_t shift;

	if (!IS_POW2(z->head.len) || z->head.len < 1u << FAT_SHIFT_MIN || z->head.len > 1u << FAT_SHIFT_MAX ||
	    load64(p + 8, z->swap) != FAT_MAGIC)
		return -EINVAL;
	z->block_shift = __builtin_ctz(z->head.len);
	z->table_blk = load64(p + 16, z->swap);
	z->table_nblks = load64(p + 24, z->swap);
	shift = load64(p + 32, z->swap);
	z->freeblk = load64(p + 56, z->swap);
	z->nleaves = load64(p + 64, z->swap);
	z->nentries = load64(p + 72, z->swap);
	z->salt = load64(p + 80, z->swap);
	z->normflags = load64(p + 88, z->swap);
	z->flags = load64(p + 96, z->swap);
	if (z->normflags & ~(uint64_t)ZAP_NORM_ALL || table_check(z, shift))
		return -EINVAL;
	z->table_shift = shift;
	return 0;
}

/* Hold the table block with this number of the table. */
static int table_hold(struct zap *z, uint64_t n)
{
	int err;

	if (z->table_held == z->table_blk + n)
		return 0;
	zap_block_release(&z->table);
	z->table_held = 0;
	err = z->source->read(z->source, z->table_blk + n, &z->table);
	if (!err)
		z->table_held = z->table_blk + n;
	return err;
}

bool zap_blkid_is_valid(const struct zap *z, uint64_t blkid)
{
	return blkid > 0 && blkid < z->source->nblocks;
}

int zap_fat_table_entry(struct zap *z, uint64_t index, uint64_t *blkid)
{
	uint64_t at = index * 8, v;
	int err;

	if (z->table_nblks == 0) {
		v = load64(z->head.data + z->head.len / 2 + at, z->swap);
	} else {
		err = table_hold(z, at >> z->block_shift);
		if (err)
			return err;
		v = load64(z->table.data + (at & (z->head.len - 1)), z->swap);
		/* A table block has no mark of its byte order, but block numbers are small: only one order fits. */
		if (!zap_blkid_is_valid(z, v))
			v = __builtin_bswap64(v);
	}
	*blkid = v;
	return zap_blkid_is_valid(z, v) ? 0 : -EINVAL;
}

static const uint8_t *chunk_at(const struct zap_leaf *l, unsigned n)
{
	return l->block.data + LEAF_HEADER + (1u << l->block_shift) / 16 + (size_t)n * CHUNK;
}

static int leaf_check(const struct zap *z, struct zap_leaf *l, uint64_t index)
{
	const uint8_t *p = l->block.data;
	uint64_t type = load_host64(p);

	l->swap = type == __builtin_bswap64(ZAP_TYPE_LEAF);
	if (!l->swap && type != ZAP_TYPE_LEAF)
		return -EINVAL;
	if (load32(p + 24, l->swap) != LEAF_MAGIC)
		return -EINVAL;
	l->block_shift = z->block_shift;
	l->nchunks = (z->head.len - z->head.len / 16) / CHUNK - 2;
	l->prefix = load64(p + 16, l->swap);
	l->prefix_len = load16(p + 32, l->swap);
	if (l->prefix_len > z->table_shift || l->prefix != index >> (z->table_shift - l->prefix_len))
		return -EINVAL;
	return 0;
}

int zap_leaf_open(struct zap *z, uint64_t blkid, uint64_t index, struct zap_leaf *out)
{
	int err;

	*out = (struct zap_leaf){0};
	err = z->source->read(z->source, blkid, &out->block);
	return err ? err : leaf_check(z, out, index);
}

static bool intsize_is_valid(unsigned n)
{
	return n == 1 || n == 2 || n == 4 || n == 8;
}

int zap_leaf_item(const struct zap_leaf *l, unsigned chunk, struct zap_item *out)
{
	const uint8_t *p;

	if (chunk >= l->nchunks)
		return -EINVAL;
	p = chunk_at(l, chunk);
	if (p[0] != CHUNK_ENTRY || !intsize_is_valid(p[1]))
		return -EINVAL;
	*out = (struct zap_item){
	    .hash = load64(p + 16, l->swap),
	    .cd = load32(p + 12, l->swap),
	    .intsize = p[1],
	    .nints = load16(p + 10, l->swap),
	    .leaf = l,
	    .name_chunk = load16(p + 4, l->swap),
	    .name_ints = load16(p + 6, l->swap),
	    .value_chunk = load16(p + 8, l->swap),
	};
	return 0;
}

/* The bytes of an array chunk, and the number of the next. NULL: damaged. */
static const uint8_t *array_chunk(const struct zap_leaf *l, unsigned *chunk)
{
	const uint8_t *p;

	if (*chunk >= l->nchunks)
		return NULL;
	p = chunk_at(l, *chunk);
	if (p[0] != CHUNK_ARRAY)
		return NULL;
	*chunk = load16(p + 22, l->swap);
	return p + 1;
}

int zap_leaf_bytes(const struct zap_leaf *l, unsigned chunk, size_t len, uint8_t *out)
{
	if (len > (size_t)l->nchunks * CHUNK_ARRAY_LEN)
		return -EINVAL;
	while (len > 0) {
		size_t n = MIN(len, CHUNK_ARRAY_LEN);
		const uint8_t *p = array_chunk(l, &chunk);

		if (!p)
			return -EINVAL;
		memcpy(out, p, n);
		out += n;
		len -= n;
	}
	return 0;
}

static void int_store(uint8_t *out, unsigned size, uint64_t v)
{
	if (size == 8)
		store_host64(out, v);
	else if (size == 4)
		store_host32(out, (uint32_t)v);
	else if (size == 2)
		store_host16(out, (uint16_t)v);
	else
		*out = (uint8_t)v;
}

/* Integers are big-endian and may straddle chunks; each is widened to intsize. */
int zap_leaf_value(const struct zap_item *it, unsigned intsize, void *out)
{
	size_t len = it->nints * it->intsize, pos = 0;
	unsigned chunk = it->value_chunk;
	const uint8_t *p = NULL;
	uint8_t *o = out;
	uint64_t v = 0;

	if (len > (size_t)it->leaf->nchunks * CHUNK_ARRAY_LEN)
		return -EINVAL;
	for (; pos < len; pos++) {
		if (pos % CHUNK_ARRAY_LEN == 0 && !(p = array_chunk(it->leaf, &chunk)))
			return -EINVAL;
		v = v << 8 | p[pos % CHUNK_ARRAY_LEN];
		if ((pos + 1) % it->intsize)
			continue;
		int_store(o, intsize, v);
		o += intsize;
		v = 0;
	}
	return 0;
}

static int bytes_match(const struct zap_item *it, const struct zap_key *key)
{
	const uint8_t *want = key->bytes;
	unsigned chunk = it->name_chunk;

	if (it->name_ints != key->ints)
		return 0;
	for (size_t left = key->len; left > 0;) {
		size_t n = MIN(left, CHUNK_ARRAY_LEN);
		const uint8_t *p = array_chunk(it->leaf, &chunk);

		if (!p)
			return -EINVAL;
		if (memcmp(p, want, n) != 0)
			return 0;
		want += n;
		left -= n;
	}
	return 1;
}

/* 1, 0, or damage. */
static int item_matches(const struct zap_item *it, const struct zap_key *key)
{
	uint8_t name[ZAP_NAME_MAX];

	if (it->hash != key->hash)
		return 0;
	if (!key->by_norm)
		return bytes_match(it, key);
	if (it->name_ints == 0 || it->name_ints > sizeof(name) ||
	    zap_leaf_bytes(it->leaf, it->name_chunk, it->name_ints, name))
		return -EINVAL;
	return zap_norm_matches(key, (char *)name, strnlen((char *)name, it->name_ints));
}

static unsigned slot_first(const struct zap_leaf *l, uint64_t hash)
{
	unsigned bits = l->block_shift - 5;
	uint64_t slot = (hash << l->prefix_len) >> (64 - bits);

	return load16(l->block.data + LEAF_HEADER + 2 * slot, l->swap);
}

/* A normalised key may match several entries: the one with the lowest cd is meant. */
int zap_leaf_find(const struct zap_leaf *l, const struct zap_key *key, struct zap_item *out)
{
	unsigned chunk = slot_first(l, key->hash);
	bool found = false;
	struct zap_item it;

	for (unsigned steps = 0; chunk != CHUNK_END; steps++) {
		int match;

		if (steps >= l->nchunks || zap_leaf_item(l, chunk, &it))
			return -EINVAL;
		match = item_matches(&it, key);
		if (match < 0)
			return match;
		if (match && (!found || it.cd < out->cd)) {
			*out = it;
			found = true;
			if (!key->by_norm)
				break;
		}
		chunk = load16(chunk_at(l, chunk) + 2, l->swap);
	}
	return found ? 0 : -ENOENT;
}

int zap_fat_find(struct zap *z, const struct zap_key *key, struct zap_leaf *leaf, struct zap_item *out)
{
	uint64_t index = key->hash >> (64 - z->table_shift), blkid;
	int err;

	*leaf = (struct zap_leaf){0};
	err = zap_fat_table_entry(z, index, &blkid);
	if (!err)
		err = zap_leaf_open(z, blkid, index, leaf);
	return err ? err : zap_leaf_find(leaf, key, out);
}

unsigned zap_leaf_list(const struct zap_leaf *l, struct zap_pos *pos)
{
	struct zap_item it;
	unsigned n = 0;

	for (unsigned i = 0; i < l->nchunks; i++) {
		if (zap_leaf_item(l, i, &it))
			continue;
		/* an entry that no lookup could find here would break the order of the cursor */
		if (l->prefix_len && it.hash >> (64 - l->prefix_len) != l->prefix)
			continue;
		pos[n++] = (struct zap_pos){it.hash, it.cd, i};
	}
	return n;
}
