/*
 * Every block of the pool, once: the MOS, then each data set and snapshot for what was born after the snapshot before
 * it, intent logs, and what is freed but not yet reclaimed. One thread walks, counts and claims; the reads that verify
 * (-c) run beside it, many at a time, their bytes bounded.
 */
#include "cli/zdb.h"

#include <unistd.h>

#include "base/counter.h"
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
#define ERRNO_MAX         256u
#define WRITE_BP          64u /* of TX_WRITE records, 07 9.12 */
#define PROGRESS_NS       UINT64_C(1000000000)

struct walk {
	struct zdb *z;
	struct zdb_totals t;
	struct zdb_claims *claims;
	struct zio_verifier *verifier; /* NULL without -c */
	bool all_blocks;               /* -cc */
	bool failed;
	uint64_t bad_before;           /* checksum failures that intent logs end with */
	uint64_t bytes, started, told; /* told: when progress was last shown, 0: never */
	/* guarded by lock: filled by completions too */
	pthread_mutex_t lock;
	struct zbookmark *error;
	size_t nerrors, room;
	uint64_t by_errno[ERRNO_MAX];
};

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
	struct str text = {NULL, 0, 0};
	SCOPED_LOCK(&w->lock);

	if (w->nerrors < 4096 && error_known(w, zb))
		return;
	w->by_errno[MIN((unsigned)-err, ERRNO_MAX - 1)]++;
	if (w->nerrors >= ERRORS_MAX)
		return;
	if (w->nerrors == w->room) {
		w->room = w->room ? 2 * w->room : 64;
		w->error = xrealloc(w->error, w->room * sizeof(*w->error));
	}
	w->error[w->nerrors++] = *zb;
	bp_print(bp, &text);
	printf("zdb_blkptr_cb: Got error %d reading <%" PRIu64 ", %" PRIu64 ", %" PRId64 ", %" PRIx64
	       "> %s (%s) -- skipping\n",
	       -err, zb->objset, zb->object, zb->level, zb->blkid, str_get(&text), err_words(err));
	str_free(&text);
}

static void verified(void *arg, const struct bp *bp, const struct zbookmark *zb, int err)
{
	if (err)
		error_take(arg, bp, zb, err);
}

/* ---- counting ---- */

static void progress(struct walk *w)
{
	uint64_t now = now_ns();
	double seconds = (double)(now - w->started) / 1e9;

	if (now - w->told < PROGRESS_NS)
		return;
	w->told = now;
	fprintf(stderr, "\r%5" PRIu64 "M completed (%4.0fMB/s) ", w->bytes >> 20, (double)w->bytes / 1e6 / seconds);
}

static void block_count(struct walk *w, const struct bp *bp, const struct zbookmark *zb, unsigned type, bool verify)
{
	zdb_totals_add(&w->t, bp, type);
	if (zdb_level(w->z, 'b') >= 6) {
		struct str text = {NULL, 0, 0};

		bp_print(bp, &text);
		printf("objset %" PRIu64 " object %" PRIu64 " level %" PRId64 " offset 0x%" PRIx64 " %s\n", zb->objset,
		       zb->object, zb->level, zb->blkid, str_get(&text));
		str_free(&text);
	}
	if (bp_is_embedded(bp) || !zdb_claim(w->claims, bp, zb, &w->t))
		return;
	w->bytes += bp_asize(bp);
	if (w->told)
		progress(w);
	if (verify && w->verifier && (w->all_blocks || bp_is_metadata(bp)))
		zio_verifier_submit(w->verifier, bp, zb);
}

static int block_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct walk *w = t->arg;
	int err = bp_check(bp);

	if (cli_interrupted)
		return -EINTR;
	if (err) {
		error_take(w, bp, zb, err);
		return TRAVERSE_SKIP;
	}
	block_count(w, bp, zb, zdb_type_index(bp), true);
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
};

static int log_block(void *arg, const struct bp *bp, uint64_t seq)
{
	struct log_walk *l = arg;
	struct zbookmark zb = {l->objset, 0, -2, seq};

	if (!l->claim_txg && bp_birth(bp) > l->w->z->spa->uberblock.txg)
		return 0;
	block_count(l->w, bp, &zb, zdb_type_index(bp), false);
	return 0;
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
	if (bp_is_hole(&bp) || bp_check(&bp) || bp_birth(&bp) < l->claim_txg)
		return 0;
	block_count(l->w, &bp, &zb, zdb_type_index(&bp), true);
	return 0;
}

