/*
 * globals_data.c: variables of the runtime by what they hold, where neither symbols nor code tell.
 *
 * The writable data of the module is read from the process, chunk by chunk. What is looked for
 * there is certain by itself, whatever the version: allgs is the only slice whose elements point to
 * themselves and whose first one starts in runtime.main; allm is the only variable that leads to m0
 * through all ms; the texts of wait reasons are known. More than one candidate is no answer.
 *
 * Upstream: src/runtime/proc.go (allgs, allm), runtime2.go (waitReasonStrings).
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "go/calibrate_impl.h"
#include "go/settle_impl.h"
#include "insn/insn.h"

enum {
	CHUNK = 64 * 1024,
	OVERLAP = 256,		/* longest thing looked at where it stands */
	ELEMENTS = 8,
	RESERVE_CODE_MAX = 512,
	SCHED_AROUND = 128,
};

static const uint64_t data_max = 1ull << 30, length_max = 1ull << 28;

struct data_search {
	struct go_runtime *rt;
	struct cal_reads reads;
	const struct go_layout *layout;	/* of the search for allm */
	gaddr_t main;			/* entry of runtime.main */
	gaddr_t counter;		/* a member of schedt; 0: not known */
	gaddr_t found;
	size_t n, length;		/* how many were found; the length of the longest list */
};

static struct data_search search_of(struct go_runtime *rt)
{
	return (struct data_search){ .rt = rt, .reads = { .t = rt->process->target, .left = CAL_READS } };
}

/* Looks at the bytes of one address; `left` of them are there. */
typedef void word_fn(struct data_search *s, gaddr_t at, const uint8_t *bytes, size_t left);

/* With too much to look at nothing counts as found: what was not looked at may be it, too. */
static void search(struct data_search *s, word_fn *look)
{
	const struct go_module *m = &s->rt->modules[0];
	gaddr_t at = (m->noptrdata + m->bias + 7) & ~(gaddr_t)7, end = m->enoptrbss + m->bias;
	_cleanup_free_ uint8_t *buf = malloc(CHUNK + OVERLAP);

	if (!buf || end < at || end - at > data_max)
		return;
	for (; at < end; at += CHUNK) {
		size_t left = end - at < CHUNK + OVERLAP ? (size_t)(end - at) : CHUNK + OVERLAP;
		struct span v = { .addr = at, .buf = buf, .len = left };
		struct error *err = target_read_v(s->reads.t, &v, 1);

		error_free(err);
		if (err)
			return;
		for (size_t i = 0; i < CHUNK && i + 8 <= v.done && s->reads.left; i += 8)
			look(s, at + i, buf + i, v.done - i);
		if (!s->reads.left) {
			s->n = 0;
			return;
		}
	}
}

static void add(struct data_search *s, gaddr_t at)
{
	s->found = at;
	s->n++;
}

/* ---- allgs ---- */

static bool has_word(const uint8_t *bytes, size_t len, uint64_t value)
{
	for (size_t i = 0; i + 8 <= len; i += 8)
		if (cal_word(bytes, (uint32_t)i) == value)
			return true;
	return false;
}

/* Do all elements hold their own address, and at the same place? */
static bool name_themselves(struct data_search *s, const gaddr_t *e, size_t n, const uint8_t *first,
			    size_t len)
{
	for (size_t o = 0; o + 8 <= len; o += 8) {
		size_t same = 0;
		uint64_t w;

		if (cal_word(first, (uint32_t)o) != e[0])
			continue;
		while (same < n && cal_is_place(e[same]) && cal_read_word(&s->reads, e[same] + o, &w) && w == e[same])
			same++;
		if (same == n)
			return true;
	}
	return false;
}

static void look_for_allgs(struct data_search *s, gaddr_t at, const uint8_t *bytes, size_t left)
{
	uint64_t ptr, len, cap;
	uint8_t first[CAL_G_BYTES];
	gaddr_t e[ELEMENTS];
	size_t n, got;

	if (left < 24)
		return;
	ptr = cal_word(bytes, 0);
	len = cal_word(bytes, 8);
	cap = cal_word(bytes, 16);
	if (!cal_is_place(ptr) || len == 0 || len > cap || cap > length_max)
		return;
	n = len < ELEMENTS ? (size_t)len : ELEMENTS;
	if (cal_read_some(&s->reads, ptr, e, n * sizeof(e[0])) != n * sizeof(e[0]) || !cal_is_place(e[0]))
		return;
	got = cal_read_some(&s->reads, e[0], first, sizeof(first));
	if (has_word(first, got, s->main) && name_themselves(s, e, n, first, got))
		add(s, at);
}

static bool set_global(struct go_runtime *rt, enum go_global g, gaddr_t addr)
{
	struct go_global_at *at = &rt->globals[g];

	if (at->addr == addr)
		return false;
	*at = (struct go_global_at){ addr, GO_SOURCE_DATA };
	return true;
}

