/*
 * session_ends.c: the two ends of a session: what must be right before anything is started (DSN,
 * names, directories), and what is told when all is written.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/outputs.h"
#include "cmd/recording.h"
#include "cmd/session_impl.h"
#include "cmd/words.h"
#include "go/go.h"
#include "target/lock.h"
#include "target/target.h"

/* ---- before ---- */

static struct error *read_dsn(struct session *s)
{
	const struct options *o = s->options;
	struct error *err;

	if (!o->dsn || o->no_dsn)
		return NULL;
	err = dsn_parse(o->dsn, &s->dsn);
	if (!err) {
		s->has_dsn = true;
		return NULL;
	}
	if (o->source[OPTION_DSN] != OPTION_FROM_ENV)
		return error_wrap(err, "--dsn");
	err = error_wrap(err, "SENTRY_DSN");
	return err->todo ? err : error_todo(err, "correct it, or keep profiles here: --no-dsn");
}

static struct error *make_outputs(struct session *s)
{
	const struct options *o = s->options;
	struct outputs_options out = {
		.files = o->outputs,
		.dsn = s->has_dsn ? &s->dsn : NULL,
		.export = {
			.mode = (enum profile_mode)o->mode, .max_threads = (uint32_t)o->max_threads,
			.active_busiest = o->active == ACTIVE_BUSIEST,
			.active_goid = o->active == ACTIVE_BUSIEST ? 0 : o->active,
			.threads = (enum export_threads)o->threads.choice, .label = o->threads.key,
			.told = &s->told,
		},
		.hold_stdout = o->command->bit == COMMAND_RUN,
	};

	return outputs_create(&out, &s->outputs);
}

struct error *session_check_outputs(const struct session *s)
{
	struct output_names names = {
		.program = path_base(s->name), .start_real = system_clock.real(&system_clock),
	};

	return outputs_check(s->outputs, &names);
}

static void session_cleanup(struct session **s)
{
	session_destroy(*s);
}

struct error *session_create(const struct session_setup *setup, struct session **ret)
{
	_cleanup_(session_cleanup) struct session *s = calloc(1, sizeof(*s));
	struct error *err;

	if (!s)
		return &err_nomem;
	s->options = setup->options;
	s->name = setup->name;
	s->command = setup->command;
	s->exe = s->go_version = "";
	s->results_last = &s->results;
	arena_init(&s->arena);
	err = read_dsn(s);
	if (!err)
		err = make_outputs(s);
	if (err)
		return err;
	*ret = take(s);
	return NULL;
}

void session_destroy(struct session *s)
{
	struct recording_result *next;

	if (!s)
		return;
	recording_destroy(s->recording);
	target_lock_free(s->lock);
	outputs_destroy(s->outputs);
	if (s->has_dsn)
		dsn_deinit(&s->dsn);
	go_process_close(s->go);
	target_close(s->target);
	for (struct recording_result *v = s->results; v; v = next) {
		next = v->next;
		recording_result_free(v);
	}
	error_free(s->refusal);
	error_free(s->failure);
	arena_deinit(&s->arena);
	free(s);
}

void session_announce_service(const struct session *s)
{
	bool env = s->options->source[OPTION_DSN] == OPTION_FROM_ENV;

	if (!s->has_dsn || s->options->quiet)
		return;
	say("profiles of %s%s%s%s go to %s, project %s (from %s; --no-dsn keeps them here)", s->name,
	    *s->exe ? " (" : "", s->exe, *s->exe ? ")" : "", s->dsn.host, s->dsn.project,
	    env ? "SENTRY_DSN" : "--dsn");
}

/* ---- questions ---- */

enum session_phase session_phase(const struct session *s)
{
	return s->phase;
}

const struct target *session_target(const struct session *s)
{
	return s->target;
}

const char *session_exe(const struct session *s)
{
	return s->exe;
}

const char *session_go_version(const struct session *s)
{
	return s->go_version;
}

uint32_t session_ticks(const struct session *s)
{
	return s->ticks + (s->recording ? recording_ticks(s->recording) : 0);
}

const char *session_restricted(const struct session *s)
{
	return s->runtime ? go_runtime_restricted(s->runtime) : NULL;
}

uint32_t session_goroutines(const struct session *s)
{
	return s->recording ? recording_goroutines(s->recording) : 0;
}

uint64_t session_recorded_ns(const struct session *s)
{
	return s->recorded_ns + (s->recording ? recording_age(s->recording) : 0);
}

bool session_has_failed(const struct session *s)
{
	return s->has_failed;
}

const struct error *session_refusal(const struct session *s)
{
	return s->refusal;
}

struct error *session_take_refusal(struct session *s)
{
	return take(s->refusal);
}

bool session_has_execed(const struct session *s)
{
	return s->execed;
}

const struct recording_result *session_results(const struct session *s)
{
	return s->results;
}

/* ---- after ---- */

struct error *session_finish(struct session *s, bool (*drop)(void *ctx), void *ctx, bool *dropped)
{
	struct error *err = outputs_finish(s->outputs, drop, ctx, dropped);

	session_fail(s, err);
	return take(s->failure);
}
