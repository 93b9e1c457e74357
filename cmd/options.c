/*
 * options.c: walks a command line over the table of options. The code below knows types and
 * spellings (`--name value`, `--name=value`, `-nvalue`, `-qv`, `--`), the table knows options.
 *
 * Must not know what an option is for, and prints nothing: a mistake is an error value that names
 * the option, why it was refused and the nearest one that exists.
 */
#include "cmd/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/command.h"
#include "cmd/words.h"

struct parse {
	const struct command *command;
	char *const *at;	/* next word */
	struct options *o;
};

/* "--duration", "-d" or the name of the variable, for messages. */
struct spelling {
	const char *dashes;
	const char *name;
	size_t len;
};

static void *member(struct options *o, const struct option_row *row)
{
	return (char *)o + row->offset;
}

static struct error *refused(const struct parse *p, const struct spelling *s, const char *value,
			     const char *wanted)
{
	return error_new(p->command->usage, "%s%.*s: '%s' is not %s", s->dashes, (int)s->len, s->name,
			 value, wanted);
}

static const char *choices_text(const struct option_row *row, char *buf, size_t cap)
{
	size_t used = 0;

	buf[0] = 0;
	for (size_t i = 0; row->choices && row->choices[i]; i++) {
		const char *join = i == 0 ? "" : row->choices[i + 1] ? ", " : " or ";
		int n = snprintf(buf + used, cap - used, "%s%s", join, row->choices[i]);

		if (n < 0 || (size_t)n >= cap - used)
			break;
		used += (size_t)n;
	}
	return buf;
}

static const struct option_variant *variant(const struct option_row *row, const struct command *c)
{
	for (const struct option_variant *v = row->variants; v && v->commands; v++)
		if (v->commands & c->bit)
			return v;
	return NULL;
}

const char *option_value(const struct option_row *row, const struct command *c)
{
	const struct option_variant *v = variant(row, c);

	return v && v->value ? v->value : row->value;
}

const char *option_help(const struct option_row *row, const struct command *c)
{
	const struct option_variant *v = variant(row, c);

	return v && v->help ? v->help : row->help;
}

static struct error *missing(const struct parse *p, const struct option_row *row,
			     const struct spelling *s)
{
	return error_new(p->command->usage, "%s%.*s needs a value: %s", s->dashes, (int)s->len, s->name,
			 row->argument);
}

/* ---- types ---- */

typedef struct error *set_value(const struct parse *p, const struct option_row *row,
				const struct spelling *s, const char *value);

static struct error *set_flag(const struct parse *p, const struct option_row *row,
			      const struct spelling *s, const char *value)
{
	(void)s;
	(void)value;
	*(bool *)member(p->o, row) = true;
	return NULL;
}

static struct error *set_number(const struct parse *p, const struct option_row *row,
				const struct spelling *s, const char *value)
{
	uint64_t n;
	char wanted[96];

	if (!number_parse(value, &n) || n < row->min || n > row->max) {
		snprintf(wanted, sizeof(wanted), "a number from %llu to %llu",
			 (unsigned long long)row->min, (unsigned long long)row->max);
		return refused(p, s, value, wanted);
	}
	*(uint64_t *)member(p->o, row) = n;
	return NULL;
}

static struct error *set_duration(const struct parse *p, const struct option_row *row,
				  const struct spelling *s, const char *value)
{
	uint64_t ns, bare;

	if (number_parse(value, &bare) && bare)
		return error_todo(refused(p, s, value, "a duration: its unit is missing"),
				  "%s%.*s %ss", s->dashes, (int)s->len, s->name, value);
	if (!duration_parse(value, &ns))
		return refused(p, s, value, "a duration like 30s, 1m30s or 500ms");
	if (ns < row->min || ns > row->max)
		return error_new(p->command->usage, "%s%.*s %s: too short: at least 20ms", s->dashes,
				 (int)s->len, s->name, value);
	*(uint64_t *)member(p->o, row) = ns;
	return NULL;
}

static struct error *set_choice(const struct parse *p, const struct option_row *row,
				const struct spelling *s, const char *value)
{
	char wanted[96];

	for (size_t i = 0; row->choices[i]; i++) {
		if (strcmp(value, row->choices[i]) != 0)
			continue;
		*(uint64_t *)member(p->o, row) = i;
		return NULL;
	}
	return refused(p, s, value, choices_text(row, wanted, sizeof(wanted)));
}

