/*
 * A pool works at random on recorded disks; then the power goes at any moment of it, in several ways, and what is left
 * is imported, compared with what was promised, checked, worked on, exported and imported again.
 *
 *	test_crash LAYOUT [--images DIR]
 *
 * Layouts: see below. --images: a sample of what crashes left, and of the pools after recovery, is written to
 * DIR/N/disk* (for OpenZFS's zdb). Environment:
 *
 *	TARN_SEED           of the run; chosen and told when it is not given. The same seed gives the same commands and
 *	                    requests, on a machine's own timing.
 *	TARN_CRASH_COMMANDS how many commands: 120, or 250 with TARN_TEST_LONG
 *	TARN_CRASH_CHECKS   about how many moments are tried, half of them beside labels and uberblocks: 60; 0: all.
 *	                    With TARN_TEST_LONG 300, each in every variant
 *	TARN_CRASH_KEEP     a folder for the disks of crashes that failed
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actor.h"
#include "verify.h"

#define DISK_SIZE      (UINT64_C(224) << 20)
#define LABEL_AREA     (UINT64_C(512) << 10) /* at both ends of a device */
#define FAILURES       3u                    /* then it is enough */
#define IMAGES_MAX     12u
#define IMAGES_PERCENT 15u /* of crashes are samples for zdb */
#define NESTED_SHORT   8u  /* moments of a recovery */
#define NESTED_LONG    60u

#define OFF(name) "feature@" name, "disabled"
/* What OpenZFS 2.1 can read. */
static const char *const features_21[] = {OFF("zilsaxattr"), OFF("head_errlog"), OFF("vdev_zaps_v2"), NULL};
/* Another way to write nearly everything. */
static const char *const features_old[] = {OFF("zilsaxattr"),    OFF("head_errlog"), OFF("vdev_zaps_v2"),
					   OFF("log_spacemap"),  OFF("spacemap_v2"), OFF("embedded_data"),
					   OFF("hole_birth"),    OFF("livelist"),    OFF("spacemap_histogram"),
					   OFF("async_destroy"), OFF("empty_bpobj"), NULL};

static const struct layout {
	const char *name;
	struct lab_layout pool;
	unsigned disks; /* those that are not in the pool at first are added some time */
} layouts[] = {
    {"single", {.data = 1, .ashift = 12}, 1},
    {"stripe", {.data = 2, .ashift = 9, .props = features_21}, 3},
    {"log", {.data = 1, .logs = 1, .ashift = 12, .props = features_21}, 3},
    {"stripe-logs", {.data = 3, .logs = 2, .ashift = 9}, 5},
    {"old", {.data = 1, .logs = 1, .ashift = 9, .props = features_old}, 2},
};

enum variant { ALL_KEPT, ALL_LOST, SOME_LOST, SOME_TORN, ALL_TORN, ONE_DISK_BEHIND, VARIANTS };
static const char *const variant_names[VARIANTS] = {"all kept",  "all lost", "some lost",
						    "some torn", "all torn", "one disk behind"};

struct run {
	const struct layout *layout;
	uint64_t seed;
	struct lab lab;
	struct model model;
	struct recorder *rec;
	struct rng rng; /* of replaying */
	const char *images;
	unsigned nimages;
	uint64_t checks, nested, failures, prefixes;
};

/* --- disks --- */

static struct disk *open_recorded(void *arg, unsigned i)
{
	return recorder_open(arg, i);
}

static struct disk *open_crashed(void *arg, unsigned i)
{
	return crash_open(arg, i);
}

static void lab_disks(struct lab *l, struct disk *(*open)(void *arg, unsigned i), void *arg)
{
	l->open = open;
	l->open_arg = arg;
}

/* Takes the disk. */
static void image_write(struct disk *d, unsigned i, const char *dir)
{
	autofree char *path = xasprintf("%s/disk%u", dir, i);
	autofree uint8_t *bytes = xmalloc(1 << 20);
	FILE *f = fopen(path, "w");

	if (!f || ftruncate(fileno(f), (off_t)d->size))
		lab_fatal("%s: %s", path, strerror(errno));
	for (uint64_t at = 0; at < d->size; at += 1 << 20) {
		size_t n = MIN(d->size - at, UINT64_C(1) << 20);
		bool empty = true;

		if (disk_read(d, at, bytes, n))
			lab_fatal("%s: cannot be read", d->path);
		for (size_t k = 0; k < n && empty; k++)
			empty = bytes[k] == 0;
		if (!empty && (fseeko(f, (off_t)at, SEEK_SET) || fwrite(bytes, n, 1, f) != 1))
			lab_fatal("%s: %s", path, strerror(errno));
	}
	fclose(f);
	disk_close(d);
}

