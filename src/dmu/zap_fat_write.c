/*
 * Changing a fat ZAP: entries, splitting and joining of leaves, growing of the pointer table (02-blocks-and-objects.md,
 * 9.3 - 9.5). The fields in struct zap lead; the header is stored from them.
 */
#include "dmu/zap_impl.h"

static int blocks_write(struct zap *z, uint64_t blkid, const void *data, size_t len)
{
	return z->source->write(z->source, blkid << z->block_shift, data, len);
}

static bool keys_are_words(const struct zap *z)
{
	return z->flags & ZAP_FLAG_U64_KEYS;
}

/* --- header --- */

static void header_fill(const struct zap *z, uint8_t *p)
{
	memset(p, 0, FAT_HEADER);
	store_host64(p, ZAP_TYPE_FAT);
	store_host64(p + 8, FAT_MAGIC);
	store_host64(p + 16, z->table_blk);
	store_host64(p + 24, z->table_nblks);
	store_host64(p + 32, z->table_shift);
	store_host64(p + 56, z->freeblk);
	store_host64(p + 64, z->nleaves);
	store_host64(p + 72, z->nentries);
	store_host64(p + 80, z->salt);
	store_host64(p + 88, z->normflags);
	store_host64(p + 96, z->flags);
}

static int header_store(struct zap *z)
{
	uint8_t p[FAT_HEADER];

	header_fill(z, p);
	return z->source->write(z->source, 0, p, sizeof(p));
}

int zap_fat_format(struct zap_source *s, uint64_t salt, uint64_t normflags, uint64_t flags)
{
	size_t size = s->block_size;
	struct zap z = {
	    .source = s,
	    .block_shift = __builtin_ctz(s->block_size),
	    .freeblk = 2,
	    .nleaves = 1,
	    .salt = salt,
	    .normflags = normflags,
	    .flags = flags,
	};
	autofree uint8_t *p = xcalloc(1, size);
	struct zap_edit leaf;
	int err;

	z.table_shift = z.block_shift - 4;
	header_fill(&z, p);
	for (size_t at = size / 2; at < size; at += 8)
		store_host64(p + at, 1);
	err = s->write(s, 0, p, size);
	zap_edit_new(&z, 1, 0, 0, &leaf);
	if (!err)
		err = zap_edit_write(&z, &leaf);
	zap_edit_close(&leaf);
	return err;
}

/* --- pointer table --- */

/* Block n of the table that starts at `table`, in host order; *mended: it was not. The block is zero-extended to `out`.
 */
static int table_block_read(struct zap *z, uint64_t table, uint64_t n, uint64_t *out, bool *mended)
{
	struct zap_block b;
	int err = z->source->read(z->source, table + n, &b);

	*mended = false;
	if (err)
		return err;
	for (size_t i = 0; i < b.len / 8 && !err; i++) {
		out[i] = load_host64(b.data + 8 * i);
		if (zap_blkid_is_valid(z, out[i]))
			continue;
		out[i] = __builtin_bswap64(out[i]);
		*mended = true;
		err = zap_blkid_is_valid(z, out[i]) ? 0 : -EINVAL;
	}
	zap_block_release(&b);
	return err;
}

/* Entries [index, index + count) of one block of an external table. */
static int table_block_set(struct zap *z, uint64_t index, size_t count, uint64_t blkid)
{
	size_t per_block = z->head.len / 8, at = index % per_block;
	autofree uint64_t *v = xmalloc(z->head.len);
	uint64_t n = index / per_block;
	bool mended = false;
	int err = 0;

	if (count < per_block)
		err = table_block_read(z, z->table_blk, n, v, &mended);
	for (size_t i = at; i < at + count; i++)
		v[i] = blkid;
	if (err)
		return err;
	if (mended)
		return blocks_write(z, z->table_blk + n, v, z->head.len);
	return z->source->write(z->source, (z->table_blk << z->block_shift) + index * 8, v + at, count * 8);
}