static struct error *set_keyed(const struct parse *p, const struct option_row *row,
			       const struct spelling *s, const char *value)
{
	struct option_keyed *o = member(p->o, row);
	char wanted[96];

	for (size_t i = 0; row->choices[i]; i++) {
		const char *colon = strchr(row->choices[i], ':');
		size_t len = colon ? (size_t)(colon - row->choices[i]) + 1 : strlen(row->choices[i]);

		if (strncmp(value, row->choices[i], len) != 0 || (colon != NULL) != (value[len] != '\0'))
			continue;
		*o = (struct option_keyed){ i, colon ? value + len : NULL };
		return NULL;
	}
	return refused(p, s, value, choices_text(row, wanted, sizeof(wanted)));
}

static struct error *set_goid(const struct parse *p, const struct option_row *row,
			      const struct spelling *s, const char *value)
{
	uint64_t n;

	if (row->choices && strcmp(value, row->choices[0]) == 0)
		n = ACTIVE_BUSIEST;
	else if (!number_parse(value, &n) || n < row->min || n > row->max)
		return refused(p, s, value, "a goroutine id or busiest");
	*(uint64_t *)member(p->o, row) = n;
	return NULL;
}

static struct error *set_string(const struct parse *p, const struct option_row *row,
				const struct spelling *s, const char *value)
{
	if (!*value)
		return missing(p, row, s);
	*(const char **)member(p->o, row) = value;
	return NULL;
}

static struct error *set_list(const struct parse *p, const struct option_row *row,
			      const struct spelling *s, const char *value)
{
	struct option_list *list = member(p->o, row);
	const char **v;

	if (!*value)
		return missing(p, row, s);
	v = reallocarray(list->v, list->n + 1, sizeof(*v));
	if (!v)
		return &err_nomem;
	list->v = v;
	list->v[list->n++] = value;
	return NULL;
}

static set_value *const setters[OPTION_TYPE_COUNT] = {
	[OPTION_TYPE_FLAG] = set_flag,
	[OPTION_TYPE_NUMBER] = set_number,
	[OPTION_TYPE_DURATION] = set_duration,
	[OPTION_TYPE_CHOICE] = set_choice,
	[OPTION_TYPE_KEYED] = set_keyed,
	[OPTION_TYPE_GOID] = set_goid,
	[OPTION_TYPE_STRING] = set_string,
	[OPTION_TYPE_LIST] = set_list,
};

static struct error *set(const struct parse *p, const struct option_row *row,
			 const struct spelling *s, const char *value, enum option_source source)
{
	struct error *err = setters[row->type](p, row, s, value);

	if (!err)
		p->o->source[row - option_table] = source;
	return err;
}

/* ---- finding ---- */

static bool belongs(const struct option_row *row, const struct command *c)
{
	return row->commands & c->bit;
}

static const struct option_row *find_name(const struct command *c, const char *name, size_t len)
{
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (belongs(&option_table[i], c) && strlen(option_table[i].name) == len &&
		    strncmp(option_table[i].name, name, len) == 0)
			return &option_table[i];
	return NULL;
}

static const struct option_row *find_letter(const struct command *c, char letter)
{
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (belongs(&option_table[i], c) && option_table[i].letter == letter)
			return &option_table[i];
	return NULL;
}

static const char *nearest(const struct command *c, const char *word)
{
	const char *best = NULL;
	unsigned int least = UINT32_MAX;

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct option_row *row = &option_table[i];
		unsigned int d = words_distance(word, row->name);

		if (!belongs(row, c) || !words_near(word, row->name) || d >= least)
			continue;
		best = row->name;
		least = d;
	}
	return best;
}

/* `option` with its dashes; `word` is what a near one is looked for, NULL for a letter. */
static struct error *unknown(const struct parse *p, const char *option, const char *word)
{
	const char *name = p->command->name, *near = word ? nearest(p->command, word) : NULL;
	struct error *err = name ?
		error_new(p->command->usage, "%s has no option %s%s%s%s", name, option,
			  near ? "; did you mean --" : "", near ? near : "", near ? "?" : "") :
		error_new(p->command->usage, "there is no option %s%s%s%s", option,
			  near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");

	return near ? err : error_todo(err, "goprof %s%s--help lists them", name ? name : "", name ? " " : "");
}

/* ---- words of the line ---- */

/* `value` NULL: the next word of the line, where the option takes one. */
static struct error *apply(struct parse *p, const struct option_row *row, const struct spelling *s,
			   const char *value)
{
	if (row->type != OPTION_TYPE_FLAG && !value) {
		value = *p->at;
		if (!value)
			return missing(p, row, s);
		p->at++;
	}
	return set(p, row, s, value, OPTION_FROM_LINE);
}

static struct error *read_long(struct parse *p, const char *word)
{
	const char *equals = strchr(word, '=');
	struct spelling s = { "--", word, equals ? (size_t)(equals - word) : strlen(word) };
	const struct option_row *row = find_name(p->command, word, s.len);

