/* Segments as keys of a packed set, once by place and, for those that are searched for room, once by size. */
#include "alloc/segset.h"

static uint64_t place_key(uint64_t start, uint64_t end)
{
	return start << 32 | (end - 1);
}

static uint64_t key_start(uint64_t key)
{
	return key >> 32;
}

static uint64_t key_end(uint64_t key)
{
	return (uint64_t)(uint32_t)key + 1;
}

static uint64_t size_key(uint64_t start, uint64_t end)
{
	return (end - start - 1) << 32 | start;
}

static unsigned bucket_of(uint64_t len)
{
	return MIN(63u - (unsigned)__builtin_clzll(len), SEGSET_BUCKETS - 1);
}

void segset_init(struct segset *s, bool indexed)
{
	*s = (struct segset){.index = indexed ? xcalloc(1, sizeof(*s->index)) : NULL};
}

void segset_clear(struct segset *s)
{
	keyset_clear(&s->by_start);
	s->space = 0;
	if (s->index) {
		keyset_clear(&s->index->by_size);
		*s->index = (struct segset_index){.buckets = 0};
	}
}

void segset_destroy(struct segset *s)
{
	segset_clear(s);
	free(s->index);
	s->index = NULL;
}

/* --- the index --- */

static void index_add(struct segset *s, uint64_t start, uint64_t end)
{
	struct segset_index *x = s->index;
	unsigned b;

	s->space += end - start;
	if (!x)
		return;
	b = bucket_of(end - start);
	keyset_add(&x->by_size, size_key(start, end));
	x->count[b]++;
	x->buckets |= UINT32_C(1) << b;
}

static void index_remove(struct segset *s, uint64_t start, uint64_t end)
{
	struct segset_index *x = s->index;
	unsigned b;

	s->space -= end - start;
	if (!x)
		return;
	b = bucket_of(end - start);
	keyset_remove(&x->by_size, size_key(start, end));
	if (--x->count[b] == 0)
		x->buckets &= ~(UINT32_C(1) << b);
}

void segset_make_index(struct segset *s)
{
	struct segset_iter it;
	uint64_t start, end;

	BUG_ON(s->index);
	s->index = xcalloc(1, sizeof(*s->index));
	s->space = 0;
	segset_iter_init(&it, s);
	while (segset_iter_next(&it, &start, &end))
		index_add(s, start, end);
}

/* --- single segments --- */

static void segment_insert(struct segset *s, uint64_t start, uint64_t end)
{
	keyset_add(&s->by_start, place_key(start, end));
	index_add(s, start, end);
}

static void segment_delete(struct segset *s, uint64_t start, uint64_t end)
{
	keyset_remove(&s->by_start, place_key(start, end));
	index_remove(s, start, end);
}

/* A segment moves its borders but not past its neighbours. */
static void segment_change(struct segset *s, uint64_t start, uint64_t end, uint64_t new_start, uint64_t new_end)
{
	keyset_replace(&s->by_start, place_key(start, end), place_key(new_start, new_end));
	index_remove(s, start, end);
	index_add(s, new_start, new_end);
}

/* The last segment that starts at or before `at`. */
static bool segment_le(const struct segset *s, uint64_t at, uint64_t *start, uint64_t *end)
{
	uint64_t key;

	if (!keyset_le(&s->by_start, at << 32 | UINT32_MAX, &key))
		return false;
	*start = key_start(key);
	*end = key_end(key);
	return true;
}

static bool segment_ge(const struct segset *s, uint64_t at, uint64_t *start, uint64_t *end)
{
	uint64_t key;

	if (at >= SEGSET_END || !keyset_ge(&s->by_start, at << 32, &key))
		return false;
	*start = key_start(key);
	*end = key_end(key);
	return true;
}

bool segset_overlap(const struct segset *s, uint64_t start, uint64_t end, uint64_t *from, uint64_t *to)
{
	uint64_t a, b;

	if (!segment_le(s, start, &a, &b) || b <= start)
		if (!segment_ge(s, start, &a, &b) || a >= end)
			return false;
	*from = MAX(a, start);
	*to = MIN(b, end);
	return *from < *to;
}

bool segset_contains(const struct segset *s, uint64_t start, uint64_t end)
{
	uint64_t a, b;

	return segment_le(s, start, &a, &b) && b >= end;
}

/* --- changes --- */