/* As the lab's disks are now. */
static void images_write(struct lab *l, const char *dir)
{
	if (mkdir(dir, 0700) && errno != EEXIST)
		lab_fatal("%s: %s", dir, strerror(errno));
	for (unsigned i = 0; i < l->ndisks; i++)
		image_write(l->open(l->open_arg, i), i, dir);
}

static struct run *the_run;

static void *last_words_thread(void *arg)
{
	const char *keep = getenv("TARN_CRASH_KEEP");

	lab_space_tell(&the_run->lab);
	if (!keep)
		return NULL;
	autofree char *dir = xasprintf("%s/%s-%" PRIu64 "-fatal", keep, the_run->layout->name, the_run->seed);
	images_write(&the_run->lab, dir);
	fprintf(stderr, "disks in %s\n", dir);
	return NULL;
}

/* Whoever fails may be a thread that must not wait for a device. */
static void last_words(void)
{
	pthread_t t;

	lab_last_words = NULL;
	if (pthread_create(&t, NULL, last_words_thread, NULL) == 0)
		pthread_join(t, NULL);
}

static void image_sample(struct run *run, struct crash *c)
{
	autofree char *dir = NULL;

	if (!run->images || run->nimages >= IMAGES_MAX)
		return;
	dir = xasprintf("%s/%u", run->images, run->nimages++);
	lab_disks(&run->lab, open_crashed, c);
	images_write(&run->lab, dir);
}

/* --- recording --- */

struct io_thread {
	struct actor *actor;
	struct rng rng;
};

static void *io_run(void *arg)
{
	struct io_thread *t = arg;

	while (!atomic_load(&t->actor->stop)) {
		actor_io(t->actor, &t->rng);
		if (rng_percent(&t->rng, 20))
			usleep((useconds_t)rng_below(&t->rng, 2000));
	}
	return NULL;
}

static void pool_must(struct run *run, int err, const struct err *e, const char *what)
{
	if (err)
		lab_fatal("%s: %s", what, e->text);
}

/* Commands and requests at once, until there were so many commands. */
static void work(struct actor *a, uint64_t commands)
{
	struct io_thread io = {a, {a->rng.state + 1}};
	pthread_t thread;

	actor_open_all(a);
	if (pthread_create(&thread, NULL, io_run, &io))
		lab_fatal("no thread");
	for (uint64_t i = 0; i < commands; i++) {
		actor_command(a);
		if (rng_percent(&a->rng, 30))
			usleep((useconds_t)rng_below(&a->rng, 20000));
	}
	atomic_store(&a->stop, true);
	pthread_join(thread, NULL);
}

static void record(struct run *run)
{
	struct actor *a = xcalloc(1, sizeof(*a));
	struct err e = ERR_INIT;

	lab_context("%s, seed %" PRIu64 ": making the pool", run->layout->name, run->seed);
	lab_disks(&run->lab, open_recorded, run->rec);
	pool_must(run, lab_create(&run->lab, &run->layout->pool, &e), &e, "create");
	pool_must(run, lab_export(&run->lab, &e), &e, "export");
	recorder_rebase(run->rec);
	pool_must(run, lab_import(&run->lab, true, &e), &e, "import");
	state_add(model_last(&run->model), LAB_POOL);
	model_last(&run->model)->tops = run->layout->pool.data + run->layout->pool.logs;
	actor_init(a, &run->lab, &run->model, run->seed);
	a->next_disk = run->layout->pool.data + run->layout->pool.logs;
	work(a, lab_number("TARN_CRASH_COMMANDS", lab_is_long() ? 250 : 120));
	actor_close_all(a);
	pool_must(run, lab_export(&run->lab, &e), &e, "export");
	actor_all_safe(a, actor_clock(a));
	printf("%s, seed %" PRIu64 ": %u commands, %u requests, %zu states, %zu entries of the log\n",
	       run->layout->name, run->seed, atomic_load(&a->commands), atomic_load(&a->requests), run->model.nstates,
	       recorder_len(run->rec));
	fflush(stdout);
	actor_fini(a);
	free(a);
}

