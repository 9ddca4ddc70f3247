/*
 * dmu/sa.h: system attributes (docs/format/07-filesystem-zvol-zil.md, section 2): registry, layouts, and the attributes
 * of one object from bonus and spill; legacy znodes (2.9) answer through the same calls. Reading and storing.
 */
#ifndef DMU_SA_H
#define DMU_SA_H

#include "dmu/zap.h"

enum sa_attr { /* Tarn's own fixed numbers; names map through the registry (2.2) */
	       SA_ATIME,
	       SA_MTIME,
	       SA_CTIME,
	       SA_CRTIME,
	       SA_GEN,
	       SA_MODE,
	       SA_SIZE,
	       SA_PARENT,
	       SA_LINKS,
	       SA_XATTR,
	       SA_RDEV,
	       SA_FLAGS,
	       SA_UID,
	       SA_GID,
	       SA_PAD,
	       SA_ZNODE_ACL,
	       SA_DACL_COUNT,
	       SA_SYMLINK,
	       SA_SCANSTAMP,
	       SA_DACL_ACES,
	       SA_DXATTR,
	       SA_PROJID,
	       SA_ATTR_COUNT
};

/* Registry and layouts of an object set; any thread. Both only grow. Lock: one mutex for who adds to them. */
struct sa_os;
/* sa_attrs: the "SA_ATTRS" object of the master node; 0: only legacy znodes. */
int sa_os_open(struct objset *os, uint64_t sa_attrs, struct sa_os **out, struct err *e);
void sa_os_close(struct sa_os *so);
/* One registered attribute (len 0: variable), one layout: what sa_os_open does for each entry of the tables. Entries
 * that make no sense are passed over; a layout's second definition too. */
void sa_os_define(struct sa_os *so, unsigned number, const char *name, uint16_t len);
void sa_os_layout(struct sa_os *so, unsigned long layout, const uint16_t *numbers, size_t n);

struct sa {
	struct dnode *dn;  /* held: attributes point into its bonus */
	uint8_t *bonus;    /* or into this copy, where it may change */
	struct buf *spill; /* NULL or held */
	int spill_err;     /* the spill block could not be read: absent attributes answer with this */
	bool is_legacy;    /* a bonus of type 17 (2.9) */
	struct {
		const uint8_t *data; /* NULL: absent */
		uint32_t len;
		bool swap; /* bytes are in the other order */
	} attr[SA_ATTR_COUNT];
};
/* -EINVAL: the object has no attributes; -EIO: damaged ones. A damaged spill block alone is told in spill_err. */
int sa_open(struct sa_os *so, struct dnode *dn, struct sa *out);
void sa_close(struct sa *sa);
int sa_u64(const struct sa *sa, enum sa_attr a, uint64_t *v);    /* -ENOENT, or spill_err */
int sa_time(const struct sa *sa, enum sa_attr a, int64_t tv[2]); /* seconds, nanoseconds */
/* Bytes as stored. */
int sa_bytes(const struct sa *sa, enum sa_attr a, const uint8_t **data, uint32_t *len);

/* --- storing; inside a transaction or in syncing context; may wait for devices --- */

/* An empty master node (2.1). */
int sa_create(struct objset *os, struct tx *tx, uint64_t *sa_attrs);
struct sa_value {
	enum sa_attr attr;
	const void *data; /* as stored, host order */
	uint16_t len;     /* bytes, above 0 */
};
/*
 * All attributes of an object with a bonus of type DMU_OT_SA, in this order, in place of those it had: bonus, and spill
 * when they do not fit (2.5). Registers what is missing. -EFBIG: too many bytes.
 *
 * A layout goes with the group of whoever needs it first: transactions that may need new layouts come in the order of
 * their groups, one at a time for an object set, however many struct sa_os there are for it.
 */
int sa_store(struct sa_os *so, struct dnode *dn, const struct sa_value *v, size_t n, struct tx *tx);
/* Other contents of the same lengths in place. What was opened shows the old ones still: close it. -ENOENT, -EINVAL:
 * not there, or another length: nothing of the rest is changed. */
int sa_update(struct sa *sa, const struct sa_value *v, size_t n, struct tx *tx);

#endif
