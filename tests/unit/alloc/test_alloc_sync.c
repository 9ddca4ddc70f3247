/* What the allocator writes: space maps, their log, checkpoints; against a model that knows the user of every sector.
 */
#include "alloc_pool.h"

#include "base/log.h"

#define MB (UINT64_C(1) << 20)

static const struct alloc_features no_features = {0}, histogram_only = {.histogram = true},
				   all_features = {true, true, true, true};

static void set_tunable(const char *name, uint64_t value)
{
	struct tunable *t = tunable_find(name);

	assert_non_null(t);
	assert_int_equal(tunable_set(t, value, NULL), 0);
}

static void reset_tunable(const char *name)
{
	set_tunable(name, tunable_find(name)->def);
}

/* Sectors that the maps still have although the table does not: freed with a group that is not synced. */
struct pending {
	uint64_t sectors[TXG_SIZE];
};

static void free_some(struct alloc_pool *p, unsigned n, uint64_t txg, struct pending *pe)
{
	for (; n > 0 && p->nblocks > 0; n--) {
		size_t i = pool_rnd(p, (uint32_t)p->nblocks);

		if (p->block[i].birth < txg)
			pe->sectors[txg & TXG_MASK] += p->block[i].dva.asize >> POOL_ASHIFT;
		pool_free_block(p, i, txg);
	}
}

static uint64_t table_bytes(const struct alloc_pool *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->nblocks; i++)
		sum += p->block[i].dva.asize;
	return sum;
}

static void change_some(struct alloc_pool *p, unsigned n, uint64_t limit, uint64_t txg, struct pending *pe)
{
	unsigned allocs = pool_rnd(p, n), frees = pool_rnd(p, n);

	if (table_bytes(p) > limit)
		frees += allocs;
	for (unsigned i = 0; i < allocs && table_bytes(p) < limit; i++) {
		int err = pool_alloc(p, 512 + pool_rnd(p, 512 << pool_rnd(p, 7)), 1 + pool_rnd(p, 3), txg, 0);

		assert_true(err == 0 || err == -ENOSPC);
	}
	free_some(p, frees, txg, pe);
}

static void one_group(struct alloc_pool *p, unsigned n, uint64_t limit, struct pending *pe, bool flush)
{
	uint64_t txg = p->txg++;
	struct tx tx = pool_tx(p, txg);

	change_some(p, n, limit, txg, pe);
	/* The next group is open already while this one is synced. */
	pe->sectors[(txg + 1) & TXG_MASK] = 0;
	change_some(p, n / 2, limit, txg + 1, pe);
	pool_passes(p, &tx, flush);
	pe->sectors[txg & TXG_MASK] = 0;
}

static void model(struct alloc_features features, unsigned ntops, uint64_t size, unsigned fill, unsigned groups)
{
	struct alloc_pool p;
	struct pending pe = {{0}};

	pool_create(&p, ntops, size, features);
	p.strict = fill < 50; /* else the pool is short of space, and frees do not rest */
	for (unsigned i = 0; i < groups; i++) {
		one_group(&p, 400, size * ntops / 100 * fill, &pe, false);
		pool_check(&p, pe.sectors[p.txg & TXG_MASK]);
	}
	pool_destroy(&p);
}

static void maps_say_what_is_in_use_without_any_feature(void **state)
{
	model(no_features, 1, 32 * MB, 40, 60);
}

static void maps_say_what_is_in_use_with_histograms(void **state)
{
	model(histogram_only, 2, 24 * MB, 40, 60);
}

static void maps_and_logs_say_what_is_in_use(void **state)
{
	set_tunable("zfs_unflushed_log_block_min", 4);
	model(all_features, 3, 16 * MB, 40, 100);
	reset_tunable("zfs_unflushed_log_block_min");
}

static void a_pool_that_is_nearly_full_is_exact_too(void **state)
{
	model(all_features, 2, 16 * MB, 80, 60);
	model(no_features, 2, 16 * MB, 80, 60);
}

