/*
 * cli/vdev_spec.h: the words that name devices to `zpool create` and `zpool add` (docs/format/09-cli.md 9.6; checks of
 * 06, 11.3): disk, file, mirror, raidz[1-3], draid[P][:Dd][:Cc][:Ss], after the class words log, special, dedup, spare,
 * cache.
 */
#ifndef CLI_VDEV_SPEC_H
#define CLI_VDEV_SPEC_H

#include "base/err.h"
#include "nv/nv.h"

/*
 * Words to a vdev_tree: { type "root", children [...], spares [...], l2cache [...] }; each vdev with type, path,
 * nparity, is_log, alloc_bias, draid_* as a label has them (06, 1.3); ashift 0: none given. Without `force` sets of
 * different replication are refused. The list is the caller's.
 */
int vdev_spec_parse(char *const *words, size_t n, bool force, uint64_t ashift, struct nvlist **tree, struct err *e);
/* The tree as `zpool create -n` shows it, below the pool's name. */
void vdev_spec_print(const struct nvlist *tree, const char *pool);

#endif
