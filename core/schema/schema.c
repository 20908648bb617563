/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/duration.h"
#include "base/heap_size.h"
#include "base/rfc3339.h"
#include "base/spelling.h"
#include "json/field.h"
#include "json/json.h"

#define SECONDS_MAX UINT64_C(253402300799) /* the last second of the year 9999 */

/* ---- memory ---- */

struct schema_block {
    struct schema_block *next;
    max_align_t content[];
};

void *schema_alloc(struct schema_memory *m, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct schema_block), &bytes)) {
        return NULL;
    }
    struct schema_block *b = calloc(1, bytes);
    if (b == NULL) {
        return NULL;
    }
    b->next = m->blocks;
    m->blocks = b;
    m->weight += heap_size(bytes);
    return b->content;
}

void schema_memory_deinit(struct schema_memory *m)
{
    while (m->blocks != NULL) {
        struct schema_block *b = m->blocks;
        m->blocks = b->next;
        free(b);
    }
    m->weight = 0;
}

/* ---- findings ---- */

static size_t write_path(const struct schema_path *at, char *out, size_t used)
{
    if (at == NULL) {
        return used;
    }
    used = write_path(at->up, out, used);
    int n = 0;
    if (used < SCHEMA_PATH_MAX) {
        n = snprintf(out + used, SCHEMA_PATH_MAX - used, "%s%s",
                     used > 0 && at->key[0] != '\0' ? "." : "", at->key);
        used += (size_t)n;
    }
    if (used < SCHEMA_PATH_MAX && at->index != SIZE_MAX) {
        n = snprintf(out + used, SCHEMA_PATH_MAX - used, "[%zu]", at->index);
        used += (size_t)n;
    }
    return used;
}

const char *schema_path_text(const struct schema_path *at, char out[SCHEMA_PATH_MAX])
{
    out[0] = '\0';
    (void)write_path(at, out, 0);
    return out;
}

bool schema_stopped(const struct schema_reader *r)
{
    bool enough = r->on_finding == NULL ? r->first.code != 0 : r->errors >= SCHEMA_ERRORS_MAX;
    return enough || r->first.code == -ENOMEM;
}

/* The value that a message is about: the member, or the object that lacks it. */
static const cJSON *value_at(const struct schema_path *at, const char *key)
{
    const cJSON *member = key == NULL ? NULL : cJSON_GetObjectItemCaseSensitive(at->item, key);
    return member != NULL ? member : at->item;
}

static void keep(struct schema_reader *r, bool error, int code, const char *text)
{
    if (error && r->first.code == 0) {
        (void)err_set(&r->first, code, "%s", text);
    }
    r->errors += error ? 1 : 0;
    if (r->on_finding != NULL) {
        r->on_finding(r->data, error, text);
    }
}

static void report(struct schema_reader *r, bool error, int code, const struct schema_path *at,
                   const char *key, const char *fmt, va_list ap)
{
    char path[SCHEMA_PATH_MAX];
    char what[ERR_MSG_MAX];
    char text[sizeof "line 4294967295: : " + SCHEMA_PATH_MAX + ERR_MSG_MAX];
    const struct schema_path place =
        key == NULL ? *at : SCHEMA_AT(at, key, value_at(at, key)); /* names the member */
    (void)vsnprintf(what, sizeof what, fmt, ap);
    (void)schema_path_text(&place, path);
    unsigned line = r->text.len == 0 || place.item == NULL
                        ? 0
                        : json_line(r->text.ptr, r->text.len, r->root, place.item);
    if (line > 0) {
        (void)snprintf(text, sizeof text, "line %u: %s%s%s", line, path,
                       path[0] == '\0' ? "" : ": ", what);
    } else {
        (void)snprintf(text, sizeof text, "%s%s%s", path, path[0] == '\0' ? "" : ": ", what);
    }
    keep(r, error, code, text);
}