/* Metaslabs go and come all the time, so that all that is known comes from the maps. */
static void what_is_loaded_is_what_was_unloaded(void **state)
{
	set_tunable("metaslab_unload_delay", 0);
	set_tunable("metaslab_unload_delay_ms", 0);
	set_tunable("metaslab_preload_enabled", 0);
	set_tunable("zfs_metaslab_mem_limit", 0);
	set_tunable("zfs_unflushed_log_txg_max", 5);
	model(all_features, 2, 16 * MB, 50, 60);
	model(no_features, 2, 16 * MB, 50, 60);
	reset_tunable("metaslab_unload_delay");
	reset_tunable("metaslab_unload_delay_ms");
	reset_tunable("metaslab_preload_enabled");
	reset_tunable("zfs_metaslab_mem_limit");
	reset_tunable("zfs_unflushed_log_txg_max");
}

/* Nothing of an open group survives. */
static void forget_open_group(struct alloc_pool *p)
{
	for (size_t i = 0; i < p->nblocks; i++)
		if (p->block[i].birth > p->synced)
			p->block[i--] = p->block[--p->nblocks];
}

static void a_pool_that_is_opened_again_goes_on(struct alloc_features f)
{
	struct alloc_pool p;
	struct pending pe = {{0}};

	pool_create(&p, 2, 16 * MB, f);
	for (unsigned i = 0; i < 80; i++) {
		one_group(&p, 300, 12 * MB, &pe, i % 20 == 19);
		pool_check(&p, pe.sectors[p.txg & TXG_MASK]);
		if (i % 10 != 9)
			continue;
		/* Frees of the open group never were. The table has lost them: so they stay out, as a leak of the
		 * model's. */
		while (pe.sectors[p.txg & TXG_MASK])
			one_group(&p, 1, 12 * MB, &pe, false);
		forget_open_group(&p);
		pool_reopen(&p);
		pool_check(&p, 0);
	}
	pool_destroy(&p);
}

static void pools_that_are_opened_again_go_on(void **state)
{
	a_pool_that_is_opened_again_goes_on(all_features);
	a_pool_that_is_opened_again_goes_on(histogram_only);
}

static uint64_t log_count(struct alloc_pool *p)
{
	autofree struct spacemap_log *logs = NULL;
	uint64_t zap;
	size_t n;

	assert_int_equal(zap_lookup_u64(p->mos, DIRECTORY, "com.delphix:log_spacemap_zap", &zap), 0);
	assert_int_equal(spacemap_log_list(p->mos, zap, &logs, &n), 0);
	return n;
}

static void flushing_leaves_one_log(void **state)
{
	struct alloc_pool p;
	struct pending pe = {{0}};

	pool_create(&p, 2, 32 * MB, all_features);
	assert_true(p.log_active);
	for (unsigned i = 0; i < 12; i++)
		one_group(&p, 100, 20 * MB, &pe, false);
	assert_true(log_count(&p) > 1);
	one_group(&p, 100, 20 * MB, &pe, true);
	assert_int_equal(log_count(&p), 1);
	pool_check(&p, pe.sectors[p.txg & TXG_MASK]);
	/* And when nothing is left to flush, nothing is dirtied. */
	pool_sync(&p, true);
	pool_sync(&p, true);
	struct tx tx = pool_tx(&p, p.txg++);
	assert_int_equal(alloc_sync(p.a, &tx, true), 0);
	if (!alloc_is_clean(p.a, tx.txg) || objset_is_dirty(p.mos, tx.txg))
		fail_msg("a group without changes is written");
	pool_destroy(&p);
}

static void logs_stay_within_their_limits(void **state)
{
	struct alloc_pool p;
	struct pending pe = {{0}};

	set_tunable("zfs_unflushed_log_txg_max", 6);
	pool_create(&p, 2, 32 * MB, all_features);
	for (unsigned i = 0; i < 40; i++) {
		one_group(&p, 100, 20 * MB, &pe, false);
		assert_true(log_count(&p) <= 8);
	}
	reset_tunable("zfs_unflushed_log_txg_max");
	pool_check(&p, pe.sectors[p.txg & TXG_MASK]);
	pool_destroy(&p);
}

/* Every space map object of the MOS. */
static int64_t long_maps(struct alloc_pool *p)
{
	uint64_t object = 0;
	int64_t n = 0;

	while (dnode_next(p->mos, &object, NULL) == 0) {
		struct spacemap_header h;

		if (spacemap_header_read(p->mos, object, &h) == 0)
			n += h.has_histogram;
	}
	return n;
}

