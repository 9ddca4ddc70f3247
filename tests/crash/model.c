#include "model.h"

#include <stdarg.h>

#include "base/bytes.h"

const char *const model_props[MODEL_TAGS] = {"crash:tag", "compression", "copies", "refreservation", "sync"};

void model_init(struct model *m, struct recorder *rec)
{
	*m = (struct model){.rec = rec};
	pthread_mutex_init(&m->lock, NULL);
	m->state = xcalloc(1, sizeof(*m->state));
	m->nstates = m->room = 1;
}

static void content_free(struct content *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->log[i].values);
	free(c->log);
	free(c->initial);
	free(c);
}

void model_fini(struct model *m)
{
	for (struct content *c = m->contents, *next; c; c = next) {
		next = c->next;
		content_free(c);
	}
	for (size_t i = 0; i < m->nstates; i++)
		free(m->state[i].e);
	free(m->state);
	pthread_mutex_destroy(&m->lock);
}

uint64_t model_mark_locked(struct model *m)
{
	m->marks++;
	if (m->rec)
		recorder_mark(m->rec, m->marks);
	return m->marks;
}

/* --- states --- */

struct state *model_last(struct model *m)
{
	return &m->state[m->nstates - 1];
}

struct state *model_begin(struct model *m, const char *fmt, ...)
{
	struct state *s;
	va_list ap;

	SCOPED_LOCK(&m->lock);
	if (m->nstates == m->room) {
		m->room *= 2;
		m->state = xrealloc(m->state, m->room * sizeof(*m->state));
	}
	s = &m->state[m->nstates];
	*s = m->state[m->nstates - 1];
	s->e = xcalloc(s->room + 1, sizeof(*s->e));
	if (s->n)
		memcpy(s->e, s[-1].e, s->n * sizeof(*s->e));
	s->acked = NEVER;
	va_start(ap, fmt);
	vsnprintf(s->what, sizeof(s->what), fmt, ap);
	va_end(ap);
	m->nstates++;
	return s;
}

void model_end(struct model *m)
{
	SCOPED_LOCK(&m->lock);
	model_last(m)->acked = model_mark_locked(m);
}

void model_undo(struct model *m)
{
	SCOPED_LOCK(&m->lock);
	free(model_last(m)->e);
	m->nstates--;
}

struct entry *state_find(struct state *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->e[i].name, name) == 0)
			return &s->e[i];
	return NULL;
}

struct entry *state_add(struct state *s, const char *name)
{
	struct entry *e;

	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 16;
		s->e = xrealloc(s->e, (s->room + 1) * sizeof(*s->e));
	}
	e = &s->e[s->n++];
	memset(e, 0, sizeof(*e));
	snprintf(e->name, sizeof(e->name), "%s", name);
	return e;
}

void state_remove(struct state *s, struct entry *e)
{
	*e = s->e[--s->n];
}

size_t model_acked_at(const struct model *m, uint64_t mark)
{
	size_t at = 0;

	for (size_t i = 1; i < m->nstates; i++)
		if (m->state[i].acked <= mark)
			at = i;
	return at;
}

/* --- volumes --- */

struct content *model_content(struct model *m, size_t sectors)
{
	struct content *c = xcalloc(1, sizeof(*c));

	SCOPED_LOCK(&m->lock);
	c->room = sectors;
	c->next = m->contents;
	m->contents = c;
	return c;
}

size_t content_submit_locked(struct model *m, struct content *c, struct change change)
{
	if (c->n == c->alloc) {
		c->alloc = c->alloc ? 2 * c->alloc : 64;
		c->log = xrealloc(c->log, c->alloc * sizeof(*c->log));
	}
	BUG_ON(change.first + change.count > c->room);
	change.completed = change.safe = NEVER;
	c->log[c->n] = change;
	m->clock++;
	return c->n++;
}

size_t content_changes(struct model *m, const struct content *c)
{
	SCOPED_LOCK(&m->lock);

	return c->n;
}

void content_completed_locked(struct model *m, struct content *c, size_t change)
{
	c->log[change].completed = ++m->clock;
}

void content_safe_locked(struct model *m, struct content *c, uint64_t clock)
{
	uint64_t mark = model_mark_locked(m);

	for (size_t i = 0; i < c->n; i++)
		if (c->log[i].completed <= clock && c->log[i].safe == NEVER)
			c->log[i].safe = mark;
}

