/*
 * space.c: sums over metaslabs, devices and classes (docs/format/01-pool.md 11.4, 11.5; 06 3.2 "Fragmentation").
 */
#include "alloc/alloc_impl.h"

/* Percent by bucket size 512 B, 1 K, 2 K, ... */
static const uint8_t fragmentation_weight[] = {100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50,
					       43,  36, 29, 23, 17, 12, 7,  3,  1,  0};

static uint64_t deflate(const struct vdev *vd, uint64_t bytes)
{
	return (bytes >> SECTOR_SHIFT) * vdev_deflate_ratio(vd);
}

static uint64_t not_negative(int64_t v)
{
	return v < 0 ? 0 : (uint64_t)v;
}

struct fragments {
	uint64_t free_bytes, weighted;
	bool unknown;
};

static void fragments_add(struct fragments *f, struct ms *ms)
{
	uint64_t before = f->free_bytes;

	SCOPED_LOCK(&ms->lock);
	if (ms->object == 0) {
		f->free_bytes += ms->size;
		return;
	}
	for (unsigned b = 0; b < SEGSET_BUCKETS && b + ms->shift < 63; b++) {
		unsigned shift = b + ms->shift, w = MIN(shift - 9, ARRAY_LEN(fragmentation_weight) - 1);
		uint64_t bytes = MIN(ms->histogram[b], UINT64_MAX >> (shift + 8)) << shift;

		f->free_bytes += bytes;
		f->weighted += bytes / 100 * fragmentation_weight[w];
	}
	if (f->free_bytes == before && ms->map_alloc < (int64_t)ms->size)
		f->unknown = true;
}

static uint64_t fragmentation(const struct alloc_top *t)
{
	const struct ms_table *table = alloc_table(t);
	struct fragments f = {0};

	for (uint64_t m = 0; m < table->n; m++)
		fragments_add(&f, table->ms[m]);
	if (f.unknown || table->n == 0)
		return UINT64_MAX;
	return f.free_bytes ? f.weighted / (f.free_bytes / 100 + 1) : 0;
}

static void group_add(const struct alloc_group *g, struct alloc_space *out)
{
	out->size += atomic_load(&g->size);
	out->allocated += not_negative(atomic_load(&g->allocated));
	out->deferred += not_negative(atomic_load(&g->deferred));
}

void alloc_top_space(struct alloc *a, const struct vdev *top, struct alloc_space *out)
{
	const struct alloc_top *t = alloc_top_of(a, top->id);

	*out = (struct alloc_space){.fragmentation = UINT64_MAX};
	if (!t || t->vdev->kind == VDEV_INDIRECT)
		return;
	group_add(&t->main, out);
	group_add(&t->embedded, out);
	out->checkpointed = not_negative(atomic_load(&t->kept));
	out->embedded_log = atomic_load(&t->embedded.size);
	out->usable = deflate(top, out->size - out->embedded_log);
	out->embedded_usable = deflate(top, out->embedded_log);
	out->used = MIN(deflate(top, out->allocated), out->usable);
	out->fragmentation = fragmentation(t);
}

void alloc_space(struct alloc *a, enum zio_class class, struct alloc_space *out)
{
	const struct group_table *t = atomic_load_explicit(&a->class[class].table, memory_order_acquire);
	uint64_t weighted = 0, known = 0;

	*out = (struct alloc_space){.fragmentation = UINT64_MAX};
	for (unsigned i = 0; t && i < t->n; i++) {
		struct alloc_space one;

		alloc_top_space(a, t->group[i]->top->vdev, &one);
		out->size += one.size;
		out->allocated += one.allocated;
		out->deferred += one.deferred;
		out->checkpointed += one.checkpointed;
		out->embedded_log += one.embedded_log;
		out->usable += one.usable;
		out->embedded_usable += one.embedded_usable;
		out->used += one.used;
		if (one.fragmentation == UINT64_MAX)
			continue;
		weighted += one.fragmentation * (one.size >> 20);
		known += one.size >> 20;
	}
	if (known)
		out->fragmentation = weighted / known;
}

static void sums_add(struct alloc_sums *out, unsigned class, const struct alloc_group *g)
{
	const struct vdev *vd = g->top->vdev;
	uint64_t in_use = deflate(vd, not_negative(atomic_load(&g->allocated))), size = atomic_load(&g->size);

	if (class == ALLOC_EMBEDDED) {
		out->embedded += deflate(vd, size);
		return;
	}
	out->used += in_use;
	if (class != ZIO_CLASS_NORMAL)
		out->special += in_use;
	else if (!vd->noalloc)
		out->normal += deflate(vd, size);
	out->kept += not_negative(atomic_load(&g->top->kept));
}

void alloc_sums(struct alloc *a, struct alloc_sums *out)
{
	static const uint8_t classes[] = {ZIO_CLASS_NORMAL, ZIO_CLASS_SPECIAL, ZIO_CLASS_DEDUP, ALLOC_EMBEDDED};

	*out = (struct alloc_sums){0};
	for (unsigned c = 0; c < ARRAY_LEN(classes); c++) {
		const struct group_table *t = atomic_load_explicit(&a->class[classes[c]].table, memory_order_acquire);

		for (unsigned i = 0; t && i < t->n; i++)
			sums_add(out, classes[c], t->group[i]);
	}
}

uint64_t alloc_deferred(struct alloc *a)
{
	const struct group_table *t = atomic_load_explicit(&a->class[ZIO_CLASS_NORMAL].table, memory_order_acquire);
	int64_t sum = 0;

	for (unsigned i = 0; t && i < t->n; i++)
		sum += atomic_load_explicit(&t->group[i]->deferred, memory_order_relaxed);
	return not_negative(sum);
}

uint64_t alloc_class_left(struct alloc *a, enum zio_class class, uint64_t *size)
{
	const struct group_table *t = atomic_load_explicit(&a->class[class].table, memory_order_acquire);
	int64_t left = 0;

	*size = 0;
	for (unsigned i = 0; t && i < t->n; i++) {
		*size += atomic_load(&t->group[i]->size);
		left += alloc_group_free(t->group[i]);
	}
	return not_negative(left);
}
