/*
 * threads.c: the threads of the target: which of them the runtime knows as an m, which are worth
 * a look now, and where the CPU time that each gained has gone.
 *
 * A thread's schedstat is exact inside a hold and cheap enough to read once a second for all. A
 * gain is spread over the thread's own valid looks of that second. Without a look it is owed to
 * its next second; what is still owed when a window ends is [unseen]. What the process clock has
 * beyond the sum of the threads belongs to threads that ended between two readings.
 *
 * Ms: runtime.allm is a list with new ones at its head; nearly every m keeps its thread (procid) for
 * life (wandering.c has the others).
 * Upstream: src/runtime/proc.go (mcommoninit, mexit), runtime2.go (type m).
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "sample/sample_impl.h"

enum {
	COLD_SHARE = 32,		/* one in so many cold threads is looked at per tick */
	GUESS_SPANS = 64,
	IMPATIENT_LOOKS = 4,		/* at a thread without an m, after which it is searched for at once */
	M_MAX = 100 * 1000,		/* the runtime's own limit is 10,000 unless raised */
};

/* The clocks of threads and of their process are not read at one instant. */
#define TAKEN_OVER_NS (20ull * NSEC_PER_MSEC)

static const uint64_t hot_ns = NSEC_PER_SEC;		/* its clock moved within this time */
static const uint64_t list_every_ns = NSEC_PER_SEC / 5;
static const uint64_t settle_every_ns = NSEC_PER_SEC;
static const uint64_t patience_first_ns = 5 * NSEC_PER_MSEC;	/* at the next tick, then ever more rarely */
static const uint64_t patience_last_ns = 100 * NSEC_PER_MSEC;

static void thread_free(struct thread *th)
{
	task_close(th->task);
	free(th->looks);
	free(th);
}

struct thread *threads_find(struct threads *ts, pid_t tid)
{
	uint32_t i = map64_get(&ts->by_tid, tid);

	return i == MAP_NONE ? NULL : ts->v[i];
}

static struct error *add_thread(struct threads *ts, struct thread *th)
{
	struct error *err = array_reserve(&ts->v, &ts->cap, ts->n + 1, sizeof(*ts->v));

	if (!err)
		err = map64_put(&ts->by_tid, th->tid, ts->n);
	if (!err)
		ts->v[ts->n++] = th;
	return err;
}

/* `born`: it started under our eyes, so all of its CPU time counts; else only what comes now. */
static struct error *open_thread(struct threads *ts, const struct reader *r, pid_t tid, bool born)
{
	struct thread *th = calloc(1, sizeof(*th));
	struct task_times t;
	struct error *err;

	if (!th)
		return &err_nomem;
	th->tid = tid;
	err = task_open(r->target, tid, &th->task);
	if (!err && task_read_times(th->task, &t)) {
		th->cpu_ns = t.cpu_ns;
		/* The main thread is as old as its process; a later reading is one after a failed one. */
		th->settled_ns = born && tid != target_pid(r->target) ? 0 : t.cpu_ns;
		th->moved_at = reader_now(r);
		th->ran = born;
		err = add_thread(ts, th);
		if (!err)
			return NULL;
	}
	thread_free(th);
	/* It ended meanwhile; or we are out of descriptors: its time will be told as [ended threads]. */
	if (err == &err_gone || err == &err_nomem || !err)
		return NULL;
	return err;
}

/* Takes thread i out of the list; the last one takes its place. */
static void drop_thread(struct threads *ts, uint32_t i)
{
	struct thread *th = ts->v[i], *last = ts->v[ts->n - 1];

	map64_del(&ts->by_tid, th->tid);
	ts->v[i] = last;
	ts->n--;
	/* Replaces the entry that is there: needs no memory. */
	if (last != th)
		error_free(map64_put(&ts->by_tid, last->tid, i));
	thread_free(th);
}

static struct error *read_tids(struct threads *ts, const struct reader *r, size_t *n)
{
	for (int tries = 0; tries < 4; tries++) {
		struct error *err;

		*n = ts->cap_tids;
		err = target_tids(r->target, ts->tids, n);
		if (err || *n <= ts->cap_tids)
			return err;
		err = array_reserve(&ts->tids, &ts->cap_tids, *n + 64, sizeof(*ts->tids));
		if (err)
			return err;
	}
	*n = ts->cap_tids;	/* they are made faster than we can count: these will do */
	return NULL;
}

static struct error *list_threads(struct threads *ts, const struct reader *r, bool first)
{
	size_t n;
	struct error *err = read_tids(ts, r, &n);

