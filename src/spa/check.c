/* The walk over every block of a pool. */
#include "spa/check_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/counter.h"
#include "base/keyset.h"
#include "base/str.h"
#include "base/sync.h"
#include "dmu/bpobj.h"
#include "dmu/traverse.h"
#include "zil/zil.h"
#include "zio/zio_verify.h"

#define DSL_DATASET_BONUS 16 /* object type */
#define DATASET_BONUS_LEN 320u
#define DATASET_BP        128u
#define IN_FLIGHT_MAX     (64u << 20)
#define ERRORS_MAX        65536u
#define ERRORS_COMPARED   4096u
#define WRITE_BP          64u /* of TX_WRITE records, 07 9.12 */
#define DVA_OFFSET_BITS   40  /* of a place in units of 512 bytes, in a key: pools have few top-levels */

struct walk {
	struct spa *spa;
	struct spa_check *c;
	struct spa_claims *claims;
	struct zio_verifier *verifier; /* NULL: nothing is verified */
	bool ended_early;
	/* guarded by lock: filled by completions too. A leaf. */
	pthread_mutex_t lock;
	struct zbookmark *error;
	size_t nerrors, room;
};

void spa_check_warn(struct spa_check *c, const char *fmt, ...)
{
	char text[1200];
	va_list ap;

	c->incomplete = true;
	if (!c->warn)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	c->warn(c->arg, text);
}

/* ---- damage ---- */

static bool error_known(const struct walk *w, const struct zbookmark *zb)
{
	for (size_t i = w->nerrors; i-- > 0;)
		if (memcmp(&w->error[i], zb, sizeof(*zb)) == 0)
			return true;
	return false;
}

/* Any thread. A block is told once, though the walk may stumble over what the verification finds too. */
static void error_take(struct walk *w, const struct bp *bp, const struct zbookmark *zb, int err)
{
	SCOPED_LOCK(&w->lock);

	if (w->nerrors < ERRORS_COMPARED && error_known(w, zb))
		return;
	w->c->by_errno[MIN((unsigned)-err, SPA_CHECK_ERRNO_MAX - 1)]++;
	if (w->nerrors >= ERRORS_MAX)
		return;
	if (w->nerrors == w->room) {
		w->room = w->room ? 2 * w->room : 64;
		w->error = xrealloc(w->error, w->room * sizeof(*w->error));
	}
	w->error[w->nerrors++] = *zb;
	if (w->c->unreadable)
		w->c->unreadable(w->c->arg, bp, zb, err);
}

static void verified(void *arg, const struct bp *bp, const struct zbookmark *zb, int err)
{
	if (err)
		error_take(arg, bp, zb, err);
}

/* ---- counting ---- */

static bool stopped(struct walk *w)
{
	return w->c->stop && w->c->stop(w->c->arg);
}

static void block_count(struct walk *w, const struct bp *bp, const struct zbookmark *zb, bool freed, bool verify)
{
	unsigned seen = spa_claim(w->claims, bp, zb);

	if (w->c->block)
		w->c->block(w->c->arg, bp, zb, freed, seen);
	if (seen > 1 || bp_is_embedded(bp) || !verify || !w->verifier)
		return;
	if (w->c->verify == SPA_VERIFY_ALL || bp_is_metadata(bp))
		zio_verifier_submit(w->verifier, bp, zb);
}

static int block_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct walk *w = t->arg;
	int err = bp_check(bp);

	if (stopped(w))
		return -EINTR;
	if (err) {
		error_take(w, bp, zb, err);
		return TRAVERSE_SKIP;
	}
	block_count(w, bp, zb, false, true);
	return 0;
}

static void block_unreadable(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err)
{
	error_take(t->arg, bp, zb, err);
}

static int objset_walk(struct walk *w, struct objset *os, uint64_t min_txg)
{
	struct traverse t = {.min_txg = min_txg, .visit = block_visit, .error = block_unreadable, .arg = w};

	return traverse_objset(os, &t);
}

/* ---- intent logs ---- */

/*
 * A log that is not claimed yet has blocks that no space map knows, as they are younger than the state of the pool; as
 * in zdb they do not count, nor does the data they point to. Of a claimed log all blocks do.
 */
struct log_walk {
	struct walk *w;
	uint64_t objset, claim_txg;
	struct keyset data; /* places that records point to: several may point to one */
};

static int log_block(void *arg, const struct bp *bp, uint64_t seq)
{
	struct log_walk *l = arg;
	struct zbookmark zb = {l->objset, 0, -2, seq};

	if (!l->claim_txg && bp_birth(bp) > l->w->spa->uberblock.txg)
		return 0;
	block_count(l->w, bp, &zb, false, false);
	return 0;
}

static uint64_t place_key(const struct bp *bp)
{
	struct dva dva = bp_dva(bp, 0);

	return (uint64_t)dva.vdev << DVA_OFFSET_BITS | dva.offset >> 9;
}

