/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/watch_frame.h"

#include "base/array.h"
#include "base/decimal.h"
#include "codec/protobuf_scan.h"
#include "json/cursor.h"

static const struct slice initial_events_end = {"k8s.io/initial-events-end", 25};

static const struct {
    struct slice name;
    enum watch_frame_type type;
} types[] = {
    {{"ADDED", 5}, WATCH_FRAME_ADDED},     {{"MODIFIED", 8}, WATCH_FRAME_MODIFIED},
    {{"DELETED", 7}, WATCH_FRAME_DELETED}, {{"BOOKMARK", 8}, WATCH_FRAME_BOOKMARK},
    {{"ERROR", 5}, WATCH_FRAME_ERROR},
};

static enum watch_frame_type type_of(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (slice_eq(name, types[i].name)) {
            return types[i].type;
        }
    }
    return WATCH_FRAME_UNKNOWN;
}

const char *watch_frame_type_name(enum watch_frame_type type)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (types[i].type == type) {
            return types[i].name.ptr;
        }
    }
    return "";
}

/* ---- JSON ---- */

static bool is_true_in(struct json_cursor c, struct slice name)
{
    struct slice value;
    return json_find_member(&c, name) && json_string(&c, &value) && slice_eq(value, SLICE("true"));
}

static void scan_metadata(struct json_cursor c, struct watch_frame *out)
{
    struct slice key;
    struct slice text;
    for (bool more = json_enter(&c, '{'); more && json_next_key(&c, &key); more = json_skip(&c)) {
        if (slice_eq(key, SLICE("resourceVersion"))) {
            struct json_cursor value = c;
            out->resource_version = json_string(&value, &text) ? decimal_or_zero(text) : 0;
            if (out->type != WATCH_FRAME_BOOKMARK) {
                return;
            }
        } else if (out->namespace.ptr != NULL && slice_eq(key, SLICE("namespace"))) {
            struct json_cursor value = c;
            (void)json_string(&value, &out->namespace);
        } else if (out->type == WATCH_FRAME_BOOKMARK && slice_eq(key, SLICE("annotations")) &&
                   is_true_in(c, initial_events_end)) {
            out->initial_events_end = true;
        }
    }
}

/* Goes to the metadata of a Table's first row: [{"cells":[...],"object":{"metadata":{...}}}]. */
static bool enter_first_row(struct json_cursor *rows)
{
    return json_enter(rows, '[') && json_next_element(rows) &&
           json_find_member(rows, SLICE("object")) && json_find_member(rows, SLICE("metadata"));
}

static void scan_rows(struct json_cursor c, struct watch_frame *out)
{
    uint64_t of_table = out->resource_version;
    if (enter_first_row(&c)) {
        scan_metadata(c, out);
    }
    if (of_table != 0) {
        out->resource_version = of_table;
    }
}

/* A Table's metadata has no annotations and no namespace, and may have no version. */
static bool needs_rows(const struct watch_frame *e)
{
    return e->resource_version == 0 || e->type == WATCH_FRAME_BOOKMARK || e->namespace.ptr != NULL;
}

static void scan_object(struct json_cursor c, struct watch_frame *out)
{
    struct slice key;
    bool table = false;
    for (bool more = json_enter(&c, '{'); more && json_next_key(&c, &key); more = json_skip(&c)) {
        if (slice_eq(key, SLICE("metadata"))) {
            scan_metadata(c, out);
            if (!table || !needs_rows(out)) {
                return;
            }
        } else if (slice_eq(key, SLICE("kind"))) {
            struct slice kind;
            struct json_cursor value = c;
            table = json_string(&value, &kind) && slice_eq(kind, SLICE("Table"));
        } else if (table && slice_eq(key, SLICE("rows"))) {
            scan_rows(c, out);
            return;
        }
    }
}

/* A Status. */
static void scan_code(struct json_cursor c, struct watch_frame *out)
{
    struct slice word;
    if (json_find_member(&c, SLICE("code")) && json_value(&c, &word)) {
        uint64_t code = decimal_or_zero(word);
        out->code = code <= 999 ? (unsigned)code : 0;
    }
}

static void scan_json(struct slice event, struct watch_frame *out)
{
    struct json_cursor c = json_cursor_of(event);
    struct json_cursor object = {NULL, NULL};
    struct slice key;
    struct slice name = {NULL, 0};
    for (bool more = json_enter(&c, '{'); more && json_next_key(&c, &key); more = json_skip(&c)) {
        if (slice_eq(key, SLICE("type"))) {
            struct json_cursor value = c;
            (void)json_string(&value, &name);
        } else if (slice_eq(key, SLICE("object"))) {
            object = c;
        }
        if (name.ptr != NULL && object.at != NULL) {
            break;
        }
    }
    out->type = type_of(name);
    if (out->type == WATCH_FRAME_ERROR) {
        scan_code(object, out);
    } else if (out->type != WATCH_FRAME_UNKNOWN) {
        scan_object(object, out);
    }
}

