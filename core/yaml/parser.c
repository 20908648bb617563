/* SPDX-License-Identifier: Apache-2.0 */
#include "yaml/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/grow.h"
#include "base/slice.h"
#include "yaml/scalar.h"
#include "json/json.h"
#include "json/scanner.h"

#define CORE_TAG "tag:yaml.org,2002:"

enum { ANCHORS_MAX = 1000 };

struct anchor {
    char *name;
    const cJSON *node; /* complete: an alias inside its own anchor finds none */
};

/* A tree under construction. */
struct builder {
    yaml_parser_t parser;
    struct yaml_lines lines;
    size_t lines_cap;
    bool want_lines;
    bool single;       /* a second document is an error */
    struct slice text; /* all of it */
    struct anchor anchors[ANCHORS_MAX];
    size_t anchor_count;
    size_t nodes;
    size_t alias_bytes;
    struct err *e;
};

static int fail_at(struct builder *b, const yaml_mark_t *at, const char *what)
{
    return err_set(b->e, -EINVAL, "line %zu, column %zu: %s", at->line + 1, at->column + 1, what);
}

static int fail_parser(struct builder *b)
{
    const yaml_parser_t *p = &b->parser;
    const char *problem = p->problem != NULL ? p->problem : "syntax error";
    if (p->error == YAML_MEMORY_ERROR) {
        return err_memory(b->e);
    }
    if (p->error == YAML_READER_ERROR) {
        /* The position of the mark may be far before the bad byte: only the offset is exact. */
        size_t offset = p->problem_offset < b->text.len ? p->problem_offset : b->text.len;
        return err_set(b->e, -EINVAL, "line %u, byte %zu: %s",
                       json_line_at(b->text, b->text.ptr + offset), p->problem_offset, problem);
    }
    if (p->context != NULL) {
        return err_set(b->e, -EINVAL, "line %zu, column %zu: %s %s", p->problem_mark.line + 1,
                       p->problem_mark.column + 1, problem, p->context);
    }
    return fail_at(b, &p->problem_mark, problem);
}

static int next_event(struct builder *b, yaml_event_t *event)
{
    return yaml_parser_parse(&b->parser, event) ? 0 : fail_parser(b);
}

static int note_line(struct builder *b, const cJSON *node, size_t line)
{
    if (!b->want_lines) {
        return 0;
    }
    struct yaml_line *items =
        grow_array(b->lines.items, b->lines.count, &b->lines_cap, sizeof *items);
    if (items == NULL) {
        return err_memory(b->e);
    }
    b->lines.items = items;
    b->lines.items[b->lines.count++] = (struct yaml_line){.node = node, .line = (unsigned)line + 1};
    return 0;
}

/* Counts a node that was just made against the limit and notes its place; frees it on error. */
static cJSON *admit(struct builder *b, cJSON *node, const yaml_mark_t *at)
{
    if (node == NULL) {
        err_memory(b->e);
        return NULL;
    }
    if (++b->nodes > YAML_NODES_MAX) {
        (void)fail_at(b, at, "too many values in the document");
    } else if (note_line(b, node, at->line) == 0) {
        return node;
    }
    cJSON_Delete(node);
    return NULL;
}

static int remember_anchor(struct builder *b, const yaml_char_t *name, const cJSON *node,
                           const yaml_mark_t *at)
{
    if (name == NULL) {
        return 0;
    }
    if (b->anchor_count == ANCHORS_MAX) {
        return fail_at(b, at, "too many anchors");
    }
    char *copy = strdup((const char *)name);
    if (copy == NULL) {
        return err_memory(b->e);
    }
    b->anchors[b->anchor_count++] = (struct anchor){.name = copy, .node = node};
    return 0;
}

static void forget_anchors(struct builder *b)
{
    while (b->anchor_count > 0) {
        free(b->anchors[--b->anchor_count].name);
    }
}

static cJSON *copy_scalar(const cJSON *from)
{
    if (cJSON_IsString(from)) {
        return cJSON_CreateString(from->valuestring);
    }
    if (cJSON_IsNumber(from)) {
        return cJSON_CreateNumber(from->valuedouble);
    }
    return cJSON_IsBool(from) ? cJSON_CreateBool(cJSON_IsTrue(from)) : cJSON_CreateNull();
}

static int add_member(struct builder *b, cJSON *object, const char *key, cJSON *value)
{
    if (value == NULL) {
        return -EINVAL;
    }
    if (!cJSON_AddItemToObject(object, key, value)) {
        cJSON_Delete(value);
        return err_memory(b->e);
    }
    return 0;
}

