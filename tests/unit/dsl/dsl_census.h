/*
 * tests/unit/dsl/dsl_census.h: counts a pool of the harness again from its blocks and objects, and compares every
 * number that the data set tree keeps: sizes, what is alone whose, deadlists and their keys, sums of dirs, features; no
 * space and no object of the MOS may be left that nobody refers to. The pool rests: nothing is dirty, and nothing waits
 * to be freed.
 */
#ifndef TESTS_DSL_CENSUS_H
#define TESTS_DSL_CENSUS_H

#include "dsl_harness.h"

struct census_set {
	uint64_t object;
	char name[DSL_NAME_MAX];
	struct hw_blocks b;
};

struct census {
	struct harness *h;
	struct census_set *set;
	size_t nsets;
	struct hw_blocks all;
	uint64_t *seen; /* objects of the MOS */
	size_t nseen, seen_cap;
	uint64_t zapified;
	uint64_t empties; /* references on the shared empty list */
	uint64_t *mark;   /* txgs of bookmarks */
	size_t nmarks;
};

struct census_dir {
	struct census *c;
	struct dsl_dataset *ds;
	const struct dsl_dir *d;
	struct hw_blocks own; /* of the head and all snapshots */
	struct dsl_space children;
	uint64_t child, child_rsrv;
};

/* --- objects of the MOS --- */

static inline void census_object(struct census *c, uint64_t object)
{
	if (!object)
		return;
	if (c->nseen == c->seen_cap) {
		c->seen_cap = c->seen_cap ? 2 * c->seen_cap : 256;
		c->seen = xrealloc(c->seen, c->seen_cap * sizeof(*c->seen));
	}
	c->seen[c->nseen++] = object;
}

static inline void census_bpobj(struct census *c, uint64_t object)
{
	struct bpobj_phys phys;
	struct dnode *dn;

	if (dsl_bpobj_is_shared_empty(c->h->p, object)) {
		c->empties++;
		return;
	}
	census_object(c, object);
	assert_int_equal(bpobj_read(c->h->mos, object, &phys), 0);
	if (!phys.subobjs)
		return;
	census_object(c, phys.subobjs);
	assert_int_equal(dnode_hold(c->h->mos, phys.subobjs, &dn, NULL), 0);
	for (uint64_t i = 0; i < phys.num_subobjs; i++) {
		uint64_t sub;

		assert_int_equal(dmu_read(dn, i * 8, &sub, 8, 0), 0);
		census_bpobj(c, sub);
	}
	dnode_release(dn);
}

static inline void census_deadlist(struct census *c, uint64_t object)
{
	struct name_list l;

	census_object(c, object);
	assert_int_equal(name_list_read(c->h->mos, object, &l), 0);
	for (size_t i = 0; i < l.n; i++)
		census_bpobj(c, l.e[i].object);
	name_list_free(&l);
}

