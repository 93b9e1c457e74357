/*
 * export_sentry_v1.c: the two documents around the samples: what the service demands and what it
 * refuses, which goroutines are told, what they and their frames are called, and hostile text.
 */
#include "sentry_server.h"

#include <cjson/cJSON.h>

#include "export/export_impl.h"

struct pair {
	struct sentry_v1 v;
	struct buf text;	/* of the profile */
	cJSON *transaction, *profile;
};

static void build_pair(const struct window *w, const struct export_options *o, struct pair *ret)
{
	must(sentry_v1_build(w, o, &ret->v));
	ret->transaction = cJSON_ParseWithLength(ret->v.transaction.data, ret->v.transaction.len);
	ret->text = profile_text(&ret->v);
	ret->profile = cJSON_ParseWithLength(ret->text.data, ret->text.len);
	assert_non_null(ret->transaction);
	assert_non_null(ret->profile);
}

static void free_pair(struct pair *p)
{
	cJSON_Delete(p->transaction);
	cJSON_Delete(p->profile);
	buf_deinit(&p->text);
	sentry_v1_deinit(&p->v);
}

/* "a.b.c" of a document. */
static const cJSON *at(const cJSON *doc, const char *path)
{
	char name[64];

	while (doc && *path) {
		size_t n = strcspn(path, "/");

		snprintf(name, sizeof(name), "%.*s", (int)n, path);
		doc = cJSON_GetObjectItemCaseSensitive(doc, name);
		path += n + (path[n] == '/');
	}
	return doc;
}

static const char *text_at(const cJSON *doc, const char *path)
{
	const char *s = cJSON_GetStringValue(at(doc, path));

	if (!s)
		fail_msg("no text at %s", path);
	return s;
}

static void is_hex(const char *s, size_t n)
{
	assert_int_equal(strlen(s), n);
	assert_int_equal(strspn(s, "0123456789abcdef"), n);
	assert_int_not_equal(strspn(s, "0"), n);
}

/* Goroutines 1..n, parked; `busy` of them with CPU time. */
static struct window *some_window(struct world *w, uint64_t n, uint64_t busy)
{
	for (int i = 0; i < 5; i++) {
		tick(w);
		for (uint64_t k = 1; k <= n; k++) {
			track(w, k, k % 2 ? "main.odd" : "main.even");
			if (k <= busy)
				profile_credit(w->p, look(w, k, stack1(w, "spin"), "running", 0, true),
					       k * 1000);
			else
				look(w, k, stack1(w, "wait"), "IO wait", 0, false);
		}
		world_pass(w, TICK);
	}
	return close_now(w);
}

