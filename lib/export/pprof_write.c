/*
 * pprof_write.c: the only file that knows the pprof format (lib/export/profile.proto).
 *
 * The file is written as a sequence of fragments, each a Profile with some of its fields: by the
 * rules of protocol buffers their concatenation is the whole, so no tree of a million samples is
 * ever built. Frames that were inlined share the location of the function that holds them, as in
 * the profiles that Go writes itself.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/gzip.h"
#include "export/pprof_impl.h"
#include "profile.pb-c.h"

struct function_key {
	uint32_t name, file;	/* string table */
	uint32_t start_line;
};

/* The first word of a location key that names a string and not frames. */
enum { PSEUDO = UINT32_MAX };

/* The mapping of the program's own file; those of images with C code follow it. */
enum { PROGRAM = 1 };

struct writer {
	ProtobufCBuffer base;		/* what protobuf-c appends to: first member */
	const struct pprof *x;
	struct gzip *gz;
	struct keyset strings, functions;
	struct keyset locations;	/* arrays of frame ids, or {PSEUDO, string} */
	struct shown shown;
	uint64_t *ids;			/* locations of the stack at hand */
	uint32_t n_ids, cap_ids;
	profile_id ids_of;		/* the stack they belong to, if ids_valid */
	bool ids_valid;
	Pprof__Label *labels, **label_list;
	uint32_t cap_labels, cap_label_list;
};

static void append(ProtobufCBuffer *base, size_t len, const uint8_t *data)
{
	gzip_write(((struct writer *)base)->gz, data, len);
}

static void emit(struct writer *w, const Pprof__Profile *fragment)
{
	pprof__profile__pack_to_buffer(fragment, &w->base);
}

/* ---- tables ---- */

static bool is_program(const struct writer *w, const struct profile_image *image)
{
	const char *exe = profile_meta(w->x->rows->names)->exe;

	return exe && strcmp(profile_string_get(w->x->rows->names, image->path), exe) == 0;
}

static struct error *string_index(struct writer *w, const char *s, uint32_t *ret)
{
	bool fresh;

	return keyset_add(&w->strings, s, strlen(s), ret, &fresh);
}

static struct error *location_of(struct writer *w, const uint32_t *key, uint32_t n, uint64_t *ret)
{
	uint32_t i;
	bool fresh;
	struct error *err = keyset_add(&w->locations, key, n * sizeof(*key), &i, &fresh);

	if (!err)
		*ret = (uint64_t)i + 1;
	return err;
}

static struct error *add_pseudo(struct writer *w, const char *name)
{
	uint32_t key[2] = { PSEUDO };
	struct error *err = string_index(w, name, &key[1]);

	if (!err)
		err = location_of(w, key, 2, &w->ids[w->n_ids]);
	if (!err)
		w->n_ids++;
	return err;
}

static struct error *add_locations(struct writer *w)
{
	const struct shown *s = &w->shown;
	_cleanup_free_ uint32_t *key = calloc((size_t)s->n + 1, sizeof(*key));
	uint32_t n = 0;

	if (!key)
		return &err_nomem;
	for (uint32_t i = 0; i < s->n; i++) {
		struct error *err;

		key[n++] = s->v[i].id;
		if (!s->v[i].ends_location)
			continue;
		err = location_of(w, key, n, &w->ids[w->n_ids]);
		if (err)
			return err;
		w->n_ids++;
		n = 0;
	}
	return NULL;
}

/* Fills w->ids with the locations of a stack, leaf first. */
static struct error *locate(struct writer *w, profile_id stack)
{
	struct error *err;

	if (w->ids_valid && w->ids_of == stack)
		return NULL;
	w->ids_valid = false;
	w->n_ids = 0;
	err = shown_of(&w->shown, w->x->rows->names, stack);
	if (!err)
		err = array_reserve(&w->ids, &w->cap_ids, w->shown.n + 1, sizeof(*w->ids));
	if (!err)
		err = add_locations(w);
	if (!err && (w->shown.mark || !w->shown.n))
		err = add_pseudo(w, w->shown.n ? w->shown.mark : "[no stack]");
	if (err)
		return err;
	w->ids_of = stack;
	w->ids_valid = true;
	return NULL;
}

/* ---- samples ---- */

static struct error *add_label(struct writer *w, uint32_t at, const char *key, const char *value)
{
	uint32_t k, v;
	struct error *err = string_index(w, key, &k);

	if (!err)
		err = string_index(w, value, &v);
	if (err)
		return err;
	w->labels[at] = (Pprof__Label)PPROF__LABEL__INIT;
	w->labels[at].key = k;
	w->labels[at].str = v;
	w->label_list[at] = &w->labels[at];
	return NULL;
}

