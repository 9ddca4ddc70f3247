/*
 * disk/sparse.h: bytes in memory that are zero until they are written: what the disks of tests keep their contents in.
 *
 * A store may lie over another one, which shows through where nothing was written and does not change meanwhile: so a
 * copy costs nothing. No locks of its own.
 */
#ifndef DISK_SPARSE_H
#define DISK_SPARSE_H

#include "base/base.h"

struct sparse;

/* `under` (NULL: zeros) must live, unchanged, as long as the new one. */
struct sparse *sparse_create(uint64_t size, const struct sparse *under);
void sparse_destroy(struct sparse *s); /* NULL is allowed */
uint64_t sparse_size(const struct sparse *s);
/* Ranges lie inside the store. */
void sparse_read(const struct sparse *s, uint64_t offset, void *data, size_t n);
void sparse_write(struct sparse *s, uint64_t offset, const void *data, size_t n);
void sparse_zero(struct sparse *s, uint64_t offset, uint64_t n);

#endif
