/*
 * stacks.c: stacks of goroutines that are not on a CPU, read without stopping anything.
 *
 *	header (the caller's pass)  ->  header, stack, header  ->  [labels]  ->  [stack again]  ->  [header]
 *
 * A stack is believed only if the headers after it equal those before it, trackingSeq (a counter of
 * parks) included: without that counter a few reads in ten thousand were impossible stacks. The
 * counter has eight bits: it proves something only if it had no time to come round. A reader that
 * lost its CPU in the middle has no proof.
 *
 * Nor has one of a goroutine in a system call, where the counter stands still from Go 1.26 on, or of a
 * coroutine that hands over to another, which never moves it; before 1.17 there is none. So there the
 * stack is read twice, both readings must walk to the same frames, and these must follow from calls: a
 * goroutine that stands in one place whenever it is off the CPU, and runs in another, gives the same
 * impossible stack twice. The headers around the first reading say that it did not run then: one after both
 * is not enough, as it may run through both, half of its memory new and half of it old, and wait again.
 *
 * Read in small batches: the longer a batch, the more goroutines move under it. A long stack is
 * read by itself.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sample/sample_impl.h"

enum {
	BATCH_JOBS = 4,		/* at most: as many as a batch proves something of (sr->batch) */
	RETRY_JOBS = 2,		/* those that have moved once: smaller batches, shorter windows */
	/*
	 * No goroutine leaves its thread 256 times in these: to wait (100 ns on a channel), or to go on soon
	 * (36 ns in Gosched; so a batch proves nothing of one that is runnable).
	 */
	WAITING_NS = 256 * 40,
	RUNNABLE_NS = 256 * 8,
	BATCH_BYTES = 1 << 20,
	BYTES_PER_FRAME = 256,		/* of stack, more than most have */
	WHOLE_BYTES = 64 << 20,
	RUN_BYTES = 4 << 20,		/* of long stacks in one run, before only their ends are read */
};

struct reading {
	uint8_t *bytes;
	size_t done;
};

struct header {
	uint8_t bytes[GO_G_SPAN_MAX];
	size_t done;
};

/* A job within a batch. */
struct piece {
	const struct stack_job *job;
	struct unwind_start start;
	uint32_t len;			/* of the used part of its stack */
	bool counted;			/* the counter may prove something */
	bool twice;			/* there is a second reading, for when it proves nothing */
	bool confirm;			/* other readings follow the first: `last` is read */
	struct header before, after;	/* right before and behind the first reading */
	struct header last;		/* behind all readings */
	struct reading first, second;
};

struct stack_reader {
	uint32_t depth;
	bool whole;
	bool has_counter;
	uint64_t long_bytes;		/* of long stacks, read in this run */
	struct audit audit;
	struct pc_frame *frames, *again;
	struct stack_job *retry;	/* jobs whose header had moved on */
	uint32_t n_retry, cap_retry;
	uint8_t *buffer;
	size_t used;
	struct piece pieces[BATCH_JOBS];
	uint32_t n;
	uint32_t batch;			/* so many of them are read at once */
	uint64_t first_ns;		/* how long the first readings of the batch took */
};

/* What a run hands from function to function. */
struct run {
	const struct reader *r;
	stack_between *between;
	stack_done *done;
	void *ctx;
	bool retried;
};

bool parks_have_counter(const struct reader *r)
{
	return (go_runtime_caps(r->rt) & GO_CAP_TRACKINGSEQ) != 0;
}

struct error *stack_reader_create(uint32_t depth, bool whole, struct stack_reader **ret)
{
	struct stack_reader *sr = calloc(1, sizeof(*sr));

	if (!sr)
		return &err_nomem;
	sr->depth = depth;
	sr->whole = whole;
	sr->batch = BATCH_JOBS;
	audit_init(&sr->audit);
	sr->frames = calloc(depth, sizeof(*sr->frames));
	sr->again = calloc(depth, sizeof(*sr->again));
	sr->buffer = malloc(BATCH_BYTES);
	if (!sr->frames || !sr->again || !sr->buffer) {
		stack_reader_destroy(sr);
		return &err_nomem;
	}
	*ret = sr;
	return NULL;
}