static void log_walk(struct walk *w, struct objset *os)
{
	struct log_walk l = {w, os->id, 0};
	struct zil_header h;
	int err = zil_header_decode(os->zil_header, os->swapped, &h);

	l.claim_txg = h.claim_txg;
	if (!err && !bp_is_hole(&h.log))
		err = zil_each(os, log_block, log_record, &l);
	if (err)
		zdb_warn(w->z, "intent log of data set %" PRIu64 ": %s", os->id, err_words(err));
}

/* ---- data sets ---- */

static void dataset_decode(const struct dnode *dn, struct zdb_dataset *ds)
{
	ds->object = dn->object;
	ds->prev_snap_txg = load64(dn->bonus + 16, dn->swapped);
	ds->is_snapshot = load64(dn->bonus + 40, dn->swapped) != 0;
	bp_decode(&ds->bp, dn->bonus + DATASET_BP, dn->swapped);
}

int zdb_each_dataset(struct zdb *z, int (*fn)(void *arg, const struct zdb_dataset *ds), void *arg)
{
	uint64_t object = 0, skipped = 0;
	int err = 0;

	while (!err && (err = dnode_next(z->spa->mos, &object, &skipped)) == 0) {
		struct zdb_dataset ds;
		struct dnode *dn;

		if (dnode_hold(z->spa->mos, object, &dn, NULL))
			continue;
		if (dn->bonustype == DSL_DATASET_BONUS && dn->bonuslen >= DATASET_BONUS_LEN) {
			dataset_decode(dn, &ds);
			err = fn(arg, &ds);
		}
		dnode_release(dn);
	}
	if (skipped)
		zdb_warn(z, "%" PRIu64 " blocks of the MOS's object list cannot be read: data sets may be left out",
			 skipped);
	return err == -ESRCH ? 0 : err;
}

static int dataset_walk(void *arg, const struct zdb_dataset *ds)
{
	struct walk *w = arg;
	struct zbookmark zb = {ds->object, 0, -1, 0};
	struct objset *os;
	struct err e = ERR_INIT;
	int err;

	if (bp_is_hole(&ds->bp))
		return 0;
	err = objset_open(&w->z->spa->dp, ds->object, &ds->bp, NULL, &os, &e);
	if (err) {
		if (bp_check(&ds->bp) == 0 && bp_birth(&ds->bp) > ds->prev_snap_txg)
			block_count(w, &ds->bp, &zb, zdb_type_index(&ds->bp), false);
		error_take(w, &ds->bp, &zb, err);
		return 0;
	}
	err = objset_walk(w, os, ds->prev_snap_txg);
	objset_release(os);
	return err;
}

static int dataset_log(void *arg, const struct zdb_dataset *ds)
{
	struct walk *w = arg;
	struct objset *os;

	if (ds->is_snapshot || bp_is_hole(&ds->bp) || objset_open(&w->z->spa->dp, ds->object, &ds->bp, NULL, &os, NULL))
		return 0;
	log_walk(w, os);
	objset_release(os);
	return cli_interrupted ? -EINTR : 0;
}

/* ---- freed, but not yet reclaimed ---- */

static int deferred_count(void *arg, const struct bp *bp, bool freed)
{
	static const struct zbookmark nowhere = {0, 0, 0, 0};
	struct walk *w = arg;

	if (!bp_is_hole(bp) && bp_check(bp) == 0)
		block_count(w, bp, &nowhere, ZDB_DEFER, false);
	return 0;
}

static int tree_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	if (bp_check(bp))
		return TRAVERSE_SKIP;
	block_count(t->arg, bp, zb, ZDB_DEFER, false);
	return 0;
}

static int tree_walk(void *arg, const struct bp *root, uint64_t birth)
{
	struct walk *w = arg;
	struct traverse t = {.min_txg = birth, .visit = tree_visit, .error = block_unreadable, .arg = w};
	struct objset *os;
	int err;

	if (bp_is_hole(root) || objset_open(&w->z->spa->dp, 0, root, NULL, &os, NULL))
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
	struct objset *mos = w->z->spa->mos;
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
	int err = zap_cursor_open(w->z->spa->mos, zap, 0, &c);

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
	struct objset *mos = w->z->spa->mos;
	uint64_t object;
	int err = 0;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (zap_lookup_u64(mos, 1, lists[i], &object))
			continue;
		err = bpobj_iterate(mos, object, deferred_count, w);
		if (err)
			zdb_warn(w->z, "%s: %s", lists[i], err_words(err));
	}
	if (zap_lookup_u64(mos, 1, "bptree_obj", &object) == 0 && (err = bptree_iterate(mos, object, tree_walk, w)))
		zdb_warn(w->z, "bptree_obj: %s", err_words(err));
	if (zap_lookup_u64(mos, 1, "com.delphix:deleted_clones", &object) == 0 && (err = livelists_walk(w, object)))
		zdb_warn(w->z, "deleted_clones: %s", err_words(err));
}

