/*
 * export_pprof.c: the pprof file, read back through zlib and protobuf: sums of counts, CPU and wall
 * time over several windows, labels and state, inlined frames in one location, marks, and what the
 * profile says about itself.
 */
#include "profile_world.h"

#include <stdlib.h>
#include <zlib.h>

#include "export/export_impl.h"
#include "profile.pb-c.h"

struct memory {
	struct sink sink;
	struct buf buf;
	size_t fail_after;
};

static struct error *to_memory(struct sink *s, const void *data, size_t len)
{
	struct memory *m = (struct memory *)s;

	if (m->fail_after && m->buf.len + len > m->fail_after)
		return error_new(ERROR_OUTPUT, "the disk is full");
	buf_add(&m->buf, data, len);
	return buf_error(&m->buf);
}

static Pprof__Profile *read_back(const struct buf *b)
{
	z_stream z = { .next_in = (unsigned char *)b->data, .avail_in = (unsigned)b->len };
	size_t cap = 64 << 20;
	unsigned char *raw = malloc(cap);
	Pprof__Profile *p;

	z.next_out = raw;
	z.avail_out = (unsigned)cap;
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	p = pprof__profile__unpack(NULL, cap - z.avail_out, raw);
	inflateEnd(&z);
	free(raw);
	assert_non_null(p);
	assert_string_equal(p->string_table[0], "");
	return p;
}

static Pprof__Profile *write_and_read(struct pprof *x)
{
	struct memory m = { .sink.write = to_memory };
	Pprof__Profile *p;

	buf_init(&m.buf);
	must(pprof_finish(x, &m.sink));
	p = read_back(&m.buf);
	buf_deinit(&m.buf);
	return p;
}

static const Pprof__Function *function_of(const Pprof__Profile *p, const Pprof__Location *l, size_t line)
{
	assert_true(line < l->n_line);
	for (size_t i = 0; i < p->n_function; i++)
		if (p->function[i]->id == l->line[line]->function_id)
			return p->function[i];
	fail_msg("no function %u", (unsigned)l->line[line]->function_id);
	return NULL;
}

static const Pprof__Location *location(const Pprof__Profile *p, uint64_t id)
{
	for (size_t i = 0; i < p->n_location; i++)
		if (p->location[i]->id == id)
			return p->location[i];
	fail_msg("no location %u", (unsigned)id);
	return NULL;
}

static const char *leaf(const Pprof__Profile *p, const Pprof__Sample *s)
{
	const Pprof__Location *l = location(p, s->location_id[0]);

	return p->string_table[function_of(p, l, 0)->name];
}

static const char *label(const Pprof__Profile *p, const Pprof__Sample *s, const char *key)
{
	for (size_t i = 0; i < s->n_label; i++)
		if (!strcmp(p->string_table[s->label[i]->key], key))
			return p->string_table[s->label[i]->str];
	return NULL;
}

static bool has_comment(const Pprof__Profile *p, const char *text)
{
	for (size_t i = 0; i < p->n_comment; i++)
		if (!strcmp(p->string_table[p->comment[i]], text))
			return true;
	return false;
}

/* "name value" among the figures of the one health comment. */
static bool has_figure(const Pprof__Profile *p, const char *text)
{
	char wanted[128];

	snprintf(wanted, sizeof(wanted), ", %s,", text);
	for (size_t i = 0; i < p->n_comment; i++)
		if (!strncmp(p->string_table[p->comment[i]], "health: ", 8))
			return strstr(p->string_table[p->comment[i]], wanted) != NULL;
	return false;
}

/* ---- sums ---- */

