/*
 * The library as its users see it: the public header only, on the pool of tests/fixtures/demo, whose folder is the
 * first argument.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <tarn/tarn.h>

static const char *pool_dir;

struct fixture {
	struct tarn *t;
	struct tarn_pool *pool;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct tarn_open_options how = {.paths = &pool_dir, .npaths = 1};
	struct tarn_error e = {0, ""};

	*state = f;
	if (tarn_create(32 << 20, &f->t, &e) || tarn_pool_open(f->t, "harbour", &how, &f->pool, &e)) {
		printf("%s\n", e.text);
		return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct tarn_error e;
	int err = tarn_pool_close(f->pool, &e);

	if (err)
		printf("%s\n", e.text);
	tarn_destroy(f->t);
	free(f);
	return err;
}

static int found_count(void *arg, const struct tarn_found *pool)
{
	assert_string_equal(pool->name, "harbour");
	assert_string_equal(pool->health, "ONLINE");
	assert_true(pool->guid != 0 && !pool->destroyed);
	++*(int *)arg;
	return 0;
}

static void pools_are_found_and_named(void **state)
{
	struct fixture *f = *state;
	int n = 0;

	assert_int_equal(tarn_pool_search(f->t, &pool_dir, 1, found_count, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(tarn_pool_name(f->pool), "harbour");
	assert_true(tarn_pool_txg(f->pool) > 4);
}

static void errors_carry_code_and_text(void **state)
{
	struct fixture *f = *state;
	struct tarn_open_options how = {.paths = &pool_dir, .npaths = 1};
	struct tarn_error e = {0, ""};
	struct tarn_pool *pool;
	struct tarn_fs *fs;

	assert_int_equal(tarn_pool_open(f->t, "nowhere", &how, &pool, &e), -ENOENT);
	assert_int_equal(e.code, -ENOENT);
	assert_non_null(strstr(e.text, "nowhere"));
	assert_int_equal(tarn_fs_open(f->pool, "harbour/none", &fs, &e), -ENOENT);
	assert_true(e.text[0] != 0);
	assert_int_equal(tarn_fs_open(f->pool, "harbour/disk", &fs, &e), -EINVAL);
	assert_int_equal(tarn_create(1, &f->t, NULL), -EINVAL);
}

static int dataset_note(void *arg, const struct tarn_dataset *ds)
{
	char *text = arg;

	assert_int_equal(ds->err, 0);
	assert_true(ds->guid != 0 && ds->creation > 0);
	snprintf(text + strlen(text), 1000 - strlen(text), "%s %u%s\n", ds->name, ds->type,
		 ds->encrypted ? " encrypted" : "");
	return 0;
}

static void data_sets_are_walked_in_order(void **state)
{
	struct fixture *f = *state;
	char text[1000] = "";

	assert_int_equal(
	    tarn_dataset_walk(f->pool, NULL, TARN_FILESYSTEM | TARN_SNAPSHOT | TARN_VOLUME, dataset_note, text, NULL),
	    0);
	assert_string_equal(text, "harbour 1\n"
				  "harbour/disk 4\n"
				  "harbour/disk@formatted 6\n"
				  "harbour/letters 1\n"
				  "harbour/letters@before 3\n"
				  "harbour/library 1\n"
				  "harbour/private 1 encrypted\n");
	text[0] = 0;
	assert_int_equal(tarn_dataset_walk(f->pool, NULL, TARN_VOLUME, dataset_note, text, NULL), 0);
	assert_string_equal(text, "harbour/disk 4\n");
}

static int property_check(void *arg, const struct tarn_property *p)
{
	int *seen = arg;

	if (strcmp(p->name, "recordsize") == 0) {
		assert_string_equal(p->value, "1048576");
		assert_string_equal(p->source, "local");
		assert_true(p->has_number && p->number == 1048576);
		*seen |= 1;
	} else if (strcmp(p->name, "xattr") == 0) {
		assert_string_equal(p->source, "inherited from harbour");
		*seen |= 2;
	}
	return 0;
}

static int pool_property_check(void *arg, const struct tarn_property *p)
{
	if (strcmp(p->name, "health") == 0) {
		assert_string_equal(p->value, "ONLINE");
		*(int *)arg = 1;
	}
	return 0;
}

static void properties_have_values_and_sources(void **state)
{
	struct fixture *f = *state;
	int seen = 0, health = 0;
	char *value;

	assert_int_equal(tarn_dataset_properties(f->pool, "harbour/library", property_check, &seen, NULL), 0);
	assert_int_equal(seen, 3);
	assert_int_equal(tarn_dataset_property(f->pool, "harbour/disk", "volsize", &value, NULL), 0);
	assert_string_equal(value, "16777216");
	tarn_free(value);
	assert_int_equal(tarn_dataset_property(f->pool, "harbour", "volsize", &value, NULL), -ENOENT);
	assert_int_equal(tarn_pool_properties(f->pool, pool_property_check, &health, NULL), 0);
	assert_int_equal(health, 1);
}

/* Text of a small file, for as long as until the next call. */
static const char *file_text(struct tarn_fs *fs, const char *path)
{
	static char text[500];
	struct tarn_node *node;
	size_t got = 0;

	assert_int_equal(tarn_node_open(fs, path, &node, NULL), 0);
	assert_int_equal(tarn_node_read(node, 0, text, sizeof(text) - 1, &got, NULL), 0);
	text[got] = 0;
	tarn_node_close(node);
	return text;
}

