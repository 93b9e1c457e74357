/*
 * sample_epoch.c: the store's tables begin anew under the sampler. What it remembers of goroutines means the
 * same as before, and what it had cached is asked for again: an old id would be another thing's.
 */
#include "fake/go_fake.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"
#include "profile_world.h"
#include "sample/sampler_impl.h"

enum { SLOTS = 3 };

static const struct go_fake_func functions[] = {
	{ .name = "main.waits", .size = 64 },
	{ .name = "main.works", .size = 64 },
	{ .name = "runtime.goexit", .size = 64, .flags = GO_FUNC_TOPFRAME },
};

struct scene {
	struct world w;
	struct go_fake *go;
	struct target *target;
	struct sampler s;
	struct g_slot slots[SLOTS];
};

static void setup(struct scene *x)
{
	*x = (struct scene){ 0 };
	world_init(&x->w);
	x->go = go_fake_create(functions, sizeof(functions) / sizeof(*functions), 26);
	must(target_fake_create(&x->target));
	x->s.profile = x->w.p;
	x->s.reader.target = x->target;
	x->s.reader.rt = go_fake_runtime(x->go);
	x->s.gs.slots = x->slots;
	x->s.gs.n = SLOTS;
	must(intern_init(&x->s.intern, x->target, x->s.reader.rt, NULL, x->w.p));
	must(intern_pseudo(&x->s.intern, "[moved]", &x->s.moved));
	must(intern_pseudo(&x->s.intern, "[unseen]", &x->s.unseen_running));
	must(intern_pseudo(&x->s.intern, "[unread]", &x->s.unread));
}

static void teardown(struct scene *x)
{
	intern_deinit(&x->s.intern);
	target_close(x->target);
	go_fake_destroy(x->go);
	world_deinit(&x->w);
}

static const char *leaf(const struct scene *x, profile_id stack)
{
	struct profile_stack s = profile_stack_get(x->w.p, stack);

	return s.n ? profile_string_get(x->w.p, profile_frame_get(x->w.p, s.frames[0])->function) : "";
}

static profile_id stack_at(struct scene *x, const char *function)
{
	const struct pc_frame v[] = {
		{ .pc = go_fake_pc(x->go, function, 20), .kind = PC_EXACT },
		{ .pc = go_fake_pc(x->go, "runtime.goexit", 1), .kind = PC_RETURN },
	};
	profile_id id;

	must(intern_stack(&x->s.intern, v, 2, UNWIND_COMPLETE, &id));
	return id;
}

static uint8_t state_of(struct scene *x, uint32_t status)
{
	const struct g_look g = { .status = status };
	uint8_t state;

	must(intern_state(&x->s.intern, &g, &state));
	return state;
}

static void new_tables(struct scene *x)
{
	tick(&x->w);
	world_pass(&x->w, TICK);
	window_free(close_now(&x->w));
	must(sampler_begin_epoch(&x->s));
}

static void what_is_remembered_means_the_same(void **state)
{
	struct scene x;
	struct profile_label l;

	(void)state;
	setup(&x);
	for (int i = 0; i < 200; i++) {		/* so that the ids are not the same by chance */
		char name[16];

		snprintf(name, sizeof(name), "unused%d", i);
		stack1(&x.w, name);
	}
	l = (struct profile_label){ text(&x.w, "user"), text(&x.w, "anna") };
	for (int i = 0; i < SLOTS; i++) {
		x.slots[i] = (struct g_slot){ .known = i < 2, .stack = stack_at(&x, i ? "main.works" : "main.waits"),
					      .state = state_of(&x, G_RUNNABLE) };
		must(profile_labels(x.w.p, &l, 1, &x.slots[i].labels));
	}
	x.slots[2].stack = 1 << 20;	/* of an epoch that is long over; nothing is known of this one */
	new_tables(&x);
	assert_int_equal(profile_epoch(x.w.p), 1);
	assert_string_equal(leaf(&x, x.slots[0].stack), "main.waits");
	assert_string_equal(leaf(&x, x.slots[1].stack), "main.works");
	assert_string_equal(profile_string_get(x.w.p, intern_state_id(&x.s.intern, x.slots[1].state)), "runnable");
	assert_string_equal(profile_string_get(x.w.p, profile_labels_get(x.w.p, x.slots[0].labels).v[0].value), "anna");
	assert_string_equal(leaf(&x, x.s.moved), "[moved]");
	assert_string_equal(leaf(&x, x.s.unseen_running), "[unseen]");
	assert_string_equal(leaf(&x, x.s.unread), "[unread]");
	/* The same thing seen again is the same. */
	assert_int_equal(stack_at(&x, "main.waits"), x.slots[0].stack);
	assert_int_equal(state_of(&x, G_RUNNABLE), x.slots[0].state);
	assert_string_equal(profile_string_get(x.w.p, intern_state_id(&x.s.intern, state_of(&x, G_WAITING))), "waiting");
	teardown(&x);
}

static void caches_are_asked_anew(void **state)
{
	struct scene x;
	profile_id before;

	(void)state;
	setup(&x);
	for (int i = 0; i < 50; i++) {
		before = stack_at(&x, "main.waits");
		assert_string_equal(leaf(&x, before), "main.waits");
		assert_string_equal(leaf(&x, stack_at(&x, "main.works")), "main.works");
		assert_string_equal(profile_string_get(x.w.p, intern_state_id(&x.s.intern, state_of(&x, G_RUNNING))), "running");
		assert_string_equal(profile_string_get(x.w.p, intern_state_id(&x.s.intern, state_of(&x, G_SYSCALL))), "syscall");
		assert_int_equal(stack_at(&x, "main.waits"), before);
		new_tables(&x);
		stack1(&x.w, "other");
	}
	teardown(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_remembered_means_the_same),
		cmocka_unit_test(caches_are_asked_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
