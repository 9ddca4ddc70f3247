/*
 * dsl/dsl_promote.c: a clone takes over the snapshots it descends from (03-datasets.md 4.6).
 */
#include "base/str.h"
#include "dsl/dsl_crypt.h"
#include "dsl/dsl_write_impl.h"

#define BLOCKS 2

/* Data sets of a chain, newest first, each held by its number. */
struct chain {
	struct dsl_edit *e;
	size_t n, cap;
};

struct promotion {
	struct dsl_pool *p;
	struct dsl_dataset *head, *origin, *origin_head; /* the clone's; where it branched off; and whose that is */
	struct dsl_dir *cd, *od;
	struct chain shared, clone, later; /* origin and older; the clone's own; the origin dir's after the branch */
	struct dsl_space used;             /* what moves */
	uint64_t unique, clone_snap, origin_snap;
};

static void chain_free(struct chain *c)
{
	while (c->n)
		dsl_edit_end(&c->e[--c->n]);
	free(c->e);
}

/* From `object` back while it belongs to the dir and is not `stop`. */
static int chain_read(struct dsl_pool *p, uint64_t object, const struct dsl_dir *d, uint64_t stop, struct chain *c)
{
	uint64_t newer = UINT64_MAX;

	while (object && object != stop) {
		struct dsl_edit *e;
		int err;

		if (c->n == c->cap) {
			c->cap = c->cap ? c->cap * 2 : 16;
			c->e = xrealloc(c->e, c->cap * sizeof(*c->e));
		}
		e = &c->e[c->n];
		err = dsl_edit_begin(p, object, e);
		if (err)
			return err;
		c->n++;
		if (e->ds->dir_object != d->object) {
			dsl_edit_end(&c->e[--c->n]);
			return 0;
		}
		if (e->ds->prev_snap_txg >= newer)
			return -EINVAL; /* a loop */
		newer = e->ds->prev_snap_txg;
		object = e->ds->prev_snap;
	}
	return 0;
}

static void promotion_end(struct promotion *m)
{
	chain_free(&m->shared);
	chain_free(&m->clone);
	chain_free(&m->later);
	if (m->origin_head)
		dsl_dataset_release(m->origin_head);
	if (m->origin)
		dsl_dataset_release(m->origin);
	if (m->head)
		dsl_dataset_release(m->head);
}

static int promotion_begin(struct promotion *m, struct dsl_pool *p, const char *name, struct err *e)
{
	int err;

	*m = (struct promotion){.p = p};
	err = dsl_dataset_hold(p, name, &m->head, e);
	if (err)
		return err;
	m->cd = m->head->dir;
	if (m->head->is_snapshot || !dsl_dir_is_clone(m->cd))
		return err_set(e, -EINVAL, "not a cloned filesystem");
	err = dsl_dataset_hold_obj(p, m->cd->origin, &m->origin, e);
	if (!err) {
		m->od = m->origin->dir;
		err = dsl_dataset_hold_obj(p, m->od->head, &m->origin_head, e);
	}
	if (!err)
		err = chain_read(p, m->origin->object, m->od, m->od->origin, &m->shared);
	if (!err)
		err = chain_read(p, m->head->object, m->cd, m->origin->object, &m->clone);
	if (!err)
		err = chain_read(p, m->od->head, m->od, m->origin->object, &m->later);
	if (!err && (!m->shared.n || !m->clone.n || !m->later.n))
		err = -EINVAL;
	return err ? err_set(e, err, "the snapshots cannot be read: %s", err_words(err)) : 0;
}

/* --- sizes --- */

/* What the lists of a chain hold of blocks born after txg. */
static int chain_sum(struct dsl_pool *p, const struct chain *c, uint64_t txg, uint64_t *sum)
{
	struct dsl_space s;
	int err = 0;

	for (size_t i = 0; i < c->n && !err; i++) {
		err = dsl_list_range(p, c->e[i].ds->deadlist, txg, UINT64_MAX, &s);
		if (!err)
			*sum += s.used;
	}
	return err;
}