/* Data that a record points to; what was synced since is a block of its file too, and counted there. */
static int log_record(void *arg, const struct zil_record *r)
{
	struct log_walk *l = arg;
	struct zbookmark zb = {l->objset, 0, -2, r->seq};
	struct bp bp;

	if (!l->claim_txg || r->txtype != TX_WRITE || r->reclen < WRITE_BP + BP_SIZE)
		return 0;
	bp_decode(&bp, r->data + WRITE_BP, false);
	if (bp_is_hole(&bp) || bp_check(&bp) || bp_birth(&bp) < l->claim_txg || !keyset_add(&l->data, place_key(&bp)))
		return 0;
	block_count(l->w, &bp, &zb, false, true);
	return 0;
}

static void log_walk(struct walk *w, struct objset *os)
{
	struct log_walk l = {.w = w, .objset = os->id};
	struct zil_header h;
	int err = zil_header_decode(os->zil_header, os->swapped, &h);

	l.claim_txg = h.claim_txg;
	if (!err && !bp_is_hole(&h.log))
		err = zil_each(os, log_block, log_record, &l);
	keyset_clear(&l.data);
	if (err)
		spa_check_warn(w->c, "intent log of data set %" PRIu64 ": %s", os->id, err_words(err));
}

/* ---- data sets ---- */

static void dataset_decode(const struct dnode *dn, struct spa_dataset *ds)
{
	ds->object = dn->object;
	ds->prev_snap_txg = load64(dn->bonus + 16, dn->swapped);
	ds->is_snapshot = load64(dn->bonus + 40, dn->swapped) != 0;
	bp_decode(&ds->bp, dn->bonus + DATASET_BP, dn->swapped);
}

int spa_each_dataset(struct spa *spa, int (*fn)(void *arg, const struct spa_dataset *ds), void *arg, uint64_t *skipped)
{
	uint64_t object = 0;
	int err = 0;

	*skipped = 0;
	while (!err && (err = dnode_next(spa->mos, &object, skipped)) == 0) {
		struct spa_dataset ds;
		struct dnode *dn;

		if (dnode_hold(spa->mos, object, &dn, NULL))
			continue;
		if (dn->bonustype == DSL_DATASET_BONUS && dn->bonuslen >= DATASET_BONUS_LEN) {
			dataset_decode(dn, &ds);
			err = fn(arg, &ds);
		}
		dnode_release(dn);
	}
	return err == -ESRCH ? 0 : err;
}

static int dataset_walk(void *arg, const struct spa_dataset *ds)
{
	struct walk *w = arg;
	struct zbookmark zb = {ds->object, 0, -1, 0};
	struct objset *os;
	struct err e = ERR_INIT;
	int err;

	if (bp_is_hole(&ds->bp))
		return 0;
	err = objset_open(&w->spa->dp, ds->object, &ds->bp, NULL, &os, &e);
	if (err) {
		if (bp_check(&ds->bp) == 0 && bp_birth(&ds->bp) > ds->prev_snap_txg)
			block_count(w, &ds->bp, &zb, false, false);
		error_take(w, &ds->bp, &zb, err);
		return 0;
	}
	err = objset_walk(w, os, ds->prev_snap_txg);
	objset_release(os);
	return err;
}

static int dataset_log(void *arg, const struct spa_dataset *ds)
{
	struct walk *w = arg;
	struct objset *os;

	if (ds->is_snapshot || bp_is_hole(&ds->bp) || objset_open(&w->spa->dp, ds->object, &ds->bp, NULL, &os, NULL))
		return 0;
	log_walk(w, os);
	objset_release(os);
	return stopped(w) ? -EINTR : 0;
}

/* ---- freed, but not yet reclaimed ---- */

static int deferred_count(void *arg, const struct bp *bp, bool freed)
{
	static const struct zbookmark nowhere = {0, 0, 0, 0};
	struct walk *w = arg;

	if (!bp_is_hole(bp) && bp_check(bp) == 0)
		block_count(w, bp, &nowhere, true, false);
	return 0;
}

static int tree_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	if (bp_check(bp))
		return TRAVERSE_SKIP;
	block_count(t->arg, bp, zb, true, false);
	return 0;
}

static int tree_walk(void *arg, const struct bp *root, uint64_t birth)
{
	struct walk *w = arg;
	struct traverse t = {.min_txg = birth, .visit = tree_visit, .error = block_unreadable, .arg = w};
	struct objset *os;
	int err;

	if (bp_is_hole(root) || objset_open(&w->spa->dp, 0, root, NULL, &os, NULL))
		return 0;
	err = traverse_objset(os, &t);
	objset_release(os);
	return err;
}

/* A livelist is an account of allocations and frees; what is left on it is still allocated. */
struct live {
	struct bp bp;
	int64_t balance;
};
struct livelist {
	struct live *e;
	size_t n, room;
};

