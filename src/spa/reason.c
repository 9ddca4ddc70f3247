/*
 * The reasons a pool's status may have, their words, and what to do (docs/format/09-cli.md, 9.9). The words are ours.
 */
#include "spa/spa_impl.h"

#define LINK "https://openzfs.github.io/openzfs-docs/msg/"

static const struct reason {
	const char *id, *status, *action, *msgid;
} reasons[] = {
    {"resilvering", "One or more devices is currently being resilvered. The pool works, possibly degraded.",
     "Wait for the resilver to complete.", NULL},
    {"rebuilding", "One or more devices is being rebuilt sequentially, without verifying checksums.",
     "Wait for the rebuild to complete, then scrub the pool.", NULL},
    {"rebuild-scrub", "A sequential rebuild finished; its data has not been verified by a scrub.",
     "Scrub the pool where it can be written.", NULL},
    {"hostid-active", "The pool is in use on another system.",
     "Export it there first. It cannot be imported safely while it is in use.", "ZFS-8000-EY"},
    {"hostid-mismatch", "The pool was last used by another system.",
     "Make sure that it is not in use there, then import it with -f.", "ZFS-8000-EY"},
    {"version-newer", "The pool has a version that is not supported.", "Access it with newer software.", "ZFS-8000-A5"},
    {"unsup-feat-read", "The pool uses features that are not supported.", "Access it with newer software.", NULL},
    {"unsup-feat-write", "The pool uses features that allow it to be read, not written.",
     "Nothing needs to be done for reading.", NULL},
    {"bad-guid-sum", "Devices are missing: those that are there do not add up to the pool.",
     "Attach the missing devices and import again.", "ZFS-8000-6X"},
    {"io-failure", "The pool cannot be read any more.", "Make sure that its devices are there, then import it again.",
     "ZFS-8000-HC"},
    {"bad-log", "An intent log device cannot be read.",
     "Attach the device, or import with -m and lose what was only in the log.", "ZFS-8000-K4"},
    {"missing-dev-nr", "Devices are missing and there is not enough redundancy to do without them.",
     "Attach the missing devices and import again.", "ZFS-8000-3C"},
    {"corrupt-label-nr", "Devices have no valid label and there is not enough redundancy to do without them.",
     "Restore the devices or the pool from a backup.", "ZFS-8000-5E"},
    {"corrupt-pool", "The pool's metadata is damaged and it cannot be opened.",
     "Try an earlier state with -F, or restore the pool from a backup.", "ZFS-8000-72"},
    {"corrupt-data", "One or more blocks are damaged; what they hold is lost.",
     "Restore the files concerned from a backup. -v lists them.", "ZFS-8000-8A"},
    {"faulted-dev-r", "A device was taken out of use. There is enough redundancy to do without it.",
     "Replace the device.", NULL},
    {"missing-dev-r", "A device could not be opened. There is enough redundancy to do without it.",
     "Attach the missing device.", "ZFS-8000-2Q"},
    {"corrupt-label-r", "A device has no valid label. There is enough redundancy to do without it.",
     "Replace the device.", "ZFS-8000-4J"},
    {"failing-dev", "A device had errors that could not be helped, or were corrected from redundancy.",
     "Decide whether the device needs to be replaced.", "ZFS-8000-9P"},
    {"offline-dev", "A device was taken offline by the administrator. There is enough redundancy.",
     "Bring the device online or replace it.", NULL},
    {"removed-dev", "A device was removed. There is enough redundancy.", "Bring the device back or replace it.", NULL},
    {"errata", "The pool was written by software with a known error.", "See the message for what is concerned.",
     "ZFS-8000-ER"},
    {"version-older", "The pool has an old version; some features are not available.",
     "Upgrade it where it can be written, when no older software needs to read it any more.", NULL},
    {"feat-disabled", "Some supported features are not enabled on the pool.",
     "Enable them where the pool can be written, when no older software needs to read it any more.", NULL},
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
