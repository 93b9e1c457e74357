/*
 * health.c: the table of health counters, made from health.inc, and how figures of several windows
 * become one. It knows nothing of what the counters mean.
 */
#include "profile/profile_impl.h"

const struct health_row health_table[HEALTH_COUNT] = {
#define X(id, row_name, row_unit, row_threshold, row_text) \
	[HEALTH_##id] = { row_name, HEALTH_UNIT_##row_unit, row_threshold, row_text },
#include "profile/health.inc"
#undef X
};

void profile_health_add(struct profile *p, enum health_id id, uint64_t delta)
{
	p->win.health[id] += delta;
}

void profile_health_set(struct profile *p, enum health_id id, uint64_t value)
{
	p->win.health[id] = value;
}

uint64_t health_merge(enum health_id id, uint64_t a, uint64_t b)
{
	/* A median of medians says nothing; the worst window's does. A rank does not change. */
	if (id == HEALTH_HELD_MEDIAN || id == HEALTH_HELD_P99 || id == HEALTH_RANK ||
	    id == HEALTH_CLOCK_STEP)
		return a > b ? a : b;
	return a + b;
}
