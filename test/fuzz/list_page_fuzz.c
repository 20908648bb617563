/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page that is read object by object is the same as one that is parsed whole; and what is refused
 * one way is refused the other, but for what json_parse_foreign reads of a single object.
 */
#include "kube/client/list_page.h"

#include <string.h>

#include "check.h"
#include "kube/client/watch_event.h"
#include "json/json.h"

/* Objects may be nested deeper by themselves than in their page; random input never is. */
enum { DEPTH_MAX = 900 };

static bool is_deep(const uint8_t *data, size_t size)
{
    size_t brackets = 0;
    for (size_t i = 0; i < size; i++) {
        brackets += data[i] == '{' || data[i] == '[' ? 1 : 0;
    }
    return brackets > DEPTH_MAX;
}

/* What list_page demands beyond JSON. */
static bool is_list(const cJSON *root)
{
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(root, "items");
    const cJSON *item;
    if (object_version(root) == NULL || !(cJSON_IsArray(items) || cJSON_IsNull(items))) {
        return false;
    }
    cJSON_ArrayForEach(item, items)
    {
        if (!cJSON_IsObject(item) || object_name(item) == NULL) {
            return false;
        }
    }
    return true;
}

static void check_same(const cJSON *a, const cJSON *b)
{
    struct buf first = BUF_INIT(SIZE_MAX);
    struct buf second = BUF_INIT(SIZE_MAX);
    CHECK(json_canonical(a, &first) == 0);
    CHECK(json_canonical(b, &second) == 0);
    CHECK(first.len == second.len);
    CHECK(memcmp(buf_data(&first), buf_data(&second), first.len) == 0);
    buf_reset(&first);
    buf_reset(&second);
}

/* Reads all of it: 0, or the error. Compares with `root`, if it is there. */
static int read_page(struct slice text, const cJSON *root, struct err *e)
{
    struct list_page p;
    int rc = list_page_init(&p, text, e);
    if (rc != 0) {
        return rc;
    }
    const cJSON *expected = cJSON_GetObjectItemCaseSensitive(root, "items");
    expected = expected == NULL ? NULL : expected->child;
    cJSON *object;
    while ((rc = list_page_next(&p, &object, e)) == 1) {
        if (expected != NULL) {
            check_same(object, expected);
            expected = expected->next;
        }
        cJSON_Delete(object);
    }
    CHECK(rc != 0 || expected == NULL);
    CHECK(root == NULL || strcmp(p.version, object_version(root)) == 0);
    list_page_deinit(&p);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    if (is_deep(data, size)) {
        return 0;
    }
    char *copy = malloc(size > 0 ? size : 1);
    CHECK(copy != NULL);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    cJSON *root = json_parse(copy, size, NULL);
    cJSON *foreign = json_parse_foreign(copy, size, NULL);
    bool good = is_list(root);
    int rc = read_page(slice_of(copy, size), good ? root : NULL, &e);
    /* A key that is written with escapes is not found: refused. */
    CHECK((rc == 0) == good ||
          (good ? memmem(copy, size, "\\u", 2) != NULL : root == NULL && is_list(foreign)));
    CHECK(rc == 0 || e.msg[0] != '\0');
    cJSON_Delete(root);
    cJSON_Delete(foreign);
    free(copy);
    return 0;
}
