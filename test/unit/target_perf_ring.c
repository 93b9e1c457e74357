/*
 * target_perf_ring.c: records of a perf ring, at every place of it, and rings that say what is not so.
 * The ring is exactly as long as it says: the sanitizer sees a byte too many.
 */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "target/perf_ring.h"

enum { RING = 1024, REGS = 20, STACK = 64, MASK = 0xff0fff, CPU = 3, PID = 77, TID = 78 };

struct world {
	uint8_t *data;
	struct perf_ring ring;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->data = malloc(RING);
	assert_non_null(w->data);
	memset(w->data, 0xa5, RING);
	w->ring = (struct perf_ring){ .data = w->data, .size = RING };
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	free(w->data);
	free(w);
	return 0;
}

static void add(struct world *w, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		w->data[(w->ring.head + i) % RING] = ((const uint8_t *)bytes)[i];
	w->ring.head += len;
}

static void add_word(struct world *w, uint64_t v)
{
	add(w, &v, sizeof(v));
}

static void add_header(struct world *w, uint32_t type, uint16_t misc, size_t size)
{
	const struct perf_event_header h = { .type = type, .misc = misc, .size = (uint16_t)size };

	add(w, &h, sizeof(h));
}

static size_t sample_size(size_t stack)
{
	return 8 + 8 * (4 + 1 + REGS) + 8 + (stack ? stack + 8 : 0);
}

/* The record as the kernel writes it, with a stack of which `held` bytes hold. */
static void add_sample(struct world *w, size_t size, uint64_t stack, uint64_t held)
{
	add_header(w, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, size);
	add_word(w, (uint64_t)TID << 32 | PID);
	add_word(w, 1111);
	add_word(w, (uint64_t)9 << 32 | CPU);	/* the upper half is reserved */
	add_word(w, 2222);
	add_word(w, PERF_SAMPLE_REGS_ABI_64);
	for (uint64_t i = 0; i < REGS; i++)
		add_word(w, 100 + i);
	add_word(w, stack);
	for (uint64_t i = 0; i < STACK / 8; i++)
		add_word(w, 1000 + i);
	add_word(w, held);
}

static struct perf_record next(struct world *w)
{
	struct perf_record rec;

	perf_ring_record(&w->ring, MASK, &rec);
	return rec;
}

/* As if the ring had been in use until `at`. */
static void move_to(struct world *w, uint64_t at)
{
	w->ring.head = w->ring.tail = at;
}

static void sample_at_every_place(void **state)
{
	struct world *w = *state;
	const uint8_t *bytes;
	int across = 0;

	for (uint64_t at = 0; at < 2 * RING; at += 8) {
		uint64_t words[STACK / 8];

		move_to(w, at);
		add_sample(w, sample_size(STACK), STACK, 40);
		struct perf_record rec = next(w);
		const struct perf_sample *s = &rec.sample;
		assert_int_equal(rec.kind, PERF_SAMPLE);
		assert_int_equal(rec.end, w->ring.head);
		assert_true(s->pid == PID && s->tid == TID && s->cpu == CPU && s->time == 1111 && s->count == 2222);
		assert_true(s->in_kernel && s->has_regs);
		for (uint64_t i = 0; i < REGS; i++)
			assert_int_equal(s->regs[i], 100 + i);
		assert_int_equal(s->stack_len, 40);
		perf_ring_copy(&w->ring, s->stack_at, words, s->stack_len);
		for (uint64_t i = 0; i < 5; i++)
			assert_int_equal(words[i], 1000 + i);
		/* In one piece unless it goes across the end. */
		bytes = perf_ring_bytes(&w->ring, s->stack_at, s->stack_len);
		across += !bytes;
		assert_true(bytes ? !memcmp(bytes, words, s->stack_len) :
			    (s->stack_at & (w->ring.size - 1)) + s->stack_len > w->ring.size);
		w->ring.tail = rec.end;
		assert_int_equal(next(w).kind, PERF_NONE);
	}
	assert_int_equal(across, 2 * (40 / 8 - 1));
}

static void more_stack_than_asked_for(void **state)
{
	struct world *w = *state;
	struct perf_record rec;

	add_sample(w, sample_size(STACK), STACK, UINT64_MAX);
	rec = next(w);
	assert_int_equal(rec.kind, PERF_SAMPLE);
	assert_int_equal(rec.sample.stack_len, STACK);
}

