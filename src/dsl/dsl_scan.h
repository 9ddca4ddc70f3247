/*
 * dsl/dsl_scan.h: what the pool remembers of scrubs and resilvers (docs/format/03-datasets.md 6.1). Read side.
 */
#ifndef DSL_DSL_SCAN_H
#define DSL_DSL_SCAN_H

#include "dsl/dsl.h"

enum dsl_scan_func { DSL_SCAN_NONE, DSL_SCAN_SCRUB, DSL_SCAN_RESILVER, DSL_SCAN_ERROR_SCRUB };
enum dsl_scan_state {
	DSL_SCAN_STATE_NONE,
	DSL_SCAN_STATE_SCANNING,
	DSL_SCAN_STATE_FINISHED,
	DSL_SCAN_STATE_CANCELED,
	DSL_SCAN_STATE_ERROR_SCRUBBING
};

struct dsl_scan {
	uint64_t func, state, queue_obj, min_txg, max_txg, cur_min_txg, cur_max_txg;
	uint64_t start_time, end_time;                     /* seconds */
	uint64_t to_examine, examined, skipped, processed; /* bytes */
	uint64_t errors, ddt_class_max, ddt_bookmark[4];
	struct zbookmark bookmark;
	bool visit_again, paused, thorough;
	bool erratum_2094; /* written by an old release in a longer form; a scrub is in order when it has ended */
};
/* -ENOENT: never scanned. -EINVAL: damaged. -ENOTSUP: the record of erratum 2094 that must not be imported for writing
 * (foreign flags or an asynchronous destroy that was under way). */
int dsl_scan_read(struct dsl_pool *p, struct dsl_scan *out);

struct dsl_error_scrub {
	uint64_t func, state, cursor, start_time, end_time, to_examine, examined, errors, paused_flags;
};
int dsl_error_scrub_read(struct dsl_pool *p, struct dsl_error_scrub *out);
/* 0 when no scrub has finished. */
uint64_t dsl_last_scrubbed_txg(struct dsl_pool *p);

#endif