static struct error *set_labels(struct writer *w, const struct pprof_key *key, uint32_t *n)
{
	const struct profile *p = w->x->rows->names;
	struct profile_labels l = profile_labels_get(p, key->labels);
	const char *state = profile_string_get(p, key->state);
	struct error *err = array_reserve(&w->labels, &w->cap_labels, l.n + 1, sizeof(*w->labels));

	if (!err)
		err = array_reserve(&w->label_list, &w->cap_label_list, l.n + 1,
				     sizeof(*w->label_list));
	for (uint32_t i = 0; i < l.n && !err; i++)
		err = add_label(w, i, profile_string_get(p, l.v[i].key),
				profile_string_get(p, l.v[i].value));
	*n = l.n;
	if (!err && *state)
		err = add_label(w, (*n)++, "state", state);
	return err;
}

static void emit_sample(struct writer *w, const uint64_t *values, uint32_t n_labels)
{
	Pprof__Profile fragment = PPROF__PROFILE__INIT;
	Pprof__Sample sample = PPROF__SAMPLE__INIT, *list[] = { &sample };
	int64_t v[PPROF_VALUES];

	for (int i = 0; i < PPROF_VALUES; i++)
		v[i] = values[i] < INT64_MAX ? (int64_t)values[i] : INT64_MAX;
	sample.location_id = w->ids;
	sample.n_location_id = w->n_ids;
	sample.value = v;
	sample.n_value = PPROF_VALUES;
	sample.label = w->label_list;
	sample.n_label = n_labels;
	fragment.sample = list;
	fragment.n_sample = 1;
	emit(w, &fragment);
}

static struct error *write_samples(struct writer *w)
{
	for (uint32_t i = 0; i < w->x->rows->keys.n; i++) {
		size_t len;
		struct pprof_key key;
		uint32_t n_labels;
		struct error *err;

		memcpy(&key, keyset_get(&w->x->rows->keys, i, &len), sizeof(key));
		err = locate(w, key.stack);
		if (!err)
			err = set_labels(w, &key, &n_labels);
		if (err)
			return err;
		emit_sample(w, w->x->rows->values[i], n_labels);
	}
	return NULL;
}

/* CPU time that belongs to no stack, under a name of its own. */
static struct error *write_rest(struct writer *w, const char *name, uint64_t ns)
{
	const uint64_t values[PPROF_VALUES] = { [PPROF_CPU] = ns };
	struct error *err;

	if (!ns)
		return NULL;
	w->ids_valid = false;
	w->n_ids = 0;
	err = array_reserve(&w->ids, &w->cap_ids, 1, sizeof(*w->ids));
	if (!err)
		err = add_pseudo(w, name);
	if (!err)
		emit_sample(w, values, 0);
	return err;
}

/* ---- locations, functions, strings ---- */

static struct error *function_of(struct writer *w, const char *name, const char *file,
				 uint32_t start_line, uint64_t *ret)
{
	struct function_key key = { .start_line = start_line };
	uint32_t i;
	bool fresh;
	struct error *err = string_index(w, name, &key.name);

	if (!err)
		err = string_index(w, file, &key.file);
	if (!err)
		err = keyset_add(&w->functions, &key, sizeof(key), &i, &fresh);
	if (!err)
		*ret = (uint64_t)i + 1;
	return err;
}

static struct error *line_of(struct writer *w, profile_id id, Pprof__Line *line)
{
	const struct profile *p = w->x->rows->names;
	const struct profile_frame *f = profile_frame_get(p, id);
	const char *file = profile_string_get(p, f->abs_path);

	if (!*file)
		file = profile_string_get(p, f->file);
	line->line = f->line;
	return function_of(w, profile_string_get(p, f->function), file, f->start_line,
			   &line->function_id);
}

static struct error *pseudo_line(struct writer *w, uint32_t string, Pprof__Line *line)
{
	size_t len;
	/* A copy: the table may grow, and move, while the function is added. */
	const char *text = keyset_get(&w->strings, string, &len);
	_cleanup_free_ char *name = strndup(text, len);

	return name ? function_of(w, name, "", 0, &line->function_id) : &err_nomem;
}

/* The mapping of a location, by the first of its frames: the program's file or an image with C code. */
static uint64_t mapping_of(const struct writer *w, profile_id frame)
{
	const struct profile *p = w->x->rows->names;
	const struct profile_image *image = profile_image_get(p, profile_image_of(p, frame));

	if (!image || is_program(w, image))
		return PROGRAM;
	return PROGRAM + 1 + profile_image_of(p, frame);
}

static struct error *write_location(struct writer *w, uint32_t i)
{
	Pprof__Profile fragment = PPROF__PROFILE__INIT;
	Pprof__Location location = PPROF__LOCATION__INIT, *list[] = { &location };
	size_t len, n = 0;
	const uint32_t *key = keyset_get(&w->locations, i, &len);
	size_t words = key[0] == PSEUDO ? 1 : len / sizeof(*key);
	_cleanup_free_ Pprof__Line *lines = calloc(words, sizeof(*lines));
	_cleanup_free_ Pprof__Line **line_list = calloc(words, sizeof(*line_list));
	struct error *err = NULL;

