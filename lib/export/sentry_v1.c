/*
 * sentry_v1.c: one window as a Sentry transaction and its sample profile (format 1), the two JSON
 * documents of one envelope. What is built here must not be refused: a window without two samples of
 * one goroutine is told as such and not built, one that is too big tells less (sentry_plan.c).
 *
 * Small documents are cJSON trees; frames, stacks, threads and samples are streamed. Text comes from the
 * target and may be anything: it goes through buf_add_json, which makes it valid UTF-8.
 *
 * Follows getsentry/relay, relay-profiling (sample v1) and the SDK documents on envelope items.
 */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/cleanup.h"
#include "export/export_impl.h"

enum {
	PROFILE_BYTES_MOST = 50 * 1024 * 1024 - 4096,	/* the service takes 50 MiB */
	HEAD_BYTES_MOST = 100 * 1024,	/* of the profile's other members: a dozen names of NAME_MOST * 4 */
	LEFT_OUT_NAMES = 20,
	NAME_MOST = 200,
	USEC = 1000000,			/* in a second */
};

struct builder {
	const struct window *w;
	const struct profile_meta *meta;
	struct sentry_plan *plan;
	struct sentry_v1 *out;
	char span_id[17];
	uint64_t start, end;	/* microseconds since 1970 */
	bool failed;		/* a JSON tree ran out of memory */
};

/* ---- small things ---- */

static struct error *random_hex(char *out, size_t bytes)
{
	unsigned char raw[16];

	if (getrandom(raw, bytes, 0) != (ssize_t)bytes)
		return error_new(ERROR_INTERNAL, "the kernel gave no random bytes");
	raw[0] |= 1;	/* all zero is no id */
	for (size_t i = 0; i < bytes; i++) {
		out[2 * i] = "0123456789abcdef"[raw[i] >> 4];
		out[2 * i + 1] = "0123456789abcdef"[raw[i] & 15];
	}
	out[2 * bytes] = '\0';
	return NULL;
}

static void add_text(struct builder *b, cJSON *o, const char *name, const char *value)
{
	struct buf json;

	if (!value || !*value)
		return;
	buf_init(&json);
	buf_add_json(&json, value, strnlen(value, NAME_MOST * 4));
	if (buf_error(&json) || !cJSON_AddRawToObject(o, name, json.data))
		b->failed = true;
	buf_deinit(&json);
}

static void add_required(struct builder *b, cJSON *o, const char *name, const char *value)
{
	add_text(b, o, name, value && *value ? value : "unknown");
}

/* 64-bit numbers pass a double by; a counter must not lose its last digits. */
static void add_number(struct builder *b, cJSON *o, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	if (!cJSON_AddRawToObject(o, name, text))
		b->failed = true;
}

/*
 * The same instant in two forms: a transaction may have seconds, a profile must not. To the
 * microsecond: that is what the service keeps of a transaction's times.
 */
static void add_seconds(struct builder *b, cJSON *o, const char *name, uint64_t usec)
{
	char text[40];

	snprintf(text, sizeof(text), "%llu.%06u", (unsigned long long)(usec / USEC),
		 (unsigned int)(usec % USEC));
	if (!cJSON_AddRawToObject(o, name, text))
		b->failed = true;
}

static void add_rfc3339(struct builder *b, cJSON *o, const char *name, uint64_t usec)
{
	time_t sec = (time_t)(usec / USEC);
	struct tm tm;
	char text[64];
	size_t n;

	gmtime_r(&sec, &tm);
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%06uZ", (unsigned int)(usec % USEC));
	add_text(b, o, name, text);
}

static cJSON *add_object(struct builder *b, cJSON *o, const char *name)
{
	cJSON *child = cJSON_AddObjectToObject(o, name);

	if (!child)
		b->failed = true;
	return child;
}

/* Prints a document into `out` and frees it. */
static struct error *print(struct builder *b, cJSON *doc, struct buf *out)
{
	char *text = b->failed ? NULL : cJSON_PrintUnformatted(doc);

	cJSON_Delete(doc);
	if (!text)
		return &err_nomem;
	buf_adds(out, text);
	cJSON_free(text);
	return buf_error(out);
}

/* ---- what both documents say ---- */

static const char *transaction_name(const struct builder *b)
{
	return b->meta->program && *b->meta->program ? b->meta->program : "unknown";
}

