/*
 * dmu/sync.h: writing what a group changed in an object set (docs/format/02, 1.2, 1.6, 6.3, 7). Internal to dmu/.
 *
 * One thread runs objset_sync: it starts reads and writes, and waits for their completions, which only post events to
 * it. So all of the state here belongs to that thread; computation (compression, checksums) is zio's, on other threads.
 * What is started at once is bounded in bytes and in indirect blocks that are held.
 *
 * A dirty dnode is a tree of nodes: its dirty blocks, the indirect blocks above them and at the edges of freed ranges,
 * and on top the dnode itself as an array of pointers. A node of level 1 reads the old indirect block, then its dirty
 * blocks are written; when the last one is, the pointers are put in and the block is written, and so on upwards. Last
 * comes the meta-dnode, which holds the dnodes' slots, then the header.
 */
#ifndef DMU_SYNC_H
#define DMU_SYNC_H

#include "base/sync.h"
#include "dmu/dbuf.h"

struct sync;

/* Something is done; `run` is called by the sync's thread. */
struct sync_event {
	struct list_node node;
	struct sync *s;
	void (*run)(struct sync_event *e);
};

struct sync_node {
	struct sync_dnode *sd;
	struct sync_node *parent;
	uint64_t blkid;
	unsigned level;        /* of the block; that of the top node is the dnode's nlevels */
	uint32_t pending;      /* nodes below, or blocks, that are not done */
	uint32_t first, count; /* level 1: dirty blocks, sd->item[] */
	uint32_t next;         /* the next of them to be written */
	uint32_t nchildren;    /* nodes below, which follow each other */
	struct sync_node *child;
	struct list_node link; /* in sync.writing */
	struct buf *old;       /* what the block was, while the node is at work; NULL: a hole (or the top) */
	bool old_swapped;
	bool lost;    /* the old block cannot be read: nothing was changed */
	struct bp bp; /* what points to it: of the old block, then of the new one */
};

struct sync_dnode {
	struct sync *s;
	struct dnode *dn;               /* with the reference that the group had */
	struct list_node link;          /* in sync.dnodes, then in sync.finished */
	struct list_node work;          /* in sync.working */
	struct dnode_state *state;      /* what is to be written */
	struct dnode_tree tree;         /* what was, empty when reborn */
	struct bp old_spill, was_spill; /* was_spill: also when it goes with the whole object */
	bool is_new_tree;               /* nothing was, or it goes as a whole */
	unsigned old_slots;             /* 0: was not in the tree */
	unsigned nlevels, epb_shift;    /* that are to be */
	uint64_t used;
	uint64_t free_limit; /* blocks from here on do not exist in the tree */
	struct rangetree *freed;
	struct dbuf_version **item; /* by blkid */
	uint32_t nitems;
	struct dbuf_version *spill;
	struct sync_node *nodes;        /* by level from 1 on, then by blkid; the top last */
	uint32_t nnodes, next, nstarts; /* nstarts: of those with nothing below them, how many are not started */
	struct sync_node *top;
	struct bp root[3]; /* the dnode's new pointers */
	struct bp new_spill;
};

struct sync {
	struct objset *os;
	struct tx *tx;
	pthread_mutex_t lock; /* guards `events` */
	pthread_cond_t cond;
	struct list events;
	uint64_t in_flight;  /* events that will come */
	uint64_t bytes;      /* being written */
	unsigned held;       /* nodes at work */
	struct list dnodes;  /* sync_dnode with nodes not started */
	struct list working; /* sync_dnode not finished */
	unsigned ndnodes;    /* of them */
	struct list writing; /* level 1 nodes with blocks to be written */
	struct list finished;
	bool may_not_lose; /* what cannot be read ends the sync: the MOS, the meta-dnode */
	unsigned lost;     /* losses told in the log */
	int err;           /* the pool is lost: nothing more is started */
};

/* Any thread. */
void sync_post(struct sync_event *e);
/* The event will come. */
void sync_expect(struct sync *s, struct sync_event *e, void (*run)(struct sync_event *e));
/* A read failed that the sync cannot do without. True: the pool was suspended and goes on, try again. */
bool sync_retry_read(struct sync *s, const struct zbookmark *zb, int err);

/* Whether one more loss is worth a line in the log: a bad device would fill it. */
bool sync_tells_loss(struct sync *s);

/* --- accounting (sync_free.c) --- */
/* A pointer takes the place of another; adjusts used. */
void sync_replace(struct sync_dnode *sd, const struct bp *old, const struct bp *new);
/* A block of this level and all beneath it go. Waits for devices. */
void sync_kill_tree(struct sync_dnode *sd, const struct bp *bp, unsigned level, uint64_t blkid);
/* What a pointer becomes that led to something. */
struct bp sync_hole(const struct sync_dnode *sd, const struct bp *old, unsigned level);

/* --- policy (sync_policy.c) --- */
void sync_policy(struct objset *os, const struct dnode *dn, const struct dnode_shape *shape, unsigned level, bool spill,
		 struct zio_policy *p);

/* --- dnodes (sync_dnode.c) --- */
struct sync_dnode *sync_dnode_create(struct sync *s, struct dnode *dn);
void sync_dnode_destroy(struct sync_dnode *sd);
/* The top node is done. */
void sync_dnode_top_done(struct sync_dnode *sd);
/* 512 bytes per slot. */
void sync_dnode_encode(const struct dnode *dn, const struct dnode_state *st, uint8_t *phys);

/* --- nodes (sync_node.c) --- */
/* Starts the next node of the dnode that waits for nothing below it: there are nstarts of them. */
void sync_dnode_start_node(struct sync_dnode *sd);
/* Starts the next block of a node; takes the node off the list after the last. */
void sync_node_start_block(struct sync *s, struct sync_node *n);

/* --- user accounting (objset_accounting.c) --- */
/* Notes what the dnode was and is, once its new tree is stored. */
void sync_account(struct sync_dnode *sd, const struct dnode_state *old, uint8_t old_flags, uint64_t old_used);

#endif
