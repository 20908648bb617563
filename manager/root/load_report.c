/* SPDX-License-Identifier: Apache-2.0 */
#include "root/load_report.h"

#include <string.h>

#include "base/rfc3339.h"
#include "json/field.h"

/* Two digits: what varies by less is no news. */
static uint64_t two_digits(uint64_t n)
{
    uint64_t unit = 1;
    while (n / unit >= 100) {
        unit *= 10;
    }
    return (n / unit + (n % unit >= unit - unit / 2 ? 1 : 0)) * unit;
}

static unsigned percent_of(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (unsigned)((part * 100 + whole / 2) / whole);
}

void load_report_make(struct load_report *r, const struct load_counts rates[SHARDING_HASH_SIZE],
                      const struct buckets *owners)
{
    uint64_t total = 0;
    uint64_t carried[ROOT_SHARDS_MAX + 1] = {0};
    *r = (struct load_report){.known = true};
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        uint64_t cost = load_cost(&rates[i]);
        unsigned owner = owners->owner[i];
        total += cost;
        carried[owner <= ROOT_SHARDS_MAX ? owner : 0] += cost;
        r->cost[i] = two_digits(cost);
        r->rates[i] = (struct load_counts){.requests = two_digits(rates[i].requests),
                                           .events = two_digits(rates[i].events),
                                           .objects = two_digits(rates[i].objects)};
    }
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        r->percent[i] = percent_of(load_cost(&rates[i]), total);
    }
    for (unsigned i = 1; i <= ROOT_SHARDS_MAX; i++) {
        r->of_shard[i] = percent_of(carried[i], total);
    }
}

void load_report_add(struct edit *ed, cJSON *root, const struct load_report *r,
                     const char *const shards[SHARDING_HASH_SIZE])
{
    cJSON *list = edit_array(ed, root, "load");
    for (unsigned i = 0; i < SHARDING_HASH_SIZE; i++) {
        if (r->cost[i] == 0) {
            continue;
        }
        cJSON *row = edit_append_object(ed, list);
        edit_number(ed, row, "bucket", i);
        if (shards[i] != NULL) {
            edit_string(ed, row, "shard", shards[i]);
        }
        edit_number(ed, row, "requests", (double)r->rates[i].requests);
        edit_number(ed, row, "events", (double)r->rates[i].events);
        edit_number(ed, row, "objects", (double)r->rates[i].objects);
        edit_number(ed, row, "cost", (double)r->cost[i]);
        edit_number(ed, row, "percent", r->percent[i]);
    }
}

/* ---- moves ---- */

static void append(struct load_moves *m, int64_t at)
{
    if (m->count == ROOT_MOVES_MAX) {
        memmove(m->at, m->at + 1, (ROOT_MOVES_MAX - 1) * sizeof *m->at);
        m->count--;
    }
    m->at[m->count++] = at;
}

void load_moves_read(struct load_moves *m, const cJSON *root, int64_t now_s, int64_t hour_s)
{
    const cJSON *item;
    *m = (struct load_moves){.count = 0};
    cJSON_ArrayForEach(item, field_get(root, "moves"))
    {
        int64_t at = 0;
        if (cJSON_IsString(item) && rfc3339_parse(item->valuestring, &at) && at > now_s - hour_s) {
            append(m, at < now_s ? at : now_s);
        }
    }
}

void load_moves_note(struct load_moves *m, int64_t now_s)
{
    append(m, now_s);
}

bool load_moves_has(const struct load_moves *m, int64_t at_s)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->at[i] == at_s) {
            return true;
        }
    }
    return false;
}

bool load_moves_allow(const struct load_moves *m, unsigned per_hour, int64_t now_s, int64_t pause_s)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->at[i] > now_s - pause_s) {
            return false;
        }
    }
    return m->count < per_hour;
}

void load_moves_add(struct edit *ed, cJSON *root, const struct load_moves *m)
{
    char text[RFC3339_SIZE];
    cJSON *list = m->count == 0 ? NULL : edit_array(ed, root, "moves");
    for (size_t i = 0; i < m->count; i++) {
        if (rfc3339_format(m->at[i], text) == 0) {
            edit_append_string(ed, list, text);
        }
    }
}
