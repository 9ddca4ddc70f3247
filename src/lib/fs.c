/* File systems and their nodes. */
#include "lib/lib.h"

static_assert(TARN_NAME_MAX == DSL_NAME_MAX, "public limit");
static_assert(TARN_FILESYSTEM == DSL_FILESYSTEM && TARN_SNAPSHOT == DSL_SNAPSHOT && TARN_VOLUME == DSL_VOLUME,
	      "types are handed through");

int tarn_fs_open(struct tarn_pool *p, const char *name, struct tarn_fs **out, struct tarn_error *e)
{
	struct err err = ERR_INIT;
	struct dsl_dataset *ds;
	struct zpl *zpl;
	int rc = lib_dataset_hold(p, name, &ds, e);

	if (rc)
		return rc;
	rc = zpl_open(ds, &zpl, &err);
	if (rc)
		rc = lib_open_error(ds, rc, &err, e);
	dsl_dataset_release(ds);
	if (rc)
		return rc;
	spa_hold(p->spa);
	*out = xcalloc(1, sizeof(**out));
	(*out)->pool = p;
	(*out)->zpl = zpl;
	return 0;
}

void tarn_fs_close(struct tarn_fs *fs)
{
	if (!fs)
		return;
	zpl_close(fs->zpl);
	spa_release(fs->pool->spa);
	free(fs);
}

/* ---- nodes ---- */

static int node_hand_out(int rc, struct znode *zn, const char *what, const struct err *err, struct tarn_node **out,
			 struct tarn_error *e)
{
	if (rc)
		return lib_error(e, rc, err, what);
	*out = xcalloc(1, sizeof(**out));
	(*out)->zn = zn;
	return 0;
}

int tarn_node_open(struct tarn_fs *fs, const char *path, struct tarn_node **out, struct tarn_error *e)
{
	struct err err = ERR_INIT;
	struct znode *zn = NULL;
	int rc = zpl_path_lookup(fs->zpl, path, &zn, &err);

	return node_hand_out(rc, zn, path, &err, out, e);
}

int tarn_node_open_id(struct tarn_fs *fs, uint64_t id, struct tarn_node **out, struct tarn_error *e)
{
	struct err err = ERR_INIT;
	struct znode *zn = NULL;
	int rc = znode_hold(fs->zpl, id, &zn, &err);

	return node_hand_out(rc, zn, "the node", &err, out, e);
}

int tarn_node_lookup(struct tarn_node *dir, const char *name, struct tarn_node **out, struct tarn_error *e)
{
	struct err err = ERR_INIT;
	struct znode *zn = NULL;
	uint64_t id;
	int rc = zpl_lookup(dir->zn, name, &id, NULL);

	if (!rc)
		rc = znode_hold(dir->zn->zpl, id, &zn, &err);
	return node_hand_out(rc, zn, name, &err, out, e);
}

void tarn_node_close(struct tarn_node *node)
{
	if (!node)
		return;
	znode_release(node->zn);
	free(node);
}

void tarn_node_stat(const struct tarn_node *node, struct tarn_stat *out)
{
	const struct znode *zn = node->zn;
	struct stat st;

	znode_stat(zn, &st);
	*out = (struct tarn_stat){
	    .id = zn->id,
	    .generation = zn->gen,
	    .mode = st.st_mode,
	    .uid = st.st_uid,
	    .gid = st.st_gid,
	    .links = st.st_nlink,
	    .size = (uint64_t)st.st_size,
	    .rdev = st.st_rdev,
	    .allocated = (uint64_t)st.st_blocks * 512,
	    .block_size = zn->dn->datablksz,
	    .atime = zn->atime,
	    .mtime = zn->mtime,
	    .ctime = zn->ctime,
	    .birth = zn->crtime,
	};
}

int tarn_dir_read(struct tarn_node *dir, uint64_t from, int (*each)(void *arg, const struct tarn_entry *entry),
		  void *arg, struct tarn_error *e)
{
	struct zpl_dirent de;
	struct zpl_dir *d;
	int rc = zpl_dir_open(dir->zn, from, &d);

	if (rc)
		return lib_error(e, rc, NULL, "the directory");
	while ((rc = zpl_dir_next(d, &de)) == 0) {
		struct tarn_entry entry = {de.name, de.id, de.dtype, de.next};

		rc = each(arg, &entry);
		if (rc) {
			zpl_dir_close(d);
			return rc;
		}
	}
	zpl_dir_close(d);
	return rc == -ENOENT ? 0 : lib_error(e, rc, NULL, "the directory");
}

int tarn_node_seek(struct tarn_node *file, uint64_t *offset, bool hole)
{
	return zpl_seek(file->zn, offset, hole);
}

int tarn_node_readlink(struct tarn_node *link, char **target, struct tarn_error *e)
{
	int rc = zpl_readlink(link->zn, target);

	return rc ? lib_error(e, rc, NULL, "the link") : 0;
}

int tarn_node_xattr_list(struct tarn_node *node, char **names, size_t *len, struct tarn_error *e)
{
	int rc = zpl_xattr_list(node->zn, names, len);

	return rc ? lib_error(e, rc, NULL, "extended attributes") : 0;
}

int tarn_node_xattr_get(struct tarn_node *node, const char *name, void **value, size_t *len, struct tarn_error *e)
{
	int rc = zpl_xattr_get(node->zn, name, value, len);

	return rc ? lib_error(e, rc, NULL, name) : 0;
}
