/*
 * verdict.c: can this profile be trusted? One line: the figures that matter, and when one of them
 * is not good, CHECK instead of "good" with the worst first and its cause beside it.
 *
 * A check is a row: a share of two counters, the bound it must keep, and how it is said. Which
 * counters exist is health.inc's; those without a row here still stand in the table of -v.
 */
#include "cmd/summary.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/words.h"
#include "target/tracer.h"

enum { VERDICT_TEXT = 160 };

struct check {
	/* Says it into buf (empty: nothing to say) and returns how bad it is: > 1 is not good. */
	double (*judge)(const struct summary *s, char buf[static VERDICT_TEXT]);
	bool always;		/* said even when good */
	bool always_bad;	/* and beside others that are not */
};

/* How bad a share is that should be at least `bound`: 1 at the bound, growing as it falls. */
static double below(double share, double bound)
{
	return (1 - share) / (1 - bound);
}

static double ratio(const struct summary *s, enum health_id part, enum health_id whole)
{
	return s->health[whole] ? (double)s->health[part] / (double)s->health[whole] : 0;
}

static double judge_ticks(const struct summary *s, char buf[static VERDICT_TEXT])
{
	uint64_t due = s->health[HEALTH_TICKS_DUE], done = s->health[HEALTH_TICKS_DONE];
	uint64_t late = due > done ? due - done : 0;
	char a[WORD_MAX], b[WORD_MAX], c[WORD_MAX];
	double bad = due ? below((double)done / (double)due, 0.95) : 0;

	if (bad > 1)
		snprintf(buf, VERDICT_TEXT, "%s of %s ticks (%s late: cores busy)", count_text(done, a),
			 count_text(due, b), count_text(late, c));
	else
		snprintf(buf, VERDICT_TEXT, "%s of %s ticks at %u Hz", count_text(done, a),
			 count_text(due, b), s->rate_hz);
	return bad;
}

/* With more goroutines than a tick can read each has its turn: right on average, and told. */
static double judge_coverage(const struct summary *s, char buf[static VERDICT_TEXT])
{
	uint64_t looked = s->health[HEALTH_TICKS_DONE] - s->health[HEALTH_TICKS_GATED];
	uint64_t passes = s->health[HEALTH_G_PASSES], put_off = s->health[HEALTH_G_PUT_OFF];
	uint64_t read = s->health[HEALTH_STACKS] - s->health[HEALTH_LOOK_STACKS];
	char a[WORD_MAX];
	int n = 0;

	if (!s->health[HEALTH_G_READ])
		return 0;
	if (!passes)
		n = snprintf(buf, VERDICT_TEXT, "not all goroutines were looked at");
	else if (passes * 10 < looked * 9)
		n = snprintf(buf, VERDICT_TEXT, "each goroutine looked at every %.1f ticks",
			     (double)looked / (double)passes);
	if (put_off && n >= 0)
		snprintf(buf + n, VERDICT_TEXT - (size_t)n, "%s%s of changed stacks put off", n ? ", " : "",
			 percent_text((double)put_off / (double)(put_off + read), 1, 1, a));
	return 0;
}

/* Ctrl-Z: nothing of it is in the profile, so nothing is wrong; but who reads it must know. */
static double judge_paused(const struct summary *s, char buf[static VERDICT_TEXT])
{
	char a[WORD_MAX];

	if (s->health[HEALTH_PAUSED])
		snprintf(buf, VERDICT_TEXT, "stopped for %s (left out)", duration_text(s->health[HEALTH_PAUSED], a));
	return 0;
}

static double judge_clock(const struct summary *s, char buf[static VERDICT_TEXT])
{
	char a[WORD_MAX];

	if (s->health[HEALTH_CLOCK_STEP])
		snprintf(buf, VERDICT_TEXT, "CPU time of threads known in steps of %s (kernel without scheduler statistics)",
			 instant_text(s->health[HEALTH_CLOCK_STEP], a));
	return 0;
}

/* A tracer that may lose its core holds threads longer: why it may. */
static const char *rank_note(const struct summary *s, char buf[static WORD_MAX])
{
	enum tracer_rank rank = (enum tracer_rank)s->health[HEALTH_RANK];

	if (rank == TRACER_REAL_TIME)
		return "";
	snprintf(buf, WORD_MAX, "; no real time: %s", tracer_rank_name(rank));
	return buf;
}

