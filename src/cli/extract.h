/*
 * cli/extract.h: `tarn extract`: files, trees and volumes straight from the devices, without the daemon.
 *
 * The walk (main thread) makes the files of the destination and hands their bytes to the pump: a queue, in order, of
 * reads in flight, holes, and the ends of files. The pump's own thread writes what was read and gives every file and
 * directory its owner, mode, attributes and times when its end comes up, so that small files overlap as the blocks of
 * large ones do. What cannot be read or stored is told on stderr, and the walk goes on.
 *
 * Nothing of a pool is trusted with the destination: names are single components, everything is made relative to
 * directories that this run opened without following links.
 *
 * Locks: one in the pump, for its queue; one around stderr and the totals (extract_lost ...). Both are leaves.
 */
#ifndef CLI_EXTRACT_H
#define CLI_EXTRACT_H

#include <pthread.h>

#include "base/list.h"
#include "base/sync.h"
#include "cli/cli.h"
#include "spa/spa.h"
#include "zpl/zpl.h"
#include "zvol/zvol.h"

struct extract_options {
	char **paths;
	size_t npaths;
	const char *cachefile, *key_location;
	uint64_t txg;
	bool destroyed, rewind, extreme, checkpoint;
	bool recursive, dry, verbose, force, no_xattrs, no_owner;
};

/* One run. */
struct extract {
	struct extract_options o;
	struct spa *spa;
	struct arc *arc;
	struct pump *pump;
	bool to_stdout; /* -v goes to stderr then */
	/* guarded by lock */
	pthread_mutex_t lock;
	uint64_t lost_files, lost_bytes, failures;
	bool told_nfs4, told_owner;
};

/* Where bytes come from: a file (zn) or a volume (zv). */
struct extract_source {
	struct znode *zn;
	struct zvol *zv;
	struct dnode *dn;
	uint64_t size;
};

enum extract_sink {
	SINK_FILE,   /* new and empty: holes are left out */
	SINK_DEVICE, /* holes are zeroed */
	SINK_STREAM, /* holes are written */
};

/* Something being made. Belongs to the pump once its end was queued. */
struct extract_file {
	struct extract *x;
	struct extract_source src;
	enum extract_sink sink;
	int fd;         /* the file or directory; -1: a special file or link, to be found as `name` */
	int dirfd;      /* for those without fd; the directory's end comes later in the queue */
	char *name;     /* in dirfd */
	char *label;    /* for messages */
	bool attrs;     /* give it the znode's attributes */
	bool keep_open; /* fd is not ours */
	uint64_t lost_start, lost_end, lost;
	int lost_err;
	int failed; /* the pump's thread: writing did not work */
};
struct extract_file *extract_file_create(struct extract *x, const char *label);

/* ---- messages (extract.c) ---- */

/* "LABEL: text", counted as a failure. */
void extract_failed(struct extract *x, const char *label, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Not counted. */
void extract_note(struct extract *x, const char *label, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A name with control bytes and backslashes as \ooo. malloc'd. */
char *extract_name_show(const char *name);

/* ---- extract_pump.c ---- */

struct pump *pump_create(void);
void pump_destroy(struct pump *p); /* waits for the end of the queue */
void pump_drain(struct pump *p);
/* All bytes of f->src. */
void pump_data(struct pump *p, struct extract_file *f);
/* The last of a file: attributes are set, it is closed and freed. */
void pump_end(struct pump *p, struct extract_file *f);
/* The destination is full or gone: no sense in going on. */
bool pump_is_dead(struct pump *p);

/* ---- extract_tree.c ---- */

/*
 * A data set, or what is at `path` in it, becomes `name` in dirfd. merge: an existing directory is used.
 * fd >= 0: goes to that open stream or device instead.
 */
struct extract_target {
	int dirfd;
	const char *name;
	int fd;
	enum extract_sink sink;
	bool merge;
};
int extract_dataset(struct extract *x, struct dsl_dataset *ds, const char *path, const struct extract_target *to);

/* ---- extract_key.c ---- */

/* The key of an encrypted data set, unless it is loaded. */
int extract_key_load(struct extract *x, struct dsl_dataset *ds, struct err *e);

/* ---- extract_attr.c ---- */

/* Owner, mode, extended attributes, ACLs and times, in the order that lets each stand. */
void extract_attrs_set(struct extract_file *f);

#endif