static void what_the_service_demands(void **state)
{
	static const struct export_options o = { 0 };
	struct world w;
	struct window *win;
	struct pair p, again;

	(void)state;
	world_init(&w);
	win = some_window(&w, 3, 1);
	build_pair(win, &o, &p);
	assert_string_equal(text_at(p.profile, "version"), "1");
	assert_string_equal(text_at(p.profile, "platform"), "go");
	assert_string_equal(text_at(p.profile, "timestamp"), "2023-11-14T22:13:20.123456Z");
	assert_float_equal(at(p.transaction, "start_timestamp")->valuedouble, 1700000000.123456, 1e-7);
	assert_float_equal(at(p.transaction, "timestamp")->valuedouble, 1700000000.172961, 1e-7);
	assert_string_equal(text_at(p.profile, "device/architecture"), "amd64");
	assert_string_equal(text_at(p.profile, "os/name"), "Linux");
	assert_string_equal(text_at(p.profile, "os/version"), "6.1");
	assert_string_equal(text_at(p.profile, "runtime/name"), "go");
	assert_string_equal(text_at(p.profile, "runtime/version"), "go1.26.10");
	assert_string_equal(text_at(p.profile, "release"), "app@1.2");
	assert_string_equal(text_at(p.profile, "environment"), "test");
	assert_string_equal(text_at(p.transaction, "transaction"), "app");
	assert_string_equal(text_at(p.transaction, "sdk/name"), "goprof");
	assert_string_equal(text_at(p.transaction, "sdk/version"), "0.1.0");
	assert_string_equal(text_at(p.transaction, "contexts/trace/op"), "process");
	assert_string_equal(text_at(p.transaction, "contexts/goprof/mode"), "wall");
	assert_true(cJSON_IsArray(at(p.transaction, "spans")));
	assert_non_null(at(p.transaction, "contexts/goprof/health/cpu_time_unseen_ns"));
	assert_non_null(at(p.transaction, "contexts/goprof/health/ticks_due"));
	/* The links between the two. */
	is_hex(p.v.event_id, 32);
	is_hex(p.v.profile_id, 32);
	is_hex(p.v.trace_id, 32);
	is_hex(text_at(p.transaction, "contexts/trace/span_id"), 16);
	assert_string_equal(text_at(p.transaction, "event_id"), p.v.event_id);
	assert_string_equal(text_at(p.profile, "transaction/id"), p.v.event_id);
	assert_string_equal(text_at(p.profile, "event_id"), p.v.profile_id);
	assert_string_equal(text_at(p.transaction, "contexts/profile/profile_id"), p.v.profile_id);
	assert_string_equal(text_at(p.profile, "transaction/trace_id"), p.v.trace_id);
	assert_string_equal(text_at(p.transaction, "contexts/trace/trace_id"), p.v.trace_id);
	assert_string_equal(text_at(p.profile, "transaction/name"), "app");
	build_pair(win, &o, &again);
	assert_string_not_equal(again.v.event_id, p.v.event_id);
	assert_string_not_equal(again.v.profile_id, p.v.profile_id);
	free_pair(&p);
	free_pair(&again);
	window_free(win);
	world_deinit(&w);
}

static void restricted_mode_is_said(void **state)
{
	static const struct export_options o = { 0 };
	struct world w;
	struct window *win;
	struct pair p;

	(void)state;
	world_init(&w);
	world_restrict(&w, "no layout");
	win = some_window(&w, 2, 1);
	build_pair(win, &o, &p);
	assert_string_equal(text_at(p.transaction, "contexts/goprof/restricted"), "no layout");
	assert_string_equal(at(at(p.transaction, "tags"), "goprof.restricted")->valuestring, "yes");
	free_pair(&p);
	window_free(win);
	world_deinit(&w);
}

static void what_is_not_known_is_left_out(void **state)
{
	static const struct export_options o = { .mode = PROFILE_WALL };
	struct profile_meta meta = { .rate_hz = 101 };
	struct world w;
	struct window *win;
	struct pair p;

	(void)state;
	world_init(&w);
	must(profile_set_meta(w.p, &meta));
	win = some_window(&w, 1, 1);
	build_pair(win, &o, &p);
	assert_null(at(p.profile, "environment"));	/* null would refuse the profile */
	assert_null(at(p.profile, "release"));
	assert_null(at(p.transaction, "environment"));
	assert_string_equal(text_at(p.profile, "device/architecture"), "unknown");
	assert_string_equal(text_at(p.profile, "os/version"), "unknown");
	assert_string_equal(text_at(p.transaction, "transaction"), "unknown");
	free_pair(&p);
	window_free(win);
	world_deinit(&w);
}

static void not_found(const struct window *w, const struct export_options *o)
{
	struct sentry_v1 v;
	struct error *err = sentry_v1_build(w, o, &v);

	assert_non_null(err);
	assert_int_equal(err->kind, ERROR_NOT_FOUND);
	error_free(err);
}

