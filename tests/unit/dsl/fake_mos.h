/*
 * tests/unit/dsl/fake_mos.h: a MOS in memory that takes the place of the DMU floor: objects with a bonus and a ZAP,
 * which tests fill and damage at will. Included by one source file of a test program; its functions stand in for those
 * of dmu/ at link time.
 */
#ifndef TESTS_FAKE_MOS_H
#define TESTS_FAKE_MOS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "dmu/bpobj.h"
#include "dsl/dsl_impl.h"

#define FAKE_OBJECTS 65536

struct fake_entry {
	char *name;
	unsigned intsize;
	size_t n;
	uint64_t *v; /* one word per element whatever the size */
};
struct fake_object {
	struct dnode dn;
	uint8_t bonus[512];
	struct fake_entry *e;
	size_t n, cap;
	int err; /* what reading it gives */
	struct bp *bps;
	size_t nbps;
};
static struct fake_object *fake[FAKE_OBJECTS];
static struct objset fake_os = {.type = OBJSET_ZFS};
static unsigned fake_value_searches;

static struct fake_object *fake_new(uint64_t id, uint8_t type, uint8_t bonustype, uint32_t bonuslen)
{
	struct fake_object *o = xcalloc(1, sizeof(*o));

	assert_true(id < FAKE_OBJECTS && !fake[id]);
	fake[id] = o;
	o->dn.os = &fake_os;
	o->dn.object = id;
	o->dn.type = type;
	o->dn.bonustype = bonustype;
	o->dn.bonuslen = bonuslen;
	o->dn.bonus = o->bonus;
	return o;
}

static struct fake_object *fake_get(uint64_t id)
{
	return id < FAKE_OBJECTS ? fake[id] : NULL;
}

static void fake_bonus(uint64_t id, size_t offset, uint64_t v)
{
	store_host64(fake[id]->bonus + offset, v);
}

static struct fake_entry *fake_entry_new(uint64_t zap, const char *name, unsigned intsize, size_t n)
{
	struct fake_object *o = fake_get(zap);
	struct fake_entry *e;

	if (!o)
		o = fake_new(zap, 13, 0, 0);
	if (o->n == o->cap) {
		o->cap = o->cap ? o->cap * 2 : 8;
		o->e = xrealloc(o->e, o->cap * sizeof(*o->e));
	}
	e = &o->e[o->n++];
	*e = (struct fake_entry){xstrdup(name), intsize, n, xcalloc(n + 1, sizeof(uint64_t))};
	return e;
}

static void fake_zap(uint64_t zap, const char *name, uint64_t v)
{
	fake_entry_new(zap, name, 8, 1)->v[0] = v;
}

__attribute__((unused)) static void fake_zap_string(uint64_t zap, const char *name, const char *v)
{
	struct fake_entry *e = fake_entry_new(zap, name, 1, strlen(v) + 1);

	for (size_t i = 0; v[i]; i++)
		e->v[i] = (uint8_t)v[i];
}

__attribute__((unused)) static void fake_zap_words(uint64_t zap, const char *name, const uint64_t *v, size_t n)
{
	memcpy(fake_entry_new(zap, name, 8, n)->v, v, n * 8);
}

static void fake_zap_drop_last(uint64_t zap)
{
	struct fake_entry *e = &fake[zap]->e[--fake[zap]->n];

	free(e->name);
	free(e->v);
}

static void fake_clear(void)
{
	for (size_t i = 0; i < FAKE_OBJECTS; i++) {
		if (!fake[i])
			continue;
		for (size_t k = 0; k < fake[i]->n; k++) {
			free(fake[i]->e[k].name);
			free(fake[i]->e[k].v);
		}
		free(fake[i]->e);
		free(fake[i]->bps);
		free(fake[i]);
		fake[i] = NULL;
	}
}

/* --- objects of the DSL --- */