/* The copy that an alias stands for, within the limits on depth, nodes and bytes. */
static cJSON *copy_node(struct builder *b, const cJSON *from, const yaml_mark_t *at, int depth)
{
    if (depth > YAML_DEPTH_MAX) {
        (void)fail_at(b, at, "nested too deeply");
        return NULL;
    }
    b->alias_bytes += from->valuestring != NULL ? strlen(from->valuestring) : 0;
    b->alias_bytes += from->string != NULL ? strlen(from->string) : 0;
    if (b->alias_bytes > YAML_ALIAS_BYTES_MAX) {
        (void)fail_at(b, at, "the document's aliases expand to too much text");
        return NULL;
    }
    bool object = cJSON_IsObject(from);
    if (!object && !cJSON_IsArray(from)) {
        return admit(b, copy_scalar(from), at);
    }
    cJSON *copy = admit(b, object ? cJSON_CreateObject() : cJSON_CreateArray(), at);
    const cJSON *child = copy == NULL ? NULL : from->child;
    for (; child != NULL; child = child->next) {
        cJSON *item = copy_node(b, child, at, depth + 1);
        if (object ? add_member(b, copy, child->string, item) != 0
                   : item == NULL || !cJSON_AddItemToArray(copy, item)) {
            cJSON_Delete(copy);
            return NULL;
        }
    }
    return copy;
}

static cJSON *build_alias(struct builder *b, const yaml_event_t *event, int depth)
{
    const char *name = (const char *)event->data.alias.anchor;
    for (size_t i = b->anchor_count; i > 0; i--) {
        if (strcmp(b->anchors[i - 1].name, name) == 0) {
            return copy_node(b, b->anchors[i - 1].node, &event->start_mark, depth);
        }
    }
    (void)fail_at(b, &event->start_mark, "alias of an anchor that is not defined before it");
    return NULL;
}

/* What a scalar event means once its tag and its quotes are taken into account. */
static int type_scalar(struct builder *b, const yaml_event_t *event, struct yaml_scalar *out)
{
    const char *text = (const char *)event->data.scalar.value;
    const char *tag = (const char *)event->data.scalar.tag;
    const yaml_mark_t *at = &event->start_mark;
    if (strlen(text) != event->data.scalar.length) {
        return fail_at(b, at, "a string contains a NUL byte");
    }
    *out = (struct yaml_scalar){.type = YAML_STRING};
    if (tag == NULL || strcmp(tag, "!") == 0) {
        if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
            *out = yaml_scalar_resolve(text);
        }
        if (out->type == YAML_NOT_FINITE) {
            return fail_at(b, at, "infinity and NaN cannot be represented in JSON");
        }
        return 0;
    }
    if (strcmp(tag, CORE_TAG "str") == 0) {
        return 0;
    }
    *out = yaml_scalar_resolve(text);
    bool number = strcmp(tag, CORE_TAG "int") == 0 || strcmp(tag, CORE_TAG "float") == 0;
    if ((number && out->type == YAML_NUMBER) ||
        (strcmp(tag, CORE_TAG "bool") == 0 && out->type == YAML_BOOL) ||
        (strcmp(tag, CORE_TAG "null") == 0 && out->type == YAML_NULL)) {
        return 0;
    }
    return fail_at(b, at, "the tag is not supported or does not match its value");
}

static cJSON *build_scalar(struct builder *b, const yaml_event_t *event)
{
    struct yaml_scalar s;
    if (type_scalar(b, event, &s) != 0) {
        return NULL;
    }
    cJSON *node = NULL;
    switch (s.type) {
    case YAML_NULL:
        node = cJSON_CreateNull();
        break;
    case YAML_BOOL:
        node = cJSON_CreateBool(s.boolean);
        break;
    case YAML_NUMBER:
        node = cJSON_CreateNumber(s.number);
        break;
    case YAML_STRING:
    case YAML_NOT_FINITE:
        node = cJSON_CreateString((const char *)event->data.scalar.value);
        break;
    }
    return admit(b, node, &event->start_mark);
}

static cJSON *build_node(struct builder *b, const yaml_event_t *event, int depth);

static int check_collection(struct builder *b, const yaml_char_t *tag, const char *expected,
                            const yaml_mark_t *at, int depth)
{
    if (tag != NULL && strcmp((const char *)tag, "!") != 0 &&
        strcmp((const char *)tag, expected) != 0) {
        return fail_at(b, at, "the tag is not supported");
    }
    return depth >= YAML_DEPTH_MAX ? fail_at(b, at, "nested too deeply") : 0;
}

static int fill_sequence(struct builder *b, cJSON *array, int depth)
{
    for (;;) {
        yaml_event_t event;
        int rc = next_event(b, &event);
        if (rc != 0) {
            return rc;
        }
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            return 0;
        }
        cJSON *item = build_node(b, &event, depth + 1);
        yaml_event_delete(&event);
        if (item == NULL || !cJSON_AddItemToArray(array, item)) {
            return -EINVAL;
        }
    }
}

