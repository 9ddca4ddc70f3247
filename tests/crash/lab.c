#include "lab.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "nv/nv.h"
#include "zpl/zpl.h"

/* --- random numbers --- */

uint64_t rng_next(struct rng *r)
{
	r->state += UINT64_C(0x9e3779b97f4a7c15);
	return hash_mix(r->state, 0x5eed);
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	return n ? rng_next(r) % n : 0;
}

bool rng_percent(struct rng *r, unsigned percent)
{
	return rng_below(r, 100) < percent;
}

/* --- telling --- */

static pthread_mutex_t tell_lock = PTHREAD_MUTEX_INITIALIZER; /* guards context; a leaf */
static char context[512];

void lab_context(const char *fmt, ...)
{
	va_list ap;

	SCOPED_LOCK(&tell_lock);
	va_start(ap, fmt);
	vsnprintf(context, sizeof(context), fmt, ap);
	va_end(ap);
}

static void tell(const char *fmt, va_list ap)
{
	SCOPED_LOCK(&tell_lock);
	fprintf(stderr, "%s: ", context);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

bool lab_wrong(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(fmt, ap);
	va_end(ap);
	return false;
}

void (*lab_last_words)(void);

void lab_fatal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(fmt, ap);
	va_end(ap);
	if (lab_last_words)
		lab_last_words();
	abort();
}

uint64_t lab_number(const char *variable, uint64_t def)
{
	const char *text = getenv(variable);

	return text && *text ? strtoull(text, NULL, 10) : def;
}

bool lab_is_long(void)
{
	return lab_number("TARN_TEST_LONG", 0) != 0;
}

/* --- disks --- */

static int disk_open_published(void *arg, unsigned flags, struct disk **out, struct err *e)
{
	struct lab_disk *d = arg;

	*out = d->lab->open(d->lab->open_arg, d->i);
	return *out ? 0 : err_set(e, -ENXIO, "%s: no such device", d->path);
}

void lab_init(struct lab *l, unsigned ndisks, uint64_t size)
{
	const char *tmp = getenv("TMPDIR");

	*l = (struct lab){.ndisks = ndisks};
	snprintf(l->dir, sizeof(l->dir), "%s/tarn-lab-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(l->dir))
		lab_fatal("%s: %s", l->dir, strerror(errno));
	l->arc = arc_create(UINT64_C(48) << 20);
	for (unsigned i = 0; i < ndisks; i++) {
		struct lab_disk *d = &l->disk[i];
		int fd;

		d->lab = l;
		d->i = i;
		snprintf(d->path, sizeof(d->path), "%s/disk%u", l->dir, i);
		fd = open(d->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, (off_t)size))
			lab_fatal("%s: %s", d->path, strerror(errno));
		close(fd);
		d->published = (struct testdisk_path){.path = d->path, .open = disk_open_published, .arg = d};
		testdisk_publish(&d->published);
	}
}

void lab_fini(struct lab *l)
{
	for (unsigned i = 0; i < l->ndisks; i++) {
		testdisk_withdraw(&l->disk[i].published);
		unlink(l->disk[i].path);
	}
	rmdir(l->dir);
	arc_destroy(l->arc);
}

/* --- the pool --- */

static void root_init(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	autonv struct nvlist *none = nvlist_create();

	BUG_ON(zpl_create_objects(os, props ? props : none, tx));
}

static struct nvlist *leaf_config(const struct lab *l, unsigned i, bool log, uint64_t ashift)
{
	struct nvlist *v = nvlist_create();

	nvlist_add_string(v, "type", "file");
	nvlist_add_string(v, "path", l->disk[i].path);
	if (ashift)
		nvlist_add_u64(v, "ashift", ashift);
	if (log)
		nvlist_add_u64(v, "is_log", 1);
	return v;
}

static struct nvlist *tree_config(const struct lab *l, unsigned first, unsigned data, unsigned logs, uint64_t ashift)
{
	struct nvlist *tree = nvlist_create(), *child[LAB_DISKS_MAX];
	unsigned n = data + logs;

	for (unsigned i = 0; i < n; i++)
		child[i] = leaf_config(l, first + i, i >= data, ashift);
	nvlist_add_string(tree, "type", "root");
	nvlist_add_lists(tree, "children", child, n);
	for (unsigned i = 0; i < n; i++)
		nvlist_destroy(child[i]);
	return tree;
}

int lab_create(struct lab *l, const struct lab_layout *layout, struct err *e)
{
	autonv struct nvlist *tree = tree_config(l, 0, layout->data, layout->logs, layout->ashift);
	autonv struct nvlist *props = nvlist_create();
	struct spa_create args = {
	    .name = LAB_POOL,
	    .tree = tree,
	    .props = props,
	    .history = "zpool create " LAB_POOL,
	    .arc = l->arc,
	    .init_root = root_init,
	};

	nvlist_add_string(props, "cachefile", "none");
	for (const char *const *p = layout->props; p && p[0]; p += 2)
		nvlist_add_string(props, p[0], p[1]);
	return spa_create_pool(&args, &l->spa, e);
}

int lab_add(struct lab *l, unsigned first, unsigned n, bool log, uint64_t ashift, struct err *e)
{
	autonv struct nvlist *tree = tree_config(l, first, log ? 0 : n, log ? n : 0, ashift);

	return spa_add_vdevs(l->spa, tree, false, false, e);
}

static int pool_find(struct lab *l, struct nvlist **config, struct err *e)
{
	const char *dir = l->dir;
	const struct spa_search s = {.paths = &dir, .npaths = 1};
	struct nvlist **pool;
	size_t n;
	int err = spa_search(&s, &pool, &n, e);

	if (err)
		return err;
	*config = n ? pool[0] : NULL;
	for (size_t i = 1; i < n; i++)
		nvlist_destroy(pool[i]);
	free(pool);
	return n == 1 ? 0 : err_set(e, -ENOENT, "%zu pools found", n);
}

int lab_import(struct lab *l, bool writable, struct err *e)
{
	autonv struct nvlist *config = NULL, *props = nvlist_create();
	struct spa_import args = {.props = props, .writable = writable, .arc = l->arc};
	int err = pool_find(l, &config, e);

	if (err)
		return err;
	args.config = config;
	nvlist_add_string(props, "cachefile", "none");
	return spa_import(&args, &l->spa, e);
}

int lab_export(struct lab *l, struct err *e)
{
	int err = spa_export(l->spa, e);

	if (!err)
		l->spa = NULL;
	return err;
}
