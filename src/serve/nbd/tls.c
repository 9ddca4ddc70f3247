#include "serve/nbd/tls.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/hash.h"
#include "base/log.h"

#define STAGE    16384 /* bytes of one TLS record */
#define PSK_MAX  64    /* bytes of a key */
#define PSK_LINE 1024

struct nbd_tls {
	SSL_CTX *ctx;
	struct strmap *keys; /* name -> struct psk */
	struct psk *list;
};

struct psk {
	struct psk *next;
	size_t len;
	uint8_t key[PSK_MAX];
};

struct tls_session {
	SSL *ssl;
	uint8_t stage[STAGE]; /* small pieces of output become one record */
};

/* --- configuration --- */

static int tls_error(struct err *e, const char *what, const char *path)
{
	char text[256] = "";
	unsigned long code = ERR_peek_last_error();

	if (code)
		ERR_error_string_n(code, text, sizeof(text));
	ERR_clear_error();
	return err_set(e, -EINVAL, "%s %s: %s", what, path, text[0] ? text : "not usable");
}

static int certificates_load(struct nbd_tls *t, const struct nbd_tls_config *c, struct err *e)
{
	autofree char *cert = xasprintf("%s/server-cert.pem", c->certificates);
	autofree char *key = xasprintf("%s/server-key.pem", c->certificates);
	autofree char *ca = xasprintf("%s/ca-cert.pem", c->certificates);

	if (SSL_CTX_use_certificate_chain_file(t->ctx, cert) != 1)
		return tls_error(e, "TLS certificate", cert);
	if (SSL_CTX_use_PrivateKey_file(t->ctx, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(t->ctx) != 1)
		return tls_error(e, "TLS key", key);
	if (!c->verify)
		return 0;
	if (SSL_CTX_load_verify_file(t->ctx, ca) != 1)
		return tls_error(e, "TLS certificate authority", ca);
	SSL_CTX_set_client_CA_list(t->ctx, SSL_load_client_CA_file(ca));
	SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "name:hex digits"; false when it is something else. */
static bool psk_add(struct nbd_tls *t, char *line)
{
	char *hex = strrchr(line, ':');
	struct psk *k;
	size_t n;

	if (!hex || hex == line)
		return false;
	*hex++ = 0;
	n = strlen(hex);
	if (n == 0 || n % 2 || n / 2 > PSK_MAX || strmap_get(t->keys, line))
		return false;
	k = xcalloc(1, sizeof(*k));
	k->next = t->list;
	t->list = k;
	for (k->len = 0; k->len < n / 2; k->len++) {
		int hi = hex_digit(hex[2 * k->len]), lo = hex_digit(hex[2 * k->len + 1]);

		if (hi < 0 || lo < 0)
			return false;
		k->key[k->len] = (uint8_t)(hi << 4 | lo);
	}
	strmap_set(t->keys, line, k);
	return true;
}

static int psk_read(struct nbd_tls *t, FILE *f, const char *path, struct err *e)
{
	char line[PSK_LINE];
	unsigned number = 0;
	int err = 0;

	while (!err && fgets(line, sizeof(line), f)) {
		number++;
		line[strcspn(line, "\r\n")] = 0;
		if (line[0] && line[0] != '#' && !psk_add(t, line))
			err = err_set(e, -EINVAL, "TLS keys %s: line %u is not NAME:KEY with a key of hex digits", path,
				      number);
	}
	explicit_bzero(line, sizeof(line));
	if (!err && !t->list)
		err = err_set(e, -EINVAL, "TLS keys %s: there are none", path);
	return err;
}

static int psk_load(struct nbd_tls *t, const char *path, struct err *e)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	int err;

	if (!f)
		return err_set(e, -errno, "TLS keys %s: %s", path, strerror(errno));
	if (fstat(fileno(f), &st) || st.st_mode & (S_IRWXG | S_IRWXO))
		err = err_set(e, -EACCES, "TLS keys %s: others than its owner can read the file", path);
	else
		err = psk_read(t, f, path, e);
	fclose(f);
	return err;
}

static unsigned psk_find(SSL *ssl, const char *name, unsigned char *key, unsigned max)
{
	const struct nbd_tls *t = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const struct psk *k = name ? strmap_get(t->keys, name) : NULL;

	if (!k || k->len > max)
		return 0;
	memcpy(key, k->key, k->len);
	return (unsigned)k->len;
}

static int context_make(struct nbd_tls *t, const struct nbd_tls_config *c, struct err *e)
{
	int err = 0;

	t->keys = strmap_create();
	t->ctx = SSL_CTX_new(TLS_server_method());
	if (!t->ctx)
		return tls_error(e, "TLS", "library");
	SSL_CTX_set_app_data(t->ctx, t);
	SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
	SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(t->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				     SSL_MODE_RELEASE_BUFFERS);
	if (c->certificates)
		err = certificates_load(t, c, e);
	if (!err && c->psk) {
		err = psk_load(t, c->psk, e);
		SSL_CTX_set_psk_server_callback(t->ctx, psk_find);
	}
	return err;
}

int nbd_tls_create(const struct nbd_tls_config *c, struct nbd_tls **out, struct err *e)
{
	struct nbd_tls *t;
	int err;

	*out = NULL;
	if (c->verify && !c->certificates)
		return err_set(e, -EINVAL, "to verify TLS clients a folder of certificates is needed");
	if (!c->certificates && !c->psk)
		return 0;
	if (c->verify && c->psk)
		return err_set(e, -EINVAL, "clients with shared TLS keys have no certificates to verify");
	t = xcalloc(1, sizeof(*t));
	err = context_make(t, c, e);
	if (err)
		nbd_tls_destroy(t);
	else
		*out = t;
	return err;
}

void nbd_tls_destroy(struct nbd_tls *t)
{
	struct psk *k;

	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	while ((k = t->list)) {
		t->list = k->next;
		explicit_bzero(k, sizeof(*k));
		free(k);
	}
	strmap_destroy(t->keys);
	free(t);
}

/* --- sessions --- */

struct tls_session *tls_session_create(struct nbd_tls *t, int fd)
{
	struct tls_session *s = xcalloc(1, sizeof(*s));
	int flags = fcntl(fd, F_GETFL);

	s->ssl = SSL_new(t->ctx);
	if (!s->ssl || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || SSL_set_fd(s->ssl, fd) != 1) {
		tls_session_destroy(s);
		return NULL;
	}
	return s;
}

void tls_session_destroy(struct tls_session *s)
{
	if (!s)
		return;
	SSL_free(s->ssl);
	explicit_bzero(s->stage, sizeof(s->stage));
	free(s);
}

static int session_result(struct tls_session *s, int rc, bool *wants_write)
{
	int why = SSL_get_error(s->ssl, rc);

	ERR_clear_error();
	*wants_write = why == SSL_ERROR_WANT_WRITE;
	if (why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ)
		return -EAGAIN;
	return why == SSL_ERROR_ZERO_RETURN || why == SSL_ERROR_SYSCALL ? -EPIPE : -EPROTO;
}

int tls_handshake(struct tls_session *s, bool *wants_write)
{
	int rc;

	*wants_write = false;
	ERR_clear_error();
	rc = SSL_accept(s->ssl);
	return rc == 1 ? 0 : session_result(s, rc, wants_write);
}

ssize_t tls_recv(struct tls_session *s, const struct iovec *iov, int n, bool *wants_write)
{
	ssize_t got = 0;

	*wants_write = false;
	for (int i = 0; i < n; i++) {
		int rc;

		ERR_clear_error();
		rc = SSL_read(s->ssl, iov[i].iov_base, (int)MIN(iov[i].iov_len, (size_t)INT_MAX));
		if (rc <= 0)
			return got ? got : session_result(s, rc, wants_write);
		got += rc;
		if ((size_t)rc < iov[i].iov_len)
			break;
	}
	return got;
}

/* What goes into the next record: a large piece as it is, or small ones copied together. */
static const void *record_choose(struct tls_session *s, const struct iovec *iov, int n, size_t *len)
{
	if (iov[0].iov_len >= STAGE || n == 1) {
		*len = MIN(iov[0].iov_len, (size_t)STAGE);
		return iov[0].iov_base;
	}
	*len = 0;
	for (int i = 0; i < n && *len < STAGE; i++) {
		size_t part = MIN(iov[i].iov_len, STAGE - *len);

		memcpy(s->stage + *len, iov[i].iov_base, part);
		*len += part;
	}
	return s->stage;
}

ssize_t tls_send(struct tls_session *s, const struct iovec *iov, int n, bool *wants_write)
{
	const void *data;
	size_t len;
	int rc;

	*wants_write = false;
	if (n == 0)
		return 0;
	data = record_choose(s, iov, n, &len);
	ERR_clear_error();
	rc = SSL_write(s->ssl, data, (int)len);
	return rc > 0 ? rc : session_result(s, rc, wants_write);
}
