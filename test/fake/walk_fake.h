/*
 * walk_fake.h: stacks written by hand over the functions of a go_fake, and what walking them must
 * give. One goroutine stack and one thread stack, each a view of copied memory.
 */
#ifndef GOPROF_TEST_WALK_FAKE_H
#define GOPROF_TEST_WALK_FAKE_H

#include "fake/go_fake.h"
#include "unwind/unwind.h"

enum {
	WALK_WORDS = 64,
	WALK_OUT = 32,
	WALK_G_LO = 0x7000000,		/* the goroutine's stack: WALK_WORDS words */
	WALK_M_LO = 0x9000000,		/* the thread's own */
};

struct walk_fake {
	struct go_fake *go;
	uint64_t g[WALK_WORDS], m[WALK_WORDS];
	struct mem_view views[2];
	size_t n_views;
	struct unwind_start start;
	struct pc_frame out[WALK_OUT];
	size_t n;
	enum unwind_end end;
};

/* The functions that walk_setup makes, besides those of the runtime under their own names. */
#define WALK_LEAF "app.leaf"		/* no frame: depth 0 throughout */
#define WALK_MID "app.mid"		/* prologue of 4 bytes, then 16 bytes of frame */
#define WALK_BIG "app.big"		/* prologue of 4 bytes, then 32 bytes of frame */

void walk_setup(struct walk_fake *w);
void walk_teardown(struct walk_fake *w);

gaddr_t walk_g(uint32_t word);	/* address of a word of the goroutine's stack */
gaddr_t walk_m(uint32_t word);
gaddr_t walk_pc(const struct walk_fake *w, const char *name, uint32_t offset);
/* Puts a return address: name + offset. */
void walk_put_g(struct walk_fake *w, uint32_t word, const char *name, uint32_t offset);
void walk_put_m(struct walk_fake *w, uint32_t word, const char *name, uint32_t offset);

/* Starts: on the goroutine's stack (with its bounds) or on the thread's. */
void walk_start_g(struct walk_fake *w, const char *name, uint32_t offset, uint32_t word, enum pc_kind kind);
void walk_start_m(struct walk_fake *w, const char *name, uint32_t offset, uint32_t word, enum pc_kind kind);
/* Where the goroutine left its stack. */
void walk_left_at(struct walk_fake *w, const char *name, uint32_t offset, uint32_t word);

/* Walks with room for `cap` frames and demands this end and this number of frames. */
void walk_expect(struct walk_fake *w, size_t cap, enum unwind_end end, size_t n);
/* Demands that frame i is this one. */
void walk_frame(const struct walk_fake *w, size_t i, const char *name, uint32_t offset, enum pc_kind kind);

#endif
