/*
 * sentry_frames.c: the tables of frames and stacks of one Sentry payload.
 *
 * The flame graph tells frames apart by filename, function and line only. Two functions of equal
 * name in different packages must therefore never share a filename: it is the import path with the
 * base name, and where that is not known or not enough, the module takes part in it. An instruction
 * address is never sent: the service would split one function into many.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "export/export_impl.h"

/* The first three members are what the flame graph looks at: struct drawn_key. */
struct frame_key {
	profile_id file, name;
	uint32_t line;
	profile_id module, abs_path;
	uint32_t in_app;
};

enum { DRAWN_KEY = offsetof(struct frame_key, module) };

void sentry_stacks_init(struct sentry_stacks *s, const struct profile *p)
{
	*s = (struct sentry_stacks){ .p = p };
	keyset_init(&s->frames);
	keyset_init(&s->drawn);
	keyset_init(&s->stacks);
	map64_init(&s->by_id);
	buf_init(&s->frames_json);
}

void sentry_stacks_deinit(struct sentry_stacks *s)
{
	keyset_deinit(&s->frames);
	keyset_deinit(&s->drawn);
	keyset_deinit(&s->stacks);
	map64_deinit(&s->by_id);
	buf_deinit(&s->frames_json);
	shown_deinit(&s->shown);
	free(s->drawn_module);
	free(s->scratch);
}

/* ---- one frame ---- */

static bool is_absolute(const char *path)
{
	bool drive = isalpha((unsigned char)path[0]) && path[1] == ':';

	return path[0] == '/' || path[0] == '\\' || (drive && (path[2] == '/' || path[2] == '\\'));
}

/* The service shows absolute file names wrongly. */
static const char *relative(const char *path)
{
	while (is_absolute(path))
		path += path[0] == '/' || path[0] == '\\' ? 1 : 3;
	return path;
}

static void add_field(struct buf *b, const char *name, const char *value)
{
	if (!*value)
		return;
	buf_addf(b, ",\"%s\":", name);
	buf_add_json(b, value, strlen(value));
}

static void add_filename(struct buf *b, const char *file, const char *module, bool apart)
{
	struct buf name;

	if (!*file || !apart) {
		add_field(b, "filename", *file ? file : relative(module));
		return;
	}
	buf_init(&name);
	buf_addf(&name, "%s/%s", *module ? relative(module) : "unknown", file);
	if (buf_error(&name))
		b->failed = true;
	else
		add_field(b, "filename", name.data);
	buf_deinit(&name);
}

/* `apart`: another module has a frame that would be drawn as the same one. */
static void frame_json(struct sentry_stacks *s, const struct frame_key *k, const char *function,
		       bool apart)
{
	struct buf *b = &s->frames_json;
	const char *module = profile_string_get(s->p, k->module);
	const char *abs_path = profile_string_get(s->p, k->abs_path);

	buf_adds(b, b->len ? ",{\"function\":" : "{\"function\":");
	buf_add_json(b, function, strlen(function));
	add_field(b, "module", module);
	add_filename(b, relative(profile_string_get(s->p, k->file)), module, apart);
	if (is_absolute(abs_path))
		add_field(b, "abs_path", abs_path);
	if (k->line)
		buf_addf(b, ",\"lineno\":%u", k->line);
	buf_addf(b, ",\"in_app\":%s}", k->in_app ? "true" : "false");
}

/* Does the flame graph already draw a frame of another module in the same way? */
static struct error *is_taken(struct sentry_stacks *s, const struct frame_key *k, bool *ret)
{
	uint32_t i;
	bool fresh;
	struct error *err = keyset_add(&s->drawn, k, DRAWN_KEY, &i, &fresh);

	if (!err)
		err = array_reserve(&s->drawn_module, &s->cap_drawn, s->drawn.n,
				     sizeof(*s->drawn_module));
	if (err)
		return err;
	if (fresh)
		s->drawn_module[i] = k->module;
	*ret = s->drawn_module[i] != k->module;
	return NULL;
}

