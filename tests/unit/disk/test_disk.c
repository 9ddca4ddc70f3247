/* Every kind of disk keeps the promises of disk/disk.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/sync.h"
#include "disk/file.h"
#include "disk/testdisk.h"

#define SIZE (4u << 20)

static char dir[] = "/var/tmp/tarn-unit-XXXXXX";

static char *path_of(const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

static void make_file(const char *path, uint64_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

static struct disk *open_file(const char *name, unsigned flags)
{
	autofree char *path = path_of(name);
	struct err e = ERR_INIT;
	struct disk *d;

	assert_int_equal(disk_open(path, flags, &d, &e), 0);
	return d;
}

static struct disk *new_file(const char *name)
{
	autofree char *path = path_of(name);

	make_file(path, SIZE);
	return open_file(name, DISK_RDWR);
}

static void fill(uint8_t *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (seed + i) * 2654435761u >> 13;
}

/* Random writes and reads through the helpers, against a copy in memory. */
static void check_helpers(struct disk *d)
{
	uint8_t *model = xcalloc(1, SIZE), *got = xmalloc(SIZE);

	srandom(3);
	for (int i = 0; i < 60; i++) {
		size_t at = random() % SIZE, n = 1 + random() % (i % 5 ? 5000 : 2500000);

		n = MIN(SIZE - at, n);

		fill(model + at, n, i);
		assert_int_equal(disk_write(d, at, model + at, n), 0);
		at = random() % SIZE;
		n = 1 + random() % 100000;
		n = MIN(SIZE - at, n);
		assert_int_equal(disk_read(d, at, got, n), 0);
		assert_memory_equal(got, model + at, n);
	}
	assert_int_equal(disk_flush(d), 0);
	assert_int_equal(disk_read(d, 0, got, SIZE), 0);
	assert_memory_equal(got, model, SIZE);
	assert_int_equal(disk_read(d, SIZE - 1, got, 2), -EIO);
	assert_int_equal(disk_read(d, UINT64_MAX, got, 1), -EIO);
	assert_int_equal(disk_write(d, SIZE, got, 1), -EIO);
	free(model);
	free(got);
}

#define REQS 1000
#define PART 4096u

struct many;

struct many_req {
	struct disk_req req;
	struct iovec iov[2];
	struct many *all;
};

struct many {
	struct many_req r[REQS];
	atomic_int left, errors;
	struct waiter w;
};

static void one_done(struct disk_req *r, int err)
{
	struct many *m = container_of(r, struct many_req, req)->all;

	if (err)
		atomic_fetch_add(&m->errors, 1);
	if (atomic_fetch_sub(&m->left, 1) == 1)
		waiter_done(&m->w, 0);
}

/* More requests than a ring has slots, each of two vectors. */
static void check_many(struct disk *d)
{
	struct many *m = xcalloc(1, sizeof(*m));
	struct buf *data = buf_alloc(REQS * PART), *expect = buf_alloc(REQS * PART);

	fill(expect->data, REQS * PART, 9);
	assert_int_equal(disk_write(d, 0, expect->data, REQS * PART), 0);
	memset(data->data, 0, REQS * PART);
	waiter_init(&m->w);
	atomic_init(&m->left, REQS);
	for (unsigned i = 0; i < REQS; i++) {
		struct many_req *r = &m->r[i];
		uint8_t *p = data->data + i * PART;

		r->all = m;
		r->iov[0] = (struct iovec){p, 512};
		r->iov[1] = (struct iovec){p + 512, PART - 512};
		r->req = (struct disk_req){
		    .op = DISK_READ, .offset = i * PART, .iov = r->iov, .niov = 2, .length = PART};
		r->req.done = one_done;
		disk_submit(d, &r->req);
	}
	waiter_wait(&m->w);
	assert_int_equal(atomic_load(&m->errors), 0);
	assert_memory_equal(data->data, expect->data, REQS * PART);
	buf_release(data);
	buf_release(expect);
	free(m);
}

struct one {
	struct disk_req req;
	struct waiter w;
};

static void single_done(struct disk_req *r, int err)
{
	waiter_done(&container_of(r, struct one, req)->w, err);
}

