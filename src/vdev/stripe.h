/*
 * vdev/stripe.h: reading and writing a block that lies in rows of data and parity columns: RAIDZ and dRAID differ only
 * in where the columns are (docs/format/06-allocation-and-vdevs.md, 5.4 - 5.6).
 *
 * Each row is a parity group of its own: columns 0 .. nparity-1 are P, Q, R, then the data. The block's bytes are the
 * caller's buffer; data columns are read straight into their places there. Columns of size 0 take part in the parity
 * as zeros.
 */
#ifndef VDEV_STRIPE_H
#define VDEV_STRIPE_H

#include "base/buf.h"
#include "codec/parity.h"
#include "vdev/vdev_impl.h"

struct stripe_col {
	unsigned child;
	uint32_t size;   /* bytes */
	uint64_t offset; /* on the child */
	uint32_t pad;    /* bytes behind it on the child that are the block's, too, and hold nothing */
	uint64_t sector; /* linear sector of a raidz, for the search by simulated children */
	uint8_t *data;
	int err;    /* why it cannot be had, or could not be written */
	bool want;  /* to be read next */
	bool done;  /* data is what the device gave */
	bool stale; /* the device lacks the txg: its data is not trusted while there is another way */
	bool bad;   /* to be rebuilt in this attempt */
	struct vdev_io io;
};

struct stripe_row {
	unsigned ncols;
	uint32_t psize;  /* bytes of each parity column */
	uint32_t pstart; /* its place in the parity buffers */
	bool in_scratch; /* raidz expansion: read from the boot area */
	struct stripe_col *col;
};

struct stripe {
	struct vdev *vd;
	struct vdev_io *io;
	unsigned nparity, nrows;
	struct stripe_row *row;
	/* Columns that may have failed together are those of one child; in an expanded raidz also those that one child
	 * held at a width from `width_max` down to `width_min`. Others: width_min 1, width_max 0. */
	unsigned width_min, width_max;

	/* the reader's */
	struct buf *parity[PARITY_MAX];
	struct buf *original; /* data as read, before any attempt to rebuild */
	struct buf *copy;     /* room for recomputed parity */
	atomic_uint pending;
	struct task task;
	bool all; /* everything that can be read was asked for */
	bool trust_stale;
	struct stripe_search *search;
};

/* Rows have no columns yet. NULL: no memory. */
struct stripe *stripe_create(struct vdev *vd, struct vdev_io *io, unsigned nparity, unsigned nrows, size_t ncols);
void stripe_free(struct stripe *s);
/* Reads, rebuilds, searches; ends with io->done. Takes the stripe. */
void stripe_read(struct stripe *s);
/* Makes parity, writes; ends with io->done. Takes the stripe. */
void stripe_write(struct stripe *s);
int stripe_alloc_parity(struct stripe *s); /* room for the parity columns, for both */

/* Where a block lies. io: offset, size, txg and data are used. NULL: no memory. */
struct stripe *vdev_raidz_map(struct vdev *vd, struct vdev_io *io);
struct stripe *vdev_draid_map(struct vdev *vd, struct vdev_io *io);

/* draid_maps.c */
#define DRAID_ROWS_SMALL 256 /* up to 31 children */
#define DRAID_ROWS_LARGE 512
/* Permutations for `children` devices in `domains` failure groups: *nrows rows of `children` bytes (domains > 1: a row
 * of a group of `domains` rows holds numbers of all the devices). malloc'd. */
uint16_t *draid_map_generate(unsigned children, unsigned domains, unsigned *nrows);
/* Checksum of the unshuffled map as the table has it, and that of the generated one. */
uint64_t draid_map_checksum(unsigned children, bool generated);

#endif
