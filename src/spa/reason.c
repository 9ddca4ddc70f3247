/*
 * The reasons a pool's status may have, their words, and what to do (docs/format/09-cli.md, 9.9). Where OpenZFS's own
 * words are known from its output they are used; the others are in their manner.
 */
#include "spa/spa_impl.h"

#define LINK "https://openzfs.github.io/openzfs-docs/msg/"

static const struct reason {
	const char *id, *status, *action, *msgid;
} reasons[] = {
    {"resilvering",
     "One or more devices is currently being resilvered.  The pool will continue to function, possibly in a degraded "
     "state.",
     "Wait for the resilver to complete.", NULL},
    {"rebuilding",
     "One or more devices is being rebuilt sequentially, which does not verify checksums.  The pool will continue to "
     "function, possibly in a degraded state.",
     "Wait for the rebuild to complete, then scrub the pool.", NULL},
    {"rebuild-scrub", "A sequential rebuild finished, and no scrub has verified since then what it wrote.",
     "Use 'zpool scrub' to verify all data checksums.", NULL},
    {"hostid-active", "The pool is currently imported by another system.",
     "The pool must be exported from that system before it can be safely imported.", "ZFS-8000-EY"},
    {"hostid-required", "The pool has multihost on, and this system has no host id by which others could know it.",
     "Give the system a host id of its own in /etc/hostid, then import the pool.", "ZFS-8000-EY"},
    {"hostid-mismatch", "The pool was last accessed by another system.",
     "The pool can be imported using its name or numeric identifier and the '-f' flag.", "ZFS-8000-EY"},
    {"version-newer", "The pool is formatted using an incompatible version.",
     "The pool cannot be imported.  Access the pool on a system running newer software.", "ZFS-8000-A5"},
    {"unsup-feat-read", "The pool uses features that this software does not support.",
     "The pool cannot be imported.  Access the pool on a system that supports these features, or restore it from "
     "backup.",
     NULL},
    {"unsup-feat-write", "The pool uses features that this software does not support, but that allow it to be read.",
     "The pool can be imported read-only.  To write it, access it on a system that supports these features.", NULL},
    {"bad-guid-sum", "One or more devices are missing: those that are there do not add up to the pool.",
     "Attach the missing devices and try again.", "ZFS-8000-6X"},
    {"io-failure-wait", "One or more devices are faulted in response to IO failures.",
     "Make sure the affected devices are connected, then run 'zpool clear'.", "ZFS-8000-HC"},
    {"io-failure-continue", "One or more devices are faulted in response to IO failures.",
     "Make sure the affected devices are connected, then run 'zpool clear'.", "ZFS-8000-JQ"},
    {"io-failure-mmp",
     "The pool is suspended because multihost writes failed or were delayed; another system could import the pool "
     "undetected.",
     "Make sure the pool's devices are connected, then reboot your system and import the pool, or run 'zpool clear' "
     "when no other system has it.",
     "ZFS-8000-MM"},
    {"metadata-failure",
     "The pool is suspended because its metadata could not be read or changed as it had to be; nothing is written any "
     "more.",
     "Export the pool with '-f', and import it again; see the log for the cause.", "ZFS-8000-72"},
    {"bad-log", "An intent log device could not be read.",
     "Attach the missing device, or import the pool with '-m' without what is only in the log.", "ZFS-8000-K4"},
    {"missing-dev-nr",
     "One or more devices could not be opened.  There are insufficient replicas for the pool to continue functioning.",
     "Attach the missing device and import the pool again.", "ZFS-8000-3C"},
    {"corrupt-label-nr",
     "One or more devices could not be used because the label is missing or invalid.  There are insufficient replicas "
     "for the pool to continue functioning.",
     "Destroy and re-create the pool from a backup source.", "ZFS-8000-5E"},
    {"corrupt-pool", "The pool metadata is corrupted and the pool cannot be opened.",
     "Try an earlier state of the pool with 'zpool import -F', or restore it from a backup source.", "ZFS-8000-72"},
    {"corrupt-data",
     "One or more devices has experienced an error resulting in data corruption.  Applications may be affected.",
     "Restore the file in question if possible.  Otherwise restore the entire pool from backup.", "ZFS-8000-8A"},
    {"faulted-dev-r",
     "One or more devices are faulted in response to persistent errors.  Sufficient replicas exist for the pool to "
     "continue functioning in a degraded state.",
     "Replace the faulted device, or use 'zpool clear' to mark the device repaired.", NULL},
    {"missing-dev-r",
     "One or more devices could not be opened.  Sufficient replicas exist for the pool to continue functioning in a "
     "degraded state.",
     "Attach the missing device and online it using 'zpool online'.", "ZFS-8000-2Q"},
    {"corrupt-label-r",
     "One or more devices could not be used because the label is missing or invalid.  Sufficient replicas exist for "
     "the pool to continue functioning in a degraded state.",
     "Replace the device using 'zpool replace'.", "ZFS-8000-4J"},
    {"failing-dev",
     "One or more devices has experienced an unrecoverable error.  Applications are unaffected, because what was wrong "
     "was read from another copy.",
     "Determine if the device needs to be replaced, and clear the errors using 'zpool clear' or replace the device "
     "with 'zpool replace'.",
     "ZFS-8000-9P"},
    {"offline-dev",
     "One or more devices has been taken offline by the administrator.  Sufficient replicas exist for the pool to "
     "continue functioning in a degraded state.",
     "Online the device using 'zpool online' or replace the device with 'zpool replace'.", NULL},
    {"removed-dev",
     "One or more devices has been removed by the administrator.  Sufficient replicas exist for the pool to continue "
     "functioning in a degraded state.",
     "Online the device using 'zpool online' or replace the device with 'zpool replace'.", NULL},
    {"non-native-ashift",
     "One or more devices are configured to use a non-native block size.  Expect reduced performance.",
     "Replace affected devices with devices that support the configured block size, or migrate data to a properly "
     "configured pool.",
     NULL},
    {"errata", "The pool was written by software with a known erratum.", "See the message below for what is concerned.",
     "ZFS-8000-ER"},
    {"version-older",
     "The pool is formatted using a legacy on-disk format.  The pool can still be used, but some features are "
     "unavailable.",
     "Upgrade the pool using 'zpool upgrade'.  Once this is done, the pool will no longer be accessible on software "
     "that does not support feature flags.",
     NULL},
    {"compatibility-err",
     "This pool has a compatibility list specified, but it could not be read/parsed at this time. The pool can still "
     "be "
     "used, but this should be investigated.",
     "Check the value of the 'compatibility' property against the appropriate file in /etc/zfs/compatibility.d, "
     "/usr/share/zfs/compatibility.d or Tarn's own.",
     NULL},
    {"incompatible-feat",
     "One or more features are enabled on the pool despite not being requested by the 'compatibility' property.",
     "Consider setting 'compatibility' to an appropriate value, or adding needed features to the relevant file in "
     "/etc/zfs/compatibility.d or /usr/share/zfs/compatibility.d.",
     NULL},
    {"feat-disabled",
     "Some supported and requested features are not enabled on the pool. The pool can still be used, but some features "
     "are unavailable.",
     "Enable all features using 'zpool upgrade'. Once this is done, the pool may no longer be accessible by software "
     "that does not support the features. See zpool-features(7) for details.",
     NULL},
};

void spa_reason_add(struct nvlist *out, const char *reason)
{
	autofree char *link = NULL;

	nvlist_add_string(out, "reason", reason);
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
		const struct reason *r = &reasons[i];

		if (strcmp(r->id, reason) != 0)
			continue;
		nvlist_add_string(out, "status", r->status);
		nvlist_add_string(out, "action", r->action);
		if (r->msgid) {
			link = xasprintf(LINK "%s", r->msgid);
			nvlist_add_string(out, "msgid", r->msgid);
			nvlist_add_string(out, "moreinfo", link);
		}
	}
}
