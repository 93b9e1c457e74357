/*
 * core_stacks.c: every core of test/cores gives the dump that stands beside it. The dumps were
 * compared with the runtime's own when the cores were made (scripts/make-core), so this holds the
 * whole chain from notes to text against each Go version and each way a stack can be switched:
 * in seconds, without a Go toolchain, without privilege, under the sanitizers.
 *
 * A core holds only what goprof read when it was made. When goprof reads more, or its text changes
 * on purpose, it is made anew: scripts/make-core --all NAME, which asks the runtime again.
 *
 * Then the same cores in pieces and with damage: no crash, no hang, whatever the answer is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <elf.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "cores/core_text.h"
#include "target/core.h"

enum { CORES_LEAST = 20, LENGTHS = 50, DAMAGED = 40, BYTES_DAMAGED = 24 };

/* A core and its program in memory files, open by the names that stand for the descriptors. */
struct pair {
	const char *stem;
	int core, exe;
	char core_path[32], exe_path[32];
	size_t core_size;
};

static glob_t stems;

/* "DIR/NAME.core.gz" of all cores; the folder is found from where the test stands or is started. */
static int find_cores(void **state)
{
	static const char *const places[] = { "test/cores/*.core.gz", "../test/cores/*.core.gz" };

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (glob(places[i], 0, NULL, &stems) == 0)
			return 0;
	fail_msg("no cores: the test is started at the top of the source tree");
	return -1;
}

static int forget_cores(void **state)
{
	(void)state;
	globfree(&stems);
	return 0;
}

static int unpack(const char *stem, const char *suffix, size_t *size)
{
	char path[600];
	uint8_t bytes[16 * 1024];
	int fd = memfd_create("core", MFD_CLOEXEC), n;
	gzFile in;

	snprintf(path, sizeof(path), "%s.%s.gz", stem, suffix);
	in = gzopen(path, "rb");
	assert_non_null(in);
	assert_true(fd >= 0);
	*size = 0;
	while ((n = gzread(in, bytes, sizeof(bytes))) > 0) {
		assert_int_equal(write(fd, bytes, (size_t)n), n);
		*size += (size_t)n;
	}
	assert_int_equal(n, 0);
	gzclose(in);
	return fd;
}

static void pair_open(struct pair *p, const char *path)
{
	static char stem[512];
	size_t exe_size;

	snprintf(stem, sizeof(stem), "%.*s", (int)(strlen(path) - strlen(".core.gz")), path);
	p->stem = stem;
	p->core = unpack(stem, "core", &p->core_size);
	p->exe = unpack(stem, "exe", &exe_size);
	snprintf(p->core_path, sizeof(p->core_path), "/proc/self/fd/%d", p->core);
	snprintf(p->exe_path, sizeof(p->exe_path), "/proc/self/fd/%d", p->exe);
}

static void pair_close(struct pair *p)
{
	close(p->core);
	close(p->exe);
}

static char *text_of(const char *stem, const char *suffix)
{
	char path[600];
	char *text;
	FILE *f;
	long size = -1;

	snprintf(path, sizeof(path), "%s.%s.txt", stem, suffix);
	f = fopen(path, "re");
	if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0)
		fail_msg("cannot read %s", path);
	rewind(f);
	text = calloc(1, (size_t)size + 1);
	assert_non_null(text);
	assert_int_equal(fread(text, 1, (size_t)size, f), size);
	fclose(f);
	return text;
}

/* The first line that differs is what helps. */
static void same_text(const char *stem, const char *what, const char *want, const struct buf *got)
{
	const char *a = want, *b = got->data ? got->data : "";
	unsigned int line = 1;

	for (; *a && *a == *b; a++, b++)
		line += *a == '\n';
	if (*a == *b)
		return;
	while (a > want && a[-1] != '\n') {
		a--;
		b--;
	}
	fail_msg("%s: %s, line %u: \"%.*s\", want \"%.*s\"", stem, what, line, (int)strcspn(b, "\n"), b,
		 (int)strcspn(a, "\n"), a);
}

static void fail_on(const char *stem, struct error *err)
{
	if (err)
		fail_msg("%s: %s (%s)", stem, err->what, err->why ? err->why : "-");
}

static void check_pair(const struct pair *p)
{
	char *stacks = text_of(p->stem, "stacks"), *frames = text_of(p->stem, "frames");
	struct core_text got = { .goroutines = 0 };
	struct core_facts facts;
	struct target *t;

	fail_on(p->stem, target_open_core(p->core_path, p->exe_path, &t));
	assert_true(target_is_core(t));
	fail_on(p->stem, core_text_make(t, &got));
	same_text(p->stem, "stacks", stacks, &got.stacks);
	same_text(p->stem, "frames", frames, &got.frames);
	assert_true(target_core_facts(t, &facts));
	assert_true(facts.threads > 1 && !facts.foreign_tids && !facts.exe_why);
	assert_true(facts.missing_bytes == 0 && facts.skipped == 0);
	core_text_deinit(&got);
	target_close(t);
	free(stacks);
	free(frames);
}

static void test_dumps(void **state)
{
	(void)state;
	assert_true(stems.gl_pathc >= CORES_LEAST);
	for (size_t i = 0; i < stems.gl_pathc; i++) {
		struct pair p;

		pair_open(&p, stems.gl_pathv[i]);
		check_pair(&p);
		pair_close(&p);
	}
}

/* ---- in pieces ---- */

/* Any answer will do but a crash. Returns how many goroutines were told; 0 with an error. */
static uint32_t ask(const struct pair *p, struct core_facts *facts)
{
	struct core_text got = { .goroutines = 0 };
	struct target *t;
	struct error *err = target_open_core(p->core_path, p->exe_path, &t);

	if (err) {
		error_free(err);
		return 0;
	}
	err = core_text_make(t, &got);
	target_core_facts(t, facts);
	error_free(err);
	core_text_deinit(&got);
	target_close(t);
	return err ? 0 : got.goroutines;
}