static void sums_over_windows(void **state)
{
	const struct export_options o = { .mode = PROFILE_WALL };
	struct world w;
	struct profile_label l;
	profile_id set;
	struct pprof *x;
	Pprof__Profile *p;
	uint64_t total[3] = { 0 };

	(void)state;
	world_init(&w);
	must(pprof_create(&o, &x));
	l = (struct profile_label){ text(&w, "route"), text(&w, "/a") };
	must(profile_labels(w.p, &l, 1, &set));
	track(&w, 1, "main.main");
	track(&w, 2, "main.work");
	for (int i = 0; i < 30; i++) {
		tick(&w);
		profile_credit(w.p, look(&w, 1, stack1(&w, "spin"), "running", set, true), 1000);
		look(&w, 2, stack1(&w, "wait"), i % 3 ? "IO wait" : "select", 0, false);
		world_pass(&w, TICK);
		if (i % 10 == 9) {
			struct window *win;

			profile_credit_unseen(w.p, 70);
			profile_health_add(w.p, HEALTH_TICKS_DONE, 10);
			profile_health_set(w.p, HEALTH_HELD_P99, i == 9 ? 9000 : 8000);
			win = close_now(&w);
			must(pprof_window(x, win));
			window_free(win);
		}
	}
	p = write_and_read(x);
	assert_int_equal(p->n_sample, 4);
	for (size_t i = 0; i < p->n_sample; i++) {
		const Pprof__Sample *s = p->sample[i];

		assert_int_equal(s->n_value, 3);
		for (int v = 0; v < 3; v++)
			total[v] += (uint64_t)s->value[v];
		if (!strcmp(leaf(p, s), "main.spin")) {
			assert_int_equal(s->value[0], 30);
			assert_int_equal(s->value[1], 30000);
			assert_int_equal(s->value[2], 30ll * TICK);
			assert_string_equal(label(p, s, "route"), "/a");
			assert_string_equal(label(p, s, "state"), "running");
		} else if (!strcmp(leaf(p, s), "main.wait")) {
			bool io = !strcmp(label(p, s, "state"), "IO wait");

			assert_int_equal(s->value[0], io ? 20 : 10);
			assert_int_equal(s->value[1], 0);
			assert_int_equal(s->value[2], (io ? 20ll : 10ll) * TICK);
			assert_null(label(p, s, "route"));
		} else {
			assert_string_equal(leaf(p, s), "[unseen]");
			assert_int_equal(s->value[0], 0);
			assert_int_equal(s->value[1], 210);
			assert_int_equal(s->value[2], 0);
		}
	}
	assert_int_equal(total[0], 60);
	assert_int_equal(total[1], 30210);
	assert_int_equal(total[2], 60ull * TICK);
	assert_int_equal(p->duration_nanos, 30ll * TICK);
	assert_int_equal(p->time_nanos, 1700000000123456789);
	assert_true(has_comment(p, "goprof 0.1.0, mode wall, 101 Hz, 3 windows"));
	assert_true(has_figure(p, "ticks done 30"));
	assert_true(has_figure(p, "ticks late 0"));
	assert_true(has_figure(p, "held p99 9000 ns"));
	pprof__profile__free_unpacked(p, NULL);
	pprof_destroy(x);
	world_deinit(&w);
}

/* A reader must see that goroutines are missing because they could not be told. */
static void restricted_mode_is_said(void **state)
{
	const struct export_options o = { .mode = PROFILE_WALL };
	struct world w;
	struct pprof *x;
	struct window *win;
	Pprof__Profile *p;

	(void)state;
	world_init(&w);
	world_restrict(&w, "no layout");
	must(pprof_create(&o, &x));
	track(&w, PROFILE_THREAD_KEY + 9, "[thread]");
	tick(&w);
	look(&w, PROFILE_THREAD_KEY + 9, stack1(&w, "spin"), "running", 0, true);
	world_pass(&w, TICK);
	win = close_now(&w);
	must(pprof_window(x, win));
	window_free(win);
	p = write_and_read(x);
	assert_true(has_comment(p, "restricted mode, on-CPU stacks of threads only: no layout"));
	pprof__profile__free_unpacked(p, NULL);
	pprof_destroy(x);
	world_deinit(&w);
}

/* ---- one stack ---- */

static Pprof__Profile *profile_of_stack(struct world *w, const profile_id *f, uint32_t n, uint32_t flags,
					enum profile_mode mode)
{
	const struct export_options o = { .mode = mode };
	struct pprof *x;
	struct window *win;
	Pprof__Profile *p;

	must(pprof_create(&o, &x));
	track(w, 1, "main.main");
	for (int i = 0; i < 3; i++) {
		tick(w);
		look(w, 1, stack_of(w, f, n, flags), "running", 0, true);
		world_pass(w, TICK);
	}
	profile_credit_ended(w->p, 5);
	win = close_now(w);
	must(pprof_window(x, win));
	window_free(win);
	p = write_and_read(x);
	pprof_destroy(x);
	return p;
}

