/*
 * refusal.c: why the kernel does not let us look into a process. It only ever says EPERM or EACCES;
 * here the facts that its check uses (refusal_facts.c) are gone through in its own order, so that the
 * user is told one cause, the one that was found, and a line that helps in this very place. Nothing
 * is advised that is so already.
 *
 * Upstream text: ptrace(2), "Ptrace access mode checking", steps 3 to 5; Yama:
 * Documentation/admin-guide/LSM/Yama.rst.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "target/facility.h"
#include "target/live.h"

enum { CAP_BIT_SYS_PTRACE = 19 };

static bool may_trace_all(const struct refusal_facts *f)
{
	return f->our_caps >> CAP_BIT_SYS_PTRACE & 1;
}

/* "www-data (33)", or the number alone where it has no name. */
static const char *user_text(uint32_t uid, char *buf, size_t cap)
{
	char scratch[1024];
	struct passwd pw, *found = NULL;

	if (getpwuid_r(uid, &pw, scratch, sizeof(scratch), &found) == 0 && found)
		snprintf(buf, cap, "%s (%u)", pw.pw_name, uid);
	else
		snprintf(buf, cap, "%u", uid);
	return buf;
}

/* ---- what helps, by place ---- */

enum remedy { GET_ROOT, GET_CAPABILITY, GET_RID_OF_FILTER };

/* Each a line to paste; %d is the process. A container's own root need not have the right to trace. */
static const char *const remedies[][3] = {
	[PLACE_HOST] = {
		[GET_ROOT] = "sudo goprof attach %d",
		[GET_CAPABILITY] = "systemd-run --pty --same-dir goprof attach %d",
		[GET_RID_OF_FILTER] = "start goprof outside of this sandbox",
	},
	[PLACE_DOCKER] = {
		[GET_ROOT] = "docker exec -it --privileged -u 0 CONTAINER goprof attach %d",
		[GET_CAPABILITY] = "docker exec -it --privileged CONTAINER goprof attach %d    "
				   "or start it by: docker run --cap-add SYS_PTRACE ...",
		[GET_RID_OF_FILTER] = "docker run --cap-add SYS_PTRACE --security-opt seccomp=unconfined ...",
	},
	[PLACE_KUBERNETES] = {
		[GET_ROOT] = "securityContext: {runAsUser: 0, capabilities: {add: [\"SYS_PTRACE\"]}}",
		[GET_CAPABILITY] = "securityContext: {capabilities: {add: [\"SYS_PTRACE\"]}}",
		[GET_RID_OF_FILTER] = "securityContext: {seccompProfile: {type: Unconfined}, "
				      "capabilities: {add: [\"SYS_PTRACE\"]}}",
	},
	[PLACE_CONTAINER] = {
		[GET_ROOT] = "run goprof as root of this container, with CAP_SYS_PTRACE",
		[GET_CAPABILITY] = "podman run --cap-add SYS_PTRACE ...",
		[GET_RID_OF_FILTER] = "podman run --cap-add SYS_PTRACE --security-opt seccomp=unconfined ...",
	},
};

static struct error *helps(const struct refusal_facts *f, enum remedy remedy, struct error *err)
{
	const char *line = remedies[f->place][remedy], *at = strstr(line, "%d");

	if (!at)
		return error_todo(err, "%s", line);
	if (!f->pid)
		return error_todo(err, "%.*sPID%s", (int)(at - line), line, at + 2);
	return error_todo(err, "%.*s%d%s", (int)(at - line), line, f->pid, at + 2);
}

/* ---- causes, in the kernel's order ---- */

static bool all_equal(const uint32_t ids[3], uint32_t id)
{
	return ids[0] == id && ids[1] == id && ids[2] == id;
}

static struct error *why_capability(const struct refusal_facts *f, struct error *err)
{
	if (f->our_uid != 0 || may_trace_all(f))
		return NULL;
	error_why(err, f->place == PLACE_HOST ? "you are root, but without CAP_SYS_PTRACE" :
		  "this container lacks CAP_SYS_PTRACE");
	return helps(f, GET_CAPABILITY, err);
}

static struct error *why_yama_off(const struct refusal_facts *f, struct error *err)
{
	if (f->yama_scope != 3)
		return NULL;
	return error_todo(error_why(err, "kernel.yama.ptrace_scope is 3: nobody may trace until the next boot"),
			  "set kernel.yama.ptrace_scope to 1 in /etc/sysctl.d and boot again");
}

static struct error *why_user_ns(const struct refusal_facts *f, struct error *err)
{
	if (f->same_user_ns || !may_trace_all(f))
		return NULL;
	return error_todo(error_why(err, "it lives in another user namespace, where you have no rights"),
			  "run goprof outside of this container or user namespace");
}

static struct error *why_other_user(const struct refusal_facts *f, struct error *err)
{
	char theirs[96], ours[96];

