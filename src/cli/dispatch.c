#include "cli/cli.h"

#include <stdarg.h>
#include <unistd.h>

static bool is_help(const char *word)
{
	return strcmp(word, "help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0 ||
	       strcmp(word, "-?") == 0;
}

static bool is_version(const char *word)
{
	return strcmp(word, "version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0;
}

static const struct cli_command *command_find(const struct cli_command *table, const char *name)
{
	for (; table->name; table++)
		if (strcmp(table->name, name) == 0)
			return table;
	return NULL;
}

static void usage_one(FILE *out, const char *program, const struct cli_command *c)
{
	fprintf(out, "usage: %s %s %s\n\n%s.\n", program, c->name, c->usage, c->summary);
}

/* What was asked for, not what was got wrong: where the options are told, too. */
static void help_one(const char *program, const struct cli_command *c)
{
	usage_one(stdout, program, c);
	if (strcmp(program, "tarn") != 0)
		printf("The options: man tarn-%s\n", program);
	else
		printf("The options: man tarn%s\n", strcmp(c->name, "extract") == 0 ? "-extract" : "");
}

static void usage_all(FILE *out, const char *program, const struct cli_command *table)
{
	fprintf(out, "usage: %s COMMAND [ARGUMENTS]\n\n", program);
	for (; table->name; table++)
		fprintf(out, "  %-12s %s\n", table->name, table->summary);
	fprintf(out, "\n`%s help COMMAND` tells more about one.\n", program);
}

int cli_usage(const char *program, const struct cli_command *table, const char *name, const char *fmt, ...)
{
	const struct cli_command *c = command_find(table, name);
	va_list ap;

	if (fmt) {
		va_start(ap, fmt);
		vfprintf(stderr, fmt, ap);
		va_end(ap);
		fputc('\n', stderr);
	}
	if (c)
		usage_one(stderr, program, c);
	else
		usage_all(stderr, program, table);
	return CLI_USAGE;
}

static int help(const char *program, const struct cli_command *table, const char *name)
{
	const struct cli_command *c = name ? command_find(table, name) : NULL;

	if (name && !c)
		return cli_usage(program, table, "", "unrecognized command '%s'", name);
	if (c)
		help_one(program, c);
	else
		usage_all(stdout, program, table);
	return CLI_OK;
}

#define USERLAND "zfs-tarn-" TARN_VERSION
#define KERNEL   "zfs-kmod-tarn-" TARN_VERSION

static int version_json(const char *word)
{
	autofree char *command = xasprintf("%s version", word);
	struct cli_json *doc = cli_json_document(command), *versions = cli_json_create();

	cli_json_string(versions, "userland", USERLAND);
	cli_json_string(versions, "kernel", KERNEL);
	cli_json_object(doc, "zfs_version", versions);
	cli_json_print(doc, stdout);
	return CLI_OK;
}

/* option: what follows "version", NULL when nothing does. */
static int version(const char *program, const char *option)
{
	const char *word = strrchr(program, ' ') ? strrchr(program, ' ') + 1 : program;

	if (strcmp(word, "tarn") == 0)
		puts("tarn " TARN_VERSION);
	else if (option && (strcmp(option, "-j") == 0 || strcmp(option, "--json") == 0))
		return version_json(word);
	else
		puts(USERLAND "\n" KERNEL);
	return CLI_OK;
}

int cli_dispatch(const char *program, const struct cli_command *table, int argc, char **argv)
{
	const struct cli_command *c;

	if (argc < 2)
		return cli_usage(program, table, "", "missing command");
	if (is_help(argv[1]))
		return help(program, table, argc > 2 ? argv[2] : NULL);
	c = command_find(table, argv[1]);
	if (!c && is_version(argv[1]))
		return version(program, argc > 2 ? argv[2] : NULL);
	if (!c)
		return cli_usage(program, table, "", "unrecognized command '%s'", argv[1]);
	if (argc > 2 && strncmp(c->usage, "COMMAND", 7) != 0 && is_help(argv[2]) && strcmp(argv[2], "-h") &&
	    strcmp(argv[2], "help")) {
		help_one(program, c);
		return CLI_OK;
	}
	return c->run(argc - 1, argv + 1);
}
