/* Keys of encrypted data sets. See dsl/dsl_crypt.h. */
#include "base/list.h"
#include "base/os.h"
#include "base/sync.h"
#include "dsl/dsl_crypt.h"
#include "dsl/dsl_write_impl.h"

#define WRAPPING_KEY    32
#define VERSION_CURRENT 1

/* A wrapping key; in secret memory. */
struct wrapping_key {
	struct list_node node;
	uint64_t root;
	uint8_t key[WRAPPING_KEY];
};

struct data_key {
	struct list_node node;
	uint64_t key_object, root;
	struct crypt_key *key;
	uint64_t *objset; /* data sets it was handed out for: what caches may hold decrypted */
	size_t nobjsets;
};

struct dsl_keystore {
	pthread_mutex_t lock;      /* guards both lists */
	struct list wrapping_keys; /* few: one per loaded encryption root */
	struct list data_keys;
};

struct dsl_keystore *dsl_keystore_create(void)
{
	struct dsl_keystore *ks = xcalloc(1, sizeof(*ks));

	pthread_mutex_init(&ks->lock, NULL);
	list_init(&ks->wrapping_keys);
	list_init(&ks->data_keys);
	return ks;
}

static void wrapping_key_free(struct wrapping_key *w)
{
	os_secret_free(w, sizeof(*w));
}

static void data_key_free(struct data_key *k)
{
	crypt_key_release(k->key);
	free(k->objset);
	free(k);
}

void dsl_keystore_destroy(struct dsl_keystore *ks)
{
	struct list_node *n;

	if (!ks)
		return;
	while ((n = list_pop(&ks->wrapping_keys)))
		wrapping_key_free(container_of(n, struct wrapping_key, node));
	while ((n = list_pop(&ks->data_keys)))
		data_key_free(container_of(n, struct data_key, node));
	pthread_mutex_destroy(&ks->lock);
	free(ks);
}

static struct wrapping_key *wrapping_key_find_locked(struct dsl_keystore *ks, uint64_t root)
{
	list_for_each(&ks->wrapping_keys, n) {
		struct wrapping_key *w = container_of(n, struct wrapping_key, node);

		if (w->root == root)
			return w;
	}
	return NULL;
}

static struct data_key *data_key_find_locked(struct dsl_keystore *ks, uint64_t key_object)
{
	list_for_each(&ks->data_keys, n) {
		struct data_key *k = container_of(n, struct data_key, node);

		if (k->key_object == key_object)
			return k;
	}
	return NULL;
}

void dsl_keystore_root_move(struct dsl_keystore *ks, uint64_t from, uint64_t to)
{
	SCOPED_LOCK(&ks->lock);

	list_for_each(&ks->wrapping_keys, n) {
		struct wrapping_key *w = container_of(n, struct wrapping_key, node);

		if (w->root == from)
			w->root = to;
	}
	list_for_each(&ks->data_keys, n) {
		struct data_key *k = container_of(n, struct data_key, node);

		if (k->root == from)
			k->root = to;
	}
}

/* --- key objects --- */

static int key_object_u64(struct dsl_dir *d, const char *name, uint64_t *v, struct err *e)
{
	int err = zap_lookup_u64(d->pool->mos, d->crypto_obj, name, v);

	return err ? err_set(e, err, "key object of '%s': %s: %s", d->name, name, err_words(err)) : 0;
}

/* Absent is 0. */
static int key_object_u64_optional(struct dsl_dir *d, const char *name, uint64_t *v, struct err *e)
{
	int err = zap_lookup_u64(d->pool->mos, d->crypto_obj, name, v);

	if (err == -ENOENT)
		*v = 0;
	else if (err)
		return err_set(e, err, "key object of '%s': %s: %s", d->name, name, err_words(err));
	return 0;
}

static int key_object_bytes(struct dsl_dir *d, const char *name, uint8_t *out, size_t n, struct err *e)
{
	int err = zap_lookup(d->pool->mos, d->crypto_obj, name, 1, n, out);

	return err ? err_set(e, err, "key object of '%s': %s: %s", d->name, name, err_words(err)) : 0;
}

