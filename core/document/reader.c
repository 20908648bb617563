/* SPDX-License-Identifier: Apache-2.0 */
#include "document/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "crypto/digest.h"
#include "kube/name.h"
#include "json/json.h"
#include "json/scanner.h"

struct slice document_without_mark(struct slice text)
{
    static const struct slice mark = {.ptr = "\xef\xbb\xbf", .len = 3};
    bool marked = text.len >= mark.len && memcmp(text.ptr, mark.ptr, mark.len) == 0;
    return marked ? slice_of(text.ptr + mark.len, text.len - mark.len) : text;
}

/* A tree takes some 80 bytes for each value. */
static int check_values(struct slice document, const struct document_bounds *b, struct err *e)
{
    size_t all = json_count_values(document);
    struct slice whole;
    struct slice spec = {0};
    if (all > b->values) {
        return err_set(e, -E2BIG, "the document has more than %zu values", b->values);
    }
    if (all <= b->beside) {
        return 0;
    }
    if (json_scan_document(document, &whole, e) != 0) {
        return e->code;
    }
    if (json_scan_member(whole, SLICE("spec"), &spec) != 1) {
        spec = (struct slice){0}; /* none, or two */
    }
    if (all - json_count_values(spec) > b->beside) {
        return err_set(e, -E2BIG, "the document has more than %zu values outside of its spec",
                       b->beside);
    }
    return 0;
}

cJSON *document_parse(struct slice text, const struct document_bounds *b, struct err *e)
{
    if (text.len > b->bytes) {
        err_set(e, -E2BIG, "the document has more than %zu bytes", b->bytes);
        return NULL;
    }
    return check_values(text, b, e) == 0 ? json_parse(text.ptr, text.len, e) : NULL;
}

void document_fail(const struct document_reader *r, int code, const cJSON *item, const char *path,
                   const char *fmt, ...)
{
    char what[ERR_MSG_MAX];
    va_list ap;
    if (r->e->code != 0) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    unsigned line = item == NULL ? 0 : json_line(r->text, r->len, r->root, item);
    err_set(r->e, code, "%s: %s", path, what);
    if (line > 0) {
        err_prefix(r->e, "line %u", line);
    }
}

void document_wrong_type(const struct document_reader *r, const cJSON *item, const char *path,
                         const char *expected)
{
    document_fail(r, -EINVAL, item, path, "Invalid value: must be %s", expected);
}

cJSON *document_member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

cJSON *document_required(const struct document_reader *r, const cJSON *parent, const char *key,
                         const char *path)
{
    cJSON *item = document_member(parent, key);
    if (item == NULL) {
        document_fail(r, -EINVAL, parent, path, "Required value");
    }
    return item;
}

static void refuse_unknown(const struct document_reader *r, const cJSON *object, const char *path,
                           const char *const *known)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], item->string) != 0) {
            i++;
        }
        if (known[i] == NULL) {
            document_fail(r, -EINVAL, item, path, "unknown field \"%.100s\"", item->string);
        }
    }
}

bool document_check_object(const struct document_reader *r, const cJSON *item, const char *path,
                           const char *const *known)
{
    if (!cJSON_IsObject(item)) {
        document_wrong_type(r, item, path, "an object");
        return false;
    }
    if (known != NULL) {
        refuse_unknown(r, item, path, known);
    }
    return true;
}

const cJSON *document_object(const struct document_reader *r, const cJSON *parent, const char *key,
                             const char *path, const char *const *known)
{
    const cJSON *item = document_member(parent, key);
    return item != NULL && document_check_object(r, item, path, known) ? item : NULL;
}

const char *document_string(const struct document_reader *r, const cJSON *parent, const char *key,
                            const char *path)
{
    const cJSON *item = document_required(r, parent, key, path);
    if (item != NULL && !cJSON_IsString(item)) {
        document_wrong_type(r, item, path, "a string");
    }
    return cJSON_IsString(item) ? item->valuestring : "";
}

const char *document_name(const struct document_reader *r, const cJSON *parent, const char *key,
                          const char *path, const char *(*check)(struct slice))
{
    const char *name = document_string(r, parent, key, path);
    const char *why = check(slice_str(name));
    if (why != NULL) {
        document_fail(r, -EINVAL, document_member(parent, key), path,
                      "Invalid value: \"%.100s\": %s", name, why);
    }
    return name;
}

/* Whether it is a whole number within these bounds, which a double holds exactly. */
static bool read_whole(const cJSON *item, uint64_t min, uint64_t max, uint64_t *out)
{
    double n = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(n >= (double)min && n <= (double)max) || (double)(uint64_t)n != n) {
        return false;
    }
    *out = (uint64_t)n;
    return true;
}

uint64_t document_number(const struct document_reader *r, const cJSON *parent, const char *key,
                         const char *path, uint64_t min, uint64_t max)
{
    const cJSON *item = document_required(r, parent, key, path);
    uint64_t n = min;
    if (item != NULL && !read_whole(item, min, max, &n)) {
        document_fail(r, -EINVAL, item, path, "Invalid value: must be an integer from %llu to %llu",
                      (unsigned long long)min, (unsigned long long)max);
    }
    return n;
}

/* ---- lists ---- */

