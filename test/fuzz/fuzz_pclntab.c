/*
 * fuzz_pclntab.c: the bytes of a program's file, in the hands of somebody who wants goprof to crash,
 * to hang or to read what it should not. Everything static is asked: functions by pc and by name,
 * stack depths, lines with inlining, code, relocated words, symbols, build id.
 *
 * libFuzzer entry; build it with -fsanitize=fuzzer,address,undefined. It starts from files made by
 * hand in every form (go_image_fake.c), so that few bytes lie between a seed and a deep path: the
 * first input bytes choose the form, the rest is a list of {offset, length, bytes} that overwrite it.
 * An input that begins as an ELF file is taken as it is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../fake/go_image_fake.h"
#include "go/pclntab_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PCS = 64, LINES = 32 };

static void ask_pc(struct go_runtime *rt, gaddr_t pc)
{
	struct go_line lines[LINES];
	struct go_func f;
	uint8_t code[32];
	size_t n = go_lines(rt, pc, lines, LINES);

	for (size_t i = 0; i < n; i++)
		if (strlen(lines[i].function) > 1 << 20 || strlen(lines[i].file) > 1 << 20)
			abort();
	go_code_read(rt, pc, code, sizeof(code));
	if (!go_func_find(rt, pc, &f))
		return;
	if (pc < f.entry || pc >= f.end)
		abort();
	go_func_name(rt, &f);
	go_func_spdelta(rt, &f, pc);
	go_func_wrapped(rt, &f);
}

static void ask_runtime(struct go_runtime *rt)
{
	const struct go_module *m = &rt->modules[0];
	gaddr_t step = (m->etext - m->text) / PCS + 1;
	uint32_t pos = 0;
	struct go_func f;

	for (gaddr_t pc = m->text; pc < m->etext; pc += step)
		ask_pc(rt, pc);
	for (int i = 0; i < 8 && go_func_by_name(rt, "main.dup", &pos, &f); i++)
		ask_pc(rt, f.entry);
}

static void ask_image(int fd)
{
	static const char *const names[] = { "runtime.allgs", "runtime.buildVersion" };
	struct image_symbol symbols[2];
	struct image *img;
	uint8_t words[256];
	gaddr_t at[8];
	char id[128];
	size_t n = 8;
	struct error *err = image_open_fd(fd, &img);

	if (err) {
		error_free(err);
		return;
	}
	error_free(image_find_symbols(img, names, 2, symbols));
	error_free(image_build_id(img, id, sizeof(id)));
	error_free(image_find_pointers(img, 0x402148, at, &n));
	image_needs(img, "libgo.so.");
	for (size_t i = 0; i < n && i < 8; i++)
		error_free(image_read_relocated(img, at[i], words, sizeof(words)));
	image_close(img);
}

static int file_of(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	return fd;
}

/* Overwrites parts of a made file; what is left of the input when it ends is ignored. */
static int file_of_patches(const uint8_t *data, size_t size)
{
	struct go_image_options o = {
		.minor = 15 + data[0] % 13, .base = data[1] & 1 ? 0x400000 : 0,
		.dyn = data[1] & 2, .in_place = data[1] & 4, .buildinfo = !(data[1] & 8),
	};
	struct go_image_fake *f;
	int fd;

	f = go_image_fake_create(&o);
	for (data += 2, size -= 2; size >= 4; ) {
		size_t at = (size_t)(data[0] | data[1] << 8) % FAKE_SIZE, len = 1 + data[2] % 8;

		data += 3, size -= 3;
		len = len < size ? len : size;
		len = len < FAKE_SIZE - at ? len : FAKE_SIZE - at;
		memcpy(f->bytes + at, data, len);
		data += len, size -= len;
	}
	fd = go_image_fake_file(f, FAKE_SIZE);
	go_image_fake_destroy(f);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct go_process *p;
	struct error *err;
	int fd;

	if (size < 2)
		return 0;
	fd = data[0] == 0x7f ? file_of(data, size) : file_of_patches(data, size);
	ask_image(fd);
	err = go_process_open_file(fd, &p);
	if (!err) {
		ask_runtime(go_process_runtime(p, 0));
		go_process_close(p);
	}
	error_free(err);
	close(fd);
	return 0;
}
