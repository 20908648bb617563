/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses the Content-Type, the rest is the body. What comes out, read again by
 * other readers (cJSON's tree, libyaml's, and one of protobuf written here), must be what went in
 * with the name changed; and where those find the lock, it must have been found.
 */
#include "lock/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "check.h"
#include "yaml/yaml.h"
#include "json/json.h"

static const struct lock_rule rule = {.name = "leader", .renamed = "leader---s1", .namespace = "n"};

enum form { FORM_JSON, FORM_PATCH, FORM_YAML, FORM_PROTOBUF };

static const struct {
    const char *type;
    enum form form;
} types[] = {
    {"application/json", FORM_JSON},
    {"application/json-patch+json", FORM_PATCH},
    {"application/apply-patch+yaml", FORM_YAML},
    {"application/vnd.kubernetes.protobuf", FORM_PROTOBUF},
    {"", FORM_JSON},
    {"application/merge-patch+json; charset=utf-8", FORM_JSON},
};

/* Where the lock's name is looked for: in JSON, as a JSON pointer, in protobuf with its envelope.
 */
static const struct {
    const char *object;
    const char *member;
    const char *object_pointer;
    const char *member_pointer;
    unsigned numbers[3];
} places[] = {
    [LOCK_METADATA_NAME] = {"metadata", "name", "/metadata", "/metadata/name", {2, 1, 1}},
    [LOCK_SPEC_LEASE_NAME] = {"spec", "leaseName", "/spec", "/spec/leaseName", {2, 2, 1}},
};
static enum lock_field place;

/* What the body says once it is decoded, the lock's name changed. */
struct expected {
    bool known; /* the other reader takes the body */
    enum lock_found found;
    struct buf text; /* canonical */
};

static cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static cJSON *named(const cJSON *object)
{
    return member(member(object, places[place].object), places[place].member);
}

static void expect_name(cJSON *name, struct expected *x)
{
    if (!cJSON_IsString(name)) {
        return;
    }
    if (strcmp(name->valuestring, rule.name) == 0) {
        CHECK(cJSON_SetValuestring(name, rule.renamed) != NULL);
        x->found = LOCK_RENAMED;
    } else if (strcmp(name->valuestring, rule.renamed) == 0 && x->found == LOCK_OTHER) {
        x->found = LOCK_OWN;
    }
}

static void expect_operation(const cJSON *operation, struct expected *x)
{
    const char *path = cJSON_GetStringValue(member(operation, "path"));
    cJSON *value = member(operation, "value");
    if (path == NULL) {
        return;
    }
    if (strcmp(path, places[place].member_pointer) == 0) {
        expect_name(value, x);
    } else if (strcmp(path, places[place].object_pointer) == 0) {
        expect_name(member(value, places[place].member), x);
    } else if (path[0] == '\0') {
        expect_name(named(value), x);
    }
}

static cJSON *read_tree(enum form form, struct slice text)
{
    return form == FORM_YAML ? yaml_parse(text.ptr, text.len, NULL, NULL)
                             : json_parse(text.ptr, text.len, NULL);
}

static void expect_tree(enum form form, struct slice body, struct expected *x)
{
    cJSON *tree = read_tree(form, body);
    x->known = tree != NULL;
    if (form == FORM_PATCH && cJSON_IsArray(tree)) {
        const cJSON *operation;
        cJSON_ArrayForEach(operation, tree)
        {
            expect_operation(operation, x);
        }
    } else if (form != FORM_PATCH) {
        expect_name(named(tree), x);
    }
    CHECK(tree == NULL || json_canonical(tree, &x->text) == 0);
    cJSON_Delete(tree);
}

/* --- protobuf: a message as a line a field, bytes in hex but for where the name is --- */

static bool take_number(struct slice *s, uint64_t *n)
{
    *n = 0;
    for (unsigned shift = 0; shift < 64 && s->len > 0; shift += 7) {
        uint64_t c = (unsigned char)*s->ptr;
        *s = slice_of(s->ptr + 1, s->len - 1);
        if (shift == 63 && c > 1) {
            return false;
        }
        *n |= (c & 0x7f) << shift;
        if (c < 0x80) {
            return true;
        }
    }
    return false;
}

static bool print_message(struct slice s, unsigned depth, struct expected *x);

static bool print_bytes(struct slice value, uint64_t number, unsigned depth, bool on_path,
                        struct expected *x)
{
    if (on_path && number == places[place].numbers[depth]) {
        if (depth < 2) {
            return print_message(value, depth + 1, x);
        }
        if (slice_eq(value, slice_str(rule.name))) {
            x->found = LOCK_RENAMED;
            value = slice_str(rule.renamed);
        } else if (slice_eq(value, slice_str(rule.renamed))) {
            x->found = LOCK_OWN;
        }
    }
    for (size_t i = 0; i < value.len; i++) {
        CHECK(buf_printf(&x->text, "%02x", (unsigned char)value.ptr[i]) == 0);
    }
    return true;
}

