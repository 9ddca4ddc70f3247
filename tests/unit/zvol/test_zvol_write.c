/* Requests that change a volume: what reads see at once, what a crash leaves. Against a model of every sector. */
#include "volpool.h"

#define BS      8192u
#define SECTOR  512u
#define VOLSIZE (UINT64_C(1) << 20)

static void fill(uint8_t *data, uint32_t len, uint32_t seed)
{
	tp_pattern(data, len, seed);
}

/* A buffer that is just a block is taken as it is, others are copied; reads see all of it at once. */
static void writes_are_read_back(void **state)
{
	struct volpool *vp = vp_create(12, VOLSIZE, BS);
	uint8_t *model = xcalloc(1, VOLSIZE), *got = xmalloc(VOLSIZE), *data = xmalloc(VOLSIZE);
	uint32_t seed = 1;

	for (unsigned round = 0; round < 300; round++) {
		uint64_t at = (seed = seed * 1664525 + 1013904223) % (VOLSIZE / SECTOR) * SECTOR;
		uint32_t len = (1 + (seed >> 8) % (round % 10 ? 40 : 600)) * SECTOR;

		len = (uint32_t)MIN((uint64_t)len, VOLSIZE - at);
		fill(data, len, round);
		assert_int_equal(vp_write(vp, at, data, len, round % 16 == 0), 0);
		memcpy(model + at, data, len);
		if (round % 50 == 7)
			assert_int_equal(txg_wait_synced(vp->tp->dp.txgs, 0), 0);
		if (round % 20)
			continue;
		vp_read(vp, 0, got, VOLSIZE);
		assert_memory_equal(got, model, VOLSIZE);
	}
	vp_close(vp);
	vp_destroy(vp);
	free(model);
	free(got);
	free(data);
}

static void whole_blocks_are_taken_without_a_copy(void **state)
{
	struct volpool *vp = vp_create(12, VOLSIZE, BS);
	struct buf *b[3] = {buf_alloc(1000), buf_alloc(BS), buf_alloc(5000)}, *got;
	struct zvol_req r = {.op = ZVOL_WRITE, .offset = BS - 1000, .length = BS + 6000, .buf = b, .nbufs = 3};

	for (unsigned i = 0; i < 3; i++)
		fill(b[i]->data, b[i]->size, i);
	assert_int_equal(vp_request(vp, r), 0);
	assert_int_equal(dmu_block_get(vp->zv.dn, 1, &got), 0);
	assert_ptr_equal(got, b[1]);
	buf_release(got);
	uint8_t back[BS + 6000];
	vp_read(vp, BS - 1000, back, sizeof(back));
	assert_memory_equal(back, b[0]->data, 1000);
	assert_memory_equal(back + 1000, b[1]->data, BS);
	assert_memory_equal(back + 1000 + BS, b[2]->data, 5000);
	/* from the middle of the first buffer on */
	r.skip = 600;
	r.offset = 4 * BS + 100;
	r.length = 1000;
	assert_int_equal(vp_request(vp, r), 0);
	vp_read(vp, r.offset, back, 1000);
	assert_memory_equal(back, b[0]->data + 600, 400);
	assert_memory_equal(back + 400, b[1]->data, 600);
	r.length = 600 + BS + 6000;
	assert_int_equal(vp_request(vp, r), -EINVAL); /* more than the buffers have */
	for (unsigned i = 0; i < 3; i++)
		buf_release(b[i]);
	vp_close(vp);
	vp_destroy(vp);
}

static bool is_hole(struct volpool *vp, uint64_t blkid)
{
	struct buf *b;

	if (dmu_block_get(vp->zv.dn, blkid, &b) == -ENOENT)
		return true;
	buf_release(b);
	return false;
}

