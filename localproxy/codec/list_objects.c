/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON: {"kind":...,"items":[{"metadata":{"namespace":...}}]} or, of a Table,
 * {"kind":...,"rows":[{"cells":[...],"object":{"metadata":{"namespace":...}}}]}, with keys in any
 * order.
 *
 * Protobuf: "k8s\0", Unknown{2: XList{2: X{1: ObjectMeta{3: namespace}}}}.
 */
#include "codec/list_objects.h"

#include "base/ascii.h"

void list_objects_init(struct list_objects *l, enum encoding encoding, bool namespaces,
                       list_objects_cb cb, void *data)
{
    *l = (struct list_objects){
        .encoding = encoding,
        .namespaces = namespaces,
        .over = encoding == ENCODING_OTHER,
        .cb = cb,
        .data = data,
    };
}

/* ---- what both share ---- */

static void take(struct slice *data, size_t n)
{
    *data = slice_of(data->ptr + n, data->len - n);
}

static void add_text(struct list_objects *l, const char *ptr, size_t n)
{
    size_t room = sizeof l->text - l->text_len;
    n = n < room ? n : room;
    memcpy(l->text + l->text_len, ptr, n);
    l->text_len += n;
}

static struct slice text_of(const struct list_objects *l)
{
    return slice_of(l->text, l->text_len < sizeof l->text ? l->text_len : 0);
}

static void found(struct list_objects *l, struct slice ns)
{
    l->cb(l->data, ns);
}

/* ---- JSON ---- */

/* What is awaited. */
enum {
    AT_START,     /* the list's bracket */
    AT_KEY,       /* a key, or the end of the object */
    IN_KEY,       /* its closing quote */
    AT_COLON,     /* ... */
    AT_VALUE,     /* the first byte of a value */
    IN_STRING,    /* its closing quote */
    IN_NAMESPACE, /* likewise, of one that is wanted */
    IN_NESTED,    /* the closing bracket of a value */
    IN_WORD,      /* what follows a number or literal */
    AT_ELEMENT,   /* an element, or the end of the array */
    IN_REST,      /* the closing bracket of an element */
};

static const char *const path_of_item[] = {"metadata", "namespace", NULL};
static const char *const path_of_row[] = {"object", "metadata", "namespace", NULL};

static void follow(struct list_objects_json *j, int state, unsigned depth)
{
    j->nesting = (struct json_nesting){.depth = depth};
    j->state = state;
}

/* The namespace of the element is known; `depth` brackets of it are open. */
static void end_element(struct list_objects *l, struct slice ns, unsigned depth)
{
    found(l, ns);
    if (depth > 0) {
        follow(&l->json, IN_REST, depth);
    } else {
        l->json.state = AT_ELEMENT;
    }
}

static void begin_element(struct list_objects *l)
{
    if (!l->namespaces) {
        end_element(l, slice_of(NULL, 0), 1);
        return;
    }
    l->json.depth = 1;
    l->json.state = AT_KEY;
}

static void end_object(struct list_objects *l)
{
    if (l->json.path == NULL) {
        l->over = true; /* the list itself */
    } else {
        end_element(l, slice_of(NULL, 0), l->json.depth - 1);
    }
}

static void begin_array(struct list_objects_json *j, const char *const *path)
{
    j->path = path;
    j->state = AT_ELEMENT;
}

static void end_array(struct list_objects_json *j)
{
    j->path = NULL;
    j->state = AT_KEY;
}

/* Whether the value, which begins with `c`, is one that is gone into. */
static bool enter_value(struct list_objects *l, char c)
{
    struct list_objects_json *j = &l->json;
    struct slice key = text_of(l);
    if (j->path == NULL) {
        const char *const *path = slice_eq(key, SLICE("items"))  ? path_of_item
                                  : slice_eq(key, SLICE("rows")) ? path_of_row
                                                                 : NULL;
        if (path == NULL || c != '[') {
            return false;
        }
        begin_array(j, path);
        return true;
    }
    bool last = j->path[j->depth] == NULL;
    if (!slice_eq(key, slice_str(j->path[j->depth - 1])) || c != (last ? '"' : '{')) {
        return false;
    }
    j->depth += last ? 0 : 1;
    j->state = last ? IN_NAMESPACE : AT_KEY;
    l->text_len = 0;
    return true;
}

