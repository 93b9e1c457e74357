/*
 * goroutine_text.c: the form of a goroutine in a traceback, of each Go version.
 *
 * What differs between versions: up to 1.20 the first hundred physical frames are walked and the
 * rest is left out; from 1.21 the innermost and the outermost fifty are shown. "in goroutine N"
 * comes with the parent's id (1.21). Labels stand where 1.27 prints them. Argument words cannot be
 * known from outside, hence "(...)", or "()" where the tables say that there are none. What goprof adds of its own stands in parentheses
 * on an indented line.
 *
 * Must not know processes; reads nothing but its input.
 *
 * Upstream: src/runtime/traceback.go (goroutineheader, traceback1, traceback2, printcreatedby1),
 * print.go (printquoted).
 */
#include "cmd/goroutine_text.h"

#include <string.h>

#include "unwind/unwind.h"

enum {
	FRAMES_INNER = 50, FRAMES_OUTER = 50,
	FRAMES_LEGACY = 100,		/* physical ones, up to Go 1.20 */
	MINOR_SHORTENS_MIDDLE = 21,
};

static const char elided[] = "...additional frames elided...\n";

/* ---- labels ---- */

static bool is_plain(const char *s, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		char c = s[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '.' || c == '/' || c == '_'))
			return false;
	}
	return true;
}

/* Length of the well-formed UTF-8 character at s, its number in *rune; 0 when there is none. */
static unsigned int rune_at(const unsigned char *s, uint32_t len, uint32_t *rune)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned int n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
	uint32_t r = n < 2 ? s[0] : s[0] & (0x7fu >> n);

	if (!n || n > len)
		return 0;
	for (unsigned int i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		r = r << 6 | (s[i] & 0x3f);
	}
	if (r < least[n] || r > 0x10ffff || (r >= 0xd800 && r < 0xe000))
		return 0;
	*rune = r;
	return n;
}

static void add_rune(struct buf *out, uint32_t r)
{
	static const char escapes[128] = { ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't', ['\\'] = '\\', ['"'] = '"' };

	if (r < 128 && escapes[r])
		buf_addf(out, "\\%c", escapes[r]);
	else if (r >= ' ' && r <= '~')
		buf_addc(out, (char)r);
	else if (r < 127)
		buf_addf(out, "\\x%02x", r);
	else
		buf_addf(out, r < 0x10000 ? "\\u%04x" : "\\U%08x", r);
}

static void add_label_text(struct buf *out, const char *s, uint32_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	uint32_t rune;

	if (is_plain(s, len)) {
		buf_add(out, s, len);
		return;
	}
	buf_addc(out, '"');
	for (uint32_t i = 0; i < len;) {
		unsigned int n = rune_at(p + i, len - i, &rune);

		if (n)
			add_rune(out, rune);
		else
			buf_addf(out, "\\x%02x", p[i]);
		i += n ? n : 1;
	}
	buf_addc(out, '"');
}

static void add_labels(struct buf *out, const struct goroutine_text_in *in)
{
	if (in->labels_unknown)
		buf_adds(out, " {?}");
	if (!in->n_labels)
		return;
	buf_adds(out, " {");
	for (size_t i = 0; i < in->n_labels; i++) {
		const struct go_label *l = &in->labels[i];

		if (i)
			buf_adds(out, ", ");
		add_label_text(out, l->key, l->key_len);
		buf_adds(out, ": ");
		add_label_text(out, l->value, l->value_len);
	}
	buf_addc(out, '}');
}

/* ---- header ---- */

static void add_header(struct buf *out, const struct goroutine_text_in *in)
{
	buf_addf(out, "goroutine %llu [%s", (unsigned long long)in->goid, in->status);
	if (in->leaked)
		buf_adds(out, " (leaked)");
	if (in->scan)
		buf_adds(out, " (scan)");
	if (in->minutes >= 1)
		buf_addf(out, ", %lld minutes", (long long)in->minutes);
	if (in->locked)
		buf_adds(out, ", locked to thread");
	buf_addc(out, ']');
	add_labels(out, in);
	buf_adds(out, ":\n");
}

/* ---- frames ---- */

static void add_place(struct buf *out, const char *file, uint32_t line, uint64_t offset)
{
	buf_addf(out, "\t%s:%u", *file ? file : "?", line);
	if (offset)
		buf_addf(out, " +0x%llx", (unsigned long long)offset);
	buf_addc(out, '\n');
}

/* The runtime's word for the call of a panic. */
static const char *printed_name(const struct symbol_frame *f)
{
	return strcmp(f->printed, "runtime.gopanic") ? f->printed : "panic";
}

/* A gap's frame has what the walk knew of it in place of an address. */
static struct pc_frame gap_of(const struct symbol_frame *f)
{
	return (struct pc_frame){ .pc = f->entry, .kind = PC_GAP };
}

static bool is_gap(const struct symbol_frame *f)
{
	return f->flags & FRAME_PSEUDO && !strcmp(f->function, "[gap]");
}

