/*
 * see_goroutine.c: what a tick makes of goroutines that are not on a CPU. The header tells whether
 * one has run since its last look (before Go 1.17 with the help of stand_in.c); only then, or while it is hot,
 * its stack is read.
 *
 * Hot: a counter of 8 bits wraps, so an equal fingerprint proves nothing right after a change, nor of a
 * goroutine that is new. For a few looks more the stack is read all the same; for many more if the counter was
 * seen to leap: such a goroutine rests when it gets no core, and comes round in one look when it goes on. An
 * audit of a few unchanged ones finds those that park in lockstep with the ticks; they stay hot for ever.
 */
#include "sample/sampler_impl.h"

enum {
	HOT_LOOKS = 2,		/* looks after a change for which a fingerprint is not believed */
	BUSY_LOOKS = 100,	/* the same of one that parks so often that the counter may come round */
	BUSY_PARKS = 64,	/* between two looks */
	/*
	 * One in so many believed fingerprints is checked against the stack: each goroutine every 5 s. Twice as many
	 * of 10,000 would cost a percent of a core.
	 */
	AUDIT_SHARE = 512,
	FOREVER_HOT = 127,	/* an audit found it changed: never believed again */
};

uint64_t sampler_random(struct sampler *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random;
}

static void keep_hot(struct g_slot *slot, uint8_t looks)
{
	if (slot->hot < looks)
		slot->hot = looks;
}

/* The slot's goroutine is no more (dead, or its struct has another goid now). */
static struct error *slot_clear(struct sampler *s, struct g_slot *slot, uint64_t t)
{
	struct error *err = NULL;

	if (slot->goid && !slot->system && slot->captured && slot->sampled && slot->captured_tick == tick_mark(s->tick))
		err = let_linger(s, slot);
	else if (slot->goid && !slot->system)
		profile_gone(s->profile, slot->goid, t);
	slot->goid = 0;
	slot->known = slot->still = slot->captured = slot->told = false;
	slot->swapped = 0;
	return err;
}

/* Those that were there before us have mostly been waiting for long: reading a million stacks twice more is dear. */
static uint8_t first_heat(const struct sampler *s)
{
	return s->rounds ? HOT_LOOKS : 0;
}

/* A goroutine is seen for the first time. */
struct error *slot_begin(struct sampler *s, struct g_slot *slot, const struct g_look *look)
{
	struct error *err = slot_clear(s, slot, look->t_before);

	if (err)
		return err;
	slot->goid = look->goid;
	slot->parks = look->trackingseq;
	births_seen(s, look->goid);
	slot->hot = first_heat(s);
	slot->system = !s->options.system && intern_is_system(&s->intern, look);
	return slot->system ? NULL : intern_track(&s->intern, look, false);
}

static bool is_alive(const struct g_look *look)
{
	return look->goid && look->status != G_IDLE && look->status != G_DEAD &&
	       look->status != G_DEADEXTRA;
}

/* Distances are random: nobody can walk along with the audit. */
static bool is_audited(struct sampler *s)
{
	if (s->unaudited) {
		s->unaudited--;
		return false;
	}
	s->unaudited = (uint32_t)(sampler_random(s) % (2 * AUDIT_SHARE));
	return true;
}

/* Is the struct as it was, and is that reason enough to believe that nothing else has changed? */
static bool unchanged(struct sampler *s, const struct g_slot *slot, uint32_t print)
{
	if (!slot->still || slot->hot || slot->captured || slot->print != print)
		return false;
	if (!slot->goid || slot->system)
		return true;
	if (is_audited(s))
		return false;
	s->n_unchanged++;
	return true;
}

/* Nothing to be told of it until its struct changes. */
static void leave_alone(struct g_slot *slot, const struct g_look *look)
{
	slot->print = slot_print(look->fingerprint);
	slot->still = true;
	slot->hot = 0;
}

/* Nothing of it was read yet but this header: it goes on waiting for its first look. */
static bool waits_for_first(const struct g_slot *slot, uint32_t print)
{
	return slot->told && !slot->known && !slot->captured && slot->goid && !slot->system &&
	       slot->print == print;
}

/* A header that is not what it was at the last look; `place`: if it has one already. */
static struct error *see_changed(struct sampler *s, struct g_slot *slot, const struct g_look *look, uint32_t place)
{
	struct error *err;

