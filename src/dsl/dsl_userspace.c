/*
 * dsl/dsl_userspace.c: single values of user, group and project accounting as properties: userused@alice and its
 * relatives (07-filesystem-zvol-zil.md 5.6, 6.2, 6.7).
 */
#include <stdio.h>

#include "base/os.h"
#include "dsl/dsl_impl.h"

#define MASTER_NODE    1
#define FUID_TABLE_MAX (16u << 20)

enum who_kind { WHO_USER, WHO_GROUP, WHO_PROJECT };
static const struct {
	const char *prefix; /* also the quota's key in the master node */
	enum who_kind who;
	bool used, objects;
} space_table[] = {
    {"userused@", WHO_USER, true, false},         {"groupused@", WHO_GROUP, true, false},
    {"projectused@", WHO_PROJECT, true, false},   {"userobjused@", WHO_USER, true, true},
    {"groupobjused@", WHO_GROUP, true, true},     {"projectobjused@", WHO_PROJECT, true, true},
    {"userquota@", WHO_USER, false, false},       {"groupquota@", WHO_GROUP, false, false},
    {"projectquota@", WHO_PROJECT, false, false}, {"userobjquota@", WHO_USER, false, true},
    {"groupobjquota@", WHO_GROUP, false, true},   {"projectobjquota@", WHO_PROJECT, false, true},
};

static int space_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(space_table); i++)
		if (strncmp(name, space_table[i].prefix, strlen(space_table[i].prefix)) == 0)
			return i;
	return -1;
}

bool dsl_name_is_userspace(const char *name)
{
	return space_find(name) >= 0;
}

bool dsl_name_is_quota(const char *name)
{
	int i = space_find(name);

	return i >= 0 && !space_table[i].used;
}

/* The index of a domain in the file system's FUID table. */
static int fuid_domain_index(struct objset *os, const char *domain, uint64_t *index)
{
	autofree uint8_t *data = NULL;
	struct nvlist *list = NULL, *const * entry;
	uint64_t object, len;
	struct dnode *dn;
	size_t n;
	int err = zap_lookup_u64(os, MASTER_NODE, "FUID", &object);

	if (err)
		return err;
	err = dnode_hold(os, object, &dn, NULL);
	if (err)
		return err;
	len = dmu_bonus_u64(dn, 0, &len) ? 0 : len;
	data = len && len <= FUID_TABLE_MAX ? malloc(len) : NULL;
	err = data ? dmu_read(dn, 0, data, len, 0) : -EINVAL;
	dnode_release(dn);
	if (!err)
		err = nvlist_unpack(data, len, &list, NULL);
	if (!err)
		err = nvlist_lists(list, "fuid_nvlist", &entry, &n);
	for (size_t i = 0; !err && i < n; i++) {
		if (strcmp(nvlist_string_or(entry[i], "fuid_domain", ""), domain) == 0) {
			err = nvlist_u64(entry[i], "fuid_idx", index);
			nvlist_destroy(list);
			return err;
		}
	}
	nvlist_destroy(list);
	return err ? err : -ENOENT;
}

/* S-1-5-21-1-2-3-1001: the domain is all but the last number. */
static int sid_parse(struct objset *os, const char *sid, uint64_t *fuid)
{
	char domain[256], *dash, *end;
	uint64_t index, rid;
	int err;

	if (snprintf(domain, sizeof(domain), "%s", sid) >= (int)sizeof(domain))
		return -ENOENT;
	dash = strrchr(domain, '-');
	if (!dash || dash[1] < '0' || dash[1] > '9')
		return -ENOENT;
	*dash = '\0';
	rid = strtoull(dash + 1, &end, 10);
	if (*end || rid > UINT32_MAX)
		return -ENOENT;
	err = fuid_domain_index(os, domain, &index);
	if (!err)
		*fuid = index << 32 | rid;
	return err;
}

static int who_parse(struct objset *os, enum who_kind kind, const char *text, uint64_t *fuid)
{
	char *end;
	uint32_t id;
	int err;

	if (*text >= '0' && *text <= '9') {
		errno = 0;
		*fuid = strtoull(text, &end, 10);
		if (*end == '\0' && errno == 0)
			return kind != WHO_PROJECT && *fuid > UINT32_MAX ? -ENOENT : 0;
	}
	if (kind == WHO_PROJECT || *text == '\0')
		return -ENOENT;
	if (strncmp(text, "S-1-", 4) == 0)
		return sid_parse(os, text, fuid);
	err = kind == WHO_USER ? os_user_id(text, &id) : os_group_id(text, &id);
	if (!err)
		*fuid = id;
	return err;
}

int dsl_userspace_get(struct objset *os, const char *name, uint64_t *v)
{
	static const uint64_t used_object[] = {DMU_OBJECT_USERUSED, DMU_OBJECT_GROUPUSED, DMU_OBJECT_PROJECTUSED};
	int i = space_find(name);
	char key[32], master[32];
	uint64_t fuid, object;
	int err;

	if (i < 0 || os->type != OBJSET_ZFS)
		return -ENOENT;
	err = who_parse(os, space_table[i].who, name + strlen(space_table[i].prefix), &fuid);
	if (err)
		return err;
	*v = 0;
	if (space_table[i].used) {
		struct dnode *dn[] = {os->userused, os->groupused, os->projectused};

		if (!dn[space_table[i].who])
			return 0;
		object = used_object[space_table[i].who];
	} else {
		snprintf(master, sizeof(master), "%s", space_table[i].prefix);
		err = zap_lookup_u64(os, MASTER_NODE, master, &object);
		if (err)
			return err == -ENOENT ? 0 : err;
	}
	snprintf(key, sizeof(key), "%s%llx", space_table[i].used && space_table[i].objects ? "obj-" : "",
		 (unsigned long long)fuid);
	err = zap_lookup_u64(os, object, key, v);
	return err == -ENOENT ? 0 : err;
}

int dsl_quota_name_check(const char *name, struct err *e)
{
	int i = space_find(name);
	const char *who = name + strlen(space_table[i].prefix);
	uint64_t fuid;

	/* a SID is looked up in the file system's own table */
	if (strncmp(who, "S-1-", 4) == 0 || who_parse(NULL, space_table[i].who, who, &fuid) == 0)
		return 0;
	return err_set(e, -EINVAL, "'%s' has an invalid user/group name", name);
}

int dsl_quota_who(struct objset *os, const char *name, const char **map, uint64_t *fuid)
{
	int i = space_find(name);

	*map = space_table[i].prefix;
	return who_parse(os, space_table[i].who, name + strlen(space_table[i].prefix), fuid);
}
