/*
 * fuzz_buildinfo.c: the build record and the texts in it, from somebody who wants goprof to crash.
 *
 * libFuzzer entry; build it with -fsanitize=fuzzer,address,undefined. The input becomes the writable
 * data of a small program from the place of the record on; the first byte says whether the record's
 * magic, the pointer form or nothing is written before it. Then versions and settings are parsed
 * from the raw input as text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../fake/go_image_fake.h"
#include "go/go_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const heads[] = { "\xff Go buildinf:\x08\x02", "\xff Go buildinf:\x08", "" };

static void ask(const struct go_image_fake *f)
{
	int fd = go_image_fake_file(f, FAKE_SIZE);
	struct image *img;
	struct go_build b;
	struct arena a;
	struct error *err;
	char value[32];

	arena_init(&a);
	err = image_open_fd(fd, &img);
	if (err)
		abort();	/* the headers are intact */
	err = go_buildinfo_read(img, &a, &b);
	if (!err) {
		if (strlen(b.version) >= sizeof(b.version) || b.minor < 0)
			abort();
		go_build_setting(&b, "CGO_ENABLED", value, sizeof(value));
		go_build_setting(&b, "-ldflags", value, sizeof(value));
		go_build_setting(&b, "", value, sizeof(value));
	}
	error_free(err);
	image_close(img);
	arena_deinit(&a);
	close(fd);
}

static void ask_texts(const uint8_t *data, size_t size)
{
	struct go_build b = { 0 };
	char *text = calloc(1, size + 1), value[16];
	int minor, patch;

	if (!text)
		abort();
	memcpy(text, data, size);
	go_version_parse(text, &minor, &patch);
	b.settings = text;
	go_build_setting(&b, "a", value, sizeof(value));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct go_image_options o = { .minor = 26, .base = 0x400000 };
	struct go_image_fake *f;
	const char *head;
	size_t room, at;

	if (size < 1)
		return 0;
	o.dyn = data[0] & 4;
	o.buildinfo = data[0] & 8;
	head = heads[(data[0] & 3) % 3];
	f = go_image_fake_create(&o);
	at = f->buildinfo - o.base;
	memcpy(f->bytes + at, head, strlen(head));
	at += *head ? 32 : 0;
	if (head == heads[1])
		at -= 16;
	room = FAKE_SIZE - at;
	memcpy(f->bytes + at, data + 1, size - 1 < room ? size - 1 : room);
	ask(f);
	ask_texts(data + 1, size - 1);
	go_image_fake_destroy(f);
	return 0;
}
