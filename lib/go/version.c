/*
 * version.c: "go1.26.10 X:regabi" into numbers.
 *
 * Only the minor number chooses a layout, so what follows it may be anything; the patch number is
 * for people and is -1 where there is none that can be trusted (betas, release candidates,
 * development versions). Pure text. Must not know which versions are supported.
 *
 * Upstream: src/go/version, https://go.dev/doc/toolchain#name, runtime.Version.
 */
#include <string.h>

#include "go/go_impl.h"

enum { DIGITS_MAX = 4 };

static bool number_parse(const char **p, int *ret)
{
	const char *s = *p;
	int v = 0;

	while (*s >= '0' && *s <= '9' && s - *p < DIGITS_MAX)
		v = v * 10 + (*s++ - '0');
	if (s == *p || (*s >= '0' && *s <= '9'))
		return false;
	*p = s;
	*ret = v;
	return true;
}

bool go_version_parse(const char *version, int *minor, int *patch)
{
	static const char devel[] = "devel ", release[] = "go1.";
	bool is_release = strncmp(version, devel, sizeof(devel) - 1) != 0;
	int n, p = -1;

	if (!is_release)
		version += sizeof(devel) - 1;
	if (strncmp(version, release, sizeof(release) - 1) != 0)
		return false;
	version += sizeof(release) - 1;
	if (!number_parse(&version, &n))
		return false;
	if (*version == '.') {
		version++;
		if (!number_parse(&version, &p))
			return false;
	} else if (*version == '\0' || *version == ' ') {
		p = 0;		/* the first release of a minor version had no third number up to 1.20 */
	}
	*minor = n;
	*patch = is_release ? p : -1;
	return true;
}
