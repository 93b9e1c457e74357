/*
 * native.c: one walk over C frames. libunwind makes the steps; what it sees and when it has to
 * stop is decided here.
 *
 * It is given a search table of one entry, made here, of the function at hand, whose records eh_frame.c
 * has read through before: so it meets no table that it could stumble over. Where it would guess without a
 * table (it follows frame pointers then), its answer is dropped. Each step must move the stack
 * pointer up, and the words it may read for one step are counted, so a walk always ends.
 *
 * libunwind remembers how functions unwind (UNW_CACHE_GLOBAL: its lock is ours alone, as no other
 * thread walks); it forgets when code comes or goes.
 *
 * Must not know Go; nor how the memory was copied.
 *
 * Upstream: libunwind 1.6 src/dwarf/Gparser.c, Gfind_proc_info-lsb.c, src/x86_64/Gstep.c.
 */
#include "unwind/native.h"

#include <libunwind.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "image/eh_frame.h"
#include "insn/insn.h"
#include "unwind/unwind_impl.h"

/* Exported by libunwind's remote library, and in no header of it. */
int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di,
				       unw_proc_info_t *pi, int need_unwind_info, void *arg);

enum {
	WORDS_MAX = 64 * 1024,		/* read for one step: a record of 16 KiB and a small one, by the byte */
	SIGNALS_MAX = 2,		/* frames made by the kernel that one walk passes */
	FUNCTIONS_MAX = 64 * 1024,	/* pcs whose function is remembered; then anew */
	WORD = sizeof(unw_word_t),
	TABLE_AT = 64,			/* where the table of one entry is said to stand: no memory is there */
};

/* A function by its unwind table, at its real place. `image` NULL: there is no table for it. */
struct function {
	const struct mapped_image *image;
	struct eh_entry entry;
};

struct native {
	struct images *images;
	unw_addr_space_t space;
	struct map64 by_pc;			/* lookup pc -> index in functions */
	struct function *functions;
	uint32_t n, cap;
	bool may_refresh;
	uint64_t generation;			/* of the images, that all this holds for */
	struct native_counts counts;
	/* of the walk at hand: */
	const struct unwind_memory *mem;
	const struct dwarf_regs *regs;
	struct dwarf_regs caller;		/* what regs are for the caller of a function without a table */
	uint32_t words;				/* left to read in this step */
	uint64_t to_record;			/* from the function's begin to its FDE */
	struct eh_records records;		/* of the function asked for last, at their real places */
	bool in_tables;				/* records are being read, not what functions saved */
	bool no_memory, no_table;		/* why libunwind was refused something, */
	gaddr_t missed;				/* and the word that it wanted last */
};

/* ---- functions ---- */

static struct function function_look(struct native *nv, gaddr_t pc)
{
	struct function f = { .image = images_find(nv->images, pc) };
	gaddr_t bias;

	if (!f.image || !f.image->image || !eh_frame_find(f.image->image, pc - f.image->bias, &f.entry))
		return (struct function){ .image = NULL };
	bias = f.image->bias;
	f.entry.start += bias;
	f.entry.end += bias;
	f.entry.record += bias;
	return f;
}

static void functions_forget(struct native *nv)
{
	map64_clear(&nv->by_pc);
	nv->n = 0;
}

/* The function at pc; borrowed until the next question. NULL: there is no table for it. */
static const struct function *function_at(struct native *nv, gaddr_t pc)
{
	uint32_t at = map64_get(&nv->by_pc, pc);
	struct error *err;

	if (at == MAP_NONE) {
		if (nv->n == FUNCTIONS_MAX)
			functions_forget(nv);
		err = array_reserve(&nv->functions, &nv->cap, nv->n + 1, sizeof(*nv->functions));
		if (!err)
			err = map64_put(&nv->by_pc, pc, nv->n);
		if (err)
			return NULL;	/* no memory: as if it had no table */
		at = nv->n++;
		nv->functions[at] = function_look(nv, pc);
	}
	return nv->functions[at].image ? &nv->functions[at] : NULL;
}

static gaddr_t function_start(struct native *nv, gaddr_t pc)
{
	const struct function *f = function_at(nv, pc);

	return f ? f->entry.start : 0;
}

/* Its records go into nv: libunwind sees these bytes, which were checked, whatever becomes of the file. */
static bool records_of(struct native *nv, const struct function *f)
{
	gaddr_t bias = f->image->bias;
	struct eh_entry e = f->entry;

	e.start -= bias;
	e.end -= bias;
	e.record -= bias;
	if (!eh_frame_records(f->image->image, &e, &nv->records)) {
		nv->records.fde.len = nv->records.cie.len = 0;
		return false;
	}
	nv->records.fde.at += bias;
	nv->records.cie.at += bias;
	return true;
}

