/*
 * unwind_native.c: walks over the C frames of this very program, from copies of its registers and
 * its stack. The C library's own backtrace of the same place is the oracle. And images whose unwind
 * tables were damaged, mapped here as a loader would: a walk may end early, nothing more.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake/target_fake.h"
#include "unwind/native.h"

enum { FRAMES = 64, STACK_BYTES = 64 * 1024 };

/* A place in this program: registers and stack as a capture has them, and the oracle. */
struct place {
	struct native_start start;
	uint8_t stack[STACK_BYTES];
	struct mem_view view;
	void *oracle[FRAMES];
	int n_oracle;
};

struct world {
	pid_t pid;
	struct target *target;
	struct images *images;
	struct native *nv;
};

static struct place place;

static struct world open_world(void)
{
	struct world w = { .pid = fork() };

	/* A copy of this process has the same images at the same places; a process does not trace itself. */
	assert_true(w.pid >= 0);
	if (!w.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_null(target_open_live(w.pid, &w.target));
	assert_null(images_create(w.target, &w.images));
	assert_null(native_create(w.images, &w.nv));
	return w;
}

static void close_world(struct world *w)
{
	native_destroy(w->nv);
	images_destroy(w->images);
	target_close(w->target);
	kill(w->pid, SIGKILL);
	waitpid(w->pid, NULL, 0);
}

static gaddr_t stack_end(void)
{
	pthread_attr_t attr;
	void *low;
	size_t size;

	assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
	assert_int_equal(pthread_attr_getstack(&attr, &low, &size), 0);
	pthread_attr_destroy(&attr);
	return (uintptr_t)low + size;
}

/* As for a thread that was stopped right here. */
__attribute__((noinline, no_sanitize("address"))) static void look_here(void)
{
	const struct arch *arch = arch_host();
	ucontext_t context;
	gaddr_t sp, left;

	getcontext(&context);
	for (uint32_t i = 0; i < arch->dwarf_n; i++) {
		memcpy(&place.start.regs.v[i], (uint8_t *)&context + arch->dwarf_ucontext[i], sizeof(uint64_t));
		place.start.regs.known |= (uint32_t)1 << i;
	}
	place.start.returned = false;
	place.n_oracle = backtrace(place.oracle, FRAMES);
	/* A sanitizer puts frames of its own before: the first one is to be this function. */
	while (place.n_oracle > 1 && place.oracle[1] != __builtin_return_address(0))
		memmove(place.oracle, place.oracle + 1, (size_t)--place.n_oracle * sizeof(*place.oracle));
	sp = place.start.regs.v[arch->dwarf_sp];
	left = stack_end() - sp;
	place.view = (struct mem_view){ .low = sp, .len = left < STACK_BYTES ? (uint32_t)left : STACK_BYTES,
					.bytes = place.stack };
	/* By volatile words: other functions' locals are none of a sanitizer's business. */
	for (uint32_t i = 0; i < place.view.len; i += 8)
		*(volatile uint64_t *)(place.stack + i) = *(volatile uint64_t *)(uintptr_t)(sp + i);
}

static volatile int after;

__attribute__((noinline)) static void deep(int n)
{
	if (n > 0)
		deep(n - 1);
	else
		look_here();
	after++;	/* no tail calls */
}

static bool never_go(void *ctx, gaddr_t pc)
{
	(void)ctx;
	(void)pc;
	return false;
}

struct result {
	struct pc_frame v[FRAMES];
	size_t n;
	struct unwind_place at;
};

static enum native_end walk(const struct world *w, native_is_go *is_go, void *ctx, size_t cap, struct result *r)
{
	const struct unwind_memory mem = { .views = &place.view, .n = 1 };

