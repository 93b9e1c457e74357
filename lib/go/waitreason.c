/*
 * waitreason.c: what the target itself calls its wait reasons.
 *
 * The numbers change from version to version, so the names are taken from the program's own table
 * of strings (runtime.waitReasonStrings), once, at the first question. The table is never written,
 * so the file is asked first; the process is asked when the file's copy makes no sense (a packed
 * program). An entry that is no short printable text ends the table: what lies behind it belongs
 * to another variable.
 *
 * Upstream: src/runtime/runtime2.go (waitReasonStrings).
 */
#include <string.h>

#include "go/go_impl.h"

enum { TEXT_MAX = 64 };

struct go_string {
	uint64_t ptr, len;
};

/* Where the bytes of the table and of its strings come from. */
struct source {
	struct error *(*table)(const struct go_runtime *rt, gaddr_t at, void *buf, size_t len);
	struct error *(*text)(const struct go_runtime *rt, gaddr_t at, void *buf, size_t len);
};

static struct error *file_table(const struct go_runtime *rt, gaddr_t at, void *buf, size_t len)
{
	const struct go_module *m = &rt->modules[0];

	return image_read_relocated(m->image, at - m->bias, buf, len);
}

/* Pointers in a file are link-time addresses already. */
static struct error *file_text(const struct go_runtime *rt, gaddr_t at, void *buf, size_t len)
{
	return image_read(rt->modules[0].image, at, buf, len);
}

static struct error *live_table(const struct go_runtime *rt, gaddr_t at, void *buf, size_t len)
{
	return rt->process->target ? target_read(rt->process->target, at, buf, len) : &err_fault;
}

/* Texts are constants: from the file if it has them, to spare the process's memory. */
static struct error *live_text(const struct go_runtime *rt, gaddr_t at, void *buf, size_t len)
{
	struct error *err = file_text(rt, at - rt->modules[0].bias, buf, len);

	if (!err)
		return NULL;
	error_free(err);
	return live_table(rt, at, buf, len);
}

static const struct source sources[] = {
	{ file_table, file_text },
	{ live_table, live_text },
};

static bool is_text(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (s[i] < ' ' || s[i] > '~')
			return false;
	return true;
}

/* The text of one entry; false when it is none. Only reason 0 ("not waiting") has an empty one. */
static bool read_entry(struct go_runtime *rt, const struct source *src, uint32_t i, const char **ret)
{
	gaddr_t at = rt->globals[GO_WAITREASON_STRINGS].addr + i * sizeof(struct go_string);
	char text[TEXT_MAX];
	struct go_string s;
	struct error *err = src->table(rt, at, &s, sizeof(s));

	if (!err && (s.len > TEXT_MAX || (s.len == 0) != (i == 0)))
		return false;
	if (!err && s.len)
		err = src->text(rt, s.ptr, text, s.len);
	if (err) {
		error_free(err);
		return false;
	}
	if (!is_text(text, s.len))
		return false;
	*ret = arena_strndup(&rt->strings, text, s.len);
	return *ret != NULL;
}

static uint32_t read_table(struct go_runtime *rt, const struct source *src)
{
	/* The length is the version's only if its row fits. */
	uint32_t known = rt->has_layout ? go_layout_wait_reasons(rt->build.minor, rt->build.patch) : 0, n = 0;
	uint32_t most = known && known < GO_WAIT_REASONS_MAX ? known : GO_WAIT_REASONS_MAX;

	while (n < most && read_entry(rt, src, n, &rt->wait_reasons[n]))
		n++;
	return n;
}

const char *go_wait_reason(struct go_runtime *rt, uint8_t reason)
{
	if (!rt->wait_reasons_read) {
		rt->wait_reasons_read = true;
		rt->n_wait_reasons = 0;
		/* One entry is the empty text of reason 0: as good as nothing. */
		for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]) && rt->n_wait_reasons <= 1 &&
				   rt->globals[GO_WAITREASON_STRINGS].addr && rt->n_modules; i++)
			rt->n_wait_reasons = read_table(rt, &sources[i]);
	}
	return reason < rt->n_wait_reasons ? rt->wait_reasons[reason] : NULL;
}
