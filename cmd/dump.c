/*
 * dump.c: goprof dump PID or CORE: every goroutine once, on stdout, as the program's own traceback
 * would print it. goprof's one line goes to stderr, so that a redirected dump stays clean.
 *
 * This file brings the parts together (process or core, runtime, snapshot, names); the text is
 * dump_text.c's.
 */
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/command.h"
#include "cmd/dump_text.h"
#include "cmd/options.h"
#include "cmd/output_file.h"
#include "cmd/refused.h"
#include "cmd/words.h"
#include "sample/naming.h"
#include "sample/snapshot.h"
#include "target/core.h"

enum { RUNTIME_TRIES = 100, RUNTIME_PAUSE_NS = 10 * NSEC_PER_MSEC };

/* All that is open while a dump is made. */
struct dump {
	const struct options *o;
	const char *word;		/* the one that names the process or the core */
	struct target *target;
	struct go_process *process;
	struct go_runtime *rt;
	struct tracer *tracer;		/* NULL for a core */
	struct symbols *symbols;
	struct snapshot *snapshot;
	uint32_t shown;			/* goroutines printed */
	struct buf out;
};

static void dump_deinit(struct dump *d)
{
	snapshot_free(d->snapshot);
	symbols_destroy(d->symbols);
	tracer_destroy(d->tracer);
	go_process_close(d->process);
	target_close(d->target);
	buf_deinit(&d->out);
}

/* ---- opening ---- */

static struct error *open_process(struct dump *d)
{
	pid_t pid;
	struct error *err;

	if (d->o->exe)
		return error_new(ERROR_USAGE, "--exe is for core files; %s is the id of a process", d->word);
	err = pid_read(d->o->command, d->word, &pid);
	return err ? err : target_open_live(pid, &d->target);
}

/* What lib/ calls not found is here a word that was not meant so; a damaged core is no bug of ours. */
static struct error *as_argument(struct error *err)
{
	if (err && !err->is_static && err->kind == ERROR_NOT_FOUND)
		err->kind = ERROR_USAGE;
	if (err && !err->is_static && err->kind == ERROR_CORRUPT)
		err->kind = ERROR_UNSUPPORTED;
	return err;
}

static struct error *open_core(struct dump *d)
{
	struct core_facts facts = { 0 };
	pid_t pid;
	struct error *err;

	/* A word that is no file may be the name of a program that runs. */
	if (!strchr(d->word, '/') && access(d->word, F_OK) != 0) {
		err = pid_read(d->o->command, d->word, &pid);
		if (err)
			error_reword(err, "is not the id of a process", "is neither the id of a process nor a file");
		return err;
	}
	err = as_argument(target_open_core(d->word, d->o->exe, &d->target));
	if (err)
		return err;
	target_core_facts(d->target, &facts);
	if (!facts.exe_why)
		return NULL;
	err = error_new(ERROR_NO_PROCESS, "the program that left %s cannot be read", d->word);
	if (*target_exe_path(d->target))
		error_why(err, "%s: %s", target_exe_path(d->target), facts.exe_why);
	else
		error_why(err, "%s%s", facts.exe_why, facts.missing_bytes ? " (it is cut off)" : "");
	return error_todo(err, "goprof dump %s --exe FILE", d->word);
}

/* Digits are a pid; a core file with the name of a number is meant by a slash. */
static struct error *open_target(struct dump *d)
{
	uint64_t n;

	return number_parse(d->word, &n) ? open_process(d) : open_core(d);
}

/* A process that has just been started gets a second to bring its runtime up. */
static struct error *wait_for_runtime(struct dump *d)
{
	struct error *err = go_runtime_check(d->rt);

	for (int i = 0; err == &err_end && i < RUNTIME_TRIES; i++) {
		uint64_t now = system_clock.mono(&system_clock);

		system_clock.sleep_until(&system_clock, now + RUNTIME_PAUSE_NS);
		err = go_runtime_check(d->rt);
	}
	if (err == &err_end)
		return error_new(ERROR_UNSUPPORTED, "the Go runtime of %d does not come up",
				 target_pid(d->target));
	return err;
}

/* The check fails where no m has a thread: say so, when that is what is wrong with the core. */
static struct error *core_refused(struct dump *d, struct error *err)
{
	struct core_facts facts;

	if (!err || err->is_static || !target_core_facts(d->target, &facts))
		return err;
	if (facts.foreign_tids)
		return error_todo(error_why(err, "the %zu threads in %s have other ids than the program knows; "
					    "the core was made outside of its container", facts.threads, d->word),
				  "make the core inside the container, or let the kernel make it");
	if (facts.missing_bytes)
		return error_why(err, "%s is cut off: %llu of %llu MiB are missing", d->word,
				 (unsigned long long)facts.missing_bytes >> 20, (unsigned long long)facts.bytes >> 20);
	if (err->kind == ERROR_NOT_GO && !err->todo)
		error_todo(err, "goprof info %s shows what was tried", target_exe_path(d->target));
	return err;
}

