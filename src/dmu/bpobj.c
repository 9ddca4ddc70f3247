#include "base/rangetree.h"
#include "dmu/bpobj_impl.h"

/*
 * Sub-object lists come from the disk: an object that is met twice (a loop, or a lattice made to blow up the walk) is
 * damage. Objects on the way down are kept on an explicit stack, since real lists nest deep.
 */

/* --- arrays of fixed-size entries in an object's data --- */

bool bpobj_array_fits(const struct dnode *dn, uint64_t count, size_t entry_size)
{
	uint64_t bytes, blocks;

	/* maxblkid + 1 may wrap; no object is that large */
	return !__builtin_mul_overflow(count, entry_size, &bytes) &&
	       !__builtin_add_overflow(dn->maxblkid, 1, &blocks) &&
	       (count == 0 || (bytes - 1) / dn->datablksz < blocks);
}

/* --- bpobj --- */

int bpobj_phys_decode(struct dnode *dn, struct bpobj_phys *out)
{
	uint64_t w[BPOBJ_WORDS];
	size_t n;

	if (dn->type != DMU_OT_BPOBJ)
		return -EINVAL;
	n = dmu_bonus_words(dn, w, BPOBJ_WORDS);
	if (n < 2)
		return -EINVAL;
	*out = (struct bpobj_phys){
	    .num_blkptrs = w[0], .bytes = w[1], .has_comp = n >= 4, .has_subobjs = n >= 6, .has_freed = n >= 7};
	if (out->has_comp) {
		out->comp = w[2];
		out->uncomp = w[3];
	}
	if (out->has_subobjs) {
		out->subobjs = w[4];
		out->num_subobjs = w[5];
	}
	if (out->has_freed)
		out->num_freed = w[6];
	return bpobj_array_fits(dn, out->num_blkptrs, BP_SIZE) ? 0 : -EINVAL;
}

int bpobj_read(struct objset *mos, uint64_t object, struct bpobj_phys *out)
{
	struct dnode *dn;
	int err = dnode_hold(mos, object, &dn, NULL);

	if (err)
		return err;
	err = bpobj_phys_decode(dn, out);
	dnode_release(dn);
	return err;
}

/* One object on the way down: its own pointers are done, sub-objects below next_sub remain. */
struct frame {
	struct dnode *subobjs; /* NULL: none */
	uint64_t next_sub;
};

struct walk {
	struct objset *mos;
	bpobj_fn fn;
	void *arg;
	uint8_t *chunk; /* BPOBJ_CHUNK */
	struct frame *stack;
	size_t depth, stack_cap;
	struct rangetree seen; /* object numbers */
};

int bpobj_entry_decode(const uint8_t *p, bool swap, struct bp *bp, bool *freed)
{
	bp_decode(bp, p, swap);
	if (bp_is_hole(bp) || bp_check(bp))
		return -EINVAL;
	*freed = !bp_is_embedded(bp) && bp->w[BPOBJ_FILL_WORD] & BPOBJ_FREED;
	if (*freed)
		bp->w[BPOBJ_FILL_WORD] &= ~(uint64_t)BPOBJ_FREED;
	return 0;
}

static int entry_visit(struct walk *w, const uint8_t *p, bool swap)
{
	struct bp bp;
	bool freed;
	int err = bpobj_entry_decode(p, swap, &bp, &freed);

	return err ? err : w->fn(w->arg, &bp, freed);
}

int bpobj_entries_read(struct dnode *dn, uint64_t first, uint64_t n, uint8_t *out, bool *swap)
{
	int err = dmu_block_is_swapped(dn, first * BP_SIZE / dn->datablksz, swap);

	return err ? err : dmu_read(dn, first * BP_SIZE, out, n * BP_SIZE, 0);
}

/* Entries [first, first + n) of one block, last to first. */
static int entries_visit(struct walk *w, struct dnode *dn, uint64_t first, uint64_t n)
{
	bool swap;
	int err = bpobj_entries_read(dn, first, n, w->chunk, &swap);

	while (!err && n > 0)
		err = entry_visit(w, w->chunk + --n * BP_SIZE, swap);
	return err;
}

uint64_t bpobj_step(const struct dnode *dn)
{
	/* blocks of a list are powers of two (10.2); then no piece crosses from one into the next */
	return IS_POW2(dn->datablksz) ? MIN(dn->datablksz, BPOBJ_CHUNK) / BP_SIZE : 0;
}

static int pointers_visit(struct walk *w, struct dnode *dn, uint64_t count)
{
	uint64_t step = bpobj_step(dn);
	int err = 0;

	if (count && step == 0)
		return -EINVAL;
	while (!err && count > 0) {
		uint64_t first = ROUND_DOWN(count - 1, step);

		err = entries_visit(w, dn, first, count - first);
		count = first;
	}
	return err;
}

