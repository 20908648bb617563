/* SPDX-License-Identifier: Apache-2.0 */
#include "object/last_editor.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "json/field.h"

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
        if (!array_has(but, SIZE_MAX, manager) && strcmp(time, last) >= 0) {
            last = time;
            (void)snprintf(out, LAST_EDITOR_SIZE, "%.100s%s%.40s", manager,
                           time[0] == '\0' ? "" : " at ", time);
        }
    }
}
