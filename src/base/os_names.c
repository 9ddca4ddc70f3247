/* Users and groups by the system's databases. */
#include <grp.h>
#include <pwd.h>
#include <stdio.h>

#include "base/os.h"

#define RECORD_MAX 65536 /* a group's record carries its members */

static int name_copy(char *name, size_t size, const char *found)
{
	return snprintf(name, size, "%s", found) < (int)size ? 0 : -ENOENT;
}

int os_user_id(const char *name, uint32_t *id)
{
	autofree char *buf = xmalloc(RECORD_MAX);
	struct passwd pw, *found = NULL;

	if (getpwnam_r(name, &pw, buf, RECORD_MAX, &found) != 0 || !found)
		return -ENOENT;
	*id = pw.pw_uid;
	return 0;
}

int os_group_id(const char *name, uint32_t *id)
{
	autofree char *buf = xmalloc(RECORD_MAX);
	struct group gr, *found = NULL;

	if (getgrnam_r(name, &gr, buf, RECORD_MAX, &found) != 0 || !found)
		return -ENOENT;
	*id = gr.gr_gid;
	return 0;
}

int os_user_name(uint32_t id, char *name, size_t size)
{
	autofree char *buf = xmalloc(RECORD_MAX);
	struct passwd pw, *found = NULL;

	if (getpwuid_r(id, &pw, buf, RECORD_MAX, &found) != 0 || !found)
		return -ENOENT;
	return name_copy(name, size, pw.pw_name);
}

int os_group_name(uint32_t id, char *name, size_t size)
{
	autofree char *buf = xmalloc(RECORD_MAX);
	struct group gr, *found = NULL;

	if (getgrgid_r(id, &gr, buf, RECORD_MAX, &found) != 0 || !found)
		return -ENOENT;
	return name_copy(name, size, gr.gr_name);
}
