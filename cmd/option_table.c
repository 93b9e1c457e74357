/*
 * option_table.c: every option of every command, once. Order is the order of --help within a
 * group. A default is written as it would be typed and goes through the same reader, so it cannot
 * break the limits beside it.
 */
#include "cmd/options.h"

#include <stddef.h>

#include "base/clock.h"
#include "cmd/command.h"
#include "export/export.h"
#include "sample/sample.h"

static const char *const modes[] = { [PROFILE_WALL] = "wall", [PROFILE_CPU] = "cpu", NULL };
static const char *const looks[] = {
	[SAMPLER_LOOKS_AUTO] = "auto", [SAMPLER_LOOKS_PERF] = "perf", [SAMPLER_LOOKS_PTRACE] = "ptrace", NULL,
};
static const char *const busiest[] = { "busiest", NULL };
static const char *const threads[] = {
	[EXPORT_BY_GOROUTINE] = "goroutine", [EXPORT_BY_ENTRY] = "entry", [EXPORT_BY_LABEL] = "label:KEY", NULL
};

static const struct option_variant run_ends[] = {
	{ .commands = COMMAND_RUN,
	  .help = "end the profile after 30s, 1m30s, ... (goprof then waits for the program)" },
	{ 0 },
};
/* A dump shows both ends of a stack: it wants to see all of it. */
static const struct option_variant dump_depth[] = {
	{ .commands = COMMAND_DUMP, .value = "4096" },
	{ 0 },
};
static const struct option_variant more_said[] = {
	{ .commands = COMMAND_INFO, .help = "also the offset of every runtime member" },
	{ .commands = COMMAND_DUMP, .help = "what goprof does meanwhile" },
	{ 0 },
};

#define AT(m) offsetof(struct options, m)

static const char group_capture[] = "What is recorded";
static const char group_output[] = "Where it goes";
static const char group_talk[] = "What goprof says";

