/*
 * stacks.c: stacks of goroutines that are not on a CPU, read without stopping anything.
 *
 *	header (the caller's pass)  ->  stack  ->  [labels]  ->  [stack again]  ->  header
 *
 * A stack is believed only if the header after it equals the header before it, trackingSeq (a
 * counter of parks) included: without that counter a few reads in ten thousand were impossible
 * stacks, with it none. In a system call the counter stands still from Go 1.26 on, and before 1.17
 * there is none: there the stack is read twice and both readings must walk to the same frames.
 *
 * Read in small batches: the longer a batch, the more goroutines move under it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sample/sample_impl.h"

enum {
	BATCH_JOBS = 32,
	RETRY_JOBS = 8,		/* those that have moved once: smaller batches, shorter windows */
	BATCH_BYTES = 1 << 20,
	G_BYTES_MAX = 1024,
};

/* The bytes of a stack: all of it, or of a very deep one the near end and the far end. */
struct reading {
	uint8_t *near, *far;
	size_t near_done, far_done;
};

/* A job within a batch. */
struct piece {
	const struct stack_job *job;
	struct unwind_start start;
	gaddr_t near, far;		/* where the parts begin */
	uint32_t near_len, far_len;	/* far_len 0: near is all of it */
	bool twice;			/* two readings must agree */
	struct reading first, second;
	uint8_t header[G_BYTES_MAX];
	size_t header_done;
};

struct stack_reader {
	uint32_t depth;
	bool counted;			/* this version has the counter */
	struct pc_frame *frames, *again;
	struct stack_job *retry;	/* jobs whose header had moved on */
	uint32_t n_retry, cap_retry;
	uint8_t *buffer;
	size_t used;
	struct piece pieces[BATCH_JOBS];
	uint32_t n;
};

struct error *stack_reader_create(uint32_t depth, struct stack_reader **ret)
{
	struct stack_reader *sr = calloc(1, sizeof(*sr));

	if (!sr)
		return &err_nomem;
	sr->depth = depth;
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
	free(sr->frames);
	free(sr->again);
	free(sr->retry);
	free(sr->buffer);
	free(sr);
}

static void place_reading(struct stack_reader *sr, const struct piece *p, struct reading *into)
{
	*into = (struct reading){ .near = sr->buffer + sr->used };
	into->far = into->near + p->near_len;
	sr->used += p->near_len + p->far_len;
}

/* Room in the batch for a job's readings; false: flush first. */
static bool add_piece(struct stack_reader *sr, const struct stack_job *job, const struct unwind_start *start)
{
	uint64_t used = start->at.hi - start->at.sp;
	bool deep = used > STACK_READ_MAX + STACK_FAR_BYTES;
	struct piece *p = &sr->pieces[sr->n];

	if (sr->n == BATCH_JOBS)
		return false;
	p->job = job;
	p->start = *start;
	p->near = start->at.sp;
	p->near_len = deep ? STACK_READ_MAX : used;
	p->far = start->at.hi - STACK_FAR_BYTES;
	p->far_len = deep ? STACK_FAR_BYTES : 0;
	p->twice = job->look.status == G_SYSCALL || !sr->counted;
	if (sr->used + (p->twice ? 2 : 1) * ((size_t)p->near_len + p->far_len) > BATCH_BYTES)
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
	add_span(b, p->near, into->near, p->near_len, &into->near_done);
	if (p->far_len)
		add_span(b, p->far, into->far, p->far_len, &into->far_done);
}

static struct error *read_spans(struct batch_spans *b, const struct reader *r)
{
	struct error *err = target_read_v(r->target, b->v, b->n);

	for (uint32_t i = 0; !err && i < b->n; i++)
		*b->done[i] = b->v[i].done;
	return err;
}

static struct error *read_first(struct stack_reader *sr, const struct reader *r)
{
	struct batch_spans b = { .n = 0 };

	for (uint32_t i = 0; i < sr->n; i++)
		add_reading(&b, &sr->pieces[i], &sr->pieces[i].first);
	return read_spans(&b, r);
}

/* Second readings of stacks, then all headers, in this order. */
static struct error *read_second(struct stack_reader *sr, const struct reader *r)
{
	struct batch_spans b = { .n = 0 };

	for (uint32_t i = 0; i < sr->n; i++)
		if (sr->pieces[i].twice)
			add_reading(&b, &sr->pieces[i], &sr->pieces[i].second);
	for (uint32_t i = 0; i < sr->n; i++) {
		struct piece *p = &sr->pieces[i];

		add_span(&b, p->job->look.g, p->header, r->g_span, &p->header_done);
	}
	return read_spans(&b, r);
}

static bool header_holds(const struct piece *p, const struct reader *r)
{
	struct g_look after;

	if (p->header_done != r->g_span ||
	    g_fingerprint(r->layout, p->header) != p->job->look.fingerprint)
		return false;
	g_parse(r->layout, p->job->look.g, p->header, &after);
	/* A stack that the collector is scanning may be shrunk, that is moved, under our reading. */
	return after.status == p->job->look.status && after.stack_lo == p->job->look.stack_lo &&
	       after.labels == p->job->look.labels && after.scan == p->job->look.scan;
}

static size_t walk(const struct reader *r, const struct piece *p, const struct reading *from,
		   struct pc_frame *out, uint32_t depth, enum unwind_end *end)
{
	const struct mem_view views[] = {
		{ .low = p->near, .len = from->near_done, .bytes = from->near },
		{ .low = p->far, .len = from->far_done, .bytes = from->far },
	};
	const struct unwind_memory mem = { .views = views, .n = p->far_len ? 2 : 1 };

