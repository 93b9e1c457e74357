/*
 * sentry_server.h: a model of the service for large profiles: what it makes of the samples. Idle samples
 * are cut off the edges of each thread, threads with one sample are dropped, idle ones between are filled
 * with what the stacks around them have in common, and each sample lasts until the next one of its
 * thread. Stacks are known by their leaf, which tests call "s0", "s1", ...
 */
#ifndef GOPROF_TEST_SENTRY_SERVER_H
#define GOPROF_TEST_SENTRY_SERVER_H

#include "sentry_world.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

enum { SERVER_EMPTY = -1, SERVER_MARK = -2 };

struct server_row {
	uint64_t thread, at;
	uint64_t ns;	/* how long it lasts */
	int stack;	/* that it is charged to */
	int root;	/* frame at the root of its stack; SERVER_EMPTY: none */
	uint32_t order;
};

/* How many goroutines a thread stands for: "12 goroutines: ..." is 12, any other 1. */
struct server_thread {
	uint64_t id, members;
	const char *name;
};

struct server {
	struct server_row *v;	/* by thread and time */
	size_t n;
	struct server_thread *threads;	/* by id */
	size_t n_threads;
	cJSON *names;		/* thread_metadata */
	uint64_t active;
	int *leaf, *root;	/* of each stack: number of its function, frame */
	size_t marks, empty;	/* samples of these */
	struct buf text;
};

