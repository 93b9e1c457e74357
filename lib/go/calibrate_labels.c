/*
 * calibrate_labels.c: members of g that are proved by texts: the wait reason by who called gopark,
 * the labels by what they point to.
 *
 * A wait reason is a number, and the table of texts belongs to the program. So it is enough that
 * the text at the number says what the function that called gopark always says.
 *
 * Upstream: src/runtime/{chan,select,sema,time,netpoll,proc,mgcsweep}.go (calls of gopark),
 * src/runtime/pprof/label.go.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "go/calibrate_impl.h"

/* ---- wait reasons ---- */

/* Texts grew ("select (no cases)"), so only their beginnings count. */
static const struct {
	const char *caller, *text;
} waits[] = {
	{ "runtime.chanrecv", "chan receive" },
	{ "runtime.chansend", "chan send" },
	{ "runtime.selectgo", "select" },
	{ "runtime.block", "select (no cases)" },
	{ "runtime.netpollblock", "IO wait" },
	{ "time.Sleep", "sleep" },
	{ "runtime.forcegchelper", "force gc (idle)" },
	{ "runtime.bgsweep", "GC sweep wait" },
	{ "runtime.bgscavenge", "GC scavenge wait" },
	{ "runtime.(*scavengerState).park", "GC scavenge wait" },
	{ "runtime.runfinq", "finalizer wait" },
	{ "runtime.runFinalizers", "finalizer wait" },
	{ "runtime.gcBgMarkWorker", "GC worker (idle)" },
	{ "runtime.gcBgMarkWorker.func2", "GC worker (idle)" },
};

enum { LEAST_TEXTS = 2, N_WAITS = sizeof(waits) / sizeof(waits[0]) };

static int wait_of(const char *caller)
{
	for (int i = 0; i < N_WAITS; i++)
		if (strcmp(caller, waits[i].caller) == 0)
			return i;
	return -1;
}

static bool fits_waitreason(struct sight *s, uint32_t offset)
{
	uint32_t seen = 0;
	int texts = 0;

	for (size_t i = 0; i < s->n_parked; i++) {
		const struct seen_parked *p = &s->parked[i];
		int wait = wait_of(p->caller);
		const char *text;

		if (wait < 0)
			continue;
		text = offset < p->g->len ? go_wait_reason(s->rt, p->g->bytes[offset]) : NULL;
		if (!text || strncmp(text, waits[wait].text, strlen(waits[wait].text)) != 0)
			return false;
		texts += !(seen & 1u << p->g->bytes[offset] % 32);
		seen |= 1u << p->g->bytes[offset] % 32;
	}
	return texts >= LEAST_TEXTS;
}

void cal_waitreason(struct sight *s)
{
	(void)cal_set(s, GO_G_WAITREASON, cal_only(s, CAL_G_BYTES, 1, fits_waitreason), 1);
}

/* ---- labels ---- */

static bool is_text(const char *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if ((unsigned char)p[i] < ' ' || p[i] == 0x7f)
			return false;
	return true;
}

/* Keys are names that somebody chose; values may be anything. An empty set proves nothing. */
static bool are_labels(const struct go_labels *v)
{
	for (uint32_t i = 0; i < v->n; i++)
		if (!v->v[i].key_len || !is_text(v->v[i].key, v->v[i].key_len))
			return false;
	return v->n > 0;
}

/* The two forms that labels have had: a list, and a map before it. Neither can be read as the other. */
static const struct go_field_at map_form[] = {
	{ 0, 8, GO_SOURCE_CALIBRATED }, { 8, 1, GO_SOURCE_CALIBRATED }, { 9, 1, GO_SOURCE_CALIBRATED },
	{ 16, 8, GO_SOURCE_CALIBRATED }, { 24, 8, GO_SOURCE_CALIBRATED },
};
static const struct go_field_at no_form = { .offset = -1 };

enum { N_FORM = sizeof(map_form) / sizeof(map_form[0]) };

_Static_assert(GO_HMAP_OLDBUCKETS - GO_HMAP_COUNT + 1 == (int)N_FORM, "members of a map, in order");

static void set_form(struct go_layout *l, bool map)
{
	for (int i = 0; i < N_FORM; i++)
		l->f[GO_HMAP_COUNT + i] = map ? map_form[i] : no_form;
}

static enum opinion is_label_set(struct sight *s, const struct seen_g *g, uint32_t offset,
				 struct go_labels *scratch)
{
	gaddr_t at = g_word(g, (int32_t)offset);
	struct error *err;

	if (!at)
		return NEUTRAL;
	if (at % 8)
		return CONTRADICTS;
	err = go_labels_read(s->rt, s->t, at, scratch);
	error_free(err);
	if (err)
		return CONTRADICTS;
	return are_labels(scratch) ? AGREES : NEUTRAL;
}

/* -1: contradicted; else how many gs have labels there. */
static int count_labelled(struct sight *s, uint32_t offset, struct go_labels *scratch)
{
	int n = 0;

	for (size_t i = 0; i < s->n_gs; i++) {
		const struct seen_g *g = &s->gs[i];
		enum opinion o;

		if (!g->stable || !g->self)
			continue;
		o = offset + 8 <= g->len ? is_label_set(s, g, offset, scratch) : CONTRADICTS;
		if (o == CONTRADICTS)
			return -1;
		n += o == AGREES;
	}
	return n;
}

static int32_t labels_shown(struct sight *s, struct go_labels *scratch)
{
	int32_t found = CAL_NONE;

	for (uint32_t o = 0; o < CAL_G_BYTES; o += 8) {
		if (cal_g_taken(s, o) || count_labelled(s, o, scratch) <= 0)
			continue;
		if (found != CAL_NONE)
			return CAL_NONE;
		found = (int32_t)o;
	}
	return found;
}

/* The list came with functions that merge lists; a program without one that sets labels has none. */
static bool has_function(struct sight *s, const char *name)
{
	struct go_func f;
	uint32_t pos = 0;

	return go_func_by_name(s->rt, name, &pos, &f);
}

/*
 * go_labels_read goes by the runtime's layout, so that is set to one form, then to the other. (It
 * is the caller's until the check is over, and put right by what is returned.)
 */
void cal_labels(struct sight *s)
{
	_cleanup_free_ struct go_labels *scratch = malloc(sizeof(*scratch));
	int32_t claim = s->claims.g_labels, shown = CAL_NONE;
	bool map = false;

	if (!scratch)
		return;
	for (int form = 0; form < 2 && shown < 0; form++) {
		map = form == 1;
		set_form(&s->rt->layout, map);
		shown = labels_shown(s, scratch);
	}
	if (shown < 0 && claim >= 0 && claim % 8 == 0 && claim + 8 <= CAL_G_BYTES) {
		map = !has_function(s, "runtime/pprof.mergeLabelSets");
		set_form(&s->rt->layout, map);
		shown = count_labelled(s, (uint32_t)claim, scratch) >= 0 ? claim : CAL_NONE;
	} else if (shown >= 0 && claim >= 0 && shown != claim) {
		shown = CAL_NONE;
	}
	if (cal_set(s, GO_G_LABELS, shown, 8))
		set_form(s->found, map);
}