	return native_walk(w->nv, &place.start, &mem, is_go, ctx, r->v, cap, &r->n, &r->at);
}

/* The frames above the leaf are the oracle's: return addresses, each told as the byte before. */
static void expect_oracle(const struct result *r, size_t n)
{
	assert_true(n >= 2 && n <= r->n);
	for (size_t i = 1; i < n; i++) {
		assert_int_equal(r->v[i].kind, PC_NATIVE);
		assert_int_equal(r->v[i].pc, (uintptr_t)place.oracle[i] - 1);
	}
}

static void test_like_backtrace(void **state)
{
	struct world w = open_world();
	struct result r;
	const struct native_counts *counts = native_counts(w.nv);

	(void)state;
	for (int depth = 0; depth < 20; depth += 3) {
		deep(depth);
		assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_BOTTOM);
		assert_int_equal(r.n, place.n_oracle);
		expect_oracle(&r, r.n);
	}
	assert_int_equal(counts->ends[NATIVE_BOTTOM], 7);
	assert_true(counts->frames > 70);
	close_world(&w);
}

static void *thread(void *arg)
{
	deep(3);
	return arg;
}

static void test_thread(void **state)
{
	struct world w = open_world();
	struct result r;
	pthread_t t;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, thread, NULL), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_BOTTOM);
	assert_int_equal(r.n, place.n_oracle);
	expect_oracle(&r, r.n);
	close_world(&w);
}

static void handler(int sig)
{
	(void)sig;
	deep(1);
}

static void test_signal(void **state)
{
	struct world w = open_world();
	struct result r;
	bool kernel = false;

	(void)state;
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_BOTTOM);
	assert_int_equal(r.n, place.n_oracle);
	for (size_t i = 1; i < r.n; i++) {
		/* The kernel's frame and what it interrupted were not called: their pc is itself. */
		gaddr_t want = (uintptr_t)place.oracle[i];

		if (r.v[i].pc == want)
			kernel = true;
		else
			assert_int_equal(r.v[i].pc, want - 1);
	}
	assert_true(kernel);
	close_world(&w);
}

static void test_bounds(void **state)
{
	struct world w = open_world();
	struct result r;
	size_t all;

	(void)state;
	deep(10);
	assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_BOTTOM);
	all = r.n;
	for (size_t cap = 0; cap < all; cap++) {
		assert_int_equal(walk(&w, never_go, NULL, cap, &r), NATIVE_DEPTH);
		assert_int_equal(r.n, cap);
	}
	/* A stack that was copied in part: what is told is right. */
	for (uint32_t len = 0; len < 400; len += 8) {
		place.view.len = len;
		assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_NO_MEMORY);
		assert_true(r.n >= 1 && r.n < all);
		for (size_t i = 1; i < r.n; i++)
			assert_int_equal(r.v[i].pc, (uintptr_t)place.oracle[i] - 1);
	}
	close_world(&w);
}

/* The pretended Go code: the function around this return address. */
static bool is_that(void *ctx, gaddr_t pc)
{
	return pc == *(gaddr_t *)ctx - 1;
}

static void test_reaches_go(void **state)
{
	struct world w = open_world();
	struct result r;
	gaddr_t go, sp;
	int n = 3;

	(void)state;
	deep(5);
	/* Not one of the recursion: those are all the same. */
	while (n < place.n_oracle - 1 && place.oracle[n] == place.oracle[n - 1])
		n++;
	go = (uintptr_t)place.oracle[n];
	assert_int_equal(walk(&w, is_that, &go, FRAMES, &r), NATIVE_REACHED_GO);
	assert_int_equal(r.n, n);
	assert_int_equal(r.at.pc, go);
	assert_int_equal(r.at.kind, PC_RETURN);
	/* sp stands right above the return address. */
	memcpy(&sp, place.stack + (r.at.sp - 8 - place.view.low), sizeof(sp));
	assert_int_equal(sp, go);
	close_world(&w);
}

static ucontext_t kept;

/* What stands in the registers here is what look_here keeps for it. */
__attribute__((noinline)) static void calls_look(void)
{
	getcontext(&kept);
	look_here();
	after++;
}

