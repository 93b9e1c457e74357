/*
 * sentry_names.c: what threads are called, and under which ids. A goroutine has its own id, a thread
 * without one a range of its own (PROFILE_THREAD_KEY), and what is neither, a lane or a group, another
 * one: its id is made from its name, so that it is the same in every window.
 */
#include <string.h>

#include "base/cleanup.h"
#include "export/export_impl.h"

enum { NAME_MOST = 200 };	/* bytes of a thread's name: it is shown in a menu */

/* Ids stay below 2^53: whoever shows them may keep them in a double. */
#define VIRTUAL_ID ((uint64_t)1 << 41)
#define VIRTUAL_IDS ((uint64_t)1 << 40)

/* The label set that stayed longest: a worker that sets labels for each request has many. */
static struct error *labels_of(const struct sentry_threads *t, const struct sentry_thread *th,
			       const struct window *w, profile_id *ret)
{
	_cleanup_(window_room_deinit) struct window_room room = { 0 };
	profile_id best = PROFILE_LABELS_NONE, at = PROFILE_LABELS_NONE;
	uint64_t best_ns = 0, ns = 0;
	struct error *err = NULL;

	for (uint32_t k = 0; k < th->n && !err; k++) {
		struct window_track track;

		err = window_track(w, t->pieces[th->first + k].track, &room, &track);
		for (uint32_t i = 0; !err && i < track.n; i++) {
			const struct interval *iv = &track.v[i];

			ns = iv->labels == at ? ns : 0;
			at = iv->labels;
			ns += iv->t_end - iv->t_start;
			if (at > PROFILE_LABELS_UNKNOWN && ns > best_ns) {
				best = at;
				best_ns = ns;
			}
		}
	}
	*ret = best;
	return err;
}

static void add_labels(struct buf *b, const struct profile *p, profile_id id)
{
	struct profile_labels l = profile_labels_get(p, id);

	if (!l.n)
		return;
	buf_adds(b, " {");
	for (uint32_t i = 0; i < l.n; i++)
		buf_addf(b, "%s%s: %s", i ? ", " : "", profile_string_get(p, l.v[i].key),
			 profile_string_get(p, l.v[i].value));
	buf_addc(b, '}');
}

/* Where a name of more than `most` bytes is cut: not within a character. */
static size_t cut_length(const struct buf *b, size_t most)
{
	size_t len = most;

	while (len && ((unsigned char)b->data[len] & 0xc0) == 0x80)
		len--;
	return len;
}

/* "main.work" or "route=/order" */
static void add_owner(struct buf *b, const struct sentry_thread *th, const struct profile *p,
		      const struct export_options *o)
{
	const char *name = profile_string_get(p, th->name);

	if (th->by_label)
		buf_addf(b, "%s=%s", o->label, name);
	else
		buf_adds(b, *name ? name : "unknown");
}

static void goroutine_name(struct buf *b, const struct sentry_threads *t, const struct sentry_thread *th,
			   const struct sentry_view *view)
{
	const char *entry = profile_string_get(view->w->profile, th->name);
	profile_id labels = PROFILE_LABELS_NONE;
	struct error *err = labels_of(t, th, view->w, &labels);

	buf_addf(b, "%s %llu", th->native ? "thread" : "goroutine",
		 (unsigned long long)(th->native ? th->id - PROFILE_THREAD_KEY : th->id));
	if (*entry)
		buf_addf(b, ": %s", entry);
	add_labels(b, view->w->profile, labels);
	b->failed = b->failed || err;
	error_free(err);
}

/* What must not be lost when a name is cut stands in `tail`. */
static void virtual_name(struct buf *b, struct buf *tail, const struct sentry_threads *t,
			 const struct sentry_thread *th, const struct sentry_view *view,
			 const struct export_options *o)
{
	const struct profile *p = view->w->profile;

	if (th->kind == SENTRY_GROUP)
		buf_addf(b, "%u %s: ", th->changes, th->native ? "threads" : "goroutines");
	add_owner(b, th, p, o);
	if (th->kind == SENTRY_LANE)
		buf_addf(tail, " #%u", th->lane + 1);
	else if (*profile_string_get(p, t->groups.v[th->lane].state))
		buf_addf(tail, " [%.40s]", profile_string_get(p, t->groups.v[th->lane].state));
}

