/*
 * zpl/zpl_diff.c: what changed between two states of a file system.
 *
 * The trees of dnode blocks are walked side by side. Where both have the same pointer everything below is the same and
 * is not read; where blocks differ the objects in them are compared one by one. An object is the same node in both when
 * number and generation agree; its path says whether it was renamed. What counts as which kind of change is as observed
 * of the real one (docs/format/09-cli.md, 9.5).
 */
#include "zpl/zpl_impl.h"

#define DNODE_SHIFT      9
#define DIFF_LEVELS_MAX  16
#define DIFF_BLKPTRS_MAX 3

struct diff {
	struct zpl *from, *to;
	struct dnode *a, *b; /* their meta-dnodes */
	unsigned ptrs_shift; /* log2 of pointers in an indirect block */
	unsigned per_block;  /* dnode slots in a block */
	int (*fn)(void *arg, const struct zpl_change *c);
	void *arg;
	struct err *e;
};

/* The pointer of one meta-dnode block; *known false: the tree does not reach this level, so nothing can be said. */
static int diff_pointer(struct dnode *dn, unsigned level, uint64_t blkid, struct bp *bp, bool *known)
{
	memset(bp, 0, sizeof(*bp));
	*known = true;
	if (level >= dn->nlevels) {
		*known = blkid != 0; /* blocks beside the first are beyond the end: holes */
		return 0;
	}
	return dmu_block_pointer(dn, level, blkid, bp);
}

static char diff_file_type(const struct znode *zn)
{
	switch (zn->mode & S_IFMT) {
	case S_IFBLK:
		return 'B';
	case S_IFCHR:
		return 'C';
	case S_IFDIR:
		return '/';
	case S_IFIFO:
		return '|';
	case S_IFLNK:
		return '@';
	case S_IFSOCK:
		return '=';
	default:
		return 'F';
	}
}

static int diff_report(struct diff *d, char kind, struct zpl *z, const struct znode *zn)
{
	autofree char *path = NULL;
	int rc = zpl_object_path(z, zn->id, &path);
	struct zpl_change c = {.kind = kind, .type = diff_file_type(zn), .path = path, .ctime = zn->ctime};

	return rc ? rc : d->fn(d->arg, &c);
}

static bool diff_is_modified(const struct znode *a, const struct znode *b)
{
	return a->ctime.tv_sec != b->ctime.tv_sec || a->ctime.tv_nsec != b->ctime.tv_nsec || a->links != b->links ||
	       a->size != b->size || a->mode != b->mode;
}

/* The same node in both states: renamed, modified, or with more or fewer names. */
static int diff_same_node(struct diff *d, const struct znode *a, const struct znode *b)
{
	autofree char *was = NULL, *is = NULL;
	struct zpl_change c = {.kind = 'M', .type = diff_file_type(b), .ctime = b->ctime};
	bool was_known, is_known;
	int rc;

	if (!diff_is_modified(a, b))
		return 0;
	rc = zpl_object_path_known(d->from, a->id, &was, &was_known);
	if (!rc)
		rc = zpl_object_path_known(d->to, b->id, &is, &is_known);
	if (rc)
		return rc;
	c.link_delta = ZPL_IS_DIR(b) ? 0 : (int64_t)(b->links - a->links);
	c.path = was_known && (c.link_delta >= 0 || !is_known) ? was : is;
	if (was_known && !is_known)
		c.ctime = a->ctime;
	if (c.link_delta == 0 && was_known && is_known && strcmp(was, is) != 0) {
		c.kind = 'R';
		c.new_path = is;
	}
	return d->fn(d->arg, &c);
}

/* A node that a path leads to. *zn NULL: there is none, or it is unlinked. */
static int diff_node_hold(struct zpl *z, uint64_t id, struct znode **zn)
{
	int rc = znode_hold(z, id, zn, NULL);

	if (rc == -ENOENT || rc == -EINVAL) {
		*zn = NULL;
		return 0;
	}
	if (rc)
		return rc;
	if ((*zn)->links == 0) {
		znode_release(*zn);
		*zn = NULL;
	}
	return 0;
}

static int diff_object(struct diff *d, uint64_t id)
{
	autoznode struct znode *a = NULL, *b = NULL;
	int rc = diff_node_hold(d->from, id, &a);

	if (!rc)
		rc = diff_node_hold(d->to, id, &b);
	if (rc)
		return err_set(d->e, rc, "object %llu: %s", (unsigned long long)id, err_words(rc));
	if (a && b && a->gen == b->gen)
		return diff_same_node(d, a, b);
	if (a)
		rc = diff_report(d, '-', d->from, a);
	if (!rc && b)
		rc = diff_report(d, '+', d->to, b);
	return rc;
}

static int diff_dnode_block(struct diff *d, uint64_t blkid)
{
	uint64_t first = blkid * d->per_block;

	for (unsigned i = 0; i < d->per_block; i++) {
		int rc = first + i ? diff_object(d, first + i) : 0;

		if (rc)
			return rc;
	}
	return 0;
}

static int diff_block(struct diff *d, unsigned level, uint64_t blkid)
{
	bool known_a, known_b;
	struct bp a, b;
	int rc = diff_pointer(d->a, level, blkid, &a, &known_a);

	if (!rc)
		rc = diff_pointer(d->b, level, blkid, &b, &known_b);
	if (rc)
		return err_set(d->e, rc, "table of objects: %s", err_words(rc));
	if (known_a && known_b && ((bp_is_hole(&a) && bp_is_hole(&b)) || memcmp(&a, &b, sizeof(a)) == 0))
		return 0;
	if (level == 0)
		return diff_dnode_block(d, blkid);
	for (uint64_t i = 0; i < UINT64_C(1) << d->ptrs_shift && !rc; i++)
		rc = diff_block(d, level - 1, (blkid << d->ptrs_shift) + i);
	return rc;
}

static int diff_run(struct diff *d)
{
	unsigned top = MAX(d->a->nlevels, d->b->nlevels);
	int rc = 0;

	if (d->a->datablksz != d->b->datablksz || d->a->indblkshift != d->b->indblkshift || top == 0 ||
	    top > DIFF_LEVELS_MAX || d->a->indblkshift < 10 || d->a->indblkshift > 24 || d->a->datablksz < 512)
		return err_set(d->e, -EINVAL, "their tables of objects have nothing in common");
	d->ptrs_shift = d->a->indblkshift - 7;
	d->per_block = d->a->datablksz >> DNODE_SHIFT;
	if (d->ptrs_shift * top >= 64)
		return err_set(d->e, -EINVAL, "the table of objects is damaged");
	for (uint64_t i = 0; i < DIFF_BLKPTRS_MAX && !rc; i++)
		rc = diff_block(d, top - 1, i);
	return rc;
}

int zpl_diff(struct zpl *from, struct zpl *to, int (*fn)(void *arg, const struct zpl_change *c), void *arg,
	     struct err *e)
{
	struct diff d = {.from = from, .to = to, .fn = fn, .arg = arg, .e = e};

	d.a = from->os->meta;
	d.b = to->os->meta;
	return diff_run(&d);
}
