/*
 * dsl/dsl_cleanup.c: walks over all heads, what an import finds half done (03-datasets.md 8.3), and destroying heads in
 * pools that cannot free them in the background (4.4, 6 c).
 */
#include <stdio.h>

#include "base/log.h"
#include "dmu/traverse.h"
#include "dsl/dsl_write_impl.h"

#define FEATURE_ASYNC "com.delphix:async_destroy"
#define SCAN_WORDS    24
#define SCAN_CANCELED 3
#define SCAN_SCANNING 1

/* --- all heads --- */

struct heads_walk {
	struct dsl_pool *p;
	int (*fn)(void *arg, struct dsl_dataset *ds);
	void *arg;
};

static int head_tell(struct heads_walk *w, struct dsl_dir *d)
{
	struct dsl_dataset *ds;
	int err;

	if (!d->head)
		return 0;
	err = dsl_dataset_hold_obj(w->p, d->head, &ds, NULL);
	if (err) {
		log_warn("%s: it cannot be read: %s", d->name, err_words(err));
		return 0;
	}
	err = w->fn(w->arg, ds);
	dsl_dataset_release(ds);
	return err;
}

static int children_list(struct dsl_dir *d, struct name_list *l)
{
	DSL_SHARED(d->pool);

	return name_list_read(d->pool->mos, d->child_map, l);
}

static int heads_walk(struct heads_walk *w, struct dsl_dir *d)
{
	struct name_list l;
	int err = children_list(d, &l);

	if (err)
		return err;
	err = head_tell(w, d);
	for (size_t i = 0; i < l.n && !err; i++) {
		struct dsl_dir *child;

		if (dsl_dir_hold_named(d, l.e[i].object, l.e[i].name, &child, NULL))
			continue;
		err = heads_walk(w, child);
		dsl_dir_release(child);
	}
	name_list_free(&l);
	return err;
}

int dsl_each_head(struct dsl_pool *p, int (*fn)(void *arg, struct dsl_dataset *ds), void *arg)
{
	struct heads_walk w = {p, fn, arg};
	struct dsl_dir *root;
	int err = dsl_dir_hold(p, p->root_dir, &root, NULL);

	if (err)
		return err;
	err = heads_walk(&w, root);
	dsl_dir_release(root);
	return err;
}

/* --- destroying without the bptree --- */

static int kill_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct objset *os = t->arg;

	dsl_objset_ops.kill(os, bp, NULL);
	return 0;
}

void dsl_tree_kill(struct dsl_dataset *head, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	struct live_dataset *l = dsl_live(head);
	struct traverse t = {.min_txg = head->prev_snap_txg, .post = true, .visit = kill_visit};
	struct bp none = {{0}}, bp;
	struct objset *os;

	if (dsl_sync_check(p, dsl_dataset_open_raw(head, &os, NULL), "an object set cannot be read"))
		return;
	t.arg = os;
	gather_begin(l);
	dsl_sync_check(p, traverse_objset(os, &t), "a data set cannot be freed");
	while (bp_list_pop(&l->gather.now, &bp))
		p->write->ops->free(p->write->arg, &bp, tx);
	dsl_set_settle(l, &none, tx);
	objset_release(os);
	dsl_objset_forget(head, tx);
}

struct empty_arg {
	struct dsl_pool *p;
	const char *name;
};

static int mark_check(void *arg, struct tx *tx, struct err *e)
{
	struct empty_arg *a = arg;
	struct dsl_dataset *head;
	int err = dsl_dataset_hold(a->p, a->name, &head, e);

	if (err)
		return err;
	err = dsl_head_destroy_check(head, tx, e);
	dsl_dataset_release(head);
	return err;
}

static void mark_sync(void *arg, struct tx *tx)
{
	struct empty_arg *a = arg;
	struct dsl_dataset *head;

	if (dsl_sync_check(a->p, dsl_dataset_hold(a->p, a->name, &head, NULL), "a data set cannot be read"))
		return;
	head->flags |= DSL_DS_INCONSISTENT;
	dsl_dataset_store(head, tx);
	dsl_dataset_release(head);
}

static int objects_free(struct dsl_pool *p, struct objset *os)
{
	uint64_t object = 0;
	int err;

	while ((err = dnode_next(os, &object, NULL)) == 0) {
		struct tx tx = {.os = os, .flags = TX_NETFREE | TX_NOSPACE_CHECK};

		err = tx_begin_wait(p->dp->txgs, &tx);
		if (err)
			return err;
		err = dmu_object_free(os, object, &tx);
		tx_end(&tx);
		if (err)
			return err;
	}
	return err == -ESRCH ? 0 : err;
}

/* Ahead of the task that destroys the head, which can then do it in one group. */
int dsl_head_empty(struct dsl_pool *p, const char *name, struct err *e)
{
	struct empty_arg a = {p, name};
	struct dsl_task t = {.check = mark_check, .sync = mark_sync, .arg = &a, .policy = DSL_SPACE_EXTRA};
	struct dsl_dataset *head;
	struct objset *os;
	int err = dsl_task_run(p, &t, e);

	if (err)
		return err;
	err = dsl_dataset_hold(p, name, &head, e);
	if (err)
		return err;
	if (!bp_is_hole(&head->bp)) {
		err = dsl_dataset_open_raw(head, &os, e);
		if (!err) {
			err = objects_free(p, os);
			objset_release(os);
			if (err)
				err_set(e, err, "its objects cannot be freed: %s", err_words(err));
		}
	}
	dsl_dataset_release(head);
	return err;
}

