/*
 * sentry_world.h: the profile of a Sentry envelope as text, for tests. Includes profile_world.h.
 */
#ifndef GOPROF_TEST_SENTRY_WORLD_H
#define GOPROF_TEST_SENTRY_WORLD_H

#include "profile_world.h"

#include "base/buf.h"
#include "export/export.h"

/* The caller frees it. Its length is the one that was told before. */
static inline struct buf profile_text(const struct sentry_v1 *v)
{
	struct buf b;
	struct buf_sink to = buf_sink_to(&b);

	buf_init(&b);
	must(sentry_v1_profile(v, &to.sink));
	assert_int_equal(b.len, v->profile_len);
	return b;
}

#endif