	if (may_trace_all(f) || all_equal(f->uid, f->our_uid))
		return NULL;
	uint32_t uid = f->uid[0] != f->our_uid ? f->uid[0] : f->uid[1] != f->our_uid ? f->uid[1] : f->uid[2];
	return helps(f, GET_ROOT, error_why(err, "it belongs to user %s, you are %s",
					    user_text(uid, theirs, sizeof(theirs)),
					    user_text(f->our_uid, ours, sizeof(ours))));
}

static struct error *why_other_group(const struct refusal_facts *f, struct error *err)
{
	if (may_trace_all(f) || all_equal(f->gid, f->our_gid))
		return NULL;
	return helps(f, GET_ROOT, error_why(err, "it runs with group %u, you with group %u",
					    f->gid[0] != f->our_gid ? f->gid[0] : f->gid[1], f->our_gid));
}

static struct error *why_capabilities(const struct refusal_facts *f, struct error *err)
{
	if (may_trace_all(f) || !(f->caps & ~f->our_caps))
		return NULL;
	return helps(f, GET_ROOT, error_why(err, "it has capabilities that you lack (%llx)",
					    (unsigned long long)(f->caps & ~f->our_caps)));
}

static struct error *why_not_dumpable(const struct refusal_facts *f, struct error *err)
{
	if (may_trace_all(f) || f->dumpable)
		return NULL;
	return helps(f, GET_ROOT, error_why(err, "it has made itself unreadable (PR_SET_DUMPABLE, or its file "
					    "is not readable to its user)"));
}

static struct error *why_yama(const struct refusal_facts *f, struct error *err)
{
	if (may_trace_all(f) || f->yama_scope < 1)
		return NULL;
	if (f->yama_scope != 1) {
		helps(f, GET_ROOT, error_why(err, "kernel.yama.ptrace_scope is 2: only root may trace"));
		return f->pid ? err : error_todo(err, "sudo sysctl kernel.yama.ptrace_scope=1");
	}
	helps(f, GET_ROOT, error_why(err, "kernel.yama.ptrace_scope is 1: only a parent may trace its child"));
	if (f->place != PLACE_HOST || !f->pid)
		return err;
	return error_todo(err, "sudo goprof attach %d    or start it by: goprof run %s", f->pid, f->name);
}

static struct error *why_module(const struct refusal_facts *f, struct error *err)
{
	if (!f->our_label[0])
		return NULL;
	return error_why(err, "a security module forbids it to what it calls %s (%s)", f->our_label,
			 strerror(f->errnum));
}

struct error *refusal_explain(const struct refusal_facts *f)
{
	static struct error *(*const causes[])(const struct refusal_facts *f, struct error *err) = {
		why_capability, why_yama_off, why_user_ns, why_other_user, why_other_group,
		why_capabilities, why_not_dumpable, why_yama, why_module,
	};
	struct error *err = error_new(ERROR_DENIED, "cannot attach to %d (%s): not permitted", f->pid,
				      f->name);

	for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++)
		if (causes[i](f, err))
			return err;
	return error_why(err, "a security module or a sandbox of this machine forbids it (%s)",
			 strerror(f->errnum));
}

struct error *refusal_error(pid_t pid, int dir, const char *name, int errnum)
{
	struct refusal_facts f = { .pid = pid, .name = name, .errnum = errnum };

	refusal_facts_own(&f);
	if (!refusal_facts_of(pid, dir, &f))
		return error_new(ERROR_NO_PROCESS, "there is no process %d", pid);
	return refusal_explain(&f);
}

/* ---- when not even a child may be traced ---- */

static struct error *why_traced(const struct refusal_facts *f, struct error *err)
{
	if (!f->our_tracer)
		return NULL;
	return error_todo(error_why(err, "goprof is being traced itself (by pid %d), and its children with it",
				    f->our_tracer),
			  "start goprof without that");
}

static struct error *why_filter(const struct refusal_facts *f, struct error *err)
{
	if (!f->our_seccomp || f->errnum == ENOSYS)
		return NULL;
	return helps(f, GET_RID_OF_FILTER, error_why(err, "a seccomp filter on goprof forbids ptrace"));
}

static struct error *why_no_ptrace(const struct refusal_facts *f, struct error *err)
{
	if (f->errnum && f->errnum != ENOSYS)
		return NULL;
	return error_why(err, "this kernel, or the sandbox that plays it, has no ptrace as Linux has it");
}

/* The trial is on a child of our own, and so is run's: scope 1 lets a parent do that. */
static struct error *why_yama_even_child(const struct refusal_facts *f, struct error *err)
{
	return f->yama_scope < 2 ? NULL : why_yama(f, err);
}

struct error *refusal_of_all(struct error *err, const struct refusal_facts *f)
{
	static struct error *(*const causes[])(const struct refusal_facts *f, struct error *err) = {
		why_traced, why_no_ptrace, why_yama_off, why_yama_even_child, why_filter, why_module,
	};

	for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++)
		if (causes[i](f, err))
			return err;
	return error_why(err, "%s", strerror(f->errnum));
}

struct error *facility_explain(struct error *err, int errnum)
{
	struct refusal_facts f = { .name = "", .errnum = errnum };

	refusal_facts_own(&f);
	return refusal_of_all(err, &f);
}