void stack_reader_destroy(struct stack_reader *sr)
{
	if (!sr)
		return;
	audit_deinit(&sr->audit);
	free(sr->frames);
	free(sr->again);
	free(sr->retry);
	free(sr->buffer);
	free(sr);
}

/*
 * Does the header tell whether it has run? Not in system calls (from Go 1.26 on), nor when a coroutine hands over
 * to another: there the same header may be seen twice, and the goroutine have run between.
 */
static bool counter_holds(const struct stack_reader *sr, const struct reader *r, const struct g_look *g)
{
	const char *reason = g->status == G_WAITING ? go_wait_reason(r->rt, g->waitreason) : NULL;

	if (target_is_core(r->target))
		return true;	/* nothing runs in it */
	return sr->has_counter && g->status != G_SYSCALL && !(reason && !strcmp(reason, "coroutine"));
}

/* Has the counter had no time to come round, in so many ns between two headers? */
static bool counter_proves(const struct reader *r, const struct g_look *g, uint64_t ns)
{
	return target_is_core(r->target) || ns < (g->status == G_RUNNABLE ? RUNNABLE_NS : WAITING_NS);
}

static void place_reading(struct stack_reader *sr, const struct piece *p, struct reading *into)
{
	*into = (struct reading){ .bytes = sr->buffer + sr->used };
	sr->used += p->len;
}

static uint64_t used_bytes(const struct unwind_start *start)
{
	return start->at.hi - start->at.sp;
}

/* Room in the batch for a job's readings; false: flush first. Not for long stacks. */
static bool add_piece(struct stack_reader *sr, const struct run *run, const struct stack_job *job,
		      const struct unwind_start *start)
{
	struct piece *p = &sr->pieces[sr->n];

	if (sr->n >= sr->batch)
		return false;
	p->job = job;
	p->start = *start;
	p->len = used_bytes(start);
	p->counted = counter_holds(sr, run->r, &job->look);
	p->twice = !p->counted || run->retried || !counter_proves(run->r, &job->look, RUNNABLE_NS);
	p->confirm = p->twice || (run->between && job->look.labels);
	if (sr->used + (p->twice ? 2 : 1) * (size_t)p->len > BATCH_BYTES)
		return false;
	place_reading(sr, p, &p->first);
	if (p->twice)
		place_reading(sr, p, &p->second);
	sr->n++;
	return true;
}

/* Spans of one call, and where the number of bytes that came is kept. */
struct batch_spans {
	struct span v[3 * BATCH_JOBS];
	size_t *done[3 * BATCH_JOBS];
	uint32_t n;
};

static void add_span(struct batch_spans *b, gaddr_t addr, void *buf, size_t len, size_t *done)
{
	b->done[b->n] = done;
	b->v[b->n++] = (struct span){ .addr = addr, .buf = buf, .len = len };
}

static void add_reading(struct batch_spans *b, const struct piece *p, struct reading *into)
{
	add_span(b, p->start.at.sp, into->bytes, p->len, &into->done);
}

static void add_header(struct batch_spans *b, const struct reader *r, const struct piece *p, struct header *into)
{
	add_span(b, p->job->look.g, into->bytes, r->g_span, &into->done);
}

static struct error *read_spans(struct batch_spans *b, const struct reader *r)
{
	struct error *err = target_read_v(r->target, b->v, b->n);

	for (uint32_t i = 0; !err && i < b->n; i++)
		*b->done[i] = b->v[i].done;
	return err;
}

/* A batch that takes too long proves nothing, and all of it is read again: where memory is slow it is smaller. */
static void adapt_batch(struct stack_reader *sr)
{
	if (sr->first_ns > WAITING_NS && sr->n > 1)
		sr->batch = sr->n / 2;
	else if (sr->first_ns < WAITING_NS / 2 && sr->n == sr->batch && sr->batch < BATCH_JOBS)
		sr->batch++;
}

/* Stacks between headers, in one call: nothing of ours comes between. */
static struct error *read_first(struct stack_reader *sr, const struct reader *r)
{
	struct batch_spans b = { .n = 0 };
	uint64_t begin = reader_now(r);
	struct error *err;

