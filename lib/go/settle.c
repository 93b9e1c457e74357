/*
 * settle.c: which layout is believed for a process, and what may be claimed with it.
 *
 * From what costs nothing to what is dear, and never more than was proved:
 * 1. the row of this very version, if it and the globals fit the process (check.c);
 * 2. members proved one by one by what the process holds (calibrate.c), with addresses from the
 *    symbols or the code, else from a search in its data (globals_data.c);
 * 3. the program's debug information: it fills what 2 had to leave open if it agrees with all that 2
 *    found, and does alone where 2 found nothing. It, too, must fit the process;
 * 4. nothing: restricted mode, or a refusal if that was asked for.
 *
 * A process that has just been started fits nothing yet. It counts as up when a thread other than
 * the first stands in Go code: the runtime has made one by then.
 *
 * Upstream: src/runtime/proc.go (schedinit, main).
 */
#include <string.h>

#include "base/cleanup.h"
#include "go/settle_impl.h"

enum { ATTEMPTS = 6, TIDS_MAX = 256 };

/* What came out; the reason stays with the first thing that did not fit. */
struct settling {
	struct go_runtime *rt;
	struct look look;
	char why[160];
};

static void accept(struct settling *s)
{
	struct go_runtime *rt = s->rt;

	rt->restricted = NULL;
	rt->caps = GO_CAP_PCLNTAB;
	rt->caps |= check_caps(&s->look);
	rt->checked = true;
}

/* ---- is it up? ---- */

static bool stands_in_go(struct go_runtime *rt, pid_t tid)
{
	struct target *t = rt->process->target;
	struct task_syscall call;
	struct go_func f;
	struct task *task;
	struct error *err;
	struct regs regs;
	bool stands;

	if (target_is_core(t))
		return target_thread_regs(t, tid, &regs) && go_func_find(rt, regs.pc, &f);
	err = task_open(t, tid, &task);
	error_free(err);
	if (err)
		return false;
	stands = task_read_syscall(task, &call) == TASK_BLOCKED && go_func_find(rt, call.pc, &f);
	task_close(task);
	return stands;
}

static bool is_up(struct go_runtime *rt)
{
	pid_t tids[TIDS_MAX];
	size_t n = TIDS_MAX;
	struct error *err = target_tids(rt->process->target, tids, &n);

	error_free(err);
	if (err)
		return false;
	for (size_t i = 0; i < n && i < TIDS_MAX; i++)
		if (tids[i] != target_pid(rt->process->target) && stands_in_go(rt, tids[i]))
			return true;
	return false;
}

/* ---- calibration ---- */

/* What a row of another version says of this process is not kept, also of the module. */
static void drop_row(struct go_runtime *rt)
{
	static const enum go_field unproved[] = { GO_MD_SIZE, GO_MD_TYPES, GO_MD_RODATA, GO_MD_HASMAIN,
						  GO_MD_NEXT };
	struct go_global_at *sched = &rt->globals[GO_SCHED];

	rt->has_layout = false;
	for (size_t i = 0; i < sizeof(unproved) / sizeof(unproved[0]); i++)
		rt->layout.f[unproved[i]] = (struct go_field_at){ .offset = -1 };
	/* Found as one of its members, whose place in it only a row tells. */
	if (sched->source == GO_SOURCE_CODE)
		*sched = (struct go_global_at){ 0 };
	rt->wait_reasons_read = false;
	if (!rt->globals[GO_WAITREASON_STRINGS].addr)
		(void)go_wait_reasons_in_data(rt);
	rt->wrapper_id = go_wrapper_id_shown(rt);
}

/* A layout is put to the test by being the runtime's. */
static enum verdict try_layout(struct settling *s, const struct go_layout *l)
{
	struct go_layout before = s->rt->layout;
	enum verdict v;

	s->rt->layout = *l;
	go_layout_shorten(&s->rt->layout);
	v = check_runtime(s->rt, &s->look);
	if (v != FITS)
		s->rt->layout = before;
	return v;
}

/* Other addresses than those that did not do. Lists change: what two places hold now, one may hold later. */
static bool search_data(struct settling *s, const struct go_layout *l)
{
	if (!go_has(l, GO_G_SCHED_G) || !go_has(l, GO_G_GOID))
		return go_allgs_in_data(s->rt);
	return go_allm_in_data(s->rt, l);
}

static enum verdict calibrate_once(struct settling *s, struct go_layout *l)
{
	struct go_layout before = s->rt->layout;
	enum verdict v;