/* Whether a field says which object this is, or what the envelope holds. */
static bool matters(uint64_t number, unsigned depth)
{
    return number == places[place].numbers[depth] || (depth == 0 && (number == 3 || number == 4));
}

/* False: no message, or a field that matters stands twice. */
static bool print_message(struct slice s, unsigned depth, struct expected *x)
{
    static const size_t fixed[8] = {[1] = 8, [5] = 4};
    unsigned seen[5] = {0};
    while (s.len > 0) {
        uint64_t tag;
        uint64_t n = 0;
        if (!take_number(&s, &tag) || tag > UINT32_MAX || tag < 8) {
            return false;
        }
        unsigned type = tag & 7;
        bool bytes = type == 2;
        if (type > 5 || type == 3 || type == 4 || ((type == 0 || bytes) && !take_number(&s, &n))) {
            return false;
        }
        size_t len = bytes ? n : fixed[type];
        if (len > s.len || (bytes && n > s.len)) {
            return false;
        }
        if (matters(tag >> 3, depth) && (!bytes || seen[tag >> 3]++ > 0)) {
            return false;
        }
        CHECK(buf_printf(&x->text, "\n%u:%llu=%llu ", depth, (unsigned long long)tag,
                         bytes ? 0 : (unsigned long long)n) == 0);
        if (!print_bytes(slice_of(s.ptr, len), tag >> 3, depth, bytes, x)) {
            return false;
        }
        s = slice_of(s.ptr + len, s.len - len);
    }
    return true;
}

static void expect_protobuf(struct slice body, struct expected *x)
{
    x->known = body.len >= 4 && memcmp(body.ptr, "k8s", 4) == 0 &&
               print_message(slice_of(body.ptr + 4, body.len - 4), 0, x);
}

static void expect(enum form form, struct slice body, struct expected *x)
{
    *x = (struct expected){.known = false, .found = LOCK_OTHER, .text = BUF_INIT(SIZE_MAX)};
    if (form == FORM_PROTOBUF) {
        expect_protobuf(body, x);
    } else {
        expect_tree(form, body, x);
    }
}

static void check_rewritten(enum form form, const struct expected *before, const struct buf *out)
{
    struct expected after;
    expect(form, buf_slice(out), &after);
    if (before->known) {
        CHECK(after.known && after.found == LOCK_OWN);
        CHECK(after.text.len == before->text.len);
        CHECK(memcmp(buf_data(&after.text), buf_data(&before->text), after.text.len) == 0);
    }
    buf_reset(&after.text);
}

/* Both are the same up to a name and behind it. */
static void check_one_edit(struct slice body, const struct buf *out)
{
    struct slice to = slice_str(rule.renamed);
    struct slice now = buf_slice(out);
    size_t same = 0;
    while (same < body.len && same < now.len && body.ptr[same] == now.ptr[same]) {
        same++;
    }
    for (size_t i = 0; i <= same && i + to.len <= now.len; i++) {
        struct slice tail = slice_of(now.ptr + i + to.len, now.len - i - to.len);
        if (memcmp(now.ptr + i, to.ptr, to.len) == 0 && tail.len <= body.len - i &&
            memcmp(body.ptr + body.len - tail.len, tail.ptr, tail.len) == 0) {
            return;
        }
    }
    CHECK(false);
}

static bool is_json(struct slice body)
{
    cJSON *tree = json_parse(body.ptr, body.len, NULL);
    cJSON_Delete(tree);
    return tree != NULL;
}

static void check(const char *type, enum form form, struct slice body)
{
    struct buf out = BUF_INIT(SIZE_MAX);
    struct err e = ERR_INIT;
    enum lock_found found;
    struct expected x;
    expect(form, body, &x);
    int rc = lock_rewrite_body(&rule, place, slice_str(type), SLICE(""), body, &out, &found, &e);
    if (rc != 0) {
        CHECK(e.code == rc && e.msg[0] != '\0' && found == LOCK_OTHER && out.len == 0);
        CHECK(rc == -EINVAL || rc == -ENOTSUP);
        /* an envelope may say that there is no protobuf inside */
        CHECK(!x.known || (form == FORM_PROTOBUF && rc == -ENOTSUP));
    } else {
        CHECK(found == LOCK_RENAMED || out.len == 0);
        CHECK(!x.known || body.len == 0 || found == x.found);
    }
    if (rc == 0 && found == LOCK_RENAMED) {
        check_rewritten(form, &x, &out);
        if (form == FORM_JSON || (form == FORM_YAML && is_json(body))) {
            check_one_edit(body, &out);
        }
    }
    buf_reset(&x.text);
    buf_reset(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    /* in memory of its own, so that reads outside of it are seen */
    char *copy = malloc(size);
    CHECK(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    size_t i = data[0] % (ARRAY_LEN(types));
    place = data[0] < 0x80 ? LOCK_METADATA_NAME : LOCK_SPEC_LEASE_NAME;
    check(types[i].type, types[i].form, slice_of(copy, size - 1));
    free(copy);
    return 0;
}
