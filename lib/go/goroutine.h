/*
 * goroutine.h: what one look at a g or an m says. Parsing only: bytes in, values out. Reading
 * them (in spans, validated) is lib/sample's business, walking their stacks lib/unwind's.
 *
 * Upstream: src/runtime/runtime2.go (type g, m; _Gidle ... ), proc.go (casgstatus).
 */
#ifndef GOPROF_GO_GOROUTINE_H
#define GOPROF_GO_GOROUTINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "go/go.h"

enum g_status {
	G_IDLE = 0, G_RUNNABLE = 1, G_RUNNING = 2, G_SYSCALL = 3, G_WAITING = 4, G_DEAD = 6,
	G_COPYSTACK = 8, G_PREEMPTED = 9, G_LEAKED = 10 /* 1.26+ */, G_DEADEXTRA = 11 /* 1.26+ */,
	G_SCAN = 0x1000,	/* a bit beside the others: the collector is scanning its stack */
};

/* One observation of one goroutine. All times are of the reader's CLOCK_MONOTONIC, ns. */
struct g_look {
	gaddr_t g;		/* address of the struct; reused after death: never a key */
	uint64_t goid;
	uint32_t status;	/* enum g_status without G_SCAN */
	bool scan;
	uint8_t waitreason;
	uint8_t trackingseq;	/* 0 where the version has none */
	bool running_cleanups;	/* 1.25+: a runtime.runCleanups that is calling the program's functions */
	int64_t waitsince;	/* the target's nanotime of the GC that first found it blocked; 0: unknown */
	gaddr_t sched_pc, sched_sp, sched_bp;
	gaddr_t syscall_pc, syscall_sp, syscall_bp;
	gaddr_t stack_lo, stack_hi;
	gaddr_t startpc, gopc;
	uint64_t parent_goid;	/* 0: unknown */
	gaddr_t labels;		/* g.labels, raw */
	gaddr_t m, lockedm;
	uint64_t t_before, t_after;	/* the read happened within */
	uint64_t fingerprint;	/* g_fingerprint of the same bytes */
};

/*
 * As many bytes as those who read gs and ms have room for. A layout that needs more is not believed
 * (go_runtime_check), so g_span and m_span + g_span of one that is never exceed these two.
 */
enum {
	GO_G_SPAN_MAX = 1024,
	GO_SPANS_MAX = 2032,		/* an m and its g together, as a hold keeps them */
};

/* Bytes of a g, from its start, that g_parse needs for this layout. */
size_t g_span(const struct go_layout *l);
/* `bytes` must hold g_span bytes. Fills all but t_before and t_after. */
void g_parse(const struct go_layout *l, gaddr_t g, const uint8_t *bytes, struct g_look *ret);
/*
 * 64 bits over what changes when the goroutine runs: status, goid, sp, pc, bp, stack.hi, wait
 * reason, trackingSeq, labels; in a system call syscallsp/pc/bp in place of sched's. Cheap (a few ns).
 */
uint64_t g_fingerprint(const struct go_layout *l, const uint8_t *bytes);
/* Its name as the runtime prints it: "runnable", "syscall"; waiting ones have their wait reason. */
const char *g_status_name(uint32_t status);
/* Does the runtime count it as its own? (isSystemGoroutine: by the start function's name.) */
bool g_is_system(struct go_runtime *rt, const struct g_look *g);

struct m_look {
	gaddr_t m, g0, gsignal, curg, p, alllink, lockedg;
	uint64_t procid;	/* thread id in the target's pid namespace; 0: not started yet */
	int64_t id;
	gaddr_t vdso_sp, vdso_pc;	/* 0: in no call of the vDSO, if vdso_known */
	bool vdso_known;	/* its layout has them */
	int32_t ncgo;		/* calls into C in progress */
};

size_t m_span(const struct go_layout *l);
void m_parse(const struct go_layout *l, gaddr_t m, const uint8_t *bytes, struct m_look *ret);

/* ---- labels ---- */

struct go_label {
	const char *key, *value;
	uint32_t key_len, value_len;
};

enum {
	GO_LABELS_MAX = 256,
	GO_LABEL_BYTES_MAX = 16 * 1024,	/* of one key or value; a label with a longer one is left out */
};

struct go_labels {
	uint32_t n;
	bool truncated;		/* more than fits: the rest was left out */
	struct go_label v[GO_LABELS_MAX];
	char text[64 * 1024];	/* backing of the strings */
};

/*
 * A number that tells label sets apart without reading their strings: it stands for where the
 * strings are. Equal marks of one address at two times: the memory has not been given to another
 * set meanwhile. A few reads, no allocation, static errors only: fit for a hold. &err_corrupt also
 * for sets of more than some hundred labels.
 */
struct error *go_labels_mark(const struct go_layout *l, const struct target *t, gaddr_t labels,
			     uint64_t *ret);

/*
 * Reads what g.labels points to; either layout (map up to 1.23, sorted list from 1.24), sorted by
 * key, a key once. Contents count only if g.labels still holds the same pointer after the read:
 * that check is the caller's. &err_fault, &err_corrupt: unknown labels, not no labels.
 */
struct error *go_labels_read(struct go_runtime *rt, const struct target *t, gaddr_t labels,
			     struct go_labels *ret);

#endif
