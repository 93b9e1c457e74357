/*
 * envelope.c: the frame around one transaction and its profile: a header line, then for each item a
 * header line with its length, the payload, and one newline. Nothing may follow the last one: the
 * service would refuse the whole. The time of sending is not written, as files wait on disk.
 */
#include <string.h>

#include "sentry/sentry_impl.h"

static struct error *add_header(struct buf *b, const struct sentry_v1 *v, const struct dsn *dsn)
{
	struct buf text;
	struct error *err = NULL;

	buf_addf(b, "{\"event_id\":\"%s\"", v->event_id);
	if (dsn) {
		buf_init(&text);
		err = dsn_public(dsn, &text);
		if (!err) {
			buf_adds(b, ",\"dsn\":");
			buf_add_json(b, text.data, text.len);
		}
		buf_deinit(&text);
	}
	buf_adds(b, "}\n");
	return err;
}

static void add_item_header(struct buf *b, const char *type, uint64_t length)
{
	buf_addf(b, "{\"type\":\"%s\",\"content_type\":\"application/json\",\"length\":%llu}\n", type,
		 (unsigned long long)length);
}

/* All that stands before the profile. */
static struct error *add_before(struct buf *b, const struct sentry_v1 *v, const struct dsn *dsn)
{
	struct error *err = add_header(b, v, dsn);

	add_item_header(b, "transaction", v->transaction.len);
	buf_add(b, v->transaction.data, v->transaction.len);
	buf_addc(b, '\n');
	add_item_header(b, "profile", v->profile_len);
	if (!err)
		err = buf_error(&v->transaction);
	return err ? err : buf_error(b);
}

struct error *envelope_write(const struct sentry_v1 *v, const struct dsn *dsn, struct sink *out)
{
	struct buf b;
	struct error *err;

	buf_init(&b);
	err = add_before(&b, v, dsn);
	if (!err)
		err = out->write(out, b.data, b.len);
	buf_deinit(&b);
	if (!err)
		err = sentry_v1_profile(v, out);
	return err ? err : out->write(out, "\n", 1);
}
