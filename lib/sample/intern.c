/*
 * intern.c: what was read becomes ids of the profile store. The only place of the sampler that
 * asks for names, and it asks for each pc, state and label set once.
 *
 * A label set is an immutable object of the target, but its memory may be collected and used for
 * another set. Its mark tells: a set is read once, and believed while the mark is equal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "go/pclntab.h"
#include "sample/naming.h"
#include "sample/sample_impl.h"
#include "symbol/native_names.h"

/* The store ids of one pc's logical frames. */
struct frame_list {
	profile_id *ids;
	uint32_t n;
};

struct label_set {
	profile_id id;		/* PROFILE_LABELS_UNKNOWN: it could not be read */
	uint64_t mark;		/* go_labels_mark of the set that `id` stands for */
	uint32_t tick;		/* when the mark was last found equal; 0: never */
};

enum {
	/* Cached; then each cache starts anew, what is hot comes back at once. */
	LABEL_SETS_MAX = 64 * 1024,
	STACKS_MAX = 64 * 1024,
	PCS_MAX = 16 * 1024,		/* their names take most: 4 MiB */
	FIRST_REASON = 64,		/* number of the first wait reason among states */
};

struct error *intern_init(struct intern *in, const struct target *t, struct go_runtime *rt,
			  struct images *images, struct profile *p)
{
	*in = (struct intern){ .rt = rt, .profile = p };
	arena_init(&in->arena);
	map64_init(&in->frames);
	map64_init(&in->stacks);
	map64_init(&in->labels);
	map64_init(&in->system);
	audit_init(&in->audit);
	in->scratch = malloc(sizeof(*in->scratch));
	if (!in->scratch)
		return &err_nomem;
	return naming_open(t, rt, images, &in->symbols);
}

void intern_deinit(struct intern *in)
{
	symbols_destroy(in->symbols);
	map64_deinit(&in->frames);
	map64_deinit(&in->stacks);
	map64_deinit(&in->labels);
	map64_deinit(&in->system);
	audit_deinit(&in->audit);
	arena_deinit(&in->arena);
	free(in->frame_lists);
	free(in->label_sets);
	free(in->scratch);
	free(in->frame_scratch);
	*in = (struct intern){ 0 };
}

/* ---- frames and stacks ---- */

static struct error *intern_text(struct intern *in, const char *s, profile_id *ret)
{
	return profile_string(in->profile, s, strlen(s), ret);
}

static struct error *intern_frame(struct intern *in, const struct symbol_frame *f, profile_id *ret)
{
	struct profile_frame pf = { .line = f->line, .start_line = f->start_line,
				    .flags = f->flags & ~(uint32_t)FRAME_NO_ARGS };
	const struct { const char *text; profile_id *id; } texts[] = {
		{ f->function, &pf.function }, { f->module, &pf.module }, { f->name, &pf.name },
		{ f->file, &pf.file }, { f->abs_path, &pf.abs_path },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct error *err = intern_text(in, texts[i].text, texts[i].id);

		if (err)
			return err;
	}
	return profile_frame(in->profile, &pf, ret);
}

/* Images whose code was named for the first time. */
static struct error *tell_images(struct intern *in)
{
	for (; in->n_images < symbols_image_count(in->symbols); in->n_images++) {
		const struct native_image *image = symbols_image(in->symbols, in->n_images);
		struct profile_image pi = { .start = image->start, .end = image->end, .offset = image->offset,
					    .lines = image->lines };
		struct error *err = intern_text(in, image->name, &pi.name);

		if (!err)
			err = intern_text(in, image->path, &pi.path);
		if (!err)
			err = intern_text(in, image->build_id, &pi.build_id);
		if (!err)
			err = profile_image(in->profile, &pi);
		if (err)
			return err;
	}
	return NULL;
}

static void forget_stacks(struct intern *in)
{
	map64_clear(&in->frames);
	map64_clear(&in->stacks);
	in->n_lists = 0;
	arena_reset(&in->arena);
}

/* Code that stands where other code stood before: what pcs and stacks of them were called is over. */
static void forget_unloaded(struct intern *in)
{
	uint64_t now = symbols_generation(in->symbols);

	if (now == in->generation)
		return;
	in->generation = now;
	forget_stacks(in);
}

/* There are as many pcs as a program has instructions, and in time most of them are met. */
static void forget_many(struct intern *in)
{
	if (in->frames.n >= PCS_MAX) {
		forget_stacks(in);
		symbols_forget(in->symbols);
	}
	if (in->stacks.n >= STACKS_MAX)
		map64_clear(&in->stacks);
}

