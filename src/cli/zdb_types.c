/* Tables of block counts, in zdb's columns. */
#include "cli/zdb.h"

#define NEW_TYPE 0x80u

unsigned zdb_type_index(const struct bp *bp)
{
	unsigned type = bp_type(bp);

	return type & NEW_TYPE || type >= ZDB_DEFER ? ZDB_OTHER : type;
}

static void count_add(struct zdb_count *c, const struct bp *bp)
{
	c->count++;
	c->lsize += bp_lsize(bp);
	if (bp_is_embedded(bp))
		return;
	c->psize += bp_psize(bp);
	c->asize += bp_asize(bp);
	for (unsigned i = 0; i < bp_ndvas(bp); i++)
		c->gangs += bp_dva(bp, i).gang;
}

static unsigned size_row(uint64_t size)
{
	unsigned row = 0;

	while (row + 1 < ZDB_SIZES && size >= UINT64_C(1024) << row)
		row++;
	return row;
}

static void size_add(struct zdb_count row[ZDB_SIZES], uint64_t size)
{
	row[size_row(size)].count++;
	row[size_row(size)].psize += size;
}

static bool same_metaslab(const struct vdev *root, const struct dva *a, const struct dva *b)
{
	uint64_t shift = a->vdev < root->nchildren ? root->child[a->vdev]->ms_shift : 0;

	return shift && shift < 64 && a->offset >> shift == b->offset >> shift;
}

/* Two copies on one device count, and once more when they are in one metaslab; with three copies any two do. */
static void ditto_add(struct zdb_totals *t, const struct bp *bp)
{
	unsigned n = bp_ndvas(bp);
	bool vdev = false, metaslab = false;

	for (unsigned i = 1; i < n; i++) {
		for (unsigned k = 0; k < i; k++) {
			struct dva a = bp_dva(bp, i), b = bp_dva(bp, k);

			if (a.vdev != b.vdev)
				continue;
			vdev = true;
			metaslab |= same_metaslab(t->root, &a, &b);
		}
	}
	t->ditto_vdev += vdev;
	t->ditto_metaslab += metaslab;
}

void zdb_totals_add(struct zdb_totals *t, const struct bp *bp, unsigned type)
{
	unsigned level = MIN(bp_level(bp), ZDB_LEVELS - 2u);

	count_add(&t->type[type][level], bp);
	count_add(&t->type[type][ZDB_LEVELS - 1], bp);
	count_add(&t->type[ZDB_TOTAL][level], bp);
	count_add(&t->type[ZDB_TOTAL][ZDB_LEVELS - 1], bp);
	if (bp_is_metadata(bp))
		count_add(&t->metadata, bp);
	if (bp_is_embedded(bp)) {
		unsigned kind = bits64(bp->w[6], 40, 8) % ARRAY_LEN(t->embedded);

		t->embedded[kind]++;
		t->embedded_size[kind][MIN(zdb_embedded_size(bp), 112u)]++;
		return;
	}
	size_add(t->histogram[0], bp_psize(bp));
	size_add(t->histogram[1], bp_lsize(bp));
	size_add(t->histogram[2], bp_asize(bp));
	ditto_add(t, bp);
}

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

void zdb_totals_print(const struct zdb *z, const struct zdb_totals *t)
{
	const struct zdb_count *c = &t->type[ZDB_TOTAL][ZDB_LEVELS - 1];
	uint64_t n = c->count ? c->count : 1;

	printf("\t%-16s %14" PRIu64 "\n", "bp count:", c->count);
	printf("\t%-16s %14" PRIu64 "\n", "ganged count:", c->gangs);
	printf("\t%-16s %14" PRIu64 "      avg: %6" PRIu64 "\n", "bp logical:", c->lsize, c->lsize / n);
	printf("\t%-16s %14" PRIu64 "      avg: %6" PRIu64 "     compression: %6.2f\n", "bp physical:", c->psize,
	       c->psize / n, ratio(c->lsize, c->psize));
	printf("\t%-16s %14" PRIu64 "      avg: %6" PRIu64 "     compression: %6.2f\n", "bp allocated:", c->asize,
	       c->asize / n, ratio(c->lsize, c->asize));
	printf("\t%-16s %14" PRIu64 "    ref>1: %6" PRIu64 "   deduplication: %6.2f\n", "bp deduped:", t->dedup_asize,
	       t->dedup_blocks, 1 + ratio(t->dedup_asize, c->asize));
	if (t->clone_blocks)
		printf("\t%-16s %14" PRIu64 "    count: %6" PRIu64 "\n", "bp cloned:", t->clone_asize, t->clone_blocks);
}

