/* NBD: a client's bytes from the first on, to a server with two small volumes: a read-only one with data, holes, and a
 * damaged block, and one that is written. The first byte says whether the client waits for answers (bit 0) before it
 * closes its side. */
#include "../lib/volpool.h"

#include "fuzz.h"
#include "serve/nbd/nbd.h"
#include "session.h"

#define BLOCK  8192u
#define BLOCKS 128u

#define WRITTEN_MAX (UINT64_C(64) << 20) /* then the volume that is written begins anew */

static struct zvol volume;
static struct volpool *written;
static struct dsl_dataset dataset;
static struct nbd_server *server;
static _Atomic int opened;

static int source_open(void *ctx, const char *name, struct zvol **zv, struct err *e)
{
	if (strcmp(name, "p/w") == 0) {
		opened++;
		*zv = &written->zv;
		return 0;
	}
	if (strcmp(name, "p/v") != 0 && strcmp(name, "p/v@s") != 0)
		return err_set(e, -ENOENT, "no such volume '%s'", name);
	opened++;
	*zv = &volume;
	return 0;
}

static void source_close(void *ctx, struct zvol *zv)
{
	BUG_ON(--opened < 0);
}

static int source_list(void *ctx, int (*fn)(void *arg, const char *name), void *arg)
{
	return fn(arg, "p/v") || fn(arg, "p/v@s") || fn(arg, "p/w");
}

static void volume_make(void)
{
	struct testpool *tp = tp_create(9, 32u << 20);
	struct bp l0[BLOCKS] = {0}, root;
	uint8_t data[BLOCK], slot[1][512];

	for (unsigned i = 0; i < BLOCKS; i++) {
		if (i % 16 >= 8)
			continue;
		tp_pattern(data, BLOCK, i);
		l0[i] = tp_write(tp, data, BLOCK, 23, 0);
	}
	tp_damage(tp, &l0[3], 0);
	tp_dnode(tp, slot[0], 23, l0, BLOCKS, BLOCK, 12, 1);
	root = tp_objset(tp, slot, 1, 1024);
	BUG_ON(objset_open(&tp->dp, 5, &root, NULL, &volume.os, NULL));
	BUG_ON(dnode_hold(volume.os, 1, &volume.dn, NULL));
	volume.ds = &dataset;
	volume.size = (uint64_t)BLOCK * BLOCKS;
	volume.blocksize = BLOCK;
}

/* Nothing is used twice by the allocator of the test. */
static void written_make(void)
{
	if (written && written->tp->next[0] < WRITTEN_MAX && written->nsynced < VP_GROUPS / 2)
		return;
	if (written) {
		vp_close(written);
		vp_destroy(written);
	}
	written = vp_create_over(NULL, 12, (uint64_t)BLOCK * BLOCKS, BLOCK, false);
	written->zv.ds = &dataset;
}

static void server_make(void)
{
	struct nbd_source source = {source_open, source_close, source_list, NULL};
	struct nbd_config config = {NULL};

	volume_make();
	BUG_ON(nbd_server_start(&config, &source, &server, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int sv[2];

	if (size == 0)
		return 0;
	if (!server)
		server_make();
	written_make();
	BUG_ON(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	nbd_server_adopt(server, sv[1]);
	session_run(sv[0], data + 1, size - 1, data[0] & 1 ? 3 : 0);
	nbd_server_disconnect(server, NULL);
	BUG_ON(opened);
	return 0;
}
