/*
 * tarn/tarn.h: libtarn, read OpenZFS pools in your own process.
 *
 * This header is the manual. Link with `pkg-config --libs tarn`; the version is that of tarn_version().
 *
 * What it is
 *
 *   A pool of ZFS lies on one or more devices: files, partitions, whole disks. libtarn opens the pool read-only from
 *   these devices, without a kernel module, without a daemon and without mounting anything, and hands out what is in
 *   it: data sets with their properties, file systems with their directories, files and extended attributes, volumes
 *   as arrays of bytes. Snapshots are opened by their names, "pool/fs@snap", like everything else.
 *
 *   Nothing is ever written to a device. The pool may be one that another host has not exported; opening it then
 *   needs TARN_FORCE, and what is read is only consistent when nobody writes to it meanwhile.
 *
 * How it goes
 *
 *     struct tarn *t;  struct tarn_pool *pool;  struct tarn_fs *fs;  struct tarn_node *file;
 *     struct tarn_error e;
 *     const char *dirs[] = {"/dev"};
 *     struct tarn_open_options how = {.paths = dirs, .npaths = 1};
 *
 *     tarn_create(64 << 20, &t, &e);                           a cache of 64 MiB, and threads
 *     tarn_pool_open(t, "tank", &how, &pool, &e);
 *     tarn_fs_open(pool, "tank/home@monday", &fs, &e);
 *     tarn_node_open(fs, "alice/letter.txt", &file, &e);
 *     tarn_node_read(file, 0, buffer, sizeof(buffer), &got, &e);
 *     tarn_node_close(file);  tarn_fs_close(fs);  tarn_pool_close(pool, &e);  tarn_destroy(t);
 *
 *   docs/examples/tarn-cat.c in the source is a whole program.
 *
 * Ownership
 *
 *   What a function with "open" or "create" in its name hands out is yours until you give it to the function with
 *   "close" or "destroy". Close from the inside outwards: nodes before their file system, file systems and volumes
 *   before their pool, pools before the tarn. tarn_pool_close refuses (-EBUSY) while file systems or volumes of the
 *   pool are open; the other order is an error of the program that is not detected. Strings inside structs that a
 *   callback gets live until the callback returns. What says "malloc'd" is released with tarn_free.
 *
 * Errors
 *
 *   Functions return 0 or a negative errno. Where they take a struct tarn_error (NULL is allowed), it holds after a
 *   failure the same code and a sentence for people, which names the pool, device, file or feature, and the cause;
 *   hints may follow on further lines. After success it is unchanged. Codes with a meaning of their own:
 *
 *     -EBADE   a block's checksum does not match on any copy: the data is damaged
 *     -EIO     a device could not be read, or the structure is damaged
 *     -ENOKEY  the data set is encrypted and its key is not loaded (tarn_key_load)
 *     -EACCES  wrong key
 *     -ENOTSUP the pool uses a feature that is not known here; the text names it
 *
 *   An error of one block, file or data set never spoils the others: go on reading elsewhere.
 *
 * Threads
 *
 *   Every function may be called from any thread, several at once on the same object, except that closing an object
 *   must not happen while another call uses it. All functions wait for devices except the ones named _async,
 *   which never do. Callbacks of tarn_*_async run on threads of the library or inside the call itself: they must not
 *   block and must not call anything here but _async functions. All other callbacks run on the calling thread, and
 *   may call anything but closing what is being walked.
 *
 *   The library starts threads and must not be used in a child after fork() that the parent used before.
 *
 * Limits and caveats
 *
 *   - The cache given to tarn_create bounds decoded blocks that are kept; blocks in use by a caller's reads come on
 *     top. It is per struct tarn, shared by its pools. One tarn in a process is enough.
 *   - Symbolic links are not followed by path look-ups: read them, and decide.
 *   - Warnings are written to standard error when the environment has TARN_LOG=warn; by default only errors are.
 *   - What was not written in a transaction group before the pool was cut off from power stands in the intent log,
 *     and is not replayed by a read-only open: files show the last transaction group.
 */
#ifndef TARN_TARN_H
#define TARN_TARN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_API __attribute__((visibility("default")))

/* Room for a data set's name with its final NUL. */
#define TARN_NAME_MAX 256

struct tarn;        /* cache and threads */
struct tarn_pool;   /* an opened pool */
struct tarn_fs;     /* an opened file system or snapshot of one */
struct tarn_node;   /* a file, directory, link ... of it */
struct tarn_volume; /* an opened volume or snapshot of one */

struct tarn_error {
	int code; /* negative errno */
	char text[1024];
};

/* "0.1.0" */
TARN_API const char *tarn_version(void);
TARN_API void tarn_free(void *p);

