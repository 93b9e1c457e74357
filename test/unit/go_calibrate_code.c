/*
 * go_calibrate_code.c: what is claimed from instructions. The functions are a few instructions each,
 * with the accesses that the runtime's own have, and with what must not be taken for them.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "go/calibrate_impl.h"

enum { AT = 0x401000 };

/* One function at a time; the others do not exist. */
static const char *name;
static const uint8_t *code;
static size_t code_len;

bool go_func_by_name(struct go_runtime *rt, const char *asked, uint32_t *pos, struct go_func *ret)
{
	(void)rt;
	if (strcmp(asked, name) != 0 || (*pos)++)
		return false;
	*ret = (struct go_func){ .entry = AT, .end = AT + code_len };
	return true;
}

size_t go_code_read(struct go_runtime *rt, gaddr_t pc, void *buf, size_t len)
{
	size_t left = code_len - (size_t)(pc - AT);

	(void)rt;
	len = len < left ? len : left;
	memcpy(buf, code + (pc - AT), len);
	return len;
}

#define CODE(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ })

static struct code_claims claims_of(const char *function, const uint8_t *bytes, size_t len)
{
	struct code_claims c;
	struct go_runtime *none = NULL;

	name = function;
	code = bytes;
	code_len = len;
	cal_code(none, &c);
	return c;
}

/* mov rbx,[rax+0x30]; cmp rax,[rbx+0x48]; mov rdx,[rbx]; cmp rax,rdx; cmp rax,[rbx+0xb8] */
#define LOAD_M 0x48, 0x8b, 0x58, 0x30
#define CMP_GSIGNAL 0x48, 0x3b, 0x43, 0x48
#define LOAD_G0 0x48, 0x8b, 0x13
#define CMP_G0 0x48, 0x39, 0xd0
#define CMP_CURG 0x48, 0x3b, 0x83, 0xb8, 0, 0, 0
/* mov rdi,[rsp+0x10]; mov rax,fs:-8: on the stack, and not in memory of a struct */
#define FROM_STACK 0x48, 0x8b, 0x7c, 0x24, 0x10
#define LOAD_G 0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff

static void test_systemstack(void **state)
{
	struct code_claims c = claims_of("runtime.systemstack", CODE(FROM_STACK, LOAD_G, LOAD_M, CMP_GSIGNAL,
								       LOAD_G0, CMP_G0, CMP_CURG, 0xc3));

	(void)state;
	assert_int_equal(c.g_m, 0x30);
	assert_int_equal(c.m_gsignal, 0x48);
	assert_int_equal(c.m_g0, 0);
	assert_int_equal(c.m_curg, 0xb8);
	assert_int_equal(c.m_vdso_sp, CAL_NONE);
	assert_int_equal(c.g_labels, CAL_NONE);
	/* One register for both structs, or one access less: another function. */
	c = claims_of("runtime.systemstack", CODE(LOAD_M, CMP_GSIGNAL, LOAD_G0, CMP_G0, 0xc3));
	assert_int_equal(c.m_curg, CAL_NONE);
	c = claims_of("runtime.systemstack", CODE(0x48, 0x8b, 0x5b, 0x30, CMP_GSIGNAL, LOAD_G0, CMP_CURG, 0xc3));
	assert_int_equal(c.m_curg, CAL_NONE);
}

/* mov rcx,[rbx+0x388]; mov [rbx+0x388],rcx; mov [rbx+0x380],rdx; cmp r14,[rbx+0xb8] */
#define SAVE_PC 0x48, 0x8b, 0x8b, 0x88, 3, 0, 0
#define SET_PC 0x48, 0x89, 0x8b, 0x88, 3, 0, 0
#define SET_SP 0x48, 0x89, 0x93, 0x80, 3, 0, 0
#define CMP_CURG_R14 0x4c, 0x3b, 0xb3, 0xb8, 0, 0, 0

