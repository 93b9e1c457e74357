/*
 * http.c: the only user of libcurl. One POST of one envelope: compressed, within a time limit, over
 * HTTP or HTTPS with the certificate checked, no redirect followed (it would take the key along),
 * and never more read of an answer than a person would.
 *
 * Answers are a stranger's text: what is shown of them is cut and made printable.
 */
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "export/gzip.h"
#include "sentry/sentry_impl.h"

enum { TIMEOUT_MS = 10000, BODY_MOST = 16 * 1024, HEADERS_MOST = 64 * 1024 };

/* What is kept of an answer. */
struct answer {
	struct buf body;
	size_t header_bytes;
	char error[256];		/* X-Sentry-Error */
	char retry_after[32];
};

/* ---- text for people ---- */

void printable_copy(char *out, size_t cap, const char *s, size_t len)
{
	size_t n = 0;

	while (len && strchr(" \t\r\n", *s)) {
		s++;
		len--;
	}
	for (size_t i = 0; i < len && n + 1 < cap; i++) {
		unsigned char c = (unsigned char)s[i];

		out[n++] = c >= 0x7f ? '?' : c < 0x20 ? ' ' : (char)c;
	}
	while (n && out[n - 1] == ' ')
		n--;
	out[n] = '\0';
}

/* ---- the body ---- */

static struct error *compress_into(struct buf_sink *out, const void *data, size_t len)
{
	struct gzip *g;
	struct error *err = gzip_create(&out->sink, &g);

	if (err)
		return err;
	gzip_write(g, data, len);
	err = gzip_finish(g);
	gzip_destroy(g);
	return err;
}

/* ---- the answer ---- */

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
	struct answer *a = ctx;
	size_t room = BODY_MOST - a->body.len;

	buf_add(&a->body, data, size * n < room ? size * n : room);
	return size * n < room ? size * n : 0;	/* 0 ends the transfer */
}

static bool header_is(const char *line, size_t len, const char *name, size_t *value)
{
	size_t n = strlen(name);

	if (len <= n || strncasecmp(line, name, n) || line[n] != ':')
		return false;
	*value = n + 1;
	return true;
}

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
	struct answer *a = ctx;
	size_t len = size * n, value;

	a->header_bytes += len;
	if (a->header_bytes > HEADERS_MOST)
		return 0;
	if (header_is(line, len, "X-Sentry-Error", &value))
		printable_copy(a->error, sizeof(a->error), line + value, len - value);
	else if (header_is(line, len, "Retry-After", &value))
		printable_copy(a->retry_after, sizeof(a->retry_after), line + value, len - value);
	return len;
}

/* The service's own words: its header, else {"detail": ...} of the body. */
static void set_detail(const struct answer *a, struct http_answer *ret)
{
	cJSON *doc;
	const char *text;

	if (*a->error) {
		memcpy(ret->detail, a->error, sizeof(ret->detail));
		return;
	}
	doc = a->body.data ? cJSON_ParseWithLength(a->body.data, a->body.len) : NULL;
	text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(doc, "detail"));
	if (text)
		printable_copy(ret->detail, sizeof(ret->detail), text, strlen(text));
	cJSON_Delete(doc);
}

/* ---- the request ---- */

static struct curl_slist *headers_of(const struct dsn *d, const char *agent)
{
	struct curl_slist *list = NULL;
	struct buf auth;
	const char *lines[] = {
		"Content-Type: application/x-sentry-envelope", "Content-Encoding: gzip",
		"Expect:",	/* no round trip to ask whether we may */
		NULL,
	};

	buf_init(&auth);
	buf_addf(&auth, "X-Sentry-Auth: Sentry sentry_version=7, sentry_client=%s, sentry_key=%s",
		 agent, d->public_key);
	if (d->secret_key)
		buf_addf(&auth, ", sentry_secret=%s", d->secret_key);
	lines[3] = auth.data;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct curl_slist *longer = auth.failed ? NULL : curl_slist_append(list, lines[i]);

		if (!longer) {
			curl_slist_free_all(list);
			list = NULL;
			break;
		}
		list = longer;
	}
	buf_deinit(&auth);
	return list;
}

static CURLcode restrict_protocols(CURL *c)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	return curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	return curl_easy_setopt(c, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

/* An option that is not taken must stop the request: the limits are for safety. */
static CURLcode set_options(CURL *c, const struct dsn *d, const struct buf *body, const char *agent,
			    long timeout_ms, struct answer *a)
{
	CURLcode rc = curl_easy_setopt(c, CURLOPT_URL, d->url);

	rc = rc ? rc : restrict_protocols(c);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_POST, 1L);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_POSTFIELDS, body->data);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_USERAGENT, agent);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, timeout_ms);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	rc = rc ? rc : curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
	return rc;
}

/* ---- what it means ---- */

struct verdict {
	long status;
	const char *why, *todo;
};

