/*
 * tests/lib/livepool.h: pools that are made and written without the daemon, on files in a directory of their own.
 */
#ifndef TESTS_LIVEPOOL_H
#define TESTS_LIVEPOOL_H

/* clang-format off: cmocka wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
/* clang-format on */

#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "spa/spa.h"
#include "zpl/zpl.h"

#define LIVEPOOL_DISKS_MAX 8
#define LIVEPOOL_NAME      "live"

struct livepool {
	char dir[256], disk[LIVEPOOL_DISKS_MAX][300];
	unsigned ndisks;
	struct arc *arc;
	struct spa *spa;
	struct err e; /* of the last call */
};

static inline void livepool_root_init(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	autonv struct nvlist *none = nvlist_create();

	assert_int_equal(zpl_create_objects(os, props ? props : none, tx), 0);
}

/* Files without a pool. */
static inline void livepool_files(struct livepool *lp, unsigned ndisks, uint64_t size)
{
	memset(lp, 0, sizeof(*lp));
	snprintf(lp->dir, sizeof(lp->dir), "%s/livepool-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_non_null(mkdtemp(lp->dir));
	lp->ndisks = ndisks;
	lp->arc = arc_create(UINT64_C(64) << 20);
	for (unsigned i = 0; i < ndisks; i++) {
		int fd;

		snprintf(lp->disk[i], sizeof(lp->disk[i]), "%s/disk%u", lp->dir, i);
		fd = open(lp->disk[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, (off_t)size), 0);
		close(fd);
	}
}

static inline struct nvlist *livepool_leaf(const char *path)
{
	struct nvlist *l = nvlist_create();

	nvlist_add_string(l, "type", "file");
	nvlist_add_string(l, "path", path);
	return l;
}

/* Disks [first, first + n) as top-level devices, log ones if `log`. */
static inline struct nvlist *livepool_tree(const struct livepool *lp, unsigned first, unsigned n, bool log)
{
	struct nvlist *tree = nvlist_create(), *child[LIVEPOOL_DISKS_MAX];

	nvlist_add_string(tree, "type", "root");
	for (unsigned i = 0; i < n; i++) {
		child[i] = livepool_leaf(lp->disk[first + i]);
		if (log)
			nvlist_add_u64(child[i], "is_log", 1);
	}
	nvlist_add_lists(tree, "children", child, n);
	for (unsigned i = 0; i < n; i++)
		nvlist_destroy(child[i]);
	return tree;
}

/* props: pairs of name and value, ended by NULL; may be NULL. The pool is in no cache file. */
static inline struct nvlist *livepool_props(const char *const *props)
{
	struct nvlist *l = nvlist_create();

	nvlist_add_string(l, "cachefile", "none");
	for (size_t i = 0; props && props[i]; i += 2)
		nvlist_add_string(l, props[i], props[i + 1]);
	return l;
}

static inline int livepool_create_tree(struct livepool *lp, const struct nvlist *tree, const char *const *props)
{
	autonv struct nvlist *p = livepool_props(props);
	const struct spa_create args = {.name = LIVEPOOL_NAME,
					.tree = tree,
					.props = p,
					.history = "zpool create " LIVEPOOL_NAME,
					.arc = lp->arc,
					.init_root = livepool_root_init};

	lp->e = (struct err)ERR_INIT;
	return spa_create_pool(&args, &lp->spa, &lp->e);
}

/* A stripe over all files. */
static inline void livepool_create(struct livepool *lp, const char *const *props)
{
	autonv struct nvlist *tree = livepool_tree(lp, 0, lp->ndisks, false);

	if (livepool_create_tree(lp, tree, props))
		fail_msg("%s", lp->e.text);
}

static inline struct nvlist *livepool_find(struct livepool *lp, bool destroyed)
{
	const char *dir = lp->dir;
	struct spa_search s = {.paths = &dir, .npaths = 1, .destroyed = destroyed};
	struct nvlist **pool, *config = NULL;
	size_t n;

	lp->e = (struct err)ERR_INIT;
	if (spa_search(&s, &pool, &n, &lp->e))
		fail_msg("%s", lp->e.text);
	for (size_t i = 0; i < n; i++) {
		if (i == 0)
			config = pool[i];
		else
			nvlist_destroy(pool[i]);
	}
	free(pool);
	return config;
}

static inline int livepool_import_as(struct livepool *lp, struct spa_import args, bool destroyed)
{
	autonv struct nvlist *config = livepool_find(lp, destroyed);
	autonv struct nvlist *props = livepool_props(NULL);

	if (!config)
		return -ENOENT;
	args.config = config;
	args.arc = lp->arc;
	args.props = args.props ? args.props : props;
	lp->e = (struct err)ERR_INIT;
	return spa_import(&args, &lp->spa, &lp->e);
}

static inline void livepool_import(struct livepool *lp, bool writable)
{
	int err = livepool_import_as(lp, (struct spa_import){.writable = writable}, false);

	if (err)
		fail_msg("import: %d %s", err, lp->e.text);
}

static inline void livepool_export(struct livepool *lp)
{
	lp->e = (struct err)ERR_INIT;
	if (spa_export(lp->spa, &lp->e))
		fail_msg("%s", lp->e.text);
	lp->spa = NULL;
}

/* Out of the pool and away with the files. */
static inline void livepool_remove(struct livepool *lp)
{
	if (lp->spa)
		livepool_export(lp);
	for (unsigned i = 0; i < lp->ndisks; i++)
		unlink(lp->disk[i]);
	rmdir(lp->dir);
	arc_destroy(lp->arc);
}

#endif