int dsl_crypt_info_get(struct dsl_dir *d, struct dsl_crypt_info *out, struct err *e)
{
	uint64_t suite;
	int err;

	if (!d->crypto_obj)
		return err_set(e, -ENOENT, "'%s' is not encrypted", d->name);
	if ((err = key_object_u64(d, "DSL_CRYPTO_SUITE", &suite, e)) ||
	    (err = key_object_u64(d, "DSL_CRYPTO_GUID", &out->guid, e)) ||
	    (err = key_object_u64(d, "DSL_CRYPTO_ROOT_DDOBJ", &out->root, e)) ||
	    (err = key_object_u64_optional(d, "DSL_CRYPTO_VERSION", &out->version, e)) ||
	    (err = key_object_u64_optional(d, "keyformat", &out->keyformat, e)) ||
	    (err = key_object_u64_optional(d, "pbkdf2salt", &out->salt, e)) ||
	    (err = key_object_u64_optional(d, "pbkdf2iters", &out->iters, e)))
		return err;
	if (suite >= CRYPT_COUNT || !crypt_suite_key_bytes((enum crypt_suite)suite))
		return err_set(e, -ENOTSUP, "'%s' uses encryption suite %llu, which is not supported", d->name,
			       (unsigned long long)suite);
	if (out->version > VERSION_CURRENT)
		return err_set(e, -ENOTSUP, "'%s' uses version %llu of encryption, which is not supported", d->name,
			       (unsigned long long)out->version);
	out->suite = (enum crypt_suite)suite;
	return 0;
}

int dsl_crypt_info_of_root(struct dsl_dir *d, struct dsl_crypt_info *out, struct err *e)
{
	struct dsl_crypt_info own;
	struct dsl_dir *root;
	int err = dsl_crypt_info_get(d, out, e);

	if (err || out->root == d->object)
		return err;
	err = dsl_dir_hold(d->pool, out->root, &root, e);
	if (err)
		return err_prefix(e, err, "encryption root of '%s'", d->name);
	err = dsl_crypt_info_get(root, &own, e);
	dsl_dir_release(root);
	if (err)
		return err;
	out->keyformat = own.keyformat;
	out->salt = own.salt;
	out->iters = own.iters;
	return 0;
}

int dsl_crypt_root(struct dsl_dir *d, char root[DSL_NAME_MAX])
{
	DSL_SHARED(d->pool);
	struct dsl_crypt_info info;
	struct dsl_dir *rd;
	int err = dsl_crypt_info_get(d, &info, NULL);

	if (err)
		return err;
	err = dsl_dir_hold(d->pool, info.root, &rd, NULL);
	if (err)
		return err;
	memcpy(root, rd->name, DSL_NAME_MAX);
	dsl_dir_release(rd);
	return 0;
}

/* --- from user key to wrapping key (A1.3) --- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int wrapping_key_from_hex(const char *text, size_t len, uint8_t out[WRAPPING_KEY], struct err *e)
{
	if (len != 2 * WRAPPING_KEY)
		return err_set(e, -EINVAL, "a hexadecimal key has %d digits, not %zu", 2 * WRAPPING_KEY, len);
	for (size_t i = 0; i < WRAPPING_KEY; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return err_set(e, -EINVAL, "the key holds a character that is no hexadecimal digit");
		out[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

int dsl_wrapping_key(const struct dsl_crypt_info *info, const void *material, size_t len, uint8_t out[WRAPPING_KEY],
		     struct err *e)
{
	const char *text = material;
	size_t text_len = len && text[len - 1] == '\n' ? len - 1 : len;

	switch (info->keyformat) {
	case KEYFORMAT_RAW:
		if (len != WRAPPING_KEY)
			return err_set(e, -EINVAL, "a raw key has %d bytes, not %zu", WRAPPING_KEY, len);
		memcpy(out, material, WRAPPING_KEY);
		return 0;
	case KEYFORMAT_HEX:
		return wrapping_key_from_hex(text, text_len, out, e);
	case KEYFORMAT_PASSPHRASE:
		if (crypt_passphrase_key(text, text_len, info->salt, info->iters, out))
			return err_set(e, -EINVAL, "the key cannot be derived with %llu iterations",
				       (unsigned long long)info->iters);
		return 0;
	default:
		return err_set(e, -EINVAL, "unknown key format %llu", (unsigned long long)info->keyformat);
	}
}

/* --- wrapped keys (A1.4) --- */

int dsl_key_unwrap(const struct dsl_crypt_info *info, const struct dsl_wrapped_key *w, const uint8_t wrapping[32],
		   struct crypt_key **out)
{
	bool ccm = info->suite <= CRYPT_AES_256_CCM;
	struct dsl_wrapped_key *open = os_secret_alloc(sizeof(*open));
	uint8_t aad[24];
	struct crypt_iov a = {aad, info->version ? sizeof(aad) : 8};
	struct crypt_iov text[2] = {{open->master, crypt_suite_key_bytes(info->suite)},
				    {open->hmac_key, CRYPT_HMAC_KEY}};
	int err;

	*open = *w;
	store_le64(aad, info->guid);
	store_le64(aad + 8, info->suite);
	store_le64(aad + 16, info->version);
	/* the suite's mode, but always with a 256-bit key */
	err = crypt_decrypt(ccm ? CRYPT_AES_256_CCM : CRYPT_AES_256_GCM, wrapping, w->iv, &a, 1, text, 2, w->mac);
	if (!err)
		*out = crypt_key_create(info->suite, info->guid, open->master, open->hmac_key, (unsigned)info->version);
	os_secret_free(open, sizeof(*open));
	return err == -ECKSUM ? -EACCES : err;
}

