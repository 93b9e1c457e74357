/*
 * epoch.c: the store's ids change when its tables begin anew. What a goroutine was last seen at is carried
 * along, as nobody will ask it again while it does not move; what is only remembered to save work is
 * forgotten.
 */
#include "sample/sampler_impl.h"

static struct error *carry_slot(struct profile_carry *c, struct g_slot *slot)
{
	struct error *err = profile_carry_stack(c, &slot->stack);

	return err ? err : profile_carry_labels(c, &slot->labels);
}

static struct error *carry_all(struct sampler *s, struct profile_carry *c)
{
	profile_id *const pseudo[] = { &s->moved, &s->unseen_running, &s->unread };
	struct error *err = intern_carry(&s->intern, c);

	for (size_t i = 0; i < sizeof(pseudo) / sizeof(pseudo[0]) && !err; i++)
		err = profile_carry_stack(c, pseudo[i]);
	for (uint32_t i = 0; i < s->gs.n && !err; i++)
		if (s->gs.slots[i].known)
			err = carry_slot(c, &s->gs.slots[i]);
	return err;
}

struct error *sampler_begin_epoch(struct sampler *s)
{
	struct profile_carry *c;
	struct error *err = profile_begin_epoch(s->profile, &c);

	if (err)
		return err;
	err = carry_all(s, c);
	profile_carry_free(c);
	intern_forget(&s->intern);
	return err;
}
