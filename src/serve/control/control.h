/*
 * serve/control/control.h: the control protocol between `tarn` and `tarnd` over a Unix socket (mode 0600, peer
 * credentials checked).
 *
 * A frame is a 16-byte header (little endian) and a packed XDR nvlist:
 *     u32 magic "TARN", u16 version (1), u16 kind, u32 id, u32 length (at most 64 MiB)
 * kind: 1 request {"cmd": string, "args": nvlist}, 2 reply {"err": int64, "text": string, "result": nvlist}, 3 item
 * (one of a long result, before its reply), 4 progress {"stage": string}, 5 cancel (client to server), 6 ask {"prompt":
 * string, "echo": bool}, 7 answer {"bytes"}. Both sides check magic, version, length and nesting; a bad frame closes
 * the connection. Version mismatch: reply with both versions in the text.
 */
#ifndef SERVE_CONTROL_CONTROL_H
#define SERVE_CONTROL_CONTROL_H

#include <signal.h>

#include "base/err.h"
#include "nv/nv.h"

#define CONTROL_VERSION   1
#define CONTROL_FRAME_MAX (64u << 20)
#define CONTROL_STALL_MS  30000 /* a peer that stops in the midst of a frame is given up after this long */

enum control_kind {
	CONTROL_REQUEST = 1,
	CONTROL_REPLY,
	CONTROL_ITEM,
	CONTROL_PROGRESS,
	CONTROL_CANCEL,
	CONTROL_ASK,
	CONTROL_ANSWER
};

/* --- client side (used by cli/) --- */
struct control_client;
/* Connects to the daemon of os_rundir(), starting one (and waiting for it) when none answers and `start` is set. */
int control_connect(bool start, struct control_client **out, struct err *e);
void control_close(struct control_client *c);
struct control_handlers {
	int (*item)(void *arg, const struct nvlist *item); /* non-zero cancels */
	void (*progress)(void *arg, const char *stage);
	int (*ask)(void *arg, const char *prompt, bool echo, void *buf, size_t *len);
	void *arg;
	/* Watched while waiting; when it becomes non-zero (a signal handler sets it) the command is cancelled. May be
	 * NULL. */
	const volatile sig_atomic_t *interrupted;
};
/* One command, to its end. The reply's error text lands in e; *result (may be NULL) is the caller's. */
int control_call(struct control_client *c, const char *cmd, const struct nvlist *args, const struct control_handlers *h,
		 struct nvlist **result, struct err *e);

/* --- frames (both sides, and the fuzzer) --- */
int control_header_decode(const uint8_t hdr[16], enum control_kind *kind, uint32_t *id, uint32_t *length,
			  struct err *e);
int control_send(int fd, enum control_kind kind, uint32_t id, const struct nvlist *l);
int control_recv(int fd, enum control_kind *kind, uint32_t *id, struct nvlist **l, struct err *e);

/* --- server side (used by tarnd) --- */
struct control_request; /* one running command */
typedef int (*control_fn)(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
struct control_command {
	const char *name;
	control_fn fn;
};
/* For commands: */
int control_item(struct control_request *rq, const struct nvlist *item); /* -EINTR when cancelled */
bool control_progress(void *rq, const char *stage); /* true when cancelled; fits spa_search.progress */
int control_ask(struct control_request *rq, const char *prompt, bool echo, void *buf, size_t *len);
bool control_cancelled(struct control_request *rq);
uint64_t control_uid(struct control_request *rq); /* of the client's user */
struct control_server;
int control_server_start(const char *socket_path, const struct control_command *commands, size_t n, void *ctx,
			 struct control_server **out, struct err *e);
void control_server_stop(struct control_server *s);
void *control_ctx(struct control_request *rq);

#endif
