/*
 * cmd_goroutine_text.c: the text of a goroutine, compared whole: header, frames, what old and new
 * versions leave out of deep stacks, labels and their quoting, and who made it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cmd/goroutine_text.h"

enum { DEEP = 400 };

static const struct symbol_frame
	park = { .function = "runtime.gopark", .printed = "runtime.gopark", .abs_path = "/go/proc.go", .line = 1,
		 .flags = FRAME_RUNTIME_HIDDEN },
	inlined = { .function = "m.in", .printed = "m.in", .abs_path = "/m/a.go", .line = 5, .flags = FRAME_INLINED },
	work = { .function = "m.ted.F[...]", .printed = "m%2eted.F[...]", .abs_path = "/m/b.go", .line = 7 },
	panics = { .function = "runtime.gopanic", .printed = "runtime.gopanic", .abs_path = "/go/panic.go", .line = 9,
		   .flags = FRAME_RUNTIME_HIDDEN },
	nofile = { .function = "m.asm", .printed = "m.asm", .abs_path = "" },
	c_code = { .function = "[C]", .printed = "[C]", .abs_path = "", .entry = 0x1234,
		   .flags = FRAME_PSEUDO | FRAME_NATIVE },
	vdso = { .function = "[vdso]", .printed = "[vdso]", .abs_path = "", .entry = 0x99,
		 .flags = FRAME_PSEUDO | FRAME_NATIVE },
	gap = { .function = "[gap]", .printed = "[gap]", .abs_path = "", .flags = FRAME_PSEUDO };

static const uint64_t offsets[DEEP] = { 1, 2, 3, 4, 0, 6, 7, 8 };

static char *text_of(const struct goroutine_text_in *in)
{
	struct buf b;

	buf_init(&b);
	goroutine_text(&b, in);
	assert_null(buf_error(&b));
	return buf_take(&b);
}

static void check(const struct goroutine_text_in *in, const char *expected)
{
	char *text = text_of(in);

	assert_string_equal(text, expected);
	free(text);
}

static void test_frames(void **state)
{
	const struct symbol_frame *v[] = { &park, &inlined, &work, &panics, &nofile, &c_code, &vdso, &gap };
	const struct goroutine_text_creator creator = { "m.start", "/m/c.go", 11, 0x2b, 17 };
	struct goroutine_text_in in = {
		.go_minor = 26, .goid = 34, .status = "IO wait", .frames = v, .offsets = offsets, .n = 8,
		.creator = &creator,
	};

	(void)state;
	check(&in, "goroutine 34 [IO wait]:\n"
	      "m.in(...)\n\t/m/a.go:5\n"
	      "m%2eted.F[...](...)\n\t/m/b.go:7 +0x3\n"
	      "panic(...)\n\t/go/panic.go:9 +0x4\n"
	      "m.asm(...)\n\t?:0\n"
	      "non-Go function\n\tpc=0x1234\n"
	      "[vdso]\n\tpc=0x99\n"
	      "...additional frames elided...\n"
	      "created by m.start in goroutine 17\n\t/m/c.go:11 +0x2b\n");
}

static void test_nothing_shown(void **state)
{
	const struct symbol_frame *v[] = { &park, &panics };
	const struct goroutine_text_creator creator = { "m.start", "/m/c.go", 11, 0, 0 };
	struct goroutine_text_in in = {
		.go_minor = 19, .goid = 1, .status = "force gc (idle)", .frames = v, .offsets = offsets, .n = 2,
		.creator = &creator,
	};

	(void)state;
	check(&in, "goroutine 1 [force gc (idle)]:\n"
	      "runtime.gopark(...)\n\t/go/proc.go:1 +0x1\n"
	      "panic(...)\n\t/go/panic.go:9 +0x2\n"
	      "created by m.start\n\t/m/c.go:11\n");
}

static void test_header(void **state)
{
	struct goroutine_text_in in = {
		.go_minor = 26, .goid = UINT64_MAX, .status = "chan receive", .leaked = true, .scan = true,
		.minutes = 5, .locked = true, .no_stack = "(moved while it was read)",
	};

	(void)state;
	check(&in, "goroutine 18446744073709551615 [chan receive (leaked) (scan), 5 minutes, locked to thread]:\n"
	      "\t(moved while it was read)\n");
	in = (struct goroutine_text_in){ .goid = 2, .status = "running", .minutes = 0, .labels_unknown = true,
					 .no_stack = "x" };
	check(&in, "goroutine 2 [running] {?}:\n\tx\n");
}

#define LABEL(k, v) { k, v, sizeof(k) - 1, sizeof(v) - 1 }

static void test_labels(void **state)
{
	static const struct go_label plain[] = { LABEL("route", "/order.v1_2"), LABEL("step", "inner") };
	static const struct go_label odd[] = {
		LABEL("", "a b"), LABEL("nl\n\r\t", "q\"\\"), LABEL("nul\0x", "\x01\x7f"),
		LABEL("\xc3\xa9", "\xe4\xb8\x96\xf0\x9f\x98\x80"), LABEL("\xff", "\xc0\xaf\xed\xa0\x80"),
		LABEL("cut", "\xe4\xb8"),
	};
	struct goroutine_text_in in = { .goid = 2, .status = "running", .no_stack = "x", .labels = plain, .n_labels = 2 };

	(void)state;
	check(&in, "goroutine 2 [running] {route: /order.v1_2, step: inner}:\n\tx\n");
	in.labels = odd;
	in.n_labels = 6;
	check(&in, "goroutine 2 [running] {: \"a b\", \"nl\\n\\r\\t\": \"q\\\"\\\\\", \"nul\\x00x\": \"\\x01\\u007f\", "
	      "\"\\u00e9\": \"\\u4e16\\U0001f600\", \"\\xff\": \"\\xc0\\xaf\\xed\\xa0\\x80\", "
	      "cut: \"\\xe4\\xb8\"}:\n\tx\n");
}

/* Counts lines that begin a frame. */
static size_t frames_in(const char *text)
{
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, "(...)\n")); p++)
		n++;
	return n;
}