static void nothing_is_sent_without_two_samples(void **state)
{
	static const struct export_options wall = { 0 }, cpu = { .mode = PROFILE_CPU };
	struct world w;
	struct window *win;

	(void)state;
	world_init(&w);
	/* One tick. */
	tick(&w);
	track(&w, 1, "main.main");
	look(&w, 1, stack1(&w, "f"), "running", 0, true);
	world_pass(&w, TICK);
	win = close_now(&w);
	not_found(win, &wall);
	window_free(win);
	/* Stacks that could not be read; then some that were never on a CPU. */
	for (int i = 0; i < 4; i++) {
		tick(&w);
		look(&w, 1, i < 2 ? PROFILE_STACK_EMPTY : stack1(&w, "f"), "running", 0, false);
		world_pass(&w, TICK);
		if (i == 1) {
			win = close_now(&w);
			not_found(win, &wall);
			window_free(win);
		}
	}
	win = close_now(&w);
	not_found(win, &cpu);
	window_free(win);
	/* Nobody at all. */
	profile_gone(w.p, 1, w.mono);
	tick(&w);
	world_pass(&w, TICK);
	tick(&w);
	win = close_now(&w);
	not_found(win, &wall);
	window_free(win);
	world_deinit(&w);
}

static double active_of(const struct window *w, const struct export_options *o)
{
	struct pair p;
	double id;
	char key[24];

	build_pair(w, o, &p);
	id = at(p.profile, "transaction/active_thread_id")->valuedouble;
	snprintf(key, sizeof(key), "%.0f", id);
	/* It always has samples. */
	assert_non_null(cJSON_GetObjectItem(at(p.profile, "profile/thread_metadata"), key));
	free_pair(&p);
	return id;
}

static void the_active_thread(void **state)
{
	struct export_options o = { 0 };
	struct world w;
	struct window *win;

	(void)state;
	world_init(&w);
	/* A thread without a goroutine may be busier than all of them. */
	track(&w, PROFILE_THREAD_KEY + 99, "[gc]");
	tick(&w);
	profile_credit(w.p, look(&w, PROFILE_THREAD_KEY + 99, stack1(&w, "gc"), "running", 0, true),
		       1000000);
	win = some_window(&w, 9, 5);
	assert_true(active_of(win, &o) == 1);
	o.active_goid = 8;
	assert_true(active_of(win, &o) == 8);
	o.max_threads = 3;
	assert_true(active_of(win, &o) == 8);
	o.active_goid = 12345;		/* not there: the busiest */
	assert_true(active_of(win, &o) == 5);
	o.active_goid = 8;
	o.active_busiest = true;
	assert_true(active_of(win, &o) == 5);
	o = (struct export_options){ .mode = PROFILE_CPU, .active_goid = 8 };
	assert_true(active_of(win, &o) == 5);	/* 8 was never on a CPU: no samples */
	/* Where only time on CPUs is told main mostly has none; but whoever asks for it gets it. */
	o.active_goid = 0;
	assert_true(active_of(win, &o) == 5);
	o.active_goid = 1;
	assert_true(active_of(win, &o) == 1);
	window_free(win);
	world_deinit(&w);
}

static void the_left_out_are_counted(void **state)
{
	static const struct export_options o = { .max_threads = 4, .active_goid = 2 };
	struct world w;
	struct window *win;
	struct pair p;
	const cJSON *rows;
	static const char *const kept[] = { "2", "30", "29", "28" };

	(void)state;
	world_init(&w);
	win = some_window(&w, 101, 30);
	build_pair(win, &o, &p);
	assert_int_equal(p.v.threads, 4);
	assert_int_equal(p.v.left_out.goroutines, 97);
	for (int i = 0; i < 4; i++)
		assert_non_null(cJSON_GetObjectItem(at(p.profile, "profile/thread_metadata"), kept[i]));
	assert_int_equal(at(p.transaction, "contexts/goprof/left_out/goroutines")->valueint, 97);
	rows = at(p.transaction, "contexts/goprof/left_out/by_entry");
	assert_int_equal(cJSON_GetArraySize(rows), 2);
	/* Kept were 29 of the 51 odd ones, 2, 28 and 30 of the 50 even ones. */
	assert_string_equal(text_at(cJSON_GetArrayItem(rows, 0), "entry"), "main.odd");
	assert_int_equal(at(cJSON_GetArrayItem(rows, 0), "goroutines")->valueint, 50);
	assert_int_equal(at(cJSON_GetArrayItem(rows, 1), "goroutines")->valueint, 47);
	assert_int_equal(at(p.transaction, "contexts/goprof/goroutines")->valueint, 101);
	free_pair(&p);
	window_free(win);
	world_deinit(&w);
}

