/*
 * sentry_http.c: sending, against a server of the test's own on 127.0.0.1: what it receives (line,
 * headers, the body once unpacked), and what goprof makes of every kind of answer, of silence, of
 * endless talk, of garbage and of nobody there.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "sentry/sentry_impl.h"

enum { PATIENCE_MS = 5000, SHORT_MS = 300 };

/* Answers one request, keeps it, and ends. */
struct server {
	int listener;
	uint16_t port;
	const char *answer;	/* NULL: silence until the client goes */
	const char *endless;	/* follows the answer again and again, for ever */
	pthread_t thread;
	char request[1 << 16];
	size_t len, head;	/* bytes received; of them line and headers */
};

static size_t content_length(const struct server *s)
{
	const char *h = strcasestr(s->request, "\r\nContent-Length:");

	return h ? strtoul(h + strlen("\r\nContent-Length:"), NULL, 10) : 0;
}

static void receive(struct server *s, int fd)
{
	ssize_t n;

	while (!s->head || s->len < s->head + content_length(s)) {
		n = read(fd, s->request + s->len, sizeof(s->request) - 1 - s->len);
		if (n <= 0)
			return;
		s->len += (size_t)n;
		if (!s->head) {
			char *end = memmem(s->request, s->len, "\r\n\r\n", 4);

			s->head = end ? (size_t)(end - s->request) + 4 : 0;
		}
	}
}

static void *serve(void *arg)
{
	struct server *s = arg;
	int fd = accept(s->listener, NULL, NULL);
	char junk[4096];

	if (fd < 0)
		return NULL;
	receive(s, fd);
	if (!s->answer)
		while (read(fd, junk, sizeof(junk)) > 0)
			;
	else
		send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL);
	while (s->endless && send(fd, s->endless, strlen(s->endless), MSG_NOSIGNAL) > 0)
		;
	close(fd);
	return NULL;
}

static void server_start(struct server *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->listener >= 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(s->listener, 4), 0);
	assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &len), 0);
	s->port = ntohs(a.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_end(struct server *s)
{
	pthread_join(s->thread, NULL);
	close(s->listener);
}

static struct dsn dsn_to(uint16_t port, const char *auth)
{
	char text[128];
	struct dsn d;

	snprintf(text, sizeof(text), "http://%s@127.0.0.1:%u/base/42", auth, port);
	assert_null(dsn_parse(text, &d));
	return d;
}

/* Sends to a fresh server that answers like this. */
static struct error *send_to(struct server *s, const char *auth, const void *data, size_t len,
			     long timeout_ms, struct http_answer *ret)
{
	struct error *err;
	struct dsn d;

	server_start(s);
	d = dsn_to(s->port, auth);
	err = http_send_within(&d, data, len, "goprof/0.1.0", timeout_ms, ret);
	server_end(s);
	dsn_deinit(&d);
	return err;
}

static bool has_line(const struct server *s, const char *line)
{
	char text[256];

	snprintf(text, sizeof(text), "\r\n%s\r\n", line);
	return memmem(s->request, s->head, text, strlen(text)) != NULL;
}

static void what_the_server_receives(void **state)
{
	static struct server s;
	static char data[100000], back[sizeof(data) + 1];
	struct http_answer a;
	z_stream z = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * i >> 7);
	s = (struct server){ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"id\":\"abcd\"}" };
	assert_null(send_to(&s, "pub:sec", data, sizeof(data), PATIENCE_MS, &a));
	assert_int_equal(a.status, 200);
	assert_int_equal(strncmp(s.request, "POST /base/api/42/envelope/ HTTP/1.1\r\n", 38), 0);
	assert_true(has_line(&s, "X-Sentry-Auth: Sentry sentry_version=7, sentry_client=goprof/0.1.0, "
				 "sentry_key=pub, sentry_secret=sec"));
	assert_true(has_line(&s, "User-Agent: goprof/0.1.0"));
	assert_true(has_line(&s, "Content-Type: application/x-sentry-envelope"));
	assert_true(has_line(&s, "Content-Encoding: gzip"));
	assert_null(strcasestr(s.request, "Expect:"));
	assert_int_equal(s.len - s.head, a.bytes);
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_in = (unsigned char *)s.request + s.head;
	z.avail_in = (unsigned)(s.len - s.head);
	z.next_out = (unsigned char *)back;
	z.avail_out = sizeof(back);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.total_out, sizeof(data));
	assert_memory_equal(back, data, sizeof(data));
	inflateEnd(&z);
}

struct answer_case {
	const char *answer;
	long status;
	const char *detail;	/* a part of it */
	const char *why, *todo;	/* parts of the error; NULL: no error */
};

