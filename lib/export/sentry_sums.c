/*
 * sentry_sums.c: time by stack, in the order in which stacks came, where the order of intervals is not told.
 */
#include <stdlib.h>
#include <string.h>

#include "export/export_impl.h"

/* Room for a stack's place; what is new is zero, which any value may be. */
static struct error *reserve_place(struct sentry_sums *s, uint32_t stack)
{
	uint32_t before = s->cap_place;
	struct error *err = array_reserve(&s->place, &s->cap_place, stack + 1, sizeof(*s->place));

	if (!err)
		memset(s->place + before, 0, (size_t)(s->cap_place - before) * sizeof(*s->place));
	return err;
}

struct error *sentry_sums_add(struct sentry_sums *s, uint32_t stack, uint64_t ns)
{
	struct error *err = reserve_place(s, stack);
	uint32_t i;

	if (!err)
		err = array_reserve(&s->v, &s->cap, s->n + 1, sizeof(*s->v));
	if (err)
		return err;
	i = s->place[stack];
	if (i < s->from || i >= s->n || s->v[i].stack != stack) {
		i = s->place[stack] = s->n++;
		s->v[i] = (struct sentry_stack_time){ .stack = stack };
	}
	s->v[i].ns += ns;
	return NULL;
}

void sentry_sums_deinit(struct sentry_sums *s)
{
	free(s->v);
	free(s->place);
}
