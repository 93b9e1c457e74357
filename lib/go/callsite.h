/*
 * callsite.h: does this return address follow a call of that function? A check of stacks that needs
 * no second unwinder and works on stripped programs.
 */
#ifndef GOPROF_GO_CALLSITE_H
#define GOPROF_GO_CALLSITE_H

#include "go/go.h"

enum call_site {
	CALL_SITE_RIGHT,	/* a call of the callee, or an indirect call */
	CALL_SITE_WRONG,	/* no call there, or one of another function */
	CALL_SITE_UNKNOWN,	/* code that cannot be read; one of the two is no Go function */
};

/*
 * `return_pc` is where the caller goes on, `callee_pc` any pc inside the function that it called.
 * Not for frames that nothing called: see unwind.h (PC_EXACT, PC_INJECTED).
 */
enum call_site go_call_site(struct go_runtime *rt, gaddr_t return_pc, gaddr_t callee_pc);

#endif
