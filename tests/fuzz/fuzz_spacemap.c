/* Entries of a space map: the first byte tells byte order (bit 0) and the unit (512 bytes and up), the rest is entries.
 * What was decoded is written again, both ways, and must decode to the same.
 */
#include "alloc/spacemap.h"
#include "fuzz.h"

struct seen {
	struct rangetree rt;
	struct spacemap_entry *entry;
	size_t n, room, at;
	uint64_t missing; /* of the run being compared */
	unsigned shift;
};

static int apply(void *arg, const struct spacemap_entry *e)
{
	struct seen *s = arg;

	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 64;
		s->entry = xrealloc(s->entry, s->room * sizeof(*s->entry));
	}
	s->entry[s->n++] = *e;
	if (e->offset + e->run <= e->offset)
		return 0;
	return e->free ? rangetree_remove(&s->rt, e->offset, e->offset + e->run)
		       : rangetree_add(&s->rt, e->offset, e->offset + e->run);
}

/* Long runs come back in pieces. */
static int compare(void *arg, const struct spacemap_entry *e)
{
	struct seen *s = arg;
	const struct spacemap_entry *want = &s->entry[s->at];
	uint64_t done = want->run - s->missing;

	BUG_ON(s->at == s->n || e->free != want->free || e->offset != want->offset + done || e->run > s->missing);
	s->missing -= e->run;
	if (s->missing == 0 && ++s->at < s->n)
		s->missing = s->entry[s->at].run;
	return 0;
}

static void write_again(struct seen *s, bool two_words)
{
	struct spacemap_encoder e = {.blocksize = 4096, .two_words = two_words, .vdev = UINT64_MAX};

	for (size_t i = 0; i < s->n; i++) {
		const struct spacemap_entry *was = &s->entry[i];
		bool fits = (was->offset + was->run) >> s->shift <= UINT64_C(1) << 47 && was->run >> s->shift < 1 << 20;

		if (!two_words && !fits) { /* one word cannot say that, or takes too many */
			free(e.word);
			return;
		}
		spacemap_encode(&e, was->free, was->offset >> s->shift, was->run >> s->shift);
	}
	s->at = 0;
	s->missing = s->n ? s->entry[0].run : 0;
	if (e.n)
		BUG_ON(spacemap_decode((uint8_t *)e.word, e.n * 8, false, 0, s->shift, compare, s) || s->at != s->n);
	free(e.word);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen s = {0};

	if (size < 1)
		return 0;
	autofree uint8_t *p = fuzz_copy(data + 1, size - 1);
	rangetree_init(&s.rt);
	s.shift = 9 + (data[0] >> 1) % 9;
	spacemap_decode(p, size - 1, data[0] & 1, 0, s.shift, apply, &s);
	rangetree_clear(&s.rt);
	write_again(&s, false);
	write_again(&s, true);
	free(s.entry);
	return 0;
}