/* --- one crash --- */

static bool pool_import(struct run *run, bool writable)
{
	struct err e = ERR_INIT;

	return lab_import(&run->lab, writable, &e) == 0 || lab_wrong("import: %s", e.text);
}

static bool pool_export(struct run *run)
{
	struct err e = ERR_INIT;

	if (lab_export(&run->lab, &e))
		lab_fatal("export: %s", e.text);
	return true;
}

static bool check_readonly(struct run *run, struct model *m, uint64_t mark, bool contents)
{
	struct verified v = {0};
	bool sound;

	if (!pool_import(run, false))
		return false;
	sound = lab_check(&run->lab);
	if (contents)
		sound &= verify(&run->lab, m, mark, &v);
	pool_export(run);
	return sound;
}

/* The pool goes on from what is there, as if nothing had happened. */
static bool work_on(struct run *run, struct model *now)
{
	struct actor *a = xcalloc(1, sizeof(*a));
	bool sound;

	actor_init(a, &run->lab, now, rng_next(&run->rng));
	a->names = 100000;
	a->next_disk = LAB_DISKS_MAX;
	a->no_export = true;
	work(a, 1 + rng_below(&run->rng, 5));
	actor_flush_all(a);
	actor_close_all(a);
	actor_fini(a);
	free(a);
	lab_context("export after having worked on");
	pool_export(run);
	sound = check_readonly(run, now, now->marks, true);
	return sound;
}

static bool check_writable(struct run *run, uint64_t mark, bool lazy)
{
	struct model now;
	struct verified v = {.now = &now};
	bool sound;

	if (!pool_import(run, true))
		return false;
	if (lazy) { /* logs are claimed, and left for the next import */
		pool_export(run);
		if (!check_readonly(run, &run->model, mark, false) || !pool_import(run, true))
			return false;
	}
	model_init(&now, NULL);
	sound = verify(&run->lab, &run->model, mark, &v);
	if (sound)
		sound = work_on(run, &now);
	else
		pool_export(run);
	model_fini(&now);
	return sound;
}

static bool crash_check(struct run *run, struct crash *c, uint64_t mark)
{
	bool lazy = rng_percent(&run->rng, 20), sound = true;

	lab_disks(&run->lab, open_crashed, c);
	if (lab_is_long() || rng_percent(&run->rng, 25))
		sound = check_readonly(run, &run->model, mark, false);
	return check_writable(run, mark, lazy) && sound;
}

/* --- a crash while another one is being recovered from --- */

static bool nested_try(struct run *run, struct replay *re, uint64_t mark)
{
	const struct crash_odds odds = {.lose = 40, .tear = 20, .seed = rng_next(&run->rng)};
	const struct crash_variant v = {
	    .fate = rng_percent(&run->rng, 50) ? crash_lose_all : crash_by_odds,
	    .arg = (void *)&odds,
	    .reorder = true,
	    .seed = rng_next(&run->rng),
	};
	struct crash *c = replay_crash(re, rng_percent(&run->rng, 30) ? NULL : &v);
	bool sound = crash_check(run, c, mark);

	run->nested++;
	crash_destroy(c);
	return sound;
}

static bool nested_recover(struct run *run, uint64_t mark)
{
	struct verified v = {0};
	bool sound;

	if (!pool_import(run, true))
		return false;
	sound = verify(&run->lab, &run->model, mark, &v);
	pool_export(run);
	return sound;
}

static bool crash_nested(struct run *run, struct crash *c, uint64_t mark, const char *where)
{
	struct recorder *rec = recorder_create_over(c);
	struct replay *re = NULL;
	size_t step;
	bool sound;

	lab_context("%s: recovery is recorded", where);
	lab_disks(&run->lab, open_recorded, rec);
	sound = nested_recover(run, mark);
	if (sound)
		re = replay_create(rec);
	step = 2 * recorder_len(rec) / (lab_is_long() ? NESTED_LONG : NESTED_SHORT);
	for (size_t at = 0; re && sound && at <= recorder_len(rec); at += 1 + rng_below(&run->rng, step)) {
		replay_advance(re, at);
		lab_context("%s: crash at %zu of %zu of the recovery", where, at, recorder_len(rec));
		sound = nested_try(run, re, mark);
	}
	replay_destroy(re);
	recorder_destroy(rec);
	return sound;
}

