/*
 * alloc/spacemap.h: space maps, metaslabs and their log, read side (docs/format/06-allocation-and-vdevs.md, section 2).
 * Blocking; no state is shared, so no locks.
 *
 * A space map is a list of allocations and frees. What contradicts itself (an allocation of what is allocated, a free
 * of what is free, entries outside the map) is damage: -EINVAL.
 */
#ifndef ALLOC_SPACEMAP_H
#define ALLOC_SPACEMAP_H

#include "base/rangetree.h"
#include "dmu/zap.h"
#include "vdev/vdev.h"

struct spacemap_entry {
	bool free;            /* FREE or ALLOC */
	uint64_t vdev;        /* UINT64_MAX when one-word entry */
	uint64_t offset, run; /* bytes */
	uint64_t txg;         /* of the last debug entry */
	unsigned sync_pass;
};
struct spacemap_header {
	uint64_t object, length, alloc; /* bytes of entries; bytes allocated */
	uint64_t histogram[32];
};
/* -EINVAL: no space map. A map whose bonus has no histogram gives zeros. */
int spacemap_header_read(struct objset *mos, uint64_t object, struct spacemap_header *out);
/* Entries in order, offsets in bytes from `start` on; ends early with what fn returns unless 0. */
int spacemap_each(struct objset *mos, uint64_t object, uint64_t start, unsigned shift,
		  int (*fn)(void *arg, const struct spacemap_entry *e), void *arg);
/* For the fuzzer: entries of a buffer. */
int spacemap_decode(const uint8_t *data, size_t len, bool swap, uint64_t start, unsigned shift,
		    int (*fn)(void *arg, const struct spacemap_entry *e), void *arg);
/* Load an initialized range tree of txgs (DTL) from a space map. */
int spacemap_load_dtl(struct objset *mos, uint64_t object, struct rangetree *rt);

/* All allocated ranges of every top-level, space map logs applied. One rangetree per metaslab, in vdev order. */
struct metaslab_info {
	uint64_t vdev, id, start, size, object;
	struct rangetree allocated;
};
struct spacemap_pool {
	struct metaslab_info *ms;
	size_t n;
};
/* Place of metaslab m of a top-level; dRAID's are trimmed to whole rows (06, 7.3). */
void metaslab_bounds(const struct vdev *top, uint64_t m, uint64_t *start, uint64_t *size);
/* log_object: MOS "com.delphix:log_spacemap_zap", 0 when absent. */
int spacemap_load_pool(struct objset *mos, struct vdev *root, uint64_t log_object, struct spacemap_pool *out,
		       struct err *e);
void spacemap_free_pool(struct spacemap_pool *p);

#endif