	for (uint32_t i = 0; i < sr->n; i++) {
		struct piece *p = &sr->pieces[i];

		add_header(&b, r, p, &p->before);
		add_reading(&b, p, &p->first);
		add_header(&b, r, p, &p->after);
	}
	err = read_spans(&b, r);
	sr->first_ns = reader_now(r) - begin;
	adapt_batch(sr);
	return err;
}

/* Second readings of stacks, then the last headers. */
static struct error *read_second(struct stack_reader *sr, const struct reader *r)
{
	struct batch_spans b = { .n = 0 };

	for (uint32_t i = 0; i < sr->n; i++) {
		struct piece *p = &sr->pieces[i];

		if (p->twice)
			add_reading(&b, p, &p->second);
		if (p->confirm)
			add_header(&b, r, p, &p->last);
	}
	return b.n ? read_spans(&b, r) : NULL;
}

static bool header_holds(const struct reader *r, const struct stack_job *job, const struct header *header)
{
	struct g_look after;

	if (header->done != r->g_span)
		return false;
	g_parse(r->layout, job->look.g, header->bytes, &after);
	/* A stack that the collector is scanning may be shrunk, that is moved, under our reading. */
	return after.fingerprint == job->look.fingerprint && after.status == job->look.status &&
	       after.stack_lo == job->look.stack_lo && after.labels == job->look.labels && after.scan == job->look.scan;
}

/* Frames of a walk, in an array of sr->depth. */
struct walked {
	struct pc_frame *frames;
	size_t n;
	enum unwind_end end;
};

static void walk(struct stack_reader *sr, const struct reader *r, const struct piece *p,
		 const struct reading *from, struct walked *ret)
{
	const struct mem_view view = { .low = p->start.at.sp, .len = from->done, .bytes = from->bytes };
	const struct unwind_memory mem = { .views = &view, .n = 1 };

	ret->n = unwind(r->rt, &p->start, &mem, ret->frames, sr->depth, &ret->end);
}

static bool same_frames(const struct walked *a, const struct walked *b)
{
	if (a->n != b->n || a->end != b->end)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->frames[i].pc != b->frames[i].pc || a->frames[i].kind != b->frames[i].kind)
			return false;
	return true;
}

/* Two readings, of which the header cannot tell whether the goroutine ran meanwhile. */
static bool stood_still(struct stack_reader *sr, const struct reader *r, const struct walked *first,
			const struct walked *second)
{
	return same_frames(first, second) && !audit_stack(&sr->audit, r->rt, first->frames, first->n, false);
}

static void accept_stack(const struct walked *w, struct stack_result *res)
{
	res->outcome = STACK_READ;
	res->frames = w->frames;
	res->n = w->n;
	res->end = w->end;
}

static bool headers_hold(const struct reader *r, const struct piece *p)
{
	return header_holds(r, p->job, &p->before) && header_holds(r, p->job, &p->after) &&
	       (!p->confirm || header_holds(r, p->job, &p->last));
}

/* Walks one piece; fills the outcome. */
static void judge(struct stack_reader *sr, const struct reader *r, const struct piece *p,
		  struct stack_result *res)
{
	struct walked first = { .frames = sr->frames }, second = { .frames = sr->again };
	bool proven = p->counted && counter_proves(r, &p->job->look, sr->first_ns);

	res->outcome = STACK_MOVED;
	if (!headers_hold(r, p) || (!proven && !p->twice))
		return;
	walk(sr, r, p, &p->first, &first);
	if (!proven)
		walk(sr, r, p, &p->second, &second);
	if (!proven && !stood_still(sr, r, &first, &second))
		return;
	accept_stack(&first, res);
	if (!sr->has_counter)
		res->print = p->first.done == p->len ? stand_in_print(&p->job->look, p->first.bytes, p->len) : 0;
	else if (p->counted)
		res->print = p->job->look.fingerprint;
}

static struct error *push_retry(struct stack_reader *sr, const struct stack_job *job)
{
	struct error *err = array_reserve(&sr->retry, &sr->cap_retry, sr->n_retry + 1, sizeof(*job));