static struct error *add_frame(struct sentry_stacks *s, profile_id id, uint32_t *ret)
{
	const struct profile_frame *f = profile_frame_get(s->p, id);
	profile_id name = *profile_string_get(s->p, f->name) ? f->name : f->function;
	struct frame_key k = { f->file, name, f->line, f->module, f->abs_path,
			       !!(f->flags & PROFILE_FRAME_IN_APP) };
	const char *function = profile_string_get(s->p, name);
	bool fresh, taken;
	struct error *err = keyset_add(&s->frames, &k, sizeof(k), ret, &fresh);

	if (err || !fresh)
		return err;
	err = is_taken(s, &k, &taken);
	if (err)
		return err;
	frame_json(s, &k, *function ? function : "<unknown>", taken);
	return buf_error(&s->frames_json);
}

/* A frame that no function stands for; its key is its name. */
static struct error *add_mark(struct sentry_stacks *s, const char *mark, uint32_t *ret)
{
	static const struct frame_key nothing;
	bool fresh;
	struct error *err = keyset_add(&s->frames, mark, strlen(mark), ret, &fresh);

	if (err || !fresh)
		return err;
	frame_json(s, &nothing, mark, false);
	return buf_error(&s->frames_json);
}

/* ---- stacks ---- */

static struct error *add_stack(struct sentry_stacks *s, profile_id id, uint32_t *ret)
{
	uint32_t n = 0;
	bool fresh;
	struct error *err = shown_of(&s->shown, s->p, id);

	if (!err)
		err = array_reserve(&s->scratch, &s->cap_scratch, s->shown.n + 1,
				     sizeof(*s->scratch));
	for (; !err && n < s->shown.n; n++)
		err = add_frame(s, s->shown.v[n].id, &s->scratch[n]);
	if (!err && s->shown.mark)
		err = add_mark(s, s->shown.mark, &s->scratch[n++]);
	if (!err)
		err = keyset_add(&s->stacks, s->scratch, n * sizeof(*s->scratch), ret, &fresh);
	return err;
}

struct error *sentry_stack(struct sentry_stacks *s, profile_id stack, uint32_t *ret)
{
	uint32_t known = map64_get(&s->by_id, stack);
	struct error *err;

	if (known != MAP_NONE) {
		*ret = known;
		return NULL;
	}
	err = add_stack(s, stack, &known);
	if (!err)
		err = map64_put(&s->by_id, stack, known);
	if (!err)
		*ret = known;
	return err;
}

struct error *sentry_stack_of_mark(struct sentry_stacks *s, const char *mark, uint32_t *ret)
{
	uint32_t frame;
	bool fresh;
	struct error *err = add_mark(s, mark, &frame);

	return err ? err : keyset_add(&s->stacks, &frame, sizeof(frame), ret, &fresh);
}

/* The last frame of a stack, which is its root; UINT32_MAX: it has none. */
static uint32_t root_of(const struct sentry_stacks *s, uint32_t stack)
{
	size_t len;
	const uint32_t *v = keyset_get(&s->stacks, stack, &len);

	return len ? v[len / sizeof(*v) - 1] : UINT32_MAX;
}

bool sentry_stacks_common(const struct sentry_stacks *s, uint32_t a, uint32_t b)
{
	return root_of(s, a) == root_of(s, b);
}

void sentry_stacks_json(const struct sentry_stacks *s, struct sentry_stream *out)
{
	struct buf *b = &out->b;

	buf_adds(b, "\"frames\":[");
	buf_add(b, s->frames_json.data, s->frames_json.len);
	buf_adds(b, "],\"stacks\":[");
	for (uint32_t i = 0; i < s->stacks.n && !b->failed; i++) {
		size_t len;
		const uint32_t *v = keyset_get(&s->stacks, i, &len);

		buf_adds(b, i ? ",[" : "[");
		for (size_t k = 0; k < len / sizeof(*v); k++) {
			char number[24];

			if (k)
				buf_addc(b, ',');
			buf_add(b, number, (size_t)(sentry_put_number(number, v[k]) - number));
		}
		buf_addc(b, ']');
		sentry_stream_pass(out);
	}
	buf_addc(b, ']');
}
