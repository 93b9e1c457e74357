/*
 * base_cursor.c: a cursor reads little endian numbers, stops for good at the first one that does
 * not fit, and never touches a byte beyond its end (the address sanitizer watches exact buffers).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"

static void test_numbers(void **state)
{
	const uint8_t bytes[] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
				  0x01, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	struct cursor c = cursor_over(bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(cursor_u8(&c), 0x01);
	assert_int_equal(cursor_u16(&c), 0x4523);
	assert_int_equal(cursor_u32(&c), 0xcdab8967);
	assert_true(cursor_u64(&c) == 0xffffffffff8001efull);
	assert_false(c.bad);
	assert_ptr_equal(cursor_bytes(&c, 1), bytes + 15);
	assert_ptr_equal(cursor_bytes(&c, 0), bytes + 16);
	assert_false(c.bad);
	assert_int_equal(cursor_u8(&c), 0);
	assert_true(c.bad);
}

static void test_stays_bad(void **state)
{
	uint8_t *bytes = memset(malloc(7), 0xff, 7);
	struct cursor c = cursor_over(bytes, 7);

	(void)state;
	assert_int_equal(cursor_u64(&c), 0);
	assert_true(c.bad);
	assert_int_equal(cursor_u8(&c), 0);	/* seven bytes were there: still 0 */
	assert_null(cursor_bytes(&c, 0));
	assert_int_equal(cursor_uvarint(&c), 0);
	assert_ptr_equal(c.p, c.end);
	c = cursor_over(bytes, 7);
	assert_null(cursor_bytes(&c, SIZE_MAX));
	assert_true(c.bad);
	c = cursor_over(NULL, 0);
	assert_int_equal(cursor_u16(&c), 0);
	assert_true(c.bad);
	free(bytes);
}

static const struct {
	uint8_t bytes[12];
	size_t len;
	bool ok;
	uint64_t value;
} varints[] = {
	{ { 0x00 }, 1, true, 0 },
	{ { 0x7f }, 1, true, 127 },
	{ { 0x80, 0x01 }, 2, true, 128 },
	{ { 0xe5, 0x8e, 0x26 }, 3, true, 624485 },
	{ { 0x80, 0x80, 0x00 }, 3, true, 0 },
	{ { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 }, 10, true, UINT64_MAX },
	{ { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02 }, 10, false, 0 },
	{ { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00 }, 11, false, 0 },
	{ { 0x80 }, 1, false, 0 },
	{ { 0 }, 0, false, 0 },
};

static void test_uvarint(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(varints) / sizeof(*varints); i++) {
		_cleanup_free_ uint8_t *bytes = malloc(varints[i].len ? varints[i].len : 1);
		struct cursor c = cursor_over(bytes, varints[i].len);

		memcpy(bytes, varints[i].bytes, varints[i].len);
		assert_true(cursor_uvarint(&c) == varints[i].value);
		assert_int_equal(!c.bad, varints[i].ok);
		assert_ptr_equal(c.p, c.end);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_stays_bad),
		cmocka_unit_test(test_uvarint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
