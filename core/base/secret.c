/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"

#include <stdlib.h>
#include <string.h>

void secret_free(char *str)
{
    if (str != NULL) {
        explicit_bzero(str, strlen(str));
        free(str);
    }
}

void secret_buf_reset(struct buf *b)
{
    if (b->base != NULL) {
        explicit_bzero(b->base, b->cap);
    }
    buf_reset(b);
}

static void wipe(cJSON *item)
{
    for (; item != NULL; item = item->next) {
        if (item->valuestring != NULL && (item->type & cJSON_IsReference) == 0) {
            explicit_bzero(item->valuestring, strlen(item->valuestring));
        }
        wipe(item->child);
    }
}

void secret_json_delete(cJSON *item)
{
    wipe(item);
    cJSON_Delete(item);
}