static void a_snapshot_keeps_what_was_deleted(void **state)
{
	struct fixture *f = *state;
	struct tarn_node *node;
	struct tarn_fs *now, *before;

	assert_int_equal(tarn_fs_open(f->pool, "harbour/letters", &now, NULL), 0);
	assert_int_equal(tarn_fs_open(f->pool, "harbour/letters@before", &before, NULL), 0);
	assert_string_equal(file_text(before, "lost.txt"), "Written before the snapshot, deleted after it.\n");
	assert_int_equal(tarn_node_open(now, "lost.txt", &node, NULL), -ENOENT);
	assert_string_equal(file_text(now, "archive/second"), "Letter 2. The tide was high and the ink is dry.\n");
	assert_int_equal(tarn_pool_close(f->pool, NULL), -EBUSY);
	tarn_fs_close(now);
	tarn_fs_close(before);
}

struct listing {
	unsigned n, stop_after;
	uint64_t next;
};

static int entry_count(void *arg, const struct tarn_entry *entry)
{
	struct listing *l = arg;

	assert_true(entry->id != 0);
	if (strcmp(entry->name, "archive") == 0)
		assert_int_equal(entry->type, DT_DIR);
	l->next = entry->next;
	return ++l->n == l->stop_after;
}

static void a_directory_is_read_in_two_parts(void **state)
{
	struct fixture *f = *state;
	struct listing all = {0}, parts = {.stop_after = 50};
	struct tarn_node *root;
	struct tarn_fs *fs;

	assert_int_equal(tarn_fs_open(f->pool, "harbour/letters", &fs, NULL), 0);
	assert_int_equal(tarn_node_open(fs, "", &root, NULL), 0);
	assert_int_equal(tarn_dir_read(root, 0, entry_count, &all, NULL), 0);
	assert_true(all.n >= 122);
	assert_int_equal(tarn_dir_read(root, 0, entry_count, &parts, NULL), 1);
	assert_int_equal(tarn_dir_read(root, parts.next, entry_count, &parts, NULL), 0);
	assert_int_equal(parts.n, all.n);
	tarn_node_close(root);
	tarn_fs_close(fs);
}