	return unwind(r->rt, &p->start, &mem, out, depth, end);
}

static bool same_frames(const struct pc_frame *a, const struct pc_frame *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i].pc != b[i].pc || a[i].kind != b[i].kind)
			return false;
	return true;
}

/* Walks one piece; fills the outcome. */
static void judge(struct stack_reader *sr, const struct reader *r, const struct piece *p,
		  struct stack_result *res)
{
	enum unwind_end again_end;
	size_t again;

	res->outcome = STACK_MOVED;
	if (!header_holds(p, r))
		return;
	res->n = walk(r, p, &p->first, sr->frames, sr->depth, &res->end);
	/* The walk came to the gap between near and far: cut, not broken. */
	if (res->end == UNWIND_NO_MEMORY && p->far_len)
		res->end = UNWIND_DEPTH;
	res->frames = sr->frames;
	if (p->twice) {
		again = walk(r, p, &p->second, sr->again, sr->depth, &again_end);
		if (again_end == UNWIND_NO_MEMORY && p->far_len)
			again_end = UNWIND_DEPTH;
		if (again != res->n || again_end != res->end || !same_frames(sr->frames, sr->again, again))
			return;
	}
	res->outcome = STACK_READ;
}

static struct error *push_retry(struct stack_reader *sr, const struct stack_job *job)
{
	struct error *err = array_reserve(&sr->retry, &sr->cap_retry, sr->n_retry + 1, sizeof(*job));

	if (!err)
		sr->retry[sr->n_retry++] = *job;
	return err;
}

static struct error *flush(struct stack_reader *sr, const struct reader *r, bool retried,
			   stack_between *between, stack_done *done, void *ctx)
{
	uint64_t after;
	struct error *err;

	if (!sr->n)
		return NULL;
	err = read_first(sr, r);
	if (err)
		return err;
	if (between)
		for (uint32_t i = 0; i < sr->n; i++)
			between(ctx, sr->pieces[i].job, 1);
	err = read_second(sr, r);
	after = reader_now(r);
	/* After an exec the same addresses are another program's: nothing of this batch counts. */
	if (!err && target_life(r->target) != TARGET_ALIVE)
		err = &err_gone;
	for (uint32_t i = 0; !err && i < sr->n; i++) {
		const struct piece *p = &sr->pieces[i];
		struct stack_result res = { .job = p->job, .retried = retried,
					    .t_before = p->job->look.t_before, .t_after = after };

		judge(sr, r, p, &res);
		if (res.outcome == STACK_MOVED && !retried)
			err = push_retry(sr, p->job);
		else
			err = done(ctx, &res);
	}
	sr->n = 0;
	sr->used = 0;
	return err;
}

/* A stack that can be walked now: parked, with sp inside its bounds. */
static bool parked(const struct g_look *look, struct unwind_start *start)
{
	return unwind_start_parked(look, start) && start->at.sp >= start->at.lo &&
	       start->at.sp < start->at.hi;
}

static struct error *report_moved(const struct stack_job *job, bool retried, stack_done *done, void *ctx)
{
	struct stack_result res = { .job = job, .outcome = STACK_MOVED, .retried = retried,
				    .t_before = job->look.t_before, .t_after = job->look.t_after };

	return done(ctx, &res);
}

/* The second and last try of a goroutine that had moved on: from a fresh header. */
static struct error *try_again(struct stack_reader *sr, const struct reader *r, struct stack_job *job,
			       stack_done *done, void *ctx)
{
	uint8_t bytes[G_BYTES_MAX];
	struct unwind_start start;
	struct g_look look;
	struct error *err;
	uint64_t before = reader_now(r);

	err = target_read(r->target, job->look.g, bytes, r->g_span);
	if (err)
		return err == &err_fault ? report_moved(job, true, done, ctx) : err;
	g_parse(r->layout, job->look.g, bytes, &look);
	look.t_before = before;
	look.t_after = reader_now(r);
	if (look.goid != job->look.goid)
		return report_moved(job, true, done, ctx);
	job->look = look;
	if (!parked(&look, &start) || !add_piece(sr, job, &start))
		return report_moved(job, true, done, ctx);
	return NULL;
}

static struct error *run_retries(struct stack_reader *sr, const struct reader *r, stack_between *between,
				 stack_done *done, void *ctx)
{
	struct error *err = NULL;

	for (uint32_t i = 0; i < sr->n_retry && !err; i++) {
		err = try_again(sr, r, &sr->retry[i], done, ctx);
		if (!err && sr->n == RETRY_JOBS)
			err = flush(sr, r, true, between, done, ctx);
	}
	return err ? err : flush(sr, r, true, between, done, ctx);
}

struct error *stack_reader_run(struct stack_reader *sr, const struct reader *r,
			       const struct stack_job *jobs, size_t n, stack_between *between,
			       stack_done *done, void *ctx)
{
	struct error *err = NULL;

	if (r->g_span > G_BYTES_MAX)
		return &err_corrupt;
	sr->n_retry = 0;
	sr->counted = go_has(r->layout, GO_G_TRACKINGSEQ);
	for (size_t i = 0; i < n && !err; i++) {
		struct unwind_start start;

		if (!parked(&jobs[i].look, &start)) {
			err = push_retry(sr, &jobs[i]);
			continue;
		}
		if (add_piece(sr, &jobs[i], &start))
			continue;
		err = flush(sr, r, false, between, done, ctx);
		if (!err)
			add_piece(sr, &jobs[i], &start);
	}
	if (!err)
		err = flush(sr, r, false, between, done, ctx);
	if (!err)
		err = run_retries(sr, r, between, done, ctx);
	sr->n = 0;
	sr->used = 0;
	return err;
}
