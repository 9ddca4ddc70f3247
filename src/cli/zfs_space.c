#include "cli/zfs.h"

#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <unistd.h>

#include "zpl/zpl.h"

enum field { FIELD_TYPE, FIELD_NAME, FIELD_USED, FIELD_QUOTA, FIELD_OBJUSED, FIELD_OBJQUOTA, FIELD_COUNT };
static const char *const field_names[FIELD_COUNT] = {"type", "name", "used", "quota", "objused", "objquota"};
static const char *const field_headers[FIELD_COUNT] = {"TYPE", "NAME", "USED", "QUOTA", "OBJUSED", "OBJQUOTA"};

enum { TYPE_POSIXUSER = 1, TYPE_SMBUSER = 2, TYPE_POSIXGROUP = 4, TYPE_SMBGROUP = 8 };

struct owner {
	const char *type;
	char *name;
	bool is_number; /* the name is the id */
	uint64_t id;
	uint64_t value[FIELD_COUNT]; /* of the numeric fields */
};

struct space_options {
	enum zpl_who who;
	bool scripted, parsable, numeric, translate;
	unsigned types;
	enum field field[FIELD_COUNT];
	size_t nfields;
	struct {
		enum field field;
		bool descending;
	} key[2 * FIELD_COUNT];
	size_t nkeys;
	struct owner *owner;
	size_t nowners;
};

static int field_find(const char *word)
{
	for (int f = 0; f < FIELD_COUNT; f++)
		if (strcmp(word, field_names[f]) == 0)
			return f;
	return -1;
}

static bool fields_parse(struct space_options *o, const char *text)
{
	autofree char *copy = xstrdup(text);
	char *save = NULL;

	o->nfields = 0;
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		int f = field_find(w);

		if (f < 0 || o->nfields == FIELD_COUNT)
			return false;
		o->field[o->nfields++] = (enum field)f;
	}
	return o->nfields > 0;
}

static bool types_parse(struct space_options *o, const char *text)
{
	static const struct {
		const char *word;
		unsigned type;
	} words[] = {{"all", 15},
		     {"posixuser", TYPE_POSIXUSER},
		     {"smbuser", TYPE_SMBUSER},
		     {"posixgroup", TYPE_POSIXGROUP},
		     {"smbgroup", TYPE_SMBGROUP}};
	autofree char *copy = xstrdup(text);
	char *save = NULL;

	o->types = 0;
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		unsigned before = o->types;

		for (size_t i = 0; i < ARRAY_LEN(words); i++)
			if (strcmp(w, words[i].word) == 0)
				o->types |= words[i].type;
		if (o->types == before)
			return false;
	}
	return true;
}

static bool key_add(struct space_options *o, const char *word, bool descending)
{
	int f = field_find(word);

	if (f < 0 || o->nkeys == ARRAY_LEN(o->key))
		return false;
	o->key[o->nkeys].field = (enum field)f;
	o->key[o->nkeys++].descending = descending;
	return true;
}

static bool option_take(struct space_options *o, int opt)
{
	switch (opt) {
	case 'H':
		return o->scripted = true;
	case 'p':
		return o->parsable = true;
	case 'n':
		return o->numeric = true;
	case 'i':
		return o->translate = true;
	case 'o':
		return fields_parse(o, optarg);
	case 's':
	case 'S':
		return key_add(o, optarg, opt == 'S');
	case 't':
		return types_parse(o, optarg);
	default:
		return false;
	}
}

/* ---- owners ---- */

/* -i would turn SIDs into POSIX ids through an idmap service; there is none on Linux, so SIDs stay as they are, as in
 * OpenZFS. */
static char *owner_name(const struct space_options *o, const char *domain, uint64_t id)
{
	struct passwd *pw;
	struct group *gr;

	if (domain[0])
		return xasprintf("%s-%" PRIu64, domain, id);
	if (!o->numeric && o->who == ZPL_USER && (pw = getpwuid((uid_t)id)))
		return xstrdup(pw->pw_name);
	if (!o->numeric && o->who == ZPL_GROUP && (gr = getgrgid((gid_t)id)))
		return xstrdup(gr->gr_name);
	return xasprintf("%" PRIu64, id);
}

static unsigned owner_type(const struct space_options *o, const char *domain, const char **text)
{
	bool smb = domain[0];

	if (o->who == ZPL_PROJECT)
		*text = "Project";
	else if (o->who == ZPL_USER)
		*text = smb ? "SMB User" : "POSIX User";
	else
		*text = smb ? "SMB Group" : "POSIX Group";
	return o->who == ZPL_PROJECT ? 15
	       : o->who == ZPL_USER  ? (smb ? TYPE_SMBUSER : TYPE_POSIXUSER)
				     : (smb ? TYPE_SMBGROUP : TYPE_POSIXGROUP);
}

static int owner_collect(void *arg, const struct nvlist *item)
{
	struct space_options *o = arg;
	const char *domain = nvlist_string_or(item, "domain", "");
	struct owner w;

	if (!(owner_type(o, domain, &w.type) & o->types))
		return 0;
	w.id = nvlist_u64_or(item, "id", 0);
	w.name = owner_name(o, domain, w.id);
	w.is_number = w.name[strspn(w.name, "0123456789")] == 0;
	for (int f = FIELD_USED; f < FIELD_COUNT; f++)
		w.value[f] = nvlist_u64_or(item, field_names[f], 0);
	o->owner = xrealloc(o->owner, (o->nowners + 1) * sizeof(w));
	o->owner[o->nowners++] = w;
	return 0;
}