/* --- crashes everywhere --- */

struct behind {
	unsigned disk;
};

static enum crash_fate fate_behind(void *arg, const struct record *w)
{
	return w->disk == ((struct behind *)arg)->disk ? CRASH_LOSE : CRASH_KEEP;
}

static struct crash *crash_make(struct run *run, struct replay *re, enum variant variant, unsigned *disk)
{
	struct crash_odds odds = {.seed = rng_next(&run->rng)};
	struct behind behind = {(unsigned)rng_below(&run->rng, run->lab.ndisks)};
	*disk = behind.disk;
	struct crash_variant v = {.fate = crash_by_odds, .arg = &odds, .seed = rng_next(&run->rng)};

	switch (variant) {
	case ALL_KEPT:
		return replay_crash(re, NULL);
	case ALL_LOST:
		v.fate = crash_lose_all;
		break;
	case SOME_LOST:
		odds.lose = 50;
		v.reorder = true;
		break;
	case SOME_TORN:
		odds.lose = 30;
		odds.tear = 40;
		v.reorder = true;
		break;
	case ALL_TORN:
		odds.tear = 100;
		break;
	default:
		v.fate = fate_behind;
		v.arg = &behind;
	}
	return replay_crash(re, &v);
}

/* What administration had done, and was about to do. */
static void commands_tell(const struct model *m, uint64_t mark)
{
	size_t acked = model_acked_at(m, mark);

	for (size_t i = acked > 3 ? acked - 3 : 0; i < MIN(acked + 2, m->nstates); i++)
		fprintf(stderr, "command %zu, mark %" PRId64 ": %s\n", i, (int64_t)m->state[i].acked, m->state[i].what);
}

static bool record_has(const struct record *w, const uint8_t sector[SECTOR])
{
	for (uint64_t at = 0; w->kind == RECORD_WRITE && at + SECTOR <= w->length; at += 8)
		if (memcmp(w->data + at, sector, SECTOR) == 0)
			return true;
	return false;
}

/* The first flush of the disk that covers a write. */
static const struct record *flush_of(const struct recorder *rec, const struct record *w)
{
	for (size_t i = w->index; i < recorder_len(rec); i++) {
		const struct record *r = recorder_record(rec, i);

		if (r->kind == RECORD_FLUSH && r->disk == w->disk && r->start > w->done)
			return r;
	}
	return NULL;
}

/* Where the bytes that are missed went, as far as they are not compressed. */
static void missed_tell(struct run *run, size_t at)
{
	uint8_t sector[SECTOR];

	if (!run->model.missed_value)
		return;
	sector_fill(sector, run->model.missed_sector, run->model.missed_value);
	for (size_t i = 0; i < at; i++) {
		const struct record *w = recorder_record(run->rec, i), *f;

		if (!record_has(w, sector))
			continue;
		f = flush_of(run->rec, w);
		fprintf(stderr,
			"sector %" PRIu64 " of value %" PRIu64 ": in entry %zu, disk %u, at %" PRIu64 " + %" PRIu64
			", %" PRIu64 " to %" PRIu64 "; flushed by entry %" PRId64 ", %" PRIu64 " to %" PRIu64 "\n",
			run->model.missed_sector, run->model.missed_value, i, w->disk, w->offset, w->length, w->start,
			w->done, f ? (int64_t)f->index : -1, f ? f->start : 0, f ? f->done : 0);
	}
}

static void failed(struct run *run, struct replay *re, size_t at, enum variant variant, uint64_t dice)
{
	const char *keep = getenv("TARN_CRASH_KEEP");
	struct crash *c;
	unsigned disk;

	run->failures++;
	commands_tell(&run->model, replay_mark(re));
	missed_tell(run, at);
	fprintf(stderr, "FAILED: %s, seed %" PRIu64 ", after %zu of %zu entries, %s\n", run->layout->name, run->seed,
		at, recorder_len(run->rec), variant_names[variant]);
	if (!keep)
		return;
	run->rng.state = dice; /* the same crash again */
	c = crash_make(run, re, variant, &disk);
	autofree char *dir = xasprintf("%s/%s-%" PRIu64 "-%zu-%u", keep, run->layout->name, run->seed, at, variant);
	lab_disks(&run->lab, open_crashed, c);
	images_write(&run->lab, dir);
	fprintf(stderr, "disks in %s\n", dir);
	crash_destroy(c);
}

