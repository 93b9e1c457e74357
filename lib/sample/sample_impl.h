/*
 * sample_impl.h: what the files of lib/sample share. Nobody outside includes this.
 *
 *	sample.c   the tick            gs.c      the table of goroutines, read in spans
 *	threads.c  the table of threads stacks.c  stacks of goroutines that are not on a CPU
 *	look.h     where on-CPU looks come from (look_ptrace.c, look_perf.c, held.c)
 *	hold.c     what is copied while a thread is held	hold_labels.c, hold_late.c
 *	deep.c     one stack that is too long to be read with others
 *	oncpu.c    which looks carry CPU time (pure)   intern.c  pcs, labels, states -> store ids
 *	audit.c    do return addresses follow calls?   snapshot.c  everything once, for dump
 *	snapshot_core.c  the threads of a core file	wandering.c  ms that change their threads
 *	epoch.c    what is remembered when the store's tables begin anew
 *	stand_in.c  what tells who has run where nothing counts parks
 */
#ifndef GOPROF_SAMPLE_SAMPLE_IMPL_H
#define GOPROF_SAMPLE_SAMPLE_IMPL_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/map.h"
#include "go/goroutine.h"
#include "profile/profile.h"
#include "sample/sample.h"
#include "symbol/symbol.h"
#include "unwind/unwind.h"

enum {
	FRAMES_MAX = 4096,		/* hard bound of --depth */
	HOLD_STACK_BYTES = 32 * 1024,	/* copied in a hold of a goroutine's stack, and as much of one with C frames */
	STACK_BATCH_MAX = 64 * 1024,	/* a longer stack is read by itself (deep.c) */
};

/* What every reader of goroutines needs. Plain borrowed pointers. */
struct reader {
	struct target *target;
	struct go_runtime *rt;
	const struct go_layout *layout;
	const struct clock *clock;
	size_t g_span, m_span;
	bool goroutines;	/* g and m structs can be read; else restricted mode: threads only */
};

struct reader reader_make(const struct sampler_parts *parts);
static inline uint64_t reader_now(const struct reader *r)
{
	return r->clock->mono(r->clock);
}

/* ---- gs.c ---- */

/* What is remembered of one g struct between looks. There may be a million: every byte counts. */
struct g_slot {
	gaddr_t addr;
	uint64_t goid;			/* 0: not alive at the last look */
	uint32_t print;			/* slot_print of what stack_result has of the look that `stack` belongs to */
	profile_id stack, labels;
	uint8_t state : 7;		/* as intern_state numbers them */
	bool sampled : 1;		/* its last observation is of some time before its tick */
	uint8_t hot : 7;		/* looks for which an unchanged fingerprint is not believed */
	bool known : 1;			/* print, stack, state and labels belong together */
	uint8_t round;			/* number of the round that has read it last (gs.c) */
	uint8_t parks;			/* trackingSeq when its stack was read last */
	uint32_t turn : 12;		/* tick_mark of the tick at which its stack was asked for last */
	uint32_t captured_tick : 12;	/* tick_mark of the tick of that capture */
	uint8_t swapped : 4;		/* ticks shown on a CPU by sampled looks that were spent elsewhere */
	bool still : 1;			/* while the print is equal nothing has changed */
	bool captured : 1;		/* its last observation came from a held thread */
	bool system : 1;		/* the runtime's own: left out */
	bool told : 1;			/* the store has heard of it */
} __attribute__((packed, aligned(4)));

_Static_assert(sizeof(struct g_slot) == 36, "no holes");

/* Half of a fingerprint: two that differ are alike once in four thousand million times, which no audit would find. */
static inline uint32_t slot_print(uint64_t fingerprint)
{
	return (uint32_t)(fingerprint ^ fingerprint >> 32);
}

/* As much of a tick's number as a slot has room for: tells it from those of the last seconds. */
static inline uint32_t tick_mark(uint32_t tick)
{
	return tick & ((1u << 12) - 1);
}

struct g_range;		/* neighbouring g structs that are read as one span */