	if (!is_alive(look)) {
		err = slot_clear(s, slot, look->t_before);
		leave_alone(slot, look);
		return err;
	}
	if (look->goid != slot->goid) {
		err = slot_begin(s, slot, look);
		if (err)
			return err;
	}
	if (slot->system) {
		leave_alone(slot, look);
		return NULL;
	}
	return rotation_want(s, slot, look, place == ROTATION_NO_PLACE ? rotation_place(s) : place);
}

/* Nothing counts its parks, but it may well be where it was. */
static bool needs_stand_in(const struct sampler *s, const struct g_slot *slot, const struct g_look *look)
{
	return s->stand_in && slot->known && slot->still && !slot->hot && !slot->captured && !slot->system &&
	       is_alive(look) && slot->goid == look->goid;
}

struct error *see_print(struct sampler *s, struct g_slot *slot, const struct g_look *look, uint64_t print)
{
	if (unchanged(s, slot, slot_print(print)))
		return NULL;
	slot->still = slot->print == slot_print(print);	/* or else what has changed is not known; put_off asks */
	return see_changed(s, slot, look, ROTATION_NO_PLACE);
}

/* One header of the pass (struct gs): most goroutines have not moved and end here. */
struct error *see_header(void *ctx, struct g_slot *slot, const uint8_t *bytes, uint64_t t_before,
			 uint64_t t_after)
{
	struct sampler *s = ctx;
	uint32_t print = slot_print(g_fingerprint(s->reader.layout, bytes));
	uint32_t place = ROTATION_NO_PLACE;
	struct g_look look;

	if (unchanged(s, slot, print))
		return NULL;
	/* Of a million at first nearly all end here, before they cost more. */
	if (waits_for_first(slot, print)) {
		place = rotation_place(s);
		if (place == ROTATION_NO_PLACE)
			return NULL;
	}
	g_parse(s->reader.layout, slot->addr, bytes, &look);
	look.t_before = t_before;
	look.t_after = t_after;
	if (needs_stand_in(s, slot, &look))
		return stand_in_ask(s, slot, &look);
	return see_changed(s, slot, &look, place);
}

static struct error *observe(struct sampler *s, struct g_slot *slot, const struct g_look *look,
			     profile_id stack, uint8_t state, profile_id labels)
{
	const struct profile_observation o = {
		.key = look->goid, .stack = stack, .state = intern_state_id(&s->intern, state), .labels = labels,
		.weight = 1, .t_before = look->t_before, .t_after = look->t_after,
	};
	struct profile_ref ref;

	slot->captured = false;
	slot->told = true;
	return profile_observe(s->profile, &o, &ref);
}

void count_stack(struct sampler *s, enum unwind_end end)
{
	static const enum health_id counter[UNWIND_END_COUNT] = {
		[UNWIND_COMPLETE] = HEALTH_STACKS_COMPLETE,
		[UNWIND_GAP] = HEALTH_STACKS_CUT,
		[UNWIND_DEPTH] = HEALTH_STACKS_CUT,
		[UNWIND_NATIVE] = HEALTH_STACKS_NATIVE,
	};

	profile_health_add(s->profile, HEALTH_STACKS, 1);
	profile_health_add(s->profile, counter[end] ? counter[end] : HEALTH_STACKS_BROKEN, 1);
}

/* Reads label sets between the stack and the header that validates both. */
void see_labels(void *ctx, const struct stack_job *jobs, size_t n)
{
	struct sampler *s = ctx;
	profile_id labels;

	for (size_t i = 0; i < n; i++)
		error_free(intern_labels(&s->intern, s->reader.target, jobs[i].look.labels, s->tick, &labels));
}

/*
 * A sample of a thread's CPU time is shown at the next tick, where its goroutine may be off the CPU again. As
 * often it is on one at a tick without a sample. Such a tick is given back to what it did when it was last
 * seen off the CPU: so both have their right number of ticks, if not the right ones.
 */
static bool gives_back(struct g_slot *slot, const struct g_look *look)
{
	if (look->status != G_RUNNING || !slot->swapped || !slot->known)
		return false;
	slot->swapped--;
	return true;
}

/* A goroutine that ran while it was read, or runs on a thread that was not captured. */
static struct error *see_moving(struct sampler *s, struct g_slot *slot, const struct g_look *look)
{
	profile_id stack = s->moved;
	uint8_t state;
	struct error *err;

