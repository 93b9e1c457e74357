/*
 * info.c: goprof info: what goprof can tell of a program or a process, and from which source each
 * fact came. The answer to "why does it not work here" and the first thing to ask for in a report
 * of a bug. Everything goes to stdout; nothing of the target is touched or stopped.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/refused.h"
#include "cmd/summary.h"
#include "cmd/words.h"
#include "go/go.h"
#include "image/image.h"
#include "target/facility.h"
#include "target/target.h"

enum { VALUE_COLUMN = 30 };

struct info {
	const struct options *o;
	struct target *target;		/* NULL for a file */
	struct go_process *go;
	struct image *image;		/* NULL when it cannot be read */
	int fd;
	struct buf text;
};

static void info_deinit(struct info *i)
{
	image_close(i->image);
	go_process_close(i->go);
	target_close(i->target);
	if (i->fd >= 0)
		close(i->fd);
	buf_deinit(&i->text);
}

/* "  name            value" */
static void __attribute__((format(printf, 3, 4))) fact(struct info *i, const char *name,
							const char *fmt, ...)
{
	_cleanup_free_ char *value = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&value, fmt, ap);
	va_end(ap);
	if (n < 0) {
		value = NULL;
		i->text.failed = true;
		return;
	}
	buf_addf(&i->text, "  %-26s  ", name);
	summary_wrap(&i->text, VALUE_COLUMN, VALUE_COLUMN, value);
	buf_addc(&i->text, '\n');
}

/* ---- the program ---- */

static const char *machine_text(unsigned int machine, char *buf, size_t cap)
{
	static const struct {
		unsigned int machine;
		const char *name;
	} v[] = {
		{ EM_X86_64, "x86-64" }, { EM_AARCH64, "arm64" }, { EM_386, "32-bit x86" },
		{ EM_ARM, "32-bit arm" }, { EM_RISCV, "riscv64" },
	};

	snprintf(buf, cap, "ELF machine %u", machine);
	for (size_t k = 0; k < sizeof(v) / sizeof(v[0]); k++)
		if (v[k].machine == machine)
			return v[k].name;
	return buf;
}

static const char *known(const char *s)
{
	return *s ? s : "unknown";
}

static void build_facts(struct info *i, const struct go_runtime *rt)
{
	const struct go_build *b = go_runtime_build(rt);
	char value[256];
	static const char *const settings[] = {
		"-buildmode", "CGO_ENABLED", "-ldflags", "-trimpath", "vcs.revision", "vcs.time",
		"vcs.modified",
	};

	if (i->target)
		fact(i, "Go found in", "%s", go_runtime_where(rt));
	fact(i, "Go version", "%s   (%s)", known(b->version),
	     b->has_buildinfo ? "build information" : "the runtime's version string");
	fact(i, "main package", "%s", known(b->path));
	fact(i, "main module", "%s %s", known(b->main_module), b->main_version);
	for (size_t k = 0; k < sizeof(settings) / sizeof(settings[0]); k++)
		if (go_build_setting(b, settings[k], value, sizeof(value)))
			fact(i, settings[k], "%s", value);
}

static void image_facts(struct info *i)
{
	static const char *const names[] = { "runtime.main" };
	struct image_symbol sym;
	struct go_runtime *rt = i->go ? go_process_runtime(i->go, 0) : NULL;
	struct image *img = rt ? go_runtime_image(rt) : i->image;
	char id[128], machine[32];
	struct error *err;

	if (!img)
		return;
	fact(i, "addresses", "%s, %s", image_is_dyn(img) ? "position independent" : "fixed",
	     machine_text(image_machine(img), machine, sizeof(machine)));
	err = image_find_symbols(img, names, 1, &sym);
	fact(i, "symbol table", "%s", err ? "none (stripped)" : sym.addr ? "present" : "without Go's");
	error_free(err);
	err = image_build_id(img, id, sizeof(id));
	fact(i, "build id", "%s", err ? "none" : id);
	error_free(err);
}

static void module_facts(struct info *i, const struct go_runtime *rt)
{
	uint32_t unread, n = go_runtime_modules(rt, &unread);

	if (unread)
		fact(i, "modules", "%u, and %u that cannot be read", n, unread);
	else if (n > 1)
		fact(i, "modules", "%u (plugins bring their own)", n);
}

