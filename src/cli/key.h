/*
 * cli/key.h: loading and unloading keys: the material comes from the keylocation or the terminal, and goes to the
 * daemon.
 */
#ifndef CLI_KEY_H
#define CLI_KEY_H

#include "cli/cli.h"

/*
 * Load the key of the encryption root `root` (a data set that is its own root). location NULL: its keylocation
 * property. check: only try (-n). Prints what went wrong; returns CLI_OK or CLI_ERROR. An already loaded key is an
 * error unless check.
 */
int cli_key_load(const char *root, const char *location, bool check);
/* Every encryption root at or below `name` (NULL: of all pools) whose key is not loaded, or is loaded (loaded = true).
 */
int cli_key_roots(const char *name, bool loaded, char ***roots, size_t *n, struct err *e);
void cli_key_roots_free(char **roots, size_t n);
/* Keys of all roots below name (NULL: all pools) that are not loaded. *loaded and *failed count. */
int cli_key_load_all(const char *name, unsigned *loaded, unsigned *failed);

/* The key of the root a data set belongs to, unless it is loaded or the data set is not encrypted. */
int cli_key_load_for(const char *name);
int cli_key_unload(const char *root);
int cli_key_unload_below(const char *name); /* the same without words */
int cli_key_unload_all(const char *name);   /* all roots below name (NULL: all pools), and says how many */

/*
 * Key material of a root from a location ("prompt", "file:///PATH"), handed to take, which says -EACCES or -EINVAL when
 * it is wrong: a person at a terminal may try again. format: "raw", "hex", "passphrase".
 */
int cli_key_obtain(const char *root, const char *format, const char *location,
		   int (*take)(void *arg, const uint8_t *material, size_t len, struct err *e), void *arg,
		   struct err *e);

#endif
