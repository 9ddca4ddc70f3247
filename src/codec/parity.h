/*
 * codec/parity.h: RAIDZ parity P, Q, R and its inversion over GF(2^8), generator polynomial 0x11d
 * (docs/format/06-allocation-and-vdevs.md, 5.4 and 5.5), by ISA-L. Pure functions, any thread.
 */
#ifndef CODEC_PARITY_H
#define CODEC_PARITY_H

#include "base/base.h"

#define PARITY_MAX      3
#define PARITY_COLS_MAX 255 /* data columns */

/*
 * Compute `nparity` parity columns of `size` bytes each from `ndata` data columns. A data column shorter than size
 * counts as zero-extended: col_size[i] <= size.
 */
void parity_generate(unsigned nparity, unsigned ndata, const uint8_t *const *data, const size_t *col_size, size_t size,
		     uint8_t *const *parity);

/*
 * Rebuild missing data columns in place. missing[] are ascending data column numbers (nmissing <= number of usable
 * parity columns); parity[i] NULL means that parity column is unusable. Writes col_size[m] bytes of each missing
 * column. -EINVAL when it cannot be solved.
 */
int parity_reconstruct(unsigned nparity, unsigned ndata, uint8_t *const *data, const size_t *col_size, size_t size,
		       const uint8_t *const *parity, const unsigned *missing, unsigned nmissing);

#endif
