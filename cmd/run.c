/*
 * run.c: goprof run. The child is started at its exec and stopped before its first instruction,
 * watched from there, and let go; goprof says nothing until it has ended. Terminal, stdin, stdout
 * and stderr are the child's alone.
 *
 * Whatever becomes of the profile, once the child has started its end is goprof's end: the exit
 * status is the child's, signals sent to goprof are handed on, Ctrl-Z and fg work as without it.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/stop.h"
#include "cmd/children.h"
#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/program.h"
#include "cmd/recording.h"
#include "cmd/report.h"
#include "cmd/session.h"
#include "cmd/signals.h"
#include "cmd/summary.h"
#include "target/target.h"
#include "target/tracer.h"

/* How long after Ctrl-Z the child may take to stop. */
#define SUSPEND_NS (5ull * NSEC_PER_SEC)

struct run {
	const struct options *o;
	char *path;
	char *command_line;
	struct signals signals;
	struct tracer *tracer;
	struct session *session;
	struct children *children;
	pid_t pid;
	uint64_t started, ns;
	bool lost_setid;		/* the program was to become another user, and did not */
	bool suspend;			/* Ctrl-Z reached goprof; the child will stop or not */
	uint64_t suspend_asked;		/* when */
	struct child_status status;
};

static uint64_t now(void)
{
	return system_clock.mono(&system_clock);
}

static void run_deinit(struct run *r)
{
	session_destroy(r->session);
	tracer_destroy(r->tracer);
	children_destroy(r->children);
	signals_close(&r->signals);
	free(r->path);
	free(r->command_line);
}

/* ---- before the child ---- */

/* Whatever fails before the command has started is 125, unless it is about starting it. */
static struct error *as_start_error(struct error *err)
{
	if (err && !err->is_static && (err->kind < ERROR_START_SELF || err->kind > ERROR_START_MISSING))
		err->kind = ERROR_START_SELF;
	return err;
}

/* "./app -x": the line to be typed again. */
static char *command_line(char *const *argv)
{
	_cleanup_(buf_deinit) struct buf b = { 0 };

	buf_init(&b);
	for (size_t i = 0; argv[i]; i++)
		buf_addf(&b, "%s%s", i ? " " : "", argv[i]);
	return buf_take(&b);
}

static struct error *prepare(struct run *r)
{
	struct session_setup setup = { .options = r->o, .name = r->o->words[0] };
	struct error *err = program_find(r->o->words[0], getenv("PATH"), &r->path);

	if (err)
		return err;
	r->command_line = command_line(r->o->words);
	if (!r->command_line)
		return &err_nomem;
	setup.command = r->command_line;
	err = session_create(&setup, &r->session);
	if (!err)
		err = session_check_outputs(r->session);
	if (!err)
		err = signals_open(SIGNALS_RUN, &r->signals);
	return err ? err : tracer_create(&r->tracer);
}

/*
 * A set-user-ID program that is traced from its start stays its caller's, unless the tracer may trace
 * everything: the kernel sees to that, and there is no other way to stand before the first instruction.
 */
static bool has_lost_setid(const struct run *r)
{
	struct stat file, child;
	struct statvfs mount;
	char proc[32];

	snprintf(proc, sizeof(proc), "/proc/%d", (int)r->pid);
	if (!geteuid() || stat(r->path, &file) || stat(proc, &child) || statvfs(r->path, &mount) ||
	    mount.f_flag & ST_NOSUID)
		return false;
	return (file.st_mode & S_ISUID && file.st_uid != child.st_uid) ||
	       (file.st_mode & S_ISGID && file.st_mode & S_IXGRP && file.st_gid != child.st_gid);
}

static struct error *start(struct run *r)
{
	struct launch l = {
		.argv = r->o->words, .envp = environ, .inherited = r->o->inherited,
	};
	struct children_setup children = { .proc = "/proc" };
	struct error *err = prepare(r);

	if (err)
		return err;
	session_announce_service(r->session);
	l.path = r->path;
	err = tracer_launch(r->tracer, &l, &r->pid);
	if (err)
		return err;
	r->lost_setid = has_lost_setid(r);
	children.pid = r->pid;
	/* From here on nothing may keep the child from running. */
	error_free(children_create(&children, &r->children));
	session_watch(r->session, r->tracer, r->pid);
	r->started = now();
	return tracer_let_run(r->tracer, r->pid);
}

/* ---- while it lives ---- */

/*
 * The child stopped at the same Ctrl-Z that reached goprof: stop too, holding nothing. By which signal
 * does not matter: editors catch SIGTSTP, put the terminal in order, and stop themselves by another.
 */