static void maps_with_histograms_are_counted(void **state)
{
	struct alloc_pool p;
	struct pending pe = {{0}};

	pool_create(&p, 2, 32 * MB, all_features);
	for (unsigned i = 0; i < 30; i++) {
		one_group(&p, 200, 20 * MB, &pe, i == 20);
		assert_int_equal(p.histograms, long_maps(&p));
	}
	pool_destroy(&p);
	pool_create(&p, 2, 32 * MB, no_features);
	one_group(&p, 200, 20 * MB, &pe, false);
	assert_int_equal(p.histograms, 0);
	assert_int_equal(long_maps(&p), 0);
	pool_destroy(&p);
}

static uint64_t map_bytes(struct alloc_pool *p)
{
	uint64_t object = 0, sum = 0;

	while (dnode_next(p->mos, &object, NULL) == 0) {
		struct spacemap_header h;

		if (spacemap_header_read(p->mos, object, &h) == 0)
			sum += h.length;
	}
	return sum;
}

/* Maps do not grow without end. */
static void maps_are_condensed(void **state)
{
	struct alloc_pool p;
	struct pending pe = {{0}};

	set_tunable("zfs_metaslab_sm_blksz_no_log", 4096);
	pool_create(&p, 1, 16 * MB, no_features);
	p.strict = false;
	for (unsigned i = 0; i < 150; i++)
		one_group(&p, 400, 8 * MB, &pe, false);
	pool_check(&p, pe.sectors[p.txg & TXG_MASK]);
	/* 150 groups of some 400 entries of 8 bytes would be 480 KiB and more. */
	assert_in_range(map_bytes(&p), 1, 250 << 10);
	reset_tunable("zfs_metaslab_sm_blksz_no_log");
	pool_destroy(&p);
}

/* A pool gets features: its maps are made anew as they are condensed, and the log begins. */
static void features_may_come_later(void **state)
{
	struct alloc_pool p;
	struct pending pe = {{0}};

	pool_create(&p, 1, 16 * MB, no_features);
	p.strict = false;
	for (unsigned i = 0; i < 10; i++)
		one_group(&p, 300, 8 * MB, &pe, false);
	p.features = all_features;
	alloc_set_features(p.a, &p.features);
	for (unsigned i = 0; i < 30; i++) {
		one_group(&p, 300, 8 * MB, &pe, false);
		pool_check(&p, pe.sectors[p.txg & TXG_MASK]);
	}
	assert_true(p.log_active);
	pool_reopen(&p);
	forget_open_group(&p);
	one_group(&p, 300, 8 * MB, &pe, true);
	pool_destroy(&p);
}

/* Filled to the last sector and emptied, several times. */
static void a_full_pool_can_be_emptied(void **state)
{
	struct alloc_pool p;
	unsigned n;

	pool_create(&p, 1, 16 * MB, all_features);
	p.strict = false;
	for (unsigned round = 0; round < 4; round++) {
		/* The MOS needs room, too: what dsl keeps back as slop. */
		struct alloc_space sp;
		for (n = 0;; n++) {
			alloc_space(p.a, ZIO_CLASS_NORMAL, &sp);
			if (table_bytes(&p) > 13 * MB || pool_alloc(&p, 4096 << n % 5, 1, p.txg, 0))
				break;
			if (n % 100 == 99)
				pool_sync(&p, false);
		}
		assert_true(n > 100);
		pool_sync(&p, false);
		pool_check(&p, 0);
		while (p.nblocks > 0)
			pool_free_block(&p, p.nblocks - 1, p.txg);
		pool_sync(&p, false);
		pool_sync(&p, false);
		pool_sync(&p, false);
		pool_check(&p, 0);
	}
	pool_destroy(&p);
}

/* Threads take and give while groups are synced, loaded and unloaded under them. */
struct worker {
	struct alloc_pool *p;
	pthread_rwlock_t *group; /* held (shared) while something is done in the open group */
	atomic_bool *stop;
	pthread_t thread;
	struct block block[300];
	size_t n;
	uint32_t seed;
	uint64_t txg;
	unsigned steps; /* in group txg: bounded, as what is freed in it cannot be had before its end */
};