static void nodes_tell_stat_links_and_attributes(void **state)
{
	struct fixture *f = *state;
	struct tarn_node *root, *archive, *link, *node;
	struct tarn_stat st;
	struct tarn_fs *fs;
	void *value;
	char *text;
	size_t len;

	assert_int_equal(tarn_fs_open(f->pool, "harbour/letters", &fs, NULL), 0);
	assert_int_equal(tarn_node_open(fs, "", &root, NULL), 0);
	assert_int_equal(tarn_node_lookup(root, "archive", &archive, NULL), 0);
	assert_int_equal(tarn_node_lookup(archive, "first", &link, NULL), 0);
	assert_int_equal(tarn_node_readlink(link, &text, NULL), 0);
	assert_string_equal(text, "../letter-1.txt");
	tarn_free(text);

	assert_int_equal(tarn_node_open(fs, "letter-2.txt", &node, NULL), 0);
	tarn_node_stat(node, &st);
	assert_true(S_ISREG(st.mode) && st.links == 2 && st.size == 48 && st.uid == 0 && st.mtime.tv_sec > 0);
	tarn_node_close(node);

	assert_int_equal(tarn_node_open_id(fs, st.id, &node, NULL), 0);
	tarn_node_close(node);

	assert_int_equal(tarn_node_open(fs, "letter-1.txt", &node, NULL), 0);
	assert_int_equal(tarn_node_xattr_get(node, "user.author", &value, &len, NULL), 0);
	assert_int_equal(len, strlen("the harbour master"));
	assert_memory_equal(value, "the harbour master", len);
	tarn_free(value);
	assert_int_equal(tarn_node_xattr_get(node, "user.none", &value, &len, NULL), -ENODATA);
	assert_int_equal(tarn_node_xattr_list(node, &text, &len, NULL), 0);
	assert_non_null(memmem(text, len, "user.author", sizeof("user.author")));
	tarn_free(text);
	tarn_node_close(node);
	tarn_node_close(link);
	tarn_node_close(archive);
	tarn_node_close(root);
	tarn_fs_close(fs);
}

static void holes_are_found_and_read_as_zeros(void **state)
{
	struct fixture *f = *state;
	struct tarn_node *node;
	uint64_t offset = 0;
	struct tarn_fs *fs;
	char text[100];
	size_t got;

	assert_int_equal(tarn_fs_open(f->pool, "harbour/library", &fs, NULL), 0);
	assert_int_equal(tarn_node_open(fs, "sparse.dat", &node, NULL), 0);
	assert_int_equal(tarn_node_seek(node, &offset, false), 0);
	assert_true(offset == 16 << 20);
	assert_int_equal(tarn_node_read(node, (16 << 20) - 1, text, sizeof(text), &got, NULL), 0);
	assert_int_equal(got, 25);
	assert_memory_equal(text, "\0After a hole of 16 MiB.\n", got);
	offset = 0;
	assert_int_equal(tarn_node_seek(node, &offset, true), 0);
	assert_true(offset == 0);
	tarn_node_close(node);
	tarn_fs_close(fs);
}

static void an_encrypted_file_system_wants_its_key(void **state)
{
	struct fixture *f = *state;
	struct tarn_error e = {0, ""};
	char root[TARN_NAME_MAX];
	struct tarn_fs *fs;
	bool loaded = true;

	assert_int_equal(tarn_key_root(f->pool, "harbour", root, NULL, &e), -ENOENT);
	assert_int_equal(tarn_key_root(f->pool, "harbour/private", root, &loaded, &e), 0);
	assert_string_equal(root, "harbour/private");
	assert_false(loaded);
	assert_int_equal(tarn_fs_open(f->pool, "harbour/private", &fs, &e), -ENOKEY);
	assert_int_equal(tarn_key_load(f->pool, root, "wrong horse", 11, &e), -EACCES);
	assert_int_equal(tarn_key_load(f->pool, root, "correct horse", 13, &e), 0);
	assert_int_equal(tarn_fs_open(f->pool, "harbour/private", &fs, &e), 0);
	assert_string_equal(file_text(fs, "secret.txt"), "Nobody reads this without the passphrase.\n");
	assert_int_equal(tarn_key_unload(f->pool, root, &e), -EBUSY);
	tarn_fs_close(fs);
	assert_int_equal(tarn_key_unload(f->pool, root, &e), 0);
}

