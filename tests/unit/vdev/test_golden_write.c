/*
 * The newest blocks of the golden pools, read and written again to where they are: nothing changes on any device,
 * parity and filling included.
 */
/* clang-format off: cmocka wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
/* clang-format on */

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/sync.h"
#include "codec/checksum.h"
#include "vdev/label.h"
#include "vdev/vdev.h"
#include "zio/bp.h"

#define DISKS_MAX 32
#define TOPS_MAX  8
#define BPS_MAX   1024

struct golden;
struct golden_disk { /* reads from the file; what is written is only compared with it */
	struct disk disk;
	struct golden *g;
	struct disk *lower;
	int fd;
};

struct golden {
	const char *name;
	char *path[DISKS_MAX];
	uint64_t guid[DISKS_MAX];
	unsigned ndisks;
	struct nvlist *top[TOPS_MAX];
	unsigned ntops, ashift;
	struct vdev *root;
	struct bp bp[BPS_MAX];
	unsigned nbps, checked;
	atomic_uint writes, changes;
};

static void golden_write(struct golden_disk *gd, const struct disk_req *r)
{
	uint8_t *is = xmalloc(r->length), *at = is;

	assert_int_equal(pread(gd->fd, is, r->length, (off_t)r->offset), r->length);
	for (unsigned i = 0; i < r->niov; i++) {
		if (memcmp(at, r->iov[i].iov_base, r->iov[i].iov_len) != 0)
			atomic_fetch_add(&gd->g->changes, 1);
		at += r->iov[i].iov_len;
	}
	atomic_fetch_add(&gd->g->writes, 1);
	free(is);
}

static void golden_submit(struct disk *d, struct disk_req *r)
{
	struct golden_disk *gd = container_of(d, struct golden_disk, disk);

	if (r->op == DISK_READ) {
		disk_submit(gd->lower, r);
		return;
	}
	if (r->op == DISK_WRITE)
		golden_write(gd, r);
	r->done(r, 0);
}

static void golden_close(struct disk *d)
{
	struct golden_disk *gd = container_of(d, struct golden_disk, disk);

	close(gd->fd);
	disk_close(gd->lower);
	free(gd);
}

static const struct disk_ops golden_ops = {"golden", golden_submit, golden_close, NULL};

static int golden_open(void *arg, struct vdev *leaf, struct disk **out, struct err *e)
{
	struct golden *g = arg;
	struct golden_disk *gd;

	for (unsigned i = 0; i < g->ndisks; i++) {
		if (g->guid[i] != leaf->guid)
			continue;
		gd = xcalloc(1, sizeof(*gd));
		assert_int_equal(disk_open(g->path[i], DISK_RDONLY, &gd->lower, NULL), 0);
		gd->disk = *gd->lower;
		gd->disk.ops = &golden_ops;
		gd->disk.path = NULL;
		gd->disk.writable = true;
		gd->g = g;
		gd->fd = open(g->path[i], O_RDONLY | O_CLOEXEC);
		*out = &gd->disk;
		return 0;
	}
	return -ENOENT;
}

static void take_uberblock(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	struct golden *g = arg;

	if (g->nbps < BPS_MAX)
		bp_decode(&g->bp[g->nbps++], ub->rootbp, ub->swapped);
}

static void take_disk(struct golden *g, char *path)
{
	struct label label[VDEV_LABELS];
	struct nvlist *top = NULL;
	struct disk *d;

	assert_int_equal(disk_open(path, DISK_RDONLY, &d, NULL), 0);
	if (label_read_all(d, label) == 0 && label[0].err == 0)
		nvlist_list(label[0].config, "vdev_tree", &top);
	if (top && g->ndisks < DISKS_MAX) {
		uint64_t id = nvlist_u64_or(top, "id", TOPS_MAX);

		g->path[g->ndisks] = xstrdup(path);
		g->guid[g->ndisks++] = nvlist_u64_or(label[0].config, "guid", 0);
		if (id < TOPS_MAX && !g->top[id]) {
			g->top[id] = nvlist_copy(top);
			g->ntops = MAX(g->ntops, (unsigned)id + 1);
			assert_int_equal(
			    uberblock_each(d, 0, (unsigned)nvlist_u64_or(top, "ashift", 9), take_uberblock, g), 0);
		}
	}
	label_free_all(label);
	disk_close(d);
}

static bool take_pool(struct golden *g, const char *dir)
{
	DIR *d = opendir(dir);

	for (const struct dirent *de; d && (de = readdir(d));) {
		autofree char *path = xasprintf("%s/%s", dir, de->d_name);

		if (strncmp(de->d_name, "disk", 4) == 0)
			take_disk(g, path);
	}
	if (d)
		closedir(d);
	for (unsigned i = 0; i < g->ntops; i++)
		if (!g->top[i])
			return false;
	return g->ntops > 0;
}

