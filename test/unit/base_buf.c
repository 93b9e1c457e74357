/*
 * base_buf.c: the writing buffer, and the JSON strings it makes of any bytes. Every row of the JSON
 * table gives the bytes and the exact literal; random bytes are then read back by cJSON and by a
 * strict UTF-8 check written apart from the one under test.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <cJSON.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define FFFD "\xef\xbf\xbd"

static void test_adds(void **state)
{
	_cleanup_(buf_deinit) struct buf b;

	(void)state;
	buf_init(&b);
	assert_null(b.data);
	buf_add(&b, NULL, 0);
	assert_string_equal(b.data, "");
	buf_adds(&b, "ab");
	buf_addc(&b, 'c');
	buf_add(&b, "d\0e", 3);
	buf_addf(&b, "[%d]", -5);
	assert_int_equal(b.len, 10);
	assert_memory_equal(b.data, "abcd\0e[-5]", 11);
	buf_clear(&b);
	assert_int_equal(b.len, 0);
	assert_string_equal(b.data, "");
	assert_null(buf_error(&b));
}

static void test_grows_at_every_length(void **state)
{
	static char wide[3000];

	(void)state;
	memset(wide, 'w', sizeof(wide) - 1);
	for (int n = 0; n < 2999; n += 7) {
		_cleanup_(buf_deinit) struct buf b;

		buf_init(&b);
		buf_adds(&b, "x");
		buf_addf(&b, "%.*s", n, wide);
		buf_addf(&b, "%s", "y");
		assert_int_equal(b.len, n + 2);
		assert_int_equal(b.data[n + 1], 'y');
		assert_int_equal(strlen(b.data), n + 2);
	}
}

static void test_failure_sticks(void **state)
{
	_cleanup_(buf_deinit) struct buf b;

	(void)state;
	buf_init(&b);
	buf_adds(&b, "ab");
	buf_add(&b, "x", SIZE_MAX / 2);		/* cannot be had; nothing is read */
	assert_ptr_equal(buf_error(&b), &err_nomem);
	buf_adds(&b, "cd");
	buf_addf(&b, "%d", 1);
	buf_add_json(&b, "e", 1);
	assert_string_equal(b.data, "ab");
	assert_null(buf_take(&b));
	assert_ptr_equal(buf_error(&b), &err_nomem);	/* the failure is not forgotten by taking */
	buf_clear(&b);
	buf_adds(&b, "again");
	assert_null(buf_error(&b));
	assert_string_equal(b.data, "again");
}

static void test_take(void **state)
{
	_cleanup_(buf_deinit) struct buf b;
	_cleanup_free_ char *empty = NULL, *text = NULL;

	(void)state;
	buf_init(&b);
	empty = buf_take(&b);
	assert_string_equal(empty, "");
	buf_adds(&b, "text");
	text = buf_take(&b);
	assert_string_equal(text, "text");
	assert_int_equal(b.len, 0);
	assert_null(b.data);
}

#define ROW(in, out) { in, sizeof(in) - 1, "\"" out "\"" }

