/*
 * native_health.c: what the walks over C code have come to, for the health figures; and once a
 * second one of them may look for images that were mapped since (dlopen).
 */
#include "sample/sampler_impl.h"

static const uint64_t refresh_every_ns = NSEC_PER_SEC;

static const enum health_id ids[NATIVE_END_COUNT] = {
	[NATIVE_REACHED_GO]	= HEALTH_C_WALKS,
	[NATIVE_BOTTOM]		= HEALTH_C_WALKS,
	[NATIVE_DEPTH]		= HEALTH_C_WALKS,
	[NATIVE_NO_TABLE]	= HEALTH_C_NO_TABLE,
	[NATIVE_NO_MEMORY]	= HEALTH_C_NO_MEMORY,
	[NATIVE_LOST]		= HEALTH_C_LOST,
};

static void tell(struct sampler *s)
{
	const struct native_counts *now = native_counts(s->native);

	for (int i = 0; i < NATIVE_END_COUNT; i++)
		profile_health_add(s->profile, ids[i], now->ends[i] - s->native_told.ends[i]);
	profile_health_add(s->profile, HEALTH_C_FRAMES, now->frames - s->native_told.frames);
	s->native_told = *now;
}

void native_settle(struct sampler *s)
{
	uint64_t now = reader_now(&s->reader);

	if (!s->native)
		return;
	tell(s);
	if (now - s->native_refreshed < refresh_every_ns)
		return;
	s->native_refreshed = now;
	native_allow_refresh(s->native);
}