/* ---- protobuf ---- */

enum {
    EVENT_TYPE = 1,
    EVENT_OBJECT = 2,
    EXTENSION_RAW = 1,
    METADATA_NAMESPACE = 3,
    METADATA_VERSION = 6,
    METADATA_GENERATION = 7,
    METADATA_GRACE_PERIOD = 10,
    METADATA_ANNOTATIONS = 12,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    STATUS_CODE = 6,
};

/* Takes the next field of something that ought to be ObjectMeta; false at its end, and when it can
 * be none: its fields come in order, with the types that they have there. */
static bool next_of_metadata(struct slice *rest, struct protobuf_field *f, uint32_t *last)
{
    if (protobuf_next(rest, f) != PROTOBUF_FIELD || f->number < *last ||
        (f->number == *last && f->number <= METADATA_GRACE_PERIOD)) {
        return false;
    }
    *last = f->number;
    bool is_number = f->number == METADATA_GENERATION || f->number == METADATA_GRACE_PERIOD;
    return f->wire == (is_number ? PROTOBUF_VARINT : PROTOBUF_BYTES);
}

/* The metadata of an object: its first field. */
static struct slice metadata_of(struct slice object)
{
    struct protobuf_field f;
    bool first = protobuf_next(&object, &f) == PROTOBUF_FIELD && f.number == OBJECT_METADATA &&
                 f.wire == PROTOBUF_BYTES;
    return first ? f.bytes : slice_of(NULL, 0);
}

static void scan_protobuf_metadata(struct slice metadata, struct watch_frame *out)
{
    struct protobuf_field f;
    uint32_t last = 0;
    while (next_of_metadata(&metadata, &f, &last)) {
        if (f.number == METADATA_VERSION) {
            out->resource_version = decimal_or_zero(f.bytes);
            if (out->type != WATCH_FRAME_BOOKMARK) {
                return;
            }
        } else if (f.number == METADATA_NAMESPACE && out->namespace.ptr != NULL) {
            out->namespace = f.bytes;
        } else if (f.number == METADATA_ANNOTATIONS && out->type == WATCH_FRAME_BOOKMARK &&
                   slice_eq(protobuf_find(f.bytes, ENTRY_KEY), initial_events_end)) {
            out->initial_events_end = slice_eq(protobuf_find(f.bytes, ENTRY_VALUE), SLICE("true"));
        }
    }
}

static void scan_protobuf_code(struct slice status, struct watch_frame *out)
{
    struct protobuf_field f;
    while (protobuf_next(&status, &f) == PROTOBUF_FIELD) {
        if (f.number == STATUS_CODE && f.wire == PROTOBUF_VARINT) {
            out->code = f.value <= 999 ? (unsigned)f.value : 0;
            return;
        }
    }
}

static struct slice protobuf_object(struct slice event)
{
    struct slice type_meta;
    return protobuf_open(protobuf_find(protobuf_find(event, EVENT_OBJECT), EXTENSION_RAW),
                         &type_meta);
}

static void scan_protobuf(struct slice event, struct watch_frame *out)
{
    out->type = type_of(protobuf_find(event, EVENT_TYPE));
    if (out->type == WATCH_FRAME_UNKNOWN) {
        return;
    }
    struct slice object = protobuf_object(event);
    if (out->type == WATCH_FRAME_ERROR) {
        scan_protobuf_code(object, out);
    } else {
        scan_protobuf_metadata(metadata_of(object), out);
    }
}

/* ---- either ---- */

static void scan(enum encoding encoding, struct slice event, struct watch_frame *out)
{
    if (encoding == ENCODING_JSON) {
        scan_json(event, out);
    } else if (encoding == ENCODING_PROTOBUF) {
        scan_protobuf(event, out);
    }
}

void watch_frame_scan(enum encoding encoding, struct slice event, struct watch_frame *out)
{
    *out = (struct watch_frame){.type = WATCH_FRAME_UNKNOWN};
    scan(encoding, event, out);
}

void watch_frame_scan_namespace(enum encoding encoding, struct slice event, struct watch_frame *out)
{
    *out = (struct watch_frame){.type = WATCH_FRAME_UNKNOWN, .namespace = SLICE("")};
    scan(encoding, event, out);
}
