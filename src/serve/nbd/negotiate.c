/*
 * The phase before transmission: greeting, client flags, options. One function per option; opening an export waits for
 * devices, so INFO, GO, EXPORT_NAME, LIST and the META_CONTEXT options run on the administrative queue with the
 * connection paused.
 */
#include "serve/nbd/conn.h"
#include "serve/nbd/proto.h"

#include "base/bytes.h"

#define OPTION_HEADER 16

struct option {
	uint32_t number, len;
	const uint8_t *data;
};

static int option_step(struct nbd_conn *c);

static void reply_send(struct nbd_conn *c, uint32_t option, uint32_t type, const void *data, size_t len)
{
	uint8_t *buf = xmalloc(20 + len);

	store_be64(buf, NBD_REP_MAGIC);
	store_be32(buf + 8, option);
	store_be32(buf + 12, type);
	store_be32(buf + 16, (uint32_t)len);
	if (len)
		memcpy(buf + 20, data, len);
	conn_send_bytes(c, buf, 20 + len);
	free(buf);
}

static void reply_error(struct nbd_conn *c, uint32_t option, uint32_t type, const char *text)
{
	reply_send(c, option, type, text, strlen(text));
}

/* What is there and not to be had (no key, no access): clients must not say that it does not exist. */
static void reply_not_opened(struct nbd_conn *c, uint32_t option, const struct err *e)
{
	bool refused = e->code == -EKEY || e->code == -EPERM;

	reply_error(c, option, refused ? NBD_REP_ERR_POLICY : NBD_REP_ERR_UNKNOWN, e->text);
}

/* ---- checked reading of option data ---- */

struct cursor {
	const uint8_t *p;
	size_t left;
	bool bad;
};

static const uint8_t *take(struct cursor *k, size_t n)
{
	const uint8_t *p = k->p;

	if (k->bad || n > k->left) {
		k->bad = true;
		return NULL;
	}
	k->p += n;
	k->left -= n;
	return p;
}

static uint32_t take_u32(struct cursor *k)
{
	const uint8_t *p = take(k, 4);

	return p ? load_be32(p) : 0;
}

static uint16_t take_u16(struct cursor *k)
{
	const uint8_t *p = take(k, 2);

	return p ? load_be16(p) : 0;
}

/* A name without NUL inside, at most NBD_NAME_MAX bytes, into name[NBD_NAME_MAX + 1]. */
static bool take_name(struct cursor *k, size_t len, char *name)
{
	const uint8_t *p = len <= NBD_NAME_MAX ? take(k, len) : NULL;

	if (!p || memchr(p, 0, len))
		return false;
	memcpy(name, p, len);
	name[len] = 0;
	return true;
}

/* ---- exports ---- */

static int export_open(struct nbd_conn *c, const char *name, struct zvol **zv, struct err *e)
{
	const struct nbd_source *src = nbd_source_of(c->server);

	if (!nbd_access_allows(nbd_access_of(c->server), name, &c->peer))
		return err_set(e, -EPERM, "'%s' is not for clients of this address", name);
	return src->open(src->ctx, name, zv, e);
}

static void export_close(struct nbd_conn *c, struct zvol *zv)
{
	const struct nbd_source *src = nbd_source_of(c->server);

	src->close(src->ctx, zv);
}

/* From now on the connection serves this volume. */
static void export_enter(struct nbd_conn *c, const char *name, struct zvol *zv)
{
	pthread_mutex_lock(&c->lock);
	memcpy(c->export_name, name, strlen(name) + 1);
	c->zv = zv;
	c->negotiating = false;
	pthread_mutex_unlock(&c->lock);
	c->allocation = c->structured && c->allocation && strcmp(c->context_name, name) == 0;
	c->writable = zvol_is_writable(zv);
	c->step = transmit_step;
}