void schema_error(struct schema_reader *r, const struct schema_path *at, const char *key,
                  const char *fmt, ...)
{
    va_list ap;
    if (!schema_stopped(r)) {
        va_start(ap, fmt);
        report(r, true, -EINVAL, at, key, fmt, ap);
        va_end(ap);
    }
}

void schema_warn(struct schema_reader *r, const struct schema_path *at, const char *key,
                 const char *fmt, ...)
{
    va_list ap;
    if (!schema_stopped(r) && r->on_finding != NULL) {
        va_start(ap, fmt);
        report(r, false, 0, at, key, fmt, ap);
        va_end(ap);
    }
}

void schema_fail(struct schema_reader *r, int code, const struct schema_path *at, const char *key,
                 const char *fmt, ...)
{
    va_list ap;
    if (code == -ENOMEM) {
        (void)err_memory(&r->first);
    } else if (!schema_stopped(r)) {
        va_start(ap, fmt);
        report(r, true, code, at, key, fmt, ap);
        va_end(ap);
    }
}

void schema_pass_on(struct schema_reader *r, const struct schema_path *at, const struct err *e)
{
    static const struct schema_path nowhere = {.key = "", .index = SIZE_MAX};
    struct schema_path place = nowhere;
    place.item = at->item;
    schema_fail(r, e->code, &place, NULL, "%s", e->msg);
}

/* ---- fields ---- */

/* The one that is meant by a misspelt name; NULL: none is like it. Short words have little to
 * differ in. */
static const char *name_meant(const struct schema_object *o, const char *name)
{
    unsigned best = SPELLING_NEAR;
    const char *meant = NULL;
    for (size_t i = 0; i < o->count; i++) {
        unsigned distance = spelling_distance(name, o->fields[i].name);
        if (distance < best && (size_t)distance * 2 < strlen(name)) {
            best = distance;
            meant = o->fields[i].name;
        }
    }
    return meant;
}

static void refuse_unknown(struct schema_reader *r, const struct schema_object *o,
                           const struct schema_path *at)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, at->item)
    {
        size_t i = 0;
        if (schema_stopped(r)) {
            return;
        }
        while (i < o->count && strcmp(o->fields[i].name, item->string) != 0) {
            i++;
        }
        if (i == o->count) {
            char key[128]; /* it may be of any length */
            const char *meant = name_meant(o, item->string);
            (void)snprintf(key, sizeof key, "%.100s", item->string);
            const struct schema_path place = SCHEMA_AT(at, key, item);
            schema_error(r, &place, NULL, "Forbidden: unknown field%s%s%s",
                         meant == NULL ? "" : "; is \"", meant == NULL ? "" : meant,
                         meant == NULL ? "" : "\" meant?");
        }
    }
}

/* What the values of one row are read with. */
struct place {
    struct schema_reader *r;
    const struct schema_field *f;
    const struct schema_path *at; /* of the value, whose `item` is set */
    void *out;                    /* the member */
};

static void wrong_type(const struct place *p, const char *expected)
{
    schema_error(p->r, p->at, NULL, "Invalid value: must be %s", expected);
}

static const char *read_text(const struct place *p)
{
    const struct schema_field *f = p->f;
    const char *text = cJSON_GetStringValue(p->at->item);
    if (text == NULL) {
        wrong_type(p, "a string");
        return "";
    }
    size_t len = strlen(text);
    bool empty_is_absent = len == 0 && f->type == SCHEMA_TEXT && (f->flags & SCHEMA_EMPTY) == 0;
    if (empty_is_absent) {
        return text;
    }
    uint64_t max = f->type == SCHEMA_TEXT ? f->max : f->each;
    if (max != 0 && len > max) {
        schema_error(p->r, p->at, NULL, "Too long: must have at most %" PRIu64 " bytes", max);
        return "";
    }
    const char *why = f->check == NULL ? NULL : f->check(slice_of(text, len));
    if (why != NULL) {
        schema_error(p->r, p->at, NULL, "Invalid value: \"%.100s\": %s", text, why);
        return "";
    }
    return text;
}

