/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses the encoding. Of JSON the scanner must say what a parser says; of protobuf
 * the same when fields follow that it does not know.
 */
#include "codec/watch_frame.h"

#include "base/buf.h"
#include "check.h"
#include "plain_json.h"

static const cJSON *metadata_of_first_row(const cJSON *rows)
{
    const cJSON *row = cJSON_IsArray(rows) ? rows->child : NULL;
    return plain_get(plain_get(row, "object"), "metadata");
}

static void read_metadata(const cJSON *metadata, struct watch_frame *e)
{
    uint64_t version = plain_version(metadata);
    struct slice end =
        plain_string(plain_get(metadata, "annotations"), "k8s.io/initial-events-end");
    e->resource_version = e->resource_version != 0 ? e->resource_version : version;
    e->initial_events_end =
        e->initial_events_end || (e->type == WATCH_FRAME_BOOKMARK && slice_eq(end, SLICE("true")));
}

/* In the order in which the members come: a Table says first that it is one. */
static void read_object(const cJSON *object, struct watch_frame *e)
{
    bool table = false;
    for (const cJSON *m = cJSON_IsObject(object) ? object->child : NULL; m != NULL; m = m->next) {
        struct slice key = slice_str(m->string);
        if (slice_eq(key, SLICE("metadata"))) {
            read_metadata(m, e);
            if (!table || (e->resource_version != 0 && e->type != WATCH_FRAME_BOOKMARK)) {
                return;
            }
        } else if (slice_eq(key, SLICE("kind"))) {
            table = cJSON_IsString(m) && slice_eq(slice_str(m->valuestring), SLICE("Table"));
        } else if (table && slice_eq(key, SLICE("rows"))) {
            read_metadata(metadata_of_first_row(m), e);
            return;
        }
    }
}

static void check_json(struct slice text, const struct watch_frame *said)
{
    cJSON *root = plain_parse(text);
    if (root == NULL) {
        return;
    }
    struct watch_frame e = {.type = WATCH_FRAME_UNKNOWN};
    struct slice name = plain_string(root, "type");
    for (enum watch_frame_type type = WATCH_FRAME_ADDED; type <= WATCH_FRAME_ERROR; type++) {
        e.type = slice_eq(name, slice_str(watch_frame_type_name(type))) ? type : e.type;
    }
    const cJSON *object = plain_get(root, "object");
    if (e.type != WATCH_FRAME_UNKNOWN && e.type != WATCH_FRAME_ERROR) {
        read_object(object, &e);
    }
    CHECK(said->type == e.type);
    CHECK(said->resource_version == e.resource_version);
    CHECK(said->initial_events_end == e.initial_events_end);
    /* A code may be written in ways that no server uses: then it is not known. */
    const cJSON *code = plain_get(object, "code");
    CHECK(said->code == 0 || (e.type == WATCH_FRAME_ERROR && cJSON_IsNumber(code) &&
                              code->valueint == (int)said->code));
    cJSON_Delete(root);
}

static void check_protobuf(struct slice event, const struct watch_frame *said)
{
    static const char unknown[] = "\x78\x01\x7a\x01x";
    struct buf b = BUF_INIT(SIZE_MAX / 2);
    struct watch_frame e;
    CHECK(buf_append(&b, event.ptr, event.len) == 0);
    CHECK(buf_append(&b, unknown, sizeof unknown - 1) == 0);
    watch_frame_scan(ENCODING_PROTOBUF, buf_slice(&b), &e);
    /* What broke off may have been completed. */
    CHECK(said->type == WATCH_FRAME_UNKNOWN || said->type == e.type);
    CHECK(said->resource_version == 0 || said->resource_version == e.resource_version);
    CHECK(said->code == 0 || said->code == e.code);
    buf_reset(&b);
}

/* It is a part of the event. To look for it changes nothing else, where no key comes twice. */
static void check_namespace(enum encoding encoding, struct slice event,
                            const struct watch_frame *said)
{
    struct watch_frame e;
    watch_frame_scan_namespace(encoding, event, &e);
    CHECK(said->namespace.ptr == NULL && e.namespace.ptr != NULL);
    CHECK(e.namespace.len == 0 || (e.namespace.ptr >= event.ptr &&
                                   e.namespace.ptr + e.namespace.len <= event.ptr + event.len));
    CHECK(e.type == said->type && e.code == said->code);
    cJSON *root = encoding == ENCODING_JSON ? plain_parse(event) : NULL;
    if (root != NULL || encoding == ENCODING_PROTOBUF) {
        CHECK(e.initial_events_end == said->initial_events_end);
        CHECK(e.resource_version == said->resource_version);
    }
    cJSON_Delete(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    enum encoding encoding = (data[0] & 1) != 0 ? ENCODING_PROTOBUF : ENCODING_JSON;
    struct slice text = slice_of((const char *)data + 1, size - 1);
    struct watch_frame e;
    watch_frame_scan(encoding, text, &e);
    CHECK(e.type != WATCH_FRAME_UNKNOWN ||
          (e.resource_version == 0 && !e.initial_events_end && e.code == 0));
    CHECK(e.type == WATCH_FRAME_BOOKMARK || !e.initial_events_end);
    check_namespace(encoding, text, &e);
    if (encoding == ENCODING_JSON) {
        check_json(text, &e);
    } else {
        check_protobuf(text, &e);
    }
    return 0;
}