static void inlined_frames_share_a_location(void **state)
{
	struct world w;
	profile_id f[7];
	Pprof__Profile *p;
	const Pprof__Location *l;
	static const char *const want[3][3] = {
		{ "main.a", "main.b", "main.c" }, { "main.d" }, { "main.g" },
	};
	static const size_t lines[] = { 3, 1, 1 };

	(void)state;
	world_init(&w);
	f[0] = frame(&w, "main", "a", 1, PROFILE_FRAME_INLINED);
	f[1] = frame(&w, "main", "b", 2, PROFILE_FRAME_INLINED);
	f[2] = frame(&w, "main", "c", 3, 0);
	/* d was inlined into a wrapper, which is hidden: d still is no part of g. */
	f[3] = frame(&w, "main", "d", 4, PROFILE_FRAME_INLINED);
	f[4] = frame(&w, "main", "e", 5, PROFILE_FRAME_WRAPPER | PROFILE_FRAME_INLINED);
	f[5] = frame(&w, "main", "f", 6, PROFILE_FRAME_WRAPPER);
	f[6] = frame(&w, "main", "g", 7, 0);
	p = profile_of_stack(&w, f, 7, PROFILE_STACK_COMPLETE, PROFILE_WALL);
	assert_int_equal(p->n_sample, 2);
	assert_int_equal(p->sample[0]->n_location_id, 3);
	for (int i = 0; i < 3; i++) {
		l = location(p, p->sample[0]->location_id[i]);
		assert_int_equal(l->n_line, lines[i]);
		assert_int_equal(l->mapping_id, 1);
		for (size_t k = 0; k < lines[i]; k++)
			assert_string_equal(p->string_table[function_of(p, l, k)->name], want[i][k]);
	}
	l = location(p, p->sample[0]->location_id[0]);
	assert_int_equal(l->line[1]->line, 2);
	assert_int_equal(function_of(p, l, 1)->start_line, 1);
	assert_string_equal(p->string_table[function_of(p, l, 1)->filename], "/src/main/file.go");
	assert_string_equal(p->string_table[p->mapping[0]->filename], "/srv/app");
	assert_true(p->mapping[0]->has_functions && p->mapping[0]->has_inline_frames);
	pprof__profile__free_unpacked(p, NULL);
	world_deinit(&w);
}

static void root_of(uint32_t flags, uint32_t root_flags, const char *want)
{
	struct world w;
	profile_id f[2];
	Pprof__Profile *p;
	const Pprof__Sample *s;

	world_init(&w);
	f[0] = frame(&w, "main", "leaf", 1, 0);
	f[1] = frame(&w, "main", "root", 1, root_flags);
	p = profile_of_stack(&w, f, 2, flags, PROFILE_WALL);
	s = p->sample[0];
	assert_string_equal(p->string_table[function_of(p, location(p, s->location_id[s->n_location_id - 1]), 0)->name], want);
	assert_string_equal(leaf(p, s), "main.leaf");
	pprof__profile__free_unpacked(p, NULL);
	world_deinit(&w);
}

static void missing_callers_are_marked(void **state)
{
	(void)state;
	root_of(PROFILE_STACK_COMPLETE, 0, "main.root");
	root_of(PROFILE_STACK_CUT, 0, "[truncated]");
	root_of(0, 0, "[incomplete]");
	root_of(0, PROFILE_FRAME_PSEUDO, "main.root");	/* it says itself what is missing */
}

static void modes(void **state)
{
	(void)state;
	for (int mode = PROFILE_WALL; mode <= PROFILE_CPU; mode++) {
		struct world w;
		profile_id f;
		Pprof__Profile *p;
		static const char *const types[] = { "samples", "cpu", "wall" };
		static const char *const units[] = { "count", "nanoseconds", "nanoseconds" };

		world_init(&w);
		f = frame(&w, "main", "main", 1, PROFILE_FRAME_WRAPPER);	/* nothing else: shown */
		p = profile_of_stack(&w, &f, 1, PROFILE_STACK_COMPLETE, mode);
		assert_int_equal(p->n_sample_type, 3);
		for (int i = 0; i < 3; i++) {
			assert_string_equal(p->string_table[p->sample_type[i]->type], types[i]);
			assert_string_equal(p->string_table[p->sample_type[i]->unit], units[i]);
		}
		assert_string_equal(p->string_table[p->default_sample_type], mode ? "cpu" : "wall");
		assert_string_equal(p->string_table[p->period_type->type], mode ? "cpu" : "wall");
		assert_int_equal(p->period, 9900990);
		assert_string_equal(leaf(p, p->sample[0]), "main.main");
		assert_string_equal(leaf(p, p->sample[1]), "[ended threads]");
		assert_int_equal(p->sample[1]->value[1], 5);
		pprof__profile__free_unpacked(p, NULL);
		world_deinit(&w);
	}
}

/* ---- failures ---- */

