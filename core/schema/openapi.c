/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/openapi.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"

enum { WIDTH = 100 };

/* ---- YAML ---- */

static void line(struct buf *out, unsigned indent, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void line(struct buf *out, unsigned indent, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)buf_printf(out, "%*s%s\n", (int)indent, "", text);
}

/* As a folded block, so that no character needs quotes. */
static void describe(struct buf *out, unsigned indent, const char *help)
{
    if (help == NULL) {
        return;
    }
    line(out, indent, "description: >-");
    size_t column = 0;
    while (*help != '\0') {
        size_t len = strcspn(help, " ");
        if (column > 0 && indent + 2 + column + 1 + len > WIDTH) {
            (void)buf_append_char(out, '\n');
            column = 0;
        }
        (void)buf_printf(out, "%*s%.*s", column == 0 ? (int)indent + 2 : 1, "", (int)len, help);
        column += len + (column == 0 ? 0 : 1);
        help += len + strspn(help + len, " ");
    }
    (void)buf_append_char(out, '\n');
}

/* In single quotes, where only these need to be doubled. */
static void quoted(struct buf *out, unsigned indent, const char *before, const char *text)
{
    (void)buf_printf(out, "%*s%s'", (int)indent, "", before);
    for (const char *p = text; *p != '\0'; p++) {
        (void)buf_append(out, *p == '\'' ? "''" : p, *p == '\'' ? 2 : 1);
    }
    (void)buf_append_str(out, "'\n");
}

/* ---- the schema ---- */

#define DURATION_PATTERN "^\\+?(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$"
#define PERCENT_PATTERN "^([0-9]{1,2}(\\.[0-9]{1,9})?|100(\\.0{1,9})?)$"

static void bound(struct buf *out, unsigned indent, const char *name, uint64_t value)
{
    line(out, indent, "%s: %" PRIu64, name, value);
}

/* An integer, or a text of that pattern. */
static void write_int_or_string(unsigned indent, const char *pattern, struct buf *out)
{
    line(out, indent, "x-kubernetes-int-or-string: true");
    line(out, indent, "anyOf:");
    line(out, indent, "- type: integer");
    line(out, indent, "- type: string");
    quoted(out, indent, "pattern: ", pattern);
}

static void write_integer(const struct schema_field *f, unsigned indent, struct buf *out)
{
    if (f->words != NULL) {
        char pattern[64];
        (void)snprintf(pattern, sizeof pattern, "^%s$", f->words[0]);
        write_int_or_string(indent, pattern, out);
    } else {
        line(out, indent, "type: integer");
        line(out, indent, "format: int%d", f->max > INT32_MAX ? 64 : 32);
    }
    bound(out, indent, "minimum", f->min);
    bound(out, indent, "maximum", f->max);
}

static void write_nullable(const struct schema_field *f, unsigned indent, struct buf *out)
{
    if ((f->flags & (SCHEMA_NULLABLE | SCHEMA_NULL_PASSES)) != 0) {
        line(out, indent, "nullable: true");
    }
}

/* A text, or the entries of a list of texts. */
static void write_string(const struct schema_field *f, unsigned indent, struct buf *out)
{
    line(out, indent, "type: string");
    write_nullable(f, indent, out);
    if (f->type == SCHEMA_TEXT && f->required != NULL && (f->flags & SCHEMA_EMPTY) == 0) {
        bound(out, indent, "minLength", 1);
    }
    uint64_t max = f->type == SCHEMA_TEXT ? f->max : f->each;
    bool filled = f->type == SCHEMA_TEXTS && f->pattern == NULL && f->words == NULL &&
                  (f->flags & (SCHEMA_NULLABLE | SCHEMA_NULL_PASSES)) == 0;
    if (filled) {
        bound(out, indent, "minLength", 1);
    }
    if (max != 0) {
        bound(out, indent, "maxLength", max);
    }
    if (f->pattern != NULL) {
        quoted(out, indent, "pattern: ", f->pattern);
    }
    for (size_t i = 0; f->words != NULL && f->words[i] != NULL; i++) {
        if (i == 0) {
            line(out, indent, "enum:");
        }
        quoted(out, indent, "- ", f->words[i]);
    }
}

static void write_list(const struct schema_field *f, unsigned indent, struct buf *out)
{
    line(out, indent, "type: array");
    if (f->type != SCHEMA_BITS && f->min != 0) {
        bound(out, indent, "minItems", f->min);
    }
    if (f->type != SCHEMA_BITS && f->max != 0) {
        bound(out, indent, "maxItems", f->max);
    }
    if ((f->flags & SCHEMA_KEYED) != 0 && f->object->fields[0].required != NULL) {
        line(out, indent, "x-kubernetes-list-type: map");
        line(out, indent, "x-kubernetes-list-map-keys: [%s]", f->object->fields[0].name);
    }
    line(out, indent, "items:");
    if (f->type == SCHEMA_LIST) {
        schema_write_openapi(f->object, indent + 2, out);
    } else if (f->type == SCHEMA_BITS) {
        write_integer(f, indent + 2, out);
    } else {
        write_string(f, indent + 2, out);
    }
}