/* Its bytes without the head, which is no part of the limit. */
static uint64_t body_bytes(const struct sentry_v1 *v)
{
	return v->profile_len - v->plan->head.len;
}

static void too_big_is_built_smaller(void **state)
{
	static const struct export_options o = { 0 };
	struct world w;
	struct window *win;
	struct sentry_v1 whole, less;
	struct error *err;

	(void)state;
	world_init(&w);
	win = some_window(&w, 64, 3);
	must(sentry_v1_build(win, &o, &whole));
	assert_int_equal(whole.threads, 64);
	assert_false(whole.thinned);
	must(sentry_v1_build_limited(win, &o, body_bytes(&whole), &less));
	assert_false(less.thinned);
	sentry_v1_deinit(&less);
	/* Two groups of those that were parked: main.odd and main.even. */
	must(sentry_v1_build_limited(win, &o, body_bytes(&whole) - 1, &less));
	assert_true(less.thinned);
	assert_int_equal(less.threads, 5);	/* 1 to 3, two groups */
	assert_int_equal(counts_sum(&less.left_out), 0);
	assert_int_equal(less.grouped.goroutines, 61);
	assert_true(body_bytes(&less) < body_bytes(&whole));
	sentry_v1_deinit(&less);
	err = sentry_v1_build_limited(win, &o, 100, &less);
	assert_int_equal(err->kind, ERROR_UNSUPPORTED);
	error_free(err);
	sentry_v1_deinit(&whole);
	window_free(win);
	world_deinit(&w);
}

static const char *name_of(const struct pair *p, const char *id)
{
	return text_at(cJSON_GetObjectItem(at(p->profile, "profile/thread_metadata"), id), "name");
}

static void thread_names(void **state)
{
	static const struct export_options o = { 0 };
	struct world w;
	struct window *win;
	struct pair p;
	struct profile_label l[2];
	profile_id short_lived, long_lived;
	char many[400];

	(void)state;
	world_init(&w);
	memset(many, 'x', sizeof(many));
	many[sizeof(many) - 1] = '\0';
	for (size_t i = 150; i + 2 < sizeof(many); i += 2)
		memcpy(many + i, "\xc3\xa9", 2);
	l[0] = (struct profile_label){ text(&w, "route"), text(&w, "/order") };
	l[1] = (struct profile_label){ text(&w, "id"), text(&w, "5") };
	must(profile_labels(w.p, l, 1, &short_lived));
	must(profile_labels(w.p, l, 2, &long_lived));
	track(&w, 34, "net/http.(*conn).serve");
	track(&w, 35, "");
	track(&w, 36, many);
	track(&w, PROFILE_THREAD_KEY + 4712, "[gc]");
	for (int i = 0; i < 6; i++) {
		tick(&w);
		look(&w, 34, stack1(&w, "f"), "running", i < 2 ? short_lived : i < 5 ? long_lived : 0, false);
		look(&w, 35, stack1(&w, "f"), "running", PROFILE_LABELS_UNKNOWN, false);
		look(&w, 36, stack1(&w, "f"), "running", 0, false);
		look(&w, PROFILE_THREAD_KEY + 4712, stack1(&w, "f"), "running", 0, false);
		world_pass(&w, TICK);
	}
	win = close_now(&w);
	build_pair(win, &o, &p);
	assert_string_equal(name_of(&p, "34"), "goroutine 34: net/http.(*conn).serve {id: 5, route: /order}");
	assert_string_equal(name_of(&p, "35"), "goroutine 35");
	assert_string_equal(name_of(&p, "1099511632488"), "thread 4712: [gc]");
	assert_true(strlen(name_of(&p, "36")) <= 200);
	assert_null(strstr(name_of(&p, "36"), "\xef\xbf\xbd"));	/* not cut within a character */
	free_pair(&p);
	window_free(win);
	world_deinit(&w);
}

/* Frames of one stack in a payload, leaf first. */
static const cJSON *frame_at(const struct pair *p, int stack, int i)
{
	const cJSON *s = cJSON_GetArrayItem(at(p->profile, "profile/stacks"), stack);
	const cJSON *index = cJSON_GetArrayItem(s, i);

	return index ? cJSON_GetArrayItem(at(p->profile, "profile/frames"), index->valueint) : NULL;
}

