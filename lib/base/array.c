/*
 * array.c: growth by doubling, checked for overflow.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { ARRAY_FIRST = 16 };

struct error *array_reserve(void *array, uint32_t *cap, uint32_t n, size_t size)
{
	uint64_t room = *cap ? *cap : ARRAY_FIRST;
	void *old, *grown;

	if (n <= *cap)
		return NULL;
	while (room < n)
		room *= 2;
	if (room > UINT32_MAX || (size && room > SIZE_MAX / size))
		return &err_nomem;
	/* By memcpy: the pointer has the caller's type, not void *. */
	memcpy(&old, array, sizeof(old));
	grown = realloc(old, room * size);
	if (!grown)
		return &err_nomem;
	memcpy(array, &grown, sizeof(grown));
	*cap = (uint32_t)room;
	return NULL;
}
