/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/duration.h"
#include "base/xalloc.h"
#include "policy/policy_reader.h"
#include "json/field.h"

/* ---- findings ---- */

static void add(struct warnings *list, const char *fmt, va_list ap)
{
    char text[ERR_MSG_MAX];
    (void)vsnprintf(text, sizeof text, fmt, ap);
    warnings_add(list, "%s", text);
}

void policy_error(struct policy_reader *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(&r->out->errors, fmt, ap);
    va_end(ap);
}

void policy_warn(struct policy_reader *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(&r->out->warnings, fmt, ap);
    va_end(ap);
}

bool policy_check(struct policy_reader *r, int rc, const struct err *e)
{
    if (xrc(rc) != 0) {
        policy_error(r, "%s", e->msg);
    }
    return rc == 0;
}

/* ---- paths ---- */

static const char *dot(const char *path)
{
    return path[0] == '\0' ? "" : ".";
}

struct policy_path policy_item_path(const char *path, const char *key, size_t i)
{
    struct policy_path p;
    (void)snprintf(p.text, sizeof p.text, "%s%s%s[%zu]", path, dot(path), key, i);
    return p;
}

struct policy_path policy_field_path(const char *path, const char *key)
{
    struct policy_path p;
    (void)snprintf(p.text, sizeof p.text, "%s%s%s", path, dot(path), key);
    return p;
}

/* ---- objects, lists, texts ---- */

bool policy_object(struct policy_reader *r, const cJSON *item, const char *path,
                   const char *const *known)
{
    struct err e = ERR_INIT;
    if (!cJSON_IsObject(item)) {
        policy_error(r, "%s: Invalid value: must be an object", path);
        return false;
    }
    /* An unknown field does not keep the others from being read. */
    (void)policy_check(r, field_known(item, path, known, &e), &e);
    return true;
}

const cJSON *policy_object_field(struct policy_reader *r, const cJSON *parent, const char *path,
                                 const char *key, const char *const *known)
{
    const cJSON *item = field_get(parent, key);
    struct policy_path p = policy_field_path(path, key);
    return item != NULL && policy_object(r, item, p.text, known) ? item : NULL;
}

const cJSON *policy_list(struct policy_reader *r, const cJSON *parent, const char *path,
                         const char *key, size_t max)
{
    struct err e = ERR_INIT;
    const cJSON *list = NULL;
    if (!policy_check(r, field_array(parent, path, key, &list, &e), &e)) {
        return NULL;
    }
    if (list != NULL && (size_t)cJSON_GetArraySize(list) > max) {
        policy_error(r, "%s%s%s: Too many: must have at most %zu entries", path, dot(path), key,
                     max);
        return NULL;
    }
    return list == NULL ? NULL : list->child;
}

void policy_missing(struct policy_reader *r, const cJSON *parent, const char *path, const char *key)
{
    if (field_get(parent, key) == NULL) {
        policy_error(r, "%s%s%s: Required value", path, dot(path), key);
    }
}

const char *policy_required(struct policy_reader *r, const cJSON *parent, const char *path,
                            const char *key)
{
    struct err e = ERR_INIT;
    const char *text = "";
    return policy_check(r, field_required(parent, path, key, &text, &e), &e) ? text : "";
}

const char *policy_text(struct policy_reader *r, const cJSON *parent, const char *path,
                        const char *key)
{
    struct err e = ERR_INIT;
    const char *text = "";
    return policy_check(r, field_string(parent, path, key, &text, &e), &e) ? text : "";
}

bool policy_bool(struct policy_reader *r, const cJSON *parent, const char *path, const char *key)
{
    struct err e = ERR_INIT;
    const cJSON *item = field_get(parent, key);
    if (item != NULL && !cJSON_IsBool(item)) {
        (void)policy_check(r, field_wrong_type(&e, path, key, "true or false"), &e);
    }
    return cJSON_IsTrue(item);
}

/* ---- values ---- */

static void refuse_choice(struct policy_reader *r, const struct policy_path *p, const char *text,
                          const char *const *names, const char *advice)
{
    char list[256] = "";
    for (size_t i = 0; names[i] != NULL; i++) {
        size_t used = strlen(list);
        (void)snprintf(list + used, sizeof list - used, "%s\"%s\"", i == 0 ? "" : ", ", names[i]);
    }
    policy_error(r, "%s: Unsupported value: \"%.100s\": supported values: %s%s%s%s", p->text, text,
                 list, advice == NULL ? "" : "; write \"", advice == NULL ? "" : advice,
                 advice == NULL ? "" : "\"");
}

