/* Errors with words. */
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return code;
}

int err_prefix(struct err *e, int code, const char *fmt, ...)
{
	char words[sizeof(e->text)];
	size_t n, room;
	va_list ap;
	int len;

	if (!e)
		return code;
	if (e->code == 0) {
		e->code = code;
		snprintf(e->text, sizeof(e->text), "%s", err_words(code));
	}
	va_start(ap, fmt);
	len = vsnprintf(words, sizeof(words) - 2, fmt, ap);
	va_end(ap);
	if (len < 0)
		return e->code;
	memcpy(words + strlen(words), ": ", 3);
	n = strlen(words);
	room = sizeof(e->text) - 1 - n;
	if (strlen(e->text) > room)
		e->text[room] = '\0';
	memmove(e->text + n, e->text, strlen(e->text) + 1);
	memcpy(e->text, words, n);
	return e->code;
}

void err_hint(struct err *e, const char *fmt, ...)
{
	size_t n;
	va_list ap;

	if (!e)
		return;
	n = strlen(e->text);
	if (n + 2 >= sizeof(e->text))
		return;
	if (n > 0)
		e->text[n++] = '\n';
	va_start(ap, fmt);
	vsnprintf(e->text + n, sizeof(e->text) - n, fmt, ap);
	va_end(ap);
}

static const struct {
	int code;
	const char *words;
} err_words_table[] = {
    {ECKSUM, "checksum mismatch"}, {EKEY, "permission denied"}, {EIO, "I/O error"},
    {ENOTSUP, "not supported"},    {ENODEV, "no such device"},  {ENXIO, "device is missing"},
    {ENOENT, "does not exist"},    {EEXIST, "already exists"},  {EBUSY, "busy"},
    {EROFS, "read-only"},          {ENOSPC, "out of space"},    {EDQUOT, "quota exceeded"},
    {EINVAL, "invalid argument"},  {EPROTO, "malformed data"},  {EOVERFLOW, "value out of range"},
    {ENOMEM, "out of memory"},     {ECANCELED, "cancelled"},    {EINTR, "interrupted"},
    {ETIMEDOUT, "timed out"},
};

const char *err_words(int code)
{
	const char *words;

	if (code < 0)
		code = -code;
	if (code == 0)
		return "success";
	for (size_t i = 0; i < ARRAY_LEN(err_words_table); i++)
		if (err_words_table[i].code == code)
			return err_words_table[i].words;
	words = strerrordesc_np(code);
	return words ? words : "unknown error";
}