static void crash_one(struct run *run, struct replay *re, size_t at, enum variant variant)
{
	uint64_t mark = replay_mark(re), dice = run->rng.state;
	unsigned disk;
	struct crash *c = crash_make(run, re, variant, &disk);
	autofree char *where = xasprintf("%s, seed %" PRIu64 ", after %zu of %zu, %s (%u)", run->layout->name,
					 run->seed, at, recorder_len(run->rec), variant_names[variant], disk);
	bool sample = rng_percent(&run->rng, IMAGES_PERCENT), sound;

	lab_context("%s", where);
	if (sample)
		image_sample(run, c);
	if (rng_percent(&run->rng, lab_is_long() ? 3 : 2)) {
		sound = crash_nested(run, c, mark, where);
	} else {
		sound = crash_check(run, c, mark);
		if (sample)
			image_sample(run, c);
	}
	run->checks++;
	crash_destroy(c);
	if (!sound)
		failed(run, re, at, variant, dice);
}

static bool is_label_write(const struct record *w)
{
	return w->kind == RECORD_WRITE && (w->offset < LABEL_AREA || w->offset + w->length > DISK_SIZE - LABEL_AREA);
}

/* Near a label or uberblock. */
static bool is_critical(const struct recorder *rec, size_t at)
{
	return (at > 0 && is_label_write(recorder_record(rec, at - 1))) ||
	       (at < recorder_len(rec) && is_label_write(recorder_record(rec, at)));
}

static void crash_everywhere(struct run *run)
{
	struct replay *re = replay_create(run->rec);
	size_t len = recorder_len(run->rec), critical = 0;
	uint64_t checks = lab_number("TARN_CRASH_CHECKS", lab_is_long() ? 300 : 60);

	for (size_t at = 0; at <= len; at++)
		critical += is_critical(run->rec, at);
	for (size_t at = 0; at <= len && run->failures < FAILURES; at++) {
		bool here = is_critical(run->rec, at);
		uint64_t weight = here ? checks / 2 : checks - checks / 2, among = here ? critical : len + 1 - critical;

		if (checks && rng_below(&run->rng, among) >= weight)
			continue;
		run->prefixes++;
		replay_advance(re, at);
		if (lab_is_long())
			for (unsigned v = 0; v < VARIANTS && run->failures < FAILURES; v++)
				crash_one(run, re, at, (enum variant)v);
		else
			crash_one(run, re, at, (enum variant)rng_below(&run->rng, VARIANTS));
	}
	replay_destroy(re);
}

static const struct layout *layout_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(layouts); i++)
		if (strcmp(layouts[i].name, name) == 0)
			return &layouts[i];
	lab_fatal("no layout '%s'", name);
}

int main(int argc, char **argv)
{
	struct run *run = xcalloc(1, sizeof(*run));
	uint64_t start = now_ns();
	bool sound;

	if (argc != 2 && !(argc == 4 && strcmp(argv[2], "--images") == 0)) {
		fprintf(stderr, "usage: %s LAYOUT [--images DIR]\n", argv[0]);
		return 2;
	}
	run->layout = layout_find(argv[1]);
	run->images = argc == 4 ? argv[3] : NULL;
	run->seed = lab_number("TARN_SEED", now_ns() % 1000000007);
	run->rng.state = ~run->seed;
	the_run = run;
	lab_last_words = last_words;
	lab_init(&run->lab, run->layout->disks, DISK_SIZE);
	run->rec = recorder_create(run->layout->disks, DISK_SIZE);
	model_init(&run->model, run->rec);
	printf("%s: TARN_SEED=%" PRIu64 "\n", run->layout->name, run->seed);
	fflush(stdout);
	record(run);
	crash_everywhere(run);
	printf("%s: %" PRIu64 " moments, %" PRIu64 " crashes, %" PRIu64 " of them in recoveries, %" PRIu64
	       " failed, %.0f s\n",
	       run->layout->name, run->prefixes, run->checks + run->nested, run->nested, run->failures,
	       (double)(now_ns() - start) / 1e9);
	sound = run->failures == 0;
	model_fini(&run->model);
	recorder_destroy(run->rec);
	lab_fini(&run->lab);
	free(run);
	return sound ? 0 : 1;
}