void intern_forget(struct intern *in)
{
	forget_stacks(in);
	map64_clear(&in->labels);
	in->n_sets = 0;
	in->n_images = 0;
}

struct error *intern_carry(struct intern *in, struct profile_carry *c)
{
	struct error *err = NULL;

	for (size_t i = 0; i < sizeof(in->state_ids) / sizeof(in->state_ids[0]) && !err; i++)
		if (in->state_ids[i])
			err = profile_carry_string(c, &in->state_ids[i]);
	return err;
}

/* How many frames are missing at a gap does not tell stacks apart. */
static gaddr_t stored_pc(const struct pc_frame *f)
{
	return f->kind == PC_GAP ? 0 : f->pc;
}

/* Frames of one pc. The kind is part of the key: it decides how the pc is looked up. */
static struct error *frames_of(struct intern *in, const struct pc_frame *f, const struct frame_list **ret)
{
	const struct pc_frame stored = { .pc = stored_pc(f), .kind = f->kind };
	uint64_t key = stored.pc * 4 + naming_how(f->kind);	/* user addresses end below 2^62 */
	uint32_t at = map64_get(&in->frames, key);
	const struct symbol_frame *frames;
	struct frame_list list = { 0 };
	struct error *err;
	size_t n;

	if (at != MAP_NONE) {
		*ret = &in->frame_lists[at];
		return NULL;
	}
	err = naming_expand(in->symbols, in->rt, &stored, &frames, &n);
	if (!err)
		err = tell_images(in);
	if (!err)
		err = array_reserve(&in->frame_lists, &in->cap_lists, in->n_lists + 1,
				    sizeof(*in->frame_lists));
	if (err)
		return err;
	at = in->n_lists;
	list.ids = arena_alloc(&in->arena, n * sizeof(*list.ids));
	if (!list.ids)
		return &err_nomem;
	for (; list.n < n; list.n++) {
		err = intern_frame(in, &frames[list.n], &list.ids[list.n]);
		if (err)
			return err;
	}
	in->frame_lists[in->n_lists++] = list;
	*ret = &in->frame_lists[at];
	return map64_put(&in->frames, key, at);
}

static uint32_t stack_flags(enum unwind_end end)
{
	/* What is missing between the ends shows as a frame of its own. */
	if (end == UNWIND_COMPLETE || end == UNWIND_GAP)
		return PROFILE_STACK_COMPLETE;
	return end == UNWIND_DEPTH ? PROFILE_STACK_CUT : 0;
}

static struct error *build_stack(struct intern *in, const struct pc_frame *frames, size_t n,
				 enum unwind_end end, profile_id *ret)
{
	uint32_t used = 0;

	for (size_t i = 0; i < n; i++) {
		const struct frame_list *list;
		struct error *err = frames_of(in, &frames[i], &list);

		if (!err)
			err = array_reserve(&in->frame_scratch, &in->cap_scratch, used + list->n,
					    sizeof(*in->frame_scratch));
		if (err)
			return err;
		memcpy(in->frame_scratch + used, list->ids, list->n * sizeof(*list->ids));
		used += list->n;
	}
	return profile_stack(in->profile, in->frame_scratch, used, stack_flags(end), ret);
}

/* Wrong ones must not occur: they are counted and shown in the health figures. */
static void audit_new_stack(struct intern *in, const struct pc_frame *frames, size_t n)
{
	uint64_t before = in->audit.checked;
	size_t wrong = audit_stack(&in->audit, in->rt, frames, n, true);

	profile_health_add(in->profile, HEALTH_CALLS_AUDITED, in->audit.checked - before);
	profile_health_add(in->profile, HEALTH_CALLS_WRONG, wrong);
}

struct error *intern_stack(struct intern *in, const struct pc_frame *frames, size_t n,
			   enum unwind_end end, profile_id *ret)
{
	uint64_t h = end + 1;
	uint32_t at;
	struct error *err;

	for (size_t i = 0; i < n; i++) {
		uint64_t pair[3] = { h, stored_pc(&frames[i]), frames[i].kind };

		h = hash_bytes(pair, sizeof(pair));
	}
	forget_unloaded(in);
	at = map64_get(&in->stacks, h);
	if (at != MAP_NONE) {
		*ret = at;
		return NULL;
	}
	forget_many(in);
	audit_new_stack(in, frames, n);
	err = build_stack(in, frames, n, end, &at);
	if (!err)
		err = map64_put(&in->stacks, h, at);
	if (!err)
		*ret = at;
	return err;
}

