/*
 * dmu/sa_impl.h: what reading and storing of system attributes share.
 */
#ifndef DMU_SA_IMPL_H
#define DMU_SA_IMPL_H

#include <pthread.h>

#include "base/list.h"
#include "dmu/sa.h"

#define SA_MAGIC      0x002F505Au
#define SA_LAYOUTS    1024 /* layout numbers have 10 bits (2.3) */
#define SA_LAYOUT_LEN 1024 /* attributes in one layout: far more than any writer makes */
#define SA_NUMBERS    65536
#define SA_FIXED      16 /* numbers that are the same everywhere (2.2) */
#define SA_UNKNOWN    (-1)
#define SA_NEVER      UINT64_MAX /* a group that does not come */
#define SA_CLASS_ACL  4
#define SA_CLASSES    5

struct sa_reg {
	uint16_t len;
	int16_t attr; /* enum sa_attr, or SA_UNKNOWN */
	uint8_t class;
	bool present; /* set last; what is present does not change */
};

struct sa_layout {
	size_t n;
	uint64_t txg;     /* it was added in this group, or an older one */
	uint16_t *number; /* NULL: no such layout; set last, and never changed */
};

/* A layout that somebody needs. */
struct sa_want {
	struct list_node node;
	size_t n;
	uint16_t number[];
};

/* Tables are read without a lock. */
struct sa_os {
	struct objset *os;
	uint64_t sa_attrs;
	struct sa_reg *reg; /* by attribute number */
	size_t nreg;        /* room for those that may still be added */
	bool settled;       /* opened: the table does not move any more */
	struct sa_layout layout[SA_LAYOUTS];
	unsigned layout_end;       /* above all layouts there are */
	int number[SA_ATTR_COUNT]; /* SA_UNKNOWN: not registered */
	uint64_t registered;       /* the group from which on all names are; SA_NEVER */

	pthread_mutex_t lock;           /* who adds; what follows */
	uint64_t registry, layouts;     /* objects; 0: not there yet */
	unsigned nregistered, nlayouts; /* entries of the two maps */

	pthread_mutex_t want_lock; /* innermost; what follows */
	struct list wanted;
	bool wants_names;
};

struct sa_known {
	const char *name;
	uint16_t len;  /* 0: variable */
	uint8_t class; /* of byte order */
};
extern const struct sa_known sa_known[SA_ATTR_COUNT];

static inline bool sa_layout_exists(const struct sa_layout *l)
{
	return __atomic_load_n(&l->number, __ATOMIC_ACQUIRE) != NULL;
}
/* NULL: nothing is registered under it. */
static inline const struct sa_reg *sa_reg_find(const struct sa_os *so, unsigned number)
{
	const struct sa_reg *r = number < so->nreg ? &so->reg[number] : NULL;

	return r && __atomic_load_n(&r->present, __ATOMIC_ACQUIRE) ? r : NULL;
}
/* Of a buffer whose magic was checked. */
static inline size_t sa_header_size(const uint8_t *p)
{
	return bits64(load16(p + 4, load_host32(p) != SA_MAGIC), 10, 6) * 8;
}
static inline int sa_number(const struct sa_os *so, enum sa_attr a)
{
	return __atomic_load_n(&so->number[a], __ATOMIC_ACQUIRE);
}

/* --- sa.c --- */

/* Reads the tables (again): they only grow. The lock is held. */
int sa_os_refresh(struct sa_os *so, struct err *e);
void sa_reg_set(struct sa_os *so, unsigned number, struct sa_reg r);
void sa_layout_set(struct sa_os *so, unsigned long layout, const uint16_t *numbers, size_t n, uint64_t txg);
/* One attribute of a buffer as it is stored. */
struct sa_item {
	uint16_t number, len;
	uint8_t class;
	bool is_variable;
	bool swap;
	const uint8_t *data;
};
/* Each attribute of one buffer (bonus or spill), in order. */
int sa_buffer_each(const struct sa_os *so, const uint8_t *p, size_t len,
		   void (*visit)(void *arg, const struct sa_item *item), void *arg);
/* What is opened shows other buffers, which it takes over: NULL for none. */
void sa_show(struct sa_os *so, struct sa *sa, uint8_t *bonus, size_t len, struct buf *spill);
/* The bonus of a legacy znode has changed. */
int sa_legacy_show(struct sa *sa);

/* --- sa_layout.c: every name, and a layout, as a file may use them in tx. In open context -EAGAIN when they are not
 * there yet, and sa_layouts_add will see to it. --- */

int sa_names_need(struct sa_os *so, struct tx *tx);
int sa_layout_need(struct sa_os *so, const uint16_t *list, size_t n, struct tx *tx, unsigned *layout);

/* --- sa_write.c --- */

/* What an object is to have, complete before anything is changed. */
struct sa_image {
	uint8_t *bonus;
	size_t len;
	struct buf *spill; /* NULL: none */
};
/* spill_size: of the spill block there is, 0 for none. */
int sa_image_make(struct sa_os *so, struct dnode *dn, const struct sa_item *item, size_t n, size_t spill_size,
		  struct tx *tx, struct sa_image *out);
int sa_image_write(struct dnode *dn, const struct sa_image *im, struct tx *tx);
void sa_image_free(struct sa_image *im);
/* Names are registered. -EINVAL: not of the attribute's length. */
int sa_item_from_value(const struct sa_os *so, const struct sa_value *v, struct sa_item *item);
/* A group younger than the transaction's has changed the object. */
bool sa_is_late(struct dnode *dn, const struct tx *tx);

#endif
