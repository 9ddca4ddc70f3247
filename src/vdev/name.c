/*
 * name.c: the names and states of devices as zpool status prints them.
 */
#include "base/str.h"
#include "vdev/vdev_impl.h"

const char *vdev_state_name(const struct vdev *vd)
{
	enum vdev_state state = vd->state;

	switch (state) {
	case VDEV_STATE_CLOSED:
	case VDEV_STATE_OFFLINE:
		return "OFFLINE";
	case VDEV_STATE_REMOVED:
		return "REMOVED";
	case VDEV_STATE_CANT_OPEN:
		if (vd->aux == VDEV_AUX_CORRUPT_DATA || vd->aux == VDEV_AUX_BAD_LOG)
			return "FAULTED";
		return vd->aux == VDEV_AUX_SPLIT_POOL ? "SPLIT" : "UNAVAIL";
	case VDEV_STATE_FAULTED:
		return "FAULTED";
	case VDEV_STATE_DEGRADED:
		return "DEGRADED";
	case VDEV_STATE_HEALTHY:
		return "ONLINE";
	default:
		return "UNKNOWN";
	}
}

static bool is_digits(const char *s)
{
	return *s != '\0' && strspn(s, "0123456789") == strlen(s);
}

/* A whole disk is labelled in its first partition, but called by the disk's name: sda1, nvme0n1p1, by-id/x-part1. */
static void strip_partition(char *name)
{
	char *part = strstr(name, "-part");
	size_t len = strlen(name);

	if (part && part != name && is_digits(part + 5)) {
		*part = '\0';
		return;
	}
	size_t digits = len;
	while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	if (digits == len || digits == 0)
		return;
	char before = name[digits - 1];
	if (before == 'p' && digits >= 2 && name[digits - 2] >= '0' && name[digits - 2] <= '9')
		name[digits - 1] = '\0';
	else if ((strncmp(name, "sd", 2) == 0 || strncmp(name, "hd", 2) == 0 || strncmp(name, "vd", 2) == 0 ||
		  strncmp(name, "xvd", 3) == 0) &&
		 !strchr(name, '/'))
		name[digits] = '\0';
}

/* Directories in which device names are looked for, and which names are therefore given without. */
static const char *strip_device_dir(const char *path)
{
	static const char *const dirs[] = {
	    "/dev/disk/by-vdev/",     "/dev/mapper/",        "/dev/disk/by-partlabel/",
	    "/dev/disk/by-partuuid/", "/dev/disk/by-label/", "/dev/disk/by-uuid/",
	    "/dev/disk/by-id/",       "/dev/disk/by-path/",  "/dev/",
	};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (strncmp(path, dirs[i], strlen(dirs[i])) == 0 && path[strlen(dirs[i])] != '\0')
			return path + strlen(dirs[i]);
	return path;
}

static char *leaf_name(const struct vdev *vd, unsigned flags)
{
	const char *path = vd->path;
	autofree char *real = flags & VDEV_NAME_FOLLOW ? realpath(path, NULL) : NULL;

	if (real)
		path = real;
	if (flags & VDEV_NAME_PATH || vd->kind != VDEV_DISK)
		return xstrdup(path);
	char *name = xstrdup(strip_device_dir(path));
	if (nvlist_u64_or(vd->config, "whole_disk", 0) != 0)
		strip_partition(name);
	return name;
}

static char *draid_name(const struct vdev *vd)
{
	struct str s = {0};
	uint64_t width = nvlist_u64_or(vd->config, "draid_nchildren", vd->nchildren);

	str_addf(&s, "draid%llu:%llud:%lluc", (unsigned long long)vd->nparity,
		 (unsigned long long)nvlist_u64_or(vd->config, "draid_ndata", 0), (unsigned long long)width);
	if (width != vd->nchildren)
		str_addf(&s, ":%uw", vd->nchildren);
	str_addf(&s, ":%llus-%llu", (unsigned long long)nvlist_u64_or(vd->config, "draid_nspares", 0),
		 (unsigned long long)vd->id);
	return s.s;
}

char *vdev_name(const struct vdev *vd, unsigned flags)
{
	if (vd->kind == VDEV_ROOT)
		return xstrdup("root");
	if (flags & VDEV_NAME_GUID || (vdev_is_leaf(vd) && !vd->path))
		return xasprintf("%llu", (unsigned long long)vd->guid);
	if (vdev_is_leaf(vd)) /* what is not there goes by its number; its path is shown as `was` */
		return vd->was_path ? xasprintf("%llu", (unsigned long long)vd->guid) : leaf_name(vd, flags);
	if (vd->kind == VDEV_RAIDZ)
		return xasprintf("raidz%llu-%llu", (unsigned long long)vd->nparity, (unsigned long long)vd->id);
	if (vd->kind == VDEV_DRAID)
		return draid_name(vd);
	return xasprintf("%s-%llu", vd->ops->type, (unsigned long long)vd->id);
}
