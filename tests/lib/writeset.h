/*
 * tests/lib/writeset.h: an object set that can be changed, over a pool in memory, of which nothing is ever synced: for
 * tests of what stands on the dmu.
 */
#ifndef TESTS_WRITESET_H
#define TESTS_WRITESET_H

#include "testpool.h"

#include "dmu/dmu.h"

struct writeset {
	struct testpool *tp;
	struct objset *os;
	struct tx tx;
};

static void writeset_dirtied(struct objset *os, uint64_t txg)
{
}

static const struct objset_ops writeset_ops = {.dirtied = writeset_dirtied};

static void writeset_open(struct writeset *s)
{
	uint8_t(*slot)[512] = xcalloc(2, 512);
	struct bp root;
	struct err e = ERR_INIT;

	memset(s, 0, sizeof(*s));
	s->tp = tp_create(9, UINT64_C(64) << 20);
	s->tp->dp.txgs = txgs_create(11, NULL, NULL);
	root = tp_objset(s->tp, slot, 2, 1024);
	free(slot);
	if (objset_open(&s->tp->dp, 0, &root, NULL, &s->os, &e))
		fail_msg("%s", e.text);
	objset_set_writable(s->os, &writeset_ops, NULL);
	s->tx = (struct tx){.txgs = s->tp->dp.txgs, .txg = 11, .syncing = true, .pass = 1};
}

static void writeset_close(struct writeset *s)
{
	objset_abandon(s->os);
	objset_release(s->os);
	txgs_destroy(s->tp->dp.txgs);
	tp_destroy(s->tp);
}

#endif
