/*
 * cli/extract_key.c: keys of encrypted data sets, from the key location or the terminal, without the daemon.
 */
#include "cli/extract.h"
#include "cli/key.h"
#include "dsl/dsl_crypt.h"

struct key_take {
	struct dsl_pool *dsl;
	const char *root;
};

static int key_take(void *arg, const uint8_t *material, size_t len, struct err *e)
{
	struct key_take *t = arg;

	return dsl_key_load(t->dsl, t->root, material, len, false, e);
}

static const char *format_name(uint64_t format)
{
	return format == KEYFORMAT_RAW ? "raw" : format == KEYFORMAT_HEX ? "hex" : "passphrase";
}

static int key_location(struct dsl_pool *dsl, const char *root, char *location, size_t size, struct err *e)
{
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold(dsl, root, &ds, e);

	if (err)
		return err;
	if (dsl_prop_string(ds, "keylocation", location, size, NULL))
		str_copy(location, size, "prompt");
	dsl_dataset_release(ds);
	return 0;
}

int extract_key_load(struct extract *x, struct dsl_dataset *ds, struct err *e)
{
	char root[DSL_NAME_MAX], location[1024];
	struct key_take take = {x->spa->dsl, root};
	struct dsl_crypt_info info;
	int err;

	if (!ds->dir->crypto_obj || dsl_key_is_loaded(ds->dir))
		return 0;
	err = dsl_crypt_root(ds->dir, root);
	if (err)
		return err_set(e, err, "its encryption root cannot be found: %s", err_words(err));
	err = dsl_crypt_info_of_root(ds->dir, &info, e);
	if (err)
		return err;
	err = key_location(x->spa->dsl, root, location, sizeof(location), e);
	if (err)
		return err;
	err = cli_key_obtain(root, format_name(info.keyformat), x->o.key_location ? x->o.key_location : location,
			     key_take, &take, e);
	return err ? err_prefix(e, err, "key of '%s'", root) : 0;
}