static int live_take(void *arg, const struct bp *bp, bool freed)
{
	struct livelist *l = arg;

	if (l->n == l->room) {
		l->room = l->room ? 2 * l->room : 256;
		l->e = xrealloc(l->e, l->room * sizeof(*l->e));
	}
	l->e[l->n++] = (struct live){*bp, freed ? -1 : 1};
	return 0;
}

static int live_compare(const void *a, const void *b)
{
	const struct live *x = a, *y = b;
	uint64_t ba = bp_birth(&x->bp), bb = bp_birth(&y->bp);
	int c = memcmp(x->bp.w, y->bp.w, 2 * sizeof(x->bp.w[0]));

	return c ? c : (ba > bb) - (ba < bb);
}

static void livelist_count(struct walk *w, struct livelist *l)
{
	if (l->n)
		qsort(l->e, l->n, sizeof(*l->e), live_compare);
	for (size_t i = 0, k; i < l->n; i = k) {
		int64_t balance = 0;

		for (k = i; k < l->n && live_compare(&l->e[i], &l->e[k]) == 0; k++)
			balance += l->e[k].balance;
		for (; balance > 0; balance--)
			deferred_count(w, &l->e[i].bp, false);
	}
}

static int livelist_walk(struct walk *w, uint64_t object)
{
	struct objset *mos = w->spa->mos;
	struct livelist l = {NULL, 0, 0};
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	struct zap_cursor *c;
	int err = zap_cursor_open(mos, object, 0, &c);

	while (!err && (err = zap_cursor_next(c, ze)) == 0)
		err = bpobj_iterate(mos, ze->first, live_take, &l);
	zap_cursor_close(c);
	livelist_count(w, &l);
	free(l.e);
	return err == -ENOENT ? 0 : err;
}

static int livelists_walk(struct walk *w, uint64_t zap)
{
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	struct zap_cursor *c;
	int err = zap_cursor_open(w->spa->mos, zap, 0, &c);

	if (err)
		return err;
	while (!err && (err = zap_cursor_next(c, ze)) == 0)
		err = livelist_walk(w, ze->first);
	zap_cursor_close(c);
	return err == -ENOENT ? 0 : err;
}

static void deferred_walk(struct walk *w)
{
	static const char *const lists[] = {"sync_bplist", "free_bpobj"};
	struct objset *mos = w->spa->mos;
	uint64_t object;
	int err = 0;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (zap_lookup_u64(mos, 1, lists[i], &object))
			continue;
		err = bpobj_iterate(mos, object, deferred_count, w);
		if (err)
			spa_check_warn(w->c, "%s: %s", lists[i], err_words(err));
	}
	if (zap_lookup_u64(mos, 1, "bptree_obj", &object) == 0 && (err = bptree_iterate(mos, object, tree_walk, w)))
		spa_check_warn(w->c, "bptree_obj: %s", err_words(err));
	if (zap_lookup_u64(mos, 1, "com.delphix:deleted_clones", &object) == 0 && (err = livelists_walk(w, object)))
		spa_check_warn(w->c, "deleted_clones: %s", err_words(err));
}

/* ---- the whole ---- */

static int datasets_walk(struct walk *w, int (*fn)(void *arg, const struct spa_dataset *ds))
{
	uint64_t skipped;
	int err = spa_each_dataset(w->spa, fn, w, &skipped);

	if (skipped)
		spa_check_warn(w->c,
			       "%" PRIu64 " blocks of the MOS's object list cannot be read: data sets may be left out",
			       skipped);
	return err;
}

static void pool_walk(struct walk *w)
{
	uint64_t bad_before;
	int err;

	deferred_walk(w);
	err = datasets_walk(w, dataset_log);
	/* Intent logs end with a checksum that does not fit. */
	bad_before = counter_read(&w->spa->zp.checksum_failures);
	if (!err)
		err = objset_walk(w, w->spa->mos, 0);
	if (!err)
		err = datasets_walk(w, dataset_walk);
	if (err) {
		spa_check_warn(w->c, "the walk ended early: %s", err_words(err));
		w->ended_early = true;
	}
	if (w->verifier)
		zio_verifier_wait(w->verifier);
	w->c->bad_copies = counter_read(&w->spa->zp.checksum_failures) - bad_before;
}

bool spa_check(struct spa *spa, struct spa_check *c)
{
	struct walk *w = xcalloc(1, sizeof(*w));
	bool sound;

	w->spa = spa;
	w->c = c;
	pthread_mutex_init(&w->lock, NULL);
	w->claims = spa_claims_create(spa, c);
	if (c->verify != SPA_VERIFY_NOTHING)
		w->verifier = zio_verifier_create(&spa->zp, IN_FLIGHT_MAX, verified, w);
	pool_walk(w);
	zio_verifier_destroy(w->verifier);
	spa_claims_finish(w->claims);
	sound = !c->leaked && !c->contradictions && !c->wrong_refs && !w->nerrors && !w->ended_early;
	spa_claims_destroy(w->claims);
	pthread_mutex_destroy(&w->lock);
	free(w->error);
	free(w);
	return sound;
}
