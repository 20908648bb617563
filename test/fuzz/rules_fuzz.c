/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says whether the rest is a whole rules document or stands in place of some part of
 * a good one. What is taken must write itself as a document that means the same, and whose
 * selectors are what the limits say.
 */
#include "rules/rules.h"

#include "base/array.h"
#include "check.h"
#include "kube/query.h"

#define HEAD_OF(version)                                                                           \
    "{\"apiVersion\":\"" version "\",\"kind\":\"ShardRules\",\"shard\":{\"namespace\":\"ns\","     \
    "\"name\":\"s\"},\"generation\":1,"
#define HEAD HEAD_OF("cmesh/v1")
#define HEAD2 HEAD_OF("cmesh/v2")

static const struct {
    const char *before;
    const char *after;
} frames[] = {
    {"", ""},
    {HEAD, "}"},
    {HEAD "\"spec\":{", "}}"},
    {HEAD "\"spec\":{\"limits\":[", "]}}"},
    {HEAD "\"spec\":{\"limits\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"selector\":\"",
     "\"}]}}"},
    {HEAD
     "\"spec\":{\"limits\":[{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],\"selector\":\"a\"},{",
     "}]}}"},
    {HEAD2 "\"spec\":{", "}}"},
    {HEAD2 "\"spec\":{\"selectors\":[\"a\",\"b in (c)\"],\"limits\":[", "]}}"},
};

static struct rules *parse(const struct buf *text)
{
    struct err e = ERR_INIT;
    struct rules *r = rules_parse((const char *)text->base, text->len, &e);
    CHECK(r != NULL || (e.code < 0 && e.msg[0] != '\0'));
    return r;
}

static void check_entry(const struct rules_entry *entry)
{
    struct buf text = BUF_INIT(SELECTOR_TEXT_MAX);
    CHECK(selector_print(entry->compiled, &text) == 0 && text.len == entry->length);
    struct selector *s = selector_parse(buf_slice(&text), NULL);
    CHECK(s != NULL && selector_equal(s, entry->compiled) && !selector_is_everything(s));
    buf_clear(&text);
    CHECK(query_decode(entry->escaped, &text) == 0);
    struct selector *asked = selector_parse(buf_slice(&text), NULL);
    CHECK(asked != NULL && selector_equal(asked, s));
    selector_free(asked);
    selector_free(s);
    buf_reset(&text);
}

static void check_same_answers(const struct rules *a, const struct rules *b)
{
    static const char *const names[] = {"", "*", "pods", "apps", "a", "x"};
    for (size_t g = 0; g < ARRAY_LEN(names); g++) {
        for (size_t r = 0; r < ARRAY_LEN(names); r++) {
            const struct rules_entry *x = rules_match(a, slice_str(names[g]), slice_str(names[r]));
            const struct rules_entry *y = rules_match(b, slice_str(names[g]), slice_str(names[r]));
            CHECK((x == NULL) == (y == NULL));
            if (x != NULL) {
                CHECK(x->id == y->id && slice_eq(x->escaped, y->escaped));
                check_entry(x);
            }
        }
    }
}

static void check_document(const struct rules *r, enum rules_version version)
{
    struct buf text = BUF_INIT(1 << 20);
    struct buf again = BUF_INIT(1 << 20);
    CHECK(rules_to_version(r, version, &text) == 0);
    struct rules *second = parse(&text);
    CHECK(second != NULL && rules_to_version(second, version, &again) == 0);
    CHECK(rules_version(second) == version);
    CHECK(text.len == again.len && memcmp(text.base, again.base, text.len) == 0);
    CHECK(strcmp(rules_checksum(r), rules_checksum(second)) == 0);
    CHECK(rules_generation(r) == rules_generation(second));
    CHECK(rules_voids(r) == rules_voids(second));
    CHECK(rules_voids(r) == 0 || rules_voids(r) > rules_generation(r));
    check_same_answers(r, second);
    rules_unref(second);
    buf_reset(&text);
    buf_reset(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    size_t frame = data[0] % (ARRAY_LEN(frames));
    struct buf text = BUF_INIT(1 << 20);
    CHECK(buf_append_str(&text, frames[frame].before) == 0);
    CHECK(buf_append(&text, data + 1, size - 1) == 0);
    CHECK(buf_append_str(&text, frames[frame].after) == 0);
    /* A copy of the exact size: reading past the end shows. */
    struct buf exact = BUF_INIT(text.len);
    CHECK(buf_append(&exact, text.base, text.len) == 0);
    struct rules *r = parse(&exact);
    if (r != NULL) {
        for (enum rules_version v = RULES_V1; v < RULES_VERSIONS; v++) {
            check_document(r, v);
        }
    }
    rules_unref(r);
    buf_reset(&exact);
    buf_reset(&text);
    return 0;
}