/* The register of racecall is at its caller what it was before the call. */
static void test_kept_register(void **state)
{
	const struct arch *arch = arch_host();
	struct world w = open_world();
	struct result r;
	gaddr_t go;

	(void)state;
	calls_look();
	go = (uintptr_t)place.oracle[1];
	memcpy(&place.start.regs.v[arch->dwarf_racecall], (uint8_t *)&kept + arch->dwarf_ucontext[arch->dwarf_racecall], 8);
	assert_int_equal(walk(&w, is_that, &go, FRAMES, &r), NATIVE_REACHED_GO);
	assert_int_equal(r.at.racecall, place.start.regs.v[arch->dwarf_racecall]);
	close_world(&w);
}

/* From a return address on, with the registers alone that a called function keeps. */
static void test_returned(void **state)
{
	static const uint8_t keeps[] = { 3, 6, 7, 12, 13, 14, 15 };
	const struct arch *arch = arch_host();
	struct world w = open_world();
	struct result r;

	(void)state;
	calls_look();
	place.start.returned = true;
	place.start.regs.known = (uint32_t)1 << arch->dwarf_pc;
	place.start.regs.v[arch->dwarf_pc] = (uintptr_t)place.oracle[1];
	for (size_t i = 0; i < sizeof(keeps); i++) {
		place.start.regs.known |= (uint32_t)1 << keeps[i];
		memcpy(&place.start.regs.v[keeps[i]], (uint8_t *)&kept + arch->dwarf_ucontext[keeps[i]], 8);
	}
	assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_BOTTOM);
	assert_int_equal(r.n, place.n_oracle - 1);
	for (size_t i = 0; i < r.n; i++)
		assert_int_equal(r.v[i].pc, (uintptr_t)place.oracle[i + 1] - 1);
	close_world(&w);
}

/* Behind the system call of the C library's clone. */
static gaddr_t behind_clone(void)
{
	const struct arch *arch = arch_host();
	const uint8_t *code = dlsym(RTLD_DEFAULT, "clone");

	assert_non_null(code);
	code = memmem(code, 256, arch->syscall_insn, arch->syscall_len);
	assert_non_null(code);
	return (uintptr_t)code + arch->syscall_len;
}

/* Who has called clone stands on the return address; who was made by it, on nothing that was called. */
static void test_clone(void **state)
{
	const struct arch *arch = arch_host();
	struct world w = open_world();
	gaddr_t pc = behind_clone(), sp;
	struct result r;

	(void)state;
	calls_look();
	for (uint32_t i = 0; i < arch->dwarf_n; i++)
		memcpy(&place.start.regs.v[i], (uint8_t *)&kept + arch->dwarf_ucontext[i], sizeof(uint64_t));
	sp = place.start.regs.v[arch->dwarf_sp] -= arch->min_frame;
	place.start.regs.v[arch->dwarf_pc] = pc;
	place.start.regs.v[arch->dwarf_result] = 1234;
	place.start.cloned = true;
	assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_BOTTOM);
	assert_int_equal(r.n, place.n_oracle);
	assert_int_equal(r.v[0].pc, pc);
	expect_oracle(&r, r.n);
	/* The new thread, whatever its stack was before. */
	place.start.regs.v[arch->dwarf_result] = 0;
	assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_BOTTOM);
	assert_int_equal(r.n, 1);
	/* Another call, of which the same cannot be said. */
	place.start.cloned = false;
	for (uint64_t result = 0; result < 2; result++) {
		place.start.regs.v[arch->dwarf_result] = result;
		assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_NO_TABLE);
		assert_int_equal(r.n, 1);
	}
	/* A clone that does not stand on a return address, or on nothing that was copied. */
	place.start.cloned = true;
	memset(place.stack + (sp - place.view.low), 0, sizeof(sp));
	assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_NO_TABLE);
	assert_int_equal(r.n, 1);
	place.view.len = 0;
	assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_NO_MEMORY);
	assert_int_equal(r.n, 1);
	place.start.cloned = false;
	close_world(&w);
}