struct error *intern_pseudo(struct intern *in, const char *name, profile_id *ret)
{
	const struct symbol_frame f = { .function = name, .module = "", .name = name, .file = "",
					.abs_path = "", .flags = FRAME_PSEUDO };
	profile_id id;
	struct error *err = intern_frame(in, &f, &id);

	return err ? err : profile_stack(in->profile, &id, 1, 0, ret);
}

/* ---- states ---- */

struct error *intern_state(struct intern *in, const struct g_look *g, uint8_t *ret)
{
	/* There are some ten states and some fifty reasons; others are no more than the state. */
	bool waits = (g->status == G_WAITING || g->status == G_LEAKED) && g->waitreason < FIRST_REASON;
	uint8_t state = (uint8_t)(waits ? (uint32_t)FIRST_REASON + g->waitreason : g->status % FIRST_REASON);
	const char *text = NULL;

	*ret = state;
	if (in->state_ids[state])
		return NULL;
	if (waits)
		text = go_wait_reason(in->rt, g->waitreason);
	if (!text || !*text)
		text = g_status_name(g->status);
	return intern_text(in, text, &in->state_ids[state]);
}

profile_id intern_state_id(const struct intern *in, uint8_t state)
{
	return in->state_ids[state];
}

/* ---- labels ---- */

static struct error *store_labels(struct intern *in, const struct go_labels *l, profile_id *ret)
{
	struct profile_label v[GO_LABELS_MAX];

	for (uint32_t i = 0; i < l->n; i++) {
		struct error *err = profile_string(in->profile, l->v[i].key, l->v[i].key_len, &v[i].key);

		if (!err)
			err = profile_string(in->profile, l->v[i].value, l->v[i].value_len, &v[i].value);
		if (err)
			return err;
	}
	return profile_labels(in->profile, v, l->n, ret);
}

static struct error *label_slot(struct intern *in, gaddr_t labels, uint32_t *at)
{
	struct error *err;

	*at = map64_get(&in->labels, labels);
	if (*at != MAP_NONE)
		return NULL;
	if (in->n_sets >= LABEL_SETS_MAX) {
		map64_clear(&in->labels);
		in->n_sets = 0;
	}
	err = array_reserve(&in->label_sets, &in->cap_sets, in->n_sets + 1, sizeof(*in->label_sets));
	if (err)
		return err;
	err = map64_put(&in->labels, labels, in->n_sets);
	if (!err) {
		*at = in->n_sets;
		in->label_sets[in->n_sets++] = (struct label_set){ 0 };
	}
	return err;
}

/* Reads a set and its mark; the mark must be the same before and after. */
static struct error *read_set(struct intern *in, const struct target *t, gaddr_t labels,
			      struct label_set *set)
{
	const struct go_layout *l = go_runtime_layout(in->rt);
	struct label_set fresh = { .id = PROFILE_LABELS_UNKNOWN };
	uint64_t after = 0;
	struct error *err = go_labels_mark(l, t, labels, &fresh.mark);

	if (!err && set->tick && set->id != PROFILE_LABELS_UNKNOWN && set->mark == fresh.mark)
		return NULL;
	if (!err)
		err = go_labels_read(in->rt, t, labels, in->scratch);
	if (!err)
		err = go_labels_mark(l, t, labels, &after);
	if (!err && after == fresh.mark)
		err = store_labels(in, in->scratch, &fresh.id);
	if (err && error_is_fatal(err))
		return err;
	error_free(err);
	*set = fresh;
	return NULL;
}

/* The cache's entry for a label pointer. NULL in *set: *ret says what to say without one. */
static struct error *find_set(struct intern *in, gaddr_t labels, struct label_set **set, profile_id *ret)
{
	bool known = go_runtime_caps(in->rt) & GO_CAP_LABELS;
	struct error *err;
	uint32_t at;

	*set = NULL;
	*ret = labels && !known ? PROFILE_LABELS_UNKNOWN : PROFILE_LABELS_NONE;
	if (!labels || !known)
		return NULL;
	err = label_slot(in, labels, &at);
	if (!err)
		*set = &in->label_sets[at];
	return err;
}

struct error *intern_labels(struct intern *in, const struct target *t, gaddr_t labels,
			    uint32_t tick, profile_id *ret)
{
	struct label_set *set;
	struct error *err = find_set(in, labels, &set, ret);

	if (err || !set)
		return err;
	if (set->tick != tick)
		err = read_set(in, t, labels, set);
	set->tick = tick;
	*ret = set->id;
	return err;
}

