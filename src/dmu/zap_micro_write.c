/*
 * Changing a micro-ZAP, and turning it into a fat one (02-blocks-and-objects.md, 9.2).
 */
#include "dmu/zap_impl.h"

/* More entries of one hash would not fit a leaf of the fat ZAP that this becomes at its limit. */
#define SAME_HASH_MAX 126u

int zap_micro_format(struct zap_source *s, uint64_t salt, uint64_t normflags)
{
	autofree uint8_t *p = xcalloc(1, s->block_size);

	store_host64(p, ZAP_TYPE_MICRO);
	store_host64(p + 8, salt);
	store_host64(p + 16, normflags);
	return s->write(s, 0, p, s->block_size);
}

static void entry_store(uint8_t *p, const struct zap_key *key, uint64_t value, uint32_t cd)
{
	memset(p, 0, MICRO_ENTRY);
	store_host64(p, value);
	store_host32(p + 8, cd);
	memcpy(p + MICRO_NAME_OFF, key->bytes, key->len);
}

static uint64_t slot_offset(unsigned slot)
{
	return MICRO_HEADER + (uint64_t)slot * MICRO_ENTRY;
}

/* What putting a new entry needs to know of those that are there. */
struct survey {
	unsigned free_slot; /* the first, or their number */
	unsigned same_hash;
	uint32_t cd; /* smallest that none of the same hash has */
};

static void slots_survey(const struct zap *z, uint64_t hash, struct survey *out)
{
	uint64_t used[MICRO_SIZE_MAX / MICRO_ENTRY / 64] = {0};
	unsigned slots = zap_micro_slots(z);
	struct zap_item it;

	*out = (struct survey){.free_slot = slots};
	for (unsigned i = 0; i < slots; i++) {
		if (!zap_micro_item(z, i, &it)) {
			out->free_slot = MIN(out->free_slot, i);
			continue;
		}
		if (zap_hash_name(z, it.micro_name, strnlen(it.micro_name, MICRO_NAME)) != hash)
			continue;
		out->same_hash++;
		if (it.cd / 64 < ARRAY_LEN(used))
			used[it.cd / 64] |= UINT64_C(1) << it.cd % 64;
	}
	while (out->cd / 64 < ARRAY_LEN(used) && used[out->cd / 64] >> out->cd % 64 & 1)
		out->cd++;
}

/* The block becomes larger by one sector, with the entry in its first new slot. */
static int grow_put(struct zap *z, const struct zap_key *key, uint64_t value, uint32_t cd)
{
	uint32_t old = z->head.len, size = old + (1u << SECTOR_SHIFT);
	autofree uint8_t *p = xcalloc(1, size);
	int err;

	memcpy(p, z->head.data, old);
	entry_store(p + ROUND_DOWN(old, MICRO_ENTRY), key, value, cd);
	err = z->source->resize(z->source, size);
	return err ? err : z->source->write(z->source, 0, p, size);
}

static int new_put(struct zap *z, const struct zap_key *key, uint64_t value)
{
	uint8_t entry[MICRO_ENTRY];
	struct survey s;

	slots_survey(z, key->hash, &s);
	if (s.same_hash > SAME_HASH_MAX)
		return ZAP_NEEDS_FAT;
	if (s.free_slot == zap_micro_slots(z)) {
		if (z->head.len + (1u << SECTOR_SHIFT) > MICRO_SIZE_MAX)
			return ZAP_NEEDS_FAT;
		return grow_put(z, key, value, s.cd);
	}
	entry_store(entry, key, value, s.cd);
	return z->source->write(z->source, slot_offset(s.free_slot), entry, sizeof(entry));
}

/* Slot of exactly this name. */
static bool slot_find(struct zap *z, const struct zap_key *key, unsigned *slot)
{
	struct zap_item it;

	if (zap_micro_find(z, key, &it))
		return false;
	*slot = ((const uint8_t *)it.micro_name - MICRO_NAME_OFF - MICRO_HEADER - z->head.data) / MICRO_ENTRY;
	return true;
}