static struct window *window_of_stack(struct world *w, profile_id stack)
{
	track(w, 1, "main.main");
	for (int i = 0; i < 3; i++) {
		tick(w);
		look(w, 1, stack, "running", 0, true);
		world_pass(w, TICK);
	}
	return close_now(w);
}

static void frames_as_they_are_shown(void **state)
{
	static const struct export_options o = { 0 };
	struct world w;
	struct window *win;
	struct pair p;
	profile_id f[5];
	const cJSON *fr;

	(void)state;
	world_init(&w);
	f[0] = frame(&w, "net/http", "(*conn).serve", 88, 0);
	f[1] = frame(&w, "main", "T.Serve", 0, PROFILE_FRAME_WRAPPER);
	f[2] = frame(&w, "main", "main", 3, PROFILE_FRAME_IN_APP);
	win = window_of_stack(&w, stack_of(&w, f, 3, PROFILE_STACK_CUT));
	build_pair(win, &o, &p);
	fr = frame_at(&p, 0, 0);
	assert_string_equal(text_at(fr, "function"), "(*conn).serve");
	assert_string_equal(text_at(fr, "module"), "net/http");
	/* A slash within a name cannot be in a path of at(). */
	assert_string_equal(cJSON_GetObjectItem(fr, "filename")->valuestring, "net/http/file.go");
	assert_string_equal(cJSON_GetObjectItem(fr, "abs_path")->valuestring, "/src/net/http/file.go");
	assert_int_equal(at(fr, "lineno")->valueint, 88);
	assert_true(cJSON_IsFalse(at(fr, "in_app")));
	assert_null(at(fr, "instruction_addr"));
	fr = frame_at(&p, 0, 1);
	assert_string_equal(text_at(fr, "function"), "main");	/* the wrapper is hidden */
	assert_true(cJSON_IsTrue(at(fr, "in_app")));
	assert_string_equal(text_at(frame_at(&p, 0, 2), "function"), "[truncated]");
	assert_null(frame_at(&p, 0, 3));
	free_pair(&p);
	window_free(win);
	world_deinit(&w);
}

/* What the flame graph compares: no two frames of different modules may be equal in it. */
static void drawn_keys_never_merge_modules(const struct pair *p)
{
	const cJSON *frames = at(p->profile, "profile/frames"), *a, *b;

	cJSON_ArrayForEach(a, frames) {
		for (b = a->next; b; b = b->next) {
			const char *module_a = cJSON_GetStringValue(at(a, "module"));
			const char *module_b = cJSON_GetStringValue(at(b, "module"));

			if (!strcmp(module_a ? module_a : "", module_b ? module_b : ""))
				continue;
			assert_false(cJSON_Compare(at(a, "function"), at(b, "function"), 1) &&
				     cJSON_Compare(at(a, "filename"), at(b, "filename"), 1) &&
				     (!at(a, "lineno") || cJSON_Compare(at(a, "lineno"), at(b, "lineno"), 1)));
		}
	}
}

static void equal_names_in_different_packages(void **state)
{
	static const struct export_options o = { 0 };
	static const char *const modules[] = { "a", "b", "c/d", "" };
	struct world w;
	struct window *win;
	struct pair p;
	profile_id f[8];

	(void)state;
	world_init(&w);
	for (int i = 0; i < 4; i++) {
		struct profile_frame x = { .name = text(&w, "init"), .module = text(&w, modules[i]),
					   .function = text(&w, "init"), .line = 1 };

		must(profile_frame(w.p, &x, &f[i]));	/* file not known */
		x.file = text(&w, "C:\\gen\\zz.go");	/* by a //line directive */
		x.abs_path = x.file;
		must(profile_frame(w.p, &x, &f[4 + i]));
	}
	win = window_of_stack(&w, stack_of(&w, f, 8, PROFILE_STACK_COMPLETE));
	build_pair(win, &o, &p);
	assert_int_equal(cJSON_GetArraySize(at(p.profile, "profile/frames")), 8);
	drawn_keys_never_merge_modules(&p);
	for (int i = 0; i < 8; i++) {
		const char *file = cJSON_GetStringValue(at(frame_at(&p, 0, i), "filename"));

		if (file)
			assert_true(file[0] != '/' && file[1] != ':');
	}
	free_pair(&p);
	window_free(win);
	world_deinit(&w);
}

