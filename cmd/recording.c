/*
 * recording.c: ticks in, windows out. A window is settled (CPU time that is still owed) and detached from
 * the store at 29.5 s, or when it is full: microseconds. What becomes of it is the consumer's business, in a
 * thread of its own (consumer.c). Between two windows the store's tables begin anew when they have grown too
 * large. So memory stays the same however long the profile is.
 *
 * A consumer that has fallen behind, be it for outputs that are written slowly, has some time to catch up:
 * the window goes on a little, then sampling waits, and ticks are late. If that is not enough the window is
 * lost, which is told as an error.
 */
#include "cmd/recording.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/command.h"
#include "cmd/consumer.h"
#include "cmd/options.h"
#include "cmd/outputs.h"
#include "cmd/signals.h"
#include "cmd/words.h"
#include "export/export.h"
#include "go/go.h"
#include "target/target.h"

/* Less than that is within what a busy machine does to a tick, and not worth a cut. */
#define STALLED_NS (2ull * NSEC_PER_SEC)
/* The service takes no longer window. */
#define WINDOW_LONGEST_NS (30ull * NSEC_PER_SEC)
/* So long it goes on while there is no room for it. */
#define WINDOW_PUT_OFF_NS (29800 * (uint64_t)NSEC_PER_MSEC)
/* A full one is no shorter: a goroutine needs two looks to be told. */
#define WINDOW_SHORTEST_NS (1ull * NSEC_PER_SEC)
/* How long sampling waits for a consumer that is behind before a window is lost. */
#define CATCH_UP_NS (NSEC_PER_SEC / 2)

enum {
	MMAP_THRESHOLD = 128 * 1024,
	TRACKS_PER_TICK = 500,	/* prepared for a new epoch */
};

struct recording {
	struct recording_parts parts;
	struct arena arena;
	struct profile_meta meta;	/* strings in the arena */
	struct profile *profile;
	struct sampler *sampler;
	const char *looks;		/* where they come from, in short; a constant */
	struct consumer *consumer;
	bool outputs_begun;
	uint64_t start;			/* CLOCK_MONOTONIC; later by all pauses */
	uint64_t returned;		/* when the last tick, or another work of ours, was over */
	bool continued;			/* SIGCONT was taken since then */
	bool close_wanted;		/* and put off */
	uint32_t looked;		/* ticks that were done */
	uint32_t ticks;			/* of closed windows */
	uint32_t windows, lost;
	uint64_t lost_ns;
};

static uint64_t now(const struct recording *r)
{
	return r->parts.clock->mono(r->parts.clock);
}

bool recording_was_stopped(uint64_t gap_ns, uint64_t window_ns, bool continued)
{
	return gap_ns > STALLED_NS &&
	       (continued || gap_ns > WINDOW_LONGEST_NS || window_ns > WINDOW_LONGEST_NS);
}

/* Since then; 0 is never. */
static bool was_stopped(const struct recording *r, uint64_t since)
{
	uint64_t t = now(r);

	/* Asked several times per tick: the rest only when it may matter. */
	return since && since < t && t - since > STALLED_NS &&
	       recording_was_stopped(t - since, profile_window_age(r->profile, t),
				     r->continued || signals_continued());
}

static bool sampler_was_stopped(void *ctx, uint64_t since)
{
	return was_stopped(ctx, since);
}

static struct error *begin_outputs(struct recording *r)
{
	struct output_names names = {
		.program = r->meta.program, .pid = r->meta.pid,
		.start_real = r->parts.clock->real(r->parts.clock),
	};
	struct error *err = outputs_begin(r->parts.outputs, &names);

	r->outputs_begun = !err;
	return err;
}

/* In the consumer's thread. */
static struct error *tell_window(void *ctx, const struct window *w)
{
	return outputs_window(ctx, w);
}

/* Where looks come from is known once the sampler is there. */
static struct error *tell_looks(struct recording *r)
{
	const char *why = sampler_looks_why(r->sampler);
	_cleanup_(buf_deinit) struct buf b;

