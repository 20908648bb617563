/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/rules_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/grow.h"
#include "base/heap_size.h"
#include "base/keyed_hash.h"
#include "crypto/digest.h"
#include "kube/query.h"

/* Bounds on what overlapping limits may multiply to. 1,000 limits of their own beside one on `*`
 * that names 500 namespaces have 12 MB of texts, and 3,000 requirements. */
#define LIMITS_TOGETHER_MAX 524288           /* of all patterns, with those of wider ones */
#define REQUIREMENTS_TOGETHER_MAX 65536      /* of selectors that are ANDed */
#define TEXTS_MAX ((size_t)16 * 1024 * 1024) /* bytes that are kept, encoded */

/* What is multiplied, so far. */
struct spending {
    size_t limits;
    size_t requirements;
    size_t texts;
};

/* Memory that is used for one entry after the other. */
struct scratch {
    struct buf text;
    struct buf escaped;
    struct spending spent;
    bool plain; /* as the table's */
};

static void entry_free(struct table_entry *entry)
{
    free((char *)entry->seen.escaped.ptr);
    selector_free(entry->made);
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
    *t = (struct rules_table){.patterns = NULL};
}

/* Where the pair stands in the index, or the free place where it would. */
static size_t find_place(const struct rules_table *t, struct slice group, struct slice resource)
{
    size_t at = keyed_hash(keyed_hash(0, group), resource) & (t->index_size - 1);
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
    struct rules_pattern *patterns = grow_array(t->patterns, t->count, &t->cap, sizeof *patterns);
    if (patterns == NULL) {
        return -ENOMEM;
    }
    t->patterns = patterns;
    if (t->index_size < 2 * (t->count + 1) && grow_index(t) != 0) {
        return -ENOMEM;
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
    uint32_t *limits = grow_array(p->limits, p->limit_count, &p->limit_cap, sizeof *limits);
    if (limits == NULL) {
        return -ENOMEM;
    }
    p->limits = limits;
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

/* Those of some patterns. */
struct names {
    struct slice *items;
    size_t count;
};

/* Of all (g, *) the groups, of all (*, r) the resources. */
static int collect_wildcards(const struct rules_table *t, struct names *groups,
                             struct names *resources)
{
    groups->items = calloc(t->count + 1, sizeof *groups->items);
    resources->items = calloc(t->count + 1, sizeof *resources->items);
    if (groups->items == NULL || resources->items == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < t->count; i++) {
        const struct rules_pattern *p = &t->patterns[i];
        if (!is_any(p->group) && is_any(p->resource)) {
            groups->items[groups->count++] = p->group;
        } else if (is_any(p->group) && !is_any(p->resource)) {
            resources->items[resources->count++] = p->resource;
        }
    }
    return 0;
}

/* Adds (g, r) for each (g, *) and (*, r): no more steps than there are patterns then. */
static int cross_wildcards(struct rules_table *t)
{
    struct names groups = {.items = NULL};
    struct names resources = {.items = NULL};
    int rc = collect_wildcards(t, &groups, &resources);
    for (size_t i = 0; rc == 0 && i < groups.count; i++) {
        for (size_t j = 0; rc == 0 && j < resources.count; j++) {
            struct rules_pattern *ignored;
            rc = obtain_pattern(t, groups.items[i], resources.items[j], &ignored);
        }
    }
    free(groups.items);
    free(resources.items);
    return rc;
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
                          struct limit_list *list, struct spending *spent)
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
    spent->limits += total;
    if (spent->limits > LIMITS_TOGETHER_MAX) {
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

static uint64_t text_id(struct slice text)
{
    char hex[SHA256_HEX_LEN + 1];
    sha256_hex(text.ptr, text.len, hex);
    hex[16] = '\0';
    uint64_t id = strtoull(hex, NULL, 16);
    return id == 0 ? 1 : id;
}

/* Texts of a compiled selector. */
static int print_entry(struct table_entry *entry, struct scratch *w)
{
    struct rules_entry *seen = &entry->seen;
    buf_clear(&w->text);
    buf_clear(&w->escaped);
    int rc = selector_print(seen->compiled, &w->text);
    rc = rc == 0 ? query_encode(buf_slice(&w->text), &w->escaped) : rc;
    if (rc != 0) {
        return rc == -ENOBUFS ? -E2BIG : rc;
    }
    if (w->escaped.len > RULES_ESCAPED_MAX) {
        return -E2BIG;
    }
    char *copy = w->plain ? NULL : malloc(w->escaped.len + 1);
    if (copy != NULL) {
        memcpy(copy, buf_cstr(&w->escaped), w->escaped.len + 1);
        seen->escaped = slice_of(copy, w->escaped.len);
    } else if (!w->plain) {
        return -ENOMEM;
    }
    seen->length = w->text.len;
    seen->id = text_id(buf_slice(&w->text));
    w->spent.texts += w->escaped.len;
    return 0;
}

/* One selector is taken as it is. */
static int compile_entry(struct table_entry *entry, const struct limit_list *list,
                         const struct selector *const *selectors, struct scratch *w, struct err *e)
{
    const struct selector *first = selectors[list->items[0]];
    if (list->count == 1 && !selector_has_doubles(first)) {
        entry->seen.compiled = first;
        return 0;
    }
    const struct selector **all = malloc(list->count * sizeof(const struct selector *));
    if (all == NULL) {
        return err_memory(e);
    }
    for (size_t i = 0; i < list->count; i++) {
        all[i] = selectors[list->items[i]];
    }
    entry->made = selector_and_shared(all, list->count, e);
    free(all);
    if (entry->made == NULL) {
        return e->code;
    }
    size_t count = 0;
    (void)selector_requirements(entry->made, &count);
    w->spent.requirements += count;
    entry->seen.compiled = entry->made;
    return 0;
}

static struct table_entry *entry_new(const struct limit_list *list,
                                     const struct selector *const *selectors, struct scratch *w,
                                     struct err *e)
{
    struct table_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    int rc = compile_entry(entry, list, selectors, w, e);
    if (rc == 0) {
        rc = print_entry(entry, w);
        if (rc != 0) {
            (void)err_set(e, rc, "%s",
                          rc == -E2BIG ? "the selector is too long for a request"
                                       : "out of memory");
        }
    }
    if (rc != 0) {
        entry_free(entry);
        return NULL;
    }
    return entry;
}

static bool is_too_much(const struct spending *spent)
{
    return spent->requirements > REQUIREMENTS_TOGETHER_MAX || spent->texts > TEXTS_MAX;
}

/* Gives patterns with equal lists, which stand side by side, one entry. */
static int make_entries(struct rules_table *t, const struct limit_list *lists,
                        const struct selector *const *selectors, struct scratch *w, struct err *e)
{
    for (size_t i = 0; i < t->count; i++) {
        bool same = i > 0 && compare_lists(&lists[i - 1], &lists[i]) == 0;
        if (!same) {
            struct table_entry *entry = entry_new(&lists[i], selectors, w, e);
            if (entry == NULL) {
                return e->code;
            }
            t->entries[t->entry_count++] = entry;
        }
        if (is_too_much(&w->spent)) {
            return -E2BIG;
        }
        size_t position = (size_t)(lists[i].pattern - t->patterns);
        t->patterns[position].entry = &t->entries[t->entry_count - 1]->seen;
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

/* 0, -E2BIG or -ENOMEM; `e` may say more. */
static int compile_lists(struct rules_table *t, const struct selector *const *selectors,
                         struct limit_list *lists, struct scratch *w, struct err *e)
{
    for (size_t i = 0; i < t->count; i++) {
        int rc = collect_limits(t, &t->patterns[i], &lists[i], &w->spent);
        if (rc != 0) {
            return rc;
        }
    }
    t->entries = calloc(t->count, sizeof(struct table_entry *));
    if (t->entries == NULL) {
        return -ENOMEM;
    }
    qsort(lists, t->count, sizeof *lists, compare_lists);
    return make_entries(t, lists, selectors, w, e);
}

static int compile_patterns(struct rules_table *t, const struct selector *const *selectors,
                            struct err *e)
{
    struct scratch w = {.plain = t->plain,
                        .text = BUF_INIT(SELECTOR_TEXT_MAX),
                        .escaped = BUF_INIT((size_t)3 * SELECTOR_TEXT_MAX)};
    struct limit_list *lists = calloc(t->count, sizeof *lists);
    int rc = lists == NULL ? -ENOMEM : compile_lists(t, selectors, lists, &w, e);
    t->texts = w.spent.texts;
    for (size_t i = 0; lists != NULL && i < t->count; i++) {
        free(lists[i].items);
    }
    free(lists);
    buf_reset(&w.text);
    buf_reset(&w.escaped);
    return rc;
}

int rules_table_compile(struct rules_table *t, const struct selector *const *selectors,
                        struct err *e)
{
    struct err inner = ERR_INIT;
    int rc = cross_wildcards(t);
    if (rc == 0 && t->count > 0) {
        rc = compile_patterns(t, selectors, &inner);
    }
    drop_limits(t);
    if (rc != 0) {
        const char *text = rc == -E2BIG ? "the limits overlap too much" : "out of memory";
        return err_set(e, rc, "%s", inner.code != 0 ? inner.msg : text);
    }
    return 0;
}

size_t rules_table_weight(const struct rules_table *t)
{
    size_t sum = t->cap * sizeof t->patterns[0] + t->index_size * sizeof t->index[0] +
                 t->count * sizeof(struct table_entry *);
    for (size_t i = 0; i < t->entry_count; i++) {
        const struct table_entry *entry = t->entries[i];
        sum += heap_size(sizeof *entry);
        sum += entry->made == NULL ? 0 : selector_weight_shared(entry->made);
        sum += t->plain ? 0 : heap_size(entry->seen.escaped.len + 1);
    }
    return sum;
}

bool rules_table_has(const struct rules_table *t, struct slice group, struct slice resource)
{
    return t->count > 0 && t->index[find_place(t, group, resource)] != 0;
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