/* Only what tells frames and stacks apart in the payload makes new ones. */
static void equal_frames_and_stacks_are_sent_once(void **state)
{
	static const struct export_options o = { 0 };
	struct world w;
	struct window *win;
	struct pair p;
	profile_id f[2], wrapped[3];

	(void)state;
	world_init(&w);
	f[0] = frame(&w, "main", "f", 1, 0);
	f[1] = frame(&w, "main", "main", 1, 0);
	wrapped[0] = f[0];
	wrapped[1] = frame(&w, "main", "w", 1, PROFILE_FRAME_WRAPPER);
	wrapped[2] = frame(&w, "main", "main", 1, PROFILE_FRAME_RUNTIME_HIDDEN);
	track(&w, 1, "main.main");
	for (int i = 0; i < 4; i++) {
		tick(&w);
		look(&w, 1, i % 2 ? stack_of(&w, f, 2, PROFILE_STACK_COMPLETE)
				  : stack_of(&w, wrapped, 3, PROFILE_STACK_COMPLETE), "running", 0, true);
		world_pass(&w, TICK);
	}
	win = close_now(&w);
	build_pair(win, &o, &p);
	assert_int_equal(cJSON_GetArraySize(at(p.profile, "profile/frames")), 2);
	assert_int_equal(cJSON_GetArraySize(at(p.profile, "profile/stacks")), 1);
	free_pair(&p);
	window_free(win);
	world_deinit(&w);
}

static void hostile_text(void **state)
{
	static const struct export_options o = { .max_threads = 1 };
	static const char evil[] = "a\"b\\c\n\x01\xff\xc0\x80\xed\xa0\x80}]{\xe2\x82";
	struct profile_meta meta;
	struct world w;
	struct window *win;
	struct pair p;
	profile_id f;

	(void)state;
	world_init(&w);
	meta = *profile_meta(w.p);
	meta.program = meta.release = meta.environment = meta.os_version = evil;
	must(profile_set_meta(w.p, &meta));
	f = frame(&w, evil, evil, 1, 0);
	for (uint64_t k = 1; k <= 2; k++)
		track(&w, k, evil);
	for (int i = 0; i < 3; i++) {
		tick(&w);
		for (uint64_t k = 1; k <= 2; k++)
			look(&w, k, stack_of(&w, &f, 1, PROFILE_STACK_COMPLETE), evil, 0, false);
		world_pass(&w, TICK);
	}
	win = close_now(&w);
	build_pair(win, &o, &p);
	assert_int_equal(cJSON_GetArraySize(at(p.profile, "profile/samples")), 4);
	assert_non_null(strstr(text_at(frame_at(&p, 0, 0), "function"), "a\"b\\c\n\x01\xef\xbf\xbd"));
	assert_non_null(strstr(text_at(p.transaction, "release"), "}]{"));
	for (size_t i = 0; i < p.text.len; i++)
		assert_true((unsigned char)p.text.data[i] >= 0x20);
	free_pair(&p);
	window_free(win);
	world_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(restricted_mode_is_said),
		cmocka_unit_test(what_the_service_demands),
		cmocka_unit_test(what_is_not_known_is_left_out),
		cmocka_unit_test(nothing_is_sent_without_two_samples),
		cmocka_unit_test(the_active_thread),
		cmocka_unit_test(the_left_out_are_counted),
		cmocka_unit_test(too_big_is_built_smaller),
		cmocka_unit_test(thread_names),
		cmocka_unit_test(frames_as_they_are_shown),
		cmocka_unit_test(equal_names_in_different_packages),
		cmocka_unit_test(equal_frames_and_stacks_are_sent_once),
		cmocka_unit_test(hostile_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