bool go_allgs_in_data(struct go_runtime *rt)
{
	struct data_search s = search_of(rt);
	struct go_func f;
	uint32_t pos = 0;
	bool changed;

	if (!go_func_by_name(rt, "runtime.main", &pos, &f))
		return false;
	s.main = f.entry;
	search(&s, look_for_allgs);
	if (s.n != 1)
		return false;
	/* The slice is as good as the copies of its parts, and is surely what it is. */
	changed = set_global(rt, GO_ALLGPTR, s.found);
	changed |= set_global(rt, GO_ALLGLEN, s.found + 8);
	(void)set_global(rt, GO_ALLGS, s.found);
	return changed;
}

/* ---- allm ---- */

/* Its first member is g0, which names itself and has no number. (That only saves work.) */
static bool looks_like_m(struct data_search *s, gaddr_t at)
{
	uint64_t g0, self, goid;

	return cal_read_word(&s->reads, at, &g0) && cal_is_place(g0) &&
	       cal_read_word(&s->reads, g0 + (uint64_t)s->layout->f[GO_G_SCHED_G].offset, &self) && self == g0 &&
	       cal_read_word(&s->reads, g0 + (uint64_t)s->layout->f[GO_G_GOID].offset, &goid) && goid == 0;
}

/* The most ms that a list from here to m0 has, whatever member links it. */
static size_t longest_list(struct data_search *s, gaddr_t head, gaddr_t *m0)
{
	size_t most = 0;

	for (uint32_t o = 0; o < CAL_LINK_MAX; o += 8) {
		gaddr_t last;
		size_t n = cal_list_length(&s->reads, &s->rt->modules[0], head, o, &last);

		if (n > most && looks_like_m(s, last)) {
			most = n;
			*m0 = last;
		}
	}
	return most;
}

/*
 * The list of idle ms often begins with the newest one, too: in schedt, close to the counter that
 * mReserveID counts up, or behind m0, as a member of that. allm is a variable of its own.
 */
static bool heads_idle_list(const struct data_search *s, gaddr_t at, gaddr_t m0)
{
	return (s->counter && at - s->counter + SCHED_AROUND < 2 * SCHED_AROUND) || at - m0 < CAL_LINK_MAX;
}

static void look_for_allm(struct data_search *s, gaddr_t at, const uint8_t *bytes, size_t left)
{
	gaddr_t head = cal_word(bytes, 0), m0 = 0;
	size_t n;

	(void)left;
	if (!cal_is_place(head) || !looks_like_m(s, head))
		return;
	n = longest_list(s, head, &m0);
	if (n < 2 || n < s->length || heads_idle_list(s, at, m0))
		return;
	if (n > s->length)
		s->n = 0;
	s->length = n;
	add(s, at);
}

/* Where mReserveID counts the ms; 0: that was not found. */
static gaddr_t counter_of_ms(struct go_runtime *rt)
{
	uint8_t code[RESERVE_CODE_MAX];
	struct go_func f;
	struct insn in;
	uint32_t pos = 0;
	size_t len, at = 0;
	gaddr_t read = 0;

	if (!go_func_by_name(rt, "runtime.mReserveID", &pos, &f))
		return 0;
	len = f.end - f.entry < sizeof(code) ? f.end - f.entry : sizeof(code);
	len = go_code_read(rt, f.entry, code, len);
	for (; at < len && insn_decode(code + at, len - at, f.entry + at, &in) && in.length; at += in.length) {
		if (!in.has_address || in.access_size != 8)
			continue;
		if ((in.access & INSN_WRITES) && (in.address == read || in.access & INSN_READS))
			return in.address;
		read = in.address;
	}
	return 0;
}

bool go_allm_in_data(struct go_runtime *rt, const struct go_layout *l)
{
	struct data_search s = search_of(rt);

	s.layout = l;
	s.counter = counter_of_ms(rt);
	search(&s, look_for_allm);
	return s.n == 1 && set_global(rt, GO_ALLM, s.found);
}

/* ---- texts of wait reasons ---- */

/* The table has begun with these three since Go 1.10. */
static const char *const first_texts[] = { "", "GC assist marking", "IO wait" };

enum { N_TEXTS = sizeof(first_texts) / sizeof(first_texts[0]) };

static void look_for_texts(struct data_search *s, gaddr_t at, const uint8_t *bytes, size_t left)
{
	const struct go_module *m = &s->rt->modules[0];

	if (left < 16 * N_TEXTS)
		return;
	for (uint32_t i = 0; i < N_TEXTS; i++)
		if (cal_word(bytes, 16 * i + 8) != strlen(first_texts[i]))
			return;
	for (uint32_t i = 1; i < N_TEXTS; i++) {
		char text[32] = "";
		struct error *err = image_read(m->image, cal_word(bytes, 16 * i) - m->bias, text,
					       strlen(first_texts[i]));

		error_free(err);
		if (err || strcmp(text, first_texts[i]) != 0)
			return;
	}
	add(s, at);
}

bool go_wait_reasons_in_data(struct go_runtime *rt)
{
	struct data_search s = search_of(rt);

	search(&s, look_for_texts);
	return s.n == 1 && set_global(rt, GO_WAITREASON_STRINGS, s.found);
}