/* ---- the whole ---- */

static void heading(const struct zdb *z)
{
	unsigned c = zdb_level(z, 'c');
	bool leaks = !zdb_has(z, 'L');

	printf("\nTraversing all blocks %s%s%s%s...\n\n", c || leaks ? "to verify " : "",
	       c > 1 ? "checksums "
	       : c   ? "metadata checksums "
		     : "",
	       c && leaks ? "and verify " : "", leaks ? "nothing leaked " : "");
	fflush(stdout);
}

static void pool_walk(struct walk *w)
{
	int err;

	deferred_walk(w);
	err = zdb_each_dataset(w->z, dataset_log, w);
	w->bad_before = counter_read(&w->z->spa->zp.checksum_failures);
	if (!err)
		err = objset_walk(w, w->z->spa->mos, 0);
	if (!err)
		err = zdb_each_dataset(w->z, dataset_walk, w);
	if (err) {
		zdb_warn(w->z, "the walk ended early: %s", err_words(err));
		w->failed = true;
	}
	if (w->verifier)
		zio_verifier_wait(w->verifier);
	if (w->told)
		fprintf(stderr, "\r%60s\r", "");
}

static bool errors_print(const struct walk *w)
{
	bool any = false;

	for (unsigned i = 0; i < ERRNO_MAX; i++) {
		if (w->by_errno[i] == 0)
			continue;
		if (!any)
			puts("\nError counts:\n\n\terrno  count");
		printf("\t%5u  %" PRIu64 "\n", i, w->by_errno[i]);
		any = true;
	}
	return any;
}

static void repaired_print(const struct walk *w)
{
	uint64_t bad = counter_read(&w->z->spa->zp.checksum_failures) - w->bad_before;

	if (bad)
		printf("\n\t%" PRIu64 " copies or reconstructions had wrong checksums\n", bad);
}

static void indirect_print(const struct zdb *z)
{
	const struct vdev *root = z->spa->root;

	for (unsigned i = 0; i < root->nchildren; i++) {
		size_t n;

		if (vdev_indirect_mapping(root->child[i], &n) && n)
			printf("\tindirect vdev id %u has %zu segments\n", i, n);
	}
}

static void result_print(struct walk *w)
{
	struct zdb *z = w->z;
	bool damaged = errors_print(w), sound = zdb_claims_finish(w->claims, &w->t);

	if (sound && !w->failed && !zdb_has(z, 'L'))
		puts("\n\tNo leaks (block sum matches space maps exactly)");
	if (!sound || damaged || w->failed)
		z->rc = ZDB_DAMAGE;
	repaired_print(w);
	putchar('\n');
	zdb_totals_print(z, &w->t);
	zdb_claims_space(z, w->claims);
	zdb_embedded_print(z, &w->t);
	indirect_print(z);
	if (zdb_level(z, 'b') >= 2) {
		zdb_types_print(z, &w->t, zdb_level(z, 'b') >= 3);
		zdb_sizes_print(z, &w->t);
	}
	putchar('\n');
}

void zdb_blocks(struct zdb *z)
{
	struct walk *w = xcalloc(1, sizeof(*w));

	w->z = z;
	w->t.root = z->spa->root;
	w->all_blocks = zdb_level(z, 'c') > 1;
	pthread_mutex_init(&w->lock, NULL);
	heading(z);
	zdb_claims_create(z, &w->claims);
	if (zdb_has(z, 'c'))
		w->verifier = zio_verifier_create(&z->spa->zp, IN_FLIGHT_MAX, verified, w);
	w->started = now_ns();
	w->told = isatty(STDERR_FILENO) ? w->started : 0;
	pool_walk(w);
	zio_verifier_destroy(w->verifier);
	result_print(w);
	zdb_claims_destroy(w->claims);
	pthread_mutex_destroy(&w->lock);
	free(w->error);
	free(w);
}
