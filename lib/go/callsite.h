/*
 * callsite.h: does this return address follow a call of that function? A check of stacks that needs
 * no second unwinder and works on stripped programs.
 */
#ifndef GOPROF_GO_CALLSITE_H
#define GOPROF_GO_CALLSITE_H

#include <stdbool.h>

#include "go/go.h"

enum call_site {
	CALL_SITE_RIGHT,	/* a call of the callee */
	CALL_SITE_OPEN,		/* a call through a pointer: it may lead there */
	CALL_SITE_FREE,		/* need not be a call: the callee stands on another stack, or nothing called the caller */
	CALL_SITE_WRONG,	/* no call there, or one of another function */
	CALL_SITE_UNKNOWN,	/* code that cannot be read; one of the two is no Go function */
};

/*
 * `return_pc` is where the caller goes on, `callee_pc` any pc inside the function that it called.
 * Not for frames that nothing called: see unwind.h (PC_EXACT, PC_INJECTED).
 */
enum call_site go_call_site(struct go_runtime *rt, gaddr_t return_pc, gaddr_t callee_pc);

/* Does a CALL end at return_pc, inside a Go function? */
bool go_follows_call(struct go_runtime *rt, gaddr_t return_pc);

#endif
