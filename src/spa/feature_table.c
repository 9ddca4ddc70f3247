/*
 * The feature flags Tarn knows (docs/format/01-pool.md, 6.3).
 */
#include "spa/spa_impl.h"

#define R 1u  /* read-only compatible */
#define M 2u  /* must be known to read the MOS */
#define D 4u  /* per data set */
#define N 8u  /* not enabled by an upgrade */
#define A 16u /* active as soon as it is enabled */
#define F(guid, name, flags, depends, desc)                                                                            \
	{                                                                                                              \
		guid ":" name, name, desc, depends, ((flags)&R) != 0, ((flags)&M) != 0, ((flags)&D) != 0,              \
		    ((flags)&N) != 0, ((flags)&A) != 0                                                                 \
	}

/* In the order of 6.3, which is also the order in which properties are listed. */
const struct spa_feature spa_feature_table[] = {
    F("com.delphix", "async_destroy", R, "", "Destroy filesystems asynchronously."),
    F("com.delphix", "empty_bpobj", R, "", "Snapshots use less space."),
    F("org.illumos", "lz4_compress", A, "", "LZ4 compression algorithm support."),
    F("com.joyent", "multi_vdev_crash_dump", 0, "", "Crash dumps to multiple vdev pools."),
    F("com.delphix", "spacemap_histogram", R, "", "Spacemaps maintain space histograms."),
    F("com.delphix", "enabled_txg", R, "", "Record txg at which a feature is enabled."),
    F("com.delphix", "hole_birth", M | A, "enabled_txg", "Retain hole birth txg for more precise zfs send."),
    F("com.delphix", "extensible_dataset", 0, "", "Enhanced dataset functionality, used by other features."),
    F("com.delphix", "embedded_data", M | A, "", "Blocks which compress very well use even less space."),
    F("com.delphix", "bookmarks", R, "extensible_dataset", "\"zfs bookmark\" command."),
    F("com.joyent", "filesystem_limits", R, "extensible_dataset", "Filesystem and snapshot limits."),
    F("org.open-zfs", "large_blocks", D, "extensible_dataset", "Support for blocks larger than 128KB."),
    F("org.zfsonlinux", "large_dnode", D, "extensible_dataset", "Variable on-disk size of dnodes."),
    F("org.illumos", "sha512", D, "extensible_dataset", "SHA-512/256 hash algorithm."),
    F("org.illumos", "skein", D, "extensible_dataset", "Skein hash algorithm."),
    F("org.illumos", "edonr", D, "extensible_dataset", "Edon-R hash algorithm."),
    F("org.zfsonlinux", "userobj_accounting", R | D, "extensible_dataset", "User/Group object accounting."),
    F("com.datto", "encryption", D, "extensible_dataset bookmark_v2", "Support for dataset level encryption."),
    F("org.zfsonlinux", "project_quota", R | D, "extensible_dataset", "Space and object accounting by project."),
    F("com.delphix", "device_removal", M, "", "Top-level vdevs can be removed, reducing logical pool size."),
    F("com.delphix", "obsolete_counts", R, "extensible_dataset device_removal",
      "Reduce memory used by removed devices."),
    F("com.delphix", "zpool_checkpoint", R, "", "Pool state can be checkpointed, allowing rewind later."),
    F("com.delphix", "spacemap_v2", R | A, "", "Space maps for large segments."),
    F("org.zfsonlinux", "allocation_classes", R, "", "Support for separate allocation classes."),
    F("com.datto", "resilver_defer", R, "", "Support for deferring new resilvers."),
    F("com.datto", "bookmark_v2", 0, "extensible_dataset bookmarks", "Support for larger bookmarks."),
    F("com.delphix", "redaction_bookmarks", 0, "bookmark_v2 extensible_dataset bookmarks",
      "Support for bookmarks which store redaction lists."),
    F("com.delphix", "redacted_datasets", D, "extensible_dataset", "Support for redacted datasets."),
    F("com.delphix", "bookmark_written", 0, "bookmark_v2 extensible_dataset bookmarks",
      "Bookmarks which know the space written since."),
    F("com.delphix", "log_spacemap", R, "spacemap_v2",
      "Log metaslab changes on a single spacemap and flush them periodically."),
    F("com.delphix", "livelist", R, "extensible_dataset", "Improved clone deletion performance."),
    F("org.openzfs", "device_rebuild", R, "", "Support for sequential device rebuilds."),
    F("org.freebsd", "zstd_compress", D, "extensible_dataset", "zstd compression algorithm support."),
    F("org.openzfs", "draid", M, "", "Support for distributed spare RAID."),
    F("org.openzfs", "zilsaxattr", R | D, "extensible_dataset",
      "Support for xattr=sa extended attribute logging in ZIL."),
    F("com.delphix", "head_errlog", A, "", "Support for per-dataset on-disk error logs."),
    F("org.openzfs", "blake3", D, "extensible_dataset", "BLAKE3 hash algorithm."),
    F("com.fudosecurity", "block_cloning", R, "", "Support for block cloning via Block Reference Table."),
    F("com.klarasystems", "vdev_zaps_v2", M, "", "Support for root vdev ZAP."),
    F("com.delphix", "redaction_list_spill", 0, "redaction_bookmarks",
      "Support for increased number of redaction snapshot arguments."),
    F("org.openzfs", "raidz_expansion", M, "", "Support for raidz expansion."),
    F("com.klarasystems", "fast_dedup", R, "", "Support for advanced deduplication."),
    F("org.zfsonlinux", "longname", D, "extensible_dataset", "Support for file names of up to 1023 bytes."),
    F("com.klarasystems", "large_microzap", R | D, "extensible_dataset large_blocks",
      "Support for microzaps larger than 128KB."),
    F("com.klarasystems", "dynamic_gang_header", M | N, "", "Support for dynamically sized gang headers."),
    F("com.truenas", "block_cloning_endian", R, "", "Block reference tables of either byte order."),
    F("com.truenas", "physical_rewrite", R | D, "extensible_dataset",
      "Support for rewriting blocks in place of the logical birth."),
    F("com.seagate", "draid_failure_domains", M | N, "draid", "Support for failure domains in dRAID."),
};
const size_t spa_feature_table_len = ARRAY_LEN(spa_feature_table);

const struct spa_feature *spa_feature_find(const char *guid)
{
	for (size_t i = 0; i < spa_feature_table_len; i++)
		if (strcmp(spa_feature_table[i].guid, guid) == 0)
			return &spa_feature_table[i];
	return NULL;
}

const char *spa_features_unknown_in(const struct nvlist *label_features)
{
	for (const struct nvpair *p = nvlist_first(label_features); p; p = nvlist_next(label_features, p))
		if (!spa_feature_find(nvpair_name(p)))
			return nvpair_name(p);
	return NULL;
}
