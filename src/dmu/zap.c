/*
 * Lookups, cursors and the rest of zap.h, over micro and fat ZAPs alike.
 */
#include "base/str.h"
#include "dmu/zap.h"

#include "base/sync.h"
#include "dmu/zap_impl.h"

/* --- opening --- */

static int head_open(struct zap *z)
{
	uint64_t type;
	int err = z->source->nblocks ? z->source->read(z->source, 0, &z->head) : -EINVAL;

	if (err)
		return err;
	if (z->head.len < sizeof(type))
		return -EINVAL;
	type = load_host64(z->head.data);
	z->swap = type == __builtin_bswap64(ZAP_TYPE_MICRO) || type == __builtin_bswap64(ZAP_TYPE_FAT);
	type = load64(z->head.data, z->swap);
	z->micro = type == ZAP_TYPE_MICRO;
	if (z->micro)
		return zap_micro_open(z);
	return type == ZAP_TYPE_FAT ? zap_fat_open(z) : -EINVAL;
}

int zap_reload(struct zap *z)
{
	zap_block_release(&z->head);
	zap_block_release(&z->table);
	*z = (struct zap){.source = z->source, .generation = z->generation};
	return head_open(z);
}

int zap_enter(struct zap *z)
{
	struct zap_source *s = z->source;
	int err;

	if (!s->lock)
		return 0;
	pthread_rwlock_rdlock(&s->lock->rw);
	if (z->generation == s->lock->generation)
		return 0;
	s->refresh(s);
	err = zap_reload(z);
	z->generation = err ? UINT64_MAX : s->lock->generation;
	return err;
}

void zap_leave(struct zap *z)
{
	if (z->source->lock)
		pthread_rwlock_unlock(&z->source->lock->rw);
}

int zap_open_source(struct zap_source *source, struct zap **out)
{
	struct zap *z = xcalloc(1, sizeof(*z));
	int err;

	z->source = source;
	z->generation = UINT64_MAX;
	err = source->lock ? zap_enter(z) : zap_reload(z);
	zap_leave(z);
	if (err)
		zap_close(z);
	else
		*out = z;
	return err;
}

void zap_close(struct zap *z)
{
	if (!z)
		return;
	zap_block_release(&z->head);
	zap_block_release(&z->table);
	z->source->close(z->source);
	free(z);
}

int zap_open(struct objset *os, uint64_t object, struct zap **out)
{
	struct zap_source *s;
	struct dnode *dn;
	int err = dnode_hold(os, object, &dn, NULL);

	if (err)
		return err;
	s = zap_source_of_dnode(dn, NULL);
	return zap_open_source(s, out);
}

/* --- hashing, 9.1 --- */

static uint64_t crc_table[256];

__attribute__((constructor)) static void crc_table_fill(void)
{
	for (unsigned i = 0; i < 256; i++) {
		uint64_t t = i;

		for (unsigned bit = 0; bit < 8; bit++)
			t = t >> 1 ^ (t & 1 ? UINT64_C(0xC96C5795D7870F42) : 0);
		crc_table[i] = t;
	}
}

static uint64_t crc_byte(uint64_t h, uint8_t c)
{
	return h >> 8 ^ crc_table[(h ^ c) & 255];
}

unsigned zap_hash_bits(const struct zap *z)
{
	return z->flags & ZAP_FLAG_HASH64 ? 48 : 28;
}

static uint64_t hash_cut(const struct zap *z, uint64_t h)
{
	return h & ~((UINT64_C(1) << (64 - zap_hash_bits(z))) - 1);
}

static uint64_t hash_bytes(const struct zap *z, const char *p, size_t len)
{
	uint64_t h = z->salt;

	for (size_t i = 0; i < len; i++)
		h = crc_byte(h, (uint8_t)p[i]);
	return hash_cut(z, h);
}

uint64_t zap_hash_name(const struct zap *z, const char *name, size_t len)
{
	struct str norm = {0};
	uint64_t h;

	if (!z->normflags)
		return hash_bytes(z, name, len);
	zap_normalize(z->normflags, name, len, &norm);
	h = hash_bytes(z, str_get(&norm), norm.len);
	str_free(&norm);
	return h;
}

