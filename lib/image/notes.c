/*
 * notes.c: the build id, from the note segments.
 *
 * GNU's build id is the one that servers and package managers know, so it goes first; Go's own is
 * the fallback of programs linked by Go's linker alone. Must not know what Go's id means.
 *
 * Upstream: cmd/internal/buildid (what Go's linker writes).
 */
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "image/image_impl.h"
#include "target/elf_note.h"

enum { NOTES_BYTES_MAX = 64 * 1024 };

struct build_ids {
	struct cursor gnu, go;
};

static struct error *write_hex(const struct cursor *id, char *buf, size_t cap)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = (size_t)(id->end - id->p);

	if (n == 0 || n > (cap - 1) / 2)
		return &err_notfound;
	for (size_t i = 0; i < n; i++) {
		buf[2 * i] = digits[id->p[i] >> 4];
		buf[2 * i + 1] = digits[id->p[i] & 15];
	}
	buf[2 * n] = '\0';
	return NULL;
}

static struct error *write_text(const struct cursor *id, char *buf, size_t cap)
{
	size_t n = (size_t)(id->end - id->p);

	if (n == 0 || n >= cap)
		return &err_notfound;
	for (size_t i = 0; i < n; i++)
		if (id->p[i] < 0x21 || id->p[i] > 0x7e)
			return &err_notfound;
	memcpy(buf, id->p, n);
	buf[n] = '\0';
	return NULL;
}

/* The ids of one segment; they point into `bytes`. */
static void notes_read(struct image *img, const Elf64_Phdr *p, uint8_t *bytes, struct build_ids *ids)
{
	struct cursor c = cursor_over(bytes, image_phdr_read(img, p, bytes, NOTES_BYTES_MAX));
	struct elf_note n;

	while (elf_note_next(&c, &n)) {
		enum build_id kind = elf_note_build_id(&n);

		if (kind == BUILD_ID_GNU && !ids->gnu.p)
			ids->gnu = n.desc;
		else if (kind == BUILD_ID_GO && !ids->go.p)
			ids->go = n.desc;
	}
}

struct error *image_build_id(struct image *img, char *buf, size_t cap)
{
	_cleanup_free_ uint8_t *bytes = malloc(NOTES_BYTES_MAX);
	struct error *found = &err_notfound;

	if (!bytes)
		return &err_nomem;
	if (cap == 0)
		return &err_notfound;
	for (size_t i = 0; i < img->n_phdrs; i++) {
		struct build_ids ids = { 0 };

		if (img->phdrs[i].p_type != PT_NOTE)
			continue;
		notes_read(img, &img->phdrs[i], bytes, &ids);
		if (ids.gnu.p && !write_hex(&ids.gnu, buf, cap))
			return NULL;
		if (found && ids.go.p)
			found = write_text(&ids.go, buf, cap);
	}
	return found;
}
