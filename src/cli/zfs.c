#include "cli/zfs.h"

#define REFUSED(word, usage)                                                                                           \
	{                                                                                                              \
		word, zfs_refuse, usage, "changes a pool: not in this version, which reads pools"                      \
	}

#define MISSING(word, usage)                                                                                           \
	{                                                                                                              \
		word, zfs_missing, usage, "not in this version"                                                        \
	}

const struct cli_command zfs_commands[] = {
    {"list", zfs_list,
     "[-r | -d DEPTH] [-Hp] [-j [--json-int]] [-o PROPERTY[,...]] [-s|-S PROPERTY]... [-t TYPE[,...]] [NAME|PATH]...",
     "list file systems, volumes, snapshots and bookmarks"},
    {"get", zfs_get,
     "[-r | -d DEPTH] [-Hp] [-j [--json-int]] [-o all|FIELD[,...]] [-s SOURCE[,...]] [-t TYPE[,...]] "
     "all|PROPERTY[,...] [NAME|PATH]...",
     "show properties with their sources"},
    {"mount", zfs_mount, "[-j] | [-lvO] [-o OPTIONS] -a | [-lvO] [-o OPTIONS] [-R] FILESYSTEM",
     "list mounted file systems, or mount them at their mountpoints"},
    {"unmount", zfs_unmount, "[-fu] -a | FILESYSTEM|MOUNTPOINT", "unmount file systems"},
    {"umount", zfs_unmount, "[-fu] -a | FILESYSTEM|MOUNTPOINT", "unmount file systems"},
    {"load-key", zfs_load_key, "[-rn] [-L LOCATION] -a | FILESYSTEM|VOLUME", "load the key of encrypted data sets"},
    {"unload-key", zfs_unload_key, "[-r] -a | FILESYSTEM|VOLUME", "forget the key of encrypted data sets"},
    {"userspace", zfs_space, "[-Hinp] [-o FIELD[,...]] [-s|-S FIELD]... [-t TYPE[,...]] FILESYSTEM|SNAPSHOT|PATH",
     "show space and quotas of users"},
    {"groupspace", zfs_space, "[-Hinp] [-o FIELD[,...]] [-s|-S FIELD]... [-t TYPE[,...]] FILESYSTEM|SNAPSHOT|PATH",
     "show space and quotas of groups"},
    {"projectspace", zfs_space, "[-Hp] [-o FIELD[,...]] [-s|-S FIELD]... FILESYSTEM|SNAPSHOT|PATH",
     "show space and quotas of projects"},
    {"holds", zfs_holds, "[-rHp] SNAPSHOT...", "list what holds snapshots"},
    {"diff", zfs_diff, "[-FHth] SNAPSHOT [SNAPSHOT|FILESYSTEM]",
     "show what changed between a snapshot and a later one or now"},
    {"allow", zfs_allow, "FILESYSTEM|VOLUME", "show delegated permissions"},
    {"upgrade", zfs_upgrade, "[-v]", "list file systems of old versions, or all versions"},
    REFUSED("create", "FILESYSTEM"),
    REFUSED("destroy", "NAME"),
    REFUSED("snapshot", "SNAPSHOT..."),
    REFUSED("snap", "SNAPSHOT..."),
    REFUSED("rollback", "SNAPSHOT"),
    REFUSED("clone", "SNAPSHOT NAME"),
    REFUSED("promote", "CLONE"),
    REFUSED("rename", "NAME NAME"),
    REFUSED("bookmark", "SNAPSHOT BOOKMARK"),
    REFUSED("set", "PROPERTY=VALUE... NAME..."),
    REFUSED("inherit", "PROPERTY NAME..."),
    MISSING("send", "SNAPSHOT"),
    REFUSED("receive", "NAME"),
    REFUSED("recv", "NAME"),
    REFUSED("unallow", "NAME"),
    REFUSED("hold", "TAG SNAPSHOT..."),
    REFUSED("release", "TAG SNAPSHOT..."),
    REFUSED("change-key", "NAME"),
    REFUSED("redact", "SNAPSHOT BOOKMARK SNAPSHOT..."),
    REFUSED("rewrite", "PATH..."),
    MISSING("program", "POOL FILE"),
    MISSING("project", "PATH..."),
    MISSING("share", "FILESYSTEM"),
    MISSING("unshare", "FILESYSTEM"),
    MISSING("wait", "FILESYSTEM"),
    {NULL, NULL, NULL, NULL},
};

/* What a command is about stands last, but before the file of `program`. */
static const char *subject(int argc, char **argv)
{
	const char *name = argc < 2 ? NULL : strcmp(argv[0], "program") == 0 ? argv[1] : argv[argc - 1];

	return name && name[0] != '-' && !strchr(name, '=') ? name : NULL;
}

int zfs_refuse(int argc, char **argv)
{
	struct err e = ERR_INIT;

	err_set(&e, -EROFS, "pools are imported read-only; this version of tarn does not write them");
	return cli_fail(argv[0], subject(argc, argv), &e);
}

int zfs_missing(int argc, char **argv)
{
	struct err e = ERR_INIT;

	err_set(&e, -EOPNOTSUPP, "not in this version of tarn");
	return cli_fail(argv[0], subject(argc, argv), &e);
}

int cli_zfs(int argc, char **argv)
{
	return cli_dispatch("zfs", zfs_commands, argc, argv);
}