	buf_init(&b);
	buf_addf(&b, "%s%s%s%s", sampler_looks(r->sampler), why ? " (" : "", why ? why : "", why ? ")" : "");
	r->looks = sampler_looks(r->sampler);
	r->meta.looks = b.data ? arena_strndup(&r->arena, b.data, b.len) : NULL;
	return r->meta.looks ? profile_set_meta(r->profile, &r->meta) : &err_nomem;
}

static struct error *begin_parts(struct recording *r)
{
	const struct recording_parts *p = &r->parts;
	struct sampler_parts sampler = {
		.target = p->target, .runtime = p->runtime, .tracer = p->tracer, .clock = p->clock,
	};
	struct sampler_options o = {
		.rate_hz = (uint32_t)p->options->rate, .depth = (uint32_t)p->options->depth,
		.looks = (enum sampler_looks)p->options->looks,
		.system = p->options->system, .native = !p->options->no_native,
		.seed = p->clock->mono(p->clock) ^ (uint64_t)target_pid(p->target) << 32,
		.was_stopped = sampler_was_stopped, .ctx = r,
	};
	struct error *err = recording_meta(p, &r->arena, &r->meta);

	if (!err)
		err = profile_create(p->clock, &r->meta, &r->profile);
	sampler.profile = r->profile;
	if (!err)
		err = begin_outputs(r);
	if (!err)
		err = consumer_create(tell_window, p->outputs, &r->consumer);
	if (!err)
		err = sampler_create(&sampler, &o, &r->sampler);
	return err ? err : tell_looks(r);
}

static void recording_cleanup(struct recording **r)
{
	recording_destroy(*r);
}

struct error *recording_begin(const struct recording_parts *parts, struct recording **ret)
{
	_cleanup_(recording_cleanup) struct recording *r = calloc(1, sizeof(*r));
	struct error *err;

	if (!r)
		return &err_nomem;
	/* What a window took goes back to the system with it: its pieces are larger than this, and stay so. */
	mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	r->parts = *parts;
	arena_init(&r->arena);
	err = begin_parts(r);
	if (err)
		return err;
	r->start = now(r);
	*ret = take(r);
	return NULL;
}

void recording_destroy(struct recording *r)
{
	if (!r)
		return;
	outputs_hurry(r->parts.outputs);
	consumer_destroy(r->consumer);
	if (r->outputs_begun)
		error_free(outputs_end(r->parts.outputs, false));
	sampler_destroy(r->sampler);
	profile_destroy(r->profile);
	arena_deinit(&r->arena);
	free(r);
}

/* Settled and detached; ERROR_NOT_FOUND when no tick was done since the last one. */
static struct error *detach_window(struct recording *r, uint64_t end, struct closed_window **ret)
{
	struct error *err = sampler_settle(r->sampler);

	/* A target that has ended owes nothing any more. */
	if (err && err->kind != ERROR_GONE)
		return err;
	error_free(err);
	return profile_detach_window(r->profile, end, ret);
}

/*
 * Too late for a consumer that does not come to an end. The next window tells of it, and of those that this
 * one would have told of.
 */
static void lose_window(struct recording *r, struct closed_window *w)
{
	uint64_t ns = closed_window_ns(w);

	profile_health_add(r->profile, HEALTH_WINDOWS_LOST, 1 + closed_window_health(w, HEALTH_WINDOWS_LOST));
	profile_health_add(r->profile, HEALTH_TIME_LOST, ns + closed_window_health(w, HEALTH_TIME_LOST));
	log_info("record", "a window of %u ticks is lost: the outputs are too slow", closed_window_ticks(w));
	closed_window_free(w);
	r->lost++;
	r->lost_ns += ns;
}

static void hand_over(struct recording *r, struct closed_window *w, uint64_t wait_ns)
{
	r->ticks += closed_window_ticks(w);
	/* One tick says nothing about time; alone it is no profile. */
	if (r->ticks < RECORDING_TICKS_LEAST) {
		closed_window_free(w);
		return;
	}
	r->windows++;
	if (consumer_has_room(r->consumer, wait_ns))
		consumer_put(r->consumer, w);
	else
		lose_window(r, w);
}

/* `wait_ns`: for a consumer that is behind. */
static struct error *end_window(struct recording *r, uint64_t end, uint64_t wait_ns)
{
	uint64_t begin = cpu_of_thread();
	struct closed_window *w;
	struct error *err = detach_window(r, end, &w);

