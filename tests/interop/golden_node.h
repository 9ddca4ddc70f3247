/*
 * tests/interop/golden_node.h: one file, directory, link or device compared with its entry of the manifest.
 */
#ifndef TESTS_INTEROP_GOLDEN_NODE_H
#define TESTS_INTEROP_GOLDEN_NODE_H

#include <openssl/evp.h>

#include "base/hash.h"
#include "golden.h"
#include "zpl/zpl.h"

struct walk {
	struct golden *g;
	struct zpl *z;
	struct strmap *expected; /* path -> json_t * */
	size_t seen;
	unsigned control_dir; /* 1: the root was shown with ".zfs" in it (snapdir=visible) */
};

/* "file", "dir", "symlink", ... */
const char *golden_type_name(const struct znode *zn);
/* Everything of the node itself: type, attributes, extended attributes, ACLs, data with its holes, target. */
void golden_check_node(struct walk *w, const char *path, struct znode *zn, const json_t *want);

EVP_MD_CTX *golden_md_start(void); /* SHA-256 */
void golden_md_finish(EVP_MD_CTX *md, char hex[65]);
int golden_file_sha256(struct znode *zn, char hex[65]);

#endif
