/*
 * dsl/dsl_crypt_root.c: another encryption root for a tree of data sets (04-crypto-dedup-clone.md A1.5, "promote").
 */
#include "dsl/dsl_crypt.h"
#include "dsl/dsl_write_impl.h"

#define KEY_ROOT "DSL_CRYPTO_ROOT_DDOBJ"

struct root_walk {
	struct dsl_pool *p;
	uint64_t from, to;
	struct tx *tx;
};

static int root_walk(struct root_walk *w, struct dsl_dir *d, bool shared);

static int child_walk(void *arg, struct dsl_dir *child)
{
	return root_walk(arg, child, false);
}

/* Clones share the key object of their origin's dir, but not those of their children. */
static int clone_walk(struct root_walk *w, uint64_t head)
{
	struct dsl_edit e;
	struct dsl_dir *d;
	int err = dsl_edit_begin(w->p, head, &e);

	if (err)
		return err;
	err = dsl_dir_hold(w->p, e.ds->dir_object, &d, NULL);
	if (!err) {
		err = root_walk(w, d, true);
		dsl_dir_release(d);
	}
	dsl_edit_end(&e);
	return err;
}

static int clones_walk(struct root_walk *w, struct dsl_dir *d)
{
	struct name_list l;
	int err = name_list_read(w->p->mos, d->clones, &l);

	if (err)
		return err;
	for (size_t i = 0; i < l.n && !err; i++)
		err = clone_walk(w, l.e[i].object);
	name_list_free(&l);
	return err;
}

/* shared: the key object was rewritten already. */
static int root_walk(struct root_walk *w, struct dsl_dir *d, bool shared)
{
	uint64_t root;
	int err;

	if (!d->crypto_obj)
		return 0;
	if (!shared) {
		err = zap_lookup_u64(w->p->mos, d->crypto_obj, KEY_ROOT, &root);
		if (err || root != w->from)
			return err;
		err = zap_update_u64(w->p->mos, d->crypto_obj, KEY_ROOT, w->to, w->tx);
		if (err)
			return err;
	}
	err = dsl_each_child(d, child_walk, w);
	return err ? err : clones_walk(w, d);
}

static void keylocation_move(struct dsl_dir *from, struct dsl_dir *to, struct tx *tx)
{
	const struct prop_value *v = prop_set_find(dsl_dir_props(from), "keylocation", PROP_VALUE);
	struct objset *mos = from->pool->mos;
	int err;

	if (!v || !v->is_string)
		return;
	err = zap_update(mos, to->props, "keylocation", 1, strlen(v->string) + 1, v->string, tx);
	if (!err)
		err = zap_remove(mos, from->props, "keylocation", tx);
	dsl_sync_check(from->pool, err, "a property cannot be moved");
	dsl_dir_props_changed(from);
	dsl_dir_props_changed(to);
}

void dsl_crypt_root_move(struct dsl_dir *from, struct dsl_dir *to, struct tx *tx)
{
	struct root_walk w = {from->pool, from->object, to->object, tx};

	/* `to` shares the key object of `from`, or did so until the clones changed places: it is reached through it. */
	if (dsl_sync_check(w.p, root_walk(&w, from, false), "the keys of a tree cannot be changed"))
		return;
	dsl_sync_check(w.p, root_walk(&w, to, true), "the keys of a tree cannot be changed");
	keylocation_move(from, to, tx);
	dsl_keystore_root_move(w.p->keys, w.from, w.to);
}