static void info_export_send(struct nbd_conn *c, uint32_t option, const struct zvol *zv)
{
	uint8_t info[12];

	store_be16(info, NBD_INFO_EXPORT);
	store_be64(info + 2, zvol_size(zv));
	store_be16(info + 10, transmit_flags(zv));
	reply_send(c, option, NBD_REP_INFO, info, sizeof(info));
}

static void info_block_size_send(struct nbd_conn *c, uint32_t option, const struct zvol *zv)
{
	uint8_t info[14];

	store_be16(info, NBD_INFO_BLOCK_SIZE);
	store_be32(info + 2, 1);
	store_be32(info + 6, MAX(zv->blocksize, 4096u));
	store_be32(info + 10, NBD_REQUEST_MAX);
	reply_send(c, option, NBD_REP_INFO, info, sizeof(info));
}

static void info_text_send(struct nbd_conn *c, uint32_t option, uint16_t type, const char *text)
{
	size_t len = strlen(text);
	uint8_t *info = xmalloc(2 + len);

	store_be16(info, type);
	memcpy(info + 2, text, len);
	reply_send(c, option, NBD_REP_INFO, info, 2 + len);
	free(info);
}

static void info_requested_send(struct nbd_conn *c, uint32_t option, uint16_t type, const char *name, struct zvol *zv)
{
	if (type == NBD_INFO_NAME)
		info_text_send(c, option, type, name);
	else if (type == NBD_INFO_DESCRIPTION)
		info_text_send(c, option, type,
			       zvol_is_writable(zv)  ? "ZFS volume"
			       : zv->ds->is_snapshot ? "snapshot of a ZFS volume"
						     : "ZFS volume, read-only");
	else if (type == NBD_INFO_BLOCK_SIZE)
		info_block_size_send(c, option, zv);
}

/* INFO and GO: a name, then the kinds of information asked for. */
static int option_info(struct nbd_conn *c, const struct option *o)
{
	struct cursor k = {o->data, o->len, false};
	char name[NBD_NAME_MAX + 1];
	struct err e = ERR_INIT;
	bool named = take_name(&k, take_u32(&k), name);
	unsigned count = take_u16(&k);
	const uint8_t *types = take(&k, 2 * (size_t)count);
	struct zvol *zv;

	if (!named || k.bad || k.left) {
		reply_error(c, o->number, NBD_REP_ERR_INVALID, "malformed request");
		return 0;
	}
	if (export_open(c, name, &zv, &e)) {
		reply_not_opened(c, o->number, &e);
		return 0;
	}
	info_export_send(c, o->number, zv);
	for (unsigned i = 0; i < count; i++)
		info_requested_send(c, o->number, load_be16(types + 2 * i), name, zv);
	reply_send(c, o->number, NBD_REP_ACK, NULL, 0);
	if (o->number == NBD_OPT_GO)
		export_enter(c, name, zv);
	else
		export_close(c, zv);
	return 0;
}

/* The old way in: no error can be told but by hanging up. */
static int option_export_name(struct nbd_conn *c, const struct option *o)
{
	struct cursor k = {o->data, o->len, false};
	char name[NBD_NAME_MAX + 1];
	uint8_t reply[10 + 124] = {0};
	struct zvol *zv;

	if (!take_name(&k, o->len, name) || export_open(c, name, &zv, NULL))
		return -ENOENT;
	store_be64(reply, zvol_size(zv));
	store_be16(reply + 8, transmit_flags(zv));
	conn_send_bytes(c, reply, c->client_flags & NBD_FLAG_NO_ZEROES ? 10 : sizeof(reply));
	export_enter(c, name, zv);
	return 0;
}

static int list_one(void *arg, const char *name)
{
	struct nbd_conn *c = arg;
	size_t len = strlen(name);
	uint8_t *data;

	if (!nbd_access_allows(nbd_access_of(c->server), name, &c->peer))
		return 0;
	data = xmalloc(4 + len);
	store_be32(data, (uint32_t)len);
	memcpy(data + 4, name, len);
	reply_send(c, NBD_OPT_LIST, NBD_REP_SERVER, data, 4 + len);
	free(data);
	return 0;
}

