/*
 * recording_meta.c: what a profile says about the program and the machine it ran on. The release
 * is the user's word, else the version control revision or module version in the binary, else
 * nothing: a made-up release would mix profiles of different builds.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/recording.h"
#include "cmd/words.h"
#include "go/go.h"
#include "image/images.h"
#include "target/target.h"

const char *recording_exe(const struct target *t, struct arena *a)
{
	const char *path = target_exe_path(t);

	return arena_strndup(a, path, image_path_length(path));
}

static const char *copy(struct arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

/* "app@1a2b3c4": the revision, or the version of the main module when it has a real one. */
static const char *release_of(const struct go_build *b, struct arena *a)
{
	char revision[128], modified[8];

	if (go_build_setting(b, "vcs.revision", revision, sizeof(revision) - 8) && revision[0]) {
		if (go_build_setting(b, "vcs.modified", modified, sizeof(modified)) &&
		    strcmp(modified, "true") == 0)
			strcat(revision, "-dirty");
		return copy(a, revision);
	}
	if (b->main_version[0] == 'v')
		return copy(a, b->main_version);
	return NULL;
}

struct error *recording_meta(const struct recording_parts *p, struct arena *a,
			     struct profile_meta *ret)
{
	const struct go_build *b = go_runtime_build(p->runtime);
	const struct options *o = p->options;
	const char *exe = recording_exe(p->target, a);
	const struct arch *arch = target_arch(p->target);
	struct utsname host;

	if (!exe)
		return &err_nomem;
	if (uname(&host) != 0)
		memset(&host, 0, sizeof(host));
	*ret = (struct profile_meta){
		.program = path_base(exe),
		.exe = exe,
		.command = p->command,
		.pid = (int)target_pid(p->target),
		.go_version = b->version,
		.main_module = b->main_module,
		.main_path = b->path,
		.release = o->release ? o->release : release_of(b, a),
		.environment = o->environment,
		.server_name = copy(a, host.nodename),
		.os_name = copy(a, host.sysname),
		.os_version = copy(a, host.release),
		.arch = arch ? arch->name : "",
		.goprof_version = goprof_version(),
		.rate_hz = (uint32_t)o->rate,
		.mode = (enum profile_mode)o->mode,
		.restricted = go_runtime_restricted(p->runtime),
	};
	return ret->server_name && ret->os_name && ret->os_version ? NULL : &err_nomem;
}