struct sync_io {
	struct vdev_io io;
	struct waiter w;
	const struct bp *bp;
};

static int verify(struct vdev_io *io, const uint8_t *data)
{
	const struct bp *bp = container_of(io, struct sync_io, io)->bp;
	struct cksum sum, want;

	memcpy(&want, &bp->w[12], sizeof(want));
	return checksum_compute(bp_checksum(bp), NULL, data, io->size, false, &sum) || !cksum_equal(&sum, &want)
		   ? -ECKSUM
		   : 0;
}

static void io_done(struct vdev_io *io, int err)
{
	waiter_done(&container_of(io, struct sync_io, io)->w, err);
}

static void check_copy(struct golden *g, const struct bp *bp, const struct dva *dva)
{
	struct vdev *top = dva->vdev < g->root->nchildren ? g->root->child[dva->vdev] : NULL;
	uint64_t size = bp_psize(bp);
	autobuf struct buf *b = buf_alloc(ROUND_UP(size, 8192));
	struct sync_io s = {.bp = bp};

	if (!top || top->asize == 0)
		return;
	memset(b->data, 0, b->size);
	s.io = (struct vdev_io){.offset = dva->offset,
				.size = size,
				.data = b->data,
				.txg = bp_physical_birth(bp),
				.class = VDEV_ASYNC_WRITE,
				.verify = verify,
				.done = io_done};
	waiter_init(&s.w);
	vdev_read(top, &s.io);
	if (waiter_wait(&s.w) != 0)
		return; /* an old one, overwritten since */
	memset(b->data + size, 0, b->size - size);
	waiter_init(&s.w);
	vdev_write(top, &s.io);
	assert_int_equal(waiter_wait(&s.w), 0);
	g->checked++;
}

/* Devices that are damaged or not whole: there writing mends something. */
static bool has_gaps(const char *name)
{
	static const char *const words[] = {"corrupt-", "stale-", "replacing"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strncmp(name, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

static unsigned check_pool(const char *dir, const char *name)
{
	struct golden *g = xcalloc(1, sizeof(*g));
	autonv struct nvlist *nv = nvlist_create();
	unsigned checked;

	g->name = name;
	if (take_pool(g, dir)) {
		struct err e = ERR_INIT;

		nvlist_add_string(nv, "type", "root");
		nvlist_add_u64(nv, "guid", 1);
		nvlist_add_lists(nv, "children", g->top, g->ntops);
		assert_int_equal(vdev_tree_create(nv, &g->root, &e), 0);
		vdev_tree_open(g->root, golden_open, g);
		for (unsigned i = 0; i < g->nbps && vdev_why_not_writable(g->root, NULL) == 0; i++)
			for (unsigned c = 0; c < bp_ndvas(&g->bp[i]); c++) {
				struct dva dva = bp_dva(&g->bp[i], c);
				check_copy(g, &g->bp[i], &dva);
			}
		vdev_tree_destroy(g->root);
	}
	if (g->changes && !has_gaps(name))
		fail_msg("%s: %u of %u writes changed something", name, g->changes, g->writes);
	checked = g->checked;
	for (unsigned i = 0; i < g->ndisks; i++)
		free(g->path[i]);
	for (unsigned i = 0; i < g->ntops; i++)
		nvlist_destroy(g->top[i]);
	free(g);
	return checked;
}

static void blocks_written_again_change_nothing(void **state)
{
	const char *root = getenv("TARN_GOLDEN") ? getenv("TARN_GOLDEN") : "";
	DIR *d = opendir(root);
	unsigned raidz = 0, draid = 0, mirror = 0, all = 0;

	if (!d) {
		print_message("skipped: no golden pools in $TARN_GOLDEN\n");
		skip();
	}
	for (const struct dirent *de; (de = readdir(d));) {
		autofree char *dir = xasprintf("%s/%s", root, de->d_name);
		unsigned n = de->d_name[0] == '.' ? 0 : check_pool(dir, de->d_name);

		all += n;
		raidz += strncmp(de->d_name, "raidz", 5) == 0 ? n : 0;
		draid += strncmp(de->d_name, "draid", 5) == 0 ? n : 0;
		mirror += strncmp(de->d_name, "mirror", 6) == 0 ? n : 0;
	}
	closedir(d);
	print_message("%u copies of blocks: raidz %u, draid %u, mirror %u\n", all, raidz, draid, mirror);
	assert_true(raidz > 50 && draid > 20 && mirror > 5 && all > 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(blocks_written_again_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