	if (gives_back(slot, look)) {
		slot->still = false;
		return observe(s, slot, look, slot->stack, slot->state, slot->labels);
	}
	slot->known = slot->still = false;
	keep_hot(slot, HOT_LOOKS);
	/* It goes on where it was last seen, and is asked again at the next tick. */
	if (look->status == G_COPYSTACK || (look->status == G_RUNNING && slot->captured))
		return slot->captured ? g_list_add(&s->ran, slot->addr) : NULL;
	if (look->status == G_RUNNING)
		stack = s->unseen_running;
	else
		profile_health_add(s->profile, HEALTH_G_MOVING, 1);
	err = intern_state(&s->intern, look, &state);
	return err ? err : observe(s, slot, look, stack, state, PROFILE_LABELS_UNKNOWN);
}

struct error *see_unseen(struct sampler *s, struct g_slot *slot, const struct g_look *look)
{
	uint8_t state;
	struct error *err = intern_state(&s->intern, look, &state);

	return err ? err : observe(s, slot, look, s->unread, state, PROFILE_LABELS_UNKNOWN);
}

struct error *see_left(void *ctx, struct g_slot *slot, const uint8_t *bytes, uint64_t t_before, uint64_t t_after)
{
	struct sampler *s = ctx;
	struct g_look look;

	g_parse(s->reader.layout, slot->addr, bytes, &look);
	look.t_before = t_before;
	look.t_after = t_after;
	if (!is_alive(&look) || look.goid != slot->goid)
		return see_changed(s, slot, &look, ROTATION_NO_PLACE);
	if (look.status == G_RUNNING)	/* on no CPU just now: it goes on where it was last seen */
		return g_list_add(&s->running, slot->addr);
	keep_hot(slot, HOT_LOOKS);	/* it has run: an equal fingerprint is chance */
	if (!slot->known)
		return see_unseen(s, slot, &look);
	return observe(s, slot, &look, slot->stack, slot->state, slot->labels);
}

/* How much an unchanged fingerprint of this goroutine will be believed from now on. */
static void judge_heat(struct sampler *s, struct g_slot *slot, const struct stack_result *res, profile_id stack)
{
	const struct g_look *look = &res->job->look;
	bool same_print = slot->print == slot_print(res->print ? res->print : look->fingerprint);
	bool same_stack = slot->stack == stack;

	if (!slot->known)
		return;
	if (same_print && slot->still && !slot->hot && !slot->captured)
		profile_health_add(s->profile, HEALTH_AUDITED, 1);
	if (same_print && !same_stack && res->print) {
		if (!slot->hot && !slot->captured)
			profile_health_add(s->profile, HEALTH_AUDIT_MISMATCH, 1);
		slot->hot = FOREVER_HOT;
	} else if (!same_stack || !same_print) {
		keep_hot(slot, (uint8_t)(look->trackingseq - slot->parks) >= BUSY_PARKS ? BUSY_LOOKS : HOT_LOOKS);
	} else if (slot->hot && slot->hot != FOREVER_HOT) {
		slot->hot--;
	}
}

/* One stack that was read (or not). */
struct error *see_stack(void *ctx, const struct stack_result *res)
{
	struct sampler *s = ctx;
	struct g_slot *slot = &s->gs.slots[res->job->owner];
	struct g_look look = res->job->look;
	profile_id stack, labels;
	uint8_t state;
	struct error *err;

	profile_health_add(s->profile, HEALTH_G_TORN, res->retried);
	if (!is_alive(&look))
		return NULL;
	if (res->outcome == STACK_MOVED)
		return see_moving(s, slot, &look);
	look.t_after = res->t_after;
	count_stack(s, res->end);
	err = intern_stack(&s->intern, res->frames, res->n, res->end, &stack);
	if (!err)
		err = intern_state(&s->intern, &look, &state);
	if (!err)
		err = intern_labels(&s->intern, s->reader.target, look.labels, s->tick, &labels);
	if (err)
		return err;
	profile_health_add(s->profile, HEALTH_G_HOT, slot->hot != 0);
	profile_health_add(s->profile, HEALTH_LABELS_UNKNOWN, labels == PROFILE_LABELS_UNKNOWN);
	judge_heat(s, slot, res, stack);
	slot->print = slot_print(res->print ? res->print : look.fingerprint);
	slot->parks = look.trackingseq;
	slot->stack = stack;
	slot->state = state;
	slot->labels = labels;
	slot->known = true;
	slot->still = res->print != 0;
	return observe(s, slot, &look, stack, state, labels);
}