static int used_sum(struct promotion *m)
{
	const struct dsl_dataset *o = m->origin;
	struct dsl_space *u = &m->used, s;
	struct dsl_edit older;
	int err = 0;

	*u = (struct dsl_space){o->used, o->compressed, o->uncompressed};
	for (size_t i = 0; i < m->shared.n && !err; i++) {
		if (!m->shared.e[i].ds->prev_snap)
			continue;
		err = dsl_list_range(m->p, m->shared.e[i].ds->deadlist, 0, UINT64_MAX, &s);
		u->used += s.used;
		u->comp += s.comp;
		u->uncomp += s.uncomp;
	}
	if (err || !m->od->origin)
		return err;
	err = dsl_edit_begin(m->p, m->od->origin, &older);
	if (!err) {
		u->used -= older.ds->used;
		u->comp -= older.ds->compressed;
		u->uncomp -= older.ds->uncompressed;
		dsl_edit_end(&older);
	}
	return err;
}

static int sizes_find(struct promotion *m)
{
	struct dsl_space s;
	struct dsl_edit older;
	uint64_t older_txg = 0;
	int err = dsl_list_range(m->p, m->clone.e[m->clone.n - 1].ds->deadlist, m->origin->prev_snap_txg, UINT64_MAX,
				 &s);

	m->unique = s.used;
	if (!err && dsl_dir_is_clone(m->od)) {
		err = dsl_edit_begin(m->p, m->od->origin, &older);
		if (!err) {
			older_txg = older.ds->creation_txg;
			dsl_edit_end(&older);
		}
	}
	if (!err)
		err = used_sum(m);
	if (!err)
		err = chain_sum(m->p, &m->shared, older_txg, &m->clone_snap);
	if (!err)
		err = chain_sum(m->p, &m->clone, older_txg, &m->clone_snap);
	return err ? err : chain_sum(m->p, &m->later, m->origin->creation_txg, &m->origin_snap);
}

/* --- check --- */

/* Names that both sides have are all told. */
static int names_check(struct promotion *m, struct err *e)
{
	char name[ZAP_NAME_MAX + 1];
	struct str both = {0};
	int err = 0;

	for (size_t i = 0; i < m->shared.n && !err; i++) {
		uint64_t object = m->shared.e[i].ds->object;

		err = zap_value_search(m->p->mos, m->origin_head->snap_names, object, UINT64_MAX, name);
		if (err)
			err_set(e, err, "a snapshot of '%s' has no name", m->od->name);
		else if (dsl_snapname_exists(m->head, name))
			str_addf(&both, "%s%s@%s", both.len ? ", " : "", m->cd->name, name);
		else if (strlen(m->cd->name) + 1 + strlen(name) >= DSL_NAME_MAX)
			err = err_set(e, -ENAMETOOLONG, "the name of snapshot '%s' would be too long", name);
	}
	if (!err && both.len)
		err = err_set(e, -EEXIST, "conflicting snapshot name from parent: %s", both.s);
	if (!err && dsl_bookmarks_conflict(m->origin_head, m->origin->creation_txg, m->head, name))
		err = err_set(e, -EEXIST, "conflicting bookmark name from parent: %s#%s", m->cd->name, name);
	str_free(&both);
	return err;
}

static int busy_check(struct promotion *m, struct err *e)
{
	for (size_t i = 0; i < m->shared.n; i++)
		if (!m->shared.e[i].is_private && dsl_dataset_is_busy(m->shared.e[i].ds))
			return err_set(e, -EBUSY, "snapshot '%s' is busy", m->shared.e[i].ds->name);
	return 0;
}

/* Both stay under the same encryption root, or one is the root of the other. */
static int crypt_check(struct promotion *m, struct err *e)
{
	char a[DSL_NAME_MAX], b[DSL_NAME_MAX];

	if (!m->od->crypto_obj)
		return 0;
	if (dsl_crypt_root(m->od, a) || dsl_crypt_root(m->cd, b))
		return err_set(e, -EINVAL, "the encryption root cannot be found");
	return strcmp(a, b) == 0 ? 0 : err_set(e, -EACCES, "cannot promote across encryption roots");
}

static int promotion_check(struct promotion *m, struct err *e)
{
	int err;

	if (m->head->flags & DSL_DS_NOPROMOTE)
		return err_set(e, -EXDEV, "'%s' may not be promoted", m->head->name);
	err = busy_check(m, e);
	if (!err)
		err = names_check(m, e);
	if (!err)
		err = crypt_check(m, e);
	if (err)
		return err;
	err = sizes_find(m);
	if (err)
		return err_set(e, err, "the space of the snapshots cannot be found: %s", err_words(err));
	return dsl_move_check(m->od, m->cd, m->used.used, 0, m->shared.n, e);
}

