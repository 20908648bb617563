/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_variables.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "inject/inject_index.h"
#include "inject/inject_names.h"
#include "json/field.h"

/* ---- what localproxy may get ---- */

/* Flags of localproxy that say nothing about what it enforces, whom it serves, and what it keeps.
 */
static const char *const harmless[] = {
    "CMESH_LOG_LEVEL",  "CMESH_LOG_FORMAT",     "CMESH_RELOAD_MODE",     "CMESH_CUT_INTERVAL",
    "CMESH_CUT_SPREAD", "CMESH_SHUTDOWN_GRACE", "CMESH_MAX_CONNECTIONS",
};

/* ld.so(8), the files of messages, locales and conversions that the C library loads, its resolver
 * (resolv.conf(5)), how the runtime finds the program, and the fields that the injection sets. */
static const char *const refused[] = {
    "PATH",        "GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR",   "HOSTALIASES",
    "LOCALDOMAIN", "LOCPATH",        "NLSPATH",    "NIS_PATH",      "RES_OPTIONS",
    "TZDIR",       "POD_NAME",       "POD_UID",    "POD_NAMESPACE",
};
static const char *const refused_beginnings[] = {"CMESH_", "LD_", "MALLOC_", "RESOLV_", "UV_"};

bool inject_variables_allowed(const char *name)
{
    if (ARRAY_HAS(harmless, name)) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(refused_beginnings); i++) {
        if (strncmp(name, refused_beginnings[i], strlen(refused_beginnings[i])) == 0) {
            return false;
        }
    }
    return !ARRAY_HAS(refused, name);
}

/* ---- env-sync ---- */

struct sync {
    struct edit *ed;
    cJSON *list;
    struct warnings *warnings;
    struct inject_index there; /* what the containers have */
    struct inject_index done;  /* names that have been looked at */
    struct inject_names refused;
};

static void index_variables(struct sync *s, const cJSON *spec)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, field_get(spec, "containers"))
    {
        inject_index_add_list(&s->there, field_get(container, "env"));
    }
}

static void prepend_variable(struct edit *ed, cJSON *list, const char *name, const char *value)
{
    cJSON *variable = cJSON_CreateObject();
    edit_string(ed, variable, "name", name);
    edit_string(ed, variable, "value", value);
    edit_prepend(ed, list, variable);
}

/* `value` is NULL for the one that a container of the pod has. */
static void sync_variable(struct sync *s, const char *name, const char *value)
{
    if (!inject_variables_allowed(name)) {
        inject_names_add(&s->refused, name);
        return;
    }
    const struct inject_entry *found = value != NULL ? NULL : inject_index_find(&s->there, name);
    if (value != NULL) {
        prepend_variable(s->ed, s->list, name, value);
    } else if (found != NULL) {
        edit_prepend(s->ed, s->list, cJSON_Duplicate(found->item, true));
    } else {
        warnings_add(s->warnings, "env-sync: no container has a variable %.100s", name);
    }
}

/* NAME=VALUE or NAME. */
static void sync_item(struct sync *s, char *text)
{
    char *value = strchr(text, '=');
    if (value != NULL) {
        *value++ = '\0';
    }
    if (text[0] == '\0' || inject_index_find(&s->done, text) != NULL) {
        return;
    }
    inject_index_add(&s->done, text, NULL);
    sync_variable(s, text, value);
}

/* From the end, for of several with a name the last one counts. */
static void sync_items(struct sync *s, char *text)
{
    for (size_t end = strlen(text); end > 0 && s->ed->rc == 0;) {
        char *comma = memrchr(text, ',', end);
        char *item = comma == NULL ? text : comma + 1;
        text[end] = '\0';
        sync_item(s, item + strspn(item, " "));
        end = comma == NULL ? 0 : (size_t)(comma - text);
    }
    if (s->refused.len > 0) {
        warnings_add(s->warnings,
                     "env-sync: localproxy does not get %s: what may change what it enforces, or "
                     "which code it runs, is left out",
                     s->refused.text);
    }
}

