/*
 * calibrate_md.c: the linker's description of a module, for versions whose row is not known or does
 * not describe it; and the number of wrappers.
 *
 * Its front part, up to the bounds of data, has been the same since 1.16, and moduledata.c believes
 * it only when everything in it agrees. What follows has moved with nearly every version. Of that
 * goprof needs gofunc, from which inlined calls are read: it is the word with which the inline trees
 * of many functions make sense. The pieces of text are known by where they must begin. All else is
 * left unknown. Everything is read from the file.
 *
 * Upstream: src/runtime/symtab.go (moduledata), symtabinl.go (inlinedCall).
 */
#include <string.h>

#include "go/calibrate_impl.h"
#include "go/pclntab_impl.h"
#include "go/settle_impl.h"

enum {
	TAIL_MAX = 768,		/* behind the bounds of data; the longest moduledata has 600 bytes in all */
	SAMPLES = 64,
	LEAST_SAMPLES = 8,
	FUNCS_MAX_LOOKED_AT = 8192,
	FUNC_IDS_MAX = 64,	/* they are numbered from 0 */
	RECORD_BYTES = 48,
	INL_BYTES = 20,
	TEXT_PIECES_MAX = 256,
	TEXT_SLACK = 4096,	/* etext is a symbol and not quite the end of the last piece */
};

/* A function with inlined calls: how long it is, and where its tree stands behind gofunc. */
struct sample {
	uint32_t size, tree;
};

struct tail {
	const struct go_module *m;
	gaddr_t at;			/* link-time address of bytes[0] */
	int32_t offset;			/* the same within moduledata */
	size_t len;
	uint8_t bytes[TAIL_MAX];
	size_t n_samples;
	struct sample samples[SAMPLES];
};

static uint32_t half(const uint8_t *bytes, size_t at)
{
	uint32_t v;

	memcpy(&v, bytes + at, sizeof(v));
	return v;
}

static bool file_read(const struct go_module *m, gaddr_t at, void *buf, size_t len)
{
	struct error *err = image_read(m->image, at, buf, len);

	error_free(err);
	return !err;
}

/* ---- inline trees ---- */

/* Length and tree of function `index`, in the formats whose tables are offsets. */
static bool sample_read(const struct go_module *m, uint64_t index, struct sample *ret)
{
	const struct pclntab_shape *s = pclntab_shape(m->format);
	uint8_t ftab[2 * sizeof(struct ftab_entry)], r[RECORD_BYTES];
	uint32_t at, npcdata, table, tree;
	uint64_t funcdata;

	if (!file_read(m, m->ftab + index * sizeof(struct ftab_entry), ftab, sizeof(ftab)))
		return false;
	at = half(ftab, 4);
	if (!file_read(m, m->functab + at, r, s->func.size))
		return false;
	npcdata = half(r, (size_t)s->func.npcdata);
	if (npcdata <= PCDATA_INL_TREE_INDEX || npcdata > UINT8_MAX ||
	    r[s->func.nfuncdata] <= s->funcdata_inl_tree ||
	    !file_read(m, m->functab + at + s->func.size + 4 * PCDATA_INL_TREE_INDEX, &table, 4) || !table)
		return false;
	funcdata = m->functab + at + s->func.size + 4 * (uint64_t)npcdata + 4ull * s->funcdata_inl_tree;
	if (!file_read(m, funcdata, &tree, sizeof(tree)) || tree == UINT32_MAX)
		return false;
	*ret = (struct sample){ .size = half(ftab, 8) - half(ftab, 0), .tree = tree };
	return true;
}

static void samples_read(struct tail *t)
{
	for (uint64_t i = 0; i < t->m->nfunc && i < FUNCS_MAX_LOOKED_AT && t->n_samples < SAMPLES; i++)
		t->n_samples += sample_read(t->m, i, &t->samples[t->n_samples]);
}

/* A name begins with the table, or behind the end of another one. */
static bool is_name(const struct go_module *m, uint32_t offset)
{
	char c[2] = "";

	if (offset >= m->funcnametab_size)
		return false;
	if (offset == 0)
		return file_read(m, m->funcnametab, c + 1, 1) && c[1] > ' ';
	return file_read(m, m->funcnametab + offset - 1, c, sizeof(c)) && c[0] == '\0' && c[1] > ' ';
}