	if (!err)
		sr->retry[sr->n_retry++] = *job;
	return err;
}

static bool tried_again(const struct stack_result *res)
{
	return res->outcome == STACK_MOVED && !res->retried;
}

/* One result goes to the caller, or the goroutine is tried once more. */
static struct error *hand_out(struct stack_reader *sr, const struct run *run, const struct stack_result *res)
{
	return tried_again(res) ? push_retry(sr, res->job) : run->done(run->ctx, res);
}

/* After an exec the same addresses are another program's: nothing that was read counts. */
static struct error *still_there(const struct reader *r)
{
	return target_life(r->target) == TARGET_ALIVE ? NULL : &err_gone;
}

static void call_between(const struct run *run, const struct stack_job *job)
{
	if (run->between)
		run->between(run->ctx, job, 1);
}

/* Reads and hands out the batch. */
static struct error *flush(struct stack_reader *sr, const struct run *run)
{
	const struct reader *r = run->r;
	bool alive = false;
	uint64_t after;
	struct error *err;

	if (!sr->n)
		return NULL;
	err = read_first(sr, r);
	if (err)
		return err;
	for (uint32_t i = 0; i < sr->n; i++)
		call_between(run, sr->pieces[i].job);
	err = read_second(sr, r);
	after = reader_now(r);
	for (uint32_t i = 0; !err && i < sr->n; i++) {
		const struct piece *p = &sr->pieces[i];
		struct stack_result res = { .job = p->job, .retried = run->retried,
					    .t_before = p->job->look.t_before, .t_after = after };

		judge(sr, r, p, &res);
		/* What was read between two headers that hold was read of this program; nothing is said of the others yet. */
		if (res.outcome != STACK_READ && !tried_again(&res) && !alive) {
			err = still_there(r);
			alive = true;
		}
		if (!err)
			err = hand_out(sr, run, &res);
	}
	sr->n = 0;
	sr->used = 0;
	return err;
}

/* ---- long stacks ---- */

static uint64_t most_bytes(struct stack_reader *sr)
{
	uint64_t likely = (uint64_t)sr->depth * BYTES_PER_FRAME;

	if (sr->whole)
		return WHOLE_BYTES;
	return sr->long_bytes < RUN_BYTES && likely > STACK_BATCH_MAX ? likely : STACK_BATCH_MAX;
}

static struct error *read_header(const struct reader *r, const struct stack_job *job, struct header *ret)
{
	struct span s = { .addr = job->look.g, .buf = ret->bytes, .len = r->g_span };
	struct error *err = target_read_v(r->target, &s, 1);

	ret->done = s.done;
	return err;
}

/* A stack that is long enough to be read by itself, between readings of its header. */
static struct error *read_long(struct stack_reader *sr, const struct run *run, const struct stack_job *job,
			       const struct unwind_start *start, struct stack_result *res)
{
	const struct reader *r = run->r;
	struct walked first = { .frames = sr->frames }, second = { .frames = sr->again };
	uint64_t most = most_bytes(sr), used = used_bytes(start), begin = reader_now(r);
	struct header before, after, last;
	bool proven;
	struct error *err = read_header(r, job, &before);

	sr->long_bytes += used < most ? used : STACK_BATCH_MAX;
	if (!err)
		err = deep_walk(r, start, most, sr->buffer, first.frames, sr->depth, &first.n, &first.end);
	if (!err)
		err = read_header(r, job, &after);
	proven = counter_holds(sr, r, &job->look) && counter_proves(r, &job->look, reader_now(r) - begin);
	call_between(run, job);
	if (!err && !proven)
		err = deep_walk(r, start, most, sr->buffer, second.frames, sr->depth, &second.n, &second.end);
	if (!err)
		err = read_header(r, job, &last);
	if (!err)
		err = still_there(r);
	if (!err && header_holds(r, job, &before) && header_holds(r, job, &after) &&
	    header_holds(r, job, &last) && (proven || stood_still(sr, r, &first, &second))) {
		accept_stack(&first, res);
		/* Its first bytes are nowhere any more: nothing stands in for the counter. */
		res->print = counter_holds(sr, r, &job->look) ? job->look.fingerprint : 0;
	}
	return err;
}

