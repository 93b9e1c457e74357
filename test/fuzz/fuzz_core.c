/*
 * fuzz_core.c: a core file from somebody who wants goprof to crash.
 *
 * libFuzzer entry; build it with -fsanitize=fuzzer,address,undefined. The first byte says how the
 * rest is taken: as a whole file, or as the notes of a core whose headers are good (else the fuzzer
 * would spend its life on headers). Then everything is asked that goprof asks of a core, and what
 * must hold of any answer is checked.
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TIDS = 16, ADDR = 0x400000 };

static void must(int good)
{
	if (!good)
		abort();
}

/* One segment of notes and one piece of memory, which are the same bytes. */
static void write_headers(int fd, size_t size)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr v[2];
	} file = {
		.h = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_CORE, .e_machine = EM_X86_64, .e_phoff = sizeof(file.h),
			.e_phentsize = sizeof(file.v[0]), .e_phnum = 2,
		},
		.v = {
			{ .p_type = PT_NOTE, .p_offset = sizeof(file), .p_filesz = size },
			{ .p_type = PT_LOAD, .p_offset = sizeof(file), .p_filesz = size, .p_memsz = size + 64,
			  .p_vaddr = ADDR, .p_flags = PF_R },
		},
	};

	must(write(fd, &file, sizeof(file)) == (ssize_t)sizeof(file));
}

static void ask_mappings(const struct target *t)
{
	struct mappings maps;
	uint8_t buf[256];

	must(!target_mappings(t, &maps));
	for (size_t i = 0; i < maps.n; i++) {
		const struct mapping *m = &maps.v[i];
		struct span s = { .addr = m->end - 8, .buf = buf, .len = sizeof(buf) };
		int fd;

		must(m->start < m->end && (i == 0 || maps.v[i - 1].end <= m->start) && m->path);
		must(!target_read_v(t, &s, 1) && s.done <= s.len);
		if (strlen(m->path) && !target_mapping_fd(t, m, &fd))
			close(fd);
	}
	mappings_deinit(&maps);
}

static void ask_threads(struct target *t)
{
	pid_t tids[TIDS];
	size_t n = TIDS;
	struct regs r;

	must(!target_tids(t, tids, &n));
	for (size_t i = 0; i < n && i < TIDS; i++) {
		must(tids[i] > 0 && target_tid_from_inner(t, tids[i]) == tids[i]);
		target_thread_regs(t, tids[i], &r);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct core_facts facts;
	struct target *t;
	struct error *err;
	char path[32];
	int fd;

	if (size < 1)
		return 0;
	fd = memfd_create("core", MFD_CLOEXEC);
	must(fd >= 0);
	if (data[0] & 1)
		write_headers(fd, size - 1);
	must(write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = target_open_core(path, NULL, &t);
	if (!err) {
		ask_mappings(t);
		ask_threads(t);
		must(target_core_facts(t, &facts) && facts.missing_bytes <= facts.bytes);
		target_close(t);
	}
	error_free(err);
	close(fd);
	return 0;
}
