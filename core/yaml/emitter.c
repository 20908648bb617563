/* SPDX-License-Identifier: Apache-2.0 */
#include "yaml/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "yaml/scalar.h"

/* Errors of writing stay in the buffer. */
struct emitter {
    yaml_emitter_t emitter;
    struct buf *out;
};

static int on_output(void *data, unsigned char *bytes, size_t len)
{
    struct emitter *w = data;
    return buf_append(w->out, bytes, len) == 0;
}

/* `made` is what the event's initializer said. */
static void emit_event(struct emitter *w, int made, yaml_event_t *event)
{
    if (!made) {
        buf_fail(w->out, -EINVAL);
    } else if (buf_error(w->out) != 0) {
        yaml_event_delete(event);
    } else if (!yaml_emitter_emit(&w->emitter, event)) { /* which took the event over */
        buf_fail(w->out, w->emitter.error == YAML_MEMORY_ERROR ? -ENOMEM : -EINVAL);
    }
}

static void emit_scalar(struct emitter *w, const char *text, yaml_scalar_style_t style)
{
    yaml_event_t event;
    emit_event(w,
               yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                                            (int)strlen(text), 1, 1, style),
               &event);
}

/* A block reads best for text of lines; where it cannot hold the text libyaml quotes instead. */
static bool block_ok(const char *text)
{
    size_t len = strlen(text);
    return strchr(text, '\n') != NULL && strchr(" \t\n", text[0]) == NULL &&
           text[len - 1] == '\n' && (len < 2 || text[len - 2] != '\n');
}

static void emit_string(struct emitter *w, const char *text)
{
    yaml_scalar_style_t quoted =
        block_ok(text) ? YAML_LITERAL_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    emit_scalar(w, text, yaml_scalar_plain_ok(text) ? YAML_PLAIN_SCALAR_STYLE : quoted);
}

static void emit_key(struct emitter *w, const char *key)
{
    emit_scalar(w, key,
                yaml_scalar_plain_ok(key) ? YAML_PLAIN_SCALAR_STYLE
                                          : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

/* The shortest digits that give the same number again. */
static void format_fraction(double value, char *text, size_t size)
{
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, size, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    if (strchr(text, 'e') != NULL && strchr(text, '.') == NULL) {
        /* YAML 1.1 readers take 1e+30 for a string. */
        (void)snprintf(text, size, "%.1e", value);
    }
}

static void emit_number(struct emitter *w, double value)
{
    char text[40];
    if (!isfinite(value)) {
        buf_fail(w->out, -EINVAL);
        return;
    }
    if (value == floor(value) && fabs(value) <= 9007199254740992.0) {
        (void)snprintf(text, sizeof text, "%.0f", value == 0 ? 0.0 : value);
    } else {
        format_fraction(value, text, sizeof text);
    }
    emit_scalar(w, text, YAML_PLAIN_SCALAR_STYLE);
}

static void emit_node(struct emitter *w, const cJSON *item);

static void emit_object(struct emitter *w, const cJSON *item)
{
    yaml_event_t event;
    yaml_mapping_style_t style =
        item->child == NULL ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE;
    emit_event(w, yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, style), &event);
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        emit_key(w, child->string);
        emit_node(w, child);
    }
    emit_event(w, yaml_mapping_end_event_initialize(&event), &event);
}

static void emit_array(struct emitter *w, const cJSON *item)
{
    yaml_event_t event;
    yaml_sequence_style_t style =
        item->child == NULL ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE;
    emit_event(w, yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, style), &event);
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        emit_node(w, child);
    }
    emit_event(w, yaml_sequence_end_event_initialize(&event), &event);
}

static void emit_node(struct emitter *w, const cJSON *item)
{
    if (cJSON_IsObject(item)) {
        emit_object(w, item);
    } else if (cJSON_IsArray(item)) {
        emit_array(w, item);
    } else if (cJSON_IsString(item)) {
        emit_string(w, item->valuestring);
    } else if (cJSON_IsNumber(item)) {
        emit_number(w, item->valuedouble);
    } else if (cJSON_IsBool(item)) {
        emit_scalar(w, cJSON_IsTrue(item) ? "true" : "false", YAML_PLAIN_SCALAR_STYLE);
    } else {
        emit_scalar(w, "null", YAML_PLAIN_SCALAR_STYLE);
    }
}

static void emit_document(struct emitter *w, const cJSON *item)
{
    yaml_event_t event;
    emit_event(w, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING), &event);
    emit_event(w, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1), &event);
    emit_node(w, item);
    emit_event(w, yaml_document_end_event_initialize(&event, 1), &event);
    emit_event(w, yaml_stream_end_event_initialize(&event), &event);
}

int yaml_emit(const cJSON *item, struct buf *out)
{
    struct emitter w = {.out = out};
    size_t before = out->len;
    if (!yaml_emitter_initialize(&w.emitter)) {
        return -ENOMEM;
    }
    yaml_emitter_set_output(&w.emitter, on_output, &w);
    yaml_emitter_set_unicode(&w.emitter, 1);
    yaml_emitter_set_width(&w.emitter, -1);
    emit_document(&w, item);
    yaml_emitter_delete(&w.emitter);
    return buf_settle(out, before);
}