	r->close_wanted = false;
	if (err && err->kind == ERROR_NOT_FOUND) {
		error_free(err);
		return NULL;
	}
	if (err)
		return err;
	hand_over(r, w, wait_ns);
	if (profile_epoch_over(r->profile)) {
		err = sampler_begin_epoch(r->sampler);
		profile_health_add(r->profile, HEALTH_EPOCHS, !err);
	}
	log_info("record", "window closed in %llu us", (unsigned long long)(cpu_of_thread() - begin) / 1000);
	return err ? err : consumer_take_error(r->consumer);
}

/* A target that has ended has no time after the tick that met its end, however late that was noticed. */
static uint64_t latest(const struct recording *r)
{
	uint64_t last = sampler_last_tick(r->sampler);

	return target_life(r->parts.target) == TARGET_ALIVE || now(r) < last ? now(r) : last;
}

struct error *recording_close_window(struct recording *r)
{
	struct error *err = NULL;

	r->close_wanted = true;
	if (consumer_has_room(r->consumer, 0))
		err = end_window(r, latest(r), 0);
	/* A slow output is no stop. */
	r->returned = now(r);
	return err;
}

void recording_pause(struct recording *r)
{
	/* What was used until now is told; what cannot be read, because the target has ended, is not. */
	error_free(sampler_settle(r->sampler));
}

struct error *recording_resume(struct recording *r, uint64_t paused_at)
{
	struct error *err = sampler_skip(r->sampler);
	uint64_t paused;

	/* It has ended meanwhile: the next tick will find that. */
	if (err && err->kind == ERROR_GONE) {
		error_free(err);
		err = NULL;
	}
	profile_cut(r->profile, paused_at);
	if (!err)
		err = end_window(r, paused_at, CATCH_UP_NS);
	paused = profile_skip(r->profile, now(r));
	profile_health_add(r->profile, HEALTH_PAUSED, paused);
	r->start += paused;
	r->returned = now(r);
	return err;
}

void recording_continued(struct recording *r)
{
	r->continued = true;
}

enum window_fate recording_window_fate(const struct window_facts *f)
{
	bool full = f->full && f->age_ns >= WINDOW_SHORTEST_NS;

	if (!full && !f->wanted && f->age_ns < WINDOW_NS)
		return WINDOW_GOES_ON;
	if (f->room)
		return WINDOW_ENDS;
	return full || f->age_ns >= WINDOW_PUT_OFF_NS ? WINDOW_ENDS_ANYWAY : WINDOW_GOES_ON;
}

static struct error *end_if_due(struct recording *r)
{
	const struct window_facts f = {
		/* Before the next tick, which may come two periods later, would be beyond its end. */
		.age_ns = profile_window_age(r->profile, now(r)) + 2 * NSEC_PER_SEC / r->parts.options->rate,
		.full = profile_window_full(r->profile),
		.wanted = r->close_wanted,
		.room = consumer_has_room(r->consumer, 0),
	};
	struct error *err;

	if (recording_window_fate(&f) == WINDOW_GOES_ON)
		return NULL;
	err = end_window(r, latest(r), CATCH_UP_NS);
	r->returned = now(r);
	return err;
}

/* In time before the window's end, some tracks at each tick: 0.2 ms. */
static struct error *prepare_epoch(struct recording *r)
{
	uint64_t ticks = profile_track_count(r->profile) / TRACKS_PER_TICK + 2;
	uint64_t age = profile_window_age(r->profile, now(r));

	if (!profile_epoch_over(r->profile) || age + ticks * NSEC_PER_SEC / r->parts.options->rate < WINDOW_NS)
		return NULL;
	return profile_prepare_epoch(r->profile, TRACKS_PER_TICK);
}

static struct error *tick(struct recording *r, enum sampler_event *ret)
{
	struct error *err = NULL;

