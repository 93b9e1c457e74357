/*
 * session.c: one watched process as a machine of six phases. A row of the table below is what one
 * step does in a phase; everything that can happen to a process (it becomes Go, calls exec,
 * ends) is an expected event with a phase of its own.
 *
 * Must not know whether the process is a child (run.c) or a stranger (attach.c).
 */
#include "cmd/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/outputs.h"
#include "cmd/recording.h"
#include "cmd/session_impl.h"
#include "cmd/signals.h"
#include "cmd/words.h"
#include "go/go.h"
#include "sentry/sentry.h"
#include "target/lock.h"
#include "target/target.h"
#include "target/tracer.h"

enum {
	WAIT_LOOK_NS = 10 * NSEC_PER_MSEC,	/* between looks for an exec */
	WAIT_START_NS = 500 * NSEC_PER_USEC,	/* while the runtime comes up: it takes about 1 ms */
	WAIT_CLOSED_NS = 100 * NSEC_PER_MSEC,	/* between attempts to open what refuses */
	START_SLOW_NS = NSEC_PER_SEC / 5,	/* after that it is not the runtime that we wait for */
	START_FAILS_S = 5,			/* no process that was there before takes so long */
	EXEC_SETTLES_NS = NSEC_PER_SEC / 2,	/* a program seen in the middle of its exec looks broken */
};

static uint64_t now(void)
{
	return system_clock.mono(&system_clock);
}

/* ---- opening and closing a program ---- */

static void forget_program(struct session *s)
{
	go_process_close(s->go);
	s->go = NULL;
	s->runtime = NULL;
	target_close(s->target);
	s->target = NULL;
}

/* Keeps why this program is not recorded. */
static void refuse(struct session *s, struct error *err)
{
	error_free(s->refusal);
	s->refusal = err;
	s->phase = SESSION_SEARCHING;
}

static struct error *open_program(struct session *s)
{
	const struct go_options go = { .strict = s->options->strict, .runtime = s->options->runtime };
	const char *exe;
	struct error *err;

	forget_program(s);
	s->tried = now();
	err = target_open_live(s->pid, &s->target);
	if (err)
		return err;
	if (!s->lock)
		err = target_lock_take(s->target, getenv("XDG_RUNTIME_DIR"), &s->lock);
	if (err)
		return err;
	exe = recording_exe(s->target, &s->arena);
	s->exe = exe ? exe : "";
	s->go_version = "";
	err = go_process_open(s->target, &go, &s->go);
	if (!err && !go_process_runtimes(s->go))
		err = error_new(ERROR_NOT_GO, "%s is not a Go program", s->exe);
	if (err)
		return err;
	s->runtime = go_process_runtime(s->go, 0);
	s->go_version = go_runtime_build(s->runtime)->version;
	s->phase = SESSION_STARTING;
	s->since = now();
	error_free(s->refusal);
	s->refusal = NULL;
	log_info("session", "%d is %s (%s)", (int)s->pid, s->exe, s->go_version);
	return NULL;
}

void session_watch(struct session *s, struct tracer *tr, pid_t pid)
{
	struct error *err;

	s->tracer = tr;
	s->pid = pid;
	s->appeared = now();
	err = open_program(s);
	if (err)
		refuse(s, err);
}

static void stop_recording(struct session *s)
{
	struct recording_result *v = NULL;
	struct recording *r = take(s->recording);

	if (s->phase != SESSION_ENDED)
		s->phase = SESSION_OVER;
	if (!r)
		return;
	s->recorded_ns += recording_age(r);
	s->ticks += recording_ticks(r);
	session_fail(s, recording_end(r, &v));
	if (!v)
		return;
	session_fail(s, take(v->error));
	*s->results_last = v;
	s->results_last = &v->next;
}

/* Another program under the same pid. */
static void reopen(struct session *s)
{
	struct error *err;

	stop_recording(s);
	s->execed = true;
	s->appeared = now();
	err = open_program(s);
	if (!err)
		return;
	if (err->kind != ERROR_NO_PROCESS && err->kind != ERROR_GONE) {
		refuse(s, err);
		return;
	}
	error_free(err);
	s->phase = SESSION_ENDED;
}

/* ---- phases ---- */

typedef void phase_step(struct session *s, uint64_t *wait_ns);

static void step_idle(struct session *s, uint64_t *wait_ns)
{
	(void)s;
	*wait_ns = WAIT_LOOK_NS;
}

/* exec and end, for the phases in which no sampler looks for them. */
static bool has_changed(struct session *s)
{
	enum target_life life = s->target ? target_life(s->target) : TARGET_EXECED;

	if (life == TARGET_ALIVE)
		return false;
	if (life == TARGET_EXECED)
		reopen(s);
	else
		s->phase = SESSION_ENDED;
	return true;
}

bool session_may_settle(const struct session *s)
{
	return s->refusal && s->refusal->kind != ERROR_NOT_GO && now() - s->appeared < EXEC_SETTLES_NS;
}

/*
 * Go that could not be read, but so new that this may change by itself; or no Go, which a loader, a
 * packer or a library may still bring: that is looked at again each time its age has doubled.
 */
static bool is_unsettled(const struct session *s)
{
	if (s->refusal && s->refusal->kind == ERROR_NOT_GO)
		return now() - s->tried >= s->tried - s->appeared;
	return session_may_settle(s);
}

static void open_again(struct session *s)
{
	struct error *err = open_program(s);

	if (err)
		refuse(s, err);
}

