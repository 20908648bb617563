/* SPDX-License-Identifier: Apache-2.0 */
#include "document/document.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "crypto/digest.h"
#include "kube/name.h"
#include "json/field.h"
#include "json/json.h"
#include "json/scanner.h"

/* ---- the text ---- */

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

/* ---- what all of them have ---- */

static const struct schema_field shard_fields[] = {
    {"namespace", SCHEMA_TEXT, SCHEMA_MEMBER(struct document_shard, namespace), .required = "",
     .check = name_check_label},
    {"name", SCHEMA_TEXT, SCHEMA_MEMBER(struct document_shard, name), .required = "",
     .check = name_check_subdomain},
};
const struct schema_object document_shard = {SCHEMA_OBJECT_OF(shard_fields, struct document_shard),
                                             .open = true};

const char *document_check_checksum(struct slice text)
{
    const size_t prefix = sizeof "sha256:" - 1;
    bool good = text.len == DOCUMENT_CHECKSUM_LEN && memcmp(text.ptr, "sha256:", prefix) == 0 &&
                strspn(text.ptr + prefix, "0123456789abcdef") == SHA256_HEX_LEN;
    return good ? NULL : "must be \"sha256:\" and 64 lower case hex digits";
}

void document_checksum(struct schema_reader *r, const struct document_head *head, size_t max,
                       const char *path, const char *too_long, char out[DOCUMENT_CHECKSUM_LEN + 1])
{
    const struct schema_path root = SCHEMA_AT(NULL, "", r->root);
    const struct schema_path long_part = SCHEMA_AT(NULL, path, NULL);
    struct buf text = BUF_INIT(4 * max);
    int rc = json_canonical(field_get(r->root, "spec"), &text);
    if (rc != 0) {
        schema_fail(r, rc, &root, "spec", "cannot be put into canonical form");
    } else if (text.len > max) {
        schema_fail(r, -E2BIG, &long_part, NULL, "Too long: %s", too_long);
    }
    memcpy(out, "sha256:", 7);
    sha256_hex(buf_data(&text), text.len, out + 7);
    buf_reset(&text);
    if (head->checksum[0] != '\0' && strcmp(head->checksum, out) != 0) {
        schema_error(r, &root, "checksum",
                     "Invalid value: the spec has %s: it was changed after it was written, or "
                     "damaged",
                     out);
    }
}
