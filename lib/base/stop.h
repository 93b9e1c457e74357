/*
 * stop.h: the wish to stop, said by a signal handler. The one piece of global state besides the
 * log level: a handler can reach nothing else.
 */
#ifndef GOPROF_BASE_STOP_H
#define GOPROF_BASE_STOP_H

#include <signal.h>

/* Number of requests to stop so far: 1 = finish and write, 2 or more = drop what is not written. */
extern volatile sig_atomic_t stop_requests;

#endif