static inline int server_compare(const void *va, const void *vb)
{
	const struct server_row *a = va, *b = vb;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

/* The tables; samples may be a million and are read by hand. */
static inline void server_tables(struct server *s, const char *profile, const char *samples)
{
	cJSON *doc, *stacks, *frames, *stack;
	struct buf b;
	int i = 0;

	buf_init(&b);
	buf_add(&b, profile, (size_t)(samples - profile));
	buf_addc(&b, '}');
	doc = cJSON_ParseWithLength(b.data, b.len);
	assert_non_null(doc);
	stacks = cJSON_GetObjectItem(doc, "stacks");
	frames = cJSON_GetObjectItem(doc, "frames");
	s->leaf = calloc((size_t)cJSON_GetArraySize(stacks) + 1, sizeof(*s->leaf));
	s->root = calloc((size_t)cJSON_GetArraySize(stacks) + 1, sizeof(*s->root));
	cJSON_ArrayForEach(stack, stacks) {
		const cJSON *leaf = cJSON_GetArrayItem(stack, 0);
		const char *name = leaf ? cJSON_GetObjectItem(cJSON_GetArrayItem(frames, leaf->valueint),
							      "function")->valuestring : NULL;

		s->root[i] = leaf ? cJSON_GetArrayItem(stack, cJSON_GetArraySize(stack) - 1)->valueint : SERVER_EMPTY;
		s->leaf[i++] = !name ? SERVER_EMPTY : *name == '[' ? SERVER_MARK : atoi(name + 1);
	}
	s->names = cJSON_DetachItemFromObject(doc, "thread_metadata");
	cJSON_Delete(doc);
	buf_deinit(&b);
}

static inline int server_by_id(const void *va, const void *vb)
{
	const struct server_thread *a = va, *b = vb;

	return (a->id > b->id) - (a->id < b->id);
}

static inline void server_threads(struct server *s)
{
	const cJSON *row;

	s->threads = calloc((size_t)cJSON_GetArraySize(s->names) + 1, sizeof(*s->threads));
	cJSON_ArrayForEach(row, s->names) {
		struct server_thread t = { .name = cJSON_GetObjectItem(row, "name")->valuestring };
		char *end;

		t.id = strtoull(row->string, NULL, 10);
		t.members = strtoull(t.name, &end, 10);
		if (end == t.name || (strncmp(end, " goroutines: ", 13) && strncmp(end, " threads: ", 10)))
			t.members = 1;
		s->threads[s->n_threads++] = t;
	}
	qsort(s->threads, s->n_threads, sizeof(*s->threads), server_by_id);
	for (size_t i = 1; i < s->n_threads; i++)
		assert_true(s->threads[i - 1].id < s->threads[i].id);
}

static inline uint64_t server_number(const char **p, const char *before)
{
	char *end;
	uint64_t n;

	assert_int_equal(strncmp(*p, before, strlen(before)), 0);
	*p += strlen(before);
	n = strtoull(*p, &end, 10);
	assert_true(end > *p);
	*p = end;
	return n;
}

static inline void server_samples(struct server *s, const char *p)
{
	uint64_t before = 0;
	size_t cap = 1024;

	s->v = malloc(cap * sizeof(*s->v));
	while (*p != ']') {
		struct server_row r = { .order = (uint32_t)s->n };
		uint64_t stack;

		r.at = server_number(&p, "{\"elapsed_since_start_ns\":");
		stack = server_number(&p, ",\"stack_id\":");
		r.stack = s->leaf[stack];
		r.root = s->root[stack];
		s->marks += r.stack == SERVER_MARK;
		s->empty += r.stack == SERVER_EMPTY;
		r.thread = server_number(&p, ",\"thread_id\":");
		assert_int_equal(*p++, '}');
		p += *p == ',';
		assert_true(r.at >= before);	/* sorted as it stands */
		assert_true(r.at <= 29500000000);
		before = r.at;
		if (s->n == cap)
			s->v = realloc(s->v, (cap *= 2) * sizeof(*s->v));
		s->v[s->n++] = r;
	}
	assert_string_equal(p, "]}}");
}

static inline void server_weigh(struct server_row *v, size_t n)
{
	int before = SERVER_EMPTY;

	/* Nothing was sent that would be cut off or dropped. */
	assert_true(n >= 2);
	assert_int_not_equal(v[0].stack, SERVER_EMPTY);
	assert_int_not_equal(v[n - 1].stack, SERVER_EMPTY);
	for (size_t i = 0; i < n; i++) {
		size_t after = i + 1;

		v[i].ns = i + 1 < n ? v[i + 1].at - v[i].at : 0;
		if (v[i].stack != SERVER_EMPTY) {
			before = v[i].root;
			continue;
		}
		while (v[after].stack == SERVER_EMPTY)
			after++;
		/* What is idle is charged to what its neighbours have in common. */
		if (v[after].root == before)
			fail_msg("idle time of thread %llu would be charged to frame %d",
				 (unsigned long long)v[i].thread, before);
	}
}

static inline void server_read(const struct sentry_v1 *v, struct server *s)
{
	const char *profile, *samples, *active;

	*s = (struct server){ .text = profile_text(v) };
	active = strstr(s->text.data, "\"active_thread_id\":");
	assert_non_null(active);
	s->active = server_number(&active, "\"active_thread_id\":");
	profile = strstr(s->text.data, "\"profile\":{") + strlen("\"profile\":");
	samples = strstr(profile, ",\"samples\":[");
	assert_non_null(samples);
	server_tables(s, profile, samples);
	server_threads(s);
	server_samples(s, samples + strlen(",\"samples\":["));
	qsort(s->v, s->n, sizeof(*s->v), server_compare);
	for (size_t i = 0, next; i < s->n; i = next) {
		for (next = i; next < s->n && s->v[next].thread == s->v[i].thread; )
			next++;
		server_weigh(s->v + i, next - i);
	}
}

static inline void server_free(struct server *s)
{
	free(s->v);
	free(s->leaf);
	free(s->root);
	free(s->threads);
	cJSON_Delete(s->names);
	buf_deinit(&s->text);
}

static inline const struct server_thread *server_thread(const struct server *s, uint64_t id)
{
	const struct server_thread key = { .id = id };
	const struct server_thread *t = bsearch(&key, s->threads, s->n_threads, sizeof(key), server_by_id);

	if (!t)
		fail_msg("thread %llu has no name", (unsigned long long)id);
	return t;
}

static inline const char *server_name(const struct server *s, uint64_t id)
{
	return server_thread(s, id)->name;
}

/* Everything that is counted, for tests in which there is one kind. */
static inline uint32_t counts_sum(const struct export_counts *c)
{
	return c->goroutines + c->threads + c->shared;
}

#endif