static bool read_whole(const cJSON *item, uint64_t min, uint64_t max, uint64_t *out)
{
    double n = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(n >= (double)min && n <= (double)max) || (double)(uint64_t)n < n) {
        return false;
    }
    *out = (uint64_t)n;
    return true;
}

static void read_number(const struct place *p)
{
    uint64_t n = 0;
    const char *word = p->f->words == NULL ? NULL : p->f->words[0];
    const char *text = cJSON_GetStringValue(p->at->item);
    bool is_word = word != NULL && text != NULL && strcmp(text, word) == 0;
    if (!is_word && !read_whole(p->at->item, p->f->min, p->f->max, &n)) {
        schema_error(p->r, p->at, NULL,
                     "Invalid value: must be a whole number from %" PRIu64 " to %" PRIu64 "%s%s%s",
                     p->f->min, p->f->max, word == NULL ? "" : ", or the text \"",
                     word == NULL ? "" : word, word == NULL ? "" : "\"");
    } else if (p->f->type == SCHEMA_NUMBER) {
        *(uint32_t *)p->out = (uint32_t)n;
    } else {
        *(uint64_t *)p->out = n;
    }
}

static void read_time(const struct place *p)
{
    const cJSON *item = p->at->item;
    uint64_t seconds = 0;
    int64_t time = 0;
    bool right = cJSON_IsString(item) ? rfc3339_parse(item->valuestring, &time) && time >= 0
                                      : read_whole(item, 0, SECONDS_MAX, &seconds);
    if (!right) {
        wrong_type(p, "a time since 1970, in seconds or in RFC 3339 format");
        return;
    }
    *(int64_t *)p->out = cJSON_IsString(item) ? time : (int64_t)seconds;
}

const char *schema_print_ms(uint64_t ms, char out[SCHEMA_MS_SIZE])
{
    static const struct {
        uint64_t ms;
        const char *name;
    } units[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    size_t i = 0;
    while (ms % units[i].ms != 0) {
        i++;
    }
    (void)snprintf(out, SCHEMA_MS_SIZE, "%" PRIu64 "%s", ms / units[i].ms, units[i].name);
    return out;
}

static void read_duration(const struct place *p)
{
    const char *text = cJSON_GetStringValue(p->at->item);
    const struct schema_field *f = p->f;
    char least[SCHEMA_MS_SIZE];
    char most[SCHEMA_MS_SIZE];
    int64_t ns = 0;
    if (text == NULL) {
        wrong_type(p, "a string");
    } else if (!duration_parse(slice_str(text), &ns)) {
        schema_error(p->r, p->at, NULL,
                     "Invalid value: \"%.100s\": must be a duration, such as \"10s\", \"1.5s\", "
                     "\"100ms\" or \"1h30m\"",
                     text);
    } else if (ns < (int64_t)f->min * DURATION_MS || ns > (int64_t)f->max * DURATION_MS) {
        schema_error(p->r, p->at, NULL, "Invalid value: \"%.100s\": must be from %s to %s", text,
                     schema_print_ms(f->min, least), schema_print_ms(f->max, most));
    } else {
        *(uint64_t *)p->out = (uint64_t)((ns + DURATION_MS - 1) / DURATION_MS);
    }
}

/* Digits, or digits with a point between them, as parts of a million. What is not zero is at least
 * one of these. False for anything else, and for more than 100. */
static bool parse_percent(const char *text, uint32_t *ppm)
{
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits);
    bool point = text[whole] == '.';
    const char *fraction = text + whole + (point ? 1 : 0);
    size_t len = strspn(fraction, digits);
    uint32_t sum = 0;
    uint32_t scale = SCHEMA_PPM / 100;
    bool more = false; /* behind the digits that count */
    if (whole == 0 || (point && len == 0) || fraction[len] != '\0') {
        return false;
    }
    for (size_t i = 0; i < whole && sum <= SCHEMA_PPM; i++) {
        sum = sum * 10 + (uint32_t)(text[i] - '0') * scale;
    }
    for (size_t i = 0; i < len; i++) {
        scale /= 10;
        sum += (uint32_t)(fraction[i] - '0') * scale;
        more = more || (scale == 0 && fraction[i] != '0');
    }
    *ppm = sum == 0 && more ? 1 : sum;
    return sum < SCHEMA_PPM || (sum == SCHEMA_PPM && !more);
}