static void worker_step(struct worker *w)
{
	const struct zio_alloc_ops *ops = w->p->tp->zp.alloc;
	struct dva d[BP_DVAS];

	w->seed = w->seed * 1664525 + 1013904223;
	if (w->n < ARRAY_LEN(w->block) && w->seed >> 31) {
		if (ops->alloc(w->p->a, ZIO_CLASS_NORMAL, 512 + (w->seed >> 16 & 0x1fff), 1, w->p->txg, 0, NULL, d) ==
		    0)
			w->block[w->n++] = (struct block){d[0], w->p->txg};
	} else if (w->n > 0) {
		size_t i = (w->seed >> 8) % w->n;

		if (w->block[i].birth == w->p->txg && w->seed >> 30 & 1)
			ops->unalloc(w->p->a, &w->block[i].dva, w->p->txg);
		else
			ops->free(w->p->a, &w->block[i].dva, w->p->txg, w->block[i].birth);
		w->block[i] = w->block[--w->n];
	}
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(w->stop)) {
		pthread_rwlock_rdlock(w->group);
		if (w->txg != w->p->txg)
			w->steps = 0;
		w->txg = w->p->txg;
		for (unsigned i = 0; i < 20 && w->steps < 400; i++, w->steps++)
			worker_step(w);
		pthread_rwlock_unlock(w->group);
		sched_yield();
	}
	return NULL;
}

static void threads_go_on_while_groups_are_synced(void **state)
{
	static struct worker w[3];
	pthread_rwlock_t group = PTHREAD_RWLOCK_INITIALIZER;
	atomic_bool stop = false;
	struct alloc_pool p;

	set_tunable("metaslab_unload_delay", 0);
	set_tunable("metaslab_unload_delay_ms", 0);
	pool_create(&p, 2, 32 * MB, all_features);
	p.strict = false;
	for (unsigned i = 0; i < ARRAY_LEN(w); i++) {
		w[i] = (struct worker){.p = &p, .group = &group, .stop = &stop, .seed = i};
		pthread_create(&w[i].thread, NULL, worker_run, &w[i]);
	}
	for (unsigned i = 0; i < 60; i++) {
		pthread_rwlock_wrlock(&group);
		struct tx tx = pool_tx(&p, p.txg++);
		pthread_rwlock_unlock(&group);
		pool_passes(&p, &tx, i == 50);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < ARRAY_LEN(w); i++) {
		pthread_join(w[i].thread, NULL);
		p.block = xrealloc(p.block, (p.nblocks + w[i].n + 1) * sizeof(*p.block));
		memcpy(p.block + p.nblocks, w[i].block, w[i].n * sizeof(*p.block));
		p.nblocks += w[i].n;
	}
	pool_sync(&p, false);
	pool_check(&p, 0);
	reset_tunable("metaslab_unload_delay");
	reset_tunable("metaslab_unload_delay_ms");
	pool_destroy(&p);
}

static void space_of_the_log_of_a_crash_is_claimed(void **state)
{
	struct alloc_pool p;
	struct dva d[BP_DVAS];

	pool_create(&p, 1, 16 * MB, all_features);
	/* A block of the open group is on the device, its allocation is not. */
	assert_int_equal(p.tp->zp.alloc->alloc(p.a, ZIO_CLASS_LOG, 8192, 1, p.txg, ZIO_ALLOC_ZIL, NULL, d), 0);
	pool_reopen(&p);
	assert_int_equal(p.tp->zp.alloc->claim(p.a, &d[0], p.txg), 0);
	assert_int_equal(p.tp->zp.alloc->claim(p.a, &d[0], p.txg), -ENOENT);
	p.block = xmalloc(sizeof(*p.block));
	p.room = p.nblocks = 1;
	p.block[0] = (struct block){d[0], p.txg};
	pool_sync(&p, false);
	pool_check(&p, 0);
	pool_free_block(&p, 0, p.txg);
	pool_sync(&p, false);
	pool_check(&p, 0);
	pool_destroy(&p);
}

