/*
 * disk/recorder.h: disks in memory whose every write is recorded, and what is left of them when the power goes at any
 * moment: for tests that a whole pool survives every crash.
 *
 * Recording. A recorder has some disks with one log over all of them. Requests are served by a few threads; bytes are
 * taken when a write is submitted. The log holds writes and discards (in the order of submission), flushes (where they
 * ended) and the test's own marks ("flush 17 was acknowledged").
 *
 *	struct recorder *rec = recorder_create(ndisks, size);
 *	... make the pool on recorder_open(rec, 0 ...), close the disks ...
 *	recorder_rebase(rec);                   what is there now is where every crash starts from
 *	... open the disks again, work; recorder_mark(rec, n) where something was promised; close ...
 *
 * Replaying. A replay stands after a number of entries of the log and only goes forward, so that visiting every one
 * costs no more than the log is long. At each place any number of crashes can be made, one after another. A crash is a
 * set of disks as the power failure may have left them:
 *
 *   - What a flush confirmed is there: writes to its disk that had completed before it was submitted.
 *   - Of every other write that was submitted before the crash, completed or not, the variant decides: kept whole,
 *lost, or torn (some of its sectors of 512 bytes are kept, whatever their order).
 *   - The writes that are kept reach the medium in the order of submission; with `reorder` those that were under way at
 *     the same time in any order.
 *
 *	struct replay *re = replay_create(rec);
 *	for (size_t at = 0; at <= recorder_len(rec); at++) {
 *		replay_advance(re, at);
 *		struct crash *c = replay_crash(re, NULL);
 *		... crash_open(c, 0 ...), import, check against replay_mark(re), close the disks ...
 *		crash_destroy(c);
 *	}
 *	replay_destroy(re);
 *
 * The disks of a crash can be written; what is written is gone with the crash. Costs: a crash without a variant
 *nothing; with one, copying the pages under the unconfirmed writes.
 *
 * Threads: recorder_open's disks any; a recorder is rebased and replayed while its disks are quiet; several replays of
 * one recorder may run on as many threads.
 */
#ifndef DISK_RECORDER_H
#define DISK_RECORDER_H

#include "disk/disk.h"

struct recorder;
struct recorder *recorder_create(unsigned ndisks, uint64_t size);
void recorder_destroy(struct recorder *r); /* NULL is allowed; disks are closed, replays destroyed */
/* Contents stay with the recorder, so that a disk can be closed and opened again. */
struct disk *recorder_open(struct recorder *r, unsigned disk);
/* Forgets the log: all that was written so far is on the media. */
void recorder_rebase(struct recorder *r);
/* Any thread: puts `value` into the log, after everything that has completed. */
void recorder_mark(struct recorder *r, uint64_t value);

enum record_kind { RECORD_WRITE, RECORD_DISCARD, RECORD_FLUSH, RECORD_MARK };
struct record {
	enum record_kind kind;
	unsigned disk;
	uint64_t offset, length;
	const uint8_t *data;  /* of a write */
	uint64_t start, done; /* when it was submitted, had completed; one clock for all; UINT64_MAX: never */
	uint64_t mark;
	size_t index; /* in the log */
};
size_t recorder_len(const struct recorder *r);
const struct record *recorder_record(const struct recorder *r, size_t i);

struct replay;
struct replay *replay_create(const struct recorder *r);
void replay_destroy(struct replay *re);
/* The first `at` entries have happened; never less than before. No crash of it is alive. */
void replay_advance(struct replay *re, size_t at);
uint64_t replay_mark(const struct replay *re); /* the last one that was passed; 0: none */
size_t replay_unconfirmed(const struct replay *re);

enum crash_fate { CRASH_KEEP, CRASH_LOSE, CRASH_TEAR };
struct crash_variant {
	/* Of one unconfirmed write or discard; asked in the order of submission. NULL: all are kept. */
	enum crash_fate (*fate)(void *arg, const struct record *w);
	void *arg;
	bool reorder;
	uint64_t seed; /* of tears and order */
};
/* Fates: everything that could be lost is; of a hundred writes so many are lost, so many torn. */
enum crash_fate crash_lose_all(void *arg, const struct record *w);
struct crash_odds {
	unsigned lose, tear; /* percent */
	uint64_t seed;
};
enum crash_fate crash_by_odds(void *odds, const struct record *w);

struct crash;
struct crash *replay_crash(struct replay *re, const struct crash_variant *v); /* NULL: everything submitted is there */
/* One at a time of each disk, as often as wanted: what was written before is there again. */
struct disk *crash_open(struct crash *c, unsigned disk);
void crash_destroy(struct crash *c); /* its disks are closed */
/* What happens on the disks of a crash is recorded in its turn: for crashes during recovery. The crash lives as long as
 * the recorder, and its disks are closed meanwhile. */
struct recorder *recorder_create_over(struct crash *c);

#endif
