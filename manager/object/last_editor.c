/* SPDX-License-Identifier: Apache-2.0 */
#include "object/last_editor.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "json/field.h"

static bool is_among(const char *manager, const char *const *names)
{
    bool found = false;
    for (; *names != NULL; names++) {
        found = found || strcmp(manager, *names) == 0;
    }
    return found;
}

/* Times are RFC 3339, in UTC: as texts they are in order. */
void last_editor_find(const cJSON *meta, const char *const *but, char out[LAST_EDITOR_SIZE])
{
    const cJSON *entry = NULL;
    const char *last = "";
    out[0] = '\0';
    cJSON_ArrayForEach(entry, field_get(meta, "managedFields"))
    {
        const char *manager = field_text(entry, "manager");
        const char *time = field_text(entry, "time");
        if (!is_among(manager, but) && strcmp(time, last) >= 0) {
            last = time;
            (void)snprintf(out, LAST_EDITOR_SIZE, "%.100s%s%.40s", manager,
                           time[0] == '\0' ? "" : " at ", time);
        }
    }
}
