/*
 * tests/fuzz/session.h: one session of a client that sends given bytes to a server behind a socket, takes whatever it
 * answers, closes its side and waits for the server to hang up.
 */
#ifndef TESTS_FUZZ_SESSION_H
#define TESTS_FUZZ_SESSION_H

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"

#define SESSION_HANG_MS 20000

/* False when the server has hung up. */
static bool session_take(int fd)
{
	uint8_t sink[65536];
	ssize_t n = recv(fd, sink, sizeof(sink), MSG_DONTWAIT);

	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* `quiet_ms`: how long to wait for further answers before closing. */
static void session_run(int fd, const uint8_t *data, size_t size, int quiet_ms)
{
	bool open = true, closed = false;

	while (open) {
		struct pollfd pfd = {.fd = fd, .events = (short)(POLLIN | (size ? POLLOUT : 0))};
		int ready = poll(&pfd, 1, size || closed ? SESSION_HANG_MS : quiet_ms);

		BUG_ON(ready == 0 && (size || closed)); /* the server hangs */
		if (pfd.revents & POLLOUT) {
			ssize_t n = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);

			if (n > 0) {
				data += n;
				size -= (size_t)n;
			} else if (errno != EAGAIN) {
				size = 0;
			}
		}
		if (pfd.revents & (POLLIN | POLLHUP | POLLERR))
			open = session_take(fd);
		if (ready == 0 && !closed) {
			shutdown(fd, SHUT_WR);
			closed = true;
		}
	}
	close(fd);
}

#endif
