/*
 * go_callsite.c: what stands before a return address: a call of the function that was found there,
 * of another, through a register, of one that goes on by a jump, or no call at all; and which
 * places need not be one.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake/go_fake.h"
#include "go/callsite.h"

#define BODY .size = 64, .sp = { { 64, 16 } }

static const struct go_fake_func functions[] = {
	{ .name = "m.callee", BODY },
	{ .name = "m.other", BODY },
	{ .name = "m.caller", BODY, .calls = {
		{ .end = 10, .to = "m.callee" },
		{ .end = 20, .kind = GO_FAKE_BY_REGISTER },
		{ .end = 30, .to = "m.wrapper" },
		{ .end = 40, .to = "m.switch" },
	} },
	{ .name = "m.wrapper", BODY, .calls = { { .end = 5, .kind = GO_FAKE_JUMP, .to = "m.second" } } },
	{ .name = "m.second", BODY, .calls = { { .end = 8, .kind = GO_FAKE_JUMP, .to = "m.callee" } } },
	{ .name = "m.switch", BODY, .calls = { { .end = 5, .kind = GO_FAKE_JUMP, .to = "m.circle" } } },
	{ .name = "m.circle", BODY, .calls = { { .end = 5, .kind = GO_FAKE_JUMP, .to = "m.switch" } } },
	{ .name = "m.defers", BODY, .calls = { { .end = 25, .to = "runtime.deferreturn" } } },
	{ .name = "runtime.deferreturn", BODY },
	{ .name = "runtime.mcall", BODY },
	{ .name = "gogo", BODY },
	{ .name = "runtime.goexit", BODY },
};

static struct go_fake *fake;

static int setup(void **state)
{
	(void)state;
	fake = go_fake_create(functions, sizeof(functions) / sizeof(functions[0]), 26);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	go_fake_destroy(fake);
	return 0;
}

static enum call_site site(const char *caller, uint32_t at, const char *callee)
{
	return go_call_site(go_fake_runtime(fake), go_fake_pc(fake, caller, at), go_fake_pc(fake, callee, 33));
}

static void test_calls(void **state)
{
	(void)state;
	assert_int_equal(site("m.caller", 10, "m.callee"), CALL_SITE_RIGHT);
	assert_int_equal(site("m.caller", 10, "m.other"), CALL_SITE_WRONG);
	assert_int_equal(site("m.caller", 20, "m.callee"), CALL_SITE_OPEN);
	assert_int_equal(site("m.caller", 20, "m.other"), CALL_SITE_OPEN);
	/* A return address is the byte behind the call, no other. */
	for (uint32_t at = 1; at < 64; at++)
		if (at != 10 && at != 20 && at != 30 && at != 40)
			assert_int_equal(site("m.caller", at, "m.callee"), CALL_SITE_WRONG);
}

static void test_jumps(void **state)
{
	(void)state;
	assert_int_equal(site("m.caller", 30, "m.callee"), CALL_SITE_RIGHT);
	assert_int_equal(site("m.caller", 30, "m.second"), CALL_SITE_RIGHT);
	assert_int_equal(site("m.caller", 30, "m.other"), CALL_SITE_WRONG);
	assert_int_equal(site("m.caller", 40, "m.callee"), CALL_SITE_WRONG);	/* in a circle */
}

/* Deferred functions of old versions return to the call of deferreturn, which is 5 bytes long. */
static void test_deferred(void **state)
{
	(void)state;
	assert_int_equal(site("m.defers", 20, "m.callee"), CALL_SITE_OPEN);
	assert_int_equal(site("m.defers", 25, "m.callee"), CALL_SITE_WRONG);
	assert_int_equal(site("m.defers", 25, "runtime.deferreturn"), CALL_SITE_RIGHT);
	assert_int_equal(site("m.defers", 21, "m.callee"), CALL_SITE_WRONG);
	assert_int_equal(site("m.caller", 5, "m.callee"), CALL_SITE_WRONG);	/* a call of another */
	assert_true(go_follows_call(go_fake_runtime(fake), go_fake_pc(fake, "m.defers", 20)));
}

static void test_free_places(void **state)
{
	(void)state;
	assert_int_equal(site("m.caller", 33, "runtime.mcall"), CALL_SITE_FREE);
	assert_int_equal(site("m.caller", 33, "gogo"), CALL_SITE_FREE);
	assert_int_equal(site("runtime.goexit", 1, "m.callee"), CALL_SITE_FREE);
}

static void test_unknown(void **state)
{
	struct go_runtime *rt = go_fake_runtime(fake);

	(void)state;
	assert_int_equal(go_call_site(rt, 0x1000, go_fake_pc(fake, "m.callee", 1)), CALL_SITE_UNKNOWN);
	assert_int_equal(go_call_site(rt, go_fake_pc(fake, "m.caller", 10), 0x1000), CALL_SITE_UNKNOWN);
}

static void test_follows_call(void **state)
{
	struct go_runtime *rt = go_fake_runtime(fake);

	(void)state;
	assert_true(go_follows_call(rt, go_fake_pc(fake, "m.caller", 10)));
	assert_true(go_follows_call(rt, go_fake_pc(fake, "m.caller", 20)));
	assert_false(go_follows_call(rt, go_fake_pc(fake, "m.caller", 11)));
	assert_false(go_follows_call(rt, go_fake_pc(fake, "m.caller", 0)));
	assert_false(go_follows_call(rt, go_fake_pc(fake, "m.wrapper", 5)));	/* a jump */
	assert_false(go_follows_call(rt, 0));
	assert_false(go_follows_call(rt, UINT64_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_jumps),
		cmocka_unit_test(test_deferred),
		cmocka_unit_test(test_free_places),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_follows_call),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
