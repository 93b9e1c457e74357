/*
 * fuzz_procfs.c: the texts of /proc. A process chooses its own name and the paths that it maps, so
 * parts of them are an adversary's.
 *
 * libFuzzer entry. The input goes to every parser; what comes out must be within its own bounds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "target/procfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse_maps(const char *s, size_t size)
{
	struct mappings maps;
	char *copy = malloc(size + 1);
	struct error *err;

	if (!copy)
		abort();
	memcpy(copy, s, size);
	copy[size] = 0;
	err = procfs_parse_maps(copy, size, &maps);
	if (err) {
		error_free(err);
		return;
	}
	for (size_t i = 0; i < maps.n; i++)
		if (maps.v[i].start > maps.v[i].end || strlen(maps.v[i].path) > size)
			abort();
	mappings_deinit(&maps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *)data;
	struct procfs_stat stat;
	struct procfs_status status;
	struct task_times times;
	struct task_syscall call;

	procfs_parse_stat(s, size, &stat);
	if (procfs_parse_status(s, size, &status) && !memchr(status.name, 0, sizeof(status.name)))
		abort();
	procfs_parse_times(s, size, &times);
	procfs_parse_syscall(s, size, &call);
	parse_maps(s, size);
	return 0;
}
