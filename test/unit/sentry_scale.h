/*
 * sentry_scale.h: windows with very many goroutines, and what must come out of them: the time of each
 * stack, and each tick on a CPU.
 */
#ifndef GOPROF_TEST_SENTRY_SCALE_H
#define GOPROF_TEST_SENTRY_SCALE_H

#include "sentry_server.h"

#include "export/export_impl.h"

enum {
	MB = 1000 * 1000,
	MIB = 1024 * 1024,
	SERVICE_MOST = 50 * MIB,
	TICKS = 2979,		/* 29.5 s */
	STACKS = 300,
	DEPTH = 25,
};

struct scale {
	struct world w;
	uint64_t seed;
	profile_id stacks[STACKS];
	profile_id parked, running;
	struct window *window;
};

/* Stacks of which each has a leaf of its own and shares the rest with others. */
static inline void scale_init(struct scale *s)
{
	*s = (struct scale){ .seed = 1 };
	world_init(&s->w);
	for (uint32_t i = 0; i < STACKS; i++) {
		profile_id f[DEPTH];

		for (uint32_t k = 0; k < DEPTH; k++) {
			char name[32];

			snprintf(name, sizeof(name), k ? "parent%u_%u" : "s%u", k ? i % (DEPTH + 1 - k) : i, k);
			f[k] = frame(&s->w, "example.org/some/package", name, k, 0);
		}
		s->stacks[i] = stack_of(&s->w, f, DEPTH, PROFILE_STACK_COMPLETE);
	}
	s->parked = text(&s->w, "chan receive");
	s->running = text(&s->w, "running");
}

static inline void scale_deinit(struct scale *s)
{
	window_free(s->window);
	world_deinit(&s->w);
}

static inline void see(struct scale *s, uint64_t key, uint32_t stack, bool oncpu)
{
	const struct profile_observation o = {
		.key = key, .stack = s->stacks[stack], .state = oncpu ? s->running : s->parked,
		.t_before = s->w.mono, .t_after = s->w.mono + 100, .weight = 1, .oncpu = oncpu,
	};
	struct profile_ref ref;

	world_pass(&s->w, 7);
	must(profile_observe(s->w.p, &o, &ref));
	if (oncpu)
		profile_credit(s->w.p, ref, TICK);
}

static inline void make_goroutines(struct scale *s, uint64_t n)
{
	static const char *const entries[] = { "net/http.(*conn).serve", "main.(*pool).worker.func1",
					       "example.org/some/package.(*subscriber).run" };

	for (uint64_t k = 1; k <= n; k++)
		track(&s->w, k, k == 1 ? "main.main" : entries[k % 3]);
}

/*
 * So many of a hundred change about once a second, one runs: `cores` of these at each tick, drawn anew every
 * third tick. The others are parked all the time. Each goroutine that changes has so many stacks.
 */
static inline void make_mix(struct scale *s, uint32_t n, uint32_t cores, uint32_t percent, uint32_t stacks)
{
	uint32_t running = n / 100, changing = n / 100 * percent, on[1000] = { 0 };

	scale_init(s);
	make_goroutines(s, n);
	for (uint32_t t = 0; t < TICKS; t++) {
		uint64_t start = s->w.mono;

		tick(&s->w);
		for (uint32_t k = 1; !t && k <= n; k++)
			see(s, k, k * 7 % STACKS, false);
		for (uint32_t i = changing * t / 101; i < changing * (t + 1) / 101; i++) {
			uint32_t k = 2 + running + draw(&s->seed, changing);

			see(s, k, (k * 7 + draw(&s->seed, stacks)) % STACKS, false);
		}
		for (uint32_t i = 0; i < cores; i++) {
			if (t % 3 == 0 && on[i])
				see(s, on[i], draw(&s->seed, STACKS), false);
			if (t % 3 == 0)
				on[i] = 2 + draw(&s->seed, running);
		}
		for (uint32_t i = 0; i < cores; i++)
			see(s, on[i], draw(&s->seed, STACKS), true);
		if (s->w.mono < start + TICK)
			world_pass(&s->w, start + TICK - s->w.mono);
	}
	s->window = close_now(&s->w);
}