static int perform(struct disk *d, enum disk_op op, uint64_t offset, const struct iovec *iov, unsigned niov,
		   uint64_t len)
{
	struct one o = {
	    .req = {.op = op, .offset = offset, .iov = iov, .niov = niov, .length = len, .done = single_done}};

	waiter_init(&o.w);
	disk_submit(d, &o.req);
	return waiter_wait(&o.w);
}

static void check_refusals(struct disk *d)
{
	struct buf *b = buf_alloc(8192);
	struct iovec iov = {b->data, 8192};

	assert_int_equal(perform(d, DISK_READ, 1, &iov, 1, 8192), -EINVAL);
	assert_int_equal(perform(d, DISK_READ, 0, &iov, 1, 8193), -EINVAL);
	assert_int_equal(perform(d, DISK_READ, 0, &iov, 1, 4096), -EINVAL);
	assert_int_equal(perform(d, DISK_READ, 0, &iov, 1, 0), -EINVAL);
	assert_int_equal(perform(d, DISK_READ, SIZE - 4096, &iov, 1, 8192), -EIO);
	assert_int_equal(perform(d, DISK_READ, UINT64_MAX - 511, &iov, 1, 8192), -EIO);
	buf_release(b);
}

/* Memory that O_DIRECT does not take, and more vectors than one system call takes. */
static void check_odd_memory(struct disk *d)
{
	const unsigned n = 2500;
	struct iovec *iov = xcalloc(n, sizeof(*iov));
	struct buf *b = buf_alloc(n * 512 + 1);
	uint8_t *expect = xmalloc(n * 512);

	fill(expect, n * 512, 77);
	assert_int_equal(disk_write(d, 512, expect, n * 512), 0);
	for (unsigned i = 0; i < n; i++)
		iov[i] = (struct iovec){b->data + 1 + i * 512, 512};
	assert_int_equal(perform(d, DISK_READ, 512, iov, n, n * 512), 0);
	assert_memory_equal(b->data + 1, expect, n * 512);
	free(expect);
	free(iov);
	buf_release(b);
}

static void check_discard(struct disk *d)
{
	uint8_t got[4096], zero[4096] = {0};

	memset(got, 1, sizeof(got));
	assert_int_equal(disk_write(d, 8192, got, sizeof(got)), 0);
	assert_int_equal(perform(d, DISK_DISCARD, 8192, NULL, 0, 4096), 0);
	assert_int_equal(disk_read(d, 8192, got, sizeof(got)), 0);
	assert_memory_equal(got, zero, sizeof(got));
}

static void check_all(struct disk *d)
{
	assert_int_equal(d->size, SIZE);
	check_helpers(d);
	check_many(d);
	check_refusals(d);
	check_odd_memory(d);
	check_discard(d);
	disk_close(d);
}

static void memory_disk_keeps_the_promises(void **state)
{
	check_all(memdisk_create("mem", SIZE));
}

static void fault_disk_without_faults_keeps_the_promises(void **state)
{
	const struct faultdisk_hooks none = {0};

	check_all(faultdisk_create(memdisk_create("mem", SIZE), &none));
}

static void file_on_rings_keeps_the_promises(void **state)
{
	if (!uring_engine()) {
		print_message("skipped: this kernel refuses io_uring\n");
		skip();
	}
	check_all(new_file("rings"));
}

static void file_on_threads_keeps_the_promises(void **state)
{
	file_force_threads(true);
	check_all(new_file("threads"));
	file_force_threads(false);
}

static void file_without_direct_io_keeps_the_promises(void **state)
{
	struct disk *d = new_file("buffered");
	struct filedisk *f = container_of(d, struct filedisk, disk);

	if (f->direct_fd >= 0)
		close(f->direct_fd);
	f->direct_fd = -1;
	check_all(d);
}

static void direct_io_that_refuses_alignment_falls_back(void **state)
{
	struct disk *d = new_file("strict");
	struct filedisk *f = container_of(d, struct filedisk, disk);

	f->direct_align = 1; /* every request is tried on the O_DIRECT descriptor */
	check_all(d);
}