static int option_list(struct nbd_conn *c, const struct option *o)
{
	const struct nbd_source *src = nbd_source_of(c->server);

	if (o->len) {
		reply_error(c, o->number, NBD_REP_ERR_INVALID, "LIST takes no data");
		return 0;
	}
	src->list(src->ctx, list_one, c);
	reply_send(c, o->number, NBD_REP_ACK, NULL, 0);
	return 0;
}

static int option_structured(struct nbd_conn *c, const struct option *o)
{
	if (o->len) {
		reply_error(c, o->number, NBD_REP_ERR_INVALID, "STRUCTURED_REPLY takes no data");
		return 0;
	}
	c->structured = true;
	reply_send(c, o->number, NBD_REP_ACK, NULL, 0);
	return 0;
}

/* What was said in the clear counts no more, and nothing of it may be left behind the option. */
static int option_starttls(struct nbd_conn *c, const struct option *o)
{
	if (!conn_has_tls(c)) {
		reply_error(c, o->number, NBD_REP_ERR_UNSUP, "there is no TLS here");
		return 0;
	}
	if (c->tls || o->len) {
		reply_error(c, o->number, NBD_REP_ERR_INVALID, c->tls ? "TLS is on" : "STARTTLS takes no data");
		return 0;
	}
	if (c->in_len > OPTION_HEADER)
		return -EPROTO;
	reply_send(c, o->number, NBD_REP_ACK, NULL, 0);
	c->structured = c->allocation = false;
	c->context_name[0] = 0;
	return conn_start_tls(c);
}

/* ---- meta contexts ---- */

static bool query_matches(const uint8_t *q, size_t len, bool list)
{
	static const char name[] = "base:allocation";

	if (len == sizeof(name) - 1 && memcmp(q, name, len) == 0)
		return true;
	return list && len == 5 && memcmp(q, "base:", 5) == 0;
}

static bool queries_match(struct cursor *k, uint32_t count, bool list)
{
	bool match = list && count == 0;

	for (uint32_t i = 0; i < count && !k->bad; i++) {
		uint32_t len = take_u32(k);
		const uint8_t *q = take(k, len);

		match |= q && query_matches(q, len, list);
	}
	return match;
}

static void context_send(struct nbd_conn *c, uint32_t option)
{
	static const char name[] = "base:allocation";
	uint8_t data[4 + sizeof(name) - 1];

	store_be32(data, option == NBD_OPT_SET_META_CONTEXT ? NBD_CONTEXT_ALLOCATION : 0);
	memcpy(data + 4, name, sizeof(name) - 1);
	reply_send(c, option, NBD_REP_META_CONTEXT, data, sizeof(data));
}

static int option_meta_context(struct nbd_conn *c, const struct option *o)
{
	struct cursor k = {o->data, o->len, false};
	bool list = o->number == NBD_OPT_LIST_META_CONTEXT, match;
	char name[NBD_NAME_MAX + 1];
	bool named = take_name(&k, take_u32(&k), name);
	struct err e = ERR_INIT;
	struct zvol *zv;

	match = queries_match(&k, take_u32(&k), list);
	if (!list)
		c->allocation = false;
	if (!named || k.bad || k.left || !c->structured) {
		reply_error(c, o->number, NBD_REP_ERR_INVALID,
			    c->structured ? "malformed request" : "structured replies come first");
		return 0;
	}
	if (export_open(c, name, &zv, &e)) {
		reply_not_opened(c, o->number, &e);
		return 0;
	}
	export_close(c, zv);
	if (match)
		context_send(c, o->number);
	if (match && !list) {
		c->allocation = true;
		memcpy(c->context_name, name, sizeof(name));
	}
	reply_send(c, o->number, NBD_REP_ACK, NULL, 0);
	return 0;
}

/* ---- the option loop ---- */

