/* SPDX-License-Identifier: Apache-2.0 */
#include "assign/assignments.h"

/* Half of all numbers: marks never come to their end. */
#define MARK_MASK (UINT64_MAX >> 1)

static struct assignment *item_of(struct assignments *m, uint64_t mark)
{
    return &m->items[mark % ASSIGNMENTS_MAX];
}

void assignments_init(struct assignments *m, uint64_t random)
{
    m->first = (random & MARK_MASK) | 1;
    m->next = m->first;
}

uint64_t assignments_mark(const struct assignments *m)
{
    return m->next;
}

void assignments_add(struct assignments *m, const struct assignment *a)
{
    uint64_t mark = m->next++;
    if (m->next - m->first > ASSIGNMENTS_MAX) {
        m->first++;
    }
    *item_of(m, mark) = *a;
}

static void drop_seen(struct assignments *m)
{
    while (m->first != m->next && item_of(m, m->first)->seen) {
        m->first++;
    }
}

void assignments_see(struct assignments *m, uint64_t mark)
{
    if (mark >= m->first && mark < m->next) {
        item_of(m, mark)->seen = true;
        drop_seen(m);
    }
}

void assignments_expire(struct assignments *m, uint64_t now_ms)
{
    while (m->first != m->next && now_ms - item_of(m, m->first)->at_ms >= ASSIGNMENTS_MS) {
        m->first++;
    }
    drop_seen(m);
}

const struct assignment *assignments_next(const struct assignments *m, const struct assignment *a)
{
    uint64_t mark = m->first;
    if (a != NULL) {
        uint64_t place = (uint64_t)(a - m->items);
        mark += (place + ASSIGNMENTS_MAX - m->first % ASSIGNMENTS_MAX) % ASSIGNMENTS_MAX + 1;
    }
    while (mark < m->next && m->items[mark % ASSIGNMENTS_MAX].seen) {
        mark++;
    }
    return mark < m->next ? &m->items[mark % ASSIGNMENTS_MAX] : NULL;
}