static void begin_value(struct list_objects *l, char c)
{
    struct list_objects_json *j = &l->json;
    if (enter_value(l, c)) {
        return;
    }
    if (c == '"') {
        j->state = IN_STRING;
    } else if (c == '{' || c == '[') {
        follow(j, IN_NESTED, 1);
    } else {
        j->state = IN_WORD;
    }
}

static void begin_key(struct list_objects *l)
{
    l->json.state = IN_KEY;
    l->text_len = 0;
}

/* A byte between the values. */
static void step(struct list_objects *l, char c)
{
    struct list_objects_json *j = &l->json;
    if (j->state == AT_START && c == '{') {
        j->state = AT_KEY;
    } else if (j->state == AT_KEY && c == '"') {
        begin_key(l);
    } else if (j->state == AT_KEY && c == '}') {
        end_object(l);
    } else if (j->state == AT_COLON && c == ':') {
        j->state = AT_VALUE;
    } else if (j->state == AT_ELEMENT && c == '{') {
        begin_element(l);
    } else if (j->state == AT_ELEMENT && c == ']') {
        end_array(j);
    } else if (j->state == AT_VALUE && strchr(",:]}", c) == NULL) {
        begin_value(l, c);
    } else {
        l->over = (j->state != AT_KEY && j->state != AT_ELEMENT) || c != ',';
    }
}

/* Where the string ends in the bytes: before its closing quote, or with them. */
static size_t string_part(struct list_objects_json *j, struct slice data, bool *closed)
{
    *closed = false;
    for (size_t i = 0; i < data.len; i++) {
        if (j->escaped) {
            j->escaped = false;
        } else if (data.ptr[i] == '\\') {
            j->escaped = true;
        } else if (data.ptr[i] == '"') {
            *closed = true;
            return i;
        }
    }
    return data.len;
}

static void take_string(struct list_objects *l, struct slice *data)
{
    struct list_objects_json *j = &l->json;
    bool closed;
    size_t n = string_part(j, *data, &closed);
    if (j->state != IN_STRING) {
        add_text(l, data->ptr, n);
    }
    take(data, closed ? n + 1 : n);
    if (!closed) {
        return;
    }
    if (j->state == IN_NAMESPACE) {
        end_element(l, text_of(l), j->depth);
    } else {
        j->state = j->state == IN_KEY ? AT_COLON : AT_KEY;
    }
}

static void take_nested(struct list_objects_json *j, struct slice *data)
{
    const char *end = json_nesting_end(&j->nesting, data->ptr, data->ptr + data->len);
    if (end != NULL) {
        j->state = j->state == IN_REST ? AT_ELEMENT : AT_KEY;
    }
    take(data, end == NULL ? data->len : (size_t)(end - data->ptr));
}

/* The byte behind it is left. */
static void take_word(struct list_objects_json *j, struct slice *data)
{
    size_t n = 0;
    while (n < data->len && strchr(",]}", data->ptr[n]) == NULL && !ascii_is_space(data->ptr[n])) {
        n++;
    }
    j->state = n < data->len ? AT_KEY : IN_WORD;
    take(data, n);
}

static void step_over(struct list_objects *l, struct slice *data)
{
    if (!ascii_is_space(data->ptr[0])) {
        step(l, data->ptr[0]);
    }
    if (l->json.state != IN_WORD) { /* else it is the first byte of one */
        take(data, 1);
    }
}

static void feed_json(struct list_objects *l, struct slice data)
{
    struct list_objects_json *j = &l->json;
    while (data.len > 0 && !l->over) {
        switch (j->state) {
        case IN_KEY:
        case IN_STRING:
        case IN_NAMESPACE:
            take_string(l, &data);
            break;
        case IN_NESTED:
        case IN_REST:
            take_nested(j, &data);
            break;
        case IN_WORD:
            take_word(j, &data);
            break;
        default:
            step_over(l, &data);
        }
    }
}

/* ---- protobuf ---- */

/* The messages into which one goes, each by this field of the one before. */
enum { ENVELOPE, LIST, ITEM, METADATA };

static const uint32_t way[] = {
    [ENVELOPE] = UNKNOWN_RAW, [LIST] = 2, [ITEM] = OBJECT_METADATA, [METADATA] = 3, /* the namespace
                                                                                     */
};

