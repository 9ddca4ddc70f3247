#include "cli/zdb.h"

#include "base/hash.h"
#include "dmu/traverse.h"
#include "dsl/ddt.h"
#include "dsl/dsl_deadlist.h"
#include "spa/check.h"

static void histogram_row(const struct zdb *z, const char *label, const struct ddt_bucket *b)
{
	const uint64_t v[] = {b->blocks,     b->lsize,     b->psize,     b->dsize,
			      b->ref_blocks, b->ref_lsize, b->ref_psize, b->ref_dsize};
	char text[SIZE_TEXT];

	printf("%6s", label);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		size_print(v[i], i % 4 != 0, text);
		if (zdb_has(z, 'P') || v[i] == 0)
			zdb_number(z, v[i], text);
		printf(i % 4 ? "   %5s" : "   %6s", text);
	}
	putchar('\n');
}

static void histogram_print(const struct zdb *z, const struct ddt_histogram *h, bool total)
{
	struct ddt_bucket sum = ddt_histogram_total(h);

	puts("bucket              allocated                       referenced          \n"
	     "______   ______________________________   ______________________________\n"
	     "refcnt   blocks   LSIZE   PSIZE   DSIZE   blocks   LSIZE   PSIZE   DSIZE\n"
	     "------   ------   -----   -----   -----   ------   -----   -----   -----");
	for (unsigned i = 0; i < DDT_BUCKETS; i++) {
		char label[SIZE_TEXT];

		if (h->bucket[i].blocks == 0)
			continue;
		size_print(UINT64_C(1) << i, false, label);
		histogram_row(z, label, &h->bucket[i]);
	}
	if (total)
		histogram_row(z, "Total", &sum);
	putchar('\n');
}

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

static void ratios_print(const struct ddt_histogram *h)
{
	struct ddt_bucket t = ddt_histogram_total(h);
	double dedup = ratio(t.ref_dsize, t.dsize), compress = ratio(t.ref_lsize, t.ref_psize),
	       copies = ratio(t.ref_dsize, t.ref_psize);

	printf("dedup = %.2f, compress = %.2f, copies = %.2f, dedup * compress / copies = %.2f\n\n", dedup, compress,
	       copies, copies > 0 ? dedup * compress / copies : 0);
}

/* ---- tables ---- */

struct contents {
	struct zdb *z;
	enum checksum checksum;
	unsigned cls;
};

static int entry_print(void *arg, const struct ddt_entry *e)
{
	static const char *const slots[] = {"ditto", "single", "double", "triple"};
	const struct contents *k = arg;

	if (e->checksum != k->checksum || e->cls != k->cls)
		return cli_interrupted ? -EINTR : 0;
	for (unsigned i = 0; i < e->nphys; i++) {
		struct str text = {NULL, 0, 0};
		struct bp bp;

		if (e->phys[i].birth == 0)
			continue;
		ddt_entry_bp(e, i, &bp);
		bp_print(&bp, &text);
		printf("index %" PRIx64 " refcnt %" PRIu64 " %s%s %s\n", e->cookie, e->phys[i].refcount,
		       e->nphys == 1 ? slots[bp_ndvas(&bp)] : slots[i], e->logged ? " (in the log)" : "",
		       str_get(&text));
		str_free(&text);
	}
	return 0;
}

static void class_print(struct zdb *z, const struct ddt_table *t, unsigned cls)
{
	const struct ddt_object *o = &t->cls[cls];
	struct contents k = {z, t->checksum, cls};
	unsigned level = zdb_level(z, 'D');

	if (!o->object || !o->entries)
		return;
	printf("%s: %" PRIu64 " entries, size %" PRIu64 " on disk, %" PRIu64 " in core\n", o->name, o->entries,
	       o->bytes_on_disk / o->entries, o->bytes_in_core / o->entries);
	if (level < 3)
		return;
	putchar('\n');
	histogram_print(z, &o->histogram, false);
	if (level < 4)
		return;
	printf("%s contents:\n\n", o->name);
	ddt_each(z->spa->dsl, entry_print, &k);
	putchar('\n');
}

static void table_print(struct zdb *z, const struct ddt_table *t, struct ddt_histogram *all)
{
	for (unsigned c = 0; c < DDT_CLASSES; c++) {
		class_print(z, t, c);
		ddt_histogram_add(all, &t->cls[c].histogram);
	}
	for (unsigned i = 0; i < 2; i++)
		if (t->log[i].object)
			printf("%s: %" PRIu64 " entries, %" PRIu64 " bytes in use, first txg %" PRIu64 "%s%s\n",
			       t->log[i].name, t->log[i].entries, t->log[i].length, t->log[i].first_txg,
			       t->log[i].flags & DDT_LOG_FLUSHING ? ", flushing" : "",
			       t->log[i].flags & DDT_LOG_CHECKPOINT ? ", checkpointed" : "");
	ddt_histogram_add(all, &t->logged);
}

