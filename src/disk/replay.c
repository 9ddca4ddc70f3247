/* What is left on recorded disks after a crash. */
#include "base/hash.h"
#include "disk/recorder_impl.h"
#include "disk/testdisk.h"

#define SECTOR 512u

struct replay_disk {
	struct sparse *confirmed; /* what flushes made sure of */
	struct sparse *all;       /* everything that was submitted */
	const struct record **pending;
	size_t npending, room;
};

struct replay {
	const struct recorder *rec;
	size_t at;
	uint64_t mark;
	unsigned crashes; /* alive */
	struct replay_disk disk[];
};

struct crash {
	struct replay *re;
	struct sparse *disk[];
};

struct replay *replay_create(const struct recorder *r)
{
	struct replay *re = xcalloc(1, sizeof(*re) + r->ndisks * sizeof(re->disk[0]));

	re->rec = r;
	for (unsigned i = 0; i < r->ndisks; i++) {
		const struct sparse *base = r->disk[i].base;

		re->disk[i].confirmed = sparse_create(sparse_size(base), base);
		re->disk[i].all = sparse_create(sparse_size(base), base);
	}
	return re;
}

void replay_destroy(struct replay *re)
{
	if (!re)
		return;
	BUG_ON(re->crashes > 0);
	for (unsigned i = 0; i < re->rec->ndisks; i++) {
		sparse_destroy(re->disk[i].confirmed);
		sparse_destroy(re->disk[i].all);
		free(re->disk[i].pending);
	}
	free(re);
}

static void disk_write_happened(struct replay_disk *d, const struct record *w)
{
	if (d->npending == d->room) {
		d->room = d->room ? 2 * d->room : 64;
		d->pending = xrealloc(d->pending, d->room * sizeof(struct record *));
	}
	d->pending[d->npending++] = w;
	record_apply(d->all, w);
}

static void disk_flush_happened(struct replay_disk *d, const struct record *flush)
{
	size_t left = 0;

	for (size_t i = 0; i < d->npending; i++) {
		if (d->pending[i]->done < flush->start)
			record_apply(d->confirmed, d->pending[i]);
		else
			d->pending[left++] = d->pending[i];
	}
	d->npending = left;
}

void replay_advance(struct replay *re, size_t at)
{
	BUG_ON(re->crashes > 0 || at < re->at || at > re->rec->len);
	for (; re->at < at; re->at++) {
		const struct record *w = re->rec->log[re->at];

		if (w->kind == RECORD_MARK)
			re->mark = w->mark;
		else if (w->kind == RECORD_FLUSH)
			disk_flush_happened(&re->disk[w->disk], w);
		else
			disk_write_happened(&re->disk[w->disk], w);
	}
}

uint64_t replay_mark(const struct replay *re)
{
	return re->mark;
}

size_t replay_unconfirmed(const struct replay *re)
{
	size_t n = 0;

	for (unsigned i = 0; i < re->rec->ndisks; i++)
		n += re->disk[i].npending;
	return n;
}

/* --- fates --- */

enum crash_fate crash_lose_all(void *arg, const struct record *w)
{
	return CRASH_LOSE;
}

enum crash_fate crash_by_odds(void *arg, const struct record *w)
{
	const struct crash_odds *odds = arg;
	unsigned dice = hash_mix(odds->seed, w->index) % 100;

	return dice < odds->lose ? CRASH_LOSE : dice < odds->lose + odds->tear ? CRASH_TEAR : CRASH_KEEP;
}

/* --- crashes --- */

struct survivor {
	const struct record *w;
	bool torn;
	uint64_t when; /* reached the medium */
	uint64_t lot;  /* decides between those of one moment, which were all under way */
};

/* A moment while it was under way: who ended before another began comes first. */
static uint64_t moment_of(const struct crash_variant *v, const struct record *w, uint64_t now)
{
	uint64_t end = MIN(w->done, MAX(now, w->start));

	return v->reorder ? w->start + hash_mix(v->seed, w->index) % (end - w->start + 1) : w->start;
}

static int survivor_compare(const void *a, const void *b)
{
	const struct survivor *x = a, *y = b;

	if (x->when != y->when)
		return x->when < y->when ? -1 : 1;
	return x->lot < y->lot ? -1 : x->lot > y->lot;
}

static void record_apply_torn(struct sparse *s, const struct record *w, uint64_t seed)
{
	for (uint64_t at = 0; at < w->length; at += SECTOR) {
		if (hash_mix(hash_mix(seed, w->index), at) & 1)
			continue;
		if (w->kind == RECORD_WRITE)
			sparse_write(s, w->offset + at, w->data + at, SECTOR);
		else
			sparse_zero(s, w->offset + at, SECTOR);
	}
}

static void crash_disk(struct sparse *s, const struct replay_disk *d, const struct crash_variant *v, uint64_t now)
{
	autofree struct survivor *list = xcalloc(d->npending + 1, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; i < d->npending; i++) {
		const struct record *w = d->pending[i];
		enum crash_fate fate = v->fate ? v->fate(v->arg, w) : CRASH_KEEP;

		if (fate != CRASH_LOSE)
			list[n++] = (struct survivor){w, fate == CRASH_TEAR, moment_of(v, w, now),
						      hash_mix(~v->seed, w->index)};
	}
	qsort(list, n, sizeof(*list), survivor_compare);
	for (size_t i = 0; i < n; i++) {
		if (list[i].torn)
			record_apply_torn(s, list[i].w, v->seed);
		else
			record_apply(s, list[i].w);
	}
}

/* A write is in the log where it began, a flush where it ended. */
static uint64_t replay_time(const struct replay *re)
{
	const struct record *last = re->at ? re->rec->log[re->at - 1] : NULL;

	return !last ? 0 : last->kind == RECORD_FLUSH ? last->done : last->start;
}

struct crash *replay_crash(struct replay *re, const struct crash_variant *v)
{
	struct crash *c = xcalloc(1, sizeof(*c) + re->rec->ndisks * sizeof(struct sparse *));
	uint64_t now = replay_time(re);

	c->re = re;
	re->crashes++;
	for (unsigned i = 0; i < re->rec->ndisks; i++) {
		const struct replay_disk *d = &re->disk[i];

		c->disk[i] = sparse_create(sparse_size(d->all), v ? d->confirmed : d->all);
		if (v)
			crash_disk(c->disk[i], d, v, now);
	}
	return c;
}

struct disk *crash_open(struct crash *c, unsigned disk)
{
	autofree char *name = xasprintf("crash%u", disk);

	BUG_ON(disk >= c->re->rec->ndisks);
	return memdisk_over(name, c->disk[disk]);
}

void crash_destroy(struct crash *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < c->re->rec->ndisks; i++)
		sparse_destroy(c->disk[i]);
	c->re->crashes--;
	free(c);
}

struct recorder *recorder_create_over(struct crash *c)
{
	return recorder_make(c->re->rec->ndisks, sparse_size(c->disk[0]), c->disk);
}
