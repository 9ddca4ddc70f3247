#include "cli/zdb.h"

#define BUCKETS 64

static uint64_t log_zap(const struct zdb *z)
{
	uint64_t object = 0;

	zap_lookup_u64(z->spa->mos, 1, "com.delphix:log_spacemap_zap", &object);
	return object;
}

/* ---- entries ---- */

struct entries {
	uint64_t n, txg;
	bool show, log;
};

static int entry_print(void *arg, const struct spacemap_entry *e)
{
	struct entries *k = arg;

	if (e->txg != k->txg)
		printf("\t    [%6" PRIu64 "] %s: txg %" PRIu64 " pass %u\n", k->n++, e->free ? "FREE" : "ALLOC", e->txg,
		       e->sync_pass);
	k->txg = e->txg;
	printf("\t    [%6" PRIu64 "]    %c  range: %010" PRIx64 "-%010" PRIx64 "  size: %06" PRIx64, k->n++,
	       e->free ? 'F' : 'A', e->offset, e->offset + e->run, e->run);
	if (e->vdev != UINT64_MAX)
		printf(" vdev: %06" PRIu64, e->vdev);
	putchar('\n');
	return cli_interrupted ? -EINTR : 0;
}

static void map_print(struct zdb *z, uint64_t object, uint64_t start, unsigned shift, unsigned level)
{
	struct spacemap_header h;
	struct entries k = {0};
	int err = spacemap_header_read(z->spa->mos, object, &h);

	if (!err) {
		printf("space map object %" PRIu64 ":\n  smp_length = 0x%" PRIx64 "\n  smp_alloc = 0x%" PRIx64 "\n",
		       h.object, h.length, h.alloc);
		if (level >= 4)
			err = spacemap_each(z->spa->mos, object, start, shift, entry_print, &k);
	}
	if (err)
		zdb_warn(z, "space map %" PRIu64 ": %s", object, err_words(err));
}

/* ---- one metaslab ---- */

struct free_space {
	uint64_t bucket[BUCKETS], bytes, max, segments;
};

static void free_add(struct free_space *f, uint64_t size)
{
	if (size == 0)
		return;
	f->bucket[63 - __builtin_clzll(size)]++;
	f->bytes += size;
	f->max = MAX(f->max, size);
	f->segments++;
}

static void free_collect(const struct metaslab_info *ms, struct free_space *f)
{
	uint64_t at = ms->start;

	memset(f, 0, sizeof(*f));
	for (struct range *r = rangetree_first(&ms->allocated); r; r = rangetree_next(r)) {
		free_add(f, r->start - at);
		at = r->end;
	}
	free_add(f, ms->start + ms->size - at);
}

static void metaslab_print(struct zdb *z, const struct vdev *top, const struct metaslab_info *ms)
{
	unsigned level = zdb_level(z, 'm');
	struct free_space f;
	struct spacemap_header h;
	char text[SIZE_TEXT];

	free_collect(ms, &f);
	printf("\tmetaslab %6" PRIu64 "   offset %12" PRIx64 "   spacemap %6" PRIu64 "   free    %5s\n", ms->id,
	       ms->start, ms->object, zdb_number(z, f.bytes, text));
	if (level >= 3) {
		printf("\t                  segments %10" PRIu64 "   maxsize %6s   freepct %4" PRIu64 "%%\n",
		       f.segments, zdb_number(z, f.max, text), ms->size ? f.bytes * 100 / ms->size : 0);
		puts("\tIn-memory histogram:");
		zdb_histogram_print(f.bucket, BUCKETS, 0);
	}
	if (!ms->object)
		return;
	if (level >= 2 && spacemap_header_read(z->spa->mos, ms->object, &h) == 0) {
		puts("\tOn-disk histogram:");
		zdb_histogram_print(h.histogram, 32, (unsigned)top->ashift);
	}
	if (level >= 1)
		map_print(z, ms->object, ms->start, (unsigned)top->ashift, level);
	putchar('\n');
}

