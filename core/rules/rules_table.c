/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/rules_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "crypto/digest.h"
#include "kube/query.h"

/* Bounds on what overlapping limits may multiply to. */
#define WORK_MAX 4000000
#define ENTRIES_BYTES_MAX ((size_t)64 * 1024 * 1024)

void rules_table_init(struct rules_table *t)
{
    *t = (struct rules_table){.patterns = NULL};
}

static void entry_free(struct rules_entry *entry)
{
    free((char *)entry->selector.ptr);
    free((char *)entry->escaped.ptr);
    selector_free((struct selector *)entry->compiled);
    free(entry);
}

void rules_table_deinit(struct rules_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->patterns[i].limits);
    }
    for (size_t i = 0; i < t->entry_count; i++) {
        entry_free(t->entries[i]);
    }
    free(t->patterns);
    free(t->index);
    free(t->entries);
    rules_table_init(t);
}

/* Where the pair stands in the index, or the free place where it would. */
static size_t find_place(const struct rules_table *t, struct slice group, struct slice resource)
{
    size_t at = hash_slice(hash_slice(HASH_SEED, group), resource) & (t->index_size - 1);
    while (t->index[at] != 0) {
        const struct rules_pattern *p = &t->patterns[t->index[at] - 1];
        if (slice_eq(p->resource, resource) && slice_eq(p->group, group)) {
            break;
        }
        at = (at + 1) & (t->index_size - 1);
    }
    return at;
}

static struct rules_pattern *find_pattern(const struct rules_table *t, struct slice group,
                                          struct slice resource)
{
    if (t->count == 0) {
        return NULL;
    }
    uint32_t place = t->index[find_place(t, group, resource)];
    return place == 0 ? NULL : &t->patterns[place - 1];
}

static int grow_index(struct rules_table *t)
{
    size_t size = t->index_size == 0 ? 64 : t->index_size * 2;
    uint32_t *index = calloc(size, sizeof *index);
    if (index == NULL) {
        return -ENOMEM;
    }
    free(t->index);
    t->index = index;
    t->index_size = size;
    for (size_t i = 0; i < t->count; i++) {
        struct rules_pattern *p = &t->patterns[i];
        t->index[find_place(t, p->group, p->resource)] = (uint32_t)i + 1;
    }
    return 0;
}

static int grow_patterns(struct rules_table *t)
{
    size_t cap = t->cap == 0 ? 16 : t->cap * 2;
    struct rules_pattern *patterns = realloc(t->patterns, cap * sizeof *patterns);
    if (patterns == NULL) {
        return -ENOMEM;
    }
    t->patterns = patterns;
    t->cap = cap;
    return 0;
}

/* Finds or adds the pattern. Pointers to patterns are void afterwards. */
static int obtain_pattern(struct rules_table *t, struct slice group, struct slice resource,
                          struct rules_pattern **pattern)
{
    *pattern = find_pattern(t, group, resource);
    if (*pattern != NULL) {
        return 0;
    }
    if (t->count == RULES_PATTERNS_MAX) {
        return -E2BIG;
    }
    int rc = t->count == t->cap ? grow_patterns(t) : 0;
    if (rc == 0 && t->index_size < 2 * (t->count + 1)) {
        rc = grow_index(t);
    }
    if (rc != 0) {
        return rc;
    }
    *pattern = &t->patterns[t->count];
    **pattern = (struct rules_pattern){.group = group, .resource = resource};
    t->count++;
    t->index[find_place(t, group, resource)] = (uint32_t)t->count;
    return 0;
}

static int add_limit(struct rules_pattern *p, uint32_t selector)
{
    if (p->limit_count > 0 && p->limits[p->limit_count - 1] == selector) {
        return 0;
    }
    if (p->limit_count == p->limit_cap) {
        size_t cap = p->limit_cap == 0 ? 4 : p->limit_cap * 2;
        uint32_t *limits = realloc(p->limits, cap * sizeof *limits);
        if (limits == NULL) {
            return -ENOMEM;
        }
        p->limits = limits;
        p->limit_cap = cap;
    }
    p->limits[p->limit_count++] = selector;
    return 0;
}