const struct option_row option_table[OPTION_COUNT] = {
	[OPTION_RATE] = {
		.name = "rate", .letter = 'r', .argument = "HZ", .type = OPTION_TYPE_NUMBER,
		.min = 1, .max = 1000, .value = "101", .commands = COMMAND_RECORDING,
		.group = group_capture, .offset = AT(rate), .help = "looks per second",
	},
	[OPTION_MODE] = {
		.name = "mode", .argument = "wall|cpu", .type = OPTION_TYPE_CHOICE,
		.choices = modes, .value = "wall", .commands = COMMAND_RECORDING,
		.group = group_capture, .offset = AT(mode),
		.help = "what the envelope shows: all time, or time on a CPU",
	},
	[OPTION_LOOKS] = {
		.name = "looks", .argument = "HOW", .type = OPTION_TYPE_CHOICE,
		.choices = looks, .value = "auto", .commands = COMMAND_RECORDING,
		.group = group_capture, .offset = AT(looks),
		.help = "threads on a CPU: by perf (no stops), by ptrace, or auto: perf if it can be had",
	},
	[OPTION_DURATION] = {
		.name = "duration", .letter = 'd', .argument = "TIME", .type = OPTION_TYPE_DURATION,
		.min = 20 * NSEC_PER_MSEC, .max = INT64_MAX, .commands = COMMAND_RECORDING,
		.group = group_capture, .offset = AT(duration),
		.help = "end the profile after 30s, 1m30s, ... (the program runs on)",
		.variants = run_ends,
	},
	[OPTION_DEPTH] = {
		.name = "depth", .argument = "N", .type = OPTION_TYPE_NUMBER,
		.min = 1, .max = 4096, .value = "512",
		.commands = COMMAND_RECORDING | COMMAND_DUMP,
		.group = group_capture, .offset = AT(depth), .help = "frames kept of a stack, half of them at each end",
		.variants = dump_depth,
	},
	[OPTION_SYSTEM] = {
		.name = "system", .type = OPTION_TYPE_FLAG,
		.commands = COMMAND_RECORDING | COMMAND_DUMP,
		.group = group_capture, .offset = AT(system),
		.help = "the Go runtime's own goroutines too",
	},
	[OPTION_NO_NATIVE] = {
		.name = "no-native", .type = OPTION_TYPE_FLAG, .commands = COMMAND_RECORDING,
		.group = group_capture, .offset = AT(no_native),
		.help = "no frames of C code: one [C] stands for all of them",
	},
	[OPTION_RUNTIME] = {
		.name = "runtime", .argument = "FILE", .type = OPTION_TYPE_STRING,
		.commands = COMMAND_RECORDING | COMMAND_DUMP | COMMAND_INFO,
		.group = group_capture, .offset = AT(runtime),
		.help = "of several Go runtimes in one process, that of this program or library (name or path)",
	},
	[OPTION_STRICT] = {
		.name = "strict", .type = OPTION_TYPE_FLAG, .commands = COMMAND_RECORDING,
		.group = group_capture, .offset = AT(strict),
		.help = "refuse a program whose goroutines cannot be told (else: threads only)",
	},
	[OPTION_LABELS] = {
		.name = "labels", .type = OPTION_TYPE_FLAG, .commands = COMMAND_DUMP,
		.group = group_capture, .offset = AT(labels),
		.help = "pprof labels, also when stdout is no terminal",
	},
	[OPTION_EXE] = {
		.name = "exe", .argument = "FILE", .type = OPTION_TYPE_STRING, .commands = COMMAND_DUMP,
		.group = group_capture, .offset = AT(exe),
		.help = "the program of a core file (default: the file that the core names)",
	},
	[OPTION_OUTPUT] = {
		.name = "output", .letter = 'o', .argument = "FILE", .type = OPTION_TYPE_LIST,
		.commands = COMMAND_RECORDING, .group = group_output, .offset = AT(outputs),
		.help = "NAME.pb.gz (pprof) or NAME.envelope (Sentry); can be repeated. "
			"%e program, %p pid, %t start, %n window; - is stdout (pprof:- or envelope:-)",
	},
	[OPTION_DSN] = {
		.name = "dsn", .argument = "DSN", .type = OPTION_TYPE_STRING, .env = "SENTRY_DSN",
		.commands = COMMAND_RECORDING, .group = group_output, .offset = AT(dsn),
		.help = "send each window to this Sentry project; no files, unless -o",
	},
	[OPTION_NO_DSN] = {
		.name = "no-dsn", .type = OPTION_TYPE_FLAG, .commands = COMMAND_RECORDING,
		.group = group_output, .offset = AT(no_dsn), .help = "send nothing, write files",
	},
	[OPTION_RELEASE] = {
		.name = "release", .argument = "TEXT", .type = OPTION_TYPE_STRING,
		.env = "SENTRY_RELEASE", .commands = COMMAND_RECORDING, .group = group_output,
		.offset = AT(release),
		.help = "the program's release (default: from its build information)",
	},
	[OPTION_ENVIRONMENT] = {
		.name = "environment", .argument = "TEXT", .type = OPTION_TYPE_STRING,
		.env = "SENTRY_ENVIRONMENT", .commands = COMMAND_RECORDING, .group = group_output,
		.offset = AT(environment), .help = "production, staging, ...",
	},
	[OPTION_MAX_THREADS] = {
		.name = "max-threads", .argument = "N", .type = OPTION_TYPE_NUMBER,
		.min = 0, .max = 1000000, .value = "1000", .commands = COMMAND_RECORDING,
		.group = group_output, .offset = AT(max_threads),
		.help = "threads kept in an envelope, busiest first; 0 = all: above 10 MB they have "
			"less detail, and what is too big for the service is grouped, and that is said",
	},
	[OPTION_THREADS] = {
		.name = "threads", .argument = "WHAT", .type = OPTION_TYPE_KEYED,
		.choices = threads, .value = "goroutine", .commands = COMMAND_RECORDING,
		.group = group_output, .offset = AT(threads),
		.help = "threads of an envelope: each goroutine, or shared by those of one entry function "
			"(entry) or one value of a pprof label (label:KEY), each time on as many as were "
			"there at once",
	},
	[OPTION_ACTIVE] = {
		.name = "active", .argument = "GOID|busiest", .type = OPTION_TYPE_GOID,
		.min = 1, .max = UINT64_MAX - 1, .choices = busiest, .commands = COMMAND_RECORDING,
		.group = group_output, .offset = AT(active),
		.help = "goroutine that an envelope shows first (default: 1, main; with --mode cpu, and where "
			"goroutines share threads, the busiest)",
	},
	[OPTION_PROGRESS] = {
		.name = "progress", .type = OPTION_TYPE_FLAG, .commands = COMMAND_RECORDING,
		.group = group_talk, .offset = AT(progress), .help = "a line each second on stderr",
	},
	[OPTION_QUIET] = {
		.name = "quiet", .letter = 'q', .type = OPTION_TYPE_FLAG,
		.commands = COMMAND_RECORDING | COMMAND_DUMP, .group = group_talk,
		.offset = AT(quiet), .help = "nothing but errors",
	},
	[OPTION_VERBOSE] = {
		.name = "verbose", .letter = 'v', .type = OPTION_TYPE_FLAG, .commands = COMMAND_ANY,
		.group = group_talk, .offset = AT(verbose),
		.help = "all health figures, and what goprof does meanwhile", .variants = more_said,
	},
	[OPTION_HELP] = {
		.name = "help", .letter = 'h', .type = OPTION_TYPE_FLAG, .commands = COMMAND_ALL,
		.group = group_talk, .offset = AT(help), .help = "this text",
	},
	[OPTION_VERSION] = {
		.name = "version", .type = OPTION_TYPE_FLAG, .commands = COMMAND_ALL,
		.group = group_talk, .offset = AT(version), .help = "goprof's version",
	},
};