static bool is_tree(const struct go_module *m, gaddr_t gofunc, const struct sample *x)
{
	const struct pclntab_shape *s = pclntab_shape(m->format);
	uint8_t b[INL_BYTES];

	return file_read(m, gofunc + x->tree, b, s->inl.size) && b[s->inl.func_id] < FUNC_IDS_MAX &&
	       half(b, (size_t)s->inl.parent_pc) < x->size && is_name(m, half(b, (size_t)s->inl.name));
}

static bool is_gofunc(struct tail *t, size_t i)
{
	gaddr_t gofunc = cal_word(t->bytes, (uint32_t)i);

	if (!gofunc || gofunc > UINT64_MAX - UINT32_MAX || !image_segment_at(t->m->image, gofunc))
		return false;
	for (size_t k = 0; k < t->n_samples; k++)
		if (!is_tree(t->m, gofunc, &t->samples[k]))
			return false;
	return t->n_samples >= LEAST_SAMPLES;
}

/* ---- pieces of text ---- */

/* A slice of {offset in the text, its end, address}; the first piece begins with the text. */
static bool is_textsectmap(struct tail *t, size_t i)
{
	uint64_t at = cal_word(t->bytes, (uint32_t)i), n, first[3];

	if (i + 24 > t->len)
		return false;
	n = cal_word(t->bytes, (uint32_t)i + 8);
	if (!n || n > TEXT_PIECES_MAX || n != cal_word(t->bytes, (uint32_t)i + 16) ||
	    image_read_relocated(t->m->image, at, first, sizeof(first)))
		return false;
	return first[0] == 0 && first[1] > 0 && first[1] <= t->m->etext - t->m->text + TEXT_SLACK &&
	       first[2] == t->m->text;
}

/* ---- the members ---- */

typedef bool tail_test(struct tail *t, size_t i);

static int32_t only(struct tail *t, tail_test *test)
{
	int32_t found = CAL_NONE;

	for (size_t i = 0; i + 8 <= t->len; i += 8) {
		if (!test(t, i))
			continue;
		if (found != CAL_NONE)
			return CAL_NONE;
		found = t->offset + (int32_t)i;
	}
	return found;
}

static void tail_read(struct image *img, struct tail *t)
{
	for (t->len = TAIL_MAX; t->len; t->len -= 64) {
		struct error *err = image_read_relocated(img, t->at, t->bytes, t->len);

		error_free(err);
		if (!err)
			return;
	}
}

static void set(struct go_layout *l, enum go_field f, int32_t offset, uint32_t size)
{
	l->f[f] = (struct go_field_at){ .offset = -1, .source = GO_SOURCE_NONE };
	if (offset >= 0)
		l->f[f] = (struct go_field_at){ offset, size, GO_SOURCE_CALIBRATED };
}

static const enum go_field behind_data[] = {
	GO_MD_SIZE, GO_MD_TYPES, GO_MD_RODATA, GO_MD_GOFUNC, GO_MD_TEXTSECTMAP, GO_MD_HASMAIN, GO_MD_NEXT,
};

static void forget_tail(struct go_layout *l)
{
	for (size_t i = 0; i < sizeof(behind_data) / sizeof(behind_data[0]); i++)
		set(l, behind_data[i], CAL_NONE, 0);
}

/* Up to 1.17 funcdata are addresses: then there is no such word, and nothing to be found. */
static bool counts_from_gofunc(const struct go_module *m)
{
	return pclntab_shape(m->format)->funcdata_word == 4;
}

static void tail_open(struct tail *t, const struct go_layout *l, const struct go_module *m)
{
	int32_t offset = l->f[GO_MD_ENOPTRBSS].offset + 8;

	*t = (struct tail){ .m = m, .at = m->moduledata + (uint64_t)offset, .offset = offset };
	tail_read(m->image, t);
	if (counts_from_gofunc(m))
		samples_read(t);
}

/* The module by a row that may be another version's: &err_notfound if it is not what the row says. */
static struct error *module_by(struct image *img, const struct go_layout *l, struct go_module *ret)
{
	struct error *err = go_module_find(img, 0, l, ret);

	if (!err || err == &err_notfound || err->kind != ERROR_UNSUPPORTED)
		return err;
	error_free(err);
	return &err_notfound;
}

