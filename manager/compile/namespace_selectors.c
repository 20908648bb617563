/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/namespace_selectors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/heap_size.h"
#include "base/xalloc.h"
#include "json/field.h"

/* ---- reading ---- */

static int check_size(const struct selector *s, const char *path, struct err *e)
{
    size_t requirements = 0;
    (void)selector_requirements(s, &requirements);
    if (selector_is_everything(s)) {
        return err_set(e, -EINVAL,
                       "%s: Invalid value: must not be empty, which would select all namespaces: "
                       "for these write no limit, or a selector with Exists of a control label",
                       path);
    }
    if (requirements > NAMESPACE_REQUIREMENTS_MAX ||
        selector_size(s) > NAMESPACE_SELECTOR_SIZE_MAX) {
        return err_set(e, -E2BIG,
                       "%s: Too long: must have at most %d requirements, and %d with their values",
                       path, NAMESPACE_REQUIREMENTS_MAX, NAMESPACE_SELECTOR_SIZE_MAX);
    }
    return 0;
}

static int find(const struct namespace_selectors *s, const char *text)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->items[i].text, text) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* Takes both. */
static int append(struct namespace_selectors *s, struct selector *selector, char *text,
                  const char *path, struct err *e)
{
    if (s->count == NAMESPACE_SELECTORS_MAX) {
        selector_free(selector);
        free(text);
        return err_set(e, -E2BIG,
                       "%s: Too many: the limits of a shard have at most %d different ones", path,
                       NAMESPACE_SELECTORS_MAX);
    }
    s->items[s->count].selector = selector;
    s->items[s->count].text = text;
    s->items[s->count].names = NULL;
    return (int)s->count++;
}

int namespace_selectors_add(struct namespace_selectors *s, const cJSON *item, const char *path,
                            struct err *e)
{
    struct buf out = BUF_INIT(SELECTOR_TEXT_MAX);
    struct selector *selector = selector_from_label_selector(item, path, e);
    if (selector == NULL || check_size(selector, path, e) != 0) {
        xerr(e);
        selector_free(selector);
        return e->code;
    }
    xok(selector_print(selector, &out)); /* there is room for that few values */
    char *text = xptr(buf_take_str(&out));
    int number = find(s, text);
    if (number < 0) {
        return append(s, selector, text, path, e);
    }
    selector_free(selector);
    free(text);
    return number;
}

/* The limit itself, or what it wraps. */
static const cJSON *selector_of(const cJSON *limit)
{
    const cJSON *inner = field_get(limit, "objectSelector");
    return field_get(inner != NULL ? inner : limit, NAMESPACE_SELECTOR);
}

void namespace_selectors_read(struct namespace_selectors *s, const cJSON *config)
{
    const cJSON *limit;
    cJSON_ArrayForEach(limit, field_get(field_get(config, "spec"), "limits"))
    {
        struct err ignored = ERR_INIT;
        const cJSON *item = selector_of(limit);
        if (item != NULL) {
            (void)namespace_selectors_add(s, item, "", &ignored);
        }
    }
}

/* ---- what they come to ---- */

static void write_names(struct buf *out, const char *key, const char *const *names, size_t count)
{
    if (count == 0) {
        (void)buf_printf(out, "%s,!%s", key, key);
        return;
    }
    (void)buf_printf(out, "%s in (", key);
    for (size_t i = 0; i < count; i++) {
        (void)buf_printf(out, "%s%s", i > 0 ? "," : "", names[i]);
    }
    (void)buf_append_char(out, ')');
}

static struct selector *select_names(const struct selector *s, const struct namespace_set *set,
                                     const char *key, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(SELECTOR_TEXT_MAX);
    const char *names[NAMESPACE_NAMES_MAX];
    size_t count = namespace_set_select(set, s, names, NAMESPACE_NAMES_MAX);
    if (count > NAMESPACE_NAMES_MAX) {
        (void)err_set(
            e, -E2BIG,
            "%s: Too many: selects %zu namespaces, and a shard can have at most %d of one "
            "selector: narrow it, or use more shards, or limit by the sharding hash",
            path, count, NAMESPACE_NAMES_MAX);
        return NULL;
    }
    write_names(&text, key, names, count);
    xok(buf_error(&text)); /* names of 63 bytes leave room */
    struct selector *made = selector_parse(buf_slice(&text), e);
    if (made == NULL) {
        xerr(e);
        err_prefix(e, "%s", path);
    }
    buf_reset(&text);
    return made;
}

const struct selector *namespace_selectors_resolve(struct namespace_selectors *s, int number,
                                                   const struct namespace_set *set, const char *key,
                                                   const char *path, struct err *e)
{
    const char *missing = set == NULL ? "the namespaces are not known" : set->missing;
    if (missing != NULL) {
        (void)err_set(e, -EAGAIN, "%s: cannot be compiled: %s", path, missing);
        return NULL;
    }
    if (s->items[number].names == NULL) {
        s->items[number].names = select_names(s->items[number].selector, set, key, path, e);
    }
    return s->items[number].names;
}

/* ---- what is asked of them ---- */

bool namespace_selectors_tell_apart(const struct namespace_selectors *s,
                                    const struct namespace_entry *a,
                                    const struct namespace_entry *b)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct selector *one = s->items[i].selector;
        if (namespace_entry_matches(a, one) != namespace_entry_matches(b, one)) {
            return true;
        }
    }
    return false;
}

size_t namespace_selectors_count(const struct namespace_selectors *s,
                                 const struct namespace_set *set)
{
    size_t count = 0;
    for (const struct namespace_entry *e = NULL; (e = namespace_set_next(set, e)) != NULL;) {
        bool selected = false;
        for (size_t i = 0; i < s->count && !selected; i++) {
            selected = namespace_entry_matches(e, s->items[i].selector);
        }
        count += selected;
    }
    return count;
}

size_t namespace_selectors_weight(const struct namespace_selectors *s)
{
    size_t sum = heap_size(sizeof *s);
    for (size_t i = 0; i < s->count; i++) {
        sum += selector_weight(s->items[i].selector) + heap_size(strlen(s->items[i].text) + 1);
        sum += s->items[i].names == NULL ? 0 : selector_weight(s->items[i].names);
    }
    return sum;
}

void namespace_selectors_deinit(struct namespace_selectors *s)
{
    for (size_t i = 0; i < s->count; i++) {
        selector_free(s->items[i].selector);
        free(s->items[i].text);
        selector_free(s->items[i].names);
    }
    s->count = 0;
}
