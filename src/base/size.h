/*
 * base/size.h: sizes and counts as ZFS's commands write and read them (docs/format/09-cli.md, "Numbers").
 */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include "base/base.h"

#define SIZE_TEXT 32

/* "1.50K", "118M", at most five characters; `bytes` puts B behind numbers under 1024. */
void size_print(uint64_t n, bool bytes, char out[SIZE_TEXT]);
/* Digits with an optional fraction and a unit B K M G T P E Z (KB, KiB too), base 1024. -EINVAL, -ERANGE from 2^64 on.
 */
int size_parse(const char *text, uint64_t *out);

#endif