/* The cuts go from everything to nothing; what is missing is told, and less never tells more. */
static void cut(struct pair *p)
{
	struct core_facts facts = { 0 };
	uint32_t whole = ask(p, &facts), before = whole;

	assert_true(whole > 0);
	for (size_t i = 1; i <= LENGTHS; i++) {
		size_t size = p->core_size - p->core_size * i / LENGTHS;
		uint32_t n;

		facts = (struct core_facts){ 0 };
		assert_int_equal(ftruncate(p->core, (off_t)size), 0);
		n = ask(p, &facts);
		assert_true(n <= before);
		assert_true(n == 0 || facts.missing_bytes > 0);
		before = n;
	}
	assert_int_equal(before, 0);
}

static void test_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < stems.gl_pathc; i++) {
		struct pair p;

		pair_open(&p, stems.gl_pathv[i]);
		cut(&p);
		pair_close(&p);
	}
}

/* ---- damaged ---- */

static uint64_t next_random(uint64_t *seed)
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Damages some bytes, asks, and puts them back. Headers are hit as often as all the rest. */
static void damage(const struct pair *p, int fd, size_t size, uint64_t *seed)
{
	struct core_facts facts;
	size_t at[BYTES_DAMAGED];
	uint8_t was[BYTES_DAMAGED], bad;

	for (size_t i = 0; i < BYTES_DAMAGED; i++) {
		at[i] = next_random(seed) % (i % 2 && size > 8192 ? 8192 : size);
		assert_int_equal(pread(fd, &was[i], 1, (off_t)at[i]), 1);
		bad = (uint8_t)next_random(seed);
		assert_int_equal(pwrite(fd, &bad, 1, (off_t)at[i]), 1);
	}
	ask(p, &facts);
	for (size_t i = BYTES_DAMAGED; i-- > 0;)
		assert_int_equal(pwrite(fd, &was[i], 1, (off_t)at[i]), 1);
}

static void test_damaged(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (size_t i = 0; i < stems.gl_pathc; i += 3) {
		struct core_facts facts;
		struct pair p;
		off_t exe_size;

		pair_open(&p, stems.gl_pathv[i]);
		exe_size = lseek(p.exe, 0, SEEK_END);
		for (int k = 0; k < DAMAGED / 2; k++) {
			damage(&p, p.core, p.core_size, &seed);
			damage(&p, p.exe, (size_t)exe_size, &seed);
		}
		assert_true(ask(&p, &facts) > 0);	/* all was put back */
		pair_close(&p);
	}
}

/* ---- a list without an end ---- */

/* Where the core holds these 8 bytes. */
static off_t place_in_core(const struct pair *p, gaddr_t addr)
{
	Elf64_Ehdr h;
	Elf64_Phdr v;

	assert_int_equal(pread(p->core, &h, sizeof(h), 0), sizeof(h));
	for (unsigned int i = 0; i < h.e_phnum; i++) {
		off_t at = (off_t)(h.e_phoff + i * sizeof(v));

		assert_int_equal(pread(p->core, &v, sizeof(v), at), sizeof(v));
		if (v.p_type == PT_LOAD && addr >= v.p_vaddr && addr - v.p_vaddr + 8 <= v.p_filesz)
			return (off_t)(v.p_offset + (addr - v.p_vaddr));
	}
	fail_msg("the core does not hold 0x%llx", (unsigned long long)addr);
	return -1;
}

/* The head of allm, and where the last m says that none follows. */
static void find_list(const struct pair *p, gaddr_t *first, off_t *last)
{
	struct go_process *process;
	struct go_runtime *rt;
	struct target *t;
	gaddr_t link, next;

	assert_null(target_open_core(p->core_path, p->exe_path, &t));
	assert_null(go_process_open(t, &(struct go_options){ .strict = true }, &process));
	rt = go_process_runtime(process, 0);
	assert_null(target_read_u64(t, go_runtime_globals(rt)[GO_ALLM].addr, first));
	for (next = *first; next;) {
		link = next + (gaddr_t)go_runtime_layout(rt)->f[GO_M_ALLLINK].offset;
		assert_null(target_read_u64(t, link, &next));
	}
	*last = place_in_core(p, link);
	go_process_close(process);
	target_close(t);
}

static uint32_t threads_read(const struct pair *p)
{
	struct sampler_parts parts = { .clock = &system_clock };
	struct go_process *process;
	struct snapshot *snap;
	uint32_t n;

	assert_null(target_open_core(p->core_path, p->exe_path, &parts.target));
	assert_null(go_process_open(parts.target, &(struct go_options){ .strict = true }, &process));
	parts.runtime = go_process_runtime(process, 0);
	assert_null(snapshot_take(&parts, CORE_TEXT_DEPTH, &snap));
	n = snap->threads_held;
	snapshot_free(snap);
	go_process_close(process);
	target_close(parts.target);
	return n;
}

/* Each thread is read once, also where the last one leads back to the first. */
static void test_endless_list(void **state)
{
	struct pair p;
	gaddr_t first;
	off_t last;
	uint32_t n;

	(void)state;
	pair_open(&p, stems.gl_pathv[0]);
	n = threads_read(&p);
	assert_true(n > 0);
	find_list(&p, &first, &last);
	assert_int_equal(pwrite(p.core, &first, sizeof(first), last), sizeof(first));
	assert_int_equal(threads_read(&p), n);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dumps),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_endless_list),
	};

	return cmocka_run_group_tests(tests, find_cores, forget_cores);
}