/* ---- what libunwind asks ---- */

static int find_proc_info(unw_addr_space_t space, unw_word_t pc, unw_proc_info_t *pi, int need_unwind_info,
			  void *arg)
{
	struct native *nv = arg;
	const struct function *f = function_at(nv, pc);
	unw_dyn_info_t di = { .format = UNW_INFO_FORMAT_REMOTE_TABLE };
	int ret;

	nv->no_table = true;
	if (!f)
		return -UNW_ENOINFO;
	di.start_ip = f->entry.start;
	di.end_ip = f->entry.end;
	di.u.rti.segbase = f->entry.start;
	di.u.rti.table_data = TABLE_AT;
	di.u.rti.table_len = 1;
	if (!records_of(nv, f))
		return -UNW_ENOINFO;
	nv->to_record = f->entry.record - f->entry.start;
	if (nv->to_record != (uint64_t)(int64_t)(int32_t)nv->to_record)
		return -UNW_ENOINFO;	/* farther than such a table can say */
	nv->in_tables = true;
	ret = UNW_OBJ(dwarf_search_unwind_table)(space, pc, &di, pi, need_unwind_info, arg);
	nv->in_tables = false;
	nv->no_table = ret < 0;
	return ret;
}

/* libunwind frees what the function above made by itself. */
static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *pi, void *arg)
{
	(void)space;
	(void)pi;
	(void)arg;
}

static int get_dyn_info_list_addr(unw_addr_space_t space, unw_word_t *ret, void *arg)
{
	(void)space;
	(void)ret;
	(void)arg;
	return -UNW_ENOINFO;
}

static bool byte_of(const struct eh_bytes *b, gaddr_t addr, uint8_t *ret)
{
	if (addr < b->at || addr - b->at >= b->len)
		return false;
	*ret = b->v[addr - b->at];
	return true;
}

/* A word of the records at hand. They are read by the aligned word, whatever their bounds. */
static bool record_read(const struct eh_records *r, gaddr_t addr, unw_word_t *ret)
{
	uint8_t bytes[WORD] = { 0 };
	bool any = false;

	for (size_t i = 0; i < WORD; i++)
		any |= byte_of(&r->fde, addr + i, &bytes[i]) || byte_of(&r->cie, addr + i, &bytes[i]);
	memcpy(ret, bytes, WORD);
	return any;
}

static bool copied_read(const struct unwind_memory *mem, gaddr_t addr, unw_word_t *ret)
{
	for (size_t i = 0; i < mem->n; i++)
		if (view_read(&mem->views[i], addr, ret))
			return true;
	return false;
}

/*
 * A word of a file. At the ends of a segment only a part of it may be there. What is writable may have changed since: in the file it
 * counts for the tables alone (pointers to handlers, which nobody follows).
 */
static bool file_read(struct native *nv, gaddr_t addr, unw_word_t *ret)
{
	const struct mapped_image *m = images_find(nv->images, addr);
	uint8_t bytes[WORD] = { 0 };
	size_t got = 0, skipped;

	if (!m || !m->image)
		m = images_find(nv->images, addr + WORD - 1);
	if (!m || !m->image)
		return false;
	for (skipped = 0; skipped < WORD && !got; skipped++) {
		gaddr_t at = addr + skipped - m->bias;
		const struct segment *s = image_segment_at(m->image, at);

		if (s && (nv->in_tables || !(s->flags & SEGMENT_WRITE)))
			got = image_read_some(m->image, at, bytes + skipped, WORD - skipped);
	}
	memcpy(ret, bytes, WORD);
	return got > 0;
}

static int access_mem(unw_addr_space_t space, unw_word_t addr, unw_word_t *value, int write, void *arg)
{
	struct native *nv = arg;

	(void)space;
	if (write)
		return -UNW_EINVAL;
	if (!nv->words)
		return -UNW_EUNSPEC;
	nv->words--;
	if (nv->in_tables && addr == TABLE_AT) {
		*value = nv->to_record << 32;	/* begins at the base, and its record is there */
		return 0;
	}
	if (record_read(&nv->records, addr, value))
		return 0;
	if ((!nv->in_tables && copied_read(nv->mem, addr, value)) || file_read(nv, addr, value))
		return 0;
	nv->no_memory = true;
	nv->missed = addr;
	return -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t reg, unw_word_t *value, int write, void *arg)
{
	const struct native *nv = arg;

	(void)space;
	if (write || reg < 0 || reg >= DWARF_REGS_MAX || !(nv->regs->known & (uint32_t)1 << reg))
		return -UNW_EBADREG;
	*value = nv->regs->v[reg];
	return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t reg, unw_fpreg_t *value, int write, void *arg)
{
	(void)space;
	(void)reg;
	(void)value;
	(void)write;
	(void)arg;
	return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *arg)
{
	(void)space;
	(void)cursor;
	(void)arg;
	return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t addr, char *buf, size_t len, unw_word_t *offset,
			 void *arg)
{
	(void)space;
	(void)addr;
	(void)buf;
	(void)len;
	(void)offset;
	(void)arg;
	return -UNW_ENOINFO;
}

