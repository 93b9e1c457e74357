/*
 * sentry_envelope.c: the frame, byte by byte: one header line, two items with exact lengths, one
 * newline behind each payload and nothing after the last. The secret of a DSN stays at home.
 */
#include "sentry_world.h"

#include <cjson/cJSON.h>

#include "sentry/sentry_impl.h"

/* Takes one line off the front. */
static cJSON *header_line(const char **p, const char *end)
{
	const char *newline = memchr(*p, '\n', (size_t)(end - *p));
	cJSON *doc;

	assert_non_null(newline);
	doc = cJSON_ParseWithLength(*p, (size_t)(newline - *p));
	assert_true(cJSON_IsObject(doc));
	*p = newline + 1;
	return doc;
}

static void item(const char **p, const char *end, const char *type, const struct buf *payload)
{
	cJSON *header = header_line(p, end);
	int length = cJSON_GetObjectItem(header, "length")->valueint;

	assert_string_equal(cJSON_GetObjectItem(header, "type")->valuestring, type);
	assert_int_equal(length, payload->len);
	assert_true(length < end - *p);
	assert_memory_equal(*p, payload->data, payload->len);
	assert_int_equal((*p)[length], '\n');
	*p += length + 1;
	cJSON_Delete(header);
}

static struct sentry_v1 some_payloads(struct world *w, struct window **win)
{
	static const struct export_options o = { 0 };
	struct sentry_v1 v;

	track(w, 1, "main.main");
	for (int i = 0; i < 3; i++) {
		tick(w);
		look(w, 1, stack1(w, "f\n"), "running", 0, true);
		world_pass(w, TICK);
	}
	*win = close_now(w);
	must(sentry_v1_build(*win, &o, &v));
	return v;
}

static void check_frame(const struct sentry_v1 *v, const struct dsn *dsn, const char *dsn_shown)
{
	struct buf b, profile = profile_text(v);
	struct buf_sink to = buf_sink_to(&b);
	const char *p, *end;
	cJSON *header;

	buf_init(&b);
	must(envelope_write(v, dsn, &to.sink));
	p = b.data;
	end = p + b.len;
	header = header_line(&p, end);
	assert_string_equal(cJSON_GetObjectItem(header, "event_id")->valuestring, v->event_id);
	if (dsn_shown)
		assert_string_equal(cJSON_GetObjectItem(header, "dsn")->valuestring, dsn_shown);
	else
		assert_null(cJSON_GetObjectItem(header, "dsn"));
	assert_null(cJSON_GetObjectItem(header, "sent_at"));
	item(&p, end, "transaction", &v->transaction);
	item(&p, end, "profile", &profile);
	assert_ptr_equal(p, end);
	cJSON_Delete(header);
	buf_deinit(&b);
	buf_deinit(&profile);
}

static void the_frame(void **state)
{
	struct world w;
	struct window *win;
	struct sentry_v1 v;
	struct dsn d;

	(void)state;
	world_init(&w);
	v = some_payloads(&w, &win);
	check_frame(&v, NULL, NULL);
	must(dsn_parse("https://pub:secret@host/1", &d));
	check_frame(&v, &d, "https://pub@host/1");
	dsn_deinit(&d);
	sentry_v1_deinit(&v);
	window_free(win);
	world_deinit(&w);
}

/* Payloads that ran out of memory are never framed. */
static void failed_payloads(void **state)
{
	struct sentry_v1 v = { .event_id = "0" };
	struct buf b;
	struct buf_sink to = buf_sink_to(&b);

	(void)state;
	buf_init(&b);
	buf_init(&v.transaction);
	v.transaction.failed = true;
	assert_ptr_equal(envelope_write(&v, NULL, &to.sink), &err_nomem);
	assert_int_equal(b.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_frame),
		cmocka_unit_test(failed_payloads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
