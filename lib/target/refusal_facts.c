/*
 * refusal_facts.c: what the kernel's check of one process looking into another goes by, and where
 * goprof runs, which decides what can be done about it. Judges nothing: refusal.c does.
 *
 * Upstream text: proc(5) ("status", "attr"), user_namespaces(7), Yama in the kernel's admin guide. What
 * marks a container is the custom of Docker, Podman and Kubernetes, no interface.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/live.h"

static int yama_scope(void)
{
	char buf[16];
	uint64_t v;
	ssize_t n = procfs_read(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", buf, sizeof(buf));
	struct text t = { buf, buf + (n > 0 ? n : 0) };

	return text_dec(&t, &v) && v <= 3 ? (int)v : -1;
}

/* Kubernetes first: its containers may have Docker's mark as well. */
static enum refusal_place place(void)
{
	static const struct {
		const char *path;
		enum refusal_place place;
	} marks[] = {
		{ "/var/run/secrets/kubernetes.io", PLACE_KUBERNETES },
		{ "/.dockerenv", PLACE_DOCKER },
		{ "/run/.containerenv", PLACE_CONTAINER },
	};

	if (getenv("KUBERNETES_SERVICE_HOST"))
		return PLACE_KUBERNETES;
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		if (access(marks[i].path, F_OK) == 0)
			return marks[i].place;
	return PLACE_HOST;
}

/* "unconfined" is AppArmor's word for: by nothing. */
static void own_label(char *buf, size_t cap)
{
	ssize_t n = procfs_read(AT_FDCWD, "/proc/self/attr/current", buf, cap);

	buf[n > 0 ? strcspn(buf, "\n") : 0] = 0;
	if (!strcmp(buf, "unconfined"))
		buf[0] = 0;
}

void refusal_facts_own(struct refusal_facts *ret)
{
	struct procfs_status us = { 0 };

	procfs_status_at(AT_FDCWD, "/proc/self/status", &us);
	ret->our_uid = us.uid[3];
	ret->our_gid = us.gid[3];
	ret->our_caps = us.cap_effective;
	ret->our_seccomp = us.seccomp == 2;
	ret->our_tracer = us.tracer;
	ret->yama_scope = yama_scope();
	ret->place = place();
	own_label(ret->our_label, sizeof(ret->our_label));
}

/*
 * The owner of what is in /proc/PID is its user while it is dumpable, and root when it is not; the
 * folder itself is its user's always (task_dump_owner in fs/proc/base.c).
 */
static bool is_dumpable(int dir, const struct procfs_status *st)
{
	struct stat s;

	return fstatat(dir, "stat", &s, 0) || s.st_uid == st->uid[1];
}

/* "0 0 4294967295" */
static bool ours_is_first_user_ns(void)
{
	char buf[64];
	uint64_t inside, outside, count;
	ssize_t n = procfs_read(AT_FDCWD, "/proc/self/uid_map", buf, sizeof(buf));
	struct text t = { buf, buf + (n > 0 ? n : 0) };

	return n < 0 || (text_dec(&t, &inside) && text_dec(&t, &outside) && text_dec(&t, &count) &&
			 !inside && !outside && count == UINT32_MAX);
}

/*
 * Whoever may not look into a process may not read its link either. In the first namespace nothing
 * follows from that; in a later one the process is most likely outside of it.
 */
static bool in_our_user_ns(int dir)
{
	char ours[64], theirs[64];
	ssize_t a = readlink("/proc/self/ns/user", ours, sizeof(ours));
	ssize_t b = readlinkat(dir, "ns/user", theirs, sizeof(theirs));

	if (a <= 0 || b <= 0)
		return ours_is_first_user_ns();
	return a == b && !memcmp(ours, theirs, (size_t)a);
}

bool refusal_facts_of(pid_t pid, int dir, struct refusal_facts *ret)
{
	struct procfs_status them;

	if (!procfs_status_at(dir, "status", &them))
		return false;
	ret->pid = pid;
	ret->caps = them.cap_permitted;
	ret->dumpable = is_dumpable(dir, &them);
	ret->same_user_ns = in_our_user_ns(dir);
	memcpy(ret->uid, them.uid, sizeof(ret->uid));
	memcpy(ret->gid, them.gid, sizeof(ret->gid));
	return true;
}
