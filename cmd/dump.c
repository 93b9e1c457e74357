/*
 * dump.c: goprof dump PID: every goroutine once, on stdout, as the program's own traceback would
 * print it. goprof's one line goes to stderr, so that a redirected dump stays clean.
 *
 * This file brings the parts together (process, runtime, snapshot, names); the form of the text is
 * goroutine_text.c's.
 */
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/command.h"
#include "cmd/goroutine_text.h"
#include "cmd/options.h"
#include "cmd/output_file.h"
#include "cmd/refused.h"
#include "cmd/words.h"
#include "go/pclntab.h"
#include "sample/naming.h"
#include "sample/snapshot.h"
#include "symbol/symbol.h"
#include "unwind/unwind.h"

enum {
	FLUSH_BYTES = 256 * 1024,
	RUNTIME_TRIES = 100, RUNTIME_PAUSE_NS = 10 * NSEC_PER_MSEC,
	NS_PER_MINUTE_S = 60,
};

/* All that is open while a dump is made. */
struct dump {
	const struct options *o;
	struct target *target;
	struct go_process *process;
	struct go_runtime *rt;
	struct tracer *tracer;
	struct symbols *symbols;
	struct snapshot *snapshot;
	bool labels;			/* they are shown */
	uint32_t shown;			/* goroutines printed */
	/* One stack at a time: logical frames and the offsets of their pcs. */
	const struct symbol_frame **frames;
	uint64_t *offsets;
	size_t n, cap;
	struct buf out;
};

static void dump_deinit(struct dump *d)
{
	snapshot_free(d->snapshot);
	symbols_destroy(d->symbols);
	tracer_destroy(d->tracer);
	go_process_close(d->process);
	target_close(d->target);
	free(d->frames);
	free(d->offsets);
	buf_deinit(&d->out);
}

/* ---- opening ---- */

static struct error *open_target(struct dump *d)
{
	pid_t pid;
	struct error *err = pid_read(d->o->command, d->o->words[0], &pid);

	return err ? err : target_open_live(pid, &d->target);
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

static struct error *open_all(struct dump *d)
{
	struct error *err = open_target(d);

	if (!err)
		err = go_process_open(d->target, &(struct go_options){ .strict = true, .runtime = d->o->runtime },
				      &d->process);
	if (err)
		return err;
	d->rt = go_process_runtime(d->process, 0);
	err = wait_for_runtime(d);
	if (!err)
		err = tracer_create(&d->tracer);
	if (!err)
		err = naming_open(d->target, d->rt, &d->symbols);
	return err;
}

static struct error *take_snapshot(struct dump *d)
{
	const struct sampler_parts parts = {
		.target = d->target, .runtime = d->rt, .tracer = d->tracer, .clock = &system_clock,
	};

	return snapshot_take(&parts, (uint32_t)d->o->depth, &d->snapshot);
}

/* ---- one goroutine ---- */

static struct error *reserve(struct dump *d, size_t more)
{
	size_t cap = d->cap ? d->cap : 64;
	const struct symbol_frame **frames;
	uint64_t *offsets;

	if (d->n + more <= d->cap)
		return NULL;
	while (cap < d->n + more)
		cap *= 2;
	frames = realloc(d->frames, cap * sizeof(*frames));
	if (!frames)
		return &err_nomem;
	d->frames = frames;
	offsets = realloc(d->offsets, cap * sizeof(*offsets));
	if (!offsets)
		return &err_nomem;
	d->offsets = offsets;
	d->cap = cap;
	return NULL;
}

static struct error *expand_frame(struct dump *d, const struct pc_frame *f)
{
	const struct symbol_frame *v;
	struct error *err;
	size_t n;

	err = naming_expand(d->symbols, d->rt, f, &v, &n);
	if (!err)
		err = reserve(d, n);
	for (size_t i = 0; !err && i < n; i++) {
		d->frames[d->n] = &v[i];
		d->offsets[d->n++] = f->pc > v[i].entry ? f->pc - v[i].entry : 0;
	}
	return err;
}

static struct error *expand_stack(struct dump *d, const struct snapshot_goroutine *g)
{
	struct error *err = NULL;

	d->n = 0;
	for (uint32_t i = 0; !err && i < g->n_frames; i++)
		err = expand_frame(d, &g->frames[i]);
	return err;
}

/*
 * Who made it, unless a traceback would not say. The function is the one that holds the go
 * statement's code; file and line are those of the statement, which may have been inlined into it.
 */
static struct error *fill_creator(struct dump *d, const struct g_look *g,
				  struct goroutine_text_creator *c, bool *ret)
{
	const struct symbol_frame *v, *function;
	struct error *err;
	size_t n;