static void test_nanotime(void **state)
{
	struct code_claims c = claims_of("runtime.nanotime1", CODE(SAVE_PC, SET_PC, SET_SP, CMP_CURG_R14, 0xc3));

	(void)state;
	assert_int_equal(c.m_vdso_pc, 0x388);
	assert_int_equal(c.m_vdso_sp, 0x380);
	assert_int_equal(c.vdso_curg, 0xb8);
	c = claims_of("runtime.nanotime1", CODE(SAVE_PC, SET_SP, SET_PC, CMP_CURG_R14, 0xc3));
	assert_int_equal(c.m_vdso_sp, CAL_NONE);	/* sp before pc */
	c = claims_of("runtime.nanotime1", CODE(SET_PC, SET_SP));
	assert_int_equal(c.m_vdso_sp, CAL_NONE);
	c = claims_of("runtime.nanotime1", CODE(0xc3));
	assert_int_equal(c.m_vdso_sp, CAL_NONE);
}

/* cmp rsp,[r14+0x10]; mov [r14+0x168],rax; mov [r11],rax; mov rcx,[r14+0x168]; mov [r14+0x170],rax */
#define CHECK_STACK 0x49, 0x3b, 0x66, 0x10
#define SET_LABELS 0x49, 0x89, 0x86, 0x68, 1, 0, 0
#define NOTE_BARRIER 0x49, 0x89, 0x03
#define LOAD_LABELS 0x49, 0x8b, 0x8e, 0x68, 1, 0, 0
#define SET_OTHER 0x49, 0x89, 0x86, 0x70, 1, 0, 0

static void test_labels(void **state)
{
	static const char f[] = "runtime/pprof.runtime_setProfLabel";
	struct code_claims c = claims_of(f, CODE(CHECK_STACK, NOTE_BARRIER, LOAD_LABELS, SET_LABELS, 0xc3));

	(void)state;
	assert_int_equal(c.g_labels, 0x168);
	c = claims_of(f, CODE(CHECK_STACK, SET_LABELS, SET_LABELS, SET_OTHER, 0xc3));
	assert_int_equal(c.g_labels, CAL_NONE);
	c = claims_of(f, CODE(CHECK_STACK, LOAD_LABELS, 0xc3));
	assert_int_equal(c.g_labels, CAL_NONE);
}

/* inc qword [rax+0x140]; inc dword [rax+0x148]; dec dword [rcx+0x148]; inc dword [rax+0x14c] */
#define COUNT_ALL 0x48, 0xff, 0x80, 0x40, 1, 0, 0
#define COUNT_UP 0xff, 0x80, 0x48, 1, 0, 0
#define COUNT_DOWN 0xff, 0x89, 0x48, 1, 0, 0
#define COUNT_OTHER 0xff, 0x80, 0x4c, 1, 0, 0

static void test_cgocall(void **state)
{
	struct code_claims c = claims_of("runtime.cgocall", CODE(COUNT_ALL, COUNT_UP, COUNT_DOWN, 0xc3));

	(void)state;
	assert_int_equal(c.m_ncgo, 0x148);
	c = claims_of("runtime.cgocall", CODE(COUNT_ALL, COUNT_UP, COUNT_OTHER, COUNT_DOWN, 0xc3));
	assert_int_equal(c.m_ncgo, CAL_NONE);
	c = claims_of("runtime.cgocall", CODE(COUNT_ALL, COUNT_UP, 0xc3));
	assert_int_equal(c.m_ncgo, CAL_NONE);
}

/* mov [rax+0x68],rdx; mov [rax+0x70],rsi; mov [rax+0x38],rdx; mov [rax+0x40],rsi */
#define SET_SYSCALLSP 0x48, 0x89, 0x50, 0x68
#define SET_SYSCALLPC 0x48, 0x89, 0x70, 0x70
#define SET_SCHED_SP 0x48, 0x89, 0x50, 0x38
#define SET_SCHED_PC 0x48, 0x89, 0x70, 0x40

static void test_entersyscall(void **state)
{
	static const char f[] = "runtime.reentersyscall";
	struct code_claims c = claims_of(f, CODE(CHECK_STACK, SET_SCHED_SP, SET_SCHED_PC, SET_SYSCALLSP,
						 FROM_STACK, SET_SYSCALLPC, 0xc3));

	(void)state;
	/* Which of them it is, memory tells. */
	assert_int_equal(c.n_pairs, 2);
	assert_int_equal(c.pairs[0], 0x38);
	assert_int_equal(c.pairs[1], 0x68);
	c = claims_of(f, CODE(SET_SYSCALLPC, SET_SYSCALLSP, 0xc3));
	assert_int_equal(c.n_pairs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_systemstack),
		cmocka_unit_test(test_nanotime),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_cgocall),
		cmocka_unit_test(test_entersyscall),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
