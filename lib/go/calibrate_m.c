/*
 * calibrate_m.c: members of m, and those of g that ms prove.
 *
 * Firm ground is the list of all ms: it begins at runtime.allm, and as ms are put in front and m0
 * was the first, it ends at m0, the only m that is a variable of the program and not on the heap. No
 * other list of ms holds as many. Then every m's g0 points back to it; ms name threads; and what an
 * m runs is a goroutine.
 *
 * Upstream: src/runtime/proc.go (mcommoninit, allocm, mstart1, execute, dropg, dolockOSThread),
 * asm_amd64.s (systemstack).
 */
#include "go/calibrate_impl.h"

enum {
	LEAST_MS = 2,
	ID_MAX = 1 << 20,
};

/* ---- the list ---- */

static int32_t find_list(struct sight *s, size_t *length)
{
	int32_t found = CAL_NONE;

	*length = 0;
	for (uint32_t o = 0; o < CAL_LINK_MAX; o += 8) {
		gaddr_t last;
		size_t n = cal_list_length(&s->reads, &s->rt->modules[0], s->allm, o, &last);

		if (n < LEAST_MS)
			continue;
		if (n == *length)
			found = CAL_NONE;	/* two of one length: no way to tell them apart */
		if (n <= *length)
			continue;
		*length = n;
		found = (int32_t)o;
	}
	return found;
}

static bool read_m(struct sight *s, gaddr_t at, struct seen_m *m)
{
	m->at = at;
	m->len = (uint32_t)cal_read_some(&s->reads, at, m->bytes, CAL_M_BYTES);
	return m->len >= CAL_M_BYTES / 2;
}

/* The newest, and in any case m0. */
static bool read_ms(struct sight *s, int32_t link, size_t length)
{
	gaddr_t at = s->allm;

	for (size_t i = 0; at && i < length; i++) {
		bool keep = s->n_ms < CAL_MS - 1 || i + 1 == length;

		if (keep && !read_m(s, at, &s->ms[s->n_ms++]))
			return false;
		if (!cal_read_word(&s->reads, at + (uint64_t)link, &at))
			return false;
	}
	return !at && s->n_ms >= LEAST_MS;
}

/* ---- what an m points to ---- */

static uint64_t m_word(const struct seen_m *m, uint32_t offset)
{
	return cal_word(m->bytes, offset);
}

/* A g of no goroutine: 1 when it names itself (it has scheduled), 0 when it names nothing yet. */
static int as_g0(struct sight *s, gaddr_t at)
{
	uint64_t self, goid;

	if (!at || at % 8 || !cal_read_word(&s->reads, at + (uint64_t)cal_offset(s, GO_G_SCHED_G), &self) ||
	    !cal_read_word(&s->reads, at + (uint64_t)cal_offset(s, GO_G_GOID), &goid) || goid)
		return -1;
	return self == at ? 1 : self == 0 ? 0 : -1;
}

/* An m that is just being put on the list has none; those of C threads have one that never schedules. */
static bool fits_g0(struct sight *s, uint32_t offset)
{
	size_t agree = 0;

	for (size_t i = 0; i < s->n_ms; i++) {
		gaddr_t g0 = m_word(&s->ms[i], offset);
		int is = g0 ? as_g0(s, g0) : 0;

		if (is < 0 || (i + 1 == s->n_ms && is != 1))
			return false;
		agree += is == 1;
	}
	return agree >= LEAST_MS;
}

/* A thread that schedules has its g0 in m.tls as well; what systemstack takes for g0 is it. */
static int32_t find_g0(struct sight *s)
{
	int32_t claim = s->claims.m_g0;

	if (claim >= 0 && claim % 8 == 0 && claim < CAL_M_BYTES / 2 && fits_g0(s, (uint32_t)claim))
		return claim;
	return cal_only(s, CAL_M_BYTES / 2, 8, fits_g0);
}

static bool read_g0s(struct sight *s, int32_t at)
{
	for (size_t i = 0; i < s->n_ms; i++) {
		struct seen_m *m = &s->ms[i];

		m->g0 = m_word(m, (uint32_t)at);
		if (!m->g0)
			continue;
		m->g0_len = (uint32_t)cal_read_some(&s->reads, m->g0, m->g0_bytes, CAL_G_BYTES);
		if (m->g0_len < CAL_G_BYTES / 2)
			return false;
	}
	return true;
}