static int embedded_set(struct zap *z, uint64_t index, size_t count, uint64_t blkid)
{
	autofree uint64_t *v = xmalloc(count * 8);
	int err;

	for (size_t i = 0; i < count; i++)
		v[i] = blkid;
	err = z->source->write(z->source, z->head.len / 2 + index * 8, v, count * 8);
	if (err)
		return err;
	zap_block_release(&z->head);
	return z->source->read(z->source, 0, &z->head);
}

static int table_set(struct zap *z, uint64_t index, uint64_t count, uint64_t blkid)
{
	uint64_t per_block = z->head.len / 8;
	int err = 0;

	if (z->table_nblks == 0)
		return embedded_set(z, index, count, blkid);
	while (count > 0 && !err) {
		uint64_t n = MIN(count, per_block - index % per_block);

		err = table_block_set(z, index, n, blkid);
		index += n;
		count -= n;
	}
	zap_block_release(&z->table);
	z->table_held = 0;
	return err;
}

/* Each entry twice: `n` entries of `from`, to the blocks from blkid on. */
static int doubled_write(struct zap *z, const uint64_t *from, size_t n, uint64_t blkid)
{
	autofree uint64_t *to = xmalloc(n * 16);

	for (size_t i = 0; i < n; i++)
		to[2 * i] = to[2 * i + 1] = from[i];
	return blocks_write(z, blkid, to, n * 16);
}

/* The embedded table becomes one block. */
static int grow_embedded(struct zap *z)
{
	size_t n = z->head.len / 16;
	autofree uint64_t *v = xmalloc(n * 8);
	int err;

	memcpy(v, z->head.data + z->head.len / 2, n * 8);
	err = doubled_write(z, v, n, z->freeblk);
	if (err)
		return err;
	z->table_blk = z->freeblk++;
	z->table_nblks = 1;
	z->table_shift++;
	return header_store(z);
}

/* The table moves to twice as many blocks from `next` on. */
static int grow_external(struct zap *z, uint64_t next)
{
	uint64_t old = z->table_blk, n = z->table_nblks;
	autofree uint64_t *v = xmalloc(z->head.len);
	bool mended;
	int err = 0;

	for (uint64_t i = 0; i < n && !err; i++) {
		err = table_block_read(z, old, i, v, &mended);
		if (!err)
			err = doubled_write(z, v, z->head.len / 8, next + 2 * i);
	}
	if (!err)
		err = z->source->punch(z->source, old, n);
	if (err)
		return err;
	zap_block_release(&z->table);
	z->table_held = 0;
	z->table_blk = next;
	z->table_nblks = 2 * n;
	z->table_shift++;
	return header_store(z);
}

static int table_grow(struct zap *z)
{
	uint64_t next = z->freeblk;

	if (z->table_shift + 2 >= zap_hash_bits(z))
		return -ENOSPC;
	if (z->table_nblks == 0)
		return grow_embedded(z);
	z->freeblk += 2 * z->table_nblks;
	return grow_external(z, next);
}

int zap_fat_ready(struct zap *z)
{
	uint64_t next = load_host64(z->head.data + 40);

	/* a table that is being copied has its blocks before they are written */
	if (z->freeblk < 2 || z->freeblk > z->source->nblocks + 2 * z->table_nblks)
		return -EINVAL;
	if (next == 0)
		return 0;
	if (z->table_nblks == 0 || next > z->freeblk || 2 * z->table_nblks > z->freeblk - next)
		return -EINVAL;
	return grow_external(z, next);
}

/* --- leaves --- */

/* The leaf's entries in the table: how many, and the first. */
static uint64_t span_of(const struct zap *z, unsigned prefix_len)
{
	return UINT64_C(1) << (z->table_shift - prefix_len);
}