static const struct verdict verdicts[] = {
	{ 400, "the envelope was refused", NULL },
	{ 401, "the key is not accepted", "check the DSN against the project's settings" },
	{ 403, "the key is unknown or disabled", "check the DSN against the project's settings" },
	{ 404, "there is no such address there", "check the host and the project id of the DSN" },
	{ 413, "the envelope is too big for it", "goprof with a smaller --max-threads" },
	{ 429, "the project is over its rate limit", NULL },
	{ 503, "the service is overloaded", NULL },
};

static const struct verdict *verdict_of(long status)
{
	static const struct verdict redirect = {
		0, "it answered with a redirect, which is not followed", "use the address that it names in the DSN",
	};
	static const struct verdict other = { 0, "it did not take the envelope", NULL };

	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
		if (verdicts[i].status == status)
			return &verdicts[i];
	return status >= 300 && status < 400 ? &redirect : &other;
}

static struct error *refused(const struct dsn *d, const struct answer *a, const struct http_answer *r)
{
	const struct verdict *v = verdict_of(r->status);
	struct error *err = error_new(ERROR_NETWORK, "%s did not take the profile (status %ld)", d->host,
				      r->status);

	if (*r->detail)
		error_why(err, "%s: %s", v->why, r->detail);
	else
		error_why(err, "%s", v->why);
	if (v->todo)
		error_todo(err, "%s", v->todo);
	else if (r->status == 429 && *a->retry_after)
		error_todo(err, "wait %s seconds", a->retry_after);
	return err;
}

static struct error *unreachable(const struct dsn *d, CURLcode rc, const char *text, long timeout_ms,
				 struct http_answer *ret)
{
	if (rc == CURLE_OUT_OF_MEMORY)
		return &err_nomem;
	if (rc == CURLE_OPERATION_TIMEDOUT)
		snprintf(ret->detail, sizeof(ret->detail), "no answer within %g s",
			 (double)timeout_ms / 1000);
	else
		printable_copy(ret->detail, sizeof(ret->detail), text, strlen(text));
	return error_why(error_new(ERROR_NETWORK, "the profile could not be sent to %s", d->host), "%s",
			 ret->detail);
}

/* ---- all of it ---- */

static struct error *perform(CURL *c, const struct dsn *d, long timeout_ms, const struct answer *a,
			     struct http_answer *ret)
{
	char text[CURL_ERROR_SIZE] = "";
	CURLcode rc = curl_easy_setopt(c, CURLOPT_ERRORBUFFER, text);

	rc = rc ? rc : curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &ret->status);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, NULL);
	/* An answer whose body we cut short is an answer. */
	if (rc && !(rc == CURLE_WRITE_ERROR && a->body.len == BODY_MOST)) {
		ret->status = 0;
		return unreachable(d, rc, *text ? text : curl_easy_strerror(rc), timeout_ms, ret);
	}
	set_detail(a, ret);
	log_debug("http", "%s answered %ld", d->host, ret->status);
	return ret->status >= 200 && ret->status < 300 ? NULL : refused(d, a, ret);
}

static struct error *send_body(const struct dsn *d, const struct buf *body, const char *agent,
			       long timeout_ms, struct http_answer *ret)
{
	struct answer a = { 0 };
	struct curl_slist *headers = headers_of(d, agent);
	CURL *c = curl_easy_init();
	struct error *err = &err_nomem;

	buf_init(&a.body);
	if (c && headers) {
		CURLcode rc = set_options(c, d, body, agent, timeout_ms, &a);

		rc = rc ? rc : curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
		err = rc ? unreachable(d, rc, curl_easy_strerror(rc), timeout_ms, ret)
			 : perform(c, d, timeout_ms, &a, ret);
	}
	curl_easy_cleanup(c);
	curl_slist_free_all(headers);
	buf_deinit(&a.body);
	return err;
}

struct error *http_send_within(const struct dsn *dsn, const void *data, size_t len,
			       const char *user_agent, long timeout_ms, struct http_answer *ret)
{
	struct buf body;
	struct buf_sink sink = buf_sink_to(&body);
	struct error *err;

	*ret = (struct http_answer){ 0 };
	buf_init(&body);
	err = compress_into(&sink, data, len);
	if (!err && curl_global_init(CURL_GLOBAL_DEFAULT))
		err = error_new(ERROR_INTERNAL, "libcurl does not start");
	if (!err) {
		ret->bytes = body.len;
		err = send_body(dsn, &body, user_agent, timeout_ms, ret);
		curl_global_cleanup();
	}
	buf_deinit(&body);
	return err;
}

struct error *http_send_envelope(const struct dsn *dsn, const void *data, size_t len,
				 const char *user_agent, struct http_answer *ret)
{
	return http_send_within(dsn, data, len, user_agent, TIMEOUT_MS, ret);
}
