/*
 * session.h: what run and attach share: watching a process until it is Go, recording it, noticing
 * exec, end and the time limit, and telling the result. The two commands differ in whose process
 * it is; that stays with them.
 */
#ifndef GOPROF_CMD_SESSION_H
#define GOPROF_CMD_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct buf;
struct options;
struct recording_result;
struct session;
struct target;
struct tracer;

struct session_setup {
	const struct options *options;	/* borrowed, as all here */
	const char *name;		/* of the program, for people: "./app" */
	const char *command;		/* what to type again, without options: "run ./app" */
};

enum session_phase {
	SESSION_IDLE,		/* nothing to watch yet */
	SESSION_SEARCHING,	/* not a Go program (yet) */
	SESSION_STARTING,	/* Go, its runtime is not up yet */
	SESSION_RECORDING,
	SESSION_OVER,		/* the time is up, or recording failed; the process may run on */
	SESSION_ENDED,		/* the process has ended */
};

/* Reads the DSN and the names of outputs: finds every mistake of the command line. */
struct error *session_create(const struct session_setup *setup, struct session **ret);
void session_destroy(struct session *s);	/* NULL is fine */
/* Tries the directories of the outputs. */
struct error *session_check_outputs(const struct session *s);
/* The line that must stand there before anything leaves the machine. */
void session_announce_service(const struct session *s);

/*
 * Begins to watch. When the program cannot be recorded the phase is SEARCHING and
 * session_refusal says why; another program may come by exec.
 */
void session_watch(struct session *s, struct tracer *tr, pid_t pid);

/*
 * One step: a tick while recording (sleeps until it is due), else a look whether something has
 * changed; *wait_ns says how long the caller may sleep before the next one. Errors of a recording
 * end it and are told by session_finish.
 */
void session_step(struct session *s, uint64_t *wait_ns);
enum session_phase session_phase(const struct session *s);
/* Writes what has been seen so far as a window of its own. */
void session_close_window(struct session *s);
/*
 * Stops goprof itself, as its own Ctrl-Z would, and comes back when it goes on; that time is left out.
 * False: not now, a thread of the target is about to be held; to be asked for again.
 */
bool session_suspend(struct session *s);
/* SIGCONT came: if a long time has passed unseen since the last step, goprof was stopped in it. */
void session_continued(struct session *s);
/* Ends the recording, if there is one; the phase becomes OVER. */
void session_stop(struct session *s);

/* For announcements. Borrowed, valid until the next step. */
const struct target *session_target(const struct session *s);
const char *session_exe(const struct session *s);
const char *session_go_version(const struct session *s);	/* "" unknown */
uint32_t session_ticks(const struct session *s);
uint32_t session_goroutines(const struct session *s);
/* Why goroutines cannot be told (restricted mode); NULL: they can. Borrowed. */
const char *session_restricted(const struct session *s);
uint64_t session_recorded_ns(const struct session *s);
/* Why the program seen last was not recorded; NULL when it was. Borrowed. */
const struct error *session_refusal(const struct session *s);
struct error *session_take_refusal(struct session *s);
/* It was refused so soon after its exec that it is tried again: this refusal may not be the last word. */
bool session_may_settle(const struct session *s);
bool session_has_execed(const struct session *s);
/* An error has ended the recording; session_finish will give it. */
bool session_has_failed(const struct session *s);

/* Recordings in order, after session_stop. Borrowed. */
const struct recording_result *session_results(const struct session *s);

/*
 * Waits for what is being written. `drop` as in outputs_finish; when it says yes, *dropped is set
 * and the session must be left alone. The error is the first thing that went wrong.
 */
struct error *session_finish(struct session *s, bool (*drop)(void *ctx), void *ctx, bool *dropped);

/* The files and what opens them, after session_finish. */
void session_files_text(const struct session *s, struct buf *b);

#endif
