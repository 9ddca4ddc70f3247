#include "cli/zfs.h"

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
    {"allow", zfs_allow,
     "NAME | [-ldug] WHO[,...] PERMISSION[,...] NAME | [-ld] -e PERMISSION[,...] NAME | -c PERMISSION[,...] NAME | -s "
     "@SET PERMISSION[,...] NAME",
     "show delegated permissions, or give some"},
    {"upgrade", zfs_upgrade, "[-v] | [-V VERSION] -a | [-r] [-V VERSION] FILESYSTEM...",
     "list file systems of old versions, or upgrade them"},
    {"create", zfs_create,
     "[-Pnpuv] [-o PROPERTY=VALUE]... FILESYSTEM | [-Pnpsv] [-b BLOCKSIZE] [-o PROPERTY=VALUE]... -V SIZE VOLUME",
     "make a file system or volume"},
    {"destroy", zfs_destroy,
     "[-fnpRrv] FILESYSTEM|VOLUME | [-dnpRrv] FILESYSTEM|VOLUME@SNAP[%SNAP][,...] | FILESYSTEM|VOLUME#BOOKMARK",
     "destroy data sets, snapshots or a bookmark"},
    {"snapshot", zfs_snapshot, "[-r] [-o PROPERTY=VALUE]... FILESYSTEM@SNAP|VOLUME@SNAP...",
     "take snapshots, all at the same moment"},
    {"snap", zfs_snapshot, "[-r] [-o PROPERTY=VALUE]... FILESYSTEM@SNAP|VOLUME@SNAP...",
     "take snapshots, all at the same moment"},
    {"rollback", zfs_rollback, "[-rRf] SNAPSHOT", "make a data set what it was at a snapshot"},
    {"clone", zfs_clone, "[-pu] [-o PROPERTY=VALUE]... SNAPSHOT FILESYSTEM|VOLUME", "make a data set from a snapshot"},
    {"promote", zfs_promote, "CLONE", "make a clone independent of its origin"},
    {"rename", zfs_rename, "[-fpu] FILESYSTEM|VOLUME NAME | [-r] SNAPSHOT SNAPSHOT",
     "give data sets or snapshots another name"},
    {"bookmark", zfs_bookmark, "SNAPSHOT|BOOKMARK NEWBOOKMARK", "keep the moment of a snapshot without its data"},
    {"set", zfs_set, "[-u] PROPERTY=VALUE... NAME...", "set properties"},
    {"inherit", zfs_inherit, "[-rS] PROPERTY NAME...", "clear a property: it is inherited or default again"},
    MISSING("send", "SNAPSHOT"),
    MISSING("receive", "NAME"),
    MISSING("recv", "NAME"),
    {"unallow", zfs_unallow,
     "[-rldug] WHO[,...] [PERMISSION[,...]] NAME | [-rlde] [PERMISSION[,...]] NAME | [-r] -c [PERMISSION[,...]] NAME | "
     "[-r] -s @SET [PERMISSION[,...]] NAME",
     "take delegated permissions away"},
    {"hold", zfs_hold, "[-r] TAG SNAPSHOT...", "keep snapshots from being destroyed"},
    {"release", zfs_release, "[-r] TAG SNAPSHOT...", "take holds off snapshots"},
    MISSING("change-key", "NAME"),
    MISSING("redact", "SNAPSHOT BOOKMARK SNAPSHOT..."),
    MISSING("rewrite", "PATH..."),
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
