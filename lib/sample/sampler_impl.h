/*
 * sampler_impl.h: the sampler's own state, shared by the files that make up a tick: sample.c (the
 * tick itself), see_goroutine.c (goroutines that are not on a CPU) and see_thread.c (threads that are).
 */
#ifndef GOPROF_SAMPLE_SAMPLER_IMPL_H
#define GOPROF_SAMPLE_SAMPLER_IMPL_H

#include "sample/look.h"
#include "unwind/native.h"

/*
 * A goroutine that only a captured thread has told of: younger than this tick's pass over allgs, or sampled
 * and dead before it. By the pass of the tick after `tick` it has a slot or is gone.
 */
struct orphan {
	gaddr_t g;
	uint64_t goid;
	uint32_t tick;
};

/* ---- gate.c ---- */

struct gate {
	bool usable;		/* can its questions be asked of this process? */
	bool idle;		/* at the last tick nothing was on a CPU, or had a P */
	uint64_t cpu_ns;	/* process clock when it was asked last */
	bool still;		/* that was what it was before */
	bool valid;		/* nothing has run since the round at hand began */
	bool all_seen;		/* nor since one began that has ended */
};

/* What a tick that looked has found. */
struct gate_tick {
	bool ran;		/* something was on a CPU, or may have been */
	bool round_began;	/* with its first goroutine */
	bool round_ended;	/* with it all goroutines have been looked at once more */
	bool put_off;		/* but not all that had changed */
};

void gate_init(struct gate *g, const struct reader *r, uint64_t period);
/*
 * Once per tick, before all else: has no thread come off a CPU since it was asked last? Then the process has not
 * ended nor become another program: both takes time.
 */
bool gate_stood_still(struct gate *g, const struct reader *r);
/*
 * Then, before goroutines are read; `runs`: a thread is on a CPU now, or one is owed. True: nothing has run since all
 * were looked at.
 */
bool gate_is_shut(struct gate *g, const struct reader *r, bool runs);
void gate_note(struct gate *g, const struct gate_tick *t);

/* ---- sample.c ---- */

/* Numbers that the runtime has given to goroutines, and how many of those were seen. */
struct births {
	bool known;
	uint64_t from, now;		/* its counter when sampling began, and at the last tick */
	uint64_t ps;			/* most Ps that there were */
	uint64_t seen, told;		/* of those goroutines: seen, and told as never seen */
};

/* Addresses of goroutines. */
struct g_list {
	gaddr_t *v;
	uint32_t n, cap;
};

/* A goroutine of which nothing but its header was seen yet. */
struct unseen {
	uint64_t goid, t_before, t_after;
	uint32_t slot;		/* index in the table of goroutines */
	uint32_t status;
	uint8_t waitreason;
};

/* How much a tick reads at most. */
struct budget {
	uint32_t headers, stacks;
};

/* What the two parts of a tick have read, and the CPU time that took. */
struct tick_cost {
	uint32_t headers, stacks;
	uint64_t headers_ns, stacks_ns;
};

struct sampler {
	struct reader reader;
	struct tracer *tracer;
	struct profile *profile;
	struct sampler_options options;
	struct hold_plan plan;
	struct gs gs;
	struct threads threads;
	struct intern intern;
	struct images *images;		/* NULL, as `native`: C frames are not asked for */
	struct native *native;
	struct native_counts native_told;	/* of its counts, what the health figures have got */
	uint64_t native_refreshed;
	struct stack_reader *stacks;
	struct stand_in *stand_in;	/* NULL: the runtime counts parks */
	struct look_source *looks;
	char *looks_why;		/* why not by perf events; NULL: they are, or nobody asked */
	struct timely timely;
	struct gate gate;
	struct births births;
	struct stack_job *jobs;		/* this tick's goroutines whose stack is wanted */
	uint32_t n_jobs, cap_jobs;
	uint32_t n_wanted;		/* how many asked for a place among them */
	bool places_stand;		/* the pass over headers has ended: nobody takes another's place any more */
	uint32_t n_read, n_unchanged;	/* headers of this tick, and those that were believed */
	uint32_t unaudited;		/* so many more are believed before one is checked against its stack */
	struct unseen *unseen;		/* of those that got none */
	uint32_t n_unseen, cap_unseen;
	struct pc_frame *frames;	/* scratch of captures */
	struct orphan *orphans;		/* goroutines that only a captured thread has told of */
	uint32_t n_orphans, cap_orphans;
	profile_id moved, unseen_running, unread;	/* pseudo stacks */
	uint64_t start, period, slot;	/* the grid */
	uint64_t deadline;		/* of the tick that is slept for; 0: none planned */
	uint64_t random;
	uint64_t own_cpu, own_since;	/* what goprof had used when that was told last, and when */
	uint32_t tick;			/* serial, from 1 */
	struct budget budget;
	bool rotates;			/* this tick reads some of the goroutines, not all */
	bool round_began, round_ended, put_off;	/* as struct gate_tick */
	struct g_list ran, running;	/* seen on a CPU at the last tick and to be asked; at this one */
	uint32_t alive, alive_seen;	/* goroutines: of the last whole round, so far in this one */
	uint32_t rounds, round_slots;	/* that have ended; slots read in this one */
	uint64_t t_tick;
};

