/*
 * test_hostile POOL...: blocks with right checksums and wrong contents, as a hostile or buggy writer would leave them.
 * Nothing above the block pipeline may crash, hang or take memory without bound, whatever a block says.
 *
 * The program is linked with its own zio_read in front of the real one (--wrap): it changes the blocks that pass. What
 * it does to a block depends on the round and the block alone, so that a block read twice is the same twice.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "golden.h"
#include "look.h"

#define ROUND_SECONDS 120
#define MEMORY_MAX    (UINT64_C(900) << 20)
#define KEPT          64
#define KEPT_BYTES    (128u << 10)

struct hostile {
	bool on;
	uint64_t seed;
	unsigned rarity; /* one block in so many */
	int type, level; /* only these; -1: any */
	atomic_uint changed;
	atomic_uint *seen;    /* blocks that passed, by type */
	pthread_mutex_t lock; /* guards kept; innermost */
	struct kept {
		uint8_t *data;
		size_t size;
	} kept[KEPT]; /* blocks that passed, to be mixed into others */
};
static struct hostile hostile = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct intercept {
	struct zio_read zr;
	struct zio_read *outer;
};

void __real_zio_read(struct zio_pool *zp, struct zio_read *r);
void __wrap_zio_read(struct zio_pool *zp, struct zio_read *r);

static uint64_t block_seed(const struct bp *bp)
{
	uint64_t s = hostile.seed;

	for (unsigned i = 0; i < 16; i++) {
		s ^= bp->w[i];
		random_next(&s);
	}
	return s;
}

/* --- changes --- */
static uint64_t odd_number(uint64_t *rnd, size_t size)
{
	static const uint64_t odd[] = {0,
				       1,
				       2,
				       0x7f,
				       0x80,
				       0xff,
				       0x7fff,
				       0x8000,
				       0xffff,
				       0x10000,
				       0x7fffffff,
				       0x80000000,
				       0xffffffff,
				       UINT64_C(1) << 32,
				       UINT64_C(1) << 48,
				       INT64_MAX,
				       UINT64_C(1) << 63,
				       UINT64_MAX,
				       UINT64_MAX - 1,
				       UINT64_MAX - 511,
				       UINT64_C(1) << 56,
				       0x1f,
				       64,
				       512};
	uint64_t r = random_next(rnd);

	switch (r % 4) {
	case 0:
		return size + (r >> 8) % 5 - 2;
	case 1:
		return r >> (r >> 8) % 64;
	default:
		return odd[(r >> 8) % ARRAY_LEN(odd)];
	}
}

/* Beginnings hold the most that can be wrong. */
static size_t some_place(uint64_t *rnd, size_t size, size_t align)
{
	uint64_t r = random_next(rnd);
	size_t within = r % 3 == 0 ? MIN(size, 64) : r % 3 == 1 ? MIN(size, 1024) : size;

	return ROUND_DOWN((size_t)(r >> 8) % within, align);
}

static void change_number(uint8_t *p, size_t size, uint64_t *rnd)
{
	unsigned width = 1u << random_next(rnd) % 4;
	size_t at = some_place(rnd, size - width + 1, width);
	uint64_t v = odd_number(rnd, size);

	if (random_next(rnd) % 4 == 0)
		v = __builtin_bswap64(v) >> (64 - 8 * width);
	memcpy(p + at, &v, width);
}

static void change_bit(uint8_t *p, size_t size, uint64_t *rnd)
{
	p[some_place(rnd, size, 1)] ^= (uint8_t)(1u << random_next(rnd) % 8);
}

static void change_range(uint8_t *p, size_t size, uint64_t *rnd)
{
	size_t at = some_place(rnd, size, 1), most = (size_t)1 << random_next(rnd) % 12, len = MIN(size - at, most);
	int fill = (int)(random_next(rnd) % 4);

	for (size_t i = 0; i < len; i++)
		p[at + i] = fill == 0 ? 0 : fill == 1 ? 0xff : (uint8_t)random_next(rnd);
}