/* A string that is in order. */
static void check_item(const struct document_reader *r, const cJSON *item, const char *path,
                       const char *(*check)(struct slice))
{
    if (!cJSON_IsString(item)) {
        document_wrong_type(r, item, path, "a string");
        return;
    }
    const char *why = check(slice_str(item->valuestring));
    if (why != NULL) {
        document_fail(r, -EINVAL, item, path, "Invalid value: \"%.100s\": %s", item->valuestring,
                      why);
    }
}

struct listed {
    const cJSON *item;
    size_t index;
};

static int compare_listed(const void *a, const void *b)
{
    const struct listed *x = a;
    const struct listed *y = b;
    int order = strcmp(x->item->valuestring, y->item->valuestring);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

/* Each stands there once; all are strings. */
static void check_distinct(const struct document_reader *r, const cJSON *list, size_t count,
                           const char *path)
{
    struct listed *all = calloc(count + 1, sizeof *all);
    size_t i = 0;
    if (all == NULL) {
        err_memory(r->e);
        return;
    }
    for (const cJSON *item = list->child; item != NULL; item = item->next) {
        all[i] = (struct listed){.item = item, .index = i};
        i++;
    }
    qsort(all, count, sizeof *all, compare_listed);
    for (i = 1; i < count && r->e->code == 0; i++) {
        const cJSON *item = all[i].item;
        if (strcmp(all[i - 1].item->valuestring, item->valuestring) == 0) {
            char item_path[DOCUMENT_PATH_LEN];
            (void)snprintf(item_path, sizeof item_path, "%.100s[%zu]", path, all[i].index);
            document_fail(r, -EINVAL, item, item_path, "Duplicate value: \"%.100s\"",
                          item->valuestring);
        }
    }
    free(all);
}

const cJSON *document_list(const struct document_reader *r, const cJSON *parent,
                           const char *parent_path, const char *key, size_t max,
                           const char *(*check)(struct slice))
{
    char path[DOCUMENT_PATH_LEN];
    (void)snprintf(path, sizeof path, "%s.%s", parent_path, key);
    const cJSON *list = document_required(r, parent, key, path);
    if (!cJSON_IsArray(list)) {
        document_wrong_type(r, list, path, "an array");
        return NULL;
    }
    if (list->child == NULL) {
        document_fail(r, -EINVAL, list, path, "Required value: must have at least one entry");
    }
    size_t count = (size_t)cJSON_GetArraySize(list);
    if (count > max) {
        document_fail(r, -E2BIG, list, path, "Too many: must have at most %zu entries", max);
    }
    size_t i = 0;
    for (const cJSON *item = list->child; item != NULL && r->e->code == 0; item = item->next) {
        char item_path[DOCUMENT_PATH_LEN];
        (void)snprintf(item_path, sizeof item_path, "%.100s[%zu]", path, i++);
        check_item(r, item, item_path, check);
    }
    if (r->e->code == 0) {
        check_distinct(r, list, count, path);
    }
    return r->e->code == 0 ? list : NULL;
}

/* ---- what all of them have ---- */

void document_constant(const struct document_reader *r, const char *key, const char *want)
{
    const char *got = document_string(r, r->root, key, key);
    if (strcmp(got, want) != 0) {
        document_fail(r, -EINVAL, document_member(r->root, key), key,
                      "Unsupported value: \"%.100s\": supported is \"%s\"", got, want);
    }
}

void document_shard(const struct document_reader *r, const char **namespace, const char **name)
{
    (void)document_required(r, r->root, "shard", "shard");
    const cJSON *shard = document_object(r, r->root, "shard", "shard", NULL);
    *namespace = document_name(r, shard, "namespace", "shard.namespace", name_check_label);
    *name = document_name(r, shard, "name", "shard.name", name_check_subdomain);
}

uint64_t document_generation(const struct document_reader *r, const cJSON *item, const char *key)
{
    uint64_t n = 0;
    if (!read_whole(item, 1, DOCUMENT_GENERATION_MAX, &n)) {
        document_wrong_type(r, item, key, "an integer of at least 1");
    }
    return n;
}

static bool checksum_shape(const char *text)
{
    return strlen(text) == DOCUMENT_CHECKSUM_LEN && strncmp(text, "sha256:", 7) == 0 &&
           strspn(text + 7, "0123456789abcdef") == SHA256_HEX_LEN;
}

void document_checksum(const struct document_reader *r, size_t max, const char *path,
                       const char *too_long, char out[DOCUMENT_CHECKSUM_LEN + 1])
{
    struct buf text = BUF_INIT(4 * max);
    const cJSON *item = document_member(r->root, "checksum");
    int rc = json_canonical(document_member(r->root, "spec"), &text);
    if (rc == -ENOMEM) {
        err_memory(r->e);
    } else if (rc != 0) {
        document_fail(r, rc, NULL, "spec", "cannot be put into canonical form");
    } else if (text.len > max) {
        document_fail(r, -E2BIG, NULL, path, "Too long: %s", too_long);
    }
    memcpy(out, "sha256:", 7);
    sha256_hex(buf_data(&text), text.len, out + 7);
    buf_reset(&text);
    if (item == NULL) {
        return;
    }
    if (!cJSON_IsString(item) || !checksum_shape(item->valuestring)) {
        document_wrong_type(r, item, "checksum", "\"sha256:\" and 64 lower case hex digits");
    } else if (strcmp(item->valuestring, out) != 0) {
        document_fail(r, -EINVAL, item, "checksum",
                      "Invalid value: the spec has %s: it was changed after it was written, or "
                      "damaged",
                      out);
    }
}
