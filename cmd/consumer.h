/*
 * consumer.h: the thread that makes of closed windows what people see: it lays them out, adds them up for
 * the summary and has them exported, while sampling goes on. Finished bytes go on to the writer's thread
 * (output_writer.h), which may be as slow as its disk or network.
 *
 * It takes few windows at a time: what cannot be told must not become memory. All calls are the sampling
 * thread's.
 */
#ifndef GOPROF_CMD_CONSUMER_H
#define GOPROF_CMD_CONSUMER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct aggregate;
struct closed_window;
struct consumer;
struct window;

/* What is done with each window, in the consumer's thread. */
typedef struct error *consumer_tell(void *ctx, const struct window *w);

/* Until it has been joined, what `ctx` stands for is its own. */
struct error *consumer_create(consumer_tell *tell, void *ctx, struct consumer **ret);
/* Ends the thread after the window at hand and forgets the others. NULL is fine. */
void consumer_destroy(struct consumer *c);

/* Is there room for a window, at the latest in `wait_ns`? UINT64_MAX: as long as it takes. */
bool consumer_has_room(struct consumer *c, uint64_t wait_ns);
/* Takes `w` over; there must be room. Windows are told in this order. */
void consumer_put(struct consumer *c, struct closed_window *w);
/* The first failure, if there was one that was not taken yet; the caller's. */
struct error *consumer_take_error(struct consumer *c);
/* Waits until all windows are told and ends the thread. */
void consumer_join(struct consumer *c);
/* After that. Borrowed. */
struct aggregate *consumer_aggregate(struct consumer *c);

#endif