/* One part over another: pointers to the wrong blocks, entries twice. */
static void change_places(uint8_t *p, size_t size, uint64_t *rnd)
{
	static const size_t parts[] = {8, 24, 64, 128, 128, 512};
	size_t part = parts[random_next(rnd) % ARRAY_LEN(parts)];

	if (size >= 2 * part)
		memmove(p + some_place(rnd, size - part + 1, part), p + some_place(rnd, size - part + 1, part), part);
}

/* A piece of another block at the same place, or all of it. */
static void change_for_other(uint8_t *p, size_t size, uint64_t *rnd)
{
	struct kept *k = &hostile.kept[random_next(rnd) % KEPT];
	size_t at = some_place(rnd, size, 128), len;

	pthread_mutex_lock(&hostile.lock);
	if (random_next(rnd) % 2)
		at = 0;
	len = k->size > at ? MIN(size, k->size) - at : 0;
	if (k->size > at && size > at)
		memcpy(p + at, k->data + at, random_next(rnd) % 2 ? MIN(len, 128) : len);
	pthread_mutex_unlock(&hostile.lock);
}

static void block_keep(const uint8_t *p, size_t size, uint64_t seed)
{
	struct kept *k = &hostile.kept[seed % KEPT];

	pthread_mutex_lock(&hostile.lock);
	k->size = MIN(size, KEPT_BYTES);
	k->data = xrealloc(k->data, k->size);
	memcpy(k->data, p, k->size);
	pthread_mutex_unlock(&hostile.lock);
}

static void block_change(uint8_t *p, size_t size, uint64_t rnd)
{
	static void (*const change[])(uint8_t *, size_t, uint64_t *) = {
	    change_number, change_number, change_number, change_bit,
	    change_range,  change_places, change_places, change_for_other,
	};
	unsigned n = 1 + (unsigned)(random_next(&rnd) % 6);

	while (n--)
		change[random_next(&rnd) % ARRAY_LEN(change)](p, size, &rnd);
}

/* What files and volumes hold means nothing to the engine. */
static bool is_plain_data(const struct bp *bp)
{
	return bp_level(bp) == 0 && (bp_type(bp) == 19 || bp_type(bp) == 23);
}

static bool is_target(const struct bp *bp, uint64_t seed)
{
	if (hostile.type >= 0 && bp_type(bp) != (unsigned)hostile.type)
		return false;
	if (hostile.level >= 0 && bp_level(bp) != (unsigned)hostile.level)
		return false;
	return seed % hostile.rarity == 0 && !is_plain_data(bp);
}

static void intercepted(struct zio_read *zr, int err, struct buf *buf)
{
	struct intercept *ic = zr->arg;
	struct zio_read *outer = ic->outer;
	uint64_t seed = block_seed(&zr->bp) >> 8;

	if (!err && buf && buf->size >= 16 && !(zr->flags & ZIO_NO_DATA)) {
		if (!is_plain_data(&zr->bp))
			block_keep(buf->data, buf->size, seed >> 20);
		if (hostile.seen && !is_plain_data(&zr->bp))
			atomic_fetch_add(&hostile.seen[bp_type(&zr->bp)], 1);
		if (is_target(&zr->bp, seed)) {
			block_change(buf->data, buf->size, seed);
			atomic_fetch_add(&hostile.changed, 1);
		}
	}
	free(ic);
	outer->done(outer, err, buf);
}

void __wrap_zio_read(struct zio_pool *zp, struct zio_read *r)
{
	struct intercept *ic;

	if (!hostile.on) {
		__real_zio_read(zp, r);
		return;
	}
	ic = xmalloc(sizeof(*ic));
	ic->outer = r;
	ic->zr = *r;
	ic->zr.done = intercepted;
	ic->zr.arg = ic;
	__real_zio_read(zp, &ic->zr);
}

/* --- rounds --- */
#define TYPES 256
struct target {
	struct golden g;
	atomic_uint seen[TYPES]; /* when nothing was changed yet */
};