static void discards_and_zeroes_make_holes_of_whole_blocks(void **state)
{
	static const struct {
		enum zvol_op op;
		bool no_hole;
	} way[] = {{ZVOL_DISCARD, false}, {ZVOL_ZERO, false}, {ZVOL_ZERO, true}};
	uint8_t *data = xmalloc(16 * BS), *got = xmalloc(16 * BS);

	fill(data, 16 * BS, 9);
	for (unsigned i = 0; i < ARRAY_LEN(way); i++) {
		struct volpool *vp = vp_create(12, VOLSIZE, BS);
		bool zero = way[i].op == ZVOL_ZERO;

		assert_int_equal(vp_write(vp, 0, data, 16 * BS, false), 0);
		assert_int_equal(vp_request(vp, (struct zvol_req){.op = way[i].op,
								  .offset = BS + 100,
								  .length = 5 * BS,
								  .no_hole = way[i].no_hole}),
				 0);
		for (unsigned b = 0; b < 16; b++)
			assert_int_equal(is_hole(vp, b), b >= 2 && b <= 5 && !way[i].no_hole);
		vp_read(vp, 0, got, 16 * BS);
		for (unsigned at = 0; at < 16 * BS; at++) {
			bool in = at >= BS + 100 && at < 6 * BS + 100, whole = at >= 2 * BS && at < 6 * BS;

			assert_int_equal(got[at], (zero ? in : whole) ? 0 : data[at]);
		}
		/* less than a block: nothing to discard */
		assert_int_equal(vp_request(vp, (struct zvol_req){.op = way[i].op, .offset = 8 * BS + 1, .length = BS}),
				 0);
		assert_false(is_hole(vp, 8) || is_hole(vp, 9));
		vp_close(vp);
		vp_destroy(vp);
	}
	free(data);
	free(got);
}

static void what_cannot_be_is_refused(void **state)
{
	struct volpool *vp = vp_create(12, VOLSIZE, BS);
	uint8_t data[SECTOR] = {1};

	assert_int_equal(vp_write(vp, VOLSIZE, data, SECTOR, false), -EINVAL);
	assert_int_equal(vp_write(vp, VOLSIZE - 1, data, SECTOR, false), -EINVAL);
	assert_int_equal(vp_write(vp, UINT64_MAX - 10, data, SECTOR, false), -EINVAL);
	assert_int_equal(vp_request(vp, (struct zvol_req){.op = ZVOL_DISCARD, .offset = 0, .length = VOLSIZE + 1}),
			 -EINVAL);
	assert_int_equal(vp_request(vp, (struct zvol_req){.op = ZVOL_ZERO, .offset = 0, .length = 0}), 0);
	vp->os->props.readonly = true;
	assert_false(zvol_is_writable(&vp->zv));
	assert_int_equal(vp_write(vp, 0, data, SECTOR, false), -EROFS);
	assert_int_equal(vp_flush(vp), 0);
	vp->os->props.readonly = false;
	vp_close(vp);
	vp_destroy(vp);
}

/* --- crashes --- */

#define THREADS 4
#define OPS     50
#define REGION  (VOLSIZE / THREADS)
#define SECTORS (REGION / SECTOR)
enum { MARK_DURABLE = 2 };

struct worker {
	struct volpool *vp;
	unsigned number;
	int8_t (*made)[SECTORS];
	pthread_t thread;
};

static void stamp(uint8_t *sector, unsigned thread, unsigned op, uint64_t at)
{
	for (unsigned i = 0; i < SECTOR; i += 8)
		store_host64(sector + i, (uint64_t)(thread + 1) << 56 | (uint64_t)op << 40 | at);
}

static int read_stamp(const uint8_t *sector, unsigned thread, uint64_t at)
{
	uint64_t v = load_host64(sector);

	for (unsigned i = 0; i < SECTOR; i += 8)
		assert_int_equal(load_host64(sector + i), v);
	if (v == 0)
		return 0;
	assert_int_equal(v >> 56, thread + 1);
	assert_int_equal(v & ((UINT64_C(1) << 40) - 1), at);
	return (int)(v >> 40 & 0xffff);
}