static uint64_t change_value(const struct change *h, uint64_t sector)
{
	return h->values ? h->values[sector - h->first] : h->value;
}

static bool change_has(const struct change *h, uint64_t sector)
{
	return sector >= h->first && sector < h->first + h->count;
}

static bool change_is_sure(const struct change *h, size_t i, const struct allowed *a)
{
	return (a->by_clock ? h->completed : h->safe) <= a->mark || a->sure == i + 1;
}

/* The story of one sector, for people: from the last time on that it was sure. */
static void story_tell(struct model *m, const struct content *c, uint64_t sector, const struct allowed *a, size_t limit)
{
	size_t from = 0, told = 0;

	for (size_t i = 0; i < limit; i++)
		if (change_has(&c->log[i], sector) && change_is_sure(&c->log[i], i, a))
			from = i;
	m->missed_sector = sector;
	m->missed_value = c->n ? change_value(&c->log[from], sector) : 0;
	if (from == 0)
		lab_wrong("%s: sector %" PRIu64 " began as %" PRIu64, a->name, sector,
			  c->initial ? c->initial[sector] : 0);
	for (size_t i = from; i < limit && told < 5; i++) {
		const struct change *h = &c->log[i];

		if (change_has(h, sector) && ++told)
			lab_wrong("%s: sector %" PRIu64 ": change %zu of sectors %" PRIu64 " + %" PRIu64
				  " made it %" PRIu64 "%s, completed at %" PRId64 ", safe from mark %" PRId64,
				  a->name, sector, i, h->first, h->count, change_value(h, sector),
				  h->values ? " (rollback)" : "", (int64_t)h->completed, (int64_t)h->safe);
	}
}

static void sectors_judge(const struct content *c, const uint64_t *values, bool *ok, size_t sectors,
			  const struct allowed *a, size_t limit)
{
	for (size_t s = 0; s < sectors; s++)
		ok[s] = values[s] == (c->initial ? c->initial[s] : 0);
	for (size_t i = 0; i < limit; i++) {
		const struct change *h = &c->log[i];
		bool sure = change_is_sure(h, i, a);

		for (uint64_t s = h->first; s < MIN(h->first + h->count, sectors); s++) {
			bool equal = values[s] == change_value(h, s);

			ok[s] = sure ? equal : ok[s] || equal;
		}
	}
}

bool content_allows(struct model *m, struct content *c, const uint64_t *values, size_t sectors, const struct allowed *a)
{
	autofree bool *ok = xcalloc(sectors + 1, sizeof(*ok));
	size_t wrong = 0, limit;
	SCOPED_LOCK(&m->lock);

	limit = a->limit ? MIN(a->limit, c->n) : c->n;
	sectors_judge(c, values, ok, sectors, a, limit);
	for (size_t s = 0; s < sectors; s++) {
		if (ok[s] || wrong++ > 0 || a->quiet)
			continue;
		lab_wrong("%s: sector %zu has value %" PRId64 ", which cannot be at %s %" PRIu64, a->name, s,
			  (int64_t)values[s], a->by_clock ? "moment" : "mark", a->mark);
		story_tell(m, c, s, a, limit);
	}
	if (wrong && !a->quiet)
		lab_wrong("%s: %zu of %zu sectors are wrong", a->name, wrong, sectors);
	return wrong == 0;
}

/* --- bytes --- */

/* Some compress, some do not. */
static uint64_t word_of(uint64_t sector, uint64_t value, unsigned i)
{
	if (i == 0)
		return value;
	if (i == 1)
		return sector;
	return value % 3 ? hash_mix(value, sector * 64 + i) : value + i / 8;
}

void sector_fill(uint8_t *p, uint64_t sector, uint64_t value)
{
	if (value == 0) {
		memset(p, 0, SECTOR);
		return;
	}
	for (unsigned i = 0; i < SECTOR / 8; i++)
		store_host64(p + 8 * i, word_of(sector, value, i));
}

uint64_t sector_parse(const uint8_t *p, uint64_t sector)
{
	uint64_t value = load_host64(p);

	if (value == 0) {
		for (unsigned i = 0; i < SECTOR; i++)
			if (p[i])
				return SECTOR_GARBAGE;
		return 0;
	}
	for (unsigned i = 1; i < SECTOR / 8; i++)
		if (load_host64(p + 8 * i) != word_of(sector, value, i))
			return SECTOR_GARBAGE;
	return value;
}