/* Log blocks of a group that is open are freed while the group before is synced. */
static void a_block_may_be_freed_before_its_group(void **state)
{
	struct alloc_pool p;

	for (unsigned i = 0; i < 2; i++) {
		pool_create(&p, 1, 16 * MB, i ? all_features : no_features);
		struct tx tx = pool_tx(&p, p.txg++);
		assert_int_equal(pool_alloc(&p, 8192, 1, p.txg, 0), 0);
		p.tp->zp.alloc->free(p.a, &p.block[0].dva, tx.txg, p.txg);
		p.nblocks = 0;
		pool_passes(&p, &tx, false);
		pool_check(&p, 0);
		pool_sync(&p, false);
		pool_check(&p, 0);
		pool_reopen(&p);
		pool_destroy(&p);
	}
}

static uint64_t kept_bytes(struct alloc_pool *p)
{
	struct alloc_space sp;

	alloc_space(p->a, ZIO_CLASS_NORMAL, &sp);
	return sp.checkpointed;
}

static void discard_all(struct alloc_pool *p, uint64_t limit)
{
	bool done = false;

	for (unsigned i = 0; !done; i++) {
		struct tx tx = pool_tx(p, p->txg++);

		assert_true(i < 10000);
		assert_int_equal(alloc_checkpoint_discard(p->a, limit, &done, &tx), 0);
		pool_passes(p, &tx, false);
	}
}

static void checkpoint_round(struct alloc_features f, uint64_t limit)
{
	struct alloc_pool p;
	struct pending pe = {{0}};
	uint64_t kept;

	pool_create(&p, 2, 32 * MB, f);
	for (unsigned i = 0; i < 10; i++)
		one_group(&p, 300, 16 * MB, &pe, false);
	struct tx tx = pool_tx(&p, p.txg++);
	p.checkpoint_txg = p.synced;
	alloc_checkpoint_take(p.a, p.checkpoint_txg, &tx);
	pool_passes(&p, &tx, false);
	assert_true(kept_bytes(&p) > 0); /* the MOS's own old blocks at least */
	for (unsigned i = 0; i < 10; i++)
		one_group(&p, 300, 16 * MB, &pe, false);
	/* Let go of what was freed in the open group. */
	while (pe.sectors[p.txg & TXG_MASK])
		one_group(&p, 1, 16 * MB, &pe, false);
	kept = kept_bytes(&p);
	pool_check(&p, kept >> POOL_ASHIFT);
	pool_reopen(&p);
	forget_open_group(&p);
	assert_int_equal(kept_bytes(&p), kept);
	pool_check(&p, kept >> POOL_ASHIFT);
	p.checkpoint_txg = 0;
	discard_all(&p, limit);
	assert_int_equal(kept_bytes(&p), 0);
	pool_check(&p, 0);
	assert_int_equal(p.histograms, long_maps(&p));
	pool_sync(&p, false);
	pool_reopen(&p);
	pool_check(&p, 0);
	pool_destroy(&p);
}

static void a_checkpoint_keeps_what_it_has_until_it_is_discarded(void **state)
{
	checkpoint_round(all_features, 100);
	checkpoint_round(all_features, UINT64_MAX);
	checkpoint_round(no_features, 37);
}

