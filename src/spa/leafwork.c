/*
 * Initializing and trimming (docs/format/06-allocation-and-vdevs.md, 4.10): one thread per device that is being worked
 * on goes through the free space of its top-level, metaslab by metaslab, each taken out of circulation meanwhile. How
 * far it is, is stored with the groups, so that the work goes on after an import.
 */
#include <time.h>

#include "base/counter.h"
#include "base/log.h"
#include "base/os.h"
#include "spa/leafwork.h"

#define CHUNK_TRIM_FLOOR 4096u

static TUNABLE(tunable_trim_extent_max, "zfs_trim_extent_bytes_max", "bytes", 128u << 20, 1u << 20, 1u << 30,
	       "one TRIM request covers at most so much");
static TUNABLE(tunable_trim_extent_min, "zfs_trim_extent_bytes_min", "bytes", 32u << 10, CHUNK_TRIM_FLOOR, 1u << 30,
	       "free extents that are smaller are not trimmed");
static TUNABLE(tunable_initialize_value, "zfs_initialize_value", "pattern", UINT64_C(0xdeadbeefdeadbeee), 0, UINT64_MAX,
	       "what zpool initialize writes");
static TUNABLE(tunable_initialize_chunk, "zfs_initialize_chunk_size", "bytes", 1u << 20, 64u << 10, 16u << 20,
	       "zpool initialize writes so much at once");

const struct spa_work_kind spa_work_kinds[] = {
    [SPA_TRIM] = {.word = "trim",
		  .state = "org.zfsonlinux:vdev_trim_state",
		  .offset = "org.zfsonlinux:next_offset_to_trim",
		  .time = "org.zfsonlinux:vdev_trim_action_time"},
    [SPA_INITIALIZE] = {.word = "initialize",
			.state = "com.delphix:vdev_initialize_state",
			.offset = "com.delphix:next_offset_to_initialize",
			.time = "com.delphix:vdev_initialize_action_time"},
};

/* --- one request --- */
static void io_done(struct vdev_io *io, int err)
{
	waiter_done(io->arg, err);
}

static int io_run(struct vdev *leaf, struct vdev_io *io, void (*submit)(struct vdev *vd, struct vdev_io *io))
{
	struct waiter w;

	waiter_init(&w);
	io->done = io_done;
	io->arg = &w;
	submit(leaf, io);
	return waiter_wait(&w);
}

int spa_leaf_trim(struct vdev *leaf, uint64_t start, uint64_t end)
{
	uint64_t most = tunable_get(&tunable_trim_extent_max);
	int err = 0;

	for (uint64_t at = start; at < end && !err; at += most) {
		struct vdev_io io = {.offset = at, .size = MIN(end - at, most), .class = VDEV_TRIM};

		err = io_run(leaf, &io, vdev_trim);
	}
	return err;
}

/* --- the work --- */
static bool work_is_stopped(struct spa_work *wk)
{
	return atomic_load(&wk->stop);
}

/* What was done moves the recorded place: the end of the range as a byte of the device. */
static void work_advance(struct spa_work *wk, uint64_t end)
{
	atomic_store(&wk->offset, end + VDEV_LABEL_START_SIZE);
	atomic_store(&wk->unsynced, true);
}

/* Trimming at a given rate: what is ahead of time waits. */
static void rate_wait(struct spa_work *wk, uint64_t bytes)
{
	uint64_t due_ns;

	wk->done_bytes += bytes;
	if (!wk->rate)
		return;
	due_ns = wk->started_ns + (uint64_t)((__uint128_t)wk->done_bytes * 1000000000 / wk->rate);
	while (!work_is_stopped(wk) && now_ns() < due_ns) {
		struct timespec ts = {0, (long)MIN(due_ns - now_ns(), UINT64_C(100000000))};

		nanosleep(&ts, NULL);
	}
}

static int range_trim(struct spa_work *wk, uint64_t start, uint64_t end)
{
	uint64_t most = tunable_get(&tunable_trim_extent_max);
	int err = 0;

	if (end - start < tunable_get(&tunable_trim_extent_min))
		return 0;
	for (uint64_t at = start; at < end && !err && !work_is_stopped(wk); at += most) {
		uint64_t to = MIN(end, at + most);

		err = spa_leaf_trim(wk->leaf, at, to);
		if (!err)
			work_advance(wk, to);
		rate_wait(wk, to - at);
	}
	return err;
}

