/* Every block of the pool, counted (spa/check.h). */
#include "cli/zdb.h"

#include <unistd.h>

#include "base/counter.h"
#include "spa/check.h"

#define PROGRESS_NS UINT64_C(1000000000)

struct walk {
	struct zdb *z;
	struct zdb_totals t;
	struct spa_check c;
	uint64_t bytes, started, told; /* told: when progress was last shown, 0: never */
};

/* Any thread. */
static void block_unreadable(void *arg, const struct bp *bp, const struct zbookmark *zb, int err)
{
	struct str text = {NULL, 0, 0};

	bp_print(bp, &text);
	printf("zdb_blkptr_cb: Got error %d reading <%" PRIu64 ", %" PRIu64 ", %" PRId64 ", %" PRIx64
	       "> %s (%s) -- skipping\n",
	       -err, zb->objset, zb->object, zb->level, zb->blkid, str_get(&text), err_words(err));
	str_free(&text);
}

static void wrong_print(void *arg, const char *text)
{
	puts(text);
}

static void warn(void *arg, const char *text)
{
	struct walk *w = arg;

	zdb_warn(w->z, "%s", text);
}

static bool stop(void *arg)
{
	return cli_interrupted;
}

static void progress(struct walk *w)
{
	uint64_t now = now_ns();
	double seconds = (double)(now - w->started) / 1e9;

	if (now - w->told < PROGRESS_NS)
		return;
	w->told = now;
	fprintf(stderr, "\r%5" PRIu64 "M completed (%4.0fMB/s) ", w->bytes >> 20, (double)w->bytes / 1e6 / seconds);
}

static void block_print(const struct bp *bp, const struct zbookmark *zb)
{
	struct str text = {NULL, 0, 0};

	bp_print(bp, &text);
	printf("objset %" PRIu64 " object %" PRIu64 " level %" PRId64 " offset 0x%" PRIx64 " %s\n", zb->objset,
	       zb->object, zb->level, zb->blkid, str_get(&text));
	str_free(&text);
}

static void shared_count(struct zdb_totals *t, const struct bp *bp, unsigned seen)
{
	if (bp_is_dedup(bp)) {
		t->dedup_asize += bp_asize(bp);
		t->dedup_blocks += seen == 2;
	} else {
		t->clone_asize += bp_asize(bp);
		t->clone_blocks++;
	}
}

static void block_count(void *arg, const struct bp *bp, const struct zbookmark *zb, bool freed, unsigned seen)
{
	struct walk *w = arg;

	zdb_totals_add(&w->t, bp, freed ? ZDB_DEFER : zdb_type_index(bp));
	if (zdb_level(w->z, 'b') >= 6)
		block_print(bp, zb);
	if (seen > 1)
		shared_count(&w->t, bp, seen);
	else if (!bp_is_embedded(bp))
		w->bytes += bp_asize(bp);
	if (w->told)
		progress(w);
}

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

static void errors_print(const struct walk *w)
{
	bool any = false;

	for (unsigned i = 0; i < SPA_CHECK_ERRNO_MAX; i++) {
		if (w->c.by_errno[i] == 0)
			continue;
		if (!any)
			puts("\nError counts:\n\n\terrno  count");
		printf("\t%5u  %" PRIu64 "\n", i, w->c.by_errno[i]);
		any = true;
	}
}

static void leaks_print(const struct walk *w)
{
	const struct spa_check *c = &w->c;

	if (c->leaked)
		printf("\n\tblock traversal size differs from the space maps (leaked %" PRIu64 ")\n", c->leaked);
	if (c->contradictions)
		printf("\n\t%" PRIu64 " ranges are referenced twice or not allocated\n", c->contradictions);
	if (c->wrong_refs)
		printf("\n\t%" PRIu64 " entries of deduplication tables have wrong reference counts\n", c->wrong_refs);
	if (!c->leaked && !c->contradictions && !c->wrong_refs && !c->incomplete && c->leaks)
		puts("\n\tNo leaks (block sum matches space maps exactly)");
}

static void classes_print(const struct walk *w)
{
	static const char *const label[SPA_CHECK_CLASSES] = {
	    [SPA_CHECK_NORMAL] = "Normal class:",
	    [SPA_CHECK_SPECIAL] = "Special class",
	    [SPA_CHECK_DEDUP] = "Dedup class",
	    [SPA_CHECK_LOG] = "Log class",
	};

	for (size_t i = 0; i < SPA_CHECK_CLASSES; i++) {
		if (w->c.class[i].size)
			printf("\t%-16s %14" PRIu64 "     used: %5.2f%%\n", label[i], w->c.class[i].used,
			       100.0 * (double)w->c.class[i].used / (double)w->c.class[i].size);
	}
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

	errors_print(w);
	leaks_print(w);
	if (w->c.bad_copies)
		printf("\n\t%" PRIu64 " copies or reconstructions had wrong checksums\n", w->c.bad_copies);
	putchar('\n');
	zdb_totals_print(z, &w->t);
	classes_print(w);
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
	w->c = (struct spa_check){
	    .leaks = !zdb_has(z, 'L'),
	    .verify = (enum spa_check_verify)MIN(zdb_level(z, 'c'), (unsigned)SPA_VERIFY_ALL),
	    .block = block_count,
	    .unreadable = block_unreadable,
	    .wrong = wrong_print,
	    .warn = warn,
	    .stop = stop,
	    .arg = w,
	};
	heading(z);
	w->started = now_ns();
	w->told = isatty(STDERR_FILENO) ? w->started : 0;
	if (!spa_check(z->spa, &w->c))
		z->rc = ZDB_DAMAGE;
	if (w->told)
		fprintf(stderr, "\r%60s\r", "");
	result_print(w);
	free(w);
}