#define KEY_ROOM 32 /* for what is not a string */

/* A number as a key, as Go writes it: whole ones in full, others as short as they can be told from
 * their neighbours in a float. */
static void print_number(double number, char out[KEY_ROOM])
{
    if (floor(number) == number && fabs(number) < 1e15) {
        (void)snprintf(out, KEY_ROOM, "%.0f", number);
        return;
    }
    for (int digits = 1; digits <= 9; digits++) {
        (void)snprintf(out, KEY_ROOM, "%.*g", digits, number);
        if (strtof(out, NULL) == (float)number) {
            return;
        }
    }
}

/* A key as the string that it is in JSON: `1: a` has a string key too, that of `on: b` is "true".
 * *key is the event's own text or in `room`. */
static int read_key(struct builder *b, const yaml_event_t *event, char room[KEY_ROOM],
                    const char **key)
{
    struct yaml_scalar s;
    *key = NULL;
    if (event->type != YAML_SCALAR_EVENT) {
        return fail_at(b, &event->start_mark, "a key must be a plain or quoted scalar");
    }
    int rc = type_scalar(b, event, &s);
    if (rc != 0) {
        return rc;
    }
    if (s.type == YAML_NULL) {
        return fail_at(b, &event->start_mark, "an empty key");
    }
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        strcmp((const char *)event->data.scalar.value, "<<") == 0) {
        return fail_at(b, &event->start_mark,
                       "merge keys (<<) are not supported; write the fields out");
    }
    *key = room;
    if (s.type == YAML_BOOL) {
        (void)snprintf(room, KEY_ROOM, "%s", s.boolean ? "true" : "false");
    } else if (s.type == YAML_NUMBER) {
        print_number(s.number, room);
    } else {
        *key = (const char *)event->data.scalar.value;
    }
    return 0;
}

static int fill_member(struct builder *b, cJSON *object, const char *key, int depth)
{
    yaml_event_t event;
    int rc = next_event(b, &event);
    if (rc != 0) {
        return rc;
    }
    cJSON *value = build_node(b, &event, depth + 1);
    yaml_event_delete(&event);
    return add_member(b, object, key, value);
}

static int fill_mapping(struct builder *b, cJSON *object, int depth)
{
    for (;;) {
        yaml_event_t event;
        char room[KEY_ROOM];
        const char *key;
        int rc = next_event(b, &event);
        if (rc != 0) {
            return rc;
        }
        if (event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            return 0;
        }
        rc = read_key(b, &event, room, &key);
        if (rc == 0) {
            rc = fill_member(b, object, key, depth);
        }
        yaml_event_delete(&event);
        if (rc != 0) {
            return rc;
        }
    }
}

/* The line of a child, if lines are noted, else that of its mapping; slow. */
static size_t line_of_child(const struct builder *b, const cJSON *child, const yaml_mark_t *at)
{
    for (size_t i = 0; i < b->lines.count; i++) {
        if (b->lines.items[i].node == child) {
            return b->lines.items[i].line;
        }
    }
    return at->line + 1;
}

static int refuse_duplicates(struct builder *b, const cJSON *object, const yaml_mark_t *at)
{
    const cJSON *one;
    const cJSON *other;
    int rc = json_find_duplicate(object, &one, &other);
    if (rc <= 0) {
        return rc == 0 ? 0 : err_memory(b->e);
    }
    return err_set(b->e, -EINVAL, "line %zu: duplicate key \"%.100s\" in the mapping at line %zu",
                   line_of_child(b, other, at), one->string, at->line + 1);
}

static cJSON *build_sequence(struct builder *b, const yaml_event_t *event, int depth)
{
    const yaml_mark_t *at = &event->start_mark;
    if (check_collection(b, event->data.sequence_start.tag, CORE_TAG "seq", at, depth) != 0) {
        return NULL;
    }
    cJSON *array = admit(b, cJSON_CreateArray(), at);
    if (array != NULL && fill_sequence(b, array, depth) != 0) {
        cJSON_Delete(array);
        return NULL;
    }
    return array;
}

