#include "serve/nbd/conn.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/log.h"
#include "base/os.h"
#include "serve/nbd/listen.h"
#include "serve/nbd/request.h"

#define LOOPS_MAX       4
#define LISTENERS_MAX   8
#define CONNECTIONS_MAX 4096
#define SEND_VECTORS    128
#define CORKED_MAX      16u         /* replies that wait while the loop takes requests */
#define INPUT_SIZE      (64u << 10) /* requests and small payloads are received that much at a time */
#define LOOK_MS         2000        /* between two looks for clients that do not come to the point */
#define LOOK_SHORT_MS   250         /* while some wait for memory */
/* Room for whole replies, so that a completion rarely has to leave the rest to the loop. */
#define SOCKET_SEND_BUFFER (4 << 20)

struct nbd_loop {
	struct nbd_server *server;
	int epoll_fd, wake_fd;
	pthread_t thread;
};

struct nbd_server {
	struct nbd_source source;
	struct nbd_loop loop[LOOPS_MAX];
	unsigned nloops;
	int listen_fd[LISTENERS_MAX];
	unsigned nlisten, next_loop;
	char *unix_path;
	struct taskq *admin;
	pthread_mutex_t lock; /* guards conns and stopping; before a connection's lock */
	pthread_cond_t gone;
	struct list conns;
	bool stopping;
	_Atomic uint64_t inflight_bytes; /* of all connections */
	struct nbd_memory memory;
	struct nbd_tls *tls; /* NULL: without */
	struct nbd_access *access;
	uint64_t next_look;    /* of the first loop alone */
	uint64_t inflight_max; /* beyond it one request for each connection */
};

struct taskq *nbd_admin(struct nbd_server *s)
{
	return s->admin;
}

const struct nbd_access *nbd_access_of(struct nbd_server *s)
{
	return s->access;
}

struct nbd_memory *nbd_memory_of(struct nbd_server *s)
{
	return &s->memory;
}

const struct nbd_source *nbd_source_of(struct nbd_server *s)
{
	return &s->source;
}

/* ---- connection life ---- */

static void out_free(struct nbd_server *s, struct nbd_out *o)
{
	atomic_fetch_sub(&s->inflight_bytes, o->inflight_bytes);
	if (o->read) {
		dmu_read_finish(o->read);
		free(o->read);
	}
	free(o->iov);
	free(o->head);
	free(o);
}

