/*
 * calibrate_impl.h: the search for members of runtime structs in a running process, as its parts
 * share it: calibrate.c looks and orders, calibrate_{g,calls,m,labels}.c prove members by what they
 * hold, calibrate_code.c reads the instructions that use them. Nobody else includes this.
 *
 * The rule of all parts: an offset is found when the bytes at it are what the member must hold in
 * every struct that was read, are positively so in some, and no other offset can say the same.
 * Everything else is unknown. Where members stood in other versions is no evidence.
 */
#ifndef GOPROF_GO_CALIBRATE_IMPL_H
#define GOPROF_GO_CALIBRATE_IMPL_H

#include <string.h>

#include "go/check_impl.h"

enum {
	CAL_GS = 256,		/* looked at, from the front of allgs */
	CAL_G_BYTES = 512,	/* of each at most: up to where the next g may begin */
	CAL_PARKED = 32,	/* parked ones whose stacks are looked at */
	CAL_MS = 64,
	CAL_M_BYTES = 1024,	/* all members that content can prove stand in the first half of an m */
	CAL_PAIRS = 4,
	CAL_LIST_MAX = 1 << 14,	/* ms on the list of all */
	CAL_LINK_MAX = 1024,	/* where the link to the next one may stand */
	CAL_READS = 1 << 20,	/* of one search: about a second */
	CAL_NONE = -1,
};

/*
 * Words of the process, and how many reads of them a search may still do: memory that is made to
 * look like what is searched for must not keep it busy for hours. A search that has none left has
 * found nothing, whatever it saw.
 */
struct cal_reads {
	const struct target *t;
	uint32_t left;
};

struct seen_g {
	gaddr_t at;
	uint32_t len;		/* bytes that could be read and are not another g's */
	bool stable;		/* two reads gave the same */
	bool self;		/* sched.g is itself: made and not idle */
	uint8_t bytes[CAL_G_BYTES];
};

/* A goroutine that stands in gopark and whose stack was read while it did. */
struct seen_parked {
	const struct seen_g *g;
	gaddr_t pc;
	gaddr_t sp;
	int32_t delta;			/* size of gopark's frame */
	const char *caller;		/* name of the function that called gopark; "" unknown */
	uint64_t below[CAL_G_BYTES / 8];	/* the word below the place that each word of the g names */
};

struct seen_m {
	gaddr_t at, g0;
	uint32_t len, g0_len;
	uint8_t bytes[CAL_M_BYTES], g0_bytes[CAL_G_BYTES];
};

/* What the program's instructions say; CAL_NONE: nothing. */
struct code_claims {
	int32_t g_m, m_g0, m_gsignal, m_curg;		/* of one function, so one proves the other */
	int32_t vdso_curg, m_vdso_sp, m_vdso_pc;	/* of one function, too */
	int32_t m_ncgo;
	int32_t g_labels;
	/* Members of g that are set together with the one behind: sched.sp, syscallsp. */
	uint32_t n_pairs;
	int32_t pairs[CAL_PAIRS];
};

/* One look at the process and what it has proved so far. */
struct sight {
	struct go_runtime *rt;
	struct target *t;
	struct cal_reads reads;
	uint64_t allglen, allgptr, allm;
	struct go_layout *found;
	struct code_claims claims;
	size_t n_gs, n_parked, n_ms;
	struct seen_g *gs;
	struct seen_parked *parked;
	struct seen_m *ms;		/* the newest ones; the last is m0 */
	const char *missing;		/* what could not be found, when a part gives up */
};

/* ---- the process's memory ---- */

bool cal_read_word(struct cal_reads *r, gaddr_t at, uint64_t *ret);
/* Up to `len` bytes, whole words; gives how many. */
size_t cal_read_some(struct cal_reads *r, gaddr_t at, void *bytes, size_t len);

/* May a struct stand there? */
static inline bool cal_is_place(uint64_t w)
{
	return w % 8 == 0 && w >= 4096 && w < 1ull << 47;
}

/* By segments: the linker chooses the order of the parts that moduledata tells. */
static inline bool cal_is_variable(const struct go_module *m, gaddr_t addr)
{
	return addr - m->bias >= m->noptrdata && addr - m->bias < m->enoptrbss;
}

/*
 * How many structs the list from `head` on has that is linked at `offset`, when the last one is a
 * variable of the program, as m0 is; else 0.
 */
size_t cal_list_length(struct cal_reads *r, const struct go_module *m, gaddr_t head, uint32_t offset,
		       gaddr_t *last);

/* ---- offsets ---- */

typedef bool offset_test(struct sight *s, uint32_t offset);

/* The only offset below `limit`, a multiple of `step`, that passes; CAL_NONE: none, or more than one. */
int32_t cal_only(struct sight *s, uint32_t limit, uint32_t step, offset_test *test);
/* Does a member of g that was found stand here? Then no other does. */
bool cal_g_taken(const struct sight *s, uint32_t offset);
/* Writes a member down if it was found; gives whether it was. */
bool cal_set(struct sight *s, enum go_field f, int32_t offset, uint32_t size);
static inline int32_t cal_offset(const struct sight *s, enum go_field f)
{
	return s->found->f[f].offset;
}

/*
 * Verdicts on single structs, counted: a test passes if no struct contradicts and enough agree.
 * What is consistent but would be so with any other meaning (a zero) neither agrees nor contradicts.
 */
enum opinion { CONTRADICTS, NEUTRAL, AGREES };

typedef enum opinion g_opinion(struct sight *s, const struct seen_g *g, uint32_t offset);

/* Over all stable gs that are made and hold `size` bytes at the offset; false where another member stands. */
bool cal_gs_agree(struct sight *s, uint32_t offset, uint32_t size, size_t least, g_opinion *opinion);

static inline uint64_t cal_word(const uint8_t *bytes, uint32_t offset)
{
	uint64_t v;

	memcpy(&v, bytes + offset, sizeof(v));
	return v;
}

static inline uint64_t g_word(const struct seen_g *g, int32_t offset)
{
	return cal_word(g->bytes, (uint32_t)offset);
}

/* Reads it again: are its bytes the same? */
bool cal_g_is_as_it_was(struct sight *s, const struct seen_g *g);
/* Only such gs have ever been goroutines (once startpc is found); and their status without the scan bit. */
bool cal_has_begun(struct sight *s, const struct seen_g *g);
uint32_t cal_status(struct sight *s, const struct seen_g *g);

/* ---- names ---- */

/* The function's name if `pc` lies in one, else NULL; borrowed. */
const char *cal_function(struct sight *s, gaddr_t pc);
/* Is it the first byte of a Go function? */
bool cal_is_entry(struct sight *s, gaddr_t pc);
/* Does a direct call of the function `name` end at `pc`? */
bool cal_called(struct sight *s, gaddr_t pc, const char *name);

/* ---- parts ---- */

enum verdict cal_gs(struct sight *s);		/* all that gs alone can prove */
void cal_calls(struct sight *s);			/* its last step: system calls and times */
enum verdict cal_ms(struct sight *s);		/* then ms, and what of gs they prove */
void cal_labels(struct sight *s);
void cal_waitreason(struct sight *s);

void cal_code(struct go_runtime *rt, struct code_claims *ret);

#endif
