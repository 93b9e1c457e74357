/*
 * dsn.c: where profiles go, from one line of text:
 *
 *	SCHEME://PUBLIC[:SECRET]@HOST[:PORT][/PATH]/PROJECT
 *	-> SCHEME://HOST[:PORT][/PATH]/api/PROJECT/envelope/
 *
 * The text holds a key, so no message repeats any of it. Everything that ends up in a URL or in a
 * header is checked against the few characters that belong there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sentry/sentry_impl.h"

/* A piece of the text. */
struct piece {
	const char *p;
	size_t len;
};

struct parts {
	struct piece scheme, public_key, secret_key, host, port, path, project;
	bool has_secret, has_port;
};

static const char alnum[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
static const char digits[] = "0123456789";
static const char more_in_host[] = "-._";
static const char more_in_ipv6[] = ":.";
static const char more_in_path[] = "-._~/%";

static bool only(struct piece s, const char *allowed, const char *more)
{
	for (size_t i = 0; i < s.len; i++)
		if (!s.p[i] || (!strchr(allowed, s.p[i]) && !strchr(more, s.p[i])))
			return false;
	return s.len > 0;
}

static bool equals(struct piece s, const char *text)
{
	return s.len == strlen(text) && !memcmp(s.p, text, s.len);
}

/* The piece before the first `c`; *rest goes behind it. False: there is none. */
static bool cut(struct piece *rest, char c, struct piece *ret)
{
	const char *at = rest->len ? memchr(rest->p, c, rest->len) : NULL;

	if (!at)
		return false;
	*ret = (struct piece){ rest->p, (size_t)(at - rest->p) };
	rest->len -= ret->len + 1;
	rest->p = at + 1;
	return true;
}

static struct piece trimmed(const char *text)
{
	struct piece s = { text, strlen(text) };

	while (s.len && strchr(" \t\r\n", s.p[0])) {
		s.p++;
		s.len--;
	}
	while (s.len && strchr(" \t\r\n", s.p[s.len - 1]))
		s.len--;
	return s;
}

/* Host and port; an IPv6 address stands in brackets. */
static bool split_host(struct piece s, struct parts *ret)
{
	struct piece rest = s;

	if (s.len && s.p[0] == '[') {
		struct piece inner;

		if (!cut(&rest, ']', &ret->host))
			return false;
		inner = (struct piece){ ret->host.p + 1, ret->host.len - 1 };
		ret->host.len++;	/* with its bracket */
		if (!only(inner, alnum, more_in_ipv6) || (rest.len && rest.p[0] != ':'))
			return false;
		ret->has_port = rest.len > 0;
		ret->port = (struct piece){ rest.p + 1, rest.len ? rest.len - 1 : 0 };
		return true;
	}
	ret->has_port = cut(&rest, ':', &ret->host);
	if (ret->has_port)
		ret->port = rest;
	else
		ret->host = rest;
	return only(ret->host, alnum, more_in_host);
}

static bool port_is_sound(struct piece port)
{
	return only(port, digits, "") && port.len <= 5 && atoi(port.p) >= 1 && atoi(port.p) <= 65535;
}

/* A number of 64 bits, as the service reads it. */
static bool project_is_sound(struct piece s)
{
	static const char most[] = "18446744073709551615";

	return only(s, digits, "") && (s.len < sizeof(most) - 1 ||
	       (s.len == sizeof(most) - 1 && memcmp(s.p, most, s.len) <= 0));
}

/* "/a/b/42" -> path "/a/b", project "42" */
static bool split_path(struct piece rest, struct parts *ret)
{
	const char *slash = rest.len ? memrchr(rest.p, '/', rest.len) : NULL;

	ret->path = (struct piece){ rest.p, slash ? (size_t)(slash - rest.p) : 0 };
	ret->project = slash ? (struct piece){ slash + 1, rest.len - ret->path.len - 1 } : rest;
	return project_is_sound(ret->project);
}

/* NULL, or what is wrong with it. */
static const char *split(struct piece s, struct parts *ret)
{
	struct piece user, host, rest = s;
	const char *colon = s.len ? memmem(s.p, s.len, "://", 3) : NULL;

	if (!colon)
		return "it does not begin with https:// or http://";
	ret->scheme = (struct piece){ s.p, (size_t)(colon - s.p) };
	rest = (struct piece){ colon + 3, s.len - ret->scheme.len - 3 };
	if (!equals(ret->scheme, "https") && !equals(ret->scheme, "http"))
		return "it does not begin with https:// or http://";
	if (!cut(&rest, '@', &user))
		return "it has no key (https://KEY@HOST/PROJECT)";
	ret->has_secret = cut(&user, ':', &ret->public_key);
	if (ret->has_secret)
		ret->secret_key = user;
	else
		ret->public_key = user;
	if (!only(ret->public_key, alnum, "") || (ret->has_secret && !only(ret->secret_key, alnum, "")))
		return "its key is empty or has characters other than letters and digits";
	if (!cut(&rest, '/', &host))
		return "it has no project id at its end (https://KEY@HOST/PROJECT)";
	if (!split_host(host, ret))
		return "it has no host, or one that cannot be a host's name";
	if (ret->has_port && !port_is_sound(ret->port))
		return "its port is not a number from 1 to 65535";
	if (!split_path(rest, ret))
		return "its project id, the last part of the path, is not a number";
	if (ret->path.len && !only(ret->path, alnum, more_in_path))
		return "its path has characters that do not belong there";
	return NULL;
}

/* ---- from pieces to what others use ---- */

static void add_piece(struct buf *b, struct piece s)
{
	buf_add(b, s.p, s.len);
}

static void add_host(struct buf *b, const struct parts *p)
{
	bool usual = !p->has_port || equals(p->port, equals(p->scheme, "https") ? "443" : "80");

	add_piece(b, p->host);
	if (!usual) {
		buf_addc(b, ':');
		add_piece(b, p->port);
	}
}

static char *url_of(const struct parts *p)
{
	struct buf b;

	buf_init(&b);
	add_piece(&b, p->scheme);
	buf_adds(&b, "://");
	add_host(&b, p);
	if (p->path.len) {
		buf_addc(&b, '/');
		add_piece(&b, p->path);
	}
	buf_adds(&b, "/api/");
	add_piece(&b, p->project);
	buf_adds(&b, "/envelope/");
	return buf_take(&b);
}

static char *host_of(const struct parts *p)
{
	struct buf b;

	buf_init(&b);
	add_host(&b, p);
	return buf_take(&b);
}

static char *copy(struct piece s)
{
	return strndup(s.p, s.len);
}

struct error *dsn_parse(const char *text, struct dsn *ret)
{
	struct piece whole = trimmed(text);
	struct parts parts = { 0 };
	const char *wrong = split(whole, &parts);
	struct dsn d;

	if (wrong)
		return error_why(error_new(ERROR_USAGE, "the DSN cannot be used"), "%s", wrong);
	d = (struct dsn){
		.text = copy(whole), .url = url_of(&parts), .host = host_of(&parts),
		.project = copy(parts.project), .public_key = copy(parts.public_key),
		.secret_key = parts.has_secret ? copy(parts.secret_key) : NULL,
	};
	if (!d.text || !d.url || !d.host || !d.project || !d.public_key ||
	    (parts.has_secret && !d.secret_key)) {
		dsn_deinit(&d);
		return &err_nomem;
	}
	*ret = d;
	return NULL;
}

void dsn_deinit(struct dsn *d)
{
	free(d->text);
	free(d->url);
	free(d->host);
	free(d->project);
	free(d->public_key);
	free(d->secret_key);
	*d = (struct dsn){ 0 };
}

struct error *dsn_public(const struct dsn *d, struct buf *ret)
{
	const char *at = strchr(d->text, '@'), *scheme = strstr(d->text, "://");

	if (!at || !scheme)
		return error_new(ERROR_INTERNAL, "a DSN without its parts");
	buf_add(ret, d->text, (size_t)(scheme + 3 - d->text));
	buf_adds(ret, d->public_key);
	buf_adds(ret, at);
	return buf_error(ret);
}
