#include "cli/cli.h"

#include <termios.h>
#include <unistd.h>

volatile sig_atomic_t cli_interrupted;
static struct control_client *client;
static bool stage_shown;

static void interrupt(int sig)
{
	cli_interrupted = 1;
	signal(sig, SIG_DFL); /* a second one ends the program at once */
}

static int client_open(struct err *e)
{
	struct sigaction sa = {.sa_handler = interrupt};

	if (client)
		return 0;
	sigaction(SIGINT, &sa, NULL); /* without SA_RESTART: waiting for the daemon is interrupted */
	return control_connect(true, &client, e);
}

static void stage_clear(void)
{
	if (stage_shown)
		fputs("\r\033[K", stderr);
	stage_shown = false;
}

static void stage_show(void *arg, const char *stage)
{
	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[K%.100s", stage);
	stage_shown = true;
}

struct asking {
	int (*item)(void *arg, const struct nvlist *item);
	void *arg;
};

static int item_pass(void *arg, const struct nvlist *item)
{
	struct asking *a = arg;

	stage_clear();
	return a->item ? a->item(a->arg, item) : 0;
}

static int ask_pass(void *arg, const char *prompt, bool echo, void *buf, size_t *len)
{
	stage_clear();
	return cli_read_secret(prompt, buf, len);
}

/* The daemon has a working directory of its own. */
char *cli_path_absolute(const char *path)
{
	autofree char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0);

	return cwd ? xasprintf("%s/%s", cwd, path) : xstrdup(path);
}

void cli_warnings_print(const struct nvlist *result)
{
	const char *const *text;
	size_t n;

	if (!result || nvlist_strings(result, "warnings", &text, &n))
		return;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "warning: %s\n", text[i]);
}

int cli_failures_print(const struct nvlist *result)
{
	const char *const *text;
	size_t n;

	if (!result || nvlist_strings(result, "failures", &text, &n))
		return CLI_OK;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "%s\n", text[i]);
	return n ? CLI_ERROR : CLI_OK;
}

int cli_ask(const char *cmd, const struct nvlist *args, int (*item)(void *arg, const struct nvlist *item), void *arg,
	    struct nvlist **result, struct err *e)
{
	struct asking a = {item, arg};
	struct control_handlers h = {item_pass, stage_show, ask_pass, &a, &cli_interrupted};
	int err = client_open(e);

	if (err)
		return err;
	err = control_call(client, cmd, args, &h, result, e);
	stage_clear();
	return err;
}

static int item_collect(void *arg, const struct nvlist *item)
{
	struct cli_items *items = arg;

	items->item = xrealloc(items->item, (items->n + 1) * sizeof(struct nvlist *));
	items->item[items->n++] = nvlist_copy(item);
	return 0;
}

int cli_ask_items(const char *cmd, const struct nvlist *args, struct cli_items *items, struct err *e)
{
	*items = (struct cli_items){NULL, 0};
	return cli_ask(cmd, args, item_collect, items, NULL, e);
}

void cli_items_free(struct cli_items *items)
{
	for (size_t i = 0; i < items->n; i++)
		nvlist_destroy(items->item[i]);
	free(items->item);
	*items = (struct cli_items){NULL, 0};
}

int cli_fail(const char *operation, const char *name, const struct err *e)
{
	const char *text = e->text[0] ? e->text : err_words(e->code);
	autofree char *whole = xasprintf("cannot %s", operation);

	if (strncmp(text, whole, strlen(whole)) == 0) /* the daemon's sentence is whole */
		fprintf(stderr, "%s\n", text);
	else if (name)
		fprintf(stderr, "cannot %s '%s': %s\n", operation, name, text);
	else
		fprintf(stderr, "cannot %s: %s\n", operation, text);
	return CLI_ERROR;
}

/* One line; the rest of a longer one is refused rather than cut. */
static int line_read(int fd, uint8_t *buf, size_t *len)
{
	size_t n = 0;

	for (;;) {
		char c;
		ssize_t got = read(fd, &c, 1);

		if (got < 0)
			return -errno;
		if (got == 0 || c == '\n')
			break;
		if (n == *len)
			return -EMSGSIZE;
		buf[n++] = (uint8_t)c;
	}
	*len = n;
	return 0;
}

int cli_read_secret(const char *prompt, void *buf, size_t *len)
{
	struct termios old, quiet;
	bool terminal = tcgetattr(STDIN_FILENO, &old) == 0;
	int err;

	if (terminal) { /* quiet before the prompt: whoever answers at once is neither shown nor lost */
		quiet = old;
		quiet.c_lflag &= ~(tcflag_t)ECHO;
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
		fprintf(stderr, "%s", prompt);
	}
	err = line_read(STDIN_FILENO, buf, len);
	if (terminal) {
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
		fputc('\n', stderr);
	}
	return err;
}