static void a_volume_is_an_array_of_bytes(void **state)
{
	struct fixture *f = *state;
	unsigned char superblock[1024];
	struct tarn_volume *v;
	uint64_t offset = 0;

	assert_int_equal(tarn_volume_open(f->pool, "harbour/disk@formatted", &v, NULL), 0);
	assert_true(tarn_volume_size(v) == 16 << 20);
	assert_int_equal(tarn_volume_block_size(v), 16384);
	assert_int_equal(tarn_volume_read(v, 1024, superblock, sizeof(superblock), NULL), 0);
	assert_true(superblock[56] == 0x53 && superblock[57] == 0xef); /* ext4's magic */
	assert_memory_equal(superblock + 120, "demo", 5);
	assert_int_equal(tarn_volume_seek(v, &offset, true), 0);
	assert_true(offset > 0);
	assert_int_equal(tarn_volume_read(v, (16 << 20) - 1, superblock, 2, NULL), -EINVAL);
	tarn_volume_close(v);
}

/* ---- asynchronous ---- */

struct landing {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned left;
};

static void read_landed(struct tarn_read *r, int err, size_t got)
{
	struct landing *l = r->arg;

	pthread_mutex_lock(&l->lock);
	r->len = err ? 0 : got;
	l->left--;
	pthread_cond_signal(&l->cond);
	pthread_mutex_unlock(&l->lock);
}

static void many_reads_run_at_once(void **state)
{
	enum { N = 32, SIZE = 100000 };
	struct fixture *f = *state;
	struct landing l = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, N};
	struct tarn_read r[N];
	struct tarn_node *node;
	struct tarn_fs *fs;
	char *same = malloc(SIZE);
	size_t got;

	assert_int_equal(tarn_fs_open(f->pool, "harbour/library", &fs, NULL), 0);
	assert_int_equal(tarn_node_open(fs, "book.txt", &node, NULL), 0);
	for (unsigned i = 0; i < N; i++) {
		r[i] = (struct tarn_read){(uint64_t)(N - 1 - i) * SIZE, malloc(SIZE), SIZE, read_landed, &l};
		tarn_node_read_async(node, &r[i]);
	}
	pthread_mutex_lock(&l.lock);
	while (l.left)
		pthread_cond_wait(&l.cond, &l.lock);
	pthread_mutex_unlock(&l.lock);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(r[i].len, SIZE);
		assert_int_equal(tarn_node_read(node, r[i].offset, same, SIZE, &got, NULL), 0);
		assert_memory_equal(r[i].buffer, same, SIZE);
		free(r[i].buffer);
	}
	free(same);
	tarn_node_close(node);
	tarn_fs_close(fs);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pools_are_found_and_named),
	    cmocka_unit_test(errors_carry_code_and_text),
	    cmocka_unit_test(data_sets_are_walked_in_order),
	    cmocka_unit_test(properties_have_values_and_sources),
	    cmocka_unit_test(a_snapshot_keeps_what_was_deleted),
	    cmocka_unit_test(a_directory_is_read_in_two_parts),
	    cmocka_unit_test(nodes_tell_stat_links_and_attributes),
	    cmocka_unit_test(holes_are_found_and_read_as_zeros),
	    cmocka_unit_test(an_encrypted_file_system_wants_its_key),
	    cmocka_unit_test(a_volume_is_an_array_of_bytes),
	    cmocka_unit_test(many_reads_run_at_once),
	};

	if (argc < 2) {
		fprintf(stderr, "usage: test_libtarn FOLDER\n");
		return 2;
	}
	pool_dir = argv[1];
	return cmocka_run_group_tests(tests, setup, teardown);
}