static void add_origin(struct builder *b, cJSON *doc)
{
	add_text(b, doc, "platform", "go");
	add_text(b, doc, "release", b->meta->release);
	add_text(b, doc, "environment", b->meta->environment);
}

static void add_os(struct builder *b, cJSON *doc)
{
	cJSON *os = add_object(b, doc, "os");

	add_required(b, os, "name", b->meta->os_name);
	add_required(b, os, "version", b->meta->os_version);
}

static void add_runtime(struct builder *b, cJSON *doc)
{
	cJSON *runtime = add_object(b, doc, "runtime");

	add_text(b, runtime, "name", "go");
	add_required(b, runtime, "version", b->meta->go_version);
}

/* ---- the transaction ---- */

/* A number of each kind of which there is any. */
static void add_counts(struct builder *b, cJSON *o, const struct export_counts *c)
{
	if (c->goroutines)
		add_number(b, o, "goroutines", c->goroutines);
	if (c->threads)
		add_number(b, o, "threads", c->threads);
	if (c->shared)
		add_number(b, o, "shared_threads", c->shared);
}

struct left_out {
	struct sentry_owner owner;
	struct export_counts counts;
};

static uint64_t sum_of(const struct export_counts *c)
{
	return (uint64_t)c->goroutines + c->threads + c->shared;
}

static int by_count(const void *va, const void *vb)
{
	const struct left_out *a = va, *b = vb;
	uint64_t n = sum_of(&a->counts), m = sum_of(&b->counts);

	if (n != m)
		return n < m ? 1 : -1;
	return memcmp(&a->owner, &b->owner, sizeof(a->owner));
}

/* [{"entry":NAME,"goroutines":N},...]: names as values, keys must be ours. */
static struct error *add_left_out_rows(struct builder *b, cJSON *o, const struct left_out *v, uint32_t n,
				       bool by_label)
{
	cJSON *list = NULL;

	for (uint32_t i = 0, rows = 0; i < n && rows < LEFT_OUT_NAMES; i++) {
		cJSON *row;

		if (v[i].owner.by_label != by_label)
			continue;
		if (!list)
			list = cJSON_AddArrayToObject(o, by_label ? "by_label" : "by_entry");
		row = list ? cJSON_CreateObject() : NULL;
		if (!row)
			return &err_nomem;
		cJSON_AddItemToArray(list, row);
		add_required(b, row, by_label ? "value" : "entry",
			     profile_string_get(b->w->profile, v[i].owner.name));
		add_counts(b, row, &v[i].counts);
		rows++;
	}
	return NULL;
}

/* {"goroutines":N,...,"by_entry":[...],"by_label":[...]} */
static struct error *add_left_out(struct builder *b, cJSON *context)
{
	const struct sentry_threads *t = &b->plan->threads;
	uint32_t n = t->left_owners.n;
	_cleanup_free_ struct left_out *v = calloc((size_t)n + 1, sizeof(*v));
	cJSON *o = add_object(b, context, "left_out");
	struct error *err;

	if (!v)
		return &err_nomem;
	add_counts(b, o, &t->left_out);
	for (uint32_t i = 0; i < n; i++) {
		size_t len;

		v[i].owner = *(const struct sentry_owner *)keyset_get(&t->left_owners, i, &len);
		v[i].counts = t->left_counts[i];
	}
	qsort(v, n, sizeof(*v), by_count);
	err = add_left_out_rows(b, o, v, n, false);
	return err ? err : add_left_out_rows(b, o, v, n, true);
}

/* What was taken away because it would have been too much: sentry_plan.c. */
static void add_thinned(struct builder *b, cJSON *context)
{
	const struct sentry_level *level = b->plan->view.level;
	const struct export_counts *grouped = &b->plan->threads.grouped;
	cJSON *o;

	if (!b->plan->thinned)
		return;
	o = add_object(b, context, "thinned");
	if (!level->last_ticks && b->plan->o.mode == PROFILE_WALL)
		add_text(b, o, "parked", "one sample where a stack begins, no second one at its last tick");
	if (level->mixed_ns && b->plan->o.mode == PROFILE_WALL)
		add_number(b, o, "order_of_parked_stacks_lost_within_ns", level->mixed_ns);
	if (level->pushed_ns)
		add_number(b, o, "on_cpu_told_first_within_ns", level->pushed_ns);
	if (level->summed_ns)
		add_number(b, o, "order_of_stacks_on_cpu_lost_within_ns", level->summed_ns);
	else if (level->tick_step > 1)
		add_number(b, o, "on_cpu_one_sample_in_ticks", level->tick_step);
	if (!b->plan->threads.n_groups)
		return;
	add_number(b, o, "goroutines_grouped", grouped->goroutines);
	if (grouped->threads)
		add_number(b, o, "threads_grouped", grouped->threads);
	add_number(b, o, "groups", b->plan->threads.n_groups);
	add_text(b, o, "a_group_is", "the average of its goroutines: times their number it is their sum");
}