	*ret = false;
	if (g->goid == 1 || !g->gopc)
		return NULL;
	err = symbol_expand(d->symbols, g->gopc, SYMBOL_RETURN, &v, &n);
	if (err)
		return err;
	function = &v[n - 1];
	if (function->flags & (FRAME_PSEUDO | FRAME_WRAPPER | FRAME_RUNTIME_HIDDEN))
		return NULL;
	*c = (struct goroutine_text_creator){
		.function = function->printed, .file = v[0].abs_path, .line = v[0].line,
		.offset = g->gopc > function->entry ? g->gopc - function->entry : 0,
		.parent = g->parent_goid,
	};
	*ret = true;
	return NULL;
}

static const char *status_text(struct dump *d, const struct g_look *g)
{
	const char *reason = NULL;

	if ((g->status == G_WAITING || g->status == G_LEAKED) && g->waitreason)
		reason = go_wait_reason(d->rt, g->waitreason);
	return reason && *reason ? reason : g_status_name(g->status);
}

/* Since the collector first saw it blocked: the target's nanotime is our CLOCK_MONOTONIC. */
static int64_t minutes_blocked(const struct g_look *g)
{
	bool blocked = g->status == G_WAITING || g->status == G_SYSCALL;

	if (!blocked || g->waitsince <= 0 || (uint64_t)g->waitsince > g->t_after)
		return 0;
	return (int64_t)((g->t_after - (uint64_t)g->waitsince) / NSEC_PER_SEC / NS_PER_MINUTE_S);
}

static const char *why_no_stack(const struct snapshot_goroutine *g)
{
	if (g->moved)
		return "(moved while it was read)";
	if (g->n_frames)
		return NULL;
	return g->look.status == G_RUNNING ? "goroutine running on other thread; stack unavailable"
					   : "(no stack could be read)";
}

static struct error *add_goroutine(struct dump *d, const struct snapshot_goroutine *g)
{
	struct goroutine_text_creator creator;
	bool has_creator;
	struct error *err = expand_stack(d, g);

	if (!err)
		err = fill_creator(d, &g->look, &creator, &has_creator);
	if (err)
		return err;
	if (d->shown++)
		buf_addc(&d->out, '\n');
	goroutine_text(&d->out, &(struct goroutine_text_in){
		.go_minor = go_runtime_build(d->rt)->minor, .goid = g->look.goid,
		.status = status_text(d, &g->look), .leaked = g->look.status == G_LEAKED,
		.scan = g->look.scan, .locked = g->look.lockedm != 0,
		.minutes = minutes_blocked(&g->look),
		.labels = g->labels, .n_labels = d->labels && g->labels_known ? g->n_labels : 0,
		.labels_unknown = d->labels && !g->labels_known,
		.frames = d->frames, .offsets = d->offsets, .n = d->n,
		.cut = g->end == UNWIND_DEPTH,
		.missing = g->end == UNWIND_COMPLETE ? NULL : unwind_end_name(g->end),
		.no_stack = why_no_stack(g), .creator = has_creator ? &creator : NULL,
	});
	return buf_error(&d->out);
}

/* ---- all of them ---- */

static bool wanted(struct dump *d, const struct g_look *g)
{
	if (g->status == G_DEAD || g->status == G_DEADEXTRA)
		return false;
	return d->o->system || !g_is_system(d->rt, g);
}

static struct error *flush(struct dump *d)
{
	struct error *err = output_fd_write(STDOUT_FILENO, "stdout", d->out.data, d->out.len);

	buf_clear(&d->out);
	return err;
}

static struct error *print_all(struct dump *d)
{
	struct error *err = NULL;

	d->labels = d->o->labels || isatty(STDOUT_FILENO);
	for (uint32_t i = 0; !err && i < d->snapshot->n; i++) {
		if (!wanted(d, &d->snapshot->v[i].look))
			continue;
		err = add_goroutine(d, &d->snapshot->v[i]);
		if (!err && d->out.len >= FLUSH_BYTES)
			err = flush(d);
	}
	return err || !d->out.len ? err : flush(d);
}

static void print_summary(const struct dump *d)
{
	const struct snapshot *s = d->snapshot;
	char count[WORD_MAX], took[WORD_MAX], threads[WORD_MAX], held[WORD_MAX];

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
	_cleanup_(dump_deinit) struct dump d = { .o = o };
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
		return error_new(ERROR_NO_PROCESS, "%s ended while it was read", o->words[0]);
	}
	if (!err)
		print_summary(&d);
	return err;
}