static const struct answer_case answers[] = {
	{ "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, "", NULL, NULL },
	{ "HTTP/1.1 400 Bad\r\nX-Sentry-Error: broken \x1b[31menvelope\r\nContent-Length: 0\r\n\r\n", 400,
	  "broken  [31menvelope", "refused: broken  [31menvelope", NULL },
	{ "HTTP/1.1 403 No\r\nContent-Length: 32\r\n\r\n{\"detail\":\"unknown\\u0007 \xff key\"}    ", 403,
	  "unknown  ? key", "unknown  ? key", "DSN" },
	{ "HTTP/1.1 413 Big\r\nContent-Length: 4\r\n\r\n[1,2", 413, "", "too big", "--max-threads" },
	{ "HTTP/1.1 429 Slow\r\nRetry-After: 61\r\nContent-Length: 0\r\n\r\n", 429, "", "rate limit",
	  "wait 61 seconds" },
	{ "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 503, "", "overloaded", NULL },
	{ "HTTP/1.1 418 Tea\r\nContent-Length: 0\r\n\r\n", 418, "", "did not take", NULL },
	/* A redirect would take the key to somebody else. */
	{ "HTTP/1.1 302 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 302, "",
	  "redirect", "DSN" },
	{ "\x16\x03\x01 what?\r\n\r\n", 0, "", "", NULL },
	{ "", 0, "", "", NULL },
};

static void answers_and_what_is_made_of_them(void **state)
{
	static struct server s;

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		const struct answer_case *c = &answers[i];
		struct http_answer a = { .status = 77 };
		struct error *err;

		s = (struct server){ .answer = c->answer };
		err = send_to(&s, "pubkey", "data", 4, PATIENCE_MS, &a);
		assert_int_equal(a.status, c->status);
		assert_non_null(strstr(a.detail, c->detail));
		assert_true(a.bytes > 4);
		if (!c->why) {
			assert_null(err);
			continue;
		}
		assert_non_null(err);
		assert_int_equal(err->kind, ERROR_NETWORK);
		assert_non_null(strstr(err->what, "127.0.0.1"));
		assert_non_null(strstr(err->why, c->why));
		assert_null(strstr(err->what, "pubkey"));
		if (c->todo)
			assert_non_null(strstr(err->todo, c->todo));
		else
			assert_null(err->todo);
		for (const char *p = a.detail; *p; p++)
			assert_in_range(*p, 0x20, 0x7e);
		assert_false(has_line(&s, "sentry_secret"));
		error_free(err);
	}
}

static void silence_ends(void **state)
{
	static struct server s;
	struct http_answer a;
	struct error *err;

	(void)state;
	s = (struct server){ .answer = NULL };
	err = send_to(&s, "k", "data", 4, SHORT_MS, &a);
	assert_non_null(err);
	assert_int_equal(err->kind, ERROR_NETWORK);
	assert_int_equal(a.status, 0);
	assert_string_equal(a.detail, "no answer within 0.3 s");
	error_free(err);
}

static void endless_answers_are_cut(void **state)
{
	static struct server s;
	struct http_answer a;
	struct error *err;

	(void)state;
	/* A body without end: its status counts. */
	s = (struct server){ .answer = "HTTP/1.1 200 OK\r\n\r\n", .endless = "blah, blah, blah" };
	assert_null(send_to(&s, "k", "data", 4, PATIENCE_MS, &a));
	assert_int_equal(a.status, 200);
	/* Headers without end, or one of them: no answer, and long before the time is up. */
	for (int i = 0; i < 2; i++) {
		s = (struct server){ .answer = "HTTP/1.1 200 OK\r\nX: ", .endless = i ? "x" : "x\r\nX: " };
		err = send_to(&s, "k", "data", 4, PATIENCE_MS, &a);
		assert_non_null(err);
		assert_int_equal(a.status, 0);
		assert_null(strstr(a.detail, "no answer"));
		error_free(err);
	}
}

static void nobody_there(void **state)
{
	static struct server s;
	struct http_answer a;
	struct dsn d;
	struct error *err;

	(void)state;
	s = (struct server){ .answer = "" };
	server_start(&s);
	d = dsn_to(s.port, "k");
	/* Uses the server up, so that its port is free and closed. */
	err = http_send_within(&d, "x", 1, "goprof/0.1.0", PATIENCE_MS, &a);
	error_free(err);
	server_end(&s);
	err = http_send_within(&d, "x", 1, "goprof/0.1.0", PATIENCE_MS, &a);
	assert_non_null(err);
	assert_int_equal(err->kind, ERROR_NETWORK);
	assert_int_equal(a.status, 0);
	assert_true(*a.detail);
	assert_non_null(err->why);
	error_free(err);
	dsn_deinit(&d);
}

/* The machine's proxy settings would lead the test astray. */
static int without_proxies(void **state)
{
	static const char *const names[] = { "http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY",
					     "ALL_PROXY" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_server_receives),
		cmocka_unit_test(answers_and_what_is_made_of_them),
		cmocka_unit_test(silence_ends),
		cmocka_unit_test(endless_answers_are_cut),
		cmocka_unit_test(nobody_there),
	};

	return cmocka_run_group_tests(tests, without_proxies, NULL);
}