static int halves_write(struct zap *z, struct zap_edit *low, struct zap_edit *high)
{
	uint64_t span = span_of(z, high->leaf.prefix_len);
	int err = zap_edit_write(z, high);

	if (!err)
		err = zap_edit_write(z, low);
	if (!err)
		err = table_set(z, high->leaf.prefix * span, span, high->blkid);
	return err;
}

static int leaf_split(struct zap *z, const struct zap_edit *old)
{
	unsigned len = old->leaf.prefix_len + 1;
	struct zap_edit low, high;
	int err;

	zap_edit_new(z, old->blkid, old->leaf.prefix << 1, len, &low);
	zap_edit_new(z, z->freeblk, old->leaf.prefix << 1 | 1, len, &high);
	err = zap_edit_divide(old, keys_are_words(z), &low, &high);
	if (!err) {
		z->freeblk++;
		z->nleaves++;
		err = halves_write(z, &low, &high);
	}
	zap_edit_close(&low);
	zap_edit_close(&high);
	return err ? err : header_store(z);
}

static int room_make(struct zap *z, const struct zap_edit *full)
{
	int err = 0;

	if (full->leaf.prefix_len == z->table_shift)
		err = table_grow(z);
	return err ? err : leaf_split(z, full);
}

/* Highest block in use. */
static int blocks_used(struct zap *z, uint64_t *last)
{
	uint64_t blkid, max = z->table_nblks ? z->table_blk + z->table_nblks - 1 : 0;
	int err = 0;

	for (uint64_t i = 0; i < UINT64_C(1) << z->table_shift && !err; i++) {
		err = zap_fat_table_entry(z, i, &blkid);
		max = MAX(max, blkid);
	}
	*last = max;
	return err;
}

static int block_free(struct zap *z, uint64_t blkid)
{
	uint64_t last;
	int err;

	z->nleaves--;
	if (blkid + 1 != z->freeblk)
		return z->source->punch(z->source, blkid, 1);
	err = blocks_used(z, &last);
	if (err)
		return err;
	z->freeblk = last + 1;
	return z->source->cut(z->source, z->freeblk);
}

/* The empty leaf and its empty sibling become one, in `low`. */
static int leaves_join(struct zap *z, struct zap_edit *low, const struct zap_edit *high)
{
	unsigned len = low->leaf.prefix_len;
	uint64_t span = span_of(z, len);
	int err = table_set(z, high->leaf.prefix * span, span, low->blkid);

	if (err)
		return err;
	zap_edit_set_prefix(low, low->leaf.prefix >> 1, len - 1);
	err = zap_edit_write(z, low);
	if (!err)
		err = block_free(z, high->blkid);
	return err ? err : header_store(z);
}

static bool sibling_open(struct zap *z, const struct zap_edit *leaf, struct zap_edit *out)
{
	unsigned len = leaf->leaf.prefix_len;

	*out = (struct zap_edit){0};
	if (len == 0 || zap_edit_entries(leaf) > 0 || zap_edit_open(z, (leaf->leaf.prefix ^ 1) * span_of(z, len), out))
		return false;
	return out->blkid != leaf->blkid && out->leaf.prefix_len == len && zap_edit_entries(out) == 0;
}

/* The leaf is written; it may be another one afterwards. */
static int leaf_shrink(struct zap *z, struct zap_edit *leaf)
{
	struct zap_edit sibling;
	int err = 0;

	while (!err && sibling_open(z, leaf, &sibling)) {
		bool is_low = !(leaf->leaf.prefix & 1);
		struct zap_edit high = is_low ? sibling : *leaf;

		if (!is_low)
			*leaf = sibling;
		err = leaves_join(z, leaf, &high);
		zap_edit_close(&high);
		sibling = (struct zap_edit){0};
	}
	zap_edit_close(&sibling);
	return err;
}

/* --- entries --- */

static unsigned value_chunks(const struct zap_value *v)
{
	return zap_chunks(v->intsize * v->nints);
}