static void add_threads_by(struct builder *b, cJSON *context)
{
	static const char *const names[] = {
		[EXPORT_BY_GOROUTINE] = "goroutine", [EXPORT_BY_ENTRY] = "entry", [EXPORT_BY_LABEL] = "label",
	};

	add_text(b, context, "threads_by", names[b->plan->o.threads]);
	if (b->plan->o.threads == EXPORT_BY_LABEL)
		add_text(b, context, "label", b->plan->o.label);
}

/* "CPU time unseen" -> cpu_time_unseen_ns */
static void add_health(struct builder *b, cJSON *context)
{
	cJSON *o = add_object(b, context, "health");

	for (int i = 0; i < HEALTH_COUNT; i++) {
		bool ns = health_table[i].unit == HEALTH_UNIT_NS;
		char name[64];

		snprintf(name, sizeof(name), "%s%s", health_table[i].name, ns ? "_ns" : "");
		for (char *c = name; *c; c++)
			*c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '_';
		add_number(b, o, name, b->w->health[i]);
	}
}

static struct error *add_goprof(struct builder *b, cJSON *contexts)
{
	cJSON *c = add_object(b, contexts, "goprof");
	const struct window *w = b->w;

	add_text(b, c, "mode", export_mode_name(b->plan->o.mode));
	add_number(b, c, "rate_hz", b->meta->rate_hz);
	add_number(b, c, "window", w->number);
	add_number(b, c, "ticks", w->n_ticks);
	add_number(b, c, "goroutines", b->plan->threads.goroutines);
	add_number(b, c, "threads_told", b->plan->threads.told);
	add_threads_by(b, c);
	add_number(b, c, "cpu_unseen_ns", w->cpu_unseen_ns);
	add_number(b, c, "cpu_ended_threads_ns", w->cpu_ended_ns);
	/* Time that the limit of the service took away; 0 unless a window was closed too late. */
	add_number(b, c, "cut_ns", w->end.mono - b->plan->view.limit);
	add_text(b, c, "command", b->meta->command);
	add_text(b, c, "looks", b->meta->looks);
	add_text(b, c, "restricted", b->meta->restricted);
	add_health(b, c);
	add_thinned(b, c);
	return add_left_out(b, c);
}

static struct error *add_contexts(struct builder *b, cJSON *doc)
{
	cJSON *contexts = add_object(b, doc, "contexts"), *c;

	c = add_object(b, contexts, "trace");
	add_text(b, c, "trace_id", b->out->trace_id);
	add_text(b, c, "span_id", b->span_id);
	add_text(b, c, "op", "process");
	add_text(b, c, "status", "ok");
	c = add_object(b, contexts, "profile");
	add_text(b, c, "profile_id", b->out->profile_id);
	c = add_object(b, contexts, "device");
	add_required(b, c, "arch", b->meta->arch);
	add_os(b, contexts);
	add_runtime(b, contexts);
	c = add_object(b, contexts, "app");
	add_text(b, c, "app_name", transaction_name(b));
	add_text(b, c, "app_identifier", b->meta->main_path);
	add_number(b, c, "pid", (uint64_t)(b->meta->pid > 0 ? b->meta->pid : 0));
	add_text(b, c, "exe", b->meta->exe);
	return add_goprof(b, contexts);
}

static struct error *build_transaction(struct builder *b)
{
	cJSON *doc = cJSON_CreateObject(), *sdk, *tags;
	struct error *err;

