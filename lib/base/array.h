/*
 * array.h: room in a growing array. The array, its length and its capacity stay plain members of
 * whoever owns them; only the doubling is written once.
 */
#ifndef GOPROF_BASE_ARRAY_H
#define GOPROF_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * `array` points to the pointer of an array of `cap` items of `size` bytes (NULL with cap 0).
 * Afterwards it has room for `n`; the new room is not initialised. On failure nothing has changed.
 */
struct error *array_reserve(void *array, uint32_t *cap, uint32_t n, size_t size);

#endif
