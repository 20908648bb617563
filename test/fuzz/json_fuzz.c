/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read as JSON prints as canonical text, and that text reads and prints as itself; what is
 * refused has a message with a place.
 */
#include "base/json.h"

#include <string.h>

#include "check.h"

/* Through memory of its own, so that reads outside the text are seen. */
static cJSON *parse(const void *text, size_t len, struct err *e)
{
    char *copy = malloc(len > 0 ? len : 1);
    CHECK(copy != NULL);
    if (len > 0) {
        memcpy(copy, text, len);
    }
    cJSON *root = json_parse(copy, len, e);
    free(copy);
    return root;
}

static void check_canonical(const cJSON *root)
{
    struct err e = ERR_INIT;
    struct buf first = BUF_INIT(SIZE_MAX);
    struct buf second = BUF_INIT(SIZE_MAX);
    CHECK(json_canonical(root, &first) == 0);
    cJSON *again = parse(buf_data(&first), first.len, &e);
    CHECK(again != NULL);
    CHECK(json_canonical(again, &second) == 0);
    CHECK(first.len == second.len);
    CHECK(memcmp(buf_data(&first), buf_data(&second), first.len) == 0);
    cJSON_Delete(again);
    buf_reset(&first);
    buf_reset(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    cJSON *root = parse(data, size, &e);
    if (root == NULL) {
        CHECK(e.code != 0 && e.msg[0] != '\0' && strlen(e.msg) < ERR_MSG_MAX);
        return 0;
    }
    check_canonical(root);
    cJSON_Delete(root);
    return 0;
}
