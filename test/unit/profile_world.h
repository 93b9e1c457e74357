/*
 * profile_world.h: a store under a clock that the test moves, and short ways to fill it. For the
 * tests of lib/profile, lib/export and lib/sentry.
 */
#ifndef GOPROF_TEST_PROFILE_WORLD_H
#define GOPROF_TEST_PROFILE_WORLD_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "profile/profile.h"

enum { TICK = 9900990 };	/* ns at 101 Hz */

struct world {
	struct clock clock;
	uint64_t mono, real, boot;
	struct profile *p;
};

static inline uint64_t world_mono(const struct clock *c)
{
	return ((const struct world *)c->ctx)->mono;
}

static inline uint64_t world_real(const struct clock *c)
{
	return ((const struct world *)c->ctx)->real;
}

static inline uint64_t world_boot(const struct clock *c)
{
	return ((const struct world *)c->ctx)->boot;
}

static inline void must(struct error *err)
{
	if (err)
		fail_msg("error %d: %s", err->kind, err->what);
}

/* The world's profile was made without goroutines. */
static inline void world_restrict(struct world *w, const char *why)
{
	struct profile_meta meta = *profile_meta(w->p);

	meta.restricted = why;
	must(profile_set_meta(w->p, &meta));
}

static inline void world_init(struct world *w)
{
	static const struct profile_meta meta = {
		.program = "app", .exe = "/srv/app", .command = "run", .pid = 4711,
		.go_version = "go1.26.10", .main_module = "example.org/app", .main_path = "example.org/app",
		.release = "app@1.2", .environment = "test", .server_name = "host",
		.os_name = "Linux", .os_version = "6.1", .arch = "amd64", .goprof_version = "0.1.0",
		.rate_hz = 101,
	};

	*w = (struct world){ .mono = 5000000000, .real = 1700000000123456789, .boot = 6000000000 };
	w->clock = (struct clock){ world_mono, world_real, world_boot, NULL, w };
	must(profile_create(&w->clock, &meta, &w->p));
}

static inline void world_deinit(struct world *w)
{
	profile_destroy(w->p);
}

static inline void world_pass(struct world *w, uint64_t ns)
{
	w->mono += ns;
	w->real += ns;
	w->boot += ns;
}

static inline profile_id text(struct world *w, const char *s)
{
	profile_id id;

	must(profile_string(w->p, s, strlen(s), &id));
	return id;
}

/* A frame of package `module`; "" for none. */
static inline profile_id frame(struct world *w, const char *module, const char *name, uint32_t line,
			       uint32_t flags)
{
	char full[256], file[256], path[300];
	struct profile_frame f = { .line = line, .start_line = 1, .flags = flags };
	profile_id id;

	snprintf(full, sizeof(full), "%s%s%s", module, *module ? "." : "", name);
	snprintf(file, sizeof(file), "%s/file.go", module);
	snprintf(path, sizeof(path), "/src/%s", file);
	f.function = text(w, full);
	f.module = text(w, module);
	f.name = text(w, name);
	f.file = text(w, *module ? file : "");
	f.abs_path = text(w, *module ? path : "");
	must(profile_frame(w->p, &f, &id));
	return id;
}

/* A complete stack of frames main.NAME, leaf first. */
static inline profile_id stack_of(struct world *w, const profile_id *frames, uint32_t n, uint32_t flags)
{
	profile_id id;

	must(profile_stack(w->p, frames, n, flags, &id));
	return id;
}

static inline profile_id stack1(struct world *w, const char *leaf)
{
	profile_id f[] = { frame(w, "main", leaf, 10, PROFILE_FRAME_IN_APP),
			   frame(w, "main", "main", 3, PROFILE_FRAME_IN_APP) };

	return stack_of(w, f, 2, PROFILE_STACK_COMPLETE);
}

static inline void track(struct world *w, uint64_t key, const char *entry)
{
	struct profile_track_info info = { .key = key, .entry = text(w, entry),
					   .entry_file = text(w, "app.go"), .entry_line = 7 };

	must(profile_track(w->p, &info));
}

static inline void tick(struct world *w)
{
	must(profile_tick(w->p, w->mono));
}

/* A look right now. */
static inline struct profile_ref look(struct world *w, uint64_t key, profile_id stack,
				      const char *state, profile_id labels, bool oncpu)
{
	struct profile_observation o = {
		.key = key, .stack = stack, .state = text(w, state), .labels = labels,
		.t_before = w->mono, .t_after = w->mono + 1000, .weight = 1, .oncpu = oncpu,
	};
	struct profile_ref ref;

	must(profile_observe(w->p, &o, &ref));
	return ref;
}

static inline struct window *close_now(struct world *w)
{
	struct window *ret = NULL;

	must(profile_close_window(w->p, w->mono, &ret));
	return ret;
}

static inline const struct window_track *track_of(const struct window *w, uint64_t key)
{
	for (uint32_t i = 0; i < w->n_tracks; i++)
		if (w->tracks[i].info.key == key)
			return &w->tracks[i];
	return NULL;
}

/* A small generator: tests must not differ from run to run. */
static inline uint32_t draw(uint64_t *seed, uint32_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((*seed >> 33) % below);
}

#endif