static bool fits_g_m(struct sight *s, uint32_t offset)
{
	size_t agree = 0;

	for (size_t i = 0; i < s->n_ms; i++) {
		const struct seen_m *m = &s->ms[i];

		if (!m->g0)
			continue;
		if (offset + 8 > m->g0_len || cal_word(m->g0_bytes, offset) != m->at)
			return false;
		agree++;
	}
	return agree >= LEAST_MS;
}

static bool points_to_m(struct sight *s, gaddr_t g, gaddr_t m)
{
	uint64_t w;

	return g && g % 8 == 0 && cal_read_word(&s->reads, g + (uint64_t)cal_offset(s, GO_G_M), &w) && w == m;
}

/* The other g without a goroutine that points back. It never schedules. */
static bool fits_gsignal(struct sight *s, uint32_t offset)
{
	size_t agree = 0;

	for (size_t i = 0; i < s->n_ms; i++) {
		const struct seen_m *m = &s->ms[i];
		gaddr_t g = m_word(m, offset);

		if (!m->g0)
			continue;
		if (g == m->g0 || as_g0(s, g) != 0 || !points_to_m(s, g, m->at))
			return false;
		agree++;
	}
	return agree >= LEAST_MS;
}

/* A goroutine: a g that names itself and has a number. */
static bool is_goroutine(struct sight *s, gaddr_t at)
{
	uint64_t self, goid;

	return at && at % 8 == 0 && cal_read_word(&s->reads, at + (uint64_t)cal_offset(s, GO_G_SCHED_G), &self) &&
	       self == at && cal_read_word(&s->reads, at + (uint64_t)cal_offset(s, GO_G_GOID), &goid) && goid;
}

/* 0 or a goroutine; gives how many ms have one that says it is theirs, or -1. */
static int runs_goroutines(struct sight *s, uint32_t offset)
{
	int agree = 0;

	for (size_t i = 0; i < s->n_ms; i++) {
		gaddr_t g = m_word(&s->ms[i], offset);

		if (g && !is_goroutine(s, g))
			return -1;
		agree += g && points_to_m(s, g, s->ms[i].at);
	}
	return agree;
}

static bool fits_curg(struct sight *s, uint32_t offset)
{
	return runs_goroutines(s, offset) > 0;
}

/* Nothing needs to run at the moment. But systemstack compares with it, right behind what is proved. */
static int32_t find_curg(struct sight *s)
{
	const struct code_claims *c = &s->claims;
	int32_t shown = cal_only(s, CAL_M_BYTES / 2, 8, fits_curg);
	bool claimed = c->m_curg >= 0 && c->m_curg % 8 == 0 && c->m_curg < CAL_M_BYTES / 2 &&
		       c->g_m == cal_offset(s, GO_G_M) && c->m_g0 == cal_offset(s, GO_M_G0) &&
		       c->m_gsignal == cal_offset(s, GO_M_GSIGNAL) &&
		       runs_goroutines(s, (uint32_t)c->m_curg) >= 0;

	if (shown >= 0 && claimed && shown != c->m_curg)
		return CAL_NONE;
	return claimed ? c->m_curg : shown;
}

/* ---- numbers ---- */

static bool is_taken(const struct sight *s, size_t n, uint32_t offset)
{
	for (size_t i = 0; i < n; i++)
		if (m_word(&s->ms[i], offset) == m_word(&s->ms[n], offset))
			return true;
	return false;
}

/* Threads of the process, each once. Ms of C threads may name some that have ended. */
static bool fits_procid(struct sight *s, uint32_t offset)
{
	size_t agree = 0, strange = 0;

	for (size_t i = 0; i < s->n_ms; i++) {
		uint64_t id = m_word(&s->ms[i], offset);

		if (id == 0)
			continue;
		if (id > INT32_MAX || is_taken(s, i, offset))
			return false;
		if (target_tid_from_inner(s->t, (pid_t)id) > 0)
			agree++;
		else
			strange++;
	}
	return agree >= LEAST_MS && strange * 8 <= agree;
}

/* Each its own, m0 has 0. With few ms another counter may look so: then it stays unknown. */
static bool fits_id(struct sight *s, uint32_t offset)
{
	for (size_t i = 0; i < s->n_ms; i++) {
		uint64_t id = m_word(&s->ms[i], offset);

		if (id > ID_MAX || is_taken(s, i, offset) || (id == 0) != (i + 1 == s->n_ms))
			return false;
	}
	return s->n_ms > LEAST_MS;
}

/* ---- locked ones ---- */

