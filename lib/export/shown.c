/*
 * shown.c: the frames of a stack as profiles show them, for every format alike. Compiler-made
 * wrappers are left out and nothing else is: a CPU profile without runtime.mallocgc lies. A stack
 * whose callers are missing carries a mark at its root, so that it is never taken for a whole one
 * nor merged with it.
 */
#include <stdlib.h>

#include "export/export_impl.h"

const char *export_mode_name(enum profile_mode mode)
{
	return mode == PROFILE_CPU ? "cpu" : "wall";
}

static const char *mark_of(const struct profile *p, const struct profile_stack *s)
{
	const struct profile_frame *root = profile_frame_get(p, s->frames[s->n - 1]);

	if (root->flags & PROFILE_FRAME_PSEUDO)
		return NULL;	/* says itself what is missing */
	if (s->flags & PROFILE_STACK_CUT)
		return "[truncated]";
	return s->flags & PROFILE_STACK_COMPLETE ? NULL : "[incomplete]";
}

static uint32_t fill(struct shown *s, const struct profile *p, const struct profile_stack *stack,
		     uint32_t hidden)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < stack->n; i++) {
		uint32_t flags = profile_frame_get(p, stack->frames[i])->flags;
		bool ends = !(flags & PROFILE_FRAME_INLINED);

		if (!(flags & hidden))
			s->v[n++] = (struct shown_frame){ stack->frames[i], ends };
		else if (ends && n)
			s->v[n - 1].ends_location = true;
	}
	if (n)
		s->v[n - 1].ends_location = true;
	return n;
}

struct error *shown_of(struct shown *s, const struct profile *p, profile_id id)
{
	struct profile_stack stack = profile_stack_get(p, id);
	struct error *err = array_reserve(&s->v, &s->cap, stack.n, sizeof(*s->v));

	if (err)
		return err;
	s->mark = stack.n ? mark_of(p, &stack) : NULL;
	s->n = fill(s, p, &stack, PROFILE_FRAME_WRAPPER);
	/* Nothing but wrappers: better they than nothing. */
	if (!s->n)
		s->n = fill(s, p, &stack, 0);
	return NULL;
}

void shown_deinit(struct shown *s)
{
	free(s->v);
	*s = (struct shown){ 0 };
}