	*l = before;
	v = go_calibrate(s->rt, l, s->why, sizeof(s->why));
	s->rt->layout = before;
	if (v != FITS)
		return v;
	v = try_layout(s, l);
	if (v == MISFIT)
		snprintf(s->why, sizeof(s->why), "%s", s->look.why);
	return v;
}

static enum verdict calibrate(struct settling *s)
{
	enum verdict v = MISFIT;
	struct go_layout l = s->rt->layout;

	for (int i = 0; i < ATTEMPTS && v == MISFIT; i++) {
		v = calibrate_once(s, &l);
		if (v == MISFIT && (i == 0 || i >= ATTEMPTS / 2))
			(void)search_data(s, &l);
	}
	return v;
}

/* ---- debug information ---- */

static bool wanted(int f)
{
	return f < GO_MD_SIZE || f > GO_MD_NEXT;	/* the module was found and read already */
}

/* Is there anything that calibration had to leave open? */
static bool has_gaps(const struct go_layout *l)
{
	for (int f = 0; f < GO_FIELD_COUNT; f++)
		if (wanted(f) && !go_has(l, f))
			return true;
	return false;
}

/* Fills the gaps of `l`; false: the two contradict each other, so one of them is of another program. */
static bool merge(struct go_layout *l, const struct go_layout *dwarf)
{
	for (int f = 0; f < GO_FIELD_COUNT; f++) {
		if (!wanted(f))
			continue;
		if (go_has(l, f) && l->f[f].offset != dwarf->f[f].offset)
			return false;
		if (!go_has(l, f))
			l->f[f] = dwarf->f[f];
	}
	return true;
}

static bool use_dwarf(struct settling *s, bool calibrated)
{
	struct go_layout dwarf, l = s->rt->layout;
	struct error *err = s->rt->n_modules ? go_layout_dwarf(s->rt->modules[0].image, &dwarf) : &err_notfound;

	error_free(err);
	if (err)
		return false;
	if (!calibrated)
		go_layout_forget(&l);
	return merge(&l, &dwarf) && try_layout(s, &l) == FITS;
}

/* ---- what is left ---- */

static struct error *restrict_to_threads(struct settling *s, const char *why)
{
	struct go_runtime *rt = s->rt;
	const char *kept;

	if (rt->process->options.strict)
		return error_why(error_new(ERROR_UNSUPPORTED, "the layout known for %s does not fit this process",
					   rt->build.version[0] ? rt->build.version : "this Go version"),
				 "%s", why);
	kept = arena_strndup(&rt->strings, why, strlen(why));
	if (!kept)
		return &err_nomem;
	go_layout_forget(&rt->layout);
	rt->restricted = kept;
	rt->caps = GO_CAP_PCLNTAB;
	rt->checked = true;
	return NULL;
}

/* After the row: by proof, by debug information, or not at all. */
static struct error *settle(struct settling *s, const char *row_why)
{
	enum verdict v;

	drop_row(s->rt);
	v = calibrate(s);
	if (v == NOT_UP)
		return &err_end;
	if (v == FITS || use_dwarf(s, false)) {
		accept(s);
		/* A second look with more members; if it fails the first one stands. */
		if (v == FITS && has_gaps(&s->rt->layout) && use_dwarf(s, true))
			accept(s);
		return NULL;
	}
	if (target_life(s->rt->process->target) != TARGET_ALIVE)
		return &err_gone;
	if (!is_up(s->rt))
		return &err_end;
	return restrict_to_threads(s, row_why ? row_why : s->why);
}

struct error *go_runtime_check(struct go_runtime *rt)
{
	struct settling s = { .rt = rt };
	struct go_global_at before[GO_GLOBAL_COUNT];
	struct go_layout row = rt->layout;
	bool has_row = rt->has_layout;
	uint8_t wrapper_id = rt->wrapper_id;
	enum verdict v = MISFIT;
	struct error *err;
	char why[160];

	if (!rt->process->target)
		return error_new(ERROR_NO_PROCESS, "there is no process to check, only a file");
	if (has_row) {
		v = check_runtime(rt, &s.look);
		if (v == FITS)
			accept(&s);
		if (v == FITS || (v == NOT_UP && !is_up(rt)))
			return v == FITS ? NULL : &err_end;
	}
	snprintf(why, sizeof(why), "%s", s.look.why);
	memcpy(before, rt->globals, sizeof(before));
	err = settle(&s, v == MISFIT && has_row ? why : NULL);
	if (err) {		/* all is asked anew the next time */
		memcpy(rt->globals, before, sizeof(before));
		rt->layout = row;
		rt->has_layout = has_row;
		rt->wrapper_id = wrapper_id;
		rt->wait_reasons_read = false;
	}
	return err;
}
