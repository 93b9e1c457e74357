/*
 * attach.c: goprof attach: a process that belongs to somebody else. It is never stopped as a
 * whole, never killed, and runs on whatever happens to goprof; the words say so.
 *
 * The first Ctrl-C (or SIGTERM) ends the profile and writes it, a second drops what is not
 * written yet.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/stop.h"
#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/recording.h"
#include "cmd/refused.h"
#include "cmd/report.h"
#include "cmd/session.h"
#include "cmd/signals.h"
#include "cmd/words.h"
#include "target/facility.h"
#include "target/target.h"
#include "target/tracer.h"

enum { STATUS_DROPPED = 130 };

struct attach {
	const struct options *o;
	pid_t pid;
	struct signals signals;
	struct tracer *tracer;
	bool suspend;			/* Ctrl-Z came */
	struct session *session;
	bool announced;
	uint64_t started, ns;
};

static uint64_t now(void)
{
	return system_clock.mono(&system_clock);
}

static void attach_deinit(struct attach *a)
{
	session_destroy(a->session);
	tracer_destroy(a->tracer);
	signals_close(&a->signals);
}

/* Why it cannot be recorded; one that ended under our eyes is no process any more. */
static struct error *refusal(const struct attach *a)
{
	struct error *err = session_take_refusal(a->session);

	if (!err || err->kind != ERROR_GONE)
		return err;
	error_free(err);
	return error_new(ERROR_NO_PROCESS, "%d ended before it could be profiled", (int)a->pid);
}

static struct error *start(struct attach *a)
{
	struct session_setup setup = {
		.options = a->o, .name = a->o->words[0], .command = a->o->words[0],
	};
	struct error *err = pid_read(a->o->command, a->o->words[0], &a->pid);

	if (!err)
		err = session_create(&setup, &a->session);
	if (!err)
		err = facility_check();
	if (!err)
		err = signals_open(SIGNALS_ATTACH, &a->signals);
	if (!err)
		err = tracer_create(&a->tracer);
	if (err)
		return err;
	session_watch(a->session, a->tracer, a->pid);
	if (session_phase(a->session) != SESSION_STARTING)
		return refusal(a);
	err = session_check_outputs(a->session);
	if (err)
		return err;
	session_announce_service(a->session);
	a->started = now();
	return NULL;
}

/* ---- while it is watched ---- */

/* There will be no CPU time to show: then it is better to know why. */
static void say_standstill(const struct attach *a)
{
	static const char *const words[] = {
		[TARGET_STOPPED] = "is stopped (by a signal such as SIGSTOP)",
		[TARGET_FROZEN] = "is frozen (by its cgroup)",
	};
	enum target_standstill how = target_standstill(session_target(a->session));

	if (how != TARGET_MOVES)
		say("%d %s: what is recorded stands still until it goes on", (int)a->pid, words[how]);
}

static void announce(struct attach *a)
{
	_cleanup_(buf_deinit) struct buf limit = { 0 };
	char n[WORD_MAX];

	if (a->announced || a->o->quiet || !session_ticks(a->session))
		return;
	a->announced = true;
	say_standstill(a);
	buf_init(&limit);
	report_limit_text(a->o->duration, &limit);
	if (session_restricted(a->session))
		say("attached to %d (%s, %s), RESTRICTED to threads on a CPU: %s; %s", (int)a->pid,
		    session_exe(a->session), session_go_version(a->session), session_restricted(a->session),
		    limit.data ? limit.data : "");
	else
		say("attached to %d (%s, %s), %s goroutine%s; %s", (int)a->pid, session_exe(a->session),
		    session_go_version(a->session), count_text(session_goroutines(a->session), n),
		    session_goroutines(a->session) == 1 ? "" : "s", limit.data ? limit.data : "");
}

/* True when the profile is to end. */
static bool take_signals(struct attach *a)
{
	struct signals_news news;

	signals_take(&a->signals, 0, &news);
	stop_requests += (int)news.stops;
	if (news.continued)
		session_continued(a->session);
	if (news.close_window)
		session_close_window(a->session);
	a->suspend |= news.suspend;
	if (a->suspend && session_suspend(a->session))
		a->suspend = false;
	return stop_requests > 0;
}

