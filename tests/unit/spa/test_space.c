/*
 * Space of golden pools: the allocator counts every device as the reading side does, finds free what the space maps
 * leave free, and what is written of a map reads back as the same. Pools are those of $TARN_GOLDEN; without them the
 * tests are skipped.
 */
/* clang-format off: cmocka wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
/* clang-format on */

#include <dirent.h>

#include "alloc/alloc.h"
#include "base/log.h"
#include "spa/spa_impl.h"

static struct arc *arc;

/* NULL: not one that can be opened alone (devices are missing on purpose, another pool's). */
static struct spa *import(const char *name)
{
	autofree char *dir = xasprintf("%s/%s", getenv("TARN_GOLDEN"), name);
	const char *path = dir;
	struct spa_search s = {.paths = &path, .npaths = 1};
	struct spa_import args = {.arc = arc, .force = true};
	struct nvlist **pool;
	struct err e = ERR_INIT;
	struct spa *spa = NULL;
	size_t n;

	if (spa_search(&s, &pool, &n, &e))
		return NULL;
	args.config = n ? pool[0] : NULL;
	if (n && spa_import(&args, &spa, &e))
		spa = NULL;
	for (size_t i = 0; i < n; i++)
		nvlist_destroy(pool[i]);
	free(pool);
	return spa;
}

static int collect(void *arg, const struct spacemap_entry *e)
{
	return e->free ? rangetree_remove(arg, e->offset, e->offset + e->run)
		       : rangetree_add(arg, e->offset, e->offset + e->run);
}

/* Written one way or the other, as a map has it: all is free at first. */
static void check_encoding(const struct metaslab_info *ms, unsigned shift, bool two_words)
{
	struct spacemap_encoder e = {.blocksize = 4096, .two_words = two_words, .vdev = UINT64_MAX};
	struct rangetree back;

	rangetree_init(&back);
	spacemap_encode_debug(&e, false, 1, 77);
	for (struct range *r = rangetree_first(&ms->allocated); r; r = rangetree_next(r))
		spacemap_encode(&e, false, (r->start - ms->start) >> shift, (r->end - r->start) >> shift);
	assert_int_equal(spacemap_decode((uint8_t *)e.word, e.n * 8, false, ms->start, shift, collect, &back), 0);
	struct range *a = rangetree_first(&ms->allocated), *b = rangetree_first(&back);
	for (; a && b; a = rangetree_next(a), b = rangetree_next(b)) {
		assert_int_equal(a->start, b->start);
		assert_int_equal(a->end, b->end);
	}
	assert_true(!a && !b);
	rangetree_clear(&back);
	free(e.word);
}

/* Free extents and allocated ranges together are the metaslab, and have nothing in common. */
static void check_free(struct alloc *a, struct vdev *top, const struct metaslab_info *ms)
{
	struct alloc_free_set *set;
	const struct rangetree *left;

	assert_int_equal(alloc_free_take(a, top, ms->id, &set), 0);
	left = alloc_free_ranges(set);
	assert_int_equal(left->space + ms->allocated.space, ms->size);
	for (struct range *r = rangetree_first(left); r; r = rangetree_next(r)) {
		assert_true(r->start >= ms->start && r->end <= ms->start + ms->size);
		assert_null(rangetree_overlap(&ms->allocated, r->start, r->end));
	}
	alloc_free_return(set);
}

static void check_space(struct spa *spa, struct alloc *a)
{
	autofree struct spa_top_space *want = spa_space(spa);

	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		const struct vdev *top = spa->root->child[i];
		struct alloc_space got;

		if (!vdev_is_concrete(top) || !top->ms_array)
			continue;
		alloc_top_space(a, top, &got);
		assert_int_equal(got.size, want[i].size);
		assert_int_equal(got.allocated, want[i].allocated);
		assert_int_equal(got.deferred, 0);
		assert_int_equal(got.checkpointed, want[i].checkpoint);
		assert_int_equal(got.fragmentation, want[i].fragmentation);
		assert_int_equal(got.usable, want[i].usable);
		assert_int_equal(got.used, want[i].used);
		assert_int_equal(got.embedded_log, want[i].embedded_log);
		assert_int_equal(got.embedded_usable, want[i].embedded_usable);
	}
}

static void check_pool(struct spa *spa)
{
	struct spacemap_pool sm;
	struct alloc_args args = {.mos = spa->mos, .root = spa->root, .zp = &spa->zp, .directory = MOS_DIRECTORY};
	struct err e = ERR_INIT;
	struct alloc *a;
	uint64_t log = 0;

	spa_mos_u64(spa->mos, "com.delphix:log_spacemap_zap", &log);
	if (spacemap_load_pool(spa->mos, spa->root, log, &sm, &e))
		fail_msg("%s", e.text);
	if (alloc_open(&args, &a, &e))
		fail_msg("%s", e.text);
	check_space(spa, a);
	for (size_t i = 0; i < sm.n; i++) {
		struct vdev *top = spa->root->child[sm.ms[i].vdev];

		check_free(a, top, &sm.ms[i]);
		check_encoding(&sm.ms[i], (unsigned)top->ashift, false);
		check_encoding(&sm.ms[i], (unsigned)top->ashift, true);
	}
	alloc_close(a);
	spacemap_free_pool(&sm);
}

static void the_allocator_agrees_with_the_maps_of_golden_pools(void **state)
{
	struct dirent *de;
	unsigned n = 0;

	if (!getenv("TARN_GOLDEN"))
		skip();
	DIR *d = opendir(getenv("TARN_GOLDEN"));
	assert_non_null(d);
	arc = arc_create(64u << 20);
	while ((de = readdir(d))) {
		struct spa *spa = de->d_name[0] == '.' ? NULL : import(de->d_name);
		struct err e = ERR_INIT;

		if (!spa)
			continue;
		check_pool(spa);
		assert_int_equal(spa_export(spa, &e), 0);
		n++;
	}
	closedir(d);
	arc_destroy(arc);
	assert_true(n > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_allocator_agrees_with_the_maps_of_golden_pools)};

	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