/* `more` frames besides those of the gap; NULL: there is no gap. */
static void add_elided(struct buf *out, const struct symbol_frame *gap, size_t more)
{
	const struct pc_frame missing = gap ? gap_of(gap) : (struct pc_frame){ .kind = PC_GAP };
	unsigned long long frames = pc_gap_frames(&missing), bytes = pc_gap_bytes(&missing);

	if (gap && !frames)
		buf_adds(out, elided);
	else
		buf_addf(out, "...%llu frames elided...\n", more + frames);
	if (bytes)
		buf_addf(out, "\t(%llu KiB of its stack between these frames were not read)\n", (bytes + 1023) / 1024);
}

static void add_pseudo(struct buf *out, const struct symbol_frame *f)
{
	if (is_gap(f)) {
		add_elided(out, f, 0);
		return;
	}
	if (!(f->flags & FRAME_NATIVE)) {
		buf_adds(out, elided);
		return;
	}
	buf_addf(out, "%s\n\tpc=0x%llx\n", strcmp(f->function, "[C]") ? f->function : "non-Go function",
		 (unsigned long long)f->entry);
}

static void add_frame(struct buf *out, const struct goroutine_text_in *in, size_t i)
{
	const struct symbol_frame *f = in->frames[i];

	if (f->flags & FRAME_PSEUDO) {
		add_pseudo(out, f);
		return;
	}
	buf_addf(out, "%s(%s)\n", printed_name(f), f->flags & FRAME_NO_ARGS ? "" : "...");
	add_place(out, f->abs_path, f->line, f->flags & FRAME_INLINED ? 0 : in->offsets[i]);
}

/* How many of the frames are looked at: all, or as many as old versions walk. */
static size_t frames_walked(const struct goroutine_text_in *in)
{
	size_t physical = 0, i = 0;

	if (in->go_minor >= MINOR_SHORTENS_MIDDLE)
		return in->n;
	while (i < in->n && physical < FRAMES_LEGACY)
		physical += !(in->frames[i++]->flags & FRAME_INLINED);
	return i;
}

static bool is_shown(const struct goroutine_text_in *in, size_t i, bool all)
{
	return all || symbol_shown(in->frames, in->n, i);
}

static size_t count_shown(const struct goroutine_text_in *in, size_t n, bool all)
{
	size_t shown = 0;

	for (size_t i = 0; i < n; i++)
		shown += is_shown(in, i, all);
	return shown;
}

/* In place of the shown frames numbered [from, to). */
static void add_left_out(struct buf *out, const struct goroutine_text_in *in, size_t n, bool all, size_t from,
			 size_t to)
{
	const struct symbol_frame *gap = NULL;
	size_t number = 0;

	for (size_t i = 0; i < n; i++) {
		if (!is_shown(in, i, all))
			continue;
		if (number >= from && number < to && is_gap(in->frames[i]))
			gap = in->frames[i];
		number++;
	}
	add_elided(out, gap, to - from - (gap ? 1 : 0));
}

/* Adds the shown frames but those numbered [skip_from, skip_to); SIZE_MAX: to the end, without a word. */
static void add_frames(struct buf *out, const struct goroutine_text_in *in, size_t n, bool all,
		       size_t skip_from, size_t skip_to)
{
	size_t number = 0;

	for (size_t i = 0; i < n; i++) {
		if (!is_shown(in, i, all))
			continue;
		if (number == skip_from && skip_to > skip_from && skip_to != SIZE_MAX)
			add_left_out(out, in, n, all, skip_from, skip_to);
		if (number < skip_from || number >= skip_to)
			add_frame(out, in, i);
		number++;
	}
}

/*
 * How many shown frames are left out behind the innermost ones: all but the outermost fifty, or,
 * where those are not known, everything behind the first hundred.
 */
static size_t frames_skipped(const struct goroutine_text_in *in, size_t shown)
{
	size_t most = FRAMES_INNER + FRAMES_OUTER;

	return in->go_minor >= MINOR_SHORTENS_MIDDLE && shown > most ? shown - most : 0;
}

static void add_stack(struct buf *out, const struct goroutine_text_in *in)
{
	size_t n = frames_walked(in), shown = count_shown(in, n, false), skip;
	bool all = !shown, whole = !in->cut && !in->missing;

	if (all)
		shown = n;
	skip = frames_skipped(in, shown);
	if (whole)
		add_frames(out, in, n, all, FRAMES_INNER, FRAMES_INNER + skip);
	else
		add_frames(out, in, n, all, shown - skip, SIZE_MAX);
	if (in->cut || (!whole && skip) ||
	    (in->go_minor < MINOR_SHORTENS_MIDDLE && shown == FRAMES_LEGACY))
		buf_adds(out, elided);
	else if (in->missing && n == in->n)
		buf_addf(out, "\t(the frames outside of these are missing: %s)\n", in->missing);
}

void goroutine_text(struct buf *out, const struct goroutine_text_in *in)
{
	const struct goroutine_text_creator *c = in->creator;

	add_header(out, in);
	if (in->no_stack)
		buf_addf(out, "\t%s\n", in->no_stack);
	else
		add_stack(out, in);
	if (!c)
		return;
	buf_addf(out, "created by %s", c->function);
	if (c->parent)
		buf_addf(out, " in goroutine %llu", (unsigned long long)c->parent);
	buf_addc(out, '\n');
	add_place(out, c->file, c->line, c->offset);
}
