/*
 * A ZAP of any kind: the first byte tells the block size (in units of 512 bytes, less one), the rest is its blocks.
 * It is walked, every name and word key met is looked up in all ways, and cookies are resumed.
 */
#include "fuzz.h"
#include "zapbuf.h"

#define WALK_MAX    20000u
#define LOOKUPS_MAX 300u

static struct zap *open_copy(const uint8_t *p, size_t size, uint32_t block_size)
{
	struct zap *z;

	return zap_open_source(zapbuf_create(p, size, block_size), &z) ? NULL : z;
}

static void look_up(struct zap *z, const struct zap_entry *e)
{
	static const unsigned matches[] = {0, ZAP_MATCH_NORMALIZED, ZAP_MATCH_NORMALIZED | ZAP_MATCH_CASE};
	char real[ZAP_NAME_MAX];
	uint64_t words[128], out[4];

	if (e->key_words) {
		memcpy(words, e->name, MIN(e->key_words, 128) * sizeof(*words));
		zap_find_words(z, words, e->key_words, 8, ARRAY_LEN(out), out);
		return;
	}
	for (unsigned i = 0; i < ARRAY_LEN(matches); i++)
		zap_find(z, e->name, matches[i], 8, ARRAY_LEN(out), out, real);
}

static void resume(const uint8_t *p, size_t size, uint32_t block_size, uint64_t cookie)
{
	struct zap *z = open_copy(p, size, block_size);
	struct zap_cursor *c;
	struct zap_entry e;

	if (!z)
		return;
	zap_cursor_start(z, cookie, &c);
	zap_cursor_next(c, &e);
	zap_cursor_close(c);
}

static void value_read(struct zap_cursor *c, const struct zap_entry *e)
{
	autofree uint8_t *value = malloc(e->nints * e->intsize + 1);

	if (value)
		zap_cursor_value(c, value, e->nints);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t block_size = size ? (data[0] + 1u) * 512 : 0;
	struct zap *walked, *asked;
	struct zap_cursor *c;
	struct zap_entry e;
	uint64_t found;
	int err = 0;

	if (size < 1 || size - 1 < block_size)
		return 0;
	autofree uint8_t *p = fuzz_copy(data + 1, size - 1);
	walked = open_copy(p, size - 1, block_size);
	if (!walked)
		return 0;
	asked = open_copy(p, size - 1, block_size);
	zap_find(asked, "root_dataset", 0, 8, 1, &found, NULL);
	zap_cursor_start(walked, 0, &c);
	for (unsigned i = 0; i < WALK_MAX && err != -ENOENT; i++) {
		err = zap_cursor_next(c, &e);
		if (err)
			continue;
		value_read(c, &e);
		if (i < LOOKUPS_MAX)
			look_up(asked, &e);
		if (i % 64 == 0)
			resume(p, size - 1, block_size, e.cookie);
	}
	zap_cursor_close(c);
	zap_close(asked);
	return 0;
}
