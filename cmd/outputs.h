/*
 * outputs.h: everything that leaves goprof. Each -o is a format and a sink (file, stdout,
 * service); any number at once. A window goes in, its bytes go on by the writer thread.
 *
 * Order of use: create (all mistakes in names are found here), check, then for each program that
 * is recorded begin, window..., end; finish once. With exec a run may record several programs.
 */
#ifndef GOPROF_CMD_OUTPUTS_H
#define GOPROF_CMD_OUTPUTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cmd/options.h"
#include "cmd/output_name.h"
#include "export/export.h"

struct delivery;
struct dsn;
struct output_format;
struct outputs;
struct window;

struct outputs_options {
	struct option_list files;	/* as given; none and no DSN: the default names */
	const struct dsn *dsn;		/* borrowed; NULL none */
	struct export_options export;
	bool hold_stdout;		/* keep what goes there until finish: it is the child's */
};

struct error *outputs_create(const struct outputs_options *o, struct outputs **ret);
/* Drops what is not delivered. NULL is fine. */
void outputs_destroy(struct outputs *os);

/* Are all directories writable? Names whose directory has marks in it are tried when they are known. */
struct error *outputs_check(const struct outputs *os, const struct output_names *names);

/* `names` is copied. */
struct error *outputs_begin(struct outputs *os, const struct output_names *names);
/*
 * Runs the exporters, in the consumer's thread; as a rule it returns before anything is written. Where the
 * outputs are so slow that too many bytes are on their way, it waits for them, until outputs_hurry.
 */
struct error *outputs_window(struct outputs *os, const struct window *w);
/* The recording ends: what comes now is not much, and waits for nothing any more. From any thread. */
void outputs_hurry(struct outputs *os);
/* `keep` false: the recording was too short, nothing more is written. */
struct error *outputs_end(struct outputs *os, bool keep);
/* Adds what the exporters of the recording that was ended last say about themselves. */
void outputs_health(const struct outputs *os, uint64_t health[HEALTH_COUNT]);

/*
 * Waits for the deliveries. `drop` is asked meanwhile: true = the user wants to go now. *dropped
 * tells whether it said so; then call nothing more on `os`, not even destroy.
 * ERROR_OUTPUT, ERROR_NETWORK: the first failure of each kind that counts.
 */
struct error *outputs_finish(struct outputs *os, bool (*drop)(void *ctx), void *ctx, bool *dropped);

/* After finish. Borrowed. */
const struct delivery *outputs_deliveries(const struct outputs *os);
/* Is there an output of this format? */
bool outputs_have(const struct outputs *os, const struct output_format *format);
/* How many envelopes were not made, because no goroutine was seen twice in their window. */
uint32_t outputs_silent(const struct outputs *os);
/* How many windows there were for envelopes. */
uint32_t outputs_windows(const struct outputs *os);

#endif