/* A stack that goes on beyond its record, and a record that ends in the middle of its registers. */
static void sample_too_short(void **state)
{
	static const uint64_t stacks[] = { STACK + 8, STACK + 16, 1 << 20, UINT64_MAX, UINT64_MAX - 7 };
	struct world *w = *state;
	size_t size = sample_size(STACK);

	for (size_t i = 0; i < sizeof(stacks) / sizeof(*stacks); i++) {
		move_to(w, 512);
		add_sample(w, size, stacks[i], STACK);
		assert_int_equal(next(w).kind, PERF_OTHER);
		assert_int_equal(next(w).end, w->ring.tail + size);
	}
	for (size_t cut = 8; cut < size; cut += 8) {
		move_to(w, 512);
		add_sample(w, cut, STACK, STACK);
		assert_int_equal(next(w).kind, PERF_OTHER);
		assert_int_equal(next(w).end, w->ring.tail + cut);
	}
}

static void no_user_registers(void **state)
{
	struct world *w = *state;
	struct perf_record rec;

	add_header(w, PERF_RECORD_SAMPLE, 0, 8 + 8 * 5 + 8);
	for (int i = 0; i < 4; i++)
		add_word(w, 1);
	add_word(w, PERF_SAMPLE_REGS_ABI_NONE);
	add_word(w, 0);
	rec = next(w);
	assert_int_equal(rec.kind, PERF_SAMPLE);
	assert_false(rec.sample.has_regs || rec.sample.stack_len || rec.sample.in_kernel);
}

static void others_are_passed_over(void **state)
{
	static const struct {
		uint32_t type;
		enum perf_kind kind;
	} v[] = {
		{ PERF_RECORD_LOST, PERF_LOST }, { PERF_RECORD_THROTTLE, PERF_THROTTLED },
		{ PERF_RECORD_UNTHROTTLE, PERF_OTHER }, { PERF_RECORD_EXIT, PERF_OTHER }, { 999999, PERF_OTHER },
	};
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		add_header(w, v[i].type, 0, 24);
		add_word(w, 5);
		add_word(w, 17);
	}
	add_header(w, PERF_RECORD_LOST, 0, 16);	/* without its number */
	add_word(w, 5);
	add_sample(w, sample_size(STACK), STACK, STACK);
	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		struct perf_record rec = next(w);

		assert_int_equal(rec.kind, v[i].kind);
		assert_int_equal(rec.lost, rec.kind == PERF_LOST ? 17 : 0);
		w->ring.tail = rec.end;
	}
	assert_int_equal(next(w).kind, PERF_OTHER);
	w->ring.tail = next(w).end;
	assert_int_equal(next(w).kind, PERF_SAMPLE);
}

static void sizes_that_lie(void **state)
{
	static const uint16_t sizes[] = { 0, 4, 7, 9, 12, 25, 32, 65528, 65535 };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		move_to(w, RING - 8);
		add_header(w, PERF_RECORD_SAMPLE, 0, sizes[i]);
		add_word(w, 0);
		add_word(w, 0);		/* 24 bytes are there */
		assert_int_equal(next(w).kind, PERF_BROKEN);
		assert_int_equal(next(w).end, w->ring.head);
	}
	move_to(w, 0);
	w->ring.head = 4;
	assert_int_equal(next(w).kind, PERF_BROKEN);
	w->ring.head = RING + 8;	/* more than there is room for */
	assert_int_equal(next(w).kind, PERF_BROKEN);
	w->ring.tail = RING + 16;	/* behind the head */
	assert_int_equal(next(w).kind, PERF_BROKEN);
	assert_int_equal(next(w).end, w->ring.head);
}

/* Whatever stands in it: every step ends, comes further, and stays within what there is. */
static void noise(void **state)
{
	struct world *w = *state;
	uint64_t random = 1;

	for (int round = 0; round < 20000; round++) {
		for (size_t i = 0; i < RING; i += 8) {
			random = random * 6364136223846793005 + 1442695040888963407;
			/* Often a header that may be right. */
			uint64_t v = random >> 60 < 8 ? (random >> 40 & 0x1f) | (random >> 30 & 0x1f8) << 48 : random;
			memcpy(w->data + i, &v, sizeof(v));
		}
		w->ring.tail = random % 4096 * 8;
		w->ring.head = w->ring.tail + (random >> 32) % (RING + 1);
		for (struct perf_record rec = next(w); rec.kind != PERF_NONE; rec = next(w)) {
			assert_true(rec.end > w->ring.tail && rec.end <= w->ring.head);
			if (rec.kind == PERF_SAMPLE && rec.sample.stack_len)
				assert_true(rec.sample.stack_at > w->ring.tail &&
					    rec.sample.stack_at + rec.sample.stack_len <= rec.end);
			w->ring.tail = rec.end;
		}
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(sample_at_every_place),
		T(more_stack_than_asked_for),
		T(sample_too_short),
		T(no_user_registers),
		T(others_are_passed_over),
		T(sizes_that_lie),
		T(noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
