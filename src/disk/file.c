/* Opening regular files and block devices. */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "disk/file.h"
#include "disk/testdisk.h"

static atomic_bool force_threads;

void file_force_threads(bool force)
{
	atomic_store(&force_threads, force);
}

static void file_submit(struct disk *d, struct disk_req *r)
{
	struct filedisk *f = container_of(d, struct filedisk, disk);

	f->engine->submit(f, r);
}

static void file_close(struct disk *d)
{
	struct filedisk *f = container_of(d, struct filedisk, disk);

	if (f->direct_fd >= 0)
		close(f->direct_fd);
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}

static void file_refresh(struct disk *d)
{
	const struct filedisk *f = container_of(d, struct filedisk, disk);
	struct stat st;

	if (fstat(f->fd, &st) == 0)
		d->size = ROUND_DOWN((uint64_t)st.st_size, 512);
}

static void block_refresh(struct disk *d)
{
	const struct filedisk *f = container_of(d, struct filedisk, disk);
	uint64_t bytes;

	if (ioctl(f->fd, BLKGETSIZE64, &bytes) == 0)
		d->size = ROUND_DOWN(bytes, (uint64_t)d->block_size);
}

static const struct disk_ops file_ops = {"file", file_submit, file_close, file_refresh};
static const struct disk_ops block_ops = {"block", file_submit, file_close, block_refresh};

/* A number of the device's request queue in sysfs; partitions have that of their disk. 0 when it is not told. */
static uint64_t queue_number(dev_t dev, const char *name)
{
	static const char *const places[] = {"", "/.."};
	uint64_t value = 0;

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		autofree char *path = xasprintf("/sys/dev/block/%u:%u%s/queue/%s", major(dev), minor(dev), places[i],
						name);
		FILE *in = fopen(path, "re");

		if (!in)
			continue;
		if (fscanf(in, "%" SCNu64, &value) != 1)
			value = 0;
		fclose(in);
		break;
	}
	return value;
}

static void traits_read(struct filedisk *f, const struct stat *st)
{
	f->disk.discards = !S_ISBLK(st->st_mode) || queue_number(st->st_rdev, "discard_max_bytes") > 0;
	f->disk.rotational = S_ISBLK(st->st_mode) && queue_number(st->st_rdev, "rotational") > 0;
}

static int size_of_file(struct filedisk *f, const struct stat *st)
{
	f->disk.block_size = 512;
	f->disk.physical_block_size = 512;
	f->disk.size = ROUND_DOWN((uint64_t)st->st_size, 512);
	f->direct_align = 512;
	return 0;
}

static int size_of_block_device(struct filedisk *f)
{
	unsigned int physical = 0;
	int logical = 0;
	uint64_t bytes;

	if (ioctl(f->fd, BLKGETSIZE64, &bytes) != 0 || ioctl(f->fd, BLKSSZGET, &logical) != 0)
		return -errno;
	if (logical < 512 || !IS_POW2(logical))
		return -EINVAL;
	if (ioctl(f->fd, BLKPBSZGET, &physical) != 0 || physical < (unsigned)logical)
		physical = logical;
	f->disk.block_size = logical;
	f->disk.physical_block_size = physical;
	f->disk.size = ROUND_DOWN(bytes, (uint64_t)logical);
	f->direct_align = logical;
	return 0;
}

/* What the file system says about O_DIRECT on this file; false when it says that it cannot do it. */
static bool direct_ask(struct filedisk *f)
{
#ifdef STATX_DIOALIGN
	struct statx sx;

	if (statx(f->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) != 0 || !(sx.stx_mask & STATX_DIOALIGN))
		return true;
	if (sx.stx_dio_offset_align == 0)
		return false;
	f->direct_align = MAX(f->direct_align, MAX(sx.stx_dio_offset_align, sx.stx_dio_mem_align));
	return IS_POW2(f->direct_align);
#else
	return true;
#endif
}

static int open_fds(struct filedisk *f, const char *path, unsigned flags)
{
	int mode = (flags & DISK_RDWR ? O_RDWR : O_RDONLY) | O_CLOEXEC;

	f->fd = open(path, mode | (f->is_block && (flags & DISK_RDWR) ? O_EXCL : 0));
	return f->fd < 0 ? -errno : 0;
}

/* By way of the descriptor, so that both are the same file whatever happens to the name meanwhile. */
static void open_direct(struct filedisk *f, unsigned flags)
{
	autofree char *self = xasprintf("/proc/self/fd/%d", f->fd);
	int mode = (flags & DISK_RDWR ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_DIRECT;

	if (direct_ask(f))
		f->direct_fd = open(self, mode);
}

static int file_open(struct filedisk *f, const char *path, unsigned flags, struct err *e)
{
	struct stat st;
	int err;

	/* Asked before opening: opening a pipe or a tape would wait or act. */
	if (stat(path, &st) != 0)
		return err_set(e, -errno, "%s: %s", path, err_words(errno));
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return err_set(e, -EINVAL, "%s: neither a regular file nor a block device", path);
	f->is_block = S_ISBLK(st.st_mode);
	err = open_fds(f, path, flags);
	if (err == -EBUSY)
		return claim_refused(path, st.st_rdev, e);
	if (err)
		return err_set(e, err, "%s: %s", path, err_words(err));
	if (!f->is_block && flags & DISK_RDWR && (err = claim_file(f->fd, path, e)) != 0)
		return err;
	if (fstat(f->fd, &st) != 0)
		return err_set(e, -errno, "%s: %s", path, err_words(errno));
	err = f->is_block ? size_of_block_device(f) : size_of_file(f, &st);
	if (err)
		return err_set(e, err, "%s: cannot learn the size: %s", path, err_words(err));
	f->disk.ops = f->is_block ? &block_ops : &file_ops;
	traits_read(f, &st);
	open_direct(f, flags);
	return 0;
}

int disk_open(const char *path, unsigned flags, struct disk **out, struct err *e)
{
	static atomic_uint next_ring;
	const struct testdisk_path *test = testdisk_find(path);
	struct filedisk *f;
	int err;

	if (test)
		return test->open(test->arg, flags, out, e);
	f = xcalloc(1, sizeof(*f));
	f->fd = f->direct_fd = -1;
	err = file_open(f, path, flags, e);
	if (err) {
		file_close(&f->disk);
		return err;
	}
	f->disk.writable = flags & DISK_RDWR;
	f->disk.path = xstrdup(path);
	f->ring = atomic_fetch_add(&next_ring, 1);
	f->engine = atomic_load(&force_threads) ? NULL : uring_engine();
	if (!f->engine)
		f->engine = threads_engine();
	*out = &f->disk;
	return 0;
}