static void read_only_disk_refuses_everything_that_writes(void **state)
{
	static const enum disk_op ops[] = {DISK_WRITE, DISK_FLUSH, DISK_DISCARD};
	struct disk *d;
	struct iovec iov;
	uint8_t b[512];

	disk_close(new_file("ro"));
	d = open_file("ro", DISK_RDONLY);
	iov = (struct iovec){b, sizeof(b)};
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		assert_int_equal(perform(d, ops[i], 0, &iov, 1, 512), -EROFS);
	assert_int_equal(disk_write(d, 0, b, 1), -EROFS);
	assert_int_equal(fcntl(container_of(d, struct filedisk, disk)->fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(disk_read(d, 0, b, sizeof(b)), 0);
	disk_close(d);
}

static void file_that_became_shorter_gives_an_error(void **state)
{
	struct disk *d = new_file("short");
	autofree char *path = path_of("short");
	uint8_t *b = xmalloc(1 << 20);

	assert_int_equal(truncate(path, SIZE / 2 + 100), 0);
	assert_int_equal(disk_read(d, SIZE - 4096, b, 4096), -EIO);
	assert_int_equal(disk_read(d, SIZE / 2 - 4096, b, 8192), -EIO);
	assert_int_equal(disk_read(d, 0, b, 1 << 20), 0);
	free(b);
	disk_close(d);
}

static void open_says_what_is_wrong(void **state)
{
	autofree char *missing = path_of("missing"), *fifo = path_of("fifo"), *odd = path_of("odd");
	struct err e = ERR_INIT;
	struct disk *d;

	assert_int_equal(disk_open(missing, DISK_RDONLY, &d, &e), -ENOENT);
	assert_non_null(strstr(e.text, "missing: does not exist"));
	assert_int_equal(disk_open(dir, DISK_RDONLY, &d, &e), -EINVAL);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(disk_open(fifo, DISK_RDONLY, &d, &e), -EINVAL);
	make_file(odd, 10000);
	assert_int_equal(disk_open(odd, DISK_RDONLY, &d, NULL), 0);
	assert_int_equal(d->size, 9728);
	disk_close(d);
	disk_close(NULL);
}

static int open_writable(const char *name, struct disk **d, struct err *e)
{
	autofree char *path = path_of(name);

	return disk_open(path, DISK_RDWR, d, e);
}

static void a_file_has_one_writer(void **state)
{
	struct disk *d = new_file("claimed"), *reader = open_file("claimed", DISK_RDONLY), *second;
	struct err e = ERR_INIT;
	int status;

	assert_int_equal(open_writable("claimed", &second, &e), -EBUSY);
	assert_non_null(strstr(e.text, "claimed is in use"));
	/* Nor another process. */
	pid_t child = fork();
	if (child == 0)
		_exit(open_writable("claimed", &second, NULL) == -EBUSY ? 17 : 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 17);
	disk_close(reader); /* closing it does not give up the claim */
	assert_int_equal(open_writable("claimed", &second, NULL), -EBUSY);
	disk_close(d);
	assert_int_equal(open_writable("claimed", &second, NULL), 0);
	disk_close(second);
}

static void discarding_gives_a_file_s_space_back(void **state)
{
	struct disk *d = new_file("holes");
	autofree char *path = path_of("holes");
	uint8_t *b = xcalloc(1, SIZE);
	struct stat before, after;

	memset(b, 1, SIZE);
	assert_int_equal(disk_write(d, 0, b, SIZE), 0);
	assert_int_equal(disk_flush(d), 0);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(perform(d, DISK_DISCARD, 1 << 20, NULL, 0, 2 << 20), 0);
	assert_int_equal(stat(path, &after), 0);
	assert_true(before.st_blocks - after.st_blocks >= (2 << 20) / 512);
	assert_int_equal(after.st_size, SIZE);
	disk_close(d);
	free(b);
}

static void a_file_that_grew_shows_it_when_asked(void **state)
{
	struct disk *d = new_file("grown");
	autofree char *path = path_of("grown");
	uint8_t b[512] = {1};

	assert_int_equal(truncate(path, 2 * SIZE + 100), 0);
	assert_int_equal(disk_write(d, SIZE, b, sizeof(b)), -EIO);
	disk_refresh(d);
	assert_int_equal(d->size, 2 * SIZE);
	assert_int_equal(disk_write(d, SIZE, b, sizeof(b)), 0);
	disk_close(d);
}

/* --- block devices, where a loop device can be had --- */

/* -1: it cannot. */
static int loop_attach(const char *file, char *device, size_t size)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), fd, loop = -1;
	int n = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);

	if (control >= 0)
		close(control);
	snprintf(device, size, "/dev/loop%d", n);
	fd = open(file, O_RDWR | O_CLOEXEC);
	if (n >= 0 && fd >= 0)
		loop = open(device, O_RDWR | O_CLOEXEC);
	/* It is gone when the last one closes it, however the test ends. */
	struct loop_config config = {.fd = (unsigned)fd, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
	if (loop >= 0 && ioctl(loop, LOOP_CONFIGURE, &config) != 0) {
		close(loop);
		loop = -1;
	}
	if (fd >= 0)
		close(fd);
	return loop;
}

