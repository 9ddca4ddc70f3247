/*
 * spa/leafwork.h: initializing and trimming, private to spa/: the work on one device (leafwork.c), and the commands,
 * what is stored of it, autotrim (leafwork_admin.c).
 */
#ifndef SPA_LEAFWORK_H
#define SPA_LEAFWORK_H

#include "base/buf.h"
#include "spa/spa_write.h"

enum spa_work_state { /* numbers of 06, 4.10 */
		      SPA_WORK_NONE = 0,
		      SPA_WORK_ACTIVE = 1,
		      SPA_WORK_CANCELED = 2,
		      SPA_WORK_SUSPENDED = 3,
		      SPA_WORK_COMPLETE = 4,
};

struct spa_work_kind {
	const char *word, *state, *offset, *time; /* keys of the leaf's ZAP */
};
extern const struct spa_work_kind spa_work_kinds[];

/* Initializing or trimming of one leaf, from its first start in this session on. */
struct spa_work {
	struct list_node node;
	struct spa *spa;
	struct vdev *leaf;
	enum spa_activity what;
	uint64_t rate; /* bytes per second; 0: as fast as it goes */
	atomic_uint_fast64_t offset;
	atomic_uint state;       /* enum spa_work_state */
	atomic_bool unsynced;    /* offset or state are to be stored */
	atomic_bool stop, ended; /* the thread is to end; has */
	/* of who starts and joins (works_lock) */
	pthread_t thread;
	bool running;
	/* the thread's own */
	uint64_t started_ns, done_bytes;
	struct buf *pattern;
	uint32_t chunk;
};

void *spa_autotrim_run(void *arg);
int spa_work_start(struct spa_work *wk);
void spa_work_join(struct spa_work *wk); /* stopped where it is */
/* Gives [start, end) of a leaf's space back to the device; waits. */
int spa_leaf_trim(struct vdev *leaf, uint64_t start, uint64_t end);

#endif
