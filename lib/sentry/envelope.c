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

static void add_item(struct buf *b, const char *type, const struct buf *payload)
{
	buf_addf(b, "{\"type\":\"%s\",\"content_type\":\"application/json\",\"length\":%zu}\n", type,
		 payload->len);
	buf_add(b, payload->data, payload->len);
	buf_addc(b, '\n');
}

struct error *envelope_build(const struct sentry_v1 *v, const struct dsn *dsn, struct buf *ret)
{
	struct buf b;
	struct error *err;

	buf_init(&b);
	err = add_header(&b, v, dsn);
	b.failed = b.failed || v->transaction.failed || v->profile.failed;
	add_item(&b, "transaction", &v->transaction);
	add_item(&b, "profile", &v->profile);
	if (!err)
		err = buf_error(&b);
	if (err) {
		buf_deinit(&b);
		return err;
	}
	*ret = b;
	return NULL;
}