static void read_percent(const struct place *p)
{
    const cJSON *item = p->at->item;
    uint64_t whole = 0;
    uint32_t ppm = 0;
    if (cJSON_IsString(item) ? parse_percent(item->valuestring, &ppm)
                             : read_whole(item, 0, 100, &whole)) {
        *(uint32_t *)p->out = ppm + (uint32_t)whole * (SCHEMA_PPM / 100);
        return;
    }
    wrong_type(p, "a whole number from 0 to 100, or a text with a number, such as \"0.5\"");
}

static void refuse_word(const struct place *p, const char *text, const char *advice)
{
    char list[256] = "";
    const char *const *words = p->f->words;
    for (size_t i = 0; words[i] != NULL && (i == 0 || p->f->type == SCHEMA_WORD); i++) {
        size_t used = strlen(list);
        (void)snprintf(list + used, sizeof list - used, "%s\"%s\"", i == 0 ? "" : ", ", words[i]);
    }
    schema_error(p->r, p->at, NULL, "Unsupported value: \"%.100s\": supported values: %s%s%s%s",
                 text, list, advice == NULL ? "" : "; write \"", advice == NULL ? "" : advice,
                 advice == NULL ? "" : "\"");
}

static void read_word(const struct place *p)
{
    const struct schema_field *f = p->f;
    const char *text = cJSON_GetStringValue(p->at->item);
    const char *advice = NULL;
    if (text == NULL) {
        wrong_type(p, "a string");
        return;
    }
    for (unsigned i = 0; f->words[i] != NULL && (i == 0 || f->type == SCHEMA_WORD); i++) {
        bool same = f->meant != NULL && f->meant[i] != NULL && strcasecmp(text, f->meant[i]) == 0;
        if (strcmp(text, f->words[i]) == 0) {
            if (f->type == SCHEMA_WORD) {
                *(unsigned *)p->out = i;
            }
            return;
        }
        if (same || strcasecmp(text, f->words[i]) == 0) {
            advice = f->words[i];
        }
    }
    refuse_word(p, text, advice);
}

/* ---- lists ---- */

/* Whether it is an array of as many entries as there may be. */
static bool check_list(const struct place *p, size_t *count)
{
    const struct schema_field *f = p->f;
    if (!cJSON_IsArray(p->at->item)) {
        wrong_type(p, "an array");
        return false;
    }
    *count = (size_t)cJSON_GetArraySize(p->at->item);
    if (*count < f->min) {
        schema_error(p->r, p->at, NULL, "Required value: must have at least %" PRIu64 " entr%s",
                     f->min, f->min == 1 ? "y" : "ies");
        return false;
    }
    if (f->max != 0 && *count > f->max) {
        schema_fail(p->r, -E2BIG, p->at, NULL, "Too many: must have at most %" PRIu64 " entries",
                    f->max);
        return false;
    }
    return true;
}

static void read_bits(const struct place *p)
{
    const struct schema_field *f = p->f;
    uint32_t bits = 0;
    size_t i = 0;
    const cJSON *item;
    if (!cJSON_IsArray(p->at->item)) {
        wrong_type(p, "an array");
        return;
    }
    cJSON_ArrayForEach(item, p->at->item)
    {
        uint64_t n = 0;
        const struct schema_path at = SCHEMA_ENTRY(p->at->up, f->name, i++, item);
        if (read_whole(item, f->min, f->max, &n)) {
            bits |= UINT32_C(1) << n;
        } else {
            schema_error(p->r, &at, NULL,
                         "Invalid value: must be a whole number from %" PRIu64 " to %" PRIu64,
                         f->min, f->max);
        }
    }
    *(uint32_t *)p->out = bits;
}