int policy_enum(struct policy_reader *r, const cJSON *parent, const char *path, const char *key,
                const char *const *names, const char *const *meant)
{
    const char *text = policy_required(r, parent, path, key);
    struct policy_path p = policy_field_path(path, key);
    const char *advice = NULL;
    for (int i = 0; text[0] != '\0' && names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
        bool same = meant != NULL && meant[i] != NULL && strcasecmp(text, meant[i]) == 0;
        if (same || strcasecmp(text, names[i]) == 0) {
            advice = names[i];
        }
    }
    if (text[0] != '\0') {
        refuse_choice(r, &p, text, names, advice);
    }
    return -1;
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

bool policy_number(struct policy_reader *r, const cJSON *parent, const char *path, const char *key,
                   uint64_t min, uint64_t max, uint64_t *out)
{
    const cJSON *item = field_get(parent, key);
    if (item == NULL) {
        return false;
    }
    if (!read_whole(item, min, max, out)) {
        policy_error(r,
                     "%s%s%s: Invalid value: must be a whole number from %" PRIu64 " to %" PRIu64,
                     path, dot(path), key, min, max);
        return false;
    }
    return true;
}

/* Milliseconds as a duration: "10m", "168h", "1ms". */
static const char *print_ms(uint64_t ms, char out[32])
{
    static const struct {
        uint64_t ms;
        const char *name;
    } units[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    size_t i = 0;
    while (ms % units[i].ms != 0) {
        i++;
    }
    (void)snprintf(out, 32, "%" PRIu64 "%s", ms / units[i].ms, units[i].name);
    return out;
}

bool policy_duration(struct policy_reader *r, const cJSON *parent, const char *path,
                     const char *key, uint64_t min_ms, uint64_t max_ms, uint64_t *out_ms)
{
    const char *text = policy_text(r, parent, path, key);
    struct policy_path p = policy_field_path(path, key);
    char least[32];
    char most[32];
    int64_t ns = 0;
    if (!cJSON_IsString(field_get(parent, key))) {
        return false;
    }
    if (!duration_parse(slice_str(text), &ns)) {
        policy_error(r,
                     "%s: Invalid value: \"%.100s\": must be a duration, such as \"10s\", "
                     "\"1.5s\", \"100ms\" or \"1h30m\"",
                     p.text, text);
        return false;
    }
    if (ns < (int64_t)min_ms * DURATION_MS || ns > (int64_t)max_ms * DURATION_MS) {
        policy_error(r, "%s: Invalid value: \"%.100s\": must be from %s to %s", p.text, text,
                     print_ms(min_ms, least), print_ms(max_ms, most));
        return false;
    }
    *out_ms = (uint64_t)((ns + DURATION_MS - 1) / DURATION_MS);
    return true;
}

/* ---- percent ---- */

enum { PPM_PERCENT = TRAFFIC_PPM / 100 };

/* Digits, or digits with a point between them, as parts of a million. What is not zero is at least
 * one of these. False for anything else, and for more than 100. */
static bool read_percent(const char *text, uint32_t *ppm)
{
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits);
    bool point = text[whole] == '.';
    const char *fraction = text + whole + (point ? 1 : 0);
    size_t len = strspn(fraction, digits);
    uint32_t sum = 0;
    bool more = false; /* behind the digits that count */
    if (whole == 0 || (point && len == 0) || fraction[len] != '\0') {
        return false;
    }
    for (size_t i = 0; i < whole && sum <= TRAFFIC_PPM; i++) {
        sum = sum * 10 + (uint32_t)(text[i] - '0') * PPM_PERCENT;
    }
    uint32_t scale = PPM_PERCENT;
    for (size_t i = 0; i < len; i++) {
        scale /= 10;
        sum += (uint32_t)(fraction[i] - '0') * scale;
        more = more || (scale == 0 && fraction[i] != '0');
    }
    *ppm = sum == 0 && more ? 1 : sum;
    return sum < TRAFFIC_PPM || (sum == TRAFFIC_PPM && !more);
}

bool policy_percent(struct policy_reader *r, const cJSON *parent, const char *path, const char *key,
                    uint32_t *out_ppm)
{
    const cJSON *item = field_get(parent, key);
    struct policy_path p = policy_field_path(path, key);
    uint64_t whole = 0;
    *out_ppm = 0;
    if (item == NULL) {
        policy_warn(r, "%s: is not set: no request is affected, write \"100\" for all", p.text);
        return true;
    }
    bool number = cJSON_IsNumber(item) && read_whole(item, 0, 100, &whole);
    if (number) {
        *out_ppm = (uint32_t)whole * PPM_PERCENT;
    } else if (!cJSON_IsString(item) || !read_percent(item->valuestring, out_ppm)) {
        policy_error(r,
                     "%s: Invalid value: must be a whole number from 0 to 100, or a text with a "
                     "number, such as \"0.5\"",
                     p.text);
        return false;
    }
    if (*out_ppm == 0) {
        policy_warn(r, "%s: is 0: no request is affected", p.text);
    }
    return true;
}

/* ---- names ---- */

bool policy_count_name(struct policy_reader *r, const char *path)
{
    if (r->name_count == TRAFFIC_NAMES_MAX) {
        policy_error(r,
                     "%s: Too many: a policy can name at most %d groups, resources, verbs, "
                     "namespaces, contents, methods and headers in all",
                     path, TRAFFIC_NAMES_MAX);
    }
    return r->name_count++ < TRAFFIC_NAMES_MAX;
}

/* ---- names of rules ---- */

static const char *check_rule_name(const char *name)
{
    if (strlen(name) > POLICY_NAME_MAX) {
        return "must be no more than 63 bytes";
    }
    for (const char *p = name; *p != '\0'; p++) {
        if (*p == ':') {
            return "must not contain ':'";
        }
        if ((unsigned char)*p < ' ' || *p == '"' || *p == 127) {
            return "must not contain quotes or control characters";
        }
    }
    return NULL;
}

const char *policy_rule_name(struct policy_reader *r, const char *name, const char *path,
                             cJSON *seen)
{
    const cJSON *item;
    const char *why = check_rule_name(name);
    if (why != NULL) {
        policy_error(r, "%s.name: Invalid value: \"%.100s\": %s", path, name, why);
        return "";
    }
    cJSON_ArrayForEach(item, seen)
    {
        if (name[0] != '\0' && strcmp(item->valuestring, name) == 0) {
            policy_error(r, "%s.name: Duplicate value: \"%s\"", path, name);
            return "";
        }
    }
    if (name[0] != '\0') {
        edit_append_string(&r->edit, seen, name);
    }
    return name;
}