static void frame_push(struct walk *w, struct dnode *subobjs, uint64_t n)
{
	if (w->depth == w->stack_cap) {
		w->stack_cap = MAX(16, w->stack_cap * 2);
		w->stack = xrealloc(w->stack, w->stack_cap * sizeof(*w->stack));
	}
	w->stack[w->depth++] = (struct frame){subobjs, n};
}

static int subobjs_push(struct walk *w, const struct bpobj_phys *phys)
{
	struct dnode *list = NULL;
	int err;

	if (phys->subobjs == 0 || phys->num_subobjs == 0)
		return 0;
	err = dnode_hold(w->mos, phys->subobjs, &list, NULL);
	if (err)
		return err;
	if (!bpobj_array_fits(list, phys->num_subobjs, BPOBJ_SUBOBJ_SIZE)) {
		dnode_release(list);
		return -EINVAL;
	}
	frame_push(w, list, phys->num_subobjs);
	return 0;
}

static int object_visit(struct walk *w, uint64_t object)
{
	struct bpobj_phys phys;
	struct dnode *dn;
	int err;

	if (object == UINT64_MAX || rangetree_add(&w->seen, object, object + 1))
		return -EINVAL;
	err = dnode_hold(w->mos, object, &dn, NULL);
	if (err)
		return err;
	err = bpobj_phys_decode(dn, &phys);
	if (!err)
		err = pointers_visit(w, dn, phys.num_blkptrs);
	if (!err)
		err = subobjs_push(w, &phys);
	dnode_release(dn);
	return err;
}

int bpobj_sub_read(struct dnode *list, uint64_t i, uint64_t *object)
{
	uint64_t offset = i * BPOBJ_SUBOBJ_SIZE;
	uint8_t p[BPOBJ_SUBOBJ_SIZE];
	bool swap;
	int err = dmu_block_is_swapped(list, offset / list->datablksz, &swap);

	if (!err)
		err = dmu_read(list, offset, p, sizeof(p), 0);
	if (!err)
		*object = load64(p, swap);
	return err;
}

/* The next sub-object of the frame on top, last to first. */
static int subobj_visit(struct walk *w)
{
	struct frame *f = &w->stack[w->depth - 1];
	uint64_t object;
	int err = bpobj_sub_read(f->subobjs, --f->next_sub, &object);

	return err ? err : object_visit(w, object);
}

static void frame_pop(struct walk *w)
{
	dnode_release(w->stack[--w->depth].subobjs);
}

int bpobj_iterate(struct objset *mos, uint64_t object, bpobj_fn fn, void *arg)
{
	struct walk w = {.mos = mos, .fn = fn, .arg = arg, .chunk = xmalloc(BPOBJ_CHUNK)};
	int err;

	rangetree_init(&w.seen);
	err = object_visit(&w, object);
	while (!err && w.depth > 0) {
		if (w.stack[w.depth - 1].next_sub == 0)
			frame_pop(&w);
		else
			err = subobj_visit(&w);
	}
	while (w.depth > 0)
		frame_pop(&w);
	rangetree_clear(&w.seen);
	free(w.stack);
	free(w.chunk);
	return err;
}

/* --- bptree, 10.4 --- */

#define BPTREE_ENTRY 168
#define BPTREE_BONUS 40

static int root_visit(struct dnode *dn, uint64_t index, int (*fn)(void *arg, const struct bp *root, uint64_t birth),
		      void *arg)
{
	uint64_t offset = index * BPTREE_ENTRY, birth;
	uint8_t p[BPTREE_ENTRY];
	struct bp bp;
	bool swap;
	int err = dmu_block_is_swapped(dn, offset / dn->datablksz, &swap);

	if (!err)
		err = dmu_read(dn, offset, p, sizeof(p), 0);
	if (err)
		return err;
	birth = load64(p + BP_SIZE, swap);
	if (birth == UINT64_MAX) /* this tree is freed already */
		return 0;
	bp_decode(&bp, p, swap);
	if (bp_is_hole(&bp))
		return 0;
	return bp_check(&bp) ? -EINVAL : fn(arg, &bp, birth);
}

int bptree_iterate(struct objset *mos, uint64_t object, int (*fn)(void *arg, const struct bp *root, uint64_t birth),
		   void *arg)
{
	struct dnode *dn;
	uint64_t begin, end, w[2];
	int err = dnode_hold(mos, object, &dn, NULL);

	if (err)
		return err;
	if (dmu_bonus_words(dn, w, 2) < 2 || dn->bonuslen < BPTREE_BONUS) {
		dnode_release(dn);
		return -EINVAL;
	}
	begin = w[0];
	end = w[1];
	if (begin > end || !bpobj_array_fits(dn, end, BPTREE_ENTRY))
		err = -EINVAL;
	for (; !err && begin < end; begin++)
		err = root_visit(dn, begin, fn, arg);
	dnode_release(dn);
	return err;
}
