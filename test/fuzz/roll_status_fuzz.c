/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read of an annotation that anybody may write is printed as it was, and read the same.
 */
#include "rolling/roll_status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct roll_status s;
    struct roll_status again;
    char out[ROLL_STATUS_SIZE];
    char same[ROLL_STATUS_SIZE];
    char *text = malloc(size + 1);
    CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    roll_status_parse(text, &s);
    if (s.state != ROLL_STATE_NONE) {
        roll_status_print(&s, out);
        roll_status_parse(out, &again);
        roll_status_print(&again, same);
        CHECK(strcmp(out, same) == 0);
        /* Numbers may have had zeros in front of them. */
        CHECK(text[0] == '0' || strncmp(strchr(text, '/') + 1, "0", 1) == 0 ||
              strncmp(text, out, strlen(out)) == 0);
    }
    free(text);
    return 0;
}
