/*
 * fuzz_labels.c: label sets in memory that the target may have freed and used for something else.
 *
 * libFuzzer entry. The first byte chooses the layout (map or list), the rest is the memory that
 * g.labels points into; whatever it holds, the answer is bounded, sorted, and lies in its own text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fake/target_fake.h"
#include "go/go_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x1000 };

static void judge(const struct go_labels *l)
{
	if (l->n > GO_LABELS_MAX)
		abort();
	for (uint32_t i = 0; i < l->n; i++) {
		const struct go_label *a = &l->v[i];

		if (a->key < l->text || a->key + a->key_len > l->text + sizeof(l->text) ||
		    a->value < l->text || a->value + a->value_len > l->text + sizeof(l->text))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct go_labels labels;
	struct go_runtime *rt;
	struct target *t;

	if (size < 2)
		return 0;
	rt = calloc(1, sizeof(*rt));
	if (!rt || target_fake_create(&t))
		abort();
	if (!go_layout_row(data[0] % 2 ? 19 : 26, &rt->layout))
		abort();
	rt->has_layout = true;
	target_fake_add(t, BASE, data + 1, size - 1);
	struct error *err = go_labels_read(rt, t, BASE, &labels);
	if (!err)
		judge(&labels);
	error_free(err);
	target_close(t);
	free(rt);
	return 0;
}