/* Object `id`, its child map `id + 1`, its properties `id + 2`. */
static void fake_dir(uint64_t id, uint64_t parent, const char *name, uint64_t head)
{
	fake_new(id, DMU_OT_DSL_DIR, DMU_OT_DSL_DIR, 256);
	fake_bonus(id, 8, head);
	fake_bonus(id, 16, parent);
	fake_bonus(id, 32, id + 1);
	fake_bonus(id, 80, id + 2);
	fake_bonus(id, 96, 1);
	fake_new(id + 1, 13, 0, 0);
	fake_new(id + 2, 15, 0, 0);
	if (parent)
		fake_zap(parent + 1, name, id);
}

/* A head; its snapshot names are object `id + 1`. */
static void fake_head(uint64_t id, uint64_t dir)
{
	fake_new(id, DMU_OT_DSL_DATASET, DMU_OT_DSL_DATASET, 320);
	fake_bonus(id, 0, dir);
	fake_bonus(id, 128, 1); /* the pointer is no hole */
	fake_bonus(id, 32, id + 1);
	fake_new(id + 1, 14, 0, 0);
}

static void fake_snapshot(uint64_t id, uint64_t dir, uint64_t head, const char *name, uint64_t txg)
{
	fake_new(id, DMU_OT_DSL_DATASET, DMU_OT_DSL_DATASET, 320);
	fake_bonus(id, 0, dir);
	fake_bonus(id, 40, 1);
	fake_bonus(id, 56, txg);
	fake_zap(head + 1, name, id);
}

/* Pool "p": directory 1, root dir 10 (head 20). */
static struct dsl_pool *fake_pool(void)
{
	static struct vdev root;
	static struct zio_pool zp = {.root = &root};
	static struct dmu_pool dp = {.zp = &zp};
	struct dsl_pool *p;

	fake_new(1, 1, 0, 0);
	fake_zap(1, "root_dataset", 10);
	fake_zap(1, "deflate", 1);
	fake_dir(10, 0, NULL, 20);
	fake_head(20, 10);
	assert_int_equal(dsl_pool_open(&dp, &fake_os, "p", &p, NULL), 0);
	return p;
}

/* --- the DMU's functions --- */

int dnode_hold(struct objset *os, uint64_t object, struct dnode **out, struct err *e)
{
	struct fake_object *o = fake_get(object);

	if (!o || o->err)
		return err_set(e, o ? o->err : -ENOENT, "object %llu", (unsigned long long)object);
	*out = &o->dn;
	return 0;
}
void dnode_release(struct dnode *dn)
{
}
int objset_open(struct dmu_pool *dp, uint64_t id, const struct bp *rootbp, struct crypt_key *key, struct objset **out,
		struct err *e)
{
	*out = &fake_os;
	return 0;
}
void objset_release(struct objset *os)
{
}
int dmu_read(struct dnode *dn, uint64_t offset, void *dst, size_t len, unsigned flags)
{
	return -EIO;
}
int dmu_spill_read(struct dnode *dn, struct buf **out)
{
	return -EIO;
}
int dmu_bonus_read(struct dnode *dn, size_t offset, void *dst, size_t len)
{
	if (offset > dn->bonuslen || len > dn->bonuslen - offset)
		return -EINVAL;
	memcpy(dst, dn->bonus + offset, len);
	return 0;
}

static int fake_find(uint64_t object, const char *name, struct fake_entry **e)
{
	struct fake_object *o = fake_get(object);

	if (!o)
		return -ENOENT;
	if (o->err)
		return o->err;
	for (size_t i = 0; i < o->n; i++) {
		if (strcmp(o->e[i].name, name) == 0) {
			*e = &o->e[i];
			return 0;
		}
	}
	return -ENOENT;
}

static void fake_copy(const struct fake_entry *e, void *out, size_t n)
{
	for (size_t i = 0; i < n && i < e->n; i++) {
		if (e->intsize == 8)
			((uint64_t *)out)[i] = e->v[i];
		else
			((uint8_t *)out)[i] = (uint8_t)e->v[i];
	}
}