struct gs {
	struct g_slot *slots;		/* sorted by address, in two parts: [0, n_old) and [n_old, n) */
	uint32_t n, n_old, cap;
	struct g_range *ranges;
	uint32_t n_ranges, n_old_ranges, cap_ranges;	/* those of the old part come first */
	uint8_t round;			/* number of the round at hand; it wraps */
	bool in_round, in_order;	/* it has begun; the order of what is left of it is chosen */
	uint32_t start, step, left;	/* that order, and how much of it is left */
	uint8_t *buffer;
};

struct error *gs_init(struct gs *gs);
void gs_deinit(struct gs *gs);
/* Learns of new g structs (allgs only grows). &err_end: the runtime is not up yet. */
struct error *gs_update(struct gs *gs, const struct reader *r);
struct g_slot *gs_slot(struct gs *gs, gaddr_t g);	/* NULL: not (yet) in the table */

/* Called for each g struct that could be read; bytes hold r->g_span bytes. */
typedef struct error *gs_visit(void *ctx, struct g_slot *slot, const uint8_t *bytes,
			       uint64_t t_before, uint64_t t_after);
struct error *gs_read_all(struct gs *gs, const struct reader *r, gs_visit *visit, void *ctx);

/* What a pass over some has read. */
struct gs_pass {
	uint32_t slots;
	bool ended;			/* with it all have been read once more */
};

/*
 * The next `most` of them or some more (whole spans, at least one). A round reads each of them once, in an
 * order that `random` chooses, also those that come while it lasts.
 */
struct error *gs_read_some(struct gs *gs, const struct reader *r, uint32_t most, uint64_t random, gs_visit *visit,
			   void *ctx, struct gs_pass *ret);
/* One in its turn: nothing when the round has read it, and the round does not read it again. */
struct error *gs_read_turn(struct gs *gs, struct g_slot *slot, const struct reader *r, gs_visit *visit, void *ctx);
/* One out of turn. */
struct error *gs_read_one(struct g_slot *slot, const struct reader *r, gs_visit *visit, void *ctx);

/* ---- stacks.c ---- */

enum stack_outcome {
	STACK_READ,		/* frames hold */
	STACK_MOVED,		/* the goroutine ran while it was read: nothing but the header holds */
};

/* One goroutine whose stack is wanted; look is what the header pass saw. */
struct stack_job {
	uint32_t owner;			/* the caller's number for it, opaque here */
	struct g_look look;
};

struct stack_result {
	const struct stack_job *job;
	enum stack_outcome outcome;
	const struct pc_frame *frames;	/* leaf first; valid during the callback */
	size_t n;
	enum unwind_end end;
	/*
	 * The look's fingerprint, with the stack's first bytes where nothing counts parks (stand_in.c): as long as it
	 * is this the goroutine is where it was. 0: there is no telling.
	 */
	uint64_t print;
	uint64_t t_before, t_after;	/* bracket of all its reads */
	bool retried;
};

typedef struct error *stack_done(void *ctx, const struct stack_result *res);
/* Called between the stack reads and the reads that validate them: the place to read labels. */
typedef void stack_between(void *ctx, const struct stack_job *jobs, size_t n);

struct stack_reader;

/*
 * `whole`: a stack is read to its end, up to 64 MiB. Otherwise a tick must not take long: as much
 * as `depth` frames are likely to need, and the far end of what is longer.
 */
struct error *stack_reader_create(uint32_t depth, bool whole, struct stack_reader **ret);
void stack_reader_destroy(struct stack_reader *sr);
/*
 * Reads, validates and walks the stacks of all jobs. A header that changed meanwhile is tried
 * once more by itself. Where trackingSeq does not count how often a goroutine ran (counter_holds), or
 * had the time to come round, its stack counts only if a second read gives the same frames and every
 * call leads to the next.
 */
struct error *stack_reader_run(struct stack_reader *sr, const struct reader *r,
			       const struct stack_job *jobs, size_t n, stack_between *between,
			       stack_done *done, void *ctx);

/* Does the runtime count parks (trackingSeq)? */
bool parks_have_counter(const struct reader *r);
/* A stack that can be walked now: parked, with sp inside its bounds. */
bool is_parked(const struct g_look *look, struct unwind_start *start);

/* ---- stand_in.c ---- */

/* The look's fingerprint and that of its stack, of which these are the `len` innermost bytes, or enough of them. */
uint64_t stand_in_print(const struct g_look *look, const uint8_t *stack, size_t len);