static void worker_op(struct worker *w, unsigned op, uint32_t seed)
{
	unsigned first = (seed >> 8) % SECTORS, n = 1 + (seed >> 20) % (op % 7 ? 40 : 200);
	uint64_t at = w->number * REGION + first * SECTOR;
	enum zvol_op kind = op % 5 == 3 ? ZVOL_ZERO : op % 5 == 4 ? ZVOL_DISCARD : ZVOL_WRITE;
	bool fua = seed % 3 == 0, any = false;

	n = MIN(n, (unsigned)SECTORS - first);
	for (unsigned s = 0; s < SECTORS; s++)
		w->made[op][s] = -1;
	for (unsigned s = first; s < first + n; s++) {
		uint64_t block = (w->number * REGION + s * SECTOR) / BS * BS;

		if (kind == ZVOL_WRITE)
			w->made[op][s] = (int8_t)op;
		else if (kind == ZVOL_ZERO || (block >= at && block + BS <= at + n * SECTOR))
			w->made[op][s] = 0;
		any |= w->made[op][s] >= 0;
	}
	if (kind == ZVOL_WRITE) {
		uint8_t *data = xmalloc(n * SECTOR);

		for (unsigned s = 0; s < n; s++)
			stamp(data + s * SECTOR, w->number, op, at + s * SECTOR);
		assert_int_equal(vp_write(w->vp, at, data, n * SECTOR, fua), 0);
		free(data);
	} else {
		struct zvol_req r = {.op = kind, .offset = at, .length = n * SECTOR, .fua = fua};

		assert_int_equal(vp_request(w->vp, r), 0);
	}
	if (!fua && seed % 5 == 0) {
		assert_int_equal(vp_flush(w->vp), 0);
		fua = true;
	}
	if (fua && any) /* a discard of nothing promises nothing */
		recorder_mark(w->vp->rec, (uint64_t)MARK_DURABLE << VP_MARK | w->number << 16 | op);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	uint32_t seed = w->number + 77;

	for (unsigned op = 1; op <= OPS; op++) {
		seed = seed * 1664525 + 1013904223;
		worker_op(w, op, seed >> 3);
		if (op % 20 == 0 && w->number == 0)
			txg_kick(w->vp->tp->dp.txgs);
	}
	return NULL;
}

/* The sector holds what one of the operations from the last durable one on has made of it. */
static void sector_check(const struct worker *w, unsigned sector, int found, unsigned durable)
{
	bool allowed = false;
	int last = 0;

	for (unsigned op = 1; op <= durable; op++)
		last = w->made[op][sector] >= 0 ? w->made[op][sector] : last;
	allowed = found == last;
	for (unsigned op = durable + 1; op <= OPS; op++)
		allowed |= w->made[op][sector] >= 0 && w->made[op][sector] == found;
	if (!allowed)
		fail_msg("thread %u sector %u: %d, after %d by operation %u", w->number, sector, found, last, durable);
}

static void crash_check(struct volpool *vp, const struct worker *w, struct crash *c, size_t at)
{
	unsigned durable[THREADS] = {0};
	uint8_t *data = xmalloc(VOLSIZE);
	struct volpool *after;
	uint64_t last = 0;

	for (size_t i = 0; i < at; i++) {
		const struct record *r = recorder_record(vp->rec, i);

		if (r->kind != RECORD_MARK)
			continue;
		if (r->mark >> VP_MARK == VP_SYNCED)
			last = (uint32_t)r->mark;
		else
			durable[r->mark >> 16 & 0xff] = r->mark & 0xffff;
	}
	after = vp_recover(c, &vp->synced[last], vp->tp, vp->key != NULL);
	assert_int_equal(vp_open(after), 0);
	vp_read(after, 0, data, VOLSIZE);
	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned s = 0; s < SECTORS; s++)
			sector_check(&w[t], s, read_stamp(data + t * REGION + s * SECTOR, t, t * REGION + s * SECTOR),
				     durable[t]);
	vp_close(after);
	vp_destroy(after);
	free(data);
}

static void run_and_crash(struct volpool *vp, unsigned crashes)
{
	struct worker w[THREADS];
	struct replay *re;
	size_t len, start = recorder_len(vp->rec);

	for (unsigned t = 0; t < THREADS; t++) {
		w[t] = (struct worker){.vp = vp, .number = t, .made = xcalloc(OPS + 1, SECTORS)};
		assert_int_equal(pthread_create(&w[t].thread, NULL, worker_main, &w[t]), 0);
	}
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(w[t].thread, NULL);
	vp_close(vp);
	vp_stop(vp);
	len = recorder_len(vp->rec);
	re = replay_create(vp->rec);
	for (unsigned i = 0; i <= crashes; i++) {
		size_t at = start + (len - start) * i / crashes;
		struct crash_odds odds = {30, 30, at};
		struct crash_variant v[] = {{.fate = crash_lose_all},
					    {.fate = crash_by_odds, .arg = &odds, .seed = at}};
		struct crash *c;

		replay_advance(re, at);
		c = replay_crash(re, &v[i % ARRAY_LEN(v)]);
		crash_check(vp, w, c, at);
		crash_destroy(c);
	}
	replay_destroy(re);
	for (unsigned t = 0; t < THREADS; t++)
		free(w[t].made);
}

