/*
 * disk/recorder_impl.h: what recorder.c and replay.c share.
 */
#ifndef DISK_RECORDER_IMPL_H
#define DISK_RECORDER_IMPL_H

#include <pthread.h>

#include "disk/recorder.h"
#include "disk/sparse.h"

struct recorder {
	pthread_mutex_t lock; /* guards everything but the bytes of records; innermost */
	uint64_t clock;
	struct record **log;
	size_t len, room;
	struct taskq *queue;
	unsigned ndisks;
	struct {
		struct sparse *base; /* where the log begins */
		struct sparse *live; /* over base: with all of the log */
	} disk[];
};

/* over: NULL, or what is on the disks at first; not changed. */
struct recorder *recorder_make(unsigned ndisks, uint64_t size, struct sparse *const *over);
/* Writes and discards; nothing else changes a store. */
void record_apply(struct sparse *s, const struct record *w);

#endif
