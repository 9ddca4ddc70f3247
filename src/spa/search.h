/*
 * spa/search.h: the parts of the search, private to spa/: one device's labels (search_device.c), the many devices at
 * once (search.c), pools put together from what they carry (assemble.c).
 */
#ifndef SPA_SEARCH_H
#define SPA_SEARCH_H

#include "base/str.h"
#include "spa/spa.h"

/* The identity one device (or a partition in it) carries: the winner among its labels. */
struct found {
	char *path;
	struct nvlist *config; /* of the best label */
	uint64_t pool_guid, guid, top_guid, txg, state;
	unsigned nlabels;                 /* that carry this identity */
	bool verified;                    /* the chosen label's checksum is right */
	uint64_t newest_txg, newest_time; /* of the best uberblock in those labels' rings, 0: none */
	size_t order;                     /* position of the device in the search */
};

/* Something odd about a device, for the pool that the device belongs to (0: for every pool). */
struct search_note {
	char *text;
	uint64_t pool_guid;
};

struct found_list {
	struct found *f;
	size_t n;
	struct search_note *note;
	size_t nnotes;
};
void found_note_add(struct found_list *l, uint64_t pool_guid, char *taken);
void found_list_free(struct found_list *l);

/*
 * Read the labels of one device and of the partitions inside it. Blocks as long as the device does. Adds what it
 * finds; 0 also when there is nothing; negative errno when the device could not be read.
 */
int search_device(const char *path, struct found_list *out);

/* Pool states of labels (01-pool.md 4.4). */
enum pool_state {
	POOL_STATE_ACTIVE = 0,
	POOL_STATE_EXPORTED = 1,
	POOL_STATE_DESTROYED = 2,
	POOL_STATE_SPARE = 3,
	POOL_STATE_L2CACHE = 4,
};

/* Other names of a found device: is `path` one of them? */
typedef bool (*search_alias_fn)(void *arg, const struct found *f, const char *path);
/* One configuration per pool (4.7), in the order of the search. */
void assemble_pools(const struct found_list *found, search_alias_fn alias, void *arg, struct nvlist ***out, size_t *n);

#endif
