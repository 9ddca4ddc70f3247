/*
 * base/counter.h: counters and latency histograms. Updates are lock-free and sharded by thread; reading sums the
 * shards. A counter's name carries its unit ("arc_hits", "disk_read_bytes", "zio_read_ns").
 */
#ifndef BASE_COUNTER_H
#define BASE_COUNTER_H

#include "base/base.h"

#define COUNTER_SHARDS 8

struct counter {
	struct {
		_Alignas(64) atomic_uint_fast64_t value;
	} shard[COUNTER_SHARDS];
};

unsigned counter_shard(void); /* this thread's shard */

static inline void counter_add(struct counter *c, uint64_t n)
{
	atomic_fetch_add_explicit(&c->shard[counter_shard()].value, n, memory_order_relaxed);
}
uint64_t counter_read(const struct counter *c);
void counter_reset(struct counter *c); /* what is added at the same time may be lost */

/* Buckets by power of two: bucket i counts values in [2^i, 2^(i+1)). */
struct histogram {
	atomic_uint_fast64_t bucket[64];
};
void histogram_add(struct histogram *h, uint64_t value);

uint64_t now_ns(void); /* CLOCK_MONOTONIC */

#endif
