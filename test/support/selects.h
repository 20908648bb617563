/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selects.h - a selector asked about an object, label by label.
 */
#ifndef TEST_SUPPORT_SELECTS_H
#define TEST_SUPPORT_SELECTS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "kube/selector.h"
#include "json/field.h"

/* Whether the labels of the object match. */
static inline bool selects(const struct selector *s, const cJSON *object)
{
    size_t count = 0;
    const struct selector_requirement *items = selector_requirements(s, &count);
    const cJSON *labels = field_get(field_get(object, "metadata"), "labels");
    for (size_t i = 0; i < count; i++) {
        const cJSON *label = field_get(labels, items[i].key);
        struct slice value = slice_str(cJSON_GetStringValue(label));
        if (!selector_requirement_matches(&items[i], label == NULL ? NULL : &value)) {
            return false;
        }
    }
    return true;
}

#endif