/* The whole name into `b`, which is empty. */
static void name_of(struct buf *b, const struct sentry_threads *t, const struct sentry_thread *th,
		    const struct sentry_view *view, const struct export_options *o)
{
	struct buf tail;

	buf_init(&tail);
	if (th->kind == SENTRY_GOROUTINE)
		goroutine_name(b, t, th, view);
	else
		virtual_name(b, &tail, t, th, view, o);
	if (b->len + tail.len > NAME_MOST && !b->failed) {
		b->len = cut_length(b, NAME_MOST - strlen("...") - tail.len);
		buf_adds(b, "...");
	}
	buf_add(b, tail.data, tail.len);
	b->failed = b->failed || tail.failed;
	buf_deinit(&tail);
}

/* ---- ids ---- */

/* Hashes of texts: numbers of strings and stacks differ from run to run, and within one. */
struct id_key {
	uint64_t name;
	uint64_t stack, state;	/* of a group of one stack */
	uint32_t lane, kind;
};

static uint64_t text_hash(const struct profile *p, profile_id string)
{
	const char *text = profile_string_get(p, string);

	return hash_bytes(text, strlen(text));
}

static uint64_t stack_hash(const struct profile *p, profile_id stack)
{
	struct profile_stack s = profile_stack_get(p, stack);
	uint64_t sum[3] = { 0 };

	for (uint32_t i = 0; i < s.n; i++) {
		const struct profile_frame *f = profile_frame_get(p, s.frames[i]);

		sum[1] = text_hash(p, f->function);
		sum[2] = f->line;
		sum[0] = hash_bytes(sum, sizeof(sum));
	}
	return sum[0];
}

static uint64_t virtual_id(const struct sentry_threads *t, const struct sentry_thread *th,
			   const struct profile *p, const struct map64 *used)
{
	const struct sentry_group *g = th->kind == SENTRY_GROUP ? &t->groups.v[th->lane] : NULL;
	struct id_key key = {
		.name = text_hash(p, th->name), .lane = th->kind == SENTRY_LANE ? th->lane : 0,
		.kind = th->kind * 4u + th->by_label * 2u + th->native,
		.stack = g && g->stack ? stack_hash(p, g->stack) : 0,
		.state = g && g->state ? text_hash(p, g->state) : 0,
	};
	uint64_t id = hash_bytes(&key, sizeof(key)) % VIRTUAL_IDS;

	while (map64_get(used, VIRTUAL_ID + id) != MAP_NONE)
		id = (id + 1) % VIRTUAL_IDS;
	return VIRTUAL_ID + id;
}

struct error *sentry_threads_name(struct sentry_threads *t, const struct sentry_view *view)
{
	struct error *err = NULL;
	struct map64 used;

	map64_init(&used);
	for (uint32_t i = 0; i < t->told && !err; i++) {
		struct sentry_thread *th = &t->v[i];

		if (th->kind == SENTRY_GOROUTINE)
			continue;
		th->id = virtual_id(t, th, view->w->profile, &used);
		err = map64_put(&used, th->id, i);
	}
	map64_deinit(&used);
	return err;
}

void sentry_threads_json(const struct sentry_threads *t, const struct sentry_view *view,
			 const struct export_options *o, struct sentry_stream *out)
{
	struct buf name, *b = &out->b;

	buf_init(&name);
	buf_addc(b, '{');
	for (uint32_t i = 0; i < t->told && !b->failed; i++) {
		buf_clear(&name);
		name_of(&name, t, &t->v[i], view, o);
		buf_addf(b, "%s\"%llu\":{\"name\":", i ? "," : "", (unsigned long long)t->v[i].id);
		buf_add_json(b, name.data, name.len);
		buf_addc(b, '}');
		b->failed = b->failed || name.failed;
		sentry_stream_pass(out);
	}
	buf_addc(b, '}');
	buf_deinit(&name);
}