static void suspend_with_child(struct run *r)
{
	if (r->suspend && now() - r->suspend_asked > SUSPEND_NS)
		r->suspend = false;	/* the child did not care */
	if (r->suspend && r->status.stop_signal && session_suspend(r->session))
		r->suspend = false;
}

static void take_signals(struct run *r)
{
	struct signals_news news;

	signals_take(&r->signals, r->pid, &news);
	if (news.continued)
		session_continued(r->session);
	if (news.suspend) {
		r->suspend = true;
		r->suspend_asked = now();
	}
}

static void follow(struct run *r)
{
	uint64_t wait_ns = 0;

	for (;;) {
		if (wait_ns)
			tracer_wait_child(r->tracer, r->pid, wait_ns, &r->status);
		else
			tracer_child_status(r->tracer, r->pid, &r->status);
		/* Only now: a pid that was waited for may be somebody else's. */
		if (r->status.ended)
			return;
		take_signals(r);
		suspend_with_child(r);
		session_step(r->session, &wait_ns);
		if (r->children)
			children_look(r->children, now(), session_phase(r->session) != SESSION_RECORDING);
	}
}

/* ---- after it ---- */

static bool wants_to_go(void *ctx)
{
	struct run *r = ctx;
	struct signals_news news;

	signals_take(&r->signals, 0, &news);
	stop_requests += (int)news.stops;
	return stop_requests > 0;
}

/* The tables of each program that was recorded; more than one only after exec. */
static void add_tables(const struct run *r, unsigned int parts, struct buf *b)
{
	for (const struct recording_result *v = session_results(r->session); v; v = v->next) {
		struct summary summary = v->summary;

		if (!v->kept)
			continue;
		buf_addc(b, '\n');
		if (parts > 1)
			report_part_text(v->exe, v->go_version, v->ns, b);
		summary.colour = options_colour(STDERR_FILENO);
		summary.mode = (enum profile_mode)r->o->mode;
		summary_text(&summary, b);
	}
}

static void report(struct run *r)
{
	_cleanup_(buf_deinit) struct buf b = { 0 };
	const struct error *refusal = session_refusal(r->session);
	struct child_program child;
	struct report_run text = {
		.name = r->o->words[0], .argv = r->o->words, .pid = r->pid, .ns = r->ns,
		.limited = r->o->duration != 0, .wait_status = r->status.wait_status,
		.rate_hz = (uint32_t)r->o->rate, .execed = session_has_execed(r->session),
		.go_version = session_go_version(r->session), .exe = session_exe(r->session),
	};

	text.last_exe = text.exe;
	for (const struct recording_result *v = session_results(r->session); v; v = v->next) {
		if (!v->kept)
			continue;
		text.parts++;
		text.has_profile = true;
		text.recorded_ns += v->ns;
		text.go_version = v->go_version;
		text.exe = v->exe;
	}
	if (r->children && children_go(r->children, &child))
		text.child = &child;
	text.failed = session_has_failed(r->session);
	if (refusal) {
		text.refusal = refusal->what;
		text.refusal_why = refusal->why;
	}
	report_run_text(&text, &b);
	if (r->lost_setid)
		summary_paragraph(&b, "note", "the set-user-ID or set-group-ID bit of the program had no effect: "
				  "the kernel does not heed it in a program that a plain user traces");
	add_tables(r, text.parts, &b);
	session_files_text(r->session, &b);
	if (!b.failed)
		fwrite(b.data, 1, b.len, stderr);
}

/*
 * The child has ended. `r` is not freed when the user does not wait for the writer, which still
 * uses it; the process is about to end then.
 */
static struct error *finish(struct run *r, int *status, bool *dropped)
{
	struct signals_news old;
	struct error *err;

	r->ns = now() - r->started;
	/* What ended the child (Ctrl-C comes to both) is no wish to drop the profile. */
	signals_take(&r->signals, 0, &old);
	*status = report_run_status(r->status.wait_status);
	session_stop(r->session);
	err = session_finish(r->session, wants_to_go, r, dropped);
	if (!*dropped && !r->o->quiet)
		report(r);
	return err;
}

struct error *run_command(const struct options *o, int *status)
{
	struct run *r = calloc(1, sizeof(*r));
	bool dropped = false;
	struct error *err;

	if (!r)
		return &err_nomem;
	r->o = o;
	r->signals.fd = -1;
	err = start(r);
	if (r->pid > 0) {
		struct error *begun = err;

		follow(r);
		err = finish(r, status, &dropped);
		if (err)
			error_free(begun);
		else
			err = begun;
	} else {
		err = as_start_error(err);
		if (err)
			*status = error_exit_status(err->is_static ? ERROR_START_SELF : err->kind);
	}
	if (dropped)
		return err;
	run_deinit(r);
	free(r);
	return err;
}