static cJSON *build_mapping(struct builder *b, const yaml_event_t *event, int depth)
{
    const yaml_mark_t *at = &event->start_mark;
    if (check_collection(b, event->data.mapping_start.tag, CORE_TAG "map", at, depth) != 0) {
        return NULL;
    }
    cJSON *object = admit(b, cJSON_CreateObject(), at);
    if (object != NULL &&
        (fill_mapping(b, object, depth) != 0 || refuse_duplicates(b, object, at) != 0)) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

/* The node that begins with `event`, with all that follows of it; NULL with the error set. The
 * depth is that of the node, bounded by YAML_DEPTH_MAX. */
static cJSON *build_node(struct builder *b, const yaml_event_t *event, int depth)
{
    cJSON *node = NULL;
    const yaml_char_t *anchor = NULL;
    if (event->type == YAML_ALIAS_EVENT) {
        return build_alias(b, event, depth);
    }
    if (event->type == YAML_SCALAR_EVENT) {
        node = build_scalar(b, event);
        anchor = event->data.scalar.anchor;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        node = build_sequence(b, event, depth);
        anchor = event->data.sequence_start.anchor;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        node = build_mapping(b, event, depth);
        anchor = event->data.mapping_start.anchor;
    } else {
        (void)fail_at(b, &event->start_mark, "a value is missing");
    }
    if (node != NULL && remember_anchor(b, anchor, node, &event->start_mark) != 0) {
        cJSON_Delete(node);
        return NULL;
    }
    return node;
}

/* Adds the documents of the stream to `array`. */
static int build_stream(struct builder *b, cJSON *array)
{
    bool in_document = false;
    for (;;) {
        yaml_event_t event;
        int rc = next_event(b, &event);
        if (rc != 0) {
            return rc;
        }
        yaml_event_type_t type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT) {
            in_document = true;
            rc = b->single && array->child != NULL
                     ? fail_at(b, &event.start_mark,
                               "more than one document; exactly one is expected")
                     : 0;
        } else if (type == YAML_DOCUMENT_END_EVENT) {
            in_document = false;
            forget_anchors(b);
        } else if (in_document) {
            cJSON *root = build_node(b, &event, 0);
            rc = root == NULL || !cJSON_AddItemToArray(array, root) ? -EINVAL : 0;
        }
        yaml_event_delete(&event);
        if (rc != 0 || type == YAML_STREAM_END_EVENT) {
            return rc;
        }
    }
}

static int compare_lines(const void *a, const void *b)
{
    const struct yaml_line *x = a;
    const struct yaml_line *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

static cJSON *build_documents(struct builder *b, const char *text, size_t len,
                              struct yaml_lines *lines)
{
    if (!yaml_parser_initialize(&b->parser)) {
        err_memory(b->e);
        return NULL;
    }
    yaml_parser_set_input_string(&b->parser, (const unsigned char *)(len == 0 ? "" : text), len);
    cJSON *array = cJSON_CreateArray();
    if (array == NULL) {
        err_memory(b->e);
    } else if (build_stream(b, array) != 0) {
        cJSON_Delete(array);
        array = NULL;
    }
    yaml_parser_delete(&b->parser);
    forget_anchors(b);
    if (array == NULL || lines == NULL) {
        free(b->lines.items);
        return array;
    }
    if (b->lines.count > 0) {
        qsort(b->lines.items, b->lines.count, sizeof *b->lines.items, compare_lines);
    }
    *lines = b->lines;
    return array;
}

static cJSON *parse_documents(const char *text, size_t len, bool single, struct yaml_lines *lines,
                              struct err *e)
{
    struct err ignored;
    struct builder *b = calloc(1, sizeof *b);
    if (b == NULL) {
        err_memory(e);
        return NULL;
    }
    b->want_lines = lines != NULL;
    b->single = single;
    b->text = slice_of(len == 0 ? "" : text, len);
    b->e = e != NULL ? e : &ignored;
    cJSON *array = build_documents(b, text, len, lines);
    free(b);
    return array;
}

cJSON *yaml_parse_all(const char *text, size_t len, struct yaml_lines *lines, struct err *e)
{
    return parse_documents(text, len, false, lines, e);
}

cJSON *yaml_parse(const char *text, size_t len, struct yaml_lines *lines, struct err *e)
{
    cJSON *array = parse_documents(text, len, true, lines, e);
    if (array == NULL) {
        return NULL;
    }
    cJSON *root = array->child == NULL ? cJSON_CreateNull() : cJSON_DetachItemFromArray(array, 0);
    cJSON_Delete(array);
    if (root == NULL) {
        err_memory(e);
        if (lines != NULL) {
            yaml_lines_deinit(lines);
        }
    }
    return root;
}

unsigned yaml_line_of(const struct yaml_lines *lines, const cJSON *node)
{
    if (lines == NULL || lines->count == 0) {
        return 0;
    }
    struct yaml_line key = {.node = node};
    const struct yaml_line *found =
        bsearch(&key, lines->items, lines->count, sizeof key, compare_lines);
    return found == NULL ? 0 : found->line;
}

void yaml_lines_deinit(struct yaml_lines *lines)
{
    free(lines->items);
    *lines = (struct yaml_lines)YAML_LINES_INIT;
}