static void step_searching(struct session *s, uint64_t *wait_ns)
{
	/* What could not even be opened is tried again, but not often. */
	*wait_ns = s->target ? WAIT_LOOK_NS : WAIT_CLOSED_NS;
	if (s->target || now() - s->since >= WAIT_CLOSED_NS) {
		s->since = now();
		if (!has_changed(s) && is_unsettled(s))
			open_again(s);
	}
	if (s->phase == SESSION_STARTING)
		*wait_ns = 0;
}

static void begin_recording(struct session *s)
{
	struct recording_parts parts = {
		.options = s->options, .clock = &system_clock, .command = s->options->command->name,
		.target = s->target, .runtime = s->runtime, .tracer = s->tracer,
		.outputs = s->outputs,
	};
	struct error *err = recording_begin(&parts, &s->recording);

	if (err && (err->kind == ERROR_GONE || err->kind == ERROR_NO_PROCESS)) {
		/* It ended, or called exec, under our hands. */
		error_free(err);
		if (!has_changed(s))
			s->phase = SESSION_ENDED;
		return;
	}
	if (err) {
		session_fail(s, err);
		s->phase = SESSION_OVER;
		return;
	}
	s->phase = SESSION_RECORDING;
	s->progress = now();
}

static void step_starting(struct session *s, uint64_t *wait_ns)
{
	struct error *err;

	*wait_ns = now() - s->since < START_SLOW_NS ? WAIT_START_NS : WAIT_LOOK_NS;
	if (has_changed(s))
		return;
	err = go_runtime_check(s->runtime);
	if (!err) {
		*wait_ns = 0;
		begin_recording(s);
	} else if (err != &err_end && err->kind != ERROR_GONE) {
		refuse(s, err);
	} else if (err == &err_end && s->options->command->bit & COMMAND_ATTACH &&
		   now() - s->since > START_FAILS_S * (uint64_t)NSEC_PER_SEC) {
		refuse(s, error_new(ERROR_UNSUPPORTED, "the Go runtime of %d does not come up", (int)s->pid));
	} else {
		error_free(err);	/* not up yet; or the next look finds the end */
	}
}

static void show_progress(struct session *s)
{
	char time[WORD_MAX], ticks[WORD_MAX], goroutines[WORD_MAX];

	if (!s->options->progress || now() - s->progress < NSEC_PER_SEC)
		return;
	s->progress += NSEC_PER_SEC;
	if (session_restricted(s))
		say("%s, %s ticks", duration_text(session_recorded_ns(s), time), count_text(session_ticks(s), ticks));
	else
		say("%s, %s goroutines, %s ticks", duration_text(session_recorded_ns(s), time),
		    count_text(session_goroutines(s), goroutines), count_text(session_ticks(s), ticks));
}

static void step_recording(struct session *s, uint64_t *wait_ns)
{
	enum sampler_event event = SAMPLER_TICKED;
	struct error *err = recording_tick(s->recording, &event);

	*wait_ns = 0;
	if (err && err->kind == ERROR_GONE) {
		error_free(err);
		err = NULL;
		event = target_life(s->target) == TARGET_EXECED ? SAMPLER_EXECED : SAMPLER_ENDED;
	}
	if (err) {
		session_fail(s, err);
		session_stop(s);
	} else if (event == SAMPLER_EXECED) {
		reopen(s);
	} else if (event == SAMPLER_ENDED) {
		session_stop(s);
		s->phase = SESSION_ENDED;
	} else {
		show_progress(s);
		if (s->options->duration && session_recorded_ns(s) >= s->options->duration)
			session_stop(s);
	}
}

static void step_over(struct session *s, uint64_t *wait_ns)
{
	*wait_ns = WAIT_LOOK_NS;
	if (s->target && target_life(s->target) == TARGET_ENDED)
		s->phase = SESSION_ENDED;
}

static phase_step *const steps[] = {
	[SESSION_IDLE] = step_idle,
	[SESSION_SEARCHING] = step_searching,
	[SESSION_STARTING] = step_starting,
	[SESSION_RECORDING] = step_recording,
	[SESSION_OVER] = step_over,
	[SESSION_ENDED] = step_idle,
};

void session_step(struct session *s, uint64_t *wait_ns)
{
	steps[s->phase](s, wait_ns);
}

/* ---- ending ---- */

void session_fail(struct session *s, struct error *err)
{
	if (!err || s->failure) {
		error_free(err);
		return;
	}
	s->failure = err;
	s->has_failed = true;
}

void session_close_window(struct session *s)
{
	struct error *err = s->recording ? recording_close_window(s->recording) : NULL;

	if (!err)
		return;
	session_fail(s, err);
	session_stop(s);
}

void session_continued(struct session *s)
{
	if (s->recording)
		recording_continued(s->recording);
}

bool session_suspend(struct session *s)
{
	uint64_t since;
	struct error *err = NULL;

	/* A thread that comes to its stop while goprof sleeps would hang: then not yet. */
	if (s->target && !tracer_drain(s->tracer, s->target, NSEC_PER_SEC / 10))
		return false;
	since = now();
	if (s->recording)
		recording_pause(s->recording);
	signals_suspend();
	if (s->recording)
		err = recording_resume(s->recording, since);
	s->progress = now();
	if (err) {
		session_fail(s, err);
		session_stop(s);
	}
	return true;
}

void session_stop(struct session *s)
{
	stop_recording(s);
	target_lock_free(take(s->lock));
}
