/*
 * The check of every block against the space maps: what was put wrong on purpose is told, and nothing else, whatever a
 * log leads to. A copy of the pool's files while it runs and nobody writes is what a crash leaves.
 */
#include "livepool.h"

#include <inttypes.h>

#include "dsl/dsl_write.h"
#include "spa/check.h"
#include "spa/spa_write.h"
#include "vdev/label.h"
#include "zvol/zvol.h"

#define DISK_SIZE (UINT64_C(96) << 20)
#define BLOCK     (128u << 10)
#define VOLUME    LIVEPOOL_NAME "/volume"
#define LOG_LEVEL (-2) /* of bookmarks */

/* --- what a check finds --- */

struct finding {
	struct spa_check c;
	bool sound;
	unsigned blocks, log, young_log; /* pointers; of logs; of these younger than the state of the pool */
	struct bp data;                  /* some block of the volume */
	char text[512];                  /* what was told last */
	uint64_t txg;
};

static void block_take(void *arg, const struct bp *bp, const struct zbookmark *zb, bool freed, unsigned seen)
{
	struct finding *f = arg;

	f->blocks++;
	if (zb->level == LOG_LEVEL) {
		f->log++;
		f->young_log += bp_birth(bp) > f->txg;
	} else if (bp_type(bp) == DMU_OT_ZVOL && bp_level(bp) == 0 && !bp_is_hole(bp) && !bp_is_embedded(bp)) {
		f->data = *bp;
	}
}

static void text_take(void *arg, const char *text)
{
	struct finding *f = arg;

	snprintf(f->text, sizeof(f->text), "%s", text);
}

/* Of a pool that is exported; it is again afterwards. */
static struct finding check(struct livepool *lp)
{
	struct finding f = {.sound = false};

	livepool_import(lp, false);
	f.txg = lp->spa->uberblock.txg;
	f.c = (struct spa_check){.leaks = true,
				 .verify = SPA_VERIFY_ALL,
				 .block = block_take,
				 .wrong = text_take,
				 .warn = text_take,
				 .arg = &f};
	f.sound = spa_check(lp->spa, &f.c);
	livepool_export(lp);
	assert_true(f.blocks > 0);
	assert_int_equal(f.c.bad_copies, 0);
	return f;
}

static void assert_sound(const struct finding *f)
{
	if (!f->sound || f->c.incomplete)
		fail_msg("leaked %" PRIu64 ", contradictions %" PRIu64 ": %s", f->c.leaked, f->c.contradictions,
			 f->text);
	assert_int_equal(f->c.leaked, 0);
	assert_int_equal(f->c.contradictions, 0);
}

/* --- a pool with a volume --- */

static void volume_init(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	assert_int_equal(zvol_create_objects(os, 8 * BLOCK, BLOCK, tx), 0);
}

static struct zvol *volume_open(struct livepool *lp)
{
	struct dsl_dataset *ds;
	struct zvol *zv;

	assert_int_equal(dsl_dataset_hold(lp->spa->dsl, VOLUME, &ds, &lp->e), 0);
	if (zvol_open(ds, &zv, &lp->e))
		fail_msg("%s", lp->e.text);
	dsl_dataset_release(ds);
	return zv;
}

static struct zvol *pool_with_volume(struct livepool *lp)
{
	autonv struct nvlist *props = nvlist_create();
	const struct dsl_create c = {.name = VOLUME, .type = DSL_VOLUME, .props = props, .init = volume_init};

	livepool_files(lp, 1, DISK_SIZE);
	livepool_create(lp, NULL);
	nvlist_add_u64(props, "volblocksize", BLOCK);
	assert_int_equal(dsl_create(lp->spa->dsl, &c, &lp->e), 0);
	return volume_open(lp);
}

struct request {
	struct zvol_req r;
	struct waiter w;
};

static void request_done(struct zvol_req *r, int err)
{
	waiter_done(&container_of(r, struct request, r)->w, err);
}

static void request(struct zvol *zv, struct zvol_req r)
{
	struct request q = {.r = r};

	q.r.done = request_done;
	waiter_init(&q.w);
	zvol_submit(zv, &q.r);
	assert_int_equal(waiter_wait(&q.w), 0);
}