/* ---- what is told against what was ---- */

struct sums {
	uint64_t ns[STACKS];
	uint64_t oncpu_ticks[STACKS], samples[STACKS];
};

static inline void expect(const struct scale *s, enum profile_mode mode, struct sums *want)
{
	memset(want, 0, sizeof(*want));
	for (uint32_t i = 0; i < s->window->n_tracks; i++) {
		for (uint32_t k = 0; k < s->window->tracks[i].n; k++) {
			const struct interval *iv = &s->window->tracks[i].v[k];
			uint64_t limit = s->window->start.mono + 29500000000;
			int stack = 0;

			while (s->stacks[stack] != iv->stack)
				stack++;
			if (iv->t_start >= limit || (mode == PROFILE_CPU && !(iv->flags & INTERVAL_ONCPU)))
				continue;
			want->ns[stack] += (iv->t_end < limit ? iv->t_end : limit) - iv->t_start;
			for (uint32_t t = iv->first_tick; iv->flags & INTERVAL_ONCPU && t < iv->end_tick; t++)
				want->oncpu_ticks[stack] += s->window->ticks[t] < limit;
		}
	}
}

static inline void judge(const struct sentry_v1 *v, struct sums *got)
{
	struct server s;

	memset(got, 0, sizeof(*got));
	server_read(v, &s);
	assert_int_equal(s.n_threads, v->threads);
	for (size_t i = 0; i < s.n; i++) {
		if (s.v[i].stack < 0)
			continue;
		got->ns[s.v[i].stack] += s.v[i].ns * server_thread(&s, s.v[i].thread)->members;
		got->samples[s.v[i].stack]++;
	}
	server_free(&s);
}

/* An average is cut to nanoseconds at both ends of each stack. */
static inline void compare(const struct scale *s, const struct sentry_v1 *v, bool dense)
{
	static struct sums got, want;

	expect(s, v->plan->view.mode, &want);
	judge(v, &got);
	for (int i = 0; i < STACKS; i++) {
		uint64_t more = got.ns[i] > want.ns[i] ? got.ns[i] - want.ns[i] : want.ns[i] - got.ns[i];

		assert_true(more <= counts_sum(&v->grouped));
		assert_true(!dense || got.samples[i] >= want.oncpu_ticks[i]);
	}
}

/*
 * n goroutines of which most have another stack at each of so many ticks. Of eight one is on a CPU all the
 * time with one stack, and one half of the time.
 */
static inline void make_storm(struct scale *s, uint32_t n, uint32_t ticks, uint32_t stacks)
{
	scale_init(s);
	make_goroutines(s, n);
	for (uint32_t t = 0; t < ticks; t++) {
		uint64_t start = s->w.mono;

		tick(&s->w);
		for (uint32_t k = 1; k <= n; k++)
			see(s, k, (k * 7 + (k % 8 ? t : 0) * (1 + k % 5)) % stacks,
			    k % 8 == 0 || (k % 8 == 4 && draw(&s->seed, 2)));
		world_pass(&s->w, start + TICK - s->w.mono);
	}
	s->window = close_now(&s->w);
}

/* 3,000 of three entry functions and ten stacks, and five that run. */
static inline void make_parked(struct scale *s)
{
	make_goroutines(s, 3000);
	for (uint32_t t = 0; t < 20; t++) {
		tick(&s->w);
		for (uint32_t k = 1; !t && k <= 3000; k++)
			see(s, k, k * 7 % 10, false);
		for (uint32_t k = 10; k < 15; k++)
			see(s, k, t % STACKS, true);
		world_pass(&s->w, TICK);
	}
	s->window = close_now(&s->w);
}

#endif
