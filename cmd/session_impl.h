/*
 * session_impl.h: the insides of a session, shared by session.c (what happens to the process) and
 * session_ends.c (how it is made and what is told of it).
 */
#ifndef GOPROF_CMD_SESSION_IMPL_H
#define GOPROF_CMD_SESSION_IMPL_H

#include "base/arena.h"
#include "cmd/session.h"
#include "sentry/sentry.h"

struct go_process;
struct go_runtime;
struct outputs;
struct recording;

struct session {
	const struct options *options;
	const char *name, *command;
	struct arena arena;		/* names of programs */
	bool has_dsn;
	struct dsn dsn;
	struct outputs *outputs;
	struct export_told told;	/* by the exporters; to be read when they have finished */
	struct tracer *tracer;
	struct target_lock *lock;	/* while this process is recorded */
	pid_t pid;
	enum session_phase phase;
	uint64_t since;			/* begin of STARTING; last attempt of SEARCHING */
	uint64_t appeared;		/* when this program was first seen under the pid */
	uint64_t tried;			/* when it was last opened */
	uint64_t progress;		/* when it was last told */
	bool execed;
	struct target *target;
	struct go_process *go;
	struct go_runtime *runtime;
	const char *exe, *go_version;
	struct error *refusal;		/* why the present program is not recorded */
	struct recording *recording;
	uint64_t recorded_ns;		/* by recordings that are over */
	uint32_t ticks;
	struct recording_result *results, **results_last;
	struct error *failure;		/* the first one, until session_finish gives it away */
	bool has_failed;
};

/* Keeps the first failure; takes `err`. */
void session_fail(struct session *s, struct error *err);

#endif