/* A type that the pool has, and a few of its blocks; or a few of all. */
static void round_begin(const struct target *t, uint64_t seed)
{
	uint64_t rnd = seed;
	unsigned count = 0, total = 0, have = 0, pick;

	for (unsigned i = 0; i < TYPES; i++) {
		have += t->seen[i] > 0;
		total += t->seen[i];
	}
	hostile.seed = random_next(&rnd);
	hostile.type = -1;
	hostile.level = -1;
	if (have && random_next(&rnd) % 5) {
		pick = (unsigned)(random_next(&rnd) % have);
		for (unsigned i = 0; i < TYPES; i++)
			if (t->seen[i] && pick-- == 0)
				hostile.type = (int)i;
	}
	count = hostile.type < 0 ? total : t->seen[hostile.type];
	hostile.rarity = count / (1 + (unsigned)(random_next(&rnd) % 24)) + 1;
	atomic_store(&hostile.changed, 0);
}

struct totals {
	unsigned rounds, imports;
	struct look seen;
};

static void round_run(struct target *target, uint64_t seed, bool first, struct totals *t)
{
	struct golden *g = &target->g;
	/* the import is left whole in most rounds, so that what lies behind it is reached */
	bool early = !first && random_next(&(uint64_t){seed}) % 4 == 0;
	struct look l = {.nodes_left = 400, .blocks_left = 4000};
	struct err e = ERR_INIT;
	char what[100];

	snprintf(what, sizeof(what), "%s, seed %" PRIu64, g->name, seed);
	watch(ROUND_SECONDS, what);
	round_begin(target, seed);
	hostile.seen = first ? target->seen : NULL;
	if (first)
		hostile.rarity = UINT32_MAX;
	hostile.on = early;
	t->rounds++;
	if (golden_try_import(g, &(struct spa_import){.force = true, .rewind = seed % 2}, &e) == 0) {
		t->imports++;
		hostile.on = false;
		golden_keys_load(g);
		hostile.on = true;
		arc_flush_pool(g->arc, g->spa->zp.guid);
		look_pool(&l, g->spa);
		hostile.on = false;
		if (golden_export(g, &e))
			golden_differs(g, "%s: export: %s", what, e.text);
	} else if (!e.text[0]) {
		golden_differs(g, "%s: no word on why the import failed", what);
	}
	hostile.on = false;
	t->seen.datasets += l.datasets;
	t->seen.nodes += l.nodes;
	t->seen.bytes += l.bytes;
	t->seen.failures += l.failures;
	if (getenv("TARN_TEST_VERBOSE"))
		printf("%s: type %d level %d rarity %u%s: %u changed; %" PRIu64 " nodes, %" PRIu64 " failures; %s\n",
		       what, hostile.type, hostile.level, hostile.rarity, early ? " early" : "", hostile.changed,
		       l.nodes, l.failures, e.text);
	watch(0, "");
}

int main(int argc, char **argv)
{
	struct target *pool = xcalloc((size_t)argc, sizeof(*pool));
	struct totals t = {0};
	unsigned differences = 0;
	uint64_t seed = test_seed();
	time_t end;
	int rc = argc < 2;

	for (int i = 1; i < argc && rc == 0; i++)
		rc = golden_load(&pool[i].g, argv[i]);
	log_init(LOG_LEVEL_ERROR);
	for (int i = 1; i < argc && rc == 0; i++)
		round_run(&pool[i], 0, true, &t);
	end = time(NULL) + test_seconds();
	for (; rc == 0 && time(NULL) < end; seed++)
		round_run(&pool[1 + seed % (unsigned)(argc - 1)], seed, false, &t);
	for (int i = 1; i < argc; i++) {
		golden_close(&pool[i].g);
		differences += pool[i].g.differences;
	}
	for (unsigned i = 0; i < KEPT; i++)
		free(hostile.kept[i].data);
	free(pool);
	printf("%u rounds, %u imports, %" PRIu64 " nodes, %" PRIu64 " failures, at most %" PRIu64 " MiB of memory\n",
	       t.rounds, t.imports, t.seen.nodes, t.seen.failures, memory_peak() >> 20);
#ifndef __SANITIZE_ADDRESS__
	if (memory_peak() > MEMORY_MAX) {
		printf("takes too much memory\n");
		differences++;
	}
#endif
	return rc ? rc : differences != 0;
}
