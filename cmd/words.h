/*
 * words.h: small readers and writers of text that several commands share: Go durations, numbers
 * with separators, the nearest word to a mistyped one, shortened paths. Pure functions.
 */
#ifndef GOPROF_CMD_WORDS_H
#define GOPROF_CMD_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "1m30s", "1.5h", "300ms" as time.ParseDuration takes them, not negative; false when it is none. */
bool duration_parse(const char *s, uint64_t *ret_ns);
/* A decimal number of at most 64 bits and nothing else. */
bool number_parse(const char *s, uint64_t *ret);

enum { WORD_MAX = 32 };	/* room for any of the texts below */

/* For people: "5 ms", "12.4 s", "2m05s", "1h02m05s". */
const char *duration_text(uint64_t ns, char buf[static WORD_MAX]);
/* Small times of the machine: "9 us", "1.8 ms". */
const char *instant_text(uint64_t ns, char buf[static WORD_MAX]);
/* "1,253" */
const char *count_text(uint64_t n, char buf[static WORD_MAX]);
/* part of whole: "69 %" or with one digit "98.9 %"; "-" when whole is 0. Never rounds up to 100. */
const char *percent_text(double part, double whole, int digits, char buf[static WORD_MAX]);
/* "SIGSEGV", or "signal 64" */
const char *signal_text(int sig, char buf[static WORD_MAX]);

/* Edits (insert, delete, replace, swap of neighbours) from a to b; words over 63 bytes are far away. */
unsigned int words_distance(const char *a, const char *b);
/* Is b near enough to a to be what was meant? */
bool words_near(const char *a, const char *b);

/* Columns a text takes on a terminal: one per UTF-8 character. */
size_t text_columns(const char *s);
/* The base name of a path; "/" and "" as they are. Borrowed from s. */
const char *path_base(const char *s);

#endif
