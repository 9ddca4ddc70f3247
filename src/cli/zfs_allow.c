/* Delegated permissions: allow, unallow. */
#include "cli/zfs.h"

#include <getopt.h>
#include <grp.h>
#include <pwd.h>

/* ---- showing ---- */

static void strings_print(const struct nvpair *p)
{
	for (size_t i = 0; i < nvpair_count(p); i++)
		printf("%s%s", i ? "," : "", nvpair_string(p, i));
	putchar('\n');
}

static void sets_print(const struct nvlist *sets)
{
	puts("Permission sets:");
	for (const struct nvpair *p = nvlist_first(sets); p; p = nvlist_next(sets, p)) {
		printf("\t%s ", nvpair_name(p));
		strings_print(p);
	}
}

/* The login name of an id, where there is one. */
static const char *who_name(const char *who, const char *id)
{
	struct passwd *pw;
	struct group *gr;
	char *end;
	unsigned long n = strtoul(id, &end, 10);

	if (*end || !*id)
		return id;
	if (strcmp(who, "user") == 0 && (pw = getpwuid((uid_t)n)))
		return pw->pw_name;
	if (strcmp(who, "group") == 0 && (gr = getgrgid((gid_t)n)))
		return gr->gr_name;
	return id;
}

static void grant_print(const struct nvlist *grant)
{
	const char *who = nvlist_string_or(grant, "who", "");

	if (strcmp(who, "everyone") == 0)
		printf("\teveryone ");
	else
		printf("\t%s %s ", who, who_name(who, nvlist_string_or(grant, "name", "")));
	for (const struct nvpair *p = nvlist_first(grant); p; p = nvlist_next(grant, p))
		if (strcmp(nvpair_name(p), "permissions") == 0)
			strings_print(p);
}

static void level_print(const char *name, const struct nvlist *level)
{
	static const struct {
		const char *key, *title;
	} groups[] = {{"local", "Local permissions:"},
		      {"descendent", "Descendent permissions:"},
		      {"local+descendent", "Local+Descendent permissions:"}};
	struct nvlist *const *grants, *sets;
	size_t n;

	printf("---- Permissions on %s %.*s\n", name, (int)MAX(0, 49 - (int)strlen(name)),
	       "-----------------------------------------------------------");
	if (nvlist_list(level, "sets", &sets) == 0)
		sets_print(sets);
	for (const struct nvpair *p = nvlist_first(level); p; p = nvlist_next(level, p)) {
		if (strcmp(nvpair_name(p), "create") == 0) {
			printf("Create time permissions:\n\t");
			strings_print(p);
		}
	}
	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		if (nvlist_lists(level, groups[g].key, &grants, &n))
			continue;
		puts(groups[g].title);
		for (size_t i = 0; i < n; i++)
			grant_print(grants[i]);
	}
}

static int allow_show(const char *name)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	struct nvlist *levels;
	struct err e = ERR_INIT;

	nvlist_add_string(args, "name", name);
	if (cli_ask("dataset.allow", args, NULL, NULL, &result, &e))
		return cli_fail("show permissions of", name, &e);
	if (nvlist_list(result, "levels", &levels) == 0)
		for (const struct nvpair *p = nvlist_first(levels); p; p = nvlist_next(levels, p))
			level_print(nvpair_name(p), nvpair_list(p, 0));
	return CLI_OK;
}

/* ---- changing ---- */

struct grant_options {
	bool local, descendent, user, group, everyone, create, set, recursive;
};

static int grant_option(struct grant_options *o, int opt)
{
	bool *const flag = opt == 'l'   ? &o->local
			   : opt == 'd' ? &o->descendent
			   : opt == 'u' ? &o->user
			   : opt == 'g' ? &o->group
			   : opt == 'e' ? &o->everyone
			   : opt == 'c' ? &o->create
			   : opt == 's' ? &o->set
			   : opt == 'r' ? &o->recursive
					: NULL;

	if (!flag)
		return CLI_USAGE;
	*flag = true;
	return CLI_OK;
}

/* "a,b" as string array under `key`; NULL text: an empty one, which stands for all. */
static void list_add(struct nvlist *to, const char *key, const char *text)
{
	struct strings words = {NULL, 0};
	autofree char *copy = text ? xstrdup(text) : NULL;
	char *save = NULL;

	for (char *w = copy ? strtok_r(copy, ",", &save) : NULL; w; w = strtok_r(NULL, ",", &save))
		strings_add(&words, xstrdup(w));
	nvlist_add_strings(to, key, (const char *const *)words.s, words.n);
	strings_free(&words);
}

static bool user_find(const char *word, uint64_t *id)
{
	struct passwd *pw = getpwnam(word);
	char *end;

	*id = pw ? pw->pw_uid : strtoul(word, &end, 10);
	return pw || (*word && !*end);
}

static bool group_find(const char *word, uint64_t *id)
{
	struct group *gr = getgrnam(word);
	char *end;

	*id = gr ? gr->gr_gid : strtoul(word, &end, 10);
	return gr || (*word && !*end);
}

