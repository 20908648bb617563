/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses the encoding. Of JSON the reader must say what a parser says; all that it
 * says lies in the object.
 */
#include "codec/object_meta.h"

#include <string.h>

#include "check.h"
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