/* cache_bytes: at least 16 MiB (-EINVAL). */
TARN_API int tarn_create(uint64_t cache_bytes, struct tarn **out, struct tarn_error *e);
TARN_API void tarn_destroy(struct tarn *t); /* NULL is allowed; all pools are closed */

/* ---- pools ---- */

/* What was found on the devices, before anything is opened. */
struct tarn_found {
	const char *name;
	uint64_t guid;
	const char *health; /* "ONLINE", "DEGRADED", "UNAVAIL" ... */
	const char *reason; /* why it is not simply "ONLINE", or NULL */
	bool destroyed;
};
/* Searches directories and devices (none: /dev); calls found for each pool until it returns non-zero, which is
 * returned. */
TARN_API int tarn_pool_search(struct tarn *t, const char *const *paths, size_t npaths,
			      int (*found)(void *arg, const struct tarn_found *pool), void *arg, struct tarn_error *e);

#define TARN_FORCE       1u /* although another host used the pool last */
#define TARN_MISSING_LOG 2u /* although a log device is missing */
#define TARN_DESTROYED   4u /* a destroyed pool */
#define TARN_REWIND      8u /* when the newest state is damaged, go back to one that is not */

/* Zero means the default, everywhere. */
struct tarn_open_options {
	const char *const *paths; /* directories and devices to search; none: /dev */
	size_t npaths;
	uint64_t guid; /* which one of several pools of one name */
	uint64_t txg;  /* the state after this transaction group, if its blocks are still there; 0: the newest */
	unsigned flags;
	/* Told the stage ("reading labels of /dev/sdb"); returns true to give up (-EINTR). */
	bool (*progress)(void *arg, const char *stage);
	void *progress_arg;
};
/* name may be NULL when there is a guid. */
TARN_API int tarn_pool_open(struct tarn *t, const char *name, const struct tarn_open_options *how,
			    struct tarn_pool **out, struct tarn_error *e);
TARN_API int tarn_pool_close(struct tarn_pool *p, struct tarn_error *e);
TARN_API const char *tarn_pool_name(const struct tarn_pool *p);
TARN_API uint64_t tarn_pool_guid(const struct tarn_pool *p);
/* The transaction group that is being read. */
TARN_API uint64_t tarn_pool_txg(const struct tarn_pool *p);

/* A property as `zpool get -p` or `zfs get -p` shows it. */
struct tarn_property {
	const char *name;
	const char *value;  /* exact: sizes in bytes, times in seconds */
	const char *source; /* "local", "default", "inherited from tank", "received", "-" */
	bool has_number;    /* numeric and index properties: the number as well */
	uint64_t number;
};
/* In the order of OpenZFS's tables. Stops at the first non-zero return of each, which is returned. */
TARN_API int tarn_pool_properties(struct tarn_pool *p, int (*each)(void *arg, const struct tarn_property *property),
				  void *arg, struct tarn_error *e);

/* ---- data sets ---- */

#define TARN_FILESYSTEM 1u
#define TARN_SNAPSHOT   2u
#define TARN_VOLUME     4u

struct tarn_dataset {
	const char *name; /* "tank/home", "tank/home@monday" */
	unsigned type;    /* TARN_FILESYSTEM or TARN_VOLUME; snapshots have TARN_SNAPSHOT as well. 0: see err */
	uint64_t guid, createtxg;
	int64_t creation; /* seconds since 1970 */
	bool encrypted, key_loaded;
	int err; /* this one is damaged (a negative errno): only its name is known; the others go on */
};
/*
 * The data set `name` (NULL: the pool's root) and everything below, each before its children: file systems and volumes
 * by name, the snapshots of each in the order of their making. types: TARN_* to be told of. Stops at the first
 * non-zero return of each, which is returned.
 */
TARN_API int tarn_dataset_walk(struct tarn_pool *p, const char *name, unsigned types,
			       int (*each)(void *arg, const struct tarn_dataset *dataset), void *arg,
			       struct tarn_error *e);
/* All properties of a data set or snapshot, its user properties too. */
TARN_API int tarn_dataset_properties(struct tarn_pool *p, const char *name,
				     int (*each)(void *arg, const struct tarn_property *property), void *arg,
				     struct tarn_error *e);
/* One property's exact value, malloc'd. -ENOENT: no such data set, or it has no such property. */
TARN_API int tarn_dataset_property(struct tarn_pool *p, const char *name, const char *property, char **value,
				   struct tarn_error *e);

/* ---- keys of encrypted data sets ---- */

/* The data set whose key opens this one, and whether it is loaded. -ENOENT: not encrypted. */
TARN_API int tarn_key_root(struct tarn_pool *p, const char *name, char root[TARN_NAME_MAX], bool *loaded,
			   struct tarn_error *e);
/* Loads the key of a data set's encryption root, for all that inherit it. material: the passphrase, 64 hex digits, or
 * 32 raw bytes, as the property keyformat says. -EACCES wrong key, -EINVAL malformed, -EEXIST already loaded. */
