/*
 * cleanup.h: scope guards for local variables, and a visible hand-over of ownership.
 *
 *	_cleanup_free_ char *name = strdup(...);
 *	...
 *	*ret = take(name);		// ours no longer
 */
#ifndef GOPROF_BASE_CLEANUP_H
#define GOPROF_BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_error(struct error **err)
{
	error_free(*err);
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)
#define _cleanup_error_ _cleanup_(cleanup_error)

/* The value of a guarded pointer; the guard no longer owns it. */
#define take(p) ({ __typeof__(p) take_value_ = (p); (p) = NULL; take_value_; })
/* The same for a descriptor. */
#define take_fd(fd) ({ int take_value_ = (fd); (fd) = -1; take_value_; })

#endif