static void global_facts(struct info *i, const struct go_runtime *rt)
{
	const struct go_global_at *at = go_runtime_globals(rt);

	for (int g = 0; g < GO_GLOBAL_COUNT; g++) {
		if (at[g].addr)
			fact(i, go_global_name(g), "0x%llx   (%s)", (unsigned long long)at[g].addr,
			     go_source_name(at[g].source));
		else
			fact(i, go_global_name(g), "not found");
	}
}

/* ---- layouts and what follows from them ---- */

static const char *const field_names[GO_FIELD_COUNT] = {
#define X(name, strct, member) [GO_##name] = strct "." member,
#include "go/layout_fields.inc"
#undef X
};

static void field_facts(struct info *i, const struct go_layout *l)
{
	for (int f = 0; f < GO_FIELD_COUNT; f++) {
		if (go_has(l, f))
			fact(i, field_names[f], "offset %d, %u bytes   (%s)", l->f[f].offset,
			     l->f[f].size, go_source_name(l->f[f].source));
		else
			fact(i, field_names[f], l->f[f].source == GO_SOURCE_NONE ? "unknown" : "not in this version");
	}
}

static bool uses(const struct go_layout *l, enum go_source source)
{
	for (int f = 0; f < GO_MD_SIZE; f++)
		if (go_has(l, f) && l->f[f].source == source)
			return true;
	return false;
}

/* Where the members of g and m come from; what was tried before is not told. */
static void layout_fact(struct info *i, const struct go_runtime *rt)
{
	const struct go_layout *l = go_runtime_layout(rt);
	const struct go_build *b = go_runtime_build(rt);
	const char *origin = go_layout_row_origin(b->minor, b->patch);
	bool proved = uses(l, GO_SOURCE_CALIBRATED), dwarf = uses(l, GO_SOURCE_DWARF);

	if (uses(l, GO_SOURCE_ROW))
		fact(i, "layout", "row read from %s%s", origin ? origin : "another version",
		     origin && strcmp(origin, b->version) == 0 ? ", this very version" : "");
	else if (proved || dwarf)
		fact(i, "layout", "%s%s%s", proved ? "proved in the process" : "",
		     proved && dwarf ? ", completed by " : "", dwarf ? "debug information" : "");
	else
		fact(i, "layout", "%s", origin ? "the row of this version does not fit" : "no row for this version");
}

static void layout_facts(struct info *i, struct go_runtime *rt)
{
	struct error *err;

	if (i->target) {
		err = go_runtime_check(rt);
		if (err == &err_end)
			fact(i, "checked", "the runtime is not up yet");
		else if (err)
			fact(i, "checked", "does not fit: %s%s%s", err->what, err->why ? ": " : "",
			     err->why ? err->why : "");
		else if (go_runtime_restricted(rt))
			fact(i, "checked", "RESTRICTED to on-CPU stacks of threads: %s", go_runtime_restricted(rt));
		else
			fact(i, "checked", "fits this process");
		error_free(err);
	}
	layout_fact(i, rt);
	if (i->o->verbose)
		field_facts(i, go_runtime_layout(rt));
}

static const struct {
	uint32_t bit;
	const char *name;
} caps[] = {
	{ GO_CAP_PCLNTAB, "functions" }, { GO_CAP_G_LAYOUT, "goroutine layout" },
	{ GO_CAP_ALLGS, "all goroutines" }, { GO_CAP_ALLM, "threads" }, { GO_CAP_LABELS, "labels" },
	{ GO_CAP_WAITREASON_NAMES, "wait reasons" }, { GO_CAP_TRACKINGSEQ, "park counter" },
	{ GO_CAP_PARENT_GOID, "parents" }, { GO_CAP_SCHED, "scheduler" }, { GO_CAP_MEMSTATS, "memory" },
};