/* Code without a table, or in no image at all. */
static void test_no_table(void **state)
{
	const struct arch *arch = arch_host();
	void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct world w = open_world();
	struct result r;

	(void)state;
	deep(2);
	place.start.regs.v[arch->dwarf_pc] = (uintptr_t)page + 16;
	assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_NO_TABLE);
	assert_int_equal(r.n, 1);
	native_allow_refresh(w.nv);
	assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_NO_TABLE);
	close_world(&w);
	munmap(page, 4096);
}

/* Mappings are read anew where that is allowed, once, and before the walk. */
static void test_refresh(void **state)
{
	enum { CODE = 0x10000 };
	const struct arch *arch = arch_host();
	struct world w = { .pid = 0 };
	struct result r;

	(void)state;
	assert_null(target_fake_create(&w.target));
	assert_null(images_create(w.target, &w.images));
	assert_null(native_create(w.images, &w.nv));
	deep(2);
	place.start.regs.v[arch->dwarf_pc] = CODE + 16;
	for (int i = 0; i < 2; i++) {
		target_fake_map(w.target, CODE, CODE + 4096, 0, MAPPING_READ | MAPPING_EXEC, "/lib");
		assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_NO_TABLE);
		assert_null(images_find(w.images, CODE));
		native_allow_refresh(w.nv);
		assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_NO_TABLE);
		assert_non_null(images_find(w.images, CODE));
		target_fake_unmap(w.target, "/lib");
		assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_NO_TABLE);
		assert_non_null(images_find(w.images, CODE));
		native_allow_refresh(w.nv);
		assert_int_equal(walk(&w, never_go, NULL, FRAMES, &r), NATIVE_NO_TABLE);
		assert_null(images_find(w.images, CODE));
	}
	native_destroy(w.nv);
	images_destroy(w.images);
	target_close(w.target);
}

/* ---- damaged tables ---- */

enum { IMAGE_MAX = 1 << 23 };

struct damaged {
	uint8_t *bytes;
	size_t len;
	uint64_t frames, frames_len;	/* in the file: all tables of frames */
	uint8_t *map;			/* where its segments stand */
	size_t map_len;
	Elf64_Phdr loads[16];
	int n_loads;
	gaddr_t code, code_len;
};