/* --- sync --- */

/* The chain goes on into the clone; what went on there is a branch now. */
static uint64_t branch_turn(struct promotion *m, struct tx *tx)
{
	struct dsl_dataset *o = m->origin;
	uint64_t old = o->next_snap, oldest = m->clone.e[m->clone.n - 1].ds->object;

	o->next_snap = oldest;
	if (o->next_clones) {
		dsl_set_remove(m->p, o->next_clones, oldest, tx);
		dsl_set_add(m->p, &o->next_clones, DMU_OT_NEXT_CLONES, old, tx);
	}
	o->unique = m->unique;
	dsl_dataset_store(o, tx);
	return old;
}

static void clones_exchange(struct promotion *m, struct tx *tx)
{
	uint64_t older = m->od->origin;
	struct dsl_edit e;
	struct dsl_dir *d;

	m->cd->origin = older;
	m->od->origin = m->origin->object;
	if (m->od->clones)
		dsl_set_remove(m->p, m->od->clones, m->head->object, tx);
	if (older && !dsl_sync_check(m->p, dsl_edit_begin(m->p, older, &e), "an origin cannot be read")) {
		if (!dsl_sync_check(m->p, dsl_dir_hold(m->p, e.ds->dir_object, &d, NULL), "an origin cannot be read")) {
			if (d->clones) {
				dsl_set_remove(m->p, d->clones, m->origin_head->object, tx);
				dsl_set_add(m->p, &d->clones, DMU_OT_DSL_CLONES, m->head->object, tx);
			}
			dsl_dir_release(d);
		}
		dsl_edit_end(&e);
	}
	if (m->p->version >= 26)
		dsl_set_add(m->p, &m->cd->clones, DMU_OT_DSL_CLONES, m->origin_head->object, tx);
}

/* Clones of a snapshot that moves are clones of the other dir now. */
static void clones_move(struct promotion *m, const struct dsl_dataset *s, uint64_t but, struct tx *tx)
{
	struct name_list l;

	if (!s->next_clones ||
	    dsl_sync_check(m->p, name_list_read(m->p->mos, s->next_clones, &l), "clones cannot be listed"))
		return;
	for (size_t i = 0; i < l.n; i++) {
		struct dsl_edit e;
		struct dsl_dir *d;

		if (l.e[i].object == but ||
		    dsl_sync_check(m->p, dsl_edit_begin(m->p, l.e[i].object, &e), "a clone cannot be read"))
			continue;
		if (!dsl_sync_check(m->p, dsl_dir_hold(m->p, e.ds->dir_object, &d, NULL), "a clone cannot be read")) {
			if (m->od->clones)
				dsl_set_remove(m->p, m->od->clones, d->head, tx);
			dsl_set_add(m->p, &m->cd->clones, DMU_OT_DSL_CLONES, d->head, tx);
			dsl_dir_release(d);
		}
		dsl_edit_end(&e);
	}
	name_list_free(&l);
}

/* A live struct of a snapshot that moved: another dir, another name. */
static void live_move(struct promotion *m, struct dsl_dataset *s, const char *name)
{
	struct dsl_dir *old = s->dir;
	size_t len;

	s->dir = dsl_dir_ref(m->cd);
	str_copy(s->name, sizeof(s->name), m->cd->name);
	len = strlen(s->name);
	s->name[len] = '@';
	str_copy(s->name + len + 1, sizeof(s->name) - len - 1, name);
	s->snapname = s->name + len + 1;
	dsl_dir_release(old);
}

