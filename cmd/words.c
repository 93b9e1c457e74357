/*
 * words.c: readers and writers of small texts, see words.h. No state, no allocation, nothing of
 * goprof: only text in and text out. Numbers for people are cut to the digits that mean something.
 *
 * Upstream: Go's time.ParseDuration for the syntax of durations.
 */
#include "cmd/words.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

struct unit {
	const char *name;
	double ns;
};

/* Longer names first: "ms" must not be read as "m". */
static const struct unit units[] = {
	{ "ns", 1 }, { "us", 1e3 }, { "µs", 1e3 }, { "μs", 1e3 }, { "ms", 1e6 },
	{ "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 },
};

/* One "12.5ms" of a duration; adds to *sum and moves *s on. */
static bool duration_part(const char **s, double *sum)
{
	double value = 0, digit = 1;
	bool any = false;
	const char *p = *s;

	for (; *p >= '0' && *p <= '9'; p++, any = true)
		value = value * 10 + (*p - '0');
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++, any = true)
			value += (*p - '0') * (digit /= 10);
	if (!any)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t len = strlen(units[i].name);

		if (strncmp(p, units[i].name, len) != 0)
			continue;
		*sum += value * units[i].ns;
		*s = p + len;
		return true;
	}
	return false;
}

bool duration_parse(const char *s, uint64_t *ret_ns)
{
	double sum = 0;

	if (strcmp(s, "0") == 0) {
		*ret_ns = 0;
		return true;
	}
	if (*s == '+')
		s++;
	if (!*s)
		return false;
	while (*s)
		if (!duration_part(&s, &sum))
			return false;
	if (sum > 9.2e18)	/* as time.Duration: 292 years */
		return false;
	*ret_ns = (uint64_t)(sum + 0.5);
	return true;
}

bool number_parse(const char *s, uint64_t *ret)
{
	uint64_t n = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return false;
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *s - '0', &n))
			return false;
	}
	*ret = n;
	return true;
}

const char *duration_text(uint64_t ns, char buf[static WORD_MAX])
{
	uint64_t ms = ns / NSEC_PER_MSEC, s = ns / NSEC_PER_SEC;

	if (s < 1)
		snprintf(buf, WORD_MAX, "%d ms", (int)ms);
	else if (s < 60)
		snprintf(buf, WORD_MAX, "%d.%d s", (int)s, (int)(ms / 100 % 10));
	else if (s < 3600)
		snprintf(buf, WORD_MAX, "%dm%02ds", (int)(s / 60), (int)(s % 60));
	else
		snprintf(buf, WORD_MAX, "%lluh%02dm%02ds", (unsigned long long)(s / 3600),
			 (int)(s / 60 % 60), (int)(s % 60));
	return buf;
}

const char *instant_text(uint64_t ns, char buf[static WORD_MAX])
{
	if (ns < 1000)
		snprintf(buf, WORD_MAX, "%d ns", (int)ns);
	else if (ns < NSEC_PER_MSEC)
		snprintf(buf, WORD_MAX, "%d us", (int)(ns / 1000));
	else if (ns < 10 * NSEC_PER_MSEC)
		snprintf(buf, WORD_MAX, "%.1f ms", (double)ns / 1e6);
	else
		duration_text(ns, buf);
	return buf;
}

const char *count_text(uint64_t n, char buf[static WORD_MAX])
{
	char digits[WORD_MAX];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), out = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[out++] = ',';
		buf[out++] = digits[i];
	}
	buf[out] = 0;
	return buf;
}

const char *percent_text(double part, double whole, int digits, char buf[static WORD_MAX])
{
	double value, most = digits ? 99.9 : 99;

	if (!(whole > 0)) {
		snprintf(buf, WORD_MAX, "-");
		return buf;
	}
	value = 100 * part / whole;
	/* "100.0 %" is said only when nothing is missing. */
	if (value < 100 && value > most)
		value = most;
	snprintf(buf, WORD_MAX, "%.*f %%", digits, value);
	return buf;
}

const char *signal_text(int sig, char buf[static WORD_MAX])
{
	const char *name = sigabbrev_np(sig);

	if (name)
		snprintf(buf, WORD_MAX, "SIG%s", name);
	else
		snprintf(buf, WORD_MAX, "signal %d", sig);
	return buf;
}

enum { DISTANCE_MAX = 63 };

static unsigned int least(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int m = a < b ? a : b;

	return m < c ? m : c;
}

unsigned int words_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned int rows[3][DISTANCE_MAX + 1];

	if (la > DISTANCE_MAX || lb > DISTANCE_MAX)
		return DISTANCE_MAX;
	for (size_t j = 0; j <= lb; j++)
		rows[0][j] = (unsigned int)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned int *row = rows[i % 3], *above = rows[(i - 1) % 3];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= lb; j++) {
			row[j] = least(above[j] + 1, row[j - 1] + 1,
				       above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1, DISTANCE_MAX);
		}
	}
	return rows[la % 3][lb];
}

bool words_near(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned int d = words_distance(a, b);

	/* A third of the letters may be wrong; a beginning ("dur") is meant to be completed. */
	if (la >= 2 && la < lb && strncmp(a, b, la) == 0)
		return true;
	return d <= 1 + (la < lb ? la : lb) / 4 && d < lb;
}

size_t text_columns(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

const char *path_base(const char *s)
{
	const char *slash = strrchr(s, '/');

	return slash && slash[1] ? slash + 1 : s;
}
