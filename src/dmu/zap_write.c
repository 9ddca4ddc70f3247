/*
 * The writing half of zap.h: every function holds the object's lock alone for one change.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/os.h"
#include "dmu/zap_impl.h"

/* --- opening for one change --- */

static void change_end(struct zap *z)
{
	struct zap_lock *lock = z->source->lock;

	zap_close(z);
	if (lock)
		pthread_rwlock_unlock(&lock->rw);
}

static int change_begin(struct objset *os, uint64_t object, struct tx *tx, struct zap **out)
{
	struct zap *z = xcalloc(1, sizeof(*z));
	struct dnode *dn;
	int err = dnode_hold(os, object, &dn, NULL);

	if (err) {
		free(z);
		return err;
	}
	z->source = zap_source_of_dnode(dn, tx);
	BUG_ON(!z->source->lock); /* the set is not writable */
	pthread_rwlock_wrlock(&z->source->lock->rw);
	z->source->lock->generation++;
	z->source->refresh(z->source);
	err = zap_reload(z);
	if (!err)
		err = zap_ready(z);
	if (err)
		change_end(z);
	else
		*out = z;
	return err;
}

/* --- making --- */

static struct dmu_object object_of(const struct zap_spec *s)
{
	unsigned shift = s->blockshift ? s->blockshift : FAT_SHIFT;

	return (struct dmu_object){
	    .type = s->type,
	    .bonustype = s->bonustype,
	    .bonuslen = s->bonuslen,
	    .blocksize = s->fat || s->flags ? 1u << shift : 1u << SECTOR_SHIFT,
	    .indblkshift = s->indblkshift,
	    .dnodesize = s->dnodesize,
	};
}

static int format(struct objset *os, uint64_t object, const struct zap_spec *s, struct tx *tx)
{
	uint64_t salt = os_random64() | 1;
	struct zap_source *source;
	struct dnode *dn;
	int err = dnode_hold(os, object, &dn, NULL);

	if (err)
		return err;
	source = zap_source_of_dnode(dn, tx);
	if (s->fat || s->flags)
		err = zap_fat_format(source, salt, s->normflags, s->flags);
	else
		err = zap_micro_format(source, salt, s->normflags);
	source->close(source);
	return err;
}

int zap_create(struct objset *os, const struct zap_spec *spec, struct tx *tx, uint64_t *object)
{
	struct dmu_object o = object_of(spec);
	int err = dmu_object_alloc(os, &o, tx, object);

	return err ? err : format(os, *object, spec, tx);
}

int zap_create_claim(struct objset *os, uint64_t object, const struct zap_spec *spec, struct tx *tx)
{
	struct dmu_object o = object_of(spec);
	int err = dmu_object_claim(os, object, &o, tx);

	return err ? err : format(os, object, spec, tx);
}

int zap_create_over(struct objset *os, uint64_t object, struct tx *tx)
{
	struct dnode *dn;
	int err = dnode_hold(os, object, &dn, NULL);

	if (err)
		return err;
	dmu_object_set_type(dn, DMU_OTN_ZAP_METADATA, dn->bonustype, dn->bonuslen, tx);
	dnode_release(dn);
	return format(os, object, &(struct zap_spec){0}, tx);
}

int zap_create_in(struct objset *os, uint8_t type, uint64_t parent, const char *name, struct tx *tx, uint64_t *object)
{
	int err = zap_create(os, &(struct zap_spec){.type = type}, tx, object);

	return err ? err : zap_add_u64(os, parent, name, *object, tx);
}

/* --- names --- */

static bool intsize_is_valid(unsigned n)
{
	return n == 1 || n == 2 || n == 4 || n == 8;
}

static int name_put(struct objset *os, uint64_t object, const char *name, const struct zap_value *v, bool replace,
		    struct tx *tx)
{
	struct zap_key key;
	struct zap *z;
	int err;

	if (!intsize_is_valid(v->intsize))
		return -EINVAL;
	err = change_begin(os, object, tx, &z);
	if (err)
		return err;
	if (z->flags & ZAP_FLAG_U64_KEYS) {
		err = -EINVAL;
	} else {
		zap_key_of_name(z, name, 0, true, &key);
		err = zap_put(z, &key, v, replace);
	}
	change_end(z);
	return err;
}

int zap_add(struct objset *os, uint64_t object, const char *name, unsigned intsize, size_t nints, const void *value,
	    struct tx *tx)
{
	return name_put(os, object, name, &(struct zap_value){intsize, nints, value}, false, tx);
}

int zap_update(struct objset *os, uint64_t object, const char *name, unsigned intsize, size_t nints, const void *value,
	       struct tx *tx)
{
	return name_put(os, object, name, &(struct zap_value){intsize, nints, value}, true, tx);
}

int zap_add_u64(struct objset *os, uint64_t object, const char *name, uint64_t value, struct tx *tx)
{
	return zap_add(os, object, name, 8, 1, &value, tx);
}

int zap_update_u64(struct objset *os, uint64_t object, const char *name, uint64_t value, struct tx *tx)
{
	return zap_update(os, object, name, 8, 1, &value, tx);
}