static void logs_print(struct zdb *z)
{
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	uint64_t zap = log_zap(z);
	struct zap_cursor *c;

	if (!zap || zap_cursor_open(z->spa->mos, zap, 0, &c))
		return;
	puts("\nLog Space Maps in Pool:");
	while (zap_cursor_next(c, ze) == 0) {
		printf("Log Spacemap object %" PRIu64 " txg %llu\n", ze->first, strtoull(ze->name, NULL, 16));
		map_print(z, ze->first, 0, 9, zdb_level(z, 'm'));
	}
	zap_cursor_close(c);
	putchar('\n');
}

static bool metaslab_wanted(const struct zdb *z, const struct metaslab_info *ms)
{
	if (z->nobjects == 0)
		return true;
	if (strtoull(z->objects[0], NULL, 0) != ms->vdev)
		return false;
	for (int i = 1; i < z->nobjects; i++)
		if (strtoull(z->objects[i], NULL, 0) == ms->id)
			return true;
	return z->nobjects == 1;
}

static void metaslabs_print(struct zdb *z, const struct spacemap_pool *sm)
{
	const struct vdev *root = z->spa->root;

	for (size_t i = 0; i < sm->n && !cli_interrupted; i++) {
		const struct vdev *top = root->child[sm->ms[i].vdev];

		if (!metaslab_wanted(z, &sm->ms[i]))
			continue;
		if (sm->ms[i].id == 0 || z->nobjects > 1)
			printf("\tvdev %10" PRIu64 "%s%s\n\tmetaslabs %5" PRIu64
			       "   offset                spacemap          free        \n"
			       "\t---------------   -------------------   ---------------   ------------\n",
			       top->id, top->alloc_bias ? "   " : "", top->alloc_bias ? top->alloc_bias : "",
			       top->asize >> top->ms_shift);
		metaslab_print(z, top, &sm->ms[i]);
	}
}

void zdb_metaslabs(struct zdb *z)
{
	struct spacemap_pool sm;
	struct err e = ERR_INIT;

	if (spacemap_load_pool(z->spa->mos, z->spa->root, log_zap(z), &sm, &e)) {
		zdb_warn(z, "space maps: %s", e.text);
		return;
	}
	puts("\nMetaslabs:");
	metaslabs_print(z, &sm);
	spacemap_free_pool(&sm);
	logs_print(z);
}

/* ---- -y: do maps, their headers and their log agree with each other? Loading is the check: an allocation of what is
 * allocated, a free of what is free, a range outside its metaslab, a total that is not the sum. ---- */

static uint64_t histogram_wrong(const struct zdb *z, const struct metaslab_info *ms)
{
	const struct vdev *top = z->spa->root->child[ms->vdev];
	struct spacemap_header h;
	uint64_t least = 0;

	if (!ms->object || spacemap_header_read(z->spa->mos, ms->object, &h))
		return 0;
	for (unsigned i = 0; i < 32 && i + top->ashift < 63; i++)
		least += h.histogram[i] << (i + top->ashift);
	return least > ms->size ? 1 : 0;
}

void zdb_space_check(struct zdb *z)
{
	struct spacemap_pool sm;
	struct err e = ERR_INIT;
	uint64_t allocated = 0;
	char text[SIZE_TEXT];

	puts("Verifying metaslab entries");
	if (spacemap_load_pool(z->spa->mos, z->spa->root, log_zap(z), &sm, &e)) {
		zdb_warn(z, "%s", e.text);
		z->rc = ZDB_DAMAGE;
		return;
	}
	for (size_t i = 0; i < sm.n; i++) {
		allocated += sm.ms[i].allocated.space;
		if (!histogram_wrong(z, &sm.ms[i]))
			continue;
		printf("vdev %" PRIu64 ", metaslab %" PRIu64 ": the histogram has more free space than the metaslab\n",
		       sm.ms[i].vdev, sm.ms[i].id);
		z->rc = ZDB_DAMAGE;
	}
	printf("%zu metaslabs, %s allocated: maps, headers and logs agree\n", sm.n, zdb_number(z, allocated, text));
	spacemap_free_pool(&sm);
}