/* ---- see_goroutine.c ---- */

/* gs_visit: one header of the pass. Most goroutines have not moved and end here; others become jobs. */
struct error *see_header(void *ctx, struct g_slot *slot, const uint8_t *bytes, uint64_t t_before,
			 uint64_t t_after);
/*
 * gs_visit of one that was on a CPU at the last tick, is not now, and whose turn it is not: it goes back to
 * what its last turn saw, unless it has ended.
 */
struct error *see_left(void *ctx, struct g_slot *slot, const uint8_t *bytes, uint64_t t_before,
		       uint64_t t_after);
/* Nothing is known of this goroutine yet but its header: that is told. */
struct error *see_unseen(struct sampler *s, struct g_slot *slot, const struct g_look *look);
/* What the stack of one told whose header alone cannot: its print (struct stack_result) as it is now; 0: nothing. */
struct error *see_print(struct sampler *s, struct g_slot *slot, const struct g_look *look, uint64_t print);
/* Reads label sets between the stack and the header that validates both. */
void see_labels(void *ctx, const struct stack_job *jobs, size_t n);
/* One job's stack, or that there is none. */
struct error *see_stack(void *ctx, const struct stack_result *res);
/* The slot belongs to this goroutine from now on. */
struct error *slot_begin(struct sampler *s, struct g_slot *slot, const struct g_look *look);
void count_stack(struct sampler *s, enum unwind_end end);
uint64_t sampler_random(struct sampler *s);

/* ---- native_health.c ---- */

/* What was walked since the last call goes into the health figures. */
void native_settle(struct sampler *s);

/* ---- rotation.c ---- */

struct budget budget_full(void);
void budget_adapt(struct budget *b, const struct tick_cost *cost);
/* A goroutine that was on a CPU: to be asked at this tick (s->ran, until rotation_resume) or at the next one. */
struct error *g_list_add(struct g_list *l, gaddr_t g);
/* Headers of all goroutines, or of those whose turn it is. */
struct error *rotation_read(struct sampler *s);
/* Goroutines that have left their threads; after this tick's captures, before the stacks. */
struct error *rotation_resume(struct sampler *s);

enum { ROTATION_NO_PLACE = UINT32_MAX };
/*
 * One more goroutine's stack is wanted: its place among this tick's jobs, or none. As long as there are more than
 * there is time for, who comes later may take the place of another.
 */
uint32_t rotation_place(struct sampler *s);
/* The job at that place; without one it is put off. */
struct error *rotation_want(struct sampler *s, struct g_slot *slot, const struct g_look *look, uint32_t place);
/* Goroutines of which nothing is known yet, and that were put off; after this tick's captures. */
struct error *rotation_tell_unseen(struct sampler *s);

/* ---- stand_in.c ---- */

/* *ret is NULL where the runtime counts parks: then none is needed. */
struct error *stand_in_create(const struct reader *r, struct stand_in **ret);
void stand_in_destroy(struct stand_in *si);
/* This goroutine's stack has to tell whether it is where it was; see_print is called sooner or later. */
struct error *stand_in_ask(struct sampler *s, struct g_slot *slot, const struct g_look *look);
/* All that were asked for, before the table of goroutines changes. */
struct error *stand_in_settle(struct sampler *s);
/* Of a pass that failed. */
void stand_in_forget(struct sampler *s);

/* ---- births.c ---- */

void births_begin(struct sampler *s);
/* At a tick that looks. */
void births_update(struct sampler *s);
void births_seen(struct sampler *s, uint64_t goid);
/* Into the health figures: at least so many were never seen. */
void births_settle(struct sampler *s);

/* ---- see_thread.c ---- */

/* look_done: one captured thread, a look at a goroutine or at a thread that runs none. */
struct error *see_thread(void *ctx, const struct look *look);
/* Goroutines that only captured threads told of and that ended before any pass saw them. */
void end_orphans(struct sampler *s);
/* The slot's goroutine was sampled for this tick and has ended since: it is shown until the next one. */
struct error *let_linger(struct sampler *s, const struct g_slot *slot);
/* Threads under keys of their own that were not captured this time. */
void end_thread_tracks(struct sampler *s);
/* Goroutines that a captured thread has spoken for need no other reading in this tick. */
void drop_captured_jobs(struct sampler *s);

#endif
