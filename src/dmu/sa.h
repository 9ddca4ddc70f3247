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

/*
 * Registry and layouts of an object set; any thread. Both only grow, and each entry remembers the group in which it was
 * added: a file must not use it in an earlier one. Locks, in order: one for who adds to the tables of an object set,
 * taken before its transaction begins; one mutex for who adds to the tables here; one for what is wanted, innermost.
 */
struct sa_os;
/* sa_attrs: the "SA_ATTRS" object of the master node; 0: only legacy znodes. */
int sa_os_open(struct objset *os, uint64_t sa_attrs, struct sa_os **out, struct err *e);
void sa_os_close(struct sa_os *so);
/* One registered attribute (len 0: variable; class of byte order, 2.2), one layout: what sa_os_open does for each entry
 * of the tables. Entries that make no sense are passed over; a layout's second definition too. */
void sa_os_define(struct sa_os *so, unsigned number, const char *name, uint16_t len, uint8_t class);
void sa_os_layout(struct sa_os *so, unsigned long layout, const uint16_t *numbers, size_t n);

/* One object's attributes. It has no lock of its own: who changes it lets nobody else use it meanwhile, and keeps no
 * pointers into it. */
struct sa {
	struct dnode *dn; /* held: attributes point into its bonus */
	uint8_t *bonus;   /* or into this copy, where it may change */
	size_t bonuslen;
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
	uint16_t len;     /* bytes */
};
/*
 * All attributes of an object with a bonus of type DMU_OT_SA, in this order, in place of those it had: bonus, and spill
 * when they do not fit (2.5). -EFBIG: too many bytes; -EINVAL: not an attribute's length, 0 among them;
 * PAD and ZNODE_ACL, which only legacy znodes have.
 *
 * Names and layouts that the tables lack: in syncing context they are added at once (nobody else is at a set that is
 * changed there). In open context nothing is added, nor is anything used that was added in a later group than the
 * transaction's: nothing at all is changed then, and -EAGAIN says to end the transaction, call sa_layouts_add, and
 * begin again.
 */
int sa_store(struct sa_os *so, struct dnode *dn, const struct sa_value *v, size_t n, struct tx *tx);
/* Adds to the tables what was found missing, in a transaction of its own. Open context, blocking, outside of any
 * transaction; any thread. -ENOSPC (also: no layout numbers are left), -EROFS, I/O errors: who asks again may get the
 * same. */
int sa_layouts_add(struct sa_os *so);
/*
 * Some attributes of an opened object get other values, len 0 removes (2.6); `sa` then shows them, from other buffers
 * than before. What keeps its length changes in place; else all is placed anew in its order, in our byte order, with
 * new attributes at the end, but for PROJID, which gets its fixed place (2.7). One thread at a time for an object.
 *
 * After any error nothing is changed. -EAGAIN, -EFBIG, -EINVAL as of sa_store; -EROFS: the set is not written. What
 * keeps a spill block from being read keeps attributes from being placed anew. -ENOTSUP: an attribute that a legacy
 * znode has no place for, of this length (XATTR of 0 is none; see sa_convert); PROJID for a file without the
 * attributes that come before it; foreign attributes of an unknown byte order.
 */
int sa_change(struct sa_os *so, struct sa *sa, const struct sa_value *v, size_t n, struct tx *tx);
/* A legacy znode becomes one with attributes (2.10): all of them, in this order; `sa` then shows them. Rules and errors
 * as of sa_store; -ENOTSUP: the file system has no attributes. */
int sa_convert(struct sa_os *so, struct sa *sa, const struct sa_value *v, size_t n, struct tx *tx);

/* Entries of an ACL from the other byte order to ours (5.2). */
void sa_aces_turn(uint8_t *aces, size_t len);
/* Bytes of one entry (5.1). */
static inline size_t sa_ace_size(uint16_t type, uint16_t flags)
{
	unsigned who = flags & 0x7040;

	if (type >= 5 && type <= 8) /* with GUIDs */
		return 48;
	return type <= 1 && (who == 0x1000 || who == 0x2040 || who == 0x4000) ? 8 : 16;
}

#endif