static void failures_come_back(void **state)
{
	const struct export_options o = { 0 };
	struct memory m = { .sink.write = to_memory, .fail_after = 1 };
	struct world w;
	struct window *win;
	struct pprof *x;
	struct error *err;

	(void)state;
	world_init(&w);
	must(pprof_create(&o, &x));
	buf_init(&m.buf);
	err = pprof_finish(x, &m.sink);
	assert_int_equal(err->kind, ERROR_NOT_FOUND);
	error_free(err);
	tick(&w);
	win = close_now(&w);
	must(pprof_window(x, win));
	window_free(win);
	err = pprof_finish(x, &m.sink);
	assert_int_equal(err->kind, ERROR_OUTPUT);
	error_free(err);
	buf_deinit(&m.buf);
	pprof_destroy(x);
	pprof_destroy(NULL);
	world_deinit(&w);
}

static const Pprof__Mapping *mapping_of(const Pprof__Profile *p, const char *function)
{
	for (size_t i = 0; i < p->n_location; i++) {
		const Pprof__Function *f = p->function[p->location[i]->line[0]->function_id - 1];

		if (strcmp(p->string_table[f->name], function) == 0) {
			for (size_t k = 0; k < p->n_mapping; k++)
				if (p->mapping[k]->id == p->location[i]->mapping_id)
					return p->mapping[k];
			fail_msg("%s is in a mapping that is not there", function);
		}
	}
	fail_msg("no %s", function);
	return NULL;
}

static void add_image(struct world *w, const char *name, const char *path, const char *id, bool lines)
{
	const struct profile_image image = { text(w, name), text(w, path), text(w, id), 0x1000, 0x2000, 0x100, lines };

	must(profile_image(w->p, &image));
}

static void images_have_mappings(void **state)
{
	struct world w;
	profile_id f[5];
	Pprof__Profile *p;
	const Pprof__Mapping *m;

	(void)state;
	world_init(&w);
	f[0] = frame(&w, "libc.so.6", "malloc", 1, PROFILE_FRAME_NATIVE);
	f[1] = frame(&w, "libz.so.1", "inflate", 1, PROFILE_FRAME_NATIVE);
	f[2] = frame(&w, "app", "c_function", 1, PROFILE_FRAME_NATIVE);
	f[3] = frame(&w, "unknown.so", "other", 1, PROFILE_FRAME_NATIVE);
	f[4] = frame(&w, "main", "main", 1, PROFILE_FRAME_IN_APP);
	add_image(&w, "app", "/srv/app", "", true);	/* the program itself */
	add_image(&w, "libc.so.6", "/lib/libc.so.6", "0123abcd", true);
	add_image(&w, "libz.so.1", "/lib/libz.so.1", "", false);
	p = profile_of_stack(&w, f, 5, PROFILE_STACK_COMPLETE, PROFILE_WALL);
	assert_int_equal(p->n_mapping, 3);
	m = mapping_of(p, "libc.so.6.malloc");
	assert_string_equal(p->string_table[m->filename], "/lib/libc.so.6");
	assert_string_equal(p->string_table[m->build_id], "0123abcd");
	assert_int_equal(m->memory_start, 0x1000);
	assert_int_equal(m->memory_limit, 0x2000);
	assert_int_equal(m->file_offset, 0x100);
	assert_true(m->has_functions && m->has_filenames && m->has_line_numbers && m->has_inline_frames);
	m = mapping_of(p, "libz.so.1.inflate");
	assert_string_equal(p->string_table[m->filename], "/lib/libz.so.1");
	assert_string_equal(p->string_table[m->build_id], "");
	assert_true(m->has_functions && !m->has_filenames && !m->has_line_numbers && !m->has_inline_frames);
	/* C code of the program itself, of an image nobody told of, and Go code: all in the program's. */
	m = mapping_of(p, "main.main");
	assert_string_equal(p->string_table[m->filename], "/srv/app");
	assert_int_equal(m->id, 1);
	assert_ptr_equal(mapping_of(p, "app.c_function"), m);
	assert_ptr_equal(mapping_of(p, "unknown.so.other"), m);
	pprof__profile__free_unpacked(p, NULL);
	world_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(restricted_mode_is_said),
		cmocka_unit_test(sums_over_windows),
		cmocka_unit_test(inlined_frames_share_a_location),
		cmocka_unit_test(missing_callers_are_marked),
		cmocka_unit_test(images_have_mappings),
		cmocka_unit_test(modes),
		cmocka_unit_test(failures_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