static const struct seen_m *m_at(const struct sight *s, gaddr_t at)
{
	for (size_t i = 0; i < s->n_ms; i++)
		if (s->ms[i].at == at)
			return &s->ms[i];
	return NULL;
}

static bool names(const struct seen_m *m, gaddr_t g, int32_t but)
{
	for (uint32_t o = 0; o + 8 <= m->len; o += 8)
		if ((int32_t)o != but && m_word(m, o) == g)
			return true;
	return false;
}

/* Goroutine and m name each other, and not because it runs there. */
static enum opinion is_lock(struct sight *s, const struct seen_g *g, uint32_t offset)
{
	gaddr_t at = g_word(g, (int32_t)offset);
	const struct seen_m *m = m_at(s, at);

	if (!at)
		return NEUTRAL;
	if ((int32_t)offset == cal_offset(s, GO_G_M))
		return CONTRADICTS;
	if (!m)
		return s->n_ms < CAL_MS ? CONTRADICTS : NEUTRAL;
	return names(m, g->at, cal_offset(s, GO_M_CURG)) ? AGREES : CONTRADICTS;
}

static bool fits_lockedm(struct sight *s, uint32_t offset)
{
	return cal_gs_agree(s, offset, 8, 1, is_lock);
}

/* ---- by code ---- */

/* Nothing in any m, or an address. (The claim may be anything, and the end of an m is not known.) */
static bool holds_addresses(struct sight *s, int32_t at)
{
	if (at < 0 || at % 8 || at + 8 > GO_SPANS_MAX)
		return false;
	for (size_t i = 0; i < s->n_ms; i++) {
		uint64_t w;

		if (!cal_read_word(&s->reads, s->ms[i].at + (uint64_t)at, &w) || w >= 1ull << 47)
			return false;
	}
	return true;
}

/* The vDSO's callers compare with curg, so what they call an m is one. */
static void take_vdso(struct sight *s)
{
	const struct code_claims *c = &s->claims;

	if (c->vdso_curg < 0 || c->vdso_curg != cal_offset(s, GO_M_CURG) ||
	    !holds_addresses(s, c->m_vdso_sp) || !holds_addresses(s, c->m_vdso_pc))
		return;
	(void)cal_set(s, GO_M_VDSOSP, c->m_vdso_sp, 8);
	(void)cal_set(s, GO_M_VDSOPC, c->m_vdso_pc, 8);
}

/* A count of calls of C: small, and 0 wherever no goroutine is in one. */
static void take_ncgo(struct sight *s)
{
	int32_t at = s->claims.m_ncgo;

	if (at < 0 || at % 4 || at + 4 > CAL_M_BYTES / 2)
		return;
	for (size_t i = 0; i < s->n_ms; i++) {
		int32_t n;

		memcpy(&n, s->ms[i].bytes + at, sizeof(n));
		if (n < 0 || n > UINT16_MAX)
			return;
	}
	(void)cal_set(s, GO_M_NCGO, at, 4);
}

/* ---- all of them ---- */

static enum verdict lacks(struct sight *s, const char *what)
{
	s->missing = what;
	return MISFIT;
}

enum verdict cal_ms(struct sight *s)
{
	size_t length;
	int32_t link = find_list(s, &length), g0;

	if (!s->allm)
		return lacks(s, "runtime.allm");
	if (!cal_set(s, GO_M_ALLLINK, link, 8) || !read_ms(s, link, length))
		return lacks(s, "m.alllink");
	g0 = find_g0(s);
	if (!cal_set(s, GO_M_G0, g0, 8) || !read_g0s(s, g0))
		return lacks(s, "m.g0");
	if (!cal_set(s, GO_G_M, cal_only(s, CAL_G_BYTES, 8, fits_g_m), 8))
		return lacks(s, "g.m");
	if (!cal_set(s, GO_M_PROCID, cal_only(s, CAL_M_BYTES / 2, 8, fits_procid), 8))
		return lacks(s, "m.procid");
	(void)cal_set(s, GO_M_GSIGNAL, cal_only(s, CAL_M_BYTES / 2, 8, fits_gsignal), 8);
	if (!cal_set(s, GO_M_CURG, find_curg(s), 8))
		return lacks(s, "m.curg");
	(void)cal_set(s, GO_M_ID, cal_only(s, CAL_M_BYTES / 2, 8, fits_id), 8);
	(void)cal_set(s, GO_G_LOCKEDM, cal_only(s, CAL_G_BYTES, 8, fits_lockedm), 8);
	take_vdso(s);
	take_ncgo(s);
	return FITS;
}