	if (!lines || !line_list)
		return &err_nomem;
	for (; n < words && !err; n++) {
		pprof__line__init(&lines[n]);
		line_list[n] = &lines[n];
		err = key[0] == PSEUDO ? pseudo_line(w, key[1], &lines[n])
				       : line_of(w, key[n], &lines[n]);
	}
	if (err)
		return err;
	location.id = (uint64_t)i + 1;
	location.mapping_id = key[0] == PSEUDO ? PROGRAM : mapping_of(w, key[0]);
	location.line = line_list;
	location.n_line = n;
	fragment.location = list;
	fragment.n_location = 1;
	emit(w, &fragment);
	return NULL;
}

static void write_function(struct writer *w, uint32_t i)
{
	Pprof__Profile fragment = PPROF__PROFILE__INIT;
	Pprof__Function function = PPROF__FUNCTION__INIT, *list[] = { &function };
	size_t len;
	const struct function_key *key = keyset_get(&w->functions, i, &len);

	function.id = (uint64_t)i + 1;
	function.name = function.system_name = key->name;
	function.filename = key->file;
	function.start_line = key->start_line;
	fragment.function = list;
	fragment.n_function = 1;
	emit(w, &fragment);
}

static struct error *write_strings(struct writer *w)
{
	for (uint32_t i = 0; i < w->strings.n; i++) {
		Pprof__Profile fragment = PPROF__PROFILE__INIT;
		size_t len;
		const char *text = keyset_get(&w->strings, i, &len);
		_cleanup_free_ char *s = strndup(text, len);

		if (!s)
			return &err_nomem;
		fragment.string_table = &s;
		fragment.n_string_table = 1;
		emit(w, &fragment);
	}
	return NULL;
}

static struct error *write_tables(struct writer *w)
{
	struct error *err;

	for (uint32_t i = 0; i < w->locations.n; i++) {
		err = write_location(w, i);
		if (err)
			return err;
	}
	for (uint32_t i = 0; i < w->functions.n; i++)
		write_function(w, i);
	return write_strings(w);
}

/* ---- what the profile is about ---- */

static struct error *value_type(struct writer *w, const char *type, const char *unit,
				Pprof__ValueType *ret)
{
	uint32_t t, u;
	struct error *err = string_index(w, type, &t);

	if (!err)
		err = string_index(w, unit, &u);
	if (err)
		return err;
	pprof__value_type__init(ret);
	ret->type = t;
	ret->unit = u;
	return NULL;
}

static struct error *write_types(struct writer *w)
{
	static const char *const names[PPROF_VALUES][2] = {
		[PPROF_SAMPLES] = { "samples", "count" },
		[PPROF_CPU] = { "cpu", "nanoseconds" },
		[PPROF_WALL] = { "wall", "nanoseconds" },
	};
	const char *const *mode = names[w->x->o.mode == PROFILE_CPU ? PPROF_CPU : PPROF_WALL];
	uint32_t rate = profile_meta(w->x->rows->names)->rate_hz;
	Pprof__Profile fragment = PPROF__PROFILE__INIT;
	Pprof__ValueType types[PPROF_VALUES], *list[PPROF_VALUES], period;
	struct error *err = value_type(w, mode[0], mode[1], &period);

	for (int i = 0; i < PPROF_VALUES && !err; i++) {
		err = value_type(w, names[i][0], names[i][1], &types[i]);
		list[i] = &types[i];
	}
	if (err)
		return err;
	fragment.sample_type = list;
	fragment.n_sample_type = PPROF_VALUES;
	fragment.period_type = &period;
	fragment.period = rate ? NSEC_PER_SEC / rate : 0;
	fragment.default_sample_type = period.type;
	fragment.time_nanos = (int64_t)w->x->start.real;
	fragment.duration_nanos = (int64_t)w->x->duration_ns;
	emit(w, &fragment);
	return NULL;
}

static void emit_mapping(struct writer *w, Pprof__Mapping *mapping)
{
	Pprof__Profile fragment = PPROF__PROFILE__INIT;

	/* Where this is true, pprof has nothing to look up in the file: no address is told. */
	mapping->has_functions = true;
	fragment.mapping = &mapping;
	fragment.n_mapping = 1;
	emit(w, &fragment);
}

static struct error *write_image(struct writer *w, uint32_t i)
{
	const struct profile *p = w->x->rows->names;
	const struct profile_image *image = profile_image_get(p, i);
	Pprof__Mapping mapping = PPROF__MAPPING__INIT;
	uint32_t file, id;
	struct error *err = string_index(w, profile_string_get(p, image->path), &file);