/* A log device that comes, is used, leaves, and of whose maps nothing stays. */
static void a_log_device_comes_and_goes(struct alloc_features f)
{
	struct alloc_pool p;
	struct vdev *top;
	struct err e = ERR_INIT;
	struct zap_spec spec = {.type = DMU_OTN_ZAP_METADATA};
	struct dva d[BP_DVAS];

	pool_create(&p, 1, 32 * MB, f);
	top = p.tp->root->child[1];
	top->is_log = true;
	top->noalloc = false;
	struct tx tx = pool_tx(&p, p.txg++);
	assert_int_equal(zap_create(p.mos, &spec, &tx, &top->zap_top), 0);
	assert_int_equal(alloc_add_top(p.a, top, &e), 0);
	pool_passes(&p, &tx, false);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(p.tp->zp.alloc->alloc(p.a, ZIO_CLASS_LOG, 8192, 1, p.txg, ZIO_ALLOC_ZIL, NULL, d), 0);
		assert_int_equal(d[0].vdev, 1);
		p.tp->zp.alloc->free(p.a, &d[0], p.txg + i % 2, p.txg);
	}
	pool_sync(&p, false);
	assert_int_equal(alloc_drain_top(p.a, top), -EBUSY);
	assert_int_equal(p.tp->zp.alloc->alloc(p.a, ZIO_CLASS_LOG, 8192, 1, p.txg, ZIO_ALLOC_ZIL, NULL, d), 0);
	assert_int_equal(d[0].vdev, 0);
	p.tp->zp.alloc->unalloc(p.a, &d[0], p.txg);
	pool_sync(&p, false);
	pool_check(&p, 0);
	assert_int_equal(alloc_drain_top(p.a, top), 0);
	tx = pool_tx(&p, p.txg++);
	assert_int_equal(alloc_remove_top(p.a, top, &tx), 0);
	assert_int_equal(dmu_object_free(p.mos, top->zap_top, &tx), 0);
	pool_passes(&p, &tx, false);
	top->ms_array = 0;
	top->kind = VDEV_HOLE;
	pool_check(&p, 0);
	assert_int_equal(p.histograms, long_maps(&p));
	pool_sync(&p, false);
	pool_reopen(&p);
	pool_check(&p, 0);
	assert_int_equal(pool_alloc(&p, 8192, 1, p.txg, ZIO_ALLOC_ZIL), 0);
	assert_int_equal(p.block[0].dva.vdev, 0);
	top->kind = VDEV_DISK;
	pool_destroy(&p);
}

static void log_devices_come_and_go(void **state)
{
	a_log_device_comes_and_goes(all_features);
	a_log_device_comes_and_goes(no_features);
}

static int print_entry(void *arg, const struct spacemap_entry *e)
{
	snprintf(arg, 64, "%c %llu+%llu", e->free ? 'F' : 'A', (unsigned long long)e->offset,
		 (unsigned long long)e->run);
	return 0;
}

/* A block on a device that was removed: freed where it was moved to, and the old range is noted. */
static void blocks_of_removed_devices_are_freed_where_they_are(void **state)
{
	struct alloc_pool p;
	struct vdev *gone;
	struct dva d = {.vdev = 2, .offset = 8192, .asize = 4096};
	struct zap_spec spec = {.type = DMU_OTN_ZAP_METADATA};
	uint64_t object;
	char text[64] = "";

	pool_create(&p, 1, 32 * MB, all_features);
	assert_int_equal(pool_alloc(&p, 65536, 1, p.txg, 0), 0);
	struct vdev_indirect_entry map = {0, 65536, 0, p.block[0].dva.offset};
	gone = p.tp->root->child[2];
	gone->kind = VDEV_INDIRECT;
	gone->ms_array = 0;
	assert_int_equal(vdev_indirect_set_mapping(gone, &map, 1), 0);
	struct tx tx = pool_tx(&p, p.txg++);
	assert_int_equal(zap_create(p.mos, &spec, &tx, &gone->zap_top), 0);
	pool_passes(&p, &tx, false);
	pool_reopen(&p);
	p.tp->zp.alloc->free(p.a, &d, p.txg, 2);
	pool_sync(&p, false);
	/* The middle of the block is free now. */
	p.block[1] = p.block[0];
	p.block[0].dva.asize = 8192;
	p.block[1].dva.offset += 8192 + 4096;
	p.block[1].dva.asize -= 8192 + 4096;
	p.nblocks = 2;
	pool_check(&p, 0);
	assert_int_equal(zap_lookup_u64(p.mos, gone->zap_top, "com.delphix:indirect_obsolete_sm", &object), 0);
	assert_int_equal(spacemap_each(p.mos, object, 0, 0, print_entry, text), 0);
	assert_string_equal(text, "A 8192+4096");
	assert_int_equal(p.histograms, long_maps(&p));
	/* Where nothing is mapped, nothing happens. */
	d.offset = 1 << 20;
	p.tp->zp.alloc->free(p.a, &d, p.txg, 2);
	pool_sync(&p, false);
	pool_check(&p, 0);
	free(gone->priv);
	gone->priv = NULL;
	gone->kind = VDEV_DISK;
	pool_destroy(&p);
}