static void what_was_flushed_survives_every_crash(void **state)
{
	struct volpool *vp = vp_create(12, VOLSIZE, BS);

	run_and_crash(vp, 150);
	vp_destroy(vp);
}

static void with_logbias_throughput_too(void **state)
{
	struct volpool *vp = vp_create(9, VOLSIZE, BS);

	vp->os->props.logbias = 1;
	run_and_crash(vp, 100);
	vp_destroy(vp);
}

static void of_an_encrypted_volume_too(void **state)
{
	struct volpool *vp = vp_create_over(recorder_create(TP_TOPS, TP_SIZE), 12, VOLSIZE, BS, true);

	run_and_crash(vp, 60);
	vp_destroy(vp);
}

static void with_log_blocks_of_old_pools_too(void **state)
{
	struct volpool *vp = vp_create(9, VOLSIZE, BS);

	vp->tp->zp.old_log = true;
	run_and_crash(vp, 60);
	vp_destroy(vp);
}

static void with_sync_always_every_write_is_safe(void **state)
{
	struct volpool *vp = vp_create(12, VOLSIZE, BS);
	uint8_t data[SECTOR] = {7};
	uint64_t synced;

	vp->os->props.sync = 1;
	for (unsigned i = 0; i < 5; i++) {
		size_t before = recorder_len(vp->rec), flushes = 0;

		assert_int_equal(vp_write(vp, i * BS, data, SECTOR, false), 0);
		for (size_t r = before; r < recorder_len(vp->rec); r++)
			flushes += recorder_record(vp->rec, r)->kind == RECORD_FLUSH;
		assert_true(flushes >= 1);
	}
	/* nothing is flushed twice */
	vp->os->props.sync = 2;
	synced = txg_last_synced(vp->tp->dp.txgs);
	size_t before = recorder_len(vp->rec);
	assert_int_equal(vp_write(vp, 0, data, SECTOR, true), 0);
	assert_int_equal(vp_flush(vp), 0);
	if (txg_last_synced(vp->tp->dp.txgs) == synced)
		assert_int_equal(recorder_len(vp->rec), before);
	vp_close(vp);
	vp_destroy(vp);
}

/* --- space --- */

static atomic_int reserve_err;

static int refuse(struct objset *os, struct tx *tx)
{
	return tx->flags & TX_NOSPACE_CHECK ? 0 : atomic_load(&reserve_err);
}

static void no_space_is_told_and_ends(void **state)
{
	struct volpool *vp = vp_create(12, VOLSIZE, BS);
	struct objset_ops ops = vp_ops;
	uint8_t data[SECTOR] = {1};

	ops.reserve = refuse;
	vp->os->ops = &ops;
	atomic_store(&reserve_err, -ENOSPC);
	assert_int_equal(vp_write(vp, 0, data, SECTOR, true), -ENOSPC);
	atomic_store(&reserve_err, -EDQUOT);
	assert_int_equal(vp_write(vp, 0, data, SECTOR, false), -EDQUOT);
	atomic_store(&reserve_err, 0);
	assert_int_equal(vp_write(vp, 0, data, SECTOR, true), 0);
	vp_close(vp);
	vp_destroy(vp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(writes_are_read_back),
	    cmocka_unit_test(whole_blocks_are_taken_without_a_copy),
	    cmocka_unit_test(discards_and_zeroes_make_holes_of_whole_blocks),
	    cmocka_unit_test(what_cannot_be_is_refused),
	    cmocka_unit_test(with_sync_always_every_write_is_safe),
	    cmocka_unit_test(no_space_is_told_and_ends),
	    cmocka_unit_test(what_was_flushed_survives_every_crash),
	    cmocka_unit_test(with_logbias_throughput_too),
	    cmocka_unit_test(of_an_encrypted_volume_too),
	    cmocka_unit_test(with_log_blocks_of_old_pools_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