uint64_t zap_hash_words(const struct zap *z, const uint64_t *words, unsigned n)
{
	uint64_t h = z->salt;

	if (z->flags & ZAP_FLAG_PREHASHED)
		return hash_cut(z, words[0]);
	for (unsigned w = 0; w < n; w++)
		for (unsigned b = 0; b < 64; b += 8)
			h = crc_byte(h, (uint8_t)(words[w] >> b));
	return hash_cut(z, h);
}

/* --- items --- */

int zap_item_value(const struct zap_item *it, unsigned intsize, size_t nints, void *out)
{
	if (it->intsize > intsize || (intsize != 1 && intsize != 2 && intsize != 4 && intsize != 8))
		return -EINVAL;
	if (it->nints > nints)
		return -EOVERFLOW;
	if (it->leaf)
		return zap_leaf_value(it, intsize, out);
	store_host64(out, it->micro_value);
	return 0;
}

static int words_read(const struct zap_item *it, char *out)
{
	size_t len = (size_t)it->name_ints * 8;

	if (len == 0 || len > ZAP_NAME_MAX || zap_leaf_bytes(it->leaf, it->name_chunk, len, (uint8_t *)out))
		return -EINVAL;
	for (size_t i = 0; i < len; i += 8)
		store_host64(out + i, load_be64(out + i));
	return 0;
}

int zap_item_name(const struct zap *z, const struct zap_item *it, char *name, unsigned *key_words)
{
	*key_words = 0;
	if (!it->leaf) {
		size_t len = strnlen(it->micro_name, 50);

		memcpy(name, it->micro_name, len);
		name[len] = '\0';
		return 0;
	}
	if (z->flags & ZAP_FLAG_U64_KEYS) {
		*key_words = it->name_ints;
		return words_read(it, name);
	}
	if (it->name_ints == 0 || it->name_ints > ZAP_NAME_MAX)
		return -EINVAL;
	if (zap_leaf_bytes(it->leaf, it->name_chunk, it->name_ints, (uint8_t *)name))
		return -EINVAL;
	return name[it->name_ints - 1] == '\0' ? 0 : -EINVAL;
}

/* --- lookup --- */

int zap_key_find(struct zap *z, const struct zap_key *key, struct zap_leaf *leaf, struct zap_item *it)
{
	*leaf = (struct zap_leaf){0};
	return z->micro ? zap_micro_find(z, key, it) : zap_fat_find(z, key, leaf, it);
}

void zap_key_of_name(const struct zap *z, const char *name, unsigned match, bool hash, struct zap_key *key)
{
	size_t len = strlen(name);

	*key = (struct zap_key){.bytes = (const uint8_t *)name, .len = len + 1, .ints = len + 1};
	if (!z->micro || hash)
		key->hash = zap_hash_name(z, name, len);
	if (!z->normflags || !(match & ZAP_MATCH_NORMALIZED))
		return;
	key->by_norm = true;
	key->norm_flags = z->normflags & ~(match & ZAP_MATCH_CASE ? ZAP_NORM_UPPER : 0);
	zap_normalize(key->norm_flags, name, len, &key->norm);
}

int zap_key_of_words(const struct zap *z, const uint64_t *words, unsigned n, uint8_t *bytes, struct zap_key *key)
{
	if (!(z->flags & ZAP_FLAG_U64_KEYS) || n == 0 || n > ZAP_NAME_MAX / 8)
		return -EINVAL;
	for (unsigned i = 0; i < n; i++)
		store_be64(bytes + 8 * i, words[i]);
	*key = (struct zap_key){.bytes = bytes, .len = 8 * (size_t)n, .ints = n, .hash = zap_hash_words(z, words, n)};
	return 0;
}