/* ---- life ---- */

struct error *native_create(struct images *images, struct native **ret)
{
	unw_accessors_t accessors = {
		.find_proc_info = find_proc_info, .put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = get_dyn_info_list_addr, .access_mem = access_mem,
		.access_reg = access_reg, .access_fpreg = access_fpreg, .resume = resume,
		.get_proc_name = get_proc_name,
	};
	struct native *nv = calloc(1, sizeof(*nv));

	if (!nv)
		return &err_nomem;
	nv->images = images;
	nv->generation = images_generation(images);
	map64_init(&nv->by_pc);
	nv->space = unw_create_addr_space(&accessors, 0);
	if (!nv->space) {
		native_destroy(nv);
		return &err_nomem;
	}
	unw_set_caching_policy(nv->space, UNW_CACHE_GLOBAL);
	*ret = nv;
	return NULL;
}

void native_destroy(struct native *nv)
{
	if (!nv)
		return;
	if (nv->space)
		unw_destroy_addr_space(nv->space);
	map64_deinit(&nv->by_pc);
	free(nv->functions);
	free(nv);
}

void native_allow_refresh(struct native *nv)
{
	nv->may_refresh = true;
}

/*
 * The images as they are now, as far as they may be asked for; if code has come or gone since,
 * nothing that is remembered counts any more: other code may stand in its place.
 */
static void refresh(struct native *nv)
{
	if (nv->may_refresh) {
		nv->may_refresh = false;
		error_free(images_refresh(nv->images));
	}
	if (nv->generation == images_generation(nv->images))
		return;
	nv->generation = images_generation(nv->images);
	functions_forget(nv);
	unw_flush_cache(nv->space, 0, 0);
}

const struct native_counts *native_counts(const struct native *nv)
{
	return &nv->counts;
}

struct native_start native_start_held(const struct regs *r)
{
	const struct arch *arch = arch_host();
	struct native_start ret = { .cloned = arch->syscall_clones(r->syscall_nr) };

	for (uint32_t i = 0; i < arch->dwarf_n; i++) {
		memcpy(&ret.regs.v[i], r->raw + arch->dwarf_raw[i], sizeof(ret.regs.v[i]));
		ret.regs.known |= (uint32_t)1 << i;
	}
	return ret;
}

/* ---- the walk ---- */

struct steps {
	unw_cursor_t cursor;
	gaddr_t pc, sp;
	bool exact;		/* pc is an instruction to run, no return address */
	uint32_t signals;
};

static bool steps_read(struct steps *s)
{
	unw_word_t pc, sp;

	if (unw_get_reg(&s->cursor, UNW_REG_IP, &pc) || unw_get_reg(&s->cursor, UNW_REG_SP, &sp))
		return false;
	s->pc = pc;
	s->sp = sp;
	return true;
}

/*
 * C functions give that register back to their callers as it was. One that has done so and is about to
 * return has it in its old place in the table still: below sp.
 */
static gaddr_t steps_racecall(struct native *nv, const struct native_start *start, struct steps *s)
{
	const struct arch *arch = arch_host();
	unw_word_t v;

	if (!unw_get_reg(&s->cursor, arch->dwarf_racecall, &v))
		return v;
	return nv->missed < start->regs.v[arch->dwarf_sp] && !s->signals ? start->regs.v[arch->dwarf_racecall] : 0;
}

static gaddr_t steps_lookup(const struct steps *s)
{
	return s->exact ? s->pc : s->pc - 1;
}

/* Up by one frame. NATIVE_END_COUNT: it goes on. */
static enum native_end step(struct native *nv, struct steps *s, bool signal_frame)
{
	gaddr_t before = s->sp;
	int ret;

	nv->words = WORDS_MAX;
	nv->no_memory = nv->no_table = false;
	ret = unw_step(&s->cursor);
	if (nv->no_table)
		return NATIVE_NO_TABLE;
	if (nv->no_memory)
		return NATIVE_NO_MEMORY;
	if (ret == 0)
		return NATIVE_BOTTOM;
	if (ret < 0 || !steps_read(s) || (signal_frame && s->signals++ == SIGNALS_MAX))
		return NATIVE_LOST;
	/* What the kernel interrupted may stand on another stack. */
	if (s->sp <= before && !signal_frame)
		return NATIVE_LOST;
	s->exact = signal_frame;
	return s->pc ? NATIVE_END_COUNT : NATIVE_BOTTOM;
}