static struct error *open_runtime(struct dump *d)
{
	struct error *err = go_process_open(d->target, &(struct go_options){ .strict = true,
							 .runtime = d->o->runtime }, &d->process);

	if (err)
		return err;
	d->rt = go_process_runtime(d->process, 0);
	if (!target_is_core(d->target))
		return wait_for_runtime(d);
	err = go_runtime_check(d->rt);
	return err != &err_end ? err : error_new(ERROR_UNSUPPORTED, "the Go runtime of %s was not up yet", d->word);
}

static struct error *open_all(struct dump *d)
{
	struct error *err = open_target(d);

	if (err)
		return err;
	err = core_refused(d, open_runtime(d));
	if (!err && !target_is_core(d->target))
		err = tracer_create(&d->tracer);
	if (!err)
		err = naming_open(d->target, d->rt, NULL, &d->symbols);
	return err;
}

static struct error *take_snapshot(struct dump *d)
{
	const struct sampler_parts parts = {
		.target = d->target, .runtime = d->rt, .tracer = d->tracer, .clock = &system_clock,
	};

	return snapshot_take(&parts, (uint32_t)d->o->depth, &d->snapshot);
}

/* ---- telling ---- */

static struct error *flush(void *ctx, struct buf *b)
{
	struct error *err = output_fd_write(STDOUT_FILENO, "stdout", b->data, b->len);

	(void)ctx;
	buf_clear(b);
	return err;
}

static struct error *print_all(struct dump *d)
{
	const struct dump_text text = {
		.runtime = d->rt, .symbols = d->symbols, .system = d->o->system,
		.labels = d->o->labels || isatty(STDOUT_FILENO),
	};
	struct error *err = dump_text(&text, d->snapshot, &d->out, flush, NULL, &d->shown);

	return err || !d->out.len ? err : flush(NULL, &d->out);
}

/* What is missing is said also to those who want nothing but errors. */
static void print_core_summary(const struct dump *d, const struct core_facts *facts)
{
	char count[WORD_MAX], threads[WORD_MAX];

	if (!d->o->quiet)
		say("%s goroutine%s of %d (%s, %s) in %s, %s thread%s", count_text(d->shown, count),
		    d->shown == 1 ? "" : "s", target_pid(d->target), target_exe_path(d->target),
		    go_runtime_build(d->rt)->version, d->word, count_text(facts->threads, threads),
		    facts->threads == 1 ? "" : "s");
	if (facts->missing_bytes)
		say("%s is cut off: %llu of %llu MiB of memory are missing", d->word,
		    (unsigned long long)(facts->missing_bytes + (1 << 20) - 1) >> 20,
		    (unsigned long long)facts->bytes >> 20);
	if (facts->skipped)
		say("%s: %llu records contradict themselves and were left out", d->word,
		    (unsigned long long)facts->skipped);
}

static void print_summary(const struct dump *d)
{
	const struct snapshot *s = d->snapshot;
	char count[WORD_MAX], took[WORD_MAX], threads[WORD_MAX], held[WORD_MAX];

	struct core_facts facts;

	if (target_core_facts(d->target, &facts)) {
		print_core_summary(d, &facts);
		return;
	}
	if (d->o->quiet)
		return;
	say("%s goroutine%s of %d (%s, %s) in %s; %s thread%s held%s%s",
	    count_text(d->shown, count), d->shown == 1 ? "" : "s", target_pid(d->target),
	    target_exe_path(d->target), go_runtime_build(d->rt)->version,
	    s->took_ns < NSEC_PER_MSEC ? instant_text(s->took_ns, took) : duration_text(s->took_ns, took),
	    s->threads_held ? count_text(s->threads_held, threads) : "no", s->threads_held == 1 ? "" : "s",
	    s->threads_held ? " " : "", s->threads_held ? instant_text(s->held_ns, held) : "");
}

struct error *dump_command(const struct options *o, int *status)
{
	_cleanup_(dump_deinit) struct dump d = { .o = o, .word = o->words[0] };
	struct error *err;

	(void)status;
	buf_init(&d.out);
	err = open_all(&d);
	if (!err)
		err = take_snapshot(&d);
	if (!err)
		err = print_all(&d);
	if (err && err->kind == ERROR_GONE) {
		error_free(err);
		return error_new(ERROR_NO_PROCESS, "%s ended while it was read", d.word);
	}
	if (!err)
		print_summary(&d);
	return err;
}
