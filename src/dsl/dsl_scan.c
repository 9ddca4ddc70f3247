/*
 * dsl/dsl_scan.c: decoding of the scan records in the MOS directory.
 */
#include "dsl/dsl_impl.h"
#include "dsl/dsl_scan.h"

#define MOS_DIRECTORY     1
#define SCAN_WORDS        24
#define SCAN_WORDS_2094   25
#define ERROR_SCRUB_WORDS 9
#define SCAN_VISIT_AGAIN  1u
#define SCAN_PAUSED       2u
#define SCAN_THOROUGH     4u

static void scan_decode(const uint64_t *w, struct dsl_scan *s)
{
	*s = (struct dsl_scan){
	    .func = w[0],
	    .state = w[1],
	    .queue_obj = w[2],
	    .min_txg = w[3],
	    .max_txg = w[4],
	    .cur_min_txg = w[5],
	    .cur_max_txg = w[6],
	    .start_time = w[7],
	    .end_time = w[8],
	    .to_examine = w[9],
	    .examined = w[10],
	    .skipped = w[11],
	    .processed = w[12],
	    .errors = w[13],
	    .ddt_class_max = w[14],
	    .ddt_bookmark = {w[15], w[16], w[17], w[18]},
	    .bookmark = {.objset = w[19], .object = w[20], .level = (int64_t)w[21], .blkid = w[22]},
	    .visit_again = w[23] & SCAN_VISIT_AGAIN,
	    .paused = w[23] & SCAN_PAUSED,
	    .thorough = w[23] & SCAN_THOROUGH,
	};
}

static bool async_destroy_is_active(struct dsl_pool *p)
{
	uint64_t object;

	return zap_lookup_u64(p->mos, MOS_DIRECTORY, "bptree_obj", &object) == 0;
}

int dsl_scan_read(struct dsl_pool *p, struct dsl_scan *out)
{
	uint64_t w[SCAN_WORDS_2094] = {0};
	unsigned intsize;
	size_t n;
	int err = zap_length(p->mos, MOS_DIRECTORY, "scan", &intsize, &n);

	if (err)
		return err;
	if (intsize != 8 || n < SCAN_WORDS || n > SCAN_WORDS_2094)
		return -EINVAL;
	err = zap_lookup(p->mos, MOS_DIRECTORY, "scan", 8, n, w);
	if (err)
		return err;
	if (n == SCAN_WORDS_2094) {
		if ((w[24] & ~(uint64_t)SCAN_VISIT_AGAIN) || async_destroy_is_active(p))
			return -ENOTSUP;
		w[23] = w[24];
	}
	if (w[0] > DSL_SCAN_ERROR_SCRUB || w[1] > DSL_SCAN_STATE_ERROR_SCRUBBING)
		return -EINVAL;
	scan_decode(w, out);
	out->erratum_2094 = n == SCAN_WORDS_2094;
	return 0;
}

int dsl_error_scrub_read(struct dsl_pool *p, struct dsl_error_scrub *out)
{
	uint64_t w[ERROR_SCRUB_WORDS];
	int err = zap_lookup(p->mos, MOS_DIRECTORY, "error_scrub", 8, ERROR_SCRUB_WORDS, w);

	if (err)
		return err;
	*out = (struct dsl_error_scrub){w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8]};
	return 0;
}

uint64_t dsl_last_scrubbed_txg(struct dsl_pool *p)
{
	uint64_t txg;

	return zap_lookup_u64(p->mos, MOS_DIRECTORY, "last_scrubbed_txg", &txg) ? 0 : txg;
}
