/*
 * base/os.h: what differs between operating systems and is no device: host identity, run directories, memory size.
 */
#ifndef BASE_OS_H
#define BASE_OS_H

#include <pthread.h>

#include "base/base.h"

/* Host id as OpenZFS finds it (docs/format/01-pool.md, 10.1); 0 when none is set. */
uint32_t os_hostid(void);
const char *os_hostname(void);
uint64_t os_memory_bytes(void);
unsigned os_cpus(void);
/* $TARN_RUNDIR, else /run/tarn for root, $XDG_RUNTIME_DIR/tarn or /tmp/tarn-UID for others. Made (0700) by
 * os_rundir_make. */
const char *os_rundir(void);
/* $TARN_STATEDIR, else /var/lib/tarn or $XDG_STATE_HOME/tarn (~/.local/state/tarn). */
const char *os_statedir(void);
/* Files that come with Tarn: $TARN_DATADIR, else the folder of the program where it is a build folder, else the one
 * they are installed in. */
const char *os_datadir(void);
int os_rundir_make(void);
/*
 * Zeroed memory for keys: locked where the limit allows (else it may be swapped), never in core dumps or children.
 * Rounded up to pages. os_secret_free wipes it; NULL is allowed.
 */
void *os_secret_alloc(size_t size);
void os_secret_free(void *p, size_t size);
/* Random bytes for ids, salts and keys; any thread. */
void os_random(void *p, size_t size);
uint64_t os_random64(void);        /* never 0 */
int os_dir_make(const char *path); /* like mkdir -p, mode 0700 */
/* Users and groups by name and number; -ENOENT when there is none. */
int os_user_id(const char *name, uint32_t *id);
int os_group_id(const char *name, uint32_t *id);
int os_user_name(uint32_t id, char *name, size_t size);
int os_group_name(uint32_t id, char *name, size_t size);
/* A thread that takes no signals: those are for the program's main thread. Joined by the caller. */
int os_thread_create(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