cJSON *inject_variables_sync(struct edit *ed, const struct inject_options *o, const cJSON *spec,
                             struct warnings *warnings)
{
    struct sync s = {.ed = ed, .list = cJSON_CreateArray(), .warnings = warnings};
    char *text = xstrdup(o->env_sync == NULL ? "" : o->env_sync);
    inject_index_init(&s.there);
    inject_index_init(&s.done);
    if (text[0] != '\0') {
        index_variables(&s, spec);
        sync_items(&s, text);
    }
    inject_index_deinit(&s.there);
    inject_index_deinit(&s.done);
    free(text);
    return edit_result(ed, s.list);
}

/* ---- env-inject ---- */

static void set_value(struct edit *ed, cJSON *variable, const char *value)
{
    edit_string(ed, variable, "value", value);
    cJSON_DeleteItemFromObjectCaseSensitive(variable, "valueFrom");
}

/* Finds, or adds, the variable in a container whose variables are known. Others of its name go: of
 * several the last one would count. */
static void set_indexed(struct edit *ed, struct inject_entry *container, const char *name,
                        const char *value)
{
    cJSON *list = edit_array(ed, container->item, "env");
    struct inject_entry *found = inject_index_find(&container->inner, name);
    cJSON *variable = found == NULL ? edit_append_object(ed, list) : found->item;
    if (found == NULL) {
        edit_string(ed, variable, "name", name);
        inject_index_add(&container->inner, name, variable);
    }
    for (; found != NULL && found->same != NULL; found->same = found->same->same) {
        cJSON_Delete(cJSON_DetachItemViaPointer(list, found->same->item));
    }
    set_value(ed, variable, value);
}

static void set_all(struct edit *ed, struct inject_entry *container, const cJSON *variables)
{
    const cJSON *variable;
    if (!container->indexed) {
        container->indexed = true;
        inject_index_init(&container->inner);
        inject_index_add_list(&container->inner, field_get(container->item, "env"));
    }
    cJSON_ArrayForEach(variable, variables)
    {
        if (ed->rc == 0) {
            set_indexed(ed, container, field_text(variable, "key"), field_text(variable, "value"));
        }
    }
}

void inject_variables_inject(struct edit *ed, const struct inject_options *o, cJSON *spec,
                             struct warnings *warnings)
{
    struct inject_index containers;
    const cJSON *entry;
    inject_index_init(&containers);
    if (o->env_inject != NULL) {
        inject_index_add_list(&containers, edit_array(ed, spec, "containers"));
    }
    cJSON_ArrayForEach(entry, o->env_inject)
    {
        struct inject_entry *found = inject_index_find(&containers, field_text(entry, "name"));
        if (found != NULL) {
            set_all(ed, found, field_get(entry, "env"));
        } else {
            warnings_add(warnings, "env-inject: the pod has no container \"%.63s\"",
                         field_text(entry, "name"));
        }
    }
    inject_index_deinit(&containers);
}

/* ---- one variable ---- */

/* All but `kept` of that name. */
static void drop_variables(cJSON *list, const char *name, const cJSON *kept)
{
    cJSON *next = list == NULL ? NULL : list->child;
    while (next != NULL) {
        cJSON *variable = next;
        next = next->next;
        if (variable != kept && strcmp(field_text(variable, "name"), name) == 0) {
            cJSON_Delete(cJSON_DetachItemViaPointer(list, variable));
        }
    }
}

void inject_variables_append(struct edit *ed, cJSON *list, const char *name, const char *value)
{
    cJSON *variable = edit_append_object(ed, list);
    edit_string(ed, variable, "name", name);
    edit_string(ed, variable, "value", value);
}

void inject_variables_set(struct edit *ed, cJSON *container, const char *name, const char *value)
{
    cJSON *list = edit_array(ed, container, "env");
    cJSON *variable = edit_find(list, "name", name);
    if (variable == NULL) {
        variable = edit_append_object(ed, list);
        edit_string(ed, variable, "name", name);
    }
    drop_variables(list, name, variable);
    set_value(ed, variable, value);
}

void inject_variables_set_first(struct edit *ed, cJSON *container, const char *name,
                                const char *value)
{
    cJSON *list = edit_array(ed, container, "env");
    drop_variables(list, name, NULL);
    prepend_variable(ed, list, name, value);
}
