/*
 * cmd_output_writer.c: how much may be on its way to outputs at once, and who waits for that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/output_format.h"
#include "cmd/output_writer.h"
#include "unit/cmd_place.h"

static void ok(struct error *err)
{
	if (err)
		fail_msg("%s: %s", err->what, err->why ? err->why : "");
}

static bool go_now(void *ctx)
{
	(void)ctx;
	return true;
}

static bool stay(void *ctx)
{
	(void)ctx;
	return false;
}

/* Who puts pieces, and how many he has put. */
struct putter {
	struct writer *w;
	pthread_mutex_t lock;
	uint32_t done;
};

enum { PIECES = 4, PIECE = WRITER_MOST / 3 };

static void *put_pieces(void *arg)
{
	struct putter *p = arg;

	for (uint32_t i = 0; i < PIECES; i++) {
		struct delivery *d = calloc(1, sizeof(*d));

		*d = (struct delivery){ .sink = DELIVERY_FILE, .format = &output_pprof, .number = 1,
					.path = strdup(i ? "/dev/null" : "pipe"), .replace = true,
					.data = calloc(1, PIECE), .len = PIECE };
		writer_put(p->w, d);
		pthread_mutex_lock(&p->lock);
		p->done++;
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static uint32_t pieces_put(struct putter *p)
{
	uint32_t done;

	pthread_mutex_lock(&p->lock);
	done = p->done;
	pthread_mutex_unlock(&p->lock);
	return done;
}

/* Behind a pipe that nobody reads no more pile up than there may be; at the end nobody waits for room. */
static void test_bounded(void **state)
{
	struct putter p = { .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t thread;
	int fd;

	(void)state;
	assert_int_equal(mkfifo("pipe", 0600), 0);
	ok(writer_create(NULL, &p.w));
	writer_set_bounded(p.w, true);
	assert_int_equal(pthread_create(&thread, NULL, put_pieces, &p), 0);
	while (pieces_put(&p) < PIECES - 1)
		usleep(1000);
	usleep(50 * 1000);
	assert_int_equal(pieces_put(&p), PIECES - 1);
	writer_set_bounded(p.w, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(pieces_put(&p), PIECES);
	assert_false(writer_join(p.w, go_now, NULL));
	fd = open("pipe", O_RDONLY);
	assert_true(fd >= 0);
	close(fd);
	writer_destroy(p.w);
}

/* One that is larger than all that may wait goes alone. */
static void test_large_piece(void **state)
{
	struct delivery *d = calloc(1, sizeof(*d));
	struct writer *w;

	(void)state;
	ok(writer_create(NULL, &w));
	writer_set_bounded(w, true);
	*d = (struct delivery){ .sink = DELIVERY_FILE, .format = &output_pprof, .number = 1, .path = strdup("large"),
				.replace = true, .data = calloc(1, WRITER_MOST + 1), .len = WRITER_MOST + 1 };
	writer_put(w, d);
	assert_true(writer_join(w, stay, NULL));
	assert_int_equal(writer_deliveries(w)->state, DELIVERY_DONE);
	writer_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_place(test_bounded),
		in_place(test_large_piece),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