	if (err)
		return err;
	for (uint32_t i = 0; i < ts->n; i++)
		ts->v[i]->listed = false;
	for (size_t i = 0; i < n; i++) {
		struct thread *th = threads_find(ts, ts->tids[i]);

		if (!th) {
			err = open_thread(ts, r, ts->tids[i], !first);
			if (err)
				return err;
			th = threads_find(ts, ts->tids[i]);
		}
		if (th)
			th->listed = true;
	}
	for (uint32_t i = 0; i < ts->n; i++)
		if (!ts->v[i]->listed)
			ts->v[i]->gone = true;
	ts->listed_at = reader_now(r);
	return NULL;
}

/* Joins an m with its thread. False: it has none yet. `news`: this was not known before. */
static bool join_m(struct threads *ts, const struct reader *r, const struct m_look *m, bool *news)
{
	pid_t tid = m->procid ? target_tid_from_inner(r->target, m->procid) : -1;
	struct thread *th;

	if (tid <= 0)
		return false;
	error_free(wandering_note(&ts->wandering, m->m, m->procid));
	th = threads_find(ts, tid);
	if (!th) {
		error_free(open_thread(ts, r, tid, true));
		th = threads_find(ts, tid);
	}
	/* Two name this thread: one of them was given back. */
	if (th && th->m && th->m != m->m && th->procid == m->procid) {
		wandering_add(&ts->wandering, th->m);
		wandering_add(&ts->wandering, m->m);
	}
	if (th) {
		*news |= !th->m;	/* where two ms name one thread they take turns: no news */
		th->m = m->m;
		th->procid = m->procid;
	}
	return true;
}

/*
 * An m gets its thread's number within microseconds of its making; but one whose thread has ended may stay in the
 * list without a number for ever, and threads of C code are no m's.
 */
static void be_patient(struct threads *ts, bool in_vain)
{
	if (!in_vain)
		ts->m_patience_ns = 0;
	else if (ts->m_patience_ns < patience_last_ns)
		ts->m_patience_ns = 2 * ts->m_patience_ns + patience_first_ns;
}

void threads_miss_m(struct threads *ts, struct thread *th)
{
	ts->m_pending = true;
	if (th->missed_m < IMPATIENT_LOOKS) {
		th->missed_m++;
		ts->m_patience_ns = 0;
	}
}

static struct error *walk_ms(struct threads *ts, const struct reader *r)
{
	uint8_t bytes[GO_SPANS_MAX];
	gaddr_t at, head;
	bool news = false, asked = ts->m_pending;
	struct error *err;

	if (r->m_span > sizeof(bytes))
		return &err_corrupt;
	err = target_read_u64(r->target, go_runtime_globals(r->rt)[GO_ALLM].addr, &head);
	if (err)
		return err;
	ts->m_pending = false;
	at = head;
	for (uint32_t n = 0; at && n < M_MAX; n++) {
		struct m_look m;

		err = target_read(r->target, at, bytes, r->m_span);
		if (err)
			return err == &err_fault ? NULL : err;
		m_parse(r->layout, at, bytes, &m);
		if (!join_m(ts, r, &m, &news))
			ts->m_pending = true;
		at = m.alllink;
	}
	be_patient(ts, (asked || ts->m_pending) && !news && head == ts->allm);
	ts->allm = head;
	ts->walked_at = reader_now(r);
	return NULL;
}

struct error *threads_init(struct threads *ts, const struct reader *r)
{
	struct error *err;

	*ts = (struct threads){ 0 };
	map64_init(&ts->by_tid);
	wandering_init(&ts->wandering);
	target_cpu_ns(r->target, &ts->process_start_ns);
	err = list_threads(ts, r, true);
	ts->settled_at = reader_now(r);
	return err;
}

void threads_deinit(struct threads *ts)
{
	for (uint32_t i = 0; i < ts->n; i++)
		thread_free(ts->v[i]);
	free(ts->v);
	free(ts->tids);
	map64_deinit(&ts->by_tid);
	wandering_deinit(&ts->wandering);
	*ts = (struct threads){ 0 };
}

/* Threads that have ended, are settled and owe no capture. */
static void forget_gone(struct threads *ts, struct tracer *tr)
{
	for (uint32_t i = 0; i < ts->n;) {
		const struct thread *th = ts->v[i];

		if (th->gone && !th->n_looks && !th->tracked && th->settled_ns >= th->cpu_ns &&
		    !th->owed_ns && !tracer_owes(tr, th->tid))
			drop_thread(ts, i);
		else
			i++;
	}
}

/* Kept fresh at every tick, as it cannot be read any more when the process has ended. */
static void read_process_clock(struct threads *ts, const struct reader *r)
{
	uint64_t now;

	if (target_cpu_ns(r->target, &now) && now >= ts->process_start_ns + ts->process_ns)
		ts->process_ns = now - ts->process_start_ns;
}