/* One whole block, other bytes for each seed; large enough for the log to point to it. */
static void block_write(struct zvol *zv, uint64_t blkid, unsigned seed, bool fua)
{
	autobuf struct buf *b = buf_alloc(BLOCK);

	for (uint32_t i = 0; i < BLOCK; i++)
		b->data[i] = (uint8_t)((seed * 2654435761u + i) * (i | 1) >> 7);
	request(zv, (struct zvol_req){
			.op = ZVOL_WRITE, .offset = blkid * BLOCK, .length = BLOCK, .buf = &b, .nbufs = 1, .fua = fua});
}

/* --- crashes --- */

static void copy(const struct livepool *lp, const char *from, const char *to)
{
	for (unsigned i = 0; i < lp->ndisks; i++) {
		autofree char *cmd = xasprintf("cp --sparse=always '%s%s' '%s%s'", lp->disk[i], from, lp->disk[i], to);

		assert_int_equal(system(cmd), 0);
	}
}

/* The devices keep everything as it is now, and lose what a clean end would add. Exported. */
static void crash(struct livepool *lp, struct zvol *zv)
{
	copy(lp, "", ".crash");
	if (zv)
		zvol_close(zv);
	livepool_export(lp);
	copy(lp, ".crash", "");
	for (unsigned i = 0; i < lp->ndisks; i++) {
		autofree char *path = xasprintf("%s.crash", lp->disk[i]);

		unlink(path);
	}
}

/* As if the power had gone before the uberblocks of groups after txg. */
static void uberblocks_lose(const struct livepool *lp, uint64_t txg)
{
	static const uint8_t nothing[1024];
	uint8_t slot[sizeof(nothing)];
	int fd = open(lp->disk[0], O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		uint64_t label = label_offset(DISK_SIZE, l);

		for (uint64_t at = VDEV_LABEL_SIZE - UBERBLOCK_RING_SIZE; at < VDEV_LABEL_SIZE; at += sizeof(slot)) {
			struct uberblock ub;

			assert_int_equal(pread(fd, slot, sizeof(slot), (off_t)(label + at)), sizeof(slot));
			if (uberblock_decode(slot, sizeof(slot), &ub) == 0 && ub.txg > txg)
				assert_int_equal(pwrite(fd, nothing, sizeof(nothing), (off_t)(label + at)),
						 sizeof(nothing));
		}
	}
	close(fd);
}

/* --- tests --- */

static void a_pool_in_use_is_sound(void **state)
{
	static const char *const snapshot[] = {VOLUME "@then"};
	struct livepool lp;
	struct zvol *zv = pool_with_volume(&lp);
	struct finding f;

	for (unsigned i = 0; i < 8; i++)
		block_write(zv, i, i, false);
	assert_int_equal(dsl_snapshot(lp.spa->dsl, snapshot, 1, NULL, &lp.e), 0);
	block_write(zv, 3, 99, true);
	request(zv, (struct zvol_req){.op = ZVOL_DISCARD, .offset = 5 * BLOCK, .length = BLOCK});
	zvol_close(zv);
	livepool_export(&lp);
	f = check(&lp);
	assert_sound(&f);
	livepool_remove(&lp);
}

/* What is done to the space maps behind everybody's back. */
struct harm {
	struct bp bp; /* whose space is given back; a hole: a block's space is taken for nothing */
	struct dva taken;
};

static void harm_sync(struct spa *spa, void *arg, struct tx *tx)
{
	struct harm *h = arg;
	struct dva dva[BP_DVAS];

	if (!bp_is_hole(&h->bp)) {
		assert_int_equal(zio_free(&spa->zp, &h->bp, tx->txg), 0);
		return;
	}
	assert_int_equal(spa->zp.alloc->alloc(spa->zp.alloc_arg, ZIO_CLASS_NORMAL, BLOCK, 1, tx->txg, 0, NULL, dva), 0);
	h->taken = dva[0];
}

static void harm(struct livepool *lp, struct harm *h)
{
	struct spa_task task = {.sync = harm_sync, .arg = h, .policy = DSL_SPACE_NONE};

	livepool_import(lp, true);
	task.spa = lp->spa;
	assert_int_equal(spa_task_run(&task, &lp->e), 0);
	livepool_export(lp);
}

