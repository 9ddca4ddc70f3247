/*
 * zil/zil.h: reading intent-log chains (docs/format/07, section 9). Pools are opened read-only here, so chains are
 * walked, counted and shown, never claimed.
 */
#ifndef ZIL_ZIL_H
#define ZIL_ZIL_H

#include "dmu/dmu.h"

struct zil_header {
	uint64_t claim_txg, replay_seq, claim_blk_seq, claim_lr_seq, flags;
	struct bp log;
};
int zil_header_decode(const uint8_t phys[192], bool swap, struct zil_header *out);
struct zil_record {
	uint64_t txtype, reclen, txg, seq;
	const uint8_t *data; /* whole record, host order where it could be swapped */
};
int zil_each(struct objset *os, int (*block)(void *arg, const struct bp *bp, uint64_t seq),
	     int (*record)(void *arg, const struct zil_record *r), void *arg);
const char *zil_record_name(uint64_t txtype); /* "TX_WRITE" ... */
/* For the fuzzer: walk the records of one log block's bytes. */
int zil_block_each(const uint8_t *data, size_t size, bool swap, int (*record)(void *arg, const struct zil_record *r),
		   void *arg);

#endif