static inline int census_cmp(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static inline void census_directory(struct census *c)
{
	struct name_list l;

	census_object(c, MOS_DIRECTORY);
	assert_int_equal(name_list_read(c->h->mos, MOS_DIRECTORY, &l), 0);
	for (size_t i = 0; i < l.n; i++) {
		if (strcmp(l.e[i].name, "deflate") == 0 || strcmp(l.e[i].name, "root_dataset") == 0)
			continue;
		if (strcmp(l.e[i].name, "free_bpobj") == 0)
			census_bpobj(c, l.e[i].object);
		else
			census_object(c, l.e[i].object);
	}
	name_list_free(&l);
}

static inline void census_objects_check(struct census *c)
{
	uint64_t object = 0;
	size_t i = 0;

	census_directory(c);
	qsort(c->seen, c->nseen, sizeof(*c->seen), census_cmp);
	while (dnode_next(c->h->mos, &object, NULL) == 0) {
		if (i >= c->nseen || c->seen[i] != object) {
			struct dnode *dn;

			assert_int_equal(dnode_hold(c->h->mos, object, &dn, NULL), 0);
			fail_msg("object %lu of the MOS (type %u) is %s (seen %lu)", object, dn->type,
				 i < c->nseen && c->seen[i] < object ? "preceded by one that is missing" : "left over",
				 i < c->nseen ? c->seen[i] : 0);
		}
		i++;
	}
	assert_int_equal(i, c->nseen);
}

/* --- data sets --- */

static inline struct census_set *census_find(struct census *c, uint64_t object)
{
	for (size_t i = 0; i < c->nsets; i++)
		if (c->set[i].object == object)
			return &c->set[i];
	return NULL;
}

static inline void census_set_add(struct census *c, const struct dsl_dataset *ds)
{
	struct census_set *s;

	c->set = xrealloc(c->set, (c->nsets + 1) * sizeof(*c->set));
	s = &c->set[c->nsets++];
	memset(s, 0, sizeof(*s));
	s->object = ds->object;
	memcpy(s->name, ds->name, sizeof(s->name));
	hw_count_root(c->h, &ds->bp, &s->b);
	for (size_t i = 0; i < s->b.n; i++)
		hw_block_add(&c->all, &s->b.b[i]);
	census_object(c, ds->object);
	census_object(c, ds->snap_names);
	census_object(c, ds->next_clones);
	census_object(c, ds->props);
	census_object(c, ds->userrefs);
	census_deadlist(c, ds->deadlist);
	c->zapified += ds->zapified;
}

static inline void census_add(struct dsl_space *sum, const struct dsl_space *s)
{
	sum->used += s->used;
	sum->comp += s->comp;
	sum->uncomp += s->uncomp;
}

/* Blocks of a (born after txg) that b has not. */
static inline struct dsl_space census_sum(const struct hw_blocks *a, uint64_t txg, const struct hw_blocks *b)
{
	struct dsl_space sum = {0};

	for (size_t i = 0; i < a->n; i++)
		if (a->b[i].birth > txg && (!b || !hw_blocks_have(b, &a->b[i])))
			census_add(&sum, &a->b[i].space);
	return sum;
}

static inline void census_equal(const char *name, const char *what, uint64_t kept, uint64_t counted)
{
	if (kept != counted)
		fail_msg("%s: %s is %lu, counted %lu", name, what, kept, counted);
}

static inline void census_triple(const char *name, const char *what, const struct dsl_space *kept,
				 const struct dsl_space *counted)
{
	if (memcmp(kept, counted, sizeof(*kept)) != 0)
		fail_msg("%s: %s is %lu/%lu/%lu, counted %lu/%lu/%lu", name, what, kept->used, kept->comp, kept->uncomp,
			 counted->used, counted->comp, counted->uncomp);
}

/* Txgs that the deadlist of a head has as keys (3.3): those of the snapshots, and perhaps of bookmarks. */
static inline void census_keys_check(struct census *c, struct dsl_dataset *head)
{
	uint64_t want[256], got[256];
	uint64_t object = head->prev_snap;
	struct name_list l;
	size_t n = 0, found = 0;

	while (object) {
		struct dsl_edit e;

		assert_int_equal(dsl_edit_begin(c->h->p, object, &e), 0);
		want[n++] = e.ds->prev_snap_txg;
		object = e.ds->prev_snap;
		dsl_edit_end(&e);
	}
	qsort(want, n, sizeof(*want), census_cmp);
	assert_int_equal(name_list_read(c->h->mos, head->deadlist, &l), 0);
	assert_true(l.n < ARRAY_LEN(got));
	for (size_t i = 0; i < l.n; i++)
		got[i] = strtoull(l.e[i].name, NULL, 16);
	qsort(got, l.n, sizeof(*got), census_cmp);
	for (size_t i = 0; i < l.n; i++) {
		if (bsearch(&got[i], want, n, sizeof(*want), census_cmp))
			found++;
		else if (!c->nmarks || !bsearch(&got[i], c->mark, c->nmarks, sizeof(*c->mark), census_cmp))
			fail_msg("%s: key %lu of the deadlist belongs to nobody", head->name, got[i]);
	}
	census_equal(head->name, "the number of deadlist keys for snapshots", found, n);
	name_list_free(&l);
}

/* What was written since something, as the deadlists tell it and as the blocks do. */
static inline int census_written_snap(void *arg, struct dsl_dataset *old)
{
	struct census_dir *cd = arg;
	struct census_set *s = census_find(cd->c, cd->ds->object);
	struct dsl_space kept, counted = census_sum(&s->b, old->creation_txg, NULL);

	if (cd->ds->is_snapshot && old->creation_txg >= cd->ds->creation_txg)
		return 0;
	assert_int_equal(dsl_written_since(cd->ds, old, &kept), 0);
	census_triple(cd->ds->name, "written since a snapshot", &kept, &counted);
	return 0;
}

static inline int census_written_mark(void *arg, const struct dsl_bookmark *b)
{
	struct census_dir *cd = arg;
	struct census_set *s = census_find(cd->c, cd->ds->object);
	struct dsl_space kept, counted = census_sum(&s->b, b->creation_txg, NULL);

	if (!b->written_valid || (cd->ds->is_snapshot && b->creation_txg >= cd->ds->creation_txg))
		return 0;
	assert_int_equal(dsl_written_since_bookmark(cd->ds, b, &kept), 0);
	census_triple(cd->ds->name, b->name, &kept, &counted);
	return 0;
}

static inline void census_written_check(struct census *c, struct dsl_dataset *ds)
{
	struct census_dir cd = {.c = c, .ds = ds};
	struct dsl_dataset *head;

	assert_int_equal(dsl_dataset_hold_obj(c->h->p, ds->dir->head, &head, NULL), 0);
	assert_int_equal(dsl_each_snapshot(head, census_written_snap, &cd), 0);
	assert_int_equal(dsl_each_bookmark(head, census_written_mark, &cd), 0);
	dsl_dataset_release(head);
}

/* Each list of a deadlist holds what its key says. */
static inline void census_entries_check(struct census *c, struct dsl_dataset *ds, const struct hw_blocks *dead_of,
					const struct hw_blocks *now)
{
	struct name_list l;
	uint64_t key[256];

	assert_int_equal(name_list_read(c->h->mos, ds->deadlist, &l), 0);
	for (size_t i = 0; i < l.n; i++)
		key[i] = strtoull(l.e[i].name, NULL, 16);
	for (size_t i = 0; i < l.n; i++) {
		struct dsl_space counted = {0}, kept;
		struct bpobj_phys phys;
		uint64_t next = UINT64_MAX;

		for (size_t k = 0; k < l.n; k++)
			if (key[k] > key[i])
				next = MIN(next, key[k]);
		for (size_t k = 0; dead_of && k < dead_of->n; k++)
			if (dead_of->b[k].birth > key[i] && dead_of->b[k].birth <= next &&
			    !hw_blocks_have(now, &dead_of->b[k]))
				census_add(&counted, &dead_of->b[k].space);
		assert_int_equal(bpobj_read(c->h->mos, l.e[i].object, &phys), 0);
		kept = (struct dsl_space){phys.bytes, phys.comp, phys.uncomp};
		census_triple(ds->name, "an entry of the deadlist", &kept, &counted);
	}
	name_list_free(&l);
}

static inline void census_set_check(struct census *c, struct dsl_dataset *ds)
{
	struct census_set *s = census_find(c, ds->object), *prev = census_find(c, ds->prev_snap),
			  *next = census_find(c, ds->next_snap);
	struct dsl_space kept = {ds->used, ds->compressed, ds->uncompressed}, sum, dead = {0};

	sum = census_sum(&s->b, 0, NULL);
	census_triple(ds->name, "referenced", &kept, &sum);
	if (ds->is_snapshot && !next)
		fail_msg("%s: its next one %lu is not there", ds->name, ds->next_snap);
	sum = census_sum(&s->b, ds->prev_snap_txg, ds->is_snapshot ? &next->b : NULL);
	census_equal(ds->name, "unique", ds->unique, sum.used);
	if (prev)
		dead = census_sum(&prev->b, 0, &s->b);
	assert_int_equal(dsl_deadlist_space(c->h->p, ds->deadlist, &kept), 0);
	census_triple(ds->name, "the deadlist", &kept, &dead);
	census_entries_check(c, ds, prev ? &prev->b : NULL, &s->b);
	if (!ds->is_snapshot)
		census_keys_check(c, ds);
	census_written_check(c, ds);
}

/* --- dirs --- */

static inline int census_snapshot(void *arg, struct dsl_dataset *s)
{
	census_set_add(arg, s);
	return 0;
}

static inline int census_mark(void *arg, const struct dsl_bookmark *b)
{
	struct census *c = arg;

	c->mark = xrealloc(c->mark, (c->nmarks + 1) * sizeof(*c->mark));
	c->mark[c->nmarks++] = b->creation_txg;
	return 0;
}

static inline int census_collect(void *arg, struct dsl_dataset *head)
{
	struct census *c = arg;
	const struct dsl_dir *d = head->dir;
	uint64_t marks;

	census_set_add(c, head);
	assert_int_equal(dsl_each_bookmark(head, census_mark, c), 0);
	if (dsl_dataset_ext_u64(head, "com.delphix:bookmarks", &marks) == 0)
		census_object(c, marks);
	assert_int_equal(dsl_each_snapshot(head, census_snapshot, c), 0);
	if (strstr(head->name, "$ORIGIN")) {
		struct dsl_edit e;

		assert_int_equal(dsl_edit_begin(c->h->p, head->prev_snap, &e), 0);
		census_set_add(c, e.ds);
		dsl_edit_end(&e);
	}
	census_object(c, d->object);
	census_object(c, d->props);
	census_object(c, d->child_map);
	census_object(c, d->clones);
	census_object(c, d->deleg);
	c->zapified += d->zapified;
	return 0;
}

static inline int census_own(void *arg, struct dsl_dataset *ds)
{
	struct census_dir *cd = arg;
	struct census_set *s = census_find(cd->c, ds->object);

	for (size_t i = 0; i < s->b.n; i++)
		hw_block_add(&cd->own, &s->b.b[i]);
	return 0;
}

static inline void census_child(struct census_dir *cd, const struct dsl_dir *child)
{
	struct dsl_space s = {child->used, child->compressed, child->uncompressed};

	census_add(&cd->children, &s);
	cd->child += child->used;
	cd->child_rsrv += MAX(child->used, child->reserved) - child->used;
}

static inline void census_children(struct census_dir *cd)
{
	struct harness *h = cd->c->h;
	struct name_list l;

	assert_int_equal(name_list_read(h->mos, cd->d->child_map, &l), 0);
	for (size_t i = 0; i < l.n; i++) {
		struct dsl_dir *child;

		assert_int_equal(dsl_dir_hold_named((struct dsl_dir *)cd->d, l.e[i].object, l.e[i].name, &child, NULL),
				 0);
		assert_int_equal(child->parent, cd->d->object);
		census_child(cd, child);
		if (!child->head) { /* $MOS and $FREE */
			census_object(cd->c, child->object);
			census_object(cd->c, child->props);
			census_object(cd->c, child->child_map);
		}
		dsl_dir_release(child);
	}
	name_list_free(&l);
}

static inline int census_dir_check(void *arg, struct dsl_dataset *head)
{
	struct census *c = arg;
	const struct dsl_dir *d = head->dir;
	struct census_dir cd = {.c = c, .d = d};
	struct dsl_space in_head, in_all;
	uint64_t origin = 0, reservation = dsl_dataset_refreservation(head), sum = 0;
	struct dsl_edit e;

	if (dsl_dir_is_clone(d)) {
		assert_int_equal(dsl_edit_begin(c->h->p, d->origin, &e), 0);
		origin = e.ds->creation_txg;
		dsl_edit_end(&e);
	}
	census_set_check(c, head);
	census_own(&cd, head);
	assert_int_equal(dsl_each_snapshot(head, census_own, &cd), 0);
	hw_blocks_sort(&cd.own);
	census_children(&cd);
	in_head = census_sum(&census_find(c, head->object)->b, origin, NULL);
	in_all = census_sum(&cd.own, origin, NULL);
	census_equal(d->name, "used by the data set", d->used_breakdown[DSL_USED_HEAD], in_head.used);
	census_equal(d->name, "used by snapshots", d->used_breakdown[DSL_USED_SNAP], in_all.used - in_head.used);
	census_equal(d->name, "used by children", d->used_breakdown[DSL_USED_CHILD], cd.child);
	census_equal(d->name, "reserved for children", d->used_breakdown[DSL_USED_CHILD_RSRV], cd.child_rsrv);
	census_equal(d->name, "refreserved", d->used_breakdown[DSL_USED_REFRSRV],
		     MAX(reservation, head->unique) - head->unique);
	for (unsigned i = 0; i < 5; i++)
		sum += d->used_breakdown[i];
	census_equal(d->name, "used", d->used, sum);
	census_equal(d->name, "compressed", d->compressed, in_all.comp + cd.children.comp);
	census_equal(d->name, "uncompressed", d->uncompressed, in_all.uncomp + cd.children.uncomp);
	hw_blocks_free(&cd.own);
	return 0;
}

static inline int census_snapshots_check(void *arg, struct dsl_dataset *head)
{
	struct census *c = arg;

	for (size_t i = 0; i < c->nsets; i++) {
		struct dsl_edit e;

		assert_int_equal(dsl_edit_begin(c->h->p, c->set[i].object, &e), 0);
		if (e.ds->is_snapshot && e.ds->dir_object == head->dir->object && c->set[i].name[0]) {
			struct dsl_dataset *s;

			assert_int_equal(dsl_dataset_hold(c->h->p, c->set[i].name, &s, NULL), 0);
			census_set_check(c, s);
			dsl_dataset_release(s);
		}
		dsl_edit_end(&e);
	}
	return 0;
}

static inline void census_space_check(struct census *c)
{
	struct harness *h = c->h;
	struct hw_blocks mos = {0};
	struct dsl_space sum;
	uint64_t bytes = 0;
	struct dsl_write *w = h->p->write;

	hw_count_root(h, &h->mos->rootbp, &mos);
	hw_blocks_sort(&mos);
	sum = census_sum(&mos, 0, NULL);
	census_equal("$MOS", "used", w->mos_dir->used + (uint64_t)(atomic_load(&w->mos_space[0]) + h->mos_lost),
		     sum.used);
	census_equal("$FREE", "used", w->free_dir->used, 0);
	hw_blocks_sort(&c->all);
	for (size_t i = 0; i < c->all.n; i++)
		bytes += c->all.b[i].asize;
	for (size_t i = 0; i < mos.n; i++)
		bytes += mos.b[i].asize;
	census_equal("the pool", "space in use", tp_in_use(h->tp), bytes);
	assert_int_equal(h->tp->bad_frees, 0);
	hw_blocks_free(&mos);
}

/* After hw_drain. */
static inline void hw_check(struct harness *h)
{
	struct census c = {.h = h};

	assert_int_equal(dsl_each_head(h->p, census_collect, &c), 0);
	if (c.nmarks)
		qsort(c.mark, c.nmarks, sizeof(*c.mark), census_cmp);
	assert_int_equal(dsl_each_head(h->p, census_dir_check, &c), 0);
	assert_int_equal(dsl_each_head(h->p, census_snapshots_check, &c), 0);
	census_space_check(&c);
	census_objects_check(&c);
	census_equal("extensible_dataset", "the count", (uint64_t)hw_feature(h, "com.delphix:extensible_dataset")->refs,
		     c.zapified);
	census_equal("empty_bpobj", "the count", (uint64_t)hw_feature(h, "com.delphix:empty_bpobj")->refs, c.empties);
	for (size_t i = 0; i < c.nsets; i++)
		hw_blocks_free(&c.set[i].b);
	hw_blocks_free(&c.all);
	free(c.set);
	free(c.seen);
	free(c.mark);
}

#endif
