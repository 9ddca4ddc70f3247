/*
 * base/base.h: what every file needs: fixed-width types, small arithmetic, scope-bound cleanup.
 *
 * Everything in base/ may be used by every floor and uses none of them.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))

/* Round up or down to a multiple of `to`; any positive `to`. */
#define ROUND_UP(x, to)   ((((x) + (to)-1) / (to)) * (to))
#define ROUND_DOWN(x, to) (((x) / (to)) * (to))
#define IS_POW2(x)        ((x) != 0 && ((x) & ((x)-1)) == 0)

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Domain errors (docs/architecture.md, "Errors"). All functions return 0 or a negative errno. */
#define ECKSUM EBADE  /* a block's checksum does not match, no good copy left */
#define EKEY   EACCES /* the data set's key is not loaded, or authentication failed */

/* Allocation that ends the program with a clear line when a small request cannot be met.
 * Sizes that come from a disk or a client use malloc and check the result. */
void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Scope-bound release: `autofree char *s = xstrdup(...)`. */
static inline void autofree_release(void *pp)
{
	free(*(void **)pp);
}
#define autofree __attribute__((cleanup(autofree_release), unused))

/* A programming error: prints the place and aborts. Never for what a disk, a stream or a client sent. */
#define BUG_ON(cond)                                                                                                   \
	do {                                                                                                           \
		if (__builtin_expect(!!(cond), 0))                                                                     \
			bug(__FILE__, __LINE__, #cond);                                                                \
	} while (0)
void bug(const char *file, int line, const char *what) __attribute__((noreturn));

#endif
