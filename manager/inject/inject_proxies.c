/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_proxies.h"

#include <string.h>
#include <strings.h>

#include "base/slice.h"
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

/* "host:port" of the URL of a proxy. */
static struct slice place_of(const char *url)
{
    static const char scheme[] = "http://";
    size_t skipped = strncasecmp(url, scheme, sizeof scheme - 1) == 0 ? sizeof scheme - 1 : 0;
    struct slice at = slice_str(url + skipped);
    at.len -= at.len > 0 && at.ptr[at.len - 1] == '/' ? 1 : 0;
    return at;
}

bool inject_proxies_is_ours(const cJSON *variable, const char *ours)
{
    struct slice at = place_of(field_text(variable, "value"));
    struct slice own = place_of(ours);
    struct slice port = slice_str(strrchr(ours, ':'));
    const struct slice name = SLICE("localhost");
    if (field_get(variable, "valueFrom") != NULL) {
        return false;
    }
    return slice_eq(at, own) ||
           (at.len == name.len + port.len && slice_ieq(slice_of(at.ptr, name.len), name) &&
            slice_eq(slice_of(at.ptr + name.len, port.len), port));
}

enum inject_proxies_whose inject_proxies_whose(const struct inject_proxies *p,
                                               const cJSON *container, const char *ours)
{
    bool any = false;
    for (int kind = 0; kind < PROXIES_EXCEPT; kind++) {
        for (int i = 0; i < PROXIES_SPELLINGS; i++) {
            const cJSON *variable = p->variables[kind][i];
            if (inject_proxies_says(variable) && !inject_proxies_is_ours(variable, ours)) {
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