int rules_table_add(struct rules_table *t, struct slice group, struct slice resource,
                    uint32_t selector)
{
    struct rules_pattern *p;
    int rc = obtain_pattern(t, group, resource, &p);
    return rc == 0 ? add_limit(p, selector) : rc;
}

static bool is_any(struct slice s)
{
    return slice_eq(s, SLICE("*"));
}

/* Adds (g, r) for each (g, *) and (*, r). */
static int cross_wildcards(struct rules_table *t)
{
    size_t added = t->count;
    for (size_t i = 0; i < added; i++) {
        struct slice group = t->patterns[i].group;
        if (is_any(group) || !is_any(t->patterns[i].resource)) {
            continue;
        }
        for (size_t j = 0; j < added; j++) {
            struct slice resource = t->patterns[j].resource;
            struct rules_pattern *ignored;
            int rc = is_any(t->patterns[j].group) && !is_any(resource)
                         ? obtain_pattern(t, group, resource, &ignored)
                         : 0;
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

/* The selectors of a pattern's own limits and of those of the wider patterns, ascending, each once.
 */
struct limit_list {
    const struct rules_pattern *pattern;
    uint32_t *items;
    size_t count;
};

static int compare_numbers(const void *a, const void *b)
{
    const uint32_t *x = a;
    const uint32_t *y = b;
    return (*x > *y) - (*x < *y);
}

static void drop_repeated(struct limit_list *list)
{
    size_t kept = 0;
    qsort(list->items, list->count, sizeof(uint32_t), compare_numbers);
    for (size_t i = 0; i < list->count; i++) {
        if (i == 0 || list->items[i] != list->items[kept - 1]) {
            list->items[kept++] = list->items[i];
        }
    }
    list->count = kept;
}

static int collect_limits(const struct rules_table *t, struct rules_pattern *p,
                          struct limit_list *list, size_t *work)
{
    const struct rules_pattern *wide[4] = {p};
    size_t count = 1;
    if (!is_any(p->group)) {
        wide[count++] = find_pattern(t, SLICE("*"), p->resource);
    }
    if (!is_any(p->resource)) {
        wide[count++] = find_pattern(t, p->group, SLICE("*"));
    }
    if (count == 3) {
        wide[count++] = find_pattern(t, SLICE("*"), SLICE("*"));
    }
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += wide[i] == NULL ? 0 : wide[i]->limit_count;
    }
    *work += total;
    if (*work > WORK_MAX) {
        return -E2BIG;
    }
    *list = (struct limit_list){.pattern = p, .items = malloc(total * sizeof(uint32_t))};
    if (list->items == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (wide[i] != NULL && wide[i]->limit_count > 0) {
            memcpy(list->items + list->count, wide[i]->limits,
                   wide[i]->limit_count * sizeof(uint32_t));
            list->count += wide[i]->limit_count;
        }
    }
    drop_repeated(list);
    return 0;
}

static int compare_lists(const void *a, const void *b)
{
    const struct limit_list *x = a;
    const struct limit_list *y = b;
    if (x->count != y->count) {
        return x->count < y->count ? -1 : 1;
    }
    return memcmp(x->items, y->items, x->count * sizeof(uint32_t));
}

static int take_text(struct buf *text, struct slice *out)
{
    size_t len = text->len;
    char *str = buf_take_str(text);
    if (str == NULL) {
        return -ENOMEM;
    }
    *out = slice_of(str, len);
    return 0;
}

static uint64_t text_id(struct slice text)
{
    char hex[SHA256_HEX_LEN + 1];
    sha256_hex(text.ptr, text.len, hex);
    hex[16] = '\0';
    uint64_t id = strtoull(hex, NULL, 16);
    return id == 0 ? 1 : id;
}

/* Texts of a compiled selector. */
static int print_entry(struct rules_entry *entry)
{
    struct buf text = BUF_INIT(SELECTOR_TEXT_MAX);
    struct buf escaped = BUF_INIT((size_t)3 * SELECTOR_TEXT_MAX);
    int rc = selector_print(entry->compiled, &text);
    if (rc == 0) {
        rc = query_encode(buf_slice(&text), &escaped);
    }
    if (rc == 0) {
        rc = take_text(&text, &entry->selector);
    }
    if (rc == 0) {
        entry->id = text_id(entry->selector);
        rc = take_text(&escaped, &entry->escaped);
    }
    buf_reset(&text);
    buf_reset(&escaped);
    return rc == -ENOBUFS ? -E2BIG : rc;
}

static struct rules_entry *entry_new(const struct limit_list *list,
                                     const struct selector *const *selectors, struct err *e)
{
    const struct selector **all = malloc(list->count * sizeof(const struct selector *));
    struct rules_entry *entry = calloc(1, sizeof *entry);
    if (all == NULL || entry == NULL) {
        (void)err_memory(e);
        goto failed;
    }
    for (size_t i = 0; i < list->count; i++) {
        all[i] = selectors[list->items[i]];
    }
    entry->compiled = selector_and(all, list->count, e);
    if (entry->compiled == NULL) {
        goto failed;
    }
    int rc = print_entry(entry);
    if (rc == 0 && entry->escaped.len > RULES_ESCAPED_MAX) {
        rc = -E2BIG;
    }
    if (rc != 0) {
        (void)err_set(e, rc, "%s",
                      rc == -E2BIG ? "the selector is too long for a request" : "out of memory");
        goto failed;
    }
    free(all);
    return entry;
failed:
    free(all);
    if (entry != NULL) {
        entry_free(entry);
    }
    return NULL;
}

/* Gives patterns with equal lists, which stand side by side, one entry. */
static int make_entries(struct rules_table *t, const struct limit_list *lists,
                        const struct selector *const *selectors, struct err *e)
{
    size_t bytes = 0;
    for (size_t i = 0; i < t->count; i++) {
        bool same = i > 0 && compare_lists(&lists[i - 1], &lists[i]) == 0;
        if (!same) {
            struct rules_entry *entry = entry_new(&lists[i], selectors, e);
            if (entry == NULL) {
                return e->code;
            }
            t->entries[t->entry_count++] = entry;
            bytes += entry->selector.len + entry->escaped.len;
            if (bytes > ENTRIES_BYTES_MAX) {
                return -E2BIG;
            }
        }
        size_t position = (size_t)(lists[i].pattern - t->patterns);
        t->patterns[position].entry = t->entries[t->entry_count - 1];
    }
    return 0;
}

static void drop_limits(struct rules_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->patterns[i].limits);
        t->patterns[i].limits = NULL;
        t->patterns[i].limit_count = 0;
    }
}

