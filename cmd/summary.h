/*
 * summary.h: the block that people read after a profile. Plain values in, text out: the tests
 * need neither a process nor a profile. Strings may come from the target: they are made
 * printable here.
 */
#ifndef GOPROF_CMD_SUMMARY_H
#define GOPROF_CMD_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "profile/profile.h"

enum { SUMMARY_WIDTH = 80 };

struct summary_function {
	const char *name, *file;	/* file "" is not shown */
	uint32_t line;
	uint64_t self_ns, total_ns;	/* on CPU */
};

struct summary_group {
	const char *state, *entry, *file;
	uint32_t line;
	double average;			/* goroutines */
};

struct summary {
	const char *restricted;		/* why there are no goroutines to tell of; NULL */
	const char *looks;		/* where looks at threads on a CPU came from; NULL: not told */
	bool attached;			/* it is somebody's production: how long were threads held? */
	uint64_t cpu_ns, wall_ns;
	const struct summary_function *functions;	/* most self first */
	size_t n_functions;
	const struct summary_group *groups;		/* most first */
	size_t n_groups;
	uint64_t seen;
	double average;
	uint32_t rate_hz;
	enum profile_mode mode;
	uint64_t health[HEALTH_COUNT];
	bool every_figure;		/* the whole table of health */
	bool colour;
};

/* On CPU, goroutines, health. */
void summary_text(const struct summary *s, struct buf *b);

struct summary_file {
	const char *name;
	const char *opener;	/* what opens it, or what became of it */
};

/* The files, each with the command that opens it. */
void summary_files_text(const struct summary_file *v, size_t n, struct buf *b);

/*
 * Adds text that stands at `column` of its line, broken before column 80 between words and
 * continued at `hang`; a word that is wider stays whole. Printable.
 */
void summary_wrap(struct buf *b, size_t column, size_t hang, const char *text);

/* `label` in a column of its own, then the text, broken before column 80 and hung under itself. */
void summary_paragraph(struct buf *b, const char *label, const char *text);

/* Printable, at most `columns` wide; leading elements of a path give way first. */
void summary_fit(struct buf *b, const char *name, size_t columns);

/* verdict.c: "good: ..." or "CHECK: ...", worst first, as one line of text. True when good. */
bool verdict_text(const struct summary *s, struct buf *b);
/* Every counter with its value, one a line. */
void verdict_table(const struct summary *s, struct buf *b);

#endif
