/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_pod_level.h"

#include <stdio.h>

#include "base/array.h"
#include "inject/inject_names.h"
#include "kube/quantity.h"
#include "object/names.h"
#include "json/field.h"

static const char requests[] = "requests";
static const char limits[] = "limits";

/* Whether it is an amount, as a text or as a number. */
static bool read_amount(const cJSON *item, double *out)
{
    char number[QUANTITY_SIZE];
    const char *text = cJSON_GetStringValue(item);
    if (cJSON_IsNumber(item)) {
        (void)snprintf(number, sizeof number, "%.17g", item->valuedouble);
        text = number;
    }
    return text != NULL && quantity_parse(text, out, NULL) == 0;
}

static const cJSON *find_container(const cJSON *spec, const char *name)
{
    const cJSON *found = edit_find(field_get(spec, "initContainers"), "name", name);
    return found != NULL ? found : edit_find(field_get(spec, "containers"), "name", name);
}

/* What a container has of a resource. As the API server has it, the limit is requested where no
 * request is; and what has no limit should have room for its request at least. */
static double amount_of(const cJSON *container, const char *which, const char *resource)
{
    const cJSON *resources = field_get(container, "resources");
    const char *other = which == requests ? limits : requests;
    double value = 0;
    if (!read_amount(field_get(field_get(resources, which), resource), &value)) {
        (void)read_amount(field_get(field_get(resources, other), resource), &value);
    }
    return value;
}

static void raise_amount(struct edit *ed, const cJSON *before, const char *which,
                         const char *resource, cJSON *spec)
{
    const cJSON *item = field_get(field_get(field_get(before, "resources"), which), resource);
    double more = amount_of(find_container(spec, SIDECAR_PROXY), which, resource) +
                  amount_of(find_container(spec, SIDECAR_RULESYNC), which, resource);
    char text[QUANTITY_SIZE];
    double value;
    if (more > 0 && read_amount(item, &value) && quantity_print(value + more, text) == 0) {
        cJSON *resources = edit_object(ed, spec, "resources");
        edit_string(ed, edit_object(ed, resources, which), resource, text);
    }
}

/* The init containers of the mesh run before both, and have no more than rulesync. */
void inject_pod_level_raise(struct edit *ed, const cJSON *before, cJSON *spec)
{
    static const char *const raised[] = {"cpu", "memory"};
    for (size_t i = 0; i < ARRAY_LEN(raised); i++) {
        raise_amount(ed, before, requests, raised[i], spec);
        raise_amount(ed, before, limits, raised[i], spec);
    }
}