static void read_library(struct damaged *d)
{
	int fd = open("/lib/x86_64-linux-gnu/libm.so.6", O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr *h;
	ssize_t n;

	if (fd < 0)
		skip();
	d->bytes = malloc(IMAGE_MAX);
	assert_non_null(d->bytes);
	while ((n = read(fd, d->bytes + d->len, IMAGE_MAX - d->len)) > 0)
		d->len += (size_t)n;
	close(fd);
	h = (Elf64_Ehdr *)d->bytes;
	for (int i = 0; i < h->e_phnum && i < 16; i++) {
		Elf64_Phdr *p = (Elf64_Phdr *)(d->bytes + h->e_phoff) + i;

		if (p->p_type == PT_GNU_EH_FRAME)
			d->frames = p->p_offset;
		if (p->p_type != PT_LOAD)
			continue;
		d->loads[d->n_loads++] = *p;
		d->map_len = p->p_vaddr + p->p_memsz;
		if (p->p_flags & PF_X) {
			d->code = p->p_vaddr;
			d->code_len = p->p_filesz;
		}
	}
	for (int i = 0; i < d->n_loads; i++)
		if (d->frames >= d->loads[i].p_offset && d->frames < d->loads[i].p_offset + d->loads[i].p_filesz)
			d->frames_len = d->loads[i].p_offset + d->loads[i].p_filesz - d->frames;
	assert_true(d->frames && d->frames_len && d->code_len);
}

/* Maps a file with these bytes as a loader would. */
static void map_library(struct damaged *d)
{
	int fd = memfd_create("damaged", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, d->bytes, d->len), d->len);
	d->map_len = (d->map_len + 0xfff) & ~(size_t)0xfff;
	d->map = mmap(NULL, d->map_len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(d->map != MAP_FAILED);
	for (int i = 0; i < d->n_loads; i++) {
		const Elf64_Phdr *p = &d->loads[i];
		uint64_t within = p->p_vaddr & 0xfff;
		int prot = (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
			   (p->p_flags & PF_X ? PROT_EXEC : 0);

		assert_true(mmap(d->map + p->p_vaddr - within, p->p_filesz + within, prot,
				 MAP_PRIVATE | MAP_FIXED, fd, (off_t)(p->p_offset - within)) != MAP_FAILED);
	}
	close(fd);
}

static uint64_t next_random(uint64_t *r)
{
	*r ^= *r << 13;
	*r ^= *r >> 7;
	*r ^= *r << 17;
	return *r;
}

/* Walks from places all over the code, with a stack full of its addresses. */
static size_t walk_around(const struct world *w, const struct damaged *d, uint64_t *random, uint64_t *ends)
{
	const struct arch *arch = arch_host();
	size_t frames = 0;

	for (int k = 0; k < 30; k++) {
		struct result r;

		for (size_t i = 0; i + 8 <= 8192; i += 8) {
			gaddr_t v = (uintptr_t)d->map + d->code + next_random(random) % d->code_len;

			memcpy(place.stack + i, &v, sizeof(v));
		}
		place.view = (struct mem_view){ .low = 0x7ffc00000000, .len = 8192, .bytes = place.stack };
		for (uint32_t i = 0; i < arch->dwarf_n; i++)
			place.start.regs.v[i] = place.view.low + next_random(random) % 8192 / 8 * 8;
		place.start.regs.known = UINT32_MAX;
		place.start.returned = false;
		place.start.regs.v[arch->dwarf_sp] = place.view.low;
		place.start.regs.v[arch->dwarf_pc] = (uintptr_t)d->map + d->code + next_random(random) % d->code_len;
		ends[walk(w, never_go, NULL, FRAMES, &r)]++;
		frames += r.n;
	}
	return frames;
}

static void test_damaged_tables(void **state)
{
	struct damaged d = { .len = 0 };
	uint64_t random = 0x9e3779b97f4a7c15, ends[NATIVE_END_COUNT] = { 0 };
	size_t frames = 0;

	(void)state;
	read_library(&d);
	for (int round = 0; round < 100; round++) {
		uint8_t *was = malloc(d.frames_len);
		struct world w;
		uint64_t part = 40000 / (uint64_t)(round + 1);

		/* From the sound table on to one in which one byte in 400 is another: a walk meets many functions. */
		assert_non_null(was);
		memcpy(was, d.bytes + d.frames, d.frames_len);
		for (uint64_t k = 0; round && k < d.frames_len / part; k++)
			d.bytes[d.frames + 12 + next_random(&random) % (d.frames_len - 12)] = (uint8_t)(random >> 30);
		map_library(&d);
		w = open_world();
		frames += walk_around(&w, &d, &random, ends);
		close_world(&w);
		munmap(d.map, d.map_len);
		memcpy(d.bytes + d.frames, was, d.frames_len);
		free(was);
	}
	assert_true(frames > 10000);
	assert_true(ends[NATIVE_NO_TABLE] > 100 && ends[NATIVE_LOST] > 100);
	free(d.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_like_backtrace),
		cmocka_unit_test(test_thread),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_reaches_go),
		cmocka_unit_test(test_returned),
		cmocka_unit_test(test_kept_register),
		cmocka_unit_test(test_clone),
		cmocka_unit_test(test_no_table),
		cmocka_unit_test(test_refresh),
		cmocka_unit_test(test_damaged_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