	if (!doc)
		return &err_nomem;
	add_text(b, doc, "type", "transaction");
	add_text(b, doc, "event_id", b->out->event_id);
	add_text(b, doc, "transaction", transaction_name(b));
	add_seconds(b, doc, "start_timestamp", b->start);
	add_seconds(b, doc, "timestamp", b->end);
	add_origin(b, doc);
	add_text(b, doc, "server_name", b->meta->server_name);
	sdk = add_object(b, doc, "sdk");
	add_text(b, sdk, "name", "goprof");
	add_required(b, sdk, "version", b->meta->goprof_version);
	tags = add_object(b, doc, "tags");
	add_text(b, tags, "goprof.mode", export_mode_name(b->plan->o.mode));
	if (b->meta->restricted)
		add_text(b, tags, "goprof.restricted", "yes");
	if (b->plan->thinned)
		add_text(b, tags, "goprof.thinned", "yes");
	if (!cJSON_AddArrayToObject(doc, "spans"))
		b->failed = true;
	err = add_contexts(b, doc);
	if (err) {
		cJSON_Delete(doc);
		return err;
	}
	return print(b, doc, &b->out->transaction);
}

/* ---- the profile ---- */

static struct error *build_profile_head(struct builder *b, struct buf *out)
{
	cJSON *doc = cJSON_CreateObject(), *c;

	if (!doc)
		return &err_nomem;
	add_text(b, doc, "version", "1");
	add_text(b, doc, "event_id", b->out->profile_id);
	add_rfc3339(b, doc, "timestamp", b->start);
	add_origin(b, doc);
	c = add_object(b, doc, "device");
	add_required(b, c, "architecture", b->meta->arch);
	add_os(b, doc);
	add_runtime(b, doc);
	c = add_object(b, doc, "transaction");
	add_text(b, c, "id", b->out->event_id);
	add_text(b, c, "name", transaction_name(b));
	add_text(b, c, "trace_id", b->out->trace_id);
	add_number(b, c, "active_thread_id", b->plan->threads.active);
	return print(b, doc, out);
}

/* ---- both ---- */

static void set_times(struct builder *b)
{
	uint64_t length = b->plan->view.limit - b->w->start.mono;

	b->start = b->w->start.real / NSEC_PER_USEC;
	b->end = b->start + (length + NSEC_PER_USEC - 1) / NSEC_PER_USEC;
}

static struct error *set_ids(struct builder *b)
{
	struct error *err = random_hex(b->out->event_id, 16);

	if (!err)
		err = random_hex(b->out->profile_id, 16);
	if (!err)
		err = random_hex(b->out->trace_id, 16);
	return err ? err : random_hex(b->span_id, 8);
}

static struct error *build(struct builder *b)
{
	struct sentry_v1 *out = b->out;
	struct buf *head = &b->plan->head;
	struct error *err = set_ids(b);

	if (err)
		return err;
	set_times(b);
	err = build_profile_head(b, head);
	if (err)
		return err;
	head->data[head->len - 1] = ',';	/* its closing brace: the streamed member comes there */
	err = build_transaction(b);
	out->profile_len = head->len + b->plan->body;
	out->threads = b->plan->threads.told;
	out->left_out = b->plan->threads.left_out;
	out->grouped = b->plan->threads.grouped;
	out->labelled = b->plan->threads.labelled;
	out->thinned = b->plan->step > 0;
	out->too_big = b->plan->too_big;
	out->cut = b->plan->cut;
	return err;
}

struct error *sentry_v1_build_limited(const struct window *w, const struct export_options *o,
				      uint64_t most_bytes, struct sentry_v1 *ret)
{
	struct sentry_v1 v = { 0 };
	struct builder b = { .w = w, .meta = profile_meta(w->profile), .out = &v };
	struct error *err;

	if (w->n_ticks < 2)
		return error_new(ERROR_NOT_FOUND, "the window is too short for a profile");
	buf_init(&v.transaction);
	err = sentry_plan_create(w, o, most_bytes, &v.plan);
	b.plan = v.plan;
	if (!err)
		err = build(&b);
	if (err)
		sentry_v1_deinit(&v);
	else
		*ret = v;
	return err;
}

struct error *sentry_v1_build(const struct window *w, const struct export_options *o,
			      struct sentry_v1 *ret)
{
	return sentry_v1_build_limited(w, o, PROFILE_BYTES_MOST - HEAD_BYTES_MOST, ret);
}

struct error *sentry_v1_profile(const struct sentry_v1 *v, struct sink *out)
{
	return sentry_plan_write(v->plan, out);
}

void sentry_v1_deinit(struct sentry_v1 *v)
{
	buf_deinit(&v->transaction);
	sentry_plan_destroy(v->plan);
	v->plan = NULL;
}