static const struct {
	uint32_t number;
	int (*run)(struct nbd_conn *c, const struct option *o);
	bool waits; /* for devices */
} options[] = {
    {NBD_OPT_EXPORT_NAME, option_export_name, true},
    {NBD_OPT_LIST, option_list, true},
    {NBD_OPT_STARTTLS, option_starttls, false},
    {NBD_OPT_INFO, option_info, true},
    {NBD_OPT_GO, option_info, true},
    {NBD_OPT_STRUCTURED_REPLY, option_structured, false},
    {NBD_OPT_LIST_META_CONTEXT, option_meta_context, true},
    {NBD_OPT_SET_META_CONTEXT, option_meta_context, true},
};

static struct option option_read(const struct nbd_conn *c)
{
	return (struct option){load_be32(c->in + 8), load_be32(c->in + 12), c->in + OPTION_HEADER};
}

/* The option's bytes stay in `in` until it has run: the connection is paused meanwhile. */
static void option_task(struct task *t)
{
	struct nbd_conn *c = container_of(t, struct nbd_conn, admin);
	struct option o = option_read(c);
	int err = options[c->admin_option].run(c, &o);

	conn_consume(c, OPTION_HEADER + o.len);
	if (err)
		conn_drain(c);
	conn_resume(c);
	conn_unref(c);
}

static int option_run(struct nbd_conn *c, const struct option *o)
{
	int err;

	for (unsigned i = 0; i < ARRAY_LEN(options); i++) {
		if (options[i].number != o->number)
			continue;
		if (options[i].waits) {
			conn_ref(c);
			conn_pause(c);
			c->admin_option = i;
			c->admin.run = option_task;
			taskq_dispatch(nbd_admin(c->server), &c->admin);
			return 1;
		}
		err = options[i].run(c, o);
		conn_consume(c, OPTION_HEADER + o->len);
		return err ? err : 1;
	}
	reply_error(c, o->number, NBD_REP_ERR_UNSUP, "this option is not supported");
	conn_consume(c, OPTION_HEADER + o->len);
	return 1;
}

static int option_step(struct nbd_conn *c)
{
	struct option o;

	if (c->in_len < OPTION_HEADER)
		return 0;
	if (load_be64(c->in) != NBD_OPT_MAGIC)
		return -EPROTO;
	o = option_read(c);
	if (o.number == NBD_OPT_ABORT) {
		reply_send(c, o.number, NBD_REP_ACK, NULL, 0);
		conn_drain(c);
		return 1;
	}
	if (conn_has_tls(c) && !c->tls && o.number == NBD_OPT_EXPORT_NAME)
		return -EPROTO;
	if (conn_has_tls(c) && !c->tls && o.number != NBD_OPT_STARTTLS) {
		reply_error(c, o.number, NBD_REP_ERR_TLS_REQD, "TLS comes first");
		conn_consume(c, OPTION_HEADER);
		c->discard = o.len;
		return 1;
	}
	if (o.len > NBD_OPTION_MAX - OPTION_HEADER) {
		if (o.number == NBD_OPT_EXPORT_NAME)
			return -EPROTO;
		reply_error(c, o.number, NBD_REP_ERR_TOO_BIG, "the option is too long");
		conn_consume(c, OPTION_HEADER);
		c->discard = o.len;
		return 1;
	}
	return c->in_len < OPTION_HEADER + o.len ? 0 : option_run(c, &o);
}

static int flags_step(struct nbd_conn *c)
{
	if (c->in_len < 4)
		return 0;
	c->client_flags = load_be32(c->in);
	if (c->client_flags & ~(uint32_t)(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES))
		return -EPROTO;
	conn_consume(c, 4);
	c->step = option_step;
	return 1;
}

void negotiate_start(struct nbd_conn *c)
{
	uint8_t hello[18];

	store_be64(hello, NBD_MAGIC);
	store_be64(hello + 8, NBD_OPT_MAGIC);
	store_be16(hello + 16, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	c->step = flags_step;
	conn_send_bytes(c, hello, sizeof(hello));
}
