/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses the encoding. Of JSON the reader must say what a parser says; all that it
 * says lies in the object. The reader of a body in pieces (object_reader.h) says the same of JSON
 * that has no key twice and of protobuf, and in any case the same of all pieces.
 */
#include "codec/object_meta.h"

#include <string.h>

#include "check.h"
#include "codec/object_reader.h"
#include "pieces.h"
#include "plain_json.h"

/* What an escape stands for, of those that plain_parse lets through. */
static bool is_plain(const char *text)
{
    return strpbrk(text, "\"\\") == NULL;
}

static bool is_plain_string(const cJSON *value)
{
    return cJSON_IsString(value) && is_plain(value->valuestring);
}

struct second {
    uint64_t version;
    size_t labels;
    bool kind;
    bool api_version;
};

static bool read_labels(const cJSON *labels, struct second *s)
{
    if (!cJSON_IsObject(labels)) {
        return cJSON_IsNull(labels);
    }
    for (const cJSON *l = labels->child; l != NULL; l = l->next) {
        if (!is_plain(l->string) || !is_plain_string(l) || s->labels == OBJECT_META_LABELS) {
            return false;
        }
        s->labels++;
    }
    return true;
}

static bool read_metadata(const cJSON *metadata, struct second *s)
{
    bool version = false;
    bool labels = false;
    const cJSON *m = cJSON_IsObject(metadata) ? metadata->child : NULL;
    for (; m != NULL && !(version && labels); m = m->next) {
        if (strcmp(m->string, "resourceVersion") == 0) {
            s->version = is_plain_string(m) ? decimal_or_zero(slice_str(m->valuestring)) : 0;
            version = true;
        } else if (strcmp(m->string, "labels") == 0) {
            if (!read_labels(m, s)) {
                return false;
            }
            labels = true;
        }
    }
    return true;
}

static bool read_object(const cJSON *root, struct second *s)
{
    bool found = false;
    const cJSON *m = cJSON_IsObject(root) ? root->child : NULL;
    for (; m != NULL && !(found && s->kind && s->api_version); m = m->next) {
        if (strcmp(m->string, "metadata") == 0) {
            found = read_metadata(m, s);
        } else if (strcmp(m->string, "kind") == 0 || strcmp(m->string, "apiVersion") == 0) {
            if (!is_plain_string(m)) {
                return false;
            }
            bool *there = m->string[0] == 'k' ? &s->kind : &s->api_version;
            *there = m->valuestring[0] != '\0';
        }
    }
    return found && s->version != 0;
}

static void check_json(struct slice text, const struct object_meta *said)
{
    struct second s = {.version = 0};
    cJSON *root = plain_parse(text);
    if (root == NULL) {
        return;
    }
    bool read = read_object(root, &s);
    CHECK(read == (said != NULL));
    CHECK(said == NULL || (said->resource_version == s.version && said->label_count == s.labels));
    cJSON_Delete(root);
}

/* ---- in pieces ---- */

static bool same_label(const struct selector_label *a, const struct selector_label *b)
{
    return slice_eq(a->key, b->key) && slice_eq(a->value, b->value);
}

static bool same(const struct object_meta *a, const struct object_meta *b)
{
    bool same = slice_eq(a->type.kind, b->type.kind) &&
                slice_eq(a->type.api_version, b->type.api_version) &&
                a->resource_version == b->resource_version && a->label_count == b->label_count;
    for (size_t i = 0; same && i < a->label_count; i++) {
        same = same_label(&a->labels[i], &b->labels[i]);
    }
    return same;
}

static struct object_reader *feed(enum encoding encoding, struct slice body, enum pieces_way way)
{
    struct object_reader *r = object_reader_new(encoding, false, NULL);
    struct pieces p = {.rest = body, .way = way, .random = (uint32_t)body.len};
    CHECK(r != NULL);
    bool more = true;
    for (struct slice piece; pieces_next(&p, &piece);) {
        more = object_reader_feed(r, piece) && more;
    }
    return r;
}

/* Whether no object in it has a key twice. */
static bool is_simple(const cJSON *value)
{
    for (const cJSON *a = value->child; a != NULL; a = a->next) {
        for (const cJSON *b = a->next; cJSON_IsObject(value) && b != NULL; b = b->next) {
            if (strcmp(a->string, b->string) == 0) {
                return false;
            }
        }
        if (!is_simple(a)) {
            return false;
        }
    }
    return true;
}

static bool is_simple_text(struct slice text)
{
    cJSON *root = plain_parse(text);
    bool simple = root != NULL && is_simple(root);
    cJSON_Delete(root);
    return simple;
}

static void check_pieces(enum encoding encoding, struct slice object,
                         const struct object_meta *said)
{
    struct object_meta whole;
    struct object_reader *r = feed(encoding, object, PIECES_WHOLE);
    bool read = object_reader_read(r, &whole);
    for (enum pieces_way way = PIECES_BYTES; way <= PIECES_RANDOM; way++) {
        struct object_meta m;
        struct object_reader *other = feed(encoding, object, way);
        CHECK(object_reader_read(other, &m) == read && (!read || same(&m, &whole)));
        object_reader_free(other);
    }
    bool small = object.len <= OBJECT_META_PROTOBUF_HEAD;
    if (encoding == ENCODING_JSON ? small && is_simple_text(object) : small) {
        CHECK(read == (said != NULL) && (!read || same(&whole, said)));
    }
    object_reader_free(r);
}

static void check_inside(struct slice object, struct slice part)
{
    CHECK(part.len == 0 ||
          (part.ptr >= object.ptr && part.ptr + part.len <= object.ptr + object.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct object_meta m;
    if (size < 1) {
        return 0;
    }
    enum encoding encoding = data[0] % 2 == 0 ? ENCODING_JSON : ENCODING_PROTOBUF;
    struct slice object = slice_of((const char *)data + 1, size - 1);
    bool read = object_meta_read(encoding, object, &m);
    if (encoding == ENCODING_JSON) {
        check_json(object, read ? &m : NULL);
    }
    check_pieces(encoding, object, read ? &m : NULL);
    if (read) {
        CHECK(m.resource_version != 0 && m.label_count <= OBJECT_META_LABELS);
        check_inside(object, m.type.kind);
        check_inside(object, m.type.api_version);
        for (size_t i = 0; i < m.label_count; i++) {
            check_inside(object, m.labels[i].key);
            check_inside(object, m.labels[i].value);
        }
    }
    return 0;
}