	if (!row) {
		char option[64];

		snprintf(option, sizeof(option), "--%.*s", (int)(s.len < 60 ? s.len : 60), word);
		return unknown(p, option, option + 2);
	}
	if (row->type == OPTION_TYPE_FLAG && equals)
		return error_new(p->command->usage, "--%s takes no value", row->name);
	return apply(p, row, &s, equals ? equals + 1 : NULL);
}

/* "-q", "-qv", "-ofile", "-o file" */
static struct error *read_letters(struct parse *p, const char *letters)
{
	for (; *letters; letters++) {
		const struct option_row *row = find_letter(p->command, *letters);
		struct spelling s = { "-", letters, 1 };
		struct error *err;
		bool flag;

		if (!row)
			return unknown(p, (char[]){ '-', *letters, 0 }, NULL);
		flag = row->type == OPTION_TYPE_FLAG;
		err = apply(p, row, &s, !flag && letters[1] ? letters + 1 : NULL);
		if (err || !flag)
			return err;
	}
	return NULL;
}

static struct error *read_line(struct parse *p)
{
	bool options = true;

	while (*p->at) {
		const char *word = *p->at++;
		struct error *err = NULL;

		if (options && strcmp(word, "--") == 0) {
			options = false;
		} else if (options && word[0] == '-' && word[1] == '-') {
			err = read_long(p, word + 2);
		} else if (options && word[0] == '-' && word[1]) {
			err = read_letters(p, word + 1);
		} else {
			p->o->words[p->o->n_words++] = (char *)word;
			/* Behind the first word of `run` every word is the command's own, `--` too. */
			if (p->command->stops)
				options = false;
			if (p->command->stops)
				while (*p->at)
					p->o->words[p->o->n_words++] = *p->at++;
		}
		if (err)
			return err;
	}
	return NULL;
}

static struct error *read_defaults(const struct parse *p, char *(*env)(const char *))
{
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct option_row *row = &option_table[i];
		struct spelling s = { "--", row->name, strlen(row->name) };
		const char *value;
		struct error *err = NULL;

		if (option_value(row, p->command))
			err = set(p, row, &s, option_value(row, p->command), OPTION_DEFAULT);
		if (err)
			return err;
		value = row->env && belongs(row, p->command) ? env(row->env) : NULL;
		if (!value || !*value)
			continue;
		s = (struct spelling){ "", row->env, strlen(row->env) };
		err = set(p, row, &s, value, OPTION_FROM_ENV);
		if (err)
			return err;
	}
	return NULL;
}

static struct error *check_words(const struct command *c, const struct options *o)
{
	if (o->help || o->version)
		return NULL;
	if (o->n_words < c->min)
		return error_todo(error_new(c->usage, "%s needs %s", c->name, c->missing),
				  "goprof %s %s", c->name, c->words);
	if (o->n_words > c->max)
		return error_todo(error_new(c->usage, "%s takes one %s, but there is also '%s'", c->name,
					    c->words, o->words[c->max]), "goprof %s %s", c->name, c->words);
	return NULL;
}

struct error *options_parse(const struct command *c, char *const *argv, char *(*env)(const char *),
			    struct options *ret)
{
	_cleanup_(options_deinit) struct options o = { .command = c };
	struct parse p = { .command = c, .at = argv, .o = &o };
	size_t n = 0;
	struct error *err;

	while (argv[n])
		n++;
	o.words = calloc(n + 1, sizeof(*o.words));
	if (!o.words)
		return &err_nomem;
	err = read_defaults(&p, env);
	if (!err)
		err = read_line(&p);
	if (!err)
		err = check_words(c, &o);
	if (err)
		return err;
	*ret = o;
	o = (struct options){ 0 };
	return NULL;
}

void options_deinit(struct options *o)
{
	free(o->words);
	free(o->outputs.v);
	o->words = NULL;
	o->outputs = (struct option_list){ 0 };
}

bool options_colour(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}