static void write_percent(unsigned indent, struct buf *out)
{
    write_int_or_string(indent, PERCENT_PATTERN, out);
    bound(out, indent, "minimum", 0);
    bound(out, indent, "maximum", 100);
}

static void write_field(const struct schema_field *f, unsigned indent, struct buf *out);

/* Of a LabelSelector (k8s.io/apimachinery/pkg/apis/meta/v1). */
static const char *const operators[] = {"In", "NotIn", "Exists", "DoesNotExist", NULL};
static const struct schema_field requirement_fields[] = {
    {"key", SCHEMA_TEXT, .required = "", .flags = SCHEMA_EMPTY, .help = "The label's key."},
    {"operator", SCHEMA_WORD, .required = "", .words = operators,
     .help =
         "In: the label has one of the values; no values match no object. NotIn: it has none of "
         "them, or is absent. Exists and DoesNotExist: it is there, or not, whatever its value."},
    {"values", SCHEMA_TEXTS, .flags = SCHEMA_NULLABLE, .help = "For In and NotIn only."},
};
static const struct schema_object requirement = {.fields = requirement_fields,
                                                 .count = ARRAY_LEN(requirement_fields)};

static void write_text_map(unsigned indent, struct buf *out)
{
    line(out, indent, "type: object");
    line(out, indent, "additionalProperties:");
    line(out, indent + 2, "type: string");
    line(out, indent + 2, "nullable: true"); /* "" is null to older API servers */
}

static void write_selector(const struct schema_field *f, unsigned indent, struct buf *out)
{
    const struct schema_field fields[] = {
        {"matchLabels", SCHEMA_TEXT_MAP,
         .help = "Labels that must be there with exactly this value."},
        {"matchExpressions", SCHEMA_LIST, .max = f->max, .object = &requirement,
         .help = "Further requirements: all of these, and all of matchLabels, must hold."},
    };
    const struct schema_object selector = {.fields = fields, .count = ARRAY_LEN(fields)};
    schema_write_openapi(&selector, indent, out);
    line(out, indent, "x-kubernetes-map-type: atomic");
}

static void write_object(const struct schema_object *o, unsigned indent, struct buf *out);

static void write_type(const struct schema_field *f, unsigned indent, struct buf *out)
{
    switch (f->type) {
    case SCHEMA_TEXT:
    case SCHEMA_WORD:
    case SCHEMA_CONSTANT:
        write_string(f, indent, out);
        break;
    case SCHEMA_BOOL:
        line(out, indent, "type: boolean");
        break;
    case SCHEMA_NUMBER:
    case SCHEMA_NUMBER64:
        write_integer(f, indent, out);
        break;
    case SCHEMA_TIME:
        line(out, indent, "type: string");
        line(out, indent, "format: date-time");
        break;
    case SCHEMA_DURATION:
        line(out, indent, "type: string");
        write_nullable(f, indent, out);
        quoted(out, indent, "pattern: ", DURATION_PATTERN);
        break;
    case SCHEMA_PERCENT:
        write_percent(indent, out);
        break;
    case SCHEMA_BITS:
    case SCHEMA_TEXTS:
    case SCHEMA_LIST:
        write_list(f, indent, out);
        break;
    case SCHEMA_PART:
    case SCHEMA_OBJECT:
        write_object(f->object, indent, out);
        break;
    case SCHEMA_SELECTOR:
        write_selector(f, indent, out);
        break;
    case SCHEMA_TEXT_MAP:
        write_text_map(indent, out);
        break;
    case SCHEMA_TREE:
        line(out, indent, "x-kubernetes-preserve-unknown-fields: true");
        break;
    }
}

static void write_field(const struct schema_field *f, unsigned indent, struct buf *out)
{
    line(out, indent, "%s:", f->name);
    describe(out, indent + 2, f->help);
    write_type(f, indent + 2, out);
}

static void write_required(const struct schema_object *o, unsigned indent, struct buf *out)
{
    const char *before = "required: [";
    bool any = false;
    for (size_t i = 0; i < o->count; i++) {
        if (o->fields[i].required != NULL || (o->fields[i].flags & SCHEMA_WANTED) != 0) {
            (void)buf_printf(out, "%*s%s%s", any ? 0 : (int)indent, "", before, o->fields[i].name);
            before = ", ";
            any = true;
        }
    }
    if (any) {
        (void)buf_append_str(out, "]\n");
    }
}

static void write_object(const struct schema_object *o, unsigned indent, struct buf *out)
{
    line(out, indent, "type: object");
    line(out, indent, "x-kubernetes-preserve-unknown-fields: true");
    write_required(o, indent, out);
    line(out, indent, "properties:");
    for (size_t i = 0; i < o->count; i++) {
        write_field(&o->fields[i], indent + 2, out);
    }
}