/* Chunks that the change takes besides those it gives back; -ENOSPC when no splitting would make room for it. */
static int chunks_needed(struct zap *z, const struct zap_edit *e, const struct zap_key *key, const struct zap_value *v,
			 const struct zap_item *old, int *needed)
{
	unsigned same_hash;

	if (old) {
		*needed = (int)value_chunks(v) - (int)zap_chunks(old->intsize * old->nints);
	} else {
		*needed = 1 + zap_chunks(key->len) + value_chunks(v);
	}
	if (*needed <= (int)zap_edit_free_chunks(e))
		return 0;
	zap_edit_cd(e, key->hash, keys_are_words(z), &same_hash);
	return (int)same_hash + *needed > (int)e->leaf.nchunks ? -ENOSPC : 0;
}

static int put_in_leaf(struct zap *z, struct zap_edit *e, const struct zap_key *key, const struct zap_value *v,
		       const struct zap_item *old, const uint32_t *cd)
{
	unsigned same_hash;
	int err;

	if (old)
		err = zap_edit_replace(e, old, v);
	else
		err = zap_edit_insert(e, key, v, cd ? *cd : zap_edit_cd(e, key->hash, keys_are_words(z), &same_hash));
	if (!err)
		err = zap_edit_write(z, e);
	if (err || old)
		return err;
	z->nentries++;
	return header_store(z);
}

/* One attempt: 1 when a leaf was split instead. */
static int put_try(struct zap *z, struct zap_edit *e, const struct zap_key *key, const struct zap_value *v,
		   bool replace, const uint32_t *cd)
{
	struct zap_item it;
	int err = cd ? -ENOENT : zap_leaf_find(&e->leaf, key, &it), needed = 0;
	const struct zap_item *old = err ? NULL : &it;

	if (err && err != -ENOENT)
		return err;
	if (old && !replace)
		return -EEXIST;
	err = chunks_needed(z, e, key, v, old, &needed);
	if (err)
		return err;
	if (needed <= (int)zap_edit_free_chunks(e))
		return put_in_leaf(z, e, key, v, old, cd);
	err = room_make(z, e);
	return err ? err : 1;
}

/* cd NULL: the entry may be there, else it gets one. */
static int put_until_it_fits(struct zap *z, const struct zap_key *key, const struct zap_value *v, bool replace,
			     const uint32_t *cd)
{
	struct zap_edit e;
	int err;

	if (1 + zap_chunks(key->len) + value_chunks(v) > ((1u << z->block_shift) * 15 / 16) / CHUNK - 2)
		return -E2BIG;
	do {
		err = zap_edit_open(z, key->hash >> (64 - z->table_shift), &e);
		if (!err)
			err = put_try(z, &e, key, v, replace, cd);
		zap_edit_close(&e);
	} while (err == 1);
	return err;
}

int zap_fat_put(struct zap *z, const struct zap_key *key, const struct zap_value *v, bool replace)
{
	return put_until_it_fits(z, key, v, replace, NULL);
}

int zap_fat_insert(struct zap *z, const struct zap_key *key, const struct zap_value *v, uint32_t cd)
{
	return put_until_it_fits(z, key, v, false, &cd);
}

int zap_fat_drop(struct zap *z, const struct zap_key *key)
{
	struct zap_item it;
	struct zap_edit e;
	int err = zap_edit_open(z, key->hash >> (64 - z->table_shift), &e);

	if (!err)
		err = zap_leaf_find(&e.leaf, key, &it);
	if (!err)
		err = zap_edit_remove(&e, &it, keys_are_words(z));
	if (!err)
		err = zap_edit_write(z, &e);
	if (!err) {
		z->nentries -= z->nentries > 0;
		err = header_store(z);
	}
	if (!err)
		err = leaf_shrink(z, &e);
	zap_edit_close(&e);
	return err;
}