/* ---- deep.c ---- */

enum { DEEP_BUFFER = 256 * 1024 };

/* For an unwind_more: what can be read of these bytes. An error, which is fatal, stays in *err. */
bool read_piece(const struct target *t, gaddr_t addr, uint8_t *buf, size_t len, struct mem_view *ret,
		struct error **err);

/*
 * Reads the stack in pieces, as the walk asks for them, and walks it. Longer than `most` bytes: its
 * two ends only. `buffer` has DEEP_BUFFER bytes. Fatal errors only.
 */
struct error *deep_walk(const struct reader *r, const struct unwind_start *start, uint64_t most,
			uint8_t *buffer, struct pc_frame *out, uint32_t depth, size_t *n,
			enum unwind_end *end);

/* ---- wandering.c ---- */

enum { WANDERING_MAX = 16 };

/* Ms that do not stay with one thread. */
struct wandering {
	struct map64 procids;		/* m -> its thread at the last walk */
	_Atomic gaddr_t v[WANDERING_MAX];
	uint32_t n;
};

void wandering_init(struct wandering *w);
void wandering_deinit(struct wandering *w);
/* This one does not stay with a thread. */
void wandering_add(struct wandering *w, gaddr_t m);
/* Is there any? May run in another thread than the rest. */
bool wandering_any(const struct wandering *w);
/* What a walk saw: m belongs to this thread. */
struct error *wandering_note(struct wandering *w, gaddr_t m, uint64_t procid);
/* Those that name this thread now; how many. May run in another thread than the rest. */
size_t wandering_find(const struct wandering *w, const struct target *t, const struct go_layout *l,
		      uint64_t procid, gaddr_t ret[WANDERING_MAX]);

/* ---- hold.c ---- */

/* What the capture hook knows; set once, read by the tracer thread. (wandering.c says who writes to those.) */
struct hold_plan {
	struct go_layout layout;
	uint32_t g_span, m_span;
	bool native;			/* copy what C frames need */
	bool race;			/* the program has a race detector */
	struct go_runtime *rt;		/* borrowed; only its layout is asked for */
	const struct wandering *wandering;	/* borrowed; NULL: an m that is not its thread's is none */
};

struct hold_plan hold_plan_make(const struct reader *r, bool native);
/* What a request tells the hook of the thread; 0: not known. */
enum {
	HINT_M,			/* address of its m */
	HINT_G,			/* its goroutine, a guess */
	HINT_PROCID,		/* its id as the runtime knows it */
};

void hold_hook(void *plan, const struct target *t, const struct capture_request *rq, struct capture *c);
/* After hold_hook: its labels, too. */
void hold_keep_labels(const struct hold_plan *plan, const struct target *t, struct capture *c);
bool hold_kept_labels(const struct capture *c, struct go_labels *ret);
/*
 * The same for a thread that may have gone on since its registers and c->views[0] were taken: its goroutine
 * if the stack pointer says which one it was, and nothing else.
 */
void hold_late_hook(void *plan, const struct target *t, const struct capture_request *rq, struct capture *c);
/* Is there room in a note for what it has to hold? */
bool hold_note_fits(const struct hold_plan *plan);
/* What Go code holds in the register for its goroutine; anything else in other code. */
gaddr_t hold_g_register(const struct capture *c);
/* The note is about this m, and no C function has called into Go. */
void hold_note_m(struct capture *c, gaddr_t m);
struct thread;
/*
 * What the hook left in the note; m->m need not be th->m any more. False: no m, or one that is not this
 * thread's (procid differs, or it was given back).
 */
bool hold_read(const struct hold_plan *plan, const struct capture *c, const struct thread *th,
	       struct m_look *m, struct g_look *curg, bool *has_curg);
/* g0's sched.sp where Go may have been called from C; 0: it was not, or that was not asked for. */
gaddr_t hold_read_callbacks(const struct capture *c);
/* The mark of its goroutine's labels; false: it has none, or they could not be marked. */
bool hold_read_mark(const struct hold_plan *plan, const struct capture *c, uint64_t *mark);

/* ---- snapshot_core.c ---- */

/* What a hold would have copied of a thread with a goroutine, and all of that goroutine's stack. */
struct core_thread_copy {
	const struct regs *regs;
	struct m_look m;
	struct g_look g;
	struct unwind_memory mem;
};