int segset_add(struct segset *s, uint64_t start, uint64_t end)
{
	uint64_t a = 0, b = 0, c = 0, d = 0;
	bool before = segment_le(s, start, &a, &b), after = segment_ge(s, start, &c, &d);

	BUG_ON(start >= end || end > SEGSET_END);
	if ((before && b > start) || (after && c < end))
		return -EEXIST;
	before = before && b == start;
	after = after && c == end;
	if (before && after) {
		segment_delete(s, c, d);
		segment_change(s, a, b, a, d);
	} else if (before) {
		segment_change(s, a, b, a, end);
	} else if (after) {
		segment_change(s, c, d, start, d);
	} else {
		segment_insert(s, start, end);
	}
	return 0;
}

int segset_remove(struct segset *s, uint64_t start, uint64_t end)
{
	uint64_t a, b;

	BUG_ON(start >= end || end > SEGSET_END);
	if (!segment_le(s, start, &a, &b) || b < end)
		return -ENOENT;
	if (a == start && b == end) {
		segment_delete(s, a, b);
	} else if (a == start) {
		segment_change(s, a, b, end, b);
	} else {
		segment_change(s, a, b, a, start);
		if (b > end)
			segment_insert(s, end, b);
	}
	return 0;
}

void segset_remove_any(struct segset *s, uint64_t start, uint64_t end)
{
	uint64_t from, to;

	while (start < end && segset_overlap(s, start, end, &from, &to)) {
		segset_remove(s, from, to);
		start = to;
	}
}

void segset_add_any(struct segset *s, uint64_t start, uint64_t end)
{
	segset_remove_any(s, start, end);
	segset_add(s, start, end);
}

int segset_xor_add(struct segset *into, struct segset *against, uint64_t start, uint64_t end)
{
	uint64_t from, to;
	int err = 0;

	while (start < end && err == 0) {
		if (!segset_overlap(against, start, end, &from, &to))
			return segset_add(into, start, end);
		if (from > start)
			err = segset_add(into, start, from);
		segset_remove(against, from, to);
		start = to;
	}
	return err;
}

/* --- all of a set --- */

void segset_iter_init(struct segset_iter *it, const struct segset *s)
{
	keyset_iter_init(&it->keys, &s->by_start, 0);
}

bool segset_iter_next(struct segset_iter *it, uint64_t *start, uint64_t *end)
{
	uint64_t key;

	if (!keyset_iter_next(&it->keys, &key))
		return false;
	*start = key_start(key);
	*end = key_end(key);
	return true;
}

int segset_add_all(struct segset *s, const struct segset *from)
{
	struct segset_iter it;
	uint64_t start, end;
	int err = 0;

	segset_iter_init(&it, from);
	while (err == 0 && segset_iter_next(&it, &start, &end))
		err = segset_add(s, start, end);
	return err;
}

int segset_remove_all(struct segset *s, const struct segset *from)
{
	struct segset_iter it;
	uint64_t start, end;
	int err = 0;

	segset_iter_init(&it, from);
	while (err == 0 && segset_iter_next(&it, &start, &end))
		err = segset_remove(s, start, end);
	return err;
}

void segset_move(struct segset *to, struct segset *from)
{
	BUG_ON(!segset_is_empty(to) || to->index || from->index);
	*to = *from;
	segset_init(from, false);
}

/* --- searching for room --- */

uint64_t segset_largest(const struct segset *s)
{
	uint64_t key;

	return keyset_le(&s->index->by_size, UINT64_MAX, &key) ? (key >> 32) + 1 : 0;
}

bool segset_best_fit(const struct segset *s, uint64_t len, uint64_t *start)
{
	uint64_t key;

	if (len == 0 || len > SEGSET_END || !keyset_ge(&s->index->by_size, (len - 1) << 32, &key))
		return false;
	*start = (uint32_t)key;
	return true;
}

bool segset_first_fit(const struct segset *s, uint64_t from, uint64_t limit, unsigned tries, uint64_t len,
		      uint64_t *start)
{
	struct keyset_iter it;
	uint64_t a, b, key;

	if (segment_le(s, from, &a, &b) && b >= from + len) {
		*start = from;
		return true;
	}
	if (from + 1 >= SEGSET_END)
		return false;
	keyset_iter_init(&it, &s->by_start, (from + 1) << 32);
	for (unsigned i = 0; keyset_iter_next(&it, &key) && (i < tries || key_start(key) < limit); i++) {
		if (key_end(key) - key_start(key) >= len) {
			*start = key_start(key);
			return true;
		}
	}
	return false;
}