static bool walk_is_due(const struct threads *ts, gaddr_t head, uint64_t now)
{
	uint64_t age = now - ts->walked_at;

	return head != ts->allm || age >= settle_every_ns || (ts->m_pending && age >= ts->m_patience_ns);
}

struct error *threads_update(struct threads *ts, const struct reader *r, struct tracer *tr)
{
	uint64_t now = reader_now(r), head = 0;
	struct error *err = NULL;

	read_process_clock(ts, r);
	if (now - ts->listed_at >= list_every_ns) {
		err = list_threads(ts, r, false);
		forget_gone(ts, tr);
	}
	if (err || !r->goroutines || !go_runtime_globals(r->rt)[GO_ALLM].addr)
		return err;
	err = target_read_u64(r->target, go_runtime_globals(r->rt)[GO_ALLM].addr, &head);
	if (!err && walk_is_due(ts, head, now))
		err = walk_ms(ts, r);
	return err;
}

/* Fills one request if the thread is on a CPU or waits for one. */
static bool request(struct thread *th, const struct reader *r, struct tracer *tr,
		    struct capture_request *rq)
{
	struct task_syscall call;
	enum task_state state;

	if (th->gone || tracer_owes(tr, th->tid))
		return false;
	state = task_read_syscall(th->task, &call);
	if (state == TASK_GONE)
		th->gone = true;
	if (state != TASK_RUNNING)
		return false;
	*rq = (struct capture_request){ .task = th->task, .cookie = th->tid, 
					.hint = { [HINT_M] = th->m, [HINT_PROCID] = th->procid } };
	rq->t_tick = reader_now(r);
	if (!task_read_times(th->task, &rq->before)) {
		th->gone = true;
		return false;
	}
	thread_clock(th, &rq->before, rq->t_tick);
	return true;
}

/* Which goroutine each runs now: a guess for the hook, which then needs one read less. */
static void guess_goroutines(const struct reader *r, struct capture_request *rq, size_t n)
{
	gaddr_t at = r->layout->f[GO_M_CURG].offset;

	for (size_t first = 0, k; first < n; first += k) {
		struct span v[GUESS_SPANS];

		for (k = 0; k < GUESS_SPANS && first + k < n; k++) {
			struct capture_request *q = &rq[first + k];

			v[k] = (struct span){ .addr = q->hint[HINT_M] + at, .buf = &q->hint[HINT_G],
					      .len = q->hint[HINT_M] ? sizeof(q->hint[HINT_G]) : 0 };
		}
		if (target_read_v(r->target, v, k))
			return;
	}
}

size_t threads_running(struct threads *ts, const struct reader *r, struct tracer *tr,
		       struct capture_request *rq, size_t cap)
{
	uint64_t now = reader_now(r);
	uint32_t round = ts->cold_next++, phase = round % COLD_SHARE;
	size_t n = 0;

	/* Each tick begins elsewhere: with more running threads than `cap` all get their turn. */
	for (uint32_t k = 0; k < ts->n && n < cap; k++) {
		uint32_t i = (k + (uint64_t)round * cap) % ts->n;
		struct thread *th = ts->v[i];
		bool hot = now - th->moved_at < hot_ns;

		if ((hot || i % COLD_SHARE == phase) && request(th, r, tr, &rq[n]))
			n++;
	}
	guess_goroutines(r, rq, n);
	return n;
}

bool threads_owed(const struct threads *ts, struct tracer *tr)
{
	for (uint32_t i = 0; i < ts->n; i++)
		if (tracer_owes(tr, ts->v[i]->tid))
			return true;
	return false;
}

struct error *thread_add_look(struct thread *th, struct profile_ref ref)
{
	struct error *err = array_reserve(&th->looks, &th->cap_looks, th->n_looks + 1, sizeof(ref));

	if (!err)
		th->looks[th->n_looks++] = ref;
	return err;
}

void thread_clock(struct thread *th, const struct task_times *t, uint64_t now)
{
	if (t->cpu_ns > th->cpu_ns) {
		th->cpu_ns = t->cpu_ns;
		th->moved_at = now;
		th->ran = true;
	}
}

static void tell_unseen(struct profile *p, uint64_t ns)
{
	profile_credit_unseen(p, ns);
	profile_health_add(p, HEALTH_CPU_UNSEEN, ns);
	profile_health_add(p, HEALTH_CPU_ACCOUNTED, ns);
}

