/*
 * stop.c: the counter that signal handlers of cmd/ raise and long loops look at.
 */
#include "base/stop.h"

volatile sig_atomic_t stop_requests;