static void check_block(const char *device)
{
	struct disk *d, *second;
	struct err e = ERR_INIT;
	autofree uint8_t *zeros = xcalloc(1, SIZE);

	assert_int_equal(disk_open(device, DISK_RDWR, &d, &e), 0);
	assert_int_equal(disk_write(d, 0, zeros, SIZE), 0);
	assert_string_equal(d->ops->kind, "block");
	assert_int_equal(disk_open(device, DISK_RDWR, &second, &e), -EBUSY);
	assert_non_null(strstr(e.text, "is in use: another program"));
	assert_int_equal(disk_open(device, DISK_RDONLY, &second, &e), 0);
	disk_close(second);
	check_helpers(d);
	if (d->discards)
		check_discard(d);
	assert_int_equal(disk_flush(d), 0);
	disk_close(d);
}

static void block_devices_keep_the_promises(void **state)
{
	autofree char *path = path_of("loop");
	char device[32];

	make_file(path, SIZE);
	int loop = loop_attach(path, device, sizeof(device));
	if (loop < 0) {
		print_message("skipped: no loop devices here\n");
		skip();
	}
	check_block(device);
	file_force_threads(true);
	check_block(device);
	file_force_threads(false);
	close(loop);
}

static int fail_second_block(void *arg, const struct disk_req *r)
{
	++*(int *)arg;
	return r->op == DISK_READ && r->offset == 4096 ? -ENXIO : 0;
}

static void flip_first_byte(void *arg, struct disk_req *r)
{
	((uint8_t *)r->iov[0].iov_base)[0] ^= 0xff;
}

static void fault_disk_fails_and_corrupts_as_told(void **state)
{
	int asked = 0;
	const struct faultdisk_hooks hooks = {fail_second_block, flip_first_byte, &asked};
	struct disk *d = faultdisk_create(memdisk_create("mem", SIZE), &hooks);
	uint8_t b[512];

	assert_int_equal(disk_read(d, 4096, b, 512), -ENXIO);
	assert_int_equal(disk_read(d, 0, b, 512), 0);
	assert_int_equal(b[0], 0xff);
	assert_int_equal(b[1], 0);
	assert_int_equal(asked, 2);
	disk_close(d);
}

static int setup(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = {"rings", "threads", "buffered", "strict", "ro",    "short",
					    "fifo",  "odd",     "claimed",  "holes",  "grown", "loop"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		autofree char *path = path_of(names[i]);

		unlink(path);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(memory_disk_keeps_the_promises),
	    cmocka_unit_test(fault_disk_without_faults_keeps_the_promises),
	    cmocka_unit_test(file_on_rings_keeps_the_promises),
	    cmocka_unit_test(file_on_threads_keeps_the_promises),
	    cmocka_unit_test(file_without_direct_io_keeps_the_promises),
	    cmocka_unit_test(direct_io_that_refuses_alignment_falls_back),
	    cmocka_unit_test(read_only_disk_refuses_everything_that_writes),
	    cmocka_unit_test(file_that_became_shorter_gives_an_error),
	    cmocka_unit_test(open_says_what_is_wrong),
	    cmocka_unit_test(a_file_has_one_writer),
	    cmocka_unit_test(discarding_gives_a_file_s_space_back),
	    cmocka_unit_test(a_file_that_grew_shows_it_when_asked),
	    cmocka_unit_test(block_devices_keep_the_promises),
	    cmocka_unit_test(fault_disk_fails_and_corrupts_as_told),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
