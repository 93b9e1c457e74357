/*
 * sentry_dsn.c: DSNs that are taken, and what becomes of them; DSNs that are refused, always with a
 * reason, and never with the key in the message.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sentry/sentry_impl.h"

struct good {
	const char *text, *url, *host, *project, *key, *secret, *shown;
};

static const struct good goods[] = {
	{ "https://abc123@sentry.example.com/42", "https://sentry.example.com/api/42/envelope/",
	  "sentry.example.com", "42", "abc123", NULL, "https://abc123@sentry.example.com/42" },
	{ "http://k:s3cret@localhost:9000/1", "http://localhost:9000/api/1/envelope/", "localhost:9000",
	  "1", "k", "s3cret", "http://k@localhost:9000/1" },
	{ "https://k@h:443/1", "https://h/api/1/envelope/", "h", "1", "k", NULL, "https://k@h:443/1" },
	{ "http://k@h:443/1", "http://h:443/api/1/envelope/", "h:443", "1", "k", NULL, "http://k@h:443/1" },
	{ "http://k@h:80/1", "http://h/api/1/envelope/", "h", "1", "k", NULL, "http://k@h:80/1" },
	{ "https://k@h/a/b.c/18446744073709551615", "https://h/a/b.c/api/18446744073709551615/envelope/",
	  "h", "18446744073709551615", "k", NULL, "https://k@h/a/b.c/18446744073709551615" },
	{ " \thttps://k@h/1\r\n", "https://h/api/1/envelope/", "h", "1", "k", NULL, "https://k@h/1" },
	{ "http://k@[::1]:8080/1", "http://[::1]:8080/api/1/envelope/", "[::1]:8080", "1", "k", NULL,
	  "http://k@[::1]:8080/1" },
	{ "https://k@o1.ingest.us.sentry.io/7", "https://o1.ingest.us.sentry.io/api/7/envelope/",
	  "o1.ingest.us.sentry.io", "7", "k", NULL, "https://k@o1.ingest.us.sentry.io/7" },
};

static void taken(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(goods) / sizeof(goods[0]); i++) {
		const struct good *g = &goods[i];
		struct dsn d;
		struct buf shown;

		assert_null(dsn_parse(g->text, &d));
		assert_string_equal(d.url, g->url);
		assert_string_equal(d.host, g->host);
		assert_string_equal(d.project, g->project);
		assert_string_equal(d.public_key, g->key);
		if (g->secret)
			assert_string_equal(d.secret_key, g->secret);
		else
			assert_null(d.secret_key);
		buf_init(&shown);
		assert_null(dsn_public(&d, &shown));
		assert_string_equal(shown.data, g->shown);
		buf_deinit(&shown);
		dsn_deinit(&d);
	}
}

static const char *const bads[] = {
	"", " ", "SEKRIT", "https://", "https://SEKRIT", "https://SEKRIT@", "https://SEKRIT@host", "https://SEKRIT@host/",
	"https://SEKRIT@host/1/", "https://@host/1", "https://host/1", "https://:SEKRIT@host/1",
	"https://SEKRIT:@host/1", "ftp://SEKRIT@host/1", "HTTPS://SEKRIT@host/1", "//SEKRIT@host/1", "https:/SEKRIT@host/1",
	"https://SEKRIT@/1", "https://SEKRIT@:80/1", "https://SEKRIT@host:/1", "https://SEKRIT@host:0/1",
	"https://SEKRIT@host:65536/1", "https://SEKRIT@host:123456/1", "https://SEKRIT@host:8o/1",
	"https://SEKRIT@host/x", "https://SEKRIT@host/1x", "https://SEKRIT@host/-1", "https://SEKRIT@host/1?a=b",
	"https://SEKRIT@host/1#f", "https://SEKRIT@host/18446744073709551616", "https://SEKRIT@host/a b/1",
	"https://SEKRIT@ho st/1", "https://SEKRIT@ho\rst/1", "https://SEKRIT\r\nEvil: 1@host/1", "https://SEK RIT@host/1",
	"https://SEK,RIT@host/1", "https://SEKRIT:s:t@host/1", "https://SEKRIT@a@host/1", "https://SEKRIT@[::1/1",
	"https://SEKRIT@[]/1", "https://SEKRIT@[::1]x/1", "https://SEKRIT@[::1]:/1", "https://SEKRIT@host/a\\b/1",
};

static void refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		struct dsn d = { .text = (char *)1 };
		struct error *err = dsn_parse(bads[i], &d);

		if (!err)
			fail_msg("taken: %s", bads[i]);
		assert_int_equal(err->kind, ERROR_USAGE);
		assert_non_null(err->why);
		assert_null(strstr(err->what, "SEK"));
		assert_null(strstr(err->why, "SEK"));
		assert_ptr_equal(d.text, (char *)1);	/* untouched */
		error_free(err);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(taken),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
