/*
 * report.c: see report.h. The shape of every sentence is the transcripts'; a line that can be
 * pasted stands behind "do".
 */
#include "cmd/report.h"

#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "cmd/children.h"
#include "cmd/summary.h"
#include "cmd/words.h"

static void add_end(struct buf *b, int wait_status)
{
	char name[WORD_MAX];

	if (WIFSIGNALED(wait_status))
		buf_addf(b, "was killed by %s", signal_text(WTERMSIG(wait_status), name));
	else
		buf_addf(b, "exited with status %d", WEXITSTATUS(wait_status));
}

int report_run_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static void first_line(const struct report_run *r, struct buf *b)
{
	char time[WORD_MAX];

	buf_adds(b, "goprof: ");
	summary_fit(b, r->name, 512);
	buf_addf(b, " (pid %d%s%s) ran %s and ", r->pid, *r->go_version ? ", " : "", r->go_version,
		 duration_text(r->ns, time));
	add_end(b, r->wait_status);
	if (r->has_profile) {
		if (r->limited)
			buf_addf(b, "; profiled for %s", duration_text(r->recorded_ns, time));
		buf_addc(b, '\n');
	} else if (r->refusal || r->failed) {
		buf_adds(b, ": no profile\n");
	} else {
		uint64_t need = 2 * NSEC_PER_SEC / (r->rate_hz ? r->rate_hz : 1);

		/* 2 ticks at 101 Hz are 20 ms, not 19. */
		need = (need + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC * NSEC_PER_MSEC;
		buf_addf(b, ": too short for a profile (needs 2 ticks, %s); no file written\n",
			 duration_text(need, time));
	}
}

/* What to type to get a profile of what was really meant. */
static void add_child_remedy(const struct report_run *r, struct buf *b)
{
	const char *base = path_base(r->argv[0]), *verb = r->argv[1] ? r->argv[1] : "";
	bool go = strcmp(base, "go") == 0;

	buf_adds(b, "  do    ");
	if (go && strcmp(verb, "run") == 0) {
		buf_adds(b, "go build -o app ");
		summary_fit(b, r->argv[2] && r->argv[2][0] != '-' ? r->argv[2] : ".", 256);
		buf_adds(b, " && goprof run ./app");
	} else if (go && strcmp(verb, "test") == 0) {
		buf_adds(b, "go test -c && goprof run ./pkg.test");
	} else if (r->child->alive) {
		buf_addf(b, "goprof attach %d      (while it runs)", r->child->pid);
	} else {
		buf_adds(b, "goprof run ");
		summary_fit(b, r->child->path, 512);
	}
	buf_addc(b, '\n');
}

static void add_child_note(const struct report_run *r, struct buf *b)
{
	struct buf t;

	buf_init(&t);
	if (r->has_profile) {
		buf_addf(&t, "this is the profile of %s%s%s; it started another Go program (",
			 strcmp(path_base(r->argv[0]), "go") == 0 ? "the " : "", path_base(r->argv[0]),
			 strcmp(path_base(r->argv[0]), "go") == 0 ? " command" : "");
	} else {
		buf_adds(&t, "it started a Go program (");
	}
	summary_fit(&t, r->child->path, 36);
	buf_addf(&t, ", pid %d), which was not profiled", r->child->pid);
	if (r->child->others)
		buf_addf(&t, ", and %u more", r->child->others);
	summary_paragraph(b, "note", t.data ? t.data : "");
	buf_deinit(&t);
	add_child_remedy(r, b);
}

static void add_exec_note(const struct report_run *r, struct buf *b)
{
	struct buf t;

	buf_init(&t);
	buf_adds(&t, "it called exec: ");
	if (r->parts > 1) {
		buf_adds(&t, "these are the profiles of the programs it became");
	} else {
		buf_adds(&t, "this is the profile of ");
		summary_fit(&t, r->exe, 256);
	}
	if (r->refusal) {
		buf_adds(&t, "; then it was ");
		summary_fit(&t, r->last_exe, 256);
		buf_adds(&t, ", which was not profiled");
	}
	summary_paragraph(b, "note", t.data ? t.data : "");
	buf_deinit(&t);
}

static void add_refusal(const struct report_run *r, struct buf *b)
{
	struct buf t;

	buf_init(&t);
	buf_addf(&t, "%s%s%s", r->refusal, r->refusal_why ? ": " : "", r->refusal_why ? r->refusal_why : "");
	summary_paragraph(b, "why ", t.data ? t.data : "");
	buf_deinit(&t);
}

void report_run_text(const struct report_run *r, struct buf *b)
{
	first_line(r, b);
	if (r->refusal && !r->has_profile)
		add_refusal(r, b);
	if (r->has_profile && r->execed)
		add_exec_note(r, b);
	if (r->child)
		add_child_note(r, b);
}

void report_part_text(const char *exe, const char *go_version, uint64_t recorded_ns, struct buf *b)
{
	char time[WORD_MAX];

	buf_adds(b, "  ");
	summary_fit(b, exe, SUMMARY_WIDTH - 30);
	buf_addf(b, " (%s), for %s\n", go_version, duration_text(recorded_ns, time));
}

void report_limit_text(uint64_t duration_ns, struct buf *b)
{
	char time[WORD_MAX];

	if (!duration_ns)
		buf_adds(b, "Ctrl-C ends it");
	else if (duration_ns < 60ULL * NSEC_PER_SEC && duration_ns % NSEC_PER_SEC == 0)
		buf_addf(b, "%d s or Ctrl-C", (int)(duration_ns / NSEC_PER_SEC));
	else
		buf_addf(b, "%s or Ctrl-C", duration_text(duration_ns, time));
}
