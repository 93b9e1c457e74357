/*
 * rotation.c: more goroutines than one tick can read. Then each tick reads some of them, in turn, and a
 * goroutine holds what it was seen at until its next turn.
 *
 * That is right on average because a turn comes whatever the goroutine does. So the one that has just
 * changed is *not* looked at again sooner: what it does for a tick would then be weighed with a tick,
 * and seen only in one turn of many; a place where a goroutine stays for one tick in a hundred would
 * have a tenth of its time at ten ticks per turn. For the same reason it is chance that decides whose
 * stacks are put off when more have changed than there is time for: each has the same chance of a place among
 * those that are read, wherever it stands in the pass (reservoir sampling).
 *
 * Threads on a CPU are all looked at, at every tick. A goroutine that has left its thread goes back to
 * what its last turn saw: what it does right after it ran is no fair sample of what it does. One that had
 * no turn yet has a pseudo stack until then, so that the sums hold.
 */
#include "base/array.h"
#include "sample/sampler_impl.h"

enum {
	HEADERS_MAX = 10500, HEADERS_MIN = 500,
	STACKS_MAX = 2000, STACKS_MIN = 100,
	/*
	 * CPU time of either part. One that takes longer is halved at once; else it grows by an eighth, to what
	 * would fit by what it costs now: not beyond, or a pass that just does not fit would come again and again.
	 */
	LONG_NS = 5 * NSEC_PER_MSEC / 2,
	FITS_NS = 9 * NSEC_PER_MSEC / 4,
};

struct budget budget_full(void)
{
	return (struct budget){ .headers = HEADERS_MAX, .stacks = STACKS_MAX };
}

/* `n` were read, in `ns`. */
static uint32_t adapted(uint32_t v, uint32_t n, uint64_t ns, uint32_t least, uint32_t most)
{
	uint64_t fits = ns ? (uint64_t)n * FITS_NS / ns : most, grown = v + v / 8 + 1;

	if (ns > LONG_NS)
		v /= 2;
	else if (n && fits > v)
		v = (uint32_t)(grown < fits ? grown : fits);
	return v < least ? least : v > most ? most : v;
}

void budget_adapt(struct budget *b, const struct tick_cost *cost)
{
	b->headers = adapted(b->headers, cost->headers, cost->headers_ns, HEADERS_MIN, HEADERS_MAX);
	b->stacks = adapted(b->stacks, cost->stacks, cost->stacks_ns, STACKS_MIN, STACKS_MAX);
}

/* Ticks of one length: the last one of a round has as much to do as the others. */
static uint32_t share_of_tick(const struct sampler *s)
{
	uint32_t most = s->budget.headers, ticks = most ? (s->gs.n + most - 1) / most : 0;

	return ticks ? (s->gs.n + ticks - 1) / ticks : 0;
}

struct error *g_list_add(struct g_list *l, gaddr_t g)
{
	struct error *err = array_reserve(&l->v, &l->cap, l->n + 1, sizeof(*l->v));

	if (!err)
		l->v[l->n++] = g;
	return err;
}

/* see_header, for those that are read once per round: counts who is alive. */
static struct error *see_turn(void *ctx, struct g_slot *slot, const uint8_t *bytes, uint64_t t_before,
			      uint64_t t_after)
{
	struct sampler *s = ctx;
	struct error *err = see_header(ctx, slot, bytes, t_before, t_after);

	s->alive_seen += slot->goid && !slot->system;
	return err;
}

/* Goroutines that only a held thread has told of get their slots now: their turn has come. */
static struct error *read_orphans(struct sampler *s)
{
	struct error *err = NULL;

	for (uint32_t i = 0; i < s->n_orphans && !err; i++) {
		struct g_slot *slot = gs_slot(&s->gs, s->orphans[i].g);

		if (slot)
			err = gs_read_turn(&s->gs, slot, &s->reader, see_turn, s);
	}
	return err;
}

/* They were on a CPU at the last tick, or sampled for this one, as all others whose looks found a slot. */
static struct error *adopt_orphans(struct sampler *s)
{
	struct error *err = NULL;

	for (uint32_t i = 0; i < s->n_orphans && !err; i++) {
		const struct orphan *o = &s->orphans[i];
		struct g_slot *slot = gs_slot(&s->gs, o->g);

		if (!slot || slot->goid != o->goid || slot->captured)
			continue;
		slot->captured = slot->told = true;
		slot->sampled = o->tick == s->tick;
		slot->captured_tick = tick_mark(o->tick);
		err = g_list_add(slot->sampled ? &s->running : &s->ran, slot->addr);
	}
	return err;
}

static void end_round(struct sampler *s)
{
	s->alive = s->alive_seen;
	s->alive_seen = s->round_slots = 0;
	s->rounds++;
	profile_health_add(s->profile, HEALTH_G_PASSES, 1);
}

static struct error *read_some(struct sampler *s)
{
	struct gs_pass pass = { .slots = 0 };
	struct error *err = read_orphans(s);

