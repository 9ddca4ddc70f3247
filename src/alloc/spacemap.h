/*
 * alloc/spacemap.h: space maps, and metaslabs and their log as they are on disk
 * (docs/format/06-allocation-and-vdevs.md, section 2). Blocking; no state is shared, so no locks.
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
	uint64_t at;          /* byte of the map where it begins */
	uint64_t txg;         /* of the last debug entry */
	unsigned sync_pass;
};
struct spacemap_header {
	uint64_t object, length, alloc; /* bytes of entries; bytes allocated */
	uint64_t histogram[32];
	bool has_histogram;
};
/* -EINVAL: no space map. A map whose bonus has no histogram gives zeros. */
int spacemap_header_read(struct objset *mos, uint64_t object, struct spacemap_header *out);
/* Entries in order, offsets in bytes from `start` on; ends early with what fn returns unless 0. */
int spacemap_each(struct objset *mos, uint64_t object, uint64_t start, unsigned shift,
		  int (*fn)(void *arg, const struct spacemap_entry *e), void *arg);
/* The same of a map that is held, from a block on, up to `length` bytes of the map. */
int spacemap_each_from(struct dnode *dn, uint64_t blkid, uint64_t length, uint64_t start, unsigned shift,
		       int (*fn)(void *arg, const struct spacemap_entry *e), void *arg);
/* For the fuzzer: entries of a buffer. */
int spacemap_decode(const uint8_t *data, size_t len, bool swap, uint64_t start, unsigned shift,
		    int (*fn)(void *arg, const struct spacemap_entry *e), void *arg);
/* Load an initialized range tree of txgs (DTL) from a space map. */
int spacemap_load_dtl(struct objset *mos, uint64_t object, struct rangetree *rt);

/* --- writing --- */

/* Entries as words: a buffer that grows, to be written where it begins. */
struct spacemap_encoder {
	uint64_t at;        /* byte of the object where word[0] goes */
	uint32_t blocksize; /* of the object: two-word entries do not cross blocks */
	bool two_words;     /* feature spacemap_v2 */
	uint64_t vdev;      /* in every entry (log maps; needs two_words); UINT64_MAX: in none */
	uint64_t *word;
	size_t n, room;
};
/* Before a set of entries of one kind. */
void spacemap_encode_debug(struct spacemap_encoder *e, bool free, unsigned pass, uint64_t txg);
/* `offset` and `run` in units of the map, from its start on; run > 0. */
void spacemap_encode(struct spacemap_encoder *e, bool free, uint64_t offset, uint64_t run);

/*
 * Maps in the MOS; syncing context, one thread at a time per map. `histogram`: the long bonus; who creates and frees
 * objects with it counts the feature spacemap_histogram.
 */
struct spacemap;
int spacemap_create(struct objset *mos, uint32_t blocksize, bool histogram, struct tx *tx, uint64_t *object);
int spacemap_destroy(struct objset *mos, uint64_t object, struct tx *tx, bool *histogram);
/* `start` in bytes, units of 2^shift bytes. */
int spacemap_open(struct objset *mos, uint64_t object, uint64_t start, unsigned shift, bool two_words,
		  struct spacemap **out);
void spacemap_close(struct spacemap *sm);
/* One set of entries: begin, put (bytes) ascending, end. The device is told in each entry unless UINT64_MAX. */
void spacemap_begin(struct spacemap *sm, bool free, uint64_t vdev, struct tx *tx);
int spacemap_put(struct spacemap *sm, uint64_t offset, uint64_t size);
int spacemap_end(struct spacemap *sm);
int spacemap_append(struct spacemap *sm, const struct rangetree *rt, bool free, struct tx *tx);
/* No entries from now on. */
int spacemap_truncate(struct spacemap *sm, struct tx *tx);
/* The entries of the map's last block (everything written); 0 entries: the map is empty, or the block has debug words
 * only. To take entries off the end: spacemap_cut at one that is a free of `size` bytes, and spacemap_cut_block when
 * the last block has none left. */
int spacemap_tail(struct spacemap *sm, int (*fn)(void *arg, const struct spacemap_entry *e), void *arg);
void spacemap_cut(struct spacemap *sm, uint64_t at, uint64_t size);
void spacemap_cut_block(struct spacemap *sm);
/* Length, alloc and object into the bonus, and the histogram unless NULL: after the last change of a pass. */
int spacemap_header_write(struct spacemap *sm, const uint64_t histogram[32], struct tx *tx);
uint64_t spacemap_length(const struct spacemap *sm);
int64_t spacemap_allocated(const struct spacemap *sm);
bool spacemap_has_histogram(const struct spacemap *sm);
uint32_t spacemap_blocksize(const struct spacemap *sm);

#define SPACEMAP_LOG_SHIFT 9 /* units of log maps, log2 bytes */
/* Log maps by txg: MOS object `zap`, key com.delphix:log_spacemap_zap. *logs is malloc'd. */
struct spacemap_log {
	uint64_t txg, object;
};
int spacemap_log_list(struct objset *mos, uint64_t zap, struct spacemap_log **logs, size_t *n);

/* n words of an object that is one array of them; what lies past its end is 0. */
int spacemap_words_read(struct objset *mos, uint64_t object, uint64_t *out, uint64_t n);

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
