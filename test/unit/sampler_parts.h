/*
 * sampler_parts.h: a sampler that a test puts together by itself, without sampler_create: what its reader
 * reads may be handmade, and its parts are looked at.
 */
#ifndef GOPROF_TEST_SAMPLER_PARTS_H
#define GOPROF_TEST_SAMPLER_PARTS_H

#include <stdlib.h>

#include "profile_world.h"
#include "sample/sampler_impl.h"

/* `s` begins as zeros; s->reader is set. */
static inline void sampler_parts_init(struct sampler *s, struct tracer *tracer, struct profile *p, uint32_t depth)
{
	s->tracer = tracer;
	s->profile = p;
	s->options.depth = depth;
	s->plan = hold_plan_make(&s->reader, false);
	s->frames = calloc(depth, sizeof(*s->frames));
	assert_non_null(s->frames);
	must(gs_init(&s->gs));
	must(stand_in_create(&s->reader, &s->stand_in));
	must(threads_init(&s->threads, &s->reader));
	must(intern_init(&s->intern, s->reader.target, s->reader.rt, NULL, p));
}

static inline void sampler_parts_deinit(struct sampler *s)
{
	intern_deinit(&s->intern);
	threads_deinit(&s->threads);
	gs_deinit(&s->gs);
	stack_reader_destroy(s->stacks);
	stand_in_destroy(s->stand_in);
	free(s->frames);
	free(s->jobs);
	free(s->unseen);
	free(s->orphans);
	free(s->ran.v);
	free(s->running.v);
}

#endif