/* The batch must be empty: its buffer is used. */
static struct error *do_long(struct stack_reader *sr, const struct run *run, const struct stack_job *job,
			     const struct unwind_start *start)
{
	struct stack_result res = { .job = job, .outcome = STACK_MOVED, .retried = run->retried,
				    .t_before = job->look.t_before };
	struct error *err = read_long(sr, run, job, start, &res);

	res.t_after = reader_now(run->r);
	return err ? err : hand_out(sr, run, &res);
}

/* ---- all of them ---- */

/* One stack: into the batch, or by itself. */
static struct error *take_stack(struct stack_reader *sr, const struct run *run, const struct stack_job *job,
				const struct unwind_start *start)
{
	bool is_long = used_bytes(start) > STACK_BATCH_MAX;
	struct error *err;

	if (!is_long && add_piece(sr, run, job, start))
		return NULL;
	err = flush(sr, run);
	if (err)
		return err;
	if (is_long)
		return do_long(sr, run, job, start);
	add_piece(sr, run, job, start);
	return NULL;
}

bool is_parked(const struct g_look *look, struct unwind_start *start)
{
	return unwind_start_parked(look, start) && start->at.sp >= start->at.lo &&
	       start->at.sp < start->at.hi;
}

static struct error *report_moved(const struct run *run, const struct stack_job *job)
{
	struct stack_result res = { .job = job, .outcome = STACK_MOVED, .retried = run->retried,
				    .t_before = job->look.t_before, .t_after = job->look.t_after };

	return run->done(run->ctx, &res);
}

/* The second and last try of a goroutine that had moved on: from a fresh header. */
static struct error *try_again(struct stack_reader *sr, const struct run *run, struct stack_job *job)
{
	uint8_t bytes[GO_G_SPAN_MAX];
	struct unwind_start start;
	struct g_look look;
	struct error *err;
	uint64_t before = reader_now(run->r);

	err = target_read(run->r->target, job->look.g, bytes, run->r->g_span);
	if (err)
		return err == &err_fault ? report_moved(run, job) : err;
	g_parse(run->r->layout, job->look.g, bytes, &look);
	look.t_before = before;
	look.t_after = reader_now(run->r);
	if (look.goid != job->look.goid)
		return report_moved(run, job);
	job->look = look;
	return is_parked(&look, &start) ? take_stack(sr, run, job, &start) : report_moved(run, job);
}

static struct error *run_retries(struct stack_reader *sr, struct run *run)
{
	struct error *err = NULL;

	run->retried = true;
	for (uint32_t i = 0; i < sr->n_retry && !err; i++) {
		err = try_again(sr, run, &sr->retry[i]);
		if (!err && sr->n == RETRY_JOBS)
			err = flush(sr, run);
	}
	return err ? err : flush(sr, run);
}

static struct error *run_all(struct stack_reader *sr, struct run *run, const struct stack_job *jobs, size_t n)
{
	struct error *err = NULL;

	for (size_t i = 0; i < n && !err; i++) {
		struct unwind_start start;

		if (is_parked(&jobs[i].look, &start))
			err = take_stack(sr, run, &jobs[i], &start);
		else
			err = push_retry(sr, &jobs[i]);
	}
	if (!err)
		err = flush(sr, run);
	return err ? err : run_retries(sr, run);
}

struct error *stack_reader_run(struct stack_reader *sr, const struct reader *r,
			       const struct stack_job *jobs, size_t n, stack_between *between,
			       stack_done *done, void *ctx)
{
	struct run run = { .r = r, .between = between, .done = done, .ctx = ctx };
	struct error *err;

	if (r->g_span > GO_G_SPAN_MAX)
		return &err_corrupt;
	sr->n_retry = 0;
	sr->has_counter = parks_have_counter(r);
	sr->long_bytes = 0;
	err = run_all(sr, &run, jobs, n);
	sr->n = 0;
	sr->used = 0;
	return err;
}