void schema_write_openapi(const struct schema_object *o, unsigned indent, struct buf *out)
{
    describe(out, indent, o->help);
    write_object(o, indent, out);
}

/* ---- the reference ---- */

/* What a value must be, in a few words. */
static void write_bounds(const struct schema_field *f, struct buf *out)
{
    static const char *const types[] = {
        [SCHEMA_TEXT] = "text",
        [SCHEMA_BOOL] = "true or false",
        [SCHEMA_NUMBER] = "integer",
        [SCHEMA_NUMBER64] = "integer",
        [SCHEMA_TIME] = "time",
        [SCHEMA_DURATION] = "duration",
        [SCHEMA_PERCENT] = "percent, 0 to 100",
        [SCHEMA_WORD] = "one of",
        [SCHEMA_CONSTANT] = "text",
        [SCHEMA_BITS] = "integers",
        [SCHEMA_TEXTS] = "texts",
        [SCHEMA_PART] = "object",
        [SCHEMA_OBJECT] = "object",
        [SCHEMA_LIST] = "list",
        [SCHEMA_SELECTOR] = "label selector",
        [SCHEMA_TEXT_MAP] = "map of texts",
        [SCHEMA_TREE] = "any",
    };
    char least[SCHEMA_MS_SIZE];
    char most[SCHEMA_MS_SIZE];
    bool number = f->type == SCHEMA_NUMBER || f->type == SCHEMA_NUMBER64 || f->type == SCHEMA_BITS;
    (void)buf_append_str(out, types[f->type]);
    for (size_t i = 0; f->words != NULL && f->words[i] != NULL; i++) {
        const char *before = i > 0 ? "," : number ? " or" : "";
        (void)buf_printf(out, "%s `%s`", before, f->words[i]);
    }
    if (number) {
        (void)buf_printf(out, ", %" PRIu64 " to %" PRIu64, f->min, f->max);
    } else if (f->type == SCHEMA_DURATION) {
        (void)buf_printf(out, ", %s to %s", schema_print_ms(f->min, least),
                         schema_print_ms(f->max, most));
    } else if (f->max != 0 && f->type == SCHEMA_TEXT) {
        (void)buf_printf(out, ", at most %" PRIu64 " bytes", f->max);
    } else if (f->max != 0) {
        (void)buf_printf(out, ", at most %" PRIu64 "%s", f->max,
                         f->type == SCHEMA_SELECTOR ? " requirements" : "");
    }
    (void)buf_append_str(out, f->required == NULL ? "" : "; required");
}

/* Of one cell of the table. */
static void write_help(const char *help, struct buf *out)
{
    for (const char *p = help == NULL ? "" : help; *p != '\0'; p++) {
        if (strchr("|*<_", *p) != NULL) {
            (void)buf_append_char(out, '\\');
        }
        (void)buf_append_char(out, *p);
    }
}

static void field_path(const struct schema_field *f, const char *prefix, char out[SCHEMA_PATH_MAX])
{
    (void)snprintf(out, SCHEMA_PATH_MAX, "%s.%s%s", prefix, f->name,
                   f->type == SCHEMA_LIST ? "[]" : "");
}

/* Where the fields of `wanted` are described: the first path to it. */
static bool find_object(const struct schema_object *o, const char *prefix,
                        const struct schema_object *wanted, char out[SCHEMA_PATH_MAX])
{
    for (size_t i = 0; i < o->count; i++) {
        const struct schema_object *inner = o->fields[i].object;
        char path[SCHEMA_PATH_MAX];
        field_path(&o->fields[i], prefix, path);
        if (inner == wanted) {
            memcpy(out, path, SCHEMA_PATH_MAX);
        }
        if (inner == wanted || (inner != NULL && find_object(inner, path, wanted, out))) {
            return true;
        }
    }
    return false;
}

struct reference {
    const struct schema_object *whole;
    const char *prefix;
    struct buf *out;
};

static void write_rows(const struct reference *r, const struct schema_object *o, const char *prefix)
{
    for (size_t i = 0; i < o->count; i++) {
        const struct schema_field *f = &o->fields[i];
        char path[SCHEMA_PATH_MAX];
        char first[SCHEMA_PATH_MAX] = "";
        field_path(f, prefix, path);
        bool again = f->object != NULL && find_object(r->whole, r->prefix, f->object, first) &&
                     strcmp(first, path) != 0;
        (void)buf_printf(r->out, "| `%s` | ", path);
        write_bounds(f, r->out);
        (void)buf_append_str(r->out, " | ");
        write_help(f->help, r->out);
        if (again) {
            (void)buf_printf(r->out, " Its fields are those of `%s`.", first);
        }
        (void)buf_append_str(r->out, " |\n");
        if (f->object != NULL && !again) {
            write_rows(r, f->object, path);
        }
    }
}

void schema_write_reference(const struct schema_object *o, const char *prefix, struct buf *out)
{
    const struct reference r = {o, prefix, out};
    write_rows(&r, o, prefix);
}
