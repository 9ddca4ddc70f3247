/*
 * Block buffers. Sizes are rounded up to a class: multiples of a page to 16 KiB, then four classes to each doubling.
 * Those whose size divides a huge page are cut from one: that spares a page fault for every 4 KiB that a device fills,
 * and the heap, in which aligned small blocks take half as much again. A cut buffer that is given up returns its memory
 * but keeps its place, for the next of its size. Of the others small ones come from the heap, and from 128 KiB on each
 * is a mapping of its own, so that what it held goes back to the system when freed.
 */
#include <sys/mman.h>

#include "base/buf.h"
#include "base/sync.h"

#define BUF_PAGE     4096u
#define BUF_MAX      (32u << 20)
#define BUF_MAP_FROM (128u << 10)
#define BUF_CLASSES  48
#define BUF_HUGE     (2u << 20)

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
/* The address sanitizer sees the end of a buffer's life only when each one comes from the heap and returns there. */
#ifdef __SANITIZE_ADDRESS__
#define BUF_CACHE_DEFAULT 0
#undef BUF_MAP_FROM
#define BUF_MAP_FROM (2 * BUF_MAX)
#define BUF_CUT_FROM (2 * BUF_MAX)
#else
#define BUF_CACHE_DEFAULT (64u << 20)
#define BUF_CUT_FROM      BUF_PAGE
#endif

/* One stack of free buffers per class. The lock guards `top` only and is innermost. */
struct buf_stack {
	_Alignas(64) pthread_mutex_t lock;
	struct buf *top;
};