static void conn_free(struct nbd_conn *c)
{
	struct nbd_server *s = c->server;
	struct list_node *n;

	while ((n = list_pop(&c->out)))
		out_free(s, container_of(n, struct nbd_out, node));
	tls_session_destroy(c->tls);
	close(c->fd);
	if (c->zv)
		s->source.close(s->source.ctx, c->zv);
	free(c->in_base);
	pthread_mutex_lock(&s->lock);
	list_remove(&s->conns, &c->node);
	pthread_cond_broadcast(&s->gone);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void conn_ref(struct nbd_conn *c)
{
	pthread_mutex_lock(&c->lock);
	c->refs++;
	pthread_mutex_unlock(&c->lock);
}

static void conn_free_task(struct task *t)
{
	conn_free(container_of(t, struct nbd_conn, admin));
}

/* Closing an export may release the last hold on cached state: never on the thread of a completion. */
void conn_unref(struct nbd_conn *c)
{
	bool last;

	pthread_mutex_lock(&c->lock);
	last = --c->refs == 0;
	pthread_mutex_unlock(&c->lock);
	if (!last)
		return;
	c->admin.run = conn_free_task;
	taskq_dispatch(c->server->admin, &c->admin);
}

/* Makes the loop see a hang-up and drop its reference. */
static void conn_close_locked(struct nbd_conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	shutdown(c->fd, SHUT_RDWR);
}

static bool conn_is_full(const struct nbd_conn *c)
{
	bool crowded = atomic_load(&c->server->inflight_bytes) >= c->server->inflight_max;

	return c->inflight >= NBD_INFLIGHT_MAX || c->inflight_bytes >= NBD_INFLIGHT_BYTES ||
	       c->queued_bytes >= NBD_QUEUED_BYTES || (crowded && c->inflight > 0);
}

static bool conn_takes_input(const struct nbd_conn *c)
{
	return !c->paused && !c->starved && (c->in_payload || (!c->draining && !conn_is_full(c)));
}

/* Level-triggered: what is not asked for now is seen again once it is wanted. */
static void conn_arm_locked(struct nbd_conn *c)
{
	struct epoll_event ev = {.data.ptr = c};

	ev.events = (conn_takes_input(c) ? EPOLLIN | EPOLLRDHUP : 0) | (c->event_out ? EPOLLOUT : 0);
	epoll_ctl(c->loop->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
}

/* Have the loop look at the connection soon: an open socket is nearly always writable. */
static void conn_poke_locked(struct nbd_conn *c)
{
	c->event_out = true;
	conn_arm_locked(c);
}

void conn_pause(struct nbd_conn *c)
{
	pthread_mutex_lock(&c->lock);
	c->paused = true;
	conn_arm_locked(c);
	pthread_mutex_unlock(&c->lock);
}

void conn_resume(struct nbd_conn *c)
{
	pthread_mutex_lock(&c->lock);
	c->paused = c->stalled = false;
	conn_poke_locked(c);
	pthread_mutex_unlock(&c->lock);
}

void conn_starve(struct nbd_conn *c, bool starved)
{
	pthread_mutex_lock(&c->lock);
	c->starved = starved;
	if (starved) {
		conn_arm_locked(c);
	} else {
		c->stalled = false;
		conn_poke_locked(c);
	}
	pthread_mutex_unlock(&c->lock);
}

void conn_receive(struct nbd_conn *c, struct request *rq)
{
	c->receiving = rq;
	if (rq)
		c->large = rq->length > c->in_cap;
	atomic_store(&c->progress, rq ? now_ns() : 0);
	pthread_mutex_lock(&c->lock);
	c->in_payload = rq != NULL;
	pthread_mutex_unlock(&c->lock);
}

void conn_drain(struct nbd_conn *c)
{
	pthread_mutex_lock(&c->lock);
	c->draining = true;
	conn_poke_locked(c);
	pthread_mutex_unlock(&c->lock);
}

void conn_consume(struct nbd_conn *c, size_t n)
{
	c->in += n;
	c->in_len -= n;
}

void conn_request_begin(struct nbd_conn *c)
{
	pthread_mutex_lock(&c->lock);
	c->inflight++;
	c->refs++;
	pthread_mutex_unlock(&c->lock);
}

void conn_request_bytes(struct nbd_conn *c, uint64_t bytes)
{
	pthread_mutex_lock(&c->lock);
	c->inflight_bytes += bytes;
	pthread_mutex_unlock(&c->lock);
	atomic_fetch_add(&c->server->inflight_bytes, bytes);
}

/* ---- output ---- */

struct nbd_out *out_create(const void *head, size_t len)
{
	struct nbd_out *o = xcalloc(1, sizeof(*o));

	o->head = xmalloc(len ? len : 1);
	memcpy(o->head, head, len);
	o->iov = xcalloc(1, sizeof(*o->iov));
	o->iov[0] = (struct iovec){o->head, len};
	o->niov = 1;
	return o;
}

static unsigned out_gather(struct nbd_conn *c, struct iovec *iov, unsigned max)
{
	unsigned n = 0;

	list_for_each(&c->out, node) {
		struct nbd_out *o = container_of(node, struct nbd_out, node);

		for (unsigned i = o->at; i < o->niov && n < max; i++)
			iov[n++] = o->iov[i];
		if (n == max)
			break;
	}
	return n;
}

/* Take `sent` bytes off the queue; finished pieces move to `done`. */
static void out_advance(struct nbd_conn *c, size_t sent, struct list *done)
{
	struct list_node *node;

	while ((node = list_first(&c->out))) {
		struct nbd_out *o = container_of(node, struct nbd_out, node);

		while (o->at < o->niov && sent >= o->iov[o->at].iov_len)
			sent -= o->iov[o->at++].iov_len;
		if (o->at < o->niov) {
			o->iov[o->at].iov_base = (uint8_t *)o->iov[o->at].iov_base + sent;
			o->iov[o->at].iov_len -= sent;
			return;
		}
		list_remove(&c->out, node);
		list_append(done, node);
		c->inflight_bytes -= o->inflight_bytes;
		c->queued_bytes -= o->queued_bytes;
		c->inflight -= o->ends_request;
	}
}

/* One step of sending; false when the socket takes no more now. Called with the lock held, which is dropped while in
 * the kernel. */
static bool out_send_some(struct nbd_conn *c)
{
	struct iovec iov[SEND_VECTORS];
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = out_gather(c, iov, SEND_VECTORS)};
	bool wants_write;
	struct list_node *n;
	struct list done;
	ssize_t sent;
	int err;

	pthread_mutex_unlock(&c->lock);
	sent = c->tls ? tls_send(c->tls, iov, (int)msg.msg_iovlen, &wants_write)
		      : sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	err = sent >= 0 ? 0 : c->tls ? (int)-sent : errno;
	pthread_mutex_lock(&c->lock);
	if (err == EINTR)
		return true;
	if (err == EAGAIN) {
		conn_poke_locked(c);
		return false;
	}
	if (err) {
		conn_close_locked(c);
		return false;
	}
	list_init(&done);
	out_advance(c, (size_t)sent, &done);
	if (c->draining || (c->stalled && conn_takes_input(c))) {
		c->stalled = false;
		conn_poke_locked(c); /* requests may already be waiting in the buffer */
	}
	pthread_mutex_unlock(&c->lock);
	while ((n = list_pop(&done)))
		out_free(c->server, container_of(n, struct nbd_out, node));
	pthread_mutex_lock(&c->lock);
	return true;
}

/* One thread at a time sends. */
static void conn_flush_locked(struct nbd_conn *c)
{
	if (c->sending)
		return;
	c->sending = true;
	while (!list_is_empty(&c->out) && !c->closing && out_send_some(c))
		;
	c->sending = false;
}

void conn_send(struct nbd_conn *c, struct nbd_out *o)
{
	pthread_mutex_lock(&c->lock);
	list_append(&c->out, &o->node);
	c->queued_bytes += o->queued_bytes;
	if (c->tls)
		conn_poke_locked(c); /* a session is its loop's alone */
	else if (!c->corked || c->out.len >= CORKED_MAX)
		conn_flush_locked(c);
	pthread_mutex_unlock(&c->lock);
}

void conn_send_bytes(struct nbd_conn *c, const void *data, size_t len)
{
	struct nbd_out *o = out_create(data, len);

	o->queued_bytes = len;
	conn_send(c, o);
}

/* ---- input ---- */

static void conn_wants_write(struct nbd_conn *c, bool wants)
{
	if (!wants)
		return;
	pthread_mutex_lock(&c->lock);
	conn_poke_locked(c);
	pthread_mutex_unlock(&c->lock);
}

static ssize_t conn_recv_tls(struct nbd_conn *c, const struct iovec *iov, int n)
{
	bool wants_write = false;
	ssize_t got = 0;

	if (!c->tls_ready) {
		got = tls_handshake(c->tls, &wants_write);
		c->tls_ready = got == 0;
	}
	if (c->tls_ready)
		got = tls_recv(c->tls, iov, n, &wants_write);
	conn_wants_write(c, wants_write);
	return got;
}

static ssize_t conn_recv_plain(struct nbd_conn *c, const struct iovec *iov, int n)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
	ssize_t got = recvmsg(c->fd, &msg, MSG_DONTWAIT);

	if (got < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	return got == 0 ? -EPIPE : got;
}

ssize_t conn_recv(struct nbd_conn *c, const struct iovec *iov, int n)
{
	ssize_t got = c->tls ? conn_recv_tls(c, iov, n) : conn_recv_plain(c, iov, n);

	if (got > 0 && c->receiving)
		atomic_store(&c->progress, now_ns());
	return got;
}

int conn_start_tls(struct nbd_conn *c)
{
	bool sent;

	pthread_mutex_lock(&c->lock);
	conn_flush_locked(c);
	sent = list_is_empty(&c->out);
	pthread_mutex_unlock(&c->lock);
	if (!c->server->tls || c->tls || !sent)
		return -EPROTO;
	c->tls = tls_session_create(c->server->tls, c->fd);
	return c->tls ? 0 : -ENOMEM;
}

bool conn_has_tls(const struct nbd_conn *c)
{
	return c->is_tcp && c->server->tls;
}

static int conn_fill(struct nbd_conn *c)
{
	struct iovec iov;
	ssize_t n;

	if (c->receiving)
		return write_fill(c);
	memmove(c->in_base, c->in, c->in_len);
	c->in = c->in_base;
	iov = (struct iovec){c->in + c->in_len, c->in_cap - c->in_len};
	if (c->large && c->in_len < NBD_REQUEST_SIZE)
		iov.iov_len = NBD_REQUEST_SIZE - c->in_len;
	n = conn_recv(c, &iov, 1);
	if (n < 0)
		return (int)n;
	c->in_len += (size_t)n;
	return 0;
}

static bool conn_wants_input(struct nbd_conn *c)
{
	bool want;

	pthread_mutex_lock(&c->lock);
	want = conn_takes_input(c) && !c->closing;
	c->stalled = !want;
	pthread_mutex_unlock(&c->lock);
	return want;
}

/* 0: all is consumed but what needs more bytes; 1: input is not wanted now. */
static int conn_parse(struct nbd_conn *c)
{
	int r = 1;

	while (r > 0) {
		size_t n;

		/* Until then an option may still run elsewhere, with the buffer its own. */
		if (!conn_wants_input(c))
			return 1;
		n = MIN(c->discard, c->in_len);
		conn_consume(c, n);
		c->discard -= n;
		r = c->in_len > 0 ? c->step(c) : 0;
	}
	return r;
}

static void conn_cork(struct nbd_conn *c, bool corked)
{
	pthread_mutex_lock(&c->lock);
	c->corked = corked;
	if (!corked && !c->tls)
		conn_flush_locked(c);
	pthread_mutex_unlock(&c->lock);
}

/* Replies to what is there now go together. */
static int conn_input(struct nbd_conn *c)
{
	int r;

	conn_cork(c, true);
	while ((r = conn_parse(c)) == 0) {
		r = c->in_len == c->in_cap ? -EPROTO : conn_fill(c); /* every step takes less than the buffer holds */
		if (r)
			break;
	}
	conn_cork(c, false);
	return r == -EAGAIN || r > 0 ? 0 : r;
}

static void conn_leave_loop(struct nbd_conn *c)
{
	write_abort(c);
	memory_leave(&c->server->memory, c);
	pthread_mutex_lock(&c->lock);
	conn_close_locked(c);
	pthread_mutex_unlock(&c->lock);
	epoll_ctl(c->loop->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
	conn_unref(c);
}

/* Drained and everything answered and sent: time to go. */
static bool conn_is_finished(const struct nbd_conn *c)
{
	return c->closing || (c->draining && list_is_empty(&c->out) && c->inflight == 0);
}

static void conn_event(struct nbd_conn *c, uint32_t events)
{
	bool finished;
	int err;

	pthread_mutex_lock(&c->lock);
	if (events & EPOLLOUT) {
		c->event_out = false;
		conn_arm_locked(c);
		conn_flush_locked(c);
	}
	pthread_mutex_unlock(&c->lock);
	err = events & (EPOLLERR | EPOLLHUP) ? -EPIPE : conn_input(c);
	pthread_mutex_lock(&c->lock);
	finished = err || conn_is_finished(c);
	if (!finished)
		conn_arm_locked(c);
	pthread_mutex_unlock(&c->lock);
	if (finished)
		conn_leave_loop(c);
}

/* ---- listening ---- */

void nbd_server_adopt(struct nbd_server *s, int fd)
{
	struct nbd_conn *c = xcalloc(1, sizeof(*c));
	struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
	int one = 1, sndbuf = SOCKET_SEND_BUFFER;
	socklen_t peer_len = sizeof(c->peer);

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof(sndbuf)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* fails on Unix sockets, which need none */
	if (getpeername(fd, (struct sockaddr *)&c->peer, &peer_len))
		c->peer.ss_family = AF_UNSPEC;
	c->is_tcp = c->peer.ss_family == AF_INET || c->peer.ss_family == AF_INET6;
	c->server = s;
	c->fd = fd;
	c->in_cap = INPUT_SIZE;
	c->in = c->in_base = xmalloc(c->in_cap);
	c->negotiating = true;
	c->born = now_ns();
	c->refs = 2; /* the loop's, and ours until it is set up */
	list_init(&c->out);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_lock(&s->lock);
	c->loop = &s->loop[s->next_loop++ % s->nloops];
	list_append(&s->conns, &c->node);
	pthread_mutex_unlock(&s->lock);
	negotiate_start(c);
	if (epoll_ctl(c->loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		conn_unref(c);
	conn_unref(c);
}

static void listener_accept(struct nbd_server *s, int listen_fd)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	bool refuse;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			usleep(10000); /* the waiting connection stays readable: do not spin on it */
		return;
	}
	pthread_mutex_lock(&s->lock);
	refuse = s->stopping || s->conns.len >= CONNECTIONS_MAX;
	pthread_mutex_unlock(&s->lock);
	if (refuse)
		close(fd);
	else
		nbd_server_adopt(s, fd);
}

/* Events of listeners carry the address of their slot in listen_fd; those of connections the connection. */
static bool event_is_listener(struct nbd_server *s, void *ptr)
{
	return (int *)ptr >= s->listen_fd && (int *)ptr < s->listen_fd + LISTENERS_MAX;
}

/* Who does not come to the point, or holds memory that others wait for. Server lock held. */
static void conns_look_after(struct nbd_server *s, uint64_t now, bool is_short)
{
	list_for_each(&s->conns, n) {
		struct nbd_conn *c = container_of(n, struct nbd_conn, node);
		uint64_t progress = atomic_load(&c->progress);

		pthread_mutex_lock(&c->lock);
		if ((c->negotiating && now - c->born > NBD_NEGOTIATION_NS) ||
		    (is_short && progress && !c->starved && now > progress + NBD_STALL_NS))
			conn_close_locked(c);
		pthread_mutex_unlock(&c->lock);
	}
}

/* The first loop looks after the clients of all. */
static int loop_timeout(struct nbd_loop *l)
{
	struct nbd_server *s = l->server;
	uint64_t now = now_ns();
	bool is_short;

	if (l != &s->loop[0])
		return -1;
	SCOPED_LOCK(&s->lock);
	if (s->conns.len == 0)
		return -1;
	if (now < s->next_look)
		return (int)((s->next_look - now) / 1000000 + 1);
	is_short = memory_is_short(&s->memory);
	conns_look_after(s, now, is_short);
	s->next_look = now + (is_short ? LOOK_SHORT_MS : LOOK_MS) * UINT64_C(1000000);
	return is_short ? LOOK_SHORT_MS : LOOK_MS;
}

static void *loop_main(void *arg)
{
	struct nbd_loop *l = arg;
	struct epoll_event ev[64];

	for (;;) {
		int n = epoll_wait(l->epoll_fd, ev, ARRAY_LEN(ev), loop_timeout(l));

		for (int i = 0; i < n; i++) {
			void *ptr = ev[i].data.ptr;

			if (ptr == l)
				return NULL;
			if (event_is_listener(l->server, ptr))
				listener_accept(l->server, *(int *)ptr);
			else
				conn_event(ptr, ev[i].events);
		}
	}
}

static int loop_start(struct nbd_server *s, struct nbd_loop *l)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = l};

	l->server = s;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (l->epoll_fd < 0 || l->wake_fd < 0 || epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &ev))
		return -errno;
	return -pthread_create(&l->thread, NULL, loop_main, l);
}

