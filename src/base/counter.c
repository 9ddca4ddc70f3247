/* Sharded counters, histograms, the clock. */
#include <time.h>

#include "base/counter.h"

unsigned counter_shard(void)
{
	static atomic_uint next;
	static _Thread_local unsigned shard = UINT32_MAX;

	if (shard == UINT32_MAX)
		shard = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % COUNTER_SHARDS;
	return shard;
}

uint64_t counter_read(const struct counter *c)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < COUNTER_SHARDS; i++)
		sum += atomic_load_explicit(&c->shard[i].value, memory_order_relaxed);
	return sum;
}

void counter_reset(struct counter *c)
{
	for (unsigned i = 0; i < COUNTER_SHARDS; i++)
		atomic_store_explicit(&c->shard[i].value, 0, memory_order_relaxed);
}

void histogram_add(struct histogram *h, uint64_t value)
{
	unsigned i = value ? 63 - __builtin_clzll(value) : 0;

	atomic_fetch_add_explicit(&h->bucket[i], 1, memory_order_relaxed);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}