static void space_that_no_block_has_is_told(void **state)
{
	struct livepool lp;
	struct zvol *zv = pool_with_volume(&lp);
	struct harm h = {.bp.w = {0}};
	struct finding f;
	char want[128];

	zvol_close(zv);
	livepool_export(&lp);
	harm(&lp, &h);
	f = check(&lp);
	assert_false(f.sound);
	assert_int_equal(f.c.leaked, h.taken.asize);
	assert_int_equal(f.c.contradictions, 0);
	snprintf(want, sizeof(want), "leaked space: vdev 0, offset 0x%" PRIx64 ", size %" PRIu64, h.taken.offset,
		 (uint64_t)h.taken.asize);
	assert_string_equal(f.text, want);
	livepool_remove(&lp);
}

static void a_block_whose_space_is_free_is_told(void **state)
{
	struct livepool lp;
	struct zvol *zv = pool_with_volume(&lp);
	struct finding f;
	struct harm h;
	char want[128];

	block_write(zv, 0, 1, false);
	zvol_close(zv);
	livepool_export(&lp);
	f = check(&lp);
	assert_sound(&f);
	h = (struct harm){.bp = f.data};
	assert_false(bp_is_hole(&h.bp));
	harm(&lp, &h);
	f = check(&lp);
	assert_false(f.sound);
	assert_int_equal(f.c.leaked, 0);
	assert_int_equal(f.c.contradictions, 1);
	snprintf(want, sizeof(want), "not allocated, or referenced twice: vdev 0, offset 0x%" PRIx64,
		 bp_dva(&h.bp, 0).offset);
	assert_memory_equal(f.text, want, strlen(want));
	livepool_remove(&lp);
}

/* A log as a crash left it; blocks of it are younger than the pool. Exported. */
static void log_leave(struct livepool *lp)
{
	struct zvol *zv = pool_with_volume(lp);

	block_write(zv, 7, 7, true); /* begins the log */
	spa_sync_now(lp->spa);
	block_write(zv, 0, 1, false);
	block_write(zv, 0, 2, false); /* its record and the one before lead to the same block */
	block_write(zv, 1, 3, true);
	crash(lp, zv);
}

static void a_log_that_is_not_claimed_is_left_out(void **state)
{
	struct livepool lp;
	struct finding f;

	log_leave(&lp);
	f = check(&lp);
	assert_sound(&f);
	assert_int_equal(f.young_log, 0);
	livepool_remove(&lp);
}

static void what_records_of_a_claimed_log_share_counts_once(void **state)
{
	struct livepool lp;
	struct finding f;

	log_leave(&lp);
	livepool_import(&lp, true); /* the volume is not opened: nothing is replayed */
	livepool_export(&lp);
	f = check(&lp);
	assert_sound(&f);
	assert_true(f.log >= 2 + 2); /* its own blocks, and two that records lead to */
	livepool_remove(&lp);
}

/* The power goes again between the group that claimed the log and the one in which its last block was born. */
static void a_claimed_log_counts_although_it_is_younger_than_the_pool(void **state)
{
	struct livepool lp;
	struct zvol *zv = pool_with_volume(&lp);
	struct finding f;
	uint64_t first;

	block_write(zv, 7, 7, true);
	spa_sync_now(lp.spa);
	first = lp.spa->uberblock.txg;
	block_write(zv, 0, 1, true);
	spa_sync_now(lp.spa);
	block_write(zv, 1, 2, true);
	crash(&lp, zv);
	uberblocks_lose(&lp, first);
	livepool_import(&lp, true);
	crash(&lp, NULL);
	uberblocks_lose(&lp, first + 1);
	f = check(&lp);
	assert_int_equal(f.txg, first + 1);
	assert_true(f.young_log > 0);
	assert_sound(&f);
	livepool_remove(&lp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pool_in_use_is_sound),
	    cmocka_unit_test(space_that_no_block_has_is_told),
	    cmocka_unit_test(a_block_whose_space_is_free_is_told),
	    cmocka_unit_test(a_log_that_is_not_claimed_is_left_out),
	    cmocka_unit_test(what_records_of_a_claimed_log_share_counts_once),
	    cmocka_unit_test(a_claimed_log_counts_although_it_is_younger_than_the_pool),
	};

	return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