static void capability_facts(struct info *i, const struct go_runtime *rt)
{
	_cleanup_(buf_deinit) struct buf has = { 0 }, lacks = { 0 };
	uint32_t bits = go_runtime_caps(rt);

	/* Before a running process was checked nothing but the functions is certain. */
	if (!i->target) {
		fact(i, "the rest", "is checked in a running process: goprof info PID");
		return;
	}
	buf_init(&has);
	buf_init(&lacks);
	for (size_t k = 0; k < sizeof(caps) / sizeof(caps[0]); k++) {
		struct buf *b = bits & caps[k].bit ? &has : &lacks;

		buf_addf(b, "%s%s", b->len ? ", " : "", caps[k].name);
	}
	fact(i, "can tell", "%s", has.len ? has.data : "nothing");
	if (lacks.len)
		fact(i, "cannot tell", "%s", lacks.data);
}

/* What scripts/check runs (TestMatrix); change it together with it. */
static const char tested_versions[] = "all that a toolchain can be had for, at every change";

static void version_facts(struct info *i)
{
	_cleanup_(buf_deinit) struct buf b = { 0 };

	buf_init(&b);
	go_versions_text(&b);
	fact(i, "Go versions known", "%s", b.data ? b.data : "");
	fact(i, "of these tested", "%s", tested_versions);
}

/* ---- permissions ---- */

static bool read_line(const char *path, const char *key, char *buf, size_t cap)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	size_t len = strlen(key);

	while (f && fgets(buf, (int)cap, f)) {
		buf[strcspn(buf, "\n")] = 0;
		if (strncmp(buf, key, len) != 0)
			continue;
		memmove(buf, buf + len, strlen(buf + len) + 1);
		memmove(buf, buf + strspn(buf, " \t"), strlen(buf + strspn(buf, " \t")) + 1);
		return true;
	}
	return false;
}

enum { CAP_BIT_SYS_PTRACE = 19 };

static void permission_facts(struct info *i)
{
	struct utsname host;
	char line[256], uid[256];

	if (uname(&host) == 0)
		fact(i, "kernel", "%s %s", host.release, host.machine);
	if (read_line("/proc/self/status", "CapEff:", line, sizeof(line)))
		fact(i, "CAP_SYS_PTRACE", "%s",
		     strtoull(line, NULL, 16) >> CAP_BIT_SYS_PTRACE & 1 ? "yes" : "no");
	fact(i, "ptrace_scope", "%s", read_line("/proc/sys/kernel/yama/ptrace_scope", "", line,
						sizeof(line)) ? line : "none (no Yama)");
	if (!i->target)
		return;
	snprintf(line, sizeof(line), "/proc/%d/status", (int)target_pid(i->target));
	if (read_line(line, "Uid:", uid, sizeof(uid)))
		fact(i, "user", "%lu; goprof runs as %u", strtoul(uid, NULL, 10), (unsigned)geteuid());
	fact(i, "memory", "may be read");
}

/* ---- facilities ---- */

static void facility_fact(struct info *i, enum facility_id id, const struct facility_result *v)
{
	const struct facility_result *r = &v[id];
	char step[WORD_MAX];

	if (r->untried)
		fact(i, facility_name(id), "not tried: it needs %s", facility_name(
		     v[FACILITY_SEIZE].ok ? FACILITY_INTERRUPT : FACILITY_SEIZE));
	else if (r->errnum == ETIMEDOUT)
		fact(i, facility_name(id), "not known: no answer in time, the machine may be busy");
	else if (!r->ok)
		fact(i, facility_name(id), "missing (%s): %s",
		     r->errnum ? strerror(r->errnum) : "it answers, but not as it should", facility_loss(id));
	else if (id == FACILITY_CLOCK)
		fact(i, facility_name(id), "ok, moves in steps of %s", instant_text(r->ns, step));
	else if (id == FACILITY_PERF)
		fact(i, facility_name(id), "ok, looks at threads on a CPU need no stops");
	else
		fact(i, facility_name(id), "ok");
}

/* ERROR_FACILITY when something is missing without which nothing goes. */
static struct error *facility_facts(struct info *i)
{
	struct facility_result v[FACILITY_COUNT];
	struct error *err = facility_test(v);

	if (err)
		return err;
	for (int id = 0; id < FACILITY_COUNT; id++)
		facility_fact(i, (enum facility_id)id, v);
	return facility_judge(v);
}

/* ---- the command ---- */