static int name_find(struct zap *z, const char *name, unsigned match, unsigned intsize, size_t nints, void *out,
		     char *real)
{
	struct zap_leaf leaf;
	struct zap_item it;
	struct zap_key key;
	unsigned words;
	int err;

	if (z->flags & ZAP_FLAG_U64_KEYS)
		return -EINVAL;
	zap_key_of_name(z, name, match, false, &key);
	err = zap_key_find(z, &key, &leaf, &it);
	if (!err && real)
		err = zap_item_name(z, &it, real, &words);
	if (!err)
		err = zap_item_value(&it, intsize, nints, out);
	zap_block_release(&leaf.block);
	str_free(&key.norm);
	return err;
}

int zap_find(struct zap *z, const char *name, unsigned match, unsigned intsize, size_t nints, void *out, char *real)
{
	int err;

	if (strlen(name) >= ZAP_NAME_MAX)
		return -ENOENT;
	err = zap_enter(z);
	if (!err)
		err = name_find(z, name, match, intsize, nints, out, real);
	zap_leave(z);
	return err;
}

static int words_find(struct zap *z, const uint64_t *words, unsigned n, unsigned intsize, size_t nints, void *out)
{
	uint8_t bytes[ZAP_NAME_MAX];
	struct zap_leaf leaf;
	struct zap_item it;
	struct zap_key key;
	int err = zap_key_of_words(z, words, n, bytes, &key);

	if (err)
		return err;
	err = zap_key_find(z, &key, &leaf, &it);
	if (!err)
		err = zap_item_value(&it, intsize, nints, out);
	zap_block_release(&leaf.block);
	return err;
}

int zap_find_words(struct zap *z, const uint64_t *key, unsigned nwords, unsigned intsize, size_t nints, void *out)
{
	int err = zap_enter(z);

	if (!err)
		err = words_find(z, key, nwords, intsize, nints, out);
	zap_leave(z);
	return err;
}

int zap_lookup_match(struct objset *os, uint64_t object, const char *name, unsigned match, unsigned intsize,
		     size_t nints, void *out, char *real)
{
	struct zap *z;
	int err = zap_open(os, object, &z);

	if (err)
		return err;
	err = zap_find(z, name, match, intsize, nints, out, real);
	zap_close(z);
	return err;
}

int zap_lookup(struct objset *os, uint64_t object, const char *name, unsigned intsize, size_t nints, void *out)
{
	return zap_lookup_match(os, object, name, 0, intsize, nints, out, NULL);
}

int zap_lookup_u64(struct objset *os, uint64_t object, const char *name, uint64_t *out)
{
	return zap_lookup(os, object, name, 8, 1, out);
}

int zap_lookup_u64key(struct objset *os, uint64_t object, const uint64_t *key, unsigned nwords, unsigned intsize,
		      size_t nints, void *out)
{
	struct zap *z;
	int err = zap_open(os, object, &z);

	if (err)
		return err;
	err = zap_find_words(z, key, nwords, intsize, nints, out);
	zap_close(z);
	return err;
}

int zap_length(struct objset *os, uint64_t object, const char *name, unsigned *intsize, size_t *nints)
{
	struct zap_leaf leaf;
	struct zap_item it;
	struct zap_key key;
	struct zap *z;
	int err = zap_open(os, object, &z);

	if (err)
		return err;
	err = zap_enter(z);
	if (!err) {
		zap_key_of_name(z, name, 0, false, &key);
		err = zap_key_find(z, &key, &leaf, &it);
		if (!err) {
			*intsize = it.intsize;
			*nints = it.nints;
		}
		zap_block_release(&leaf.block);
	}
	zap_leave(z);
	zap_close(z);
	return err;
}

/* --- cursor --- */

/* A table may be damaged over any length; a cursor gives up after this many failures in a row. */
#define CURSOR_FAILURES_MAX 4096
/* Entries of one unreadable leaf that are passed over at a time. */
#define CURSOR_SKIP_MAX 65536

struct zap_cursor {
	struct zap *z;
	uint64_t start_hash; /* entries before (start_hash, start_cd) are passed over */
	uint64_t start_cd;
	uint64_t index; /* pointer table entry of the leaf to load next */
	unsigned shift; /* size of the table that is meant */
	bool end;       /* nothing more to load */
	unsigned failures;
	struct zap_leaf leaf;
	struct zap_pos *pos; /* of the leaf or micro ZAP, sorted */
	unsigned npos, next;
	bool has_current;
	struct zap_item current;
};