typedef struct error *core_thread_seen(void *ctx, const struct core_thread_copy *copy);
/* Calls `seen` for each thread of a core file that runs a goroutine; *n counts them. */
struct error *core_threads_walk(const struct reader *r, const struct hold_plan *plan,
				core_thread_seen *seen, void *ctx, uint32_t *n);

/* ---- threads.c ---- */

struct thread {
	pid_t tid;
	struct task *task;
	bool gone;			/* ended; kept until its capture came back and its time is settled */
	bool listed;			/* scratch of threads_update */
	uint64_t settled_ns;		/* CPU time that has found its place */
	uint64_t cpu_ns;		/* newest reading */
	uint64_t moved_at;		/* when cpu_ns last grew (reader's clock), or it was first seen */
	bool ran;			/* it has grown, or began under our eyes */
	uint64_t owed_ns;		/* gain of earlier seconds that no look could take */
	struct profile_ref *looks;	/* this second's valid looks */
	uint32_t n_looks, cap_looks;
	gaddr_t m;			/* 0: no Go thread */
	uint64_t procid;		/* its id as the runtime knows it */
	bool tracked;			/* has an open interval under its own key */
	uint32_t captured_tick;
	uint8_t missed_m;		/* looks at it that had no m, the first few of them */
	gaddr_t g;			/* that it ran at its last look; 0: none, or not known */
	uint64_t goid;
};

struct threads {
	struct thread **v;		/* pointers stay valid while the array grows */
	uint32_t n, cap;
	pid_t *tids;			/* scratch of the listing */
	uint32_t cap_tids;
	struct map64 by_tid;
	uint32_t cold_next;		/* rotation over cold threads */
	uint64_t listed_at, settled_at;
	gaddr_t allm;			/* head at the last walk */
	uint64_t walked_at;
	bool m_pending;			/* an m without a thread was seen, or a thread without an m: look again */
	uint64_t m_patience_ns;		/* but not before; some never find each other */
	struct wandering wandering;
	uint64_t process_start_ns;	/* process clock when sampling began */
	uint64_t process_ns;		/* newest reading of it, minus the start */
	uint64_t gained_ns;		/* what the threads' own clocks gained since */
	uint64_t ended_ns;		/* told as [ended threads] so far */
	uint64_t told_process_ns;	/* of process_ns, what the health figures have got */
};

struct error *threads_init(struct threads *ts, const struct reader *r);
void threads_deinit(struct threads *ts);
/* Keeps the list of threads and their ms up to date; cheap when nothing changed. */
struct error *threads_update(struct threads *ts, const struct reader *r, struct tracer *tr);
/*
 * Fills rq with the threads that may be on a CPU now: hot ones and 1/32 of the cold ones whose
 * syscall file says "running". Returns how many.
 */
size_t threads_running(struct threads *ts, const struct reader *r, struct tracer *tr,
		       struct capture_request *rq, size_t cap);
/* Does any of them still owe a capture? */
bool threads_owed(const struct threads *ts, struct tracer *tr);
struct thread *threads_find(struct threads *ts, pid_t tid);
/* This one was on a CPU and has no m: perhaps one that is not known yet. */
void threads_miss_m(struct threads *ts, struct thread *th);
struct error *thread_add_look(struct thread *th, struct profile_ref ref);
/* A reading of its clock. */
void thread_clock(struct thread *th, const struct task_times *t, uint64_t now);
/* A second is over since the last time. */
bool threads_due(const struct threads *ts, uint64_t now);
/*
 * When that is due and at a window's end: what each thread gained goes to its own valid looks;
 * `final`: what is left over becomes [unseen], the rest of the process clock [ended threads].
 */
void threads_settle(struct threads *ts, const struct reader *r, struct profile *p, bool final);
/* What the target has used since its clocks were last read is nobody's: goprof was stopped meanwhile. */
struct error *threads_skip(struct threads *ts, const struct reader *r);

/* ---- oncpu.c ---- */

struct oncpu_facts {
	uint64_t t_tick, t_arrived;
	bool in_time;		/* arrived within its own tick's polling */
	bool tick_late;		/* the tick itself came too late to believe in its looks */
	bool waits;		/* stands in a waiting call */
	struct task_times before, held;
};

