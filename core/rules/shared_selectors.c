/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/shared_selectors.h"

#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/table.h"
#include "json/edit.h"
#include "json/field.h"

/* A selector that has its place. */
struct placed {
    struct table_node node;
    size_t place;
};

struct sharing {
    struct edit edit;
    struct table placed; /* by their texts, which are the spec's */
    cJSON *selectors;
};

static size_t add_selector(struct sharing *s, const char *text)
{
    struct placed *p = calloc(1, sizeof *p);
    size_t place = s->placed.count;
    if (p == NULL || table_insert(&s->placed, &p->node, text) != 0) {
        free(p);
        edit_fail(&s->edit, -ENOMEM);
        return 0;
    }
    p->place = place;
    edit_append_string(&s->edit, s->selectors, text);
    return place;
}

static cJSON *share(struct sharing *s, const cJSON *limit)
{
    cJSON *copy = cJSON_CreateObject();
    const char *text = field_text(limit, "selector");
    struct table_node *known = table_find(&s->placed, text);
    size_t place =
        known != NULL ? LIST_ITEM(known, struct placed, node)->place : add_selector(s, text);
    edit_set(&s->edit, copy, "apiGroups", cJSON_Duplicate(field_get(limit, "apiGroups"), true));
    edit_set(&s->edit, copy, "resources", cJSON_Duplicate(field_get(limit, "resources"), true));
    edit_number(&s->edit, copy, "selector", (double)place);
    return copy;
}

static void copy_others(struct sharing *s, cJSON *copy, const cJSON *spec)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, spec)
    {
        if (item != field_get(spec, "limits")) {
            edit_set(&s->edit, copy, item->string, cJSON_Duplicate(item, true));
        }
    }
}

cJSON *shared_selectors_make(const cJSON *spec)
{
    struct sharing s = {.edit = {.rc = 0}};
    cJSON *copy = cJSON_CreateObject();
    const cJSON *limit = NULL;
    copy_others(&s, copy, spec);
    s.selectors = edit_array(&s.edit, copy, "selectors");
    cJSON *limits = edit_array(&s.edit, copy, "limits");
    cJSON_ArrayForEach(limit, field_get(spec, "limits"))
    {
        edit_append(&s.edit, limits, share(&s, limit));
    }
    for (struct table_node *n = NULL; (n = table_next(&s.placed, NULL)) != NULL;) {
        table_remove(&s.placed, n);
        free(LIST_ITEM(n, struct placed, node));
    }
    table_deinit(&s.placed);
    return edit_result(&s.edit, copy);
}