struct deep {
	struct symbol_frame frames[DEEP];
	const struct symbol_frame *v[DEEP];
	char names[DEEP][16];
	struct goroutine_text_in in;
};

static void build_deep(struct deep *d, int minor, size_t n)
{
	for (size_t i = 0; i < DEEP; i++) {
		snprintf(d->names[i], sizeof(d->names[i]), "m.f%zu", i);
		d->frames[i] = (struct symbol_frame){ .function = d->names[i], .printed = d->names[i],
						      .abs_path = "/a.go" };
		d->v[i] = &d->frames[i];
	}
	d->in = (struct goroutine_text_in){ .go_minor = minor, .goid = 3, .status = "s", .frames = d->v,
					    .offsets = offsets, .n = n };
}

static void check_deep(struct deep *d, size_t frames, const char *present, const char *absent)
{
	char *text = text_of(&d->in);

	assert_int_equal(frames_in(text), frames);
	assert_non_null(strstr(text, present));
	assert_null(strstr(text, absent));
	free(text);
}

static void test_deep_new(void **state)
{
	struct deep *d = calloc(1, sizeof(*d));

	(void)state;
	assert_non_null(d);
	build_deep(d, 21, 100);
	check_deep(d, 100, "m.f99(", "elided");
	build_deep(d, 21, 101);
	check_deep(d, 100, "m.f49(...)\n\t/a.go:0\n...1 frames elided...\nm.f51(", "m.f50(");
	build_deep(d, 26, 320);
	check_deep(d, 100, "m.f49(...)\n\t/a.go:0\n...220 frames elided...\nm.f270(", "m.f269(");
	/* Hidden frames do not count. */
	for (size_t i = 60; i < 280; i++)
		d->frames[i].flags = FRAME_RUNTIME_HIDDEN;
	check_deep(d, 100, "m.f280(", "elided");
	/* The outermost ones were not read: the first hundred, and a word that there are more. */
	build_deep(d, 26, 320);
	d->in.missing = "why";
	check_deep(d, 100, "m.f99(...)\n\t/a.go:0\n...additional frames elided...\n", "m.f100(");
	build_deep(d, 26, 90);
	d->in.missing = "why";
	check_deep(d, 90, "m.f89(...)\n\t/a.go:0\n\t(the frames outside of these are missing: why)\n", "elided");
	d->in.missing = NULL;
	d->in.cut = true;
	check_deep(d, 90, "m.f89(...)\n\t/a.go:0\n...additional frames elided...\n", "missing");
	free(d);
}

/* A gap among the frames: what is missing there counts, too. */
static void test_deep_gap(void **state)
{
	struct deep *d = calloc(1, sizeof(*d));

	(void)state;
	assert_non_null(d);
	build_deep(d, 26, 320);
	d->frames[160] = gap;
	d->frames[160].entry = 1000;	/* so many frames (unwind.h) */
	check_deep(d, 100, "m.f49(...)\n\t/a.go:0\n...1219 frames elided...\nm.f270(", "m.f269(");
	build_deep(d, 26, 20);
	d->frames[10] = gap;
	d->frames[10].entry = 7;
	check_deep(d, 19, "m.f9(...)\n\t/a.go:0\n...7 frames elided...\nm.f11(", "additional");
	/* How many is not known, but how much was not read. */
	d->frames[10].entry = ((gaddr_t)1 << 60) + 4097;
	check_deep(d, 19, "m.f9(...)\n\t/a.go:0\n...additional frames elided...\n"
		   "\t(5 KiB of its stack between these frames were not read)\nm.f11(", " frames elided...\n\t/");
	build_deep(d, 26, 320);
	d->frames[160] = gap;
	d->frames[160].entry = ((gaddr_t)1 << 60) + 4096;
	check_deep(d, 100, "m.f49(...)\n\t/a.go:0\n...additional frames elided...\n"
		   "\t(4 KiB of its stack between these frames were not read)\nm.f270(", "m.f269(");
	free(d);
}

static void test_deep_old(void **state)
{
	struct deep *d = calloc(1, sizeof(*d));

	(void)state;
	assert_non_null(d);
	build_deep(d, 20, 99);
	check_deep(d, 99, "m.f98(", "elided");
	build_deep(d, 20, 320);
	check_deep(d, 100, "m.f99(...)\n\t/a.go:0\n...additional frames elided...\n", "m.f100(");
	/* A hundred physical frames are walked; where some are hidden, the runtime says nothing. */
	d->frames[5].flags = FRAME_RUNTIME_HIDDEN;
	check_deep(d, 99, "m.f99(", "elided");
	/* Inlined ones are not physical. */
	build_deep(d, 20, 320);
	d->frames[5].flags = FRAME_INLINED;
	check_deep(d, 101, "m.f100(", "m.f101(");
	free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_nothing_shown),
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_deep_new),
		cmocka_unit_test(test_deep_gap),
		cmocka_unit_test(test_deep_old),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