static void tell_ended(struct profile *p, uint64_t ns)
{
	profile_credit_ended(p, ns);
	profile_health_add(p, HEALTH_CPU_ENDED, ns);
	profile_health_add(p, HEALTH_CPU_ACCOUNTED, ns);
}

static void tell_look(struct profile *p, struct profile_ref ref, uint64_t ns)
{
	if (profile_credit(p, ref, ns))
		profile_health_add(p, HEALTH_CPU_ACCOUNTED, ns);
	else
		tell_unseen(p, ns);	/* its window is closed: cannot be, as windows end settled */
}

/* Spreads what one thread gained; returns the gain. */
static uint64_t settle_thread(struct thread *th, struct profile *p, bool final)
{
	uint64_t gain = th->cpu_ns - th->settled_ns, due = gain + th->owed_ns;

	th->settled_ns = th->cpu_ns;
	th->owed_ns = 0;
	if (th->n_looks) {
		for (uint32_t i = 0; i < th->n_looks; i++)
			tell_look(p, th->looks[i], oncpu_share(due, th->n_looks, i));
		th->n_looks = 0;
	} else if (final || th->gone) {
		tell_unseen(p, due);
	} else {
		th->owed_ns = due;
	}
	return gain;
}

/* What the process clock has beyond its threads' clocks: threads that nobody saw end. */
static void settle_process(struct threads *ts, const struct reader *r, struct profile *p)
{
	read_process_clock(ts, r);
	if (ts->process_ns > ts->gained_ns + ts->ended_ns) {
		uint64_t ended = ts->process_ns - ts->gained_ns - ts->ended_ns;

		tell_ended(p, ended);
		ts->ended_ns += ended;
	}
	if (ts->process_ns > ts->told_process_ns) {
		profile_health_add(p, HEALTH_CPU_PROCESS, ts->process_ns - ts->told_process_ns);
		ts->told_process_ns = ts->process_ns;
	}
}

/*
 * A thread that calls exec waits for the end of all others and then takes over the number of the main
 * thread, whose files tell *its* CPU time from there on; only later is the old memory gone, which
 * is what target_life sees. That time was told already, as the thread's own: together they are more
 * than the process has used. Then the main thread's last second is taken back.
 * Upstream: de_thread and exec_mmap in fs/exec.c.
 */
static void distrust_leader(struct threads *ts, const struct reader *r)
{
	struct thread *leader = threads_find(ts, target_pid(r->target));
	uint64_t gained = ts->gained_ns;
	size_t n = 0;
	pid_t none;
	_cleanup_error_ struct error *err = leader && ts->n > 1 ? target_tids(r->target, &none, &n) : NULL;

	for (uint32_t i = 0; i < ts->n; i++)
		gained += ts->v[i]->cpu_ns - ts->v[i]->settled_ns;
	read_process_clock(ts, r);
	if (!err && n == 1 && gained > ts->process_ns + TAKEN_OVER_NS)
		leader->cpu_ns = leader->settled_ns;
}

bool threads_due(const struct threads *ts, uint64_t now)
{
	return now - ts->settled_at >= settle_every_ns;
}

void threads_settle(struct threads *ts, const struct reader *r, struct profile *p, bool final)
{
	uint64_t now = reader_now(r);
	/* At exec the calling thread takes over the leader's number, and its clock with it. */
	bool readable = target_life(r->target) == TARGET_ALIVE;

	for (uint32_t i = 0; i < ts->n; i++) {
		struct thread *th = ts->v[i];
		struct task_times t;

		if (readable && !th->gone && task_read_times(th->task, &t))
			thread_clock(th, &t, now);
		else
			th->gone = true;
	}
	distrust_leader(ts, r);
	for (uint32_t i = 0; i < ts->n; i++)
		ts->gained_ns += settle_thread(ts->v[i], p, final);
	if (final)
		settle_process(ts, r, p);
	ts->settled_at = now;
}

struct error *threads_skip(struct threads *ts, const struct reader *r)
{
	uint64_t now = reader_now(r), process;

	for (uint32_t i = 0; i < ts->n; i++) {
		struct thread *th = ts->v[i];
		struct task_times t;

		if (th->gone || !task_read_times(th->task, &t) || t.cpu_ns < th->cpu_ns)
			continue;
		/* What it had gained until then stays due. */
		th->settled_ns += t.cpu_ns - th->cpu_ns;
		th->cpu_ns = t.cpu_ns;
		th->moved_at = now;	/* which of them are busy is not known any more: all are looked at */
	}
	if (target_cpu_ns(r->target, &process) && process >= ts->process_start_ns + ts->process_ns)
		ts->process_start_ns = process - ts->process_ns;
	/* Threads that are new have run unseen. */
	return list_threads(ts, r, true);
}
