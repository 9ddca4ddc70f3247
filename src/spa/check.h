/*
 * spa/check.h: every block of the pool, once: the MOS, then each data set and snapshot for what was born after the
 * snapshot before it, intent logs, and what is freed but not yet reclaimed; compared with the space maps. What
 * `zdb -bcc` does, for it and for tests.
 *
 * The pool stands still meanwhile: it is open read-only. Blocking; one thread walks, counts and claims, the reads that
 * verify run beside it, many at a time, their bytes bounded.
 */
#ifndef SPA_CHECK_H
#define SPA_CHECK_H

#include "spa/spa.h"

#define SPA_CHECK_ERRNO_MAX 256u

enum spa_check_class { SPA_CHECK_NORMAL, SPA_CHECK_SPECIAL, SPA_CHECK_DEDUP, SPA_CHECK_LOG, SPA_CHECK_CLASSES };
enum spa_check_verify { SPA_VERIFY_NOTHING, SPA_VERIFY_METADATA, SPA_VERIFY_ALL };

struct spa_check {
	bool leaks; /* space maps against blocks: both ways */
	enum spa_check_verify verify;

	/* Each may be NULL. On the walking thread, but for `unreadable`. */
	/* A pointer that is stored in the pool; freed: its block waits for being reclaimed. seen: how often its block
	 * was met by now, more than once only for those that are shared by deduplication or cloning. */
	void (*block)(void *arg, const struct bp *bp, const struct zbookmark *zb, bool freed, unsigned seen);
	/* Once for each block that is damaged or cannot be read. Any thread, one call at a time. */
	void (*unreadable)(void *arg, const struct bp *bp, const struct zbookmark *zb, int err);
	/* A leak or a contradiction, in words; of each kind the first thousand are told. */
	void (*wrong)(void *arg, const char *text);
	/* What could not be looked at. */
	void (*warn)(void *arg, const char *text);
	bool (*stop)(void *arg);
	void *arg;

	/* What was found. */
	uint64_t leaked;         /* bytes that are allocated and belong to no block */
	uint64_t contradictions; /* ranges that blocks have and the space maps have not, or two blocks have */
	uint64_t wrong_refs;     /* entries of deduplication tables */
	uint64_t by_errno[SPA_CHECK_ERRNO_MAX]; /* blocks that cannot be read */
	uint64_t bad_copies; /* copies or reconstructions with wrong checksums, beyond the ends of intent logs */
	bool incomplete;     /* something could not be looked at */
	struct {
		uint64_t size, used; /* by the space maps, bytes */
	} class[SPA_CHECK_CLASSES];
};
/* True: nothing is wrong, as far as could be looked (`incomplete`); false also when it was stopped. */
bool spa_check(struct spa *spa, struct spa_check *c);

/* Object number and bonus of every DSL data set of the pool, snapshots and hidden ones too. */
struct spa_dataset {
	uint64_t object, prev_snap_txg;
	bool is_snapshot;
	struct bp bp;
};
/* Ends early with what fn returns unless 0. *skipped: blocks of the list that could not be read. */
int spa_each_dataset(struct spa *spa, int (*fn)(void *arg, const struct spa_dataset *ds), void *arg, uint64_t *skipped);

#endif
