/*
 * test_traverse POOL: every object set of a pool, heads and snapshots, walked without keys; every copy of every block
 * verified; and each object set holds as many objects as its root pointer says.
 */
#include <inttypes.h>
#include <stdio.h>

#include "dmu/traverse.h"
#include "golden.h"
#include "zio/zio_verify.h"

#define DSL_DATASET    16u
#define DSL_DATASET_BP 128u
#define VERIFY_BYTES   (32u << 20)

struct walk {
	struct golden *g;
	struct zio_verifier *verifier;
	uint64_t blocks, objects, objsets;
	atomic_uint bad;
};

static void verified(void *arg, const struct bp *bp, const struct zbookmark *zb, int err)
{
	struct walk *w = arg;

	if (!err)
		return;
	atomic_fetch_add(&w->bad, 1);
	fprintf(stderr, "object set %" PRIu64 " object %" PRIu64 " level %" PRId64 " block %" PRIu64 ": %s\n",
		zb->objset, zb->object, zb->level, zb->blkid, err_words(err));
}

static int visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct walk *w = t->arg;

	w->blocks++;
	zio_verifier_submit(w->verifier, bp, zb);
	return 0;
}

static void unreadable(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err)
{
	verified(t->arg, bp, zb, err);
}

static void walk_objset(struct walk *w, struct objset *os)
{
	struct traverse t = {.visit = visit, .error = unreadable, .arg = w};
	uint64_t object = 0, n = 0, skipped = 0;

	while (dnode_next(os, &object, &skipped) == 0)
		n++;
	if (n != bp_fill(&os->rootbp) || skipped > 0)
		golden_differs(
		    w->g, "object set %" PRIu64 " has %" PRIu64 " objects, %" PRIu64 " unreadable, instead of %" PRIu64,
		    os->id, n, skipped, bp_fill(&os->rootbp));
	traverse_objset(os, &t);
	w->objects += n;
	w->objsets++;
}

static void walk_dataset(struct walk *w, const struct dnode *dn)
{
	struct err e = ERR_INIT;
	struct objset *os;
	struct bp bp;

	if (dn->bonustype != DSL_DATASET || dn->bonuslen < DSL_DATASET_BP + BP_SIZE)
		return;
	bp_decode(&bp, dn->bonus + DSL_DATASET_BP, dn->swapped);
	if (bp_is_hole(&bp))
		return;
	if (objset_open(&w->g->spa->dp, dn->object, &bp, NULL, &os, &e)) {
		golden_differs(w->g, "%s", e.text);
		return;
	}
	walk_objset(w, os);
	objset_release(os);
}

/* Every data set is an object of the MOS with the DSL dataset bonus. */
static void walk_pool(struct walk *w)
{
	struct objset *mos = w->g->spa->mos;
	struct err e = ERR_INIT;
	uint64_t object = 0;
	struct dnode *dn;

	walk_objset(w, mos);
	while (dnode_next(mos, &object, NULL) == 0) {
		if (dnode_hold(mos, object, &dn, &e)) {
			golden_differs(w->g, "%s", e.text);
			continue;
		}
		walk_dataset(w, dn);
		dnode_release(dn);
	}
	zio_verifier_wait(w->verifier);
}

int main(int argc, char **argv)
{
	struct golden g = {0};
	struct walk w = {.g = &g};
	int rc = argc == 2 ? golden_open(&g, argv[1]) : 1;

	if (rc)
		return rc;
	w.verifier = zio_verifier_create(&g.spa->zp, VERIFY_BYTES, verified, &w);
	walk_pool(&w);
	if (w.bad > 0)
		golden_differs(&g, "%u blocks cannot be read", w.bad);
	printf("%s: %" PRIu64 " object sets, %" PRIu64 " objects, %" PRIu64 " blocks, %" PRIu64
	       " bytes: %u differences\n",
	       argv[1], w.objsets, w.objects, w.blocks, zio_verifier_bytes(w.verifier), g.differences);
	rc = g.differences > 0;
	zio_verifier_destroy(w.verifier);
	golden_close(&g);
	return rc;
}