/* --- after an import --- */

struct names {
	char (*name)[DSL_NAME_MAX];
	size_t n, cap;
};

static int incomplete_collect(void *arg, struct dsl_dataset *ds)
{
	struct names *l = arg;
	unsigned intsize;
	size_t n;

	if (!(ds->flags & DSL_DS_INCONSISTENT) || !ds->dir->up)
		return 0;
	if (ds->zapified && zap_length(ds->pool->mos, ds->object, "com.delphix:resume_toguid", &intsize, &n) == 0)
		return 0;
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 8;
		l->name = xrealloc(l->name, l->cap * sizeof(*l->name));
	}
	memcpy(l->name[l->n++], ds->name, sizeof(ds->name));
	return 0;
}

static void incomplete_destroy(struct dsl_pool *p)
{
	struct names l = {0};

	if (dsl_each_head(p, incomplete_collect, &l))
		log_warn("%s: not all data sets can be looked at", p->name);
	for (size_t i = l.n; i-- > 0;) {
		struct err e = ERR_INIT;

		if (dsl_destroy_head(p, l.name[i], &e))
			log_warn("%s, which is incomplete, cannot be destroyed: %s", l.name[i], e.text);
	}
	free(l.name);
}

/* The key of a temporary hold: number of the snapshot, and tag. */
static bool temporary_hold_decode(const char *key, uint64_t *object, const char **tag)
{
	char *end;

	*object = strtoull(key, &end, 16);
	*tag = end + 1;
	return end != key && *end == '-';
}

static void temporary_hold_release(struct dsl_pool *p, const char *key)
{
	const char *names[1], *tag;
	struct err e = ERR_INIT;
	struct dsl_dataset *s;
	uint64_t object;

	if (!temporary_hold_decode(key, &object, &tag) || dsl_dataset_hold_obj(p, object, &s, NULL))
		return;
	names[0] = s->name;
	if (dsl_release_hold(p, names, 1, tag, &e))
		log_warn("%s: a temporary hold cannot be released: %s", s->name, e.text);
	dsl_dataset_release(s);
}

static int temporary_holds_list(struct dsl_pool *p, struct name_list *l)
{
	DSL_SHARED(p);
	uint64_t zap;

	memset(l, 0, sizeof(*l));
	return zap_lookup_u64(p->mos, MOS_DIRECTORY, "tmp_userrefs", &zap) ? 0 : name_list_read(p->mos, zap, l);
}

/* The whole list goes, also what names snapshots that are no more. */
static void temporary_holds_end(void *arg, struct tx *tx)
{
	struct dsl_pool *p = arg;
	uint64_t zap;

	if (zap_lookup_u64(p->mos, MOS_DIRECTORY, "tmp_userrefs", &zap))
		return;
	dsl_mos_free(p, zap, tx);
	dsl_sync_check(p, zap_remove(p->mos, MOS_DIRECTORY, "tmp_userrefs", tx),
		       "the pool's directory cannot be changed");
}

static void temporary_holds_drop(struct dsl_pool *p)
{
	struct dsl_task t = {.sync = temporary_holds_end, .arg = p, .policy = DSL_SPACE_NONE};
	struct name_list l;

	if (temporary_holds_list(p, &l))
		return;
	for (size_t i = 0; i < l.n; i++)
		temporary_hold_release(p, l.e[i].name);
	if (l.n)
		dsl_task_run(p, &t, NULL);
	name_list_free(&l);
}

/* Scans are not gone on with here, and their records would not be kept up to date (6.4). */
static bool scan_is_running(struct dsl_pool *p, uint64_t w[SCAN_WORDS])
{
	return zap_lookup(p->mos, MOS_DIRECTORY, "scan", 8, SCAN_WORDS, w) == 0 && w[1] == SCAN_SCANNING;
}

static void scan_cancel_sync(void *arg, struct tx *tx)
{
	struct dsl_pool *p = arg;
	uint64_t w[SCAN_WORDS] = {0};

	if (!scan_is_running(p, w))
		return;
	dsl_mos_free(p, w[2], tx);
	w[1] = SCAN_CANCELED;
	w[2] = 0;
	w[8] = dsl_time();
	dsl_sync_check(p, zap_update(p->mos, MOS_DIRECTORY, "scan", 8, SCAN_WORDS, w, tx),
		       "the pool's directory cannot be changed");
	dsl_history(p, "scan aborted, restarting", NULL, tx, "%s", "");
}

static void scan_cancel(struct dsl_pool *p)
{
	struct dsl_task t = {.sync = scan_cancel_sync, .arg = p, .policy = DSL_SPACE_NONE};
	uint64_t w[SCAN_WORDS] = {0};
	bool running;

	{
		DSL_SHARED(p);
		running = scan_is_running(p, w);
	}
	if (running)
		dsl_task_run(p, &t, NULL);
}

void dsl_pool_clean_up(struct dsl_pool *p)
{
	scan_cancel(p);
	temporary_holds_drop(p);
	incomplete_destroy(p);
}