	/* Stopped without a word before (SIGSTOP): since the last tick, in its sleep, or in the middle of it. */
	if (was_stopped(r, r->returned))
		err = recording_resume(r, r->returned);
	if (!err)
		err = sampler_tick(r->sampler, ret);
	if (!err && (*ret == SAMPLER_STALLED ||
		     (*ret == SAMPLER_TICKED && was_stopped(r, sampler_last_tick(r->sampler))))) {
		*ret = SAMPLER_TICKED;
		return recording_resume(r, sampler_last_tick(r->sampler));
	}
	if (err || *ret != SAMPLER_TICKED)
		return err;
	r->looked++;
	err = prepare_epoch(r);
	return err ? err : end_if_due(r);
}

struct error *recording_tick(struct recording *r, enum sampler_event *ret)
{
	struct error *err = tick(r, ret);

	r->returned = now(r);
	r->continued = false;
	return err;
}

uint64_t recording_age(const struct recording *r)
{
	return now(r) - r->start;
}

uint32_t recording_ticks(const struct recording *r)
{
	return r->looked;
}

uint32_t recording_goroutines(const struct recording *r)
{
	return sampler_goroutines(r->sampler);
}

static struct error *collect(struct recording *r, struct recording_result *v)
{
	const struct options *o = r->parts.options;
	struct error *err;

	v->ticks = r->ticks;
	v->kept = r->ticks >= RECORDING_TICKS_LEAST;
	v->exe = recording_exe(r->parts.target, &v->arena);
	v->go_version = arena_strndup(&v->arena, r->meta.go_version, strlen(r->meta.go_version));
	if (!v->exe || !v->go_version)
		return &err_nomem;
	if (r->meta.restricted) {
		v->summary.restricted = arena_strndup(&v->arena, r->meta.restricted, strlen(r->meta.restricted));
		if (!v->summary.restricted)
			return &err_nomem;
	}
	v->summary.looks = r->looks;
	err = recording_tables(consumer_aggregate(r->consumer), v);
	outputs_health(r->parts.outputs, v->summary.health);
	/* Those that no later window could tell of, too. */
	v->summary.health[HEALTH_WINDOWS_LOST] = r->lost;
	v->summary.health[HEALTH_TIME_LOST] = r->lost_ns;
	v->summary.attached = o->command && (o->command->bit & COMMAND_ATTACH);
	v->summary.rate_hz = (uint32_t)o->rate;
	v->summary.every_figure = o->verbose;
	return err;
}

static void result_cleanup(struct recording_result **v)
{
	recording_result_free(*v);
}

static struct error *lost_error(const struct recording *r)
{
	char lost[WORD_MAX], all[WORD_MAX];

	if (!r->lost)
		return NULL;
	return error_todo(error_why(error_new(ERROR_OUTPUT, "%u of %u windows are lost: %s of %s", r->lost, r->windows,
					      duration_text(r->lost_ns, lost), duration_text(recording_age(r), all)),
				    "they were not made into outputs, or those not written, as fast as they came"),
			  "write to a faster place, use fewer outputs, or leave goprof more CPU time");
}

/* All that was recorded is told, and the outputs are closed. */
static struct error *end_outputs(struct recording *r, struct recording_result *v)
{
	struct error *err, *first;

	outputs_hurry(r->parts.outputs);
	err = end_window(r, latest(r), UINT64_MAX);
	consumer_join(r->consumer);
	first = consumer_take_error(r->consumer);
	/* What was recorded before a failure is still worth its file. */
	v->error = outputs_end(r->parts.outputs, r->ticks >= RECORDING_TICKS_LEAST);
	r->outputs_begun = false;
	if (!v->error)
		v->error = lost_error(r);
	if (!err)
		return first;
	error_free(first);
	return err;
}

struct error *recording_end(struct recording *r, struct recording_result **ret)
{
	_cleanup_(recording_cleanup) struct recording *owned = r;
	_cleanup_(result_cleanup) struct recording_result *v = calloc(1, sizeof(*v));
	struct error *err;

	if (!v)
		return &err_nomem;
	arena_init(&v->arena);
	v->ns = recording_age(owned);
	err = end_outputs(owned, v);
	if (!err)
		err = collect(owned, v);
	if (err)
		return err;
	*ret = take(v);
	return NULL;
}

void recording_result_free(struct recording_result *v)
{
	if (!v)
		return;
	error_free(v->error);
	arena_deinit(&v->arena);
	free(v);
}
