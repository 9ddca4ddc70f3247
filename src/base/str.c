/* A growing string. */
#include <stdio.h>

#include "base/str.h"

static void str_reserve(struct str *s, size_t more)
{
	size_t need = s->len + more + 1;

	if (need <= s->cap)
		return;
	s->cap = MAX(need, MAX(s->cap * 2, 64));
	s->s = xrealloc(s->s, s->cap);
}

void str_add_bytes(struct str *s, const void *p, size_t n)
{
	str_reserve(s, n);
	if (n > 0)
		memcpy(s->s + s->len, p, n);
	s->len += n;
	s->s[s->len] = '\0';
}

void str_add(struct str *s, const char *text)
{
	str_add_bytes(s, text, strlen(text));
}

void str_addf(struct str *s, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n >= 0) {
		str_reserve(s, n);
		vsnprintf(s->s + s->len, n + 1, fmt, again);
		s->len += n;
	}
	va_end(again);
	va_end(ap);
}

void str_free(struct str *s)
{
	free(s->s);
	*s = (struct str){0};
}

bool str_copy(char *to, size_t size, const char *text)
{
	size_t n = strnlen(text, size);

	if (size == 0)
		return false;
	memcpy(to, text, MIN(n, size - 1));
	to[MIN(n, size - 1)] = '\0';
	return n < size;
}

void strings_add(struct strings *v, char *taken)
{
	if ((v->n & (v->n - 1)) == 0) /* full: room is a power of two */
		v->s = xrealloc(v->s, MAX(v->n * 2, 1) * sizeof(*v->s));
	v->s[v->n++] = taken;
}

void strings_free(struct strings *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->s[i]);
	free(v->s);
	*v = (struct strings){0};
}

bool strings_contain(const struct strings *v, const char *text)
{
	for (size_t i = 0; i < v->n; i++)
		if (strcmp(v->s[i], text) == 0)
			return true;
	return false;
}
