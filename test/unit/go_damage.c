/*
 * go_damage.c: files cut off anywhere and files with bytes changed: each is answered, within its
 * bounds (the sanitizers watch), and what is answered can be used.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "../fake/go_image_fake.h"
#include "go/pclntab_impl.h"

enum { FORMS = 6, CUTS = 256, ROUNDS = 3000 };

static struct go_image_fake *form(int i)
{
	return go_image_fake_create(&(struct go_image_options){
		.minor = i % 2 ? 19 : 26, .base = i < 2 ? 0 : 0x400000, .dyn = i < 4, .in_place = i < 2,
		.buildinfo = i != 3 });
}

/* Asks everything that can be asked of a file. */
static bool use(const uint8_t *bytes, size_t len)
{
	int fd = memfd_create("damaged", MFD_CLOEXEC);
	struct go_process *p = NULL;
	struct go_line lines[8];
	struct go_func f;
	uint32_t pos = 0;
	struct error *err;

	assert_int_equal(write(fd, bytes, len), len);
	err = go_process_open_file(fd, &p);
	close(fd);
	if (err) {
		assert_true(err->is_static || err->what[0]);
		error_free(err);
		return false;
	}
	struct go_runtime *rt = go_process_runtime(p, 0);
	for (uint32_t i = 0; i < rt->n_modules; i++)
		for (gaddr_t pc = rt->modules[i].text; pc < rt->modules[i].etext && pc < rt->modules[i].text + 0x400; pc += 7)
			if (go_func_find(rt, pc, &f)) {
				go_lines(rt, pc, lines, 8);
				go_func_spdelta(rt, &f, pc);
				go_func_wrapped(rt, &f);
			}
	go_func_by_name(rt, "runtime.goexit", &pos, &f);
	go_wait_reason(rt, 3);
	go_process_close(p);
	return true;
}

static void test_cut_anywhere(void **state)
{
	(void)state;
	for (int i = 0; i < FORMS; i++) {
		struct go_image_fake *f = form(i);

		for (size_t k = 0; k < CUTS; k++)
			use(f->bytes, (size_t)FAKE_SIZE * k / CUTS);
		assert_true(use(f->bytes, FAKE_SIZE));
		go_image_fake_destroy(f);
	}
}

static uint64_t random_next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

/* Where there is something: headers, tables, moduledata. */
static size_t somewhere(const struct go_image_fake *f, uint64_t *s)
{
	for (;;) {
		size_t at = random_next(s) % (FAKE_SIZE - 8);

		if (f->bytes[at] || random_next(s) % 64 == 0)
			return at;
	}
}

static void test_bytes_changed(void **state)
{
	static const uint64_t values[] = { 0, 1, 0x7f, 0xff, 0xffffffff, 0x80000000, UINT64_MAX, 1ull << 62 };
	uint64_t s = 88172645463325252u;
	size_t good = 0;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct go_image_fake *f = form(i % FORMS);

		for (uint64_t n = 1 + random_next(&s) % 12; n > 0; n--)
			memcpy(f->bytes + somewhere(f, &s), &values[random_next(&s) % 8], (size_t)1 << random_next(&s) % 4);
		good += use(f->bytes, FAKE_SIZE);
		go_image_fake_destroy(f);
	}
	/* Neither is everything refused nor everything taken. */
	assert_in_range(good, ROUNDS / 20, ROUNDS - ROUNDS / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_bytes_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