/* More metaslabs in a running pool. */
static void a_device_that_grows_is_used_whole(void **state)
{
	struct alloc_pool p;
	struct err e = ERR_INIT;
	bool beyond = false;

	pool_create(&p, 1, 64 * MB, all_features);
	p.tp->root->child[0]->asize = 96 * MB;
	p.size = 96 * MB;
	for (unsigned i = 0; i < TP_TOPS; i++) {
		free(p.freed[i]);
		p.freed[i] = xcalloc(POOL_SECTORS(&p), 8);
	}
	assert_int_equal(alloc_grow_top(p.a, p.tp->root->child[0], &e), 0);
	p.strict = false;
	for (unsigned i = 0; i < 70; i++) {
		assert_int_equal(pool_alloc(&p, MB, 1, p.txg, 0), 0);
		beyond |= p.block[i].dva.offset >= 64 * MB;
	}
	assert_true(beyond);
	pool_sync(&p, false);
	pool_check(&p, 0);
	pool_reopen(&p);
	pool_sync(&p, true);
	pool_check(&p, 0);
	pool_destroy(&p);
}

/* What was freed some groups ago and nobody has taken since comes up for trimming, once. */
static void autotrim_takes_what_was_freed(void **state)
{
	struct alloc_pool p;
	struct alloc_free_set *set;
	struct dva d;
	uint64_t m;

	set_tunable("zfs_trim_txg_batch", 1);
	pool_create(&p, 1, 16 * MB, all_features);
	alloc_autotrim(p.a, true);
	assert_int_equal(pool_alloc(&p, 65536, 1, p.txg, 0), 0);
	d = p.block[0].dva;
	m = d.offset >> 22;
	pool_sync(&p, false);
	pool_free_block(&p, 0, p.txg);
	for (unsigned i = 0; i < 3; i++)
		pool_sync(&p, false);
	assert_int_equal(alloc_autotrim_take(p.a, p.tp->root->child[0], m, &set), 0);
	assert_true(rangetree_contains(alloc_free_ranges(set), d.offset, d.offset + d.asize));
	alloc_free_return(set);
	pool_sync(&p, false);
	pool_sync(&p, false);
	if (alloc_autotrim_take(p.a, p.tp->root->child[0], m, &set) == 0) {
		assert_false(rangetree_contains(alloc_free_ranges(set), d.offset, d.offset + d.asize));
		alloc_free_return(set);
	}
	assert_int_equal(alloc_autotrim_take(p.a, p.tp->root->child[0], 99, &set), -ENOENT);
	pool_check(&p, 0);
	reset_tunable("zfs_trim_txg_batch");
	pool_destroy(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(maps_say_what_is_in_use_without_any_feature),
	    cmocka_unit_test(maps_say_what_is_in_use_with_histograms),
	    cmocka_unit_test(maps_and_logs_say_what_is_in_use),
	    cmocka_unit_test(a_pool_that_is_nearly_full_is_exact_too),
	    cmocka_unit_test(what_is_loaded_is_what_was_unloaded),
	    cmocka_unit_test(pools_that_are_opened_again_go_on),
	    cmocka_unit_test(flushing_leaves_one_log),
	    cmocka_unit_test(logs_stay_within_their_limits),
	    cmocka_unit_test(maps_with_histograms_are_counted),
	    cmocka_unit_test(maps_are_condensed),
	    cmocka_unit_test(features_may_come_later),
	    cmocka_unit_test(a_full_pool_can_be_emptied),
	    cmocka_unit_test(threads_go_on_while_groups_are_synced),
	    cmocka_unit_test(space_of_the_log_of_a_crash_is_claimed),
	    cmocka_unit_test(a_block_may_be_freed_before_its_group),
	    cmocka_unit_test(a_checkpoint_keeps_what_it_has_until_it_is_discarded),
	    cmocka_unit_test(log_devices_come_and_go),
	    cmocka_unit_test(blocks_of_removed_devices_are_freed_where_they_are),
	    cmocka_unit_test(a_device_that_grows_is_used_whole),
	    cmocka_unit_test(autotrim_takes_what_was_freed),
	};

	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