static const struct {
	const char *in;
	size_t len;
	const char *out;
} json_rows[] = {
	ROW("", ""),
	ROW("main.(*T).f", "main.(*T).f"),
	ROW("a\"b\\c/d", "a\\\"b\\\\c/d"),
	ROW("\b\f\n\r\t", "\\b\\f\\n\\r\\t"),
	ROW("\0\1\x1f\x7f", "\\u0000\\u0001\\u001f\\u007f"),
	ROW("\xc2\x80\xc2\x9f\xc2\xa0", "\\u0080\\u009f\xc2\xa0"),
	ROW("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"),
	ROW("\xe2\x82\xac \xf0\x9f\x90\xb9", "\xe2\x82\xac \xf0\x9f\x90\xb9"),
	ROW("\xef\xbf\xbf\xf4\x8f\xbf\xbf", "\xef\xbf\xbf\xf4\x8f\xbf\xbf"),
	ROW("\x80", FFFD),				/* continuation alone */
	ROW("a\xff" "b", "a" FFFD "b"),
	ROW("\xc0\xaf", FFFD FFFD),			/* overlong, 2 */
	ROW("\xc1\xbf", FFFD FFFD),
	ROW("\xe0\x9f\xbf", FFFD FFFD FFFD),		/* overlong, 3 */
	ROW("\xe0\xa0\x80", "\xe0\xa0\x80"),
	ROW("\xf0\x8f\xbf\xbf", FFFD FFFD FFFD FFFD),	/* overlong, 4 */
	ROW("\xf0\x90\x80\x80", "\xf0\x90\x80\x80"),
	ROW("\xed\xa0\x80", FFFD FFFD FFFD),		/* surrogates */
	ROW("\xed\xbf\xbf", FFFD FFFD FFFD),
	ROW("\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"),
	ROW("\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD),	/* above U+10FFFF */
	ROW("\xf5\x80\x80\x80", FFFD FFFD FFFD FFFD),
	ROW("x\xe2\x82", "x" FFFD FFFD),			/* cut off */
	ROW("\xf0\x9f\x90", FFFD FFFD FFFD),
	ROW("\xc3", FFFD),
	ROW("\xe2\x82\"", FFFD FFFD "\\\""),		/* the quote is not swallowed */
	ROW("\xc3\n\xe2\x28\xa1", FFFD "\\n" FFFD "(" FFFD),
};

static void test_json_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(json_rows) / sizeof(*json_rows); i++) {
		_cleanup_(buf_deinit) struct buf b;
		/* On the heap at its exact length: a byte read too far is an error of the sanitizer. */
		_cleanup_free_ char *in = malloc(json_rows[i].len ? json_rows[i].len : 1);

		memcpy(in, json_rows[i].in, json_rows[i].len);
		buf_init(&b);
		buf_add_json(&b, in, json_rows[i].len);
		assert_string_equal(b.data, json_rows[i].out);
		assert_int_equal(b.len, strlen(json_rows[i].out));
	}
}

/* Decodes by arithmetic; -1 when it is not the shortest form of a character. */
static int strict_utf8(const uint8_t *s, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		uint32_t c = s[i];

		if ((c & 0xc0) == 0x80 || c >= 0xf8)
			return -1;
		n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
		if (n > 1)
			c &= 0xff >> (n + 1);
		for (size_t k = 1; k < n; k++) {
			if (i + k >= len || s[i + k] >> 6 != 2)
				return -1;
			c = c << 6 | (s[i + k] & 0x3f);
		}
		if ((n > 1 && c < 0x80) || (n > 2 && c < 0x800) || (n > 3 && c < 0x10000))
			return -1;
		if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
			return -1;
	}
	return 0;
}

static void test_json_random(void **state)
{
	static const uint8_t likely[] = { 0x22, 0x5c, 0x0a, 0x61, 0x80, 0x9f, 0xa0, 0xbf, 0xc2, 0xe0,
					  0xed, 0xef, 0xf0, 0xf4, 0xff, 0x8f };
	uint32_t random = 7;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		_cleanup_(buf_deinit) struct buf b;
		uint8_t in[12];
		size_t len = (size_t)round % sizeof(in);
		cJSON *json;

		for (size_t i = 0; i < len; i++) {
			random = random * 1664525 + 1013904223;
			in[i] = random >> 31 ? likely[random >> 16 & 15] : (uint8_t)(random >> 16);
			in[i] += in[i] == 0;	/* cJSON ends strings at NUL */
		}
		buf_init(&b);
		buf_add_json(&b, (const char *)in, len);
		assert_int_equal(strict_utf8((const uint8_t *)b.data, b.len), 0);
		json = cJSON_ParseWithOpts(b.data, NULL, 1);
		assert_non_null(json);
		assert_true(cJSON_IsString(json));
		if (strict_utf8(in, len) == 0) {	/* what was right comes back unchanged */
			assert_int_equal(strlen(json->valuestring), len);
			assert_memory_equal(json->valuestring, in, len);
		}
		cJSON_Delete(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_adds),
		cmocka_unit_test(test_grows_at_every_length),
		cmocka_unit_test(test_failure_sticks),
		cmocka_unit_test(test_take),
		cmocka_unit_test(test_json_table),
		cmocka_unit_test(test_json_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