/* One who of a list: a user, or a group of that name when there is no such user, or everyone. */
static int grant_add(const struct grant_options *o, const char *word, const char *permissions, struct nvlist *grant)
{
	uint64_t id = 0;
	const char *who = "everyone";

	if (!o->everyone && (o->user || o->group || strcmp(word, "everyone"))) {
		if (!o->group && user_find(word, &id))
			who = "user";
		else if (!o->user && group_find(word, &id))
			who = "group";
		else {
			fprintf(stderr, "invalid user or group '%s'\n", word);
			return CLI_ERROR;
		}
	}
	nvlist_add_string(grant, "who", who);
	nvlist_add_u64(grant, "id", id);
	list_add(grant, "permissions", permissions);
	return CLI_OK;
}

static int grants_add(const struct grant_options *o, const char *whos, const char *permissions, struct nvlist *perms)
{
	const char *level = o->local == o->descendent ? "local+descendent" : o->local ? "local" : "descendent";
	autofree char *copy = xstrdup(whos);
	struct nvlist *grants[64];
	size_t n = 0;
	char *save = NULL;
	int failed = CLI_OK;

	for (char *w = strtok_r(copy, ",", &save); w && !failed && n < ARRAY_LEN(grants);
	     w = strtok_r(NULL, ",", &save)) {
		grants[n++] = nvlist_create();
		failed = grant_add(o, w, permissions, grants[n - 1]);
	}
	nvlist_add_lists(perms, level, grants, n);
	for (size_t i = 0; i < n; i++)
		nvlist_destroy(grants[i]);
	return failed;
}

/* Words before the data set: [WHO] [PERMISSIONS], @SET PERMISSIONS, or PERMISSIONS alone. */
static int perms_parse(const struct grant_options *o, char **word, int n, bool remove, struct nvlist *perms)
{
	int least = remove ? 1 : 2;

	if (o->everyone || o->create)
		least--;
	if (n < least || n > (o->everyone || o->create ? 1 : 2))
		return -1;
	if (o->create) {
		list_add(perms, "create", n ? word[0] : NULL);
		return CLI_OK;
	}
	if (o->set) {
		struct nvlist *sets = nvlist_create();

		list_add(sets, word[0], n > 1 ? word[1] : NULL);
		nvlist_take_list(perms, "sets", sets);
		return CLI_OK;
	}
	if (o->everyone)
		return grants_add(o, "everyone", n ? word[0] : NULL, perms);
	return grants_add(o, word[0], n > 1 ? word[1] : NULL, perms);
}

static int delegate_one(const char *name, const struct nvlist *perms, bool remove)
{
	autonv struct nvlist *args = nvlist_create();

	nvlist_add_string(args, "name", name);
	nvlist_add_list(args, "perms", perms);
	nvlist_add_boolean_value(args, "remove", remove);
	return zfs_change("dataset.delegate", args, remove ? "remove permissions on" : "set permissions on", name,
			  NULL);
}

static int delegate_tree(const char *name, const struct nvlist *perms)
{
	char *names[] = {(char *)(uintptr_t)name};
	struct zfs_query q = {.names = names, .nnames = 1, .depth = UINT64_MAX, .types = DSL_FILESYSTEM | DSL_VOLUME};
	struct zfs_rows rows;
	int failed = CLI_OK;

	if (zfs_rows_get(&q, &rows))
		return CLI_ERROR;
	for (size_t i = 0; i < rows.n; i++)
		if (delegate_one(rows.row[i].name, perms, true))
			failed = CLI_ERROR;
	zfs_rows_free(&rows);
	return failed;
}

static int delegate(int argc, char **argv, bool remove)
{
	const char *command = remove ? "unallow" : "allow";
	autonv struct nvlist *perms = nvlist_create();
	struct grant_options o = {.local = false};
	int opt, failed;

	while ((opt = getopt(argc, argv, remove ? "ldugecsr" : "ldugecs")) != -1)
		if (grant_option(&o, opt))
			return cli_usage("zfs", zfs_commands, command, NULL);
	if (o.everyone + o.create + o.set + (o.user || o.group) > 1 ||
	    ((o.create || o.set) && (o.local || o.descendent)))
		return cli_usage("zfs", zfs_commands, command, "these options exclude each other");
	if (optind == argc)
		return cli_usage("zfs", zfs_commands, command, "missing dataset argument");
	failed = perms_parse(&o, argv + optind, argc - optind - 1, remove, perms);
	if (failed < 0)
		return cli_usage("zfs", zfs_commands, command, "wrong number of arguments");
	if (failed)
		return failed;
	return o.recursive ? delegate_tree(argv[argc - 1], perms) : delegate_one(argv[argc - 1], perms, remove);
}

int zfs_allow(int argc, char **argv)
{
	return argc == 2 && argv[1][0] != '-' ? allow_show(argv[1]) : delegate(argc, argv, false);
}

int zfs_unallow(int argc, char **argv)
{
	return delegate(argc, argv, true);
}