static double judge_held(const struct summary *s, char buf[static VERDICT_TEXT])
{
	uint64_t median = s->health[HEALTH_HELD_MEDIAN], p99 = s->health[HEALTH_HELD_P99];
	char a[WORD_MAX], b[WORD_MAX], c[WORD_MAX];

	if (!s->attached || !p99)
		return 0;
	snprintf(buf, VERDICT_TEXT, "threads held %s (p99 %s%s)", instant_text(median, a),
		 instant_text(p99, b), rank_note(s, c));
	return (double)median / (double)NSEC_PER_MSEC;
}

/* No judgement: whoever reads this knows then what to look for. */
static double judge_source(const struct summary *s, char buf[static VERDICT_TEXT])
{
	if (s->looks)
		snprintf(buf, VERDICT_TEXT, "looks by %s", s->looks);
	return 0;
}

static double judge_stacks(const struct summary *s, char buf[static VERDICT_TEXT])
{
	static const enum health_id causes[] = {
		HEALTH_STACKS_NATIVE, HEALTH_STACKS_CUT, HEALTH_STACKS_BROKEN,
	};
	double share = ratio(s, HEALTH_STACKS_COMPLETE, HEALTH_STACKS), bad = below(share, 0.95);
	enum health_id worst = causes[0];
	char a[WORD_MAX], b[WORD_MAX];
	int n;

	if (!s->health[HEALTH_STACKS])
		return 0;
	n = snprintf(buf, VERDICT_TEXT, "%s of stacks complete", percent_text(share, 1, 1, a));
	for (size_t i = 1; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (s->health[causes[i]] > s->health[worst])
			worst = causes[i];
	if (bad > 1 && n > 0 && s->health[worst])
		snprintf(buf + n, VERDICT_TEXT - (size_t)n, " (%s %s)",
			 percent_text(ratio(s, worst, HEALTH_STACKS), 1, 1, b), health_table[worst].text);
	return bad;
}

static double judge_cpu(const struct summary *s, char buf[static VERDICT_TEXT])
{
	double share = ratio(s, HEALTH_CPU_ACCOUNTED, HEALTH_CPU_PROCESS);
	char a[WORD_MAX];

	if (!s->health[HEALTH_CPU_PROCESS])
		return 0;
	snprintf(buf, VERDICT_TEXT, "%s of CPU time accounted%s", percent_text(share, 1, 1, a),
		 s->attached ? "" : " for");
	if (s->health[HEALTH_CPU_PROCESS] < NSEC_PER_SEC / 2)	/* too little to be judged */
		return 0;
	return share > 1 ? below(2 - share, 0.95) : below(share, 0.95);
}

/* The sum always fits; how much of it has a stack to show for it is the question. */
static double judge_unseen(const struct summary *s, char buf[static VERDICT_TEXT])
{
	double share = ratio(s, HEALTH_CPU_UNSEEN, HEALTH_CPU_PROCESS) +
		       ratio(s, HEALTH_CPU_ENDED, HEALTH_CPU_PROCESS);
	uint64_t busy = s->health[HEALTH_BUSY], denied = s->health[HEALTH_DENIED];
	char a[WORD_MAX], b[WORD_MAX];

	if (s->health[HEALTH_CPU_PROCESS] < NSEC_PER_SEC / 2)
		return 0;
	if (denied > busy)
		snprintf(buf, VERDICT_TEXT, "%s of CPU time without a stack (%s times a thread might not be held, "
			 "or was held from outside this container)",
			 percent_text(share, 1, 1, a), count_text(denied, b));
	else if (busy)
		snprintf(buf, VERDICT_TEXT, "%s of CPU time without a stack (%s times another tracer held a thread)",
			 percent_text(share, 1, 1, a), count_text(busy, b));
	else
		snprintf(buf, VERDICT_TEXT, "%s of CPU time without a stack", percent_text(share, 1, 1, a));
	return share / 0.10;
}

/* What reading them all costs is fair for ten thousand goroutines and more at every tick; not for a few. */
static double fair_share(const struct summary *s)
{
	uint64_t ticks = s->health[HEALTH_TICKS_DONE] - s->health[HEALTH_TICKS_GATED];

	return ticks && s->health[HEALTH_G_READ] / ticks > 5000 ? 0.26 : 0.10;
}

static double judge_own(const struct summary *s, char buf[static VERDICT_TEXT])
{
	double share = s->wall_ns ? (double)s->health[HEALTH_OWN_CPU] / (double)s->wall_ns : 0;
	char a[WORD_MAX];

	if (!s->wall_ns)
		return 0;
	snprintf(buf, VERDICT_TEXT, "own CPU %s%s", percent_text(share, 1, 1, a),
		 s->attached ? "" : " of a core");
	return share / fair_share(s);
}

/* Where a control group grants little, what goprof takes may be the target's. */
static double judge_quota(const struct summary *s, char buf[static VERDICT_TEXT])
{
	double share = ratio(s, HEALTH_OWN_CPU, HEALTH_OWN_QUOTA);
	char a[WORD_MAX];

	if (share > 0)
		snprintf(buf, VERDICT_TEXT, "%s of what its cgroup may use", percent_text(share, 1, 1, a));
	return share / 0.25;
}

static double judge_looks(const struct summary *s, char buf[static VERDICT_TEXT])
{
	double share = ratio(s, HEALTH_LOOK_STACKS_COMPLETE, HEALTH_LOOK_STACKS);
	char a[WORD_MAX];

	if (!s->health[HEALTH_LOOK_STACKS])
		return 0;
	snprintf(buf, VERDICT_TEXT, "%s of on-CPU stacks complete", percent_text(share, 1, 1, a));
	return below(share, 0.90);
}

/* Most such stops are harmless (the kernel restarts the call); many say that the target feels us. */
static double judge_arrival(const struct summary *s, char buf[static VERDICT_TEXT])
{
	char a[WORD_MAX];

	if (!s->health[HEALTH_LOOKS])
		return 0;
	snprintf(buf, VERDICT_TEXT, "%s of threads came late",
		 percent_text(ratio(s, HEALTH_NOT_ARRIVED, HEALTH_LOOKS), 1, 1, a));
	return ratio(s, HEALTH_NOT_ARRIVED, HEALTH_LOOKS) / 0.50;
}

static double judge_labels(const struct summary *s, char buf[static VERDICT_TEXT])
{
	char a[WORD_MAX];

	if (!s->health[HEALTH_STACKS])
		return 0;
	snprintf(buf, VERDICT_TEXT, "labels unknown for %s of stacks",
		 percent_text(ratio(s, HEALTH_LABELS_UNKNOWN, HEALTH_STACKS), 1, 1, a));
	return ratio(s, HEALTH_LABELS_UNKNOWN, HEALTH_STACKS) / 0.01;
}

/* Time of theirs has no stack. */
static double judge_watched(const struct summary *s, char buf[static VERDICT_TEXT])
{
	uint64_t lost = s->health[HEALTH_LOOKS_LOST], looks = s->health[HEALTH_LOOKS];
	char a[WORD_MAX];

	if (s->health[HEALTH_LOOKS_UNWATCHED])
		snprintf(buf, VERDICT_TEXT, "no perf events for all threads (ulimit -n; or --looks ptrace)");
	else
		snprintf(buf, VERDICT_TEXT, "%s perf samples lost", count_text(lost, a));
	return s->health[HEALTH_LOOKS_UNWATCHED] ? 2 : lost ? (double)lost / (double)(lost + looks) / 0.05 : 0;
}

static double judge_audit(const struct summary *s, char buf[static VERDICT_TEXT])
{
	char a[WORD_MAX], b[WORD_MAX];

	if (!s->health[HEALTH_AUDITED])
		return 0;
	snprintf(buf, VERDICT_TEXT, "%s of %s audited stacks had changed unnoticed",
		 count_text(s->health[HEALTH_AUDIT_MISMATCH], a), count_text(s->health[HEALTH_AUDITED], b));
	return ratio(s, HEALTH_AUDIT_MISMATCH, HEALTH_AUDITED) / 0.001;
}

static double judge_calls(const struct summary *s, char buf[static VERDICT_TEXT])
{
	uint64_t wrong = s->health[HEALTH_CALLS_WRONG];
	char a[WORD_MAX], b[WORD_MAX];

	snprintf(buf, VERDICT_TEXT, "%s of %s audited frames follow no call of their callee",
		 count_text(wrong, a), count_text(s->health[HEALTH_CALLS_AUDITED], b));
	return wrong ? 1 + (double)wrong : 0;
}

/* What the outputs could not tell, or tell no longer one by one. */
static double judge_lost(const struct summary *s, char buf[static VERDICT_TEXT])
{
	uint64_t lost = s->health[HEALTH_WINDOWS_LOST];
	char a[WORD_MAX], b[WORD_MAX];

	if (lost)
		snprintf(buf, VERDICT_TEXT, "%s window%s of %s lost (%s)", count_text(lost, a), lost == 1 ? "" : "s",
			 duration_text(s->health[HEALTH_TIME_LOST], b), health_table[HEALTH_WINDOWS_LOST].text);
	return lost ? 1 + (double)lost : 0;
}

static double judge_merged(const struct summary *s, char buf[static VERDICT_TEXT])
{
	uint64_t labels = s->health[HEALTH_LABELS_MERGED], stacks = s->health[HEALTH_STACKS_MERGED];
	char a[WORD_MAX], b[WORD_MAX];

	if (labels && stacks)
		snprintf(buf, VERDICT_TEXT, "pprof: %s rare label sets and %s rare stacks merged", count_text(labels, a),
			 count_text(stacks, b));
	else if (labels || stacks)
		snprintf(buf, VERDICT_TEXT, "pprof: %s rare %s merged", count_text(labels + stacks, a),
			 labels ? "label sets" : "stacks");
	return 0;
}

static const struct check checks[] = {
	{ judge_ticks, true, true },
	{ judge_coverage, true, true },
	{ judge_paused, true, true },
	{ judge_source, true, true },
	{ judge_lost, true, true },
	{ judge_merged, true, true },
	{ judge_held, true, true },
	{ judge_stacks, true, true },
	{ judge_cpu, true, true },
	{ judge_clock, true, true },
	{ judge_unseen, false, false },
	{ judge_own, true, false },
	{ judge_quota, true, true },
	{ judge_looks, false, false },
	{ judge_watched, false, false },
	{ judge_calls, false, false },
	{ judge_arrival, false, false },
	{ judge_labels, false, false },
	{ judge_audit, false, false },
};

enum { CHECK_COUNT = sizeof(checks) / sizeof(checks[0]) };

struct finding {
	char text[VERDICT_TEXT];
	double bad;
	bool said;
};

bool verdict_text(const struct summary *s, struct buf *b)
{
	struct finding v[CHECK_COUNT] = { 0 };
	bool good = true, first = true;

	for (size_t i = 0; i < CHECK_COUNT; i++) {
		v[i].bad = checks[i].judge(s, v[i].text);
		good &= !(v[i].bad > 1);
	}
	buf_adds(b, good ? "good: " : "CHECK: ");
	for (size_t round = 0; round < CHECK_COUNT; round++) {
		struct finding *next = NULL;

		/* Bad ones by badness, then the others in their order. */
		for (size_t i = 0; i < CHECK_COUNT; i++) {
			bool wanted = v[i].bad > 1 || (good ? checks[i].always : checks[i].always_bad);

			if (v[i].said || !wanted || !v[i].text[0])
				continue;
			if (!next || (v[i].bad > 1 && v[i].bad > next->bad))
				next = &v[i];
		}
		if (!next)
			break;
		buf_addf(b, "%s%s", first ? "" : ", ", next->text);
		next->said = true;
		first = false;
	}
	return good;
}

void verdict_table(const struct summary *s, struct buf *b)
{
	for (size_t i = 0; i < HEALTH_COUNT; i++) {
		const struct health_row *row = &health_table[i];
		char value[WORD_MAX];

		buf_addf(b, "          %-28s %14s\n", row->name, row->unit == HEALTH_UNIT_NS ?
			 instant_text(s->health[i], value) : count_text(s->health[i], value));
	}
}