struct listed {
    const char *text;
    size_t index;
};

/* Of equal ones the first in the list comes first. */
static int compare_listed(const void *a, const void *b)
{
    const struct listed *x = a;
    const struct listed *y = b;
    int order = strcmp(x->text, y->text);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

/* Texts that are not "" must differ; `key` is of the entries, NULL: they are texts themselves. */
static void check_distinct(const struct place *p, struct listed *all, size_t count, const char *key)
{
    const struct listed *second = NULL;
    qsort(all, count, sizeof *all, compare_listed);
    for (size_t i = 1; i < count && !schema_stopped(p->r); i++) {
        bool same = strcmp(all[i - 1].text, all[i].text) == 0;
        if (same && (key == NULL || all[i].text[0] != '\0')) {
            second = &all[i];
            const cJSON *item = cJSON_GetArrayItem(p->at->item, (int)second->index);
            const struct schema_path at = SCHEMA_ENTRY(p->at->up, p->f->name, second->index, item);
            schema_error(p->r, &at, key, "Duplicate value: \"%.100s\"", second->text);
        }
    }
}

static void read_texts(const struct place *p)
{
    struct schema_texts *out = p->out;
    size_t count = 0;
    size_t listed = 0;
    const cJSON *item;
    if (!check_list(p, &count) || count == 0) {
        return;
    }
    const char **texts = schema_alloc(p->r->memory, count, sizeof *texts);
    bool distinct = (p->f->flags & SCHEMA_DISTINCT) != 0;
    struct listed *all = distinct ? calloc(count, sizeof *all) : NULL;
    if (texts == NULL || (distinct && all == NULL)) {
        schema_fail(p->r, -ENOMEM, p->at, NULL, "%s", "");
        free(all);
        return;
    }
    *out = (struct schema_texts){.items = texts};
    cJSON_ArrayForEach(item, p->at->item)
    {
        const struct schema_path at = SCHEMA_ENTRY(p->at->up, p->f->name, out->count, item);
        const struct place entry = {p->r, p->f, &at, NULL};
        bool null = cJSON_IsNull(item) && (p->f->flags & SCHEMA_NULLABLE) != 0;
        texts[out->count] = null ? "" : read_text(&entry);
        bool good = null || texts[out->count] == cJSON_GetStringValue(item);
        if (all != NULL && good) {
            all[listed++] = (struct listed){texts[out->count], out->count};
        }
        out->count++;
    }
    if (all != NULL && !schema_stopped(p->r)) {
        check_distinct(p, all, listed, NULL);
    }
    free(all);
}

static void read_list(const struct place *p)
{
    const struct schema_object *o = p->f->object;
    struct schema_list *out = p->out;
    size_t count = 0;
    const cJSON *item;
    if (!check_list(p, &count) || count == 0) {
        return;
    }
    char *items = schema_alloc(p->r->memory, count, o->size);
    bool keyed = (p->f->flags & SCHEMA_KEYED) != 0;
    struct listed *all = keyed ? calloc(count, sizeof *all) : NULL;
    if (items == NULL || (keyed && all == NULL)) {
        schema_fail(p->r, -ENOMEM, p->at, NULL, "%s", "");
        free(all);
        return;
    }
    *out = (struct schema_list){.items = items};
    cJSON_ArrayForEach(item, p->at->item)
    {
        char *entry = items + out->count * o->size;
        const struct schema_path at = SCHEMA_ENTRY(p->at->up, p->f->name, out->count, item);
        if (schema_read(p->r, o, &at, entry) == -ENOMEM || schema_stopped(p->r)) {
            break;
        }
        if (all != NULL) {
            all[out->count] =
                (struct listed){*(const char *const *)(entry + o->fields[0].offset), out->count};
        }
        out->count++;
    }
    if (all != NULL && !schema_stopped(p->r)) {
        check_distinct(p, all, out->count, o->fields[0].name);
    }
    free(all);
}

/* ---- objects ---- */

static void read_object(const struct place *p)
{
    void *made = schema_alloc(p->r->memory, 1, p->f->object->size);
    if (made == NULL) {
        schema_fail(p->r, -ENOMEM, p->at, NULL, "%s", "");
        return;
    }
    (void)!schema_read(p->r, p->f->object, p->at, made);
    *(void **)p->out = made;
}

static void read_text_map(const struct place *p)
{
    const cJSON *item;
    bool right = cJSON_IsObject(p->at->item);
    cJSON_ArrayForEach(item, p->at->item)
    {
        right = right && (cJSON_IsString(item) || cJSON_IsNull(item));
    }
    if (!right) {
        wrong_type(p, "an object of strings");
        return;
    }
    *(const cJSON **)p->out = p->at->item;
}

static void read_selector(const struct place *p)
{
    static const char key[] = "matchExpressions";
    const cJSON *expressions = field_get(p->at->item, key);
    if (!cJSON_IsObject(p->at->item)) {
        wrong_type(p, "an object");
    } else if (expressions != NULL && !cJSON_IsArray(expressions)) {
        schema_error(p->r, p->at, key, "Invalid value: must be an array");
    } else {
        *(const cJSON **)p->out = p->at->item;
    }
}

static void read_value(const struct place *p)
{
    switch (p->f->type) {
    case SCHEMA_TEXT:
        *(const char **)p->out = read_text(p);
        break;
    case SCHEMA_BOOL:
        *(bool *)p->out = cJSON_IsTrue(p->at->item);
        if (!cJSON_IsBool(p->at->item)) {
            wrong_type(p, "true or false");
        }
        break;
    case SCHEMA_NUMBER:
    case SCHEMA_NUMBER64:
        read_number(p);
        break;
    case SCHEMA_TIME:
        read_time(p);
        break;
    case SCHEMA_DURATION:
        read_duration(p);
        break;
    case SCHEMA_PERCENT:
        read_percent(p);
        break;
    case SCHEMA_WORD:
    case SCHEMA_CONSTANT:
        read_word(p);
        break;
    case SCHEMA_BITS:
        read_bits(p);
        break;
    case SCHEMA_TEXTS:
        read_texts(p);
        break;
    case SCHEMA_PART:
        (void)!schema_read(p->r, p->f->object, p->at, p->out);
        break;
    case SCHEMA_OBJECT:
        read_object(p);
        break;
    case SCHEMA_LIST:
        read_list(p);
        break;
    case SCHEMA_SELECTOR:
        read_selector(p);
        break;
    case SCHEMA_TEXT_MAP:
        read_text_map(p);
        break;
    case SCHEMA_TREE:
        *(const cJSON **)p->out = p->at->item;
        break;
    }
}

/* The members of what is absent, which other fields may be read without. */
static void set_absent(const struct schema_object *o, void *out);

static void set_one_absent(const struct schema_field *f, void *member)
{
    switch (f->type) {
    case SCHEMA_TEXT:
        *(const char **)member = "";
        break;
    case SCHEMA_NUMBER:
    case SCHEMA_PERCENT:
        *(uint32_t *)member = (uint32_t)f->absent;
        break;
    case SCHEMA_NUMBER64:
    case SCHEMA_DURATION:
    case SCHEMA_TIME:
        *(uint64_t *)member = f->absent;
        break;
    case SCHEMA_WORD:
        *(unsigned *)member = (unsigned)f->absent;
        break;
    case SCHEMA_PART:
        set_absent(f->object, member);
        break;
    default:
        break;
    }
}

static void set_absent(const struct schema_object *o, void *out)
{
    for (size_t i = 0; i < o->count; i++) {
        set_one_absent(&o->fields[i], (char *)out + o->fields[i].offset);
    }
}

static void read_field(struct schema_reader *r, const struct schema_field *f,
                       const struct schema_path *up, void *out)
{
    const cJSON *item = r->null_is_value ? cJSON_GetObjectItemCaseSensitive(up->item, f->name)
                                         : field_get(up->item, f->name);
    bool is_text = f->type == SCHEMA_TEXT || f->type == SCHEMA_WORD || f->type == SCHEMA_CONSTANT ||
                   f->type == SCHEMA_DURATION;
    bool empty = is_text && cJSON_IsString(item) && item->valuestring[0] == '\0' &&
                 (f->flags & SCHEMA_EMPTY) == 0;
    if (f->required != NULL && (item == NULL || empty)) {
        schema_error(r, up, f->name, "Required value%s%s", f->required[0] == '\0' ? "" : ": ",
                     f->required);
    } else if (item != NULL) {
        const struct schema_path at = SCHEMA_AT(up, f->name, item);
        struct schema_reader quiet = {.memory = r->memory};
        bool lenient = (f->flags & SCHEMA_LENIENT) != 0;
        const struct place p = {lenient ? &quiet : r, f, &at, (char *)out + f->offset};
        read_value(&p);
    }
}

int schema_read(struct schema_reader *r, const struct schema_object *o,
                const struct schema_path *at, void *out)
{
    set_absent(o, out);
    if (schema_stopped(r)) {
        return r->first.code;
    }
    if (!cJSON_IsObject(at->item)) {
        schema_error(r, at, NULL, "Invalid value: must be an object");
        return r->first.code;
    }
    if (!o->open) {
        refuse_unknown(r, o, at);
    }
    for (size_t i = 0; i < o->count && !schema_stopped(r); i++) {
        read_field(r, &o->fields[i], at, out);
    }
    if (o->check != NULL && !schema_stopped(r)) {
        o->check(r, at, out);
    }
    return r->first.code;
}

/* ---- writing ---- */

static bool write_number(const struct schema_field *f, uint64_t n, cJSON *out)
{
    char text[24]; /* cJSON prints numbers to 15 digits */
    if (n < UINT64_C(1000000000000000)) {
        return cJSON_AddNumberToObject(out, f->name, (double)n) != NULL;
    }
    (void)snprintf(text, sizeof text, "%" PRIu64, n);
    return cJSON_AddRawToObject(out, f->name, text) != NULL;
}

static bool write_text(const struct schema_field *f, const char *text, cJSON *out)
{
    bool left_out = text == NULL || (text[0] == '\0' && f->required == NULL);
    return left_out || cJSON_AddStringToObject(out, f->name, text) != NULL;
}

static bool write_time(const struct schema_field *f, int64_t time, cJSON *out)
{
    char text[RFC3339_SIZE];
    if ((f->flags & SCHEMA_SECONDS) != 0) {
        return write_number(f, (uint64_t)time, out);
    }
    bool left_out = time == 0 || rfc3339_format(time, text) != 0;
    return left_out || cJSON_AddStringToObject(out, f->name, text) != NULL;
}

static bool write_field(const struct schema_field *f, const void *member, cJSON *out)
{
    switch (f->type) {
    case SCHEMA_TEXT:
        return write_text(f, *(const char *const *)member, out);
    case SCHEMA_BOOL:
        return cJSON_AddBoolToObject(out, f->name, *(const bool *)member) != NULL;
    case SCHEMA_NUMBER:
        return write_number(f, *(const uint32_t *)member, out);
    case SCHEMA_NUMBER64:
        return write_number(f, *(const uint64_t *)member, out);
    case SCHEMA_TIME:
        return write_time(f, *(const int64_t *)member, out);
    case SCHEMA_WORD:
        return write_text(f, f->words[*(const unsigned *)member], out);
    case SCHEMA_CONSTANT:
        return write_text(f, f->words[0], out);
    case SCHEMA_PART:
        return schema_write_json(f->object, member, cJSON_AddObjectToObject(out, f->name));
    default:
        return true;
    }
}

bool schema_write_json(const struct schema_object *o, const void *in, cJSON *out)
{
    bool whole = out != NULL;
    for (size_t i = 0; i < o->count; i++) {
        const void *member = (const char *)in + o->fields[i].offset;
        whole = write_field(&o->fields[i], member, out) && whole;
    }
    return whole;
}
