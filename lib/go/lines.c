/*
 * lines.c: the logical frames of a pc: what was inlined there, with files and lines.
 *
 * The inline tree names, for each inlined call, the pc in the surrounding code that stands for the
 * call; file and line of every level are those of that level's pc. When the tree contradicts
 * itself (an index outside the function, a cycle), only the physical function is told, without
 * a line: its line at this pc would be one of another function.
 *
 * Upstream: src/runtime/symtabinl.go (inlineUnwinder), symtab.go (funcline1, funcfile).
 */
#include <string.h>

#include "go/pclntab_impl.h"

enum { DEPTH_MAX = 256, INL_ENTRY_MAX = 20, NO_FILE = -1 };

struct inlined_call {
	uint8_t func_id;
	uint32_t name_off;
	uint32_t parent_pc;	/* offset from the entry */
	int32_t start_line;
};

static uint32_t entry_u32(const uint8_t *b, int8_t at)
{
	uint32_t v = 0;

	if (at >= 0)
		memcpy(&v, b + at, sizeof(v));
	return v;
}

static bool inlined_call_read(const struct go_func *f, int32_t index, struct inlined_call *ret)
{
	const struct pclntab_shape *s = pclntab_shape(f->module->format);
	gaddr_t tree = func_funcdata(f, s->funcdata_inl_tree);
	uint8_t b[INL_ENTRY_MAX];

	if (tree == 0 || image_read(f->module->image, tree + (uint64_t)index * s->inl.size, b, s->inl.size))
		return false;
	*ret = (struct inlined_call){
		.func_id = b[s->inl.func_id],
		.name_off = entry_u32(b, s->inl.name),
		.parent_pc = entry_u32(b, s->inl.parent_pc),
		.start_line = (int32_t)entry_u32(b, s->inl.start_line),
	};
	return ret->parent_pc < f->end - f->entry;
}

static const char *file_at(struct go_runtime *rt, const struct go_func *f, gaddr_t pc)
{
	const struct go_module *m = f->module;
	const char *file;
	int32_t number, offset;
	uint64_t at;

	if (!pcvalue_at(f, f->pcfile, pc, &number) || number < pclntab_shape(m->format)->first_file)
		return "";
	at = ((uint64_t)f->cu_off + (uint64_t)number) * sizeof(offset);
	if (at + sizeof(offset) > m->cutab_size ||
	    image_read(m->image, m->cutab + at, &offset, sizeof(offset)) || offset == NO_FILE)
		return "";
	file = pclntab_string(rt, m, STRING_FILE, (uint32_t)offset);
	return file ? file : "";
}

static int32_t line_at(const struct go_func *f, gaddr_t pc)
{
	int32_t line;

	return pcvalue_at(f, f->pcln, pc, &line) && line > 0 ? line : 0;
}

static struct go_line line_of(struct go_runtime *rt, const struct go_func *f, gaddr_t pc)
{
	return (struct go_line){
		.file = file_at(rt, f, pc), .line = line_at(f, pc), .entry = f->entry,
	};
}

static void function_fill(struct go_runtime *rt, const struct go_func *f, struct go_line *l)
{
	l->function = go_func_name(rt, f);
	l->start_line = f->start_line > 0 ? f->start_line : 0;
	l->wrapper = f->func_id == rt->wrapper_id;
}

static void inlined_fill(struct go_runtime *rt, const struct go_func *f,
			 const struct inlined_call *call, struct go_line *l)
{
	const char *name = pclntab_string(rt, f->module, STRING_NAME, call->name_off);

	l->function = name ? name : "";
	l->start_line = call->start_line > 0 ? call->start_line : 0;
	l->wrapper = call->func_id == rt->wrapper_id;
	l->inlined = true;
}

/* The chain of inlined calls at a pc, innermost first. */
struct inline_walk {
	size_t depth;
	int32_t index[DEPTH_MAX];
	gaddr_t pc[DEPTH_MAX + 1];	/* of each level; the last is the function's own */
	struct inlined_call call[DEPTH_MAX];
};

static bool seen_before(const struct inline_walk *w, int32_t index)
{
	for (size_t i = 0; i < w->depth; i++)
		if (w->index[i] == index)
			return true;
	return false;
}

/* False: the tree contradicts itself. */
static bool inline_walk(const struct go_func *f, gaddr_t pc, struct inline_walk *w)
{
	uint32_t table = func_pcdata(f, PCDATA_INL_TREE_INDEX);
	int32_t index;

	w->depth = 0;
	w->pc[0] = pc;
	if (table == 0)
		return true;
	for (;;) {
		if (!pcvalue_at(f, table, w->pc[w->depth], &index))
			return false;
		if (index < 0)
			return true;
		if (w->depth == DEPTH_MAX || seen_before(w, index) ||
		    !inlined_call_read(f, index, &w->call[w->depth]))
			return false;
		w->index[w->depth] = index;
		w->pc[w->depth + 1] = f->entry + w->call[w->depth].parent_pc;
		w->depth++;
	}
}

/*
 * A traceback prints arguments by a small program of bytes (FUNCDATA_ArgInfo); it prints none when
 * there is no such program or it ends at once. Before 1.17 it prints the words on the stack, results
 * included. Upstream: src/runtime/traceback.go (printArgs; gentraceback before).
 */
static bool takes_no_args(const struct go_runtime *rt, const struct go_func *f)
{
	enum { ARGS_END = 0xff, FIRST_WITH_ARG_INFO = 17 };
	gaddr_t at = func_funcdata(f, FUNCDATA_ARG_INFO);
	uint8_t first;

	if (rt->build.minor < FIRST_WITH_ARG_INFO)
		return f->args < sizeof(uint64_t);
	return !at || (!image_read(f->module->image, at, &first, 1) && first == ARGS_END);
}

size_t go_lines(struct go_runtime *rt, gaddr_t pc, struct go_line *out, size_t cap)
{
	struct inline_walk w;
	struct go_func f;
	size_t n = 0;

	if (cap == 0 || !go_func_find(rt, pc, &f))
		return 0;
	if (!inline_walk(&f, pc, &w)) {
		out[0] = (struct go_line){ .file = "", .entry = f.entry };
		function_fill(rt, &f, &out[0]);
		return 1;
	}
	for (; n < w.depth && n < cap; n++) {
		out[n] = line_of(rt, &f, w.pc[n]);
		inlined_fill(rt, &f, &w.call[n], &out[n]);
	}
	if (n < cap) {
		out[n] = line_of(rt, &f, w.pc[n]);
		function_fill(rt, &f, &out[n]);
		out[n].no_args = takes_no_args(rt, &f);
		n++;
	}
	return n;
}