/* The stored name that matches. */
static int real_name(struct zap *z, const char *name, unsigned match, char real[ZAP_NAME_MAX])
{
	struct zap_leaf leaf;
	struct zap_item it;
	struct zap_key key;
	unsigned words;
	int err;

	zap_key_of_name(z, name, match, true, &key);
	err = zap_key_find(z, &key, &leaf, &it);
	if (!err)
		err = zap_item_name(z, &it, real, &words);
	zap_block_release(&leaf.block);
	str_free(&key.norm);
	return err;
}

static int name_drop(struct zap *z, const char *name, unsigned match)
{
	char real[ZAP_NAME_MAX];
	struct zap_key key;
	int err;

	if (z->flags & ZAP_FLAG_U64_KEYS)
		return -EINVAL;
	if (strlen(name) >= ZAP_NAME_MAX)
		return -ENOENT;
	if (match & ZAP_MATCH_NORMALIZED && z->normflags) {
		err = real_name(z, name, match, real);
		if (err)
			return err;
		name = real;
	}
	zap_key_of_name(z, name, 0, true, &key);
	return zap_drop(z, &key);
}

int zap_remove_match(struct objset *os, uint64_t object, const char *name, unsigned match, struct tx *tx)
{
	struct zap *z;
	int err = change_begin(os, object, tx, &z);

	if (err)
		return err;
	err = name_drop(z, name, match);
	change_end(z);
	return err;
}

int zap_remove(struct objset *os, uint64_t object, const char *name, struct tx *tx)
{
	return zap_remove_match(os, object, name, 0, tx);
}

static int count_change(struct zap *z, const char *name, uint64_t delta)
{
	struct zap_leaf leaf;
	struct zap_item it;
	struct zap_key key;
	uint64_t v = 0;
	int err;

	zap_key_of_name(z, name, 0, true, &key);
	err = zap_key_find(z, &key, &leaf, &it);
	if (!err)
		err = zap_item_value(&it, 8, 1, &v);
	zap_block_release(&leaf.block);
	if (err && err != -ENOENT)
		return err;
	v += delta;
	if (v != 0)
		return zap_put(z, &key, &(struct zap_value){8, 1, &v}, true);
	return err == -ENOENT ? 0 : zap_drop(z, &key);
}

int zap_increment(struct objset *os, uint64_t object, const char *name, int64_t delta, struct tx *tx)
{
	struct zap *z;
	int err;

	if (delta == 0)
		return 0;
	err = change_begin(os, object, tx, &z);
	if (err)
		return err;
	err = z->flags & ZAP_FLAG_U64_KEYS ? -EINVAL : count_change(z, name, delta);
	change_end(z);
	return err;
}

/* --- names that are numbers --- */

struct int_name {
	char s[17];
};
static struct int_name int_name(uint64_t key)
{
	struct int_name n;

	snprintf(n.s, sizeof(n.s), "%" PRIx64, key);
	return n;
}

int zap_add_int(struct objset *os, uint64_t object, uint64_t key, uint64_t value, struct tx *tx)
{
	return zap_add_u64(os, object, int_name(key).s, value, tx);
}

int zap_update_int(struct objset *os, uint64_t object, uint64_t key, uint64_t value, struct tx *tx)
{
	return zap_update_u64(os, object, int_name(key).s, value, tx);
}

int zap_remove_int(struct objset *os, uint64_t object, uint64_t key, struct tx *tx)
{
	return zap_remove(os, object, int_name(key).s, tx);
}

int zap_lookup_int(struct objset *os, uint64_t object, uint64_t key, uint64_t *value)
{
	return zap_lookup_u64(os, object, int_name(key).s, value);
}

int zap_increment_int(struct objset *os, uint64_t object, uint64_t key, int64_t delta, struct tx *tx)
{
	return zap_increment(os, object, int_name(key).s, delta, tx);
}

/* --- keys of words --- */

static int words_change(struct objset *os, uint64_t object, const uint64_t *words, unsigned n,
			const struct zap_value *v, struct tx *tx)
{
	uint8_t bytes[ZAP_NAME_MAX];
	struct zap_key key;
	struct zap *z;
	int err = change_begin(os, object, tx, &z);

	if (err)
		return err;
	err = zap_key_of_words(z, words, n, bytes, &key);
	if (!err)
		err = v ? zap_put(z, &key, v, true) : zap_drop(z, &key);
	change_end(z);
	return err;
}

int zap_update_u64key(struct objset *os, uint64_t object, const uint64_t *key, unsigned nwords, unsigned intsize,
		      size_t nints, const void *value, struct tx *tx)
{
	if (!intsize_is_valid(intsize))
		return -EINVAL;
	return words_change(os, object, key, nwords, &(struct zap_value){intsize, nints, value}, tx);
}

int zap_remove_u64key(struct objset *os, uint64_t object, const uint64_t *key, unsigned nwords, struct tx *tx)
{
	return words_change(os, object, key, nwords, NULL, tx);
}