static int pos_cmp(const void *pa, const void *pb)
{
	const struct zap_pos *a = pa, *b = pb;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->cd != b->cd)
		return a->cd < b->cd ? -1 : 1;
	return a->where < b->where ? -1 : a->where > b->where;
}

static void positions_ready(struct zap_cursor *c)
{
	qsort(c->pos, c->npos, sizeof(*c->pos), pos_cmp);
	c->next = 0;
	while (c->next < c->npos) {
		const struct zap_pos *p = &c->pos[c->next];

		if (p->hash > c->start_hash || (p->hash == c->start_hash && p->cd >= c->start_cd))
			break;
		c->next++;
	}
}

static void micro_load(struct zap_cursor *c)
{
	unsigned slots = zap_micro_slots(c->z);
	struct zap_item it;

	c->pos = xmalloc(MAX(slots, 1) * sizeof(*c->pos));
	for (unsigned i = 0; i < slots; i++) {
		if (!zap_micro_item(c->z, i, &it))
			continue;
		it.hash = zap_hash_name(c->z, it.micro_name, strnlen(it.micro_name, 50));
		c->pos[c->npos++] = (struct zap_pos){it.hash, it.cd, i};
	}
	positions_ready(c);
	c->end = true;
}

static void unreadable_leaf_skip(struct zap_cursor *c, uint64_t blkid)
{
	uint64_t size = UINT64_C(1) << c->z->table_shift, other;

	for (unsigned i = 0; i < CURSOR_SKIP_MAX && c->index < size; i++) {
		if (zap_fat_table_entry(c->z, c->index, &other) || other != blkid)
			break;
		c->index++;
	}
}

/* The table may have grown since, or all of the map have gone. */
static void table_follow(struct zap_cursor *c)
{
	if (c->z->micro || c->z->table_shift < c->shift) {
		c->end = true;
		return;
	}
	c->index <<= c->z->table_shift - c->shift;
	c->shift = c->z->table_shift;
}

static int leaf_load(struct zap_cursor *c)
{
	uint64_t blkid, span;
	int err;

	zap_block_release(&c->leaf.block);
	c->npos = c->next = 0;
	if (c->index >= UINT64_C(1) << c->z->table_shift || c->failures > CURSOR_FAILURES_MAX) {
		c->end = true;
		return 0;
	}
	err = zap_fat_table_entry(c->z, c->index, &blkid);
	if (err) {
		/* a block of the table that cannot be read is passed over whole */
		span = c->z->table_nblks && !c->z->table_held ? c->z->head.len / 8 : 1;
		c->index = ROUND_DOWN(c->index, span) + span;
		return err;
	}
	err = zap_leaf_open(c->z, blkid, c->index, &c->leaf);
	if (err) {
		unreadable_leaf_skip(c, blkid);
		return err;
	}
	c->index = (c->leaf.prefix + 1) << (c->z->table_shift - c->leaf.prefix_len);
	c->pos = xrealloc(c->pos, c->leaf.nchunks * sizeof(*c->pos));
	c->npos = zap_leaf_list(&c->leaf, c->pos);
	positions_ready(c);
	return 0;
}

static int leaf_enter(struct zap_cursor *c)
{
	int err = zap_enter(c->z);

	if (!err) {
		table_follow(c);
		err = c->end ? 0 : leaf_load(c);
	}
	zap_leave(c->z);
	return err;
}

void zap_cursor_start(struct zap *z, uint64_t cookie, struct zap_cursor **out)
{
	struct zap_cursor *c = xcalloc(1, sizeof(*c));
	unsigned bits = zap_hash_bits(z);

	c->z = z;
	c->start_hash = cookie << (64 - bits);
	c->start_cd = cookie >> bits;
	if (cookie == UINT64_MAX)
		c->end = true;
	else if (z->micro)
		micro_load(c);
	else
		c->index = c->start_hash >> (64 - z->table_shift);
	c->shift = z->table_shift;
	*out = c;
}

