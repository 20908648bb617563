/* SPDX-License-Identifier: Apache-2.0 */
#include "label/object_set.h"

#include <stdlib.h>

#include "base/keyed_hash.h"
#include "base/xalloc.h"

enum { ROOM_MIN = 16 };

static uint64_t hash_of(const char *ns, const char *name)
{
    uint64_t hash = keyed_hash(keyed_hash(0, slice_str(ns)), slice_str(name));
    return hash == 0 ? 1 : hash;
}

/* Where it is, or where it would be: a place behind others of the same slot that are taken. */
static size_t place_of(const struct object_set *s, uint64_t hash)
{
    size_t at = hash & (s->room - 1);
    while (s->slots[at] != 0 && s->slots[at] != hash) {
        at = (at + 1) & (s->room - 1);
    }
    return at;
}

/* At most half of the slots are taken. */
static void grow(struct object_set *s)
{
    struct object_set larger = {.room = s->room == 0 ? ROOM_MIN : s->room * 2, .count = s->count};
    larger.slots = xcalloc(larger.room, sizeof *larger.slots);
    for (size_t i = 0; i < s->room; i++) {
        if (s->slots[i] != 0) {
            larger.slots[place_of(&larger, s->slots[i])] = s->slots[i];
        }
    }
    free(s->slots);
    *s = larger;
}

bool object_set_add(struct object_set *s, const char *ns, const char *name)
{
    uint64_t hash = hash_of(ns, name);
    if (s->count * 2 >= s->room) {
        grow(s);
    }
    size_t at = place_of(s, hash);
    if (s->slots[at] == hash) {
        return false;
    }
    s->slots[at] = hash;
    s->count++;
    return true;
}

/* Those behind a slot that became free move up, so that each is still found from its own. */
static void close_gap(struct object_set *s, size_t at)
{
    uint64_t moved;
    for (at = (at + 1) & (s->room - 1); (moved = s->slots[at]) != 0;
         at = (at + 1) & (s->room - 1)) {
        s->slots[at] = 0;
        s->slots[place_of(s, moved)] = moved;
    }
}

bool object_set_remove(struct object_set *s, const char *ns, const char *name)
{
    uint64_t hash = hash_of(ns, name);
    size_t at = s->count == 0 ? 0 : place_of(s, hash);
    if (s->count == 0 || s->slots[at] != hash) {
        return false;
    }
    s->slots[at] = 0;
    s->count--;
    close_gap(s, at);
    return true;
}

void object_set_clear(struct object_set *s)
{
    free(s->slots);
    *s = (struct object_set){0};
}