/* The module as `l` describes it; its tail only if inline trees make sense there. */
static struct error *describes(struct image *img, const struct go_layout *l, bool *ret)
{
	struct go_module m;
	struct tail t;
	struct error *err = module_by(img, l, &m);

	*ret = false;
	if (err == &err_notfound)
		return NULL;
	if (err)
		return err;
	tail_open(&t, l, &m);
	*ret = !counts_from_gofunc(&m) || t.n_samples < LEAST_SAMPLES ||
	       (go_has(l, GO_MD_GOFUNC) && l->f[GO_MD_GOFUNC].offset >= t.offset &&
		is_gofunc(&t, (size_t)(l->f[GO_MD_GOFUNC].offset - t.offset)));
	return NULL;
}

/* `l` is another version's row. Its front part may do: then what is behind is found or forgotten. */
static struct error *find_members(struct image *img, struct go_layout *l)
{
	struct go_module m;
	struct tail t;
	struct error *err;

	forget_tail(l);
	err = module_by(img, l, &m);
	if (err)
		return err;
	tail_open(&t, l, &m);
	if (counts_from_gofunc(&m))
		set(l, GO_MD_GOFUNC, only(&t, is_gofunc), 8);
	set(l, GO_MD_TEXTSECTMAP, only(&t, is_textsectmap), 24);
	return NULL;
}

void go_layout_forget(struct go_layout *l)
{
	for (int f = 0; f < GO_FIELD_COUNT; f++)
		if (f < GO_MD_SIZE || f > GO_MD_NEXT)
			set(l, f, CAL_NONE, 0);
}

/* ---- the row to begin with ---- */

/* One row; `ret` is left as it was where it does not do. */
static struct error *try_row(struct image *img, int minor, struct go_layout *ret)
{
	struct go_layout l;
	struct error *err;

	if (!go_layout_row(minor, &l))
		return &err_notfound;
	err = find_members(img, &l);
	if (!err)
		*ret = l;
	return err;
}

/* From the nearest older version down, then from the nearest newer one up. */
static struct error *other_row(struct image *img, int minor, struct go_layout *ret)
{
	int n, older = 0;
	const int *v = go_layout_minors(&n);
	struct error *err = &err_notfound;

	while (older < n && v[older] <= minor)
		older++;
	for (int i = older - 1; i >= 0 && err == &err_notfound; i--)
		err = try_row(img, v[i], ret);
	for (int i = older; i < n && err == &err_notfound; i++)
		err = try_row(img, v[i], ret);
	return err;
}

struct error *go_layout_choose(struct image *img, const struct go_build *b, struct go_layout *ret,
			       bool *is_own)
{
	int n;
	const int *v = go_layout_minors(&n);
	struct error *err = NULL;
	bool fits = false;

	if (b->minor < v[0])
		return &err_notfound;		/* nothing as old as that was ever looked at */
	*is_own = go_layout_row_of(b->minor, b->patch, ret);
	if (*is_own)
		err = describes(img, ret, &fits);
	if (err || fits)
		return err;
	err = other_row(img, b->minor, ret);
	if (err == &err_notfound && (*is_own || go_layout_row(v[n - 1], ret)))
		return NULL;			/* whoever reads the module says what is wrong with it */
	*is_own = false;
	go_layout_forget(ret);
	return err;
}

/* ---- wrappers ---- */

/* The one number that both functions have, if it is not that of ordinary ones; else UINT8_MAX. */
static uint8_t common_id(struct go_runtime *rt, const char *const names[2])
{
	struct go_func f[2];

	for (int i = 0; i < 2; i++) {
		uint32_t pos = 0;

		if (!go_func_by_name(rt, names[i], &pos, &f[i]))
			return UINT8_MAX;
	}
	return f[0].func_id && f[0].func_id == f[1].func_id ? f[0].func_id : UINT8_MAX;
}

uint8_t go_wrapper_id_shown(struct go_runtime *rt)
{
	/* go statements with arguments start at a wrapper; from 1.22 on they have a name of their own. */
	static const char *const wrappers[][2] = {
		{ "runtime.gcenable.gowrap1", "runtime.gcenable.gowrap2" },
		{ "runtime.gcenable.func1", "runtime.gcenable.func2" },
	};
	uint8_t id = UINT8_MAX;

	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]) && id == UINT8_MAX; i++)
		id = common_id(rt, wrappers[i]);
	return id;
}
