/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever stands in the file of --breaker-state: what is read is within its bounds.
 */
#include "traffic/breaker_file.h"

#include <errno.h>
#include <string.h>

#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct breaker_saved *saved;
    struct err e = ERR_INIT;
    int rc = breaker_file_parse(slice_of((const char *)data, size), &saved, &e);
    CHECK(rc == 0 || rc == -EINVAL);
    CHECK((rc == 0) == (saved != NULL));
    for (size_t i = 0; saved != NULL && i < saved->count; i++) {
        const struct breaker_saved_row *row = &saved->rows[i];
        CHECK(row->key[0] != '\0' && strlen(row->key) <= BREAKER_KEY_MAX);
        CHECK(row->since_wall_ms >= 0 && row->until_wall_ms >= 0);
        CHECK(strlen(row->reset) <= TRAFFIC_TOKEN_MAX);
    }
    CHECK(saved == NULL || saved->count <= TRAFFIC_ROWS_MAX);
    breaker_saved_free(saved);
    return 0;
}
