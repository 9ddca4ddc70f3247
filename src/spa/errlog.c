/*
 * Blocks known to be damaged: the two persistent logs (docs/format/01-pool.md 5.6, 03-datasets.md 6.8) and what could
 * not be read since the import.
 */
#include "spa/spa_impl.h"

typedef int (*error_fn)(void *arg, const struct zbookmark *zb);

/* Hex numbers separated by colons. */
static bool key_parse(const char *key, uint64_t *out, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char *end;

		out[i] = strtoull(key, &end, 16);
		if (end == key || *end != (i + 1 < n ? ':' : '\0'))
			return false;
		key = end + 1;
	}
	return true;
}

static int error_tell(const uint64_t word[4], error_fn fn, void *arg)
{
	struct zbookmark zb = {word[0], word[1], (int64_t)word[2], word[3]};

	return fn(arg, &zb);
}

/* Calls entry for each string-keyed entry of a ZAP; unreadable leaves are passed over. */
static int zap_each(struct objset *mos, uint64_t object, int (*entry)(void *arg, const struct zap_entry *e), void *arg)
{
	autofree struct zap_entry *e = xmalloc(sizeof(*e));
	struct zap_cursor *c;
	int err = zap_cursor_open(mos, object, 0, &c), stop = 0;

	if (err)
		return err;
	while (!stop && (err = zap_cursor_next(c, e)) != -ENOENT) {
		if (err && err != -EIO)
			break;
		if (!err && e->key_words == 0)
			stop = entry(arg, e);
	}
	zap_cursor_close(c);
	return stop ? stop : err == -ENOENT ? 0 : err;
}

struct log_walk {
	struct objset *mos;
	uint64_t head; /* data set, when keys do not name it */
	error_fn fn;
	void *arg;
};

static int plain_entry(void *arg, const struct zap_entry *e)
{
	struct log_walk *w = arg;
	uint64_t word[4];

	return key_parse(e->name, word, 4) ? error_tell(word, w->fn, w->arg) : 0;
}

static int block_entry(void *arg, const struct zap_entry *e)
{
	struct log_walk *w = arg;
	uint64_t key[4]; /* object, level, block, birth */
	uint64_t word[4];

	if (!key_parse(e->name, key, 4))
		return 0;
	word[0] = w->head;
	word[1] = key[0];
	word[2] = key[1];
	word[3] = key[2];
	return error_tell(word, w->fn, w->arg);
}

static int head_entry(void *arg, const struct zap_entry *e)
{
	struct log_walk *w = arg;

	if (e->intsize != 8 || !key_parse(e->name, &w->head, 1))
		return 0;
	return zap_each(w->mos, e->first, block_entry, w);
}

static int log_each(struct spa *spa, const char *key, error_fn fn, void *arg)
{
	bool by_head = spa_feature_is_active(spa, "com.delphix:head_errlog");
	struct log_walk w = {spa->mos, 0, fn, arg};
	uint64_t object;
	int err = spa_mos_u64(spa->mos, key, &object);

	if (err || object == 0)
		return err == -ENOENT ? 0 : err;
	return zap_each(spa->mos, object, by_head ? head_entry : plain_entry, &w);
}

int spa_errors_each(struct spa *spa, int (*fn)(void *arg, const struct zbookmark *zb), void *arg)
{
	struct spa_error *now = NULL;
	size_t n;
	int err = log_each(spa, "errlog_last", fn, arg);

	if (!err)
		err = log_each(spa, "errlog_scrub", fn, arg);
	pthread_mutex_lock(&spa->error_lock);
	n = spa->nerrors;
	if (n) {
		now = xmalloc(n * sizeof(*now));
		memcpy(now, spa->errors, n * sizeof(*now));
	}
	pthread_mutex_unlock(&spa->error_lock);
	for (size_t i = 0; i < n && !err; i++)
		err = fn(arg, &now[i].zb);
	free(now);
	return err;
}