int zap_micro_put(struct zap *z, const struct zap_key *key, const struct zap_value *v, bool replace)
{
	bool fits_value = v->intsize == 8 && v->nints == 1;
	unsigned slot;

	if (slot_find(z, key, &slot)) {
		if (!replace)
			return -EEXIST;
		return fits_value ? z->source->write(z->source, slot_offset(slot), v->ints, 8) : ZAP_NEEDS_FAT;
	}
	if (!fits_value || key->len < 2 || key->len > MICRO_NAME)
		return ZAP_NEEDS_FAT;
	return new_put(z, key, load_host64(v->ints));
}

int zap_micro_drop(struct zap *z, const struct zap_key *key)
{
	static const uint8_t zeros[MICRO_ENTRY];
	unsigned slot;

	if (!slot_find(z, key, &slot))
		return -ENOENT;
	return z->source->write(z->source, slot_offset(slot), zeros, sizeof(zeros));
}

static int entries_move(struct zap *from, struct zap *to)
{
	struct zap_item it;
	int err = 0;

	for (unsigned i = 0, n = zap_micro_slots(from); i < n && !err; i++) {
		char name[MICRO_NAME + 1];
		struct zap_key key;
		size_t len;

		if (!zap_micro_item(from, i, &it))
			continue;
		len = strnlen(it.micro_name, MICRO_NAME);
		memcpy(name, it.micro_name, len);
		name[len] = '\0';
		zap_key_of_name(to, name, 0, true, &key);
		err = zap_fat_insert(to, &key, &(struct zap_value){8, 1, &it.micro_value}, it.cd);
	}
	return err;
}

int zap_micro_upgrade(struct zap *z)
{
	struct zap_source *s = z->source;
	struct zap old = *z; /* its block stays held */
	int err;

	buf_hold(old.head.buf);
	err = s->cut(s, 0);
	if (!err)
		err = s->resize(s, 1u << FAT_SHIFT);
	if (!err)
		err = zap_fat_format(s, z->salt, z->normflags, 0);
	if (!err)
		err = zap_reload(z);
	if (!err)
		err = entries_move(&old, z);
	zap_block_release(&old.head);
	return err;
}

/* Written on a machine of the other byte order: all of it is written anew, in ours. */
static int order_mend(struct zap *z)
{
	autofree uint8_t *p = xmalloc(z->head.len);

	memcpy(p, z->head.data, z->head.len);
	if (z->micro) {
		swap64_buffer(p, 24);
		for (unsigned i = 0, n = zap_micro_slots(z); i < n; i++) {
			swap64_buffer(p + slot_offset(i), 8);
			swap32_buffer(p + slot_offset(i) + 8, 4);
		}
	} else {
		swap64_buffer(p, z->head.len);
	}
	return z->source->write(z->source, 0, p, z->head.len);
}

int zap_ready(struct zap *z)
{
	int err = 0;

	if (z->swap) {
		err = order_mend(z);
		if (!err)
			err = zap_reload(z);
	}
	return err || z->micro ? err : zap_fat_ready(z);
}

int zap_put(struct zap *z, const struct zap_key *key, const struct zap_value *v, bool replace)
{
	int err;

	if (key->len > z->source->name_max)
		return -ENAMETOOLONG;
	if (v->nints * v->intsize > 8192)
		return -E2BIG;
	if (z->micro) {
		err = zap_micro_put(z, key, v, replace);
		if (err != ZAP_NEEDS_FAT)
			return err;
		err = zap_micro_upgrade(z);
		if (err)
			return err;
	}
	return zap_fat_put(z, key, v, replace);
}

int zap_drop(struct zap *z, const struct zap_key *key)
{
	return z->micro ? zap_micro_drop(z, key) : zap_fat_drop(z, key);
}