int zap_lookup(struct objset *os, uint64_t object, const char *name, unsigned intsize, size_t nints, void *out)
{
	struct fake_entry *e;
	int err = fake_find(object, name, &e);

	if (err)
		return err;
	if (e->intsize != intsize)
		return -EINVAL;
	if (e->n > nints)
		return -EOVERFLOW;
	fake_copy(e, out, nints);
	return 0;
}
int zap_lookup_u64(struct objset *os, uint64_t object, const char *name, uint64_t *out)
{
	return zap_lookup(os, object, name, 8, 1, out);
}
int zap_lookup_match(struct objset *os, uint64_t object, const char *name, unsigned match, unsigned intsize,
		     size_t nints, void *out, char *real)
{
	return zap_lookup(os, object, name, intsize, nints, out);
}
int zap_length(struct objset *os, uint64_t object, const char *name, unsigned *intsize, size_t *nints)
{
	struct fake_entry *e;
	int err = fake_find(object, name, &e);

	if (!err) {
		*intsize = e->intsize;
		*nints = e->n;
	}
	return err;
}
int zap_count(struct objset *os, uint64_t object, uint64_t *count)
{
	struct fake_object *o = fake_get(object);

	*count = o ? o->n : 0;
	return o ? 0 : -ENOENT;
}
int zap_value_search(struct objset *os, uint64_t object, uint64_t value, uint64_t mask, char *name)
{
	struct fake_object *o = fake_get(object);

	fake_value_searches++;
	for (size_t i = 0; o && i < o->n; i++) {
		if (o->e[i].intsize == 8 && (o->e[i].v[0] & mask) == value) {
			snprintf(name, ZAP_NAME_MAX + 1, "%s", o->e[i].name);
			return 0;
		}
	}
	return -ENOENT;
}

struct zap_cursor {
	struct fake_object *o;
	size_t at;
};
int zap_cursor_open(struct objset *os, uint64_t object, uint64_t cookie, struct zap_cursor **out)
{
	struct fake_object *o = fake_get(object);

	if (!o || o->err)
		return o ? o->err : -ENOENT;
	*out = xcalloc(1, sizeof(**out));
	(*out)->o = o;
	return 0;
}
int zap_cursor_next(struct zap_cursor *c, struct zap_entry *ze)
{
	struct fake_entry *e;

	if (c->at == c->o->n)
		return -ENOENT;
	e = &c->o->e[c->at++];
	if (e->intsize == 0)
		return -EIO; /* stands for a damaged leaf */
	snprintf(ze->name, sizeof(ze->name), "%s", e->name);
	ze->key_words = 0;
	ze->intsize = e->intsize;
	ze->nints = e->n;
	ze->first = e->v[0];
	ze->cookie = c->at;
	return 0;
}
int zap_cursor_value(struct zap_cursor *c, void *out, size_t n)
{
	fake_copy(&c->o->e[c->at - 1], out, n);
	return 0;
}
void zap_cursor_close(struct zap_cursor *c)
{
	free(c);
}

int bpobj_read(struct objset *mos, uint64_t object, struct bpobj_phys *out)
{
	struct fake_object *o = fake_get(object);

	if (!o)
		return -ENOENT;
	*out = (struct bpobj_phys){.bytes = load_host64(o->bonus + 8),
				   .comp = load_host64(o->bonus + 16),
				   .uncomp = load_host64(o->bonus + 24)};
	return 0;
}
int bpobj_iterate(struct objset *mos, uint64_t object, bpobj_fn fn, void *arg)
{
	struct fake_object *o = fake_get(object);
	int err = o ? 0 : -ENOENT;

	for (size_t i = 0; !err && i < o->nbps; i++)
		err = fn(arg, &o->bps[i], false);
	return err;
}

#endif
