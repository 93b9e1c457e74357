/*
 * far.c: frames at the far end of a goroutine's stack whose middle was not copied.
 *
 * A walk cannot begin just anywhere: the bytes hold old return addresses as well, of calls that are
 * over. What is looked for is a word that begins a chain of saved frame pointers: each points to
 * the next one further up, and a return address stands above each. It is believed only when
 *
 * - the walk by the function tables from there, frame by frame, meets exactly the words of the
 *   chain, and ends in goexit where the chain ends: two accounts that know nothing of each other;
 * - every return address of it stands behind a call of the frame below.
 *
 * One thing passes these tests and is none: frames of a call that is over, within a large frame
 * that has not been written to yet, in a function that was called through a pointer from the place
 * where the old call came from. So below the middle of the copied bytes nothing is believed further
 * than to the first call through a pointer; above it such a frame would have to be larger than half
 * of what was copied.
 *
 * Must not know where the bytes come from.
 *
 * Upstream: src/runtime/tracefpunwind.go (the chain), src/cmd/internal/obj/x86/obj6.go (where it is
 * saved).
 */
#include "unwind/unwind_impl.h"

enum {
	WORD = sizeof(uint64_t),
	MARKS = 8192,			/* words of the far end that may be in a chain: 64 KiB */
	STEPS_MAX = 2 * MARKS,		/* frames tried in one search */
};

/* The chain from one word on. */
struct trial {
	struct walk *w;
	const struct mem_view *view;
	struct unwind_place at;		/* the frame being tried */
	enum pc_kind next;		/* kind of its caller's pc */
	gaddr_t link;			/* where its saved frame pointer must be */
	struct unwind_place from;	/* frames from here on are believed */
	uint32_t steps;
	uint64_t tried[MARKS / 64];	/* bit for each word: a chain has come here, in vain */
};

/* The view that holds the end of the goroutine's stack and begins behind what was walked; NULL: none. */
static const struct mem_view *far_view(const struct walk *w)
{
	for (size_t i = 0; i < w->mem->n; i++) {
		const struct mem_view *v = &w->mem->views[i];

		if (v->low > w->at.sp && v->low < w->at.hi && v->len >= w->at.hi - v->low)
			return v;
	}
	return NULL;
}

/* Has a chain come to this word before? It has now. What failed from there on fails again. */
static bool was_tried(struct trial *t, gaddr_t slot)
{
	uint64_t at = (slot - t->view->low) / WORD, bit = (uint64_t)1 << at % 64;
	bool tried;

	if (slot < t->view->low || at >= MARKS)
		return false;
	tried = t->tried[at / 64] & bit;
	t->tried[at / 64] |= bit;
	return tried;
}

static bool links_on(const struct trial *t, gaddr_t slot)
{
	return t->link > slot && t->link < t->at.hi && t->link % WORD == 0;
}

/*
 * The frame at t->at ends at `end`. Its saved frame pointer must be the next word of the chain;
 * functions without a frame have none (*slot = 0).
 */
static bool follow_chain(struct trial *t, gaddr_t end, gaddr_t *slot)
{
	*slot = end - t->at.sp == t->w->min_frame ? 0 : end - t->w->min_frame - WORD;
	return !*slot || (t->link == *slot && walk_read(t->w, *slot, &t->link));
}

/* The caller of the frame that ends at `end`, if it follows a call of it. */
static bool go_on(struct trial *t, gaddr_t end)
{
	struct pc_frame callee = { .pc = t->at.pc, .kind = t->at.kind }, caller = { .kind = t->next };
	const gaddr_t middle = t->view->low + t->view->len / 2;
	enum call_site site;

	if (!walk_read(t->w, end - t->w->min_frame, &caller.pc))
		return false;
	site = unwind_call_site(t->w->rt, &callee, &caller);
	if (site == CALL_SITE_WRONG || site == CALL_SITE_UNKNOWN)
		return false;
	t->at.pc = caller.pc;
	t->at.sp = end;
	t->at.kind = t->next;
	if (!t->from.pc || (site != CALL_SITE_RIGHT && end < middle))
		t->from = t->at;
	return true;
}

/* From the frame at t->at to goexit: do tables, chain and calls agree all the way? */
static bool agrees(struct trial *t)
{
	while (t->steps++ < STEPS_MAX) {
		struct go_func f;
		gaddr_t end, slot;

		t->at.pc = go_pc_real(t->w->rt, t->at.pc);
		if (!go_func_find(t->w->rt, t->at.pc, &f))
			return false;
		if (f.role == GO_FUNC_GOEXIT)
			return t->link == 0 && t->from.pc;
		end = walk_frame_end(t->w, &t->at, &f, &t->next);
		if (!end || !follow_chain(t, end, &slot) || !go_on(t, end))
			return false;
		if (slot && was_tried(t, slot))
			return false;
	}
	return false;
}

/* Does a chain begin at this word? The frame above it then is the first. */
static bool try_word(struct trial *t, gaddr_t slot)
{
	const gaddr_t above = slot + WORD;

	if (was_tried(t, slot) || !walk_read(t->w, slot, &t->link) || !links_on(t, slot) ||
	    !walk_read(t->w, above, &t->at.pc) || !go_follows_call(t->w->rt, t->at.pc))
		return false;
	t->at.sp = above + t->w->min_frame;
	t->at.kind = PC_RETURN;
	t->from.pc = 0;
	return agrees(t);
}

bool walk_far(struct walk *w)
{
	const struct mem_view *view = far_view(w);
	struct trial t = { .w = w, .view = view, .at = w->at };
	gaddr_t behind = w->at.sp;

	if (!view)
		return walk_end(w, UNWIND_NO_MEMORY);
	for (gaddr_t slot = (view->low + WORD - 1) / WORD * WORD; slot < w->at.hi - WORD; slot += WORD) {
		if (t.steps >= STEPS_MAX || !try_word(&t, slot))
			continue;
		kept_skip(&w->kept, t.from.sp - behind);
		w->at = t.from;
		w->first = false;
		return true;
	}
	return walk_end(w, UNWIND_NO_MEMORY);
}
