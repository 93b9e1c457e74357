/*
 * program.c: looking a command up. The search is PATH's, as execvp(3) does it, without a shell
 * for files that are no program.
 */
#include "cmd/program.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/words.h"

bool program_is_executable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool ends_with_go(const char *name)
{
	size_t len = strlen(name);

	return len > 3 && strcmp(name + len - 3, ".go") == 0;
}

static bool holds_go_files(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	bool found = false;

	if (!d)
		return false;
	while (!found && (e = readdir(d)))
		found = ends_with_go(e->d_name);
	closedir(d);
	return found;
}

/* What to type instead; returns err. */
static struct error *hint(struct error *err, const char *word)
{
	_cleanup_free_ char *here = NULL;
	struct stat st;

	if (!strchr(word, '/')) {
		if (asprintf(&here, "./%s", word) < 0)
			here = NULL;
		if (here && program_is_executable(here))
			return error_todo(err, "there is an executable %s here: goprof run %s", here, here);
	}
	if (stat(word, &st) != 0)
		return err;
	if (S_ISREG(st.st_mode) && ends_with_go(word))
		return error_todo(err, "go build -o %.*s %s && goprof run ./%.*s",
				  (int)strlen(path_base(word)) - 3, path_base(word), word,
				  (int)strlen(path_base(word)) - 3, path_base(word));
	if (S_ISDIR(st.st_mode) && holds_go_files(word))
		return error_todo(err, "go build -o app %s%s && goprof run ./app",
				  strchr(word, '/') || word[0] == '.' ? "" : "./", word);
	return err;
}

static struct error *refuse(const char *word, const char *path, int number)
{
	struct stat st;
	struct error *err;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return hint(error_new(ERROR_START_EXEC, "cannot start %s: it is a directory", word), word);
	if (number == ENOENT || number == ENOTDIR)
		return hint(error_new(ERROR_START_MISSING, "cannot start %s: no such file", word), word);
	err = error_new(ERROR_START_EXEC, "cannot start %s: %s", word,
			number == EACCES ? "not executable" : strerror(number));
	if (number == EACCES && S_ISREG(st.st_mode) && !(st.st_mode & 0111) && !ends_with_go(word))
		return error_todo(err, "chmod +x %s", path);
	return hint(err, word);
}

/* errno, or 0 when `path` can be executed. */
static int try(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return EACCES;
	return access(path, X_OK) == 0 ? 0 : errno;
}

static struct error *search(const char *word, const char *path, char **ret)
{
	_cleanup_free_ char *denied = NULL;

	for (const char *at = path, *end; at; at = *end ? end + 1 : NULL) {
		_cleanup_free_ char *file = NULL;
		int number;

		end = strchrnul(at, ':');
		if (asprintf(&file, "%.*s%s%s", (int)(end - at), at, end == at ? "./" : "/", word) < 0) {
			file = NULL;
			return &err_nomem;
		}
		number = try(file);
		if (number == 0) {
			*ret = take(file);
			return NULL;
		}
		if (number == EACCES && !denied)
			denied = take(file);
	}
	if (denied)
		return refuse(word, denied, EACCES);
	return hint(error_new(ERROR_START_MISSING, "cannot start %s: not found in PATH", word), word);
}

struct error *program_find(const char *word, const char *path, char **ret)
{
	char *copy;
	int number;

	if (!*word)
		return error_new(ERROR_START_MISSING, "cannot start '': the name is empty");
	if (!strchr(word, '/'))
		return search(word, path ? path : "/bin:/usr/bin", ret);
	number = try(word);
	if (number)
		return refuse(word, word, number);
	copy = strdup(word);
	if (!copy)
		return &err_nomem;
	*ret = copy;
	return NULL;
}