static int key_object_unwrap(struct dsl_dir *d, const struct dsl_crypt_info *info, const uint8_t *wrapping,
			     struct crypt_key **out, struct err *e)
{
	struct dsl_wrapped_key w;
	int err;

	if ((err = key_object_bytes(d, "DSL_CRYPTO_IV", w.iv, sizeof(w.iv), e)) ||
	    (err = key_object_bytes(d, "DSL_CRYPTO_MAC", w.mac, sizeof(w.mac), e)) ||
	    (err = key_object_bytes(d, "DSL_CRYPTO_MASTER_KEY_1", w.master, sizeof(w.master), e)) ||
	    (err = key_object_bytes(d, "DSL_CRYPTO_HMAC_KEY_1", w.hmac_key, sizeof(w.hmac_key), e)))
		return err;
	err = dsl_key_unwrap(info, &w, wrapping, out);
	return err ? err_set(e, err, "incorrect key provided for '%s'", d->name) : 0;
}

/* --- loading and unloading (A1.5) --- */

bool dsl_key_is_loaded(struct dsl_dir *d)
{
	struct dsl_keystore *ks = d->pool->keys;
	struct dsl_crypt_info info;
	bool loaded;

	if (!d->crypto_obj)
		return true;
	if (dsl_crypt_info_get(d, &info, NULL))
		return false;
	pthread_mutex_lock(&ks->lock);
	loaded = wrapping_key_find_locked(ks, info.root) != NULL;
	pthread_mutex_unlock(&ks->lock);
	return loaded;
}

static int keystore_add(struct dsl_keystore *ks, struct wrapping_key *w)
{
	SCOPED_LOCK(&ks->lock);

	if (wrapping_key_find_locked(ks, w->root))
		return -EEXIST;
	list_append(&ks->wrapping_keys, &w->node);
	return 0;
}

/* The dir of a name that must be an encryption root. */
static int root_hold(struct dsl_pool *p, const char *name, struct dsl_dir **out, struct dsl_crypt_info *info,
		     struct err *e)
{
	DSL_SHARED(p);
	struct dsl_dataset *ds;
	char root[DSL_NAME_MAX];
	int err = dsl_dataset_hold(p, name, &ds, e);

	if (err)
		return err;
	if (ds->is_snapshot)
		err = err_set(e, -EINVAL, "'%s' is a snapshot: its key is that of '%s'", name, ds->dir->name);
	else if (!ds->dir->crypto_obj)
		err = err_set(e, -EINVAL, "'%s' is not encrypted", name);
	else
		err = dsl_crypt_info_get(ds->dir, info, e);
	if (!err && info->root != ds->dir->object) {
		err = err_set(e, -EINVAL, "'%s' inherits its key", name);
		if (dsl_crypt_root(ds->dir, root) == 0)
			err_set(e, -EINVAL, "'%s' inherits its key from '%s'", name, root);
	}
	if (!err)
		*out = dsl_dir_ref(ds->dir);
	dsl_dataset_release(ds);
	return err;
}

static int key_load(struct dsl_dir *d, const struct dsl_crypt_info *info, const void *material, size_t len,
		    bool check_only, struct err *e)
{
	struct wrapping_key *w;
	struct crypt_key *key;
	int err;

	if (!check_only && dsl_key_is_loaded(d))
		return err_set(e, -EEXIST, "the key of '%s' is already loaded", d->name);
	w = os_secret_alloc(sizeof(*w));
	w->root = d->object;
	err = dsl_wrapping_key(info, material, len, w->key, e);
	if (!err)
		err = key_object_unwrap(d, info, w->key, &key, e);
	if (!err) {
		crypt_key_release(key);
		if (check_only)
			goto out;
		err = keystore_add(d->pool->keys, w);
		if (!err)
			return 0;
		err_set(e, err, "the key of '%s' is already loaded", d->name);
	}
out:
	wrapping_key_free(w);
	return err;
}

int dsl_key_load(struct dsl_pool *p, const char *root, const void *material, size_t len, bool check_only, struct err *e)
{
	struct dsl_crypt_info info;
	struct dsl_dir *d;
	int err = root_hold(p, root, &d, &info, e);

	if (err)
		return err;
	err = key_load(d, &info, material, len, check_only, e);
	dsl_dir_release(d);
	return err;
}

