/*
 * main.c: three statements: carry out the command line, tell what went wrong, end with the status.
 * The only place that prints an error, and the only one that turns its kind into a status.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/command.h"

static int report(struct error *err, int status)
{
	_cleanup_error_ struct error *owned = err;
	_cleanup_(buf_deinit) struct buf b = { 0 };

	buf_init(&b);
	if (owned)
		error_text(owned, &b);
	if (b.len && !b.failed)
		fwrite(b.data, 1, b.len, stderr);
	if (status != STATUS_UNSET)
		return status;
	return owned ? error_exit_status(owned->kind) : 0;
}

int main(int argc, char **argv)
{
	int status = STATUS_UNSET;
	struct error *err = command_main(argc, argv, &status);

	return report(err, status);
}
