/*
 * Is a device in use? (docs/format/06-allocation-and-vdevs.md, 11.3.) A label of a pool, or what something else left
 * where it would be overwritten.
 */
#include "base/bytes.h"
#include "disk/partition.h"
#include "spa/layout.h"
#include "spa/search.h"
#include "spa/spa_write.h"

/* Signatures of what is no pool. Offsets in bytes; the numbers are those formats'. */
static const struct signature {
	const char *what;
	uint64_t offset;
	const char *bytes;
	uint8_t len;
} signatures[] = {
    {"an ext2/ext3/ext4 file system", 1080, "\x53\xef", 2},
    {"an XFS file system", 0, "XFSB", 4},
    {"a btrfs file system", 65600, "_BHRfS_M", 8},
    {"an F2FS file system", 1024, "\x10\x20\xf5\xf2", 4},
    {"an NTFS file system", 3, "NTFS    ", 8},
    {"an exFAT file system", 3, "EXFAT   ", 8},
    {"a FAT file system", 54, "FAT1", 4},
    {"a FAT file system", 82, "FAT32", 5},
    {"an ISO 9660 file system", 32769, "CD001", 5},
    {"swap space", 4086, "SWAPSPACE2", 10},
    {"an LVM physical volume", 512 + 24, "LVM2 001", 8},
    {"a LUKS volume", 0, "LUKS\xba\xbe", 6},
    {"a member of an md array", 4096, "\xfc\x4e\x2b\xa9", 4},
    {"a bcache device", 4096 + 24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca", 8},
    {"a partition table", 512, "EFI PART", 8},
};

static const char *signature_find(struct disk *d)
{
	uint8_t found[16];

	for (size_t i = 0; i < ARRAY_LEN(signatures); i++) {
		const struct signature *s = &signatures[i];

		if (disk_read(d, s->offset, found, s->len) == 0 && memcmp(found, s->bytes, s->len) == 0)
			return s->what;
	}
	return NULL;
}

/* What a pool's label says of the device. An imported pool cannot be robbed of it by force. */
static int label_check(const char *path, const struct nvlist *label, bool force, struct err *e)
{
	const char *pool = nvlist_string_or(label, "name", "?");
	uint64_t state = nvlist_u64_or(label, "state", POOL_STATE_ACTIVE), guid = nvlist_u64_or(label, "pool_guid", 0);
	static const char *const words[] = {"active", "exported", "destroyed", "spare", "cache"};

	char owner[DSL_NAME_MAX];

	if (spa_is_imported(guid))
		return err_set(e, -EBUSY, "%s is part of active pool '%s'", path, pool);
	if (state == POOL_STATE_SPARE && spa_spare_owner(nvlist_u64_or(label, "guid", 0), owner))
		return err_set(e, -EBUSY, "%s is reserved as a hot spare for pool '%s'", path, owner);
	if (state == POOL_STATE_DESTROYED || force || state > POOL_STATE_L2CACHE)
		return 0;
	if (state == POOL_STATE_ACTIVE || state == POOL_STATE_EXPORTED)
		err_set(e, -EBUSY, "%s is part of %s pool '%s'", path,
			state == POOL_STATE_ACTIVE ? "potentially active" : words[state], pool);
	else
		err_set(e, -EBUSY, "%s is a %s device of a pool", path, words[state]);
	err_hint(e, "use '-f' to override");
	return -EBUSY;
}

/* Of several labels the one that says most against taking the device. */
static int labels_check(struct disk *d, const char *path, bool force, bool *labelled, struct err *e)
{
	struct label label[VDEV_LABELS];
	int err = 0;

	*labelled = false;
	if (label_read_all(d, label))
		return 0;
	for (unsigned l = 0; l < VDEV_LABELS && !err; l++) {
		const struct nvlist *c = label[l].config;
		uint64_t state;

		if (!c || nvlist_u64(c, "state", &state) || nvlist_u64_or(c, "guid", 0) == 0)
			continue;
		*labelled = true;
		if (state <= POOL_STATE_DESTROYED && nvlist_u64_or(c, "txg", 0) == 0)
			continue; /* was taken out of its pool */
		err = label_check(path, c, force, e);
	}
	label_free_all(label);
	return err;
}

void spa_in_use_explain(const char *path, struct err *e)
{
	struct err own = ERR_INIT;
	struct disk *d;
	bool labelled;

	if (partition_disk_open(path, DISK_RDONLY, &d, NULL))
		return;
	if (labels_check(d, path, true, &labelled, &own))
		err_set(e, own.code, "%s", own.text);
	disk_close(d);
}

int spa_in_use_check(struct disk *d, const char *path, bool force, struct err *e)
{
	bool labelled;
	const char *what;
	int err = labels_check(d, path, force, &labelled, e);

	if (err || labelled || force)
		return err;
	what = signature_find(d);
	if (!what)
		return 0;
	err_set(e, -EBUSY, "%s contains %s", path, what);
	err_hint(e, "use '-f' to override");
	return -EBUSY;
}
