/*
 * The pool's history: a ring of records in one MOS object (docs/format/01-pool.md, 11.1).
 */
#include "base/bytes.h"
#include "spa/spa_impl.h"
#include "spa/spa_write.h"

#define RECORD_MAX  (16u << 20)
#define HISTORY_MAX (UINT64_C(1) << 40) /* physical size that is believed */

struct history {
	struct dnode *dn;
	uint64_t create_end, size, begin, end; /* C, M, B, E of the chapter */
};

static int history_open(struct spa *spa, struct history *h)
{
	uint64_t object;
	int err = spa_mos_u64(spa->mos, "history", &object);

	if (!err)
		err = dnode_hold(spa->mos, object, &h->dn, NULL);
	if (err)
		return err;
	h->create_end = spa_bonus_word(h->dn, 0);
	h->size = spa_bonus_word(h->dn, 1);
	h->begin = spa_bonus_word(h->dn, 2);
	h->end = spa_bonus_word(h->dn, 3);
	if (h->size > HISTORY_MAX || h->create_end >= h->size || h->begin > h->end ||
	    h->end - h->begin > h->size - h->create_end) {
		dnode_release(h->dn);
		return -EINVAL;
	}
	return 0;
}

/* Bytes at a logical offset; what lies behind the "create" area wraps around. */
static int history_read(const struct history *h, uint64_t at, uint8_t *out, uint64_t n)
{
	while (n > 0) {
		uint64_t phys = at < h->create_end ? at
						   : h->create_end + (at - h->create_end) % (h->size - h->create_end);
		uint64_t here = MIN(n, (at < h->create_end ? h->create_end : h->size) - phys);
		int err = dmu_read(h->dn, phys, out, here, 0);

		if (err)
			return err;
		at += here;
		out += here;
		n -= here;
	}
	return 0;
}

static int record_read(const struct history *h, uint64_t *at, uint64_t end,
		       int (*fn)(void *arg, const struct nvlist *record), void *arg)
{
	autonv struct nvlist *record = NULL;
	autofree uint8_t *data = NULL;
	uint8_t head[8];
	uint64_t len;
	int err;

	if (end - *at < sizeof(head))
		return -EINVAL;
	err = history_read(h, *at, head, sizeof(head));
	if (err)
		return err;
	len = load_le64(head);
	if (len == 0 || len > RECORD_MAX || len > end - *at - sizeof(head))
		return -EINVAL;
	data = malloc(len);
	if (!data)
		return -ENOMEM;
	err = history_read(h, *at + sizeof(head), data, len);
	if (err)
		return err;
	*at += sizeof(head) + len;
	err = nvlist_unpack(data, len, &record, NULL);
	return err ? 0 : fn(arg, record); /* one damaged record does not hide the others */
}

static int records_read(const struct history *h, uint64_t at, uint64_t end,
			int (*fn)(void *arg, const struct nvlist *record), void *arg)
{
	int err = 0;

	while (at < end && !err)
		err = record_read(h, &at, end, fn, arg);
	return err;
}

int spa_history_each(struct spa *spa, int (*fn)(void *arg, const struct nvlist *record), void *arg)
{
	struct history h;
	int err;

	/* What was said before the question belongs to the answer. */
	if (spa_writer(spa) && spa_history_is_pending(spa) && !spa_is_suspended(spa))
		txg_wait_synced(spa_writer(spa)->txgs, 0);
	err = history_open(spa, &h);
	if (err)
		return err == -ENOENT ? 0 : err;
	err = records_read(&h, 0, h.create_end, fn, arg);
	if (!err)
		err = records_read(&h, MAX(h.begin, h.create_end), h.end, fn, arg);
	dnode_release(h.dn);
	return err;
}