/* Move every data key of a root to `gone`; -EBUSY, and nothing is moved, when one is held elsewhere. */
static int keystore_take(struct dsl_keystore *ks, uint64_t root, struct wrapping_key **w, struct list *gone)
{
	SCOPED_LOCK(&ks->lock);

	*w = wrapping_key_find_locked(ks, root);
	if (!*w)
		return -EACCES;
	list_for_each(&ks->data_keys, n) {
		struct data_key *k = container_of(n, struct data_key, node);

		if (k->root == root && crypt_key_is_shared(k->key))
			return -EBUSY;
	}
	list_for_each_safe(&ks->data_keys, m) {
		if (container_of(m, struct data_key, node)->root != root)
			continue;
		list_remove(&ks->data_keys, m);
		list_append(gone, m);
	}
	list_remove(&ks->wrapping_keys, &(*w)->node);
	return 0;
}

static void data_key_forget(struct dsl_pool *p, struct data_key *k)
{
	for (size_t i = 0; i < k->nobjsets; i++)
		arc_flush_objset(p->dp->arc, p->dp->zp->guid, k->objset[i]);
	data_key_free(k);
}

int dsl_key_unload(struct dsl_pool *p, const char *root, struct err *e)
{
	struct dsl_crypt_info info;
	struct wrapping_key *w;
	struct list_node *n;
	struct dsl_dir *d;
	struct list gone;
	int err = root_hold(p, root, &d, &info, e);

	if (err)
		return err;
	dsl_dir_release(d);
	dsl_objsets_trim(p);
	list_init(&gone);
	err = keystore_take(p->keys, info.root, &w, &gone);
	if (err == -EBUSY)
		return err_set(e, err, "the key of '%s' is in use", root);
	if (err)
		return err_set(e, err, "the key of '%s' is not loaded", root);
	while ((n = list_pop(&gone)))
		data_key_forget(p, container_of(n, struct data_key, node));
	wrapping_key_free(w);
	return 0;
}

/* --- data keys --- */

static struct crypt_key *data_key_hand_out_locked(struct data_key *k, uint64_t objset)
{
	for (size_t i = 0; i < k->nobjsets; i++)
		if (k->objset[i] == objset)
			return crypt_key_hold(k->key);
	k->objset = xrealloc(k->objset, (k->nobjsets + 1) * sizeof(*k->objset));
	k->objset[k->nobjsets++] = objset;
	return crypt_key_hold(k->key);
}

static struct crypt_key *keystore_data_key(struct dsl_keystore *ks, uint64_t key_object, uint64_t objset)
{
	SCOPED_LOCK(&ks->lock);
	struct data_key *k = data_key_find_locked(ks, key_object);

	return k ? data_key_hand_out_locked(k, objset) : NULL;
}

static bool keystore_wrapping_key(struct dsl_keystore *ks, uint64_t root, uint8_t out[WRAPPING_KEY])
{
	SCOPED_LOCK(&ks->lock);
	struct wrapping_key *w = wrapping_key_find_locked(ks, root);

	if (w)
		memcpy(out, w->key, WRAPPING_KEY);
	return w != NULL;
}

/* Takes over `key`. NULL when the root's key was unloaded meanwhile; another thread's key when that was faster. */
static struct crypt_key *keystore_add_data_key(struct dsl_keystore *ks, uint64_t key_object, uint64_t root,
					       struct crypt_key *key, uint64_t objset)
{
	SCOPED_LOCK(&ks->lock);
	struct data_key *k = data_key_find_locked(ks, key_object);

	if (k || !wrapping_key_find_locked(ks, root)) {
		crypt_key_release(key);
		return k ? data_key_hand_out_locked(k, objset) : NULL;
	}
	k = xcalloc(1, sizeof(*k));
	k->key_object = key_object;
	k->root = root;
	k->key = key;
	list_append(&ks->data_keys, &k->node);
	return data_key_hand_out_locked(k, objset);
}

int dsl_crypt_key_hold(struct dsl_dataset *ds, struct crypt_key **out, struct err *e)
{
	struct dsl_keystore *ks = ds->pool->keys;
	struct dsl_dir *d = ds->dir;
	uint8_t wrapping[WRAPPING_KEY];
	struct dsl_crypt_info info;
	struct crypt_key *key;
	int err;

	*out = keystore_data_key(ks, d->crypto_obj, ds->object);
	if (*out)
		return 0;
	err = dsl_crypt_info_get(d, &info, e);
	if (err)
		return err;
	if (!keystore_wrapping_key(ks, info.root, wrapping))
		return err_set(e, -EKEY, "the encryption key of '%s' is not loaded", ds->name);
	err = key_object_unwrap(d, &info, wrapping, &key, e);
	explicit_bzero(wrapping, sizeof(wrapping));
	if (err)
		return err;
	*out = keystore_add_data_key(ks, d->crypto_obj, info.root, key, ds->object);
	return *out ? 0 : err_set(e, -EKEY, "the encryption key of '%s' is not loaded", ds->name);
}
