/* Pages of 4 KiB in a table of two levels. */
#include "disk/sparse.h"

#define PAGE      4096u
#define TABLE_LEN 512u

struct table {
	uint8_t *page[TABLE_LEN]; /* NULL: as it is under this store */
};

struct sparse {
	uint64_t size;
	const struct sparse *under;
	size_t ntables;
	struct table **table;
};

/* Stands for a page of zeros over a store that has something there. */
static uint8_t zeros[PAGE];

struct sparse *sparse_create(uint64_t size, const struct sparse *under)
{
	struct sparse *s = xcalloc(1, sizeof(*s));

	s->size = size;
	s->under = under;
	s->ntables = size / (PAGE * TABLE_LEN) + 1;
	s->table = xcalloc(s->ntables, sizeof(struct table *));
	return s;
}

static void page_free(uint8_t *page)
{
	if (page != zeros)
		free(page);
}

void sparse_destroy(struct sparse *s)
{
	if (!s)
		return;
	for (size_t t = 0; t < s->ntables; t++) {
		for (size_t i = 0; s->table[t] && i < TABLE_LEN; i++)
			page_free(s->table[t]->page[i]);
		free(s->table[t]);
	}
	free(s->table);
	free(s);
}

uint64_t sparse_size(const struct sparse *s)
{
	return s->size;
}

/* The page in which `offset` lies, of this store or the first under it that has one; NULL: zeros. */
static const uint8_t *page_find(const struct sparse *s, uint64_t offset)
{
	for (; s; s = s->under) {
		const struct table *t = s->table[offset / PAGE / TABLE_LEN];

		if (t && t->page[offset / PAGE % TABLE_LEN])
			return t->page[offset / PAGE % TABLE_LEN];
	}
	return NULL;
}

static uint8_t **page_place(struct sparse *s, uint64_t offset)
{
	struct table **t = &s->table[offset / PAGE / TABLE_LEN];

	if (!*t)
		*t = xcalloc(1, sizeof(**t));
	return &(*t)->page[offset / PAGE % TABLE_LEN];
}

/* This store's own page, with the contents it had; they do not matter when all of it is written. */
static uint8_t *page_own(struct sparse *s, uint64_t offset, bool whole)
{
	uint8_t **place = page_place(s, offset);
	const uint8_t *old;

	if (*place && *place != zeros)
		return *place;
	old = whole ? NULL : page_find(s, offset);
	*place = xmalloc(PAGE);
	if (old)
		memcpy(*place, old, PAGE);
	else if (!whole)
		memset(*place, 0, PAGE);
	return *place;
}

static void range_check(const struct sparse *s, uint64_t offset, uint64_t n)
{
	BUG_ON(offset > s->size || n > s->size - offset);
}

void sparse_read(const struct sparse *s, uint64_t offset, void *data, size_t n)
{
	uint8_t *to = data;

	range_check(s, offset, n);
	for (size_t part; n > 0; offset += part, to += part, n -= part) {
		const uint8_t *page = page_find(s, offset);

		part = MIN(n, PAGE - offset % PAGE);
		if (page)
			memcpy(to, page + offset % PAGE, part);
		else
			memset(to, 0, part);
	}
}

void sparse_write(struct sparse *s, uint64_t offset, const void *data, size_t n)
{
	const uint8_t *from = data;

	range_check(s, offset, n);
	for (size_t part; n > 0; offset += part, from += part, n -= part) {
		part = MIN(n, PAGE - offset % PAGE);
		memcpy(page_own(s, offset, part == PAGE) + offset % PAGE, from, part);
	}
}

static void page_zero(struct sparse *s, uint64_t offset)
{
	uint8_t **place = page_place(s, offset);

	page_free(*place);
	*place = s->under ? zeros : NULL;
}

void sparse_zero(struct sparse *s, uint64_t offset, uint64_t n)
{
	range_check(s, offset, n);
	for (uint64_t part; n > 0; offset += part, n -= part) {
		part = MIN(n, PAGE - offset % PAGE);
		if (part == PAGE)
			page_zero(s, offset);
		else if (page_find(s, offset))
			memset(page_own(s, offset, false) + offset % PAGE, 0, part);
	}
}
