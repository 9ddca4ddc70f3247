/*
 * Lists as zdb prints configurations.
 */
#include <inttypes.h>

#include "base/str.h"
#include "nv/nv_impl.h"

static void print_value(const struct nvpair *p, size_t i, struct str *out)
{
	const struct nv_type_info *info = nv_type_info(p->type);

	if (info->shape == NV_SHAPE_STRING)
		str_addf(out, " '%s'", p->strings[i]);
	else if (p->type == NV_BOOLEAN_VALUE || p->type == NV_BOOLEAN_ARRAY)
		str_addf(out, " %s", nvpair_int(p, i) ? "true" : "false");
	else if (info->is_signed)
		str_addf(out, " %" PRId64, (int64_t)nvpair_int(p, i));
	else
		str_addf(out, " %" PRIu64, nvpair_int(p, i));
}

void nvlist_print(const struct nvlist *l, unsigned indent, struct str *out)
{
	for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_next(l, p)) {
		const struct nv_type_info *info = nv_type_info(p->type);

		if (info->shape == NV_SHAPE_FLAG)
			str_addf(out, "%*s%s\n", (int)indent, "", p->name);
		for (size_t i = 0; i < p->count; i++) {
			str_addf(out, "%*s%s", (int)indent, "", p->name);
			if (info->is_array)
				str_addf(out, "[%zu]", i);
			str_add(out, ":");
			if (info->shape != NV_SHAPE_LIST)
				print_value(p, i, out);
			str_add(out, "\n");
			if (info->shape == NV_SHAPE_LIST)
				nvlist_print(p->lists[i], indent + 4, out);
		}
	}
}