static void wait_for(uint64_t ns)
{
	system_clock.sleep_until(&system_clock, now() + ns);
}

/* After an exec: say what comes, or end because it cannot be recorded. */
static bool exec_ends_it(struct attach *a)
{
	const struct error *why = session_refusal(a->session);

	/* A program that is seen in the middle of its exec cannot be read yet. */
	if (session_phase(a->session) != SESSION_SEARCHING || session_may_settle(a->session))
		return false;
	if (a->o->quiet || !session_has_execed(a->session))
		return true;
	if (why && why->kind == ERROR_NOT_GO)
		say("%d called exec and became %s, which is not a Go program", (int)a->pid,
		    session_exe(a->session));
	else
		say("%d called exec and became %s%s%s", (int)a->pid, session_exe(a->session), why ? ": " : "",
		    why ? why->what : "");
	return true;
}

static void follow(struct attach *a)
{
	bool execed = false;

	while (!take_signals(a)) {
		enum session_phase phase;
		uint64_t wait_ns = 0;

		session_step(a->session, &wait_ns);
		announce(a);
		phase = session_phase(a->session);
		if (phase == SESSION_OVER || phase == SESSION_ENDED || exec_ends_it(a))
			return;
		if (phase == SESSION_STARTING && session_has_execed(a->session) && !execed) {
			execed = true;
			if (!a->o->quiet)
				say("%d called exec and became %s (%s); it is profiled on", (int)a->pid,
				    session_exe(a->session), session_go_version(a->session));
		}
		if (wait_ns)
			wait_for(wait_ns);
	}
}

/* ---- after it ---- */

static bool wants_to_go(void *ctx)
{
	struct attach *a = ctx;
	struct signals_news news;

	signals_take(&a->signals, 0, &news);
	stop_requests += (int)news.stops;
	return stop_requests > 1;
}

static void say_end(const struct attach *a, bool ended)
{
	char time[WORD_MAX];

	if (ended)
		say("%d ended after %s (its exit status belongs to its parent)", (int)a->pid,
		    duration_text(a->ns, time));
	else
		say("detached after %s; %d runs on", duration_text(a->ns, time), (int)a->pid);
}

static void report(const struct attach *a)
{
	_cleanup_(buf_deinit) struct buf b = { 0 };
	unsigned int parts = 0;

	for (const struct recording_result *v = session_results(a->session); v; v = v->next)
		parts += v->kept;
	for (const struct recording_result *v = session_results(a->session); v; v = v->next) {
		struct summary summary = v->summary;

		if (!v->kept)
			continue;
		buf_addc(&b, '\n');
		if (parts > 1)
			report_part_text(v->exe, v->go_version, v->ns, &b);
		summary.colour = options_colour(STDERR_FILENO);
		summary.mode = (enum profile_mode)a->o->mode;
		summary_text(&summary, &b);
	}
	session_files_text(a->session, &b);
	if (!parts && !session_has_failed(a->session))
		buf_adds(&b, "  too short for a profile (needs 2 ticks); no file written\n");
	if (!b.failed)
		fwrite(b.data, 1, b.len, stderr);
}

static struct error *finish(struct attach *a, int *status, bool *dropped)
{
	bool ended = session_phase(a->session) == SESSION_ENDED;
	struct error *err;

	a->ns = now() - a->started;
	session_stop(a->session);
	/* Nothing is held any more: the process is as it was, before the first byte is written. */
	if (!a->o->quiet)
		say_end(a, ended);
	err = session_finish(a->session, wants_to_go, a, dropped);
	if (*dropped)
		*status = STATUS_DROPPED;
	else if (!a->o->quiet)
		report(a);
	/* Go at first, but nothing of it could be recorded. */
	if (!err && !*dropped && !session_results(a->session))
		err = refusal(a);
	return err;
}

struct error *attach_command(const struct options *o, int *status)
{
	struct attach *a = calloc(1, sizeof(*a));
	bool dropped = false;
	struct error *err;

	if (!a)
		return &err_nomem;
	a->o = o;
	a->signals.fd = -1;
	err = start(a);
	if (!err) {
		follow(a);
		err = finish(a, status, &dropped);
	}
	if (dropped)
		return err;
	attach_deinit(a);
	free(a);
	return err;
}
