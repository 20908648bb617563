/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read as JSON prints as canonical text, and that text reads and prints as itself; what is
 * refused has a message with a place. What is scanned in place has the same shape as the tree.
 */
#include "json/json.h"

#include <string.h>

#include "check.h"
#include "json/scanner.h"

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

static char first_byte(const cJSON *item, struct slice value)
{
    if (cJSON_IsNumber(item)) {
        CHECK(value.ptr[0] == '-' || (value.ptr[0] >= '0' && value.ptr[0] <= '9'));
        return value.ptr[0];
    }
    return cJSON_IsObject(item)   ? '{'
           : cJSON_IsArray(item)  ? '['
           : cJSON_IsString(item) ? '"'
           : cJSON_IsNull(item)   ? 'n'
           : cJSON_IsTrue(item)   ? 't'
                                  : 'f';
}

static bool is_ascii(const char *s)
{
    while (*s > 0) {
        s++;
    }
    return *s == '\0';
}

static void check_shape(const cJSON *item, struct slice value)
{
    CHECK(value.len > 0 && value.ptr[0] == first_byte(item, value));
    CHECK(!cJSON_IsString(item) || !is_ascii(item->valuestring) ||
          json_scan_equal(value, slice_str(item->valuestring)));
    struct slice inside = json_scan_inside(value);
    struct slice key;
    struct slice found;
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        CHECK(json_scan_next(&inside, &key, &found));
        CHECK((key.len > 0) == cJSON_IsObject(item));
        check_shape(child, found);
        if (key.len > 0 && is_ascii(child->string)) {
            struct slice again;
            CHECK(json_scan_equal(key, slice_str(child->string)));
            CHECK(json_scan_member(value, slice_str(child->string), &again) == 1);
            CHECK(again.ptr == found.ptr && again.len == found.len);
        }
    }
    CHECK(!json_scan_next(&inside, &key, &found));
}

static void check_scan(const cJSON *root, struct slice text)
{
    struct slice value;
    struct err e = ERR_INIT;
    int rc = json_scan_document(text, &value, &e);
    CHECK(rc == 0 || (root == NULL && e.code == rc && e.msg[0] != '\0'));
    if (root != NULL) {
        check_shape(root, value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    cJSON *root = parse(data, size, &e);
    check_scan(root, slice_of((const char *)data, size));
    if (root == NULL) {
        CHECK(e.code != 0 && e.msg[0] != '\0' && strlen(e.msg) < ERR_MSG_MAX);
        return 0;
    }
    check_canonical(root);
    cJSON_Delete(root);
    return 0;
}
