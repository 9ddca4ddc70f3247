/* Paths at which a test's disks are found. */
#include "disk/testdisk.h"

/* Changed only while nobody opens disks. */
static struct testdisk_path *paths;

void testdisk_publish(struct testdisk_path *p)
{
	p->next = paths;
	paths = p;
}

void testdisk_withdraw(struct testdisk_path *p)
{
	for (struct testdisk_path **at = &paths; *at; at = &(*at)->next) {
		if (*at == p) {
			*at = p->next;
			return;
		}
	}
}

const struct testdisk_path *testdisk_find(const char *path)
{
	const struct testdisk_path *p = paths;

	while (p && strcmp(p->path, path) != 0)
		p = p->next;
	return p;
}
