/*
 * dsl/dsl_hold.c: the holds of a snapshot (03-datasets.md 4.9).
 */
#include "base/log.h"
#include "dsl/dsl_live.h"

int dsl_each_hold(struct dsl_dataset *snap, int (*fn)(void *arg, const char *tag, uint64_t time), void *arg)
{
	struct name_list l;
	int err;

	if (!snap->is_snapshot)
		return -EINVAL;
	{
		DSL_SHARED(snap->pool);
		err = name_list_read(snap->pool->mos, snap->userrefs, &l);
	}
	if (err)
		return err;
	if (l.err)
		log_warn("%s: some holds cannot be listed: %s", snap->name, err_words(l.err));
	for (size_t i = 0; i < l.n && !err; i++)
		err = fn(arg, l.e[i].name, l.e[i].object);
	name_list_free(&l);
	return err;
}
