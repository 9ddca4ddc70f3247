/*
 * base/str.h: a growing string, for building output and messages.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdarg.h>

#include "base/base.h"

struct str {
	char *s; /* always NUL-terminated once anything was added; NULL before */
	size_t len, cap;
};

void str_add(struct str *s, const char *text);
void str_add_bytes(struct str *s, const void *p, size_t n);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_free(struct str *s);
/* Copies text into a field of `size` bytes, always NUL-terminated; false when it had to be cut. */
bool str_copy(char *to, size_t size, const char *text);
/* A growing list of malloc'd strings. */
struct strings {
	char **s;
	size_t n;
};
void strings_add(struct strings *v, char *taken);
bool strings_contain(const struct strings *v, const char *text);
void strings_free(struct strings *v);

/* "" instead of NULL. */
static inline const char *str_get(const struct str *s)
{
	return s->s ? s->s : "";
}

#endif