int rules_table_compile(struct rules_table *t, const struct selector *const *selectors,
                        struct err *e)
{
    struct err inner = ERR_INIT;
    struct limit_list *lists = NULL;
    size_t collected = 0;
    int rc = cross_wildcards(t);
    if (rc == 0 && t->count > 0) {
        lists = calloc(t->count, sizeof *lists);
        t->entries = calloc(t->count, sizeof(struct rules_entry *));
        rc = lists == NULL || t->entries == NULL ? -ENOMEM : 0;
        for (size_t work = 0; rc == 0 && collected < t->count; collected += rc == 0) {
            rc = collect_limits(t, &t->patterns[collected], &lists[collected], &work);
        }
        if (rc == 0) {
            qsort(lists, t->count, sizeof *lists, compare_lists);
            rc = make_entries(t, lists, selectors, &inner);
        }
    }
    for (size_t i = 0; i < collected; i++) {
        free(lists[i].items);
    }
    free(lists);
    drop_limits(t);
    if (rc != 0) {
        const char *text = rc == -E2BIG ? "the limits overlap too much" : "out of memory";
        return err_set(e, rc, "%s", inner.code != 0 ? inner.msg : text);
    }
    return 0;
}

const struct rules_entry *rules_table_match(const struct rules_table *t, struct slice group,
                                            struct slice resource)
{
    const struct slice any = SLICE("*");
    const struct slice tried[][2] = {{group, resource}, {any, resource}, {group, any}, {any, any}};
    for (size_t i = 0; i < ARRAY_LEN(tried); i++) {
        const struct rules_pattern *p = find_pattern(t, tried[i][0], tried[i][1]);
        if (p != NULL) {
            return p->entry;
        }
    }
    return NULL;
}