TARN_API int tarn_key_load(struct tarn_pool *p, const char *name, const void *material, size_t len,
			   struct tarn_error *e);
/* Forgets it. -EBUSY while something under it is open. */
TARN_API int tarn_key_unload(struct tarn_pool *p, const char *name, struct tarn_error *e);

/* ---- file systems ---- */

TARN_API int tarn_fs_open(struct tarn_pool *p, const char *name, struct tarn_fs **out, struct tarn_error *e);
TARN_API void tarn_fs_close(struct tarn_fs *fs);

/* A node by its path from the root of the file system ("" is the root itself); or by its number. */
TARN_API int tarn_node_open(struct tarn_fs *fs, const char *path, struct tarn_node **out, struct tarn_error *e);
TARN_API int tarn_node_open_id(struct tarn_fs *fs, uint64_t id, struct tarn_node **out, struct tarn_error *e);
/* One name in a directory; case and normalization as the file system has them. */
TARN_API int tarn_node_lookup(struct tarn_node *dir, const char *name, struct tarn_node **out, struct tarn_error *e);
TARN_API void tarn_node_close(struct tarn_node *node);

struct tarn_stat {
	uint64_t id, generation; /* inode number; together unique for all time */
	uint32_t mode;           /* as st_mode: type and permissions */
	uint32_t uid, gid;
	uint64_t links, size, rdev;
	uint64_t allocated;  /* bytes on the devices */
	uint32_t block_size; /* of this file */
	struct timespec atime, mtime, ctime, birth;
};
TARN_API void tarn_node_stat(const struct tarn_node *node, struct tarn_stat *st);

struct tarn_entry {
	const char *name;
	uint64_t id;
	unsigned type; /* DT_REG, DT_DIR ... of <dirent.h>; DT_UNKNOWN in very old pools */
	uint64_t next; /* where to go on after this entry */
};
/* The entries of a directory from a place on (0: the beginning, with "." and ".."). Stops at the first non-zero return
 * of each, which is returned; going on later from `next` misses and repeats nothing. */
TARN_API int tarn_dir_read(struct tarn_node *dir, uint64_t from, int (*each)(void *arg, const struct tarn_entry *entry),
			   void *arg, struct tarn_error *e);

/* Up to len bytes from an offset; *got is less only at the end of the file. -EBADE or -EIO: a block among them is not
 * readable; ask for less to get what is around it. */
TARN_API int tarn_node_read(struct tarn_node *file, uint64_t offset, void *buffer, size_t len, size_t *got,
			    struct tarn_error *e);
/* *offset moves to the next hole or data at or after it. -ENXIO: no data from there on. */
TARN_API int tarn_node_seek(struct tarn_node *file, uint64_t *offset, bool hole);
TARN_API int tarn_node_readlink(struct tarn_node *link, char **target, struct tarn_error *e); /* malloc'd */
/* Extended attributes by their Linux names ("user.x", "system.posix_acl_access"). Names: NUL-terminated, one after
 * the other. Both malloc'd. -ENODATA: there is none. */
TARN_API int tarn_node_xattr_list(struct tarn_node *node, char **names, size_t *len, struct tarn_error *e);
TARN_API int tarn_node_xattr_get(struct tarn_node *node, const char *name, void **value, size_t *len,
				 struct tarn_error *e);

/* ---- volumes ---- */

TARN_API int tarn_volume_open(struct tarn_pool *p, const char *name, struct tarn_volume **out, struct tarn_error *e);
TARN_API void tarn_volume_close(struct tarn_volume *v);
TARN_API uint64_t tarn_volume_size(const struct tarn_volume *v);
TARN_API uint32_t tarn_volume_block_size(const struct tarn_volume *v);
/* The range must lie within the volume (-EINVAL). */
TARN_API int tarn_volume_read(struct tarn_volume *v, uint64_t offset, void *buffer, size_t len, struct tarn_error *e);
TARN_API int tarn_volume_seek(struct tarn_volume *v, uint64_t *offset, bool hole);

/* ---- reading without waiting ---- */

/*
 * The struct and the buffer are yours, and must stay until done has been called, exactly once. err: 0 or a negative
 * errno; got: bytes that are in the buffer (0 after an error). The file or volume stays open until then.
 */
struct tarn_read {
	uint64_t offset;
	void *buffer;
	size_t len; /* at most TARN_READ_MAX */
	void (*done)(struct tarn_read *r, int err, size_t got);
	void *arg; /* yours */
};
#define TARN_READ_MAX (64u << 20)
TARN_API void tarn_node_read_async(struct tarn_node *file, struct tarn_read *r);
TARN_API void tarn_volume_read_async(struct tarn_volume *v, struct tarn_read *r);

#ifdef __cplusplus
}
#endif
#endif
