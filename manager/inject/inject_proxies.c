/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_proxies.h"

#include <string.h>

#include "json/field.h"

const char *const inject_proxies_names[PROXIES_KINDS][PROXIES_SPELLINGS] = {
    [PROXIES_HTTP] = {"HTTP_PROXY", "http_proxy"},
    [PROXIES_HTTPS] = {"HTTPS_PROXY", "https_proxy"},
    [PROXIES_ALL] = {"ALL_PROXY", "all_proxy"},
    [PROXIES_EXCEPT] = {"NO_PROXY", "no_proxy"},
};

static void note(struct inject_proxies *p, cJSON *variable)
{
    const char *name = field_text(variable, "name");
    for (int kind = 0; kind < PROXIES_KINDS; kind++) {
        for (int i = 0; i < PROXIES_SPELLINGS; i++) {
            if (strcmp(inject_proxies_names[kind][i], name) == 0) {
                p->variables[kind][i] = variable;
            }
        }
    }
}

void inject_proxies_find(struct inject_proxies *p, const cJSON *container)
{
    *p = (struct inject_proxies){.variables = {{NULL}}};
    cJSON *variable;
    cJSON_ArrayForEach(variable, field_get(container, "env"))
    {
        note(p, variable);
    }
}

bool inject_proxies_says(const cJSON *variable)
{
    const cJSON *value = field_get(variable, "value");
    return field_get(variable, "valueFrom") != NULL ||
           (value != NULL && !(cJSON_IsString(value) && value->valuestring[0] == '\0'));
}

bool inject_proxies_has(const struct inject_proxies *p, int kind)
{
    return inject_proxies_says(p->variables[kind][0]) || inject_proxies_says(p->variables[kind][1]);
}

/* What begins with another prefix is none of the names. */
static bool may_name_proxy(const cJSON *source)
{
    const char *prefix = field_text(source, "prefix");
    for (int kind = 0; kind < PROXIES_KINDS; kind++) {
        for (int i = 0; i < PROXIES_SPELLINGS; i++) {
            if (strncmp(inject_proxies_names[kind][i], prefix, strlen(prefix)) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool inject_proxies_may_be_told(const cJSON *container)
{
    const cJSON *source;
    cJSON_ArrayForEach(source, field_get(container, "envFrom"))
    {
        if (may_name_proxy(source)) {
            return true;
        }
    }
    return false;
}

static bool is_ours(const cJSON *variable, const char *ours)
{
    return field_get(variable, "valueFrom") == NULL &&
           strcmp(field_text(variable, "value"), ours) == 0;
}

enum inject_proxies_whose inject_proxies_whose(const struct inject_proxies *p,
                                               const cJSON *container, const char *ours)
{
    bool any = false;
    for (int kind = 0; kind < PROXIES_EXCEPT; kind++) {
        for (int i = 0; i < PROXIES_SPELLINGS; i++) {
            const cJSON *variable = p->variables[kind][i];
            if (inject_proxies_says(variable) && !is_ours(variable, ours)) {
                return PROXIES_OTHER;
            }
            any = any || inject_proxies_says(variable);
        }
    }
    if (any) {
        return PROXIES_OURS;
    }
    return inject_proxies_may_be_told(container) ? PROXIES_UNKNOWN : PROXIES_NONE;
}