void zdb_ddt(struct zdb *z)
{
	struct ddt_histogram *all = xcalloc(1, sizeof(*all));
	autofree struct ddt_table *t = NULL;
	struct err e = ERR_INIT;
	size_t n = 0;

	if (ddt_tables_get(z->spa->dsl, &t, &n, &e))
		zdb_warn(z, "deduplication tables: %s", e.text);
	for (size_t i = 0; i < n; i++)
		table_print(z, &t[i], all);
	if (ddt_histogram_total(all).blocks == 0) {
		puts("All DDTs are empty");
	} else {
		if (zdb_level(z, 'D') >= 2) {
			puts("\nDDT histogram (aggregated over all DDTs):\n");
			histogram_print(z, all, true);
		}
		putchar('\n');
		ratios_print(all);
	}
	free(all);
}

/* ---- simulation: as if every data block of today were written with deduplication ---- */

struct sim_block {
	uint64_t key[5]; /* checksum, sizes and compression, as a table has them; refs 0: a free slot */
	uint64_t refs, lsize, psize, dsize;
};
struct sim {
	struct zdb *z;
	struct sim_block *block; /* open addressing */
	size_t n, room;
};

static struct sim_block *sim_slot(struct sim *s, const uint64_t key[5])
{
	size_t at = (size_t)hash_mix(key[0] ^ key[2] ^ key[4], key[1] ^ key[3]) & (s->room - 1);

	while (s->block[at].refs && memcmp(s->block[at].key, key, sizeof(s->block[at].key)))
		at = (at + 1) & (s->room - 1);
	return &s->block[at];
}

static void sim_grow(struct sim *s)
{
	struct sim_block *old = s->block;
	size_t room = s->room;

	s->room = room ? 2 * room : 4096;
	s->block = xcalloc(s->room, sizeof(*s->block));
	for (size_t i = 0; i < room; i++)
		if (old[i].refs)
			*sim_slot(s, old[i].key) = old[i];
	free(old);
}

static int sim_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct sim *s = t->arg;
	uint64_t key[5] = {bp->w[12], bp->w[13], bp->w[14], bp->w[15], bits64(bp->w[6], 0, 39)};
	struct sim_block *b;

	if (cli_interrupted)
		return -EINTR;
	if (bp_check(bp))
		return TRAVERSE_SKIP;
	if (bp_is_embedded(bp) || zb->level != 0 || bp_is_metadata(bp) || !dn || bp_checksum(bp) == CHECKSUM_OFF)
		return 0;
	if (3 * s->n >= 2 * s->room)
		sim_grow(s);
	b = sim_slot(s, key);
	if (b->refs++ > 0)
		return 0;
	memcpy(b->key, key, sizeof(b->key));
	b->lsize = bp_lsize(bp);
	b->psize = bp_psize(bp);
	b->dsize = dsl_bp_dsize(s->z->spa->dsl, bp);
	s->n++;
	return 0;
}

static int sim_dataset(void *arg, const struct spa_dataset *ds)
{
	struct sim *s = arg;
	struct traverse t = {.min_txg = ds->prev_snap_txg, .visit = sim_visit, .arg = s};
	struct objset *os;
	struct err e = ERR_INIT;
	int err;

	if (bp_is_hole(&ds->bp))
		return 0;
	if (objset_open(&s->z->spa->dp, ds->object, &ds->bp, NULL, &os, &e)) {
		zdb_warn(s->z, "data set %" PRIu64 ": %s", ds->object, e.text);
		return 0;
	}
	err = traverse_objset(os, &t);
	objset_release(os);
	return err;
}

static void sim_bucket(struct ddt_histogram *h, const struct sim_block *b)
{
	struct ddt_bucket *k = &h->bucket[63 - __builtin_clzll(b->refs)];

	k->blocks++;
	k->lsize += b->lsize;
	k->psize += b->psize;
	k->dsize += b->dsize;
	k->ref_blocks += b->refs;
	k->ref_lsize += b->refs * b->lsize;
	k->ref_psize += b->refs * b->psize;
	k->ref_dsize += b->refs * b->dsize;
}

void zdb_simulate(struct zdb *z)
{
	struct sim s = {.z = z};
	struct ddt_histogram *h = xcalloc(1, sizeof(*h));
	uint64_t skipped;
	int err = spa_each_dataset(z->spa, sim_dataset, &s, &skipped);

	if (skipped)
		zdb_warn(z, "%" PRIu64 " blocks of the MOS's object list cannot be read: data sets may be left out",
			 skipped);
	if (err)
		zdb_warn(z, "the walk ended early: %s", err_words(err));
	for (size_t i = 0; i < s.room; i++)
		if (s.block[i].refs)
			sim_bucket(h, &s.block[i]);
	puts("Simulated DDT histogram:\n");
	histogram_print(z, h, true);
	ratios_print(h);
	free(s.block);
	free(h);
}