/* Was the thread on a CPU at the tick? (Rule P; the reasons are told in oncpu.c.) */
bool oncpu_valid(const struct oncpu_facts *f);
/* Share i of n of a gain: the shares add up to the gain exactly. */
uint64_t oncpu_share(uint64_t gain, uint32_t n, uint32_t i);

/* ---- audit.c ---- */

/* Which pairs of caller and callee have been looked at, and what came of it. */
struct audit {
	struct map64 calls;		/* hash of caller and callee -> enum call_site */
	uint64_t checked;		/* pairs decoded so far */
};

void audit_init(struct audit *a);
void audit_deinit(struct audit *a);
/* How many frames follow no call of their callee? `fresh_only`: of pairs not looked at before. */
size_t audit_stack(struct audit *a, struct go_runtime *rt, const struct pc_frame *frames, size_t n,
		   bool fresh_only);

/* ---- intern.c ---- */

struct intern {
	struct go_runtime *rt;
	struct symbols *symbols;
	struct profile *profile;
	struct arena arena;		/* what frame_lists point to */
	uint64_t generation;		/* of the symbols, for which frames and stacks hold */
	struct map64 frames;		/* pc and kind -> index in frame_lists */
	struct frame_list *frame_lists;
	uint32_t n_lists, cap_lists;
	struct map64 stacks;		/* hash of pcs -> stack id */
	struct map64 labels;		/* g.labels -> index in label_sets */
	struct label_set *label_sets;
	uint32_t n_sets, cap_sets;
	struct map64 system;		/* startpc -> 0, 1, or 2: it depends */
	struct audit audit;
	profile_id state_ids[128];	/* by number, from status and wait reason; 0: not asked yet */
	struct go_labels *scratch;
	profile_id *frame_scratch;
	uint32_t cap_scratch;
	size_t n_images;		/* of the symbols' images, those the store has got */
};

/* With `images` C code has names (borrowed; NULL: "[C]"). */
struct error *intern_init(struct intern *in, const struct target *t, struct go_runtime *rt,
			  struct images *images, struct profile *p);
void intern_deinit(struct intern *in);
/* The store has a new epoch: no id that was given before is of use. */
void intern_forget(struct intern *in);
/* The texts of states go into the store's new tables; before intern_forget. */
struct error *intern_carry(struct intern *in, struct profile_carry *c);
struct error *intern_stack(struct intern *in, const struct pc_frame *frames, size_t n,
			   enum unwind_end end, profile_id *ret);
/* A stack of one pseudo frame ("[moved while it was read]"). */
struct error *intern_pseudo(struct intern *in, const char *name, profile_id *ret);
/* What a goroutine does has a small number, and a text for it in the store. */
struct error *intern_state(struct intern *in, const struct g_look *g, uint8_t *ret);
profile_id intern_state_id(const struct intern *in, uint8_t state);
/*
 * The label set at g.labels as it is now; whether the goroutine still holds it is the caller's
 * question. Looked at once per tick (`tick`, from 1) at most.
 */
struct error *intern_labels(struct intern *in, const struct target *t, gaddr_t labels,
			    uint32_t tick, profile_id *ret);
/* The set that had this mark (go_labels_mark); PROFILE_LABELS_UNKNOWN when it is no longer there. */
struct error *intern_labels_marked(struct intern *in, const struct target *t, gaddr_t labels,
				   uint64_t mark, profile_id *ret);
/* The set as it was copied in the hold, for this pointer and mark. */
struct error *intern_labels_kept(struct intern *in, const struct capture *c, gaddr_t labels, uint64_t mark,
				 profile_id *ret);
struct error *intern_track(struct intern *in, const struct g_look *g, bool system);
/* What a thread is that has a track of its own. */
enum thread_kind {
	THREAD_GO,		/* an m that runs no goroutine: collector, scheduler */
	THREAD_NON_GO,		/* made by C; its own name is told, too */
	THREAD_UNKNOWN,		/* restricted mode: which goroutine it runs cannot be told */
};

struct error *intern_thread_track(struct intern *in, const struct target *t, uint64_t key, enum thread_kind kind);
bool intern_is_system(struct intern *in, const struct g_look *g);

#endif
