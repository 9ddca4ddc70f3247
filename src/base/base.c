/* Allocation that cannot fail, and the end of the program on a programming error. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/base.h"

/* Called when the heap is exhausted: no allocation, no buffered output. */
static void die_of_memory(void)
{
	static const char text[] = "tarn: out of memory\n";
	ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)ignored;
	abort();
}

void *xmalloc(size_t size)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		die_of_memory();
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		die_of_memory();
	return p;
}

void *xrealloc(void *p, size_t size)
{
	void *q = realloc(p, size ? size : 1);

	if (!q)
		die_of_memory();
	return q;
}

char *xstrdup(const char *s)
{
	char *copy = strdup(s);

	if (!copy)
		die_of_memory();
	return copy;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		die_of_memory();
	return s;
}

void bug(const char *file, int line, const char *what)
{
	fprintf(stderr, "tarn: internal error at %s:%d: %s\n", file, line, what);
	abort();
}
