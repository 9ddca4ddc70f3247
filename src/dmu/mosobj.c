#include "dmu/mosobj.h"

#define NVLIST_BLOCK  16384u
#define HISTORY_BLOCK (128u << 10)
#define HISTORY_MIN   (UINT64_C(128) << 10)
#define HISTORY_MAX   (UINT64_C(1) << 30)

/* --- packed lists --- */

int mos_nvlist_create(struct objset *mos, struct tx *tx, uint64_t *object)
{
	const struct dmu_object spec = {
	    .type = DMU_OT_PACKED_NVLIST,
	    .bonustype = DMU_OT_PACKED_NVLIST_SIZE,
	    .bonuslen = 8,
	    .blocksize = NVLIST_BLOCK,
	};

	return dmu_object_alloc(mos, &spec, tx, object);
}

/* The list with the zeros that follow it; *len is that of the list. */
static uint8_t *list_pad(const struct nvlist *list, size_t *len, size_t *padded)
{
	void *packed;
	uint8_t *p;

	if (nvlist_pack(list, NV_XDR, &packed, len))
		return NULL;
	*padded = ROUND_UP(*len, NVLIST_BLOCK);
	p = xcalloc(1, *padded);
	memcpy(p, packed, *len);
	free(packed);
	return p;
}

int mos_nvlist_write(struct objset *mos, uint64_t object, const struct nvlist *list, struct tx *tx)
{
	size_t len = 0, padded = 0;
	autofree uint8_t *p = list_pad(list, &len, &padded);
	uint64_t word = len;
	struct dnode *dn;
	int err;

	if (!p)
		return -EINVAL;
	err = dnode_hold(mos, object, &dn, NULL);
	if (err)
		return err;
	err = dmu_write(dn, 0, p, padded, tx);
	if (!err && dn->maxblkid >= padded / dn->datablksz)
		err = dmu_free_range(dn, padded, UINT64_MAX, tx);
	if (!err)
		err = dmu_bonus_write(dn, 0, &word, sizeof(word), tx);
	dnode_release(dn);
	return err;
}

/* --- history --- */

enum { CREATE_END, SIZE, BEGIN, END, LOST, WORDS };

int mos_history_create(struct objset *mos, uint64_t pool_bytes, struct tx *tx, uint64_t *object)
{
	const struct dmu_object spec = {
	    .type = DMU_OT_SPA_HISTORY,
	    .bonustype = DMU_OT_SPA_HISTORY_OFFSETS,
	    .bonuslen = WORDS * 8,
	    .blocksize = HISTORY_BLOCK,
	};
	uint64_t w[WORDS] = {[SIZE] = MIN(MAX(pool_bytes / 1000, HISTORY_MIN), HISTORY_MAX)};
	struct dnode *dn;
	int err = dmu_object_alloc(mos, &spec, tx, object);

	if (!err)
		err = dnode_hold(mos, *object, &dn, NULL);
	if (err)
		return err;
	err = dmu_bonus_write(dn, 0, w, sizeof(w), tx);
	dnode_release(dn);
	return err;
}

/* Where logical offset `at` lies, and how many of `n` bytes lie there in one piece. */
static uint64_t ring_place(const uint64_t *w, uint64_t at, uint64_t *n)
{
	uint64_t end = at < w[CREATE_END] ? w[CREATE_END] : w[SIZE], place = at;

	if (at >= w[CREATE_END])
		place = w[CREATE_END] + (at - w[CREATE_END]) % (w[SIZE] - w[CREATE_END]);
	*n = MIN(*n, end - place);
	return place;
}

static int ring_read(struct dnode *dn, const uint64_t *w, uint64_t at, uint8_t *out, uint64_t n)
{
	int err = 0;

	while (n > 0 && !err) {
		uint64_t here = n, place = ring_place(w, at, &here);

		err = dmu_read(dn, place, out, here, 0);
		at += here;
		out += here;
		n -= here;
	}
	return err;
}

static int ring_write(struct dnode *dn, uint64_t *w, const uint8_t *p, uint64_t n, struct tx *tx)
{
	int err = 0;

	while (n > 0 && !err) {
		uint64_t here = n, place = ring_place(w, w[END], &here);

		err = dmu_write(dn, place, p, here, tx);
		w[END] += here;
		p += here;
		n -= here;
	}
	return err;
}

/* The oldest records go until n bytes fit. */
static int ring_make_room(struct dnode *dn, uint64_t *w, uint64_t n)
{
	while (w[SIZE] - w[CREATE_END] - (w[END] - w[BEGIN]) <= n) {
		uint8_t head[8];
		uint64_t len;
		int err = ring_read(dn, w, w[BEGIN], head, sizeof(head));

		if (err)
			return err;
		len = load_le64(head);
		/* a damaged length: nothing after it can be told apart */
		if (len > w[END] - w[BEGIN] || sizeof(head) > w[END] - w[BEGIN] - len)
			len = w[END] - w[BEGIN] - sizeof(head);
		w[BEGIN] += sizeof(head) + len;
		w[LOST]++;
	}
	return 0;
}

static bool ring_is_sane(const uint64_t *w)
{
	return w[SIZE] <= HISTORY_MAX && w[CREATE_END] < w[SIZE] && w[CREATE_END] <= w[BEGIN] && w[BEGIN] <= w[END] &&
	       w[END] - w[BEGIN] <= w[SIZE] - w[CREATE_END];
}

static int record_append(struct dnode *dn, const void *packed, size_t len, bool is_command, struct tx *tx)
{
	uint64_t w[WORDS];
	uint8_t head[8];
	int err;

	if (dmu_bonus_words(dn, w, WORDS) < WORDS || !ring_is_sane(w))
		return -EINVAL;
	if (len + sizeof(head) >= w[SIZE] - w[CREATE_END])
		return -E2BIG;
	store_le64(head, len);
	err = ring_make_room(dn, w, len + sizeof(head));
	if (!err)
		err = ring_write(dn, w, head, sizeof(head), tx);
	if (!err)
		err = ring_write(dn, w, packed, len, tx);
	if (is_command && w[CREATE_END] == 0 && w[END] < w[SIZE])
		w[CREATE_END] = w[BEGIN] = w[END];
	return err ? err : dmu_bonus_write(dn, 0, w, sizeof(w), tx);
}

int mos_history_append(struct objset *mos, uint64_t object, const struct nvlist *record, bool is_command, struct tx *tx)
{
	autofree void *packed = NULL;
	struct dnode *dn;
	size_t len;
	int err = nvlist_pack(record, NV_NATIVE, &packed, &len);

	if (!err)
		err = dnode_hold(mos, object, &dn, NULL);
	if (err)
		return err;
	err = record_append(dn, packed, len, is_command, tx);
	dnode_release(dn);
	return err;
}