static struct buf_stack stacks[BUF_CLASSES] = {[0 ... BUF_CLASSES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};
/* Cut buffers without memory. */
static struct buf_stack vacant[BUF_CLASSES] = {[0 ... BUF_CLASSES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};
static atomic_uint_fast64_t bytes_in_use;
static atomic_uint_fast64_t bytes_cached;
static atomic_uint_fast64_t cache_limit = BUF_CACHE_DEFAULT;

/* Class of a size, and its rounded size: pages 1..4 are classes 0..3, then quarters of each doubling. */
static uint32_t buf_class(size_t size, uint32_t *alloc)
{
	uint32_t pages = (size + BUF_PAGE - 1) / BUF_PAGE, shift, quarters;

	if (pages <= 4) {
		*alloc = pages * BUF_PAGE;
		return pages - 1;
	}
	shift = 31 - __builtin_clz(pages - 1) - 2; /* pages - 1 = 1xx... : keep two bits below the top one */
	quarters = ((pages - 1) >> shift) + 1;     /* 5..8 */
	*alloc = (quarters << shift) * BUF_PAGE;
	return shift * 4 + quarters - 1;
}

static void *buf_data_alloc(uint32_t alloc)
{
	void *p;

	if (alloc < BUF_MAP_FROM)
		return posix_memalign(&p, BUF_PAGE, alloc) == 0 ? p : NULL;
	p = mmap(NULL, alloc, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static struct buf *stack_pop(struct buf_stack *s)
{
	struct buf *b;

	pthread_mutex_lock(&s->lock);
	b = s->top;
	if (b)
		s->top = b->next_free;
	pthread_mutex_unlock(&s->lock);
	return b;
}

static void stack_push(struct buf_stack *s, struct buf *b)
{
	pthread_mutex_lock(&s->lock);
	b->next_free = s->top;
	s->top = b;
	pthread_mutex_unlock(&s->lock);
}

static struct buf *cached_pop(unsigned cls)
{
	struct buf *b = stack_pop(&stacks[cls]);

	if (b)
		atomic_fetch_sub_explicit(&bytes_cached, b->alloc, memory_order_relaxed);
	return b;
}

static bool buf_is_cut(uint32_t alloc)
{
	return alloc >= BUF_CUT_FROM && alloc < BUF_HUGE && BUF_HUGE % alloc == 0;
}

/* What is not given back stays where it is, without memory. */
static void buf_destroy(struct buf *b)
{
	if (buf_is_cut(b->alloc)) {
		madvise(b->data, b->alloc, MADV_DONTNEED);
		stack_push(&vacant[b->cls], b);
		return;
	}
	if (b->alloc < BUF_MAP_FROM)
		free(b->data);
	else
		munmap(b->data, b->alloc);
	free(b);
}

/* An aligned huge page's worth of address space, NULL when there is none. */
static uint8_t *huge_map(void)
{
	uint8_t *p = mmap(NULL, 2 * BUF_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *start;

	if (p == MAP_FAILED)
		return NULL;
	start = (uint8_t *)ROUND_UP((uintptr_t)p, (uintptr_t)BUF_HUGE);
	if (start > p)
		munmap(p, (size_t)(start - p));
	munmap(start + BUF_HUGE, (size_t)(p + BUF_HUGE - start));
	madvise(start, BUF_HUGE, MADV_HUGEPAGE); /* where the system has none, ordinary pages do */
	return start;
}

/* Cuts a huge page into buffers: the first is the caller's, the others wait in `vacant`. */
static struct buf *buf_cut(uint32_t cls, uint32_t alloc)
{
	uint8_t *data = huge_map();
	struct buf *first = NULL;

	for (uint32_t at = 0; data && at < BUF_HUGE; at += alloc) {
		struct buf *b = xmalloc(sizeof(*b));

		*b = (struct buf){.data = data + at, .alloc = alloc, .cls = cls};
		if (first)
			stack_push(&vacant[cls], b);
		else
			first = b;
	}
	return first;
}

static struct buf *buf_make(uint32_t cls, uint32_t alloc)
{
	struct buf *b = buf_is_cut(alloc) ? stack_pop(&vacant[cls]) : NULL;

	if (b)
		return b;
	if (buf_is_cut(alloc))
		return buf_cut(cls, alloc);
	b = malloc(sizeof(*b));
	if (!b)
		return NULL;
	b->data = buf_data_alloc(alloc);
	if (!b->data) {
		free(b);
		return NULL;
	}
	b->alloc = alloc;
	b->cls = cls;
	return b;
}

struct buf *buf_alloc(size_t size)
{
	uint32_t alloc, cls;
	struct buf *b;

	if (size == 0 || size > BUF_MAX)
		return NULL;
	cls = buf_class(size, &alloc);
	b = cached_pop(cls);
	if (!b)
		b = buf_make(cls, alloc);
	if (!b)
		return NULL;
	b->size = size;
	b->next_free = NULL;
	atomic_init(&b->refs, 1);
	atomic_fetch_add_explicit(&bytes_in_use, alloc, memory_order_relaxed);
	return b;
}

struct buf *buf_hold(struct buf *b)
{
	BUG_ON(atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed) == 0);
	return b;
}

/* Takes from every class in turn, so that a size nobody asks for any more does not fill the free lists for good. */
static void buf_cache_trim(uint64_t limit)
{
	static atomic_uint hand;
	unsigned empty = 0;

	while (empty < BUF_CLASSES && buf_cache_bytes() > limit) {
		struct buf *b = cached_pop(atomic_fetch_add(&hand, 1) % BUF_CLASSES);

		empty = b ? 0 : empty + 1;
		if (b)
			buf_destroy(b);
	}
}

static void buf_cache_put(struct buf *b)
{
	uint64_t limit = atomic_load_explicit(&cache_limit, memory_order_relaxed);

	if (b->alloc > limit) {
		buf_destroy(b);
		return;
	}
	atomic_fetch_add_explicit(&bytes_cached, b->alloc, memory_order_relaxed);
	stack_push(&stacks[b->cls], b);
	buf_cache_trim(limit);
}

void buf_release(struct buf *b)
{
	unsigned refs;

	if (!b)
		return;
	refs = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
	BUG_ON(refs == 0);
	if (refs > 1)
		return;
	atomic_fetch_sub_explicit(&bytes_in_use, b->alloc, memory_order_relaxed);
	buf_cache_put(b);
}

uint64_t buf_bytes_in_use(void)
{
	return atomic_load_explicit(&bytes_in_use, memory_order_relaxed);
}

uint64_t buf_cache_bytes(void)
{
	return atomic_load_explicit(&bytes_cached, memory_order_relaxed);
}

void buf_cache_set_limit(uint64_t bytes)
{
	atomic_store(&cache_limit, bytes);
	buf_cache_trim(bytes);
}
