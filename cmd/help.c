/*
 * help.c: the text of --help, made from the tables of commands and options, so that it cannot
 * differ from what is parsed. At most 80 columns.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/words.h"

enum { HELP_WIDTH = 80, HELP_COLUMN = 26 };

/* Adds text word by word, broken before column 80 and continued at HELP_COLUMN. */
static void wrap(struct buf *b, const char *text)
{
	size_t column = HELP_COLUMN;

	while (*text) {
		size_t len = strcspn(text, " ");

		if (column > HELP_COLUMN && column + 1 + len > HELP_WIDTH) {
			buf_addf(b, "\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
		} else if (column > HELP_COLUMN) {
			buf_addc(b, ' ');
			column++;
		}
		buf_add(b, text, len);
		column += len;
		text += len + strspn(text + len, " ");
	}
	buf_addc(b, '\n');
}

/* "  -o, --output FILE       text" */
static void add_option(struct buf *b, const struct command *c, const struct option_row *row)
{
	const char *value = option_value(row, c);
	char names[64], text[512];
	int n = snprintf(names, sizeof(names), "  %c%c%s --%s%s%s", row->letter ? '-' : ' ',
			 row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
			 row->argument ? " " : "", row->argument ? row->argument : "");

	snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", option_help(row, c),
		 value ? " (default: " : "", value ? value : "", value ? ")" : "",
		 row->env ? " [" : "", row->env ? row->env : "", row->env ? "]" : "");
	if (n < HELP_COLUMN)
		buf_addf(b, "%-*s", HELP_COLUMN, names);
	else
		buf_addf(b, "%s\n%*s", names, HELP_COLUMN, "");
	wrap(b, text);
}

static void options_help(const struct command *c, struct buf *b)
{
	const char *done = NULL;

	/* Rows of a group need not stand together in the table's id order. */
	for (size_t first = 0; first < OPTION_COUNT; first++) {
		const char *group = option_table[first].group;
		bool seen = false;

		if (group == done || !(option_table[first].commands & c->bit))
			continue;
		for (size_t i = 0; i < first; i++)
			seen |= option_table[i].group == group && (option_table[i].commands & c->bit);
		if (seen)
			continue;
		buf_addf(b, "\n%s:\n", group);
		for (size_t i = first; i < OPTION_COUNT; i++)
			if (option_table[i].group == group && (option_table[i].commands & c->bit))
				add_option(b, c, &option_table[i]);
		done = group;
	}
}

static void program_help(struct buf *b)
{
	buf_adds(b, "goprof profiles Go programs from outside: every goroutine, no code change.\n\n");
	for (const struct command *c = command_table; c->name; c++) {
		char usage[64];

		snprintf(usage, sizeof(usage), "  goprof %-6s %s", c->name, c->words);
		buf_addf(b, "%-42s", usage);
		buf_addf(b, "%s\n", c->help);
	}
	buf_adds(b, "\ngoprof COMMAND --help tells its options. Start with: goprof run ./app\n");
}

void help_text(const struct command *c, struct buf *b)
{
	if (!c) {
		program_help(b);
		return;
	}
	buf_addf(b, "goprof %s [options] %s%s\n  %s\n", c->name, c->stops ? "[--] " : "", c->words,
		 c->help);
	options_help(c, b);
	if (c->more)
		buf_addf(b, "\n%s", c->more);
}