static int listener_add(struct nbd_server *s, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	s->listen_fd[s->nlisten] = fd;
	ev.data.ptr = &s->listen_fd[s->nlisten++];
	return epoll_ctl(s->loop[0].epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int server_listen(struct nbd_server *s, const struct nbd_config *c, struct err *e)
{
	int fd[LISTENERS_MAX], err = 0;
	unsigned n = 0;

	if (c->unix_path) {
		err = listen_unix(c->unix_path, &fd[n], e);
		if (err)
			return err;
		s->unix_path = xstrdup(c->unix_path);
		err = listener_add(s, fd[n]);
	}
	if (!err && c->tcp) {
		err = listen_tcp(c->tcp, fd, LISTENERS_MAX - s->nlisten, &n, e);
		for (unsigned i = 0; i < n; i++) {
			int added = listener_add(s, fd[i]);

			err = err ? err : added;
		}
	}
	return err;
}

static int server_protect(struct nbd_server *s, const struct nbd_config *c, struct err *e)
{
	int err;

	if (!c->tcp && (c->tls.certificates || c->tls.psk || c->tls.verify || c->nallow))
		return err_set(e, -EINVAL, "TLS and rules of access are for TCP, where nothing listens");
	err = nbd_access_create(c->allow, c->nallow, &s->access, e);
	return err ? err : nbd_tls_create(&c->tls, &s->tls, e);
}

int nbd_server_start(const struct nbd_config *c, const struct nbd_source *source, struct nbd_server **out,
		     struct err *e)
{
	struct nbd_server *s = xcalloc(1, sizeof(*s));
	int err;

	s->source = *source;
	s->admin = taskq_create("nbd-admin", 4);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->gone, NULL);
	list_init(&s->conns);
	s->inflight_max = os_memory_bytes() / 8;
	memory_init(&s->memory, os_memory_bytes());
	s->nloops = MIN(os_cpus(), LOOPS_MAX);
	for (unsigned i = 0; i < s->nloops; i++)
		BUG_ON(loop_start(s, &s->loop[i])); /* no descriptors at start: nothing could be served */
	err = server_protect(s, c, e);
	if (!err)
		err = server_listen(s, c, e);
	if (err) {
		nbd_server_stop(s);
		return err;
	}
	*out = s;
	return 0;
}

/* ---- ending ---- */

static bool name_is_below(const char *name, const char *pool)
{
	size_t n = strlen(pool);

	return strncmp(name, pool, n) == 0 && (name[n] == 0 || name[n] == '/' || name[n] == '@');
}

/* The client has said goodbye or hung up: what is left of the connection ends by itself. Connection lock held. */
static bool conn_is_leaving(const struct nbd_conn *c)
{
	struct pollfd pfd = {.fd = c->fd, .events = POLLRDHUP};

	return c->draining || c->closing || poll(&pfd, 1, 0) > 0;
}

/* Clients of a pool (NULL: of any, also those that have opened nothing); those on their way out count only when it is
 * waited for that they are gone (close_them). Server lock held. */
static unsigned conns_using(struct nbd_server *s, const char *pool, bool close_them)
{
	unsigned count = 0;

	list_for_each(&s->conns, n) {
		struct nbd_conn *c = container_of(n, struct nbd_conn, node);

		pthread_mutex_lock(&c->lock);
		if ((!pool || (c->zv && name_is_below(c->export_name, pool))) && (close_them || !conn_is_leaving(c))) {
			count++;
			if (close_them)
				conn_close_locked(c);
		}
		pthread_mutex_unlock(&c->lock);
	}
	return count;
}

unsigned nbd_server_clients(struct nbd_server *s, const char *pool)
{
	SCOPED_LOCK(&s->lock);
	return conns_using(s, pool, false);
}

void nbd_server_disconnect(struct nbd_server *s, const char *pool)
{
	SCOPED_LOCK(&s->lock);
	while (conns_using(s, pool, true))
		pthread_cond_wait(&s->gone, &s->lock);
}

void nbd_server_stop(struct nbd_server *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	pthread_mutex_unlock(&s->lock);
	nbd_server_disconnect(s, NULL);
	for (unsigned i = 0; i < s->nloops; i++) {
		uint64_t one = 1;

		BUG_ON(write(s->loop[i].wake_fd, &one, sizeof(one)) != sizeof(one));
		pthread_join(s->loop[i].thread, NULL);
		close(s->loop[i].epoll_fd);
		close(s->loop[i].wake_fd);
	}
	for (unsigned i = 0; i < s->nlisten; i++)
		close(s->listen_fd[i]);
	taskq_destroy(s->admin);
	memory_fini(&s->memory);
	nbd_tls_destroy(s->tls);
	nbd_access_destroy(s->access);
	if (s->unix_path)
		unlink(s->unix_path);
	free(s->unix_path);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->gone);
	free(s);
}