struct error *intern_labels_marked(struct intern *in, const struct target *t, gaddr_t labels,
				   uint64_t mark, profile_id *ret)
{
	struct label_set *set;
	struct error *err = find_set(in, labels, &set, ret);

	if (err || !set)
		return err;
	if (!set->tick || set->id == PROFILE_LABELS_UNKNOWN || set->mark != mark)
		err = read_set(in, t, labels, set);
	set->tick = set->tick ? set->tick : 1;
	*ret = set->mark == mark ? set->id : PROFILE_LABELS_UNKNOWN;
	return err;
}

struct error *intern_labels_kept(struct intern *in, const struct capture *c, gaddr_t labels, uint64_t mark,
				 profile_id *ret)
{
	struct label_set *set;
	struct error *err = find_set(in, labels, &set, ret);
	bool fresh;

	if (err || !set)
		return err;
	fresh = set->tick && set->id != PROFILE_LABELS_UNKNOWN && set->mark == mark;
	if (!fresh && hold_kept_labels(c, in->scratch)) {
		err = store_labels(in, in->scratch, &set->id);
		if (err)
			return err;
		set->mark = mark;
		set->tick = 1;
	}
	*ret = set->mark == mark && set->tick ? set->id : PROFILE_LABELS_UNKNOWN;
	return NULL;
}

/* ---- tracks ---- */

bool intern_is_system(struct intern *in, const struct g_look *g)
{
	/* Only the finalizer and cleanup goroutines change sides; the rest is decided by startpc. */
	uint32_t at = map64_get(&in->system, g->startpc);
	bool system;

	if (at != MAP_NONE && at != 2)
		return at;
	system = g_is_system(in->rt, g);
	if (at == MAP_NONE) {
		struct g_look running = *g;

		running.status = G_RUNNING;
		at = g_is_system(in->rt, &running) != system ? 2 : system;
		error_free(map64_put(&in->system, g->startpc, at));
	}
	return system;
}

static gaddr_t entry_of(struct intern *in, gaddr_t startpc)
{
	struct go_func f;
	gaddr_t wrapped;

	if (!go_func_find(in->rt, startpc, &f))
		return startpc;
	wrapped = go_func_wrapped(in->rt, &f);
	return wrapped ? wrapped : startpc;
}

struct error *intern_track(struct intern *in, const struct g_look *g, bool system)
{
	struct profile_track_info info = { .key = g->goid, .system = system };
	const struct symbol_frame *frames;
	struct error *err;
	size_t n;

	err = symbol_expand(in->symbols, entry_of(in, g->startpc), SYMBOL_EXACT, &frames, &n);
	if (!err)
		err = intern_text(in, frames[n - 1].function, &info.entry);
	if (err)
		return err;
	if (g->gopc && g->goid != 1) {	/* the first one is made by the start-up code */
		err = symbol_expand(in->symbols, g->gopc, SYMBOL_RETURN, &frames, &n);
		if (!err)
			err = intern_text(in, frames[n - 1].function, &info.created_by);
		if (!err)
			err = intern_text(in, frames[0].file, &info.entry_file);
		if (err)
			return err;
		info.entry_line = frames[0].line;
	}
	return profile_track(in->profile, &info);
}

/* "[non-Go] name": threads that C made have names of their own, which help more than their numbers. */
static struct error *thread_entry(struct intern *in, const struct target *t, pid_t tid, enum thread_kind kind,
				  profile_id *ret)
{
	static const char *const kinds[] = {
		[THREAD_GO] = "[Go runtime]", [THREAD_NON_GO] = "[non-Go]", [THREAD_UNKNOWN] = "[thread]",
	};
	char name[32], text[sizeof(name) + 16];

	if (kind != THREAD_NON_GO || !target_thread_name(t, tid, name, sizeof(name)) || !*name)
		return intern_text(in, kinds[kind], ret);
	snprintf(text, sizeof(text), "%s %s", kinds[kind], name);
	return intern_text(in, text, ret);
}

struct error *intern_thread_track(struct intern *in, const struct target *t, uint64_t key, enum thread_kind kind)
{
	struct profile_track_info info = { .key = key, .system = kind == THREAD_GO };
	struct error *err;

	if (profile_has_track(in->profile, key))
		return NULL;
	err = thread_entry(in, t, (pid_t)(key - PROFILE_THREAD_KEY), kind, &info.entry);
	return err ? err : profile_track(in->profile, &info);
}
