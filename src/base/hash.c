/* Key mixing, and a chained hash map from strings to pointers. */
#include "base/hash.h"
#include "base/bytes.h"

/* The finaliser of a 64-bit multiply-xorshift mix: every input bit reaches every output bit. */
uint64_t hash_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + ((b << 32 | b >> 32) ^ UINT64_C(0xd6e8feb86659fd93));

	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= b;
	x ^= x >> 32;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	return x;
}

struct strmap_entry {
	struct strmap_entry *next;
	uint64_t hash;
	void *value;
	char key[];
};

struct strmap {
	struct strmap_entry **bucket;
	size_t nbuckets; /* power of two */
	size_t len;
};

static uint64_t strmap_hash(const char *key)
{
	size_t n = strlen(key);
	uint64_t h = n;

	for (; n >= 8; n -= 8, key += 8)
		h = hash_mix(h, load_host64(key));
	for (; n > 0; n--, key++)
		h = hash_mix(h, (uint8_t)*key);
	return h;
}

struct strmap *strmap_create(void)
{
	struct strmap *m = xcalloc(1, sizeof(*m));

	m->nbuckets = 16;
	m->bucket = xcalloc(m->nbuckets, sizeof(*m->bucket));
	return m;
}

void strmap_destroy(struct strmap *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->nbuckets; i++) {
		struct strmap_entry *e, *next;

		for (e = m->bucket[i]; e; e = next) {
			next = e->next;
			free(e);
		}
	}
	free(m->bucket);
	free(m);
}

/* The link that points to the key's entry, or the NULL link at the end of its chain. */
static struct strmap_entry **strmap_slot(const struct strmap *m, const char *key, uint64_t hash)
{
	struct strmap_entry **pe = &m->bucket[hash & (m->nbuckets - 1)];

	while (*pe && ((*pe)->hash != hash || strcmp((*pe)->key, key) != 0))
		pe = &(*pe)->next;
	return pe;
}

static void strmap_grow(struct strmap *m)
{
	size_t n = m->nbuckets * 2;
	struct strmap_entry **bucket = xcalloc(n, sizeof(*bucket));

	for (size_t i = 0; i < m->nbuckets; i++) {
		struct strmap_entry *e, *next;

		for (e = m->bucket[i]; e; e = next) {
			next = e->next;
			e->next = bucket[e->hash & (n - 1)];
			bucket[e->hash & (n - 1)] = e;
		}
	}
	free(m->bucket);
	m->bucket = bucket;
	m->nbuckets = n;
}

static void strmap_insert(struct strmap *m, const char *key, uint64_t hash, void *value)
{
	size_t n = strlen(key) + 1;
	struct strmap_entry *e = xmalloc(sizeof(*e) + n), **head;

	if (m->len >= m->nbuckets)
		strmap_grow(m);
	head = &m->bucket[hash & (m->nbuckets - 1)];
	e->hash = hash;
	e->value = value;
	memcpy(e->key, key, n);
	e->next = *head;
	*head = e;
	m->len++;
}

void *strmap_set(struct strmap *m, const char *key, void *value)
{
	uint64_t hash = strmap_hash(key);
	struct strmap_entry **pe = strmap_slot(m, key, hash), *e = *pe;
	void *old;

	if (!e) {
		if (value)
			strmap_insert(m, key, hash, value);
		return NULL;
	}
	old = e->value;
	e->value = value;
	if (!value) {
		*pe = e->next;
		m->len--;
		free(e);
	}
	return old;
}

void *strmap_get(const struct strmap *m, const char *key)
{
	struct strmap_entry *e = *strmap_slot(m, key, strmap_hash(key));

	return e ? e->value : NULL;
}

size_t strmap_len(const struct strmap *m)
{
	return m->len;
}
