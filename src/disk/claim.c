/*
 * Who may write to a file or device: one opener at a time.
 *
 * Block devices are claimed by O_EXCL, which the kernel refuses when they are mounted, swapped to or claimed by
 * somebody else. Files are locked as a whole; readers do not ask for the lock and are in nobody's way.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/log.h"
#include "disk/file.h"

/* Where the device is mounted; NULL: it is not. */
static char *mounted_on(dev_t dev)
{
	FILE *in = fopen("/proc/self/mountinfo", "re");
	char line[4096], where[1024];
	char *found = NULL;
	unsigned maj, min;

	while (in && !found && fgets(line, sizeof(line), in))
		if (sscanf(line, "%*u %*u %u:%u %*s %1023s", &maj, &min, where) == 3 && makedev(maj, min) == dev)
			found = xstrdup(where);
	if (in)
		fclose(in);
	return found;
}

static bool is_swap(const char *path)
{
	FILE *in = fopen("/proc/swaps", "re");
	char line[4096], name[1024];
	bool found = false;

	while (in && !found && fgets(line, sizeof(line), in))
		found = sscanf(line, "%1023s", name) == 1 && strcmp(name, path) == 0;
	if (in)
		fclose(in);
	return found;
}

int claim_refused(const char *path, dev_t dev, struct err *e)
{
	autofree char *where = mounted_on(dev);
	autofree char *real = realpath(path, NULL);

	if (where)
		return err_set(e, -EBUSY, "%s is in use: mounted on %s", path, where);
	if (is_swap(real ? real : path))
		return err_set(e, -EBUSY, "%s is in use as swap", path);
	return err_set(e, -EBUSY, "%s is in use: another program, or another pool, has claimed it", path);
}

int claim_file(int fd, const char *path, struct err *e)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return err_set(e, -EBUSY, "%s is in use: another program, or another pool, writes to it", path);
	log_warn("%s: cannot be locked against other writers: %s", path, err_words(-errno));
	return 0;
}
