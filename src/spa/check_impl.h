/*
 * spa/check_impl.h: check.c walks, check_claim.c compares with the space maps.
 *
 * What the space maps say is allocated, less what the walk has met. A block met again must be one that is shared by
 * deduplication or cloning; what is left in the end has leaked. Shared blocks met so far are kept in a table, with
 * their counts: 24 bytes each.
 */
#ifndef SPA_CHECK_IMPL_H
#define SPA_CHECK_IMPL_H

#include "spa/check.h"

void spa_check_warn(struct spa_check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct spa_claims;
struct spa_claims *spa_claims_create(struct spa *spa, struct spa_check *check);
/* How often the block was met, this time included; more than once: it is shared. */
unsigned spa_claim(struct spa_claims *c, const struct bp *bp, const struct zbookmark *zb);
/* Tells what leaked; fills in the sums. */
void spa_claims_finish(struct spa_claims *c);
void spa_claims_destroy(struct spa_claims *c);

#endif