static int compare_field(const struct owner *a, const struct owner *b, enum field f)
{
	if (f == FIELD_TYPE)
		return strcmp(a->type, b->type);
	if (f == FIELD_NAME && a->is_number != b->is_number)
		return a->is_number ? 1 : -1; /* ids that have no name come after those that have one */
	if (f == FIELD_NAME && a->is_number && a->id != b->id)
		return a->id < b->id ? -1 : 1;
	if (f == FIELD_NAME)
		return strcmp(a->name, b->name);
	return (a->value[f] > b->value[f]) - (a->value[f] < b->value[f]);
}

static const struct space_options *sort_options; /* qsort has no argument */

static int compare_owners(const void *a, const void *b)
{
	int c = 0;

	for (size_t i = 0; i < sort_options->nkeys && c == 0; i++) {
		c = compare_field(a, b, sort_options->key[i].field);
		if (sort_options->key[i].descending)
			c = -c;
	}
	if (c == 0)
		c = compare_field(a, b, FIELD_TYPE);
	return c ? c : compare_field(a, b, FIELD_NAME);
}

static char *owner_cell(const struct space_options *o, const struct owner *w, enum field f)
{
	char text[SIZE_TEXT];

	if (f == FIELD_TYPE)
		return xstrdup(w->type);
	if (f == FIELD_NAME)
		return xstrdup(w->name);
	if ((f == FIELD_QUOTA || f == FIELD_OBJQUOTA) && w->value[f] == 0)
		return xstrdup(o->parsable ? "0" : "none");
	if (o->parsable)
		return xasprintf("%" PRIu64, w->value[f]);
	size_print(w->value[f], f == FIELD_USED || f == FIELD_QUOTA, text);
	return xstrdup(text);
}

static void owners_print(const struct space_options *o)
{
	const char *headers[FIELD_COUNT];
	bool right[FIELD_COUNT];
	struct cli_table *t;

	for (size_t i = 0; i < o->nfields; i++) {
		headers[i] = field_headers[o->field[i]];
		right[i] = o->field[i] >= FIELD_USED;
	}
	t = cli_table_create(headers, right, o->nfields, o->scripted);
	for (size_t r = 0; r < o->nowners; r++) {
		char *cells[FIELD_COUNT];

		for (size_t i = 0; i < o->nfields; i++)
			cells[i] = owner_cell(o, &o->owner[r], o->field[i]);
		cli_table_add(t, (const char *const *)cells);
		for (size_t i = 0; i < o->nfields; i++)
			free(cells[i]);
	}
	cli_table_print(t, stdout);
	cli_table_destroy(t);
}

static int space_ask_of(struct space_options *o, const char *name, enum zpl_who who)
{
	autonv struct nvlist *args = nvlist_create();
	struct err e = ERR_INIT;

	o->who = who;
	nvlist_add_string(args, "name", name);
	nvlist_add_u64(args, "who", who);
	return cli_ask("dataset.space", args, owner_collect, o, NULL, &e) ? cli_fail("get used/quota for", name, &e)
									  : CLI_OK;
}

/* The types say whether users or groups are shown, whichever command was called. */
static int space_ask(struct space_options *o, const char *word)
{
	autofree char *name = zfs_name_of(word);
	int err = 0;

	if (!name)
		return CLI_ERROR;
	if (o->who == ZPL_PROJECT)
		return space_ask_of(o, name, ZPL_PROJECT);
	if (o->types & (TYPE_POSIXUSER | TYPE_SMBUSER))
		err = space_ask_of(o, name, ZPL_USER);
	if (!err && (o->types & (TYPE_POSIXGROUP | TYPE_SMBGROUP)))
		err = space_ask_of(o, name, ZPL_GROUP);
	return err;
}

int zfs_space(int argc, char **argv)
{
	struct space_options o = {.who = argv[0][0] == 'u' ? ZPL_USER : argv[0][0] == 'g' ? ZPL_GROUP : ZPL_PROJECT};
	int opt, err;

	o.types = o.who == ZPL_USER    ? TYPE_POSIXUSER | TYPE_SMBUSER
		  : o.who == ZPL_GROUP ? TYPE_POSIXGROUP | TYPE_SMBGROUP
				       : 15;
	fields_parse(&o, "type,name,used,quota,objused,objquota");
	while ((opt = getopt(argc, argv, "Hpnio:s:S:t:")) != -1)
		if (!option_take(&o, opt))
			return cli_usage("zfs", zfs_commands, argv[0], opt == '?' ? NULL : "invalid field or type '%s'",
					 optarg);
	if (argc - optind != 1)
		return cli_usage("zfs", zfs_commands, argv[0],
				 argc > optind ? "too many arguments" : "missing data set argument");
	err = space_ask(&o, argv[optind]);
	sort_options = &o;
	if (o.nowners)
		qsort(o.owner, o.nowners, sizeof(*o.owner), compare_owners);
	if (!err)
		owners_print(&o);
	for (size_t i = 0; i < o.nowners; i++)
		free(o.owner[i].name);
	free(o.owner);
	return err;
}