int zap_cursor_open(struct objset *os, uint64_t object, uint64_t cookie, struct zap_cursor **out)
{
	struct zap *z;
	int err = zap_open(os, object, &z);

	if (!err)
		zap_cursor_start(z, cookie, out);
	return err;
}

static int entry_fill(struct zap_cursor *c, const struct zap_pos *p, struct zap_entry *e)
{
	struct zap_item *it = &c->current, first;
	int err = 0;

	if (c->z->micro)
		zap_micro_item(c->z, p->where, it);
	else
		err = zap_leaf_item(&c->leaf, p->where, it);
	if (!err)
		err = zap_item_name(c->z, it, e->name, &e->key_words);
	if (err)
		return err;
	e->intsize = it->intsize;
	e->nints = it->nints;
	e->first = 0;
	e->cookie = p->hash >> (64 - zap_hash_bits(c->z)) | ((uint64_t)p->cd + 1) << zap_hash_bits(c->z);
	first = *it;
	first.nints = MIN(it->nints, 1);
	return zap_item_value(&first, 8, 1, &e->first);
}

int zap_cursor_next(struct zap_cursor *c, struct zap_entry *e)
{
	c->has_current = false;
	while (c->next == c->npos) {
		if (c->end)
			return -ENOENT;
		if (leaf_enter(c)) {
			c->failures++;
			return -EIO;
		}
	}
	if (entry_fill(c, &c->pos[c->next++], e))
		return -EIO;
	c->failures = 0;
	c->has_current = true;
	return 0;
}

int zap_cursor_value(struct zap_cursor *c, void *out, size_t nints)
{
	return c->has_current ? zap_item_value(&c->current, c->current.intsize, nints, out) : -EINVAL;
}

void zap_cursor_close(struct zap_cursor *c)
{
	if (!c)
		return;
	zap_block_release(&c->leaf.block);
	free(c->pos);
	zap_close(c->z);
	free(c);
}

/* --- the whole map --- */

static uint64_t entries_count(const struct zap *z)
{
	struct zap_item it;
	uint64_t n = 0;

	if (!z->micro)
		return z->nentries;
	for (unsigned i = 0, slots = zap_micro_slots(z); i < slots; i++)
		n += zap_micro_item(z, i, &it);
	return n;
}

int zap_count(struct objset *os, uint64_t object, uint64_t *count)
{
	struct zap *z;
	int err = zap_open(os, object, &z);

	if (err)
		return err;
	*count = entries_count(z);
	zap_close(z);
	return 0;
}

int zap_value_search(struct objset *os, uint64_t object, uint64_t value, uint64_t mask, char *name)
{
	autofree struct zap_entry *e = xmalloc(sizeof(*e));
	struct zap_cursor *c;
	int err = zap_cursor_open(os, object, 0, &c), damage = 0;

	if (err)
		return err;
	while ((err = zap_cursor_next(c, e)) != -ENOENT) {
		if (err) {
			damage = err;
			continue;
		}
		if (e->key_words == 0 && e->nints > 0 && (e->first & mask) == (value & mask)) {
			str_copy(name, ZAP_NAME_MAX + 1, e->name);
			break;
		}
	}
	zap_cursor_close(c);
	return err && damage ? damage : err;
}

int zap_get_stats(struct objset *os, uint64_t object, struct zap_stats *out)
{
	struct zap *z;
	int err = zap_open(os, object, &z);

	if (err)
		return err;
	*out = (struct zap_stats){
	    .micro = z->micro,
	    .blocks = z->micro ? 1 : z->freeblk,
	    .leaves = z->nleaves,
	    .ptrtbl_len = z->micro ? 0 : UINT64_C(1) << z->table_shift,
	    .entries = entries_count(z),
	    .salt = z->salt,
	    .normflags = z->normflags,
	    .flags = z->flags,
	    .block_size = z->head.len,
	};
	zap_close(z);
	return 0;
}