/* The namespace of the item is known: what is left of it is skipped. */
static void end_item(struct list_objects *l, struct slice ns)
{
    struct list_objects_protobuf *p = &l->protobuf;
    p->skip = p->left[ITEM] + (p->level == METADATA ? p->left[METADATA] : 0);
    p->level = LIST;
    found(l, ns);
}

static void enter_field(struct list_objects *l, uint64_t len)
{
    struct list_objects_protobuf *p = &l->protobuf;
    if (p->level == METADATA) {
        p->name_left = len;
        l->text_len = 0;
        return;
    }
    p->level++;
    p->left[p->level] = len;
    if (p->level == ITEM && !l->namespaces) {
        end_item(l, slice_of(NULL, 0));
    }
}

/* A field begins. The envelope ends with the body. */
static void begin_field(struct list_objects *l, const struct protobuf_field *f, size_t head_len)
{
    struct list_objects_protobuf *p = &l->protobuf;
    uint64_t value_len = f->wire == PROTOBUF_VARINT ? 0 : f->value;
    if (p->level != ENVELOPE) {
        if (head_len > p->left[p->level] || value_len > p->left[p->level] - head_len) {
            l->over = true;
            return;
        }
        p->left[p->level] -= head_len + value_len;
    }
    if (f->number == way[p->level] && f->wire == PROTOBUF_BYTES) {
        enter_field(l, value_len);
    } else {
        p->skip = value_len;
    }
}

/* Bytes of a head are collected where it is spread over pieces. */
static void take_head(struct list_objects *l, struct slice *data)
{
    struct list_objects_protobuf *p = &l->protobuf;
    struct protobuf_field f;
    struct slice rest = *data;
    if (p->head_len > 0) {
        p->head[p->head_len++] = data->ptr[0];
        rest = slice_of(p->head, p->head_len);
    }
    size_t len = rest.len;
    enum protobuf_result result = protobuf_head(&rest, &f);
    if (result == PROTOBUF_CUT) {
        size_t n = p->head_len > 0 ? 1 : data->len;
        if (p->head_len == 0) {
            memcpy(p->head, data->ptr, n);
            p->head_len = n;
        }
        take(data, n);
        return;
    }
    if (result != PROTOBUF_FIELD) {
        l->over = true;
        return;
    }
    take(data, p->head_len > 0 ? 1 : len - rest.len);
    p->head_len = 0;
    begin_field(l, &f, len - rest.len);
}

static void take_name(struct list_objects *l, struct slice *data)
{
    struct list_objects_protobuf *p = &l->protobuf;
    size_t n = data->len < p->name_left ? data->len : (size_t)p->name_left;
    add_text(l, data->ptr, n);
    take(data, n);
    p->name_left -= n;
    if (p->name_left == 0) {
        end_item(l, text_of(l));
    }
}

static void take_magic(struct list_objects *l, struct slice *data)
{
    const struct slice magic = PROTOBUF_MAGIC;
    l->over = data->ptr[0] != magic.ptr[l->protobuf.magic++];
    take(data, 1);
}

/* Of a message that has ended one goes back to the one around. */
static void leave_messages(struct list_objects *l)
{
    struct list_objects_protobuf *p = &l->protobuf;
    while (p->level != ENVELOPE && p->left[p->level] == 0 && p->skip == 0 && p->name_left == 0 &&
           p->head_len == 0) {
        if (p->level == LIST) {
            p->level = ENVELOPE;
        } else {
            end_item(l, slice_of(NULL, 0)); /* without a namespace */
        }
    }
}

static void feed_protobuf(struct list_objects *l, struct slice data)
{
    struct list_objects_protobuf *p = &l->protobuf;
    while (data.len > 0 && !l->over) {
        if (p->magic < PROTOBUF_MAGIC.len) {
            take_magic(l, &data);
        } else if (p->skip > 0) {
            size_t n = data.len < p->skip ? data.len : (size_t)p->skip;
            p->skip -= n;
            take(&data, n);
        } else if (p->name_left > 0) {
            take_name(l, &data);
        } else {
            take_head(l, &data);
        }
        leave_messages(l);
    }
}

void list_objects_feed(struct list_objects *l, struct slice data)
{
    if (l->encoding == ENCODING_JSON) {
        feed_json(l, data);
    } else {
        feed_protobuf(l, data);
    }
}
