/*
 * refusal.c: why the kernel does not let us look into a process. It only ever says EPERM or EACCES;
 * here the facts that its check uses are gathered and gone through in its own order, so that the
 * user is told one cause, the one that was found, and a line that helps in this very place.
 *
 * Upstream text: ptrace(2), "Ptrace access mode checking", steps 3 to 5; Yama:
 * Documentation/admin-guide/LSM/Yama.rst.
 */
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- causes, in the kernel's order ---- */

static bool all_equal(const uint32_t ids[3], uint32_t id)
{
	return ids[0] == id && ids[1] == id && ids[2] == id;
}

static struct error *why_container(const struct refusal_facts *f, struct error *err)
{
	if (f->our_uid != 0 || may_trace_all(f))
		return NULL;
	return error_todo(error_why(err, "this container lacks CAP_SYS_PTRACE"),
			  "docker run --cap-add SYS_PTRACE ...   Kubernetes: "
			  "securityContext.capabilities.add: [\"SYS_PTRACE\"]");
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
	return error_todo(error_why(err, "it belongs to user %s, you are %s",
				    user_text(uid, theirs, sizeof(theirs)),
				    user_text(f->our_uid, ours, sizeof(ours))),
			  "sudo goprof attach %d", f->pid);
}

static struct error *why_other_group(const struct refusal_facts *f, struct error *err)
{
	if (may_trace_all(f) || all_equal(f->gid, f->our_gid))
		return NULL;
	return error_todo(error_why(err, "it runs with group %u, you with group %u",
				    f->gid[0] != f->our_gid ? f->gid[0] : f->gid[1], f->our_gid),
			  "sudo goprof attach %d", f->pid);
}

static struct error *why_capabilities(const struct refusal_facts *f, struct error *err)
{
	if (may_trace_all(f) || !(f->caps & ~f->our_caps))
		return NULL;
	return error_todo(error_why(err, "it has capabilities that you lack (%llx)",
				    (unsigned long long)(f->caps & ~f->our_caps)),
			  "sudo goprof attach %d", f->pid);
}

static struct error *why_not_dumpable(const struct refusal_facts *f, struct error *err)
{
	if (may_trace_all(f) || f->dumpable)
		return NULL;
	return error_todo(error_why(err, "it has made itself unreadable (PR_SET_DUMPABLE, or its file is not "
				    "readable to its user)"),
			  "sudo goprof attach %d", f->pid);
}

static struct error *why_yama(const struct refusal_facts *f, struct error *err)
{
	if (may_trace_all(f) || f->yama_scope < 1)
		return NULL;
	return error_todo(error_why(err, f->yama_scope == 1 ?
				    "kernel.yama.ptrace_scope is 1: only a parent may trace its child" :
				    "kernel.yama.ptrace_scope is 2: only root may trace"),
			  f->yama_scope == 1 ? "sudo goprof attach %d    or start it by: goprof run %s" :
			  "sudo goprof attach %d", f->pid, f->name);
}

struct error *refusal_explain(const struct refusal_facts *f)
{
	static struct error *(*const causes[])(const struct refusal_facts *f, struct error *err) = {
		why_container, why_yama_off, why_user_ns, why_other_user, why_other_group,
		why_capabilities, why_not_dumpable, why_yama,
	};
	struct error *err = error_new(ERROR_DENIED, "cannot attach to %d (%s): not permitted", f->pid,
				      f->name);

	for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++)
		if (causes[i](f, err))
			return err;
	return error_why(err, "a security module or a sandbox of this machine forbids it (%s)",
			 strerror(f->errnum));
}

/* ---- facts ---- */

static int yama_scope(void)
{
	char buf[16];
	uint64_t v;
	ssize_t n = procfs_read(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", buf, sizeof(buf));
	struct text t = { buf, buf + (n > 0 ? n : 0) };

	return text_dec(&t, &v) && v <= 3 ? (int)v : -1;
}

/* The owner of /proc/PID is its user while it is dumpable, and root when it is not. */
static bool is_dumpable(int dir, const struct procfs_status *st)
{
	struct stat s;

	return fstat(dir, &s) || s.st_uid == st->uid[1];
}

static bool in_our_user_ns(int dir)
{
	char ours[64], theirs[64];
	ssize_t a = readlink("/proc/self/ns/user", ours, sizeof(ours));
	ssize_t b = readlinkat(dir, "ns/user", theirs, sizeof(theirs));

	/* The link cannot be read where we have no rights: then the other causes must tell. */
	return a <= 0 || b <= 0 || (a == b && !memcmp(ours, theirs, (size_t)a));
}

struct error *refusal_error(pid_t pid, int dir, const char *name, int errnum)
{
	struct procfs_status them = { 0 }, us = { 0 };

	if (!procfs_status_at(dir, "status", &them) ||
	    !procfs_status_at(AT_FDCWD, "/proc/self/status", &us))
		return error_new(ERROR_NO_PROCESS, "there is no process %d", pid);
	struct refusal_facts f = {
		.pid = pid, .name = name, .errnum = errnum,
		.our_uid = us.uid[3], .our_gid = us.gid[3],
		.caps = them.cap_permitted, .our_caps = us.cap_effective,
		.yama_scope = yama_scope(), .dumpable = is_dumpable(dir, &them),
		.same_user_ns = in_our_user_ns(dir),
	};
	memcpy(f.uid, them.uid, sizeof(f.uid));
	memcpy(f.gid, them.gid, sizeof(f.gid));
	return refusal_explain(&f);
}