static void snapshot_move(struct promotion *m, struct dsl_edit *e, uint64_t branch, struct tx *tx)
{
	char name[ZAP_NAME_MAX + 1];
	struct dsl_dataset *s = e->ds;

	if (dsl_sync_check(m->p, zap_value_search(m->p->mos, m->origin_head->snap_names, s->object, UINT64_MAX, name),
			   "a snapshot has no name"))
		return;
	dsl_sync_check(m->p, zap_remove(m->p->mos, m->origin_head->snap_names, name, tx), "a name cannot be moved");
	dsl_sync_check(m->p, zap_add_u64(m->p->mos, m->head->snap_names, name, s->object, tx),
		       "a name cannot be moved");
	s->dir_object = m->cd->object;
	dsl_dataset_store(s, tx);
	if (!e->is_private)
		live_move(m, s, name);
	clones_move(m, s, branch, tx);
}

static void space_move(struct promotion *m, struct tx *tx)
{
	int64_t used = (int64_t)m->used.used, comp = (int64_t)m->used.comp, uncomp = (int64_t)m->used.uncomp;
	int64_t snap = (int64_t)(m->clone_snap - m->cd->used_breakdown[DSL_USED_SNAP]);

	dsl_diduse(m->cd, DSL_USED_SNAP, snap, 0, 0, tx);
	dsl_diduse(m->cd, DSL_USED_HEAD, used - snap, comp, uncomp, tx);
	snap = (int64_t)(m->origin_snap - m->od->used_breakdown[DSL_USED_SNAP]);
	dsl_diduse(m->od, DSL_USED_SNAP, snap, 0, 0, tx);
	dsl_diduse(m->od, DSL_USED_HEAD, -used - snap, -comp, -uncomp, tx);
}

/* The clone follows the origin's root; when that was the origin itself, the clone becomes it (04, A1.5). */
static void crypt_move(struct promotion *m, struct tx *tx)
{
	struct dsl_pool *p = m->p;
	uint64_t root;

	if (!m->od->crypto_obj ||
	    dsl_sync_check(p, zap_lookup_u64(p->mos, m->od->crypto_obj, "DSL_CRYPTO_ROOT_DDOBJ", &root),
			   "a key object cannot be read"))
		return;
	if (root == m->od->object)
		dsl_crypt_root_move(m->od, m->cd, tx);
}

static void promote_all(struct promotion *m, struct tx *tx)
{
	uint64_t branch = branch_turn(m, tx);

	clones_exchange(m, tx);
	dsl_bookmarks_promoted(m->origin_head, m->head, m->origin, tx);
	dsl_limits_adjust(m->od, true, -(int64_t)m->shared.n, tx);
	dsl_limits_adjust(m->cd, true, (int64_t)m->shared.n, tx);
	for (size_t i = 0; i < m->shared.n; i++)
		snapshot_move(m, &m->shared.e[i], branch, tx);
	space_move(m, tx);
	dsl_livelist_drop(m->cd, tx);
	dsl_livelist_drop(m->od, tx);
	crypt_move(m, tx);
	dsl_dir_store(m->cd, tx);
	dsl_dir_store(m->od, tx);
	dsl_snapshots_changed(m->cd, tx);
	dsl_snapshots_changed(m->od, tx);
	dsl_dataset_bookmarks_changed(m->head);
	dsl_dataset_bookmarks_changed(m->origin_head);
	dsl_history(m->p, "promote", m->head, tx, "%s", "");
}

struct promote_arg {
	struct dsl_pool *p;
	const char *name;
};

static int promote_check(void *arg, struct tx *tx, struct err *e)
{
	struct promote_arg *a = arg;
	struct promotion m;
	int err = promotion_begin(&m, a->p, a->name, e);

	if (!err)
		err = promotion_check(&m, e);
	promotion_end(&m);
	return err;
}

static void promote_sync(void *arg, struct tx *tx)
{
	struct promote_arg *a = arg;
	struct promotion m;
	int err = promotion_begin(&m, a->p, a->name, NULL);

	if (!err)
		err = sizes_find(&m);
	if (!dsl_sync_check(a->p, err, "a clone cannot be promoted")) {
		struct dsl_dir *od = dsl_dir_ref(m.od);

		promote_all(&m, tx);
		dsl_dir_release(od);
	}
	promotion_end(&m);
}

int dsl_promote(struct dsl_pool *p, const char *name, struct err *e)
{
	struct promote_arg a = {p, name};
	struct dsl_task t = {
	    .check = promote_check, .sync = promote_sync, .arg = &a, .policy = DSL_SPACE_RESERVED, .blocks = BLOCKS};

	return dsl_task_run(p, &t, e);
}
