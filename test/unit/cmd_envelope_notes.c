/*
 * What people are told about envelopes that do not hold everything: each note alone, its numbers with what
 * they count, one and many, and nothing where there is nothing to say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cmd/command.h"
#include "cmd/envelope_notes.h"
#include "cmd/options.h"

static void expect(const struct options *o, const struct export_told *told, bool wanted, const char *want)
{
	_cleanup_(buf_deinit) struct buf b;

	buf_init(&b);
	envelope_notes_text(o, told, wanted, &b);
	assert_string_equal(b.data ? b.data : "", want);
	for (const char *line = b.data; line && *line; line += strcspn(line, "\n") + 1)
		assert_true(strcspn(line, "\n") <= 80);
}

static const struct options usual = { .max_threads = 1000 };

static void nothing_to_say(void **state)
{
	(void)state;
	expect(&usual, &(struct export_told){ 0 }, true, "");
	expect(&usual, &(struct export_told){ .windows = 3, .bytes = 9999999 }, true, "");
	expect(&usual, &(struct export_told){ 0 }, false, "");
}

static void what_is_left_out(void **state)
{
	static const struct options all = { .max_threads = 0 };
	struct export_told t = { .windows = 1, .left_out = { .goroutines = 9200 } };

	(void)state;
	expect(&usual, &t, true,
	       "  note  an envelope leaves out up to 9,200 goroutines (--max-threads 1000; 0\n"
	       "        keeps all)\n");
	t.left_out = (struct export_counts){ .goroutines = 1, .threads = 1 };
	expect(&usual, &t, true,
	       "  note  an envelope leaves out up to 1 goroutine and 1 thread (--max-threads\n"
	       "        1000; 0 keeps all)\n");
	t.left_out = (struct export_counts){ .shared = 2 };
	expect(&usual, &t, true,
	       "  note  an envelope leaves out up to 2 shared threads (--max-threads 1000; 0\n"
	       "        keeps all)\n");
	/* It was not --max-threads that left them out. */
	t.cut = true;
	t.left_out = (struct export_counts){ .goroutines = 375, .threads = 20, .shared = 2 };
	expect(&all, &t, true,
	       "  note  an envelope leaves out up to 375 goroutines, 20 threads and 2 shared\n"
	       "        threads: with more it would be too big for the service\n");
}

static void what_has_less_detail(void **state)
{
	struct export_told t = { .windows = 3, .thinned = 1, .bytes = 8000000 };

	(void)state;
	expect(&usual, &t, true,
	       "  note  1 envelope was larger than 10 MB: parked goroutines are told with less\n"
	       "        detail, and with all of their time\n");
	t.bytes = 12345678;
	t.thinned = 3;
	t.too_big = 1;
	expect(&usual, &t, true,
	       "  note  1 envelope was thinned: the service takes 50 MiB\n"
	       "  note  2 envelopes were larger than 10 MB: parked goroutines are told with less\n"
	       "        detail, and with all of their time\n"
	       "  note  an envelope still has 12.3 MB; a lower --max-threads makes it smaller\n");
	t = (struct export_told){ .windows = 1, .bytes = 12345678 };
	expect(&usual, &t, true, "  note  an envelope has 12.3 MB; a lower --max-threads makes it smaller\n");
	t = (struct export_told){ .windows = 1, .grouped = { .goroutines = 10202, .threads = 3 } };
	expect(&usual, &t, true,
	       "  note  in an envelope up to 10,202 goroutines and 3 threads are told as the\n"
	       "        average of a group\n");
}

static void options_without_effect(void **state)
{
	struct options o = { .max_threads = 1000, .threads = { EXPORT_BY_LABEL, "route" } };
	struct export_told t = { .windows = 1, .labelled = true };

	(void)state;
	o.source[OPTION_THREADS] = OPTION_FROM_LINE;
	expect(&o, &t, true, "");
	t.labelled = false;
	expect(&o, &t, true,
	       "  note  no goroutine had the label route: threads are those of entry functions\n");
	/* Nobody knows where no envelope was made. */
	t.windows = 0;
	expect(&o, &t, true, "");
	o.source[OPTION_MAX_THREADS] = OPTION_FROM_LINE;
	expect(&o, &t, false,
	       "  note  --threads is about envelopes, it changes nothing in a pprof file\n"
	       "  note  --max-threads is about envelopes, it changes nothing in a pprof file\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_to_say),
		cmocka_unit_test(what_is_left_out),
		cmocka_unit_test(what_has_less_detail),
		cmocka_unit_test(options_without_effect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