static void row_print(const struct zdb *z, const struct zdb_totals *t, const struct zdb_count *c, const char *indent,
		      const char *name)
{
	char n[5][SIZE_TEXT];

	if (c->asize == 0) {
		printf("     -\t    -\t    -\t    -\t    -\t    -\t     -\t%s%s\n", indent, name);
		return;
	}
	printf("%6s\t%5s\t%5s\t%5s\t%5s\t%5.2f\t%6.2f\t%s%s\n", zdb_number(z, c->count, n[0]),
	       zdb_number(z, c->lsize, n[1]), zdb_number(z, c->psize, n[2]), zdb_number(z, c->asize, n[3]),
	       zdb_number(z, c->asize / c->count, n[4]), ratio(c->lsize, c->psize),
	       100 * ratio(c->asize, t->type[ZDB_TOTAL][ZDB_LEVELS - 1].asize), indent, name);
}

static const char *type_name(unsigned type)
{
	static const char *const extra[] = {"deferred free", "dedup ditto", "other", "Total"};

	return type < ZDB_DEFER ? dmu_type_name(type) : extra[type - ZDB_DEFER];
}

void zdb_types_print(const struct zdb *z, const struct zdb_totals *t, bool levels)
{
	puts("\nBlocks\tLSIZE\tPSIZE\tASIZE\t  avg\t comp\t%Total\tType");
	for (unsigned type = 0; type < ZDB_TYPES; type++) {
		const struct zdb_count *all = &t->type[type][ZDB_LEVELS - 1];

		for (int level = ZDB_LEVELS - 2; levels && level >= 0; level--) {
			const struct zdb_count *c = &t->type[type][level];
			char indent[16];

			if (c->count == 0 || c->count == all->count)
				continue;
			snprintf(indent, sizeof(indent), "    L%d ", level);
			row_print(z, t, c, indent, type_name(type));
		}
		row_print(z, t, all, "", type_name(type));
	}
	row_print(z, t, &t->metadata, "", "Metadata Total");
}

void zdb_sizes_print(const struct zdb *z, const struct zdb_totals *t)
{
	uint64_t sum[3] = {0, 0, 0};

	puts("\nBlock Size Histogram\n\n  block   psize                lsize                asize\n"
	     "   size   Count   Size   Cum.  Count   Size   Cum.  Count   Size   Cum.");
	for (unsigned row = 0; row < ZDB_SIZES; row++) {
		char text[3][SIZE_TEXT];

		if (row == ZDB_SIZES - 1 && t->histogram[2][row].count == 0)
			break;
		printf("%7s:", zdb_number(z, UINT64_C(512) << row, text[0]));
		for (unsigned k = 0; k < 3; k++) {
			const struct zdb_count *c = &t->histogram[k][row];

			sum[k] += c->psize;
			printf(" %6s %6s %6s", zdb_number(z, c->count, text[0]), zdb_number(z, c->psize, text[1]),
			       zdb_number(z, sum[k], text[2]));
		}
		putchar('\n');
	}
}

void zdb_histogram_print(const uint64_t *bucket, unsigned n, unsigned first)
{
	uint64_t max = 0;
	unsigned from = n, to = 0;

	for (unsigned i = 0; i < n; i++) {
		if (bucket[i] == 0)
			continue;
		from = MIN(from, i);
		to = i + 1;
		max = MAX(max, bucket[i]);
	}
	for (unsigned i = from; i < to; i++) {
		unsigned stars = (unsigned)(max > 40 ? (bucket[i] * 40 + max - 1) / max : bucket[i]);

		printf("\t\t\t%3u: %6" PRIu64 " %.*s\n", i + first, bucket[i], (int)stars,
		       "****************************************");
	}
}

void zdb_embedded_print(const struct zdb *z, const struct zdb_totals *t)
{
	for (unsigned kind = 0; kind < ARRAY_LEN(t->embedded); kind++) {
		if (t->embedded[kind] == 0)
			continue;
		printf("\n\tadditional, non-pointer bps of type %u: %10" PRIu64 "\n", kind, t->embedded[kind]);
		if (zdb_level(z, 'b') >= 3) {
			puts("\t number of (compressed) bytes:  number of bps");
			zdb_histogram_print(t->embedded_size[kind], 113, 0);
		}
	}
	if (t->ditto_vdev)
		printf("\tDittoed blocks on same vdev: %" PRIu64 "\n", t->ditto_vdev);
	if (t->ditto_metaslab)
		printf("\tDittoed blocks in same metaslab: %" PRIu64 "\n", t->ditto_metaslab);
}