	if (!err)
		err = gs_read_some(&s->gs, &s->reader, share_of_tick(s), sampler_random(s), see_turn, s, &pass);
	profile_health_add(s->profile, HEALTH_G_READ, pass.slots);
	s->n_read = pass.slots;
	s->round_ended = pass.ended;
	s->round_slots += pass.slots;
	if (pass.ended)
		end_round(s);
	else if (!s->rounds && s->round_slots)	/* an estimate, until they are counted */
		s->alive = (uint32_t)((uint64_t)s->alive_seen * s->gs.n / s->round_slots);
	return err;
}

static struct error *read_all(struct sampler *s)
{
	struct error *err;

	s->alive_seen = s->round_slots = 0;
	err = gs_read_all(&s->gs, &s->reader, see_turn, s);
	s->round_ended = !err;
	profile_health_add(s->profile, HEALTH_G_READ, s->gs.n);
	s->n_read = s->gs.n;
	if (!err)
		end_round(s);
	return err;
}

struct error *rotation_read(struct sampler *s)
{
	struct error *err;

	s->rotates = s->gs.n > s->budget.headers;
	s->round_began = !s->rotates || !s->gs.in_round;
	err = s->rotates ? read_some(s) : read_all(s);
	if (!err)
		err = stand_in_settle(s);
	profile_health_add(s->profile, HEALTH_G_UNCHANGED, s->n_unchanged);
	s->n_unchanged = 0;
	if (err) {
		s->alive_seen = s->round_slots = 0;
		stand_in_forget(s);
	}
	return err ? err : adopt_orphans(s);
}

struct error *rotation_resume(struct sampler *s)
{
	const struct g_list left = s->ran;
	struct error *err = NULL;

	s->places_stand = true;

	for (uint32_t i = 0; i < left.n && !err && (s->rotates || s->put_off); i++) {
		struct g_slot *slot = gs_slot(&s->gs, left.v[i]);

		/* If it is its turn just now, its stack will tell. */
		if (slot && slot->captured && slot->captured_tick != tick_mark(s->tick) && slot->turn != tick_mark(s->tick))
			err = gs_read_one(slot, &s->reader, see_left, s);
	}
	s->ran = s->running;
	s->running = left;
	s->running.n = 0;
	return err;
}

/* ---- whose stacks are read ---- */

uint32_t rotation_place(struct sampler *s)
{
	uint32_t at = s->n_jobs;

	s->n_wanted++;
	if (at >= s->budget.stacks && !s->places_stand)
		at = (uint32_t)(sampler_random(s) % s->n_wanted);
	s->put_off |= s->n_wanted > s->budget.stacks;
	return at <= s->n_jobs && at < s->budget.stacks ? at : ROTATION_NO_PLACE;
}

/* Its turn comes again, with what it looks like then. */
static struct error *put_off(struct sampler *s, struct g_slot *slot, const struct g_look *look)
{
	bool audit = slot->known && slot->still && !slot->hot && !slot->captured &&
		     (s->stand_in || slot->print == slot_print(look->fingerprint));	/* see_print has looked at it */
	struct error *err;

	slot->turn = tick_mark(s->tick - 1);	/* it did not come */
	if (audit)
		return NULL;
	slot->still = false;			/* what has changed is not known */
	if (slot->known) {
		profile_health_add(s->profile, HEALTH_G_PUT_OFF, 1);
		return NULL;
	}
	if (slot->told && slot->print == slot_print(look->fingerprint))
		return NULL;
	slot->print = slot_print(look->fingerprint);
	slot->told = false;			/* what was told of it holds no longer */
	err = array_reserve(&s->unseen, &s->cap_unseen, s->n_unseen + 1, sizeof(*s->unseen));
	if (!err)
		s->unseen[s->n_unseen++] = (struct unseen){
			.goid = look->goid, .slot = (uint32_t)(slot - s->gs.slots), .status = look->status, .waitreason = look->waitreason,
			.t_before = look->t_before, .t_after = look->t_after,
		};
	return err;
}

struct error *rotation_want(struct sampler *s, struct g_slot *slot, const struct g_look *look, uint32_t place)
{
	struct stack_job *job;
	struct error *err;

	if (place == ROTATION_NO_PLACE)
		return put_off(s, slot, look);
	err = array_reserve(&s->jobs, &s->cap_jobs, place + 1, sizeof(*s->jobs));
	if (err)
		return err;
	job = &s->jobs[place];
	if (place < s->n_jobs)
		err = put_off(s, &s->gs.slots[job->owner], &job->look);
	else
		s->n_jobs++;
	slot->turn = tick_mark(s->tick);
	*job = (struct stack_job){ .owner = (uint32_t)(slot - s->gs.slots), .look = *look };
	return err;
}

struct error *rotation_tell_unseen(struct sampler *s)
{
	struct error *err = NULL;

	for (uint32_t i = 0; i < s->n_unseen && !err; i++) {
		const struct unseen *u = &s->unseen[i];
		struct g_slot *slot = &s->gs.slots[u->slot];
		const struct g_look look = { .goid = u->goid, .status = u->status, .waitreason = u->waitreason,
					     .t_before = u->t_before, .t_after = u->t_after };

		/* Else a held thread has spoken for it, or it has ended. */
		if (!slot->told && slot->goid == u->goid)
			err = see_unseen(s, slot, &look);
	}
	s->n_unseen = 0;
	return err;
}
