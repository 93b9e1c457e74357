/*
 * debug_file.c: where distributions put what they strip from libraries: a file named by the build id
 * of what it belongs to. The name is only a hint; the id inside it is the proof. Nothing is fetched
 * from anywhere.
 *
 * Upstream: gdb manual, "Debugging Information in Separate Files".
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/code_names.h"
#include "target/regular.h"

enum { ID_MAX = 2 * 64 + 1, PATH_BYTES = 512, ID_LEAST = 4 };

static void image_cleanup(struct image **img)
{
	image_close(*img);
}

static bool is_hex(const char *s)
{
	return s[strspn(s, "0123456789abcdef")] == '\0';
}

static struct error *open_path(const char *path, struct image **ret)
{
	struct stat st;
	_cleanup_close_ int fd = open_regular(AT_FDCWD, path, &st);

	return fd < 0 ? &err_notfound : image_open_fd(fd, ret);
}

struct error *debug_file_open(struct image *img, const char *root, struct image **ret)
{
	_cleanup_(image_cleanup) struct image *debug = NULL;
	char id[ID_MAX], found[ID_MAX], path[PATH_BYTES];
	struct error *err = image_build_id(img, id, sizeof(id));
	int len;

	if (err)
		return err;
	if (strlen(id) < ID_LEAST || !is_hex(id))
		return &err_notfound;
	len = snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", root, id, id + 2);
	if (len < 0 || (size_t)len >= sizeof(path))
		return &err_notfound;
	err = open_path(path, &debug);
	if (!err)
		err = image_build_id(debug, found, sizeof(found));
	if (err)
		return err;
	if (strcmp(id, found) != 0)
		return &err_notfound;
	*ret = take(debug);
	return NULL;
}
