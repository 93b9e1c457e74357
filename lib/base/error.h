/*
 * error.h: what went wrong, why, and what to do about it, as a value.
 *
 * Every function that can fail returns `struct error *`: NULL is success. Results go out through
 * the last parameters and stay untouched on failure. lib/ never prints an error, never exits and
 * never aborts on what a target holds; only cmd/main.c prints and chooses an exit status.
 *
 * Hot paths return the static sentinels below (compared by address, nothing allocated). All other
 * errors are heap objects: whoever receives one either passes it on or frees it with error_free(),
 * which accepts NULL and the sentinels.
 */
#ifndef GOPROF_BASE_ERROR_H
#define GOPROF_BASE_ERROR_H

#include <stdbool.h>
#include <stddef.h>

/* What kind of failure: decides the exit status (error_exit_status) and whether sampling goes on. */
enum error_kind {
	ERROR_INTERNAL,		/* a bug or an impossible answer of the kernel */
	ERROR_NOMEM,		/* goprof itself is out of memory */
	ERROR_FAULT,		/* an address of the target cannot be read */
	ERROR_GONE,		/* the process or thread has ended or has called exec */
	ERROR_END,		/* the end of a sequence, no failure */
	ERROR_NOT_FOUND,	/* what was looked for is not there */
	ERROR_CORRUPT,		/* bytes that contradict themselves */
	ERROR_USAGE,		/* the command line */
	ERROR_NOT_GO,		/* not a Go program */
	ERROR_UNSUPPORTED,	/* Go, but not a version or form that goprof can read */
	ERROR_NO_PROCESS,	/* no process with that pid */
	ERROR_DENIED,		/* not permitted */
	ERROR_TRACED,		/* traced by somebody else */
	ERROR_FACILITY,		/* the kernel or the sandbox lacks something */
	ERROR_OUTPUT,		/* an output cannot be written */
	ERROR_NETWORK,		/* the service cannot be reached or refused */
	ERROR_START_SELF,	/* `run` failed before it came to its command: status 125 */
	ERROR_START_EXEC,	/* the command cannot be executed: status 126 */
	ERROR_START_MISSING,	/* the command was not found: status 127 */
	ERROR_KIND_COUNT,
};

struct error {
	enum error_kind kind;
	bool is_static;		/* a sentinel: never freed, never changed */
	char *what;		/* what happened, one sentence without a full stop; never NULL */
	char *why;		/* the cause that was found; NULL when `what` says it all */
	char *todo;		/* a line to paste or an action; NULL when there is none */
};

extern struct error err_nomem, err_fault, err_gone, err_end, err_notfound, err_corrupt;

/* A new error. Returns &err_nomem when memory is short, so the result is never NULL. */
struct error *error_new(enum error_kind kind, const char *what, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull));

/* Adds the cause or the remedy to a heap error and returns it; a sentinel is returned unchanged. */
struct error *error_why(struct error *err, const char *why, ...) __attribute__((format(printf, 2, 3)));
struct error *error_todo(struct error *err, const char *todo, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " before `what`. A sentinel becomes a heap error of the same kind. NULL stays NULL. */
struct error *error_wrap(struct error *err, const char *context, ...) __attribute__((format(printf, 2, 3)));

/* Does this error end a run of the sampler? (Per-sample failures are counted and passed over.) */
bool error_is_fatal(const struct error *err);

/* The exit status that belongs to a kind; one table in error.c, documented in README. */
int error_exit_status(enum error_kind kind);

void error_free(struct error *err);

#endif