/*
 * At its start libunwind looks for pc itself, also where it is a return address: that is the same
 * function unless the call was its last instruction.
 */
static bool begins_well(struct native *nv, bool returned, gaddr_t pc)
{
	return !returned || function_start(nv, pc) == function_start(nv, pc - 1);
}

static bool steps_begin(struct native *nv, struct steps *s, bool returned)
{
	nv->words = WORDS_MAX;
	if (unw_init_remote(&s->cursor, nv->space, nv) || !steps_read(s))
		return false;
	s->exact = !returned;
	return begins_well(nv, returned, s->pc);
}

/* The len bytes of code before pc, by the file. */
static bool code_before(struct native *nv, gaddr_t pc, uint8_t *bytes, size_t len)
{
	const struct mapped_image *m = images_find(nv->images, pc - 1);

	return m && m->image && image_read_some(m->image, pc - len - m->bias, bytes, len) == len;
}

static bool behind_syscall(struct native *nv, gaddr_t pc)
{
	const struct arch *arch = arch_host();
	uint8_t bytes[sizeof(arch->syscall_insn)];

	return code_before(nv, pc, bytes, arch->syscall_len) && !memcmp(bytes, arch->syscall_insn, arch->syscall_len);
}

static bool behind_call(struct native *nv, gaddr_t pc)
{
	uint8_t bytes[INSN_MAX];
	struct insn insn;

	return code_before(nv, pc, bytes, sizeof(bytes)) && insn_call_before(bytes, sizeof(bytes), pc, &insn);
}

/*
 * Behind the system call that makes a thread C libraries have no table: the new thread goes on there,
 * too, on a stack on which nothing was called. The one that has made it stands on its return address.
 */
static enum native_end leave_clone(struct native *nv, struct steps *s)
{
	const struct arch *arch = arch_host();
	unw_word_t above;

	if (!behind_syscall(nv, s->pc))
		return NATIVE_NO_TABLE;
	if (!nv->regs->v[arch->dwarf_result])
		return NATIVE_BOTTOM;
	if (!copied_read(nv->mem, s->sp, &above))
		return NATIVE_NO_MEMORY;
	if (!behind_call(nv, above))
		return NATIVE_NO_TABLE;
	nv->caller = *nv->regs;
	nv->caller.v[arch->dwarf_pc] = above;
	nv->caller.v[arch->dwarf_sp] += arch->min_frame;
	nv->regs = &nv->caller;
	return steps_begin(nv, s, true) ? NATIVE_END_COUNT : NATIVE_LOST;
}

static enum native_end walk(struct native *nv, const struct native_start *start, struct steps *s,
			    native_is_go *is_go, void *ctx, struct pc_frame *out, size_t cap, size_t *n)
{
	if (!steps_begin(nv, s, start->returned))
		return NATIVE_LOST;
	for (;;) {
		const struct function *f;
		enum native_end end;

		if (is_go(ctx, steps_lookup(s)))
			return NATIVE_REACHED_GO;
		if (*n == cap)
			return NATIVE_DEPTH;
		f = function_at(nv, steps_lookup(s));
		/* A return address in no code at all is no frame; where the walk begins is one. */
		if (!f && *n && !images_find(nv->images, steps_lookup(s)))
			return NATIVE_NO_TABLE;
		/* The kernel's frame was not called: its pc is where the handler returns to. */
		out[(*n)++] = (struct pc_frame){ .pc = f && f->entry.signal_frame ? s->pc : steps_lookup(s),
						 .kind = PC_NATIVE };
		end = f ? step(nv, s, f->entry.signal_frame) :
		      *n == 1 && start->cloned ? leave_clone(nv, s) : NATIVE_NO_TABLE;
		if (end != NATIVE_END_COUNT)
			return end;
	}
}

enum native_end native_walk(struct native *nv, const struct native_start *start, const struct unwind_memory *mem,
			    native_is_go *is_go, void *ctx, struct pc_frame *out, size_t cap, size_t *n,
			    struct unwind_place *at)
{
	struct steps s = { .signals = 0 };
	enum native_end end;

	refresh(nv);
	nv->mem = mem;
	nv->regs = &start->regs;
	nv->missed = UINT64_MAX;
	*n = 0;
	end = walk(nv, start, &s, is_go, ctx, out, cap, n);
	if (end == NATIVE_REACHED_GO)
		*at = (struct unwind_place){ .pc = s.pc, .sp = s.sp, .kind = s.exact ? PC_EXACT : PC_RETURN,
					     .racecall = steps_racecall(nv, start, &s) };
	nv->mem = NULL;
	nv->regs = NULL;
	nv->counts.ends[end]++;
	nv->counts.frames += *n;
	return end;
}