static struct error *open_process(struct info *i, const char *word)
{
	int fd;
	pid_t pid;
	struct error *err = pid_read(i->o->command, word, &pid);

	if (!err)
		err = target_open_live(pid, &i->target);

	if (err)
		return err;
	fact(i, "process", "%d (%s)", (int)pid, target_exe_path(i->target));
	err = target_exe_fd(i->target, &fd);
	if (!err)
		err = image_open_fd(fd, &i->image);
	error_free(err);
	return go_process_open(i->target, &(struct go_options){ .runtime = i->o->runtime }, &i->go);
}

static const char *kind_text(mode_t mode)
{
	return S_ISDIR(mode) ? "directory" : S_ISFIFO(mode) ? "pipe" : S_ISSOCK(mode) ? "socket" : "device";
}

/* A word that is neither a pid nor a file may be the name of a program that runs. */
static struct error *no_file(const struct info *i, const char *path, int number)
{
	_cleanup_(buf_deinit) struct buf word = { 0 };
	struct error *err;

	if (number != ENOENT)
		return error_new(number == EACCES ? ERROR_DENIED : ERROR_NO_PROCESS, "cannot read %s: %s",
				 path, number == ENXIO ? "it is a socket" : strerror(number));
	err = error_new(ERROR_NO_PROCESS, "there is no file %s", path);
	if (strchr(path, '/') || *path == '-')
		return err;
	buf_init(&word);
	shell_word_add(&word, path);
	return buf_error(&word) ? err : error_todo(err, "goprof %s \"$(pgrep -n %s)\"",
						   i->o->command->name, word.data);
}

static struct error *open_file(struct info *i, const char *path)
{
	_cleanup_close_ int fd = -1;
	struct error *err;
	struct stat st;

	if (!*path)
		return error_new(ERROR_USAGE, "cannot read '': the name is empty");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) != 0)
		return no_file(i, path, errno);
	if (!S_ISREG(st.st_mode))
		return error_new(ERROR_NOT_GO, "cannot read %s: it is a %s", path, kind_text(st.st_mode));
	i->fd = fd;
	fd = -1;
	fact(i, "file", "%s", path);
	err = image_open_fd(i->fd, &i->image);
	error_free(err);
	err = go_process_open_file(i->fd, &i->go);
	return !err || error_reword(err, "the file", path) ? err : error_wrap(err, "%s", path);
}

static void runtime_facts(struct info *i)
{
	size_t n = i->go ? go_process_runtimes(i->go) : 0;

	for (size_t k = 0; k < n; k++) {
		struct go_runtime *rt = go_process_runtime(i->go, k);

		if (n > 1)
			fact(i, "runtime", "%zu of %zu", k + 1, n);
		build_facts(i, rt);
		layout_facts(i, rt);
		module_facts(i, rt);
		global_facts(i, rt);
		capability_facts(i, rt);
	}
}

/* goprof info: what can be done here, whatever the target. */
static struct error *info_of_machine(struct info *i)
{
	struct error *err, *found;

	fact(i, "goprof", "%s", goprof_version());
	version_facts(i);
	permission_facts(i);
	found = facility_facts(i);
	err = print(&i->text);
	if (!found)
		return err;
	error_free(err);
	return found;
}

struct error *info_command(const struct options *o, int *status)
{
	_cleanup_(info_deinit) struct info i = { .o = o, .fd = -1 };
	const char *word = o->words[0];
	struct error *err, *found;
	uint64_t n;

	(void)status;
	buf_init(&i.text);
	if (!word)
		return info_of_machine(&i);
	/* A file with the name of a number is meant by a slash. */
	found = number_parse(word, &n) ? open_process(&i, word) : open_file(&i, word);
	if (found && found->kind == ERROR_NOT_GO && found->why)
		fact(&i, "Go program", "no: %s", found->why);
	runtime_facts(&i);
	image_facts(&i);
	version_facts(&i);
	permission_facts(&i);
	/* What is missing here is no fault of the program's: it is told, and no more. */
	if (i.target)
		error_free(facility_facts(&i));
	/* Of nothing there is nothing to tell. */
	err = i.target || i.fd >= 0 ? print(&i.text) : NULL;
	if (!found)
		return err;
	error_free(err);
	return found;
}