static int range_fill(struct spa_work *wk, uint64_t start, uint64_t end)
{
	int err = 0;

	for (uint64_t at = start; at < end && !err && !work_is_stopped(wk); at += wk->chunk) {
		struct vdev_io io = {.offset = at,
				     .size = MIN(end - at, (uint64_t)wk->chunk),
				     .data = wk->pattern->data,
				     .class = VDEV_INITIALIZE};

		err = io_run(wk->leaf, &io, vdev_write);
		if (!err)
			work_advance(wk, at + io.size);
	}
	return err;
}

static int metaslab_work(struct spa_work *wk, const struct rangetree *ranges)
{
	uint64_t from = atomic_load(&wk->offset);
	int err = 0;

	from = from > VDEV_LABEL_START_SIZE ? from - VDEV_LABEL_START_SIZE : 0;
	for (struct range *r = rangetree_first(ranges); r && !err && !work_is_stopped(wk); r = rangetree_next(r)) {
		uint64_t start = MAX(r->start, from);

		if (start >= r->end)
			continue;
		err = wk->what == SPA_TRIM ? range_trim(wk, start, r->end) : range_fill(wk, start, r->end);
	}
	return err;
}

static int work_all(struct spa_work *wk)
{
	struct alloc *a = spa_writer(wk->spa)->alloc;
	struct vdev *top = wk->leaf->top;
	uint64_t from = atomic_load(&wk->offset), first;
	int err = 0;

	first = from > VDEV_LABEL_START_SIZE ? (from - VDEV_LABEL_START_SIZE) >> top->ms_shift : 0;
	for (uint64_t m = first; !err && !work_is_stopped(wk); m++) {
		struct alloc_free_set *set;

		err = alloc_free_take(a, top, m, &set);
		if (err)
			break;
		err = metaslab_work(wk, alloc_free_ranges(set));
		alloc_free_return(set);
	}
	return err == -ENOENT ? 0 : err;
}

static void pattern_make(struct spa_work *wk)
{
	uint64_t value = tunable_get(&tunable_initialize_value);

	wk->chunk = (uint32_t)ROUND_DOWN(tunable_get(&tunable_initialize_chunk), UINT64_C(65536));
	wk->pattern = buf_alloc(wk->chunk);
	for (uint32_t i = 0; i + 8 <= wk->chunk; i += 8)
		memcpy(wk->pattern->data + i, &value, 8);
}

static void *work_run(void *arg)
{
	struct spa_work *wk = arg;
	int err;

	wk->started_ns = now_ns();
	if (wk->what == SPA_INITIALIZE)
		pattern_make(wk);
	err = work_all(wk);
	if (wk->pattern)
		buf_release(wk->pattern);
	wk->pattern = NULL;
	if (err) /* the device is gone or refuses: as after a cancel, the administrator decides */
		log_warn("pool '%s': %s of %s ended: %s", wk->spa->name, spa_work_kinds[wk->what].word,
			 wk->leaf->path ? wk->leaf->path : "a device", err_words(err));
	if (!work_is_stopped(wk)) {
		atomic_store(&wk->state, err ? SPA_WORK_CANCELED : SPA_WORK_COMPLETE);
		atomic_store(&wk->unsynced, true);
	}
	atomic_store(&wk->ended, true);
	txg_kick(spa_writer(wk->spa)->txgs);
	return NULL;
}

int spa_work_start(struct spa_work *wk)
{
	atomic_store(&wk->stop, false);
	atomic_store(&wk->ended, false);
	wk->done_bytes = 0;
	wk->running = os_thread_create(&wk->thread, work_run, wk) == 0;
	return wk->running ? 0 : -EAGAIN;
}

void spa_work_join(struct spa_work *wk)
{
	if (!wk->running)
		return;
	atomic_store(&wk->stop, true);
	pthread_join(wk->thread, NULL);
	wk->running = false;
}
