/*
 * log.c: intervals of the open window in the order in which they began. It stands in parts, so that
 * adding one never moves the others (a million of them take longer to move than a tick may be late) and
 * whoever lays them out can free them as it goes.
 */
#include <stdlib.h>

#include "profile/profile_impl.h"

struct log_entry *log_add(struct log *l)
{
	if (l->n / LOG_PART == l->n_parts) {
		struct error *err = array_reserve(&l->parts, &l->cap_parts, l->n_parts + 1, sizeof(*l->parts));
		struct log_entry *part = err ? NULL : malloc(LOG_PART * sizeof(*part));

		if (!part)
			return NULL;
		l->parts[l->n_parts++] = part;
	}
	return log_at(l, l->n++);
}

void log_deinit(struct log *l)
{
	for (uint32_t i = 0; i < l->n_parts; i++)
		free(l->parts[i]);
	free(l->parts);
	*l = (struct log){ 0 };
}