	if (!err)
		err = string_index(w, profile_string_get(p, image->build_id), &id);
	if (err)
		return err;
	mapping.id = PROGRAM + 1 + i;
	mapping.memory_start = image->start;
	mapping.memory_limit = image->end;
	mapping.file_offset = image->offset;
	mapping.filename = file;
	mapping.build_id = id;
	mapping.has_filenames = mapping.has_line_numbers = mapping.has_inline_frames = image->lines;
	emit_mapping(w, &mapping);
	return NULL;
}

static struct error *write_mappings(struct writer *w)
{
	const struct profile *p = w->x->rows->names;
	const char *exe = profile_meta(p)->exe;
	Pprof__Mapping mapping = PPROF__MAPPING__INIT;
	uint32_t file;
	struct error *err = string_index(w, exe ? exe : "", &file);

	if (err)
		return err;
	mapping.id = PROGRAM;
	mapping.filename = file;
	mapping.has_filenames = mapping.has_line_numbers = mapping.has_inline_frames = true;
	emit_mapping(w, &mapping);
	for (uint32_t i = 0; i < profile_image_count(p) && !err; i++)
		if (!is_program(w, profile_image_get(p, i)))
			err = write_image(w, i);
	return err;
}

static struct error *write_comment(struct writer *w, struct buf *line)
{
	Pprof__Profile fragment = PPROF__PROFILE__INIT;
	int64_t comment;
	uint32_t i;
	struct error *err = buf_error(line);

	if (!err)
		err = string_index(w, line->data, &i);
	if (err)
		return err;
	comment = i;
	fragment.comment = &comment;
	fragment.n_comment = 1;
	emit(w, &fragment);
	buf_clear(line);
	return NULL;
}

static const char *or_unknown(const char *s)
{
	return s && *s ? s : "unknown";
}

/*
 * All figures in one comment, zeros too: a reader must find what it looks for. One line, because
 * pprof prints every comment above its tables.
 */
static struct error *write_health(struct writer *w, struct buf *line)
{
	buf_adds(line, "health: ");
	for (int i = 0; i < HEALTH_COUNT; i++)
		buf_addf(line, "%s%s %" PRIu64 "%s", i ? ", " : "", health_table[i].name, w->x->health[i],
			 health_table[i].unit == HEALTH_UNIT_NS ? " ns" : "");
	return write_comment(w, line);
}

static struct error *write_comments(struct writer *w)
{
	const struct profile_meta *m = profile_meta(w->x->rows->names);
	_cleanup_(buf_deinit) struct buf line;
	struct error *err;

	buf_init(&line);
	buf_addf(&line, "goprof %s, mode %s, %u Hz, %u window%s", or_unknown(m->goprof_version),
		 export_mode_name(w->x->o.mode), m->rate_hz, w->x->windows,
		 w->x->windows == 1 ? "" : "s");
	err = write_comment(w, &line);
	if (err)
		return err;
	buf_addf(&line, "%s (pid %d, %s)", or_unknown(m->program), m->pid, or_unknown(m->go_version));
	err = write_comment(w, &line);
	if (!err && m->looks) {
		buf_addf(&line, "threads on a CPU were looked at by %s", m->looks);
		err = write_comment(w, &line);
	}
	if (!err && m->restricted) {
		buf_addf(&line, "restricted mode, on-CPU stacks of threads only: %s", m->restricted);
		err = write_comment(w, &line);
	}
	return err ? err : write_health(w, &line);
}

/* ---- all of it ---- */

static struct error *write_all(struct writer *w)
{
	uint32_t empty;
	struct error *err = string_index(w, "", &empty);	/* must be the first one */

	if (!err)
		err = write_types(w);
	if (!err)
		err = write_mappings(w);
	if (!err)
		err = write_comments(w);
	if (!err)
		err = write_samples(w);
	if (!err)
		err = write_rest(w, "[unseen]", w->x->unseen_ns);
	if (!err)
		err = write_rest(w, "[ended threads]", w->x->ended_ns);
	if (!err)
		err = write_tables(w);
	return err ? err : gzip_finish(w->gz);
}

struct error *pprof_write(const struct pprof *x, struct sink *out)
{
	struct writer w = { .base.append = append, .x = x };
	struct error *err = gzip_create(out, &w.gz);

	if (err)
		return err;
	keyset_init(&w.strings);
	keyset_init(&w.functions);
	keyset_init(&w.locations);
	err = write_all(&w);
	gzip_destroy(w.gz);
	keyset_deinit(&w.strings);
	keyset_deinit(&w.functions);
	keyset_deinit(&w.locations);
	shown_deinit(&w.shown);
	free(w.ids);
	free(w.labels);
	free(w.label_list);
	return err;
}
